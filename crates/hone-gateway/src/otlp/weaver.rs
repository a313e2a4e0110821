//! Putting spans together: the weaver follows the log and writes a conversation down when all of it is there.
//!
//! That is so a moment after the span came that has none above it, unless a model call does not say what was said in it: that may still come,
//! in log records. A conversation of which that span never comes, because another
//! server has it, is written when nothing has come for as long as the limits say. Spans that come later are not lost: the trace goes on
//! with them. How far everything has been written is [marked](Marks) in the log now and then, so that after a crash only the rest is read
//! again; reading a span twice changes nothing.

use super::marks::Marks;
use super::{Named, STREAM};
use crate::events::{News, Place};
use crate::server::Gateway;
use hone_trace::format::Origin;
use hone_trace::format::otlp::live::{Gathering, Piece, Woven, pieces};
use hone_trace::store::{Document, Put, StoreError, Write};
use hone_trace::{NextTurn, Reward, TURNS_MAX, Tenant, Trace, TraceId};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How many requests are read before a mark is written.
const N_UNMARKED: u64 = 100;
/// Requests that are read at once: one may be large.
const N_READ: u32 = 16;
/// How often it is looked whether a conversation is all there.
const PAUSE: Duration = Duration::from_millis(100);
/// The same where none is open and the store was replaced: a restore takes its time, and nobody says when the last of it is there.
const PAUSE_RESTORED: Duration = Duration::from_secs(1);
/// How long after the last span of a trace others of it may still come, from other threads and processes.
const MOMENT: Duration = Duration::from_millis(1000);
/// What was said in a call comes before the span of it, which comes when the call ends; so long it is waited for.
const WORDS: Duration = Duration::from_secs(600);
/// Whatever went wrong with the store is tried again after this.
const RETRY: Duration = Duration::from_millis(500);
/// The most memory of one conversation, and of all, before they are written.
const OPEN_BYTES_MAX: usize = 16 << 20;
const ALL_BYTES_MAX: usize = 256 << 20;
/// Traces of which the conversation is remembered.
const N_BELONGING_MAX: usize = 10_000;
/// Another server of the same store may have written to the trace first; so often it is looked up again.
const N_TRIES: usize = 8;

/// A conversation of a tenant.
type Key = (Tenant, Named);

/// Who puts spans together.
pub(crate) struct Weaver {
    gateway: Gateway,
    /// Where the last request that was read stands.
    place: Place,
    /// Whether the store was put in another's place, and lines may come that no server has just written.
    is_restored: bool,
    /// How many were read since the last mark.
    n_unmarked: u64,
    marks: Marks,
    open: HashMap<Key, Open>,
    /// The conversation that a trace belongs to, where one of its spans said so.
    belongs: HashMap<(Tenant, String), String>,
}

/// A conversation of which more may come.
struct Open {
    gathering: Gathering,
    /// The number of the first request that told of it.
    first: u64,
    heard: Instant,
    has_ended: bool,
    /// The OpenTelemetry traces that it has spans of.
    traces: HashSet<String>,
}

impl Open {
    fn new(first: u64) -> Self {
        Self { gathering: Gathering::default(), first, heard: Instant::now(), has_ended: false, traces: HashSet::new() }
    }
}

impl Weaver {
    pub(crate) fn new(gateway: Gateway) -> Self {
        let (marks, open, belongs) = (Marks::default(), HashMap::new(), HashMap::new());
        Self { gateway, place: Place::default(), is_restored: false, n_unmarked: 0, marks, open, belongs }
    }

