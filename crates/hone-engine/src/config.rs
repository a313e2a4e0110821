//! The model as data: one decoder family, its sizes and its few switches.
//!
//! RMSNorm, rotary positions in the half-split (Hugging Face) convention, grouped-query attention, SwiGLU; QKV bias,
//! QK-norm and a tied head by switch. Llama, SmolLM2, Qwen2/2.5, Qwen3 and Mistral are points in this space.
//!
//! Anything the forward pass would silently get wrong (windows shorter than the context, yarn, a bias on the output
//! projection) is refused here, by name. Every size is bounded, so that a lying file cannot ask for absurd memory.
//! Knows nothing of files, tensors or devices.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::str::FromStr;

use crate::error::LoadError;

const VOCAB_MAX: usize = 1 << 20;
const DIM_MAX: usize = 1 << 16;
const LAYERS_MAX: usize = 1 << 10;
const FFN_MAX: usize = 1 << 18;
const CONTEXT_MAX: usize = 1 << 24;

/// The sliding window of a Mistral whose config does not speak of one.
const MISTRAL_WINDOW: usize = 4096;

/// Sizes and switches of one decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// The Hugging Face `model_type` this model is written back as (`llama`, `qwen2`, `qwen3`, `mistral`).
    pub family: Family,
    /// Number of token ids.
    pub vocab: usize,
    /// Width of the residual stream.
    pub dim: usize,
    /// Number of decoder blocks.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Width of one head; even.
    pub head_dim: usize,
    /// Inner width of the SwiGLU block.
    pub ffn_dim: usize,
    /// Added to the mean square inside RMSNorm.
    pub norm_eps: f32,
    /// Rotary positions.
    pub rope: Rope,
    /// The query, key and value projections carry a bias.
    pub qkv_bias: bool,
    /// Queries and keys are normalised per head before rotation.
    pub qk_norm: bool,
    /// The output head is the embedding table.
    pub tied_head: bool,
    /// Longest sequence the model was made for.
    pub context_len: usize,
}

/// Which public architecture the sizes came from; only names and switches on disk depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Llama 2 and 3, SmolLM2.
    Llama,
    /// Mistral without a sliding window.
    Mistral,
    /// Qwen2 and Qwen2.5 (QKV bias).
    Qwen2,
    /// Qwen3 (QK-norm).
    Qwen3,
}

/// Base and scaling of the rotary frequencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rope {
    /// Frequency base.
    pub theta: f64,
    /// How the frequencies are stretched for long contexts.
    pub scaling: RopeScaling,
}

/// The frequency stretches this engine knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RopeScaling {
    /// Frequencies as they are.
    None,
    /// Every frequency divided by the factor.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// Wavelengths longer than `original_context / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths shorter than `original_context / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// The context the model was first trained for.
        original_context: f64,
    },
    /// One divisor per frequency (a GGUF file's `rope_freqs.weight`).
    Divisors(Vec<f32>),
}

impl ModelConfig {
    /// Reads the `config.json` of a Hugging Face folder. Keys that name code (`auto_map`) are never looked at.
    pub fn from_hf(json: &Json) -> Result<Self, LoadError> {
        let family = match text(json, "model_type")?.unwrap_or("") {
            "llama" => Family::Llama,
            "mistral" => Family::Mistral,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return unsupported(format!("model_type `{other}`")),
        };
        refuse_other_heads(json)?;
        refuse_unknown_switches(json)?;
        let dim = need(json, "hidden_size")?;
        let n_heads = need(json, "num_attention_heads")?;
        let context_len = need(json, "max_position_embeddings")?;
        refuse_window(json, family, context_len)?;
        let config = Self {
            family,
            vocab: need(json, "vocab_size")?,
            dim,
            n_layers: need(json, "num_hidden_layers")?,
            n_heads,
            n_kv_heads: size(json, "num_key_value_heads")?.unwrap_or(n_heads),
            head_dim: size(json, "head_dim")?.unwrap_or(dim / n_heads.max(1)),
            ffn_dim: need(json, "intermediate_size")?,
            norm_eps: number(json, "rms_norm_eps")?.unwrap_or(1e-6) as f32,
            rope: rope_from_hf(json)?,
            qkv_bias: family == Family::Qwen2,
            qk_norm: family == Family::Qwen3,
            tied_head: flag(json, "tie_word_embeddings")?.unwrap_or(false),
            context_len,
        };
        config.validated()
    }

