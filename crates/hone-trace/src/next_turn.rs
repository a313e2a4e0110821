//! A turn that an episode went on with after it was written: how a trace grows while the agent is still at work.
//!
//! Turns are appended one by one, each with its number, so that one that is sent twice or out of order is known.
//! Knows nothing of where traces are kept.

use crate::trace::check_turn;
use crate::{Segment, Time, ToolSpec, Trace, TraceError, Turn, V1};
use serde::{Deserialize, Serialize};

/// The most turns that an episode grows to.
pub const TURNS_MAX: u32 = 10_000;

/// A turn that an episode went on with after it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NextTurn {
    /// Version of this record.
    pub v: V1,
    /// Its number, counted over all segments: that of the turn before and one.
    pub turn_idx: u32,
    /// The tools of a new segment, where history was rewritten before this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Vec<ToolSpec>>,
    /// The turn.
    pub turn: Turn,
    /// When its answer was there.
    pub ended: Time,
}

impl NextTurn {
    /// Checks what the types cannot say: every record that enters the store has passed this.
    pub fn check(&self) -> Result<(), TraceError> {
        if self.turn_idx >= TURNS_MAX {
            return Err(TraceError::TooLong(self.turn_idx));
        }
        check_turn(self.turn_idx as usize, &self.turn)
    }
}

impl Trace {
    /// Appends the turn; the episode now ended when its answer was there.
    ///
    /// What was said after the last answer opens the turn's input, unless the input says it itself.
    pub fn go_on(&mut self, next: NextTurn) {
        let NextTurn { segment, mut turn, ended, .. } = next;
        if segment.is_some() || self.segments.is_empty() {
            self.segments.push(Segment { tools: segment.unwrap_or_default(), ..Segment::default() });
        }
        let last = self.segments.last_mut().expect("one was pushed if there was none");
        let mut input = std::mem::take(&mut last.tail);
        if !turn.input.starts_with(&input) {
            input.append(&mut turn.input);
            turn.input = input;
        }
        last.turns.push(turn);
        self.ended = Some(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, LlmCall, Message, Role, Sampled, Tenant, TraceId};

    fn said(role: Role, text: &str) -> Message {
        Message::text(role, text)
    }

    fn next(turn_idx: u32, input: &[&str]) -> NextTurn {
        let input = input.iter().map(|text| said(Role::User, text)).collect();
        let turn = Turn::new(input, said(Role::Assistant, &format!("answer {turn_idx}")));
        NextTurn { v: V1, turn_idx, segment: None, turn, ended: Time::from_unix_nanos(i64::from(turn_idx)) }
    }

    fn new_segment(turn_idx: u32, input: &[&str]) -> NextTurn {
        NextTurn { segment: Some(Vec::new()), ..next(turn_idx, input) }
    }

    /// The trace as a line: segments in brackets, inputs and answers in order, then the tail.
    fn shown(trace: &Trace) -> String {
        let texts = |messages: &[Message]| messages.iter().map(|message| message.content.text() + " ").collect::<String>();
        let turn = |turn: &Turn| texts(&turn.input) + &texts(std::slice::from_ref(&turn.answer));
        let segment =
            |segment: &Segment| format!("[{}]", segment.turns.iter().map(turn).collect::<String>() + &texts(&segment.tail));
        trace.segments.iter().map(segment).collect()
    }

    fn check(tail: &[&str], nexts: Vec<NextTurn>, expected: &str) {
        let mut trace =
            Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
        if !tail.is_empty() {
            let tail = tail.iter().map(|text| said(Role::User, text)).collect();
            trace.segments.push(Segment { tail, ..Segment::default() });
        }
        let ended = nexts.last().map(|next| next.ended);
        for next in nexts {
            trace.go_on(next);
        }
        assert_eq!(shown(&trace), expected);
        assert_eq!(trace.ended, ended);
    }

    #[test]
    fn turns_follow_each_other() {
        check(&[], vec![next(0, &["a"]), next(1, &["b"])], "[a answer 0 b answer 1 ]");
    }

    #[test]
    fn rewritten_history_begins_a_segment() {
        check(&[], vec![next(0, &["a"]), new_segment(1, &["b"]), next(2, &[])], "[a answer 0 ][b answer 1 answer 2 ]");
    }

    #[test]
    fn what_was_said_after_the_last_answer_stays_before_the_next() {
        check(&["a"], vec![next(0, &["b"])], "[a b answer 0 ]");
        check(&["a"], vec![next(0, &["a", "b"])], "[a b answer 0 ]");
        check(&["a"], vec![new_segment(0, &["b"])], "[a ][b answer 0 ]");
    }

    #[test]
    fn what_makes_a_turn_of_a_trace_inconsistent_makes_a_next_turn_so() {
        assert_eq!(next(3, &["a"]).check(), Ok(()));
        assert_eq!(next(TURNS_MAX, &["a"]).check(), Err(TraceError::TooLong(TURNS_MAX)));
        let mut costly = next(3, &["a"]);
        costly.turn.llm_calls.push(LlmCall { cost_usd: Some(f64::NAN), ..LlmCall::default() });
        let error = costly.check().expect_err("a cost is a number").to_string();
        assert_eq!(error, "the cost of a model call in turn 4 is not a finite number");
        let mut sampled = next(3, &["a"]);
        sampled.turn.sampled = Some(Sampled { ids: vec![1, 2], logprobs: vec![-0.5], ..Sampled::default() });
        assert_eq!(sampled.check(), Err(TraceError::Logprobs { turn_idx: 3, n_ids: 2, n_logprobs: 1 }));
    }
}
