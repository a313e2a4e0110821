//! Worlds by the name that the user gives: `desk:short?fault_rate=0`, `math:sums`, `math:problems.jsonl`, `replay`,
//! `http://localhost:8700`.
//!
//! A name, perhaps a variant after `:`, perhaps options after `?`. What a world does not know is an error that names it.

#[cfg(test)]
mod lazy;

use crate::context::Context;
use crate::failure::{Failure, at_path};
use crate::standing::Configs;
use hone_arc::world::{ArcOptions, ArcWorld};
use hone_env::code::{Code, CodeOptions};
use hone_env::desk::{Desk, DeskOptions};
use hone_env::external::{External, ExternalOptions};
use hone_env::inbox::{Inbox, InboxOptions};
use hone_env::math::{Math, MathSource};
use hone_env::replay::{Fallback, Replay, ReplayOptions};
use hone_env::tictactoe::{TicTacToe, TicTacToeOptions};
use hone_env::twenty48::{Twenty48, Twenty48Options};
use hone_reward::Recipe;
use hone_trace::env::{Env, EnvError, Split};
use hone_trace::store::TraceQuery;
use hone_trace::{Category, Trace};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;

/// A world that ships with hone.
pub(crate) struct Shipped {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The names under which it is measured when the user names none.
    pub(crate) usual: &'static [&'static str],
}

/// The worlds that ship with hone.
pub(crate) const SHIPPED: [Shipped; 9] = [
    Shipped { name: "desk", about: "a service desk with tools; `desk:short` for small models", usual: &["desk", "desk:short"] },
    Shipped { name: "2048", about: "the game of merging tiles", usual: &["2048"] },
    Shipped { name: "tictactoe", about: "tic-tac-toe against three kinds of opponents", usual: &["tictactoe"] },
    Shipped { name: "inbox", about: "questions about a mailbox of thousands of mails", usual: &["inbox"] },
    Shipped {
        name: "math",
        about: "`math:sums`, `math:countdown`, or word problems from a file: `math:FILE.jsonl`",
        usual: &["math:sums", "math:countdown"],
    },
    Shipped {
        name: "arc",
        about: "grids turned into grids by programs, tasks from a file or folder: `arc:TASKS.jsonl`",
        usual: &[],
    },
    Shipped {
        name: "code",
        about: "programming problems with tests, from a file of MBPP or HumanEval: `code:FILE.jsonl`",
        usual: &[],
    },
    Shipped { name: "replay", about: "the traces in the store, played again", usual: &[] },
    Shipped { name: "http://…", about: "a world of your own behind an address; see `examples/external_env.py`", usual: &[] },
];

/// A world, with what it is called on the command line and how it is weighed.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) name: String,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) recipe: Recipe,
    /// By what the world itself says that an episode earned, whatever the settings weigh.
    pub(crate) own_recipe: Recipe,
    /// The same world, where it is made of records.
    pub(crate) replay: Option<Arc<Replay>>,
}

/// The most traces that one replay world is made of.
const REPLAY_LEN_MAX: u32 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ReplayChoice {
    n: u32,
    category: Option<Category>,
    fallback: String,
}

impl Default for ReplayChoice {
    fn default() -> Self {
        Self { n: 1000, category: None, fallback: "say".into() }
    }
}

