//! Everything of a trace that somebody wrote: messages, arguments and results of tools, metadata, errors, decisions, the words of
//! whoever gave a reward.
//!
//! Sampled tokens spell the text that they were: where a text of a segment changed, all of its turns lose their tokens and
//! log-probs, for each turn is a continuation of those before.

use super::json::{self, Replace};
use super::{Anonymiser, Hint, Known, scan};
use hone_trace::{Content, Message, Reward, Segment, ToolCall, ToolRequest, ToolSpec, Trace, Turn};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// So deep may JSON stand inside of strings of JSON.
const DEPTH_MAX: usize = 4;

/// What foreign formats call tokens and their log-probs.
const TOKEN_KEYS: &[&str] =
    &["logprobs", "top_logprobs", "token_ids", "prompt_token_ids", "input_ids", "tokens", "token_logprobs"];

impl Anonymiser {
    /// Takes all personal data out of a trace, and says whether there was any. A name that is introduced anywhere in it is replaced
    /// wherever it stands in it.
    pub fn trace(&mut self, trace: &mut Trace) -> bool {
        let (mut known, none, mut n_found) = (Known::default(), Known::default(), 0);
        visit(trace, &mut |text, hint| {
            let found = scan(text, hint, &none);
            known.learn(text, &found);
            n_found += found.len();
            None
        });
        if n_found == 0 {
            return false;
        }
        self.known = known;
        let changed = visit(trace, &mut |text, hint| self.replace(text, hint));
        self.report.traces += u64::from(changed.any);
        self.report.turns_without_tokens += changed.n_turns_without_tokens;
        changed.any
    }
}

/// What became of a trace.
#[derive(Default)]
pub(crate) struct Changed {
    any: bool,
    /// Turns that lost sampled tokens.
    pub(crate) n_turns_without_tokens: u64,
}

/// Hands every text of a trace to `replace`, and puts in its place what comes back.
pub(crate) fn visit(trace: &mut Trace, replace: &mut Replace<'_>) -> Changed {
    let mut changed = Changed::default();
    for part in &mut trace.segments {
        let spelled = segment(part, replace);
        changed.any |= spelled | beside(part, replace);
        if spelled {
            changed.n_turns_without_tokens += forget_tokens(part);
        }
    }
    for given in &mut trace.rewards {
        changed.any |= reward(given, replace);
    }
    changed.any |= map(&mut trace.metadata, replace) | keys(&mut trace.metrics, replace);
    if let Some(scenario) = &trace.scenario
        && let Some(name) = replace(scenario.as_str(), Hint::KEY)
        && let Ok(name) = hone_trace::ScenarioId::new(name)
    {
        trace.scenario = Some(name);
        changed.any = true;
    }
    if let Some(category) = &trace.category
        && let Some(name) = replace(category.as_str(), Hint::KEY)
        && let Ok(name) = hone_trace::Category::new(name)
    {
        trace.category = Some(name);
        changed.any = true;
    }
    changed
}

/// What the tokens of a segment spell.
fn segment(segment: &mut Segment, replace: &mut Replace<'_>) -> bool {
    let mut changed = false;
    for tool in &mut segment.tools {
        changed |= tool_spec(tool, replace);
    }
    for turn in &mut segment.turns {
        for said in &mut turn.input {
            changed |= message(said, replace);
        }
        changed |= message(&mut turn.answer, replace);
    }
    changed
}

/// What stands beside the tokens.
fn beside(segment: &mut Segment, replace: &mut Replace<'_>) -> bool {
    let mut changed = false;
    for said in &mut segment.tail {
        changed |= message(said, replace);
    }
    for turn in &mut segment.turns {
        changed |= facts(turn, replace);
    }
    changed
}

fn facts(turn: &mut Turn, replace: &mut Replace<'_>) -> bool {
    let mut changed = map(&mut turn.extra, replace) | keys(&mut turn.signals, replace);
    for ToolCall { id, name, arguments, extra, .. } in &mut turn.tool_calls {
        changed |= text(id, Hint::KEY, replace) | text(name, Hint::KEY, replace);
        changed |= value(arguments, Hint::NONE, 0, replace) | map(extra, replace);
    }
    for call in &mut turn.llm_calls {
        changed |= text(&mut call.model, Hint::KEY, replace) | map(&mut call.extra, replace);
    }
    for error in &mut turn.errors {
        changed |= text(&mut error.kind, Hint::KEY, replace) | text(&mut error.message, Hint::NONE, replace);
    }
    for decision in &mut turn.decisions {
        changed |= text(&mut decision.chosen, Hint::NONE, replace) | text(&mut decision.rationale, Hint::NONE, replace);
    }
    changed
}

fn message(message: &mut Message, replace: &mut Replace<'_>) -> bool {
    let mut changed = match &mut message.content {
        Content::None => false,
        Content::Text(said) => text(said, Hint::NONE, replace),
        Content::Parts(parts) => parts.iter_mut().fold(false, |changed, part| value(part, Hint::NONE, 0, replace) | changed),
    };
    if let Some(reasoning) = &mut message.reasoning {
        changed |= text(reasoning, Hint::NONE, replace);
    }
    for ToolRequest { id, name, arguments, extra } in &mut message.tool_calls {
        changed |= text(id, Hint::KEY, replace) | text(name, Hint::KEY, replace);
        changed |= text(arguments, Hint::NONE, replace) | map(extra, replace);
    }
    if let Some(id) = &mut message.tool_call_id {
        changed |= text(id, Hint::KEY, replace);
    }
    if let Some(name) = &mut message.name {
        changed |= text(name, Hint::of_key("user_name"), replace);
    }
    map(&mut message.extra, replace) | changed
}

