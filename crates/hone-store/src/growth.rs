//! A trace that grows: the turn as a row, what a list then shows of its trace, and the whole of it when it is read.
//!
//! A trace's own body is never written again. What both databases decide alike about a turn is decided here.
//! Knows nothing of SQL.

use crate::row::Json;
use hone_trace::store::StoreError;
use hone_trace::{ErrorEvent, Message, NextTurn, Role, Time, Trace, TraceId, Turn, V1};

/// A turn that a trace goes on with, encoded.
pub(crate) struct TurnRow {
    pub(crate) trace: [u8; 16],
    pub(crate) turn_idx: i64,
    pub(crate) n_tokens: i64,
    pub(crate) cost_usd: f64,
    pub(crate) json: Json,
}

impl TurnRow {
    pub(crate) fn of(trace: TraceId, next: &NextTurn) -> Result<Self, StoreError> {
        let what = || turn_of(trace, next.turn_idx);
        next.check().map_err(|error| StoreError::Invalid { what: what(), reason: error.to_string() })?;
        Ok(Self {
            trace: trace.bytes(),
            turn_idx: i64::from(next.turn_idx),
            n_tokens: i64::try_from(next.turn.n_tokens()).unwrap_or(i64::MAX),
            cost_usd: next.turn.cost_usd(),
            json: Json::of(next, what)?,
        })
    }
}

/// What a list shows of a trace and a turn changes.
pub(crate) struct Grown {
    /// The trace's number in the store.
    pub(crate) seq: i64,
    pub(crate) n_turns: i64,
    pub(crate) n_tokens: i64,
    pub(crate) cost_usd: f64,
}

/// What is to be done with a turn.
pub(crate) enum Step {
    /// It is the next one, and is counted: write it.
    Write,
    /// There is one under its number: compare them.
    Compare,
    /// The turns before it are missing.
    Gap,
}

impl Grown {
    pub(crate) fn step(&mut self, row: &TurnRow) -> Step {
        match row.turn_idx.cmp(&self.n_turns) {
            std::cmp::Ordering::Less => Step::Compare,
            std::cmp::Ordering::Greater => Step::Gap,
            std::cmp::Ordering::Equal => {
                self.n_turns += 1;
                self.n_tokens = self.n_tokens.saturating_add(row.n_tokens);
                self.cost_usd += row.cost_usd;
                Step::Write
            }
        }
    }
}

/// Appends the turns that a trace went on with, in their order; a gap means that one of them is lost.
pub(crate) fn append(trace: &mut Trace, turns: impl IntoIterator<Item = NextTurn>) -> Result<(), StoreError> {
    let mut turns = turns.into_iter().peekable();
    if turns.peek().is_none() {
        return Ok(());
    }
    for (next, turn_idx) in turns.zip(trace.turns().count()..) {
        if next.turn_idx as usize != turn_idx {
            let reason = format!("turn {} stands where turn {} is due", u64::from(next.turn_idx) + 1, turn_idx + 1);
            return Err(StoreError::Damaged { what: format!("trace {}", trace.id), reason });
        }
        trace.go_on(next);
    }
    Ok(())
}

/// What a back-up holds in the place of a turn that is damaged or gone, so that the turns after it have their place.
pub(crate) fn stand_in(turn_idx: u32, ended: Time) -> NextTurn {
    let mut turn = Turn::new(Vec::new(), Message::text(Role::Assistant, ""));
    let message = "this turn was damaged when the back-up was taken, and left out".to_owned();
    turn.errors.push(ErrorEvent { kind: "left_out".to_owned(), recovered: false, message });
    NextTurn { v: V1, turn_idx, segment: None, turn, ended }
}

pub(crate) fn is_stand_in(next: &NextTurn) -> bool {
    *next == stand_in(next.turn_idx, next.ended)
}

/// Whether this text of a turn only holds a place: nothing of the turn was counted then.
pub(crate) fn holds_place(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|next| is_stand_in(&next))
}

/// How messages name a turn: people count from 1.
pub(crate) fn turn_of(trace: TraceId, turn_idx: u32) -> String {
    format!("turn {} of trace {trace}", u64::from(turn_idx) + 1)
}
