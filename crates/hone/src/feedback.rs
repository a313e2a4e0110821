//! `hone loop`: the main job on the embedded default. An agent's traces in, a better agent out, on a bare laptop.
//!
//! A script at a service desk talks too much and shuns its tools. A model of less than a million parameters, made from nothing, reads
//! the desk's manual and imitates the script: that is the first agent, v0. It serves customers through the arbiter, over HTTP. What it
//! does is recorded and weighed, gated and prepared; an adapter imitates the best of it and then outgrows it by GRPO. Whether it is
//! better is said by tasks that nobody trained on; then live traffic is handed over to it on evidence, and a damaged one is taken back.

mod arbiter;
mod client;
mod ground;
mod handover;
mod journal;
mod lesson;
mod report;
mod school;
mod team;
mod traffic;

pub(crate) use ground::{ADAM, Ground};
pub(crate) use lesson::{Lesson, Step, permute};
pub(crate) use report::{CategoryGain, Line};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::gym::{flat, solved};
use crate::model::Opened;
use arbiter::Arbiter;
use client::Client;
use handover::{Ended, HandOver, Handed};
use hone_data::gate::Purpose;
use hone_data::prepare::Plan;
use hone_engine::lora::LoraWeights;
use hone_engine::peft;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_eval::{Episode, Measures};
use hone_policy::upstream::Price;
use hone_reward::Recipe;
use hone_store::Database;
use hone_trace::store::{Document, Put, Write};
use hone_trace::{AdapterId, AgentName, BlobHash, Config, Draws, Time, Trace, TraceId};
use hone_train::loss::Method;
use hone_train::settings::Given;
use journal::{BEGIN, END, Journal};
use report::{Measured, Report, Verdict};
use school::{Batch, School, Trained};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use traffic::{Reporting, Ticket, Traffic};

/// Run the whole loop on a small agent, from traces to a better one in service
///
/// Takes a few minutes on two cores, and needs no model, no GPU, no key and no server. A first agent serves customers through an arbiter
/// of its own; what it did becomes data, an adapter is trained on it, measured on held-out tasks, rolled out by a canary on live
/// traffic, and a damaged one is rolled back. Everything is recorded. Exit code 1 when the new agent is not better, or not deployed.
#[derive(Debug, Clone, PartialEq, clap::Args, Serialize, Deserialize)]
pub(crate) struct Args {
    /// The seed of everything
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Make the agent of this model, by its name or path, instead of one made from nothing: it learns from the script by an adapter
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Take the traffic of this agent, as `hone serve` or OpenTelemetry recorded it, instead of the embedded world
    ///
    /// Its traces are weighed by `[reward.AGENT]`, or have what was reported; those of some families are held out. The model of the
    /// version that serves is trained, or --model. What is better gets a canary, which `hone serve` decides by live traffic.
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["traces", "pages", "episodes", "client", "control", "rate"])]
    agent: Option<AgentName>,
    /// Practise in this world, such as the URL of one of your own, instead of replays of the agent's traces
    #[arg(long, value_name = "WORLD", requires = "agent")]
    env: Option<String>,
    /// Who judges, where the recipe of the agent asks for one: local:MODEL, PROVIDER:MODEL, URL#MODEL or script:FILE
    #[arg(long, value_name = "POLICY", requires = "agent")]
    judge: Option<String>,
    /// What a million tokens of the judge cost in US dollars, read and written, such as 0.25,2
    #[arg(long, value_name = "IN,OUT", requires = "judge", value_parser = crate::policy::price)]
    judge_price: Option<Price>,
    /// Steps of GRPO
    #[arg(long, default_value_t = N_LOOP_STEPS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Episodes of the script that the first agent imitates
    #[arg(long, default_value_t = N_TRACES, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    traces: u32,
    /// Pages of the desk's manual, for a model made from nothing
    #[arg(long, default_value_t = N_LOOP_PAGES, value_name = "N", conflicts_with = "model", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pages: u32,
    /// Episodes of the agent that a turn learns from
    #[arg(long, default_value_t = 6000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    episodes: u32,
    /// Held-out tasks that every policy is measured on
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=10_000))]
    tasks: u32,
    /// A program that asks the agent in place of hone's own client: it reads {"id", "headers", "body"} and writes {"id", "message"},
    /// a line each, and finds the arbiter in OPENAI_BASE_URL
    #[arg(long, value_name = "COMMAND")]
    client: Option<String>,
    /// Give every reward to somebody else: nothing should be learned, and nothing deployed
    #[arg(long)]
    control: bool,
    /// Keep learning: turn after turn, each from where the last one ended, once there is enough new data or it is time
    #[arg(long)]
    watch: bool,
    /// Days after which a turn begins with what data there is
    #[arg(long, default_value_t = 7.0, value_name = "DAYS", requires = "watch")]
    every: f64,
    /// Customers a second while it waits for data
    #[arg(long, default_value_t = 1.0, value_name = "N", requires = "watch")]
    rate: f64,
    /// Stop after so many turns; without this, never
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    /// Go on with the last loop where it was killed, with the options that it had
    #[arg(long, conflicts_with_all = ["seed", "model", "env", "judge", "steps", "traces", "pages", "episodes", "tasks", "client", "control", "watch"])]
    #[serde(skip)]
    resume: bool,
    /// How many threads compute; without this, all cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    #[serde(skip)]
    threads: Option<u16>,
}

