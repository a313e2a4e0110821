//! What was found out by trying, kept on disk for the next start.
//!
//! Of the many ways to compute the same bits, the fastest is found by timing them, which takes seconds. What was found holds for this
//! GPU, these libraries and these kernels alone, so it is kept under a name made of all of them. It tells which way was fast, never which
//! way is right: whoever reads it tries again that what it takes agrees to the bit.

use std::sync::Arc;

use super::cache::Cache;

/// Found things of one GPU with its libraries.
pub(super) struct Kept {
    cache: Arc<Cache>,
    ground: blake3::Hasher,
}

impl Kept {
    /// What was found before holds where all of these words are the same.
    pub(super) fn new(cache: Arc<Cache>, ground: &[String]) -> Self {
        let mut hasher = blake3::Hasher::new();
        ground.iter().for_each(|word| add(&mut hasher, word));
        Self { cache, ground: hasher }
    }

    /// What was found of this question, if it is whole.
    pub(super) fn get(&self, question: &str) -> Option<String> {
        String::from_utf8(self.cache.get(&self.name(question))?).ok()
    }

    /// Keeps what was found.
    pub(super) fn put(&self, question: &str, found: &str) {
        self.cache.put(&self.name(question), found.as_bytes());
    }

    fn name(&self, question: &str) -> String {
        let mut hasher = self.ground.clone();
        add(&mut hasher, question);
        format!("{}.found", hasher.finalize().to_hex())
    }
}

fn add(hasher: &mut blake3::Hasher, word: &str) {
    hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_on_the_same_ground_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |ground: &str| Kept::new(Arc::new(Cache::new(Some(folder.path()))), &[ground.to_owned()]);
        kept("gpu").put("which way", "this one");
        assert_eq!(kept("gpu").get("which way").as_deref(), Some("this one"));
        assert_eq!(kept("gpu").get("which other way"), None);
        assert_eq!(kept("another gpu").get("which way"), None);
        let nowhere = Kept::new(Arc::default(), &[]);
        nowhere.put("which way", "this one");
        assert_eq!(nowhere.get("which way"), None);
    }
}
