//! A prompt with what may follow it, as data sets for fine-tuning keep it: one answer, or a better and a worse one.
//!
//! | wire | word |
//! |---|---|
//! | TRL's `prompt` and `completion` | a trace |
//! | `label` beside them, which says whether the answer is liked | a reward of 1 or 0 |
//! | TRL's `chosen` and `rejected`, behind `prompt` or what both begin with | a group of two traces, which earned 1 and 0 |
//! | OpenAI's `input`, `preferred_output` and `non_preferred_output` | the same |
//! | a text where messages could be | of a prompt what a user says, otherwise an answer |
//! | `tools`, at the top or in `input` | the tools of the segment |
//! | any other key, at the top or in `input` | the config and `metadata` of each trace |
//!
//! Answers in a prompt are what was said before: no turns, so nobody learns from them. Written as conversations, one line per trace, or as
//! a pair.

use super::{REWARD, config, flatten, logged};
use crate::format::blocks;
use crate::format::chat::tool::{self, Tool};
use crate::format::chat::{self, Chat, Out};
use crate::format::object::{self, List, Object};
use crate::format::origin::{self, Registrar};
use crate::format::{FormatError, Imported};
use crate::{Message, Role, Segment, ToolSpec, Trace};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

const PROMPT: &str = "prompt";
const INPUT: &str = "input";
/// What may follow a prompt, and whether it is one of two that are compared, the better or the worse one.
const ANSWERS: [(&str, Option<bool>); 5] = [
    ("completion", None),
    ("chosen", Some(true)),
    ("preferred_output", Some(true)),
    ("rejected", Some(false)),
    ("non_preferred_output", Some(false)),
];

pub(super) const PAIR: [&str; 2] = ["chosen", "rejected"];

/// What stands under a key. A table that was written as lines has a null wherever a row has nothing.
pub(super) fn told<'a>(rest: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    rest.get(key).filter(|value| !value.is_null())
}

/// Whether a line with `messages`, of which this is the last, is one of these all the same: the messages are what was asked, or some sets tell
/// the better conversation twice.
pub(super) fn is_pair(rest: &Map<String, Value>, last: Option<&Message>) -> bool {
    let is_asked = last.is_some_and(|last| last.role != Role::Assistant);
    PAIR.iter()
        .all(|key| told(rest, key).is_some_and(|said| said.is_array() || is_asked && (said.is_string() || said.is_object())))
}

/// Takes the messages of such a line as what was asked, where nothing else tells it.
pub(super) fn put_prompt(rest: &mut Map<String, Value>, mut messages: Vec<Message>) -> Result<(), FormatError> {
    if told(rest, PROMPT).is_some() {
        return Ok(());
    }
    let n_asked = messages.iter().rposition(|message| message.role != Role::Assistant).map_or(0, |last| last + 1);
    let answered = messages.drain(n_asked..).next_back();
    let [better, _] = PAIR;
    let last =
        rest.get(better).and_then(|said| said.as_array()?.last()).and_then(|said| said.get("content").or(said.get("value")));
    if answered.is_some_and(|answer| last.and_then(Value::as_str) != Some(&*answer.content.text())) {
        return Err(FormatError::new(
            "messages",
            format!("ends with another answer than `{better}`: nobody knows what was asked"),
        ));
    }
    rest.insert(PROMPT.to_owned(), messages.iter().map(super::message_json).collect());
    Ok(())
}

/// Whether a key says that a line is one of these.
pub(super) fn is_answer(key: &str) -> bool {
    ANSWERS.iter().any(|(name, _)| *name == key)
}

