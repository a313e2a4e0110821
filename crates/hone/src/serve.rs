//! `hone serve`: the gateway on this machine, with the models that the settings and the command line name.

mod guard;

use crate::adapters::Wardrobe;
use crate::clock::{RealClock, now};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::policy::{self, LOCAL};
use crate::printer::counted;
use crate::settings;
use guard::{Guard, GuardArgs};
use hone_engine::config::ModelConfig;
use hone_engine::machine::Machine;
use hone_gateway::{
    Catalogue, Dashboard, Gateway, Limits, Local, Model, Route, RouteBy, Setting, Setup, TaskRule, Who, registry, serve,
};
use hone_policy::local::Local as LocalPolicy;
use hone_policy::upstream::{Budget, Price, Retry};
use hone_trace::store::{Event, Store, StoreError, Write};
use hone_trace::{AgentName, Category, EventId, Tenant};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Tokens of a conversation with a local model, and how many it has at once.
const CONTEXT: usize = 4096;
const N_LOCAL_CONVERSATIONS: u32 = 32;
/// What the gateway has said and nobody has printed yet; more is dropped.
const N_SAID_MAX: usize = 256;

/// Answer in OpenAI's and Anthropic's words, and record every call
///
/// Clients ask http://127.0.0.1:8321/v1 for the models that are named here; without any, it takes spans and shows its pages. Every call is a turn of a trace, durable before the end of
/// its answer is sent; `hone trace list` shows them at once. As soon as `hone key add` has made a key, who asks needs one. Stops at
/// SIGTERM or Ctrl-C, after what is underway has ended.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Listen at this address of this machine; port 0 takes any that is free. One that other machines can reach needs a key, and
    /// --tls-cert or --behind-tls-proxy
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<SocketAddr>,
    /// Answer to NAME with a model of this machine or a provider's, or several in turn: own=local:mine, gpt=openai:gpt-5-mini. Wins
    /// over what hone.toml has under NAME
    #[arg(long = "model", value_name = "NAME=MODEL,…")]
    models: Vec<String>,
    /// Answer to NAME with whichever agent does best, by type of task, or by all that is known of an episode: best=desk,clerk or
    /// best=desk,clerk:features
    #[arg(long = "route", value_name = "NAME=AGENT,…")]
    routes: Vec<String>,
    /// Take an episode whose first question has one of these words for a TASK, unless its client says: refund=refund|money back
    #[arg(long = "task", value_name = "TASK=WORD|…")]
    tasks: Vec<String>,
    /// The feedback that says how well an episode of an agent went; without this, the first of any name
    #[arg(long, value_name = "METRIC")]
    outcome: Option<String>,
    /// The longest conversation with a local model in tokens; without this, 4096
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// How many conversations a local model has at once, while further ones wait; without this, 32
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    local_conversations: Option<u32>,
    /// How many threads compute for a local model; without this, all cores
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<usize>())]
    threads: Option<usize>,
    /// Stop before this process has spent so many US dollars at providers: every server counts its own, and from 0 after a restart
    #[arg(long, value_name = "USD")]
    budget: Option<f64>,
    /// What NAME costs at its provider, in US dollars per million tokens read, written and, where it differs, read from a cache:
    /// gpt=0.25,2,0.025
    #[arg(long = "price", value_name = "NAME=IN,OUT")]
    prices: Vec<String>,
    /// The most requests that are worked on at once; further ones are told to come back
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_requests: u32,
    /// The most seconds of an answer, with all that is tried again
    #[arg(long, default_value_t = 600, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_answer_seconds: u64,
    #[command(flatten)]
    guard: GuardArgs,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let address = args.address.unwrap_or(context.settings.serve.address);
    let guard = args.guard.guard(address, context)?;
    let named = over(&context.settings.serve.models, &args.models);
    let (has_local, has_provider) = kinds(&named);
    let of_local = [
        ("--context", args.context.is_some()),
        ("--local-conversations", args.local_conversations.is_some()),
        ("--threads", args.threads.is_some()),
    ];
    if let Some((flag, _)) = of_local.into_iter().find(|(_, is_given)| *is_given && !has_local) {
        return Err(Failure::user(format_args!("{flag} is for local models, and none is named")));
    }
    if args.budget.is_some() && !has_provider {
        return Err(Failure::user("--budget is for providers, and none is named: a local model costs nothing"));
    }
    let budget = match args.budget {
        Some(limit) if limit.is_finite() && limit >= 0.0 => Budget::limited(limit),
        Some(limit) => return Err(Failure::user(format_args!("--budget {limit} is not an amount of money"))),
        None => Budget::unlimited(),
    };
    let filed = filed_prices(&context.settings.serve, &args.models);
    let prices = prices(over(&filed, &args.prices), &named)?;
    let mut locals = BTreeMap::new();
    let mut n_to_open = specs(&named).filter(|spec| spec.starts_with(LOCAL)).count();
    let models = named
        .into_iter()
        .map(|named| model(named, args, &prices, &budget, (&mut locals, &mut n_to_open), context))
        .collect::<Result<Vec<_>, _>>()?;
    let catalogue = Catalogue::new(models).map_err(Failure::user)?;
    let of_settings = &context.settings.serve;
    let agents = Agents {
        routes: over(&of_settings.routes, &args.routes)
            .into_iter()
            .map(|text| route(text, &catalogue))
            .collect::<Result<_, _>>()?,
        tasks: over(&of_settings.tasks, &args.tasks).into_iter().map(|text| task(text)).collect::<Result<_, _>>()?,
        outcome: args.outcome.clone().or_else(|| Some(of_settings.outcome.clone()).filter(|name| !name.is_empty())),
        locals,
    };
    context.wait(async move |context| listen(guard, catalogue, agents, args, context).await)
}

