//! What people said answers should have been: which traces they said it of, and the traces to learn from that come of it.

use crate::error::Refused;
use crate::{events, feedback};
use hone_trace::format::openai::read_message;
use hone_trace::store::{Event, Store, StoreError};
use hone_trace::{
    Content, Corrected, DEMONSTRATION, Demonstration, EventId, Message, Role, Tenant, Time, ToolSpec, Trace, TraceId,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// The stream that names every trace of which somebody said it.
const STREAM: &str = "demonstrations";
/// Lines that are read at once.
const PAGE_LEN: u32 = 500;

/// The traces with demonstrations of a store, so that nobody asks for those of all others.
#[derive(Debug, Default)]
pub struct Demonstrations(HashSet<TraceId>);

impl Demonstrations {
    /// Those that a store has.
    pub async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let named = |(_, event): (u64, Event)| event.body["trace"].as_str().and_then(|id| id.parse().ok());
        Ok(Self(lines(store, STREAM).await?.into_iter().filter_map(named).collect()))
    }

    /// What was said of a trace, oldest first.
    pub async fn of(&self, store: &dyn Store, trace: &Trace) -> Result<Vec<Demonstration>, StoreError> {
        if !self.0.contains(&trace.id) {
            return Ok(Vec::new());
        }
        let said = lines(store, &feedback::stream(trace.id)).await?.into_iter().map(|(_, event)| event);
        let ours = said.filter(|event| event.tenant == trace.tenant && event.kind == DEMONSTRATION);
        let demonstration = |event: Event| Demonstration {
            id: event.id,
            at: event.at,
            turn_idx: event.body["turn_idx"].as_u64().and_then(|turn_idx| turn_idx.try_into().ok()),
            answer: shown(&event.body),
        };
        Ok(ours.map(demonstration).collect())
    }

    /// A trace with the answers that people gave, where they did.
    pub async fn better(&self, store: &dyn Store, trace: &Trace) -> Result<Option<Trace>, StoreError> {
        let said = self.of(store, trace).await?;
        Ok(Corrected::of(trace, &said).map(|corrected| corrected.better))
    }

    /// A trace as it should be learned from: as people said, or as it went.
    pub async fn corrected(&self, store: &dyn Store, trace: Trace) -> Result<Trace, StoreError> {
        Ok(self.better(store, &trace).await?.unwrap_or(trace))
    }
}

/// Reads what an answer should have been where these tools were on offer: words, or an assistant's message in OpenAI's form.
pub(crate) fn answer(value: &Value, tools: &[ToolSpec]) -> Result<Message, Refused> {
    let wrong = |message: String| Refused::param("value", message);
    let mut answer = match value {
        Value::String(words) => Message::text(Role::Assistant, words.as_str()),
        Value::Object(_) => read_message(&value.to_string())
            .map_err(|error| wrong(format!("`value` of a demonstration cannot be read as a message: {error}")))?,
        _ => return Err(wrong("`value` of a demonstration must be a text, or the message of an assistant".into())),
    };
    if answer.role != Role::Assistant {
        return Err(wrong("`role` of a demonstration must be `assistant`".into()));
    }
    // What clients hand back with an answer and what says nothing.
    answer.extra.retain(|key, value| !key.starts_with("hone.") && !value.is_null() && *value != json!([]));
    let other = answer.extra.keys().map(String::as_str).chain(answer.name.as_ref().map(|_| "name")).next();
    if let Some(other) = other.or(answer.tool_call_id.as_ref().map(|_| "tool_call_id")) {
        let known = "`role`, `content`, `reasoning_content` and `tool_calls`";
        return Err(wrong(format!("`{other}` is nothing that a demonstration shows: it has {known}")));
    }
    if let Content::Parts(parts) = &answer.content {
        if parts.iter().any(|part| part["type"] != "text") {
            return Err(wrong("`content` of a demonstration must be text".into()));
        }
        answer.content = Content::Text(answer.content.text());
    }
    if answer.is_empty() {
        return Err(wrong("`value` of a demonstration says nothing and calls no tool".into()));
    }
    for call in &mut answer.tool_calls {
        call.extra.clear();
        if serde_json::from_str::<Map<String, Value>>(&call.arguments).is_err() {
            return Err(wrong(format!("the arguments of `{}` are not a JSON object", call.name)));
        }
        if !tools.is_empty() && tools.iter().all(|tool| tool.name != call.name) {
            let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            return Err(wrong(format!("`{}` was not on offer there, but {}", call.name, names.join(", "))));
        }
    }
    Ok(answer)
}

/// The tools on offer in a turn.
pub(crate) fn tools_of(trace: &Trace, turn_idx: Option<u32>) -> &[ToolSpec] {
    let mut of_turns = trace.segments.iter().flat_map(|segment| segment.turns.iter().map(|_| &*segment.tools));
    let turn_idx = turn_idx.and_then(|turn_idx| usize::try_from(turn_idx).ok());
    turn_idx.and_then(|turn_idx| of_turns.nth(turn_idx)).unwrap_or_default()
}

/// What the line of a demonstration says besides its words, where it says more.
pub(crate) fn beyond_words(answer: &Message) -> Option<&Message> {
    (!answer.tool_calls.is_empty() || answer.reasoning.is_some()).then_some(answer)
}

/// The answer that the line of a demonstration tells.
pub fn shown(body: &Value) -> Message {
    let whole = body.get("answer").and_then(|answer| Message::deserialize(answer).ok());
    whole.unwrap_or_else(|| Message::text(Role::Assistant, body["words"].as_str().unwrap_or_default()))
}

/// The line that names a trace of which somebody said it. It is written once, whatever is said later.
pub(crate) fn naming(trace: TraceId, tenant: Tenant, at: Time) -> Event {
    let facts = [tenant.as_str(), &trace.to_string(), DEMONSTRATION];
    let body: Value = json!({"trace": trace});
    Event { id: EventId::derived(&facts), at, tenant, stream: STREAM.to_owned(), kind: DEMONSTRATION.to_owned(), body }
}

/// All that can be read of a stream.
async fn lines(store: &dyn Store, stream: &str) -> Result<Vec<(u64, Event)>, StoreError> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let read = events::read(store, stream, &mut after, PAGE_LEN, drop).await?;
        let Some((last, _)) = read.last() else { return Ok(all) };
        after = *last;
        all.extend(read);
    }
}
