//! OpenAI chat JSONL, as for fine-tuning and as logged requests: `{"messages": […], "tools": […], …}` per line.
//!
//! | wire | word |
//! |---|---|
//! | `messages` | one segment; each assistant message is the answer of a turn, the messages before it its input |
//! | `tools`, legacy `functions` | the tools of the segment |
//! | `model`, `temperature`, `top_p`, `tool_choice` … | the config, and `metadata` |
//! | `system`, `response` | the first message and the last answer, see `logged.rs` |
//! | any other top-level key (`parallel_tool_calls`, `user` …) | `metadata` |
//! | the entries of `metadata` | `metadata` as well, where no other key has their name; `hone.metadata` notes which |
//! | `reward`, where it is a number at the top | a reward given by `openai` ([`crate::GiverKind::Import`]), and `metadata`; written is what the trace earned last |
//! | `category` or `task_type`, at the top or inside `metadata` | the category, and `metadata` |
//!
//! Messages and tools are described in `chat.rs`. A line may also be a logged request of Anthropic's API, or one with its response:
//! see `logged.rs` and `blocks.rs`; or a prompt with the answers that may follow it: see `choices.rs`; or of a set in other words: see
//! `sets.rs`. It is written in OpenAI's form, and metadata that would be read as part of a log are written inside `metadata`. Written is
//! the last segment, because it ends with the
//! final answer. Not kept on import: the order of keys, and all but the last of repeated keys.

mod choices;
mod logged;
mod sets;

use super::blocks;
use super::chat::tool::{self, Tool};
use super::chat::{self, Chat, Out};
use super::object::{self, List, Object, Read};
use super::origin::{self, Registrar};
use super::{Format, FormatError, Imported};
use crate::{Config, Message, Role, Segment, ToolSpec, Trace, V1};
use serde::de::MapAccess;
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

pub use choices::write_pair;

/// Whether a key says that a line is of this format, besides `messages`.
pub(super) fn is_key(key: &str) -> bool {
    choices::is_answer(key) || sets::is_key(key)
}

/// The settings of a request that shape the agent, besides model, temperature and tools.
const SETTINGS: [&str; 19] = [
    "chat_template_kwargs",
    "frequency_penalty",
    "function_call",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "min_p",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "stop",
    "stop_sequences",
    "thinking",
    "tool_choice",
    "top_k",
    "top_p",
    "verbosity",
];

/// Names the entries that stood inside `metadata`.
const INNER: &str = "hone.metadata";

/// Where a line says what its trace earned.
const REWARD: &str = "reward";

#[derive(Default)]
struct Line {
    messages: Option<Vec<Chat>>,
    tools: Vec<Tool>,
    functions: Vec<tool::Function>,
    rest: Map<String, Value>,
}

impl Object for Line {
    const WHAT: &'static str = "a conversation with `messages`";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "messages" => {
                let messages: Option<List<Chat>> = map.next_value()?;
                self.messages = messages.map(|List(messages)| messages);
            }
            "tools" => self.tools = object::list(&key, map, &mut self.rest)?,
            tool::LEGACY => self.functions = object::list(&key, map, &mut self.rest)?,
            _ => object::leftover(key, map, &mut self.rest)?,
        }
        Ok(())
    }
}

/// A conversation as a request holds it: what is said, the tools on offer, and every other key as it came.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    /// What is said.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// `model`, `temperature` and the rest.
    pub rest: Map<String, Value>,
}

impl Conversation {
    /// Reads the body of a request, or says where and why it is none.
    pub fn read(body: &str) -> Result<Self, FormatError> {
        super::check_line(Format::Openai, body)?;
        let Read(Line { messages, tools, functions, rest }) = object::from_line(body)?;
        let messages = messages.ok_or_else(|| FormatError::new("", "`messages` is missing"))?;
        Ok(Self { messages: messages.into_iter().map(Chat::into_message).collect(), tools: specs(tools, functions), rest })
    }

    /// The body again, with the same keys in the same words.
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("all keys are texts")
    }

    /// What is known of the agent that asks so.
    pub fn config(&self) -> Config {
        config(&self.rest, origin::prompt(self.messages.iter()), &self.tools)
    }
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = Out::new(serializer.serialize_map(None)?, &self.rest);
        out.put("messages", &self.messages.iter().map(chat::Written::Plain).collect::<Vec<_>>())?;
        tool::write(&self.tools, &mut out)?;
        out.end(&["messages", "tools", tool::LEGACY])
    }
}

