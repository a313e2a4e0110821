//! Two configs on equal tasks.
//!
//! Who answers what is seldom left to chance: a config that got the easy tasks looks better than it is. So configs are compared on the
//! tasks that both had, task by task; or, where each had its own, within types of task, at the mix of the config in use. Repeats of
//! one task count as one. A task of one world is none of another, nor of live traffic, whatever they are called. Differences are
//! shrunk as Agresti and Caffo, and Bonett and Price for pairs, do it, so that a few episodes that are all alike prove nothing.

use crate::row::Row;
use hone_eval::interval::Z95;
use hone_trace::{Category, ScenarioId};
use serde::Serialize;
use std::collections::BTreeMap;

/// The fewest tasks of each config.
pub const N_TASKS_MIN: usize = 20;
/// The share of the episodes of the config in use that must be of tasks which the other had, too.
const COVERAGE_MIN: f64 = 0.5;
/// The fewest tasks of a type by each config.
const N_OF_TYPE_MIN: usize = 2;

/// Why two configs cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Unlike {
    /// One has too few tasks with an outcome.
    TooFew {
        /// Tasks of the config in use.
        n_from: usize,
        /// Tasks of the other.
        n_to: usize,
    },
    /// They had different tasks.
    OtherTasks {
        /// The share of the episodes of the config in use whose task, or type of task, the other had.
        coverage: f64,
    },
}

/// Two configs on equal tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What was equal.
    pub on: Equal,
    /// Tasks of the config in use.
    pub n_from: usize,
    /// Tasks of the other.
    pub n_to: usize,
    /// The share of the episodes of the config in use that this speaks for.
    pub coverage: f64,
    /// How well they went, from 0 to 1.
    pub quality: Difference,
    /// What an episode cost in US dollars, where that is known of all.
    pub cost_usd: Option<Difference>,
    /// How long an episode took, where that is known of all.
    pub latency_ms: Option<Difference>,
}

/// What was equal when two configs were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Equal {
    /// The tasks.
    Tasks,
    /// The types of task.
    Types,
}

/// A measure under two configs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Its mean under the config in use.
    pub from: f64,
    /// Its mean under the other.
    pub to: f64,
    /// The ends of the 95 % interval of how much more it is under the other.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    #[serde(skip)]
    centre: f64,
    #[serde(skip)]
    error: f64,
}

impl Difference {
    fn new(from: f64, to: f64, centre: f64, variance: f64) -> Self {
        let error = variance.max(0.0).sqrt();
        Self { from, to, low: centre - Z95 * error, high: centre + Z95 * error, centre, error }
    }

    /// Shares differ by no more than 1.
    fn of_shares(self) -> Self {
        Self { low: self.low.max(-1.0), high: self.high.min(1.0), ..self }
    }

    /// How sure it is that the other has more by at least this, from 0 to 1.
    pub fn above(&self, least: f64) -> f64 {
        let gap = self.centre - least;
        if self.error > 0.0 { normal_cdf(gap / self.error) } else { f64::from(u8::from(gap > 0.0)) }
    }

    /// How sure it is that the other has less.
    pub fn below(&self) -> f64 {
        if self.error > 0.0 { normal_cdf(-self.centre / self.error) } else { f64::from(u8::from(self.centre < 0.0)) }
    }
}

/// What the repeats of one task came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Task {
    n: f64,
    quality: f64,
    cost_usd: Option<f64>,
    latency_ms: Option<f64>,
}

/// A task: one that has a name, or an episode by itself.
type Key<'a> = Result<&'a ScenarioId, usize>;
/// A type of task: the world that it is of, where it is of one, and its category.
type Type<'a> = (Option<&'a str>, Option<&'a Category>);
/// The tasks of a config, by their type.
pub(crate) type Tasks<'a> = BTreeMap<(Type<'a>, Key<'a>), Task>;

/// Compares a config in use with another one by their episodes.
pub fn compare(from: &[&Row], to: &[&Row]) -> Result<Compared, Unlike> {
    compare_tasks(&tasks(from), &tasks(to))
}

