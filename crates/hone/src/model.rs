//! `hone model`: which models there are, how one comes in, and how one goes out with an adapter merged into it.

mod hub;
mod opened;
mod random;
mod registry;
mod tiny;

pub(crate) use opened::{ModelHash, Opened};
pub(crate) use registry::is_name;
pub(crate) use tiny::keep as keep_tiny;

use crate::context::Context;
use crate::durable;
use crate::failure::{Exit, Failure, at_path};
use crate::printer::Style;
use hone_engine::config::ModelConfig;
use hone_engine::load::WeightSource;
use hone_engine::peft;
use hub::Hub;
use registry::{Entry, Registry, Source};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a model: a path, the id of a repository on a hub, or `tiny:` with sizes
    ///
    /// A path is a GGUF file or a folder with config.json, safetensors and tokenizer.json; it stays where it is. An id such as
    /// `organisation/model` is fetched from the hub that HF_ENDPOINT names, goes on where it broke off, and is checked by hash.
    /// `tiny:d128,l4,h4,kv2,ff384,v512,ctx512`, each part optional, makes a model from scratch whose vocabulary comes from
    /// the words of --corpus.
    Add(AddArgs),
    /// List the models that were added
    List,
    /// Say what a model is and what it needs
    Show {
        /// The name of a model that was added, a path, or random:SHAPE
        model: String,
    },
    /// Write a model as a folder that other tools load, with an adapter merged into it
    Export {
        /// The name of a model that was added, or a path
        model: String,
        /// The folder to write, which must not exist yet
        #[arg(id = "to", value_name = "DIR")]
        to: PathBuf,
        /// A PEFT folder to merge into the weights
        #[arg(long, value_name = "DIR")]
        adapter: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// A path, `organisation/model`, or `tiny:SIZES`
    #[arg(value_name = "PATH|ID|tiny:SIZES")]
    from: String,
    /// What to call it; without this, the last part of where it comes from
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The branch, tag or commit on the hub
    #[arg(long, default_value = "main", value_name = "REVISION")]
    revision: String,
    /// The GGUF file of the repository to fetch
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Texts whose words become the vocabulary of a `tiny:` model
    #[arg(long, value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// The seed of the weights of a `tiny:` model
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What `show` tells.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    family: String,
    params: usize,
    layers: usize,
    dim: usize,
    heads: usize,
    kv_heads: usize,
    ffn_dim: usize,
    vocab: usize,
    context: usize,
    tokens: usize,
    chat_template: bool,
    tool_format: String,
    /// What the weights take in bf16 while sampling.
    sample_mb: u64,
    /// What they take while an adapter is trained: both directions are kept.
    train_mb: u64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Add(args) => add(args, context),
        Command::List => list(context),
        Command::Show { model } => show(model, context),
        Command::Export { model, to, adapter } => export(model, to, adapter.as_deref(), context),
    }
}

fn add(args: &AddArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let registry = Registry::of(&context.settings);
    let is_tiny = args.from.starts_with(TINY);
    let is_id = hub::is_id(&args.from);
    let misplaced = [
        ("--corpus", !args.corpus.is_empty() && !is_tiny, "only a `tiny:` model gets its vocabulary from texts"),
        ("--file", args.file.is_some() && !is_id, "only a repository on a hub has several files to choose from"),
        ("--revision", args.revision != "main" && !is_id, "only a repository on a hub has revisions"),
    ];
    if let Some((flag, _, reason)) = misplaced.iter().find(|(_, misplaced, _)| *misplaced) {
        return Err(Failure::user(format_args!("{flag} has no effect here: {reason}")));
    }
    let name = registry::name(args.name.as_deref(), &args.from)?;
    let _held = registry.hold(&name)?;
    let entry = if let Some(spec) = args.from.strip_prefix(TINY) {
        let folder = registry.files(&name);
        let source = Source::Tiny { spec: spec.to_owned(), seed: args.seed };
        let known = registry.refuse_other(&name, &source)?;
        tiny::make(spec, args.seed, &args.corpus, &folder, known.as_ref())?;
        Entry::new(name, source, folder)
    } else if is_id {
        let source = Source::Hub { id: args.from.clone(), revision: args.revision.clone(), file: args.file.clone() };
        let known = registry.refuse_other(&name, &source)?;
        let mut path = registry.files(&name);
        let commit = context.wait(async |context| fetch(&args.from, args, &path, known.as_ref(), context).await)?;
        if let Some(file) = &args.file {
            path.push(file);
        }
        Entry::new(name, source, path).at_commit(commit)
    } else {
        let path = Path::new(&args.from);
        let path = path
            .canonicalize()
            .map_err(at_path(path))
            .map_err(|failure| failure.hint("a model is a path, an id such as `organisation/model`, or `tiny:d128,l4`"))?;
        if let Some(known) = registry.refuse_other(&name, &Source::Path)?.filter(|known| known.path != path) {
            return Err(known.taken(&format!(" {}", known.path.display())));
        }
        Entry::new(name, Source::Path, path)
    };
    let opened = Opened::at(&entry.path, &entry.name)?;
    registry.write(&entry)?;
    if context.printer.wants_json() {
        context.printer.json(&shown(&opened, Some(entry.source)))?;
    } else {
        context.printer.say(&format!("added {}: {} parameters", opened.name, opened.weights.config().n_params()));
    }
    Ok(Exit::Yes)
}