    /// The `config.json` that transformers needs to read this model back.
    pub fn to_hf(&self) -> Result<Json, LoadError> {
        let family = self.written_family()?;
        let (class, kind) = match family {
            Family::Llama => ("LlamaForCausalLM", "llama"),
            Family::Mistral => ("MistralForCausalLM", "mistral"),
            Family::Qwen2 => ("Qwen2ForCausalLM", "qwen2"),
            Family::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
        };
        let scaling = match &self.rope.scaling {
            RopeScaling::None => Json::Null,
            RopeScaling::Linear { factor } => {
                serde_json::json!({"rope_type": "linear", "factor": factor})
            }
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => serde_json::json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor, "original_max_position_embeddings": *original_context as u64}),
            RopeScaling::Divisors(_) => {
                return unsupported("rope divisors of a GGUF file have no Hugging Face form".into());
            }
        };
        let mut json = serde_json::json!({
            "architectures": [class], "model_type": kind, "hidden_act": "silu", "vocab_size": self.vocab,
            "hidden_size": self.dim, "num_hidden_layers": self.n_layers, "num_attention_heads": self.n_heads,
            "num_key_value_heads": self.n_kv_heads, "head_dim": self.head_dim, "intermediate_size": self.ffn_dim,
            "rms_norm_eps": self.norm_eps, "rope_theta": self.rope.theta, "rope_scaling": scaling,
            "tie_word_embeddings": self.tied_head, "max_position_embeddings": self.context_len,
            "torch_dtype": "float32"});
        if family == Family::Mistral {
            json["sliding_window"] = Json::Null;
        }
        Ok(json)
    }

    /// The family that has exactly these switches: a Llama with biases on queries, keys and values is a Qwen2 in all but name.
    fn written_family(&self) -> Result<Family, LoadError> {
        match (self.qkv_bias, self.qk_norm) {
            (false, false) if self.family == Family::Mistral => Ok(Family::Mistral),
            (false, false) => Ok(Family::Llama),
            (true, false) => Ok(Family::Qwen2),
            (false, true) => Ok(Family::Qwen3),
            (true, true) => unsupported("QKV bias together with QK-norm has no Hugging Face form".into()),
        }
    }

    /// Width of the queries of one token.
    pub fn q_dim(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Width of the keys (or values) of one token.
    pub fn kv_dim(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// Number of parameters, the tied head counted once.
    pub fn n_params(&self) -> usize {
        let attention = self.dim * (2 * self.q_dim() + 2 * self.kv_dim());
        let bias = if self.qkv_bias { self.q_dim() + 2 * self.kv_dim() } else { 0 };
        let qk = if self.qk_norm { 2 * self.head_dim } else { 0 };
        let block = attention + bias + qk + 3 * self.dim * self.ffn_dim + 2 * self.dim;
        let heads = if self.tied_head { 1 } else { 2 };
        self.n_layers * block + heads * self.vocab * self.dim + self.dim
    }

    /// Checks every size against its bound and the sizes against each other.
    pub fn validated(self) -> Result<Self, LoadError> {
        let bounded = [
            ("vocab", self.vocab, VOCAB_MAX),
            ("dim", self.dim, DIM_MAX),
            ("n_layers", self.n_layers, LAYERS_MAX),
            ("n_heads", self.n_heads, DIM_MAX),
            ("n_kv_heads", self.n_kv_heads, DIM_MAX),
            ("head_dim", self.head_dim, 1024),
            ("ffn_dim", self.ffn_dim, FFN_MAX),
            ("context_len", self.context_len, CONTEXT_MAX),
        ];
        for (name, value, max) in bounded {
            if value == 0 || value > max {
                return unsupported(format!("{name} = {value} is outside 1..={max}"));
            }
        }
        if !self.n_heads.is_multiple_of(self.n_kv_heads) {
            return unsupported(format!("{} heads over {} kv heads", self.n_heads, self.n_kv_heads));
        }
        if !self.head_dim.is_multiple_of(2) {
            return unsupported(format!("odd head_dim {}", self.head_dim));
        }
        if self.q_dim() > DIM_MAX {
            return unsupported(format!("{} heads of width {}", self.n_heads, self.head_dim));
        }
        if !(self.norm_eps.is_finite() && self.norm_eps > 0.0) {
            return unsupported(format!("norm eps {}", self.norm_eps));
        }
        self.rope.check(self.head_dim)?;
        Ok(self)
    }
}

impl Rope {
    /// Plain rotary positions.
    pub fn plain(theta: f64) -> Self {
        Self { theta, scaling: RopeScaling::None }
    }

    fn check(&self, head_dim: usize) -> Result<(), LoadError> {
        let positive = |name: &str, x: f64| {
            if x.is_finite() && x > 0.0 { Ok(()) } else { unsupported(format!("rope {name} = {x}")) }
        };
        positive("theta", self.theta)?;
        match &self.scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => positive("factor", *factor),
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                positive("factor", *factor)?;
                positive("low_freq_factor", *low_freq_factor)?;
                positive("original context", *original_context)?;
                positive("high_freq_factor above low_freq_factor", high_freq_factor - low_freq_factor)
            }
            RopeScaling::Divisors(divisors) if divisors.len() != head_dim / 2 => {
                unsupported(format!("{} rope divisors for head_dim {head_dim}", divisors.len()))
            }
            RopeScaling::Divisors(divisors) => divisors.iter().try_for_each(|&divisor| positive("divisor", f64::from(divisor))),
        }
    }

    /// Angle per position of each of the `head_dim / 2` rotated pairs.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f64> {
        let plain = (0..head_dim / 2).map(|i| self.theta.powf(-2.0 * i as f64 / head_dim as f64));
        match &self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|freq| freq / factor).collect(),
            RopeScaling::Divisors(divisors) => plain.zip(divisors).map(|(freq, &d)| freq / f64::from(d)).collect(),
            &RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => plain
                .map(|freq| {
                    let wavelengths = original_context * freq / std::f64::consts::TAU;
                    if wavelengths > high_freq_factor {
                        freq
                    } else if wavelengths < low_freq_factor {
                        freq / factor
                    } else {
                        let keep = (wavelengths - low_freq_factor) / (high_freq_factor - low_freq_factor);
                        keep * freq + (1.0 - keep) * freq / factor
                    }
                })
                .collect(),
        }
    }
}

