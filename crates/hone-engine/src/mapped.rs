//! A read-only memory map of a model file, and the check that turns away formats which run code.
//!
//! Knows nothing of what the bytes mean beyond the first few.
#![expect(unsafe_code, reason = "mapping a file is unsafe by nature; it is done once, here")]

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::LoadError;

/// The bytes of one file.
#[derive(Debug)]
pub struct Mapped {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl Mapped {
    /// Maps a file after looking at its first bytes: zip archives and pickles are refused unread.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(LoadError::io(path))?;
        let meta = file.metadata().map_err(LoadError::io(path))?;
        if !meta.is_file() {
            return Err(LoadError::malformed(path, "not a regular file"));
        }
        if meta.len() == 0 {
            return Err(LoadError::malformed(path, "the file is empty"));
        }
        // SAFETY: the map is private and read-only. A process that truncates a model file while it is in use can still
        // fault us; like every reader of mapped weights we ask that model files are replaced by rename, not rewritten.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(LoadError::io(path))?;
        if let Some(kind) = code_format(&map) {
            return Err(LoadError::Pickle { path: path.to_path_buf(), kind });
        }
        Ok(Self { path: path.to_path_buf(), map })
    }

    /// Where the bytes came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Recognises files that `torch.load` and friends would unpickle.
pub fn code_format(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Some("a zip archive (PyTorch .bin/.pt)");
    }
    // A pickle opens with PROTO and its version; protocol 0 and 1 have no mark, but then neither GGUF nor a
    // safetensors length fits and the parsers refuse them.
    if bytes.len() > 2 && bytes[0] == 0x80 && (2..=5).contains(&bytes[1]) && bytes.get(2..8) != Some(&[0; 6]) {
        return Some("a pickle");
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Some("a gzip archive");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pickles_are_known_by_their_first_bytes() {
        assert!(code_format(b"PK\x03\x04rest").is_some());
        assert!(code_format(b"\x80\x02}q\x00.").is_some());
        assert!(code_format(b"\x80\x05\x95\x10\x00\x00\x00\x00\x00").is_some());
        assert!(code_format(b"GGUF\x03\x00\x00\x00").is_none());
        // A safetensors header of 0x280 bytes begins with the same two bytes and is not a pickle.
        assert!(code_format(b"\x80\x02\x00\x00\x00\x00\x00\x00{").is_none());
    }
}
