//! The modules `heapq` and `bisect`.

use std::rc::Rc;

use crate::container::push;
use crate::context::Context;
use crate::fault::Fault;
use crate::invoke::Keywords;
use crate::library::Module;
use crate::method::{arguments_of, need_int};
use crate::order::less;
use crate::value::{Growing, List, Value};

pub(super) fn heapq() -> Module {
    Module::new("heapq")
        .function("heapify", &["heap"], |context, arguments| {
            let list = need_list(&arguments[0])?;
            let len = list.items.borrow().len();
            for place in (0..len / 2).rev() {
                sift_down(context, list, place)?;
            }
            Ok(Value::None)
        })
        .function("heappush", &["heap", "item"], |context, arguments| {
            let list = need_list(&arguments[0])?;
            push(list, arguments[1].clone())?;
            if arguments[1].is_nest() {
                context.watch(&arguments[0]);
            }
            let last = list.items.borrow().len() - 1;
            sift_up(context, list, last)?;
            Ok(Value::None)
        })
        .function("heappop", &["heap"], |context, arguments| heap_pop(context, need_list(&arguments[0])?))
        .function("heapreplace", &["heap", "item"], |context, arguments| {
            let list = need_list(&arguments[0])?;
            heap_swap(context, &arguments[0], list, &arguments[1])
        })
        .function("heappushpop", &["heap", "item"], |context, arguments| {
            let list = need_list(&arguments[0])?;
            let first = list.items.borrow().first().cloned();
            match first {
                Some(first) if less(&first, &arguments[1], context.meter())? => {
                    heap_swap(context, &arguments[0], list, &arguments[1])
                }
                _ => Ok(arguments[1].clone()),
            }
        })
        .variadic("nlargest", |context, arguments, keywords| best(context, arguments, keywords, true))
        .variadic("nsmallest", |context, arguments, keywords| best(context, arguments, keywords, false))
        .variadic("merge", |context, arguments, _| {
            let mut all = Growing::new(context.meter(), 0)?;
            for argument in arguments {
                for item in context.collect(argument)? {
                    all.push(item)?;
                }
            }
            let mut all = all.into_vec();
            context.sort_values(&mut all, &Value::None, false)?;
            let list = context.meter().list(all)?;
            context.iterate(&list)
        })
}

fn need_list(value: &Value) -> Result<&Rc<List>, Fault> {
    match value {
        Value::List(list) => Ok(list),
        other => Err(Fault::type_error(format!("heap argument must be a list, not {}", other.type_name()))),
    }
}

fn is_less(context: &Context, list: &List, a: usize, b: usize) -> Result<bool, Fault> {
    context.spend(1)?;
    let items = list.items.borrow();
    match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => less(a, b, context.meter()),
        _ => Ok(false),
    }
}

fn sift_up(context: &Context, list: &List, place: usize) -> Result<(), Fault> {
    let mut place = place;
    while place > 0 && is_less(context, list, place, (place - 1) / 2)? {
        list.items.borrow_mut().swap(place, (place - 1) / 2);
        place = (place - 1) / 2;
    }
    Ok(())
}

fn sift_down(context: &Context, list: &List, place: usize) -> Result<(), Fault> {
    let mut place = place;
    loop {
        let left = 2 * place + 1;
        let child = if is_less(context, list, left + 1, left)? { left + 1 } else { left };
        if !is_less(context, list, child, place)? {
            return Ok(());
        }
        list.items.borrow_mut().swap(place, child);
        place = child;
    }
}

fn heap_pop(context: &Context, list: &List) -> Result<Value, Fault> {
    let len = list.items.borrow().len();
    if len == 0 {
        return Err(Fault::index_error("pop from an empty heap"));
    }
    let first = list.items.borrow_mut().swap_remove(0);
    sift_down(context, list, 0)?;
    Ok(first)
}

fn heap_swap(context: &mut Context, heap: &Value, list: &List, item: &Value) -> Result<Value, Fault> {
    if list.items.borrow().is_empty() {
        return Err(Fault::index_error("pop from an empty heap"));
    }
    let first = std::mem::replace(&mut list.items.borrow_mut()[0], item.clone());
    if item.is_nest() {
        context.watch(heap);
    }
    sift_down(context, list, 0)?;
    Ok(first)
}

fn best(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>, largest: bool) -> Result<Value, Fault> {
    let [n, iterable, key] = arguments_of("nlargest", arguments, keywords, ["n", "iterable", "key"], 2)?;
    let mut items = context.collect(&iterable)?;
    context.sort_values(&mut items, &key, largest)?;
    items.truncate(usize::try_from(need_int(&n, "n")?).unwrap_or(0));
    context.meter().list(items)
}

pub(super) fn bisect() -> Module {
    const PARAMS: &[&str] = &["a", "x", "lo", "hi"];
    Module::new("bisect")
        .function_with_optional("bisect_left", PARAMS, 2, |context, arguments| search(context, arguments, true).map(to_int))
        .function_with_optional("bisect_right", PARAMS, 2, |context, arguments| search(context, arguments, false).map(to_int))
        .function_with_optional("bisect", PARAMS, 2, |context, arguments| search(context, arguments, false).map(to_int))
        .function("insort", &["a", "x"], insert)
        .function("insort_right", &["a", "x"], insert)
}

fn to_int(place: usize) -> Value {
    Value::Int(place as i64)
}

fn insert(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let place = to_int(search(context, arguments, false)?);
    context.call_method(&arguments[0], crate::method::MethodName::Insert, &[place, arguments[1].clone()], &[])
}

fn search(context: &mut Context, arguments: &[Value], left: bool) -> Result<usize, Fault> {
    let len = match &arguments[0] {
        Value::List(list) => list.items.borrow().len(),
        other => match other.as_tuple() {
            Some(items) => items.len(),
            None => return Err(Fault::type_error(format!("needs a sorted list, not '{}'", other.type_name()))),
        },
    };
    let bound = |place: usize, default: usize| match arguments.get(place) {
        None | Some(Value::None | Value::Unset) => Ok(default),
        Some(value) => need_int(value, "the bound").map(|bound| usize::try_from(bound).unwrap_or(0).min(len)),
    };
    let (mut low, mut high) = (bound(2, 0)?, bound(3, len)?);
    while low < high {
        let middle = (low + high) / 2;
        context.spend(1)?;
        let item = context.subscript(&arguments[0], &to_int(middle))?;
        let goes_right =
            if left { less(&item, &arguments[1], context.meter())? } else { !less(&arguments[1], &item, context.meter())? };
        if goes_right {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}
