//! Guesses: what a sequence may say next, because who asks expects it, or because it was said before, by itself or in an earlier answer.
//!
//! Agents repeat themselves: names that they read, arguments, the form of their answers. Guessed tokens are fed behind those that are
//! due, as further rows of the same step, which take no longer while a step waits for the weights. Every row draws its token as always;
//! where that is the guessed one, the row behind it had the right input, and its draw counts too. So guesses change when tokens are
//! drawn, never which. Knows ids only.

use std::collections::VecDeque;

/// Tokens of a likeness; more tell no more.
const ALIKE_MAX: usize = 8;
/// Tokens of earlier answers that are kept for one asker, and askers that they are kept for.
const TOKENS_MAX: usize = 8192;
const ASKERS_MAX: usize = 32;

/// What any guess costs, in tokens: little where a step takes no longer for it, but bursts are short.
const COST_MIN: f32 = 0.125;
/// Guesses that may be lost before there is a pause, and how many times the tokens of one's cost are drawn in it.
const LOST_MAX: f32 = 8.0;
const PAUSE: f32 = 128.0;

/// Whether a sequence is worth guesses: one whose guesses do not pay for the time that they take is left alone for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hope {
    is_wished: bool,
    /// Guesses that did not pay for themselves of late, less those whose gain would have paid for others.
    n_lost: f32,
    /// Nothing is guessed before there are so many tokens.
    from: usize,
}

impl Hope {
    /// None at all, unless it is wished.
    pub(super) fn new(is_wished: bool) -> Self {
        Self { is_wished, n_lost: 0.0, from: 0 }
    }

    /// True when something may be guessed behind so many tokens.
    pub(super) fn is_there(self, n_tokens: usize) -> bool {
        self.is_wished && n_tokens >= self.from
    }

    /// So many tokens of a guess were right, in whose time so many could have been drawn, and so many are there now.
    pub(super) fn learn(&mut self, n_right: usize, cost: f32, n_tokens: usize) {
        let cost = cost.max(COST_MIN);
        self.n_lost = (self.n_lost + 1.0 - n_right as f32 / cost).clamp(0.0, LOST_MAX);
        if self.n_lost == LOST_MAX {
            self.from = n_tokens + (cost * PAUSE) as usize;
        }
    }
}

/// What was said in earlier answers, by whom they were for: nobody is guessed to hear what others heard.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Who was answered last is the last.
    of: VecDeque<OfAsker>,
}

/// What one asker was told.
#[derive(Debug)]
struct OfAsker {
    asker: u64,
    /// Oldest first, each with the end of what it answers.
    answers: VecDeque<Vec<u32>>,
    n_tokens: usize,
}

impl Said {
    /// Keeps an answer, which begins behind so many tokens.
    pub(super) fn keep(&mut self, asker: u64, ids: &[u32], n_prompt: usize) {
        let answer = &ids[n_prompt.saturating_sub(ALIKE_MAX)..];
        if ids.len() == n_prompt || answer.len() > TOKENS_MAX {
            return;
        }
        let place = self.of.iter().position(|of| of.asker == asker);
        let known = place.and_then(|place| self.of.remove(place));
        let mut of = known.unwrap_or_else(|| OfAsker { asker, answers: VecDeque::new(), n_tokens: 0 });
        of.answers.push_back(answer.to_vec());
        of.n_tokens += answer.len();
        while of.n_tokens > TOKENS_MAX {
            of.n_tokens -= of.answers.pop_front().map_or(of.n_tokens, |oldest| oldest.len());
        }
        self.of.push_back(of);
        if self.of.len() > ASKERS_MAX {
            self.of.pop_front();
        }
    }

    /// At most `n` tokens that may follow: what followed the place that is most alike to the end, in what is expected, in these ids or in
    /// an answer before, the last such place. A place in these ids reaches their end, and then goes round.
    pub(super) fn guess(&self, asker: u64, expected: &[u32], ids: &[u32], n: usize) -> Vec<u32> {
        if n == 0 {
            return Vec::new();
        }
        let answers = self.of.iter().find(|of| of.asker == asker).into_iter().flat_map(|of| of.answers.iter().rev());
        let (mut rest, mut n_best): (&[u32], usize) = (&[], 0);
        for said in [expected, ids].into_iter().chain(answers.map(Vec::as_slice)) {
            if let Some((place, alike)) = most_alike(said, ids, n_best) {
                (rest, n_best) = (&said[place..], alike);
            }
            if n_best == ALIKE_MAX {
                break;
            }
        }
        let is_own = rest.as_ptr_range().end == ids.as_ptr_range().end;
        rest.iter().copied().cycle().take(if is_own { n } else { n.min(rest.len()) }).collect()
    }
}

/// An answer as it is expected, with the end of what it answers.
pub(super) fn expected(prompt: &[u32], prediction: &[u32]) -> Vec<u32> {
    match prediction {
        [] => Vec::new(),
        _ => [&prompt[prompt.len().saturating_sub(ALIKE_MAX)..], prediction].concat(),
    }
}

