//! The short dialect: lines of a few words and digits, so that a model with one token per word and digit can learn them.
//!
//! A question is a line such as `what 387 inch in cm`, an action a line such as `convert 387 inch cm`, a tool result the value
//! after `=`. In hard tickets everything that has to be written stands in the lines before: copying is the whole skill. No line
//! begins with something to copy, because a word at the start of a line is another token than the word after a space.

use super::date::Date;
use super::dialect::{Action, Refused, Request};
use super::query::{Query, Wrong, read_letter, read_order, words, wrong};
use super::ticket::Ticket;
use super::unit::Unit;
use super::vocabulary::{Field, Level, Operation, Slot, Topic, Verb, Word};
use hone_trace::{Content, Message, Role};
use serde_json::json;

/// The longest line that is read.
const LINE_LEN_MAX: usize = 500;

pub(crate) fn opening(ticket: &Ticket) -> Vec<Message> {
    vec![Message::text(Role::User, question(ticket))]
}

fn question(ticket: &Ticket) -> String {
    let missing = ticket.missing;
    match &ticket.query {
        Query::Calculate { expression } => format!("what {expression}"),
        Query::Convert { amount, to, .. } if missing == Some(Slot::Unit) => format!("what {amount} in {}", to.word()),
        Query::Convert { amount, from, to } => format!("what {amount} {} in {}", from.word(), to.word()),
        Query::DateAdd { days, .. } if missing == Some(Slot::Date) => format!("what day {}", signed(*days)),
        Query::DateAdd { date, days } => format!("what day {date} {}", signed(*days)),
        Query::DateBetween { date, until } => format!("what days {date} to {until}"),
        Query::Weekday { date } => format!("what weekday {date}"),
        Query::Lookup { order, field } => {
            let asked = ticket.topic.map_or_else(|| field.map_or("", Field::word), Topic::word);
            match missing {
                Some(_) => format!("what {asked} of order"),
                None => format!("{}what {asked} of {order}", facts(ticket)),
            }
        }
        Query::Policy { category, topic } => format!("what {} of {category}", topic.word()),
        Query::Text { operation, letter: Some(letter), words } => {
            format!("what {} {letter} in {}", operation.word(), words.join(" "))
        }
        Query::Text { operation, letter: None, words } => format!("what {} {}", operation.word(), words.join(" ")),
    }
}

/// What an easy ticket says of its order: the answer, and beside it something else.
fn facts(ticket: &Ticket) -> String {
    let (Level::Easy, Some(order)) = (ticket.level, ticket.order()) else { return String::new() };
    if let Some(topic) = ticket.topic {
        let (number, category) = (order.order, &order.category);
        let value = ticket.records.policy(category).map_or(0, |policy| policy.topic(topic));
        return format!("order {number} is {category} . {category} {} {value} . ", topic.word());
    }
    let (one, two) = ticket.stated_fields();
    let fact = |field: Field| format!("{} {}", field.word(), order.field(field));
    format!("order {} {} {} . ", order.order, fact(one), fact(two))
}

fn signed(days: i64) -> String {
    format!("{} {}", if days < 0 { '-' } else { '+' }, days.unsigned_abs())
}

/// The line that makes this call.
pub(crate) fn line(query: &Query) -> String {
    match query {
        Query::Calculate { expression } => format!("calc {expression}"),
        Query::Convert { amount, from, to } => format!("convert {amount} {} {}", from.word(), to.word()),
        Query::DateAdd { date, days } => format!("date {date} {}", signed(*days)),
        Query::DateBetween { date, until } => format!("date {date} to {until}"),
        Query::Weekday { date } => format!("date {date}"),
        Query::Lookup { order, field } => format!("order {order} {}", field.map_or("", Field::word)),
        Query::Policy { category, topic } => format!("policy {category} {}", topic.word()),
        Query::Text { operation, letter: Some(letter), words } => {
            format!("text {} {letter} {}", operation.word(), words.join(" "))
        }
        Query::Text { operation, letter: None, words } => format!("text {} {}", operation.word(), words.join(" ")),
    }
}

/// What can be said, for who said something else.
pub(crate) fn usage() -> String {
    format!("use {}", Verb::WORDS.join(" "))
}

/// What an agent that talks too much says before it acts.
pub(crate) const TALK: &str = "hello . thank you for your question . i am glad to help you with this today . please wait a moment \
while i look at it . let me see what i can do for you";
/// Where talk ends and the action begins.
const TALK_END: &str = " . ";

/// The same action, with talk before it.
pub(crate) fn talking(action: Message) -> Message {
    let text = action.content.text();
    Message { content: Content::Text(format!("{TALK}{TALK_END}{text}")), ..action }
}

