//! The seam to the store: what every stage reads and writes, whatever database is behind it.
//!
//! Everything is append-only. A document that changes (a run, an agent) is written again with the next
//! revision; a write is known by its id, so that sending it twice is the same as sending it once.
//! Knows nothing of SQL or of files.

use crate::{
    Adapter, Agent, BlobHash, Category, Config, ConfigHash, EventId, Group, NextTurn, Outcome, Recommendation, Reward, Run,
    Tenant, Time, Trace, TraceHead, TraceId, TraceOutcome, sorted,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{future::Future, pin::Pin};

/// The answer of a store, in a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Records on some database.
pub trait Store: Send + Sync {
    /// Writes all of these, or none of them on an error, and answers when they are durable.
    fn put(&self, writes: Vec<Write>) -> Answer<'_, Vec<Put>>;

    /// One trace with all turns that it went on with and all rewards given to it.
    fn trace(&self, id: TraceId) -> Answer<'_, Option<Trace>>;

    /// The heads of the traces that fit, newest first, at most `limit` from `after` on.
    fn heads<'a>(&'a self, query: &'a TraceQuery, after: Option<Cursor>, limit: u32) -> Answer<'a, Page<TraceHead>>;

    /// The traces that fit with all their turns and rewards, newest first, at most `limit` from `after` on.
    /// A page also ends when it holds [`PAGE_BYTES_MAX`], so that memory stays bounded.
    fn traces<'a>(&'a self, query: &'a TraceQuery, after: Option<Cursor>, limit: u32) -> Answer<'a, Page<Trace>>;

    /// How the database answers this query, in its own words.
    fn explain<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, String>;

    /// The latest revision of a document.
    fn document<'a>(&'a self, kind: Kind, id: &'a str) -> Answer<'a, Option<Document>>;

    /// The latest revisions of the documents of a kind, newest first, at most `limit` from `after` on.
    fn documents(&self, kind: Kind, after: Option<Cursor>, limit: u32) -> Answer<'_, Page<Document>>;

    /// Which documents those are, without what they say: that is not even read, be it damaged.
    fn document_heads(&self, kind: Kind, after: Option<Cursor>, limit: u32) -> Answer<'_, Page<DocumentHead>>;

    /// The links that leave a node.
    fn links_from<'a>(&'a self, node: &'a str) -> Answer<'a, Vec<Link>>;

    /// The links that arrive at a node.
    fn links_to<'a>(&'a self, node: &'a str) -> Answer<'a, Vec<Link>>;

    /// The events after number `after`, oldest first. Who has read number n will never see a smaller new one.
    fn events<'a>(&'a self, stream: Option<&'a str>, after: u64, limit: u32) -> Answer<'a, Vec<(u64, Event)>>;

    /// Which events those are, without what they say: that is not even read, be it large or damaged.
    fn event_ids<'a>(&'a self, stream: Option<&'a str>, after: u64, limit: u32) -> Answer<'a, Vec<(u64, EventId)>>;

    /// Keeps these bytes under their hash, and answers when they are durable.
    fn put_blob(&self, bytes: Vec<u8>) -> Answer<'_, BlobHash>;

    /// The bytes with this hash.
    fn blob(&self, hash: BlobHash) -> Answer<'_, Option<Vec<u8>>>;
}

/// The most bytes of traces that one page holds, but for a single trace that is larger by itself.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// The largest JSON form of a record.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Why a store did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A newer hone made this database.
    #[error("the schema of {place} is version {found}, newer than the {known} that this hone knows")]
    TooNew {
        /// Which database.
        place: String,
        /// The version found there.
        found: u32,
        /// The version known here.
        known: u32,
    },
    /// The record is larger than the store takes.
    #[error("{what} has {bytes} bytes of JSON; a record has at most {RECORD_BYTES_MAX}")]
    TooLarge {
        /// Which record.
        what: String,
        /// Its size.
        bytes: usize,
    },
    /// The record is inconsistent.
    #[error("{what}: {reason}")]
    Invalid {
        /// Which record.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What the database gave back is not what was written.
    #[error("{what} in the store is damaged: {reason}")]
    Damaged {
        /// Which record.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no more room on the disk. Nothing of this write was kept.
    #[error("the disk of {0} is full: nothing of this write was kept")]
    Full(String),
    /// The database cannot be reached, or gave up in the middle.
    #[error("{place}: {reason}")]
    Unavailable {
        /// Which database.
        place: String,
        /// In its own words.
        reason: String,
    },
}

/// Something to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// An episode.
    Trace(Box<Trace>),
    /// The turn that a trace goes on with. One turn is sent when the one before is acknowledged, or with it in one put.
    Turn(TraceId, Box<NextTurn>),
    /// A reward given to a trace after it was written.
    Reward(TraceId, Reward),
    /// Anything else that has a name.
    Document(Document),
    /// An arrow between two nodes.
    Link(Link),
    /// A line of the event log.
    Event(Event),
}

/// What became of a write. In all three cases the store is as if it had been sent once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Put {
    /// It is new, and durable.
    New,
    /// The very same was there already.
    Same,
    /// Something else is there under this id, or what it belongs to is not there: the trace of a reward, the trace or the
    /// turns before of a turn. Nothing was written.
    Conflict,
}

