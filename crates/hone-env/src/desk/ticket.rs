//! A ticket: what a customer wants, in a form that every dialect can put into words.
//!
//! It is asked in one query, or in two when it is about a policy: the category of the order, and what the policy of that
//! category says. A ticket may lack a fact that only the customer knows.

use super::query::{Query, Wrong};
use super::record::{Order, Records};
use super::vocabulary::{Field, Level, Slot, Topic, Word};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ticket {
    /// Easy ones can be answered from what is said.
    pub(crate) level: Level,
    /// What is asked, or the first of two look-ups.
    pub(crate) query: Query,
    /// What is asked of the policy for the category that the query gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Topic>,
    /// The fact that the request lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<Slot>,
    /// Which of several ways to say it.
    pub(crate) phrasing: usize,
    /// Who asks.
    pub(crate) customer: String,
    #[serde(default)]
    pub(crate) records: Records,
}

impl Ticket {
    /// The second look-up, once the category is known.
    pub(crate) fn second(&self, category: &str) -> Option<Query> {
        self.topic.map(|topic| Query::Policy { category: category.to_owned(), topic })
    }

    /// Which of its look-ups a query that gave this value makes: the first or the second. None where the ticket can be answered from
    /// what is said, or where the query tells something else. Numbers, dates and words may be had in another way than by the ticket's own
    /// query; what stands on file must be looked up.
    pub(crate) fn look_up(&self, query: &Query, value: &str) -> Option<usize> {
        if self.level == Level::Easy {
            return None;
        }
        let (idx, is_it) = match (query, &self.query) {
            (Query::Lookup { order, field }, Query::Lookup { order: wanted, field: asked }) => {
                (0, order == wanted && (field.is_none() || field == asked))
            }
            (Query::Policy { category, topic }, Query::Lookup { .. }) => {
                let is_category = self.order().is_some_and(|order| order.category.eq_ignore_ascii_case(category));
                (1, self.topic == Some(*topic) && is_category)
            }
            (_, Query::Lookup { .. }) => return None,
            (_, computed) => (0, computed.run(&self.records).is_ok_and(|wanted| wanted == value)),
        };
        is_it.then_some(idx)
    }

    /// The right answer.
    pub(crate) fn truth(&self) -> Result<String, Wrong> {
        let first = self.query.run(&self.records)?;
        match self.second(&first) {
            Some(second) => second.run(&self.records),
            None => Ok(first),
        }
    }

    /// What stays the same however it is said. For calculations and words whose order does not matter, so does the key.
    pub(crate) fn key(&self) -> String {
        match (&self.query, self.topic) {
            (Query::Calculate { expression }, _) => {
                let mut parts: Vec<&str> = expression.split(' ').collect();
                if parts.get(1).is_some_and(|sign| matches!(*sign, "+" | "*")) && parts.len() == 3 && parts[0] > parts[2] {
                    parts.swap(0, 2);
                }
                format!("calculate {}", parts.join(" "))
            }
            (Query::Convert { amount, from, to }, _) => format!("convert {amount} {} {}", from.word(), to.word()),
            (Query::DateAdd { date, days }, _) => format!("date {date} {days:+}"),
            (Query::DateBetween { date, until }, _) => format!("days {date} {until}"),
            (Query::Weekday { date }, _) => format!("weekday {date}"),
            (Query::Lookup { order, .. }, Some(topic)) => format!("policy {order} {}", topic.word()),
            (Query::Lookup { order, field }, None) => format!("order {order} {}", field.map_or("", Field::word)),
            (Query::Policy { category, topic }, _) => format!("policy {category} {}", topic.word()),
            (Query::Text { operation, letter, words }, _) => {
                let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
                words.sort_unstable();
                format!("text {} {} {}", operation.word(), letter.unwrap_or(' '), words.join(" "))
            }
        }
    }

    /// The order that it is about, where there is one.
    pub(crate) fn order(&self) -> Option<&Order> {
        match self.query {
            Query::Lookup { order, .. } => self.records.order(order),
            _ => None,
        }
    }

    /// What an easy ticket about an order states: what is asked, and something else, in the order of the fields.
    pub(crate) fn stated_fields(&self) -> (Field, Field) {
        const FIELDS: [Field; 5] = [Field::Item, Field::Status, Field::City, Field::Total, Field::Name];
        let asked = match self.query {
            Query::Lookup { field: Some(field), .. } => field,
            _ => Field::Status,
        };
        let idx = FIELDS.iter().position(|&field| field == asked).unwrap_or(0);
        let other = (idx + 1 + self.phrasing % (FIELDS.len() - 1)) % FIELDS.len();
        (FIELDS[idx.min(other)], FIELDS[idx.max(other)])
    }
}
