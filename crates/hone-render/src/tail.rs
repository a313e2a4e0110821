//! Finds texts in bytes that come a token at a time.

/// Remembers as many bytes as a match could begin in.
#[derive(Debug, Clone)]
pub(crate) struct Tail {
    needles: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    n_kept: usize,
}

impl Tail {
    pub(crate) fn new(needles: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        let needles: Vec<Vec<u8>> = needles.into_iter().map(Into::into).collect();
        let n_kept = needles.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1);
        Self { needles, bytes: Vec::new(), n_kept }
    }

    /// Takes the next bytes, and says whether they complete one of the texts.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let n_old = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let found = self.needles.iter().any(|needle| {
            let start = (n_old + 1).saturating_sub(needle.len());
            self.bytes.get(start..).is_some_and(|fresh| fresh.windows(needle.len()).any(|window| window == needle.as_slice()))
        });
        self.bytes.drain(..self.bytes.len().saturating_sub(self.n_kept));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_is_found_once_however_it_is_cut(text in "[ab]{0,30}", needles in proptest::collection::vec("[ab]{1,4}", 1..3), size in 1usize..5) {
            let mut tail = Tail::new(needles.clone());
            let mut n_bytes = 0;
            for piece in text.as_bytes().chunks(size) {
                let before = &text[..n_bytes];
                n_bytes += piece.len();
                let ends_here = |needle: &String| {
                    (0..=n_bytes).any(|end| end > before.len() && text[..end].ends_with(needle.as_str()))
                };
                prop_assert_eq!(tail.push(piece), needles.iter().any(ends_here));
            }
        }
    }
}