/// What a run has when nothing else is said: traces of the script, pages of its manual, steps of GRPO.
pub(crate) const N_TRACES: u32 = 8000;
pub(crate) const N_PAGES: u32 = 100_000;
pub(crate) const N_STEPS: u32 = 100;
/// The same of a loop, in which an adapter is trained.
const N_LOOP_PAGES: u32 = 60_000;
const N_LOOP_STEPS: u32 = 100;
/// Learning rates of the manual and of imitation.
pub(crate) const MANUAL_LR: f32 = 3e-3;
pub(crate) const IMITATION_LR: f32 = 1e-3;
/// The most traces of a batch.
const N_POINTS_MAX: usize = 10_000;
/// What loops of the embedded world, and their agents, are called.
const NAME: &str = "desk";
/// Where the agent is trained.
const WORLD: &str = "desk:short";
/// How its episodes are weighed, unless `[reward.desk]` says otherwise: solved with few words.
const RECIPE: &str = r#"components = [
    { name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1.0, role = "primary" },
    { name = "process", kind = "process", weight = 1.0, role = "secondary" },
    { name = "format", kind = "format", weight = 0.1, role = "secondary" },
    { name = "length", kind = "length", free_tokens = 30, per_token = 0.005, cost_max = 0.3, weight = 1.0, role = "penalty" },
]"#;
/// The deviation of the noise that a damaged adapter has on its weights.
const DAMAGE: f32 = 0.5;
/// Tickets that are set aside for a turn.
const N_TICKETS_TURN: usize = 1_000_000;
/// The longest conversation with a model that was not made here, in tokens.
const CONTEXT_LEN: usize = 512;

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    args.check()?;
    if let Some(agent) = &args.agent {
        return team::run(args, agent, context);
    }
    let context = &weighing(context)?;
    let runtime = &tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Failure::world)?;
    let mut journal = Journal::open(NAME, args.resume, runtime, context)?;
    let args = &Args { resume: args.resume, threads: args.threads, ..journal.stage(BEGIN, || Ok(args.clone()))? };
    let mut turn = Turn::new(args, &journal.name, runtime, context)?;
    let first = journal.stage("agent", || turn.first_agent())?;
    let mut arbiter = turn.arbiter(&first.model)?;
    turn.say(
        "serve",
        &format!("{} answers as {}, and {}/dashboard shows what is on the record", arbiter.url, turn.name, arbiter.url),
    );
    let traffic = turn.traffic(&arbiter)?;
    turn.standing = first.standing.clone();
    loop {
        let exit = go_round(&mut turn, &first, &mut arbiter, &traffic, &mut journal)?;
        if !args.watch || args.turns.is_some_and(|turns| turn.number >= turns) {
            return Ok(exit);
        }
        turn.number += 1;
    }
}