    /// Follows the log until it is told to stop, and then writes what there is.
    pub(crate) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        while let Err(error) = self.begin().await {
            self.gateway.log(format!("the log of spans cannot be read: {error}"));
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                _ = &mut stop => return,
            }
        }
        loop {
            let gateway = self.gateway.clone();
            let grown = gateway.spans().grown.notified();
            let pause = match self.is_restored {
                _ if !self.open.is_empty() => PAUSE,
                true => PAUSE_RESTORED,
                false => Duration::from_secs(3600),
            };
            let is_last = tokio::select! {
                _ = tokio::time::timeout(pause, grown) => false,
                _ = &mut stop => true,
            };
            if let Err(error) = self.follow(is_last).await {
                gateway.log(format!("spans cannot be put together now, and wait in the log: {error}"));
                tokio::time::sleep(if is_last { Duration::ZERO } else { RETRY }).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// Reads from where all is written.
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.place = self.marks.begin(&self.gateway).await?;
        self.read().await
    }

    async fn follow(&mut self, is_last: bool) -> Result<(), StoreError> {
        if self.gateway.spans().take_replaced() {
            self.begin_anew().await?;
        }
        self.read().await?;
        for (tenant, trace) in self.gateway.spans().take_ended() {
            let key = self.key(&tenant, None, &trace);
            if let Some(open) = self.open.get_mut(&key) {
                open.has_ended = true;
            }
        }
        let wait = Duration::from_millis(self.gateway.limits().spans_wait_ms);
        let is_due = |open: &Open| {
            let (quiet, gathering) = (open.heard.elapsed(), &open.gathering);
            match gathering.has_spans() {
                true => is_last || quiet >= wait || (open.has_ended && quiet >= MOMENT.min(wait) && gathering.says_all()),
                false => quiet >= WORDS.max(wait),
            }
        };
        let due: Vec<Key> = self.open.iter().filter(|(_, open)| is_due(open)).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.write(&key).await?;
        }
        self.mark(is_last).await
    }

    /// Reads the requests that are new.
    async fn read(&mut self) -> Result<(), StoreError> {
        let gateway = self.gateway.clone();
        let (store, say) = (gateway.record().store(), |text| gateway.log(text));
        loop {
            let events = match self.place.news(store, STREAM, N_READ, say).await? {
                News::Events(events) => events,
                News::Replaced => {
                    self.begin_anew().await?;
                    continue;
                }
            };
            let n_events = events.len();
            for (number, event) in events {
                match pieces(event.body) {
                    Ok(pieces) => pieces.into_iter().for_each(|piece| self.add(number, &event.tenant, piece)),
                    Err(error) => self.gateway.log(format!("spans in the log cannot be read: {error}")),
                }
                self.n_unmarked += 1;
            }
            self.make_room().await?;
            if n_events == 0 {
                return Ok(());
            }
        }
    }

    /// The store is another one, which has its own marks. What is open was told by the one before, and is written to this one.
    async fn begin_anew(&mut self) -> Result<(), StoreError> {
        self.gateway.log("the store was replaced: its log of spans is read anew".into());
        self.is_restored = true;
        // Where this fails, the log is read from its beginning.
        (self.place, self.marks) = (Place::default(), Marks::default());
        self.open.values_mut().for_each(|open| open.first = 0);
        self.place = self.marks.begin(&self.gateway).await?;
        Ok(())
    }

    fn key(&self, tenant: &Tenant, said: Option<&str>, trace: &str) -> Key {
        let known = || self.belongs.get(&(tenant.clone(), trace.to_owned())).cloned();
        let name = said.map(str::to_owned).or_else(known);
        (tenant.clone(), name.map_or_else(|| Named::Trace(trace.to_owned()), Named::Conversation))
    }

    fn add(&mut self, number: u64, tenant: &Tenant, piece: Piece) {
        let key = self.key(tenant, piece.conversation(), piece.trace());
        if let (Named::Conversation(name), Some(_)) = (&key.1, piece.conversation()) {
            self.belong(&key, tenant, piece.trace(), name.clone());
        }
        let open = self.open.entry(key).or_insert_with(|| Open::new(number));
        open.heard = Instant::now();
        open.has_ended |= piece.is_root();
        open.traces.insert(piece.trace().to_owned());
        open.gathering.add(piece);
    }

    /// Remembers the conversation of a trace, which brings along what has come of the trace before.
    fn belong(&mut self, key: &Key, tenant: &Tenant, trace: &str, name: String) {
        if self.belongs.len() >= N_BELONGING_MAX {
            self.belongs.clear();
        }
        self.belongs.entry((tenant.clone(), trace.to_owned())).or_insert(name);
        if let Some(before) = self.open.remove(&(tenant.clone(), Named::Trace(trace.to_owned()))) {
            let open = self.open.entry(key.clone()).or_insert_with(|| Open::new(before.first));
            open.first = open.first.min(before.first);
            open.has_ended |= before.has_ended;
            open.gathering.extend(&before.gathering);
        }
    }

    /// Writes what has grown too large, and the longest silent when all of it together has.
    async fn make_room(&mut self) -> Result<(), StoreError> {
        let large = self.open.iter().filter(|(_, open)| open.gathering.bytes() > OPEN_BYTES_MAX);
        for key in large.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.write(&key).await?;
        }
        while self.open.values().map(|open| open.gathering.bytes()).sum::<usize>() > ALL_BYTES_MAX {
            let silent = self.open.iter().min_by_key(|(_, open)| open.heard).map(|(key, _)| key.clone());
            let Some(key) = silent else { return Ok(()) };
            self.write(&key).await?;
        }
        Ok(())
    }

    /// Writes a conversation, and forgets it when it is durable.
    async fn write(&mut self, key: &Key) -> Result<(), StoreError> {
        let gateway = self.gateway.clone();
        let Some(open) = self.open.get_mut(key) else { return Ok(()) };
        if !open.gathering.has_spans() {
            let id = key.1.id(&key.0, 0);
            gateway.log(format!(
                "what was said in calls of trace {id} came without their spans, or after them, and stays in the log"
            ));
            self.open.remove(key);
            return Ok(());
        }
        forget_own(&gateway, key, open).await?;
        for part in 0.. {
            let id = key.1.id(&key.0, part);
            match write(&gateway, id, &key.0, &open.gathering).await {
                Ok(Written::All) => break,
                Ok(Written::Full(trace)) => open.gathering.forget(&trace),
                Err(error @ (StoreError::TooLarge { .. } | StoreError::Invalid { .. } | StoreError::Damaged { .. })) => {
                    // Trying again would not help, and the others wait.
                    gateway.log(format!("spans of trace {id} stay in the log, and are no trace: {error}"));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.open.remove(key);
        Ok(())
    }

    /// Marks how far all is written.
    async fn mark(&mut self, is_last: bool) -> Result<(), StoreError> {
        let is_due = self.n_unmarked >= N_UNMARKED || (is_last && self.n_unmarked > 0);
        if is_due && self.is_written_to_mark() {
            self.marks.put(&self.gateway).await?;
            self.n_unmarked = 0;
        }
        if is_last && self.marks.due().is_some() {
            // Another server may have written to the log just before the mark.
            self.read().await?;
            if self.is_written_to_mark() {
                self.marks.put(&self.gateway).await?;
            }
        }
        Ok(())
    }

    /// Whether everything before the last mark is written. All of it was read after the mark was.
    fn is_written_to_mark(&self) -> bool {
        self.marks.due().is_none_or(|number| self.open.values().all(|open| open.first > number))
    }
}

/// What has become of a conversation.
enum Written {
    /// All of it is on the record.
    All,
    /// The trace is as long as one can be, and the rest belongs into another.
    Full(Box<Trace>),
}

/// Forgets what a conversation has of spans that came before its name was known, and are a trace of their own on the record. Where the
/// log is read again they come along with it, and would be told twice.
async fn forget_own(gateway: &Gateway, (tenant, named): &Key, open: &mut Open) -> Result<(), StoreError> {
    if matches!(named, Named::Trace(_)) {
        return Ok(());
    }
    for trace in &open.traces {
        let own = Named::Trace(trace.clone());
        for part in 0.. {
            match gateway.record().store().trace(own.id(tenant, part)).await {
                Ok(Some(told)) => open.gathering.forget(&told),
                // What a damaged trace tells is not known, and what it may tell again is better told twice than lost.
                Ok(None) | Err(StoreError::Damaged { .. }) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Writes a conversation to the trace of this id.
async fn write(gateway: &Gateway, id: TraceId, tenant: &Tenant, gathering: &Gathering) -> Result<Written, StoreError> {
    let store = gateway.record().store();
    let origin = Origin { tenant: tenant.clone(), now: gateway.now() };
    for _ in 0..N_TRIES {
        let known = store.trace(id).await?;
        let woven = match gathering.weave(id, known.as_ref(), &origin) {
            Ok(woven) => woven,
            Err(error) => {
                gateway.log(format!("spans of trace {id} stay in the log, and are no trace: {error}"));
                return Ok(Written::All);
            }
        };
        let mut is_cut = false;
        let writes = match (woven, known) {
            (Woven::Nothing, _) => return Ok(Written::All),
            (Woven::Next(turns, _), Some(known)) if turns.first().is_some_and(|next| next.turn_idx >= TURNS_MAX) => {
                return Ok(Written::Full(Box::new(known)));
            }
            (Woven::New(trace, config), _) => {
                let config = Document::of(&*config, 0, tenant.clone(), origin.now);
                vec![Write::Document(config), Write::Trace(trace)]
            }
            (Woven::Next(turns, rewards), _) => {
                is_cut = turns.last().is_some_and(|next| next.turn_idx >= TURNS_MAX);
                next(id, turns, rewards)
            }
        };
        let is_said: Vec<bool> = writes.iter().map(|write| matches!(write, Write::Trace(_) | Write::Turn(..))).collect();
        let puts = store.put(writes).await?;
        let is_other = is_said.iter().zip(&puts).any(|(is_said, put)| *is_said && *put == Put::Conflict);
        if !is_other && !is_cut {
            return Ok(Written::All);
        }
    }
    Err(StoreError::Unavailable { place: format!("trace {id}"), reason: "somebody else kept writing to it".to_owned() })
}

/// What is written of what a trace goes on with: as many turns as it takes.
fn next(id: TraceId, turns: Vec<NextTurn>, rewards: Vec<Reward>) -> Vec<Write> {
    let turns = turns.into_iter().filter(|next| next.turn_idx < TURNS_MAX).map(|next| Write::Turn(id, Box::new(next)));
    let is_there = |reward: &Reward| reward.turn_idx.is_none_or(|turn_idx| turn_idx < TURNS_MAX);
    turns.chain(rewards.into_iter().filter(is_there).map(|reward| Write::Reward(id, reward))).collect()
}
