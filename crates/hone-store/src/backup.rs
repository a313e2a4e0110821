//! Back-ups that do not depend on the database: one JSON line a record, the blobs, and a manifest.
//!
//! A back-up taken from SQLite restores into PostgreSQL and the other way round. The manifest is written
//! last: a folder without one is not a back-up, and the next back-up replaces what is left there of one that was cut short.
//! Records have ids, so an interrupted restore is run again.
//!
//! A record that is not what was written does not enter a back-up, where it would look sound: it is left out and named.
//! In the place of a turn stands one that says so, or the turns after it would be lost with it.
//! The other way round, a restore puts such a record back.

use crate::Options;
use crate::dump::{COMPLAINTS_MAX, Counts, Database, Dumped, name, same_hash};
use crate::growth::{is_stand_in, stand_in, turn_of};
use crate::merge::Merge;
use crate::row::Encoded;
use hone_trace::store::{Put, StoreError, Write};
use hone_trace::{BlobHash, TraceId, V1};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, FileType, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

const RECORDS: &str = "records.jsonl";
const BLOBS: &str = "blobs";
const MANIFEST: &str = "manifest.json";
const MANIFEST_DRAFT: &str = "manifest.json.partial";
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

/// Writes a consistent view of the whole store into a folder that is new, empty, or holds what is left of a back-up that was
/// cut short, which goes. What is damaged is left out, and the manifest names it.
pub async fn backup(database: &dyn Database, folder: &Path, progress: impl FnMut(u64)) -> Result<Manifest, BackupError> {
    let path = folder.join(RECORDS);
    let mut out = BufWriter::with_capacity(1 << 20, claim(folder)?);
    let mut tally = Tally::default();
    write_records(database, &mut out, &path, &mut tally, progress).await?;
    // The lock on this file is held until the manifest is there.
    let records = out.into_inner().map_err(io::IntoInnerError::into_error).map_err(at(&path))?;
    records.sync_all().map_err(at(&path))?;

    let mut sound = Vec::new();
    for hash in database.blob_hashes().await? {
        let path = folder.join(BLOBS).join(hash.to_string());
        let bytes = database.blob(hash).await?.unwrap_or_default();
        if BlobHash::of(&bytes) == hash {
            write_synced(&path, &bytes).map_err(at(&path))?;
            sound.push(hash);
        } else {
            tally.leave_out(format!("blob {hash} has other bytes than its name says"));
        }
    }
    let manifest = tally.manifest(sound);
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| BackupError::File(folder.join(MANIFEST), error.into()))?;
    let draft = folder.join(MANIFEST_DRAFT);
    write_synced(&draft, &text).and_then(|()| fs::rename(&draft, folder.join(MANIFEST))).map_err(at(&draft))?;
    for folder in [folder.join(BLOBS).as_path(), folder] {
        crate::blobs::sync_folder(folder).map_err(at(folder))?;
    }
    Ok(manifest)
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |error| BackupError::File(path, error)
}

/// Makes a folder ready for a back-up. The file for the records is empty, and locked while it is open: two back-ups into one
/// folder at a time would spoil each other.
fn claim(folder: &Path) -> Result<File, BackupError> {
    // Looked at before anything is made, so that a folder that is refused stays as it is.
    leftovers(folder)?;
    let (path, blobs) = (folder.join(RECORDS), folder.join(BLOBS));
    fs::create_dir_all(&blobs).map_err(at(&blobs))?;
    let records = File::options().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
    match records.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(BackupError::Folder(folder.to_owned(), "another back-up is being written here".to_owned()));
        }
        // A network drive without locks takes a back-up too.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    // Looked at again: another back-up may have come and gone before the lock was taken.
    for path in leftovers(folder)? {
        fs::remove_file(&path).map_err(at(&path))?;
    }
    records.set_len(0).map_err(at(&path))?;
    Ok(records)
}

/// What a back-up that was cut short has left in this folder, apart from its records. An error where there is a whole
/// back-up, or anything that no back-up writes.
fn leftovers(folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let refused = |reason: String| BackupError::Folder(folder.to_owned(), reason);
    let strange = |name: &str| refused(format!("`{name}` is no part of a back-up: name a new or an empty folder"));
    let there = entries(folder)?;
    let holds = |wanted: &str| there.iter().any(|(name, _)| name == wanted);
    if holds(MANIFEST) {
        return Err(refused("there is a back-up here already".to_owned()));
    }
    // A back-up makes the folder for blobs, then the records, then all else. Records alone are someone else's.
    let is_begun = holds(BLOBS) && holds(RECORDS);
    let mut left = Vec::new();
    for (name, kind) in &there {
        match name.as_str() {
            BLOBS if kind.is_dir() => {}
            // A disk's own, where the folder is all of the disk.
            "lost+found" if kind.is_dir() => {}
            RECORDS if kind.is_file() && is_begun => {}
            MANIFEST_DRAFT if kind.is_file() && is_begun => left.push(folder.join(name)),
            _ => return Err(strange(name)),
        }
    }
    let blobs = folder.join(BLOBS);
    for (name, kind) in entries(&blobs)? {
        if !(is_begun && kind.is_file() && name.parse::<BlobHash>().is_ok()) {
            return Err(strange(&format!("{BLOBS}/{name}")));
        }
        left.push(blobs.join(name));
    }
    Ok(left)
}

/// The names in a folder with what they are; none where there is no folder.
fn entries(folder: &Path) -> Result<Vec<(String, FileType)>, BackupError> {
    let named = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?))
    };
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(named).collect::<io::Result<_>>().map_err(at(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(at(folder)(error)),
    }
}

