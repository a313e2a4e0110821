//! How an episode failed, by what stands on its trace: the most telling sign of it.

use crate::words::masked;
use hone_trace::policy::PolicyErrorKind;
use hone_trace::{Role, ToolCall, Trace, Turn};
use std::collections::BTreeMap;

/// So many equal calls of a tool are too many.
const N_AGAIN: usize = 3;
/// Where a refusal stands in an answer, if it is one.
const REFUSAL_LEN: usize = 160;
const REFUSALS: [&str; 10] = [
    "i can't",
    "i can’t",
    "i cannot",
    "i am unable",
    "i'm unable",
    "i am not able",
    "i'm not able",
    "i won't",
    "as an ai",
    "not allowed to",
];

/// Errors that say no more than that an episode was ended.
const ENDS: [&str; 4] = ["loop", "time_limit", "token_limit", "turn_limit"];

/// How an episode failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    /// Its world or its provider failed, not its policy.
    Broken { kind: String },
    /// What was asked for cannot be served: neither world, provider nor policy failed.
    Turned,
    /// It called a tool again and again with the same arguments.
    Again { tool: String },
    /// An error of this kind ended it.
    Error { kind: String },
    /// The last tool that it called refused.
    Refused { tool: String },
    /// Its last answer could not be read, or was cut off.
    Unread { kind: String },
    /// It ended without an answer.
    Silent,
    /// It declined to do what was asked.
    Declined,
    /// It had tools, and called none.
    WithoutTools,
    /// Its reward lacks this part.
    Missed { part: String },
    /// Nothing but that it failed.
    Unclear,
}

impl Sign {
    /// The most telling sign of a trace that failed, and what was said of it, as words.
    pub(crate) fn of(trace: &Trace) -> (Self, Vec<String>) {
        if let Some(error) = trace.broken() {
            let is_turned = error.kind == PolicyErrorKind::Refused.as_str();
            let sign = if is_turned { Self::Turned } else { Self::Broken { kind: error.kind.clone() } };
            return (sign, masked(&error.message));
        }
        if let Some(tool) = called_again(trace) {
            return (Self::Again { tool }, Vec::new());
        }
        let Some(last) = trace.turns().last() else { return (Self::Silent, Vec::new()) };
        let last_error = trace.turns().flat_map(|turn| &turn.errors).filter(|error| !error.recovered).last();
        if let Some(error) = last_error {
            return match ENDS.contains(&error.kind.as_str()) {
                // Who says nothing does so again and again, until the turns are used up.
                true if is_silent(last) => (Self::Silent, Vec::new()),
                true => (Self::Error { kind: error.kind.clone() }, Vec::new()),
                false => (Self::Error { kind: error.kind.clone() }, masked(&error.message)),
            };
        }
        if let Some(call) = last_call(trace).filter(|call| call.success == Some(false)) {
            return (Self::Refused { tool: call.name.clone() }, masked(&result_of(trace, call)));
        }
        if let Some(error) = last.errors.last() {
            return (Self::Unread { kind: error.kind.clone() }, masked(&error.message));
        }
        (Self::of_answer(trace, last), Vec::new())
    }

    /// The sign of an episode that went through without an error.
    fn of_answer(trace: &Trace, last: &Turn) -> Self {
        if is_silent(last) {
            return Self::Silent;
        }
        let said = last.answer.content.text();
        let begin: String = said.to_lowercase().chars().take(REFUSAL_LEN).collect();
        if REFUSALS.iter().any(|refusal| begin.contains(refusal)) {
            return Self::Declined;
        }
        let has_tools = trace.segments.iter().any(|segment| !segment.tools.is_empty());
        let has_called = trace.turns().any(|turn| !turn.tool_calls.is_empty() || !turn.answer.tool_calls.is_empty());
        if has_tools && !has_called {
            return Self::WithoutTools;
        }
        // A reward of one part says no more than that it failed.
        let parts = trace.reward().map(|reward| &reward.components).filter(|parts| parts.len() > 1);
        let missed = parts.into_iter().flatten().filter(|part| part.weight > 0.0 && part.value <= 0.0);
        let heaviest = missed.max_by(|a, b| a.weight.total_cmp(&b.weight).then_with(|| b.name.cmp(&a.name)));
        heaviest.map_or(Self::Unclear, |part| Self::Missed { part: part.name.clone() })
    }

