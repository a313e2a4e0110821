//! The module `itertools`: what is finite is computed at once.

use crate::code::BinaryOp;
use crate::context::{Context, check_count};
use crate::fault::Fault;
use crate::invoke::Keywords;
use crate::iterate::State;
use crate::library::Module;
use crate::method::{arguments_of, need_int};
use crate::value::{Growing, Value};

pub(super) fn module() -> Module {
    Module::new("itertools")
        .variadic("chain", chain)
        .variadic("product", product)
        .variadic("zip_longest", zip_longest)
        .variadic("islice", islice)
        .function("combinations", &["iterable", "r"], |context, arguments| select(context, arguments, Choice::Combinations))
        .function("combinations_with_replacement", &["iterable", "r"], |context, arguments| {
            select(context, arguments, Choice::WithReplacement)
        })
        .function_with_optional("permutations", &["iterable", "r"], 1, |context, arguments| {
            select(context, arguments, Choice::Permutations)
        })
        .function_with_optional("accumulate", &["iterable", "func"], 1, accumulate)
        .function_with_optional("groupby", &["iterable", "key"], 1, group_by)
        .function_with_optional("count", &["start", "step"], 0, |context, arguments| {
            let next = arguments.first().map_or(Ok(0), |start| need_int(start, "start"))?;
            let step = arguments.get(1).map_or(Ok(1), |step| need_int(step, "step"))?;
            context.meter().iterator(State::Range { next, step, left: u64::MAX })
        })
        .function("repeat", &["object", "times"], |context, arguments| {
            let mut items = Growing::new(context.meter(), 0)?;
            for _ in 0..need_int(&arguments[1], "times")? {
                context.spend(1)?;
                items.push(arguments[0].clone())?;
            }
            finish(context, items)
        })
        .function("takewhile", &["predicate", "iterable"], |context, arguments| while_true(context, arguments, true))
        .function("dropwhile", &["predicate", "iterable"], |context, arguments| while_true(context, arguments, false))
        .function("starmap", &["function", "iterable"], |context, arguments| {
            let mut items = Growing::new(context.meter(), 0)?;
            for item in context.collect(&arguments[1])? {
                let values = context.collect(&item)?;
                items.push(context.call(&arguments[0], &values)?)?;
            }
            finish(context, items)
        })
        .function("pairwise", &["iterable"], |context, arguments| {
            let values = context.collect(&arguments[0])?;
            let mut items = Growing::new(context.meter(), 0)?;
            for pair in values.windows(2) {
                items.push(context.meter().tuple(pair.to_vec())?)?;
            }
            finish(context, items)
        })
}

fn finish(context: &mut Context, items: Growing) -> Result<Value, Fault> {
    let list = items.into_list()?;
    context.iterate(&list)
}

fn chain(context: &mut Context, arguments: &[Value], _: Keywords<'_>) -> Result<Value, Fault> {
    let mut items = Growing::new(context.meter(), 0)?;
    for argument in arguments {
        let iterator = context.iterate(argument)?;
        while let Some(item) = context.next(&iterator)? {
            items.push(item)?;
        }
    }
    finish(context, items)
}

fn product(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
    let [times] = arguments_of("product", &[], keywords, ["repeat"], 0)?;
    let times = if matches!(times, Value::Unset) { 1 } else { need_int(&times, "repeat")? };
    let once = arguments.iter().map(|argument| context.collect(argument)).collect::<Result<Vec<_>, _>>()?;
    let mut pools = Vec::new();
    for _ in 0..times {
        context.spend(1 + once.len() as u64)?;
        context.meter().room(pools.len() * 24)?;
        pools.extend(once.iter());
    }
    let mut items = Growing::new(context.meter(), 0)?;
    if pools.iter().all(|pool| !pool.is_empty()) {
        let mut places = vec![0; pools.len()];
        loop {
            context.spend(1 + pools.len() as u64)?;
            items.push(context.meter().tuple(pools.iter().zip(&places).map(|(pool, place)| pool[*place].clone()).collect())?)?;
            let Some(turn) = (0..pools.len()).rev().find(|&idx| places[idx] + 1 < pools[idx].len()) else { break };
            places[turn] += 1;
            places[turn + 1..].fill(0);
        }
    }
    finish(context, items)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Combinations,
    WithReplacement,
    Permutations,
}

/// All choices of `r` elements, in the order of their positions.
fn select(context: &mut Context, arguments: &[Value], choice: Choice) -> Result<Value, Fault> {
    let pool = context.collect(&arguments[0])?;
    let r = match arguments.get(1) {
        None | Some(Value::None) => pool.len(),
        Some(r) => usize::try_from(need_int(r, "r")?).map_err(|_| Fault::value_error("r must be non-negative"))?,
    };
    let mut items = Growing::new(context.meter(), 0)?;
    if r > pool.len() && choice != Choice::WithReplacement || pool.is_empty() && r > 0 {
        return finish(context, items);
    }
    context.meter().room(r.saturating_mul(8))?;
    let mut places: Vec<usize> = if choice == Choice::WithReplacement { vec![0; r] } else { (0..r).collect() };
    loop {
        context.spend(1 + 2 * r as u64)?;
        items.push(context.meter().tuple(places.iter().map(|&place| pool[place].clone()).collect())?)?;
        if !step(&mut places, pool.len(), choice) {
            return finish(context, items);
        }
    }
}

