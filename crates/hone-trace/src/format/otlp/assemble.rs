//! Putting the spans of one conversation together as a trace.

use super::places::Places;
use super::span::{Kind, Span, time};
use super::{NO_CALL, PLACES, SPAN, SPANS, call, flat, sdk, wire};
use crate::format::FormatError;
use crate::format::origin::{self, Registrar};
use crate::{
    Config, EPISODE_NAME, ErrorEvent, Giver, GiverKind, Message, Reward, RewardId, Role, Segment, Time, ToolCall, Trace, TraceId,
    Turn, V1,
};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The trace of these spans, or `None` if no model and no tool took part.
pub(super) fn trace(
    mut spans: Vec<Span>,
    places: &Places,
    registrar: &mut Registrar,
) -> Result<Option<(Trace, Option<Config>)>, FormatError> {
    spans.sort_by_key(Span::started);
    let mut kinds: Vec<Kind> = spans.iter().map(Span::kind).collect();
    if !kinds.contains(&Kind::Llm) {
        // Where nobody watched the model itself, the agent as a whole is what answered.
        for (kind, span) in kinds.iter_mut().zip(&spans).filter(|(kind, _)| **kind == Kind::Agent) {
            *kind = if call::output(span).is_some() { Kind::Llm } else { Kind::Other };
        }
    }
    if !kinds.contains(&Kind::Llm) && !kinds.contains(&Kind::Tool) {
        return Ok(None);
    }

    let mut facts = Facts::of(&spans, places, registrar);
    let config = config(&spans, &kinds);
    let mut conversation = Conversation::default();
    let mut others = Vec::new();
    for (span, &kind) in spans.iter().zip(&kinds).filter(|(_, kind)| **kind == Kind::Llm) {
        debug_assert_eq!(kind, Kind::Llm, "filtered");
        facts.rewards(span, Some(conversation.n_turns));
        conversation.model_call(span);
    }
    conversation.settle_errors();
    let mut told = Told::default();
    for (span, kind) in spans.into_iter().zip(kinds) {
        match kind {
            Kind::Llm => {}
            Kind::Tool => {
                facts.rewards(&span, None);
                conversation.tool_call(&span);
            }
            Kind::Agent | Kind::Other => {
                facts.rewards(&span, None);
                told.around(&span);
                others.push(wire::made([("place", span.place.into()), ("span", Value::Object(span.fields))]));
            }
        }
    }

    conversation.errors_around(told);
    let mut trace = facts.trace;
    trace.segments = conversation.segments;
    trace.rewards = facts.rewards;
    if !others.is_empty() {
        trace.metadata.insert(SPANS.to_owned(), Value::Array(others));
    }
    let config = Config { prompt: trace.segments.first().and_then(|first| origin::prompt(origin::messages(first))), ..config };
    let config = Config { tools: trace.segments.first().map(|first| first.tools.clone()).unwrap_or_default(), ..config };
    let (hash, config) = registrar.config(config);
    trace.config = hash;
    trace.check().map_err(|error| FormatError::new("", error.to_string()))?;
    Ok(Some((trace, config)))
}

/// The segments so far.
#[derive(Default)]
struct Conversation {
    segments: Vec<Segment>,
    n_turns: u32,
    /// Where each message of the last segment is: empty answers are not among them.
    history: Vec<Said>,
    /// The turn that asked for each call, as segment and position.
    asked: std::collections::HashMap<String, (usize, usize)>,
    /// When each turn began, for tool calls without an id.
    began: Vec<(Option<Time>, (usize, usize))>,
}

/// Where a message of a segment is.
struct Said {
    turn: usize,
    /// Its position in the input; `None` for the answer.
    input: Option<usize>,
}

impl Said {
    fn of<'a>(&self, turns: &'a [Turn]) -> &'a Message {
        let turn = &turns[self.turn];
        self.input.map_or(&turn.answer, |idx| &turn.input[idx])
    }
}

