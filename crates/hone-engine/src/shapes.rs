//! Sizes of public models by name, for weights that are random: what a machine can do does not depend on what a model knows.

use crate::config::{Family, ModelConfig, Rope, RopeScaling};

/// The names that [`named`] knows.
pub const NAMES: [&str; 5] = ["smollm2-135m", "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b", "llama-3.1-8b"];

/// The sizes of a public model.
pub fn named(name: &str) -> Option<ModelConfig> {
    let qwen = |sizes: [usize; 6], vocab, tied_head| ModelConfig {
        norm_eps: 1e-6,
        qkv_bias: true,
        rope: Rope::plain(1_000_000.0),
        ..plain(Family::Qwen2, sizes, vocab, tied_head, 32_768)
    };
    Some(match name {
        "smollm2-135m" => {
            ModelConfig { rope: Rope::plain(100_000.0), ..plain(Family::Llama, [576, 30, 9, 3, 64, 1536], 49_152, true, 8192) }
        }
        "qwen2.5-0.5b" => qwen([896, 24, 14, 2, 64, 4864], 151_936, true),
        "qwen2.5-1.5b" => qwen([1536, 28, 12, 2, 128, 8960], 151_936, true),
        "qwen2.5-7b" => qwen([3584, 28, 28, 4, 128, 18_944], 152_064, false),
        "llama-3.1-8b" => ModelConfig {
            rope: Rope { theta: 500_000.0, scaling: llama3() },
            ..plain(Family::Llama, [4096, 32, 32, 8, 128, 14_336], 128_256, false, 131_072)
        },
        _ => return None,
    })
}

fn plain(
    family: Family,
    [dim, n_layers, n_heads, n_kv_heads, head_dim, ffn_dim]: [usize; 6],
    vocab: usize,
    tied_head: bool,
    context_len: usize,
) -> ModelConfig {
    ModelConfig {
        family,
        vocab,
        dim,
        n_layers,
        n_heads,
        n_kv_heads,
        head_dim,
        ffn_dim,
        norm_eps: 1e-5,
        rope: Rope::plain(10_000.0),
        qkv_bias: false,
        qk_norm: false,
        tied_head,
        context_len,
    }
}

fn llama3() -> RopeScaling {
    RopeScaling::Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 8192.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_sound_sizes() {
        let sizes = NAMES.map(|name| named(name).expect("known").validated().expect("sound").n_params());
        assert_eq!(sizes, [134_515_008, 494_032_768, 1_543_714_304, 7_615_616_512, 8_030_261_248]);
        assert!(named("qwen2.5-0.5B").is_none());
    }
}