/// Reads one message in the form of OpenAI's API, or says where and why it is none.
pub fn read_message(json: &str) -> Result<Message, FormatError> {
    super::check_line(Format::Openai, json)?;
    let Read(message) = object::from_line::<Read<Chat>>(json)?;
    Ok(message.into_message())
}

/// A message in the form of OpenAI's API, whatever it came from.
pub fn message_json(message: &Message) -> Value {
    serde_json::to_value(chat::Written::Plain(message)).expect("all keys are texts")
}

/// Reads one line.
pub(super) fn read(line: &str, registrar: &mut Registrar) -> Result<Imported, FormatError> {
    let Read(Line { messages, tools, functions, mut rest }) = object::from_line(line)?;
    let mut messages: Option<Vec<Message>> = messages.map(|said| said.into_iter().map(Chat::into_message).collect());
    if let Some(said) = messages.take_if(|said| choices::is_pair(&rest, said.last())) {
        choices::put_prompt(&mut rest, said)?;
    }
    if messages.is_none()
        && let Some(said) = sets::reword(&mut rest)?
    {
        let said = choices::list::<Chat>(sets::CONVERSATIONS, &said)?;
        messages = Some(said.into_iter().map(Chat::into_message).collect());
    }
    let Some(messages) = messages else {
        let read = choices::read(rest, specs(tools, functions), registrar);
        return read.unwrap_or_else(|| Err(FormatError::new("", "`messages` is missing")));
    };
    let mut messages: Vec<Message> = messages.into_iter().flat_map(blocks::spoken).collect();
    if let Some(system) = logged::system(&rest, messages.first()) {
        rest.remove(logged::SYSTEM);
        messages.insert(0, system);
    }
    let mut call = None;
    if let Some(answer) = logged::answer(&rest, messages.last()) {
        rest.insert(logged::RESPONSE.to_owned(), answer.rest);
        messages.push(answer.message);
        call = answer.call;
    }
    let mut segment = chat::segment(messages, chat::take);
    if let Some(turn) = segment.turns.last_mut() {
        turn.llm_calls.extend(call);
    }
    segment.tools = specs(tools, functions).into_iter().map(blocks::tool).collect();
    let config = config(&rest, origin::prompt(origin::messages(&segment)), &segment.tools);
    let reward = rest.get(REWARD).and_then(Value::as_f64).map(origin::check_reward).transpose();
    let reward = reward.map_err(|reason| FormatError::new(REWARD, reason))?;
    flatten(&mut rest);

    let started = logged::started(&rest, registrar.origin.now);
    let mut trace = registrar.trace("openai", vec![segment], rest, &None::<f64>);
    trace.started = started.unwrap_or(trace.started);
    trace.rewards = reward.map(|total| origin::given(&trace, "openai", total)).into_iter().collect();
    trace.check().map_err(|error| FormatError::new("", error.to_string()))?;
    let inner = trace.metadata.get("metadata").and_then(Value::as_object);
    trace.category = origin::category(&trace.metadata).or_else(|| origin::category(inner?));
    let (hash, config) = registrar.config(config);
    trace.config = hash;
    Ok(Imported { traces: vec![trace], configs: Vec::from_iter(config), ..Imported::default() })
}

/// Lifts the entries of `metadata` to where the gateway has them too, so that a field is found under one path.
fn flatten(rest: &mut Map<String, Value>) {
    rest.remove(INNER);
    let inner = match rest.remove("metadata") {
        Some(Value::Object(inner)) => inner,
        Some(other) => {
            rest.insert("metadata".to_owned(), other);
            return;
        }
        None => return,
    };
    let (mut left, mut names) = (Map::new(), Vec::new());
    let is_empty = inner.is_empty();
    for (name, value) in inner {
        let has_word = ["messages", "tools", tool::LEGACY, "metadata"].contains(&name.as_str());
        if has_word || name.starts_with("hone.") || rest.contains_key(&name) {
            left.insert(name, value);
        } else {
            names.push(Value::from(name.as_str()));
            rest.insert(name, value);
        }
    }
    if is_empty || !left.is_empty() {
        rest.insert("metadata".to_owned(), left.into());
    }
    if !names.is_empty() {
        rest.insert(INNER.to_owned(), names.into());
    }
}

/// The tools of either form.
fn specs(tools: Vec<Tool>, functions: Vec<tool::Function>) -> Vec<ToolSpec> {
    let functions = functions.into_iter().map(tool::Function::into_legacy_spec);
    tools.into_iter().map(Tool::into_spec).chain(functions).collect()
}

