//! Exact numbers: fractions of 128-bit integers, so that an answer is right or wrong and never nearly right.
//!
//! Arithmetic that would leave the range gives `None`. Knows nothing of answers or questions.

use std::fmt;

/// A fraction in lowest terms with a positive denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    over: i128,
    under: i128,
}

/// So many digits are read at most; twice as many fit the range, so that no comparison overflows.
const DIGITS_MAX: usize = 18;

impl Number {
    pub(crate) fn whole(value: i64) -> Self {
        Self { over: i128::from(value), under: 1 }
    }

    fn new(over: i128, under: i128) -> Option<Self> {
        if under == 0 {
            return None;
        }
        let divisor = i128::try_from(common_divisor(over.unsigned_abs(), under.unsigned_abs())).ok()?;
        let sign = under.signum();
        Some(Self { over: (over / divisor).checked_mul(sign)?, under: (under / divisor).checked_mul(sign)? })
    }

    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let over = self.over.checked_mul(other.under)?.checked_add(other.over.checked_mul(self.under)?)?;
        Self::new(over, self.under.checked_mul(other.under)?)
    }

    pub(crate) fn subtract(self, other: Self) -> Option<Self> {
        self.add(Self { over: other.over.checked_neg()?, ..other })
    }

    pub(crate) fn multiply(self, other: Self) -> Option<Self> {
        Self::new(self.over.checked_mul(other.over)?, self.under.checked_mul(other.under)?)
    }

    pub(crate) fn divide(self, other: Self) -> Option<Self> {
        Self::new(self.over.checked_mul(other.under)?, self.under.checked_mul(other.over)?)
    }

    pub(crate) fn to_f64(self) -> f64 {
        self.over as f64 / self.under as f64
    }

    /// The number that a text is.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::read(text).filter(|(_, len)| *len == text.len()).map(|(number, _)| number)
    }

    /// Reads a number that the text begins with, and says how many bytes it took: `1,080`, `-3.50`, `3/4`, `1e5`.
    pub(crate) fn read(text: &str) -> Option<(Self, usize)> {
        let (top, mut len) = read_decimal(text)?;
        let mut number = top;
        if let Some(rest) = text[len..].strip_prefix('/')
            && let Some((bottom, bottom_len)) = read_decimal(rest).filter(|_| !rest.starts_with('-'))
        {
            number = top.divide(bottom)?;
            len += 1 + bottom_len;
        }
        Some((number, len))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.under {
            1 => write!(f, "{}", self.over),
            under => write!(f, "{}/{under}", self.over),
        }
    }
}

/// Powers of ten beyond this are not read: no number of so few digits needs them.
const POWER_MAX: u32 = 2 * DIGITS_MAX as u32;

/// The length of the power of ten that the text begins with: `e5`, `E-3`. A word goes on behind anything else.
fn power_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    let n_digits = digits.bytes().take_while(u8::is_ascii_digit).count();
    let goes_on = digits[n_digits..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (n_digits > 0 && !goes_on).then(|| text.len() - digits.len() + n_digits)
}

/// A decimal number: an optional minus, digits with or without a comma before every three, an optional fraction, an optional power
/// of ten.
fn read_decimal(text: &str) -> Option<(Number, usize)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let is_negative = text.starts_with('-');
    let mut len = usize::from(is_negative);
    let first = digits(&text[len..]);
    let mut read = text[len..len + first].to_owned();
    len += first;
    if (1..=3).contains(&first) {
        while text[len..].starts_with(',') && digits(&text[len + 1..]) == 3 {
            read.push_str(&text[len + 1..len + 4]);
            len += 4;
        }
    }
    // How many of the digits stand behind the point; fewer than none are zeros that are not written.
    let mut n_behind = 0;
    if text[len..].starts_with('.') {
        let n_decimals = digits(&text[len + 1..]);
        if n_decimals > 0 {
            let decimals = text[len + 1..len + 1 + n_decimals].trim_end_matches('0');
            read.push_str(decimals);
            n_behind = i32::try_from(decimals.len()).ok()?;
            len += 1 + n_decimals;
        }
    }
    if !read.is_empty()
        && let Some(power_len) = power_len(&text[len..])
    {
        n_behind -= text[len + 1..len + power_len].parse::<i32>().ok().filter(|power| power.unsigned_abs() <= POWER_MAX)?;
        len += power_len;
    }
    read.extend(std::iter::repeat_n('0', usize::try_from(-n_behind).unwrap_or(0)));
    let scale = 10i128.checked_pow(u32::try_from(n_behind).unwrap_or(0))?;
    let significant = read.trim_start_matches('0');
    if read.is_empty() && len == usize::from(is_negative)
        || significant.len() > DIGITS_MAX
        || scale > 10i128.pow(DIGITS_MAX as u32)
    {
        return None;
    }
    let value: i128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    Some((Number::new(if is_negative { -value } else { value }, scale)?, len))
}

fn common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly() {
        let check = |text: &str, expected: Option<(&str, usize)>| {
            let read = Number::read(text).map(|(number, len)| (number.to_string(), len));
            assert_eq!(read, expected.map(|(number, len)| (number.to_owned(), len)), "{text}");
        };
        check("72", Some(("72", 2)));
        check("-7 apples", Some(("-7", 2)));
        check("1,080.", Some(("1080", 5)));
        check("109,200,000", Some(("109200000", 11)));
        check("1,2,3", Some(("1", 1)));
        check("1000,200", Some(("1000", 4)));
        check("0.10", Some(("1/10", 4)));
        check(".5", Some(("1/2", 2)));
        check("12.00", Some(("12", 5)));
        check("3/4", Some(("3/4", 3)));
        check("6/-3", Some(("6", 1)));
        check("5/0", None);
        check("007", Some(("7", 3)));
        check("0", Some(("0", 1)));
        check("999999999999999999", Some(("999999999999999999", 18)));
        ["", "-", ".", "x1", "1234567890123456789", "0.1234567890123456789"].into_iter().for_each(|text| check(text, None));
    }

    #[test]
    fn a_third_times_three_is_one() {
        let third = Number::whole(1).divide(Number::whole(3)).unwrap();
        assert_eq!(third.multiply(Number::whole(3)), Some(Number::whole(1)));
        assert_eq!(third.add(third).unwrap().subtract(third), Some(third));
        assert_eq!(Number::whole(1).divide(Number::whole(0)), None);
        let huge = Number::whole(i64::MAX);
        assert_eq!(huge.multiply(huge).and_then(|square| square.multiply(square)), None);
    }
}
