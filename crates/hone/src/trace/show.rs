//! `hone trace show`: one trace, readable from the first message to what it earned.
//!
//! What stands in a trace was written by models, tools and strangers; the printer shows its control characters
//! instead of obeying them.

use crate::context::{Context, TO_BEGIN};
use crate::cost::precise;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, Style, counted};
use hone_gateway::demonstrations::shown;
use hone_gateway::episodes_called;
use hone_trace::format::is_note;
use hone_trace::store::{Event, Field, Store, TraceQuery};
use hone_trace::{Content, EPISODE_NAME, Message, Reward, Tenant, Time, Trace, TraceId, Turn};
use serde::Serialize;
use std::collections::BTreeMap;

/// Show one trace, turn by turn
///
/// With what was said of it as feedback; in JSON under `feedback`, where there is any.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The id, as `hone trace list` prints it, that of an answer, as its client knows it, or the name that the client gave the episode
    /// by `x-hone-episode` or as `episode_name` of its metadata; the newest of that name
    id: String,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let printer = context.printer;
    let Some(store) = context.store_if_there().await? else {
        printer.complain(&format!("there is no trace {}, and {}: {TO_BEGIN}", args.id, context.no_records()));
        return Ok(Exit::No);
    };
    let Some(trace) = find(&*store, &context.settings.tenant, &args.id).await? else {
        // An id is looked for everywhere, a name among the tenant's own.
        let whose = match args.id.parse::<TraceId>() {
            Ok(_) => String::new(),
            Err(_) => format!(" of the tenant `{}`", context.settings.tenant),
        };
        printer.complain(&format!("there is no trace {}{whose}", args.id));
        return Ok(Exit::No);
    };
    let feedback = feedback(&*store, &trace).await?;
    if printer.wants_json() {
        printer.json(&Told { trace: &trace, feedback })?;
    } else {
        show_with(&trace, &feedback, printer)?;
    }
    Ok(Exit::Yes)
}

/// The trace of this id, or else the one that clients of this tenant call so: the newest whose metadata say it, where no id follows
/// from the name, as in what was imported.
async fn find(store: &(impl Store + ?Sized), tenant: &Tenant, id: &str) -> Result<Option<Trace>, Failure> {
    if let Ok(id) = id.parse::<TraceId>()
        && let Some(trace) = store.trace(id).await?
    {
        return Ok(Some(trace));
    }
    for id in episodes_called(tenant, id) {
        if let Some(trace) = store.trace(id).await?.filter(|trace| trace.tenant == *tenant) {
            return Ok(Some(trace));
        }
    }
    let field = Field { path: format!("metadata.{EPISODE_NAME}"), value: id.to_owned() };
    let query = TraceQuery { tenant: Some(tenant.clone()), field: Some(field), ..TraceQuery::default() };
    Ok(store.traces(&query, None, 1).await?.items.into_iter().next())
}

/// A trace and what was said of it.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    trace: &'a Trace,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    feedback: Vec<Words>,
}

/// A comment or a demonstration. Numbers become rewards, words stay in the event log.
#[derive(Serialize)]
struct Words {
    kind: String,
    turn_idx: Option<u64>,
    words: String,
    /// The answer, where it should have been more than words.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Message>,
    by: Option<String>,
    at: Time,
}

/// The most words of feedback that are shown of one trace.
const N_FEEDBACK_MAX: u32 = 1000;

async fn feedback(store: &(impl Store + ?Sized), trace: &Trace) -> Result<Vec<Words>, Failure> {
    let stream = format!("feedback:{}", trace.id);
    let events = store.events(Some(&stream), 0, N_FEEDBACK_MAX).await?;
    let words = |Event { kind, at, body, .. }: Event| Words {
        turn_idx: body["turn_idx"].as_u64(),
        words: body["words"].as_str().unwrap_or_default().to_owned(),
        answer: body.get("answer").map(|_| shown(&body)),
        by: body["by"].as_str().map(str::to_owned),
        kind,
        at,
    };
    Ok(events.into_iter().map(|(_, event)| event).filter(|event| event.tenant == trace.tenant).map(words).collect())
}

/// Prints a trace from its first message to what it earned.
pub(crate) fn show(trace: &Trace, printer: &Printer) -> Result<(), Failure> {
    show_with(trace, &[], printer)
}

