//! Choosing one token from one row of logits.
//!
//! `z = logit / temperature` inside the allowed ids; then top-k, top-p and min-p each narrow the support, in this order;
//! the token is drawn from what is left by inverse cumulative probability with one uniform number, and its
//! log-probability is that within the support it was drawn from. Ties are cut by the lower id. Temperature 0 takes the
//! largest logit and reports the log-probability at temperature 1. Knows nothing of sequences or batches.

mod row;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Support, Target};
use row::Row;

/// Of a rounded sum, what is certainly there: half of four equal ids are two, and not three for a last bit.
const ROUNDED: f64 = 1.0 - 1e-6;

/// How tokens are drawn. The default is the plain distribution at temperature 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerOptions {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep this many largest; 0 keeps all.
    pub top_k: usize,
    /// Keep the smallest set of largest with this much probability; 1 keeps all.
    pub top_p: f32,
    /// Keep what has at least this share of the largest probability; 0 keeps all.
    pub min_p: f32,
}

impl SamplerOptions {
    /// Whether some tokens are left out that the model could say.
    pub fn leaves_out(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }
}

/// A request that the sampler cannot meet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// An option outside its range.
    #[error("{name} = {value} is outside {range}")]
    Option {
        /// The option.
        name: &'static str,
        /// What was asked.
        value: f32,
        /// What is allowed.
        range: &'static str,
    },
}

/// A drawn token.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The token.
    pub id: u32,
    /// Log-probability within the support.
    pub logprob: f32,
    /// The support, when it is not the whole vocabulary.
    pub support: Option<Support>,
    /// The likeliest tokens of the support with their log-probabilities, as many as were asked for.
    pub likeliest: Vec<(u32, f32)>,
}

impl Drawn {
    /// From the whole vocabulary; nothing where the logits were not finite.
    pub(crate) fn plain(id: u32, logprob: f32) -> Option<Self> {
        logprob.is_finite().then_some(Self { id, logprob, support: None, likeliest: Vec::new() })
    }
}

impl SamplerOptions {
    /// Checks every option against its range.
    pub fn validated(self) -> Result<Self, SamplerError> {
        let within = |name, value: f32, low: f32, high: f32, range| {
            if (low..=high).contains(&value) { Ok(()) } else { Err(SamplerError::Option { name, value, range }) }
        };
        within("temperature", self.temperature, 0.0, 1e4, "0..=10000")?;
        within("top_p", self.top_p, f32::MIN_POSITIVE, 1.0, "(0, 1]")?;
        within("min_p", self.min_p, 0.0, 1.0, "0..=1")?;
        Ok(self)
    }

    /// What logits are multiplied by.
    pub fn inv_temperature(&self) -> f32 {
        if self.is_greedy() { 1.0 } else { 1.0 / self.temperature }
    }

    /// True when the largest logit is taken instead of a draw.
    pub(crate) fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// True when tokens may be cut off.
    pub(crate) fn truncates(&self) -> bool {
        !self.is_greedy() && (self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0)
    }

    /// Draws a token; `u` is uniform in [0, 1). `None` when nothing is allowed or the logits are not finite.
    pub fn draw<B: Backend>(&self, backend: &B, logits: &[f32], allowed: Option<Support>, u: f32) -> Option<Drawn> {
        let mut target = Target { support: allowed, ..self.target(&None) };
        if self.truncates() {
            target.support = Some(backend.cut(logits, self, &target.support)?);
        }
        let log_norm = backend.score(logits, &target).log_norm;
        if !log_norm.is_finite() {
            return None;
        }
        let id = match self.is_greedy() {
            true => Row::new(logits, &target.support)?.first()?,
            false => backend.pick(logits, &target, log_norm, u),
        };
        let drawn = Drawn::plain(id, self.logprob(logits, id, log_norm))?;
        Some(Drawn { support: target.support, ..drawn })
    }

    /// The log-probability of an id, as the backends score it, to the bit.
    fn logprob(&self, logits: &[f32], id: u32, log_norm: f32) -> f32 {
        logits[id as usize] * self.inv_temperature() - log_norm
    }

    /// The likeliest tokens that could have been drawn, at most so many, with their log-probabilities.
    pub fn likeliest<B: Backend>(&self, backend: &B, logits: &[f32], support: &Option<Support>, n: usize) -> Vec<(u32, f32)> {
        let Some(row) = Row::new(logits, support).filter(|_| n > 0) else {
            return Vec::new();
        };
        let mut ids = row.firsts(n);
        ids.sort_unstable_by(|&a, &b| row.rank(a, b));
        let log_norm = backend.score(logits, &self.target(support)).log_norm;
        ids.into_iter().map(|id| (id, self.logprob(logits, id, log_norm))).filter(|(_, logprob)| logprob.is_finite()).collect()
    }

    /// Any id of a support.
    fn target(&self, support: &Option<Support>) -> Target {
        Target { id: 0, inv_temperature: self.inv_temperature(), support: support.clone() }
    }

