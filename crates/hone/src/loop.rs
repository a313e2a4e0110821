//! `hone loop`: the main job on the embedded default. An agent's traces in, a better agent out, on a bare laptop.
//!
//! A script at a service desk talks too much and shuns its tools. A model of less than a million parameters, made from nothing, reads
//! the desk's manual and imitates the script: that is the first agent, v0. It serves customers through the arbiter, over HTTP. What it
//! does is recorded and weighed, gated and prepared; an adapter imitates the best of it and then outgrows it by GRPO. Whether it is
//! better is said by tasks that nobody trained on; then live traffic is handed over to it on evidence, and a damaged one is taken back.

mod arbiter;
mod canary;
mod client;
mod ground;
mod handover;
mod journal;
mod lesson;
mod report;
mod school;
mod team;
mod traffic;
mod turn;

pub(crate) use ground::{ADAM, Ground};
pub(crate) use lesson::{Lesson, Step, permute};
pub(crate) use report::{CategoryGain, Line};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::model::Opened;
use arbiter::Arbiter;
use canary::Ended;
use hone_policy::upstream::Price;
use hone_reward::Recipe;
use hone_trace::AgentName;
use journal::{BEGIN, END, Journal};
use report::{Report, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::json;
use traffic::Traffic;
use turn::{Deployed, First, Standing, Turn};

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
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<u16>())]
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
/// What loops of the embedded world, and their agents, are called.
const NAME: &str = "desk";
/// Where the agent is trained.
const WORLD: &str = "desk:short";
/// How its episodes are weighed, unless `[reward.desk]` says otherwise: solved with few words.
const RECIPE: &str = r#"components = [
    { name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1.0, role = "primary" },
    { name = "process", kind = "process", signal = "needed", weight = 1.0, role = "secondary" },
    { name = "format", kind = "format", weight = 0.1, role = "secondary" },
    { name = "length", kind = "length", free_tokens = 30, per_token = 0.005, cost_max = 0.3, weight = 1.0, role = "penalty" },
]"#;
/// Tickets that are set aside for a turn.
const N_TICKETS_TURN: usize = 1_000_000;

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    args.check()?;
    if let Some(agent) = &args.agent {
        return team::run(args, agent, context);
    }
    let context = &weighing(context)?;
    let runtime = &tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Failure::world)?;
    // A loop that cannot begin leaves no record.
    if let Some(model) = args.model.as_deref().filter(|_| !args.resume) {
        Opened::named(model, context)?;
    }
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
    let prepare = || turn.prepare(&turn.pool(&told)?);
    let batch = match turn.args.watch {
        true => journal.stage(&stage("data"), prepare)?,
        false => journal.stage_again(&stage("data"), prepare)?,
    }; // data
    let Some(batch) = batch else { return refused(&turn.name, turn.args, turn.context) };
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
fn refused(name: &str, args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    if !args.watch {
        context.printer.complain(&format!(
            "the loop `{name}` ends here, as the gates refused its data: ask for less under `[data]` in hone.toml and go on with \
             `hone loop --resume`, or collect more with another `hone loop`"
        ));
    }
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