/// Sizes of a model trained from scratch: `d128,l4,h4,kv2,ff344,v256,ctx512`, each part optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinySpec {
    /// Width of the residual stream (`d`).
    pub dim: usize,
    /// Blocks (`l`).
    pub n_layers: usize,
    /// Query heads (`h`).
    pub n_heads: usize,
    /// Key and value heads (`kv`).
    pub n_kv_heads: usize,
    /// SwiGLU width (`ff`).
    pub ffn_dim: usize,
    /// Token ids (`v`).
    pub vocab: usize,
    /// Context (`ctx`).
    pub context_len: usize,
}

impl Default for TinySpec {
    fn default() -> Self {
        Self { dim: 128, n_layers: 4, n_heads: 4, n_kv_heads: 4, ffn_dim: 384, vocab: 512, context_len: 512 }
    }
}

impl FromStr for TinySpec {
    type Err = LoadError;

    fn from_str(spec: &str) -> Result<Self, LoadError> {
        let mut tiny = Self::default();
        for part in spec.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let digits = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
            let (name, value) = part.split_at(digits);
            let value = value.parse().or_else(|_| unsupported(format!("tiny spec `{part}`: no number")))?;
            match name {
                "d" => tiny.dim = value,
                "l" => tiny.n_layers = value,
                "h" => tiny.n_heads = value,
                "kv" => tiny.n_kv_heads = value,
                "ff" => tiny.ffn_dim = value,
                "v" => tiny.vocab = value,
                "ctx" => tiny.context_len = value,
                _ => {
                    return unsupported(format!("tiny spec `{part}`: known parts are d l h kv ff v ctx"));
                }
            }
        }
        Ok(tiny)
    }
}

impl TryFrom<TinySpec> for ModelConfig {
    type Error = LoadError;