impl World {
    /// The world of this name.
    pub(crate) async fn named(name: &str, context: &Context<'_>) -> Result<Self, Failure> {
        if is_address(name) {
            let url = name.to_owned();
            // The client blocks, which the runtime's own threads must not.
            let external = tokio::task::spawn_blocking(move || External::connect(&url, ExternalOptions::default()));
            let external = external.await.map_err(|error| Failure::bug(error.to_string()))?;
            return Self::of(name, Arc::new(external.map_err(wrong)?), context);
        }
        let (head, options) = name.split_once('?').unwrap_or((name, ""));
        let (world, variant) = head.split_once(':').unwrap_or((head, ""));
        let env: Arc<dyn Env> = match (world, variant) {
            ("desk", "" | "natural") => Arc::new(Desk::new(read::<DeskOptions>(name, options, "")?).map_err(wrong)?),
            ("desk", "short") => Arc::new(Desk::new(read::<DeskOptions>(name, options, "dialect=\"short\"\n")?).map_err(wrong)?),
            ("2048", "" | "natural") => Arc::new(Twenty48::new(read::<Twenty48Options>(name, options, "")?).map_err(wrong)?),
            ("2048", "short") => {
                Arc::new(Twenty48::new(read::<Twenty48Options>(name, options, "dialect=\"short\"\n")?).map_err(wrong)?)
            }
            ("tictactoe", "" | "natural") => {
                Arc::new(TicTacToe::new(read::<TicTacToeOptions>(name, options, "")?).map_err(wrong)?)
            }
            ("tictactoe", "short") => {
                Arc::new(TicTacToe::new(read::<TicTacToeOptions>(name, options, "dialect=\"short\"\n")?).map_err(wrong)?)
            }
            ("inbox", "") => Arc::new(Inbox::new(read::<InboxOptions>(name, options, "")?).map_err(wrong)?),
            ("math", "") => {
                return Err(
                    Failure::user("`math` has several sources").hint("write `math:sums`, `math:countdown` or `math:FILE.jsonl`")
                );
            }
            ("math", source @ ("sums" | "countdown")) => math(name, options, &format!("source=\"{source}\"\n"))?,
            ("math", path) => math(name, options, &format!("source=\"jsonl\"\npath={}\n", toml::Value::from(path)))?,
            ("arc", "") => {
                return Err(Failure::user("`arc` needs tasks").hint("write `arc:FILE.jsonl` or `arc:FOLDER`"));
            }
            ("arc", path) => {
                let given = format!("path={}\n", toml::Value::from(path));
                Arc::new(ArcWorld::new(read::<ArcOptions>(name, options, &given)?).map_err(wrong)?)
            }
            ("code", "") => {
                return Err(
                    Failure::user("`code` needs problems").hint("write `code:FILE.jsonl`, with a file of MBPP or HumanEval")
                );
            }
            ("code", path) => {
                let given = format!("path={}\n", toml::Value::from(path));
                let code = Code::new(read::<CodeOptions>(name, options, &given)?).map_err(wrong)?;
                let (n_found, n_played) = code.counts();
                context.printer.say(&format!("{n_played} of {n_found} problems run in the subset of Python that hone has"));
                Arc::new(code)
            }
            ("replay", folder) if !folder.is_empty() => {
                let replay = Arc::new(replay_batch(Path::new(folder), &read::<ReplayChoice>(name, options, "")?, context)?);
                let env = Arc::clone(&replay) as Arc<dyn Env>;
                return Ok(Self { replay: Some(replay), ..Self::of(name, env, context)? });
            }
            ("replay", _) => {
                let replay = Arc::new(replay(read::<ReplayChoice>(name, options, "")?, context).await?);
                let env = Arc::clone(&replay) as Arc<dyn Env>;
                return Ok(Self { replay: Some(replay), ..Self::of(name, env, context)? });
            }
            _ => return Err(unknown(name)),
        };
        Self::of(name, env, context)
    }

    fn of(name: &str, env: Arc<dyn Env>, context: &Context<'_>) -> Result<Self, Failure> {
        let wanted = context.settings.rewards.get(env.name());
        // Of a world that hone does not ship, only who wrote the recipe knows what its signals are worth.
        let own = Recipe::for_world(env.name()).or_else(|| wanted.filter(|recipe| recipe.measures()).cloned());
        let own_recipe = own.map_or_else(|| Recipe::parse(OUTCOME), Ok).map_err(Failure::bug)?;
        let recipe = wanted.cloned().unwrap_or_else(|| own_recipe.clone());
        Ok(Self { name: name.to_owned(), env, recipe, own_recipe, replay: None })
    }
}

/// What a world is called on its traces and in recipes, however the user writes it: variants do not change it, and of the options those
/// that make another world of it do. Nothing is read for it but the name, unless the world is behind an address.
pub(crate) async fn name_on_traces(name: &str, context: &Context<'_>) -> Result<String, Failure> {
    if is_address(name) {
        return Ok(World::named(name, context).await?.env.name().to_owned());
    }
    let (head, options) = name.split_once('?').unwrap_or((name, ""));
    let (world, path) = head.split_once(':').unwrap_or((head, ""));
    let given = format!("path={}\n", toml::Value::from(path));
    Ok(match world {
        "arc" => read::<ArcOptions>(name, options, &given)?.world().to_owned(),
        "code" => read::<CodeOptions>(name, options, &given)?.world().to_owned(),
        world => world.to_owned(),
    })
}

fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// How worlds are weighed that bring no recipe: by whether they say that the task was solved.
const OUTCOME: &str = r#"components = [{ name = "outcome", kind = "outcome", weight = 1.0, role = "primary" }]"#;

fn math(name: &str, options: &str, source: &str) -> Result<Arc<dyn Env>, Failure> {
    Ok(Arc::new(Math::new(&read::<MathSource>(name, options, source)?).map_err(wrong)?))
}

impl ReplayChoice {
    fn fallback(&self) -> Result<Fallback, Failure> {
        match self.fallback.as_str() {
            "say" => Ok(ReplayOptions::default().fallback),
            "end" => Ok(Fallback::End),
            "nearest" => Ok(Fallback::Nearest),
            other => Err(Failure::user(format_args!("`{other}` is not a fallback of replay")).hint("say, end or nearest")),
        }
    }
}

/// The traces of a batch that `hone data prepare` made, divided as it divided them.
fn replay_batch(folder: &Path, choice: &ReplayChoice, context: &Context<'_>) -> Result<Replay, Failure> {
    let mut parts = Vec::new();
    for split in Split::ALL {
        let path = folder.join(format!("{}.jsonl", split.as_str()));
        let text = std::fs::read_to_string(&path)
            .map_err(|error| at_path(&path)(error).hint("`replay:FOLDER` is a batch that `hone data prepare` made"))?;
        let of_category = |trace: &Trace| choice.category.is_none() || trace.category == choice.category;
        let mut traces: Vec<Trace> = Vec::new();
        for (number, line) in hone_trace::lines::of_text(&text) {
            let wrong = |error| Failure::user(format_args!("{}, line {number}: {error}", path.display()));
            traces.extend(Some(serde_json::from_str::<Trace>(line).map_err(wrong)?).filter(of_category));
        }
        traces.truncate(REPLAY_LEN_MAX as usize);
        parts.push((split, traces));
    }
    let world = Replay::divided(&parts, choice.fallback()?);
    say_refused(&world, context);
    Ok(world)
}

async fn replay(choice: ReplayChoice, context: &Context<'_>) -> Result<Replay, Failure> {
    let fallback = choice.fallback()?;
    let query = TraceQuery { tenant: Some(context.settings.tenant.clone()), category: choice.category, ..TraceQuery::default() };
    let store = context.store_to_read().await?;
    let (mut traces, mut after, mut configs): (Vec<Trace>, _, _) = (Vec::new(), None, Configs::default());
    let n_max = choice.n.min(REPLAY_LEN_MAX);
    while traces.len() < n_max as usize {
        let page = store.traces(&query, after, n_max - u32::try_from(traces.len()).unwrap_or(n_max)).await?;
        for trace in page.items {
            traces.push(configs.instructed(&*store, trace).await?);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let world = Replay::new(&traces, ReplayOptions { fallback, ..ReplayOptions::default() }).map_err(wrong)?;
    say_refused(&world, context);
    Ok(world)
}

fn say_refused(world: &Replay, context: &Context<'_>) {
    for refused in world.refused().iter().take(5) {
        context.printer.complain(&format!("trace {} cannot be played again: {}", refused.trace, refused.reason));
    }
    let n_refused = world.refused().len();
    context.printer.say(&format!("{} records to play again, {n_refused} that cannot be", world.n_records()));
}

/// Reads the options after `?` as the options of a world.
fn read<T: DeserializeOwned>(name: &str, options: &str, given: &str) -> Result<T, Failure> {
    let mut text = given.to_owned();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').ok_or_else(|| {
            Failure::user(format_args!("`{option}` in `{name}` has no value")).hint("write options as `?key=value&key=value`")
        })?;
        // A number, a truth value or a list stands for itself; anything else is a text.
        let plain = toml::from_str::<toml::Table>(&format!("value = {value}")).is_ok();
        let value = if plain { value.to_owned() } else { toml::Value::from(value).to_string() };
        text.push_str(&format!("{key} = {value}\n"));
    }
    toml::from_str(&text).map_err(|error| Failure::user(format_args!("`{name}`: {}", error.message())))
}

fn wrong(error: EnvError) -> Failure {
    Failure::user(error)
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    Failure::user(format_args!("there is no world `{name}`")).hint(format!("there are {}", names.join(", ")))
}
