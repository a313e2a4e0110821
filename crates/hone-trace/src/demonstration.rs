//! What somebody says an answer should have been, and the traces to learn from that come of it.

use crate::{Component, EventId, Giver, GiverKind, Message, Reward, RewardId, Segment, Time, Trace, TraceOutcome, Turn};
use serde_json::Value;
use std::collections::BTreeMap;

/// The name under which a demonstration is given as feedback, and of who gives the reward of a trace that was made of one.
pub const DEMONSTRATION: &str = "demonstration";

/// An answer as it should have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Demonstration {
    /// The line of the log that says so.
    pub id: EventId,
    /// When it was said.
    pub at: Time,
    /// The turn that is meant; without one, the last.
    pub turn_idx: Option<u32>,
    /// The answer: words, calls of tools, or both.
    pub answer: Message,
}

/// A trace of which people said what its answers should have been: only the answers in question, each behind all that came before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Corrected {
    /// With the answers of people, and a reward of 1.
    pub better: Trace,
    /// With the answers that were given, and a reward of 0; `None` where they are the same.
    pub worse: Option<Trace>,
}

impl Corrected {
    /// A trace with what was said of it, oldest first. What was said last of a turn counts; what is empty or of a turn that is not there
    /// says nothing.
    pub fn of(trace: &Trace, said: &[Demonstration]) -> Option<Self> {
        let n_turns = trace.turns().count();
        let mut last: BTreeMap<usize, &Demonstration> = BTreeMap::new();
        for demonstration in said.iter().filter(|said| !said.answer.is_empty()) {
            let turn_idx = demonstration.turn_idx.map_or(n_turns.checked_sub(1), |turn_idx| usize::try_from(turn_idx).ok());
            last.extend(turn_idx.filter(|&turn_idx| turn_idx < n_turns).map(|turn_idx| (turn_idx, demonstration)));
        }
        let newest = last.values().max_by_key(|said| said.at)?;
        let (mut better, mut worse, mut turn_idx) = (Vec::new(), Vec::new(), 0);
        for segment in &trace.segments {
            let mut before = Vec::new();
            for turn in &segment.turns {
                before.extend(turn.input.iter().cloned());
                if let Some(said) = last.get(&turn_idx) {
                    let alone = |turn| Segment { tools: segment.tools.clone(), turns: vec![turn], tail: Vec::new() };
                    better.push(alone(Turn::new(before.clone(), said.answer.clone())));
                    let given = Turn::new(before.clone(), turn.answer.clone());
                    worse.push(alone(Turn { errors: turn.errors.clone(), ..given }));
                }
                before.push(turn.answer.clone());
                turn_idx += 1;
            }
        }
        let is_same =
            better.iter().zip(&worse).all(|(better, worse)| said_in(&better.turns[0].answer) == said_in(&worse.turns[0].answer));
        let earned = |segments, total: f64, outcome| {
            let by = Giver { kind: GiverKind::Human, name: DEMONSTRATION.to_owned(), config: None };
            let part = Component { name: DEMONSTRATION.to_owned(), value: total, weight: 1.0 };
            let id = RewardId::derived(&[&newest.id.to_string(), &total.to_string()]);
            let rewards = vec![Reward::sum(id, newest.at, by, vec![part])];
            Trace { segments, rewards, outcome, metrics: BTreeMap::new(), ..trace.clone() }
        };
        let worse = (!is_same).then(|| earned(worse, 0.0, TraceOutcome::Failure));
        Some(Self { better: earned(better, 1.0, TraceOutcome::Success), worse })
    }
}