fn show_with(trace: &Trace, feedback: &[Words], printer: &Printer) -> Result<(), Failure> {
    printer.line(&[(Style::Strong, &format!("trace {}", trace.id))])?;
    let metadata: BTreeMap<_, _> = trace.metadata.iter().filter(|(name, _)| !is_note(name)).collect();
    let facts = [
        ("tenant", Some(trace.tenant.to_string())),
        ("category", trace.category.as_ref().map(ToString::to_string)),
        ("scenario", trace.scenario.as_ref().map(ToString::to_string)),
        ("group", trace.group.map(|id| id.to_string())),
        ("run", trace.run.map(|id| id.to_string())),
        ("config", Some(trace.config.to_string())),
        ("started", Some(trace.started.to_string())),
        ("ended", trace.ended.map(|at| format!("{at} ({:.0} ms later)", at.millis_since(trace.started)))),
        ("outcome", Some(word(&trace.outcome))),
        ("metrics", (!trace.metrics.is_empty()).then(|| json(&trace.metrics))),
        ("metadata", (!metadata.is_empty()).then(|| json(&metadata))),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            printer.line(&[(Style::Faint, &format!("{name:<9}")), (Style::Plain, &value)])?;
        }
    }
    let mut turn_idx = 0;
    for (idx, segment) in trace.segments.iter().enumerate() {
        if trace.segments.len() > 1 {
            printer.line(&[(Style::Strong, &format!("\nsegment {idx}"))])?;
        }
        if !segment.tools.is_empty() {
            let names: Vec<&str> = segment.tools.iter().map(|tool| tool.name.as_str()).collect();
            printer.line(&[(Style::Faint, "tools    "), (Style::Plain, &names.join(", "))])?;
        }
        for turn in &segment.turns {
            show_turn(turn_idx, turn, printer)?;
            for reward in trace.rewards.iter().filter(|reward| reward.turn_idx == Some(turn_idx)) {
                show_reward(reward, "  ", printer)?;
            }
            let mut of_turn = feedback.iter().filter(|words| words.turn_idx == Some(turn_idx.into()));
            of_turn.try_for_each(|words| show_words(words, printer))?;
            turn_idx += 1;
        }
        segment.tail.iter().try_for_each(|message| show_message(message, printer))?;
    }
    let whole: Vec<&Reward> = trace.rewards.iter().filter(|reward| reward.turn_idx.is_none()).collect();
    if !whole.is_empty() {
        printer.line(&[(Style::Strong, "\nrewards")])?;
        whole.iter().try_for_each(|reward| show_reward(reward, "  ", printer))?;
    }
    let n_turns = u64::from(turn_idx);
    let whole: Vec<&Words> = feedback.iter().filter(|words| words.turn_idx.is_none_or(|idx| idx >= n_turns)).collect();
    if !whole.is_empty() {
        printer.line(&[(Style::Strong, "\nfeedback")])?;
        whole.iter().try_for_each(|words| show_words(words, printer))?;
    }
    let head = trace.head();
    let cost = if head.cost_usd > 0.0 { format!(", {}", precise(head.cost_usd)) } else { String::new() };
    printer.line(&[(
        Style::Faint,
        &format!("\n{}, {}{cost}", counted(head.n_turns.into(), "turn"), counted(head.n_tokens, "token")),
    )])
}