    /// What happened, for people to read.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Broken { kind } => format!("the world or provider failed ({kind})"),
            Self::Turned => "the request was refused".to_owned(),
            Self::Again { tool } => format!("calls {tool} again and again with the same arguments"),
            Self::Error { kind } => match kind.as_str() {
                "turn_limit" => "uses up its turns".to_owned(),
                "token_limit" => "uses up its tokens".to_owned(),
                "time_limit" => "runs out of time".to_owned(),
                "loop" => "does the same again and again".to_owned(),
                kind => format!("ends with {kind}"),
            },
            Self::Refused { tool } => format!("ends after {tool} failed"),
            Self::Unread { kind } => format!("ends with an answer of no use ({kind})"),
            Self::Silent => "ends without an answer".to_owned(),
            Self::Declined => "declines to do it".to_owned(),
            Self::WithoutTools => "answers without calling a tool".to_owned(),
            Self::Missed { part } => format!("misses `{part}`"),
            Self::Unclear => "answers, and is wrong".to_owned(),
        }
    }

    /// What may help.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Broken { .. } => "not the agent's doing: look at the provider or world, and at retries",
            Self::Turned => "change what is asked for, as the refusal says: the same request is refused again",
            Self::Again { .. } => "say in the tool's result what to do instead, or train: repeats cost reward",
            Self::Error { kind } if kind.ends_with("_limit") => "raise the limit if the episodes were on their way, or train",
            Self::Error { kind } if kind == "loop" => "say in the answer to a repetition what to do instead, or train",
            Self::Error { .. } => "read these traces: each ends with this error",
            Self::Refused { .. } => "look at how the tool's arguments are described, and at what it says when it fails",
            Self::Unread { kind } if kind == "answer_cut" => "raise the limit on tokens of an answer",
            Self::Unread { .. } => "ask for the form with a schema, or warm up by SFT on answers in that form",
            Self::Silent => "raise the limit on thinking or answer tokens, or warm up by SFT",
            Self::Declined => "say in the instructions that this may be done, or show it by SFT",
            Self::WithoutTools => "say in the instructions when tools are needed, or train",
            Self::Missed { .. } | Self::Unclear => "train on these tasks, or try another model on them",
        }
    }

    /// A short name of it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Broken { kind } => format!("broken-{kind}"),
            Self::Turned => "request-refused".to_owned(),
            Self::Again { tool } => format!("again-{tool}"),
            Self::Error { kind } => format!("error-{kind}"),
            Self::Refused { tool } => format!("refused-{tool}"),
            Self::Unread { kind } => format!("unread-{kind}"),
            Self::Silent => "silent".to_owned(),
            Self::Declined => "declined".to_owned(),
            Self::WithoutTools => "without-tools".to_owned(),
            Self::Missed { part } => format!("missed-{part}"),
            Self::Unclear => "wrong".to_owned(),
        }
    }
}

fn is_silent(turn: &Turn) -> bool {
    turn.answer.content.text().trim().is_empty() && turn.answer.tool_calls.is_empty()
}

/// The tool that was called most often with the same arguments, if that is too often.
fn called_again(trace: &Trace) -> Option<String> {
    let mut calls: BTreeMap<(String, String), usize> = BTreeMap::new();
    for turn in trace.turns() {
        // What ran is known better than what was asked for; where a client runs its tools, only that is known.
        let ran = turn.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.to_string()));
        let asked = turn.answer.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone()));
        match turn.tool_calls.is_empty() {
            true => asked.for_each(|call| *calls.entry(call).or_default() += 1),
            false => ran.for_each(|call| *calls.entry(call).or_default() += 1),
        }
    }
    let most = calls.into_iter().max_by_key(|(_, n)| *n).filter(|(_, n)| *n >= N_AGAIN);
    most.map(|((tool, _), _)| tool)
}

fn last_call(trace: &Trace) -> Option<&ToolCall> {
    trace.turns().flat_map(|turn| &turn.tool_calls).last()
}