/// Writes every record of the store as a line.
async fn write_records(
    database: &dyn Database,
    out: &mut impl io::Write,
    path: &Path,
    tally: &mut Tally,
    progress: impl FnMut(u64),
) -> Result<(), BackupError> {
    let (sink, dumped) = mpsc::channel(1024);
    let (read, written) = tokio::join!(database.dump(sink), tally.write(dumped, out, path, progress));
    // When writing fails the dump ends as if all were well.
    written?;
    Ok(read?)
}

/// What the manifest will say of the records.
#[derive(Default)]
struct Tally {
    records: Counts,
    hasher: blake3::Hasher,
    damaged: Vec<String>,
    n_damaged: u64,
    /// How many turns of each trace are written.
    n_turns: HashMap<TraceId, u32>,
    /// How many records were left out since the last turn.
    n_left_out: usize,
}

impl Tally {
    /// Writes what comes from a dump. It owns its end of the queue: whatever ends it, a full disk too, nobody listens any more,
    /// and the dump ends instead of waiting for ever.
    async fn write(
        &mut self,
        mut dumped: mpsc::Receiver<Dumped>,
        out: &mut impl io::Write,
        path: &Path,
        mut progress: impl FnMut(u64),
    ) -> Result<(), BackupError> {
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
                    self.leave_out(reason);
                    continue;
                }
            };
            for write in self.stand_ins(&write).into_iter().chain([write]) {
                self.records.add(&write);
                line.clear();
                serde_json::to_writer(&mut line, &write).map_err(|error| at(path)(error.into()))?;
                line.push(b'\n');
                self.hasher.update(&line);
                out.write_all(&line).map_err(at(path))?;
            }
            progress(self.records.total());
        }
        Ok(())
    }

    /// What stands in for the turns that are missing before this one: without them a restore would not take it.
    fn stand_ins(&mut self, write: &Write) -> Vec<Write> {
        let (trace, next) = match write {
            Write::Turn(trace, next) => (*trace, next),
            Write::Trace(trace) => {
                let n_turns = trace.turns().count();
                self.n_turns.insert(trace.id, u32::try_from(n_turns).unwrap_or(u32::MAX));
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        let Some(n_turns) = self.n_turns.get_mut(&trace) else { return Vec::new() };
        let missing = *n_turns..next.turn_idx;
        *n_turns = next.turn_idx + 1;
        let n_left_out = std::mem::take(&mut self.n_left_out);
        for turn_idx in missing.clone().skip(n_left_out) {
            self.leave_out(format!("{} is gone", turn_of(trace, turn_idx)));
        }
        self.n_left_out = 0;
        missing.map(|turn_idx| Write::Turn(trace, Box::new(stand_in(turn_idx, next.ended)))).collect()
    }

    fn leave_out(&mut self, reason: String) {
        self.n_damaged += 1;
        self.n_left_out += 1;
        if self.damaged.len() < COMPLAINTS_MAX {
            self.damaged.push(reason);
        }
    }

    fn manifest(self, blobs: Vec<BlobHash>) -> Manifest {
        let Self { records, hasher, damaged, n_damaged, .. } = self;
        Manifest { v: V1, records, records_blake3: hasher.finalize().to_hex().to_string(), blobs, damaged, n_damaged }
    }
}

/// Checks the back-up in this folder against its manifest, then writes all of it into the store.
/// What is there already is left as it is, unless it is no longer what was written: then the back-up's takes its place.
/// Where the store has a log of its own, the few lines stay out that are not true there: see `merge.rs`.
pub async fn restore(database: &dyn Database, folder: &Path, mut progress: impl FnMut(u64)) -> Result<Restored, BackupError> {
    let manifest = read_manifest(folder)?;
    let mut restored = Restored { left_out: manifest.n_damaged, ..Restored::default() };
    let path = folder.join(RECORDS);
    let mut merge = Merge::of(database, &path).await?;
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
            if !merge.leaves_out(&write) {
                batch.push(write);
            }
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
    for (n_records, told) in merge.told() {
        restored.n_differing += n_records;
        restored.differing.insert(0, told);
    }
    restored.differing.truncate(COMPLAINTS_MAX);
    for hash in &manifest.blobs {
        let there = database.blob(*hash).await?;
        if there.as_deref().is_some_and(|bytes| BlobHash::of(bytes) == *hash) {
            restored.same += 1;
            continue;
        }
        let path = folder.join(BLOBS).join(hash.to_string());
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
            } else if matches!(write, Write::Turn(_, next) if is_stand_in(next)) {
                // Whatever is there, a stand-in does not replace it.
                self.same += 1;
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
        let path = folder.join(BLOBS).join(blob.to_string());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use hone_trace::store::Link;
    use std::time::Duration;

    /// A disk without any room.
    struct Full;

    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_full_disk_ends_a_back_up_of_more_records_than_are_queued() {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::open(&Place::Folder(folder.path().to_owned()), &Options::default()).await.unwrap();
        let link = |n: u32| Write::Link(Link { from: n.to_string(), rel: "b".into(), to: "c".into() });
        store.put((0..3000).map(link).collect()).await.unwrap();
        let (path, mut full, mut tally) = (Path::new(RECORDS), Full, Tally::default());
        let written = write_records(&*store, &mut full, path, &mut tally, |_| ());
        let ended = tokio::time::timeout(Duration::from_secs(30), written).await.expect("it ends");
        assert!(matches!(&ended, Err(BackupError::File(_, error)) if error.kind() == io::ErrorKind::StorageFull), "{ended:?}");
    }

    #[test]
    fn one_folder_takes_one_back_up_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = claim(folder.path()).unwrap();
        let error = claim(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("another back-up is being written here"), "{error}");
        drop(held);
        claim(folder.path()).unwrap();
    }
}
