//! Sorted sequences of distinct values: what sets are made of, and which values can be in them.

use std::cmp::Ordering;

use crate::fault::Fault;
use crate::meter::Meter;
use crate::order::{NESTING_MAX, order, too_deep};
use crate::value::Value;

/// Sorts into structural order and drops repeated values.
pub(crate) fn sort_distinct(items: &mut Vec<Value>, meter: &Meter) -> Result<(), Fault> {
    meter.spend(items.len() as u64)?;
    for item in items.iter() {
        check_hashable(item, meter)?;
    }
    if let Some(numbers) = all_ints(items) {
        return sort_ints(items, numbers, meter);
    }
    if ascends(items, meter)? {
        return Ok(());
    }
    crate::sort::sort_by(items, meter, |a, b| order(a, b, meter).map(Ordering::is_lt))?;
    let mut failure = None;
    items.dedup_by(|later, earlier| {
        failure.is_none()
            && order(earlier, later, meter).map_or_else(
                |fault| {
                    failure = Some(fault);
                    false
                },
                Ordering::is_eq,
            )
    });
    failure.map_or(Ok(()), Err)
}

/// Whether each value comes before the next one already.
fn ascends(items: &[Value], meter: &Meter) -> Result<bool, Fault> {
    for two in items.windows(2) {
        if !order(&two[0], &two[1], meter)?.is_lt() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn all_ints(items: &[Value]) -> Option<Vec<i64>> {
    items.iter().map(|item| if let Value::Int(number) = item { Some(*number) } else { None }).collect()
}

fn sort_ints(items: &mut Vec<Value>, mut numbers: Vec<i64>, meter: &Meter) -> Result<(), Fault> {
    meter.spend(numbers.len() as u64)?;
    numbers.sort_unstable();
    numbers.dedup();
    items.truncate(numbers.len());
    for (item, number) in items.iter_mut().zip(numbers) {
        *item = Value::Int(number);
    }
    Ok(())
}

/// Refuses a value that cannot be in a set or be a key.
pub(crate) fn check_hashable(value: &Value, meter: &Meter) -> Result<(), Fault> {
    check_hashable_at(value, meter, 0)
}

/// The same at this depth of nesting. A tuple that is in several places is looked at in each, so that each costs fuel.
fn check_hashable_at(value: &Value, meter: &Meter, depth: usize) -> Result<(), Fault> {
    match value {
        Value::List(_) | Value::Set(_) | Value::Dict(_) => {
            let name = value.type_name();
            let instead = if name == "list" { "; use a tuple" } else { "; use a frozenset or a tuple" };
            Err(Fault::type_error(format!(
                "a {name} cannot be in a set or be a key of a dict (unhashable type: '{name}'){instead}"
            )))
        }
        Value::Iterator(_) | Value::Exception(_) | Value::Module(_) => {
            Err(Fault::type_error(format!("a {} cannot be in a set or be a key of a dict", value.type_name())))
        }
        Value::Tuple(tuple) => {
            if depth > NESTING_MAX {
                return Err(too_deep());
            }
            meter.spend(tuple.items.len() as u64 / 8)?;
            tuple.items.iter().filter(|item| item.is_nest()).try_for_each(|item| {
                meter.spend(1)?;
                check_hashable_at(item, meter, depth + 1)
            })
        }
        _ => Ok(()),
    }
}

/// Where a value stands in a sorted slice, or where it would have to be put.
pub(crate) fn search(items: &[Value], wanted: &Value, meter: &Meter) -> Result<Result<usize, usize>, Fault> {
    let (mut low, mut high) = (0, items.len());
    while low < high {
        let middle = (low + high) / 2;
        match order(&items[middle], wanted, meter)? {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(Ok(middle)),
            Ordering::Greater => high = middle,
        }
    }
    meter.spend(1)?;
    Ok(Err(low))
}