/// One turn of the loop: every stage is written down when it ends, and not done again.
fn go_round(
    turn: &mut Turn<'_>,
    first: &First,
    arbiter: &mut Arbiter<'_>,
    traffic: &Traffic,
    journal: &mut Journal<'_>,
) -> Result<Exit, Failure> {
    let stage = |name: &str| if turn.number == 1 { name.to_owned() } else { format!("{}/{name}", turn.number) };
    let told = journal.stage(&stage("trace"), || turn.collect(first, arbiter, traffic))?; // trace → reward
    let batch = journal.stage(&stage("data"), || turn.prepare(&turn.pool(&told)?))?; // data
    let Some(batch) = batch else { return refused(turn.context) };
    journal.stage(&stage("warm_up"), || turn.warm_up(arbiter, &batch))?; // train
    let trained = journal.stage(&stage("train"), || turn.practise(arbiter))?;
    let measured = journal.stage(&stage("eval"), || turn.measure(arbiter, &trained))?; // eval
    let mut deployed = Deployed::nothing();
    if measured.verdict == Verdict::Better && trained.is_well && !turn.args.control {
        deployed = journal.stage(&stage("deploy"), || turn.deploy(first, arbiter, traffic, &trained))?; // deploy
        deployed.drill = journal.stage(&stage("drill"), || turn.drill(first, arbiter, traffic, &trained))?;
    }
    arbiter.said().iter().for_each(|text| turn.context.printer.complain(text));
    let report = Report {
        name: &turn.name,
        model: &first.model,
        turn: turn.number,
        seconds: turn.began.elapsed().as_secs_f64(),
        world_hash: first.world_hash,
        measured: &measured,
        canary: deployed.canary.ended,
        drill: deployed.drill.ended,
        adapter: deployed.adapter,
        n_retokenized: told.n_retokenized,
        control: turn.args.control,
    };
    journal.stage(&stage(END), || Ok(report.is_success()))?;
    report.print(turn.context.printer)?;
    let exit = if report.is_success() { Exit::Yes } else { Exit::No };
    if deployed.canary.ended == Ended::Promoted {
        let run = Some(turn.school().run("grpo"));
        turn.standing = Standing { version: turn.version(), adapter: Some(trained.folder), run };
    }
    Ok(exit)
}

impl Args {
    fn check(&self) -> Result<(), Failure> {
        for (flag, value) in [("--every", self.every), ("--rate", self.rate)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Failure::user(format_args!("{flag} {value} is not above 0")));
            }
        }
        Ok(())
    }
}

/// The gates have said why.
fn refused(context: &Context<'_>) -> Result<Exit, Failure> {
    if context.printer.wants_json() {
        context.printer.json(&json!({"verdict": "refused"}))?;
    }
    Ok(Exit::No)
}

/// The same context with a recipe for the desk, where the user has none.
fn weighing<'a>(context: &Context<'a>) -> Result<Context<'a>, Failure> {
    let mut settings = context.settings.clone();
    if !settings.rewards.contains_key("desk") {
        let recipe = Recipe { name: "desk".into(), ..Recipe::parse(RECIPE).map_err(Failure::bug)? };
        settings.rewards.insert("desk".into(), recipe);
    }
    Ok(Context { settings, printer: context.printer, variables: context.variables })
}

/// The first agent.
#[derive(Debug, Serialize, Deserialize)]
struct First {
    /// The model that all versions are made of.
    model: String,
    standing: Standing,
    /// What was there before anything was trained.
    world_hash: BlobHash,
}

/// The version that serves.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Standing {
    version: String,
    /// The folder of its adapter, and the run that made it; a model made here for the purpose has neither.
    adapter: Option<PathBuf>,
    run: Option<String>,
}

/// What was collected.
#[derive(Debug, Serialize, Deserialize)]
struct Collected {
    n: usize,
    /// Turns of it, and those whose tokens are not the ones that were sampled.
    n_turns: usize,
    n_retokenized: usize,
    /// Episodes that were cut off once, by their number, and how often.
    again: BTreeMap<usize, u32>,
}

