//! Adapters as plain PEFT folders: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Inside the engine rows are in Hugging Face order (GGUF models are put into it on load), so matrices are written as
//! they are. The writer is canonical: equal weights give equal bytes, and the adapter's hash is taken of them.
//! Reading accepts what `peft` writes for plain LoRA on the seven projections and refuses the rest by name, so also what
//! belongs on other base weights than the model's: PiSSA, OLoRA, CorDA, LoRA-GA, LoftQ and KaSA change them before training.
//! Knows nothing of devices.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::config::{ModelConfig, unsupported};
use crate::error::LoadError;
use crate::load::{WeightSource, read_json};
use crate::lora::{LoraId, LoraSpec, LoraWeights, Side, ids, shape};
use crate::param::{ParamId, Proj};
use crate::safetensors::{SafeTensors, encode, write_whole};
use crate::trainer::lora_name;

const PREFIX: &str = "base_model.model.";

/// Settings of `peft` that compute something else than `w + scale·b·a` on whole projections.
const NOT_PLAIN: [&str; 17] = [
    "use_rslora",
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "lora_bias",
    "fan_in_fan_out",
    "rank_pattern",
    "alpha_pattern",
    "modules_to_save",
    "layers_to_transform",
    "layer_replication",
    "alora_invocation_tokens",
    "trainable_token_indices",
    "target_parameters",
    "kasa_config",
    "arrow_config",
    "monteclora_config",
];

/// Values of `init_lora_weights`, beside true and false, that leave the base weights as they are.
const KEEP_BASE: [&str; 4] = ["gaussian", "eva", "orthogonal", "mica"];

/// The content address of an adapter: blake3 of its rank, scale and canonical weight bytes.
pub fn hash(config: &ModelConfig, weights: &LoraWeights) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&adapter_config(&weights.spec, "").to_string().into_bytes());
    hasher.update(&weight_bytes(config, weights));
    hasher.finalize().to_hex().to_string()
}

/// Writes an adapter folder; `base` names the model it was trained on.
pub fn save(folder: &Path, config: &ModelConfig, weights: &LoraWeights, base: &str) -> Result<(), LoadError> {
    std::fs::create_dir_all(folder).map_err(LoadError::io(folder))?;
    let mut text = format!("{:#}", adapter_config(&weights.spec, base));
    text.push('\n');
    write_whole(&folder.join("adapter_model.safetensors"), &weight_bytes(config, weights))?;
    write_whole(&folder.join("adapter_config.json"), text.as_bytes())
}

/// Reads an adapter folder for a model.
pub fn load(folder: &Path, config: &ModelConfig) -> Result<LoraWeights, LoadError> {
    let config_path = folder.join("adapter_config.json");
    let spec = spec(&read_json(&config_path)?).map_err(|error| error.at(&config_path))?;
    let file = SafeTensors::open(&folder.join("adapter_model.safetensors"))?;
    let mut matrices = BTreeMap::new();
    for id in ids(config, &spec) {
        let name = format!("{PREFIX}{}", lora_name(id));
        let values: Vec<f32> = file.read(&name, shape(config, &spec, id))?;
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            let reason = format!(
                "tensor `{name}` has {} at place {place}: an adapter with that makes every answer nonsense",
                values[place]
            );
            return Err(LoadError::malformed(file.path(), reason));
        }
        matrices.insert(id, values);
    }
    if file.tensors().len() != matrices.len() {
        let known = |name: &String| matrices.keys().any(|&id: &LoraId| name.strip_prefix(PREFIX) == Some(&lora_name(id)));
        let extra = file.tensors().keys().find(|name| !known(name)).cloned().unwrap_or_default();
        return Err(LoadError::malformed(file.path(), format!("tensor `{extra}` has no place in this model")));
    }
    Ok(LoraWeights { spec, matrices })
}

/// Writes the model with the adapter added in (`w + scale·b·a`) as a Hugging Face folder in f32.
pub fn merge(folder: &Path, source: &dyn WeightSource, weights: Option<&LoraWeights>) -> Result<(), LoadError> {
    let config = source.config();
    let json = config.to_hf()?;
    std::fs::create_dir_all(folder).map_err(LoadError::io(folder))?;
    let mut tensors = BTreeMap::new();
    for id in ParamId::all(config) {
        let mut values = source.read(id)?;
        if let (Some(weights), ParamId::Weight(layer, proj)) = (weights, id) {
            add_low_rank(config, weights, layer, proj, &mut values);
        }
        let (rows, cols) = id.shape(config);
        let shape = if id.is_matrix() { vec![rows, cols] } else { vec![cols] };
        tensors.insert(id.hf_name(), (shape, values));
    }
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    write_whole(&folder.join("model.safetensors"), &encode(&tensors, &metadata))?;
    write_whole(&folder.join("config.json"), format!("{json:#}\n").as_bytes())
}

