//! Whether a trace is clean: whole, consistent, not there already, and nothing that is held out.

use super::likeness::{Likeness, Signature};
use super::{Bars, HeldOut, Purpose, nobody};
use crate::anonymise::Hint;
use crate::facts::{self, Facts};
use hone_trace::{Content, Giver, GiverKind, GroupId, Message, Role, Trace, TraceId, TraceOutcome};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Why a trace is not clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dirt {
    /// It is not consistent in itself.
    Schema(String),
    /// It was cut off.
    Incomplete(String),
    /// Its rewards contradict themselves.
    Rewards(String),
    /// Another trace says the same.
    Duplicate(TraceId),
    /// Another trace of its scenario says nearly the same.
    NearDuplicate(TraceId),
    /// It belongs to what is held out.
    Leak(String),
}

impl Dirt {
    /// One word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Schema(_) => "schema",
            Self::Incomplete(_) => "incomplete",
            Self::Rewards(_) => "rewards",
            Self::Duplicate(_) => "duplicate",
            Self::NearDuplicate(_) => "near_duplicate",
            Self::Leak(_) => "leak",
        }
    }
}

impl fmt::Display for Dirt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(why) | Self::Incomplete(why) | Self::Rewards(why) | Self::Leak(why) => {
                write!(f, "{}: {why}", self.name())
            }
            Self::Duplicate(other) => write!(f, "says the same as {other}"),
            Self::NearDuplicate(other) => write!(f, "says nearly the same as {other}"),
        }
    }
}

/// Traces that are remembered to find duplicates.
const N_TRACES_MAX: usize = 4_000_000;

/// Looks at traces one after the other.
pub struct Checker {
    purpose: Purpose,
    /// The reward from which a trace counts, for imitation.
    quality: f64,
    held_out: HeldOut,
    seen: HashMap<[u8; 16], Seen>,
    likeness: Likeness,
}

/// What is remembered of a trace to tell others by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) id: TraceId,
    pub(super) group: Option<GroupId>,
    /// Whether it is one to learn from.
    pub(super) is_point: bool,
}

impl Checker {
    /// One that has seen nothing yet, for which any reward is enough.
    pub fn new(purpose: Purpose, likeness: f64, held_out: HeldOut) -> Self {
        Self { purpose, quality: f64::NEG_INFINITY, held_out, seen: HashMap::new(), likeness: Likeness::new(likeness) }
    }

    /// The same with the reward that these bars ask for.
    pub fn of(bars: &Bars, held_out: HeldOut) -> Self {
        Self { quality: bars.quality, ..Self::new(bars.purpose, bars.likeness, held_out) }
    }

    /// Whether a clean trace is one to learn from.
    pub fn is_point(&self, trace: &Trace) -> bool {
        trace.reward().is_some_and(|reward| self.purpose == Purpose::Rl || reward.total >= self.quality)
    }

    /// What is wrong with a trace, if anything is.
    pub fn check(&mut self, trace: &Trace, facts: &Facts) -> Option<Dirt> {
        let wrong = schema(trace).or_else(|| incomplete(trace)).or_else(|| rewards(trace));
        if let Some(why) = self.held_out.has(trace, facts) {
            return Some(Dirt::Leak(why));
        }
        wrong.or_else(|| self.alike(trace, facts))
    }

    fn alike(&mut self, trace: &Trace, facts: &Facts) -> Option<Dirt> {
        let own = Seen { id: trace.id, group: trace.group, is_point: self.is_point(trace) };
        let purpose = self.purpose;
        // A policy may well give one answer twice in a group: that is what the group says of it. And what is worth learning from is not
        // left out for one that earned too little.
        let counts = |other: &Seen| {
            let is_sibling = purpose == Purpose::Rl && own.group.is_some() && own.group == other.group;
            !is_sibling && (other.is_point || !own.is_point)
        };
        let content = facts::content(trace);
        if let Some(other) = self.seen.get(&content).filter(|other| counts(other)) {
            return Some(Dirt::Duplicate(other.id));
        }
        // Answers to who knows what are not compared.
        let signed = facts.scenario.as_ref().map(|scenario| (scenario, Signature::of(&facts::answers(trace))));
        if let Some((scenario, signature)) = &signed
            && let Some(other) = self.likeness.find(scenario, signature, counts)
        {
            return Some(Dirt::NearDuplicate(other));
        }
        if self.seen.len() < N_TRACES_MAX {
            let first = self.seen.entry(content).or_insert(own);
            *first = if own.is_point && !first.is_point { own } else { *first };
        }
        if let Some((scenario, signature)) = signed {
            self.likeness.add(scenario, signature, own);
        }
        None
    }
}

