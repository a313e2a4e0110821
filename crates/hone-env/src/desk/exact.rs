//! Exact numbers: fractions of integers, read from decimals and written as decimals.
//!
//! No floats: 0.1 + 0.2 is 0.3. A fraction whose decimals never end is written as a fraction. Every operation says `None`
//! when the numbers grow beyond 128 bits.

use std::fmt;

/// The most digits of a number that is read.
const N_DIGITS_MAX: usize = 18;

/// A fraction in lowest terms; the denominator is positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Exact {
    numerator: i128,
    denominator: i128,
}

impl Exact {
    pub(crate) fn new(numerator: i128, denominator: i128) -> Option<Self> {
        let sign = denominator.signum();
        let divisor = gcd(numerator.checked_abs()?, denominator.checked_abs()?);
        (sign != 0).then(|| Self { numerator: sign * (numerator / divisor), denominator: sign * (denominator / divisor) })
    }

    pub(crate) fn whole(n: i64) -> Self {
        Self { numerator: i128::from(n), denominator: 1 }
    }

    /// Reads a decimal such as `-12.50`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = !whole.is_empty()
            && (fraction.is_empty() != digits.contains('.'))
            && whole.len() + fraction.len() <= N_DIGITS_MAX
            && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        if !is_number {
            return None;
        }
        let magnitude = whole.bytes().chain(fraction.bytes()).fold(0, |sum, byte| 10 * sum + i128::from(byte - b'0'));
        let numerator = if text.starts_with('-') { -magnitude } else { magnitude };
        Self::new(numerator, 10_i128.pow(u32::try_from(fraction.len()).ok()?))
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let left = self.numerator.checked_mul(other.denominator)?;
        let right = other.numerator.checked_mul(self.denominator)?;
        Self::new(left.checked_add(right)?, self.denominator.checked_mul(other.denominator)?)
    }

    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.plus(other.negative())
    }

    pub(crate) fn times(self, other: Self) -> Option<Self> {
        Self::new(self.numerator.checked_mul(other.numerator)?, self.denominator.checked_mul(other.denominator)?)
    }

    /// `None` also when the other is zero.
    pub(crate) fn over(self, other: Self) -> Option<Self> {
        Self::new(self.numerator.checked_mul(other.denominator)?, self.denominator.checked_mul(other.numerator)?)
    }

    pub(crate) fn negative(self) -> Self {
        Self { numerator: -self.numerator, ..self }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// How many decimals it takes, or `None` when they never end.
    pub(crate) fn n_decimals(self) -> Option<u32> {
        let (rest, n_twos) = divided(self.denominator, 2);
        let (rest, n_fives) = divided(rest, 5);
        (rest == 1).then_some(n_twos.max(n_fives))
    }

    /// Digits before and after the point, when the decimals end and fit.
    fn decimal(self) -> Option<(i128, i128, usize)> {
        let n_decimals = self.n_decimals()?;
        let scale = 10_i128.checked_pow(n_decimals)?;
        let scaled = self.numerator.checked_mul(scale / self.denominator)?.checked_abs()?;
        Some((scaled / scale, scaled % scale, n_decimals as usize))
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.numerator < 0 { "-" } else { "" };
        match self.decimal() {
            Some((whole, _, 0)) => write!(f, "{sign}{whole}"),
            Some((whole, fraction, n_decimals)) => write!(f, "{sign}{whole}.{fraction:0n_decimals$}"),
            None => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

impl From<Exact> for String {
    fn from(number: Exact) -> Self {
        number.to_string()
    }
}

impl TryFrom<String> for Exact {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::read(&text).ok_or_else(|| format!("`{text}` is not a decimal number"))
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// The number without this factor, and how often it was in there.
fn divided(mut number: i128, factor: i128) -> (i128, u32) {
    let mut n_times = 0;
    while number % factor == 0 {
        number /= factor;
        n_times += 1;
    }
    (number, n_times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(Exact::read(text).map(|number| number.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn decimals_are_read_and_written() {
        check("12.50", Some("12.5"));
        check("-0.05", Some("-0.05"));
        check("007", Some("7"));
        check("-0", Some("0"));
        check("0.125", Some("0.125"));
        check("999999999999999999", Some("999999999999999999"));
        for bad in ["", "-", ".5", "5.", "1.2.3", "1e3", "1,000", " 1", "١", "1234567890123456789", "--1"] {
            check(bad, None);
        }
    }

    #[test]
    fn arithmetic_is_exact_and_stops_before_it_overflows() {
        let number = |text: &str| Exact::read(text).unwrap();
        assert_eq!(number("0.1").plus(number("0.2")), Some(number("0.3")));
        assert_eq!(number("1").over(number("3")).unwrap().to_string(), "1/3");
        assert_eq!(number("-1").over(number("-8")).unwrap().to_string(), "0.125");
        assert_eq!(number("1").over(number("0")), None);
        let large = number("999999999999999999");
        let larger = large.times(large).unwrap();
        assert_eq!(larger.to_string(), "999999999999999998000000000000000001");
        assert_eq!(larger.times(large), None);
    }
}
