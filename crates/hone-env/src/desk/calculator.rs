//! The calculator: + - * / and brackets over exact numbers.
//!
//! A recursive descent, one function per level of binding. Text and nesting are bounded.

use super::exact::Exact;

const TEXT_LEN_MAX: usize = 200;
const DEPTH_MAX: usize = 32;

/// What an expression comes to.
pub(crate) fn calculate(expression: &str) -> Result<Exact, String> {
    if expression.len() > TEXT_LEN_MAX {
        return Err(format!("it is longer than {TEXT_LEN_MAX} characters"));
    }
    let mut reader = Reader { rest: expression, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(c) => Err(format!("`{c}` was not expected")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn sum(&mut self) -> Result<Exact, String> {
        let mut value = self.product()?;
        loop {
            value = if self.take('+') {
                fits(value.plus(self.product()?))?
            } else if self.take('-') {
                fits(value.minus(self.product()?))?
            } else {
                return Ok(value);
            };
        }
    }

    fn product(&mut self) -> Result<Exact, String> {
        let mut value = self.factor()?;
        loop {
            value = if self.take('*') {
                fits(value.times(self.factor()?))?
            } else if self.take('/') {
                let divisor = self.factor()?;
                if divisor.is_zero() {
                    return Err("division by zero".into());
                }
                fits(value.over(divisor))?
            } else {
                return Ok(value);
            };
        }
    }

    fn factor(&mut self) -> Result<Exact, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let value = if self.take('-') {
            self.factor()?.negative()
        } else if self.take('(') {
            let value = self.sum()?;
            if !self.take(')') {
                return Err("a bracket is not closed".into());
            }
            value
        } else {
            self.number()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<Exact, String> {
        let Some(first) = self.peek() else { return Err("a number is missing at the end".into()) };
        let len = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(len);
        if digits.is_empty() {
            return Err(format!("a number was expected, not `{first}`"));
        }
        self.rest = rest;
        Exact::read(digits).ok_or_else(|| format!("`{digits}` is not a number of at most 18 digits"))
    }
}

fn fits(value: Option<Exact>) -> Result<Exact, String> {
    value.ok_or_else(|| "the numbers are too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: Result<&str, &str>) {
        let found = calculate(expression).map(|value| value.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{expression}");
    }

    #[test]
    fn expressions_are_worked_out_exactly() {
        check("387 * 46", Ok("17802"));
        check("387*46", Ok("17802"));
        check("0.1 + 0.2", Ok("0.3"));
        check("2 + 3 * 4 - 6 / 3", Ok("12"));
        check("(2 + 3) * -4", Ok("-20"));
        check("10 - 4 - 3", Ok("3"));
        check("1 / 8", Ok("0.125"));
        check("1 / 3 * 3", Ok("1"));
        check("2 / 3", Ok("2/3"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        check("", Err("a number is missing at the end"));
        check("3 +", Err("a number is missing at the end"));
        check("3 4", Err("`4` was not expected"));
        check("seven", Err("a number was expected, not `s`"));
        check("3 / (2 - 2)", Err("division by zero"));
        check("(1 + 2", Err("a bracket is not closed"));
        check("1.2.3", Err("`1.2.3` is not a number of at most 18 digits"));
        check("9é", Err("`é` was not expected"));
        check(&"(".repeat(100), Err("it is nested deeper than 32"));
        check(&"1+".repeat(150), Err("it is longer than 200 characters"));
        check(&["999999999999999999"; 4].join(" * "), Err("the numbers are too large"));
    }
}