fn add_low_rank(config: &ModelConfig, weights: &LoraWeights, layer: usize, proj: Proj, values: &mut [f32]) {
    let pair = [Side::A, Side::B].map(|side| weights.matrices.get(&(layer, proj, side)));
    let [Some(a), Some(b)] = pair else { return };
    let (rank, (_, n_in), scale) = (weights.spec.rank, proj.shape(config), weights.spec.scale());
    for (row, values) in values.chunks_exact_mut(n_in).enumerate() {
        for (col, value) in values.iter_mut().enumerate() {
            let product: f64 = (0..rank).map(|r| f64::from(b[row * rank + r]) * f64::from(a[r * n_in + col])).sum();
            *value += (product * f64::from(scale)) as f32;
        }
    }
}

fn weight_bytes(config: &ModelConfig, weights: &LoraWeights) -> Vec<u8> {
    let mut tensors = BTreeMap::new();
    for (&id, values) in &weights.matrices {
        let (rows, cols) = shape(config, &weights.spec, id);
        tensors.insert(format!("{PREFIX}{}", lora_name(id)), (vec![rows, cols], values.clone()));
    }
    encode(&tensors, &BTreeMap::from([("format".to_owned(), "pt".to_owned())]))
}

fn adapter_config(spec: &LoraSpec, base: &str) -> Json {
    let mut targets: Vec<&str> = spec.targets.iter().map(|proj| proj.module()).collect();
    targets.sort_unstable();
    json!({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": spec.rank,
        "lora_alpha": spec.alpha, "target_modules": targets, "lora_dropout": 0.0, "bias": "none",
        "fan_in_fan_out": false, "inference_mode": true, "use_rslora": false, "use_dora": false})
}

fn spec(json: &Json) -> Result<LoraSpec, LoadError> {
    if json.get("peft_type").and_then(Json::as_str) != Some("LORA") {
        return unsupported("peft_type is not LORA".into());
    }
    if json.get("bias").and_then(Json::as_str).unwrap_or("none") != "none" {
        return unsupported("adapter with bias".into());
    }
    if let Some(key) = NOT_PLAIN.into_iter().find(|key| json.get(key).is_some_and(is_set)) {
        return unsupported(format!("adapter with {key}"));
    }
    refuse_changed_base(json)?;
    let rank = json.get("r").and_then(Json::as_u64).filter(|rank| (1..=4096).contains(rank));
    let alpha = json.get("lora_alpha").and_then(Json::as_f64).filter(|alpha| alpha.is_finite());
    let (Some(rank), Some(alpha)) = (rank, alpha) else {
        return unsupported("adapter without a sane `r` and `lora_alpha`".into());
    };
    let mut targets = Vec::new();
    for module in json.get("target_modules").and_then(Json::as_array).into_iter().flatten() {
        let module = module.as_str().unwrap_or("");
        match Proj::ALL.into_iter().find(|proj| proj.module() == module) {
            Some(proj) => targets.push(proj),
            None => return unsupported(format!("adapter on module `{module}`")),
        }
    }
    if targets.is_empty() {
        return unsupported("adapter without a list of `target_modules`".into());
    }
    targets.sort_unstable();
    Ok(LoraSpec { rank: rank as usize, alpha: alpha as f32, targets })
}

/// Whether a value says anything: none of `null`, `false`, `[]` and `{}` does.
fn is_set(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::Array(list) => !list.is_empty(),
        Json::Object(map) => !map.is_empty(),
        Json::Bool(true) | Json::Number(_) | Json::String(_) => true,
    }
}

/// The initialisations that leave the base weights as they are. `peft` writes `true` when it has turned another one into a
/// plain adapter on save (`path_initial_model_for_weight_conversion`).
fn refuse_changed_base(json: &Json) -> Result<(), LoadError> {
    match json.get("init_lora_weights") {
        None | Some(Json::Null | Json::Bool(_)) => Ok(()),
        Some(Json::String(init)) if KEEP_BASE.contains(&init.to_lowercase().as_str()) => Ok(()),
        Some(init) => unsupported(format!(
            "adapter with init_lora_weights = {init}, which belongs on base weights that were changed before training; save it \
             with `path_initial_model_for_weight_conversion`, or merge it with peft"
        )),
    }
}