fn schema(trace: &Trace) -> Option<Dirt> {
    if let Err(error) = trace.check() {
        return Some(Dirt::Schema(error.to_string()));
    }
    if trace.category.is_none() {
        return Some(Dirt::Schema("it has no type of task".into()));
    }
    let n_turns = trace.turns().count();
    let says_nothing = |message: &Message| matches!(&message.content, Content::None) || message.content.text().trim().is_empty();
    let empty = trace.turns().position(|turn| says_nothing(&turn.answer) && turn.answer.tool_calls.is_empty());
    match (n_turns, empty) {
        (0, _) => Some(Dirt::Schema("it has no answer".into())),
        (_, Some(turn_idx)) => Some(Dirt::Schema(format!("the answer of turn {} is empty", turn_idx + 1))),
        _ => None,
    }
}

fn incomplete(trace: &Trace) -> Option<Dirt> {
    if trace.outcome == TraceOutcome::Unknown && trace.ended.is_none() && trace.reward().is_none() {
        return Some(Dirt::Incomplete("nobody said how it ended".into()));
    }
    for segment in &trace.segments {
        for (turn, next) in segment.turns.iter().zip(segment.turns.iter().skip(1)) {
            let answered: HashSet<&str> = next
                .input
                .iter()
                .filter(|message| message.role == Role::Tool)
                .filter_map(|message| message.tool_call_id.as_deref())
                .collect();
            let open = turn.answer.tool_calls.iter().find(|call| !call.id.is_empty() && !answered.contains(call.id.as_str()));
            if let Some(call) = open {
                return Some(Dirt::Incomplete(format!("the call {} of {} has no result", call.id, call.name)));
            }
        }
    }
    None
}

/// The largest difference between a total and the sum of its parts that is still rounding.
const ROUNDING: f64 = 1e-6;

/// Who said something, and of which part of which turn, or of the whole.
type Said<'a> = (&'a Giver, Option<(u32, &'a str)>);

/// A giver that was changed may say something else, and so may a model that is asked again, and any of a trace that has grown since: what
/// was said last counts. Another may not. Of a turn, every part is a reward of its own.
fn rewards(trace: &Trace) -> Option<Dirt> {
    let grown = trace.turns().filter_map(|turn| turn.started).max();
    let mut given: HashMap<Said<'_>, f64> = HashMap::new();
    for reward in &trace.rewards {
        let sum: f64 = reward.components.iter().map(|part| part.value * part.weight).sum();
        if !reward.components.is_empty() && (sum - reward.total).abs() > ROUNDING * (1.0 + sum.abs()) {
            let (total, by) = (reward.total, told(&reward.by));
            return Some(Dirt::Rewards(format!("the total {total} by {by} is not the sum of its parts, {sum}")));
        }
        let is_of_less = grown.is_some_and(|grown| reward.at < grown);
        if is_of_less || matches!(reward.by.kind, GiverKind::Judge | GiverKind::Rubric) {
            continue;
        }
        let part = reward.components.first().map_or("", |part| &part.name);
        match given.insert((&reward.by, reward.turn_idx.map(|turn_idx| (turn_idx, part))), reward.total) {
            Some(before) if (before - reward.total).abs() > ROUNDING => {
                return Some(Dirt::Rewards(format!("{} gave {before} and {}", told(&reward.by), reward.total)));
            }
            _ => {}
        }
    }
    None
}

/// Who gave a reward, unless it is somebody.
fn told(giver: &Giver) -> String {
    nobody().told(&giver.name, Hint::of_key("user_name"))
}
