//! A model from scratch: random weights, and a vocabulary from the words of some texts.

use super::registry::{Entry, Registry, Source};
use crate::context::Context;
use crate::failure::{Failure, at_path};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::load::WeightSource;
use hone_engine::model::RandomWeights;
use hone_engine::peft;
use hone_render::tiny::{self, TinyFiles};
use std::fs;
use std::path::{Path, PathBuf};

/// The most of a text that is read for its words.
const CORPUS_BYTES_MAX: u64 = 256 << 20;

const TOKENIZER: &str = "tokenizer.json";

/// Writes weights and tokenizer into a folder, in the form in which any other model comes. Other words than those of the model that
/// is known there make another model.
pub(super) fn make(spec: &str, seed: u64, corpus: &[PathBuf], folder: &Path, known: Option<&Entry>) -> Result<(), Failure> {
    let spec: TinySpec = spec.parse().map_err(Failure::world)?;
    let mut texts = Vec::new();
    for path in corpus {
        let n_bytes = path.metadata().map_err(at_path(path))?.len();
        if n_bytes > CORPUS_BYTES_MAX {
            return Err(Failure::user(format_args!("{} is longer than {CORPUS_BYTES_MAX} bytes", path.display()))
                .hint("a part of it has the same frequent words"));
        }
        texts.push(fs::read(path).map_err(at_path(path))?);
    }
    let texts: Vec<_> = texts.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    let files = tiny::build(texts.iter().map(AsRef::as_ref), spec.vocab).map_err(Failure::world)?;
    if let Some(known) = known {
        let path = folder.join(TOKENIZER);
        if path.is_file() && fs::read(&path).map_err(at_path(&path))? != files.tokenizer.as_bytes() {
            return Err(known.taken(", of another --corpus"));
        }
    }
    let config = ModelConfig::try_from(spec).map_err(Failure::world)?;
    write(&RandomWeights { config, seed }, &files, folder)
}

/// Adds a small model that was trained here under this name, in place of an earlier one.
pub(crate) fn keep(name: &str, weights: &dyn WeightSource, files: &TinyFiles, context: &Context<'_>) -> Result<(), Failure> {
    let registry = Registry::of(&context.settings);
    let source = Source::Trained { by: "hone loop".to_owned() };
    let _held = registry.hold(name)?;
    registry.refuse_other(name, &source)?;
    let folder = registry.files(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(at_path(&folder))?;
    }
    write(weights, files, &folder)?;
    registry.write(&Entry::new(name.to_owned(), source, folder))
}

fn write(weights: &dyn WeightSource, files: &TinyFiles, folder: &Path) -> Result<(), Failure> {
    peft::merge(folder, weights, None).map_err(Failure::world)?;
    write_tokenizer(files, folder)
}

/// Writes a tokenizer that was made up beside its weights.
pub(super) fn write_tokenizer(files: &TinyFiles, folder: &Path) -> Result<(), Failure> {
    for (name, text) in [(TOKENIZER, &files.tokenizer), ("tokenizer_config.json", &files.config)] {
        crate::durable::write(&folder.join(name), text)?;
    }
    Ok(())
}
