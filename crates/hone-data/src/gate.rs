//! Is a pool of traces fit to learn from? Six gates, each with a figure, a bar and the records behind a failure.
//!
//! Traces come one at a time. What is kept of each is a hash of sixteen bytes, and a signature of a quarter kilobyte where others of
//! its scenario must be compared with it. Of duplicates the first one is clean, but for one that earned enough where the first did not.
//!
//! Knows nothing of stores and files: the caller reads and prints.

mod check;
mod held_out;
mod likeness;

pub use check::{Checker, Dirt};
pub use held_out::HeldOut;

use crate::anonymise::{Anonymiser, Hint, Key};
use crate::facts::Facts;
use hone_trace::{Tenant, Trace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// What the data is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To be imitated: a point is a clean trace that earned enough.
    Sft,
    /// To be reinforced: a point is a clean trace that earned anything, and samples of one group may be alike.
    Rl,
}

/// What a pool must reach.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bars {
    /// What it is for.
    pub purpose: Purpose,
    /// Clean traces that earned enough.
    pub points: u64,
    /// The reward from which a trace counts, for imitation.
    pub quality: f64,
    /// The share of traces that are clean.
    pub clean: f64,
    /// Types of task that have enough points.
    pub task_types: u64,
    /// How many are enough.
    pub task_points: u64,
    /// Two answers to one scenario that are more alike than this are one.
    pub likeness: f64,
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// The figure.
    pub value: f64,
    /// What it is held against: at least so much, or for what must not be there, at most.
    pub bar: f64,
    /// Whether it passes.
    pub pass: bool,
    /// Up to [`N_RECORDS_MAX`] records behind a failure: ids of traces, or types of task.
    pub records: Vec<String>,
    /// What is wrong with each of them.
    pub why: Vec<String>,
}

/// All gates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether all pass.
    pub pass: bool,
    /// How many traces were looked at.
    pub traces: u64,
    /// What the data is for.
    pub purpose: Purpose,
    /// Each of them.
    pub gates: Vec<Gate>,
}

/// So many records are named behind a failure.
pub const N_RECORDS_MAX: usize = 10;

/// Types of task that are counted; more become one.
const N_TYPES_MAX: usize = 10_000;

/// A pool while it is read.
pub struct Pool {
    bars: Bars,
    /// The tenant whose pool it is, and those that let their data be used by others.
    own: Tenant,
    consent: BTreeSet<Tenant>,
    checker: Checker,
    n_traces: u64,
    n_clean: u64,
    n_points: u64,
    points: BTreeMap<String, u64>,
    dirty: Behind,
    private: Behind,
    leaked: Behind,
    without_consent: Behind,
}

/// Records behind a failure.
#[derive(Debug, Default)]
struct Behind {
    n: u64,
    records: Vec<String>,
    why: Vec<String>,
}

impl Behind {
    /// Counts a record. What is personal in its name or in what is wrong with it is left out: a verdict is printed and kept.
    fn add(&mut self, worker: &Anonymiser, record: &dyn Display, why: &dyn Display) {
        self.n += 1;
        if self.records.len() < N_RECORDS_MAX {
            self.records.push(worker.told(&record.to_string(), Hint::NONE));
            self.why.push(worker.told(&why.to_string(), Hint::NONE));
        }
    }

    fn gate(&self, name: &'static str, value: f64, bar: f64, pass: bool) -> Gate {
        let (records, why) = if pass { (Vec::new(), Vec::new()) } else { (self.records.clone(), self.why.clone()) };
        Gate { name, value, bar, pass, records, why }
    }
}

impl Pool {
    /// An empty one.
    pub fn new(bars: Bars, own: Tenant, consent: BTreeSet<Tenant>, held_out: HeldOut) -> Self {
        Self {
            checker: Checker::of(&bars, held_out),
            bars,
            own,
            consent,
            n_traces: 0,
            n_clean: 0,
            n_points: 0,
            points: BTreeMap::new(),
            dirty: Behind::default(),
            private: Behind::default(),
            leaked: Behind::default(),
            without_consent: Behind::default(),
        }
    }

