//! RULER: one call of a judge model ranks a whole group.
//!
//! The judge sees the task once and then every trajectory under an id of its own, and scores each from 0 to 1. Scores are
//! only ever compared inside a group, so the judge needs no absolute scale. Unlike the first implementations of this idea:
//!
//! - Scores are matched by id, never by position. Ids are drawn anew for every call, so no trajectory can name a sibling.
//! - The order is shuffled, and `repeats` calls with other orders are averaged; how far they agree is told.
//! - Missing, repeated, unknown ids and scores out of range are told to the judge, who tries again. After `n_retries` the
//!   group comes back as an error that names its traces. Nothing is dropped.
//! - Equal trajectories are shown once and share their score.
//! - A group that is larger than the judge's context is judged in parts with common anchors ([`scale`]), and in smaller ones where
//!   the judge finds a part too long.
//!
//! Knows nothing of providers, worlds or training.

mod prompt;
mod scale;
#[cfg(test)]
mod tests;

use crate::ask::{self, Bill, Heard, Patience, Question, Unheard};
use crate::judge::{Judge, JudgeError, JudgeErrorReason, Judged, Mismatch, Shown, exact_schema};
use crate::statistics::{Agreement, mean};
use hone_trace::policy::Policy;
use hone_trace::{Component, ConfigHash, Draws, Giver, GiverKind, Reward, RewardId, Time, Trace, TraceId};
use prompt::Sheet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use prompt::DEFAULT_RUBRIC;

/// The bytes of a token where much is JSON, names and figures. Of plain prose it is four.
const TOKEN_BYTES: usize = 3;
/// The tokens that a judge writes about one trajectory: its id, a sentence or two, a score.
const ANSWER_TOKENS: usize = 128;

/// A judge that ranks groups by one call of a model.
pub struct Ruler<'a> {
    policy: &'a dyn Policy,
    options: RulerOptions,
}

/// How a group is ranked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RulerOptions {
    /// What a good trajectory is, in the user's words; [`DEFAULT_RUBRIC`] where not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rubric: Option<String>,
    /// How often a group is judged, each time in another order.
    pub repeats: u32,
    /// How often a call is made again whose answer does not fit.
    pub n_retries: u32,
    /// How many bytes a question to the judge has at most; four are about a token. A judge whose context is known to be shorter is
    /// asked less at once.
    pub context_bytes_max: usize,
    /// How many trajectories the parts of a large group have in common.
    pub n_anchors: usize,
    /// How many tokens the judge writes at most in one call.
    pub answer_tokens_max: u64,
    /// Whether the judge's words are kept on the rewards.
    pub explain: bool,
    /// Whether the schema spells out ids, order and score steps: for judges that decode by a grammar. Where not given, a judge that is
    /// known to is asked so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_schema: Option<bool>,
}

impl Default for RulerOptions {
    fn default() -> Self {
        Self {
            rubric: None,
            repeats: 1,
            n_retries: 2,
            context_bytes_max: 256 << 10,
            n_anchors: 3,
            answer_tokens_max: 4096,
            explain: false,
            exact_schema: None,
        }
    }
}

impl RulerOptions {
    /// Says what is out of bounds.
    pub fn check(&self) -> Result<(), RulerOptionError> {
        let bounds = [
            ("repeats", u64::from(self.repeats), 1, 16),
            ("n_retries", u64::from(self.n_retries), 0, 16),
            ("n_anchors", self.n_anchors as u64, 1, 16),
            ("context_bytes_max", self.context_bytes_max as u64, 1 << 10, 64 << 20),
            ("answer_tokens_max", self.answer_tokens_max, 16, 1 << 20),
        ];
        match bounds.into_iter().find(|(_, value, min, max)| !(min..=max).contains(&value)) {
            Some((name, value, min, max)) => Err(RulerOptionError { name, value, min, max }),
            None => Ok(()),
        }
    }
}

/// An option that is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is {value}, and must be between {min} and {max}")]
pub struct RulerOptionError {
    name: &'static str,
    value: u64,
    min: u64,
    max: u64,
}

/// What a question may take of the judge's context.
#[derive(Debug, Clone, Copy)]
struct Room {
    bytes_max: usize,
    /// What is kept free for the answer, for each trajectory.
    answer_bytes: usize,
}

impl<'a> Ruler<'a> {
    /// A judge over this model.
    pub fn new(policy: &'a dyn Policy, options: RulerOptions) -> Result<Self, RulerOptionError> {
        options.check()?;
        Ok(Self { policy, options })
    }