/// The place in `said` before which stand more than so many of the tokens at the end of `ids`, the most of them; and how many.
fn most_alike(said: &[u32], ids: &[u32], n_min: usize) -> Option<(usize, usize)> {
    let (&last, mut best) = (ids.last()?, None);
    let mut n_best = n_min;
    for place in (1..said.len()).rev().filter(|&place| said[place - 1] == last) {
        let alike = said[..place].iter().rev().zip(ids.iter().rev()).take(ALIKE_MAX).take_while(|(a, b)| a == b).count();
        if alike > n_best {
            (best, n_best) = (Some((place, alike)), alike);
        }
        if alike == ALIKE_MAX {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(ids: &[u32], n: usize) -> Vec<u32> {
        Said::default().guess(0, &[], ids, n)
    }

    #[test]
    fn what_followed_the_longest_likeness_is_guessed() {
        // `7 8` was there twice, `5 7 8` once.
        assert_eq!(alone(&[5, 7, 8, 1, 2, 9, 7, 8, 3, 4, 5, 7, 8], 2), [1, 2]);
        assert_eq!(alone(&[6, 7, 8, 1, 2, 9, 7, 8, 3, 4, 5, 7, 8], 2), [3, 4], "the last one among equals");
        assert_eq!(alone(&[8, 1, 2, 8], 2), [1, 2]);
    }

    #[test]
    fn what_was_never_said_is_not_guessed() {
        assert!(alone(&[1, 2, 3], 4).is_empty() && alone(&[1], 4).is_empty() && alone(&[], 4).is_empty());
        assert!(alone(&[1, 2, 3, 1, 2], 0).is_empty());
    }

    #[test]
    fn a_round_is_guessed_to_go_on() {
        assert_eq!(alone(&[4, 1, 2, 3, 1, 2, 3], 5), [1, 2, 3, 1, 2]);
        assert_eq!(alone(&[7, 7, 7], 4), [7; 4]);
    }

    #[test]
    fn answers_before_are_guessed_to_come_again_to_the_same_asker() {
        let mut said = Said::default();
        said.keep(1, &[9, 9, 9, 5, 6, 7, 8], 3);
        assert_eq!(said.guess(1, &[], &[2, 2, 5, 6], 4), [7, 8], "an answer ends");
        assert_eq!(said.guess(1, &[], &[6, 2, 5, 6], 1), [7], "the longer likeness counts, wherever it is");
        assert_eq!(said.guess(1, &[], &[5, 6, 2, 5, 6], 1), [2], "and a sequence's own among equals");
        assert!(said.guess(2, &[], &[5, 6], 4).is_empty());
    }

    #[test]
    fn what_is_expected_comes_before_what_was_said() {
        let (said, expected) = (Said::default(), expected(&[1, 2, 3], &[5, 6, 7, 6, 8]));
        let guess = |ids: &[u32]| said.guess(0, &expected, ids, 2);
        assert_eq!(guess(&[1, 2, 3]), [5, 6], "from the first token on");
        assert_eq!(guess(&[1, 2, 3, 9, 5]), [6, 7], "where the answer comes back to it");
        assert_eq!(guess(&[1, 2, 3, 6, 9, 6]), [8], "among equals, and to its end");
        assert_eq!(guess(&[1, 2, 4, 9, 6, 0, 9, 6]), [0, 9], "not where more is alike elsewhere");
        assert!(super::expected(&[1, 2, 3], &[]).is_empty());
    }

    #[test]
    fn who_says_nothing_twice_is_left_alone_for_a_while() {
        let mut hope = Hope::new(true);
        assert!(hope.is_there(0) && !Hope::new(false).is_there(0));
        for n_tokens in 1..8 {
            hope.learn(0, 0.0, n_tokens);
        }
        hope.learn(1, 0.0, 50);
        assert!(hope.is_there(50));
        for _ in 0..8 {
            hope.learn(0, 0.0, 60);
        }
        assert!(!hope.is_there(75) && hope.is_there(76));
        hope.learn(0, 0.0, 80);
        assert!(!hope.is_there(80), "one more that is wrong is enough");
        hope.learn(3, 0.0, 100);
        assert!(hope.is_there(100));
    }

    #[test]
    fn guesses_that_take_time_have_to_pay_for_it() {
        // The same guesses, again and again, each in the time of so many tokens; and whether they are still made behind 64 of them.
        let goes_on = |right: &[usize], cost: f32| {
            let mut hope = Hope::new(true);
            right.iter().cycle().take(64).for_each(|&n_right| hope.learn(n_right, cost, 0));
            hope.is_there(0)
        };
        assert!(goes_on(&[0, 0, 1], 0.0) && goes_on(&[7, 0, 0, 0], 1.5) && goes_on(&[1, 2], 1.5));
        assert!(!goes_on(&[1], 1.5) && !goes_on(&[0, 0, 0, 0, 0, 7], 1.5) && !goes_on(&[2, 0, 0, 0, 0, 0, 0, 0], 1.5));
        let mut hope = Hope::new(true);
        (0..8).for_each(|_| hope.learn(0, 1.5, 10));
        assert!(!hope.is_there(201) && hope.is_there(202), "what takes longer is tried less often");
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let mut said = Said::default();
        for i in 0..100 {
            said.keep(u64::from(i), &[i, i + 1], 1);
            said.keep(1000, &vec![i; 1000], 0);
        }
        assert_eq!(said.of.len(), ASKERS_MAX);
        let kept = said.of.iter().find(|of| of.asker == 1000).expect("it was used last");
        assert_eq!((kept.answers.len(), kept.n_tokens), (8, 8000));
        assert_eq!(kept.answers.front().map(|answer| answer[0]), Some(92));
        said.keep(1000, &vec![1; 9000], 0);
        said.keep(1000, &[1, 2], 2);
        assert_eq!(said.of.back().map(|of| of.answers.len()), Some(8), "nothing too long, and nothing empty");
    }
}
