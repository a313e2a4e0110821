//! Finds the weights of a model on disk: one GGUF file, or a Hugging Face folder with one or many safetensors files. Or makes
//! them up, where only the sizes matter.
//!
//! Llama files in GGUF hold the rows of Q and K in the order that interleaved rotation wants. They are put back into
//! half-split order here, so inside the engine (and in every adapter it writes) there is one convention.
//! Knows nothing of devices; tensors leave as f32 on the host, one at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::config::{Family, ModelConfig};
use crate::error::LoadError;
use crate::gguf::Gguf;
use crate::model::RandomWeights;
use crate::param::{ParamId, Proj};
use crate::quant::Encoding;
use crate::random::Stream;
use crate::safetensors::SafeTensors;

const JSON_MAX: u64 = 64 << 20;

/// The name of weights that are in one file.
const WHOLE: &str = "model.safetensors";

/// Anything that can hand over the parameters of one model.
pub trait WeightSource {
    /// The model.
    fn config(&self) -> &ModelConfig;
    /// One parameter, row by row, in f32.
    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError>;
    /// The same where it is nothing but noise, so that a device can make it itself: normal numbers of a stream and their
    /// deviation.
    fn noise(&self, _id: ParamId) -> Option<(Stream, f32)> {
        None
    }
}

/// Weights in files, or made up.
#[derive(Debug)]
pub struct Weights {
    config: ModelConfig,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Gguf(Gguf),
    Folder { path: PathBuf, shards: Vec<SafeTensors>, shard_of: BTreeMap<String, usize> },
    Random(RandomWeights),
}

impl Weights {
    /// Opens a `.gguf` file or a Hugging Face folder and checks its headers: every tensor is there in its size, and a GGUF
    /// file has no others. They are read later.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let opened = if path.is_dir() {
            Self::open_folder(path)?
        } else {
            let gguf = Gguf::open(path)?;
            Self { config: gguf.config()?, files: Files::Gguf(gguf) }
        };
        for id in ParamId::all(&opened.config) {
            opened.find(id)?;
        }
        if opened.has(ParamId::AttnNorm(opened.config.n_layers)) {
            let what = format!("it has more layers than the {} that its config says", opened.config.n_layers);
            return Err(LoadError::malformed(path, what));
        }
        if let Files::Gguf(gguf) = &opened.files {
            gguf.check_all_read(&opened.config)?;
        }
        Ok(opened)
    }

    /// How a tensor is written, and its bytes; nothing where it is made up.
    fn find(&self, id: ParamId) -> Result<Option<(Encoding, &[u8])>, LoadError> {
        let shape = id.shape(&self.config);
        match &self.files {
            Files::Random(_) => Ok(None),
            Files::Gguf(gguf) => gguf.find(&id.gguf_name(), shape).map(Some),
            Files::Folder { path, shards, shard_of } => {
                let name = id.hf_name();
                let shard = shard_of.get(&name).ok_or_else(|| LoadError::missing(path, &name))?;
                shards[*shard].find(&name, shape).map(Some)
            }
        }
    }

    fn has(&self, id: ParamId) -> bool {
        match &self.files {
            Files::Random(_) => false,
            Files::Gguf(gguf) => gguf.tensors().contains_key(&id.gguf_name()),
            Files::Folder { shard_of, .. } => shard_of.contains_key(&id.hf_name()),
        }
    }

    /// Weights of these sizes that know nothing.
    pub fn random(weights: RandomWeights) -> Self {
        Self { config: weights.config.clone(), files: Files::Random(weights) }
    }

    /// The GGUF file behind the weights, for its tokenizer values.
    pub fn gguf(&self) -> Option<&Gguf> {
        match &self.files {
            Files::Gguf(gguf) => Some(gguf),
            Files::Folder { .. } | Files::Random(_) => None,
        }
    }

    /// The hash of all files that they are read from, sizes included; none where they are made up. Reads every byte once.
    pub fn hash(&self) -> Result<Option<String>, LoadError> {
        let mut hasher = blake3::Hasher::new();
        match &self.files {
            Files::Random(_) => return Ok(None),
            Files::Gguf(gguf) => {
                hasher.update(gguf.bytes());
            }
            Files::Folder { path, shards, .. } => {
                let config = path.join("config.json");
                hasher.update(&std::fs::read(&config).map_err(LoadError::io(&config))?);
                for shard in shards {
                    hasher.update(shard.bytes());
                }
            }
        }
        Ok(Some(hasher.finalize().to_hex().to_string()))
    }

    fn open_folder(path: &Path) -> Result<Self, LoadError> {
        let config_path = path.join("config.json");
        let config = ModelConfig::from_hf(&read_json(&config_path)?).map_err(|error| error.at(&config_path))?;
        let index = path.join("model.safetensors.index.json");
        // Beside a whole file an index is an older one's, which transformers does not look at either.
        let is_sharded = index.is_file() && !path.join(WHOLE).is_file();
        let names = if is_sharded { shard_names(&index)? } else { vec![WHOLE.into()] };
        let mut shards = Vec::new();
        let mut shard_of = BTreeMap::new();
        for name in names {
            let file = path.join(&name);
            if !file.is_file() && path.join("pytorch_model.bin").is_file() {
                // Opening it gives the refusal that names the format.
                crate::mapped::Mapped::open(&path.join("pytorch_model.bin"))?;
            }
            let shard = SafeTensors::open(&file)?;
            for tensor in shard.tensors().keys() {
                if shard_of.insert(tensor.clone(), shards.len()).is_some() {
                    return Err(LoadError::malformed(&file, format!("tensor `{tensor}` is in two shards")));
                }
            }
            shards.push(shard);
        }
        let mut opened = Self { config, files: Files::Folder { path: path.to_path_buf(), shards, shard_of } };
        opened.config.tied_head = opened.has_tied_head()?;
        Ok(opened)
    }

    /// Whether the switch for a tied head is to be followed. Where there is another head all the same, that is used, as
    /// transformers 5 does.
    fn has_tied_head(&self) -> Result<bool, LoadError> {
        if !self.config.tied_head || !self.has(ParamId::Head) {
            return Ok(self.config.tied_head);
        }
        Ok(self.find(ParamId::Embed)? == self.find(ParamId::Head)?)
    }
}