    /// The rewards of a judged group, in its order. Judged again with the same seed they have the same ids.
    pub fn rewards(&self, group: &[&Trace], judged: &Judged, seed: u64, at: Time) -> Vec<Reward> {
        let options = serde_json::to_string(&self.options).expect("options have string keys");
        let (giver, group_print) = (self.giver(), fingerprint(group));
        let facts = [group_print.as_str(), &self.policy.config().hash().to_string(), &options, &seed.to_string()];
        let reward = |(trace_idx, trace): (usize, &&Trace)| {
            let id = RewardId::derived(&[&[trace.id.to_string().as_str(), "ruler"], &facts[..]].concat());
            let score = Component { name: "ruler".into(), value: judged.scores[trace_idx], weight: 1.0 };
            let explanation = self.options.explain.then(|| judged.explanations[trace_idx].clone());
            Reward { explanation, ..Reward::sum(id, at, giver.clone(), vec![score]) }
        };
        group.iter().enumerate().map(reward).collect()
    }

    /// What the options allow, or less where the judge's context is shorter: question and answer share it.
    fn room(&self) -> Room {
        let bytes_max = self.options.context_bytes_max;
        let Some(n_tokens) = self.policy.context_tokens() else { return Room { bytes_max, answer_bytes: 0 } };
        Room { bytes_max: bytes_max.min(n_tokens.saturating_mul(TOKEN_BYTES)), answer_bytes: ANSWER_TOKENS * TOKEN_BYTES }
    }

    /// Judges the group as often as is asked for, in parts of this size.
    fn judge_in(&self, room: Room, group: &[&Trace], seed: u64) -> Result<Judged, JudgeError> {
        let no_room = |reason| JudgeError { reason, bill: Bill::default() };
        let sheet = Sheet::new(group, &self.options, room).map_err(no_room)?;
        let (group_print, mut rankings, mut failed) = (fingerprint(group), Vec::new(), Vec::new());
        for repeat_idx in 0..self.options.repeats {
            let draws = Draws::new(seed, &["ruler", &group_print, &repeat_idx.to_string()]);
            let ranking = if group.is_empty() { Ok(Ranking::new(0)) } else { self.once(&sheet, draws) };
            match ranking {
                Ok(ranking) => rankings.push(ranking),
                Err((unheard, bill)) => {
                    let traces =
                        |&member: &usize| sheet.members[member].traces.iter().map(|&idx| group[idx].id).collect::<Vec<TraceId>>();
                    let reason = JudgeErrorReason::Unheard(unheard.map(|mismatch| mismatch.map(traces)));
                    failed.push(JudgeError { reason, bill });
                }
            }
        }
        if rankings.is_empty() {
            let mut error = failed.swap_remove(0);
            failed.into_iter().for_each(|other| error.bill.add(other.bill));
            return Err(error);
        }
        Ok(merge(&sheet, group.len(), rankings, failed))
    }

    /// Judges the group once, in as many parts as it needs.
    fn once(&self, sheet: &Sheet, mut draws: Draws) -> Result<Ranking, Failed> {
        let mut order: Vec<usize> = (0..sheet.members.len()).collect();
        draws.shuffle(&mut order);
        let n_first = sheet.n_fitting(&order, 0);
        let rest = order.split_off(n_first);
        let mut ranking = Ranking::new(sheet.members.len());
        let first = self.call(sheet, &order, &mut draws, &mut ranking)?;
        let anchors = scale::anchors(&first, self.options.n_anchors);
        let mut rest = rest.as_slice();
        while !rest.is_empty() {
            let anchor_bytes = anchors.iter().map(|&(member, _)| sheet.n_bytes(member)).sum();
            let (now, later) = rest.split_at(sheet.n_fitting(rest, anchor_bytes).max(1));
            rest = later;
            let mut part: Vec<usize> = anchors.iter().map(|&(member, _)| member).chain(now.iter().copied()).collect();
            draws.shuffle(&mut part);
            let scores = self.call(sheet, &part, &mut draws, &mut ranking)?;
            let scale = scale::Scale::fit(&anchors, &scores);
            now.iter().for_each(|&member| ranking.scores[member] = scale.apply(ranking.scores[member]));
        }
        scale::squeeze(&mut ranking.scores);
        Ok(ranking)
    }