fn show_turn(turn_idx: u32, turn: &Turn, printer: &Printer) -> Result<(), Failure> {
    printer.line(&[(Style::Strong, &format!("\nturn {}", turn_idx + 1))])?;
    turn.input.iter().chain([&turn.answer]).try_for_each(|message| show_message(message, printer))?;
    for call in &turn.tool_calls {
        let (style, ended) = match call.success {
            Some(true) => (Style::Good, "succeeded"),
            Some(false) => (Style::Bad, "failed"),
            None => (Style::Plain, "ended"),
        };
        let duration = call.duration_ms.map(|millis| format!(" after {millis:.0} ms")).unwrap_or_default();
        let what = format!("  tool {} ", call.name);
        printer.line(&[(Style::Plain, &what), (style, ended), (Style::Plain, &duration)])?;
    }
    for call in &turn.llm_calls {
        let cached = if call.tokens_cached > 0 { format!(" ({} cached)", call.tokens_cached) } else { String::new() };
        let cost = call.cost_usd.map(|cost| format!(", {}", precise(cost))).unwrap_or_default();
        let duration = call.duration_ms.map(|millis| format!(", {millis:.0} ms")).unwrap_or_default();
        let model = if call.model.is_empty() { "model" } else { &call.model };
        let text = format!("  {model}: {} tokens in{cached}, {} out{cost}{duration}", call.tokens_in, call.tokens_out);
        printer.line(&[(Style::Faint, &text)])?;
    }
    for error in &turn.errors {
        let went_on = if error.recovered { "recovered" } else { "not recovered" };
        let message = if error.message.is_empty() { String::new() } else { format!(": {}", error.message) };
        printer.line(&[(Style::Bad, "  error "), (Style::Plain, &indent(&format!("{} ({went_on}){message}", error.kind)))])?;
    }
    for decision in &turn.decisions {
        let why = if decision.rationale.is_empty() { String::new() } else { format!(" because {}", decision.rationale) };
        printer.line(&[(Style::Note, "  chose "), (Style::Plain, &indent(&format!("{}{why}", decision.chosen)))])?;
    }
    if !turn.signals.is_empty() {
        let signals: Vec<String> = turn.signals.iter().map(|(name, value)| format!("{name} {value}")).collect();
        printer.line(&[(Style::Faint, "  signals "), (Style::Plain, &signals.join(", "))])?;
    }
    if let Some(sampled) = &turn.sampled {
        let known = if sampled.logprobs.is_empty() { "without" } else { "with" };
        printer.line(&[(Style::Faint, &format!("  {} sampled tokens {known} log-probs", sampled.ids.len()))])?;
    }
    Ok(())
}

fn show_message(message: &Message, printer: &Printer) -> Result<(), Failure> {
    let name = message.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let answers = message.tool_call_id.as_ref().map(|id| format!(" (to {id})")).unwrap_or_default();
    printer.line(&[(Style::Note, &format!("  {}{name}{answers}", word(&message.role)))])?;
    show_said(message, printer)
}

/// What a message says, thinks and calls.
fn show_said(message: &Message, printer: &Printer) -> Result<(), Failure> {
    if let Some(reasoning) = &message.reasoning {
        printer.line(&[(Style::Faint, &format!("    (thinks) {}", indent(reasoning)))])?;
    }
    let text = message.content.text();
    if !text.is_empty() {
        printer.plain(&format!("    {}", indent(&text)))?;
    }
    if let Content::Parts(parts) = &message.content {
        for part in parts.iter().filter(|part| part.get("text").is_none()) {
            let kind = part.get("type").and_then(|kind| kind.as_str()).unwrap_or("something else");
            printer.line(&[(Style::Faint, &format!("    [{kind}]"))])?;
        }
    }
    for call in &message.tool_calls {
        printer.plain(&format!("    calls {}({})", call.name, indent(&call.arguments)))?;
    }
    Ok(())
}

fn show_reward(reward: &Reward, margin: &str, printer: &Printer) -> Result<(), Failure> {
    let by = format!(" by {} {} at {}", word(&reward.by.kind), reward.by.name, reward.at);
    printer.line(&[(Style::Strong, &format!("{margin}reward {}", reward.total)), (Style::Faint, &by)])?;
    for part in &reward.components {
        printer.plain(&format!("{margin}  {} {} × {}", part.name, part.value, part.weight))?;
    }
    match &reward.explanation {
        Some(text) => printer.plain(&format!("{margin}  {}", indent(text))),
        None => Ok(()),
    }
}

fn show_words(words: &Words, printer: &Printer) -> Result<(), Failure> {
    let by = words.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    printer.line(&[(Style::Strong, &format!("  {}", words.kind)), (Style::Faint, &format!("{by} at {}", words.at))])?;
    match &words.answer {
        Some(answer) => show_said(answer, printer),
        None => printer.plain(&format!("    {}", indent(&words.words))),
    }
}

/// Further lines begin below the first.
fn indent(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

/// The word that stands for this value in its JSON form.
fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_owned()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what came from JSON has a JSON form")
}
