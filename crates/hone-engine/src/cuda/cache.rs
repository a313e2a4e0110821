//! A folder for what takes long to make, for the next start.
//!
//! An entry is there whole or not at all: it is written beside its place and renamed, and its hash stands before it, so that one that a
//! crash or a full disk left half-written is made again instead of taken. What cannot be written stays in memory for this process, and why
//! is told to whoever asks. Knows nothing of kernels.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Tells entries apart that threads of this process write at once.
static N_WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Such a folder, or none.
#[derive(Default)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
    unwritten: Mutex<HashMap<String, Vec<u8>>>,
    /// Why the first of those is not on disk.
    complaint: OnceLock<String>,
}

impl Cache {
    /// Keeps things in this folder.
    pub(super) fn new(folder: Option<&Path>) -> Self {
        Self { folder: folder.map(Path::to_owned), ..Self::default() }
    }

    /// Whether anything is kept.
    pub(super) fn is_there(&self) -> bool {
        self.folder.is_some()
    }

    /// The entry of this name, if it is whole.
    pub(super) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.as_ref()?.join(name);
        whole(std::fs::read(path).unwrap_or_default()).or_else(|| self.unwritten().get(name).cloned())
    }

    /// Keeps an entry. That it cannot be written only costs time.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let half = folder.join(format!("{name}.{}-{}.half", std::process::id(), N_WRITTEN.fetch_add(1, Ordering::Relaxed)));
        let entry = [format!("{}\n", blake3::hash(bytes).to_hex()).as_bytes(), bytes].concat();
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&half, entry));
        if let Err(error) = written.and_then(|()| std::fs::rename(&half, folder.join(name))) {
            let _ = std::fs::remove_file(&half);
            self.unwritten().insert(name.to_owned(), bytes.to_owned());
            self.complaint.get_or_init(|| format!("{}: {error}", folder.display()));
        }
    }

    /// Why something could not be written, if that happened.
    pub(super) fn complaint(&self) -> Option<&str> {
        self.complaint.get().map(String::as_str)
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands behind the hash, where it is the hash of that.
fn whole(mut entry: Vec<u8>) -> Option<Vec<u8>> {
    let end = entry.iter().position(|byte| *byte == b'\n')?;
    let bytes = entry.split_off(end + 1);
    (entry[..end] == *blake3::hash(&bytes).to_hex().as_bytes()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_taken_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"one\ntwo");
        assert_eq!(cache.get("a").as_deref(), Some(&b"one\ntwo"[..]));
        let path = folder.path().join("a");
        let entry = std::fs::read(&path).unwrap();
        for damaged in [&entry[..entry.len() - 1], &entry[..10], &vec![0; entry.len()], b""] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get("a"), None);
        }
        cache.put("a", b"three");
        assert_eq!(cache.get("a").as_deref(), Some(&b"three"[..]));
        assert_eq!((cache.complaint(), std::fs::read_dir(folder.path()).unwrap().count()), (None, 1));
        Cache::default().put("a", b"nowhere");
    }

    #[test]
    fn what_cannot_be_written_is_had_from_memory_and_told_once() {
        // A file where the folder should be: nothing can be written into it, whoever tries.
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = Cache::new(Some(file.path()));
        for name in ["a", "b"] {
            cache.put(name, name.as_bytes());
            assert_eq!(cache.get(name).as_deref(), Some(name.as_bytes()));
        }
        assert!(cache.complaint().unwrap().starts_with(&format!("{}: ", file.path().display())), "{:?}", cache.complaint());
        assert_eq!(Cache::new(Some(file.path())).get("a"), None, "another process has to make it again");
    }

    /// A disk that is full: `/dev/full` takes no byte.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        let next = N_WRITTEN.load(Ordering::Relaxed);
        // Other tests may write meanwhile and take a few of the numbers.
        for n in next..next + 100 {
            std::os::unix::fs::symlink("/dev/full", folder.path().join(format!("a.{}-{n}.half", std::process::id()))).unwrap();
        }
        cache.put("a", b"one");
        assert_eq!(cache.get("a").as_deref(), Some(&b"one"[..]));
        assert!(!folder.path().join("a").exists());
        assert!(cache.complaint().unwrap().contains("No space left"), "{:?}", cache.complaint());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 99, "the half that was begun is gone");
    }
}