/// Reads what stands in a line without `messages`, if it is one of these.
pub(super) fn read(
    mut rest: Map<String, Value>,
    mut tools: Vec<ToolSpec>,
    registrar: &mut Registrar,
) -> Option<Result<Imported, FormatError>> {
    let found = ANSWERS.iter().filter_map(|&(key, is_better)| Some((key, is_better, rest.remove(key)?)));
    let found: Vec<(&str, Option<bool>, Value)> = found.filter(|(.., said)| !said.is_null()).collect();
    let kinds: Vec<Option<bool>> = found.iter().map(|(_, is_better, _)| *is_better).collect();
    let read = || {
        if !matches!(kinds[..], [None] | [Some(true), Some(false)]) {
            let keys: Vec<String> = found.iter().map(|(key, ..)| format!("`{key}`")).collect();
            let reason = format!("{}: a prompt has one `completion`, or a better and a worse answer", keys.join(" and "));
            return Err(FormatError::new("", reason));
        }
        let text = told(&rest, PROMPT).and_then(Value::as_str).map(str::to_owned);
        let mut prompt = prompt(&mut rest, &mut tools)?;
        let mut answers = Vec::new();
        for (key, _, value) in found {
            if prompt.is_empty() && value.is_string() {
                let reason = format!("`{PROMPT}` is missing: where `{key}` is a text, nobody knows what was asked");
                return Err(FormatError::new("", reason));
            }
            answers.push((key, said(key, value, Role::Assistant)?));
        }
        // Some tell whole conversations, and what was asked beside them once more. What they do not say stays a fact of the line.
        let is_whole = |said: &[Message]| {
            said.starts_with(&prompt) || text.is_some() && said.first().is_some_and(|first| first.role != Role::Assistant)
        };
        if answers.iter().all(|(_, said)| is_whole(said)) {
            let says = |said: &[Message], text: &str| said.iter().any(|message| message.content.text().contains(text.trim()));
            if let Some(text) = text.filter(|text| !answers.iter().all(|(_, said)| says(said, text))) {
                rest.insert(PROMPT.to_owned(), text.into());
            }
            prompt.clear();
        }
        if let [(_, better), (_, worse)] = &mut answers[..] {
            if better == worse {
                return Err(FormatError::new("", "both answers are the same, so neither is better"));
            }
            if prompt.is_empty() {
                // What both begin with, but for something to compare.
                let pairs = better.iter().zip(&*worse).take(better.len().min(worse.len()).saturating_sub(1));
                let n_shared = pairs.take_while(|(better, worse)| better == worse).count();
                prompt = better.drain(..n_shared).collect();
                worse.drain(..n_shared);
            }
        }
        if let Some(system) = logged::system(&rest, prompt.first().or_else(|| answers[0].1.first())) {
            rest.remove(logged::SYSTEM);
            prompt.insert(0, system);
        }
        imported(&prompt, answers, rest, &tools, registrar)
    };
    if kinds.is_empty() { None } else { Some(read()) }
}

/// What is said before the answers. OpenAI's `input` has the rest of the request as well.
fn prompt(rest: &mut Map<String, Value>, tools: &mut Vec<ToolSpec>) -> Result<Vec<Message>, FormatError> {
    if let Some(prompt) = rest.remove(PROMPT).filter(|prompt| !prompt.is_null()) {
        return said(PROMPT, prompt, Role::User);
    }
    let Some(mut input) = rest.remove(INPUT).filter(|input| !input.is_null()) else { return Ok(Vec::new()) };
    let messages = input.get_mut("messages").map(Value::take);
    let messages = messages.ok_or_else(|| FormatError::new(INPUT, "`messages` is missing"))?;
    if let Value::Object(mut input) = input {
        input.remove("messages");
        if let Some(offered) = input.remove("tools") {
            tools.extend(list::<Tool>("input.tools", &offered)?.into_iter().map(Tool::into_spec));
        }
        for (key, value) in input {
            rest.entry(key).or_insert(value);
        }
    }
    said("input.messages", messages, Role::User)
}

/// Messages, or a text in the words of `role`.
fn said(path: &str, value: Value, role: Role) -> Result<Vec<Message>, FormatError> {
    match value {
        Value::String(text) => Ok(vec![Message::text(role, text)]),
        Value::Array(_) => {
            let messages = list::<Chat>(path, &value)?;
            Ok(messages.into_iter().flat_map(|chat| blocks::spoken(chat.into_message())).collect())
        }
        _ => Err(FormatError::new(path, "must be a text or a list of messages")),
    }
}

/// A list, read from its text: so an error names the place in it.
pub(super) fn list<T: Object>(path: &str, value: &Value) -> Result<Vec<T>, FormatError> {
    match object::from_line(&value.to_string()) {
        Ok(List(list)) => Ok(list),
        Err(FormatError { path: inner, reason, .. }) => Err(FormatError::new(format!("{path}{inner}"), reason)),
    }
}

/// What a lone answer earned, where the line says so.
fn label(rest: &Map<String, Value>) -> Result<Option<f64>, FormatError> {
    let told = match rest.get("label") {
        Some(Value::Bool(is_liked)) => Some(f64::from(u8::from(*is_liked))),
        _ => rest.get(REWARD).and_then(Value::as_f64),
    };
    told.map(origin::check_reward).transpose().map_err(|reason| FormatError::new(REWARD, reason))
}

