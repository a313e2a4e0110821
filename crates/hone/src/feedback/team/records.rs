//! What an agent did, as others recorded it, and what that earned.

use super::{N_TRACES_MAX, Seen, Standing, Team};
use crate::clock::now;
use crate::failure::Failure;
use crate::reward::{Weighed, weigh};
use hone_data::facts::Facts;
use hone_reward::Scorer;
use hone_trace::Trace;
use hone_trace::store::{Field, TraceQuery};
use std::collections::BTreeMap;
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

    /// What the agent did in that time, oldest first.
    pub(super) fn traces(&self, seen: &Seen) -> Result<Vec<Trace>, Failure> {
        let mut found: BTreeMap<_, Trace> = BTreeMap::new();
        for path in AGENT_FIELDS {
            let query = TraceQuery {
                tenant: Some(self.context.settings.tenant.clone()),
                since: seen.since,
                until: Some(seen.until),
                field: Some(Field { path: path.to_owned(), value: self.agent.to_string() }),
                ..TraceQuery::default()
            };
            let mut after = None;
            while found.len() < N_TRACES_MAX {
                let page = self.runtime.block_on(self.store.traces(&query, after, PAGE_LEN))?;
                found.extend(page.items.into_iter().map(|trace| ((trace.started, trace.id), trace)));
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
        let Weighed { n_scored, n_unscored, .. } = weigh(&scorer, &groups(traces), self.args.seed, self.context.printer, keep)?;
        self.say(
            "trace",
            &format!("{n_scored} episodes of {} weighed by `{}`, {n_unscored} that could not be", self.agent, recipe.name),
        );
        Ok(())
    }
}

/// What is judged together: traces of one group, or of the same first question, a few at a time.
fn groups(traces: &[Trace]) -> Vec<Vec<&Trace>> {
    let mut by_question: BTreeMap<_, Vec<&Trace>> = BTreeMap::new();
    for trace in traces {
        let question = trace.group.is_none().then(|| Facts::of(trace, "").scenario);
        by_question.entry((trace.group, question)).or_default().push(trace);
    }
    by_question.into_values().flat_map(|all| all.chunks(N_TOGETHER).map(<[_]>::to_vec).collect::<Vec<_>>()).collect()
}