/// Episodes on the record, by their numbers.
#[derive(Debug, Default)]
struct Begun {
    /// Those of which somebody said how they went.
    ended: BTreeSet<usize>,
    /// Those that were cut off, and how often.
    again: BTreeMap<usize, u32>,
}

/// What was deployed.
#[derive(Debug, Serialize, Deserialize)]
struct Deployed {
    adapter: Option<AdapterId>,
    canary: Handed,
    #[serde(skip, default = "Handed::not_started")]
    drill: Handed,
}

impl Deployed {
    fn nothing() -> Self {
        Self { adapter: None, canary: Handed::not_started(), drill: Handed::not_started() }
    }
}

/// One turn of the loop.
struct Turn<'a> {
    args: &'a Args,
    context: &'a Context<'a>,
    runtime: &'a Runtime,
    store: Arc<dyn Database>,
    ground: Ground,
    name: String,
    agent: AgentName,
    /// Counted from 1.
    number: u32,
    standing: Standing,
    began: Instant,
}

impl<'a> Turn<'a> {
    fn new(args: &'a Args, name: &str, runtime: &'a Runtime, context: &'a Context<'a>) -> Result<Self, Failure> {
        let ground = Ground::new(args.seed, args.tasks as usize, context)?.verbose();
        let agent = AgentName::new(name).map_err(Failure::bug)?;
        let store = runtime.block_on(context.store())?;
        let (name, standing, began) = (name.to_owned(), Standing::default(), Instant::now());
        Ok(Self { args, context, runtime, store, ground, name, agent, number: 1, standing, began })
    }

    /// What the version is called that this turn makes.
    fn version(&self) -> String {
        format!("v{}", self.number)
    }

    /// What batches and runs of this turn are called by.
    fn called(&self) -> String {
        if self.number == 1 { self.name.clone() } else { format!("{}-{}", self.name, self.number) }
    }

    fn say(&self, stage: &str, text: &str) {
        self.context.printer.say(&format!("{:>4.0} s  {stage:<7} {text}", self.began.elapsed().as_secs_f64()));
    }

    /// An agent that does what the script does, only worse.
    fn first_agent(&self) -> Result<First, Failure> {
        let (config, played) = self.ground.demonstrations(self.args.traces as usize)?;
        let world_hash = self.ground.hash(&played)?;
        self.record(&config, &played)?;
        let n_solved = 100.0 * solved(&played);
        self.say("agent", &format!("{} episodes of the legacy script, {n_solved:.0} % of them solved", played.len()));
        let traces = flat(played);
        let version = "v0".to_owned();
        let (model, adapter, run) = match &self.args.model {
            None => (self.made_from_nothing(&traces)?, None, None),
            Some(model) => {
                let school = School { name: format!("{}-v0", self.name), ..self.school() };
                // All of it: who imitates does not choose.
                let given = Given { quality_min: Some(f64::MIN), ..self.given() };
                let trained = school.imitate(model, &traces, None, &given)?;
                self.say("agent", &format!("{model} imitated the script by an adapter: this is v0"));
                (model.clone(), Some(trained.folder), Some(school.run("sft")))
            }
        };
        Ok(First { model, standing: Standing { version, adapter, run }, world_hash })
    }

    /// A model that knows the manual and imitates the script.
    fn made_from_nothing(&self, traces: &[Trace]) -> Result<String, Failure> {
        let mut learner = self.ground.learner(self.threads())?;
        let pages = self.ground.manual(self.args.pages as usize)?;
        let bar = self.context.printer.count_bar("steps of reading");
        let tick = |_, _| bar.inc(1);
        // Reading is the longest part of a loop: who is killed meanwhile does not begin anew.
        let kept = self.context.settings.folder.join("reading").join(&self.name);
        let read = learner.imitate_durably(&pages, MANUAL_LR, &kept.join("manual"), tick)?;
        self.say("agent", &format!("read {} pages of the manual, {} tokens, loss {:.3}", pages.len(), read.n_tokens, read.loss));
        let told = learner.imitate_durably(traces, IMITATION_LR, &kept.join("script"), tick)?;
        bar.finish_and_clear();
        self.say("agent", &format!("imitated the script, {} tokens, loss {:.3}: this is v0", told.n_tokens, told.loss));
        let model = format!("{}-v0", self.name);
        learner.keep(&model, self.context)?;
        // What cannot be removed only takes room.
        let _ = std::fs::remove_dir_all(&kept);
        Ok(model)
    }