impl WeightSource for Weights {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError> {
        if let Files::Random(weights) = &self.files {
            return weights.read(id);
        }
        let values = self.find(id)?.map_or_else(Vec::new, |(encoding, bytes)| encoding.decode(bytes));
        let heads = match id {
            ParamId::Weight(_, Proj::Q) | ParamId::Bias(_, Proj::Q) => self.config.n_heads,
            ParamId::Weight(_, Proj::K) | ParamId::Bias(_, Proj::K) => self.config.n_kv_heads,
            _ => return Ok(values),
        };
        if self.gguf().is_some() && self.config.family == Family::Llama {
            let shape = id.shape(&self.config);
            let width = if shape.0 == 1 { 1 } else { shape.1 };
            return Ok(half_split(&values, heads, width));
        }
        Ok(values)
    }

    fn noise(&self, id: ParamId) -> Option<(Stream, f32)> {
        match &self.files {
            Files::Random(weights) => weights.noise(id),
            Files::Gguf(_) | Files::Folder { .. } => None,
        }
    }
}

/// Moves row `2i + side` of each head to row `side·(head_dim / 2) + i`.
fn half_split(rows: &[f32], n_heads: usize, width: usize) -> Vec<f32> {
    let head_dim = rows.len() / width / n_heads;
    let mut out = vec![0.0; rows.len()];
    for head in 0..n_heads {
        for row in 0..head_dim {
            let from = head * head_dim + row;
            let to = head * head_dim + (row % 2) * (head_dim / 2) + row / 2;
            out[to * width..(to + 1) * width].copy_from_slice(&rows[from * width..(from + 1) * width]);
        }
    }
    out
}

/// The shard files an index names: plain file names only, so that an index cannot point outside its folder.
fn shard_names(index: &Path) -> Result<Vec<String>, LoadError> {
    let json = read_json(index)?;
    let map = json.get("weight_map").and_then(Json::as_object);
    let map = map.ok_or_else(|| LoadError::malformed(index, "no `weight_map`"))?;
    let mut names: Vec<String> = Vec::new();
    for file in map.values() {
        let name = file.as_str().unwrap_or("");
        let plain = !name.is_empty() && !name.contains(['/', '\\']) && name != ".." && name.ends_with(".safetensors");
        if !plain {
            return Err(LoadError::malformed(index, format!("shard name `{name}`")));
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a JSON file of bounded size.
pub(crate) fn read_json(path: &Path) -> Result<Json, LoadError> {
    let size = std::fs::metadata(path).map_err(LoadError::io(path))?.len();
    if size > JSON_MAX {
        return Err(LoadError::malformed(path, format!("{size} bytes of JSON")));
    }
    let bytes = std::fs::read(path).map_err(LoadError::io(path))?;
    serde_json::from_slice(&bytes).map_err(|error| LoadError::malformed(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_rows_return_to_halves() {
        // Two heads of width four; the file's rows are (x0, y0, x1, y1).
        let rows = [0.0, 2.0, 1.0, 3.0, 10.0, 12.0, 11.0, 13.0];
        assert_eq!(half_split(&rows, 2, 1), [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]);
    }
}
