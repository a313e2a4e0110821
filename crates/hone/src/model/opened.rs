//! A model ready to be used: its weights, and what it takes to speak with it.

use super::random;
use super::registry::Registry;
use super::tiny;
use crate::context::Context;
use crate::failure::{Failure, at_path};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::lora::LoraWeights;
use hone_engine::peft;
use hone_render::tiny::TinyFiles;
use hone_render::{Renderer, Tokenizer};
use hone_trace::BlobHash;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest tokenizer or template file that is read.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The file of a folder that says how answers are drawn, and where they end.
const GENERATION: &str = "generation_config.json";

/// The files of a folder that hold its tokenizer and template.
const TOKENIZER_FILES: [&str; 4] = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", GENERATION];

/// The folder of a folder that holds templates by name, beside the one of `chat_template.jinja`.
pub(super) const TEMPLATES: &str = "additional_chat_templates";

/// The most of these that are looked at.
const N_TEMPLATES_MAX: usize = 100;

/// What tells a model from any other, whatever it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelHash {
    weights: String,
    /// Also the chat template. A GGUF file has it among the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<String>,
}

impl ModelHash {
    /// What another model has instead of this one's; none where they are the same.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        let is_other_tokenizer = self.tokenizer.as_ref().zip(other.tokenizer.as_ref()).is_some_and(|(one, two)| one != two);
        match (self.weights != other.weights, is_other_tokenizer) {
            (false, false) => None,
            (true, false) => Some("other weights"),
            (false, true) => Some("another tokenizer"),
            (true, true) => Some("other weights and another tokenizer"),
        }
    }
}

/// A model ready to be used.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) weights: Weights,
    pub(crate) renderer: Renderer,
    /// Whether a conversation can be rendered.
    pub(crate) has_template: bool,
    /// The tokens that end an answer.
    pub(crate) stop_ids: Vec<u32>,
    /// The tokenizer's files, where it was made up.
    made: Option<TinyFiles>,
}

impl Opened {
    /// By the name it was added under, by its path, or by `random:` and a shape.
    pub(crate) fn named(model: &str, context: &Context<'_>) -> Result<Self, Failure> {
        if let Some(shape) = model.strip_prefix(random::PREFIX) {
            return Self::random(model, shape);
        }
        let registry = Registry::of(&context.settings);
        if let Some(entry) = registry.entry(model)? {
            return Self::at(&entry.path, &entry.name);
        }
        if Path::new(model).exists() {
            return Self::at(Path::new(model), model);
        }
        let known: Vec<String> = registry.entries()?.into_iter().map(|entry| entry.name).collect();
        let hint = match known.is_empty() {
            true => "add one with `hone model add PATH|ID|tiny:SIZES`".to_owned(),
            false => format!("there are {}; `hone model add` adds another", known.join(", ")),
        };
        Err(Failure::user(format_args!("there is no model `{model}`")).hint(hint))
    }