    /// Takes a trace into account.
    pub fn add(&mut self, trace: &Trace, facts: &Facts) {
        self.n_traces += 1;
        let worker = searched(trace);
        if trace.tenant != self.own && !self.consent.contains(&trace.tenant) {
            self.without_consent.add(&worker, &trace.id, &format_args!("tenant {} has not consented", trace.tenant));
        }
        if let Some(kinds) = kinds(&worker) {
            self.private.add(&worker, &trace.id, &kinds);
        }
        let dirt = self.checker.check(trace, facts);
        match dirt {
            Some(dirt) => {
                if matches!(dirt, Dirt::Leak(_)) {
                    self.leaked.add(&worker, &trace.id, &dirt);
                }
                self.dirty.add(&worker, &trace.id, &dirt);
            }
            None => {
                self.n_clean += 1;
                self.count(trace, facts);
            }
        }
    }

    fn count(&mut self, trace: &Trace, facts: &Facts) {
        if !self.checker.is_point(trace) {
            return;
        }
        self.n_points += 1;
        let task = facts.category.clone().unwrap_or_default();
        let task = if self.points.len() < N_TYPES_MAX || self.points.contains_key(&task) { task } else { String::new() };
        *self.points.entry(task).or_default() += 1;
    }

    /// What becomes of it.
    pub fn verdict(&self) -> Verdict {
        let share = if self.n_traces == 0 { 0.0 } else { self.n_clean as f64 / self.n_traces as f64 };
        let gates = vec![
            Behind::default().gate("points", self.n_points as f64, self.bars.points as f64, self.n_points >= self.bars.points),
            self.dirty.gate("clean", share, self.bars.clean, self.n_traces > 0 && share >= self.bars.clean),
            self.task_types(),
            self.private.gate("privacy", self.private.n as f64, 0.0, self.private.n == 0),
            self.leaked.gate("leaks", self.leaked.n as f64, 0.0, self.leaked.n == 0),
            self.without_consent.gate("consent", self.without_consent.n as f64, 0.0, self.without_consent.n == 0),
        ];
        Verdict { pass: gates.iter().all(|gate| gate.pass), traces: self.n_traces, purpose: self.bars.purpose, gates }
    }

    fn task_types(&self) -> Gate {
        let Bars { task_types, task_points, .. } = self.bars;
        let (worker, mut short) = (nobody(), Behind::default());
        let mut n_enough = 0;
        for (task, &n) in &self.points {
            if n >= task_points && !task.is_empty() {
                n_enough += 1;
            } else {
                let task = if task.is_empty() { "(no type)" } else { task };
                short.add(&worker, &task, &format_args!("{n} of {task_points} points"));
            }
        }
        short.gate("task_types", n_enough as f64, task_types as f64, n_enough >= task_types)
    }
}

/// The kinds of personal data in a trace, never the data.
pub fn personal(trace: &Trace) -> Option<String> {
    kinds(&searched(trace))
}

