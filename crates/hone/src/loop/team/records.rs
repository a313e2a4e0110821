//! What an agent did, as others recorded it, and what that earned.

use super::{N_TRACES_MAX, Seen, Standing, Team};
use crate::clock::now;
use crate::failure::Failure;
use crate::reward::{Weighed, weigh};
use hone_data::facts::Facts;
use hone_reward::Scorer;
use hone_trace::store::{Field, TraceQuery};
use hone_trace::{GiverKind, GroupId, Time, Trace};
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

/// Where a trace says which agent it is of: one that the gateway wrote, and one that came by OpenTelemetry.
const AGENT_FIELDS: [&str; 2] = ["metadata.agent.agent", "metadata.agent_name"];
/// Traces that are read at once.
const PAGE_LEN: u32 = 1000;
/// Traces that are judged together where nothing groups them but their question.
const N_TOGETHER: usize = 8;
/// Between two looks at whether there are enough new traces.
const WATCH: Duration = Duration::from_secs(60);

impl Team<'_> {
    /// The traces of the agent, weighed.
    pub(super) fn collect(&self, standing: &Standing) -> Result<Seen, Failure> {
        let began = Instant::now();
        let days = Duration::from_secs_f64(86_400.0 * self.args.every);
        let n_wanted = usize::try_from(self.context.settings.data.rl_points).unwrap_or(usize::MAX);
        let mut is_said = false;
        loop {
            let mut seen = Seen { since: standing.since, until: now(), n: 0 };
            let traces = self.traces(&seen)?;
            seen.n = traces.len();
            if self.number == 1 || seen.n >= n_wanted || began.elapsed() >= days {
                self.weigh(&traces)?;
                return Ok(seen);
            }
            if !std::mem::replace(&mut is_said, true) {
                let n_missing = n_wanted - seen.n;
                self.say("watch", &format!("waits for {n_missing} more traces, or for {:.2} days", self.args.every));
            }
            thread::sleep(WATCH.min(days));
        }
    }

    /// What the agent did in that time, or was first reported on in it, oldest first. Reports are waited for as long as a turn takes at
    /// most; a recipe waits for none.
    pub(super) fn traces(&self, seen: &Seen) -> Result<Vec<Trace>, Failure> {
        let patience = if self.recipe().is_none() { (86_400e9 * self.args.every) as i64 } else { 0 };
        let from = seen.since.map(|since| Time::from_unix_nanos(since.unix_nanos().saturating_sub(patience)));
        let mut found: BTreeMap<_, Trace> = BTreeMap::new();
        for path in AGENT_FIELDS {
            let query = TraceQuery {
                tenant: Some(self.context.settings.tenant.clone()),
                since: from,
                until: Some(seen.until),
                field: Some(Field { path: path.to_owned(), value: self.agent.to_string() }),
                ..TraceQuery::default()
            };
            let mut after = None;
            while found.len() < N_TRACES_MAX {
                let page = self.runtime.block_on(self.store.traces(&query, after, PAGE_LEN))?;
                let new = page.items.into_iter().filter(|trace| seen.is_new(trace));
                found.extend(new.map(|trace| ((trace.started, trace.id), trace)));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Weighs traces by the recipe, and keeps what they earned; without a recipe they have what was reported.
    fn weigh(&self, traces: &[Trace]) -> Result<(), Failure> {
        let n_rewarded = || traces.iter().filter(|trace| trace.reward().is_some()).count();
        let Some(recipe) = self.recipe() else {
            self.say("trace", &format!("{} episodes of {}, {} of them reported on", traces.len(), self.agent, n_rewarded()));
            return Ok(());
        };
        let scorer = Scorer::new(recipe, self.judge()).map_err(Failure::user)?;
        let keep = |writes| Ok(self.runtime.block_on(self.store.put(writes))?);
        let (groups, printer) = (groups(traces), self.context.printer);
        let Weighed { n_scored, n_unscored, n_broken, .. } =
            weigh(&scorer, &groups, &BTreeSet::new(), self.args.seed, printer, keep)?;
        let broken = if n_broken == 0 { String::new() } else { format!(", {n_broken} that broke") };
        self.say(
            "trace",
            &format!(
                "{n_scored} episodes of {} weighed by `{}`, {n_unscored} that could not be{broken}",
                self.agent, recipe.name
            ),
        );
        Ok(())
    }
}

impl Seen {
    /// Whether a trace of before its end was of no turn before: it began since then, or nobody had said anything of it.
    fn is_new(&self, trace: &Trace) -> bool {
        let Some(since) = self.since else { return true };
        let reported = trace.rewards.iter().filter(|reward| reward.by.kind == GiverKind::Human).map(|reward| reward.at).min();
        trace.started >= since || reported.is_some_and(|at| (since..self.until).contains(&at))
    }
}

/// What is judged together: traces of one group, or of the same first question, a few at a time and about as many each time.
fn groups(traces: &[Trace]) -> Vec<Vec<&Trace>> {
    let mut by_question: BTreeMap<_, Vec<&Trace>> = BTreeMap::new();
    for trace in traces {
        let question = trace.group.is_none().then(|| Facts::of(trace, "").scenario);
        by_question.entry((trace.group, question)).or_default().push(trace);
    }
    let together = |((group, _), all): ((Option<GroupId>, _), Vec<_>)| {
        let n_parts = if group.is_some() { 1 } else { all.len().div_ceil(N_TOGETHER) };
        parted(all, n_parts)
    };
    by_question.into_iter().flat_map(together).collect()
}

/// All of them in so many parts, of which none has more than one more than another.
fn parted<T>(all: Vec<T>, n_parts: usize) -> Vec<Vec<T>> {
    let (n_each, n_longer) = (all.len() / n_parts, all.len() % n_parts);
    let mut rest = all.into_iter();
    (0..n_parts).map(|part| rest.by_ref().take(n_each + usize::from(part < n_longer)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Config, Giver, Reward, RewardId, Tenant, TraceId};

    fn at(seconds: i64) -> Time {
        Time::from_unix_nanos(seconds * 1_000_000_000)
    }

    /// Whether a trace that began then and was reported on then is new between the tenth second and the twentieth.
    fn is_new(began: i64, reported: &[i64]) -> bool {
        let by = Giver { kind: GiverKind::Human, name: "thumb".into(), config: None };
        let reward = |&seconds: &i64| Reward {
            total: 1.0,
            ..Reward::sum(RewardId::derived(&[&seconds.to_string()]), at(seconds), by.clone(), vec![])
        };
        let rewards = reported.iter().map(reward).collect();
        let trace = Trace::new(TraceId::derived(&["t"]), Tenant::default(), at(began), Config::default().hash());
        Seen { since: Some(at(10)), until: at(20), n: 0 }.is_new(&Trace { rewards, ..trace })
    }

    #[test]
    fn a_group_is_judged_whole_and_nobody_is_left_alone() {
        let lens = |n_traces: usize, group: Option<GroupId>| -> Vec<usize> {
            let id = |idx: usize| TraceId::derived(&[&idx.to_string()]);
            let trace = |idx| Trace::new(id(idx), Tenant::default(), at(0), Config::default().hash());
            let traces: Vec<Trace> = (0..n_traces).map(|idx| Trace { group, ..trace(idx) }).collect();
            groups(&traces).iter().map(Vec::len).collect()
        };
        assert_eq!(lens(N_TOGETHER + 1, None), [N_TOGETHER.div_ceil(2) + 1, N_TOGETHER / 2]);
        assert_eq!(lens(2 * N_TOGETHER, Some(GroupId::derived(&["g"]))), [2 * N_TOGETHER]);
        assert_eq!(lens(57, None), [8, 7, 7, 7, 7, 7, 7, 7]);
        for n_traces in 2..300 {
            let lens = lens(n_traces, None);
            assert_eq!(lens.iter().sum::<usize>(), n_traces);
            assert!(lens.iter().all(|len| (2..=N_TOGETHER).contains(len)), "{n_traces}: {lens:?}");
        }
    }

    #[test]
    fn an_episode_is_learned_from_once_also_where_its_report_comes_late() {
        assert!(is_new(12, &[]) && is_new(12, &[13]));
        assert!(is_new(5, &[13]), "reported late");
        assert!(!is_new(5, &[7]) && !is_new(5, &[7, 13]), "the turn before had it");
        assert!(!is_new(5, &[]) && !is_new(5, &[20]), "the next turn has it");
    }
}