/// The same, by what their episodes came to.
pub(crate) fn compare_tasks(from: &Tasks<'_>, to: &Tasks<'_>) -> Result<Compared, Unlike> {
    let (n_from, n_to) = (from.len(), to.len());
    if n_from < N_TASKS_MIN || n_to < N_TASKS_MIN {
        return Err(Unlike::TooFew { n_from, n_to });
    }
    let n_rows: f64 = from.values().map(|task| task.n).sum();
    let shared: Vec<(&Task, &Task)> =
        from.iter().filter(|((_, key), _)| key.is_ok()).filter_map(|(key, task)| Some((task, to.get(key)?))).collect();
    let coverage = shared.iter().map(|(task, _)| task.n).sum::<f64>() / n_rows;
    if shared.len() >= N_TASKS_MIN && coverage >= COVERAGE_MIN {
        return Ok(task_by_task(&shared, coverage));
    }
    let types = by_type(from, to);
    let n_from = types.iter().map(|one| one.from.len()).sum::<usize>();
    let n_to = types.iter().map(|one| one.to.len()).sum::<usize>();
    let coverage = types.iter().flat_map(|one| &one.from).map(|task| task.n).sum::<f64>() / n_rows;
    if coverage < COVERAGE_MIN {
        return Err(Unlike::OtherTasks { coverage });
    }
    if n_from < N_TASKS_MIN || n_to < N_TASKS_MIN {
        return Err(Unlike::TooFew { n_from, n_to });
    }
    Ok(Compared {
        on: Equal::Types,
        n_from,
        n_to,
        coverage,
        quality: within_types(&types, |task| Some(task.quality), true).expect("every task has a quality").of_shares(),
        cost_usd: within_types(&types, |task| task.cost_usd, false),
        latency_ms: within_types(&types, |task| task.latency_ms, false),
    })
}

/// What the episodes of a config came to, task by task.
pub(crate) fn tasks<'a>(rows: &[&'a Row]) -> Tasks<'a> {
    let mut tasks: Tasks<'a> = BTreeMap::new();
    for (idx, row) in rows.iter().enumerate() {
        let Some(quality) = row.told() else { continue };
        let key = ((row.world.as_deref(), row.category.as_ref()), row.episode.scenario.as_ref().ok_or(idx));
        let (cost, latency) = (row.episode.cost_usd, row.episode.duration_ms);
        let task = tasks.entry(key).or_insert_with(|| Task { cost_usd: Some(0.0), latency_ms: Some(0.0), ..Task::default() });
        task.n += 1.0;
        let moved = |mean: f64, value: f64| mean + (value - mean) / task.n;
        task.quality = moved(task.quality, quality);
        task.cost_usd = task.cost_usd.zip(cost).map(|(mean, cost)| moved(mean, cost));
        task.latency_ms = task.latency_ms.zip(latency).map(|(mean, latency)| moved(mean, latency));
    }
    tasks
}

fn task_by_task(shared: &[(&Task, &Task)], coverage: f64) -> Compared {
    let pairs = |measure: fn(&Task) -> Option<f64>| -> Option<Vec<(f64, f64)>> {
        shared.iter().map(|(from, to)| measure(from).zip(measure(to))).collect()
    };
    let known = |pairs: Vec<(f64, f64)>| {
        let (from, to) = means(&pairs);
        Difference::new(from, to, to - from, of_differences(&pairs) / pairs.len() as f64)
    };
    let quality = pairs(|task| Some(task.quality)).expect("every task has a quality");
    let (from, to) = means(&quality);
    // Two more tasks, one that each config solved alone.
    let shrunk: Vec<(f64, f64)> = quality.iter().copied().chain([(0.0, 1.0), (1.0, 0.0)]).collect();
    let (shrunk_from, shrunk_to) = means(&shrunk);
    let variance = of_differences(&shrunk) / shrunk.len() as f64;
    Compared {
        on: Equal::Tasks,
        n_from: shared.len(),
        n_to: shared.len(),
        coverage,
        quality: Difference::new(from, to, shrunk_to - shrunk_from, variance).of_shares(),
        cost_usd: pairs(|task| task.cost_usd).map(known),
        latency_ms: pairs(|task| task.latency_ms).map(known),
    }
}

fn means(pairs: &[(f64, f64)]) -> (f64, f64) {
    let n = pairs.len() as f64;
    (pairs.iter().map(|pair| pair.0).sum::<f64>() / n, pairs.iter().map(|pair| pair.1).sum::<f64>() / n)
}

/// The variance of what the second of each pair has more.
fn of_differences(pairs: &[(f64, f64)]) -> f64 {
    variance(&pairs.iter().map(|(from, to)| to - from).collect::<Vec<f64>>())
}

fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)
}

