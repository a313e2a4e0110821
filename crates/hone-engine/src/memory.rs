//! What a run takes of a device's memory, counted before it starts: what does not fit is refused with the figure, not found out in
//! the middle.
//!
//! The counts follow the types of the passes (`forward`, `backward`, `tape`): f32 streams, bf16 inputs of products, f32 adapters with
//! two moments and a gradient. Knows nothing of how memory is given out.

use crate::batch::BatchLimits;
use crate::config::ModelConfig;
use crate::layout::PAGE;
use crate::tape::Recompute;

/// The smallest micro-batch that [`MemoryPlan::largest`] cuts a batch into.
const N_ROWS_MIN: usize = 1024;

/// Where a run computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Weights once, keys and values in bf16.
    Gpu,
    /// Weights once more turned where gradients are computed, keys and values in f32.
    Cpu,
}

impl Place {
    /// Bytes of a weight.
    fn weight(self, n_rows: usize) -> usize {
        if self == Self::Cpu && n_rows > 0 { 4 } else { 2 }
    }

    /// Bytes of a number of a key or value.
    fn key(self) -> usize {
        if self == Self::Cpu { 4 } else { 2 }
    }

    /// Logits and their gradients that exist at once, and room for the products.
    fn head(self) -> usize {
        if self == Self::Cpu { 512 << 20 } else { 3 << 30 }
    }

    /// Pieces that are kept for the next use are not always the right ones: what is added for that. The CPU's are those of a pass.
    fn slack(self, counted: usize, activations: usize) -> usize {
        if self == Self::Cpu { activations / 100 * 35 } else { counted / 100 * 8 }
    }
}

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The model.
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
    /// How many pages there are.
    pub n_pages: usize,
    /// Whether there are fewer than were asked for, so that conversations may wait for one another.
    pub is_short: bool,
}

/// A run that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} GiB are needed and {} GiB are free: take fewer or shorter sequences a step, or a smaller model", gib(*needed), gib(*free))]
pub struct TooLarge {
    /// Bytes needed with everything recomputed that can be, and as few pages as may be.
    pub needed: usize,
    /// Bytes free.
    pub free: usize,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Where it computes.
    pub place: Place,
    /// The model.
    pub config: &'a ModelConfig,
    /// Rows of the largest batch that is trained on; 0 when nothing is trained.
    pub n_rows: usize,
    /// Rank of the adapter on all projections; 0 without one.
    pub rank: usize,
    /// Pages of keys and values for sampling, with which nothing ever waits.
    pub n_pages: usize,
    /// As few as there may be; with fewer than the above, conversations wait for one another.
    pub n_pages_min: usize,
}

impl<'a> Run<'a> {
    /// Sampling alone: one step's rows, of which nothing is kept but keys and values, are part of the workspace.
    pub fn of_sampling(place: Place, config: &'a ModelConfig, limits: &BatchLimits) -> Self {
        let n_pages_min = limits.n_pages.min(limits.n_pages / limits.n_sequences_max + 16);
        Self { place, config, n_rows: 0, rank: 0, n_pages: limits.n_pages, n_pages_min }
    }
}

impl MemoryPlan {
    /// The plan that computes least twice and still fits. Half of the pages are enough to compute nothing twice: what is counted is
    /// the longest conversation that there may be for everyone at once.
    pub fn fitting(run: Run<'_>, free: usize) -> Result<Self, TooLarge> {
        let enough = run.n_pages_min.max(run.n_pages / 2);
        let fitting = |recompute, n_pages_min| Self::new(Run { n_pages: n_pages_min, ..run }, recompute).grown(run, free);
        fitting(Recompute::Never, enough).or_else(|_| fitting(Recompute::Blocks, run.n_pages_min))
    }

