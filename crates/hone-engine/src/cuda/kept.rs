//! What was found out by trying, kept on disk for the next start.
//!
//! Of the many ways to compute the same bits, the fastest is found by timing them, which takes seconds. What was found holds for this
//! GPU, these libraries and these kernels alone, so it is kept under a name made of all of them. It tells which way was fast, never which
//! way is right: whoever reads it tries again that what it takes agrees to the bit.

use std::path::{Path, PathBuf};

use super::compile::keep;

/// Found things of one GPU with its libraries, in a folder or nowhere.
pub(super) struct Kept {
    folder: Option<PathBuf>,
    ground: blake3::Hasher,
}

impl Kept {
    /// What was found before holds where all of these words are the same.
    pub(super) fn new(folder: Option<&Path>, ground: &[String]) -> Self {
        let mut hasher = blake3::Hasher::new();
        ground.iter().for_each(|word| add(&mut hasher, word));
        Self { folder: folder.map(Path::to_owned), ground: hasher }
    }

    /// What was found of this question, if it is whole.
    pub(super) fn get(&self, question: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.path(question)?).ok()?;
        let (sum, found) = text.split_once('\n')?;
        (sum == blake3::hash(found.as_bytes()).to_hex().as_str()).then(|| found.to_owned())
    }

    /// Keeps what was found, where there is a folder; that it cannot be written only costs time.
    pub(super) fn put(&self, question: &str, found: &str) {
        if let Some(path) = self.path(question) {
            keep(&path, format!("{}\n{found}", blake3::hash(found.as_bytes()).to_hex()).as_bytes());
        }
    }

    fn path(&self, question: &str) -> Option<PathBuf> {
        let mut hasher = self.ground.clone();
        add(&mut hasher, question);
        Some(self.folder.as_ref()?.join(format!("{}.found", hasher.finalize().to_hex())))
    }
}

fn add(hasher: &mut blake3::Hasher, word: &str) {
    hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_on_the_same_ground_alone_and_only_whole() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |ground: &str| Kept::new(Some(folder.path()), &[ground.to_owned()]);
        kept("gpu").put("which way", "this one");
        assert_eq!(kept("gpu").get("which way").as_deref(), Some("this one"));
        assert_eq!(kept("gpu").get("which other way"), None);
        assert_eq!(kept("another gpu").get("which way"), None);
        let file = kept("gpu").path("which way").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        for damaged in [text.replace("this", "that"), text[..text.len() - 1].to_owned(), String::new()] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(kept("gpu").get("which way"), None);
        }
        let nowhere = Kept::new(None, &[]);
        nowhere.put("which way", "this one");
        assert_eq!(nowhere.get("which way"), None);
    }
}
