//! The parameters of a model and their names on disk.
//!
//! Inside the engine a parameter is (kind, layer); `model.layers.3.self_attn.q_proj.weight` and `blk.3.attn_q.weight`
//! are only spellings of it. Knows nothing of values.

use serde::{Deserialize, Serialize};

use crate::config::ModelConfig;

/// The seven projections of a block, the places a LoRA pair can sit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proj {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// Attention output.
    O,
    /// SwiGLU gate.
    Gate,
    /// SwiGLU input.
    Up,
    /// SwiGLU output.
    Down,
}

impl Proj {
    /// All projections in the order of computation, which is also the order of gradients and hashes.
    pub const ALL: [Self; 7] = [Self::Q, Self::K, Self::V, Self::O, Self::Gate, Self::Up, Self::Down];

    /// The module's last name in transformers, as in `target_modules` of PEFT.
    pub fn module(self) -> &'static str {
        match self {
            Self::Q => "q_proj",
            Self::K => "k_proj",
            Self::V => "v_proj",
            Self::O => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// The module's path inside its block.
    pub fn path(self) -> String {
        let parent = match self {
            Self::Q | Self::K | Self::V | Self::O => "self_attn",
            Self::Gate | Self::Up | Self::Down => "mlp",
        };
        format!("{parent}.{}", self.module())
    }

    /// Output and input width.
    pub fn shape(self, config: &ModelConfig) -> (usize, usize) {
        match self {
            Self::Q => (config.q_dim(), config.dim),
            Self::K | Self::V => (config.kv_dim(), config.dim),
            Self::O => (config.dim, config.q_dim()),
            Self::Gate | Self::Up => (config.ffn_dim, config.dim),
            Self::Down => (config.dim, config.ffn_dim),
        }
    }
}

/// One parameter of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParamId {
    /// Token embedding table.
    Embed,
    /// Output head, absent when tied.
    Head,
    /// Gain of the last norm.
    FinalNorm,
    /// Gain of the norm before attention.
    AttnNorm(usize),
    /// Gain of the norm before the SwiGLU block.
    MlpNorm(usize),
    /// Per-head gain of queries.
    QNorm(usize),
    /// Per-head gain of keys.
    KNorm(usize),
    /// Matrix of a projection.
    Weight(usize, Proj),
    /// Bias of a projection (Q, K and V only).
    Bias(usize, Proj),
}

impl ParamId {
    /// Every parameter of a model, in the fixed order in which they are loaded, trained, hashed and saved.
    pub fn all(config: &ModelConfig) -> Vec<Self> {
        let mut all = vec![Self::Embed];
        for layer in 0..config.n_layers {
            all.push(Self::AttnNorm(layer));
            for proj in Proj::ALL {
                all.push(Self::Weight(layer, proj));
                if config.qkv_bias && matches!(proj, Proj::Q | Proj::K | Proj::V) {
                    all.push(Self::Bias(layer, proj));
                }
            }
            if config.qk_norm {
                all.extend([Self::QNorm(layer), Self::KNorm(layer)]);
            }
            all.push(Self::MlpNorm(layer));
        }
        all.push(Self::FinalNorm);
        if !config.tied_head {
            all.push(Self::Head);
        }
        all
    }

    /// Rows and columns; vectors have one row.
    pub fn shape(self, config: &ModelConfig) -> (usize, usize) {
        match self {
            Self::Embed | Self::Head => (config.vocab, config.dim),
            Self::FinalNorm | Self::AttnNorm(_) | Self::MlpNorm(_) => (1, config.dim),
            Self::QNorm(_) | Self::KNorm(_) => (1, config.head_dim),
            Self::Weight(_, proj) => proj.shape(config),
            Self::Bias(_, proj) => (1, proj.shape(config).0),
        }
    }

    /// True for matrices, which are decayed and multiplied; false for gains and biases.
    pub fn is_matrix(self) -> bool {
        matches!(self, Self::Embed | Self::Head | Self::Weight(..))
    }

    /// Name in a Hugging Face folder.
    pub fn hf_name(self) -> String {
        match self {
            Self::Embed => "model.embed_tokens.weight".into(),
            Self::Head => "lm_head.weight".into(),
            Self::FinalNorm => "model.norm.weight".into(),
            Self::AttnNorm(l) => format!("model.layers.{l}.input_layernorm.weight"),
            Self::MlpNorm(l) => format!("model.layers.{l}.post_attention_layernorm.weight"),
            Self::QNorm(l) => format!("model.layers.{l}.self_attn.q_norm.weight"),
            Self::KNorm(l) => format!("model.layers.{l}.self_attn.k_norm.weight"),
            Self::Weight(l, proj) => format!("model.layers.{l}.{}.weight", proj.path()),
            Self::Bias(l, proj) => format!("model.layers.{l}.{}.bias", proj.path()),
        }
    }

    /// Name in a GGUF file.
    pub fn gguf_name(self) -> String {
        let proj_name = |proj: Proj| match proj {
            Proj::Q => "attn_q",
            Proj::K => "attn_k",
            Proj::V => "attn_v",
            Proj::O => "attn_output",
            Proj::Gate => "ffn_gate",
            Proj::Up => "ffn_up",
            Proj::Down => "ffn_down",
        };
        match self {
            Self::Embed => "token_embd.weight".into(),
            Self::Head => "output.weight".into(),
            Self::FinalNorm => "output_norm.weight".into(),
            Self::AttnNorm(l) => format!("blk.{l}.attn_norm.weight"),
            Self::MlpNorm(l) => format!("blk.{l}.ffn_norm.weight"),
            Self::QNorm(l) => format!("blk.{l}.attn_q_norm.weight"),
            Self::KNorm(l) => format!("blk.{l}.attn_k_norm.weight"),
            Self::Weight(l, proj) => format!("blk.{l}.{}.weight", proj_name(proj)),
            Self::Bias(l, proj) => format!("blk.{l}.{}.bias", proj_name(proj)),
        }
    }
}
