//! Blobs as files named after their hash: `blobs/ab/cdef…`, complete or not there at all.

use hone_trace::BlobHash;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of blobs.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes the file beside its place, syncs it, moves it there, and syncs the folder.
    pub(crate) fn put(&self, bytes: &[u8]) -> io::Result<BlobHash> {
        static UNIQUE: AtomicU64 = AtomicU64::new(0);
        let hash = BlobHash::of(bytes);
        let path = self.path(hash);
        // A file that is there may be damaged: then it is written anew.
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            return Ok(hash);
        }
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        let draft = folder.join(format!(".{}.{}", std::process::id(), UNIQUE.fetch_add(1, Ordering::Relaxed)));
        let written = File::create(&draft)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        for folder in [folder, &self.folder] {
            sync_folder(folder)?;
        }
        Ok(hash)
    }

    pub(crate) fn get(&self, hash: BlobHash) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(hash)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The hashes of all blobs, sorted.
    pub(crate) fn list(&self) -> io::Result<Vec<BlobHash>> {
        let mut hashes = Vec::new();
        for folder in entries(&self.folder)? {
            let Some(start) = folder.file_name().and_then(|name| name.to_str()) else { continue };
            for file in entries(&folder)? {
                let Some(end) = file.file_name().and_then(|name| name.to_str()) else { continue };
                hashes.extend(format!("{start}{end}").parse::<BlobHash>());
            }
        }
        hashes.sort();
        Ok(hashes)
    }

    fn path(&self, hash: BlobHash) -> PathBuf {
        let hex = hash.to_string();
        self.folder.join(&hex[..2]).join(&hex[2..])
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A new name in a folder is durable once the folder is synced.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_found_by_its_hash_and_put_twice_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path().join("blobs"));
        assert!(blobs.list().unwrap().is_empty());
        let hash = blobs.put(b"weights").unwrap();
        assert_eq!(blobs.put(b"weights").unwrap(), hash);
        assert_eq!(blobs.get(hash).unwrap().as_deref(), Some(&b"weights"[..]));
        assert_eq!(blobs.list().unwrap(), vec![hash]);
        assert_eq!(blobs.get(BlobHash::of(b"other")).unwrap(), None);
    }
}
