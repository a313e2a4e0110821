//! What a database can do beyond the seam: show all its records in one view, and examine itself.

use crate::growth::turn_of;
use crate::row::{Encoded, Hash, Row};
use hone_trace::store::{Answer, Kind, Put, Store, StoreError, Write};
use hone_trace::{Adapter, BlobHash, EventId, TraceId};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// A record as it was written, with the hash that was stored beside it, or what is wrong with it.
pub type Dumped = Result<(Hash, Write), StoreError>;

/// Stands where a record has no hash: a link is its own key.
pub(crate) const NO_HASH: Hash = [0; 16];

/// A store together with the database that holds it.
pub trait Database: Store {
    /// Like [`Store::put`], with the encoding already done elsewhere. It must have been done for the options of this store.
    fn put_encoded(&self, writes: Vec<Encoded>) -> Answer<'_, Vec<Put>>;

    /// Puts back each of these records that is there and no longer what was written, and each turn that its trace counts and
    /// that is gone. True where something was written. A sound record with other content is left alone.
    fn repair(&self, writes: Vec<Encoded>) -> Answer<'_, Vec<bool>>;

    /// Sends every record of one consistent view into `sink`: what others refer to comes first.
    fn dump(&self, sink: mpsc::Sender<Dumped>) -> Answer<'_, ()>;

    /// What is known of a stream's events after a number without reading them, oldest first: of damaged ones, too.
    fn lines<'a>(&'a self, stream: &'a str, after: u64, limit: u32) -> Answer<'a, Vec<LogLine>>;

    /// What the database itself finds wrong with its files; nothing when all is well.
    fn complaints(&self) -> Answer<'_, Vec<String>>;

    /// What and how much it is.
    fn info(&self) -> Answer<'_, Info>;

    /// The hashes of all blobs, sorted.
    fn blob_hashes(&self) -> Answer<'_, Vec<BlobHash>>;
}

/// What is known of an event without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number.
    pub number: u64,
    /// Its id.
    pub id: EventId,
    /// The agent that its body names, where it names one and is not damaged.
    pub agent: Option<String>,
}

/// What and how much a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Where it is; never with a password.
    pub place: String,
    /// The program behind it, with its version.
    pub engine: String,
    /// The version of its schema.
    pub schema: u32,
    /// How many records it holds.
    pub counts: Counts,
    /// How many turns all traces have, whether written with them or added later.
    pub n_turns: u64,
    /// How many traces have a reward, whether written with it or rewarded later.
    pub n_rewarded: u64,
}

/// How many records there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Episodes.
    pub traces: u64,
    /// Turns that traces went on with after they were written. Back-ups from before there were any do not say.
    #[serde(default)]
    pub turns: u64,
    /// Rewards given after their trace was written.
    pub rewards: u64,
    /// Documents, each revision counted.
    pub documents: u64,
    /// Arrows between nodes.
    pub links: u64,
    /// Lines of the event log.
    pub events: u64,
}

impl Counts {
    /// Counts one more record.
    pub fn add(&mut self, write: &Write) {
        match write {
            Write::Trace(_) => self.traces += 1,
            Write::Turn(..) => self.turns += 1,
            Write::Reward(..) => self.rewards += 1,
            Write::Document(_) => self.documents += 1,
            Write::Link(_) => self.links += 1,
            Write::Event(_) => self.events += 1,
        }
    }

    /// How many records in all.
    pub fn total(&self) -> u64 {
        self.traces + self.turns + self.rewards + self.documents + self.links + self.events
    }
}

/// What [`verify`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How many records were read.
    pub counts: Counts,
    /// How many blobs were read.
    pub blobs: u64,
    /// What is wrong, at most [`COMPLAINTS_MAX`] of them; nothing when all is well.
    pub complaints: Vec<String>,
    /// How many things are wrong.
    pub n_complaints: u64,
}

/// How many complaints a verdict names.
pub const COMPLAINTS_MAX: usize = 100;

