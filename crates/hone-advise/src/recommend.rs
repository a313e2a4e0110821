//! Which config would do better than the one in use: proposals with how sure the evidence makes each.
//!
//! Every config with episodes of its own is a candidate, for all tasks together and for each type of task, unless a script answers for it:
//! nobody can serve one. What is asked of a proposal grows with how many could be made by chance. It is a look at what is on the record:
//! the canary that follows has the last word.

use crate::compare::{Compared, Difference, N_TASKS_MIN, Tasks, Unlike, compare_tasks, tasks};
use crate::diff::is_model_alone;
use crate::row::Row;
use hone_eval::{Spent, Thrift};
use hone_trace::{Category, Config, ConfigHash, RecommendationKind};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// How much worse, from 0 to 1, still counts as not worse.
pub const MARGIN: f64 = 0.03;
/// How often a proposal may be wrong, over all that could be made.
const ERROR_MAX: f64 = 0.05;

/// What advice is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All tasks.
    All,
    /// Tasks of one type.
    Category(Category),
}

/// How a candidate compares with the config in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better.
    Better,
    /// It is not worse, and cheaper.
    Cheaper,
    /// It is worse.
    Worse,
    /// The evidence shows neither.
    Open,
    /// It cannot be compared.
    Unlike,
}

/// A config that could take the place of the one in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// Which.
    pub config: ConfigHash,
    /// For which tasks.
    pub scope: Scope,
    /// What the evidence says.
    pub verdict: Verdict,
    /// The evidence.
    pub compared: Result<Compared, Unlike>,
}

/// A config that is proposed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proposal {
    /// What it optimises.
    pub kind: RecommendationKind,
    /// Which.
    pub to: ConfigHash,
    /// For which tasks.
    pub scope: Scope,
    /// How sure the evidence makes it, from 0 to 1.
    pub confidence: f64,
    /// The evidence.
    pub compared: Compared,
}

/// What there is to say of a config in use.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// All candidates, for all tasks first.
    pub candidates: Vec<Candidate>,
    /// What is proposed, for all tasks first.
    pub proposals: Vec<Proposal>,
}

/// Whether a script answers under this config, and no model.
pub fn is_script(config: &Config) -> bool {
    config.model.as_ref().is_some_and(|model| model.starts_with("script:"))
}

/// Compares a config in use with all others that models answer under.
pub fn advise(from: ConfigHash, rows: &[Row], configs: &BTreeMap<ConfigHash, Config>, thrift: &Thrift) -> Advice {
    let mut by_config: BTreeMap<ConfigHash, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| by_config.entry(row.config).or_default().push(row));
    let ours = by_config.remove(&from).unwrap_or_default();
    by_config.retain(|config, _| !configs.get(config).is_some_and(is_script));
    let types: BTreeSet<&Category> = ours.iter().filter_map(|row| row.category.as_ref()).collect();
    let mut compared = Vec::new();
    let all = tasks(&ours);
    compared.extend(by_config.iter().map(|(config, rows)| (Scope::All, *config, compare_tasks(&all, &tasks(rows)))));
    // One type alone is all tasks.
    if types.len() > 1 {
        compared.extend(by_type(&ours, &by_config));
    }
    let n_looks = compared.iter().filter(|(_, _, compared)| compared.is_ok()).count().max(1);
    let sure = 1.0 - ERROR_MAX / n_looks as f64;
    let candidates: Vec<Candidate> = compared
        .into_iter()
        .map(|(scope, config, compared)| {
            let verdict = compared.as_ref().map_or(Verdict::Unlike, |compared| verdict(compared, sure));
            Candidate { config, scope, verdict, compared }
        })
        .collect();
    let mut proposals: Vec<Proposal> = Vec::new();
    let scopes: BTreeSet<&Scope> = candidates.iter().map(|candidate| &candidate.scope).collect();
    for scope in scopes {
        let fit: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.scope == *scope).collect();
        let found = proposed(&fit, from, configs, thrift, sure);
        // What is proposed for all tasks need not be for one type of them.
        let known: BTreeSet<ConfigHash> = proposals.iter().map(|proposal| proposal.to).collect();
        proposals.extend(found.into_iter().filter(|proposal| *scope == Scope::All || !known.contains(&proposal.to)));
    }
    Advice { candidates, proposals }
}

