//! Reading a tool call of the natural dialect: JSON arguments into a query, with the name of what is wrong.

use super::date::Date;
use super::query::{Query, Wrong, read_letter, read_order, words, wrong};
use super::unit::Unit;
use super::vocabulary::{Field, Operation, Topic, Word};
use serde_json::{Map, Value};

impl Query {
    /// Reads a call of this tool. `None` when there is no such tool; the error names the argument that is wrong.
    pub(crate) fn read(tool: &str, arguments: &Map<String, Value>) -> Option<Result<Self, Wrong>> {
        let arguments = Arguments(arguments);
        Some(match tool {
            "calculator" => arguments.text("expression").map(|expression| Self::Calculate { expression }),
            "convert" => arguments.convert(),
            "date" => arguments.date(),
            "lookup" => arguments.lookup(),
            "policy" => arguments.policy(),
            "text" => arguments.words(),
            _ => return None,
        })
    }
}

/// The arguments of a call. Numbers may come as text, as models like to send them.
struct Arguments<'a>(&'a Map<String, Value>);

impl Arguments<'_> {
    /// An argument as text; `None` when it is not there.
    fn optional(&self, name: &'static str) -> Result<Option<String>, Wrong> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(wrong(name, "it must be a text or a number")),
        }
    }

    fn text(&self, name: &'static str) -> Result<String, Wrong> {
        self.optional(name)?.ok_or_else(|| wrong(name, "it is missing"))
    }

    /// An argument that is read from its text.
    fn get<T>(&self, name: &'static str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
        read(&self.text(name)?).map_err(|reason| wrong(name, reason))
    }

    fn convert(&self) -> Result<Query, Wrong> {
        let amount = self.get("amount", |text| text.to_owned().try_into())?;
        Ok(Query::Convert { amount, from: self.get("from", Unit::find)?, to: self.get("to", Unit::find)? })
    }

    fn date(&self) -> Result<Query, Wrong> {
        let read = |text: &str| Date::try_from(text.to_owned());
        let date = self.get("date", read)?;
        match (self.optional("days")?, self.optional("until")?) {
            (Some(_), Some(_)) => Err(wrong("until", "it cannot stand beside `days`")),
            (Some(days), None) => match days.parse() {
                Ok(days) => Ok(Query::DateAdd { date, days }),
                Err(_) => Err(wrong("days", format!("`{days}` is not a whole number"))),
            },
            (None, Some(_)) => Ok(Query::DateBetween { date, until: self.get("until", read)? }),
            (None, None) => Ok(Query::Weekday { date }),
        }
    }

    fn lookup(&self) -> Result<Query, Wrong> {
        let order = self.get("order", read_order)?;
        let field = self.optional("field")?.map(|word| Field::read(&word).map_err(|reason| wrong("field", reason)));
        Ok(Query::Lookup { order, field: field.transpose()? })
    }

    fn policy(&self) -> Result<Query, Wrong> {
        Ok(Query::Policy { category: self.text("category")?, topic: self.get("topic", Topic::read)? })
    }

    fn words(&self) -> Result<Query, Wrong> {
        let operation = self.get("operation", Operation::read)?;
        let letter = self.optional("letter")?.map(|text| read_letter(&text).map_err(|reason| wrong("letter", reason)));
        Ok(Query::Text { operation, letter: letter.transpose()?, words: words(&self.text("text")?)? })
    }
}
