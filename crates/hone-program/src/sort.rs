//! A stable merge sort whose comparison may fail: runs out of fuel, or meets values that cannot be compared.

use crate::fault::Fault;
use crate::meter::Meter;
use crate::value::SLOT_BYTES;

/// Runs of this length are sorted by insertion first.
const RUN_LEN: usize = 16;

/// Sorts stably. `less` says whether its first argument must come before its second; a failure leaves some order behind.
pub fn sort_by<T: Clone>(
    items: &mut [T],
    meter: &Meter,
    mut less: impl FnMut(&T, &T) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    for run in items.chunks_mut(RUN_LEN) {
        for idx in 1..run.len() {
            let mut place = idx;
            while place > 0 && less(&run[place], &run[place - 1])? {
                run.swap(place, place - 1);
                place -= 1;
            }
            meter.spend((idx - place) as u64 + 1)?;
        }
    }
    if items.len() <= RUN_LEN {
        return Ok(());
    }
    let _scratch = meter.charge(items.len() * SLOT_BYTES * 2)?;
    let mut from = items.to_vec();
    let mut width = RUN_LEN;
    while width < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for pair in from.chunks(width * 2) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(left, right, &mut merged, &mut less)?;
        }
        meter.spend(items.len() as u64)?;
        from = merged;
        width *= 2;
    }
    for (place, item) in items.iter_mut().zip(from) {
        *place = item;
    }
    Ok(())
}

fn merge<T: Clone>(
    left: &[T],
    right: &[T],
    merged: &mut Vec<T>,
    less: &mut impl FnMut(&T, &T) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        if less(&right[j], &left[i])? {
            merged.push(right[j].clone());
            j += 1;
        } else {
            merged.push(left[i].clone());
            i += 1;
        }
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_stably_whatever_the_length() {
        for len in [0, 1, 2, 15, 16, 17, 33, 100, 257] {
            let mut items: Vec<(u32, usize)> = (0..len).map(|idx| ((idx as u32).wrapping_mul(2_654_435_761) % 7, idx)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            sort_by(&mut items, &Meter::free(), |a, b| Ok(a.0 < b.0)).unwrap();
            assert_eq!(items, expected, "length {len}");
        }
    }

    #[test]
    fn a_failing_comparison_ends_the_sort() {
        let mut items: Vec<u32> = (0..100).rev().collect();
        let mut left = 50;
        let failed = sort_by(&mut items, &Meter::free(), |a, b| {
            left -= 1;
            if left == 0 { Err(Fault::value_error("enough")) } else { Ok(a < b) }
        });
        assert!(failed.is_err());
    }
}