/// The comparisons within types of task. Types of which one of the two has too few episodes would prove nothing, and are left out: who has many
/// types and many configs would otherwise have more comparisons than episodes.
fn by_type(ours: &[&Row], others: &BTreeMap<ConfigHash, Vec<&Row>>) -> Vec<(Scope, ConfigHash, Result<Compared, Unlike>)> {
    let (ours, mut compared) = (of_types(ours), Vec::new());
    let ours: BTreeMap<&Category, Tasks<'_>> = ours.into_iter().map(|(category, rows)| (category, tasks(&rows))).collect();
    for (config, rows) in others {
        for (category, theirs) in of_types(rows) {
            if let Some(ours) = ours.get(category) {
                compared.push((Scope::Category(category.clone()), *config, compare_tasks(ours, &tasks(&theirs))));
            }
        }
    }
    compared.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    compared
}

/// The episodes of each type of task that has enough of them.
fn of_types<'a>(rows: &[&'a Row]) -> BTreeMap<&'a Category, Vec<&'a Row>> {
    let mut types: BTreeMap<&Category, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if let Some(category) = &row.category {
            types.entry(category).or_default().push(row);
        }
    }
    types.retain(|_, rows| rows.len() >= N_TASKS_MIN);
    types
}

impl Scope {
    /// The type of task, where it is one.
    pub fn category(&self) -> Option<&Category> {
        match self {
            Self::All => None,
            Self::Category(category) => Some(category),
        }
    }
}

fn is_better(compared: &Compared, sure: f64) -> bool {
    compared.quality.above(0.0) >= sure
}

fn is_cheaper(compared: &Compared, sure: f64) -> bool {
    compared.cost_usd.is_some_and(|cost| cost.below() >= sure)
}

fn is_not_worse(compared: &Compared, sure: f64) -> bool {
    compared.quality.above(-MARGIN) >= sure
}

fn verdict(compared: &Compared, sure: f64) -> Verdict {
    if is_better(compared, sure) {
        Verdict::Better
    } else if is_not_worse(compared, sure) && is_cheaper(compared, sure) {
        Verdict::Cheaper
    } else if compared.quality.below() >= sure {
        Verdict::Worse
    } else {
        Verdict::Open
    }
}

/// What is gained, less what more cost and time are worth, as routes weigh them.
fn score(compared: &Compared, thrift: &Thrift) -> f64 {
    let of = |which: fn(&Difference) -> f64| Spent {
        cost_usd: compared.cost_usd.as_ref().map(which),
        latency_ms: compared.latency_ms.as_ref().map(which),
    };
    let prices = thrift.prices(&[of(|it| it.from), of(|it| it.to)]);
    compared.quality.to - compared.quality.from - (prices[1] - prices[0])
}

