//! What a run takes of a device's memory, counted before it starts: what does not fit is refused with the figure, not found out in
//! the middle.
//!
//! The counts follow the types of the passes (`forward`, `backward`, `tape`) on a device with bf16 products: f32 streams, bf16
//! inputs of products, f32 adapters with two moments and a gradient. Knows nothing of how memory is given out.

use crate::batch::BatchLimits;
use crate::config::ModelConfig;
use crate::layout::PAGE;
use crate::tape::Recompute;

/// Logits and their gradients that exist at once, and room for the products.
const HEAD: usize = 3 << 30;
/// The smallest micro-batch that [`MemoryPlan::largest`] cuts a batch into.
const N_ROWS_MIN: usize = 1024;
/// Pieces that are kept for the next use are not always the right ones: this share is added.
const SLACK_PERCENT: usize = 8;

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The model in bf16.
    pub weights: usize,
    /// Pages for sampling.
    pub pages: usize,
    /// What a forward keeps for its backward, and what the backward holds on its way.
    pub activations: usize,
    /// The adapter with its moments, gradients and packed form.
    pub adapter: usize,
    /// Logits, workspace, slack.
    pub workspace: usize,
    /// What is computed twice to need no more.
    pub recompute: Recompute,
}

/// A run that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} GiB are needed and {} GiB are free: take fewer or shorter sequences a step, or a smaller model", gib(*needed), gib(*free))]
pub struct TooLarge {
    /// Bytes needed with everything recomputed that can be.
    pub needed: usize,
    /// Bytes free.
    pub free: usize,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The model.
    pub config: &'a ModelConfig,
    /// Rows of the largest batch that is trained on; 0 when nothing is trained.
    pub n_rows: usize,
    /// Rank of the adapter on all projections; 0 without one.
    pub rank: usize,
    /// Pages of keys and values for sampling.
    pub n_pages: usize,
}

impl<'a> Run<'a> {
    /// Sampling alone: one step's rows, of which nothing is kept but keys and values, are part of the workspace.
    pub fn of_sampling(config: &'a ModelConfig, limits: &BatchLimits) -> Self {
        Self { config, n_rows: 0, rank: 0, n_pages: limits.n_pages }
    }
}

impl MemoryPlan {
    /// The plan that computes least twice and still fits.
    pub fn fitting(run: Run<'_>, free: usize) -> Result<Self, TooLarge> {
        let plans = [Recompute::Never, Recompute::Blocks].map(|recompute| Self::new(run, recompute));
        let least = plans[1].total();
        plans.into_iter().find(|plan| plan.total() <= free).ok_or(TooLarge { needed: least, free })
    }

    /// The plan for a batch of `run.n_rows` rows that may be cut into micro-batches, and how many rows each of them may have: as few
    /// cuts as it takes to compute nothing twice, and blocks twice only where the smallest micro-batch does not fit otherwise.
    pub fn largest(run: Run<'_>, free: usize) -> Result<(usize, Self), TooLarge> {
        let halves =
            std::iter::successors(Some(run.n_rows), |n_rows| Some(n_rows / 2)).take_while(|&n_rows| n_rows >= N_ROWS_MIN);
        let whole = |n_rows| (n_rows, Self::new(Run { n_rows, ..run }, Recompute::Never));
        match halves.clone().map(whole).find(|(_, plan)| plan.total() <= free) {
            Some(found) => Ok(found),
            None => {
                let n_rows = halves.last().unwrap_or(run.n_rows);
                Self::fitting(Run { n_rows, ..run }, free).map(|plan| (n_rows, plan))
            }
        }
    }

    fn new(Run { config, n_rows, rank, n_pages }: Run<'_>, recompute: Recompute) -> Self {
        let (dim, ffn, q_dim, kv_dim, n_layers) = (config.dim, config.ffn_dim, config.q_dim(), config.kv_dim(), config.n_layers);
        let block = 4 * (2 * dim + 2 * q_dim + config.n_heads + 2 * ffn) + 2 * (2 * dim + q_dim + ffn) + 14 * rank;
        let entry = 4 * dim;
        let keys = 4 * kv_dim;
        let kept = match recompute {
            Recompute::Never => n_layers * (block + keys),
            Recompute::Blocks => n_layers * (entry + keys) + block,
        };
        let on_the_way = 8 * ffn + 12 * dim + 16 * q_dim + 12 * kv_dim;
        let places = q_dim + 2 * kv_dim + dim + 2 * ffn + dim;
        let inputs = 3 * dim + q_dim + 2 * dim + ffn;
        let activations = n_rows * (kept + on_the_way);
        let weights = 2 * config.n_params();
        let pages = n_pages * PAGE * n_layers * keys;
        let adapter = n_layers * rank * (places + inputs) * (4 * 4 + 2);
        let counted = weights + pages + activations + adapter;
        let workspace = HEAD + counted / 100 * SLACK_PERCENT;
        Self { weights, pages, activations, adapter, workspace, recompute }
    }

    /// All of it.
    pub fn total(&self) -> usize {
        self.weights + self.pages + self.activations + self.adapter + self.workspace
    }
}

/// Tenths of a GiB.
fn gib(bytes: usize) -> f64 {
    (bytes as f64 / (1u64 << 30) as f64 * 10.0).round() / 10.0
}

impl std::fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let twice = if self.recompute == Recompute::Blocks { ", blocks computed twice" } else { "" };
        let [weights, pages, activations, adapter, workspace] =
            [self.weights, self.pages, self.activations, self.adapter, self.workspace].map(gib);
        let total = gib(self.total());
        write!(
            f,
            "memory: weights {weights} GiB, keys and values {pages}, activations {activations}, adapter {adapter}, \
             workspace {workspace}; {total} in all{twice}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    fn plan(n_rows: usize, free_gib: usize) -> Result<MemoryPlan, TooLarge> {
        let config = shapes::named("qwen2.5-7b").expect("known");
        MemoryPlan::fitting(Run { config: &config, n_rows, rank: 16, n_pages: 0 }, free_gib << 30)
    }

    #[test]
    fn blocks_are_computed_twice_only_where_they_must() {
        assert_eq!(plan(8192, 139).expect("fits").recompute, Recompute::Never);
        assert_eq!(plan(8192, 40).expect("fits").recompute, Recompute::Blocks);
    }

    #[test]
    fn a_batch_is_cut_until_nothing_is_computed_twice() {
        let config = shapes::named("qwen2.5-7b").expect("known");
        let run = Run { config: &config, n_rows: 69_376, rank: 16, n_pages: 4608 };
        let (n_rows, plan) = MemoryPlan::largest(run, 139 << 30).expect("fits");
        assert_eq!((n_rows, plan.recompute), (69_376 / 8, Recompute::Never));
        assert!(plan.total() <= 139 << 30);
        let (n_rows, plan) = MemoryPlan::largest(run, 27 << 30).expect("fits");
        assert_eq!((n_rows, plan.recompute), (69_376 / 64, Recompute::Blocks));
        assert!(MemoryPlan::largest(run, 20 << 30).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_figure() {
        let error = plan(8192, 16).expect_err("too large");
        assert!(error.needed > 16 << 30);
        assert!(error.to_string().contains("16 GiB are free"), "{error}");
    }
}