    /// With as many of the pages that a run asks for as there is room for.
    fn grown(self, run: Run<'_>, free: usize) -> Result<Self, TooLarge> {
        let total = self.total();
        let room = free.checked_sub(total).ok_or(TooLarge { needed: total, free })?;
        let more = Self::new(Run { n_pages: self.n_pages + 1, ..run }, self.recompute).total() - total;
        let n_pages = run.n_pages.min(self.n_pages + room / more.max(1));
        Ok(Self { is_short: n_pages < run.n_pages, ..Self::new(Run { n_pages, ..run }, self.recompute) })
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

    fn new(Run { place, config, n_rows, rank, n_pages, .. }: Run<'_>, recompute: Recompute) -> Self {
        let (dim, ffn, q_dim, kv_dim, n_layers) = (config.dim, config.ffn_dim, config.q_dim(), config.kv_dim(), config.n_layers);
        let block = 4 * (2 * dim + 2 * q_dim + config.n_heads + 2 * ffn) + 2 * (2 * dim + q_dim + ffn) + 14 * rank;
        let entry = 4 * dim;
        let keys = place.key() * 2 * kv_dim;
        let kept = match recompute {
            Recompute::Never => n_layers * (block + keys),
            Recompute::Blocks => n_layers * (entry + keys) + block,
        };
        let on_the_way = 8 * ffn + 12 * dim + 16 * q_dim + 12 * kv_dim;
        let places = q_dim + 2 * kv_dim + dim + 2 * ffn + dim;
        let inputs = 3 * dim + q_dim + 2 * dim + ffn;
        let activations = n_rows * (kept + on_the_way);
        let weights = place.weight(n_rows) * config.n_params();
        let pages = n_pages * PAGE * n_layers * keys;
        let adapter = n_layers * rank * (places + inputs) * (4 * 4 + 2);
        let counted = weights + pages + activations + adapter;
        let workspace = place.head() + place.slack(counted, activations);
        Self { weights, pages, activations, adapter, workspace, recompute, n_pages, is_short: false }
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
        let waits = if self.is_short { ", long conversations may wait for one another" } else { "" };
        let [weights, pages, activations, adapter, workspace] =
            [self.weights, self.pages, self.activations, self.adapter, self.workspace].map(gib);
        let total = gib(self.total());
        write!(
            f,
            "memory: weights {weights} GiB, keys and values {pages}, activations {activations}, adapter {adapter}, \
             workspace {workspace}; {total} at most{twice}{waits}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    fn plan(n_rows: usize, free_gib: usize) -> Result<MemoryPlan, TooLarge> {
        let config = shapes::named("qwen2.5-7b").expect("known");
        let run = Run { place: Place::Gpu, config: &config, n_rows, rank: 16, n_pages: 0, n_pages_min: 0 };
        MemoryPlan::fitting(run, free_gib << 30)
    }

    #[test]
    fn blocks_are_computed_twice_only_where_they_must() {
        assert_eq!(plan(8192, 139).expect("fits").recompute, Recompute::Never);
        assert_eq!(plan(8192, 40).expect("fits").recompute, Recompute::Blocks);
    }

    #[test]
    fn a_batch_is_cut_until_nothing_is_computed_twice() {
        let config = shapes::named("qwen2.5-7b").expect("known");
        let run = Run { place: Place::Gpu, config: &config, n_rows: 69_376, rank: 16, n_pages: 4608, n_pages_min: 4608 };
        let (n_rows, plan) = MemoryPlan::largest(run, 139 << 30).expect("fits");
        assert_eq!((n_rows, plan.recompute), (69_376 / 8, Recompute::Never));
        assert!(plan.total() <= 139 << 30);
        let (n_rows, plan) = MemoryPlan::largest(run, 27 << 30).expect("fits");
        assert_eq!((n_rows, plan.recompute), (69_376 / 64, Recompute::Blocks));
        assert!(MemoryPlan::largest(run, 20 << 30).is_err());
    }

    #[test]
    fn a_small_machine_has_fewer_pages_and_then_computes_blocks_twice() {
        let config = shapes::named("smollm2-135m").expect("known");
        let run = Run { place: Place::Cpu, config: &config, n_rows: 4096, rank: 16, n_pages: 16_960, n_pages_min: 1056 };
        let plan = |free_gib: usize| MemoryPlan::fitting(run, free_gib << 30).expect("fits");
        assert_eq!((plan(24).recompute, plan(24).n_pages), (Recompute::Never, 16_960));
        let fewer = plan(14);
        assert_eq!(fewer.recompute, Recompute::Never);
        assert!((8480..16_960).contains(&fewer.n_pages) && (13 << 30..14 << 30).contains(&fewer.total()), "{fewer:?}");
        let least = plan(4);
        assert_eq!(least.recompute, Recompute::Blocks);
        assert!(least.n_pages >= 1056 && least.total() <= 4 << 30, "{least:?}");
        assert!(MemoryPlan::fitting(run, 2 << 30).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_figure() {
        let error = plan(8192, 16).expect_err("too large");
        assert!(error.needed > 16 << 30);
        assert!(error.to_string().contains("16 GiB are free"), "{error}");
    }
}