    /// What top-k, top-p and min-p leave of what is allowed; `log_norm` is the log-normaliser of a row and a target.
    pub(crate) fn narrow(
        &self,
        logits: &[f32],
        allowed: &Option<Support>,
        log_norm: impl FnOnce(&[f32], &Target) -> f32,
    ) -> Option<Support> {
        let row = Row::new(logits, allowed)?;
        let z = |id: u32| f64::from(logits[id as usize]) * f64::from(self.inv_temperature());
        let z_top = f64::from(row.top()) * f64::from(self.inv_temperature());
        let weight = |id: u32| (z(id) - z_top).exp();
        // What is further below than this is left by nobody: were it all of the vocabulary, it would weigh less than what top-p cuts off.
        let cut_off = (1.0 - f64::from(self.top_p)) / logits.len() as f64;
        let share = cut_off.max(f64::from(self.min_p));
        let least = f64::from(row.top()) + (share.ln() - 0.01) / f64::from(self.inv_temperature());
        let (mut kept, whole) = match self.top_k {
            0 if self.top_p < 1.0 => {
                // Below the largest, so that the logarithm is small and little of it is rounded.
                let (top, target) = (row.top(), self.target(allowed));
                let below: Vec<f32> = logits.iter().map(|logit| logit - top).collect();
                (row.not_below(least as f32), f64::from(log_norm(&below, &target)).exp())
            }
            0 => (row.not_below(least as f32), 0.0),
            n => {
                let mut kept = row.firsts(n);
                // A sum has one order.
                kept.sort_unstable();
                let whole = kept.iter().map(|&id| weight(id)).sum();
                (kept, whole)
            }
        };
        if self.top_p < 1.0 || self.min_p > 0.0 {
            let enough = if self.top_p < 1.0 { whole * f64::from(self.top_p) * ROUNDED } else { f64::INFINITY };
            let n = self.n_likely(&row, &mut kept, enough, weight);
            kept.truncate(n);
        }
        let mut words = vec![0u64; logits.len().div_ceil(64)];
        kept.iter().for_each(|&id| words[id as usize / 64] |= 1 << (id % 64));
        (!kept.is_empty()).then(|| words.into())
    }

