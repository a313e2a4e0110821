//! A run's state on disk: one safetensors file with masters and moments, and the step in its name table.
//!
//! Written whole or not at all. A file that does not fit the run it is restored into is refused by the trainer; whoever keeps
//! the hash of a file can tell whether it was damaged since.
//! Knows nothing of what the tensors are for.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::LoadError;
use crate::mapped::Mapped;
use crate::safetensors::{SafeTensors, encode, write_whole};
use crate::trainer::TrainerState;

const PARTS: [&str; 3] = ["master", "m", "v"];

/// Writes a state; the hash of its file.
pub fn save(path: &Path, state: &TrainerState) -> Result<String, LoadError> {
    let mut tensors = BTreeMap::new();
    for (name, parts) in &state.tensors {
        for (part, values) in PARTS.iter().zip(parts) {
            tensors.insert(format!("{part}/{name}"), (vec![values.len()], values.clone()));
        }
    }
    // Two exact 24-bit halves: every tensor of the file is f32.
    let halves = [(state.step & 0xff_ffff) as f32, (state.step >> 24 & 0xff_ffff) as f32];
    tensors.insert("step".into(), (vec![2], halves.to_vec()));
    let bytes = encode(&tensors, &BTreeMap::new());
    write_whole(path, &bytes)?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// The hash of a state's file as it is now.
pub fn hash(path: &Path) -> Result<String, LoadError> {
    Ok(blake3::hash(Mapped::open(path)?.bytes()).to_hex().to_string())
}

/// Reads a state.
pub fn load(path: &Path) -> Result<TrainerState, LoadError> {
    let file = SafeTensors::open(path)?;
    let read = |name: &str| {
        let len = file.tensors().get(name).and_then(|info| info.shape().first()).copied().unwrap_or(0);
        file.read(name, (1, len))
    };
    let halves = file.read("step", (1, 2))?;
    let half = |x: f32| {
        if (0.0..=16_777_215.0).contains(&x) { Some(x as u64) } else { None }
    };
    let step = half(halves[0]).zip(half(halves[1])).map(|(low, high)| high << 24 | low);
    let step = step.ok_or_else(|| LoadError::malformed(path, "tensor `step` holds no count"))?;
    let mut tensors = Vec::new();
    for name in file.tensors().keys().filter_map(|name| name.strip_prefix("master/")) {
        let parts = [read(&format!("master/{name}"))?, read(&format!("m/{name}"))?, read(&format!("v/{name}"))?];
        tensors.push((name.to_owned(), parts));
    }
    Ok(TrainerState { step, tensors })
}
