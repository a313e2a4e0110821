//! Records into the store, a batch at a time, at most six of them on their way.
//!
//! Of what is sent only so much is kept as is needed when something is there already under its id: a fingerprint of a
//! trace, the members of a group. Knows nothing of files and formats.

use super::fingerprint::Fingerprint;
use super::reading::{Fresh, FreshTrace};
use super::tally::Tally;
use crate::failure::Failure;
use hone_store::{Database, Encoded, Options};
use hone_trace::store::{Document, Kind, Put, StoreError, Write};
use hone_trace::{ConfigHash, Group, Reward, RewardId, Tenant, Time, TraceId};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// How many batches are on their way at once: enough that reading goes on while the store tidies its log.
const IN_FLIGHT_MAX: usize = 6;
/// A batch also ends when its lines had this many bytes.
const BATCH_BYTES_MAX: u64 = 16 << 20;
/// How many configs are remembered as written. To write one twice is harmless.
const CONFIGS_MAX: usize = 100_000;

/// Sends records to the store.
pub(super) struct Writing {
    store: Arc<dyn Database>,
    tenant: Tenant,
    now: Time,
    batch_len: usize,
    configs: HashSet<ConfigHash>,
    batch: Batch,
    in_flight: VecDeque<JoinHandle<Result<Sent, StoreError>>>,
}

#[derive(Default)]
struct Batch {
    writes: Vec<Encoded>,
    kept: Vec<(u64, Kept)>,
    n_traces: usize,
    n_bytes: u64,
}

/// What is remembered of a write, beside its line.
enum Kept {
    /// A config is known by its content: what is there under its hash is the same.
    Config,
    /// With a fingerprint where the format has no dates of its own, and what it earns if it is there then.
    Trace(TraceId, Option<Fingerprint>, Option<Reward>),
    Group(Group),
    Reward,
}

/// What became of each write of a batch.
struct Sent {
    kept: Vec<(u64, Kept)>,
    puts: Vec<Put>,
}

impl Writing {
    pub(super) fn new(store: Arc<dyn Database>, tenant: Tenant, now: Time, batch_len: usize) -> Self {
        let (configs, in_flight) = (HashSet::new(), VecDeque::new());
        Self { store, tenant, now, batch_len, configs, batch: Batch::default(), in_flight }
    }

    /// Takes what a line gave, and sends a batch when one is full.
    pub(super) async fn take(&mut self, line: u64, n_bytes: u64, fresh: Fresh, tally: &mut Tally<'_>) -> Result<(), Failure> {
        for config in fresh.imported.configs {
            let document = Document::of(&config, 0, self.tenant.clone(), self.now);
            if self.configs.len() >= CONFIGS_MAX {
                self.configs.clear();
            }
            if document.id.parse().is_ok_and(|hash| self.configs.insert(hash)) {
                self.push_document(line, Kept::Config, document)?;
            }
        }
        for FreshTrace { id, encoded, fingerprint, reward } in fresh.traces {
            self.batch.n_traces += 1;
            self.batch.push(line, Kept::Trace(id, fingerprint, reward), encoded);
        }
        for group in fresh.imported.groups {
            let document = Document::of(&group, 0, group.tenant.clone(), group.at);
            self.push_document(line, Kept::Group(group), document)?;
        }
        self.batch.n_bytes += n_bytes;
        if self.batch.n_traces >= self.batch_len || self.batch.n_bytes >= BATCH_BYTES_MAX {
            self.send(tally).await?;
        }
        Ok(())
    }

    fn push_document(&mut self, line: u64, kept: Kept, document: Document) -> Result<(), Failure> {
        // The options only concern traces.
        self.batch.push(line, kept, Encoded::of(&Write::Document(document), &Options::default())?);
        Ok(())
    }