    fn try_from(tiny: TinySpec) -> Result<Self, LoadError> {
        if tiny.n_heads == 0 || !tiny.dim.is_multiple_of(tiny.n_heads) {
            return unsupported(format!("width {} over {} heads", tiny.dim, tiny.n_heads));
        }
        Self {
            family: Family::Llama,
            vocab: tiny.vocab,
            dim: tiny.dim,
            n_layers: tiny.n_layers,
            n_heads: tiny.n_heads,
            n_kv_heads: tiny.n_kv_heads,
            head_dim: tiny.dim / tiny.n_heads,
            ffn_dim: tiny.ffn_dim,
            norm_eps: 1e-5,
            rope: Rope::plain(10_000.0),
            qkv_bias: false,
            qk_norm: false,
            tied_head: true,
            context_len: tiny.context_len,
        }
        .validated()
    }
}

/// Where both are there, `rope_scaling` is meant and `rope_parameters` is not looked at, as in transformers.
fn rope_from_hf(json: &Json) -> Result<Rope, LoadError> {
    let nested = match table(json, "rope_scaling")?.filter(|table| !table.is_empty()) {
        Some(table) => Some(table),
        None => table(json, "rope_parameters")?,
    };
    let nested = nested.cloned().map_or(Json::Null, Json::Object);
    if let Some((key, _)) = nested.as_object().into_iter().flatten().find(|(_, value)| value.is_object()) {
        return unsupported(format!("rope parameters of their own for `{key}`"));
    }
    let theta = match number(&nested, "rope_theta")? {
        Some(theta) => theta,
        None => number(json, "rope_theta")?.unwrap_or(10_000.0),
    };
    refuse_partial_rotation(&nested)?;
    let demand = |key: &str| number(&nested, key)?.map_or_else(|| unsupported(format!("rope scaling without `{key}`")), Ok);
    let kind = text(&nested, "rope_type")?;
    let scaling = match kind.or(text(&nested, "type")?).unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: demand("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: demand("factor")?,
            low_freq_factor: demand("low_freq_factor")?,
            high_freq_factor: demand("high_freq_factor")?,
            original_context: demand("original_max_position_embeddings")?,
        },
        other => return unsupported(format!("rope scaling `{other}`")),
    };
    Ok(Rope { theta, scaling })
}

/// A classifier or a bare trunk has the family's blocks and not its head.
fn refuse_other_heads(json: &Json) -> Result<(), LoadError> {
    let classes = value(json, "architectures", "a list", Json::as_array)?.map_or(&[][..], Vec::as_slice);
    let is_language_model = |class: &Json| class.as_str().is_some_and(|class| class.ends_with("ForCausalLM"));
    if classes.is_empty() || classes.iter().any(is_language_model) {
        return Ok(());
    }
    unsupported(format!("architectures = {}: only a language model (…ForCausalLM) is computed", Json::from(classes)))
}

fn refuse_unknown_switches(json: &Json) -> Result<(), LoadError> {
    let activation = text(json, "hidden_act")?.unwrap_or("silu");
    if activation != "silu" {
        return unsupported(format!("hidden_act `{activation}`"));
    }
    for key in ["attention_bias", "mlp_bias"] {
        if flag(json, key)? == Some(true) {
            return unsupported(format!("{key} = true"));
        }
    }
    refuse_partial_rotation(json)
}

fn refuse_partial_rotation(json: &Json) -> Result<(), LoadError> {
    match number(json, "partial_rotary_factor")? {
        Some(partial) if partial != 1.0 => unsupported(format!("partial_rotary_factor = {partial}")),
        _ => Ok(()),
    }
}

/// A Mistral whose config does not speak of a window has the one of the first Mistral, as in transformers.
fn refuse_window(json: &Json, family: Family, context_len: usize) -> Result<(), LoadError> {
    let in_use = match family {
        Family::Qwen2 | Family::Qwen3 => flag(json, "use_sliding_window")?.unwrap_or(false),
        Family::Llama | Family::Mistral => true,
    };
    let (window, unsaid) = match json.get("sliding_window") {
        None if family == Family::Mistral => (Some(MISTRAL_WINDOW), ", which a Mistral has whose config does not say `null`,"),
        _ => (size(json, "sliding_window")?, ""),
    };
    match window {
        Some(window) if in_use && window < context_len => {
            unsupported(format!("sliding_window = {window}{unsaid} is shorter than the context of {context_len}"))
        }
        _ => Ok(()),
    }
}

