//! What one policy reached over many episodes: how often it solved its tasks, how reliably, and at what price.
//!
//! Repeats of one task are alike, so intervals are over tasks: playing the same tasks again makes none of them narrower. Episodes that
//! broke are counted and measure nothing.

use crate::interval::{mean, quantile, wilson_of};
use hone_trace::{ScenarioId, Trace, TraceOutcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is kept of a trace to measure a policy by.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The task, where it is known: repeats of one task are counted together. One that is not known is a task of its own.
    pub scenario: Option<ScenarioId>,
    /// Whether it was solved.
    pub is_solved: bool,
    /// What it earned on a scale where 0 is doing nothing and 1 is the best that can be done, where that is known.
    pub score: Option<f64>,
    /// Answers of the policy.
    pub n_turns: u64,
    /// Tokens read and written.
    pub n_tokens: u64,
    /// The price in US dollars, where all of it is known.
    pub cost_usd: Option<f64>,
    /// How long it took, where known.
    pub duration_ms: Option<f64>,
    /// Whether the world or the policy failed, so that the episode says nothing about the policy's skill.
    pub is_broken: bool,
    /// What went wrong last.
    pub failure: Option<String>,
}

impl Episode {
    /// What is kept of this trace, which earned this score.
    pub fn of(trace: &Trace, score: Option<f64>) -> Self {
        let head = trace.head();
        let mut calls = trace.turns().flat_map(|turn| &turn.llm_calls).peekable();
        let is_priced = calls.peek().is_none() || calls.all(|call| call.cost_usd.is_some());
        let last_error = trace.turns().flat_map(|turn| &turn.errors).last();
        Self {
            scenario: trace.scenario.clone(),
            is_solved: trace.outcome == TraceOutcome::Success,
            score,
            n_turns: u64::from(head.n_turns),
            n_tokens: head.n_tokens,
            cost_usd: is_priced.then_some(head.cost_usd),
            // Played without a clock, an episode ends when it began.
            duration_ms: trace.ended.map(|ended| ended.millis_since(trace.started)).filter(|ms| *ms > 0.0),
            is_broken: trace.broken().is_some(),
            failure: last_error.filter(|error| !error.recovered).map(|error| error.kind.clone()),
        }
    }
}

/// What one policy reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures {
    /// Episodes played, those that broke too.
    pub n_episodes: usize,
    /// Those that say nothing about the policy because it or the world failed: all other figures are without them.
    pub n_broken: usize,
    /// Different tasks among those that did not break.
    pub n_scenarios: usize,
    /// The share of episodes that were solved; 0 where all broke.
    pub accuracy: f64,
    /// Its 95 % interval, over tasks.
    pub accuracy_interval: (f64, f64),
    /// The share of tasks that were solved in all of their repeats.
    pub reliability: f64,
    /// The mean score over tasks whose best is known: 0 is doing nothing, 1 is the best that can be done.
    pub score: Option<f64>,
    /// Half the width of its 95 % interval, over tasks; `None` of one, or of two that are alike.
    pub score_half_width: Option<f64>,
    /// All answers, those of failed episodes too, per solved task; `None` when nothing was solved.
    pub turns_per_solved: Option<f64>,
    /// All tokens per solved task.
    pub tokens_per_solved: Option<f64>,
    /// US dollars for a thousand tasks; `None` when a price is not known.
    pub cost_per_1k: Option<f64>,
    /// The median time of an episode.
    pub latency_p50_ms: Option<f64>,
    /// The most frequent way to end badly, with how often.
    pub failure: Option<(String, usize)>,
}

impl Measures {
    /// Measures these episodes of one policy.
    pub fn of(episodes: &[Episode]) -> Self {
        let n_episodes = episodes.len();
        let episodes: Vec<&Episode> = episodes.iter().filter(|episode| !episode.is_broken).collect();
        let n = episodes.len();
        let solved = episodes.iter().filter(|episode| episode.is_solved).count();
        let mut tasks: BTreeMap<Result<&ScenarioId, usize>, Task> = BTreeMap::new();
        let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
        for (idx, episode) in episodes.iter().enumerate() {
            let task = tasks.entry(episode.scenario.as_ref().ok_or(idx)).or_default();
            task.is_missed |= !episode.is_solved;
            task.scores.extend(episode.score);
            if let Some(failure) = &episode.failure {
                *failures.entry(failure).or_default() += 1;
            }
        }
        let n_tasks = tasks.len();
        let scores: Vec<f64> = tasks.values().filter(|task| !task.scores.is_empty()).map(|task| mean(&task.scores).0).collect();
        let durations: Vec<f64> = episodes.iter().filter_map(|episode| episode.duration_ms).collect();
        let (score, half_width) = mean(&scores);
        let per_solved = |total: u64| (solved > 0).then(|| total as f64 / solved as f64);
        let cost = episodes.iter().try_fold(0.0, |sum, episode| Some(sum + episode.cost_usd?));
        Self {
            n_episodes,
            n_broken: n_episodes - n,
            n_scenarios: n_tasks,
            accuracy: share(solved, n),
            accuracy_interval: wilson_of(share(solved, n), n_tasks),
            reliability: share(tasks.values().filter(|task| !task.is_missed).count(), n_tasks),
            score: (!scores.is_empty()).then_some(score),
            score_half_width: Some(half_width).filter(|half| half.is_finite()),
            turns_per_solved: per_solved(episodes.iter().map(|episode| episode.n_turns).sum()),
            tokens_per_solved: per_solved(episodes.iter().map(|episode| episode.n_tokens).sum()),
            cost_per_1k: cost.filter(|_| n > 0).map(|cost: f64| 1000.0 * cost / n as f64),
            latency_p50_ms: quantile(&durations, 0.5),
            failure: failures.into_iter().max_by_key(|(_, n)| *n).map(|(kind, n)| (kind.to_owned(), n)),
        }
    }
}

