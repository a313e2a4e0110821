//! How a run begins, goes on, or leaves another one.

use super::finished::Finished;
use super::interrupt::Interruptible;
use super::meter::Meter;
use super::runs::{End, Fork, PREFERRED, Run, Runs};
use super::sampler::Sampler;
use super::session::{STOP_FILE, Session, Teacher};
use super::sinks::Sinks;
use super::state::{Position, States};
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::learner::{Learner, LearnerOptions};
use crate::model::{ModelHash, Opened};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::world::World;
use hone_engine::cuda::Answers;
use hone_engine::load::WeightSource;
use hone_policy::upstream::Price;
use hone_trace::{Time, V1};
use hone_train::critic::Critic;
use hone_train::settings::{Algorithm, Given, KEYS, Settings};
use hone_train::stop::Stop;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Which run, of which model, in which world.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The name of the run
    #[arg(long, value_name = "NAME")]
    run: String,
    /// The model, by the name it was added under or its path; random:SHAPE has the sizes of a public one and knows nothing
    #[arg(long, value_name = "MODEL", required_unless_present = "resume")]
    model: Option<String>,
    /// The world it is trained or measured in, such as math:sums or desk
    #[arg(long, value_name = "WORLD")]
    env: Option<String>,
    /// Go on where the run of this name stopped, with the settings it had
    #[arg(long)]
    pub(super) resume: bool,
    /// Begin with the adapter and optimiser of another run, at the step named, or at its best, or at its last where none was better than before the first
    #[arg(long, value_name = "RUN[@STEP]", conflicts_with = "resume")]
    fork: Option<String>,
    /// Sample from this server, which loads adapters as vLLM does, instead of in this process: URL#MODEL or vllm:MODEL
    #[arg(long, value_name = "SERVER")]
    sampler: Option<String>,
    /// Measure this world too, to see what is forgotten; may be given several times
    #[arg(long, value_name = "WORLD")]
    watch: Vec<String>,
    /// Who judges, where the recipe asks for one: local:MODEL, PROVIDER:MODEL, URL#MODEL or script:FILE
    #[arg(long, value_name = "POLICY")]
    judge: Option<String>,
    /// What a million tokens of the judge cost in US dollars, read and written, such as 0.25,2
    #[arg(long, value_name = "IN,OUT", value_parser = crate::policy::price, requires = "judge")]
    judge_price: Option<Price>,
    /// Hear a judge that was refused by `hone reward calibrate`, and learn by a recipe that is unwise where that can be forced; a run that
    /// goes on stays forced
    #[arg(long)]
    force: bool,
    /// How many threads compute; without this, all cores
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<u16>())]
    threads: Option<u16>,
    /// Whether it is a part of something larger, which Ctrl-C ends as a whole.
    #[arg(skip)]
    is_part: bool,
}

impl RunArgs {
    /// A run that is part of something larger: it goes on where it stopped if it has begun, and begins otherwise.
    pub(crate) fn part(
        run: &str,
        model: &str,
        env: Option<&str>,
        fork: Option<&str>,
        threads: Option<u16>,
        context: &Context<'_>,
    ) -> Result<Self, Failure> {
        let resume = Runs::of(&context.settings).names()?.iter().any(|name| name == run);
        let fresh = |text: Option<&str>| text.filter(|_| !resume).map(str::to_owned);
        Ok(Self {
            run: run.to_owned(),
            model: fresh(Some(model)),
            env: fresh(env),
            resume,
            fork: fresh(fork),
            sampler: None,
            watch: Vec::new(),
            judge: None,
            judge_price: None,
            force: false,
            threads,
            is_part: true,
        })
    }

    /// The command that goes on with this run.
    fn way_on(&self, run: &Run, context: &Context<'_>) -> String {
        let threads = self.threads.map(|n| format!(" --threads {n}")).unwrap_or_default();
        context.settings.again(&format!("hone train {} --run {} --resume{threads}", run.method, run.name))
    }
}

impl RunArgs {
    /// The same with a judge; one that goes on has its own.
    pub(crate) fn judged(self, judge: Option<&str>) -> Self {
        Self { judge: judge.filter(|_| !self.resume).map(str::to_owned), ..self }
    }
}