impl Conversation {
    fn model_call(&mut self, span: &Span) {
        let mut source = None;
        let mut fresh = Vec::new();
        match call::input(span) {
            None if self.segments.is_empty() => self.segments.push(Segment::default()),
            None => {}
            Some((mut input, key)) => {
                source = key;
                match self.segments.last().and_then(|segment| extended_by(&self.history, &segment.turns, &input)) {
                    Some(n_known) => fresh = input.split_off(n_known),
                    None => {
                        self.history.clear();
                        self.segments.push(Segment { tools: call::tools(span), ..Segment::default() });
                        fresh = input;
                    }
                }
            }
        }
        let Some((segment, rest)) = self.segments.split_last_mut() else { return };
        if segment.turns.is_empty() && segment.tools.is_empty() {
            segment.tools = call::tools(span);
        }
        let output = call::output(span);
        let out_key = output.as_ref().map(|(_, key)| *key);
        let answer = output.map_or_else(nothing, |(answer, _)| answer);
        let at = (rest.len(), segment.turns.len());
        for request in answer.tool_calls.iter().filter(|request| !request.id.is_empty()) {
            self.asked.insert(request.id.clone(), at);
        }
        self.began.push((span.started(), at));

        let mut turn = Turn::new(fresh, answer);
        turn.started = span.started();
        if let Some((kind, message)) = span.error() {
            turn.errors.push(ErrorEvent { kind, recovered: false, message });
        }
        self.history.extend((0..turn.input.len()).map(|idx| Said { turn: at.1, input: Some(idx) }));
        segment.turns.push(turn);
        let mut llm = call::llm(span);
        let turns = &segment.turns;
        let history: Vec<&Message> = self.history.iter().map(|at| at.of(turns)).collect();
        let note = note(span, call::keys(source, out_key), |key| call::written(key, &llm, &history, &turns[at.1].answer));
        llm.extra.insert(SPAN.to_owned(), note);
        if let Some(turn) = segment.turns.last_mut() {
            if !call::is_empty(&turn.answer) {
                self.history.push(Said { turn: at.1, input: None });
            }
            turn.llm_calls.push(llm);
        }
        self.n_turns = self.n_turns.saturating_add(1);
    }

    /// An error was recovered from if a later model call went well.
    fn settle_errors(&mut self) {
        let mut went_well = false;
        for turn in self.segments.iter_mut().rev().flat_map(|segment| segment.turns.iter_mut().rev()) {
            for error in &mut turn.errors {
                error.recovered = went_well;
            }
            went_well |= turn.errors.is_empty();
        }
    }

    fn tool_call(&mut self, span: &Span) {
        let mut tool = call::tool(span);
        let note = note(span, call::tool_keys(), |key| call::written_tool(key, &tool));
        tool.extra.insert(SPAN.to_owned(), note);
        if self.segments.is_empty() {
            self.segments.push(Segment { turns: vec![without_call(Vec::new())], ..Segment::default() });
            self.began.push((None, (0, 0)));
        }
        // The turns are in the order of time, so the last one that had begun is found by halving.
        let n_before = self.began.partition_point(|(began, _)| *began <= span.started());
        let before = self.began.get(n_before.saturating_sub(1)).map(|&(_, at)| at);
        let at = self.asked.get(&tool.id).copied().or(before).unwrap_or_default();
        let later = self.n_turns > 0;
        let Some(turn) = self.segments.get_mut(at.0).and_then(|segment| segment.turns.get_mut(at.1)) else { return };
        if let Some((kind, message)) = span.error() {
            turn.errors.push(ErrorEvent { kind, recovered: later, message });
        }
        turn.tool_calls.push(tool);
    }

    /// Puts errors that no call told of on the turn before them. One is recovered from if a model was called after it.
    fn errors_around(&mut self, Told(around): Told) {
        let errors = self.segments.iter().flat_map(|segment| &segment.turns).flat_map(|turn| &turn.errors);
        let mut known: HashSet<String> = errors.flat_map(|error| [error.kind.clone(), error.message.clone()]).collect();
        for (ended, kind, message) in around {
            // An error passes through all spans around it, and is told once.
            if !known.insert(if message.is_empty() { kind.clone() } else { message.clone() }) {
                continue;
            }
            let n_before = self.began.partition_point(|(began, _)| *began <= ended);
            let Some(&(_, at)) = self.began.get(n_before.saturating_sub(1)) else { continue };
            let Some(turn) = self.segments.get_mut(at.0).and_then(|segment| segment.turns.get_mut(at.1)) else { continue };
            turn.errors.push(ErrorEvent { kind, recovered: n_before < self.began.len(), message });
        }
    }
}