    /// How many ids have enough weight together, and each its share of the largest; those come first then, the likeliest at the front. There
    /// are few of them as a rule, so no more are sorted than are looked at.
    fn n_likely(&self, row: &Row<'_>, ids: &mut [u32], enough: f64, weight: impl Fn(u32) -> f64) -> usize {
        let by_rank = |a: &u32, b: &u32| row.rank(*a, *b);
        let (mut n, mut n_sorted, mut passed) = (0, 0, 0.0);
        while n_sorted < ids.len() {
            let n_next = (8 * n_sorted).max(64).min(ids.len());
            if n_next < ids.len() {
                ids[n_sorted..].select_nth_unstable_by(n_next - n_sorted - 1, by_rank);
            }
            ids[n_sorted..n_next].sort_unstable_by(by_rank);
            for &id in &ids[n_sorted..n_next] {
                // The largest is always kept.
                if n > 0 && (passed >= enough || weight(id) < f64::from(self.min_p)) {
                    return n;
                }
                passed += weight(id);
                n += 1;
            }
            n_sorted = n_next;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dtype;
    use crate::cpu::Cpu;
    use crate::random::Stream;

    const LOGITS: [f32; 6] = [1.0, 3.0, 2.0, 3.0, -1.0, 0.0];

    fn support(options: SamplerOptions, allowed: Option<u64>) -> Option<u64> {
        let backend = Cpu::new(Dtype::F32, 1);
        let allowed = allowed.map(|bits| vec![bits].into());
        options.draw(&backend, &LOGITS, allowed, 0.3)?.support.map(|words| words[0])
    }

    fn options() -> SamplerOptions {
        SamplerOptions::default()
    }

    #[test]
    fn supports_are_cut_as_asked() {
        assert_eq!(support(options(), None), None);
        assert_eq!(support(SamplerOptions { top_k: 1, ..options() }, None), Some(0b00_0010));
        assert_eq!(support(SamplerOptions { top_k: 3, ..options() }, None), Some(0b00_1110));
        assert_eq!(support(SamplerOptions { top_p: 0.1, ..options() }, None), Some(0b00_0010));
        assert_eq!(support(SamplerOptions { top_p: 0.6, ..options() }, None), Some(0b00_1010));
        assert_eq!(support(SamplerOptions { min_p: 0.3, ..options() }, None), Some(0b00_1110));
        assert_eq!(support(SamplerOptions { top_k: 2, ..options() }, Some(0b11_0101)), Some(0b00_0101));
        assert_eq!(support(options(), Some(0)), None);
    }

    #[test]
    fn equal_ids_are_kept_by_number() {
        let backend = Cpu::new(Dtype::F32, 1);
        let sizes = [(2, 0.5, 1), (3, 0.5, 2), (4, 0.5, 2), (1000, 0.9, 900), (777, 0.1, 78), (50_000, 0.95, 47_500)];
        for (logit, temperature) in [(1.5, 1.0), (20.0, 0.7), (33.3, 0.1), (-17.0, 0.001), (37.1, 1.3), (0.0, 1.0)] {
            for ((vocab, top_p, n_kept), top_k) in sizes.into_iter().flat_map(|size| [(size, 0), (size, 1 << 20)]) {
                let options = SamplerOptions { top_p, temperature, top_k, ..options() };
                let support = options.draw(&backend, &vec![logit; vocab], None, 0.3).expect("a token").support.expect("a cut");
                let kept: Vec<usize> = (0..vocab).filter(|id| support[id / 64] >> (id % 64) & 1 == 1).collect();
                assert_eq!(kept, (0..n_kept).collect::<Vec<_>>(), "{vocab} of {logit}, {options:?}");
            }
        }
    }

    /// More are kept than are sorted at first.
    #[test]
    fn large_supports_are_cut_where_they_should_be() {
        let backend = Cpu::new(Dtype::F32, 1);
        let logits: Vec<f32> = (0..2000).map(|id| Stream::new(1, 2).uniform(id)).collect();
        let mut sorted: Vec<u32> = (0..2000).collect();
        sorted.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        for (top_p, min_p) in [(0.01, 0.0), (0.5, 0.0), (0.999, 0.0), (1.0, 0.7), (0.9, 0.5)] {
            let options = SamplerOptions { top_p, min_p, ..options() };
            let support = options.draw(&backend, &logits, None, 0.3).expect("a token").support.expect("a cut");
            let n = support.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            let weight = |&id: &u32| f64::from(logits[id as usize] - logits[sorted[0] as usize]).exp();
            let enough = f64::from(top_p) * sorted.iter().map(weight).sum::<f64>();
            let by_mass = (1..=2000).find(|&n| sorted[..n].iter().map(weight).sum::<f64>() >= enough).unwrap_or(2000);
            let by_share = sorted.iter().filter(|id| weight(id) >= f64::from(min_p)).count();
            assert_eq!(n, by_mass.min(by_share), "top_p {top_p}, min_p {min_p}");
            assert!(sorted[..n].iter().all(|&id| support[id as usize / 64] >> (id % 64) & 1 == 1));
        }
    }

    #[test]
    fn the_likeliest_are_those_of_the_support_in_their_order() {
        let backend = Cpu::new(Dtype::F32, 1);
        let ids = |support: Option<u64>, n| {
            let support = support.map(|bits| vec![bits].into());
            options().likeliest(&backend, &LOGITS, &support, n).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
        };
        assert!(ids(None, 0).is_empty());
        assert_eq!(ids(None, 3), [1, 3, 2]);
        assert_eq!(ids(Some(0b11_0101), 9), [2, 0, 5, 4]);
        let all = options().likeliest(&backend, &LOGITS, &None, 6);
        assert!((all.iter().map(|(_, logprob)| f64::from(*logprob).exp()).sum::<f64>() - 1.0).abs() < 1e-6, "{all:?}");
        let drawn = options().draw(&backend, &LOGITS, None, 0.3).expect("a token");
        assert!(all.contains(&(drawn.id, drawn.logprob)), "the drawn one is told the same");
    }

    #[test]
    fn greedy_takes_the_lowest_of_equal_ids() {
        let backend = Cpu::new(Dtype::F32, 1);
        let greedy = SamplerOptions { temperature: 0.0, ..options() };
        assert_eq!(greedy.draw(&backend, &LOGITS, None, 0.9).expect("a token").id, 1);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let backend = Cpu::new(Dtype::F32, 1);
        let hot = SamplerOptions { temperature: 2.0, ..options() };
        let weights = LOGITS.map(|z| (f64::from(z) / 2.0).exp());
        let (n, stream) = (40_000, Stream::new(3, 5));
        let mut counts = [0f64; 6];
        for i in 0..n {
            let drawn = hot.draw(&backend, &LOGITS, None, stream.uniform(i)).expect("a token");
            counts[drawn.id as usize] += 1.0;
            let expected = (weights[drawn.id as usize] / weights.iter().sum::<f64>()).ln();
            assert!((f64::from(drawn.logprob) - expected).abs() < 1e-6);
        }
        for (count, weight) in counts.iter().zip(weights) {
            let p = weight / weights.iter().sum::<f64>();
            let deviation = (n as f64 * p * (1.0 - p)).sqrt();
            assert!((count - n as f64 * p).abs() < 4.5 * deviation, "{counts:?}");
        }
    }

    #[test]
    fn options_outside_their_range_are_named() {
        let error = SamplerOptions { top_p: 0.0, ..options() }.validated().expect_err("refused");
        assert!(error.to_string().contains("top_p"));
        assert!(SamplerOptions { temperature: f32::NAN, ..options() }.validated().is_err());
    }

    #[test]
    fn logits_that_are_not_finite_draw_nothing() {
        let backend = Cpu::new(Dtype::F32, 1);
        let cut = SamplerOptions { top_k: 1, ..options() };
        let greedy = SamplerOptions { temperature: 0.0, ..options() };
        for (options, odd) in
            [options(), cut, greedy].into_iter().flat_map(|options| [(options, f32::NAN), (options, f32::INFINITY)])
        {
            assert_eq!(options.draw(&backend, &[odd, 1.0], None, 0.5), None, "{options:?} {odd}");
        }
    }
}
