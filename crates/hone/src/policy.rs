//! Who plays, by the name that the user gives: `gold`, `local:MODEL`, `openai:gpt-5-mini`, `http://host:8000/v1#model`.

use crate::clock::RealClock;
use crate::context::Context;
use crate::failure::{Failure, at_path};
use crate::model::Opened;
use hone_engine::batch::BatchLimits;
use hone_engine::config::ModelConfig;
use hone_engine::cuda::Answers;
use hone_engine::host::Host;
use hone_engine::load::WeightSource;
use hone_engine::machine::Machine;
use hone_engine::model::{Model, Passes};
use hone_engine::sampler::SamplerOptions;
use hone_env::Player;
use hone_policy::local::{Engine, Local, LocalOptions};
use hone_policy::script::{AfterLast, Script};
use hone_policy::upstream::{
    self, Access, Budget, Client, ClientOptions, Price, Retry, Sampling, Transfer, Upstream, UpstreamSpec,
};
use hone_trace::policy::Policy;
use hone_trace::{AdapterId, Clock};
use std::path::PathBuf;
use std::sync::Arc;

/// How long a provider may ask the gateway to wait. A client that waits for its answer is rather told when to come back, and where
/// several answer under a name, the next one is asked.
const ASKED_MS_MAX: u64 = 5_000;

/// What a model of this machine is named by.
pub(crate) const LOCAL: &str = "local:";

/// How policies sample, and what they may cost.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Policies")]
pub(crate) struct PolicyArgs {
    /// How adventurous answers are; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.7, value_name = "T")]
    temperature: f32,
    /// The longest conversation with a local model in tokens
    #[arg(long, default_value_t = 2048, value_name = "N")]
    context: usize,
    /// A PEFT folder with an adapter for local models
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Stop before this many US dollars are spent at providers
    #[arg(long, value_name = "USD")]
    budget: Option<f64>,
    /// What a provider's million tokens cost in US dollars, read and written, such as 0.25,2
    #[arg(long, value_name = "IN,OUT", value_parser = price)]
    price: Option<Price>,
    /// The most seconds of a provider's answer, with all that is tried again
    #[arg(long, default_value_t = 600, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    max_answer_seconds: u64,
    /// How many threads compute for a local model; without this, all cores
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<usize>())]
    threads: Option<usize>,
    /// Local models that are still to be opened to stay beside one another, this one included: they share the memory.
    #[arg(skip = 1_usize)]
    n_models: usize,
}

impl PolicyArgs {
    /// Those of a model behind the gateway, whose clients say how adventurous it is.
    fn of_gateway(context: usize, threads: Option<usize>) -> Self {
        Self { temperature: 1.0, context, threads, ..Self::of_judge(None) }
    }

    /// Refuses an adapter that none of these policies would have.
    pub(crate) fn check_adapter(&self, policies: &[String]) -> Result<(), Failure> {
        if self.adapter.is_some() && !policies.iter().any(|name| name.starts_with(LOCAL)) {
            return Err(Failure::user("--adapter is for local models, and nobody who plays is one")
                .hint("--policy local:MODEL plays with it"));
        }
        Ok(())
    }

    /// The same for the first of so many local models that stay open beside one another.
    pub(crate) fn first_of(self, n_models: usize) -> Self {
        Self { n_models, ..self }
    }

    /// Those of a judge: no adventure, and no budget of its own.
    pub(crate) fn of_judge(price: Option<Price>) -> Self {
        Self {
            temperature: 0.0,
            context: 4096,
            adapter: None,
            budget: None,
            price,
            max_answer_seconds: 600,
            threads: None,
            n_models: 1,
        }
    }
}

/// Someone who can play, ready to.
pub(crate) enum Ready {
    Gold,
    Random,
    Empty,
    /// A policy, with what its tokens cost where that is known.
    Policy(Box<dyn Policy>, Option<Price>),
}

/// Conversations that a server that samples is asked for at once.
const N_ASKED_AT_ONCE: usize = 256;

/// What policies of one command share.
pub(crate) struct Bank {
    pub(crate) budget: Arc<Budget>,
    runtime: tokio::runtime::Runtime,
}

impl Bank {
    pub(crate) fn open(args: &PolicyArgs) -> Result<Self, Failure> {
        let budget = match args.budget {
            Some(limit) if limit.is_finite() && limit >= 0.0 => Budget::limited(limit),
            Some(limit) => return Err(Failure::user(format_args!("--budget {limit} is not an amount of money"))),
            None => Budget::unlimited(),
        };
        Ok(Self { budget, runtime: upstream::runtime().map_err(Failure::world)? })
    }