/// The tasks of one type by both configs.
struct OfType<'a> {
    from: Vec<&'a Task>,
    to: Vec<&'a Task>,
}

fn by_type<'a>(from: &'a Tasks<'_>, to: &'a Tasks<'_>) -> Vec<OfType<'a>> {
    let mut types: BTreeMap<Type<'_>, OfType<'a>> = BTreeMap::new();
    let new = || OfType { from: Vec::new(), to: Vec::new() };
    from.iter().for_each(|((of, _), task)| types.entry(*of).or_insert_with(new).from.push(task));
    to.iter().for_each(|((of, _), task)| types.entry(*of).or_insert_with(new).to.push(task));
    types.into_values().filter(|one| one.from.len().min(one.to.len()) >= N_OF_TYPE_MIN).collect()
}

/// A measure within types, weighed by how many tasks of each the config in use had; `None` where it is not known of all.
fn within_types(types: &[OfType<'_>], measure: impl Fn(&Task) -> Option<f64>, is_share: bool) -> Option<Difference> {
    let n: usize = types.iter().map(|one| one.from.len()).sum();
    let (mut from_mean, mut to_mean, mut centre, mut total) = (0.0, 0.0, 0.0, 0.0);
    for one in types {
        let weight = one.from.len() as f64 / n as f64;
        let from: Vec<f64> = one.from.iter().map(|task| measure(task)).collect::<Option<_>>()?;
        let to: Vec<f64> = one.to.iter().map(|task| measure(task)).collect::<Option<_>>()?;
        let (from, to) = (Side::of(from, is_share), Side::of(to, is_share));
        from_mean += weight * from.mean;
        to_mean += weight * to.mean;
        centre += weight * (to.centre - from.centre);
        total += weight * weight * (from.variance + to.variance);
    }
    Some(Difference::new(from_mean, to_mean, centre, total))
}

/// One config at one type of task.
struct Side {
    mean: f64,
    centre: f64,
    /// Of the mean.
    variance: f64,
}

impl Side {
    /// Shares get one more success and one more failure.
    fn of(mut values: Vec<f64>, is_share: bool) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        if is_share {
            values.extend([0.0, 1.0]);
        }
        let n = values.len() as f64;
        Self { mean, centre: values.iter().sum::<f64>() / n, variance: variance(&values) / n }
    }
}