/// A value of a config, if it is there and not `null`. One of another kind than it should be is refused, not passed over.
fn value<'a, T>(json: &'a Json, key: &str, kind: &str, read: impl Fn(&'a Json) -> Option<T>) -> Result<Option<T>, LoadError> {
    let Some(value) = json.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    match read(value) {
        Some(value) => Ok(Some(value)),
        None => unsupported(format!("config has `{key}` = {value}, which is not {kind}")),
    }
}

fn text<'a>(json: &'a Json, key: &str) -> Result<Option<&'a str>, LoadError> {
    value(json, key, "text", Json::as_str)
}

fn flag(json: &Json, key: &str) -> Result<Option<bool>, LoadError> {
    value(json, key, "true or false", Json::as_bool)
}

fn number(json: &Json, key: &str) -> Result<Option<f64>, LoadError> {
    value(json, key, "a number", Json::as_f64)
}

fn table<'a>(json: &'a Json, key: &str) -> Result<Option<&'a Map<String, Json>>, LoadError> {
    value(json, key, "a table", Json::as_object)
}

fn size(json: &Json, key: &str) -> Result<Option<usize>, LoadError> {
    value(json, key, "a size", |value| value.as_u64().and_then(|value| usize::try_from(value).ok()))
}

fn need(json: &Json, key: &str) -> Result<usize, LoadError> {
    size(json, key)?.map_or_else(|| unsupported(format!("config has no size `{key}`")), Ok)
}

