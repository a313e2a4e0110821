//! The tools of the desk: what can be asked of them, and what they say.
//!
//! A query is a tool call that makes sense. Both dialects read their own form into it; its name and arguments stand on the
//! trace in one form.

use super::calculator::calculate;
use super::date::Date;
use super::exact::Exact;
use super::record::Records;
use super::unit::{Unit, convert};
use super::vocabulary::{Field, Operation, Topic};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

const TEXT_LEN_MAX: usize = 400;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Query {
    Calculate { expression: String },
    Convert { amount: Exact, from: Unit, to: Unit },
    DateAdd { date: Date, days: i64 },
    DateBetween { date: Date, until: Date },
    Weekday { date: Date },
    Lookup { order: u32, field: Option<Field> },
    Policy { category: String, topic: Topic },
    Text { operation: Operation, letter: Option<char>, words: Vec<String> },
}

/// What is wrong with an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) argument: &'static str,
    pub(crate) reason: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "argument `{}`: {}", self.argument, self.reason)
    }
}

pub(crate) fn wrong(argument: &'static str, reason: impl Into<String>) -> Wrong {
    Wrong { argument, reason: reason.into() }
}

/// The names of all arguments.
pub(crate) const ARGUMENTS: [&str; 14] = [
    "expression",
    "amount",
    "from",
    "to",
    "date",
    "days",
    "until",
    "order",
    "field",
    "category",
    "topic",
    "operation",
    "letter",
    "text",
];

/// The tools by name.
pub(crate) const TOOLS: [&str; 6] = ["calculator", "convert", "date", "lookup", "policy", "text"];

impl Query {
    /// The tool that it is for.
    pub(crate) fn tool(&self) -> &'static str {
        match self {
            Self::Calculate { .. } => TOOLS[0],
            Self::Convert { .. } => TOOLS[1],
            Self::DateAdd { .. } | Self::DateBetween { .. } | Self::Weekday { .. } => TOOLS[2],
            Self::Lookup { .. } => TOOLS[3],
            Self::Policy { .. } => TOOLS[4],
            Self::Text { .. } => TOOLS[5],
        }
    }

    pub(crate) fn arguments(&self) -> Value {
        match self {
            Self::Calculate { expression } => json!({ "expression": expression }),
            Self::Convert { amount, from, to } => json!({ "amount": amount, "from": from, "to": to }),
            Self::DateAdd { date, days } => json!({ "date": date, "days": days }),
            Self::DateBetween { date, until } => json!({ "date": date, "until": until }),
            Self::Weekday { date } => json!({ "date": date }),
            Self::Lookup { order, field: Some(field) } => json!({ "order": order, "field": field }),
            Self::Lookup { order, field: None } => json!({ "order": order }),
            Self::Policy { category, topic } => json!({ "category": category, "topic": topic }),
            Self::Text { operation, letter: Some(letter), words } => {
                json!({ "operation": operation, "letter": letter, "text": words.join(" ") })
            }
            Self::Text { operation, letter: None, words } => json!({ "operation": operation, "text": words.join(" ") }),
        }
    }

    /// What the tool says. The error says what it cannot do.
    pub(crate) fn run(&self, records: &Records) -> Result<String, Wrong> {
        match self {
            Self::Calculate { expression } => match calculate(expression) {
                Ok(value) => Ok(value.to_string()),
                Err(reason) => Err(wrong("expression", reason)),
            },
            Self::Convert { amount, from, to } => match convert(*amount, *from, *to) {
                Ok(amount) => Ok(amount.to_string()),
                Err(reason) => Err(wrong("to", reason)),
            },
            Self::DateAdd { date, days } => match date.plus(*days) {
                Some(date) => Ok(date.to_string()),
                None => Err(wrong("days", "the calendar ends there")),
            },
            Self::DateBetween { date, until } => Ok(date.days_until(*until).to_string()),
            Self::Weekday { date } => Ok(date.weekday().into()),
            Self::Lookup { order, field } => {
                let known = records.order(*order).ok_or_else(|| wrong("order", format!("there is no order {order}")))?;
                Ok(match field {
                    Some(field) => known.field(*field).to_owned(),
                    None => serde_json::to_string(known).expect("an order has string keys"),
                })
            }
            Self::Policy { category, topic } => match records.policy(category) {
                Some(policy) => Ok(policy.topic(*topic).to_string()),
                None => Err(wrong("category", format!("there is no policy for `{category}`"))),
            },
            Self::Text { operation, letter, words } => text(*operation, *letter, words),
        }
    }
}

fn text(operation: Operation, letter: Option<char>, words: &[String]) -> Result<String, Wrong> {
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return Err(wrong("text", "it has no words")) };
    let letters = || words.iter().flat_map(|word| word.chars());
    Ok(match operation {
        Operation::First => first.clone(),
        Operation::Last => last.clone(),
        Operation::Reverse => words.join(" ").chars().rev().collect(),
        Operation::Letters => letters().filter(|c| c.is_alphabetic()).count().to_string(),
        Operation::Count => {
            let letter = letter.ok_or_else(|| wrong("letter", "it is missing"))?;
            letters().filter(|c| c.eq_ignore_ascii_case(&letter)).count().to_string()
        }
        Operation::Sort => {
            let mut sorted = words.to_vec();
            sorted.sort_by_cached_key(|word| word.to_lowercase());
            sorted.join(" ")
        }
    })
}

