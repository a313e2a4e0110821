//! Groups of traces get rewards by a recipe, and keep them.

use crate::clock::now;
use crate::failure::Failure;
use crate::printer::Printer;
use hone_reward::{Attempt, Scorer};
use hone_trace::store::{Put, Write};
use hone_trace::{Reward, RewardId, Trace, TraceId};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Traces that cannot be scored are told up to this many, one by one; the rest are counted.
const N_TOLD_MAX: usize = 5;

/// The most rewards that wait to be written, but for those of one group.
const N_WAITING_MAX: usize = 1000;
/// What was weighed waits at most about this long to be written.
const WAITING_MAX: Duration = Duration::from_secs(1);
/// Between two lines that say how far it is, where no bar is seen.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// What was weighed.
#[derive(Debug, Default)]
pub(crate) struct Weighed {
    pub(crate) n_groups: usize,
    pub(crate) n_scored: usize,
    pub(crate) n_unscored: usize,
    /// Episodes that broke: they say nothing of who played, are shown to no judge and keep what they have.
    pub(crate) n_broken: usize,
    /// All of those that were not scored.
    pub(crate) unscored: Vec<Unscored>,
    pub(crate) n_judge_calls: u32,
    /// The sum of the rewards of those that were scored.
    pub(crate) total: f64,
    /// For each signal that some traces lack, how many these are.
    pub(crate) lacking: BTreeMap<String, usize>,
}

/// A trace that could not be scored.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Unscored {
    pub(crate) trace: TraceId,
    pub(crate) reason: String,
}

/// Weighs what is judged together, group by group; `keep` writes what is new, of many groups at once, but right away where a judge was paid
/// for it. Those that stand `beside` are there to be compared with, and keep what they have, as do episodes that broke.
pub(crate) fn weigh(
    scorer: &Scorer<'_>,
    groups: &[Vec<&Trace>],
    beside: &BTreeSet<TraceId>,
    seed: u64,
    printer: &Printer,
    mut keep: impl FnMut(Vec<Write>) -> Result<Vec<Put>, Failure>,
) -> Result<Weighed, Failure> {
    let bar = printer.count_bar("weighed");
    let (mut weighed, mut n_shortened) = (Weighed::default(), 0);
    let n_judged: usize = groups.iter().map(Vec::len).sum();
    let (mut waiting, mut kept_at, mut said_at) = (Vec::new(), Instant::now(), Instant::now());
    for group in groups {
        let (broken, group): (Vec<&Trace>, Vec<&Trace>) = group.iter().copied().partition(|trace| trace.broken().is_some());
        let n_broken = broken.iter().filter(|trace| !beside.contains(&trace.id)).count();
        weighed.n_broken += n_broken;
        bar.inc(n_broken as u64);
        if group.is_empty() {
            continue;
        }
        weighed.n_groups += 1;
        let attempts: Vec<Attempt<'_>> = group.iter().map(|&trace| Attempt { trace, item: &Value::Null }).collect();
        let scored = scorer.score_group(&attempts, seed, now());
        let n_calls = scored.bill().n_calls;
        weighed.n_judge_calls += n_calls;
        n_shortened += scored.n_shortened();
        for (trace, scored) in group.iter().zip(scored.traces).filter(|(trace, _)| !beside.contains(&trace.id)) {
            bar.inc(1);
            match scored {
                Ok(scored) => {
                    weighed.n_scored += 1;
                    weighed.total += scored.reward.total;
                    for signal in scorer.lacking(trace) {
                        *weighed.lacking.entry(signal.to_owned()).or_default() += 1;
                    }
                    let fresh = fresh(trace, scored.turns.into_iter().chain([scored.reward]).collect());
                    waiting.extend(fresh.into_iter().map(|reward| Write::Reward(trace.id, reward)));
                }
                Err(error) => {
                    weighed.n_unscored += 1;
                    if weighed.n_unscored <= N_TOLD_MAX {
                        printer.complain(&format!("trace {}: {error}", trace.id));
                    }
                    weighed.unscored.push(Unscored { trace: trace.id, reason: error.to_string() });
                }
            }
        }
        let is_due = n_calls > 0 || waiting.len() >= N_WAITING_MAX || kept_at.elapsed() >= WAITING_MAX;
        if is_due && !waiting.is_empty() {
            keep(std::mem::take(&mut waiting))?;
        }
        if is_due {
            kept_at = Instant::now();
        }
        if bar.is_hidden() && said_at.elapsed() >= SAID_EVERY {
            said_at = Instant::now();
            let n = weighed.n_scored + weighed.n_unscored + weighed.n_broken;
            printer.say(&format!("{n} of {n_judged} traces weighed"));
        }
    }
    if !waiting.is_empty() {
        keep(waiting)?;
    }
    bar.finish_and_clear();
    if weighed.n_unscored > N_TOLD_MAX {
        printer.complain(&format!("and {} more that cannot be scored", weighed.n_unscored - N_TOLD_MAX));
    }
    if n_shortened > 0 {
        printer.complain(&format!(
            "{n_shortened} of {n_judged} traces were judged without their middle: they do not fit the judge's context"
        ));
    }
    for (signal, &n) in &weighed.lacking {
        let n_scored = weighed.n_scored;
        let text = format!(
            "{n} of {n_scored} traces have no signal `{signal}`, which counts as its `missing` there: 0 unless it is set"
        );
        // That a few have none may be meant, that all have none is a slip.
        if n == n_scored { printer.complain(&text) } else { printer.say(&text) }
    }
    Ok(weighed)
}