/// What a run is made of, besides its settings; kept beside them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Made {
    started: Time,
    watch: Vec<String>,
    judge: Option<String>,
    judge_price: Option<Price>,
    #[serde(default)]
    force: bool,
    sampler: Option<String>,
    recipe: Value,
}

const MADE: [&str; 7] = ["started", "watch", "judge", "judge_price", "force", "sampler", "recipe"];

/// What a teacher is made from.
pub(super) struct Ground<'a> {
    pub(super) settings: &'a Settings,
    pub(super) learner: &'a Learner,
    pub(super) world: Option<&'a World>,
    pub(super) folder: &'a Path,
    /// Whether the run has begun before.
    pub(super) goes_on: bool,
}

/// Makes everything ready, and lets the run go. A run that cannot begin leaves no record.
pub(super) fn start<T: Teacher>(
    args: &RunArgs,
    algorithm: Algorithm,
    given: &Given,
    context: &Context<'_>,
    teach: impl FnOnce(&Ground<'_>) -> Result<T, Failure>,
) -> Result<Finished, Failure> {
    let runs = Runs::of(&context.settings);
    let held = args.resume.then(|| runs.hold(&args.run)).transpose()?;
    let (run, settings, made) =
        if args.resume { resumed(args, algorithm, given, &runs)? } else { fresh(args, algorithm, given, &runs, context)? };
    if let Some(finished) = args.resume.then(|| preferred(&run.name, &runs, context)).transpose()?.flatten() {
        let text = format!("`{}` stays as a person ended it; a fork trains on: --run OTHER --fork {}", run.name, run.name);
        context.printer.say(&text);
        return Ok(finished);
    }
    let world = run.env.as_ref().map(|env| context.wait(async |context| World::named(env, context).await)).transpose()?;
    if let Some(world) = world.as_ref().filter(|world| recipe_of(world) != made.recipe) {
        return Err(Failure::user(format_args!("the recipe of {} is another than when `{}` began", world.name, run.name))
            .hint("fork the run with --fork to train on by the new recipe"));
    }
    let watched: Vec<World> =
        made.watch.iter().map(|env| context.wait(async |context| World::named(env, context).await)).collect::<Result<_, _>>()?;
    if settings.max_dollars.is_some() && made.judge.is_none() {
        return Err(Failure::user("max_dollars has no effect: only a judge costs dollars"));
    }
    // A budget would leave groups unscored near its end; the run stops after the step that reaches max_dollars instead.
    let policy_args = PolicyArgs::of_judge(made.judge_price).first_of(2);
    let bank = Bank::open(&policy_args)?;
    let ready = made.judge.as_ref().map(|name| Ready::named(name, &policy_args, 8, &bank, context)).transpose()?;
    if settings.max_dollars.is_some() && ready.as_ref().is_none_or(|ready| ready.price().is_none()) {
        return Err(Failure::user("max_dollars has no effect: it is not known what the judge costs")
            .hint("say it with --judge-price IN,OUT"));
    }
    if args.force && made.judge.is_none() {
        return Err(Failure::user("--force has no effect: no judge is heard").hint("name one with --judge"));
    }
    let judge = judge(ready.as_ref(), made.judge.as_deref(), world.as_ref(), args.force || made.force, context)?;
    let sampler_client = made.sampler.as_deref().map(|name| crate::policy::server(name, &bank, context)).transpose()?;
    let opened = Opened::named(&run.model, context)?;
    let run = match args.resume {
        true => same_model(&run, &opened).map(|()| run)?,
        false => Run { model_hash: Some(model_hash(&run, &opened, &runs)?), ..run },
    };
    let mut learner = learner(opened, &settings, made.started, args.threads, context)?;
    let folder = runs.folder(&run.name)?;
    let states = States::of(&folder, 1 + u64::from(settings.max_staleness));
    let position = position(&run, algorithm, &states, &mut learner, &runs)?;
    let ground = Ground { settings: &settings, learner: &learner, world: world.as_ref(), folder: &folder, goes_on: args.resume };
    let mut teacher = teach(&ground)?;
    let _held = held.map_or_else(|| runs.claim(&run.name), Ok)?;
    if !args.resume {
        // Another folder may have begun it while the model was loaded.
        is_free(&run.name, &runs, context)?;
        teacher.begin(&folder)?;
    }
    let sinks = Sinks::open(&run, context)?;
    runs.go_on(&run.name)?;
    let _ = std::fs::remove_file(folder.join(STOP_FILE));
    if position.step > 0 {
        context.printer.say(&format!("goes on after step {}", position.step));
    }
    let sampler =
        sampler_client.map(|client| Sampler::new(client, bank.handle(), &run.name, &folder, settings.temperature)).transpose()?;
    let spent = || bank.budget.spent().known_usd;
    let lines = runs.read(&run.name)?.metrics.lines;
    let (way_on, is_interrupted) = (args.way_on(&run, context), AtomicBool::new(false));
    let (at, begun) = (folder.clone(), run.clone());
    let interruptible = Interruptible { context, run: &begun, folder: &at, way_on: &way_on, is_interrupted: &is_interrupted };
    let session = Session {
        context,
        settings,
        records: format!("{} {}", run.name, made.started),
        run,
        learner,
        sampler,
        position,
        states,
        folder,
        world,
        judge,
        spent: &spent,
        meter: Meter::start(std::time::Instant::now()),
        watched,
        sinks,
        lines,
        way_on: &way_on,
        is_interrupted: &is_interrupted,
    };
    let work = || session.go(&mut teacher);
    if args.is_part { work() } else { interruptible.hear(work) }
}

/// Refuses to go on with another model than the one that the run began with.
fn same_model(run: &Run, opened: &Opened) -> Result<(), Failure> {
    let Some(known) = &run.model_hash else { return Ok(()) };
    let Some(what) = known.difference(&opened.hash()?) else { return Ok(()) };
    Err(Failure::user(format_args!("{} is another model than when `{}` began: it has {what}", run.model, run.name))
        .hint("put the model back as it was, or begin another run"))
}

/// The hash of the model that a run begins with, which is that of the run it leaves.
fn model_hash(run: &Run, opened: &Opened, runs: &Runs) -> Result<ModelHash, Failure> {
    let hash = opened.hash()?;
    let Some(fork) = &run.fork else { return Ok(hash) };
    let known = runs.read(&fork.run)?.run.model_hash;
    match known.and_then(|known| known.difference(&hash)) {
        None => Ok(hash),
        Some(what) => {
            let text = format!("{} is another model than that of `{}`: it has {what}", run.model, fork.run);
            Err(Failure::user(text).hint(KEEPS))
        }
    }
}

/// The setting that scales an adapter.
const ALPHA: &str = "alpha";

/// What a fork cannot change.
const KEEPS: &str = "a fork keeps the model, the rank and the alpha of the run that it leaves";

/// How a run ended that a person ended: it does not go on. What a kill left to do of that is done.
fn preferred(name: &str, runs: &Runs, context: &Context<'_>) -> Result<Option<Finished>, Failure> {
    let recorded = runs.read(name)?;
    let Some(end) = recorded.end.clone().filter(End::is_preferred) else { return Ok(None) };
    let folder = runs.folder(name)?;
    let states = States::of(&folder, 1);
    if let Some(step) = end.best_step.filter(|step| states.is_staged(*step)) {
        Sinks::open(&recorded.run, context)?.end(&end, crate::clock::now())?;
        states.settle(step)?;
    }
    let adapter = states.position()?.map(|position| position.adapter).unwrap_or_default();
    Ok(Some(Finished::preferred(&recorded, end, adapter, &folder)))
}

/// Where the run stands, with the weights of that step.
fn position(run: &Run, algorithm: Algorithm, states: &States, learner: &mut Learner, runs: &Runs) -> Result<Position, Failure> {
    if let Some(position) = states.position()? {
        states.restore(position.step, states.load(position.step)?, learner)?;
        return Ok(position);
    }
    if let Some(fork) = &run.fork {
        let left = States::of(&runs.folder(&fork.run)?, 1);
        let state = left.load(fork.step)?;
        left.restore(fork.step, state, learner).map_err(|failure| failure.hint(KEEPS))?;
        if runs.read(&fork.run)?.run.method != run.method {
            // Gradients of another objective have another size.
            learner.begin_anew()?;
        }
    }
    let critic = (algorithm == Algorithm::Ppo).then(|| Critic::new(learner.dim()));
    Ok(Position { critic, ..Position::default() })
}

/// A run that goes on, with what it was started with.
fn resumed(args: &RunArgs, algorithm: Algorithm, given: &Given, runs: &Runs) -> Result<(Run, Settings, Made), Failure> {
    let run = runs.read(&args.run)?.run;
    if run.method != algorithm.as_str() {
        return Err(Failure::user(format_args!("`{}` is a run of {}", run.name, run.method))
            .hint(format!("hone train {} --run {} --resume", run.method, run.name)));
    }
    if *given != Given::default()
        || args.env.is_some()
        || args.model.is_some()
        || !args.watch.is_empty()
        || args.judge.is_some()
        || args.sampler.is_some()
    {
        return Err(Failure::user("a run that goes on keeps its settings")
            .hint(format!("change them in a fork: --run OTHER --fork {}", run.name)));
    }
    let (settings, made) = kept(&run, algorithm)?;
    Ok((run, settings, made))
}

/// The settings that a run was started with, and what else it is made of.
fn kept(run: &Run, algorithm: Algorithm) -> Result<(Settings, Made), Failure> {
    let (made, settings): (Map<_, _>, Map<_, _>) =
        run.settings.clone().into_iter().partition(|(key, _)| MADE.contains(&key.as_str()));
    let wrong = |error: serde_json::Error| Failure::world(error).context(format_args!("run.json of `{}`", run.name));
    let settings = Given::deserialize(Value::Object(settings)).map_err(wrong)?.resolve(algorithm).map_err(Failure::user)?;
    Ok((settings, Made::deserialize(Value::Object(made)).map_err(wrong)?))
}

/// A run that begins.
fn fresh(
    args: &RunArgs,
    algorithm: Algorithm,
    given: &Given,
    runs: &Runs,
    context: &Context<'_>,
) -> Result<(Run, Settings, Made), Failure> {
    let name = args.run.clone();
    runs.is_free_here(&name)?;
    is_free(&name, runs, context)?;
    let filed = context.settings.training.get(algorithm.as_str()).cloned().unwrap_or_default();
    let given = given.clone().or(filed);
    let settings = given.resolve(algorithm).map_err(Failure::user)?;
    if args.env.is_none() && algorithm != Algorithm::Grpo {
        if !args.watch.is_empty() {
            return Err(Failure::user("--watch has no effect on a run that is measured nowhere").hint("name a world with --env"));
        }
        if args.sampler.is_some() {
            return Err(Failure::user(format_args!(
                "--sampler has no effect: {algorithm} samples nothing where nothing is measured"
            ))
            .hint("name a world with --env"));
        }
        given.check_unmeasured().map_err(|error| Failure::user(error).hint("name a world with --env"))?;
    }
    let world = args.env.as_ref().map(|env| context.wait(async |context| World::named(env, context).await)).transpose()?;
    let recipe = world.as_ref().map_or(Value::Null, recipe_of);
    let (watch, judge, sampler) = (args.watch.clone(), args.judge.clone(), args.sampler.clone());
    let (judge_price, force) = (args.judge_price, args.force);
    let made = Made { started: crate::clock::now(), watch, judge, judge_price, force, sampler, recipe };
    let all = serde_json::to_value(&settings).map_err(Failure::bug)?;
    let own = KEYS.iter().filter(|key| key.algorithms.contains(&algorithm));
    let mut kept: BTreeMap<String, Value> = own.map(|key| (key.name.to_owned(), all[key.name].clone())).collect();
    let beside = serde_json::to_value(&made).map_err(Failure::bug)?;
    kept.extend(beside.as_object().cloned().unwrap_or_default());
    let fork = args.fork.as_deref().map(|text| fork(text, &kept, args.env.as_deref(), runs)).transpose()?;
    let model = args.model.clone().ok_or_else(|| Failure::user("a run begins with a model").hint("name one with --model"))?;
    let (method, env, seed) = (algorithm.as_str().to_owned(), args.env.clone(), settings.seed);
    let tenant = Some(context.settings.tenant.clone());
    Ok((Run { v: V1, name, method, model, model_hash: None, env, seed, settings: kept, fork, tenant }, settings, made))
}

/// Refuses a name under which a store of several machines has a run, whose steps would stand between those of this one. In a store of
/// this folder alone it can only be a run of this folder that was removed, and nobody goes on with it.
fn is_free(name: &str, runs: &Runs, context: &Context<'_>) -> Result<(), Failure> {
    if !runs.is_shared() {
        return Ok(());
    }
    let is_known = context.wait(async |context| {
        let Some(store) = context.store_if_there().await? else { return Ok(false) };
        Ok(super::record::is_known(&*store, name, &context.settings.tenant).await?)
    })?;
    if !is_known {
        return Ok(());
    }
    let folder = runs.folder(name)?;
    Err(Failure::user(format_args!("the store has a run `{name}` already, and its folder is not here")).hint(format!(
        "give this one another name; to go on with that one, copy its folder to {} and use --resume",
        folder.display()
    )))
}

/// Where a run leaves another one, and what is another from there on.
fn fork(text: &str, settings: &BTreeMap<String, Value>, env: Option<&str>, runs: &Runs) -> Result<Fork, Failure> {
    let (name, step) = named_step(text)?;
    let other = runs.read(name)?;
    let states = States::of(&runs.folder(name)?, 1);
    let last = || states.steps().ok().and_then(|steps| steps.last().copied());
    // The best is the untrained model where nothing was better: there is nothing to take from that, unless it was trained before or is preferred.
    let is_trained = other.run.fork.is_some() || other.end.as_ref().is_some_and(End::is_preferred);
    let best = || other.best_step().filter(|best| *best > 0 || is_trained);
    let step = step.or_else(best).or_else(last).unwrap_or(0);
    states.load(step)?;
    let alphas = [&other.run.settings, settings].map(|settings| settings.get(ALPHA).and_then(Value::as_f64));
    if let [Some(left), Some(own)] = alphas
        && left != own
    {
        let text = format!("`{name}` has alpha = {left}, and this would scale its adapter by {own}");
        return Err(Failure::user(text).hint(format!("say --alpha {left}: {KEEPS}")));
    }
    let mut changes = BTreeMap::new();
    if other.run.env.as_deref() != env {
        changes.insert("env".to_owned(), (json!(other.run.env), json!(env)));
    }
    for key in settings.keys().chain(other.run.settings.keys()).filter(|key| *key != "started") {
        let value = |settings: &BTreeMap<String, Value>| settings.get(key).cloned().unwrap_or(Value::Null);
        let (before, after) = (value(&other.run.settings), value(settings));
        if before != after {
            changes.insert(key.clone(), (before, after));
        }
    }
    Ok(Fork { run: name.to_owned(), step, changes })
}

fn recipe_of(world: &World) -> Value {
    serde_json::to_value(&world.recipe).unwrap_or(Value::Null)
}

fn judge<'a>(
    ready: Option<&'a Ready>,
    name: Option<&str>,
    world: Option<&World>,
    force: bool,
    context: &Context<'_>,
) -> Result<Option<&'a dyn hone_trace::policy::Policy>, Failure> {
    let needs = world.is_some_and(|world| world.recipe.needs_judge());
    if let Some(world) = world {
        crate::reward::is_wise(&world.recipe, force)?;
    }
    match (ready, needs) {
        (None, false) => Ok(None),
        (None, true) => Err(Failure::user("the recipe asks for a judge").hint("name one with --judge")),
        (Some(_), false) => Err(Failure::user("--judge has no effect: no component of the recipe asks for one")),
        (Some(ready), true) => {
            let judge = ready.policy().ok_or_else(|| Failure::user("gold, random and empty play, and cannot judge"))?;
            let env = world.map(|world| world.name.as_str());
            crate::reward::trust(name.unwrap_or_default(), judge.config().hash(), env, force, context)?;
            Ok(Some(judge))
        }
    }
}