pub(crate) fn unsupported<T>(what: String) -> Result<T, LoadError> {
    Err(LoadError::Unsupported(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn llama(extra: &str) -> Result<ModelConfig, LoadError> {
        let base = r#"{"model_type":"llama","vocab_size":64,"hidden_size":32,"num_hidden_layers":2,
            "num_attention_heads":4,"intermediate_size":48,"max_position_embeddings":128"#;
        ModelConfig::from_hf(&serde_json::from_str(&format!("{base}{extra}}}")).expect("test JSON"))
    }

    fn check_refused(extra: &str, says: &str) {
        let error = llama(extra).expect_err("must be refused").to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn defaults_follow_transformers() {
        let config = llama("").expect("a plain config");
        assert_eq!((config.n_kv_heads, config.head_dim, config.rope.theta), (4, 8, 10_000.0));
    }

    #[test]
    fn what_would_be_computed_wrongly_is_refused() {
        check_refused(r#","sliding_window":64"#, "sliding_window");
        check_refused(r#","attention_bias":true"#, "attention_bias");
        check_refused(r#","rope_scaling":{"rope_type":"yarn"}"#, "yarn");
        check_refused(r#","hidden_act":"gelu""#, "gelu");
        check_refused(r#","architectures":["LlamaForSequenceClassification"]"#, "LlamaForSequenceClassification");
        check_refused(r#","architectures":["LlamaModel"]"#, "LlamaModel");
        check_refused(r#","head_dim":7"#, "odd head_dim");
        check_refused(r#","num_key_value_heads":3"#, "kv heads");
        check_refused(r#","rope_scaling":{"type":"linear"}"#, "factor");
    }

    #[test]
    fn rope_scaling_goes_before_rope_parameters() {
        let both = r#","rope_parameters":{"rope_type":"default","rope_theta":500.0},"rope_theta":700.0,"rope_scaling":"#;
        check_refused(&format!(r#"{both}{{"rope_type":"yarn","factor":4.0}}"#), "yarn");
        let rope = |scaling: &str| llama(&format!("{both}{scaling}")).expect("a known stretch").rope;
        let linear = RopeScaling::Linear { factor: 4.0 };
        assert_eq!(rope(r#"{"type":"linear","factor":4.0}"#), Rope { theta: 700.0, scaling: linear.clone() });
        assert_eq!(rope("null"), Rope::plain(500.0));
        assert_eq!(rope("{}"), Rope::plain(500.0));
        let null = llama(r#","rope_parameters":null,"rope_scaling":{"type":"linear","factor":4.0}"#).expect("a known stretch");
        assert_eq!(null.rope.scaling, linear);
        check_refused(r#","rope_parameters":{"full_attention":{"rope_theta":5.0}}"#, "full_attention");
        check_refused(r#","rope_parameters":{"partial_rotary_factor":0.5}"#, "partial_rotary_factor");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_by_its_key() {
        check_refused(r#","rms_norm_eps":"0.3""#, r#"`rms_norm_eps` = "0.3", which is not a number"#);
        check_refused(r#","num_key_value_heads":"2""#, "`num_key_value_heads`");
        check_refused(r#","head_dim":8.5"#, "`head_dim` = 8.5, which is not a size");
        check_refused(r#","tie_word_embeddings":"true""#, "`tie_word_embeddings`");
        check_refused(r#","attention_bias":1"#, "`attention_bias`");
        check_refused(r#","sliding_window":"64""#, "`sliding_window`");
        check_refused(r#","rope_scaling":"yarn""#, "`rope_scaling`");
        check_refused(r#","rope_scaling":{"type":"linear","factor":"4"}"#, "`factor`");
        check_refused(r#","rope_theta":"1e6""#, "`rope_theta`");
        assert!(llama(r#","rms_norm_eps":null,"head_dim":null,"rope_scaling":null"#).is_ok());
    }

    #[test]
    fn a_mistral_that_does_not_speak_of_a_window_has_one() {
        let mistral = |context: usize, extra: &str| {
            let json = format!(
                r#"{{"model_type":"mistral","vocab_size":64,"hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,
                "intermediate_size":48,"max_position_embeddings":{context}{extra}}}"#
            );
            ModelConfig::from_hf(&serde_json::from_str(&json).expect("test JSON"))
        };
        let error = mistral(8192, "").expect_err("refused").to_string();
        assert!(error.contains("sliding_window = 4096"), "{error}");
        assert!(mistral(8192, r#","sliding_window":null"#).is_ok());
        assert!(mistral(4096, "").is_ok());
    }

    #[test]
    fn a_window_as_long_as_the_context_is_no_window() {
        assert!(llama(r#","sliding_window":128"#).is_ok());
    }

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        let extra = r#","rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
            "high_freq_factor":4.0,"original_max_position_embeddings":64},"head_dim":64"#;
        let rope = llama(extra).expect("llama3 scaling").rope;
        let (scaled, plain) = (rope.frequencies(64), Rope::plain(10_000.0).frequencies(64));
        assert_eq!(scaled[0], plain[0]);
        assert_eq!(scaled[31], plain[31] / 8.0);
    }

    #[test]
    fn a_config_survives_its_hugging_face_form() {
        let config = llama(r#","tie_word_embeddings":true"#).expect("a plain config");
        let back = ModelConfig::from_hf(&config.to_hf().expect("plain rope")).expect("our own form");
        assert_eq!(back, config);
    }

    #[test]
    fn biases_and_norms_decide_what_a_model_is_written_as() {
        let base = llama("").expect("a plain config");
        let written = |family, qkv_bias, qk_norm| ModelConfig { family, qkv_bias, qk_norm, ..base.clone() }.to_hf();
        let kind = |family, qkv_bias, qk_norm| written(family, qkv_bias, qk_norm).expect("a known form")["model_type"].clone();
        assert_eq!(kind(Family::Llama, true, false), "qwen2");
        assert_eq!(kind(Family::Qwen2, false, false), "llama");
        assert_eq!(kind(Family::Mistral, false, false), "mistral");
        assert_eq!(kind(Family::Qwen3, false, true), "qwen3");
        let biased = written(Family::Llama, true, false).expect("a known form");
        assert!(ModelConfig::from_hf(&biased).expect("our own form").qkv_bias);
        let error = written(Family::Qwen3, true, true).expect_err("refused").to_string();
        assert!(error.contains("QKV bias together with QK-norm"), "{error}");
    }

    #[test]
    fn a_tiny_spec_names_what_it_does_not_know() {
        let tiny: TinySpec = "d64,l2,h4,kv2,v96".parse().expect("a good spec");
        assert_eq!((tiny.dim, tiny.n_kv_heads, tiny.vocab), (64, 2, 96));
        assert!("d64,q3".parse::<TinySpec>().expect_err("unknown part").to_string().contains("q3"));
    }
}