/// Moves to the next choice of positions; says whether there is one.
fn step(places: &mut [usize], n: usize, choice: Choice) -> bool {
    let r = places.len();
    for idx in (0..r).rev() {
        let next = match choice {
            Choice::Combinations => (places[idx] < n - r + idx).then_some(places[idx] + 1),
            Choice::WithReplacement => (places[idx] + 1 < n).then_some(places[idx] + 1),
            Choice::Permutations => (places[idx] + 1..n).find(|place| !places[..idx].contains(place)),
        };
        let Some(next) = next else { continue };
        places[idx] = next;
        for later in idx + 1..r {
            places[later] = match choice {
                Choice::Combinations => places[later - 1] + 1,
                Choice::WithReplacement => next,
                Choice::Permutations => (0..n).find(|place| !places[..later].contains(place)).unwrap_or(0),
            };
        }
        return true;
    }
    false
}

fn accumulate(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let mut items = Growing::new(context.meter(), 0)?;
    let mut total = Value::Unset;
    for item in context.collect(&arguments[0])? {
        total = match (&total, arguments.get(1)) {
            (Value::Unset, _) => item,
            (_, None | Some(Value::None)) => context.binary(BinaryOp::Add, &total, &item)?,
            (_, Some(function)) => context.call(function, &[total.clone(), item])?,
        };
        items.push(total.clone())?;
    }
    finish(context, items)
}

fn group_by(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let mut groups = Growing::new(context.meter(), 0)?;
    let mut current: Option<(Value, Growing)> = None;
    for item in context.collect(&arguments[0])? {
        let key = match arguments.get(1) {
            None | Some(Value::None) => item.clone(),
            Some(function) => context.call(function, std::slice::from_ref(&item))?,
        };
        match &mut current {
            Some((group, members)) if context.equal(group, &key)? => members.push(item)?,
            _ => {
                let mut members = Growing::new(context.meter(), 0)?;
                members.push(item)?;
                if let Some((key, members)) = current.replace((key, members)) {
                    push_group(context, &mut groups, key, members)?;
                }
            }
        }
    }
    if let Some((key, members)) = current {
        push_group(context, &mut groups, key, members)?;
    }
    finish(context, groups)
}

fn push_group(context: &mut Context, groups: &mut Growing, key: Value, members: Growing) -> Result<(), Fault> {
    let members = finish(context, members)?;
    groups.push(context.meter().tuple(vec![key, members])?)
}

fn zip_longest(context: &mut Context, arguments: &[Value], keywords: Keywords<'_>) -> Result<Value, Fault> {
    let [fill] = arguments_of("zip_longest", &[], keywords, ["fillvalue"], 0)?;
    let fill = if matches!(fill, Value::Unset) { Value::None } else { fill };
    let columns = arguments.iter().map(|argument| context.collect(argument)).collect::<Result<Vec<_>, _>>()?;
    let mut items = Growing::new(context.meter(), 0)?;
    for idx in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
        context.spend(1 + columns.len() as u64)?;
        let row = columns.iter().map(|column| column.get(idx).unwrap_or(&fill).clone()).collect();
        items.push(context.meter().tuple(row)?)?;
    }
    finish(context, items)
}

fn islice(context: &mut Context, arguments: &[Value], _: Keywords<'_>) -> Result<Value, Fault> {
    check_count("islice", arguments.len(), 2, 4)?;
    let bound = |place: usize, default: i64| match arguments.get(place) {
        None | Some(Value::None) => Ok(default),
        Some(value) => need_int(value, "the bound"),
    };
    let (start, stop, step) =
        if arguments.len() == 2 { (0, bound(1, i64::MAX)?, 1) } else { (bound(1, 0)?, bound(2, i64::MAX)?, bound(3, 1)?) };
    if start < 0 || stop < 0 || step < 1 {
        return Err(Fault::value_error("islice() needs bounds that are not negative and a positive step"));
    }
    let iterator = context.iterate(&arguments[0])?;
    let mut items = Growing::new(context.meter(), 0)?;
    let mut place = 0;
    while place < stop {
        let Some(item) = context.next(&iterator)? else { break };
        if place >= start && (place - start) % step == 0 {
            items.push(item)?;
        }
        place += 1;
    }
    finish(context, items)
}

fn while_true(context: &mut Context, arguments: &[Value], take: bool) -> Result<Value, Fault> {
    let iterator = context.iterate(&arguments[1])?;
    let mut items = Growing::new(context.meter(), 0)?;
    let mut holds = true;
    while let Some(item) = context.next(&iterator)? {
        if holds {
            let verdict = context.call(&arguments[0], std::slice::from_ref(&item))?;
            holds = context.truth(&verdict);
        }
        if take && !holds {
            break;
        }
        if take == holds {
            items.push(item)?;
        }
    }
    finish(context, items)
}
