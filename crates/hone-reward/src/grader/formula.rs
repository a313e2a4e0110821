//! The formula of a multi grader: arithmetic over the scores of its parts.
//!
//!   sum = product (("+" | "-") product)*      product = sign (("*" | "/") sign)*
//!   sign = "-" sign | power                   power = atom ("^" sign)?
//!   atom = number | name | function "(" sum ("," sum)* ")" | "(" sum ")"
//!
//! Functions: min, max (one or more), abs, floor, ceil, exp, sqrt, log (one). There is nothing else: no code is run.

use std::collections::BTreeMap;

/// The longest formula in bytes.
const SOURCE_BYTES_MAX: usize = 1024;
/// How deep it may nest.
const DEPTH_MAX: usize = 32;

/// A formula that has been read.
#[derive(Debug, Clone)]
pub struct Formula(Node);

#[derive(Debug, Clone)]
enum Node {
    Number(f64),
    Name(String),
    Negative(Box<Node>),
    Binary(u8, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Debug, Clone, Copy)]
enum Function {
    Min,
    Max,
    One(fn(f64) -> f64),
}

/// Why a text is not a formula.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at} of the formula: {what}")]
pub struct FormulaError {
    at: usize,
    what: String,
}

impl Formula {
    /// Reads a formula.
    pub fn parse(source: &str) -> Result<Self, FormulaError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(FormulaError { at: SOURCE_BYTES_MAX, what: format!("it is longer than {SOURCE_BYTES_MAX} bytes") });
        }
        let mut parser = Parser { source, at: 0, depth: 0 };
        let node = parser.sum()?;
        match parser.peek() {
            None => Ok(Self(node)),
            Some(_) => Err(parser.error("an operator was expected")),
        }
    }

    /// The names that it uses.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.names(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Its value, where every name has one and the result is a finite number.
    pub fn eval(&self, values: &BTreeMap<String, f64>) -> Option<f64> {
        self.0.eval(values).filter(|value| value.is_finite())
    }
}

impl Node {
    fn names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Number(_) => {}
            Self::Name(name) => names.push(name),
            Self::Negative(of) => of.names(names),
            Self::Binary(_, left, right) => [left, right].into_iter().for_each(|side| side.names(names)),
            Self::Call(_, arguments) => arguments.iter().for_each(|argument| argument.names(names)),
        }
    }

    fn eval(&self, values: &BTreeMap<String, f64>) -> Option<f64> {
        Some(match self {
            Self::Number(number) => *number,
            Self::Name(name) => *values.get(name)?,
            Self::Negative(of) => -of.eval(values)?,
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.eval(values)?, right.eval(values)?);
                match operator {
                    b'+' => left + right,
                    b'-' => left - right,
                    b'*' => left * right,
                    b'/' => left / right,
                    _ => left.powf(right),
                }
            }
            Self::Call(function, arguments) => {
                let arguments: Vec<f64> = arguments.iter().map(|argument| argument.eval(values)).collect::<Option<_>>()?;
                match function {
                    Function::Min => arguments.into_iter().reduce(f64::min)?,
                    Function::Max => arguments.into_iter().reduce(f64::max)?,
                    Function::One(function) => function(*arguments.first()?),
                }
            }
        })
    }
}

