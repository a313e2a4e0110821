//! A model on a device: its weights in the form products want, and its table of rotation angles.
//!
//! Weights come one by one from a [`WeightSource`], so the host never holds the whole model in f32. A model built for
//! training also keeps f32 master copies of what it trains (see `trainer`); this type only computes.
//! Knows nothing of sampling, losses or files.

use crate::backend::{Backend, Heads};
use crate::config::ModelConfig;
use crate::error::LoadError;
use crate::load::WeightSource;
use crate::param::{ParamId, Proj};
use crate::random::Stream;

/// The weights of one block.
pub struct Block<B: Backend> {
    /// Gain before attention.
    pub attn_norm: B::Buf,
    /// Gain before SwiGLU.
    pub mlp_norm: B::Buf,
    /// Projections in the order of [`Proj::ALL`].
    pub weights: [B::Weight; 7],
    /// Biases of Q, K and V.
    pub biases: Option<[B::Buf; 3]>,
    /// Per-head gains of queries and keys.
    pub qk_norms: Option<[B::Buf; 2]>,
}

/// A model on a device.
pub struct Model<B: Backend> {
    /// Sizes and switches.
    pub config: ModelConfig,
    /// Embedding table; also the head when tied.
    pub embed: B::Weight,
    /// The head when not tied.
    pub head: Option<B::Weight>,
    /// Gain of the last norm.
    pub final_norm: B::Buf,
    /// The blocks.
    pub blocks: Vec<Block<B>>,
    /// cos and sin per (position, pair) for positions below `n_positions`.
    pub angles: B::Buf,
    /// Longest sequence this model will be given.
    pub n_positions: usize,
}

/// Which passes a model is loaded for; the backward needs transposed copies of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// Sampling and scoring.
    Forward,
    /// Also gradients.
    ForwardBackward,
}

impl<B: Backend> Model<B> {
    /// Loads every weight. Sequences may be up to `n_positions` long (the model's context at most).
    pub fn load(backend: &B, source: &dyn WeightSource, n_positions: usize, passes: Passes) -> Result<Self, LoadError> {
        let config = source.config().clone();
        if config.head_dim > backend.head_dim_max() {
            let (width, most) = (config.head_dim, backend.head_dim_max());
            let what = format!("heads of width {width}, and {} takes {most} at most: use `--device cpu`", backend.path());
            return Err(LoadError::Unsupported(what));
        }
        let both = passes == Passes::ForwardBackward;
        let vector = |id: ParamId| {
            let (rows, cols) = id.shape(&config);
            let made = source.noise(id).and_then(|(stream, deviation)| backend.noise(stream, deviation, rows * cols));
            made.map_or_else(|| source.read(id).map(|values| backend.upload(&values)), Ok)
        };
        let matrix = |id: ParamId| {
            let (rows, cols) = id.shape(&config);
            vector(id).map(|buf| backend.weight(&buf, rows, cols, both))
        };
        let mut blocks = Vec::with_capacity(config.n_layers);
        for layer in 0..config.n_layers {
            let [q, k, v, o, gate, up, down] = Proj::ALL;
            let weight = |proj: Proj| matrix(ParamId::Weight(layer, proj)).map(|weight| settled(backend, &config, proj, weight));
            let mut weights = [weight(q)?, weight(k)?, weight(v)?, weight(o)?, weight(gate)?, weight(up)?, weight(down)?];
            let [q_weight, k_weight, v_weight, _, gate_weight, up_weight, _] = &mut weights;
            backend.adjoin(&mut [q_weight, k_weight, v_weight]);
            backend.adjoin(&mut [gate_weight, up_weight]);
            let bias = |proj: Proj| vector(ParamId::Bias(layer, proj));
            blocks.push(Block {
                attn_norm: vector(ParamId::AttnNorm(layer))?,
                mlp_norm: vector(ParamId::MlpNorm(layer))?,
                weights,
                biases: if config.qkv_bias { Some([bias(q)?, bias(k)?, bias(v)?]) } else { None },
                qk_norms: if config.qk_norm {
                    Some([vector(ParamId::QNorm(layer))?, vector(ParamId::KNorm(layer))?])
                } else {
                    None
                },
            });
        }
        let n_positions = n_positions.min(config.context_len);
        Ok(Self {
            embed: matrix(ParamId::Embed)?,
            head: if config.tied_head { None } else { Some(matrix(ParamId::Head)?) },
            final_norm: vector(ParamId::FinalNorm)?,
            blocks,
            angles: backend.upload(&angles(&config, n_positions)),
            n_positions,
            config,
        })
    }