/// The words of a text, or what is wrong with it.
pub(crate) fn words(text: &str) -> Result<Vec<String>, Wrong> {
    if text.len() > TEXT_LEN_MAX {
        return Err(wrong("text", format!("it is longer than {TEXT_LEN_MAX} characters")));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { Err(wrong("text", "it has no words")) } else { Ok(words) }
}

/// Reads an order number such as `1043` or `#1043`.
pub(crate) fn read_order(text: &str) -> Result<u32, String> {
    text.trim_start_matches('#').parse().map_err(|_| format!("`{text}` is not an order number"))
}

pub(crate) fn read_letter(text: &str) -> Result<char, String> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(letter), None) => Ok(letter),
        _ => Err(format!("`{text}` is not a single letter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;
    use serde_json::Map;

    fn records() -> Records {
        Records::draw(&mut Draws::new(1, &[]))
    }

    fn check(tool: &str, arguments: &Value, expected: Result<&str, &str>) {
        let found = Query::read(tool, arguments.as_object().unwrap()).unwrap().and_then(|query| query.run(&records()));
        let found = found.map_err(|wrong| wrong.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{tool} {arguments}");
    }

    #[test]
    fn tools_answer() {
        check("calculator", &json!({"expression": "387 * 46"}), Ok("17802"));
        check("convert", &json!({"amount": 387, "from": "inch", "to": "cm"}), Ok("982.98"));
        check("convert", &json!({"amount": "2.5", "from": "km", "to": "metres"}), Ok("2500"));
        check("date", &json!({"date": "2024-03-01", "days": 45}), Ok("2024-04-15"));
        check("date", &json!({"date": "2024-03-01", "days": "-1"}), Ok("2024-02-29"));
        check("date", &json!({"date": "2024-03-01", "until": "2024-04-15"}), Ok("45"));
        check("date", &json!({"date": "2024-03-01", "until": "2024-02-01"}), Ok("-29"));
        check("date", &json!({"date": "2024-03-01"}), Ok("friday"));
        check("text", &json!({"operation": "reverse", "text": "lamp"}), Ok("pmal"));
        check("text", &json!({"operation": "letters", "text": "lamp cat"}), Ok("7"));
        check("text", &json!({"operation": "count", "letter": "a", "text": "Anna lamp"}), Ok("3"));
        check("text", &json!({"operation": "sort", "text": "lamp cat Dog"}), Ok("cat Dog lamp"));
        check("text", &json!({"operation": "first", "text": "lamp cat"}), Ok("lamp"));
        check("text", &json!({"operation": "last", "text": "lamp cat"}), Ok("cat"));
    }

    #[test]
    fn records_are_looked_up() {
        let records = records();
        let order = &records.orders[1];
        check("lookup", &json!({"order": order.order, "field": "city"}), Ok(&order.city));
        check("lookup", &json!({"order": format!("#{}", order.order), "field": "total"}), Ok(&order.total));
        check("lookup", &json!({"order": order.order}), Ok(&serde_json::to_string(order).unwrap()));
        let days = records.policy("books").unwrap().topic(Topic::Return).to_string();
        check("policy", &json!({"category": "Books", "topic": "return"}), Ok(&days));
        check(
            "policy",
            &json!({"category": "boats", "topic": "return"}),
            Err("argument `category`: there is no policy for `boats`"),
        );
        check("lookup", &json!({"order": 7}), Err("argument `order`: there is no order 7"));
    }

    #[test]
    fn a_wrong_argument_is_named() {
        check("calculator", &json!({}), Err("argument `expression`: it is missing"));
        check("calculator", &json!({"expression": [1]}), Err("argument `expression`: it must be a text or a number"));
        check("calculator", &json!({"expression": "1/0"}), Err("argument `expression`: division by zero"));
        check(
            "convert",
            &json!({"amount": "ten", "from": "m", "to": "cm"}),
            Err("argument `amount`: `ten` is not a decimal number"),
        );
        check("convert", &json!({"amount": 1, "from": "m", "to": "g"}), Err("argument `to`: m cannot be converted to g"));
        check("date", &json!({"date": "soon"}), Err("argument `date`: `soon` is not a date such as 2024-02-29"));
        check("date", &json!({"date": "2024-01-01", "days": 1.5}), Err("argument `days`: `1.5` is not a whole number"));
        check(
            "date",
            &json!({"date": "2024-01-01", "days": 1, "until": "2024-01-02"}),
            Err("argument `until`: it cannot stand beside `days`"),
        );
        check("date", &json!({"date": "9999-12-31", "days": 1}), Err("argument `days`: the calendar ends there"));
        check("lookup", &json!({"order": "mine"}), Err("argument `order`: `mine` is not an order number"));
        check(
            "policy",
            &json!({"category": "books", "topic": "x"}),
            Err("argument `topic`: `x` is none of return, warranty, fee"),
        );
        check("text", &json!({"operation": "count", "text": "lamp"}), Err("argument `letter`: it is missing"));
        check(
            "text",
            &json!({"operation": "count", "letter": "ab", "text": "a"}),
            Err("argument `letter`: `ab` is not a single letter"),
        );
        check("text", &json!({"operation": "sort", "text": " "}), Err("argument `text`: it has no words"));
        check(
            "text",
            &json!({"operation": "sort", "text": "a".repeat(401)}),
            Err("argument `text`: it is longer than 400 characters"),
        );
        assert_eq!(Query::read("oracle", &Map::new()), None);
    }
}
