//! The staged hand-over of traffic: 10 → 50 → 100 %, each step on evidence, and back at any time on evidence of harm.
//!
//! Rows come in one by one; after each the canary holds, moves to the next stage or is rolled back. Quality is compared by AIPW
//! scores under a one-sided confidence sequence with a budget of its own: back when the upper bound is below 0, on when the lower
//! one excludes the harm that the stage tolerates. Guardrails share another budget: cost and latency by the same
//! sequence, errors and the sample ratio by exact e-processes. Outcomes that have not come do not count as rows, and those that one
//! arm lacks beyond the other count against the canary when it would go on, so missing data never promotes. It takes nothing back either.
//!
//! A person may pause, resume, promote and abort at any time. What a person decided stands: the machine raises no share that a person
//! holds, and brings nothing back that a person ended. It may only abort, and what has ended stays as it ended.
//!
//! Knows nothing of time, of who serves, or of where decisions are kept. A row counts when it is fed: the caller decides how long to
//! wait for an outcome, and by the same rule for both arms.

mod decision;
mod evidence;
mod outcomes;
mod row;
mod settings;

pub use decision::{Action, Actor, ArmNumbers, Bound, Decision, Numbers, Reason};
pub use row::{Fact, QUALITY_MAX, Row, RowError};
pub use settings::{AtEnd, Rule, Settings, SettingsError, Stage};

use crate::Lacking;
use evidence::Evidence;
use hone_trace::V1;
use serde::{Deserialize, Serialize};

/// Where a canary stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Rows decide.
    Running,
    /// Only a person moves it on; harm still takes it back.
    Paused,
    /// It has all of the traffic.
    Promoted,
    /// It has none.
    RolledBack,
}

/// What a person can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Stay at this share.
    Pause,
    /// Let rows decide again.
    Resume,
    /// Go to the next stage without waiting for rows.
    Promote,
    /// Take it back.
    Abort,
}

/// A request that comes too late or at the wrong time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// What has ended stays as it ended.
    #[error("the canary has ended as {0:?}; start a new one")]
    Ended(State),
    /// It runs already.
    #[error("the canary is not paused")]
    NotPaused,
}

/// A canary with all that it remembers. Written down and read again it decides the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Canary {
    v: V1,
    settings: Settings,
    state: State,
    stage_idx: usize,
    /// Outcomes of the canary before this stage.
    n_canary_before: u64,
    evidence: Evidence,
}

/// A canary as it was written down, by whomever.
#[derive(Deserialize)]
struct Written {
    v: V1,
    settings: Settings,
    state: State,
    stage_idx: usize,
    n_canary_before: u64,
    evidence: Evidence,
}

impl TryFrom<Written> for Canary {
    type Error = SettingsError;

    fn try_from(written: Written) -> Result<Self, SettingsError> {
        let Written { v, settings, state, stage_idx, n_canary_before, evidence } = written;
        settings.check()?;
        if stage_idx >= settings.stages.len() {
            return Err(SettingsError { name: "stage_idx", value: stage_idx.to_string(), wanted: "that of a stage" });
        }
        if n_canary_before > evidence.n_canary() {
            let value = n_canary_before.to_string();
            return Err(SettingsError { name: "n_canary_before", value, wanted: "at most the outcomes so far" });
        }
        Ok(Self { v, settings, state, stage_idx, n_canary_before, evidence })
    }
}

impl Canary {
    /// A canary at its first stage.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let evidence = Evidence::new(&settings);
        Ok(Self { v: V1, settings, state: State::Running, stage_idx: 0, n_canary_before: 0, evidence })
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// What decides about it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The share of new episodes that it gets.
    pub fn share(&self) -> f64 {
        match self.state {
            State::Running | State::Paused => self.settings.stages[self.stage_idx].share,
            State::Promoted => 1.0,
            State::RolledBack => 0.0,
        }
    }