/// Errors of spans around the calls: when each ended, its kind and its words.
#[derive(Default)]
struct Told(Vec<(Option<Time>, String, String)>);

impl Told {
    fn around(&mut self, span: &Span) {
        self.0.extend(span.error().map(|(kind, message)| (span.ended(), kind, message)));
    }
}

/// A turn of tools that ran without a model call that is known.
pub(super) fn without_call(tool_calls: Vec<ToolCall>) -> Turn {
    let mut turn = Turn::new(Vec::new(), nothing());
    turn.extra.insert(NO_CALL.to_owned(), true.into());
    turn.tool_calls = tool_calls;
    turn
}

fn nothing() -> Message {
    let mut message = Message::text(Role::Assistant, "");
    message.content = crate::Content::None;
    message
}

/// How many messages of the input the segment already holds, if the input goes on from there.
fn extended_by(history: &[Said], turns: &[Turn], input: &[Message]) -> Option<usize> {
    let mut both = history.iter().map(|at| at.of(turns)).zip(input);
    (history.len() <= input.len() && both.all(|(said, next)| call::same_message(said, next))).then_some(history.len())
}

/// What is left of a span beside the words, and which attributes the words give back.
fn note(span: &Span, keys: impl Iterator<Item = &'static str>, written: impl Fn(&str) -> Vec<Value>) -> Value {
    let mut fields = span.fields.clone();
    let mut from = Vec::new();
    if let Some(Value::Array(attributes)) = fields.get_mut("attributes") {
        let had_some = !attributes.is_empty();
        for key in keys {
            let there = attributes.iter().any(|attribute| attribute["key"] == key || flat::belongs(attribute, key));
            if there && call::drop_same(attributes, key, written(key)) {
                from.push(key);
            }
        }
        if had_some && attributes.is_empty() {
            fields.remove("attributes");
        }
    }
    wire::made([("place", span.place.into()), ("from", from.into()), ("span", Value::Object(fields))])
}

/// What is known of the agent from its first model call.
fn config(spans: &[Span], kinds: &[Kind]) -> Config {
    let Some((span, _)) = spans.iter().zip(kinds).find(|(_, kind)| **kind == Kind::Llm) else { return Config::default() };
    let value = |key: &str| {
        let told = wire::find(span.attributes(), key).and_then(wire::plain);
        told.or_else(|| sdk::parameter(span, key.strip_prefix("gen_ai.request.")?))
    };
    let setting = |key: &str| Some((key.strip_prefix("gen_ai.")?.to_owned(), value(key)?));
    let settings = [
        "gen_ai.agent.name",
        "gen_ai.agent.version",
        "gen_ai.provider.name",
        "gen_ai.request.frequency_penalty",
        "gen_ai.request.max_tokens",
        "gen_ai.request.presence_penalty",
        "gen_ai.request.stop_sequences",
        "gen_ai.request.top_k",
        "gen_ai.request.top_p",
        "gen_ai.system",
    ];
    let models =
        ["gen_ai.request.model", "llm.model_name", "gen_ai.response.model", "langfuse.observation.model.name", "ai.model.id"];
    let model = models.iter().find_map(|key| span.text(key));
    Config {
        v: V1,
        model: model.map(str::to_owned),
        temperature: value("gen_ai.request.temperature").as_ref().and_then(Value::as_f64),
        settings: settings.iter().filter_map(|key| setting(key)).collect(),
        ..Config::default()
    }
}

/// What is known of the trace as a whole.
struct Facts {
    trace: Trace,
    rewards: Vec<Reward>,
}

