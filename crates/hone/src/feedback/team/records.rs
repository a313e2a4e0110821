//! What an agent did, as others recorded it, and what that earned.

use super::{N_TRACES_MAX, Seen, Standing, Team};
use crate::clock::now;
use crate::failure::Failure;
use hone_data::facts::Facts;
use hone_reward::{Attempt, Scorer};
use hone_trace::store::{Field, TraceQuery, Write};
use hone_trace::{Reward, Trace};
use serde_json::Value;
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
        let bar = self.context.printer.count_bar("weighed");
        let (mut n, mut n_unscored) = (0, 0);
        for group in groups(traces) {
            let attempts: Vec<Attempt<'_>> = group.iter().map(|trace| Attempt { trace, item: &Value::Null }).collect();
            let scored = scorer.score_group(&attempts, self.args.seed, now());
            let mut writes = Vec::new();
            for (trace, scored) in group.iter().zip(scored.traces) {
                bar.inc(1);
                match scored {
                    Ok(scored) => {
                        let given = |reward: &Reward| trace.rewards.iter().any(|known| known.id == reward.id);
                        let fresh = scored.turns.into_iter().chain([scored.reward]).filter(|reward| !given(reward));
                        writes.extend(fresh.map(|reward| Write::Reward(trace.id, reward)));
                        n += 1;
                    }
                    Err(error) => {
                        n_unscored += 1;
                        if n_unscored <= 5 {
                            self.context.printer.complain(&format!("trace {}: {error}", trace.id));
                        }
                    }
                }
            }
            self.runtime.block_on(self.store.put(writes))?;
        }
        bar.finish_and_clear();
        self.say(
            "trace",
            &format!("{n} episodes of {} weighed by `{}`, {n_unscored} that could not be", self.agent, recipe.name),
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