fn imported(
    prompt: &[Message],
    answers: Vec<(&str, Vec<Message>)>,
    mut rest: Map<String, Value>,
    tools: &[ToolSpec],
    registrar: &mut Registrar,
) -> Result<Imported, FormatError> {
    let is_pair = answers.len() == 2;
    let rewards = if is_pair { [Some(1.0), Some(0.0)] } else { [label(&rest)?, None] };
    let tools: Vec<ToolSpec> = tools.iter().cloned().map(blocks::tool).collect();
    let request = rest.clone();
    flatten(&mut rest);
    let started = logged::started(&rest, registrar.origin.now);
    let mut imported = Imported::default();
    let all: Vec<Vec<Message>> = if is_pair { answers.iter().map(|(_, said)| said.clone()).collect() } else { Vec::new() };
    for ((key, said), reward) in answers.into_iter().zip(rewards) {
        let segment = segment(prompt, said, tools.clone());
        if segment.turns.is_empty() {
            return Err(FormatError::new(key, "none of its messages is an answer"));
        }
        let config = config(&request, origin::prompt(origin::messages(&segment)), &tools);
        // An answer of a pair is another trace than the same answer alone, or beside another one.
        let mut trace = match is_pair {
            true => registrar.trace("openai", vec![segment], rest.clone(), &(reward, &all)),
            false => registrar.trace("openai", vec![segment], rest.clone(), &None::<f64>),
        };
        trace.started = started.unwrap_or(trace.started);
        trace.rewards = reward.map(|total| origin::given(&trace, "openai", total)).into_iter().collect();
        trace.check().map_err(|error| FormatError::new(key, error.to_string()))?;
        let inner = trace.metadata.get("metadata").and_then(Value::as_object);
        trace.category = origin::category(&trace.metadata).or_else(|| origin::category(inner?));
        let (hash, config) = registrar.config(config);
        trace.config = hash;
        imported.configs.extend(config);
        imported.traces.push(trace);
    }
    if is_pair {
        imported.groups.push(registrar.group("openai", None, &Map::new(), &mut imported.traces));
    }
    Ok(imported)
}

/// What was said before is the input of the first answer, answers included.
fn segment(prompt: &[Message], said: Vec<Message>, tools: Vec<ToolSpec>) -> Segment {
    let mut segment = chat::segment(said, chat::take);
    if let Some(first) = segment.turns.first_mut() {
        first.input.splice(0..0, prompt.iter().cloned());
    }
    segment.tools = tools;
    segment
}

/// A line with what both traces were asked, and what the better and the worse one answered, as TRL's DPO reads it. Nothing where they were not
/// asked the same, or answered the same.
pub fn write_pair(better: &Trace, worse: &Trace) -> Option<String> {
    let [chosen, rejected] = [better, worse].map(spoken);
    // One may go on where the other ends, and must have something left to compare.
    let n_most = chosen.len().min(rejected.len()).saturating_sub(1);
    let n_shared = chosen.iter().zip(&rejected).take(n_most).take_while(|(chosen, rejected)| chosen == rejected).count();
    let is_answered = |said: &[&Message]| said.get(n_shared).is_some_and(|message| message.role == Role::Assistant);
    if !is_answered(&chosen) || !is_answered(&rejected) || chosen == rejected {
        return None;
    }
    let pair = Pair { better, worse, prompt: &chosen[..n_shared], chosen: &chosen[n_shared..], rejected: &rejected[n_shared..] };
    Some(serde_json::to_string(&pair).expect("all keys are texts"))
}

/// What is said up to the last answer.
fn spoken(trace: &Trace) -> Vec<&Message> {
    let mut said: Vec<&Message> = super::segment(trace).into_iter().flat_map(origin::messages).collect();
    let n = said.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |last| last + 1);
    said.truncate(n);
    said
}

struct Pair<'a> {
    better: &'a Trace,
    worse: &'a Trace,
    prompt: &'a [&'a Message],
    chosen: &'a [&'a Message],
    rejected: &'a [&'a Message],
}

impl Serialize for Pair<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |said: &[&Message]| said.iter().map(|message| super::message_json(message)).collect::<Vec<Value>>();
        let none = Map::new();
        let mut out = Out::new(serializer.serialize_map(None)?, &none);
        out.put(PROMPT, &written(self.prompt))?;
        out.put("chosen", &written(self.chosen))?;
        out.put("rejected", &written(self.rejected))?;
        tool::write(super::segment(self.better).map(|segment| &*segment.tools).unwrap_or_default(), &mut out)?;
        for (key, trace) in [("score_chosen", self.better), ("score_rejected", self.worse)] {
            if let Some(reward) = trace.reward() {
                out.put(key, &reward.total)?;
            }
        }
        if let Some(category) = &self.better.category {
            out.put("category", category.as_str())?;
        }
        out.end(&[])
    }
}