/// What the repeats of one task came to.
#[derive(Default)]
struct Task {
    /// Whether one of them did not solve it.
    is_missed: bool,
    scores: Vec<f64>,
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{ConfigHash, Tenant, Time, TraceId};

    fn episode(scenario: &str, is_solved: bool) -> Episode {
        Episode {
            scenario: ScenarioId::new(scenario).ok(),
            is_solved,
            score: Some(f64::from(u8::from(is_solved))),
            n_turns: 2,
            n_tokens: 100,
            cost_usd: Some(0.001),
            duration_ms: Some(10.0),
            is_broken: false,
            failure: (!is_solved).then(|| "loop".to_owned()),
        }
    }

    #[test]
    fn reliability_asks_for_all_repeats_and_failures_cost_too() {
        let measures = Measures::of(&[episode("a", true), episode("a", true), episode("b", true), episode("b", false)]);
        assert_eq!((measures.accuracy, measures.reliability), (0.75, 0.5));
        assert_eq!(measures.turns_per_solved, Some(8.0 / 3.0));
        assert_eq!(measures.tokens_per_solved, Some(400.0 / 3.0));
        assert_eq!(measures.cost_per_1k.map(|cost| (cost * 1e9).round() / 1e9), Some(1.0));
        assert_eq!(measures.failure, Some(("loop".to_owned(), 1)));
    }

    #[test]
    fn repeats_of_a_task_make_no_interval_narrower() {
        let repeated = |n: usize| -> Vec<Episode> {
            [("a", true), ("b", false), ("c", true)].iter().flat_map(|(task, solved)| vec![episode(task, *solved); n]).collect()
        };
        let (once, often) = (Measures::of(&repeated(1)), Measures::of(&repeated(50)));
        assert_eq!(often.accuracy_interval, crate::interval::wilson(2, 3));
        assert_eq!((once.accuracy_interval, once.score_half_width), (often.accuracy_interval, often.score_half_width));
        let alone = Measures::of(&vec![episode("a", true); 50]);
        assert!(alone.accuracy_interval.0 < 0.21 && alone.score_half_width.is_none(), "{:?}", alone.accuracy_interval);
        let alike = Measures::of(&[episode("a", true), episode("b", true)]);
        assert_eq!((alike.score, alike.score_half_width), (Some(1.0), None));
        // Episodes whose task nobody knows are not repeats of each other.
        let unknown = Episode { scenario: None, ..episode("a", true) };
        assert_eq!(Measures::of(&vec![unknown; 9]).n_scenarios, 9);
    }

    #[test]
    fn what_broke_is_counted_and_is_no_failure() {
        let broken = |scenario| Episode { is_broken: true, failure: Some("env_error".to_owned()), ..episode(scenario, false) };
        let whole = [episode("a", true), episode("a", true), episode("b", false)];
        let measured = Measures::of(&[&whole[..], &[broken("a"), broken("b"), broken("c")]].concat());
        assert_eq!((measured.n_episodes, measured.n_broken, measured.n_scenarios), (6, 3, 2));
        assert_eq!(Measures { n_episodes: 3, n_broken: 0, ..measured }, Measures::of(&whole));
        let none = Measures::of(&[broken("a")]);
        assert_eq!((none.accuracy_interval, none.score, none.failure), ((0.0, 1.0), None, None));
    }

    #[test]
    fn an_episode_without_a_clock_has_no_duration() {
        let at = Time::from_unix_nanos(1_700_000_000_000_000_000);
        let trace = Trace::new(TraceId::derived(&["t"]), Tenant::default(), at, ConfigHash::of(b"c"));
        for (ended, duration_ms) in
            [(None, None), (Some(at), None), (Some(at.plus_nanos(1_500_000)), Some(1.5)), (Some(at.plus_nanos(-1)), None)]
        {
            assert_eq!(Episode::of(&Trace { ended, ..trace.clone() }, None).duration_ms, duration_ms, "{ended:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_invented() {
        let unpriced = Episode { cost_usd: None, duration_ms: None, ..episode("a", false) };
        let measures = Measures::of(&[unpriced, episode("b", false)]);
        assert_eq!((measures.cost_per_1k, measures.turns_per_solved), (None, None));
        assert_eq!(Measures::of(&[]).latency_p50_ms, None);
    }
}
