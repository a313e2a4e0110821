//! What the agent is told: its instructions, its three tools, and how their arguments are read.

use super::mailbox::{RESULTS_MAX, Search};
use crate::Call;
use hone_trace::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) const SEARCH: &str = "search_inbox";
pub(super) const READ: &str = "read_email";
pub(super) const ANSWER: &str = "return_answer";

/// Turns until the episode ends without an answer.
pub(super) const TURNS_MAX: usize = 10;
/// Sources of an answer.
const SOURCES_MAX: usize = 10;

pub(super) fn instructions(owner: &str) -> String {
    format!(
        "You answer questions about the mailbox of {owner}. Today is 2026-01-05. Search the mails with {SEARCH}, read them with \
         {READ}, and give the answer with {ANSWER}: the value alone, and the ids of the mails that say it. A later mail may take \
         back what an earlier one said; what holds in the end counts. If no mail says it, answer \"I don't know\": that is better \
         than a wrong answer. You have {TURNS_MAX} turns."
    )
}

pub(super) fn specs() -> Vec<ToolSpec> {
    let day = |what: &str| json!({"type": "string", "format": "date", "description": what});
    let search = json!({
        "type": "object",
        "properties": {
            "keywords": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Words that must all be in the mail"},
            "sent_after": day("First day, as 2025-03-12"),
            "sent_before": day("Last day, as 2025-03-12"),
            "from": {"type": "string", "description": "Part of the sender's name or address"},
            "to": {"type": "string", "description": "Part of the recipient's name or address"},
            "max_results": {"type": "integer", "minimum": 1, "maximum": RESULTS_MAX},
        },
        "required": ["keywords"],
        "additionalProperties": false,
    });
    let read = json!({
        "type": "object",
        "properties": {"message_id": {"type": "string", "description": "The id that a search gave"}},
        "required": ["message_id"],
        "additionalProperties": false,
    });
    let answer = json!({
        "type": "object",
        "properties": {
            "answer": {"type": "string", "description": "The value alone, or: I don't know"},
            "sources": {"type": "array", "items": {"type": "string"}, "maxItems": SOURCES_MAX, "description": "Ids of the mails that say it"},
        },
        "required": ["answer", "sources"],
        "additionalProperties": false,
    });
    vec![
        spec(SEARCH, "Lists the mails that contain all keywords, newest first", search),
        spec(READ, "Shows a whole mail", read),
        spec(ANSWER, "Gives the final answer and ends the task", answer),
    ]
}

fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: Some(description.into()), parameters, extra: Map::new() }
}

/// A call that can be carried out.
pub(super) enum Asked {
    Search(Search),
    Read { message_id: String },
    Answer { answer: String, sources: Vec<String> },
}

/// Why a call cannot be carried out, in words for the agent.
pub(super) type Refusal = String;

impl Asked {
    pub(super) fn read(call: Call) -> Result<Self, Refusal> {
        fn arguments<'a, T: Deserialize<'a>>(name: &str, arguments: Map<String, Value>) -> Result<T, Refusal> {
            T::deserialize(Value::Object(arguments)).map_err(|error| format!("wrong arguments of {name}: {error}"))
        }
        match call.name.as_str() {
            SEARCH => arguments::<SearchArguments>(SEARCH, call.arguments)?.search().map(Self::Search),
            READ => arguments::<ReadArguments>(READ, call.arguments).map(|read| Self::Read { message_id: read.message_id }),
            ANSWER => {
                let AnswerArguments { answer, sources } = arguments(ANSWER, call.arguments)?;
                if sources.len() > SOURCES_MAX {
                    return Err(format!("wrong arguments of {ANSWER}: at most {SOURCES_MAX} sources, not {}", sources.len()));
                }
                Ok(Self::Answer { answer, sources })
            }
            other => Err(format!("there is no tool {other}")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    keywords: Vec<String>,
    sent_after: Option<String>,
    sent_before: Option<String>,
    from: Option<String>,
    to: Option<String>,
    max_results: Option<u32>,
}

impl SearchArguments {
    fn search(self) -> Result<Search, Refusal> {
        if self.keywords.iter().all(|keyword| keyword.trim().is_empty()) {
            return Err(format!("wrong arguments of {SEARCH}: no keyword"));
        }
        for (name, day) in [("sent_after", &self.sent_after), ("sent_before", &self.sent_before)] {
            if let Some(day) = day.as_ref().filter(|day| !is_day(day)) {
                let day: String = day.chars().take(40).collect();
                return Err(format!("wrong arguments of {SEARCH}: {name} is a day such as 2025-03-12, not {day:?}"));
            }
        }
        let n_max = self.max_results.map_or(RESULTS_MAX, |n| n as usize).clamp(1, RESULTS_MAX);
        let Self { keywords, sent_after, sent_before, from, to, .. } = self;
        Ok(Search { keywords, sent_after, sent_before, from, to, n_max })
    }
}

fn is_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(idx, byte)| if idx == 4 || idx == 7 { *byte == b'-' } else { byte.is_ascii_digit() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    message_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerArguments {
    answer: String,
    #[serde(default)]
    sources: Vec<String>,
}