/// What two answers have in common that come to the same: words, and tools with their arguments, however those are written.
fn said_in(answer: &Message) -> (String, Vec<(&str, Value)>) {
    let calls = answer.tool_calls.iter().map(|call| {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(call.arguments.as_str()));
        (call.name.as_str(), arguments)
    });
    (answer.content.text().trim().to_owned(), calls.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigHash, Content, ErrorEvent, Role, Tenant, ToolRequest, ToolSpec, TraceId};
    use serde_json::Map;

    fn said(n: u8, turn_idx: Option<u32>, words: &str) -> Demonstration {
        let at = Time::from_unix_nanos(i64::from(n) * 1_000_000_000);
        Demonstration { id: EventId::derived(&[&n.to_string()]), at, turn_idx, answer: Message::text(Role::Assistant, words) }
    }

    /// An answer that only calls a tool.
    fn calling(arguments: &str) -> Message {
        let call = ToolRequest { id: String::new(), name: "look".into(), arguments: arguments.into(), extra: Map::new() };
        Message { content: Content::None, tool_calls: vec![call], ..Message::text(Role::Assistant, "") }
    }

    fn turn(question: &str, answer: &str) -> Turn {
        Turn::new(vec![Message::text(Role::User, question)], Message::text(Role::Assistant, answer))
    }

    /// Two turns, then a second segment with one.
    fn trace() -> Trace {
        let id = TraceId::derived(&["a"]);
        let config = ConfigHash::from_bytes([1; 32]);
        let mut trace = Trace::new(id, Tenant::default(), Time::from_unix_nanos(0), config);
        let tools = vec![ToolSpec { name: "look".into(), description: None, parameters: Value::Null, extra: Map::new() }];
        trace.segments = vec![
            Segment { tools, turns: vec![turn("one?", "1"), turn("two?", "3")], tail: Vec::new() },
            Segment { turns: vec![turn("three?", "4")], ..Segment::default() },
        ];
        trace
    }

    /// What is trained, behind what.
    fn lessons(trace: &Trace) -> Vec<(Vec<String>, String)> {
        let text = |message: &Message| message.content.text();
        trace.turns().map(|turn| (turn.input.iter().map(text).collect(), text(&turn.answer))).collect()
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn every_answer_in_question_stands_behind_what_came_before_it() {
        let trace = trace();
        let corrected = Corrected::of(&trace, &[said(1, Some(1), "2"), said(2, None, "3")]).unwrap();
        let (first, last) = (strings(&["one?", "1", "two?"]), strings(&["three?"]));
        assert_eq!(lessons(&corrected.better), [(first.clone(), "2".to_owned()), (last.clone(), "3".to_owned())]);
        assert_eq!(corrected.better.segments[0].tools, trace.segments[0].tools);
        let worse = corrected.worse.unwrap();
        assert_eq!(lessons(&worse), [(first, "3".to_owned()), (last, "4".to_owned())]);
        assert_eq!((corrected.better.reward().unwrap().total, worse.reward().unwrap().total), (1.0, 0.0));
        assert_eq!(corrected.better.id, trace.id);
        assert!(corrected.better.check().is_ok() && worse.check().is_ok());
    }

    #[test]
    fn what_was_said_last_counts_and_what_says_nothing_does_not() {
        let said = [said(1, Some(2), "first"), said(2, None, "second"), said(3, Some(2), " \n"), said(4, Some(7), "nowhere")];
        let corrected = Corrected::of(&trace(), &said).unwrap();
        assert_eq!(lessons(&corrected.better), [(strings(&["three?"]), "second".to_owned())]);
        assert_eq!(Corrected::of(&trace(), &said[2..]), None);
        assert_eq!(Corrected::of(&Trace { segments: Vec::new(), ..trace() }, &said), None);
    }

    #[test]
    fn what_was_right_has_nothing_worse() {
        assert_eq!(Corrected::of(&trace(), &[said(1, None, "4\n")]).unwrap().worse, None);
    }

    #[test]
    fn a_call_of_a_tool_is_an_answer() {
        let mut trace = trace();
        trace.segments[1].turns[0].answer = calling(r#"{"order": 1, "in": "shop"}"#);
        let shown = |answer: Message| Corrected::of(&trace, &[Demonstration { answer, ..said(1, None, "") }]).unwrap();
        let same = shown(calling(r#"{"in":"shop","order":1}"#));
        assert_eq!((same.better.turns().next().unwrap().answer.tool_calls.len(), same.worse), (1, None));
        assert!(shown(calling(r#"{"in":"shop","order":2}"#)).worse.is_some());
        assert!(
            shown(Message { content: Content::Text("Wait.".into()), ..calling(r#"{"in":"shop","order":1}"#) }).worse.is_some()
        );
    }

    #[test]
    fn what_broke_stays_broken() {
        let mut trace = trace();
        let broke = ErrorEvent { kind: "policy_provider".into(), message: String::new(), recovered: false };
        trace.segments[1].turns[0].errors.push(broke);
        let corrected = Corrected::of(&trace, &[said(1, None, "3")]).unwrap();
        assert!(corrected.better.broken().is_none() && corrected.worse.unwrap().broken().is_some());
    }
}