    /// What its calls run on.
    pub(crate) fn handle(&self) -> tokio::runtime::Handle {
        self.runtime.handle().clone()
    }
}

/// A server that is asked for a model and loads adapters.
pub(crate) fn server(name: &str, bank: &Bank, context: &Context<'_>) -> Result<Client, Failure> {
    let spec = UpstreamSpec::named(name, variable(context));
    let spec = spec.map_err(|error| Failure::user(error).hint("a server is URL#MODEL or vllm:MODEL"))?;
    // What it costs to run is not counted by its tokens.
    client(spec, &PolicyArgs::of_judge(Some(Price::FREE)), N_ASKED_AT_ONCE, bank, context)
}

impl Ready {
    /// The policy of this name. `n_concurrent` is how many conversations it will hold at once.
    pub(crate) fn named(
        name: &str,
        args: &PolicyArgs,
        n_concurrent: usize,
        bank: &Bank,
        context: &Context<'_>,
    ) -> Result<Self, Failure> {
        match name {
            "gold" => return Ok(Self::Gold),
            "random" => return Ok(Self::Random),
            "empty" => return Ok(Self::Empty),
            _ => {}
        }
        if let Some(path) = name.strip_prefix("script:") {
            let path = PathBuf::from(path);
            let text = std::fs::read_to_string(&path).map_err(at_path(&path))?;
            let script = Script::parse(name, &text, AfterLast::Repeat);
            let script = script.map_err(|error| Failure::user(format_args!("{}: {error}", path.display())))?;
            return Ok(Self::Policy(Box::new(script), None));
        }
        if let Some(model) = name.strip_prefix(LOCAL) {
            return Ok(Self::Policy(Box::new(local(model, args, n_concurrent, context)?.0), None));
        }
        let spec = UpstreamSpec::named(name, variable(context)).map_err(|error| {
            Failure::user(error).hint("policies are gold, random, empty, script:FILE, local:MODEL, PROVIDER:MODEL and URL#MODEL")
        })?;
        let client = Arc::new(client(spec, args, n_concurrent, bank, context)?);
        let sampling = Sampling { temperature: Some(f64::from(args.temperature)), ..Sampling::default() };
        let price = client.price();
        let upstream = Upstream::new(client, sampling, bank.runtime.handle().clone()).map_err(Failure::user)?;
        Ok(Self::Policy(Box::new(upstream), price))
    }

    pub(crate) fn player(&self) -> Player<'_> {
        match self {
            Self::Gold => Player::Gold,
            Self::Random => Player::Random,
            Self::Empty => Player::Empty,
            Self::Policy(policy, _) => Player::Policy(policy.as_ref()),
        }
    }

    /// Whether its answers and times are fixed by the seed.
    pub(crate) fn is_script(&self) -> bool {
        match self {
            Self::Gold | Self::Random | Self::Empty => true,
            Self::Policy(policy, _) => policy.config().model.as_ref().is_some_and(|model| model.starts_with("script:")),
        }
    }

    pub(crate) fn policy(&self) -> Option<&dyn Policy> {
        match self {
            Self::Policy(policy, _) => Some(policy.as_ref()),
            _ => None,
        }
    }

    /// What its tokens cost; `None` where that is not known, or nothing.
    pub(crate) fn price(&self) -> Option<Price> {
        match self {
            Self::Policy(_, price) => price.filter(|price| *price != Price::FREE),
            _ => None,
        }
    }
}

fn local(
    model: &str,
    args: &PolicyArgs,
    n_concurrent: usize,
    context: &Context<'_>,
) -> Result<(Local<Machine>, ModelConfig), Failure> {
    let sampler = SamplerOptions { temperature: args.temperature, ..SamplerOptions::default() };
    let opened = Opened::named(model, context)?;
    if !opened.has_template {
        return Err(Failure::user(format_args!("{} has no chat template: it was not made for conversations", opened.name))
            .hint("take the model's instruct version"));
    }
    let n_positions = args.context.min(opened.weights.config().context_len);
    let answers = if args.adapter.is_some() { Answers::Many } else { context.settings.answers };
    let backend = crate::device::open(args.threads, answers, context)?;
    let n_sequences_max = n_concurrent.clamp(1, 256);
    let n_pages = n_sequences_max * (n_positions / hone_engine::layout::PAGE + 1) + 16;
    let limits = BatchLimits { n_pages, n_sequences_max, ..BatchLimits::default() };
    let config = opened.weights.config();
    let (limits, grant) = crate::device::sampling(&backend, config, limits, args.n_models, context.printer)?;
    let weights = Model::load(&backend, &opened.weights, n_positions, Passes::Forward).map_err(Failure::world)?;
    let mut host = Host::new(backend, weights, limits);
    let adapter = args.adapter.as_ref().map(|folder| opened.adapter(folder).map(|weights| (folder, weights))).transpose()?;
    let adapter = match adapter {
        Some((folder, weights)) => {
            let file = folder.join("adapter_model.safetensors");
            let id = AdapterId::of(&std::fs::read(&file).map_err(at_path(&file))?);
            Some((host.load(&weights), id))
        }
        None => None,
    };
    let engine = Engine::start_with(host, grant).map_err(Failure::world)?;
    let mut options = LocalOptions::new(opened.name.clone(), opened.stop_ids.clone(), n_positions);
    (options.sampler, options.adapter) = (sampler, adapter);
    options.now = Some(crate::clock::now());
    options.clock = Some(Arc::new(RealClock) as Arc<dyn Clock>);
    let config = opened.weights.config().clone();
    Ok((Local::new(engine, Arc::new(opened.renderer), options).map_err(Failure::user)?, config))
}