    /// Waits until all that was taken is durable.
    pub(super) async fn finish(&mut self, tally: &mut Tally<'_>) -> Result<(), Failure> {
        // Traces that are settled leave rewards to be sent.
        while !self.batch.writes.is_empty() || !self.in_flight.is_empty() {
            self.send(tally).await?;
            if let Some(sent) = self.in_flight.pop_front() {
                self.settle(sent, tally).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, tally: &mut Tally<'_>) -> Result<(), Failure> {
        let Batch { writes, kept, .. } = std::mem::take(&mut self.batch);
        if writes.is_empty() {
            return Ok(());
        }
        if self.in_flight.len() >= IN_FLIGHT_MAX
            && let Some(oldest) = self.in_flight.pop_front()
        {
            self.settle(oldest, tally).await?;
        }
        let store = Arc::clone(&self.store);
        self.in_flight.push_back(tokio::spawn(async move {
            let puts = store.put_encoded(writes).await?;
            Ok(Sent { kept, puts })
        }));
        Ok(())
    }

    async fn settle(&mut self, sent: JoinHandle<Result<Sent, StoreError>>, tally: &mut Tally<'_>) -> Result<(), Failure> {
        let Sent { kept, puts } = sent.await.map_err(|_| Failure::bug("a batch was not written"))??;
        for ((line, kept), put) in kept.into_iter().zip(puts) {
            match (put, kept) {
                (put, Kept::Trace(id, fingerprint, reward)) => {
                    match put {
                        Put::New => tally.counts().new += 1,
                        Put::Conflict if !self.is_there(id, fingerprint).await? => {
                            tally.conflict(line, &format!("trace {id}"));
                            continue;
                        }
                        Put::Same | Put::Conflict => tally.counts().same += 1,
                    }
                    // What it earned goes with the next batch, now that it is there.
                    if let Some(reward) = reward
                        && let Some(reward) = self.untold(id, put, reward).await?
                    {
                        self.batch.push(line, Kept::Reward, Encoded::of(&Write::Reward(id, reward), &Options::default())?);
                    }
                }
                (Put::Conflict, Kept::Group(group)) => {
                    let id = group.id;
                    if !self.is_group_there(group).await? {
                        tally.conflict(line, &format!("group {id}"));
                    }
                }
                (_, Kept::Config | Kept::Reward) | (Put::New | Put::Same, Kept::Group(_)) => {}
            }
        }
        Ok(())
    }

    /// Whether the store has this trace but for the times that come from the import.
    async fn is_there(&self, id: TraceId, fingerprint: Option<Fingerprint>) -> Result<bool, Failure> {
        let Some(fingerprint) = fingerprint else { return Ok(false) };
        Ok(self.store.trace(id).await?.is_some_and(|stored| fingerprint.fits(stored)))
    }

    /// What a trace is said to have earned, where the store says otherwise and nobody else has said anything since. What an earlier import said
    /// and was taken back is said again.
    async fn untold(&self, id: TraceId, put: Put, reward: Reward) -> Result<Option<Reward>, Failure> {
        let stored = if put == Put::New { None } else { self.store.trace(id).await? };
        let Some(stored) = stored else { return Ok(Some(reward)) };
        let is_told = stored.rewards.iter().any(|past| past.turn_idx.is_none() && past.by != reward.by);
        if is_told || stored.reward().is_some_and(|last| last.total == reward.total) {
            return Ok(None);
        }
        let was_said = stored.rewards.iter().any(|past| past.id == reward.id);
        let again = RewardId::derived(&["import", &reward.id.to_string(), &reward.at.to_string()]);
        Ok(Some(if was_said { Reward { id: again, ..reward } } else { reward }))
    }

    /// Whether the store has this group but for the time at which it was put together: that of the import.
    async fn is_group_there(&self, mut group: Group) -> Result<bool, Failure> {
        let Some(stored) = self.store.document(Kind::Group, &group.id.to_string()).await? else { return Ok(false) };
        let stored: Group = stored.word()?;
        group.at = stored.at;
        Ok(group == stored)
    }
}

impl Batch {
    fn push(&mut self, line: u64, kept: Kept, write: Encoded) {
        self.kept.push((line, kept));
        self.writes.push(write);
    }
}
