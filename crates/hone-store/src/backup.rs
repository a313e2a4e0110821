//! Back-ups that do not depend on the database: one JSON line a record, the blobs, and a manifest.
//!
//! A back-up taken from SQLite restores into PostgreSQL and the other way round. The manifest is written
//! last: a folder without one is not a back-up. Records have ids, so an interrupted restore is run again.
//!
//! A record that is not what was written does not enter a back-up, where it would look sound: it is left out and named.
//! The other way round, a restore puts such a record back.

use crate::Options;
use crate::dump::{COMPLAINTS_MAX, Counts, Database, name, same_hash};
use crate::row::Encoded;
use hone_trace::store::{Put, StoreError, Write};
use hone_trace::{BlobHash, V1};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

const RECORDS: &str = "records.jsonl";
const MANIFEST: &str = "manifest.json";
const BATCH_LEN: usize = 500;

/// What a back-up holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this record.
    pub v: V1,
    /// How many records.
    pub records: Counts,
    /// The BLAKE3 hash of `records.jsonl`.
    pub records_blake3: String,
    /// The blobs.
    pub blobs: Vec<BlobHash>,
    /// What was left out because it was not what was written, at most [`COMPLAINTS_MAX`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// How many records and blobs were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_damaged: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Restored {
    /// How many records were written: those that were not there, and those that were damaged.
    pub records: Counts,
    /// How many blobs were written.
    pub blobs: u64,
    /// How many records and blobs among these were there and not what had been written.
    pub repaired: u64,
    /// How many records and blobs were there already.
    pub same: u64,
    /// Records that could not be written, at most [`COMPLAINTS_MAX`] of them.
    pub differing: Vec<String>,
    /// How many records could not be written.
    pub n_differing: u64,
    /// How many records and blobs the back-up does not hold because they were damaged when it was taken.
    pub left_out: u64,
}

/// Why a back-up could not be made or restored.
#[derive(Debug)]
pub enum BackupError {
    /// The store did not do as asked.
    Store(StoreError),
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// The folder is not a whole, undamaged back-up, or not an empty place for one.
    Folder(PathBuf, String),
}

impl std::fmt::Display for BackupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Folder(path, reason) => write!(f, "{}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Writes a consistent view of the whole store into a new or empty folder. What is damaged is left out, and the manifest
/// names it.
pub async fn backup(database: &dyn Database, folder: &Path, mut progress: impl FnMut(u64)) -> Result<Manifest, BackupError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| BackupError::File(path, error)
    };
    fs::create_dir_all(folder.join("blobs")).map_err(at(folder))?;
    let path = folder.join(RECORDS);
    if folder.join(MANIFEST).exists() || path.exists() {
        return Err(BackupError::Folder(folder.to_owned(), "there is a back-up here already".to_owned()));
    }
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(at(&path))?);
    let mut hasher = blake3::Hasher::new();
    let mut records = Counts::default();
    let (mut damaged, mut n_damaged) = (Vec::new(), 0);
    let mut leave_out = |reason: String| {
        n_damaged += 1;
        if damaged.len() < COMPLAINTS_MAX {
            damaged.push(reason);
        }
    };

    let (sink, mut dumped) = mpsc::channel(1024);
    let writing = async {
        let mut line = Vec::new();
        while let Some(record) = dumped.recv().await {
            let write = match record {
                Ok((hash, write)) => same_hash(&write, hash).map(|()| write),
                Err(error @ StoreError::Damaged { .. }) => Err(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            let write = match write {
                Ok(write) => write,
                Err(reason) => {
                    leave_out(reason);
                    continue;
                }
            };
            records.add(&write);
            line.clear();
            serde_json::to_writer(&mut line, &write).map_err(|error| BackupError::File(path.clone(), error.into()))?;
            line.push(b'\n');
            hasher.update(&line);
            out.write_all(&line).map_err(at(&path))?;
            progress(records.total());
        }
        dumped.close();
        Ok::<(), BackupError>(())
    };
    let (read, written) = tokio::join!(database.dump(sink), writing);
    written?;
    read?;
    out.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all()).map_err(at(&path))?;

    let mut sound = Vec::new();
    for hash in database.blob_hashes().await? {
        let path = folder.join("blobs").join(hash.to_string());
        let bytes = database.blob(hash).await?.unwrap_or_default();
        if BlobHash::of(&bytes) == hash {
            write_synced(&path, &bytes).map_err(at(&path))?;
            sound.push(hash);
        } else {
            leave_out(format!("blob {hash} has other bytes than its name says"));
        }
    }
    let records_blake3 = hasher.finalize().to_hex().to_string();
    let manifest = Manifest { v: V1, records, records_blake3, blobs: sound, damaged, n_damaged };
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| BackupError::File(folder.join(MANIFEST), error.into()))?;
    let draft = folder.join("manifest.json.partial");
    write_synced(&draft, &text).and_then(|()| fs::rename(&draft, folder.join(MANIFEST))).map_err(at(&draft))?;
    for folder in [folder.join("blobs").as_path(), folder] {
        crate::blobs::sync_folder(folder).map_err(at(folder))?;
    }
    Ok(manifest)
}

