//! Injected faults: what goes wrong with tools in production, at most once in an episode.
//!
//! Whether a call fails is drawn call by call, from the scenario and the seed of the episode. A fault announces itself by its
//! first word, also when it brings wrong data, so that an attentive agent can try again.

use super::vocabulary::{WORDS, Word};
use hone_trace::Draws;

const TIMEOUT_MS: f64 = 30_000.0;

word_list! {
    /// What goes wrong, by the word that announces it.
    Fault { Timeout = "timeout", RateLimit = "limit", WrongData = "stale" }
}

impl Fault {
    /// The type of the error on the trace.
    pub(crate) fn error(self) -> &'static str {
        match self {
            Self::Timeout => "tool_timeout",
            Self::RateLimit => "tool_rate_limit",
            Self::WrongData => "tool_wrong_data",
        }
    }

    /// Whether a tool result announces a fault.
    pub(crate) fn is_told_in(text: &str) -> bool {
        Self::WORDS.iter().any(|word| text.starts_with(word))
    }
}

/// The luck of one episode.
pub(crate) struct Luck {
    draws: Draws,
    rate: f64,
    has_struck: bool,
}

impl Luck {
    pub(crate) fn new(seed: u64, scenario: &str, rate: f64) -> Self {
        Self { draws: Draws::new(seed, &["desk", "luck", scenario]), rate, has_struck: false }
    }

    /// What goes wrong with this call, if anything.
    pub(crate) fn strike(&mut self) -> Option<Fault> {
        if self.has_struck || !self.draws.chance(self.rate) {
            return None;
        }
        self.has_struck = true;
        Some(*self.draws.pick(Fault::ALL))
    }

    /// How long a call takes, in milliseconds of the world's own clock.
    pub(crate) fn duration_ms(&mut self, is_timeout: bool) -> f64 {
        if is_timeout { TIMEOUT_MS } else { self.draws.between(15, 60) as f64 }
    }

    /// Wrong data of the same kind: other digits, or another word where there are none.
    pub(crate) fn garble(&mut self, text: &str) -> String {
        if !text.bytes().any(|byte| byte.is_ascii_digit()) {
            let others: Vec<&str> = WORDS.iter().copied().filter(|word| *word != text).collect();
            return (*self.draws.pick(&others)).to_owned();
        }
        let shift = self.draws.between(1, 9) as u8;
        let other = |c: char| if c.is_ascii_digit() { char::from(b'0' + (c as u8 - b'0' + shift) % 10) } else { c };
        text.chars().map(other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_at_most_once_and_as_often_as_said() {
        let n_struck = |rate| (0..4000).filter(|&seed| Luck::new(seed, "", rate).strike().is_some()).count();
        assert_eq!(n_struck(0.0), 0);
        assert_eq!(n_struck(1.0), 4000);
        assert!((150..250).contains(&n_struck(0.05)), "{}", n_struck(0.05));
        let mut luck = Luck::new(1, "", 1.0);
        assert!(luck.strike().is_some());
        assert!((0..100).all(|_| luck.strike().is_none()));
    }

    #[test]
    fn wrong_data_is_wrong() {
        for seed in 0..200 {
            for text in ["17802", "2024-04-15", "shipped", "anchor", "45.90"] {
                assert_ne!(Luck::new(seed, "", 1.0).garble(text), text);
            }
        }
    }
}