/// The share of the standard normal below `z`, to seven digits (Numerical Recipes' `erfcc`).
fn normal_cdf(z: f64) -> f64 {
    const TERMS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let polynomial = TERMS.iter().rev().fold(0.0, |sum, term| sum * t + term);
    let tail = 0.5 * t * (polynomial - x * x).exp();
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_eval::Episode;
    use hone_trace::{ConfigHash, Time};

    /// An episode of a task of a type.
    pub(crate) fn row(category: &str, scenario: Option<String>, quality: f64) -> Row {
        let episode = Episode {
            scenario: scenario.map(|name| ScenarioId::new(name).unwrap()),
            is_solved: quality >= 0.5,
            score: None,
            n_turns: 1,
            n_tokens: 10,
            cost_usd: Some(0.01),
            duration_ms: None,
            is_broken: false,
            failure: None,
        };
        let category = Category::new(category).ok();
        let at = Time::from_unix_nanos(0);
        Row { config: ConfigHash::of(b"c"), category, world: None, at, quality: Some(quality), episode }
    }

    fn compared(from: &[Row], to: &[Row]) -> Result<Compared, Unlike> {
        compare(&from.iter().collect::<Vec<_>>(), &to.iter().collect::<Vec<_>>())
    }

    fn solved(category: &str, n_solved: usize, n: usize) -> Vec<Row> {
        (0..n).map(|idx| row(category, None, f64::from(u8::from(idx < n_solved)))).collect()
    }

    #[test]
    fn a_config_that_got_the_easy_tasks_is_not_better_for_it() {
        // Both solve 90 % of the easy and 30 % of the hard tasks.
        let from = [solved("easy", 45, 50), solved("hard", 60, 200)].concat();
        let to = [solved("easy", 180, 200), solved("hard", 15, 50)].concat();
        let found = compared(&from, &to).unwrap();
        assert_eq!(found.on, Equal::Types);
        assert!((found.quality.to - found.quality.from).abs() < 1e-9, "{found:?}");
        assert!(found.quality.low < 0.0 && found.quality.high > 0.0);
    }

    #[test]
    fn shared_tasks_are_compared_one_by_one() {
        let arm = |is_better: bool| -> Vec<Row> {
            let quality = |task: usize| f64::from(u8::from(task % 10 < if is_better { 6 } else { 3 }));
            (0..100).flat_map(|task| vec![row("a", Some(format!("t{task}")), quality(task)); 3]).collect()
        };
        let found = compared(&arm(false), &arm(true)).unwrap();
        assert_eq!((found.on, found.n_from, found.n_to), (Equal::Tasks, 100, 100));
        assert!((found.quality.to - found.quality.from - 0.3).abs() < 1e-9 && found.quality.above(0.1) > 0.99, "{found:?}");
        assert_eq!(found.cost_usd.unwrap().below(), 0.0, "equal costs are not lower");
    }

    #[test]
    fn repeats_of_few_tasks_prove_nothing() {
        let repeated =
            |quality: f64| -> Vec<Row> { (0..400).map(|idx| row("a", Some(format!("t{}", idx % 5)), quality)).collect() };
        assert_eq!(compared(&repeated(0.0), &repeated(1.0)), Err(Unlike::TooFew { n_from: 5, n_to: 5 }));
    }

    #[test]
    fn other_tasks_are_not_compared() {
        let found = compared(&solved("a", 10, 50), &solved("b", 40, 50));
        assert_eq!(found, Err(Unlike::OtherTasks { coverage: 0.0 }));
    }

    #[test]
    fn practice_in_a_world_is_not_compared_with_live_traffic_or_another_world() {
        let of = |world: Option<&str>, is_named: bool| -> Vec<Row> {
            let task = |idx: usize| row("a", is_named.then(|| format!("t{idx}")), f64::from(u8::from(idx.is_multiple_of(2))));
            (0..30).map(|idx| Row { world: world.map(str::to_owned), ..task(idx) }).collect()
        };
        for (from, to, is_alike) in [
            (None, None, true),
            (Some("desk"), Some("desk"), true),
            (None, Some("desk"), false),
            (Some("desk"), None, false),
            (Some("desk"), Some("inbox"), false),
        ] {
            for is_named in [true, false] {
                let found = compared(&of(from, is_named), &of(to, is_named));
                let unlike = Err(Unlike::OtherTasks { coverage: 0.0 });
                assert!(if is_alike { found.is_ok() } else { found == unlike }, "{from:?} {to:?} {is_named}: {found:?}");
            }
        }
        // What is comparable of a mix is compared.
        let mixed = [of(None, false), of(Some("desk"), false)].concat();
        let found = compared(&of(None, false), &mixed).unwrap();
        assert_eq!((found.n_from, found.n_to, found.coverage), (30, 30, 1.0));
    }

    #[test]
    fn what_broke_says_nothing() {
        let mut from = solved("a", 30, 30);
        from.iter_mut().for_each(|row| row.episode.is_broken = true);
        assert_eq!(compared(&from, &solved("a", 30, 30)), Err(Unlike::TooFew { n_from: 0, n_to: 30 }));
    }

    #[test]
    fn an_unknown_price_is_not_compared() {
        let mut to = solved("a", 20, 40);
        to[7].episode.cost_usd = None;
        assert_eq!(compared(&solved("a", 20, 40), &to).unwrap().cost_usd, None);
    }

    #[test]
    fn intervals_cover_the_truth_in_95_of_100_samples() {
        let mut draws = hone_trace::Draws::new(3, &["compare"]);
        let mut arm = |n: usize, p: [f64; 2]| -> Vec<Row> {
            (0..n).map(|idx| row(["a", "b"][idx % 2], None, f64::from(u8::from(draws.chance(p[idx % 2]))))).collect()
        };
        let mut n_covered = 0;
        for _ in 0..1000 {
            let (from, to) = (arm(40, [0.9, 0.2]), arm(60, [0.8, 0.5]));
            let quality = compared(&from, &to).unwrap().quality;
            n_covered += usize::from(quality.low <= 0.1 && 0.1 <= quality.high);
        }
        assert!(n_covered >= 935, "{n_covered}");
    }

    #[test]
    fn the_normal_agrees_with_tables() {
        for (z, share) in [(0.0, 0.5), (1.0, 0.841_344_7), (1.644_854, 0.95), (-2.326_348, 0.01), (5.0, 0.999_999_7)] {
            assert!((normal_cdf(z) - share).abs() < 2e-7, "{z}: {}", normal_cdf(z));
        }
    }
}
