//! `hone deploy add`: a version of an agent.

use crate::adapters;
use crate::clock::now;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::model::Opened;
use hone_gateway::registry::{self, AddError};
use hone_trace::{AgentName, Config};
use serde_json::json;
use std::path::PathBuf;

/// Add a version of an agent: a model, with an adapter, instructions and a temperature of its own
///
/// The agent's name works as a model name at `hone serve`. Its first version serves at once; any other waits for
/// `hone deploy start`. A version does not change: what is different is another version.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent
    agent: AgentName,
    /// What the version is called, such as v2
    version: String,
    /// The model, by the name that `hone serve --model` gives it
    #[arg(long, value_name = "NAME")]
    model: String,
    /// A PEFT folder with an adapter for a local model; it is kept in the store
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// The local model that the adapter is for, where the server calls it otherwise
    #[arg(long, value_name = "MODEL", requires = "adapter")]
    base: Option<String>,
    /// A file with standing instructions, which are said before every conversation
    #[arg(long, value_name = "FILE")]
    prompt: Option<PathBuf>,
    /// How adventurous answers are where the client does not say
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,
}

/// Signs that names of agents and versions must not have: they stand between the two.
const BETWEEN: char = '@';
const VERSION_LEN_MAX: usize = 64;

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let Args { agent, version, .. } = args;
    if agent.as_str().contains(BETWEEN) || version.contains(BETWEEN) {
        return Err(Failure::user(format_args!("`{BETWEEN}` stands between an agent and its version, and cannot be in a name")));
    }
    if version.is_empty() || version.len() > VERSION_LEN_MAX || version.chars().any(char::is_control) {
        return Err(Failure::user(format_args!("a version has a name of 1 to {VERSION_LEN_MAX} printable characters")));
    }
    if let Some(temperature) = args.temperature.filter(|temperature| !(0.0..=2.0).contains(temperature)) {
        return Err(Failure::user(format_args!("--temperature {temperature} is not between 0 and 2")));
    }
    let (store, tenant, at) = (context.store().await?, &context.settings.tenant, now());
    let adapter = match &args.adapter {
        Some(folder) => {
            let base = Opened::named(args.base.as_ref().unwrap_or(&args.model), context)?;
            Some(adapters::keep(folder, &base, &*store, tenant, at).await?)
        }
        None => None,
    };
    let prompt = args.prompt.as_ref().map(|path| std::fs::read_to_string(path).map_err(at_path(path))).transpose()?;
    let prompt = prompt.map(|prompt| prompt.trim_end().to_owned());
    let model = Some(args.model.clone());
    let config = Config { model, adapter, prompt, temperature: args.temperature, ..Config::default() };
    let is_new = registry::add(&*store, agent, version, &config, tenant, at).await.map_err(|error| match error {
        AddError::Taken => Failure::user(format_args!("another tenant has an agent `{agent}`")).hint("take another name"),
        AddError::Other => Failure::user(format_args!("version {version} of agent `{agent}` is there, and is another one"))
            .hint("a version does not change: give the new one another name"),
        other => Failure::world(other),
    })?;
    let named = context.settings.serve.models.iter().filter_map(|text| text.split_once('=')).map(|(name, _)| name);
    let is_hidden = named.chain([args.model.as_str()]).any(|name| name == agent.as_str());
    if is_hidden {
        context.printer.complain(&format!(
            "`{agent}` is the name of a model too: who asks `hone serve` for it gets the model, and never the agent; give one of the two another name"
        ));
    }
    if context.printer.wants_json() {
        let adapter = config.adapter.map(|adapter| adapter.to_string());
        let told = json!({"agent": agent, "version": version, "config": config.hash(), "adapter": adapter, "new": is_new});
        context.printer.json(&told)?;
        return Ok(Exit::Yes);
    }
    let serves = registry::agent(&*store, agent)
        .await?
        .is_some_and(|(entry, _)| entry.versions.iter().any(|one| one.version == *version && one.share > 0.0));
    context.printer.plain(&format!("{agent} {version} is {}", if is_new { "added" } else { "there already" }))?;
    match serves {
        true if is_hidden => {}
        true => context.printer.say(&format!("it serves: clients of `hone serve` ask for the model `{agent}`")),
        false => context.printer.say(&format!("it takes over by `hone deploy start {agent} {version}`")),
    }
    Ok(Exit::Yes)
}