/// What is to be written of the rewards of a trace, the last of which is for the whole of it. Nothing, where the last word on it is the same.
/// Where the recipe has spoken before, and another one or a person has since, or the trace has grown, or a judge thinks otherwise now, it
/// speaks again under other ids: the last word counts.
fn fresh(trace: &Trace, mut rewards: Vec<Reward>) -> Vec<Reward> {
    let Some((last, whole)) = trace.reward().zip(rewards.last()) else { return rewards };
    if (&last.by, &last.components, last.total) == (&whole.by, &whole.components, whole.total) {
        return vec![];
    }
    let is_known = |reward: &Reward| trace.rewards.iter().any(|known| known.id == reward.id);
    if rewards.iter().any(is_known) {
        rewards.iter_mut().for_each(|reward| reward.id = RewardId::derived(&[&reward.id.to_string(), &last.id.to_string()]));
    }
    rewards
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::Wishes;
    use hone_policy::script::{AfterLast, Script};
    use hone_reward::Recipe;
    use hone_trace::policy::{Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
    use hone_trace::{Config, ErrorEvent, Giver, GiverKind, Message, Role, Segment, Tenant, Time, TraceOutcome, Turn};
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A judge who never answers.
    #[derive(Default)]
    struct Silent(Config);

    impl Policy for Silent {
        fn config(&self) -> &Config {
            &self.0
        }

        fn open(&self, _: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
            Err(PolicyError { kind: PolicyErrorKind::Refused, message: "no".to_owned(), llm_calls: Vec::new() })
        }
    }

    #[derive(Clone, Default)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Said {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            io::Write::write(&mut *self.0.lock().unwrap(), bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn trace(n: usize) -> Trace {
        let turn = Turn::new(vec![Message::text(Role::User, "Hi")], Message::text(Role::Assistant, n.to_string()));
        let id = TraceId::derived(&[&n.to_string()]);
        let segments = vec![Segment { turns: vec![turn], ..Segment::default() }];
        Trace { segments, ..Trace::new(id, Tenant::default(), Time::from_unix_nanos(0), Config::default().hash()) }
    }

    #[track_caller]
    fn check(n_traces: usize, last_line: &str) {
        let recipe = "components = [{ name = 'rank', kind = 'ruler', weight = 1.0, role = 'primary' }]";
        let (recipe, judge) = (Recipe::parse(recipe).unwrap(), Silent::default());
        let scorer = Scorer::new(&recipe, Some(&judge)).unwrap();
        let traces: Vec<Trace> = (0..n_traces).map(trace).collect();
        let said = Said::default();
        let printer = Printer::on(Wishes::default(), io::sink(), said.clone());
        let weighed = weigh(&scorer, &[traces.iter().collect()], &BTreeSet::new(), 1, &printer, |_| Ok(Vec::new())).unwrap();
        let ids: Vec<TraceId> = weighed.unscored.iter().map(|unscored| unscored.trace).collect();
        assert_eq!(ids, traces.iter().map(|trace| trace.id).collect::<Vec<_>>());
        assert!(weighed.unscored.iter().all(|unscored| unscored.reason.contains("the judge gave no answer")), "{weighed:?}");
        let said = String::from_utf8(said.0.lock().unwrap().clone()).unwrap();
        assert_eq!(said.lines().count(), n_traces.min(6), "{said}");
        assert!(said.lines().last().unwrap().starts_with(last_line), "{said}");
    }

    #[test]
    fn all_that_cannot_be_scored_are_counted_and_kept_though_few_are_told() {
        check(5, "trace ");
        check(8, "and 3 more that cannot be scored");
    }

    /// How many traces each write had, of groups of one each.
    fn written(recipe: &str, judge: Option<&dyn Policy>, traces: &[Trace]) -> Vec<usize> {
        let (recipe, printer) = (Recipe::parse(recipe).unwrap(), Printer::on(Wishes::default(), io::sink(), io::sink()));
        let (scorer, mut written) = (Scorer::new(&recipe, judge).unwrap(), Vec::new());
        let groups: Vec<Vec<&Trace>> = traces.iter().map(|trace| vec![trace]).collect();
        weigh(&scorer, &groups, &BTreeSet::new(), 1, &printer, |writes| {
            written.push(writes.len());
            Ok(Vec::new())
        })
        .unwrap();
        written
    }

    #[test]
    fn what_costs_nothing_is_written_together_and_what_a_judge_was_paid_for_at_once() {
        let traces: Vec<Trace> = (0..20).map(trace).collect();
        let outcome = "components = [{ name = 'done', kind = 'outcome', weight = 1.0, role = 'primary' }]";
        assert_eq!(written(outcome, None, &traces), [20]);
        let many: Vec<Trace> = (0..2500).map(trace).collect();
        let parts = written(outcome, None, &many);
        assert!(parts.iter().all(|&n| n <= N_WAITING_MAX) && parts.iter().sum::<usize>() == 2500, "{parts:?}");
        let rubric = "components = [{ name = 'q', kind = 'rubric', weight = 1.0, role = 'primary', criteria = [\
                      { id = 'kind', text = 'Is it kind?' }] }]";
        let answer = r#"{"scores": [{"criterion": "kind", "explanation": "it is", "score": 1.0}]}"#;
        let judge = Script::new("judge", vec![Message::text(Role::Assistant, answer)], AfterLast::Repeat).unwrap();
        assert_eq!(written(rubric, Some(&judge), &traces[..3]), [1, 1, 1]);
    }

    #[test]
    fn an_episode_that_broke_is_counted_and_gets_no_reward() {
        let recipe = Recipe::parse("components = [{ name = 'done', kind = 'outcome', weight = 1.0, role = 'primary' }]").unwrap();
        let (scorer, printer) = (Scorer::new(&recipe, None).unwrap(), Printer::on(Wishes::default(), io::sink(), io::sink()));
        let mut traces: Vec<Trace> = (0..4).map(trace).collect();
        for (trace, kind) in traces.iter_mut().zip(["env_error", "policy_provider", "policy_too_long", "loop"]) {
            let error = ErrorEvent { kind: kind.into(), recovered: false, message: String::new() };
            trace.segments[0].turns[0].errors.push(error);
        }
        let groups = [vec![&traces[0], &traces[2], &traces[3]], vec![&traces[1]]];
        let mut written = Vec::new();
        let weighed = weigh(&scorer, &groups, &BTreeSet::new(), 1, &printer, |writes| {
            written.extend(writes);
            Ok(Vec::new())
        })
        .unwrap();
        assert_eq!((weighed.n_broken, weighed.n_scored, weighed.n_unscored, weighed.n_groups), (2, 2, 0, 1));
        let rewarded = |write: &Write| matches!(write, Write::Reward(id, _) if *id == traces[2].id || *id == traces[3].id);
        assert!(written.len() == 2 && written.iter().all(rewarded), "{written:?}");
    }

    /// Weighs a trace by its outcome, and adds what is written to what it has; the total of each of its rewards.
    fn totals_after(trace: &mut Trace) -> Vec<f64> {
        let recipe = Recipe::parse("components = [{ name = 'done', kind = 'outcome', weight = 1.0, role = 'primary' }]").unwrap();
        let scorer = Scorer::new(&recipe, None).unwrap();
        let printer = Printer::on(Wishes::default(), io::sink(), io::sink());
        let mut written = Vec::new();
        weigh(&scorer, &[vec![trace]], &BTreeSet::new(), 1, &printer, |writes| {
            written.extend(writes);
            Ok(Vec::new())
        })
        .unwrap();
        trace.rewards.extend(written.into_iter().filter_map(|write| match write {
            Write::Reward(_, reward) => Some(reward),
            _ => None,
        }));
        let ids: BTreeSet<_> = trace.rewards.iter().map(|reward| reward.id).collect();
        assert_eq!(ids.len(), trace.rewards.len(), "the store would take one for another");
        trace.rewards.iter().map(|reward| reward.total).collect()
    }

    #[test]
    fn what_is_weighed_again_counts_where_it_is_worth_something_else_now() {
        let mut trace = Trace { outcome: TraceOutcome::Failure, ..trace(1) };
        for (outcome, expected) in [
            (TraceOutcome::Failure, vec![0.0]),
            (TraceOutcome::Failure, vec![0.0]),
            (TraceOutcome::Success, vec![0.0, 1.0]),
            (TraceOutcome::Success, vec![0.0, 1.0]),
            (TraceOutcome::Failure, vec![0.0, 1.0, 0.0]),
        ] {
            trace.outcome = outcome;
            assert_eq!(totals_after(&mut trace), expected);
        }
    }

    #[test]
    fn the_recipe_has_the_last_word_also_where_a_person_spoke_after_it() {
        let said = |n: usize| {
            let by = Giver { kind: GiverKind::Human, name: "solved".into(), config: None };
            let id = RewardId::derived(&["said", &n.to_string()]);
            Reward { total: -1.0, ..Reward::sum(id, Time::from_unix_nanos(0), by, vec![]) }
        };
        let mut trace = Trace { outcome: TraceOutcome::Success, ..trace(1) };
        assert_eq!(totals_after(&mut trace), [1.0]);
        for n in 1..3 {
            trace.rewards.push(said(n));
            let expected = [1.0, -1.0, 1.0, -1.0, 1.0];
            assert_eq!(totals_after(&mut trace), expected[..=2 * n]);
            assert_eq!(totals_after(&mut trace), expected[..=2 * n], "it has nothing new to say");
        }
    }
}
