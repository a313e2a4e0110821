//! Parts of a large group on one scale.
//!
//! The first part sets the scale. From its ranks, evenly spaced from worst to best, come the anchors, which every later part
//! shows again. A judge may be stricter or more generous from call to call, so a part's scores s become α s + β, where α and β
//! bring the part's anchors a back to what they scored first, r:
//!
//!   α = (Σ (a - ā)(r - r̄) + λ) / (Σ (a - ā)² + λ), within 1/4 to 4;   β = r̄ - α ā
//!
//! λ = 0.001 is how much it takes to believe in a stretch at all: anchors that all scored the same only shift the scale.
//! In the end the whole group is squeezed into 0 to 1 where it sticks out. None of this changes the order inside a part.

use std::collections::BTreeMap;

const LAMBDA: f64 = 1e-3;
const STRETCH_MAX: f64 = 4.0;

/// Members at evenly spaced ranks of these scores, with their scores.
pub(super) fn anchors(scores: &BTreeMap<usize, f64>, n_anchors: usize) -> Vec<(usize, f64)> {
    let mut ranked: Vec<(usize, f64)> = scores.iter().map(|(&member, &score)| (member, score)).collect();
    ranked.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
    let n = n_anchors.clamp(1, ranked.len());
    (0..n).map(|i| ranked[if n == 1 { ranked.len() / 2 } else { i * (ranked.len() - 1) / (n - 1) }]).collect()
}

/// What brings the scores of a part back to the scale of the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    stretch: f64,
    shift: f64,
}

impl Scale {
    /// From what the anchors scored first, and all scores of a part that shows them again.
    pub(super) fn fit(anchors: &[(usize, f64)], scores: &BTreeMap<usize, f64>) -> Self {
        let pairs: Vec<(f64, f64)> = anchors.iter().filter_map(|(member, first)| Some((*scores.get(member)?, *first))).collect();
        let n = pairs.len().max(1) as f64;
        let (now, first) = (pairs.iter().map(|pair| pair.0).sum::<f64>() / n, pairs.iter().map(|pair| pair.1).sum::<f64>() / n);
        let together: f64 = pairs.iter().map(|pair| (pair.0 - now) * (pair.1 - first)).sum();
        let alone: f64 = pairs.iter().map(|pair| (pair.0 - now).powi(2)).sum();
        let stretch = ((together + LAMBDA) / (alone + LAMBDA)).clamp(1.0 / STRETCH_MAX, STRETCH_MAX);
        Self { stretch, shift: first - stretch * now }
    }

    pub(super) fn apply(self, score: f64) -> f64 {
        self.stretch * score + self.shift
    }
}

/// Moves scores into 0 to 1 where they stick out, all of them alike.
pub(super) fn squeeze(scores: &mut [f64]) {
    let low = scores.iter().copied().fold(0.0, f64::min);
    let high = scores.iter().copied().fold(1.0, f64::max);
    scores.iter_mut().for_each(|score| *score = (*score - low) / (high - low));
}