    fn random(name: &str, shape: &str) -> Result<Self, Failure> {
        let (weights, files) = random::make(shape)?;
        let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).map_err(Failure::bug)?;
        let stop_ids = tokenizer.eos_ids().to_vec();
        let renderer = Renderer::new(tokenizer).map_err(Failure::bug)?;
        let (name, path, has_template) = (name.to_owned(), PathBuf::from(name), true);
        Ok(Self { name, path, weights, renderer, has_template, stop_ids, made: Some(files) })
    }

    pub(super) fn at(path: &Path, name: &str) -> Result<Self, Failure> {
        let weights = Weights::open(path).map_err(Failure::world)?;
        let in_file = |name: &str| path.join(name);
        let tokenizer = match weights.gguf() {
            Some(gguf) => Tokenizer::from_gguf(gguf.values()),
            None => {
                let tokenizer = read(&in_file("tokenizer.json"))?.ok_or_else(|| no_tokenizer(path))?;
                Tokenizer::from_json(&tokenizer, read(&in_file("tokenizer_config.json"))?.as_deref())
            }
        };
        let failed = |error: hone_render::RenderError| Failure::world(error).context(path.display());
        let tokenizer = tokenizer.map_err(failed)?;
        let vocab = weights.config().vocab;
        if tokenizer.vocab_len() > vocab {
            let text = format!("its tokenizer has {} tokens, and its weights {vocab}", tokenizer.vocab_len());
            return Err(Failure::user(format_args!("{}: {text}", path.display())).hint("these files are not of one model"));
        }
        let mut stop_ids = tokenizer.eos_ids().to_vec();
        stop_ids.extend(ends_in_files(path)?.into_iter().filter(|&id| (id as usize) < vocab));
        stop_ids.sort_unstable();
        stop_ids.dedup();
        let templates = templates(path)?;
        let named = |name: &str| templates.iter().rev().find(|(known, _)| known == name).map(|(_, source)| source.as_str());
        let (default, of_tools) = (named("default"), named("tool_use"));
        // Where there are files, what the tokenizer has is not looked at, as transformers has it.
        let has_files = !templates.is_empty();
        let has_template = if has_files { default.or(of_tools).is_some() } else { tokenizer.chat_template().is_some() };
        let renderer = match has_files {
            true => Renderer::with_templates(tokenizer, default, of_tools),
            false => Renderer::new(tokenizer),
        };
        Ok(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            weights,
            renderer: renderer.map_err(failed)?,
            has_template,
            stop_ids,
            made: None,
        })
    }

    /// What tells it from any other. Reads all of its files.
    pub(crate) fn hash(&self) -> Result<ModelHash, Failure> {
        let Some(weights) = self.weights.hash().map_err(Failure::world)? else {
            // What is made up follows from its shape, which is its name.
            return Ok(ModelHash { weights: BlobHash::of(self.name.as_bytes()).to_string(), tokenizer: None });
        };
        if self.weights.gguf().is_some() {
            return Ok(ModelHash { weights, tokenizer: None });
        }
        let mut bytes = Vec::new();
        let mut add = |file: &[u8]| {
            bytes.extend((file.len() as u64).to_le_bytes());
            bytes.extend(file);
        };
        for name in TOKENIZER_FILES {
            add(&read(&self.path.join(name))?.unwrap_or_default());
        }
        for name in template_files(&self.path)? {
            add(name.as_bytes());
            add(&read(&self.path.join(TEMPLATES).join(name))?.unwrap_or_default());
        }
        Ok(ModelHash { weights, tokenizer: Some(BlobHash::of(&bytes).to_string()) })
    }

    /// An adapter for this model.
    pub(crate) fn adapter(&self, folder: &Path) -> Result<LoraWeights, Failure> {
        peft::load(folder, self.weights.config()).map_err(Failure::world)
    }

    /// Writes what it takes to speak with the model beside exported weights: the tokenizer, and where an answer ends.
    pub(super) fn write_speech(&self, to: &Path) -> Result<(), Failure> {
        self.write_tokenizer(to)?;
        let tokenizer = self.renderer.tokenizer();
        let begin = Some(tokenizer.bos_text()).filter(|text| !text.is_empty()).and_then(|text| tokenizer.id_of(text));
        // Unless it is told, transformers takes the ids that the first model of the family had.
        let ids = [("bos_token_id", json!(begin)), ("eos_token_id", one_or_list(&self.stop_ids))];
        let path = to.join("config.json");
        let text = std::fs::read(&path).map_err(at_path(&path))?;
        let mut config: Map<String, Value> = serde_json::from_slice(&text).map_err(Failure::bug)?;
        config.extend(ids.clone().map(|(key, id)| (key.to_owned(), id)));
        write_json(&path, config)?;
        let path = to.join(GENERATION);
        match path.is_file() || self.stop_ids.is_empty() {
            true => Ok(()),
            false => write_json(&path, ids.map(|(key, id)| (key.to_owned(), id)).into_iter().collect()),
        }
    }

    fn write_tokenizer(&self, to: &Path) -> Result<(), Failure> {
        if let Some(files) = &self.made {
            return tiny::write_tokenizer(files, to);
        }
        if let Some(gguf) = self.weights.gguf() {
            for (name, text) in Tokenizer::files_of_gguf(gguf.values()).map_err(Failure::world)? {
                crate::durable::write(&to.join(name), &text)?;
            }
            return Ok(());
        }
        for name in TOKENIZER_FILES {
            let from = self.path.join(name);
            if from.is_file() {
                crate::durable::write(&to.join(name), &std::fs::read(&from).map_err(at_path(&from))?)?;
            }
        }
        let names = template_files(&self.path)?;
        let folder = to.join(TEMPLATES);
        if !names.is_empty() {
            std::fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        }
        for name in names {
            let from = self.path.join(TEMPLATES).join(&name);
            crate::durable::write(&folder.join(name), &std::fs::read(&from).map_err(at_path(&from))?)?;
        }
        Ok(())
    }
}

