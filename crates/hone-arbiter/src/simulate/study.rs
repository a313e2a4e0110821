//! Many simulated canaries: how often each rule errs, and after how many rows harm is stopped.

use super::{Played, World, play};
use crate::canary::{Rule, Settings, State};
use hone_eval::interval::quantile;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was found. Shares are of the worst condition, rows of the plain one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// How often a canary that is as good as control was rolled back.
    pub aa_false_rollback: f64,
    /// How often one that is worse by the margin was promoted.
    pub margin_false_promote: f64,
    /// How often one that is worse by 5 points was promoted.
    pub minus5_false_promote: f64,
    /// Episodes until harm of so many points was stopped, the median over all runs.
    pub median_rows: BTreeMap<&'static str, Option<f64>>,
    /// Episodes within which 95 % of dead canaries were off.
    pub dead_p95_rows: Option<f64>,
    /// Under `improve`.
    pub improve: Improve,
    /// The same figures by condition.
    pub conditions: BTreeMap<&'static str, Condition>,
    /// The margin of `non_inferior`.
    pub margin: f64,
    /// Runs of each truth under each condition.
    pub n_runs: usize,
    /// Their seed.
    pub seed: u64,
}

/// Figures of the rule that asks for a gain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Improve {
    /// How often a canary without any gain was promoted.
    pub false_promote: f64,
    /// How often one that is better by 15 points was promoted.
    pub promote_plus15: f64,
}

/// Figures under one condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    /// How often a canary that is as good as control was rolled back.
    pub aa_false_rollback: f64,
    /// How often it was promoted.
    pub aa_promote: f64,
    /// Episodes until then, the median over all runs.
    pub aa_promote_median_rows: Option<f64>,
    /// How often one that is worse by the margin was promoted.
    pub margin_false_promote: f64,
    /// How often one that is worse by 5 points was promoted.
    pub minus5_false_promote: f64,
    /// Episodes until harm of so many points was stopped, the median over all runs.
    pub median_rows: BTreeMap<&'static str, Option<f64>>,
    /// Those of them whose outcome was known by then: what could decide.
    pub median_outcomes: BTreeMap<&'static str, Option<f64>>,
    /// Under `improve`.
    pub improve: Improve,
}

const MARGIN: f64 = 0.03;
const HARMS: [(&str, f64); 3] = [("-30", -0.30), ("-10", -0.10), ("-5", -0.05)];

/// Worlds in which both arms are alike.
fn conditions() -> [(&'static str, World); 4] {
    let plain = World::with_lift(0.0);
    [
        ("plain", plain),
        ("drift", World { base: 0.75, drift: 0.10, ..plain }),
        ("delayed", World { n_delay_mean: 200.0, ..plain }),
        ("missing", World { missing: 0.10, ..plain }),
    ]
}

/// Plays so many runs of every truth under every condition, on so many threads, and says which condition begins.
pub fn study(seed: u64, n_runs: usize, n_threads: usize, mut begins: impl FnMut(&str)) -> Study {
    let runs = |rule: Rule, world: World| {
        let settings = Settings { rule, ..Settings::default() };
        Runs::play(&settings, &world, seed, n_runs, n_threads)
    };
    let non_inferior = |world| runs(Rule::NonInferior { margin: MARGIN }, world);
    let improve = |world| runs(Rule::Improve { gain: 0.10, margin: MARGIN }, world);
    let mut found = BTreeMap::new();
    for (name, alike) in conditions() {
        begins(name);
        let with_lift = |lift| World { lift, ..alike };
        let aa = non_inferior(alike);
        let harmed = HARMS.map(|(points, lift)| (points, non_inferior(with_lift(lift))));
        let condition = Condition {
            aa_false_rollback: aa.share(State::RolledBack),
            aa_promote: aa.share(State::Promoted),
            aa_promote_median_rows: aa.rows_within(State::Promoted, 0.5),
            margin_false_promote: non_inferior(with_lift(-MARGIN)).share(State::Promoted),
            minus5_false_promote: harmed[2].1.share(State::Promoted),
            median_rows: harmed.iter().map(|(points, runs)| (*points, runs.rows_within(State::RolledBack, 0.5))).collect(),
            median_outcomes: harmed
                .iter()
                .map(|(points, runs)| (*points, runs.within(State::RolledBack, 0.5, |played| played.n_outcomes)))
                .collect(),
            improve: Improve {
                false_promote: improve(alike).share(State::Promoted),
                promote_plus15: improve(with_lift(0.15)).share(State::Promoted),
            },
        };
        found.insert(name, condition);
    }
    let worst = |figure: &dyn Fn(&Condition) -> f64| found.values().map(figure).fold(0.0, f64::max);
    Study {
        aa_false_rollback: worst(&|condition| condition.aa_false_rollback),
        margin_false_promote: worst(&|condition| condition.margin_false_promote),
        minus5_false_promote: worst(&|condition| condition.minus5_false_promote),
        median_rows: found["plain"].median_rows.clone(),
        dead_p95_rows: improve(World::dead()).rows_within(State::RolledBack, 0.95),
        improve: Improve {
            false_promote: worst(&|condition| condition.improve.false_promote),
            promote_plus15: 1.0 - worst(&|condition| 1.0 - condition.improve.promote_plus15),
        },
        conditions: found,
        margin: MARGIN,
        n_runs,
        seed,
    }
}

struct Runs(Vec<Played>);

impl Runs {
    fn play(settings: &Settings, world: &World, seed: u64, n_runs: usize, n_threads: usize) -> Self {
        let part =
            |thread: usize| (thread..n_runs).step_by(n_threads.max(1)).map(|run| play(settings, world, seed, run)).collect();
        let parts: Vec<Vec<Played>> = std::thread::scope(|scope| {
            let part = &part;
            let threads: Vec<_> = (0..n_threads.max(1)).map(|thread| scope.spawn(move || part(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a simulation does not panic")).collect()
        });
        Self(parts.into_iter().flatten().collect())
    }

    fn share(&self, state: State) -> f64 {
        self.0.iter().filter(|played| played.state == state).count() as f64 / self.0.len().max(1) as f64
    }

    /// Episodes within which this share of all runs reached a state; `None` when fewer did.
    fn rows_within(&self, state: State, share: f64) -> Option<f64> {
        self.within(state, share, |played| played.n_rows)
    }

    /// The same for another count.
    fn within(&self, state: State, share: f64, count: impl Fn(&Played) -> usize) -> Option<f64> {
        let rows = |played: &Played| if played.state == state { count(played) as f64 } else { f64::INFINITY };
        quantile(&self.0.iter().map(rows).collect::<Vec<f64>>(), share).filter(|rows| rows.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_does_not_depend_on_the_number_of_threads() {
        let mut names = Vec::new();
        let one = study(1, 6, 1, |name| names.push(name.to_owned()));
        assert_eq!(one, study(1, 6, 3, |_| ()));
        assert_eq!(names, ["plain", "drift", "delayed", "missing"]);
        assert!(one.median_rows["-30"] < one.median_rows["-5"], "{one:?}");
        let delayed = &one.conditions["delayed"];
        assert!(delayed.median_outcomes["-5"] < delayed.median_rows["-5"], "{delayed:?}");
        assert_eq!(one.conditions["plain"].median_outcomes, one.median_rows);
    }
}