fn learner(
    opened: Opened,
    settings: &Settings,
    now: Time,
    threads: Option<u16>,
    context: &Context<'_>,
) -> Result<Learner, Failure> {
    let n_samples = settings.scenarios as usize * usize::from(settings.samples);
    let options = LearnerOptions {
        adam: settings.adam(),
        seed: settings.seed,
        context_len: settings.context as usize,
        n_concurrent: n_samples.max(settings.validation as usize),
        n_threads: threads.map(usize::from),
        temperature: settings.temperature as f32,
        memory: settings.memory,
        now: Some(now),
    };
    let (machine, lora) = (crate::device::open(options.n_threads, Answers::Many, context)?, settings.lora());
    let needs = options.needs(machine.place(), opened.weights.config(), settings.n_rows_max(), &lora);
    let (plan, grant) = crate::device::plan(&machine, needs, 1)?;
    // Less than that is there wherever anything runs, and the CPU has promised all along.
    let is_told = plan.total() >= 1 << 30 || matches!(machine.place(), hone_engine::memory::Place::Gpu);
    if is_told {
        context.printer.say(&plan.to_string());
    }
    let mut learner = Learner::adapted(opened, &lora, machine, (plan, grant), options)?;
    if is_told && let Some(tried) = learner.try_promise()? {
        context.printer.say(&tried.to_string());
    }
    Ok(learner)
}