    fn threads(&self) -> Option<usize> {
        self.args.threads.map(usize::from)
    }

    fn arbiter(&self, model: &str) -> Result<Arbiter<'a>, Failure> {
        Arbiter::open(model, self.context_len(), self.threads(), &self.store, self.runtime, self.context)
    }

    /// The longest conversation in tokens.
    fn context_len(&self) -> usize {
        if self.args.model.is_some() { CONTEXT_LEN } else { self.ground.lengths().1 }
    }

    fn traffic(&self, arbiter: &Arbiter<'_>) -> Result<Traffic, Failure> {
        Ok(Traffic {
            http: reqwest::Client::builder().no_proxy().build().map_err(Failure::world)?,
            client: self.args.client.as_deref().map(|command| Client::start(command, &arbiter.url)).transpose()?,
            url: arbiter.url.clone(),
            agent: self.agent.clone(),
            env: Arc::new(self.ground.desk.clone()),
            answer_tokens_max: self.ground.lengths().0,
            seed: self.args.seed,
            pause: Duration::ZERO,
        })
    }

    fn hand_over<'t>(&'t self, traffic: &'t Traffic) -> HandOver<'t> {
        let Self { context, runtime, store, agent, .. } = self;
        HandOver { context, runtime, store, agent: agent.clone(), traffic }
    }

    fn school(&self) -> School<'_> {
        let Self { context, runtime, store, args, .. } = self;
        School { context, runtime, store, name: self.called(), threads: args.threads }
    }

    /// The agent at work: customers bring their tickets to the arbiter, and say how it went.
    fn collect(&self, first: &First, arbiter: &Arbiter<'_>, traffic: &Traffic) -> Result<Collected, Failure> {
        if self.number == 1 {
            self.add(&self.standing, first, traffic)?;
            self.runtime.block_on(traffic.wait())?;
        }
        let n = self.args.episodes as usize;
        let Begun { ended, again } = if self.args.resume { self.runtime.block_on(self.begun(n))? } else { Begun::default() };
        let from = N_TICKETS_TURN * (self.number as usize - 1);
        let tickets = self.ground.tickets(from, n)?.into_iter().enumerate().filter(|(idx, _)| !ended.contains(idx));
        let tickets: Vec<Ticket> =
            tickets.map(|(idx, scenario)| Ticket { episode: self.episode(idx, &again), scenario }).collect();
        let bar = self.context.printer.count_bar("episodes");
        let seen = || bar.inc(1);
        let is_waiting = self.number > 1;
        if self.args.control {
            self.runtime.block_on(self.misreport(traffic, tickets, seen))?;
        } else if is_waiting {
            let days = Duration::from_secs_f64(86_400.0 * self.args.every);
            let slow = Traffic { pause: Duration::from_secs_f64(1.0 / self.args.rate), ..traffic.clone() };
            self.say("watch", &format!("waits for {} more episodes, or for {:.2} days", tickets.len(), self.args.every));
            let brought = slow.bring(tickets, Reporting::AtOnce, seen);
            // Whoever is underway when the time is over is not waited for.
            let _ = self.runtime.block_on(async { tokio::time::timeout(days, brought).await }).ok().transpose()?;
        } else {
            self.runtime.block_on(traffic.bring(tickets, Reporting::AtOnce, seen)).map(drop)?;
        }
        bar.finish_and_clear();
        let mut told = Collected { n, again, n_turns: 0, n_retokenized: 0 };
        for trace in self.collected(&told)? {
            told.n_turns += trace.turns().count();
            told.n_retokenized += n_retokenized(&trace);
        }
        let Collected { n_turns, n_retokenized, .. } = told;
        let way = format!("episodes of {} through {}, each durable and reported on", self.standing.version, arbiter.url);
        self.say("trace", &format!("{n} {way}: {n_turns} turns, {n_retokenized} of them tokenized again"));
        Ok(told)
    }

    /// Adds a version to the agent.
    fn add(&self, version: &Standing, first: &First, traffic: &Traffic) -> Result<Option<AdapterId>, Failure> {
        let hand_over = self.hand_over(traffic);
        let base = || Opened::named(&first.model, self.context);
        let adapter = version.adapter.as_ref().map(|folder| hand_over.keep(folder, &base()?)).transpose()?;
        hand_over.add(&version.version, &first.model, adapter)?;
        Ok(adapter)
    }

    /// Customers who say of their episode how somebody else's went.
    async fn misreport(&self, traffic: &Traffic, tickets: Vec<Ticket>, seen: impl FnMut()) -> Result<(), Failure> {
        let names: Vec<String> = tickets.iter().map(|ticket| ticket.episode.clone()).collect();
        let mut solved = traffic.bring(tickets, Reporting::Later, seen).await?;
        Draws::new(self.args.seed, &["control"]).shuffle(&mut solved);
        for (name, is_solved) in names.iter().zip(solved) {
            traffic.report(name, is_solved).await?;
        }
        Ok(())
    }

    /// The name of an episode; one that was cut off begins anew under another.
    fn episode(&self, idx: usize, again: &BTreeMap<usize, u32>) -> String {
        match again.get(&idx) {
            Some(n) => format!("{}-{idx}-again-{n}", self.called()),
            None => format!("{}-{idx}", self.called()),
        }
    }

    /// Episodes that a loop that was killed has on the record.
    async fn begun(&self, n: usize) -> Result<Begun, Failure> {
        let mut begun = Begun::default();
        for idx in 0..n {
            while let Some(trace) = self.store.trace(self.trace_id(&self.episode(idx, &begun.again))).await? {
                if !trace.rewards.is_empty() {
                    begun.ended.insert(idx);
                    break;
                }
                *begun.again.entry(idx).or_default() += 1;
            }
        }
        Ok(begun)
    }

    fn trace_id(&self, episode: &str) -> TraceId {
        TraceId::derived(&["episode", self.context.settings.tenant.as_str(), episode])
    }

    /// Episodes of the agent that somebody reported on; those that did not come in time are no part of it.
    fn collected(&self, collected: &Collected) -> Result<Vec<Trace>, Failure> {
        self.runtime.block_on(async {
            let mut traces = Vec::with_capacity(collected.n);
            for idx in 0..collected.n {
                let id = self.trace_id(&self.episode(idx, &collected.again));
                traces.extend(self.store.trace(id).await?.filter(|trace| !trace.rewards.is_empty()));
            }
            Ok(traces)
        })
    }

    /// What there is to learn from: the script's episodes and those of the agent.
    fn pool(&self, collected: &Collected) -> Result<Vec<Trace>, Failure> {
        let mut pool = flat(self.ground.demonstrations(self.args.traces as usize)?.1);
        if self.args.control {
            let mut rewards: Vec<_> = pool.iter_mut().map(|trace| std::mem::take(&mut trace.rewards)).collect();
            Draws::new(self.args.seed, &["control", "script"]).shuffle(&mut rewards);
            for (trace, mut rewards) in pool.iter_mut().zip(rewards) {
                // A turn of one trace may be none of another's.
                rewards.retain(|reward| reward.turn_idx.is_none());
                trace.rewards = rewards;
            }
        }
        pool.extend(self.collected(collected)?);
        let (pool, left_out) = self.school().curate(pool);
        let left_out: Vec<String> = left_out.iter().map(|(why, n)| format!("{n} left out: {why}")).collect();
        self.say("data", &format!("a pool of {} episodes; {}", pool.len(), left_out.join(", ")));
        Ok(pool)
    }

    /// A batch of the best of the pool; none where the gates refuse it.
    fn prepare(&self, pool: &[Trace]) -> Result<Option<Batch>, Failure> {
        let school = self.school();
        if !school.is_fit(pool, &self.ground.to_hold_out()?, |text| self.say("gate", text))? {
            return Ok(None);
        }
        // What it reports by are tasks that are in no trace at all.
        let plan = Plan { seed: self.args.seed, points_max: N_POINTS_MAX, validation: 0.0, test: 0.0 };
        let batch = school.prepare(Purpose::Sft, pool, self.ground.to_hold_out()?, plan)?;
        self.say("data", &format!("{} traces worth imitating in {}", batch.n_traces, batch.folder.display()));
        Ok(Some(batch))
    }

    /// What all training of this loop has in common.
    fn given(&self) -> Given {
        Given { seed: Some(self.args.seed), context: u32::try_from(self.context_len()).ok(), ..Given::default() }
    }

    fn warm_up(&self, arbiter: &Arbiter<'_>, batch: &Batch) -> Result<Trained, Failure> {
        // In a control the batch was chosen by the rewards of others, and what each earned itself is not asked again.
        let quality_min = if self.args.control { f64::MIN } else { 0.5 };
        let given = Given { quality_min: Some(quality_min), lr: self.small(1e-3), ..self.given() };
        let trained = self.school().warm_up(arbiter.model(), batch, self.standing.run.as_deref(), &given)?;
        self.say("train", &format!("SFT on {} traces: {}", batch.n_traces, trained.why));
        Ok(trained)
    }

    fn practise(&self, arbiter: &Arbiter<'_>) -> Result<Trained, Failure> {
        let is_small = self.args.model.is_none();
        let given = Given {
            steps: Some(self.args.steps),
            scenarios: is_small.then_some(32),
            samples: is_small.then_some(8),
            answer_tokens: u32::try_from(self.ground.lengths().0).ok(),
            lr: self.small(3e-3),
            loss: Some(Method::Dapo),
            deviation_min: Some(0.05),
            validate_every: is_small.then_some(20),
            validation: is_small.then_some(200),
            ..self.given()
        };
        let trained = self.school().practise(arbiter.model(), WORLD, &given, self.args.control, None)?;
        self.say("train", &format!("GRPO: {}", trained.why));
        Ok(trained)
    }

    /// A learning rate for a model made from nothing; others have the usual one.
    fn small(&self, lr: f64) -> Option<f64> {
        self.args.model.is_none().then_some(lr)
    }

    /// The script, the agent before and the agent after on tasks that nobody trained on, by the engine that serves them.
    fn measure(&self, arbiter: &Arbiter<'_>, trained: &Trained) -> Result<Measured, Failure> {
        let script = self.ground.measure_agent()?;
        let before = self.measure_version(&self.standing.version, self.standing.adapter.as_deref(), arbiter)?;
        let after = self.measure_version(&self.version(), Some(&trained.folder), arbiter)?;
        Ok(Measured::new(Some(script), before, after))
    }

    fn measure_version(&self, version: &str, adapter: Option<&Path>, arbiter: &Arbiter<'_>) -> Result<Line, Failure> {
        let Some(folder) = adapter else { return self.measure_one(version, Player::Policy(&*arbiter.voice)) };
        let weights = peft::load(folder, &arbiter.config).map_err(Failure::world)?;
        let id = AdapterId::of(peft::hash(&arbiter.config, &weights).as_bytes());
        let voice = arbiter.voice.with_adapter(weights, id).map_err(Failure::bug)?;
        self.measure_one(version, Player::Policy(&voice))
    }

    fn measure_one(&self, name: &str, player: Player<'_>) -> Result<Line, Failure> {
        let (line, played) = self.ground.measure(name, player)?;
        self.record(&player.config(), &played)?;
        let episodes: Vec<Episode> =
            played.iter().flat_map(|played| &played.traces).map(|trace| Episode::of(trace, None)).collect();
        let measures = Measures::of(&episodes);
        self.runtime.block_on(crate::eval::report(&player.config(), WORLD, &measures, self.context))?;
        self.say("eval", &format!("{name}: {:.1} % of {} held-out tasks solved", 100.0 * line.completion, self.args.tasks));
        Ok(line)
    }

    /// Hands live traffic over to the new version, on evidence.
    fn deploy(&self, first: &First, arbiter: &Arbiter<'_>, traffic: &Traffic, trained: &Trained) -> Result<Deployed, Failure> {
        let version = Standing { version: self.version(), adapter: Some(trained.folder.clone()), run: None };
        let adapter = self.add(&version, first, traffic)?;
        let canary = self.canary(traffic, &version.version, self.args.episodes as usize)?;
        let told = format!("after {} episodes through {}: {}", canary.n_episodes, arbiter.url, canary.why);
        self.say("deploy", &format!("{} {told}", version.version));
        Ok(Deployed { adapter, canary, drill: Handed::not_started() })
    }

    /// Deploys a damaged adapter: it must be taken back.
    fn drill(&self, first: &First, arbiter: &Arbiter<'_>, traffic: &Traffic, trained: &Trained) -> Result<Handed, Failure> {
        let folder = self.context.settings.folder.join("drills").join(self.called());
        let mut weights = peft::load(&trained.folder, &arbiter.config).map_err(Failure::world)?;
        damage(&mut weights, self.args.seed);
        peft::save(&folder, &arbiter.config, &weights, &first.model).map_err(Failure::world)?;
        let version = Standing { version: format!("{}-drill", self.version()), adapter: Some(folder), run: None };
        self.add(&version, first, traffic)?;
        let handed = self.canary(traffic, &version.version, 2 * self.args.episodes as usize)?;
        self.say("drill", &format!("a damaged adapter after {} episodes: {}", handed.n_episodes, handed.why));
        Ok(handed)
    }

    /// A canary whose customers bring tickets from this number on.
    fn canary(&self, traffic: &Traffic, version: &str, from: usize) -> Result<Handed, Failure> {
        let from = N_TICKETS_TURN * (self.number as usize - 1) + from;
        let tickets = |n_before, n| self.ground.tickets(from + n_before, n);
        self.hand_over(traffic).hand_over(version, tickets, |text| self.say("canary", &format!("{version}: {text}")))
    }

    fn record(&self, config: &Config, all: &[Played]) -> Result<(), Failure> {
        const N_WRITES: usize = 1000;
        let tenant = &self.context.settings.tenant;
        let document = Write::Document(Document::of(config, 0, tenant.clone(), Time::from_unix_nanos(0)));
        let writes: Vec<Write> = [document].into_iter().chain(all.iter().cloned().flat_map(crate::play::writes)).collect();
        let mut n_conflicts = 0;
        for part in writes.chunks(N_WRITES) {
            let puts = self.runtime.block_on(self.store.put(part.to_vec()))?;
            n_conflicts += puts.into_iter().filter(|put| *put == Put::Conflict).count();
        }
        if n_conflicts > 0 {
            let text = format!("{n_conflicts} records were there already with other times, and stayed as they were");
            self.context.printer.say(&text);
        }
        Ok(())
    }
}

/// Turns of a trace that cannot be trained as they were sampled: their tokens are unknown, or do not extend those before.
fn n_retokenized(trace: &Trace) -> usize {
    let turns = trace.segments.iter().enumerate().flat_map(|(idx, segment)| segment.turns.iter().map(move |turn| (idx, turn)));
    turns.filter(|(idx, turn)| *idx > 0 || turn.sampled.is_none()).count()
}

/// Puts noise on an adapter, so that what it says is worthless.
fn damage(weights: &mut LoraWeights, seed: u64) {
    let mut draws = Draws::new(seed, &["damage"]);
    for matrix in weights.matrices.values_mut() {
        matrix.iter_mut().for_each(|weight| *weight += DAMAGE * draws.normal() as f32);
    }
}