fn kinds(worker: &Anonymiser) -> Option<String> {
    let counts: Vec<String> = worker.report().replaced.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

/// One that has found what is personal in this trace, and knows the names in it.
fn searched(trace: &Trace) -> Anonymiser {
    let mut worker = nobody();
    worker.trace(&mut trace.clone());
    worker
}

/// One that knows of nobody. Which pseudonyms it would write does not matter here.
fn nobody() -> Anonymiser {
    Anonymiser::new(Key::new([0; 32]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::RewardId;
    use serde_json::{Value, json};

    fn trace(n: u8, reward: f64) -> Trace {
        let id = format!("01890a5d-ac96-774b-bcce-b302099a80{n:02}");
        let trace = json!({
            "v": 1, "id": id, "tenant": "default", "started": "2026-03-14T15:09:26Z", "ended": "2026-03-14T15:09:27Z",
            "config": "00".repeat(32), "category": "translate",
            "segments": [{"turns": [{
                "input": [{"role": "user", "content": "Translate cat to French"}],
                "answer": {"role": "assistant", "content": "chat, of course"},
            }]}],
            "rewards": [{"id": id, "at": "2026-03-14T15:10:26Z", "total": reward, "by": {"kind": "check", "name": "solved"}}],
        });
        serde_json::from_value(trace).expect("a trace")
    }

    /// What becomes of traces with the same words and these rewards.
    fn check(rewards: &[f64], expected: &[Option<&str>]) {
        let bars =
            Bars { purpose: Purpose::Sft, points: 1, quality: 0.8, clean: 0.0, task_types: 1, task_points: 1, likeness: 0.95 };
        let mut checker = Checker::of(&bars, HeldOut::default());
        let found: Vec<Option<&str>> = (0..)
            .zip(rewards)
            .map(|(n, &reward)| {
                let trace = trace(n, reward);
                checker.check(&trace, &Facts::of(&trace, "metadata.user")).map(|dirt| dirt.name())
            })
            .collect();
        assert_eq!(found, expected, "{rewards:?}");
    }

    #[test]
    fn who_weighed_a_trace_before_it_grew_may_say_something_else_now() {
        let bars =
            Bars { purpose: Purpose::Rl, points: 1, quality: 0.8, clean: 0.0, task_types: 1, task_points: 1, likeness: 0.95 };
        let verdict = |turn_started: &str| {
            let mut trace = trace(1, 0.0);
            trace.segments[0].turns[0].started = Some(turn_started.parse().expect("a time"));
            let mut again = trace.rewards[0].clone();
            (again.id, again.total) = (RewardId::derived(&["again"]), 1.0);
            again.at = "2026-03-14T15:12:26Z".parse().expect("a time");
            trace.rewards.push(again);
            let found = Checker::of(&bars, HeldOut::default()).check(&trace, &Facts::of(&trace, "metadata.user"));
            found.map(|dirt| dirt.name())
        };
        assert_eq!(verdict("2026-03-14T15:09:26Z"), Some("rewards"), "nothing has changed between the two");
        assert_eq!(verdict("2026-03-14T15:11:26Z"), None);
    }

    #[test]
    fn no_verdict_holds_what_is_personal() {
        let bars =
            Bars { purpose: Purpose::Sft, points: 1, quality: 0.8, clean: 1.0, task_types: 5, task_points: 9, likeness: 0.95 };
        let own: Tenant = "default".parse().expect("a tenant");
        let mut held_out = HeldOut::default();
        held_out.add("visit/Zubkov/ann.miller@shop.com", "metadata.user").expect("a name");
        let mut pool = Pool::new(bars, own, BTreeSet::new(), held_out);
        let changed = |n: u8, change: &dyn Fn(&mut Value)| {
            let mut value = serde_json::to_value(trace(n, 1.0)).expect("JSON");
            change(&mut value);
            serde_json::from_value::<Trace>(value).expect("a trace")
        };
        let traces = [
            changed(1, &|trace| {
                trace["rewards"][0]["by"] = json!({"kind": "human", "name": "faina@shop.com"});
                let mut again = trace["rewards"][0].clone();
                (again["id"], again["total"]) = ("01890a5d-ac96-774b-bcce-b302099a8090".into(), 0.0.into());
                trace["rewards"].as_array_mut().expect("a list").push(again);
            }),
            changed(2, &|trace| {
                trace["rewards"][0]["by"] = json!({"kind": "human", "name": "Yefremova"});
                trace["rewards"][0]["components"] = json!([{"name": "part", "value": 0.25, "weight": 1.0}]);
            }),
            changed(3, &|trace| trace["category"] = "ticket of ann.miller@shop.com".into()),
            changed(4, &|trace| {
                trace["scenario"] = "visit/Zubkov/ann.miller@shop.com".into();
                trace["segments"][0]["turns"][0]["input"][0]["content"] = "My name is Ann Zubkov".into();
            }),
        ];
        traces.iter().for_each(|trace| pool.add(trace, &Facts::of(trace, "metadata.user")));
        let verdict = pool.verdict();
        let said = serde_json::to_string(&verdict).expect("JSON");
        for personal in ["faina", "shop.com", "miller", "Zubkov", "Yefremova"] {
            assert!(!said.contains(personal), "{personal} in {said}");
        }
        let gate = |name: &str| verdict.gates.iter().find(|gate| gate.name == name).expect("a gate");
        assert_eq!(
            gate("clean").why[..2],
            ["rewards: (email) gave 1 and 0", "rewards: the total 1 by (name) is not the sum of its parts, 0.25"]
        );
        assert!(gate("task_types").records.contains(&"ticket of (email)".to_owned()), "{verdict:?}");
        assert_eq!(gate("leaks").why, ["leak: scenario visit/(name)/(email) is held out"]);
        assert_eq!(gate("leaks").records, [traces[3].id.to_string()]);
    }

    #[test]
    fn a_bad_twin_does_not_throw_out_the_good_trace() {
        check(&[0.1, 1.0], &[None, None]);
        check(&[1.0, 0.1], &[None, Some("duplicate")]);
        check(&[0.1, 1.0, 1.0, 0.1], &[None, None, Some("duplicate"), Some("duplicate")]);
        check(&[0.1, 0.2], &[None, Some("duplicate")]);
    }
}