/// What is known of the agent behind a request.
pub(super) fn config(request: &Map<String, Value>, prompt: Option<String>, tools: &[ToolSpec]) -> Config {
    let setting = |key: &str| request.get(key).filter(|value| !value.is_null());
    Config {
        v: V1,
        model: setting("model").and_then(Value::as_str).map(str::to_owned),
        prompt,
        temperature: setting("temperature").and_then(Value::as_f64),
        tools: tools.to_vec(),
        settings: SETTINGS.iter().filter_map(|&key| Some((key.to_owned(), setting(key)?.clone()))).collect(),
        ..Config::default()
    }
}

/// Writes one line.
pub(super) fn write(trace: &Trace) -> String {
    serde_json::to_string(&Written(trace)).expect("all keys are texts")
}

/// The segment that is written: the last in which something was said.
pub(super) fn segment(trace: &Trace) -> Option<&Segment> {
    trace.segments.iter().rfind(|segment| !segment.turns.is_empty() || !segment.tail.is_empty())
}

/// What is said in a segment, as it is written.
fn written(segment: &Segment) -> impl Iterator<Item = chat::Written<'_>> {
    fn said(message: &Message) -> chat::Written<'_> {
        match message.role {
            Role::Assistant => chat::Written::History(message),
            _ => chat::Written::Plain(message),
        }
    }
    let turns = segment.turns.iter().flat_map(|turn| turn.input.iter().map(said).chain([chat::Written::Plain(&turn.answer)]));
    turns.chain(segment.tail.iter().map(said))
}

struct Written<'a>(&'a Trace);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let metadata = &self.0.metadata;
        let mut out = Out::new(serializer.serialize_map(None)?, metadata);
        let segment = segment(self.0);
        let messages: Vec<chat::Written<'_>> = segment.into_iter().flat_map(written).collect();
        out.put("messages", &messages)?;
        let tools: &[ToolSpec] = segment.map(|segment| &*segment.tools).unwrap_or_default();
        tool::write(tools, &mut out)?;
        if let Some(category) = origin::untold_category(self.0) {
            out.put("category", category.as_str())?;
        }
        let names = metadata.get(INNER).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let names: Vec<&str> = names.filter(|name| metadata.contains_key(*name)).collect();
        let mut inner: Map<String, Value> = names.iter().map(|&name| (name.to_owned(), metadata[name].clone())).collect();
        let noted = metadata.get(REWARD).filter(|_| !inner.contains_key(REWARD));
        let (reward, aside) = rewards(self.0, noted);
        if let Some(reward) = reward {
            out.put(REWARD, &*reward)?;
        }
        inner.extend(aside.map(|value| (REWARD.to_owned(), value.clone())));
        let said = || segment.into_iter().flat_map(origin::messages);
        let is_system = logged::system(metadata, said().next()).is_some();
        let is_response = logged::answer(metadata, said().last()).is_some();
        let is_pair = choices::is_pair(metadata, said().last());
        let [better, worse] = choices::PAIR;
        let beside = [(logged::SYSTEM, is_system), (logged::RESPONSE, is_response), (better, is_pair), (worse, is_pair)];
        let beside: Vec<&str> = beside.into_iter().filter_map(|(key, is_read)| is_read.then_some(key)).collect();
        inner.extend(beside.iter().map(|&key| (key.to_owned(), metadata[key].clone())));
        out.merge("metadata", &mut inner)?;
        out.end(&[&["messages", "tools", tool::LEGACY, "metadata", REWARD], &*names, &*beside].concat())
    }
}

/// What stands under `reward` at the top of a line, and what the metadata note under that name and a reader would take for what was
/// earned: it stands aside, among the metadata.
fn rewards<'a>(trace: &Trace, noted: Option<&'a Value>) -> (Option<Cow<'a, Value>>, Option<&'a Value>) {
    let says = |total: f64| noted.and_then(Value::as_f64) == Some(total);
    match trace.reward() {
        // In the form in which it came, where it did.
        Some(reward) if says(reward.total) => (noted.map(Cow::Borrowed), None),
        Some(reward) => {
            let is_past = trace.rewards.iter().any(|past| past.turn_idx.is_none() && says(past.total));
            (Some(Cow::Owned(reward.total.into())), noted.filter(|_| !is_past))
        }
        None if noted.is_some_and(Value::is_number) => (None, noted),
        None => (noted.map(Cow::Borrowed), None),
    }
}
