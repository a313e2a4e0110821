//! Records on SQLite (the default) or PostgreSQL, and content-addressed blobs.
//!
//! Nothing is acknowledged before it is durable; a write is known by its id, so that sending it twice is
//! the same as sending it once. Both databases pass one conformance suite.
//! Knows nothing of what the records mean, but for the few lines that a merge leaves out.

mod backup;
mod blobs;
mod dump;
mod growth;
mod merge;
mod postgres;
mod rewards;
mod row;
mod sqlite;

pub use backup::{BackupError, Manifest, Restored, backup, restore};
pub use dump::{COMPLAINTS_MAX, Counts, Database, Dumped, Info, LogLine, Verdict, verify};
pub use postgres::Postgres;
pub use row::{Encoded, Hash};
pub use sqlite::Sqlite;

use hone_trace::store::StoreError;
use std::path::PathBuf;
use std::sync::Arc;

/// Which database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The folder `.hone`, with `hone.db` and `blobs/` inside.
    Folder(PathBuf),
    /// A PostgreSQL server: `postgres://user:password@host:port/database`.
    Postgres(String),
}

/// What a store is opened with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Paths in the JSON form of a trace, such as `metadata.customer`, that queries find by an index.
    pub indexed_fields: Vec<String>,
    /// The SQLite file layer to use instead of the default one: how tests make the disk fail.
    pub sqlite_vfs: Option<String>,
}

/// Opens the store, creating or migrating it where needed.
pub async fn open(place: &Place, options: &Options) -> Result<Arc<dyn Database>, StoreError> {
    match place {
        Place::Folder(folder) => Ok(Arc::new(Sqlite::open(folder, options).await?)),
        Place::Postgres(url) => Ok(Arc::new(Postgres::open(url, options).await?)),
    }
}