/// What answers under the names of agents.
struct Agents {
    routes: Vec<Route>,
    tasks: Vec<TaskRule>,
    outcome: Option<String>,
    locals: Locals,
}

/// Models of this process, by the names that they answer to.
type Locals = BTreeMap<String, (Arc<LocalPolicy<Machine>>, ModelConfig)>;

/// Says on the record that a server starts: one that may only read is refused before anybody asks it.
async fn can_write(store: &dyn Store, tenant: &Tenant) -> Result<(), Failure> {
    let (at, process) = (now(), std::process::id());
    let id = EventId::derived(&["started", &at.unix_nanos().to_string(), &process.to_string()]);
    let body = json!({"version": env!("CARGO_PKG_VERSION"), "process": process});
    let (stream, kind) = (hone_gateway::STREAM.to_owned(), "started".to_owned());
    let event = Event { id, at, tenant: tenant.clone(), stream, kind, body };
    match store.put(vec![Write::Event(event)]).await {
        Err(error @ StoreError::Unavailable { .. }) => {
            Err(Failure::from(error).hint("a server writes down what it answers: its role needs the right to"))
        }
        // A full disk may have room again; until then nobody is asked.
        _ => Ok(()),
    }
}

async fn listen(guard: Guard, catalogue: Catalogue, agents: Agents, args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let (log, mut said) = mpsc::channel(N_SAID_MAX);
    let dashboard = args.over(dashboard(guard.is_encrypted, context), context);
    let names: Vec<String> = catalogue.names().map(str::to_owned).collect();
    let Agents { routes, tasks, outcome, locals: models } = agents;
    let store = context.store().await?;
    // Those that are damaged are named by who follows the log, and cannot answer.
    let registry::Entries { sound: registered, damaged } = registry::agents(&*store).await?;
    let routed = routes.iter().flat_map(|route| route.agents.iter().map(move |agent| (&route.name, agent)));
    let known: Vec<&AgentName> = registered.iter().map(|agent| &agent.name).chain(damaged.iter().map(|(name, _)| name)).collect();
    for (route, agent) in routed.filter(|(_, agent)| !known.contains(agent)) {
        let hint = format!("until `hone deploy add {agent} VERSION --model NAME` makes one");
        context.printer.complain(&format!("route {route}: there is no agent {agent}, {hint}"));
    }
    let agents = registered.iter().filter(|agent| agent.tenant == context.settings.tenant).map(|agent| agent.name.to_string());
    // Who asks for a name that a model has gets the model.
    let agents: Vec<String> = agents.filter(|name| !names.contains(name)).collect();
    let route_names: Vec<String> = routes.iter().map(|route| route.name.clone()).collect();
    can_write(&*store, &context.settings.tenant).await?;
    let (access, n_keys) = guard.access(&*store, context).await?;
    let (address, scheme) = (guard.address, guard.scheme());
    let cache = context.settings.folder.join("adapters");
    let wardrobe = Wardrobe { models, store: Arc::clone(&store) as Arc<dyn Store>, cache };
    let setup = Setup {
        catalogue,
        routes,
        thrift: context.settings.thrift,
        tasks,
        outcome,
        adapters: Some(Arc::new(wardrobe)),
        store,
        clock: Arc::new(RealClock),
        access,
        tls: guard.tls,
        limits: Limits {
            n_requests_max: args.max_requests as usize,
            requests_per_minute: args.guard.requests_per_minute,
            answer_ms: args.max_answer_seconds * 1000,
            ..Limits::default()
        },
        hosts: guard.hosts,
        seed: now().unix_nanos().unsigned_abs(),
        dashboard,
        log,
    };
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::user(format_args!("{address}: {error}")).hint("take another port with --address, or 0 for any that is free")
    })?;
    let bound = listener.local_addr().map_err(Failure::world)?;
    let (mut term, mut interrupt) =
        (signal(SignalKind::terminate()).map_err(Failure::world)?, signal(SignalKind::interrupt()).map_err(Failure::world)?);
    if context.printer.wants_json() {
        let url = format!("{scheme}://{bound}/v1");
        let told = json!({"url": url, "models": names, "agents": agents, "routes": route_names, "keys": n_keys});
        context.printer.json(&told)?;
    } else {
        let whom = if n_keys > 0 { format!(" to who has a key ({})", counted(n_keys as u64, "key")) } else { String::new() };
        let agents = agents.into_iter().map(|name| format!("{name} (agent)"));
        let all: Vec<String> =
            names.iter().cloned().chain(agents).chain(route_names.iter().map(|name| format!("{name} (route)"))).collect();
        let what = if names.is_empty() { "takes spans".to_owned() } else { format!("answers as {}", all.join(", ")) };
        context.printer.plain(&format!("{scheme}://{bound}/v1 {what}{whom}"))?;
        if names.is_empty() {
            context.printer.say(
                "no model is named, so nobody answers: name one with --model NAME=local:MODEL or NAME=PROVIDER:MODEL, or under \
                 `[serve]` in hone.toml",
            );
        }
        context.printer.say(&format!("{scheme}://{bound}/dashboard shows what is on the record"));
    }
    context.printer.flush()?;
    let serving = serve(Gateway::new(setup), listener, async {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    tokio::pin!(serving);
    loop {
        tokio::select! {
            () = &mut serving => break,
            Some(text) = said.recv() => context.printer.complain(&text),
        }
    }
    context.printer.say("stopped; every answered call is on the record");
    Ok(Exit::Yes)
}

impl Args {
    /// The settings that are shown, with what the flags add to them.
    fn over(&self, mut dashboard: Dashboard, context: &Context<'_>) -> Dashboard {
        let filed = &context.settings.serve;
        let prices = filed_prices(filed, &self.models);
        // A price goes with the model in whose place a flag names another.
        let of_price = if self.prices.is_empty() { "--model" } else { "--price" };
        let lists = [
            ("serve.models", "--model", &filed.models, over(&filed.models, &self.models)),
            ("serve.routes", "--route", &filed.routes, over(&filed.routes, &self.routes)),
            ("serve.tasks", "--task", &filed.tasks, over(&filed.tasks, &self.tasks)),
            ("serve.prices", of_price, &filed.prices, over(&prices, &self.prices)),
        ];
        let changed = lists.into_iter().filter(|(.., filed, all)| !all.iter().copied().eq(filed.iter()));
        let lists = changed.map(|(name, flag, filed, all)| (name, flag, all.iter().any(|text| filed.contains(text)), json!(all)));
        let single = [
            ("serve.address", "--address", self.address.map(|address| json!(address.to_string()))),
            ("serve.outcome", "--outcome", self.outcome.as_ref().map(|outcome| json!(outcome))),
        ];
        let single = single.into_iter().filter_map(|(name, flag, value)| Some((name, flag, false, value?)));
        for (name, flag, is_added, value) in lists.chain(single) {
            if let Some(setting) = dashboard.settings.iter_mut().find(|setting| setting.name == name) {
                setting.value = value.to_string();
                setting.from = if is_added { format!("{} and {flag}", setting.from) } else { flag.to_owned() };
            }
        }
        dashboard
    }
}

/// The name in `NAME=…`.
fn name(text: &str) -> Option<&str> {
    text.split_once('=').map(|(name, _)| name)
}

/// The prices of the file, without those of models in whose place flags name others.
fn filed_prices(filed: &settings::Serve, given: &[String]) -> Vec<String> {
    let is_replaced = |model: &&String| !given.contains(model) && given.iter().any(|given| name(given) == name(model));
    let replaced: Vec<&String> = filed.models.iter().filter(is_replaced).collect();
    filed.prices.iter().filter(|price| !replaced.iter().any(|model| name(model) == name(price))).cloned().collect()
}

/// A list of `NAME=…` with what flags give: of a name that both have, what the flag says.
fn over<'a>(filed: &'a [String], given: &'a [String]) -> Vec<&'a String> {
    let is_given = |text: &&String| name(text).is_some_and(|own| given.iter().any(|given| name(given) == Some(own)));
    filed.iter().filter(|text| !is_given(text)).chain(given).collect()
}

/// What the pages for people need.
pub(crate) fn dashboard(is_encrypted: bool, context: &Context<'_>) -> Dashboard {
    let shown = context.settings.told().into_iter().map(|(name, value, from)| Setting { name, value: value.to_string(), from });
    let draw = || {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).ok().map(|()| bytes)
    };
    Dashboard { tenant: context.settings.tenant.clone(), settings: shown.collect(), draw, is_encrypted }
}