pub(crate) fn read(action: &Message) -> Action {
    let text = action.content.text();
    let line = text.trim();
    // Who talks before it acts is heard out: the last sentence is the action.
    let line = line.rsplit_once(TALK_END).map_or(line, |(_, action)| action.trim_start());
    if text.len() > LINE_LEN_MAX || text.trim().contains('\n') {
        return Action::Unreadable(format!("an action is one line of at most {LINE_LEN_MAX} characters"));
    }
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let verb = match Verb::read(verb) {
        Ok(verb) => verb,
        Err(reason) => return Action::Unreadable(reason),
    };
    let (tool, query) = match verb {
        Verb::Answer if rest.is_empty() => return Action::Unreadable("the answer is empty".into()),
        Verb::Answer => return Action::Answer(rest.to_owned()),
        Verb::Ask => return Slot::read(rest).map_or_else(Action::Unreadable, |slot| Action::Ask(Some(slot))),
        Verb::Calc => ("calculator", Ok(Query::Calculate { expression: rest.to_owned() })),
        Verb::Convert => ("convert", convert(rest)),
        Verb::Date => ("date", date(rest)),
        Verb::Order => ("lookup", order(rest)),
        Verb::Policy => ("policy", policy(rest)),
        Verb::Text => ("text", text_work(rest)),
    };
    let arguments = query.as_ref().map_or_else(|_| json!({ "line": line }), Query::arguments);
    Action::Calls(vec![Request { id: String::new(), tool: tool.to_owned(), arguments, query: query.map_err(Refused::Wrong) }])
}

/// The words of a line, each under the name of the argument that it is.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn of(rest: &'a str) -> Self {
        Self(rest.split_whitespace())
    }

    fn get<T>(&mut self, argument: &'static str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
        let word = self.0.next().ok_or_else(|| wrong(argument, "it is missing"))?;
        read(word).map_err(|reason| wrong(argument, reason))
    }

    fn end(mut self, argument: &'static str) -> Result<(), Wrong> {
        self.0.next().map_or(Ok(()), |word| Err(wrong(argument, format!("`{word}` was not expected after it"))))
    }
}

fn convert(rest: &str) -> Result<Query, Wrong> {
    let mut words = Words::of(rest);
    let amount = words.get("amount", |word| word.to_owned().try_into())?;
    let query = Query::Convert { amount, from: words.get("from", Unit::read)?, to: words.get("to", Unit::read)? };
    words.end("to").map(|()| query)
}

fn date(rest: &str) -> Result<Query, Wrong> {
    let mut words = Words::of(rest);
    let read = |word: &str| Date::try_from(word.to_owned());
    let count = |word: &str| word.parse::<u32>().map(i64::from).map_err(|_| format!("`{word}` is not a number of days"));
    let date = words.get("date", read)?;
    let query = match words.0.next() {
        None => Query::Weekday { date },
        Some("to") => Query::DateBetween { date, until: words.get("until", read)? },
        Some("+") => Query::DateAdd { date, days: words.get("days", count)? },
        Some("-") => Query::DateAdd { date, days: -words.get("days", count)? },
        Some(word) => return Err(wrong("date", format!("after it comes +, - or to, not `{word}`"))),
    };
    words.end("days").map(|()| query)
}

fn order(rest: &str) -> Result<Query, Wrong> {
    let mut words = Words::of(rest);
    let query = Query::Lookup { order: words.get("order", read_order)?, field: Some(words.get("field", Field::read)?) };
    words.end("field").map(|()| query)
}

fn policy(rest: &str) -> Result<Query, Wrong> {
    let mut words = Words::of(rest);
    let category = words.get("category", |word| Ok(word.to_owned()))?;
    let query = Query::Policy { category, topic: words.get("topic", Topic::read)? };
    words.end("topic").map(|()| query)
}

fn text_work(rest: &str) -> Result<Query, Wrong> {
    let (operation, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let operation = Operation::read(operation).map_err(|reason| wrong("operation", reason))?;
    if operation != Operation::Count {
        return Ok(Query::Text { operation, letter: None, words: words(rest)? });
    }
    let (letter, rest) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    let letter = read_letter(letter).map_err(|reason| wrong("letter", reason))?;
    Ok(Query::Text { operation, letter: Some(letter), words: words(rest)? })
}

/// What comes before a value.
const MARK: &str = "= ";

/// What a tool says. A word written backwards is spelled, so that it takes no token of its own.
pub(crate) fn result(query: &Query, text: &str) -> String {
    let mut line = MARK.to_owned();
    match query {
        Query::Text { operation: Operation::Reverse, .. } => text.chars().for_each(|letter| line.extend([letter, ' '])),
        _ => line.push_str(text),
    }
    line.truncate(line.trim_end().len());
    line
}

/// The value in what a tool says.
pub(crate) fn value(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

pub(crate) fn reply(ticket: &Ticket, told: Option<Slot>) -> String {
    match (told, &ticket.query) {
        (Some(Slot::Unit), Query::Convert { from, .. }) => format!("{MARK}{}", from.word()),
        (Some(Slot::Date), Query::DateAdd { date, .. }) => format!("{MARK}{date}"),
        (Some(Slot::Order), Query::Lookup { order, .. }) => format!("{MARK}{order}"),
        _ => "none".to_owned(),
    }
}