/// The templates of a folder that are files, by name. Of one name the last is meant.
fn templates(folder: &Path) -> Result<Vec<(String, String)>, Failure> {
    let mut templates = Vec::new();
    let mut add = |name: &str, path: &Path| {
        let source = read(path)?.map(|source| String::from_utf8_lossy(&source).into_owned());
        templates.extend(source.map(|source| (name.to_owned(), source)));
        Ok::<_, Failure>(())
    };
    add("default", &folder.join("chat_template.jinja"))?;
    for name in template_files(folder)? {
        add(name.trim_end_matches(".jinja"), &folder.join(TEMPLATES).join(&name))?;
    }
    Ok(templates)
}

/// The files of a folder that hold templates by name, in order.
fn template_files(folder: &Path) -> Result<Vec<String>, Failure> {
    let folder = folder.join(TEMPLATES);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(at_path(&folder))? {
        let name = entry.map_err(at_path(&folder))?.file_name();
        names.extend(name.to_str().filter(|name| name.ends_with(".jinja")).map(str::to_owned));
        if names.len() > N_TEMPLATES_MAX {
            return Err(Failure::user(format_args!("{} has more than {N_TEMPLATES_MAX} templates", folder.display())));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A file of bounded size, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(at_path(path))?;
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(at_path(path))?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(Failure::user(format_args!("{} is longer than {TEXT_BYTES_MAX} bytes", path.display())));
    }
    Ok(Some(bytes))
}

fn no_tokenizer(path: &Path) -> Failure {
    Failure::user(format_args!("{} has no tokenizer.json", path.display()))
        .hint("a model needs its tokenizer beside its weights; a GGUF file has it inside")
}

/// The end tokens that a folder names: those for generation, or else those of the model, as transformers has it.
fn ends_in_files(folder: &Path) -> Result<Vec<u32>, Failure> {
    for name in [GENERATION, "config.json"] {
        let ids = read(&folder.join(name))?.map_or_else(Vec::new, |text| eos_ids(&text));
        if !ids.is_empty() {
            return Ok(ids);
        }
    }
    Ok(Vec::new())
}

/// The end tokens of one file: one, or a list.
fn eos_ids(text: &[u8]) -> Vec<u32> {
    let json: Value = serde_json::from_slice(text).unwrap_or_default();
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match &json["eos_token_id"] {
        Value::Array(ids) => ids.iter().filter_map(id).collect(),
        one => id(one).into_iter().collect(),
    }
}

fn one_or_list(ids: &[u32]) -> Value {
    match ids {
        [] => Value::Null,
        [one] => json!(one),
        several => json!(several),
    }
}

fn write_json(path: &Path, table: Map<String, Value>) -> Result<(), Failure> {
    crate::durable::write(path, &format!("{:#}\n", Value::Object(table)))
}
