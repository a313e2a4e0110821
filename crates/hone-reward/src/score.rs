//! Scoring: traces and a recipe in, rewards out.
//!
//! A trace gets one reward for the whole, with a component for everything that was weighed (one per criterion of a rubric),
//! and one for each turn that earned a process reward. Ids follow from the trace and the recipe, so scoring twice gives the
//! same rewards. Where a component cannot be measured the trace comes back with the reason, unscored: no part of a total is
//! ever made up.

#[cfg(test)]
mod tests;

use crate::ask::Bill;
use crate::grader::GraderError;
use crate::judge::{Judge, JudgeError, Judged};
use crate::process::{Caps, Process};
use crate::recipe::{Kind, Length, Part, Recipe, RecipeError, Role, Steps};
use crate::rubric::RubricError;
use crate::ruler::Ruler;
use hone_trace::policy::Policy;
use hone_trace::{Component, ConfigHash, Draws, Giver, GiverKind, Reward, RewardId, Time, Trace, TraceOutcome, Turn};
use serde_json::Value;

/// Scores by one recipe.
pub struct Scorer<'a> {
    recipe: &'a Recipe,
    judge: Option<&'a dyn Policy>,
    hash: ConfigHash,
}

/// A trace with its task.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The task as graders see it, such as `{"input": …, "truth": …}`; null where no grader asks.
    pub item: &'a Value,
}

/// What a trace earned.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The reward of the whole trace.
    pub reward: Reward,
    /// Those of single turns. They say where a part of the total was earned, and add nothing to it.
    pub turns: Vec<Reward>,
    /// Whether a rubric's judge saw the trace without its middle.
    pub is_shortened: bool,
    /// What judges took for this trace alone.
    pub bill: Bill,
}

/// A group after scoring. Every trace is there, scored or with the reason why not.
#[derive(Debug)]
pub struct ScoredGroup {
    /// The traces in their order.
    pub traces: Vec<Result<Scored, ScoreError>>,
    /// What the ruler said, where the recipe has one.
    pub ruled: Option<Result<Judged, JudgeError>>,
}

impl ScoredGroup {
    /// How many traces a judge saw without their middle.
    pub fn n_shortened(&self) -> usize {
        let by_ruler = self.ruled.as_ref().and_then(|ruled| ruled.as_ref().ok()).map_or(&[][..], |judged| &judged.shortened);
        let by_rubric = |trace: &Result<Scored, ScoreError>| trace.as_ref().is_ok_and(|scored| scored.is_shortened);
        self.traces.iter().enumerate().filter(|(idx, trace)| by_ruler.contains(idx) || by_rubric(trace)).count()
    }

    /// Everything that judges took, also where it was in vain.
    pub fn bill(&self) -> Bill {
        let mut bill = Bill::default();
        match &self.ruled {
            Some(Ok(judged)) => bill.add(judged.bill.clone()),
            Some(Err(error)) => bill.add(error.bill.clone()),
            None => {}
        }
        for trace in &self.traces {
            bill.add(match trace {
                Ok(scored) => scored.bill.clone(),
                Err(error) => error.bill.clone(),
            });
        }
        bill
    }
}

/// Why a trace was not scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("component `{component}`: {reason}")]
pub struct ScoreError {
    /// Which component.
    pub component: String,
    /// What is wrong with it.
    pub reason: Box<ScoreErrorReason>,
    /// What judges took for this trace alone.
    pub bill: Bill,
}

