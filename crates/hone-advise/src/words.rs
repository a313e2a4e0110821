//! Texts as words: what a message says whatever ids and numbers stand in it, and which words tell one set of texts from another.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Words of a message that are looked at.
const N_WORDS_MAX: usize = 24;
/// Characters of a text that are looked at.
const LEN_MAX: usize = 4000;
/// Different words of a text that are looked at, and of all texts.
const N_TOPICS_MAX: usize = 48;
const N_KNOWN_MAX: usize = 200_000;
/// Stands for whatever differs between messages that are otherwise alike.
pub(crate) const ANY: &str = "*";
/// The share of words that two messages must have in common, place by place, to be the same one.
const ALIKE: f64 = 0.6;
/// How much the frequency of a word among all texts counts against what was seen of it, in texts.
const PRIOR: f64 = 20.0;
/// Standard errors by which a word must be more frequent.
const Z_MIN: f64 = 3.0;

/// A message as words, with what differs from call to call left out: numbers, ids, addresses and quotes.
pub(crate) fn masked(message: &str) -> Vec<String> {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    for word in line.split_whitespace() {
        let bare = word.trim_matches(|sign: char| !sign.is_alphanumeric());
        let opens = word.chars().next().filter(|sign| matches!(sign, '"' | '`' | '“'));
        let is_within = quote.is_some() || opens.is_some();
        quote = quote.or(opens);
        let end = word.trim_end_matches(['.', ',', ':', ';', ')', '!', '?']);
        if quote.is_some_and(|open| end.len() > open.len_utf8() && end.ends_with(if open == '“' { '”' } else { open })) {
            quote = None;
        }
        let is_own = is_within || bare.chars().any(|sign| sign.is_numeric()) || bare.contains(['@', '/', '\\', '_', '=']);
        match is_own || bare.chars().count() > 24 {
            // One sign for a quote of several words.
            true if words.last().is_some_and(|last| last == ANY) => {}
            true => words.push(ANY.to_owned()),
            false if bare.is_empty() => {}
            false => words.push(bare.to_lowercase()),
        }
        if words.len() == N_WORDS_MAX {
            break;
        }
    }
    words
}

/// Whether two masked messages are the same one: of one length, and mostly of the same words.
pub(crate) fn are_alike(one: &[String], other: &[String]) -> bool {
    let n_equal = one.iter().zip(other).filter(|(a, b)| a == b).count();
    one.len() == other.len() && n_equal as f64 >= ALIKE * one.len() as f64
}

/// Leaves out of a message what another one that is alike has otherwise.
pub(crate) fn generalise(message: &mut [String], other: &[String]) {
    message.iter_mut().zip(other).filter(|(word, other)| word != other).for_each(|(word, _)| *word = ANY.to_owned());
}

/// Words and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    numbers: HashMap<String, u32>,
    words: Vec<String>,
}

impl Vocabulary {
    pub(crate) fn word(&self, number: u32) -> &str {
        &self.words[number as usize]
    }

    /// The words of a text that may tell what it is about, each once, in the order of their numbers. Words that are one too many are left out.
    pub(crate) fn topics(&mut self, text: &str) -> Vec<u32> {
        let end = text.char_indices().nth(LEN_MAX).map_or(text.len(), |(end, _)| end);
        let words = text[..end].split(|sign: char| !sign.is_alphanumeric() && sign != '\'');
        let mut found = BTreeSet::new();
        for word in words.map(|word| word.trim_matches('\'').to_lowercase()) {
            if word.chars().count() < 3 || word.chars().any(char::is_numeric) {
                continue;
            }
            found.extend(self.number(word));
            if found.len() == N_TOPICS_MAX {
                break;
            }
        }
        found.into_iter().collect()
    }

    fn number(&mut self, word: String) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&word) {
            return Some(number);
        }
        let number = u32::try_from(self.words.len()).ok().filter(|_| self.words.len() < N_KNOWN_MAX)?;
        self.words.push(word.clone());
        self.numbers.insert(word, number);
        Some(number)
    }
}

/// How many texts have each word.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    n_texts: usize,
    n_with: BTreeMap<u32, usize>,
}

impl Counts {
    pub(crate) fn add(&mut self, words: &[u32]) {
        self.n_texts += 1;
        words.iter().for_each(|&word| *self.n_with.entry(word).or_default() += 1);
    }

    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut counts = Self::default();
        texts.into_iter().for_each(|words| counts.add(words));
        counts
    }

    /// How much a word tells: of a rare one more than of one that is everywhere.
    pub(crate) fn weight(&self, word: u32) -> f64 {
        let n_with = self.n_with.get(&word).copied().unwrap_or(0);
        ((1 + self.n_texts) as f64 / (1 + n_with) as f64).ln()
    }

    /// The words that are more frequent in these texts than in all others by more than chance, the most telling first: log odds with
    /// the frequency among all as prior (Monroe, Colaresi and Quinn 2008).
    pub(crate) fn telling(&self, all: &Self, n_max: usize) -> Vec<u32> {
        let n_others = all.n_texts.saturating_sub(self.n_texts);
        let mut found: Vec<(f64, u32)> = Vec::new();
        for (&word, &n_with) in &self.n_with {
            let n_all = all.n_with.get(&word).copied().unwrap_or(n_with).max(n_with);
            let prior = PRIOR * (n_all as f64 + 0.5) / (all.n_texts as f64 + 1.0);
            let (here, there) = (n_with as f64 + prior, (n_all - n_with) as f64 + prior);
            let (not_here, not_there) = (self.n_texts as f64 + PRIOR - here, n_others as f64 + PRIOR - there);
            let gap = (here / not_here).ln() - (there / not_there).ln();
            let z = gap / [here, not_here, there, not_there].iter().map(|n| 1.0 / n).sum::<f64>().sqrt();
            if z >= Z_MIN {
                found.push((z, word));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.into_iter().take(n_max).map(|(_, word)| word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &str) -> String {
        masked(message).join(" ")
    }

    #[test]
    fn a_message_is_the_same_whatever_ids_stand_in_it() {
        assert_eq!(text("Order A-4711 of \"J. R. Doe\" was not found (see /tmp/x).\nmore"), "order * of * was not found see *");
        assert_eq!(text("order B-9 of \"x\" was not found (see /var/y)"), "order * of * was not found see *");
        assert_eq!(text(""), "");
    }

    #[test]
    fn messages_that_differ_in_a_name_become_one() {
        let (mut one, other) = (masked("customer Berlin has no account here"), masked("customer Oslo has no account here"));
        assert!(are_alike(&one, &other));
        generalise(&mut one, &other);
        assert_eq!(one.join(" "), "customer * has no account here");
        assert!(!are_alike(&masked("the disk is full"), &masked("the tool timed out")));
        assert!(!are_alike(&masked("a b c"), &masked("a b c d")));
    }

    #[test]
    fn words_tell_a_set_of_texts_from_the_others() {
        let mut known = Vocabulary::default();
        let refunds: Vec<_> = (0..30).map(|n| known.topics(&format!("please give me a refund for order {n}"))).collect();
        let others: Vec<_> = (0..300).map(|n| known.topics(&format!("please tell me where order {n} is"))).collect();
        let here = Counts::of(refunds.iter().map(Vec::as_slice));
        let all = Counts::of(refunds.iter().chain(&others).map(Vec::as_slice));
        let told: Vec<&str> = here.telling(&all, 5).into_iter().map(|word| known.word(word)).collect();
        assert!(told.contains(&"refund") && !told.contains(&"please"), "{told:?}");
        assert!(all.telling(&all, 5).is_empty(), "nothing tells all texts from none");
    }
}
