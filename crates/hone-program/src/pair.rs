//! Pairs of small whole numbers, held in the value itself: a place, a vector, or a number beside such a pair.
//!
//! Programs make them by the million; none takes memory of its own. Packed as 20 bits a number with the sign shifted out, the
//! order of the packed numbers is the order of the tuples, as long as both pairs are of one kind.

use std::any::Any;
use std::cmp::Ordering;

use crate::fault::Fault;
use crate::meter::Meter;
use crate::packed::{Packed, Shape};
use crate::value::{SLOT_BYTES, Value};

/// Bits of one number.
const BITS: u32 = 20;
/// What is added to a number so that none is below zero.
const BIAS: i64 = 1 << (BITS - 1);
const NUMBER: u64 = (1 << BITS) - 1;
const FLAT: u64 = (1 << (2 * BITS)) - 1;
/// Set where the second element is a pair itself.
const IS_NESTED: u64 = 1 << 63;

/// A pair such as `(3, 4)`, or a nested one such as `(5, (3, 4))`, of numbers from -524288 to 524287.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(u64);

impl Pair {
    /// The pair of two numbers, where they are small enough.
    pub fn new(first: i64, second: i64) -> Option<Self> {
        Some(Self((packed(first)? << BITS) | packed(second)?))
    }

    /// The pair of these packed numbers: 20 bits each, the second one lowest.
    #[inline]
    pub fn flat(key: u64) -> Self {
        Self(key & FLAT)
    }

    /// The pair of a number and a pair of these packed numbers: 20 bits each, the innermost last one lowest.
    #[inline]
    pub fn nested(key: u64) -> Self {
        Self(key | IS_NESTED)
    }

    /// The pair of a number and this pair, where that is small enough and not nested already.
    pub(crate) fn behind(self, first: i64) -> Option<Self> {
        let first = packed(first).filter(|_| !self.is_nested())?;
        Some(Self::nested((first << (2 * BITS)) | self.key()))
    }

    /// Whether the second element is a pair.
    #[inline]
    pub fn is_nested(self) -> bool {
        self.0 & IS_NESTED != 0
    }

    /// The packed numbers.
    #[inline]
    pub fn key(self) -> u64 {
        self.0 & !IS_NESTED
    }

    /// Both numbers of a pair that is not nested.
    #[inline]
    pub fn numbers(self) -> Option<(i64, i64)> {
        (!self.is_nested()).then(|| (number(self.0 >> BITS), number(self.0)))
    }

    /// The first element, or the second at any other place.
    #[inline]
    pub fn element(self, idx: usize) -> Value {
        match (self.is_nested(), idx) {
            (false, 0) => Value::Int(number(self.0 >> BITS)),
            (false, _) => Value::Int(number(self.0)),
            (true, 0) => Value::Int(number(self.key() >> (2 * BITS))),
            (true, _) => Value::Pair(Self::flat(self.0)),
        }
    }
}

fn packed(number: i64) -> Option<u64> {
    u64::try_from(number.checked_add(BIAS)?).ok().filter(|&packed| packed <= NUMBER)
}

fn number(packed: u64) -> i64 {
    (packed & NUMBER) as i64 - BIAS
}

impl Packed for Pair {
    fn shape(&self) -> Shape {
        Shape::Tuple
    }

    fn len(&self) -> usize {
        2
    }

    fn item(&self, idx: usize, _: &Meter) -> Result<Value, Fault> {
        Ok(self.element(idx))
    }

    fn bytes(&self) -> usize {
        SLOT_BYTES
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        let other = other.as_any().downcast_ref::<Self>()?;
        (self.is_nested() == other.is_nested()).then(|| self.0.cmp(&other.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_order_and_unpack_as_tuples_do() {
        let sorted = [(-524_288, 524_287), (-2, 5), (-1, -7), (-1, 0), (0, -1), (0, 0), (0, 1), (524_287, -524_288)];
        let pairs = sorted.map(|(first, second)| Pair::new(first, second).unwrap());
        assert!(pairs.is_sorted_by(|a, b| a.order(b) == Some(Ordering::Less)));
        assert_eq!(pairs.map(|pair| pair.numbers().unwrap()), sorted);
        assert_eq!((Pair::new(0, 524_288), Pair::new(i64::MIN, 0), Pair::new(i64::MAX, 0)), (None, None, None));
    }

    #[test]
    fn a_nested_pair_holds_a_number_and_a_pair() {
        let place = Pair::new(-3, 4).unwrap();
        let nested = place.behind(7).unwrap();
        let meter = Meter::free();
        assert_eq!(nested.item(0, &meter).unwrap().as_int(), Some(7));
        assert_eq!(nested.item(1, &meter).unwrap().as_pair(), Some(place));
        assert_eq!((nested.numbers(), nested.order(&place)), (None, None));
        assert_eq!((nested.behind(7), place.behind(524_288)), (None, None));
    }

    #[test]
    fn a_value_stays_as_small_as_it_was() {
        assert_eq!(size_of::<Value>(), 16);
    }
}