    /// The matrix that turns hidden states into logits.
    pub fn head_weight(&self) -> &B::Weight {
        self.head.as_ref().unwrap_or(&self.embed)
    }

    /// A projection's matrix.
    pub fn weight(&self, layer: usize, proj: Proj) -> &B::Weight {
        &self.blocks[layer].weights[proj as usize]
    }

    /// Replaces one parameter by the f32 values on the device.
    pub fn set(&mut self, backend: &B, id: ParamId, values: &B::Buf) {
        let (rows, cols) = id.shape(&self.config);
        let matrix = || backend.weight(values, rows, cols, true);
        match id {
            ParamId::Embed => self.embed = matrix(),
            ParamId::Head => self.head = Some(matrix()),
            ParamId::FinalNorm => self.final_norm = backend.copy(values),
            ParamId::AttnNorm(layer) => self.blocks[layer].attn_norm = backend.copy(values),
            ParamId::MlpNorm(layer) => self.blocks[layer].mlp_norm = backend.copy(values),
            ParamId::Weight(layer, proj) => {
                self.blocks[layer].weights[proj as usize] = settled(backend, &self.config, proj, matrix());
            }
            ParamId::Bias(layer, proj) => {
                if let Some(biases) = &mut self.blocks[layer].biases {
                    biases[proj as usize] = backend.copy(values);
                }
            }
            ParamId::QNorm(layer) | ParamId::KNorm(layer) => {
                if let Some(norms) = &mut self.blocks[layer].qk_norms {
                    norms[usize::from(matches!(id, ParamId::KNorm(_)))] = backend.copy(values);
                }
            }
        }
    }

    /// Sizes that attention needs.
    pub fn heads(&self) -> Heads {
        let ModelConfig { n_heads, n_kv_heads, head_dim, .. } = self.config;
        Heads { n_heads, n_kv_heads, head_dim }
    }
}

/// A projection's weight of which the backend knows how its products are summed.
fn settled<B: Backend>(backend: &B, config: &ModelConfig, proj: Proj, mut weight: B::Weight) -> B::Weight {
    backend.settle(config, proj, &mut weight);
    weight
}

/// cos then sin of every pair, position by position, computed in f64.
fn angles(config: &ModelConfig, n_positions: usize) -> Vec<f32> {
    let frequencies = config.rope.frequencies(config.head_dim);
    let mut angles = Vec::with_capacity(n_positions * config.head_dim);
    for position in 0..n_positions {
        // The product is taken in f32 as transformers does, so that long positions agree.
        let angle = |&freq: &f64| f64::from(position as f32 * freq as f32);
        angles.extend(frequencies.iter().map(|freq| angle(freq).cos() as f32));
        angles.extend(frequencies.iter().map(|freq| angle(freq).sin() as f32));
    }
    angles
}

/// Random weights: normal with deviation 0.02, output projections scaled down by the depth, gains one, biases zero. A function
/// of the seed alone.
#[derive(Clone, Debug)]
pub struct RandomWeights {
    /// The model.
    pub config: ModelConfig,
    /// The seed.
    pub seed: u64,
}

/// The deviation that suits the width of large models.
const NARROW: f32 = 0.02;

impl WeightSource for RandomWeights {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError> {
        let (rows, cols) = id.shape(&self.config);
        if let Some((stream, deviation)) = self.noise(id) {
            return Ok((0..(rows * cols) as u64).map(|i| stream.normal(i) * deviation).collect());
        }
        Ok(vec![if matches!(id, ParamId::Bias(..)) { 0.0 } else { 1.0 }; rows * cols])
    }

    fn noise(&self, id: ParamId) -> Option<(Stream, f32)> {
        let index = ParamId::all(&self.config).iter().position(|&known| known == id).unwrap_or(0);
        let deviation = match id {
            ParamId::Weight(_, Proj::O | Proj::Down) => NARROW / (2.0 * self.config.n_layers as f32).sqrt(),
            _ => NARROW,
        };
        id.is_matrix().then(|| (Stream::new(self.seed, index as u64), deviation))
    }
}

/// Random weights for a small model that is to learn everything: so wide that a product is as large as what goes in. With the
/// deviation of large models a narrow one hardly feels its input, and learns late.
#[derive(Clone, Debug)]
pub struct WideWeights(pub RandomWeights);

impl WeightSource for WideWeights {
    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError> {
        let (_, cols) = id.shape(self.config());
        let gain = if id.is_matrix() { 1.0 / (NARROW * (cols as f32).sqrt()) } else { 1.0 };
        Ok(self.0.read(id)?.into_iter().map(|x| x * gain).collect())
    }
}