    /// Shows some members in this order, notes what the judge says of those that have no score yet, and returns all scores.
    fn call(
        &self,
        sheet: &Sheet,
        part: &[usize],
        draws: &mut Draws,
        ranking: &mut Ranking,
    ) -> Result<BTreeMap<usize, f64>, Failed> {
        let ids = prompt::ids(part.len(), draws);
        let is_exact = self.options.exact_schema.unwrap_or_else(|| self.policy.keeps_to_schemas());
        let schema = if is_exact { exact_schema("trajectory_id", &ids) } else { prompt::schema() };
        let question = Question::new(sheet.system.clone(), sheet.user(part, &ids), schema, draws.bits());
        let patience = Patience { n_retries: self.options.n_retries, tokens_max: self.options.answer_tokens_max };
        let heard = ask::ask(self.policy, &question, patience, |answer| Mismatch::read(answer, "trajectory_id", &ids));
        let Heard { value: verdicts, bill } = heard.map_err(|(unheard, mut bill)| {
            bill.add(std::mem::take(&mut ranking.bill));
            let member =
                |id: &String| ids.iter().position(|known| known == id).map(|shown_idx| part[shown_idx]).into_iter().collect();
            (unheard.map(|mismatch| mismatch.map(member)), bill)
        })?;
        ranking.bill.add(bill);
        let last = (part.len() - 1).max(1) as f64;
        for (shown_idx, (&member, (score, explanation))) in part.iter().zip(&verdicts).enumerate() {
            if ranking.scores[member].is_nan() {
                ranking.scores[member] = *score;
                ranking.explanations[member].clone_from(explanation);
            }
            let (call_idx, n_bytes) = (ranking.n_parts, sheet.n_bytes(member));
            ranking.shown.push(Shown { trace_idx: member, call_idx, position: shown_idx as f64 / last, score: *score, n_bytes });
        }
        ranking.n_parts += 1;
        Ok(part.iter().copied().zip(verdicts.iter().map(|(score, _)| *score)).collect())
    }
}

impl Judge for Ruler<'_> {
    fn giver(&self) -> Giver {
        let config = self.policy.config();
        let name = config.model.clone().unwrap_or_else(|| "judge".into());
        Giver { kind: GiverKind::Judge, name, config: Some(config.hash()) }
    }

    fn judge(&self, group: &[&Trace], seed: u64) -> Result<Judged, JudgeError> {
        let (mut room, mut in_vain) = (self.room(), Bill::default());
        loop {
            match self.judge_in(room, group, seed) {
                // What a token is differs from judge to judge, and of some the context is not known.
                Err(error) if error.is_too_long() => {
                    in_vain.add(error.bill);
                    room.bytes_max = room.bytes_max / 3 * 2;
                }
                Ok(mut judged) => {
                    judged.bill.add(in_vain);
                    return Ok(judged);
                }
                Err(mut error) => {
                    error.bill.add(in_vain);
                    return Err(error);
                }
            }
        }
    }
}

/// Why a call failed, by positions of members, and what it took.
type Failed = (Unheard<Box<Mismatch<usize>>>, Bill);

/// What one repeat said of the members of a sheet.
struct Ranking {
    scores: Vec<f64>,
    explanations: Vec<String>,
    shown: Vec<Shown>,
    n_parts: usize,
    bill: Bill,
}

impl Ranking {
    fn new(n_members: usize) -> Self {
        let (scores, explanations) = (vec![f64::NAN; n_members], vec![String::new(); n_members]);
        Self { scores, explanations, shown: Vec::new(), n_parts: 0, bill: Bill::default() }
    }
}

/// The mean of the repeats, told for every trace of the group.
fn merge(sheet: &Sheet, n_traces: usize, rankings: Vec<Ranking>, failed: Vec<JudgeError>) -> Judged {
    let all_scores: Vec<Vec<f64>> = rankings.iter().map(|ranking| ranking.scores.clone()).collect();
    let mut judged = Judged {
        scores: vec![0.0; n_traces],
        explanations: vec![String::new(); n_traces],
        n_distinct: sheet.members.len(),
        agreement: Agreement::of(&all_scores),
        shown: Vec::new(),
        shortened: sheet.shortened(),
        n_parts: rankings.iter().map(|ranking| ranking.n_parts).max().unwrap_or(0),
        failed,
        bill: Bill::default(),
    };
    for (member_idx, member) in sheet.members.iter().enumerate() {
        let scores: Vec<f64> = all_scores.iter().map(|scores| scores[member_idx]).collect();
        for &trace_idx in &member.traces {
            judged.scores[trace_idx] = mean(&scores);
            judged.explanations[trace_idx].clone_from(&rankings[0].explanations[member_idx]);
        }
    }
    let mut n_calls = 0;
    for ranking in rankings {
        let told = |shown: Shown| Shown {
            trace_idx: sheet.members[shown.trace_idx].traces[0],
            call_idx: n_calls + shown.call_idx,
            ..shown
        };
        judged.shown.extend(ranking.shown.into_iter().map(told));
        n_calls += ranking.n_parts;
        judged.bill.add(ranking.bill);
    }
    judged
}

/// What makes this group different from every other.
fn fingerprint(group: &[&Trace]) -> String {
    let ids: Vec<String> = group.iter().map(|trace| trace.id.to_string()).collect();
    ConfigHash::of(ids.join(" ").as_bytes()).to_string()
}