/// Whether these name a model of this machine, and whether they name a provider's.
fn kinds(named: &[&String]) -> (bool, bool) {
    let is_local = |spec: &str| spec.starts_with(LOCAL);
    (specs(named).any(is_local), specs(named).any(|spec| !is_local(spec)))
}

/// What stands behind all names.
fn specs<'a>(named: &'a [&String]) -> impl Iterator<Item = &'a str> {
    named.iter().filter_map(|named| named.split_once('=')).flat_map(|(_, specs)| specs.split(','))
}

/// The prices that texts such as `gpt=0.25,2` give, the last of a name. One of a name that no provider has would have no effect.
fn prices<'a>(texts: Vec<&'a String>, named: &[&String]) -> Result<HashMap<&'a str, Price>, Failure> {
    let mut prices = HashMap::new();
    for text in texts {
        let wrong =
            |what: String| Failure::user(format_args!("`{text}` {what}")).hint("write --price NAME=IN,OUT, such as gpt=0.25,2");
        let (name, price) = text.split_once('=').ok_or_else(|| wrong("names no price".to_owned()))?;
        let of_name: Vec<&String> =
            named.iter().copied().filter(|named| named.split_once('=').is_some_and(|(own, _)| own == name)).collect();
        if !kinds(&of_name).1 {
            return Err(wrong(format!("is the price of `{name}`, which is no provider's model here")));
        }
        prices.insert(name, policy::price(price).map_err(wrong)?);
    }
    Ok(prices)
}

