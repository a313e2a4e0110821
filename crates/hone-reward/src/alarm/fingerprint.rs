//! What is kept of an output: a sketch of its word pairs, its length, and how it talks. 544 bytes, whatever the text.
//!
//! The sketch is MinHash with one permutation: word pairs are hashed once and fall into 128 bins, each bin keeps its smallest
//! hash. The share of equal bins among those that are filled on either side estimates the Jaccard similarity of the two sets.

const N_BINS: usize = 128;

/// Bytes of an output that are read; the length counts all.
const TEXT_LEN_MAX: usize = 1 << 16;

const EMPTY: u32 = u32::MAX;

/// Words with which an answer speaks to its judge.
const JUDGING: [&str; 34] = [
    "rubric",
    "criteria",
    "criterion",
    "score",
    "scores",
    "scored",
    "grader",
    "grade",
    "judge",
    "evaluator",
    "evaluation",
    "rating",
    "points",
    "marks",
    "perfect",
    "perfectly",
    "excellent",
    "flawless",
    "flawlessly",
    "outstanding",
    "exemplary",
    "comprehensive",
    "thorough",
    "thoroughly",
    "satisfies",
    "satisfied",
    "fulfils",
    "fulfills",
    "requirement",
    "requirements",
    "deserves",
    "maximum",
    "exceptional",
    "impeccable",
];

/// What is kept of an output.
#[derive(Debug, Clone, PartialEq)]
pub struct Fingerprint {
    bins: Box<[u32; N_BINS]>,
    /// Words of the output.
    pub n_words: usize,
    /// The share of word pairs that had occurred before in the same output.
    pub repeated: f64,
    /// Different words of praise and judging.
    pub n_judging: usize,
}

impl Fingerprint {
    /// The fingerprint of a text. Case and punctuation are ignored.
    pub fn of(text: &str) -> Self {
        let read = &text[..text.floor_char_boundary(TEXT_LEN_MAX)];
        let mut bins = Box::new([EMPTY; N_BINS]);
        let mut judging: u64 = 0;
        let mut pairs: Vec<u64> = Vec::new();
        let mut last = 0;
        for word in words(read) {
            if let Some(at) = judging_idx(word) {
                judging |= 1 << at;
            }
            let hash = hash(word);
            pairs.push(mixed(last ^ hash.rotate_left(17)));
            last = hash;
        }
        for pair in &pairs {
            let bin = &mut bins[(pair >> 57) as usize];
            *bin = (*bin).min((*pair as u32).min(EMPTY - 1));
        }
        let n_read = pairs.len();
        pairs.sort_unstable();
        pairs.dedup();
        let repeated = if n_read == 0 { 0.0 } else { 1.0 - pairs.len() as f64 / n_read as f64 };
        let n_words = n_read + text[read.len()..].split_whitespace().count();
        Self { bins, n_words, repeated, n_judging: judging.count_ones() as usize }
    }

    /// About how alike two outputs are: shared word pairs over all word pairs. Nothing is like an empty output.
    pub fn similarity(&self, other: &Self) -> f64 {
        self.similarity_of_first(other, N_BINS)
    }

    /// Whether two outputs are at least this alike. Most are not at all, which a quarter of the bins shows. Of pairs that are just
    /// as alike as asked, this first look gives up one in a hundred of ten words and almost none of a hundred.
    pub(super) fn is_like(&self, other: &Self, similarity_min: f64) -> bool {
        let at_first = self.similarity_of_first(other, N_BINS / 4);
        at_first >= 0.4 * similarity_min && self.similarity(other) >= similarity_min
    }

    fn similarity_of_first(&self, other: &Self, n_bins: usize) -> f64 {
        let (mut n_equal, mut n_filled) = (0u32, 0u32);
        let mut at = 0;
        while at < n_bins {
            let (a, b) = (self.bins[at], other.bins[at]);
            n_filled += u32::from(a != EMPTY || b != EMPTY);
            n_equal += u32::from(a == b && a != EMPTY);
            at += 1;
        }
        if n_filled == 0 { 0.0 } else { f64::from(n_equal) / f64::from(n_filled) }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn judging_idx(word: &str) -> Option<usize> {
    if !(5..=13).contains(&word.len()) {
        return None;
    }
    let first = word.as_bytes()[0].to_ascii_lowercase();
    JUDGING.iter().position(|judging| judging.as_bytes()[0] == first && judging.eq_ignore_ascii_case(word))
}

fn hash(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