/// A model of this process behind the gateway, for so many conversations at once, and what adapters for it must fit. It is the first of
/// `n_models` that are to be opened.
pub(crate) fn voice(
    model: &str,
    n_positions: usize,
    n_concurrent: usize,
    threads: Option<usize>,
    n_models: usize,
    context: &Context<'_>,
) -> Result<(Local<Machine>, ModelConfig), Failure> {
    local(model, &PolicyArgs::of_gateway(n_positions, threads).first_of(n_models), n_concurrent, context)
}

/// A provider's model behind the gateway, under the name that clients ask for. Calls wait for nobody here: the gateway says how many there may be.
pub(crate) fn upstream(
    (name, spec): (&str, &str),
    price: Option<Price>,
    retry: Retry,
    max_answer_seconds: u64,
    budget: &Arc<Budget>,
    context: &Context<'_>,
) -> Result<Client, Failure> {
    let spec = UpstreamSpec::named(spec, variable(context))
        .map_err(|error| Failure::user(error).hint("write PROVIDER:MODEL or URL#MODEL"))?;
    let access = Access::to(&spec, &context.settings.keys, variable(context)).map_err(Failure::user)?;
    let options = ClientOptions {
        transfer: Transfer::Plain,
        retry,
        asked_ms_max: ASKED_MS_MAX,
        n_concurrent_max: usize::MAX,
        // A client waits for its answer as long as it was told, whether the first byte takes that long or the last.
        total_ms: max_answer_seconds * 1000,
        total_set_by: "--max-answer-seconds",
        attempt_ms: max_answer_seconds * 1000,
        idle_ms: max_answer_seconds * 1000,
        price,
        budget: Some(Arc::clone(budget)),
        clock: Some(Arc::new(RealClock)),
        ..ClientOptions::default()
    };
    Client::new(spec, access, options)
        .map_err(|error| Failure::user(error).hint(format!("say what it costs with --price {name}=IN,OUT")))
}

fn client(
    spec: UpstreamSpec,
    args: &PolicyArgs,
    n_concurrent: usize,
    bank: &Bank,
    context: &Context<'_>,
) -> Result<Client, Failure> {
    if args.adapter.is_some() {
        return Err(Failure::user("--adapter is for local models, and has no effect at a provider"));
    }
    let access = Access::to(&spec, &context.settings.keys, variable(context)).map_err(Failure::user)?;
    let options = ClientOptions {
        n_concurrent_max: n_concurrent.max(1),
        total_ms: args.max_answer_seconds * 1000,
        price: args.price,
        budget: Some(Arc::clone(&bank.budget)),
        clock: Some(Arc::new(RealClock)),
        ..ClientOptions::default()
    };
    Client::new(spec, access, options).map_err(|error| Failure::user(error).hint("prices are given with --price IN,OUT"))
}

/// Looks up what providers customarily keep in the environment: addresses, regions and keys.
fn variable<'a>(context: &'a Context<'_>) -> impl Fn(&str) -> Option<String> + 'a {
    |name| context.variables.get(name)?.to_str().map(str::to_owned)
}

/// Prices as a user writes them.
pub(crate) fn price(text: &str) -> Result<Price, String> {
    let numbers: Vec<f64> = text.split(',').map(|part| part.trim().parse().unwrap_or(f64::NAN)).collect();
    let price = match numbers[..] {
        [input, output] => Price { input, output, cached: input, cache_write: None },
        [input, output, cached] => Price { input, output, cached, cache_write: None },
        _ => return Err("two or three prices are given: read, written, read from a cache".into()),
    };
    if price.is_sound() { Ok(price) } else { Err("prices are dollars per million tokens, none below 0".into()) }
}
