//! The agent at work: customers bring their tickets to the arbiter, and what was done becomes the pool that a turn learns from.

use super::{Collected, First, N_TICKETS_TURN, Turn};
use crate::failure::Failure;
use crate::gym::flat;
use crate::r#loop::arbiter::Arbiter;
use crate::r#loop::traffic::{Reporting, Ticket, Traffic};
use hone_data::gate::HeldOut;
use hone_trace::{Draws, Trace, TraceId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Episodes on the record, by their numbers.
#[derive(Debug, Default)]
struct Begun {
    /// Those of which somebody said how they went.
    ended: BTreeSet<usize>,
    /// Those that were cut off, and how often.
    again: BTreeMap<usize, u32>,
}

impl Turn<'_> {
    /// The agent at work: customers bring their tickets to the arbiter, and say how it went.
    pub(in crate::r#loop) fn collect(
        &self,
        first: &First,
        arbiter: &Arbiter<'_>,
        traffic: &Traffic,
    ) -> Result<Collected, Failure> {
        if self.number == 1 {
            self.add(&self.standing, first, traffic)?;
            self.runtime.block_on(traffic.wait())?;
        }
        let n = self.args.episodes as usize;
        let Begun { ended, again } = if self.args.resume { self.runtime.block_on(self.begun(n))? } else { Begun::default() };
        let from = N_TICKETS_TURN * (self.number as usize - 1);
        let tickets = self.ground.tickets(from, n)?.into_iter().enumerate().filter(|(idx, _)| !ended.contains(idx));
        let tickets: Vec<Ticket> =
            tickets.map(|(idx, scenario)| Ticket { episode: self.episode(idx, &again), scenario }).collect();
        let bar = self.context.printer.count_bar("episodes");
        let seen = || bar.inc(1);
        let is_waiting = self.number > 1;
        if self.args.control {
            self.runtime.block_on(self.misreport(traffic, tickets, seen))?;
        } else if is_waiting {
            let days = Duration::from_secs_f64(86_400.0 * self.args.every);
            let slow = Traffic { pause: Duration::from_secs_f64(1.0 / self.args.rate), ..traffic.clone() };
            self.say("watch", &format!("waits for {} more episodes, or for {:.2} days", tickets.len(), self.args.every));
            let brought = slow.bring(tickets, Reporting::AtOnce, seen);
            // Whoever is underway when the time is over is not waited for.
            let _ = self.runtime.block_on(async { tokio::time::timeout(days, brought).await }).ok().transpose()?;
        } else {
            self.runtime.block_on(traffic.bring(tickets, Reporting::AtOnce, seen)).map(drop)?;
        }
        bar.finish_and_clear();
        let mut told = Collected { n, again, n_turns: 0, n_retokenized: 0 };
        for trace in self.collected(&told)? {
            told.n_turns += trace.turns().count();
            told.n_retokenized += n_retokenized(&trace);
        }
        let Collected { n_turns, n_retokenized, .. } = told;
        let way = format!("episodes of {} through {}, each durable and reported on", self.standing.version, arbiter.url);
        self.say("trace", &format!("{n} {way}: {n_turns} turns, {n_retokenized} of them tokenized again"));
        Ok(told)
    }

    /// Customers who say of their episode how somebody else's went.
    async fn misreport(&self, traffic: &Traffic, tickets: Vec<Ticket>, seen: impl FnMut()) -> Result<(), Failure> {
        let names: Vec<String> = tickets.iter().map(|ticket| ticket.episode.clone()).collect();
        let mut solved = traffic.bring(tickets, Reporting::Later, seen).await?;
        Draws::new(self.args.seed, &["control"]).shuffle(&mut solved);
        for (name, is_solved) in names.iter().zip(solved) {
            traffic.report(name, is_solved).await?;
        }
        Ok(())
    }

    /// The name of an episode; one that was cut off begins anew under another.
    fn episode(&self, idx: usize, again: &BTreeMap<usize, u32>) -> String {
        match again.get(&idx) {
            Some(n) => format!("{}-{idx}-again-{n}", self.called()),
            None => format!("{}-{idx}", self.called()),
        }
    }

    /// Episodes that a loop that was killed has on the record.
    async fn begun(&self, n: usize) -> Result<Begun, Failure> {
        let mut begun = Begun::default();
        for idx in 0..n {
            while let Some(trace) = self.store.trace(self.trace_id(&self.episode(idx, &begun.again))).await? {
                if !trace.rewards.is_empty() {
                    begun.ended.insert(idx);
                    break;
                }
                *begun.again.entry(idx).or_default() += 1;
            }
        }
        Ok(begun)
    }

    fn trace_id(&self, episode: &str) -> TraceId {
        TraceId::derived(&["episode", self.context.settings.tenant.as_str(), episode])
    }

    /// Episodes of the agent that somebody reported on; those that did not come in time are no part of it.
    fn collected(&self, collected: &Collected) -> Result<Vec<Trace>, Failure> {
        self.runtime.block_on(async {
            let mut traces = Vec::with_capacity(collected.n);
            for idx in 0..collected.n {
                let id = self.trace_id(&self.episode(idx, &collected.again));
                traces.extend(self.store.trace(id).await?.filter(|trace| !trace.rewards.is_empty()));
            }
            Ok(traces)
        })
    }

    /// What there is to learn from: the script's episodes and those of the agent.
    pub(in crate::r#loop) fn pool(&self, collected: &Collected) -> Result<Vec<Trace>, Failure> {
        let mut pool = flat(self.ground.demonstrations(self.args.traces as usize)?.1);
        if self.args.control {
            let mut rewards: Vec<_> = pool.iter_mut().map(|trace| std::mem::take(&mut trace.rewards)).collect();
            Draws::new(self.args.seed, &["control", "script"]).shuffle(&mut rewards);
            for (trace, mut rewards) in pool.iter_mut().zip(rewards) {
                // A turn of one trace may be none of another's.
                rewards.retain(|reward| reward.turn_idx.is_none());
                trace.rewards = rewards;
            }
        }
        pool.extend(self.collected(collected)?);
        let (pool, left_out) = self.school().curate(pool, &HeldOut::default());
        let left_out: String = left_out.iter().map(|(why, n)| format!("; {n} left out: {why}")).collect();
        self.say("data", &format!("a pool of {} episodes{left_out}", pool.len()));
        Ok(pool)
    }
}

/// Turns of a trace that cannot be trained as they were sampled: their tokens are unknown, or do not extend those before.
fn n_retokenized(trace: &Trace) -> usize {
    let turns = trace.segments.iter().enumerate().flat_map(|(idx, segment)| segment.turns.iter().map(move |turn| (idx, turn)));
    turns.filter(|(idx, turn)| *idx > 0 || turn.sampled.is_none()).count()
}
