//! The natural dialect: questions in sentences, tools by JSON schema, answers in words.
//!
//! A tool is called by a tool call. Text that ends with a question mark asks the customer; any other text is the answer,
//! or what follows the last `answer:` in it.

use super::dialect::{Action, Refused, Request};
use super::fault::Fault;
use super::query::{Query, TOOLS};
use super::request::request;
use super::ticket::Ticket;
use super::unit::Unit;
use super::vocabulary::{Field, GOODS, Operation, Slot, Topic, Word};
use hone_trace::{Message, Role, ToolRequest, ToolSpec};
use serde_json::{Map, Value, json};

/// Calls in one answer; further ones are refused.
const N_CALLS_MAX: usize = 4;

const INSTRUCTIONS: &str = "You work at a service desk. Use a tool wherever you cannot be certain without one. A tool may fail: \
    then call it again. What a policy says depends on the category of the order. When the customer left out a fact that you \
    need, ask for it in one sentence that ends with a question mark. You may speak four times at most, tool calls included. \
    End with `answer:` and the bare result after it: a number in digits without its unit, a date as YYYY-MM-DD, or the words.";

pub(crate) fn opening(ticket: &Ticket) -> Vec<Message> {
    vec![Message::text(Role::System, INSTRUCTIONS), Message::text(Role::User, request(ticket))]
}

pub(crate) fn tools() -> Vec<ToolSpec> {
    let date = json!({"type": "string", "description": "YYYY-MM-DD"});
    let unit = json!({"type": "string", "enum": Unit::WORDS});
    let parameters = [
        json!({"expression": {"type": "string", "description": "Numbers with + - * / and brackets, such as 12.5 * (3 + 4)"}}),
        json!({"amount": {"type": "number"}, "from": unit, "to": unit}),
        json!({"date": date, "days": {"type": "integer", "description": "How many days later; negative for earlier"},
            "until": date}),
        json!({"order": {"type": "integer"}, "field": {"type": "string", "enum": Field::WORDS}}),
        json!({"category": {"type": "string", "enum": GOODS.map(|(category, _)| category)},
            "topic": {"type": "string", "enum": Topic::WORDS}}),
        json!({"operation": {"type": "string", "enum": Operation::WORDS}, "text": {"type": "string"},
            "letter": {"type": "string", "description": "Which letter to count"}}),
    ];
    let described: [(&str, &[&str]); 6] = [
        ("Works out an expression exactly.", &["expression"]),
        ("Converts an amount from one unit to another.", &["amount", "from", "to"]),
        (
            "With `days`: the date so many days later. With `until`: the days between two dates. Otherwise: the weekday.",
            &["date"],
        ),
        ("Looks up an order: one field of it, or all.", &["order"]),
        ("Says for a category of goods: days to return them, months of warranty, handling fee in euros.", &["category", "topic"]),
        (
            "Works on words: the first, the last, all backwards, number of letters, count of one letter, alphabetical order.",
            &["operation", "text"],
        ),
    ];
    let spec = |((name, (description, required)), properties): ((&str, (&str, &[&str])), Value)| ToolSpec {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        parameters: json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
        extra: Map::new(),
    };
    TOOLS.into_iter().zip(described).zip(parameters).map(spec).collect()
}

pub(crate) fn read(action: &Message) -> Action {
    if !action.tool_calls.is_empty() {
        let requests = crate::calls(action).zip(&action.tool_calls).enumerate();
        return Action::Calls(requests.map(|(idx, (call, request))| request_of(idx, call, request)).collect());
    }
    let text = action.content.text();
    let text = text.trim();
    match text.to_ascii_lowercase().rfind("answer:") {
        Some(at) => answer(text[at + "answer:".len()..].trim()),
        None if text.ends_with('?') => Action::Ask(None),
        None => answer(text),
    }
}

fn answer(text: &str) -> Action {
    if text.is_empty() { Action::Unreadable("the answer is empty".into()) } else { Action::Answer(text.to_owned()) }
}

fn request_of(idx: usize, call: Result<crate::Call, hone_trace::ErrorEvent>, request: &ToolRequest) -> Request {
    let (arguments, query) = match call {
        Err(error) => (Value::Null, Err(Refused::Unreadable(error.message))),
        Ok(_) if idx >= N_CALLS_MAX => {
            (Value::Null, Err(Refused::Unreadable(format!("at most {N_CALLS_MAX} calls can be made at once"))))
        }
        Ok(call) => {
            let query = match Query::read(&call.name, &call.arguments) {
                Some(query) => query.map_err(Refused::Wrong),
                None => Err(Refused::Unreadable(format!("there is no tool `{}`; there are {}", call.name, TOOLS.join(", ")))),
            };
            (Value::Object(call.arguments), query)
        }
    };
    Request { id: request.id.clone(), tool: request.name.clone(), arguments, query }
}

pub(crate) fn ask(slot: Slot) -> &'static str {
    match slot {
        Slot::Unit => "Which unit is your number in?",
        Slot::Order => "What is your order number?",
        Slot::Date => "On which date was your purchase?",
    }
}

pub(crate) fn reply(ticket: &Ticket, told: Option<Slot>) -> String {
    match (told, &ticket.query) {
        (Some(Slot::Unit), Query::Convert { from, .. }) => format!("It is in {}.", from.plural()),
        (Some(Slot::Date), Query::DateAdd { date, .. }) => format!("That was on {date}."),
        (Some(Slot::Order), Query::Lookup { order, .. }) => format!("It is order {order}."),
        _ => "I have told you everything that I know.".to_owned(),
    }
}

pub(crate) fn fault(fault: Fault, garbled: &str) -> String {
    let word = fault.word();
    match fault {
        Fault::Timeout => format!("{word}: the tool gave no result within 30 s. Call it again."),
        Fault::RateLimit => format!("{word}: too many requests at the moment. Call it again."),
        Fault::WrongData => format!("{word} data, the checksum does not match: {garbled}. Call it again."),
    }
}
