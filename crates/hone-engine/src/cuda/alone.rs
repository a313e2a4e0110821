//! Which models are so small that one sequence alone can have all of their layers in one launch, and how their products are summed for it
//! where answers come one at a time.
//!
//! Such a launch computes attention by groups of query heads that share keys, and the inside of the gates by stretches. What a group or a
//! stretch adds to the residual stream is a product of its own part of O or down, and the parts are added one after the other. A part is
//! itself summed in runs, which do not wait for each other there. So that a token has the same bits however it is computed, everything else
//! sums these two in the same parts and runs ([`Summed`]).
//! Knows nothing of kernels.

use super::{Answers, Cuda, Summed};
use crate::config::ModelConfig;
use crate::param::Proj;

/// Width of a head.
pub(super) const HEAD: usize = 64;
/// Widest residual stream.
const DIM_MAX: usize = 576;
/// Query heads that share keys.
const FANS: [usize; 2] = [1, 3];
/// Hidden units of a stretch.
pub(super) const STRETCH: usize = 256;
/// Inputs of a run of O and of down.
const RUN_O: usize = 64;
const RUN_DOWN: usize = 128;
/// Blocks of threads of a group or a stretch, each with a multiprocessor of its own, and multiprocessors that are left to others.
pub(super) const BLOCKS: usize = 8;
const SPARE: usize = 4;

/// The weights that are summed in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    o: Summed,
    down: Summed,
}

impl Parts {
    /// Of a projection's weight, where it is summed in parts.
    pub(super) fn of(self, proj: Proj) -> Option<Summed> {
        match proj {
            Proj::O => Some(self.o),
            Proj::Down => Some(self.down),
            Proj::Q | Proj::K | Proj::V | Proj::Gate | Proj::Up => None,
        }
    }
}

/// How a model's products are summed on this GPU, where any has parts.
pub(super) fn parts(cuda: &Cuda, config: &ModelConfig) -> Option<Parts> {
    let Cuda { device, answers, .. } = cuda;
    (*answers == Answers::One).then(|| parts_on(device.n_processors, device.has_groups(), config))?
}

/// The same on so many multiprocessors, which may have groups of warps.
fn parts_on(n_processors: usize, has_groups: bool, config: &ModelConfig) -> Option<Parts> {
    let ModelConfig { dim, n_heads, n_kv_heads, head_dim, ffn_dim, .. } = *config;
    let fan = n_heads / n_kv_heads;
    let is_plain = !config.qkv_bias && !config.qk_norm;
    let is_narrow = dim.is_multiple_of(HEAD) && (HEAD..=DIM_MAX).contains(&dim);
    let is_even = head_dim == HEAD && FANS.contains(&fan) && ffn_dim.is_multiple_of(STRETCH);
    let has_room = BLOCKS * (n_kv_heads + ffn_dim / STRETCH) + SPARE <= n_processors;
    let (o, down) = (Summed { part: fan * head_dim, run: RUN_O }, Summed { part: STRETCH, run: RUN_DOWN });
    (has_groups && is_plain && is_narrow && is_even && has_room).then_some(Parts { o, down })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    const H200: (usize, bool) = (132, true);

    /// Which parts O and down of a model have, when some of it is changed.
    fn check(
        name: &str,
        change: impl Fn(&mut ModelConfig),
        (n_processors, has_groups): (usize, bool),
        expected: Option<[usize; 2]>,
    ) {
        let mut config = shapes::named(name).expect("a shape");
        change(&mut config);
        let parts = parts_on(n_processors, has_groups, &config);
        let expected = expected.map(|[o, down]| Parts { o: Summed { part: o, run: 64 }, down: Summed { part: down, run: 128 } });
        assert_eq!(parts, expected, "{config:?}");
    }

    #[test]
    fn small_models_are_summed_in_parts() {
        let of_135m = Some([192, 256]);
        check("smollm2-135m", |_| {}, H200, of_135m);
        check("smollm2-135m", |_| {}, (76, true), of_135m);
        check("smollm2-135m", |config| config.n_heads = 3, H200, Some([64, 256]));
        check("smollm2-135m", |config| config.dim = 64, H200, of_135m);
    }

    #[test]
    fn all_other_models_are_summed_whole() {
        for name in ["qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b", "llama-3.1-8b"] {
            check(name, |_| {}, H200, None);
        }
        check("smollm2-135m", |_| {}, (132, false), None);
        check("smollm2-135m", |_| {}, (75, true), None);
        let changes: [fn(&mut ModelConfig); 8] = [
            |config| config.qkv_bias = true,
            |config| config.qk_norm = true,
            |config| config.dim = 640,
            |config| config.dim = 560,
            |config| config.n_heads = 6,
            |config| config.head_dim = 128,
            |config| config.ffn_dim = 1600,
            |config| config.ffn_dim = 4096,
        ];
        changes.into_iter().for_each(|change| check("smollm2-135m", change, H200, None));
    }

    #[test]
    fn parts_are_those_of_the_two_that_add_to_the_stream() {
        let (o, down) = (Summed { part: 192, run: 64 }, Summed { part: 256, run: 128 });
        let parts = Parts { o, down };
        assert_eq!(Proj::ALL.map(|proj| parts.of(proj)), [None, None, None, Some(o), None, None, Some(down)]);
    }
}