/// What is proposed of these candidates of one scope: at most one of a kind.
fn proposed(
    fit: &[&Candidate],
    from: ConfigHash,
    configs: &BTreeMap<ConfigHash, Config>,
    thrift: &Thrift,
    sure: f64,
) -> Vec<Proposal> {
    let score = |compared: &Compared| score(compared, thrift);
    let known: Vec<(&Candidate, &Compared)> =
        fit.iter().filter_map(|candidate| Some((*candidate, candidate.compared.as_ref().ok()?))).collect();
    let best_by = |fits: &dyn Fn(&Candidate, &Compared) -> bool, value: &dyn Fn(&Compared) -> f64| {
        let fitting = known.iter().filter(|(candidate, compared)| fits(candidate, compared));
        fitting
            .max_by(|a, b| value(a.1).partial_cmp(&value(b.1)).unwrap_or(Ordering::Equal).then(b.0.config.cmp(&a.0.config)))
            .copied()
    };
    let cheaper = |compared: &Compared| is_not_worse(compared, sure) && is_cheaper(compared, sure);
    let gains = |candidate: &Candidate| matches!(candidate.verdict, Verdict::Better | Verdict::Cheaper);
    let best = best_by(&|candidate, _| candidate.verdict == Verdict::Better, &|compared| compared.quality.low);
    let cheapest =
        best_by(&|_, compared| cheaper(compared), &|compared| -compared.cost_usd.map_or(f64::INFINITY, |cost| cost.to));
    let balanced = best_by(&|candidate, compared| gains(candidate) && score(compared) > 0.0, &score);
    let is_other_model = |candidate: &Candidate| {
        configs.get(&from).zip(configs.get(&candidate.config)).is_some_and(|(from, to)| is_model_alone(from, to))
    };
    let switched = best_by(&|candidate, _| gains(candidate) && is_other_model(candidate), &score);
    let mut found: Vec<Proposal> = Vec::new();
    let mut propose = |kind, chosen: Option<(&Candidate, &Compared)>| {
        let Some((candidate, compared)) = chosen.filter(|(one, _)| found.iter().all(|other| other.to != one.config)) else {
            return;
        };
        let confidence = match candidate.verdict {
            Verdict::Better => compared.quality.above(0.0),
            _ => compared.quality.above(-MARGIN).min(compared.cost_usd.map_or(0.0, |cost| cost.below())),
        };
        let (to, scope) = (candidate.config, candidate.scope.clone());
        found.push(Proposal { kind, to, scope, confidence, compared: compared.clone() });
    };
    let is_both = best.zip(cheapest).is_some_and(|(best, cheapest)| best.0.config == cheapest.0.config);
    if is_both {
        propose(RecommendationKind::Balanced, best);
    }
    propose(RecommendationKind::HighestPerf, best);
    propose(RecommendationKind::Cheapest, cheapest);
    propose(RecommendationKind::Balanced, balanced);
    propose(RecommendationKind::ModelSwitch, switched);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_eval::Episode;
    use hone_trace::Time;

    fn config(model: &str) -> Config {
        Config { model: Some(model.to_owned()), ..Config::default() }
    }

    fn rows(config: &Config, category: &str, n_solved: usize, n: usize, cost_usd: f64) -> Vec<Row> {
        let row = |idx: usize| {
            let is_solved = idx < n_solved;
            let episode = Episode {
                scenario: None,
                is_solved,
                score: None,
                n_turns: 1,
                n_tokens: 10,
                cost_usd: Some(cost_usd * if idx.is_multiple_of(2) { 0.9 } else { 1.1 }),
                duration_ms: None,
                is_broken: false,
                failure: None,
            };
            Row {
                config: config.hash(),
                category: Category::new(category).ok(),
                world: None,
                at: Time::from_unix_nanos(0),
                quality: Some(f64::from(u8::from(is_solved))),
                episode,
            }
        };
        (0..n).map(row).collect()
    }

    fn told(advice: &Advice) -> Vec<(RecommendationKind, ConfigHash, Option<&str>)> {
        advice.proposals.iter().map(|it| (it.kind, it.to, it.scope.category().map(Category::as_str))).collect()
    }

    fn known(configs: &[&Config]) -> BTreeMap<ConfigHash, Config> {
        configs.iter().map(|config| (config.hash(), (*config).clone())).collect()
    }

    #[test]
    fn the_best_and_the_cheapest_are_proposed_each_for_what_it_is() {
        let (now, good, cheap) = (config("now"), config("good"), config("cheap"));
        let all = [rows(&now, "a", 1200, 2000, 0.01), rows(&good, "a", 1600, 2000, 0.05), rows(&cheap, "a", 1220, 2000, 0.001)]
            .concat();
        let advice = advise(now.hash(), &all, &known(&[&now, &good, &cheap]), &Thrift::default());
        let expected = [(RecommendationKind::HighestPerf, good.hash(), None), (RecommendationKind::Cheapest, cheap.hash(), None)];
        assert_eq!(told(&advice), expected);
        assert!(advice.proposals.iter().all(|proposal| proposal.confidence > 0.97), "{advice:?}");
    }

    #[test]
    fn what_is_better_and_cheaper_is_one_proposal() {
        let (now, both) = (config("now"), config("both"));
        let all = [rows(&now, "a", 300, 500, 0.01), rows(&both, "a", 400, 500, 0.001)].concat();
        let advice = advise(now.hash(), &all, &BTreeMap::new(), &Thrift::default());
        assert_eq!(told(&advice), [(RecommendationKind::Balanced, both.hash(), None)]);
    }

    #[test]
    fn a_type_of_task_has_advice_of_its_own() {
        let (now, other) = (config("now"), config("other"));
        let all = [
            rows(&now, "sums", 200, 400, 0.01),
            rows(&now, "words", 360, 400, 0.01),
            rows(&other, "sums", 320, 400, 0.01),
            rows(&other, "words", 160, 400, 0.01),
        ]
        .concat();
        let advice = advise(now.hash(), &all, &BTreeMap::new(), &Thrift::default());
        assert_eq!(told(&advice), [(RecommendationKind::HighestPerf, other.hash(), Some("sums"))]);
        let verdicts: Vec<Verdict> = advice.candidates.iter().map(|candidate| candidate.verdict).collect();
        assert_eq!(verdicts, [Verdict::Worse, Verdict::Better, Verdict::Worse]);
    }

    #[test]
    fn types_of_few_episodes_are_no_comparisons_of_their_own() {
        let (now, other, rare) = (config("now"), config("other"), config("rare"));
        let seldom = (0..30).flat_map(|idx| [&now, &other].map(|config| rows(config, &format!("seldom-{idx}"), 1, 2, 0.01)));
        let mut all: Vec<Row> = seldom.flatten().collect();
        all.extend(
            [rows(&now, "often", 10, 40, 0.01), rows(&other, "often", 12, 40, 0.01), rows(&rare, "often", 1, 2, 0.01)].concat(),
        );
        let advice = advise(now.hash(), &all, &BTreeMap::new(), &Thrift::default());
        let of = |config: &Config| -> Vec<&Scope> {
            advice.candidates.iter().filter(|one| one.config == config.hash()).map(|one| &one.scope).collect()
        };
        assert_eq!(of(&other), [&Scope::All, &Scope::Category(Category::new("often").unwrap())]);
        assert_eq!(of(&rare), [&Scope::All], "what cannot be compared is named once");
    }

    #[test]
    fn nothing_is_proposed_on_thin_evidence() {
        let (now, other) = (config("now"), config("other"));
        let thin = [rows(&now, "a", 20, 30, 0.01), rows(&other, "a", 22, 30, 0.01)].concat();
        assert!(advise(now.hash(), &thin, &BTreeMap::new(), &Thrift::default()).proposals.is_empty());
        let few = [rows(&now, "a", 300, 400, 0.01), rows(&other, "a", 15, 15, 0.001)].concat();
        let advice = advise(now.hash(), &few, &BTreeMap::new(), &Thrift::default());
        assert_eq!(advice.candidates[0].compared, Err(Unlike::TooFew { n_from: 400, n_to: 15 }));
        assert!(advice.proposals.is_empty());
    }

    #[test]
    fn a_script_is_no_candidate() {
        let (now, gold, named) = (config("now"), config("script:gold"), config("scripted"));
        let all = [rows(&now, "a", 300, 500, 0.01), rows(&gold, "a", 500, 500, 0.0), rows(&named, "a", 400, 500, 0.001)].concat();
        let advice = advise(now.hash(), &all, &known(&[&now, &gold, &named]), &Thrift::default());
        assert_eq!(advice.candidates.iter().map(|one| one.config).collect::<Vec<_>>(), [named.hash()]);
        assert_eq!(told(&advice), [(RecommendationKind::Balanced, named.hash(), None)]);
    }

    #[test]
    fn a_cheaper_config_that_is_worse_is_not_proposed() {
        let (now, worse) = (config("now"), config("worse"));
        let all = [rows(&now, "a", 800, 1000, 0.01), rows(&worse, "a", 700, 1000, 0.0001)].concat();
        let advice = advise(now.hash(), &all, &known(&[&now, &worse]), &Thrift::default());
        assert!(advice.proposals.is_empty(), "{advice:?}");
    }
}
