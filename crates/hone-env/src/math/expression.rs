//! Arithmetic that a policy wrote: whole numbers, `+ - * /` and parentheses, evaluated exactly.
//!
//! The text is a stranger's: its length and depth are limited, and anything else than arithmetic is refused. There is no
//! sign before a number: countdown has none to give away. Knows nothing of targets.

use super::number::Number;

/// The longest expression, in bytes.
const TEXT_BYTES_MAX: usize = 256;
/// The deepest parentheses.
const DEPTH_MAX: usize = 32;

/// What an expression comes to, and the numbers that it uses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Evaluated {
    /// Its value.
    pub(crate) value: Number,
    /// The numbers in it, in order.
    pub(crate) used: Vec<i64>,
}

/// Evaluates an expression. What stands behind `=` is the writer's own claim and does not count. `None` when it cannot be
/// read or divides by zero.
pub(crate) fn evaluate(text: &str) -> Option<Evaluated> {
    let text = text.split('=').next().unwrap_or("").trim();
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut reader = Reader { rest: text, depth: 0, used: Vec::new() };
    let value = reader.sum()?;
    reader.rest.trim_start().is_empty().then_some(Evaluated { value, used: reader.used })
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
    used: Vec<i64>,
}

impl Reader<'_> {
    fn sum(&mut self) -> Option<Number> {
        let mut value = self.product()?;
        while let Some(sign) = self.one_of(&['+', '-', '\u{2212}']) {
            let next = self.product()?;
            value = if sign == '+' { value.add(next)? } else { value.subtract(next)? };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<Number> {
        let mut value = self.factor()?;
        while let Some(sign) = self.one_of(&['*', '/', '\u{d7}', '\u{f7}']) {
            let next = self.factor()?;
            value = if matches!(sign, '*' | '\u{d7}') { value.multiply(next)? } else { value.divide(next)? };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<Number> {
        if self.one_of(&['(']).is_some() {
            self.depth += 1;
            let value = if self.depth <= DEPTH_MAX { self.sum() } else { None };
            self.depth -= 1;
            self.one_of(&[')'])?;
            return value;
        }
        self.rest = self.rest.trim_start();
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let value: i64 = self.rest[..len].parse().ok()?;
        self.rest = &self.rest[len..];
        self.used.push(value);
        Some(Number::whole(value))
    }

    fn one_of(&mut self, signs: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let sign = rest.chars().next().filter(|sign| signs.contains(sign))?;
        self.rest = &rest[sign.len_utf8()..];
        Some(sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_exact() {
        let check = |text: &str, expected: &str| {
            assert_eq!(evaluate(text).map(|done| done.value.to_string()).as_deref(), Some(expected), "{text}");
        };
        check("1 + 2 * 3", "7");
        check("(1+2)*3 = 9", "9");
        check("10 - 4 - 3", "3");
        check("8 / 3 * 3", "8");
        check("7 \u{d7} 6 \u{f7} 4 \u{2212} 1", "19/2");
        check(&format!("{}5{}", "(".repeat(32), ")".repeat(32)), "5");
        assert_eq!(evaluate("3*(25-3)").unwrap().used, [3, 25, 3]);
    }

    #[test]
    fn everything_else_is_refused() {
        let deep = format!("{}5{}", "(".repeat(33), ")".repeat(33));
        let long = ["1"; 200].join("+");
        let huge = ["999999999999999999"; 12].join("*");
        for text in [
            "",
            "1 +",
            "(1",
            "1)",
            "-5",
            "1..2",
            "2^3",
            "import os",
            "1/0",
            "1/(2-2)",
            "99999999999999999999",
            &deep,
            &long,
            &huge,
        ] {
            assert_eq!(evaluate(text), None, "{text}");
        }
    }
}