    /// Takes a row in, and says what changes because of it, if anything does. Rows of a canary that has ended change nothing.
    pub fn observe(&mut self, row: &Row) -> Result<Option<Decision>, RowError> {
        row.check()?;
        if self.has_ended() {
            return Ok(None);
        }
        self.evidence.add(row);
        if let Some(reason) = self.evidence.harm(&self.settings, row.fact) {
            self.state = State::RolledBack;
            return Ok(Some(self.decided(Action::RollBack, Actor::Machine, reason)));
        }
        // A mere assignment or answer shows nothing about quality.
        if self.state == State::Paused || matches!(row.fact, Fact::Assigned | Fact::Answered { .. }) {
            return Ok(None);
        }
        if self.missing_piece().is_none() {
            return Ok(Some(self.advance(Actor::Machine, Reason::Shown)));
        }
        if self.evidence.n_rows() < self.settings.n_rows_max {
            return Ok(None);
        }
        let (state, action) = match self.settings.at_end {
            AtEnd::Hold => (State::Paused, Action::Pause),
            AtEnd::RollBack => (State::RolledBack, Action::RollBack),
        };
        self.state = state;
        Ok(Some(self.decided(action, Actor::Machine, Reason::RowsSpent)))
    }

    /// Does what a person asks for.
    pub fn command(&mut self, command: Command) -> Result<Decision, CommandError> {
        if self.has_ended() {
            return Err(CommandError::Ended(self.state));
        }
        let (state, action) = match command {
            Command::Pause => (State::Paused, Action::Pause),
            Command::Resume if self.state == State::Paused => (State::Running, Action::Resume),
            Command::Resume => return Err(CommandError::NotPaused),
            Command::Abort => (State::RolledBack, Action::RollBack),
            Command::Promote => return Ok(self.advance(Actor::Person, Reason::Asked)),
        };
        self.state = state;
        Ok(self.decided(action, Actor::Person, Reason::Asked))
    }

    /// Takes a step that was decided before, by rules that may have been others: where traffic went by it, it is not undone because these
    /// rules would not take it. Nothing changes where these rules took it too.
    pub(crate) fn stand_by(&mut self, decision: &Decision) -> Option<Decision> {
        match decision.action {
            _ if self.has_ended() => None,
            Action::Promote if decision.numbers.stage_idx == self.stage_idx => Some(self.advance(decision.by, decision.reason)),
            Action::RollBack => {
                self.state = State::RolledBack;
                Some(self.decided(Action::RollBack, decision.by, decision.reason))
            }
            _ => None,
        }
    }

    /// Where it stands with its numbers, and what it waits for.
    pub fn report(&self) -> Decision {
        let reason = match self.state {
            State::Promoted | State::RolledBack => Reason::Ended,
            State::Paused => Reason::Paused,
            State::Running => self.missing_piece().unwrap_or(Reason::Shown),
        };
        self.decided(Action::Hold, Actor::Machine, reason)
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Promoted | State::RolledBack)
    }

    /// What this stage still waits for; `None` when it may be left upwards.
    fn missing_piece(&self) -> Option<Reason> {
        let stage = &self.settings.stages[self.stage_idx];
        if self.evidence.n_canary() - self.n_canary_before < stage.n_canary_min {
            return Some(Reason::TooFewRows);
        }
        if !self.evidence.guards_have(stage.n_canary_min) {
            return Some(Reason::GuardMissing);
        }
        let harm_max = stage.harm_max.unwrap_or(self.settings.rule.margin());
        let sequence = self.settings.step_sequence(self.stage_idx);
        let is_shown = |lacking: Lacking| {
            self.evidence.excludes_harm_of(harm_max, lacking, sequence)
                && (!self.is_last_stage() || self.evidence.shows_gain(lacking, sequence))
        };
        if is_shown(self.evidence.lacking()) {
            None
        } else if is_shown(Lacking::default()) {
            Some(Reason::OutcomesMissing)
        } else {
            Some(Reason::NotShown)
        }
    }

    fn is_last_stage(&self) -> bool {
        self.stage_idx + 1 == self.settings.stages.len()
    }

    fn advance(&mut self, by: Actor, reason: Reason) -> Decision {
        let stage_idx = self.stage_idx;
        if self.is_last_stage() {
            self.state = State::Promoted;
        } else {
            self.stage_idx += 1;
            self.n_canary_before = self.evidence.n_canary();
        }
        Decision { share: self.share(), ..self.decided_at(stage_idx, Action::Promote, by, reason) }
    }

    fn decided(&self, action: Action, by: Actor, reason: Reason) -> Decision {
        self.decided_at(self.stage_idx, action, by, reason)
    }

    fn decided_at(&self, stage_idx: usize, action: Action, by: Actor, reason: Reason) -> Decision {
        Decision { action, by, reason, share: self.share(), numbers: self.evidence.numbers(&self.settings, stage_idx) }
    }
}