/// Reads everything back: the database examines its own files, every record still has the hash it was
/// written with, every blob the hash it is named after, and what records speak of is there.
pub async fn verify(database: &dyn Database, mut progress: impl FnMut(u64)) -> Result<Verdict, StoreError> {
    let mut verdict = Verdict { counts: Counts::default(), blobs: 0, complaints: Vec::new(), n_complaints: 0 };
    for complaint in database.complaints().await? {
        verdict.complain(complaint);
    }
    let (sink, mut records) = mpsc::channel::<Dumped>(1024);
    let mut adapters: Vec<(String, BlobHash)> = Vec::new();
    let reading = async {
        while let Some(dumped) = records.recv().await {
            match dumped {
                Ok((hash, write)) => {
                    verdict.counts.add(&write);
                    adapters.extend(weights(&write));
                    if let Err(reason) = same_hash(&write, hash) {
                        verdict.complain(reason);
                    }
                }
                Err(error) => verdict.complain(error.to_string()),
            }
            progress(verdict.counts.total());
        }
    };
    let (dumped, ()) = tokio::join!(database.dump(sink), reading);
    dumped?;
    let blobs = database.blob_hashes().await?;
    for (adapter, blob) in adapters {
        if blobs.binary_search(&blob).is_err() {
            verdict.complain(format!("blob {blob}, the files of adapter {adapter}, is gone"));
        }
    }
    for hash in blobs {
        verdict.blobs += 1;
        let bytes = database.blob(hash).await?.unwrap_or_default();
        if BlobHash::of(&bytes) != hash {
            verdict.complain(format!("blob {hash} has other bytes than its name says"));
        }
    }
    Ok(verdict)
}

/// An adapter, and the blob that holds its files.
fn weights(write: &Write) -> Option<(String, BlobHash)> {
    let Write::Document(document) = write else { return None };
    let adapter = document.word::<Adapter>().ok().filter(|_| document.kind == Kind::Adapter)?;
    Some((document.id.clone(), adapter.blob))
}

impl Verdict {
    fn complain(&mut self, complaint: String) {
        self.n_complaints += 1;
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint);
        }
    }
}

/// What is not there although others speak of it.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    Turns,
    TraceOfTurns,
    TraceOfRewards,
}

impl Lost {
    /// What to say of so many records of this trace.
    pub(crate) fn told(self, trace: TraceId, n_records: i64) -> String {
        match self {
            Self::Turns => format!("trace {trace} lacks {n_records} of the turns that it counts"),
            Self::TraceOfTurns => format!("trace {trace} is gone, and {n_records} of its turns are there"),
            Self::TraceOfRewards => format!("trace {trace} is gone, and {n_records} of its rewards are there"),
        }
    }
}

/// Whether a record is what was written, or what to say of it.
pub(crate) fn same_hash(write: &Write, hash: Hash) -> Result<(), String> {
    let found = match Row::of(write, &[]).map_err(|error| error.to_string())? {
        Row::Trace(row) => row.json.hash,
        Row::Turn(row) => row.json.hash,
        Row::Reward(row) => row.json.hash,
        Row::Document(row) => row.json.hash,
        Row::Event(row) => row.json.hash,
        Row::Link(_) => return Ok(()),
    };
    if found == hash {
        return Ok(());
    }
    let (what, id) = name(write);
    Err(format!("{what}, {id}, is not what was written"))
}

/// What a record is and which one.
pub(crate) fn name(write: &Write) -> (&'static str, String) {
    match write {
        Write::Trace(trace) => ("a trace", trace.id.to_string()),
        Write::Turn(trace, next) => ("a turn", turn_of(*trace, next.turn_idx)),
        Write::Reward(_, reward) => ("a reward", reward.id.to_string()),
        Write::Document(document) => ("a document", format!("{} {}", document.kind.as_str(), document.id)),
        Write::Link(link) => ("a link", link.from.clone()),
        Write::Event(event) => ("an event", event.id.to_string()),
    }
}

/// A kind that this binary does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownKind(String);

impl std::fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a kind of document", self.0)
    }
}

impl std::error::Error for UnknownKind {}

/// The kind with this name.
pub(crate) fn kind(name: &str) -> Result<Kind, UnknownKind> {
    Kind::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| UnknownKind(name.to_owned()))
}
