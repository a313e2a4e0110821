//! What a foreign format cannot hold of a trace, in plain words.

use super::{Format, otlp};
use crate::{EPISODE_NAME, GiverKind, Reward, Role, Segment, Trace, TraceOutcome, Turn};

/// What is lost when this trace is written in this format. Our own format loses nothing.
pub fn left_out(trace: &Trace, format: Format) -> Vec<&'static str> {
    let any_turn = |has: fn(&Turn) -> bool| trace.turns().any(has);
    let n_spoken = trace.segments.iter().filter(|segment| !segment.turns.is_empty() || !segment.tail.is_empty()).count();
    let from_spans = otlp::has_spans(trace);
    let of_spans = ["agent_name", "conversation_id", "service"];
    let is_told = |key: &str| key == EPISODE_NAME || from_spans && of_spans.contains(&key);
    let is_foreign = |key: &str| !key.starts_with("hone.") && !is_told(key);
    let n_whole = trace.rewards.iter().filter(|reward| reward.turn_idx.is_none()).count();
    let (openai, art, spans) = (format == Format::Openai, format == Format::Art, format == Format::Otlp);
    let facts = [
        ("all of it, as nothing was answered", spans && !from_spans && trace.turns().next().is_none()),
        ("times", (openai || art) && (trace.ended.is_some() || any_turn(|turn| turn.started.is_some()))),
        ("the category", !spans && has_other_category(trace)),
        ("the scenario", trace.scenario.is_some()),
        ("the run", trace.run.is_some()),
        ("the group", (openai || spans) && trace.group.is_some()),
        ("that earlier answers are history", art && any_turn(has_history)),
        ("the outcome", trace.outcome != TraceOutcome::Unknown),
        ("all segments but the last", openai && n_spoken > 1),
        ("messages after the last answer", spans && trace.segments.iter().any(|segment| !segment.tail.is_empty())),
        ("some of the tools on offer", spans && has_more_tools(trace) && !from_spans),
        ("token ids", !art && any_turn(|turn| turn.sampled.is_some())),
        ("log-probs", !art && any_turn(|turn| turn.sampled.as_ref().is_some_and(|sampled| !sampled.logprobs.is_empty()))),
        ("input token ids", art && any_turn(|turn| turn.sampled.as_ref().is_some_and(|sampled| !sampled.input_ids.is_empty()))),
        ("forced tokens", art && any_turn(|turn| turn.sampled.as_ref().is_some_and(|sampled| !sampled.forced.is_empty()))),
        ("all rewards but the last", (openai || art) && n_whole > 1),
        ("turn rewards", (openai || art) && n_whole < trace.rewards.len()),
        ("reward components", trace.rewards.iter().any(|reward| !reward.components.is_empty())),
        ("who gave the reward", (openai || art) && trace.reward().is_some_and(|reward| !is_imported(reward, format))),
        ("tool results", (openai || art) && any_turn(|turn| !turn.tool_calls.is_empty())),
        ("model calls", (openai || art) && any_turn(|turn| !turn.llm_calls.is_empty())),
        ("errors", (openai || art) && any_turn(|turn| !turn.errors.is_empty())),
        ("decisions", any_turn(|turn| !turn.decisions.is_empty())),
        ("metrics", !art && !trace.metrics.is_empty()),
        ("metadata", spans && trace.metadata.keys().any(|key| is_foreign(key))),
    ];
    if format == Format::Hone {
        return Vec::new();
    }
    facts.into_iter().filter_map(|(what, lost)| lost.then_some(what)).collect()
}

/// Whether somebody had answered before the agent was asked.
fn has_history(turn: &Turn) -> bool {
    turn.input.iter().any(|message| message.role == Role::Assistant)
}

/// Whether a reward came with a line of this format, and comes with it again.
fn is_imported(reward: &Reward, format: Format) -> bool {
    reward.by.kind == GiverKind::Import && reward.by.name == format.as_str()
}

/// Whether the metadata tell another category, in the place where this one would stand.
fn has_other_category(trace: &Trace) -> bool {
    let told = trace.metadata.get("category").and_then(|told| told.as_str());
    trace.category.as_ref().is_some_and(|category| trace.metadata.contains_key("category") && told != Some(category.as_str()))
}

/// Whether tools are on offer that nobody was asked with, or of which more is known than name, description and parameters.
fn has_more_tools(trace: &Trace) -> bool {
    let is_more = |segment: &Segment| segment.turns.is_empty() || segment.tools.iter().any(|tool| !tool.extra.is_empty());
    trace.segments.iter().any(|segment| !segment.tools.is_empty() && is_more(segment))
}