/// The kinds of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A [`Config`].
    Config,
    /// An [`Outcome`].
    Outcome,
    /// A [`Group`].
    Group,
    /// A [`Run`].
    Run,
    /// An [`Adapter`].
    Adapter,
    /// An [`Agent`].
    Agent,
    /// A [`Recommendation`].
    Recommendation,
    /// A key to the server, known by its hash alone.
    Key,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Config, Self::Outcome, Self::Group, Self::Run, Self::Adapter, Self::Agent, Self::Recommendation, Self::Key];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Outcome => "outcome",
            Self::Group => "group",
            Self::Run => "run",
            Self::Adapter => "adapter",
            Self::Agent => "agent",
            Self::Recommendation => "recommendation",
            Self::Key => "key",
        }
    }
}

/// A record that is found by its kind and id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its kind.
    pub kind: Kind,
    /// Its id within the kind.
    pub id: String,
    /// 0 when first written, one more for each later state of it.
    pub revision: u32,
    /// Whose data it is.
    pub tenant: Tenant,
    /// When this revision was written.
    pub at: Time,
    /// The record itself.
    #[serde(serialize_with = "sorted::value")]
    pub body: Value,
}

/// A word that is stored as a document.
pub trait Word: Serialize + DeserializeOwned {
    /// The kind it is stored under.
    const KIND: Kind;
    /// The id it is stored under.
    fn document_id(&self) -> String;
}

macro_rules! words {
    ($($word:ident => $id:expr),* $(,)?) => {$(
        impl Word for $word {
            const KIND: Kind = Kind::$word;
            fn document_id(&self) -> String {
                let id: fn(&Self) -> String = $id;
                id(self)
            }
        }
    )*};
}

words! {
    Config => |it| it.hash().to_string(),
    Outcome => |it| it.id.to_string(),
    Group => |it| it.id.to_string(),
    Run => |it| it.id.to_string(),
    Adapter => |it| it.id.to_string(),
    Agent => |it| it.name.to_string(),
    Recommendation => |it| it.id.to_string(),
}

/// What is known of a document without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentHead {
    /// Its id.
    pub id: String,
    /// Whose it is, unless that cannot be read.
    pub tenant: Option<Tenant>,
}

impl Document {
    /// A word as a document.
    pub fn of<W: Word>(word: &W, revision: u32, tenant: Tenant, at: Time) -> Self {
        let body = serde_json::to_value(word).expect("a word has string keys and finite numbers");
        Self { kind: W::KIND, id: word.document_id(), revision, tenant, at, body }
    }

    /// The word in this document.
    pub fn word<W: Word>(&self) -> Result<W, StoreError> {
        W::deserialize(&self.body).map_err(|error| StoreError::Damaged {
            what: format!("{} {}", self.kind.as_str(), self.id),
            reason: error.to_string(),
        })
    }
}

/// An arrow between two nodes, such as `config:… produced outcome:…`. Nodes are `kind:id`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Where it leaves.
    pub from: String,
    /// What it means.
    pub rel: String,
    /// Where it arrives.
    pub to: String,
}

/// A line of the event log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// When it happened.
    pub at: Time,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it belongs to, such as `canary:desk-agent`.
    pub stream: String,
    /// What happened.
    pub kind: String,
    /// The details.
    #[serde(serialize_with = "sorted::value")]
    pub body: Value,
}

/// Which traces. Every field that is set must fit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceQuery {
    /// Of this tenant; of all when `None`.
    pub tenant: Option<Tenant>,
    /// Of this type of task.
    pub category: Option<Category>,
    /// Produced by this config.
    pub config: Option<ConfigHash>,
    /// That ended so.
    pub outcome: Option<TraceOutcome>,
    /// That began at this time or later.
    pub since: Option<Time>,
    /// That began before this time.
    pub until: Option<Time>,
    /// That earned at least this.
    pub reward_min: Option<f64>,
    /// That earned at most this.
    pub reward_max: Option<f64>,
    /// Whose JSON form, as the trace was first written, has this text, number or boolean at this path: turns and rewards
    /// that came later are not looked at.
    pub field: Option<Field>,
}

/// A place in the JSON form of a trace, such as `metadata.customer`, with the value that stands there.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Keys joined by dots.
    pub path: String,
    /// The text there, or the JSON form of the number or boolean.
    pub value: String,
}

/// A place between two records in the order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The time of the record before this place.
    pub at: Time,
    /// Its number in the store.
    pub seq: i64,
}

/// Some of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Where the next page starts, unless this is the last.
    pub next: Option<Cursor>,
}