const TINY: &str = "tiny:";

/// Brings the files of a model from a hub; the commit that they are of.
async fn fetch(id: &str, args: &AddArgs, folder: &Path, known: Option<&Entry>, context: &Context<'_>) -> Result<String, Failure> {
    let hub = Hub::of(context.variables)?;
    let repository = hub.repository(id, &args.revision).await?;
    // A branch may have moved on: what was trained on the files of before must still find them.
    if let Some((known, commit)) = known.and_then(|known| known.commit.as_ref().map(|commit| (known, commit)))
        && *commit != repository.commit
    {
        return Err(known.taken(&format!(" at commit {commit}, where {id} is now at {}", repository.commit)));
    }
    let files = hub::model_files(&repository, args.file.as_deref())?;
    std::fs::create_dir_all(folder).map_err(at_path(folder))?;
    for file in &files {
        hub.fetch(&repository, file, folder, context.printer).await?;
    }
    context.printer.say(&format!("{id} at commit {}", repository.commit));
    Ok(repository.commit)
}

fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let entries = Registry::of(&context.settings).entries()?;
    if entries.is_empty() {
        context.printer.say("no model was added yet: `hone model add PATH|ID|tiny:SIZES`");
        return Ok(Exit::Yes);
    }
    if context.printer.wants_json() {
        entries.iter().try_for_each(|entry| context.printer.json(entry))?;
        return Ok(Exit::Yes);
    }
    let row = |entry: &Entry| vec![entry.name.clone(), entry.source.to_string(), entry.path.display().to_string()];
    context.printer.table(&["name", "from", "path"], &entries.iter().map(row).collect::<Vec<_>>())?;
    Ok(Exit::Yes)
}

fn show(model: &str, context: &Context<'_>) -> Result<Exit, Failure> {
    let registry = Registry::of(&context.settings);
    let opened = Opened::named(model, context)?;
    let shown = shown(&opened, registry.entry(model)?.map(|entry| entry.source));
    if context.printer.wants_json() {
        context.printer.json(&shown)?;
        return Ok(Exit::Yes);
    }
    let Shown { layers, dim, heads, kv_heads, ffn_dim, vocab, tokens, .. } = shown;
    let rows = [
        ("path", shown.path.display().to_string()),
        ("family", shown.family),
        ("parameters", shown.params.to_string()),
        ("sizes", format!("{layers} layers of width {dim}, {heads} heads on {kv_heads}, SwiGLU {ffn_dim}")),
        ("vocabulary", format!("{vocab} ids, {tokens} of them tokens")),
        ("context", format!("{} tokens", shown.context)),
        ("chat template", if shown.chat_template { format!("yes, tool calls: {}", shown.tool_format) } else { "no".to_owned() }),
        ("memory to sample", format!("{} MB of weights", shown.sample_mb)),
        ("memory to train an adapter", format!("{} MB of weights", shown.train_mb)),
    ];
    context.printer.line(&[(Style::Strong, &shown.name)])?;
    for (what, value) in rows {
        context.printer.line(&[(Style::Faint, &format!("{what:<28}")), (Style::Plain, &value)])?;
    }
    Ok(Exit::Yes)
}

fn shown(opened: &Opened, source: Option<Source>) -> Shown {
    let ModelConfig { family, vocab, dim, n_layers, n_heads, n_kv_heads, ffn_dim, context_len, .. } = *opened.weights.config();
    let params = opened.weights.config().n_params();
    let tokenizer = opened.renderer.tokenizer();
    Shown {
        name: opened.name.clone(),
        path: opened.path.clone(),
        source,
        family: format!("{family:?}").to_lowercase(),
        params,
        layers: n_layers,
        dim,
        heads: n_heads,
        kv_heads: n_kv_heads,
        ffn_dim,
        vocab,
        context: context_len,
        tokens: tokenizer.vocab_len(),
        chat_template: opened.has_template,
        tool_format: format!("{:?}", opened.renderer.tool_format()).to_lowercase(),
        sample_mb: (2 * params as u64) >> 20,
        train_mb: (4 * params as u64) >> 20,
    }
}

fn export(model: &str, to: &Path, adapter: Option<&Path>, context: &Context<'_>) -> Result<Exit, Failure> {
    if to.exists() {
        return Err(Failure::user(format_args!("{} is already there", to.display())).hint("name a folder that is not there yet"));
    }
    let opened = Opened::named(model, context)?;
    let adapter = adapter.map(|folder| opened.adapter(folder)).transpose()?;
    durable::folder(to, |folder| {
        peft::merge(folder, &opened.weights, adapter.as_ref()).map_err(Failure::world)?;
        opened.write_speech(folder)
    })?;
    if context.printer.wants_json() {
        context.printer.json(&serde_json::json!({ "folder": to }))?;
    } else {
        context.printer.say(&format!("wrote {}", to.display()));
    }
    Ok(Exit::Yes)
}