/// Checks the back-up in this folder against its manifest, then writes all of it into the store.
/// What is there already is left as it is, unless it is no longer what was written: then the back-up's takes its place.
pub async fn restore(database: &dyn Database, folder: &Path, mut progress: impl FnMut(u64)) -> Result<Restored, BackupError> {
    let manifest = read_manifest(folder)?;
    let mut restored = Restored { left_out: manifest.n_damaged, ..Restored::default() };
    let path = folder.join(RECORDS);
    let mut lines = BufReader::with_capacity(1 << 20, File::open(&path).map_err(|error| BackupError::File(path.clone(), error))?);
    let mut batch = Vec::with_capacity(BATCH_LEN);
    let mut n_records = 0;
    let mut line = String::new();
    loop {
        line.clear();
        let n_bytes = lines.read_line(&mut line).map_err(|error| BackupError::File(path.clone(), error))?;
        if n_bytes > 0 {
            n_records += 1;
            let write: Write = serde_json::from_str(&line)
                .map_err(|error| BackupError::Folder(path.clone(), format!("line {n_records}: {error}")))?;
            batch.push(write);
        }
        if batch.len() == BATCH_LEN || n_bytes == 0 {
            restored.put(database, &batch).await?;
            batch.clear();
            progress(n_records);
        }
        if n_bytes == 0 {
            break;
        }
    }
    for hash in &manifest.blobs {
        let there = database.blob(*hash).await?;
        if there.as_deref().is_some_and(|bytes| BlobHash::of(bytes) == *hash) {
            restored.same += 1;
            continue;
        }
        let path = folder.join("blobs").join(hash.to_string());
        let bytes = fs::read(&path).map_err(|error| BackupError::File(path.clone(), error))?;
        if database.put_blob(bytes).await? != *hash {
            return Err(BackupError::Folder(path, "the bytes are not those that the name says".to_owned()));
        }
        restored.blobs += 1;
        restored.repaired += u64::from(there.is_some());
    }
    Ok(restored)
}

impl Restored {
    /// Writes a batch. What was there before is compared with its own hash, which a plain put does not do.
    async fn put(&mut self, database: &dyn Database, batch: &[Write]) -> Result<(), StoreError> {
        let puts = database.put(batch.to_vec()).await?;
        let (mut there, mut encoded) = (Vec::new(), Vec::new());
        for (write, put) in batch.iter().zip(puts) {
            if put == Put::New {
                self.records.add(write);
            } else {
                // A body that is put back is found by the fields it had.
                encoded.push(Encoded::of(write, &Options::default())?);
                there.push((write, put));
            }
        }
        if there.is_empty() {
            return Ok(());
        }
        let repaired = database.repair(encoded).await?;
        for ((write, put), repaired) in there.into_iter().zip(repaired) {
            if repaired {
                self.records.add(write);
                self.repaired += 1;
            } else if put == Put::Same {
                self.same += 1;
            } else {
                self.n_differing += 1;
                if self.differing.len() < COMPLAINTS_MAX {
                    self.differing.push(differing(write));
                }
            }
        }
        Ok(())
    }
}

fn differing(write: &Write) -> String {
    let (what, id) = name(write);
    let or_alone = match write {
        Write::Turn(..) | Write::Reward(..) | Write::Document(_) => ", or what it belongs to is not there",
        Write::Trace(_) | Write::Link(_) | Write::Event(_) => "",
    };
    format!("{what}, {id}, is there with other content{or_alone}")
}

/// Reads the manifest and checks that the records and blobs are whole before anything is written.
fn read_manifest(folder: &Path) -> Result<Manifest, BackupError> {
    let path = folder.join(MANIFEST);
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BackupError::Folder(
            folder.to_owned(),
            "there is no manifest.json: this is not a back-up, or one that was cut short".to_owned(),
        ),
        _ => BackupError::File(path.clone(), error),
    })?;
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| BackupError::Folder(path, error.to_string()))?;
    let path = folder.join(RECORDS);
    let hash = hash_file(&path).map_err(|error| BackupError::File(path.clone(), error))?;
    if hash != manifest.records_blake3 {
        return Err(BackupError::Folder(path, "the records are not those that the manifest speaks of".to_owned()));
    }
    for blob in &manifest.blobs {
        let path = folder.join("blobs").join(blob.to_string());
        let hash = hash_file(&path).map_err(|error| BackupError::File(path.clone(), error))?;
        if hash != blob.to_string() {
            return Err(BackupError::Folder(path, "the bytes are not those that the name says".to_owned()));
        }
    }
    Ok(manifest)
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            n => hasher.update(&buffer[..n]),
        };
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