impl Facts {
    fn of(spans: &[Span], places: &Places, registrar: &mut Registrar) -> Self {
        let name = spans.iter().find_map(|span| super::stream::conversation(&span.fields));
        let mut ids: Vec<String> =
            spans.iter().map(|span| format!("{}/{}", span.field("traceId"), span.field("spanId"))).collect();
        ids.sort_unstable();
        let digest = blake3::hash(ids.join(" ").as_bytes()).to_hex();
        let mut trace = registrar.trace("otlp", Vec::new(), Map::new(), &());
        let key = name.unwrap_or_else(|| spans.first().map(|span| span.field("traceId")).unwrap_or_default());
        trace.id = TraceId::derived(&["otlp", trace.tenant.as_str(), key, &digest]);
        trace.started = spans.iter().find_map(Span::started).unwrap_or(registrar.origin.now);
        // What ended before it began was told by a clock that cannot be trusted.
        trace.ended = spans.iter().filter_map(Span::ended).max().filter(|ended| *ended >= trace.started);
        if let Some(name) = name {
            trace.metadata.insert("conversation_id".to_owned(), name.into());
        }
        let agent =
            |span: &Span| ["gen_ai.agent.name", "agent.name"].into_iter().find_map(|key| Some(span.text(key)?.to_owned()));
        if let Some(agent) = spans.iter().find_map(agent) {
            trace.metadata.insert("agent_name".to_owned(), agent.into());
        }
        if let Some(name) = spans.iter().find_map(episode_name) {
            trace.metadata.insert(EPISODE_NAME.to_owned(), name.into());
        }
        if let Some(service) = places.text("service.name") {
            trace.metadata.insert("service".to_owned(), service.into());
        }
        trace.category = spans
            .iter()
            .find_map(category)
            .or_else(|| ["category", "task_type"].into_iter().find_map(|key| crate::Category::new(places.text(key)?).ok()));
        trace.metadata.insert(PLACES.to_owned(), places.noted());
        Self { trace, rewards: Vec::new() }
    }

    /// Takes the judgements that stand on this span.
    fn rewards(&mut self, span: &Span, turn_idx: Option<u32>) {
        for (idx, event) in span.list("events").iter().enumerate() {
            let Some(total) = wire::judged(event) else { continue };
            let attributes = event.get("attributes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let name = wire::text(attributes, "gen_ai.evaluation.name").unwrap_or("evaluation").to_owned();
            let kind = match wire::text(attributes, "hone.giver") {
                Some("check") => GiverKind::Check,
                Some("rubric") => GiverKind::Rubric,
                Some("judge") => GiverKind::Judge,
                Some("human") => GiverKind::Human,
                _ => GiverKind::Import,
            };
            let whole = wire::text(attributes, "hone.scope") == Some("trace");
            self.rewards.push(Reward {
                id: reward_id(&span.fields, idx),
                at: event.get("timeUnixNano").and_then(time).or(span.ended()).unwrap_or(self.trace.started),
                by: Giver { kind, name, config: None },
                turn_idx: turn_idx.filter(|_| !whole),
                components: Vec::new(),
                total,
                explanation: wire::text(attributes, "gen_ai.evaluation.explanation").map(str::to_owned),
            });
        }
    }
}

/// The id of the reward that the n-th event of a span tells of.
pub(super) fn reward_id(span: &Map<String, Value>, idx: usize) -> RewardId {
    let text = |key: &str| span.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    RewardId::derived(&["otlp", &text("traceId"), &text("spanId"), &idx.to_string()])
}

/// What a span calls its episode, among its attributes or in its `metadata`.
fn episode_name(span: &Span) -> Option<String> {
    let inner = || metadata(span)?.get(EPISODE_NAME)?.as_str().map(str::to_owned);
    span.text(EPISODE_NAME).map(str::to_owned).or_else(inner)
}

/// The type of task that a span names.
fn category(span: &Span) -> Option<crate::Category> {
    let named = ["category", "task_type"].into_iter().find_map(|key| crate::Category::new(span.text(key)?).ok());
    named.or_else(|| origin::category(metadata(span)?.as_object()?))
}

/// What a span says under `metadata`, as OpenInference has it.
fn metadata(span: &Span) -> Option<Value> {
    crate::format::object::json_inside(span.text("metadata")?)
}