/// What is wrong with a component.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "each is the error of its kind")]
pub enum ScoreErrorReason {
    #[error(transparent)]
    Grader(#[from] GraderError),
    #[error(transparent)]
    Rubric(#[from] RubricError),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error("its value is not a finite number")]
    NotFinite,
}

impl ScoreErrorReason {
    fn bill(&self) -> Bill {
        match self {
            Self::Grader(GraderError::Unheard { bill, .. }) | Self::Rubric(RubricError { bill, .. }) => bill.clone(),
            _ => Bill::default(),
        }
    }
}

impl<'a> Scorer<'a> {
    /// A scorer by this recipe. What [`lint`](mod@crate::lint) calls an error is refused here; so is a recipe that needs a judge
    /// when there is none.
    pub fn new(recipe: &'a Recipe, judge: Option<&'a dyn Policy>) -> Result<Self, RecipeError> {
        let findings = crate::lint(recipe);
        if let Some(finding) = crate::lint::obstacle(&findings, true) {
            let place = finding.component.as_ref().map_or_else(|| "reward".into(), |name| format!("component `{name}`"));
            return Err(RecipeError { place, what: finding.what.clone() });
        }
        for part in &recipe.components {
            part.kind.check().map_err(|what| RecipeError { place: format!("component `{}`", part.name), what })?;
        }
        let asking = recipe.components.iter().find(|part| part.kind.needs_judge());
        let hash = match (asking, judge) {
            (Some(part), None) => {
                return Err(RecipeError {
                    place: format!("component `{}`", part.name),
                    what: "it needs a judge, and there is none".into(),
                });
            }
            (Some(_), Some(judge)) => ConfigHash::of(format!("{} {}", recipe.hash(), judge.config().hash()).as_bytes()),
            (None, _) => recipe.hash(),
        };
        Ok(Self { recipe, judge, hash })
    }

    /// Who it is, as it stands on rewards.
    pub fn giver(&self) -> Giver {
        let has = |is_kind: fn(&Kind) -> bool| self.recipe.components.iter().any(|part| is_kind(&part.kind));
        let kind = if has(|kind| matches!(kind, Kind::Ruler(_))) {
            GiverKind::Judge
        } else if has(Kind::needs_judge) {
            GiverKind::Rubric
        } else {
            GiverKind::Check
        };
        Giver { kind, name: self.recipe.name.clone(), config: Some(self.hash) }
    }

    /// The signals of the recipe that no turn of this trace has: their components have the value that is set for that.
    pub fn lacking(&self, trace: &Trace) -> impl Iterator<Item = &'a str> {
        self.recipe.components.iter().filter_map(move |part| match &part.kind {
            Kind::Signal(signal) if !signal.is_in(trace) => Some(signal.signal.as_str()),
            _ => None,
        })
    }

    /// Scores one trace alone; a ruler then has nothing to compare it with.
    pub fn score(&self, attempt: Attempt<'_>, seed: u64, at: Time) -> Result<Scored, ScoreError> {
        self.score_group(&[attempt], seed, at).traces.swap_remove(0)
    }

    /// Scores the traces of one group.
    pub fn score_group(&self, group: &[Attempt<'_>], seed: u64, at: Time) -> ScoredGroup {
        let ruled = self.rule(group, seed);
        let score = |(idx, attempt): (usize, &Attempt<'_>)| {
            let rank = match &ruled {
                Some((_, Ok(judged))) => Some((judged.scores[idx], judged.explanations[idx].as_str())),
                Some((part, Err(error))) => {
                    let reason = Box::new(error.clone().into());
                    return Err(ScoreError { component: part.name.clone(), reason, bill: Bill::default() });
                }
                None => None,
            };
            let mut weighed = Weighed::default();
            match self.weigh(*attempt, rank, seed, &mut weighed) {
                Ok(()) => Ok(self.reward(attempt.trace, weighed, group, seed, at)),
                Err((part, reason)) => {
                    weighed.bill.add(reason.bill());
                    Err(ScoreError { component: part.name.clone(), reason, bill: weighed.bill })
                }
            }
        };
        let traces = group.iter().enumerate().map(score).collect();
        ScoredGroup { traces, ruled: ruled.map(|(_, ruled)| ruled) }
    }

    fn judge(&self) -> &'a dyn Policy {
        self.judge.expect("a recipe that needs a judge has one")
    }

    fn rule(&self, group: &[Attempt<'_>], seed: u64) -> Option<(&Part, Result<Judged, JudgeError>)> {
        let (part, options) = self.recipe.ruler()?;
        let ruler = Ruler::new(self.judge(), options.clone()).expect("options are checked when the scorer is made");
        let traces: Vec<&Trace> = group.iter().map(|attempt| attempt.trace).collect();
        Some((part, ruler.judge(&traces, seed)))
    }

    /// Measures everything; what was measured and paid for before a component failed stays in `weighed`.
    fn weigh(
        &self,
        attempt: Attempt<'_>,
        rank: Option<(f64, &str)>,
        seed: u64,
        weighed: &mut Weighed,
    ) -> Result<(), (&Part, Box<ScoreErrorReason>)> {
        let mut primary = 0.0;
        // Process rewards are capped by the primary, so they come last.
        let (last, first): (Vec<&Part>, Vec<&Part>) =
            self.recipe.components.iter().partition(|part| matches!(part.kind, Kind::Process(_)));
        for part in first {
            let n_before = weighed.components.len();
            self.weigh_part(part, attempt, rank, seed, weighed).map_err(|reason| (part, Box::new(reason)))?;
            let worth: f64 = weighed.components[n_before..].iter().map(|component| component.value * component.weight).sum();
            if !worth.is_finite() {
                return Err((part, Box::new(ScoreErrorReason::NotFinite)));
            }
            if part.role == Role::Primary {
                primary += worth;
            }
        }
        let mut caps = Caps::new(primary, self.recipe.primary_scale());
        for part in last {
            if let Kind::Process(process) = &part.kind {
                self.process(process, part, attempt.trace, &mut caps, weighed).map_err(|reason| (part, Box::new(reason)))?;
            }
        }
        Ok(())
    }

    fn weigh_part(
        &self,
        part: &Part,
        attempt: Attempt<'_>,
        rank: Option<(f64, &str)>,
        seed: u64,
        weighed: &mut Weighed,
    ) -> Result<(), ScoreErrorReason> {
        let trace = attempt.trace;
        match &part.kind {
            Kind::Signal(signal) => weighed.push(part, signal.of_trace(trace)),
            Kind::Outcome(_) => weighed.push(part, f64::from(trace.outcome == TraceOutcome::Success)),
            Kind::Length(length) => weighed.push(part, length.of(trace)),
            Kind::Steps(steps) => weighed.push(part, steps.of(trace)),
            Kind::Format(_) => weighed.push(part, readable(trace)),
            Kind::Process(_) => {}
            Kind::Grader(graded) => {
                let grade = graded.grade(trace, attempt.item, self.judge, part_seed(seed, trace, part))?;
                weighed.push(part, grade.score);
                weighed.words.extend(grade.words.iter().map(|words| format!("{}: {words}", part.name)));
                weighed.bill.add(grade.bill);
            }
            Kind::Rubric(rubric) => {
                let graded = rubric.grade(trace, self.judge(), part_seed(seed, trace, part))?;
                for (idx, (criterion, share)) in rubric.criteria.iter().zip(rubric.shares()).enumerate() {
                    let name = format!("{}.{}", part.name, criterion.id);
                    weighed.words.push(format!("{name}: {}", graded.explanations[idx]));
                    weighed.components.push(Component { name, value: graded.scores[idx], weight: part.weight * share });
                }
                weighed.is_shortened |= graded.is_shortened;
                weighed.bill.add(graded.bill);
            }
            Kind::Ruler(options) => {
                let (score, words) = rank.expect("a group with a ruler is ranked first");
                weighed.push(part, score);
                weighed.words.extend(options.explain.then(|| format!("{}: {words}", part.name)));
            }
        }
        Ok(())
    }

    fn process(
        &self,
        process: &Process,
        part: &Part,
        trace: &Trace,
        caps: &mut Caps,
        weighed: &mut Weighed,
    ) -> Result<(), ScoreErrorReason> {
        let per_turn = process.per_turn(trace, part.weight, caps);
        let total: f64 = per_turn.iter().sum();
        if !total.is_finite() {
            return Err(ScoreErrorReason::NotFinite);
        }
        weighed.push(part, total);
        for (turn_idx, &value) in per_turn.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            weighed.turns.push((turn_idx, Component { name: part.name.clone(), value, weight: part.weight }));
        }
        Ok(())
    }

    fn reward(&self, trace: &Trace, weighed: Weighed, group: &[Attempt<'_>], seed: u64, at: Time) -> Scored {
        let mut facts = vec![trace.id.to_string(), self.hash.to_string()];
        if self.recipe.needs_judge() {
            facts.push(seed.to_string());
        }
        if self.recipe.ruler().is_some() {
            facts.extend(group.iter().map(|attempt| attempt.trace.id.to_string()));
        }
        let id = |turn: &str| {
            let facts: Vec<&str> = facts.iter().map(String::as_str).chain([turn]).collect();
            RewardId::derived(&facts)
        };
        let turn = |(turn_idx, component): (usize, Component)| Reward {
            turn_idx: u32::try_from(turn_idx).ok(),
            ..Reward::sum(id(&format!("{turn_idx} {}", component.name)), at, self.giver(), vec![component])
        };
        let explanation = (!weighed.words.is_empty()).then(|| weighed.words.join("\n"));
        let reward = Reward { explanation, ..Reward::sum(id("trace"), at, self.giver(), weighed.components) };
        let turns = weighed.turns.into_iter().map(turn).collect();
        Scored { reward, turns, is_shortened: weighed.is_shortened, bill: weighed.bill }
    }
}

/// Each judged component of each trace draws on its own.
fn part_seed(seed: u64, trace: &Trace, part: &Part) -> u64 {
    Draws::new(seed, &["reward", &trace.id.to_string(), &part.name]).bits()
}

/// What was measured of one trace.
#[derive(Default)]
struct Weighed {
    components: Vec<Component>,
    turns: Vec<(usize, Component)>,
    words: Vec<String>,
    is_shortened: bool,
    bill: Bill,
}

impl Weighed {
    fn push(&mut self, part: &Part, value: f64) {
        self.components.push(Component { name: part.name.clone(), value, weight: part.weight });
    }
}

impl Length {
    /// Minus the cost. Tokens are counted by the model calls, and where these do not say, as a quarter of the bytes written.
    fn of(&self, trace: &Trace) -> f64 {
        let n_tokens = trace.turns().fold(0u64, |sum, turn| {
            let told = turn.llm_calls.iter().fold(0u64, |sum, call| sum.saturating_add(call.tokens_out));
            sum.saturating_add(if told > 0 { told } else { (written(turn) / 4) as u64 })
        });
        -(n_tokens.saturating_sub(self.free_tokens) as f64 * self.per_token).min(self.cost_max)
    }
}

impl Steps {
    /// Minus the cost.
    fn of(&self, trace: &Trace) -> f64 {
        let n_turns = trace.turns().count() as u64;
        -(n_turns.saturating_sub(self.free_turns) as f64 * self.per_turn).min(self.cost_max)
    }
}

fn written(turn: &Turn) -> usize {
    let calls = turn.answer.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
    turn.answer.content.text().len() + turn.answer.reasoning.as_ref().map_or(0, String::len) + calls
}

/// The share of turns that say something, and something that could be read: no error on the turn says otherwise, nor does the
/// world's own signal `format`.
fn readable(trace: &Trace) -> f64 {
    let is_readable = |turn: &Turn| {
        let is_empty = turn.answer.tool_calls.is_empty() && turn.answer.content.text().trim().is_empty();
        let is_refused =
            turn.errors.iter().any(|error| error.kind.starts_with("unparsable") || error.kind.starts_with("policy_"));
        !is_empty && !is_refused && turn.signals.get("format").is_none_or(|format| *format > 0.0)
    };
    let (n_turns, n_readable) = (trace.turns().count(), trace.turns().filter(|turn| is_readable(turn)).count());
    if n_turns == 0 { 0.0 } else { n_readable as f64 / n_turns as f64 }
}