/// The model that a text such as `gpt=openai:gpt-5-mini` names. Beside the local ones it is told how many are to be opened yet.
fn model(
    named: &str,
    args: &Args,
    prices: &HashMap<&str, Price>,
    budget: &Arc<Budget>,
    (locals, n_to_open): (&mut Locals, &mut usize),
    context: &Context<'_>,
) -> Result<Model, Failure> {
    let (name, specs) = named.split_once('=').filter(|(name, specs)| !name.is_empty() && !specs.is_empty()).ok_or_else(|| {
        Failure::user(format_args!("`{named}` names no model"))
            .hint("write NAME=local:MODEL, NAME=PROVIDER:MODEL or NAME=URL#MODEL")
    })?;
    let specs: Vec<&str> = specs.split(',').collect();
    // Where another can be asked, trying again at once is for that one.
    let n_attempts_max = if specs.len() > 1 { 1 } else { 3 };
    let retry = Retry { n_attempts_max, base_ms: 250, cap_ms: 4_000 };
    let mut who = |spec: &str| match spec.strip_prefix(LOCAL) {
        Some(model) => {
            let n_concurrent = args.local_conversations.unwrap_or(N_LOCAL_CONVERSATIONS) as usize;
            let n_positions = args.context.unwrap_or(CONTEXT);
            let (voice, config) = policy::voice(model, n_positions, n_concurrent, args.threads, *n_to_open, context)?;
            *n_to_open -= 1;
            let voice = Arc::new(voice);
            locals.insert(name.to_owned(), (Arc::clone(&voice), config));
            Ok(Who::Local(Arc::new(Local::new(voice))))
        }
        None => {
            let price = prices.get(name).copied();
            let client = policy::upstream((name, spec), price, retry, args.max_answer_seconds, budget, context)?;
            Ok(Who::Provider(Arc::new(client)))
        }
    };
    Ok(Model::new(name, specs.into_iter().map(&mut who).collect::<Result<Vec<_>, Failure>>()?))
}