/// `RUN` or `RUN@STEP`.
fn named_step(text: &str) -> Result<(&str, Option<u64>), Failure> {
    let Some((name, step)) = text.split_once('@') else { return Ok((text, None)) };
    let number = step.parse().map_err(|_| Failure::user(format_args!("`{step}` in `{text}` is not a step")))?;
    Ok((name, Some(number)))
}

/// A person looked at what a step gave, and takes it for the best: its adapter is kept as such, and the run has ended. That is decided
/// when the end is written: a kill before it changes nothing, and what comes after it is done by `--resume` or the same command again.
pub(super) fn prefer(text: &str, context: &Context<'_>) -> Result<Exit, Failure> {
    let (name, Some(step)) = named_step(text)? else {
        return Err(Failure::user(format_args!("`{text}` names no step")).hint("write RUN@STEP"));
    };
    let runs = Runs::of(&context.settings);
    let _held = runs.hold(name)?;
    let recorded = runs.read(name)?;
    let run = &recorded.run;
    let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == run.method);
    let algorithm = algorithm.ok_or_else(|| Failure::user(format_args!("`{name}` is a run of `{}`", run.method)))?;
    let (settings, made) = kept(run, algorithm)?;
    let folder = runs.folder(name)?;
    let states = States::of(&folder, 1);
    let state = states.load(step)?;
    let opened = Opened::named(&run.model, context)?;
    same_model(run, &opened)?;
    let mut learner = learner(opened, &settings, made.started, None, context)?;
    states.restore(step, state, &mut learner)?;
    let last = recorded.metrics.last_step().unwrap_or(step);
    let stop = Stop::preferred(last, step);
    let sinks = Sinks::open(run, context)?;
    states.stage(step, &mut learner)?;
    let end = End { reason: PREFERRED.to_owned(), why: stop.why, step: stop.step, best_step: Some(step) };
    sinks.end(&end, crate::clock::now())?;
    states.settle(step)?;
    if context.printer.wants_json() {
        let adapter = states.position()?.map(|position| position.adapter).unwrap_or_default();
        context.printer.json(&Finished::preferred(&recorded, end, adapter, &folder))?;
    } else {
        context.printer.plain(&format!("{} is now that of step {step}", folder.join("best").display()))?;
    }
    Ok(Exit::Yes)
}

/// Asks a run to stop after its present step.
pub(super) fn ask_to_stop(name: &str, context: &Context<'_>) -> Result<Exit, Failure> {
    let runs = Runs::of(&context.settings);
    let recorded = runs.read(name)?;
    if let Some(end) = recorded.end {
        return Err(Failure::user(format_args!("`{name}` has ended already: {}", end.why)));
    }
    if runs.hold(name).is_ok() {
        return Err(Failure::user(format_args!("`{name}` is not at work: it was killed"))
            .hint(format!("go on with it by hone train {} --run {name} --resume", recorded.run.method)));
    }
    let path: &Path = &runs.folder(name)?.join(STOP_FILE);
    std::fs::write(path, "").map_err(at_path(path))?;
    if context.printer.wants_json() {
        context.printer.json(&json!({"run": name, "stopping": true}))?;
    } else {
        context.printer.plain(&format!("`{name}` will stop after its present step"))?;
    }
    Ok(Exit::Yes)
}