fn tool_spec(tool: &mut ToolSpec, replace: &mut Replace<'_>) -> bool {
    let mut changed = text(&mut tool.name, Hint::KEY, replace);
    if let Some(description) = &mut tool.description {
        changed |= text(description, Hint::NONE, replace);
    }
    changed | value(&mut tool.parameters, Hint::NONE, 0, replace) | map(&mut tool.extra, replace)
}

fn reward(reward: &mut Reward, replace: &mut Replace<'_>) -> bool {
    let mut changed = text(&mut reward.by.name, Hint::of_key("user_name"), replace);
    if let Some(explanation) = &mut reward.explanation {
        changed |= text(explanation, Hint::NONE, replace);
    }
    for component in &mut reward.components {
        changed |= text(&mut component.name, Hint::KEY, replace);
    }
    changed
}

/// A text, or JSON as text.
fn text(text: &mut String, hint: Hint, replace: &mut Replace<'_>) -> bool {
    match inner(text, hint, 0, replace) {
        Some(changed) => {
            *text = changed;
            true
        }
        None => false,
    }
}

fn inner(text: &str, hint: Hint, depth: usize, replace: &mut Replace<'_>) -> Option<String> {
    if depth < DEPTH_MAX && json::is_json(text) {
        return json::replace(text, hint, &mut |text, hint| inner(text, hint, depth + 1, replace));
    }
    replace(text, hint)
}

fn value(value: &mut Value, hint: Hint, depth: usize, replace: &mut Replace<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => match inner(text, hint, depth, replace) {
            Some(changed) => {
                *text = changed;
                true
            }
            None => false,
        },
        Value::Number(number) => match json::number(&number.to_string(), hint, replace) {
            Some(changed) => {
                *value = as_number(&changed).unwrap_or_else(|| Value::String(changed.trim_matches('"').to_owned()));
                true
            }
            None => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| self::value(item, hint, depth, replace) | changed),
        Value::Object(fields) => map_at(fields, hint, depth, replace),
    }
}

/// The number that is written so. One with a fraction that has too many digits for a float loses its fraction, not its last digit.
fn as_number(text: &str) -> Option<Value> {
    let number: Number = text.parse().ok()?;
    let is_same = number.to_string() == text;
    let whole = text.split_once('.').filter(|_| !is_same).and_then(|(whole, _)| whole.parse().ok());
    Some(Value::Number(whole.unwrap_or(number)))
}

/// Hands every text of these fields to `replace`, and puts in its place what comes back.
pub(crate) fn map(fields: &mut Map<String, Value>, replace: &mut Replace<'_>) -> bool {
    map_at(fields, Hint::NONE, 0, replace)
}

fn map_at(fields: &mut Map<String, Value>, around: Hint, depth: usize, replace: &mut Replace<'_>) -> bool {
    let mut changed = false;
    let label = json::LABELS.iter().find_map(|label| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(label))?.1.as_str());
    let labelled = label.map(|label| around.inside(label));
    for (key, field) in fields.iter_mut() {
        let labelled = labelled.filter(|_| key.eq_ignore_ascii_case(json::LABELLED));
        changed |= value(field, labelled.unwrap_or_else(|| around.inside(key)), depth, replace);
    }
    let renamed: Vec<(String, String)> = fields.keys().filter_map(|key| Some((key.clone(), replace(key, Hint::KEY)?))).collect();
    for (old, new) in renamed {
        if let Some(field) = fields.remove(&old) {
            fields.insert(new, field);
        }
        changed = true;
    }
    changed
}

fn keys<T>(fields: &mut BTreeMap<String, T>, replace: &mut Replace<'_>) -> bool {
    let renamed: Vec<(String, String)> = fields.keys().filter_map(|key| Some((key.clone(), replace(key, Hint::KEY)?))).collect();
    let changed = !renamed.is_empty();
    for (old, new) in renamed {
        if let Some(field) = fields.remove(&old) {
            fields.insert(new, field);
        }
    }
    changed
}

/// Takes away all tokens of a segment, and says how many turns had some.
fn forget_tokens(segment: &mut Segment) -> u64 {
    let mut n_turns = 0;
    for turn in &mut segment.turns {
        let Turn { input, answer, llm_calls, extra, sampled, .. } = turn;
        n_turns += u64::from(sampled.take().is_some());
        forget(extra);
        input.iter_mut().chain([answer]).for_each(|message| forget(&mut message.extra));
        llm_calls.iter_mut().for_each(|call| forget(&mut call.extra));
    }
    n_turns
}

fn forget(fields: &mut Map<String, Value>) {
    fields.retain(|key, _| !TOKEN_KEYS.contains(&key.as_str()));
    for field in fields.values_mut() {
        forget_inside(field);
    }
}

fn forget_inside(value: &mut Value) {
    match value {
        Value::Object(fields) => forget(fields),
        Value::Array(items) => items.iter_mut().for_each(forget_inside),
        _ => {}
    }
}