/// The route that a text such as `best=desk,clerk:features` names.
fn route(text: &str, catalogue: &Catalogue) -> Result<Route, Failure> {
    let wrong = |what: &str| {
        Failure::user(format_args!("`{text}` {what}"))
            .hint("write NAME=AGENT,AGENT or, to look at more than the type of task, NAME=AGENT,AGENT:features")
    };
    let (name, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| wrong("names no route"))?;
    let (agents, by) = match rest.rsplit_once(':') {
        None => (rest, RouteBy::Task),
        Some((agents, "task")) => (agents, RouteBy::Task),
        Some((agents, "features")) => (agents, RouteBy::Features),
        Some((_, other)) => return Err(wrong(&format!("wants to be decided by `{other}`, which is neither task nor features"))),
    };
    if catalogue.get(name).is_some() {
        return Err(wrong(&format!("is a route with the name of a model, `{name}`")));
    }
    let agents: Result<Vec<AgentName>, _> = agents.split(',').map(AgentName::new).collect();
    let agents = agents.map_err(|error| wrong(&format!("names no agents: {error}")))?;
    Ok(Route { name: name.to_owned(), agents, by })
}

/// The rule that a text such as `refund=refund|money back` states.
fn task(text: &str) -> Result<TaskRule, Failure> {
    let wrong = || {
        Failure::user(format_args!("`{text}` tells no type of task"))
            .hint("write TASK=WORD|WORD, such as refund=refund|money back")
    };
    let (task, words) = text.split_once('=').ok_or_else(wrong)?;
    let words: Vec<String> = words.split('|').map(str::to_owned).collect();
    if words.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(TaskRule { task: Category::new(task).map_err(|_| wrong())?, words })
}