/// What a tool said: the last message of a tool, and the one that answers the call where that is told.
fn result_of(trace: &Trace, call: &ToolCall) -> String {
    let inputs = trace.turns().flat_map(|turn| &turn.input).chain(trace.segments.iter().flat_map(|segment| &segment.tail));
    let results = inputs.filter(|message| message.role == Role::Tool);
    let is_meant = |id: &Option<String>| call.id.is_empty() || id.as_ref().is_none_or(|id| *id == call.id);
    results.filter(|message| is_meant(&message.tool_call_id)).last().map(|message| message.content.text()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{
        Component, ConfigHash, ErrorEvent, Giver, GiverKind, Message, Reward, RewardId, Segment, Tenant, Time, ToolSpec, TraceId,
    };
    use serde_json::json;

    fn trace(turns: Vec<Turn>) -> Trace {
        let (tenant, time) = (Tenant::default(), Time::from_unix_nanos(0));
        let mut trace = Trace::new(TraceId::derived(&["t"]), tenant, time, ConfigHash::of(b"c"));
        let tools = vec![ToolSpec { name: "look".into(), ..serde_json::from_value(json!({"name": "look"})).unwrap() }];
        trace.segments.push(Segment { tools, turns, tail: Vec::new() });
        trace
    }

    fn said(text: &str) -> Turn {
        Turn::new(vec![Message::text(Role::User, "where is order 7?")], Message::text(Role::Assistant, text))
    }

    fn called(arguments: &serde_json::Value, success: bool) -> Turn {
        let call = json!({"id": "c1", "name": "look", "arguments": arguments, "success": success});
        Turn { tool_calls: vec![serde_json::from_value(call).unwrap()], ..said("") }
    }

    fn with_error(turn: Turn, kind: &str, recovered: bool) -> Turn {
        let error = ErrorEvent { kind: kind.into(), recovered, message: "order 7 is gone".into() };
        Turn { errors: vec![error], ..turn }
    }

    #[track_caller]
    fn check(trace: &Trace, name: &str) {
        assert_eq!(Sign::of(trace).0.name(), name);
    }

    #[test]
    fn the_most_telling_sign_is_found() {
        check(&trace(vec![with_error(said(""), "policy_timeout", false)]), "broken-policy_timeout");
        check(&trace(vec![with_error(said(""), "policy_refused", false)]), "request-refused");
        let looked = || called(&json!({"order": 7}), true);
        check(&trace(vec![looked(), looked(), looked(), said("I do not know.")]), "again-look");
        check(&trace(vec![looked(), called(&json!({"order": 8}), true), looked(), said("Here.")]), "wrong");
        check(&trace(vec![looked(), with_error(said("x"), "turn_limit", false)]), "error-turn_limit");
        check(&trace(vec![said(""), with_error(said(""), "loop", false)]), "silent");
        check(&trace(vec![called(&json!({}), false), said("Sorry.")]), "refused-look");
        check(&trace(vec![looked(), with_error(said("{"), "unparsable_action", true)]), "unread-unparsable_action");
        check(&trace(vec![looked(), said("  ")]), "silent");
        check(&trace(vec![looked(), said("I'm sorry, but I cannot help.")]), "declined");
        check(&trace(vec![said("It is on its way.")]), "without-tools");
    }

    #[test]
    fn a_reward_says_which_part_was_missed() {
        let mut trace = trace(vec![called(&json!({}), true), said("Done.")]);
        let part = |name: &str, value, weight| Component { name: name.into(), value, weight };
        let by = Giver { kind: GiverKind::Check, name: "desk".into(), config: None };
        let parts = vec![part("polite", 0.0, 0.1), part("right", 0.0, 1.0), part("short", 1.0, 2.0)];
        trace.rewards.push(Reward::sum(RewardId::derived(&["r"]), trace.started, by.clone(), parts));
        check(&trace, "missed-right");
        trace.rewards.push(Reward::sum(RewardId::derived(&["s"]), trace.started, by, vec![part("solved", 0.0, 1.0)]));
        check(&trace, "wrong");
    }

    #[test]
    fn what_a_tool_said_is_kept_as_words() {
        let mut trace = trace(vec![called(&json!({}), false)]);
        trace.segments[0].tail =
            vec![Message { tool_call_id: Some("c1".into()), ..Message::text(Role::Tool, "order 7 is gone") }];
        assert_eq!(Sign::of(&trace).1.join(" "), "order * is gone");
    }
}