struct Parser<'a> {
    source: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Node, FormulaError> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(b"+-") {
            left = Node::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, FormulaError> {
        let mut left = self.sign()?;
        while let Some(operator) = self.take(b"*/") {
            left = Node::Binary(operator, Box::new(left), Box::new(self.sign()?));
        }
        Ok(left)
    }

    /// Everything that nests goes through here, so here the depth is counted.
    fn sign(&mut self) -> Result<Node, FormulaError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(&format!("it nests deeper than {DEPTH_MAX} levels")));
        }
        let node = match self.take(b"-") {
            Some(_) => Node::Negative(Box::new(self.sign()?)),
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn power(&mut self) -> Result<Node, FormulaError> {
        let base = self.atom()?;
        match self.take(b"^") {
            Some(operator) => Ok(Node::Binary(operator, Box::new(base), Box::new(self.sign()?))),
            None => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<Node, FormulaError> {
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let node = self.sum()?;
                self.expect(b')')?;
                Ok(node)
            }
            Some(b'0'..=b'9' | b'.') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
                let from = self.at;
                let word = self.word(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if self.peek() == Some(b'(') { self.call(&word, from) } else { Ok(Node::Name(word)) }
            }
            _ => Err(self.error("a number, a name or `(` was expected")),
        }
    }

    fn number(&mut self) -> Result<Node, FormulaError> {
        let from = self.at;
        let mut digits = self.word(|byte| byte.is_ascii_digit() || byte == b'.');
        let rest = &self.source.as_bytes()[self.at..];
        let n_sign = usize::from(matches!(rest.get(1), Some(b'+' | b'-')));
        if matches!(rest.first(), Some(b'e' | b'E')) && rest.get(1 + n_sign).is_some_and(u8::is_ascii_digit) {
            digits.push_str(&self.source[self.at..self.at + 1 + n_sign]);
            self.at += 1 + n_sign;
            digits.push_str(&self.word(|byte| byte.is_ascii_digit()));
        }
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Node::Number(number)),
            _ => Err(FormulaError { at: from, what: format!("`{digits}` is not a number") }),
        }
    }

    fn call(&mut self, word: &str, from: usize) -> Result<Node, FormulaError> {
        let function = match word {
            "min" => Function::Min,
            "max" => Function::Max,
            "abs" => Function::One(f64::abs),
            "floor" => Function::One(f64::floor),
            "ceil" => Function::One(f64::ceil),
            "exp" => Function::One(f64::exp),
            "sqrt" => Function::One(f64::sqrt),
            "log" => Function::One(f64::ln),
            _ => return Err(FormulaError { at: from, what: format!("there is no function `{word}`") }),
        };
        self.expect(b'(')?;
        let mut arguments = vec![self.sum()?];
        while self.take(b",").is_some() {
            arguments.push(self.sum()?);
        }
        self.expect(b')')?;
        if matches!(function, Function::One(_)) && arguments.len() != 1 {
            return Err(FormulaError { at: from, what: format!("`{word}` takes one argument") });
        }
        Ok(Node::Call(function, arguments))
    }

    fn word(&mut self, is_part: impl Fn(u8) -> bool) -> String {
        let rest = &self.source.as_bytes()[self.at..];
        let n = rest.iter().take_while(|&&byte| is_part(byte)).count();
        self.at += n;
        self.source[self.at - n..self.at].to_owned()
    }

    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.source.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn take(&mut self, any_of: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| any_of.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), FormulaError> {
        match self.take(&[byte]) {
            Some(_) => Ok(()),
            None => Err(self.error(&format!("`{}` was expected", char::from(byte)))),
        }
    }

    fn error(&self, what: &str) -> FormulaError {
        FormulaError { at: self.at, what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eval(source: &str) -> Result<Option<f64>, String> {
        let values = BTreeMap::from([("a".to_owned(), 0.5), ("b_2".to_owned(), 2.0)]);
        Formula::parse(source).map(|formula| formula.eval(&values)).map_err(|error| error.to_string())
    }

    #[test]
    fn formulas_have_their_usual_value() {
        for (source, value) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 - 4 - 2", 2.0),
            ("2 ^ 3 ^ 2", 512.0),
            ("-2 ^ 2", -4.0),
            ("2 ^ -1", 0.5),
            ("2 * -3", -6.0),
            ("a * b_2", 1.0),
            ("min(a, b_2, 0.1) + max(1)", 1.1),
            ("sqrt(abs(-9)) + floor(1.7) + ceil(1.2)", 6.0),
            ("log(exp(1))", 1.0),
            ("1e2 + .5 + 1.5E-1", 100.65),
            ("0.5*a+0.5*b_2", 1.25),
        ] {
            let got = eval(source).unwrap().unwrap();
            assert!((got - value).abs() < 1e-12, "{source} gave {got}");
        }
    }

    #[test]
    fn what_has_no_finite_value_has_none() {
        for source in ["1 / 0", "log(0)", "sqrt(-1)", "unknown", "10 ^ 400"] {
            assert_eq!(eval(source), Ok(None), "{source}");
        }
    }

    #[test]
    fn what_is_no_formula_is_refused_at_its_place() {
        for (source, error) in [
            ("", "at byte 0 of the formula: a number, a name or `(` was expected"),
            ("1 +", "at byte 3 of the formula: a number, a name or `(` was expected"),
            ("(1", "at byte 2 of the formula: `)` was expected"),
            ("1 2", "at byte 2 of the formula: an operator was expected"),
            ("eval(1)", "at byte 0 of the formula: there is no function `eval`"),
            ("abs(1, 2)", "at byte 0 of the formula: `abs` takes one argument"),
            ("1.2.3", "at byte 0 of the formula: `1.2.3` is not a number"),
            ("a.b", "at byte 1 of the formula: an operator was expected"),
        ] {
            assert_eq!(eval(source), Err(error.to_owned()), "{source}");
        }
        assert!(eval(&format!("{}1", "-".repeat(40))).unwrap_err().contains("nests deeper than 32"));
        assert!(eval(&format!("{}1{}", "(".repeat(40), ")".repeat(40))).unwrap_err().contains("nests deeper than 32"));
        assert!(eval(&format!("{}1", "2^".repeat(40))).unwrap_err().contains("nests deeper than 32"));
        assert!(eval(&"1+".repeat(600)).unwrap_err().contains("longer than 1024"));
        assert_eq!(eval(&format!("{}1", "1+".repeat(500))), Ok(Some(501.0)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(source in any::<String>(), near in "[-+*/^(), a-z0-9.eE]{0,80}") {
            let _ = eval(&source);
            let _ = eval(&near);
        }
    }
}
