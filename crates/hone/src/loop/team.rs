//! `hone loop --agent`: the loop over the traffic of an agent that a team runs, behind `hone serve` or reported by OpenTelemetry.
//!
//! What the agent met becomes the world: recorded episodes are divided, played again and weighed by the recipe of the agent. An adapter
//! is trained on one part and measured on another that nobody trained on; `hone serve` then hands live traffic over to it by a canary,
//! which this process only watches. No damaged adapter is ever sent to real customers: there is no drill.

mod records;
mod rollout;

use super::canary::{Ended, Handed};
use super::journal::{BEGIN, END, Journal};
use super::report::{Line, Measured, Report, Verdict};
use super::school::{self, Batch, School, Trained};
use super::{Args, refused};
use crate::adapters;
use crate::context::Context;
use crate::data::held_out;
use crate::failure::{Exit, Failure, at_path};
use crate::gym::{Exercise, Gym};
use crate::model::Opened;
use crate::policy::{self, Bank, PolicyArgs, Ready};
use crate::world::World;
use hone_data::gate::Purpose;
use hone_data::prepare::Plan;
use hone_engine::peft;
use hone_env::Player;
use hone_env::rollout::{Limits, Played};
use hone_gateway::demonstrations::Demonstrations;
use hone_gateway::registry;
use hone_reward::Recipe;
use hone_store::Database;
use hone_trace::env::Split;
use hone_trace::policy::Policy;
use hone_trace::store::Kind;
use hone_trace::{AdapterId, AgentName, BlobHash, Config, LlmCall, Time, Trace, TraceOutcome};
use hone_train::settings::{Algorithm, Given, Measure, Settings};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

/// The most traces that a turn looks at.
const N_TRACES_MAX: usize = 100_000;
/// Parts of the records that are kept to choose by and to report.
const VALIDATION: f64 = 0.1;
const TEST: f64 = 0.2;
/// How often every held-out record is played.
const N_REPEATS: usize = 3;
/// Conversations at once.
const N_CONVERSATIONS: usize = 64;
/// The reward from which an episode counts as solved where only the recipe knows.
const SOLVED: f64 = 0.5;

/// The loop over an agent's own traffic.
pub(super) fn run(args: &Args, agent: &AgentName, context: &Context<'_>) -> Result<Exit, Failure> {
    let context = &weighing(agent, context);
    let runtime = &tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Failure::world)?;
    let mut journal = Journal::open(&format!("agent-{agent}"), args.resume, runtime, context)?;
    let begun = journal.known(BEGIN)?.unwrap_or_else(|| args.clone());
    let args = &Args { resume: args.resume, threads: args.threads, ..begun };
    // Beside a local judge, a model learns and answers.
    let judge_args = PolicyArgs::of_judge(args.judge_price).first_of(2);
    let bank = Bank::open(&judge_args)?;
    let judge = args.judge.as_ref().map(|name| Ready::named(name, &judge_args, 8, &bank, context));
    let judge = judge.transpose()?;
    let store = runtime.block_on(context.store())?;
    let (name, began) = (journal.name.clone(), Instant::now());
    let mut team = Team { args, context, runtime, store, agent, name, judge: judge.as_ref(), number: 1, began };
    team.check()?;
    // A loop that cannot begin leaves no record.
    let standing = journal.known("agent")?.map_or_else(|| team.standing(), Ok)?;
    journal.stage(BEGIN, || Ok(args.clone()))?;
    let mut standing = journal.stage("agent", || Ok(standing))?;
    loop {
        let exit = go_round(&team, &mut standing, &mut journal)?;
        if !args.watch || args.turns.is_some_and(|turns| team.number >= turns) {
            return Ok(exit);
        }
        team.number += 1;
    }
}

/// One turn of the loop: every stage is written down when it ends, and not done again.
fn go_round(team: &Team<'_>, standing: &mut Standing, journal: &mut Journal<'_>) -> Result<Exit, Failure> {
    let stage = |name: &str| if team.number == 1 { name.to_owned() } else { format!("{}/{name}", team.number) };
    let seen = journal.stage(&stage("trace"), || team.collect(standing))?; // trace → reward
    standing.since = Some(seen.until);
    let batch = match team.args.watch {
        true => journal.stage(&stage("data"), || team.prepare(&seen))?,
        false => journal.stage_again(&stage("data"), || team.prepare(&seen))?,
    }; // data
    let Some(batch) = batch else { return refused(&team.name, team.args, team.context) };
    journal.stage(&stage("warm_up"), || team.warm_up(standing, &batch))?; // train
    let trained = journal.stage(&stage("train"), || team.practise(standing, &batch))?;
    let measured = journal.stage(&stage("eval"), || team.measure(standing, &batch, &trained))?; // eval
    let mut deployed = Deployed::default();
    if measured.verdict == Verdict::Better && trained.is_well {
        deployed = journal.stage(&stage("deploy"), || team.deploy(standing, &trained))?; // deploy
    }
    let report = Report {
        name: team.agent.as_str(),
        model: &standing.model,
        turn: team.number,
        seconds: team.began.elapsed().as_secs_f64(),
        world_hash: batch.hash,
        measured: &measured,
        canary: deployed.canary.ended,
        drill: Ended::NotStarted,
        adapter: deployed.adapter,
        n_retokenized: 0,
        control: false,
    };
    let is_promoted = deployed.canary.ended == Ended::Promoted;
    let is_success = measured.verdict == Verdict::Better && (is_promoted || standing.version.is_none());
    journal.stage(&stage(END), || Ok(is_success))?;
    report.print_of_agent(team.context.printer)?;
    if is_promoted {
        (standing.version, standing.adapter, standing.run) =
            (Some(deployed.version), deployed.adapter, Some(team.school().run("grpo")));
    }
    Ok(if is_success { Exit::Yes } else { Exit::No })
}

/// What the settings cut off of what the agent did, each with its way out: answers longer than those that are sampled, conversations longer than
/// those that are read.
fn beyond(pool: &[Trace], settings: &Settings) -> Vec<String> {
    let n = |is_beyond: &dyn Fn(&LlmCall) -> bool| {
        pool.iter().filter(|trace| trace.turns().flat_map(|turn| &turn.llm_calls).any(is_beyond)).count()
    };
    let (answer, context) = (u64::from(settings.answer_tokens), u64::from(settings.context));
    let n_cut = n(&|call| call.tokens_out > answer);
    let n_long = n(&|call| call.tokens_in.saturating_add(call.tokens_out) > context);
    let text =
        |n: usize, what: &str, key: &str| format!("{n} of them have {what}: `{key}` under [train.grpo] is too small for them");
    let cut = format!("an answer of more than {answer} tokens, which practice and measurement cut off");
    let long = format!("more than {context} tokens, which no run reads");
    let told = [(n_cut, cut, "answer_tokens"), (n_long, long, "context")];
    told.into_iter().filter(|(n, ..)| *n > 0).map(|(n, what, key)| text(n, &what, key)).collect()
}

/// The same context with the recipe of the agent for its replays, where there is one.
fn weighing<'a>(agent: &AgentName, context: &Context<'a>) -> Context<'a> {
    let mut settings = context.settings.clone();
    if let Some(recipe) = settings.rewards.get(agent.as_str()).cloned() {
        settings.rewards.insert("replay".into(), recipe);
    }
    Context { settings, printer: context.printer, variables: context.variables }
}

/// What serves, and what is trained.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Standing {
    /// The version that serves; none of an agent that is only reported.
    version: Option<String>,
    /// What it is made of.
    config: Config,
    /// Whether the model that is trained is the one that serves, and with which adapter.
    is_own: bool,
    adapter: Option<AdapterId>,
    /// The run that made its adapter, where a loop did.
    run: Option<String>,
    /// The model that is trained.
    model: String,
    /// Traces before this were learned from already.
    since: Option<Time>,
}

/// What there is to learn from.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    since: Option<Time>,
    until: Time,
    n: usize,
}

/// What was deployed.
#[derive(Debug, Serialize, Deserialize)]
struct Deployed {
    version: String,
    adapter: Option<AdapterId>,
    /// The run that made the adapter.
    run: String,
    canary: Handed,
}

impl Default for Deployed {
    fn default() -> Self {
        Self { version: String::new(), adapter: None, run: String::new(), canary: Handed::not_started() }
    }
}

/// One turn of the loop.
struct Team<'a> {
    args: &'a Args,
    context: &'a Context<'a>,
    runtime: &'a Runtime,
    store: Arc<dyn Database>,
    agent: &'a AgentName,
    name: String,
    judge: Option<&'a Ready>,
    /// Counted from 1.
    number: u32,
    began: Instant,
}

impl Team<'_> {
    fn say(&self, stage: &str, text: &str) {
        self.context.printer.say(&format!("{:>4.0} s  {stage:<7} {text}", self.began.elapsed().as_secs_f64()));
    }

    fn school(&self) -> School<'_> {
        let name = school::called(&self.name, self.number);
        let Self { context, runtime, store, args, .. } = self;
        School { context, runtime, store, name, threads: args.threads }
    }

    /// The recipe that weighs this agent's episodes.
    fn recipe(&self) -> Option<&Recipe> {
        self.context.settings.rewards.get("replay")
    }

    fn judge(&self) -> Option<&dyn Policy> {
        self.judge.and_then(Ready::policy)
    }

    /// Says early what would fail late.
    fn check(&self) -> Result<(), Failure> {
        let needs_judge = self.recipe().is_some_and(Recipe::needs_judge) || self.world_needs_judge()?;
        match (needs_judge, self.judge()) {
            (true, None) => Err(Failure::user("a recipe asks for a judge").hint("name one with --judge")),
            (false, Some(_)) => Err(Failure::user("--judge has no effect: no component of the recipe asks for one")),
            (true, Some(judge)) => {
                let name = self.args.judge.as_deref().unwrap_or_default();
                crate::reward::trust(name, judge.config().hash(), None, false, self.context)
            }
            (false, None) => Ok(()),
        }
    }

    /// Whether the recipe of the user's own world asks for a judge.
    fn world_needs_judge(&self) -> Result<bool, Failure> {
        let Some(env) = &self.args.env else { return Ok(false) };
        Ok(self.runtime.block_on(World::named(env, self.context))?.recipe.needs_judge())
    }

    /// What serves now, and which model is trained.
    fn standing(&self) -> Result<Standing, Failure> {
        let entry = self.runtime.block_on(registry::agent(&*self.store, self.agent))?.map(|(entry, _)| entry);
        if entry.as_ref().is_some_and(|entry| entry.tenant != self.context.settings.tenant) {
            return Err(Failure::user(format_args!("the name `{}` is taken: the agent is another tenant's", self.agent)));
        }
        let (fleet, _) = self.runtime.block_on(registry::history(&*self.store))?;
        let version = entry.as_ref().map(|entry| registry::live(entry, &fleet).to_owned());
        let found = entry.iter().flat_map(|entry| &entry.versions).find(|there| Some(&there.version) == version.as_ref());
        let config: Config = match found {
            Some(there) => {
                let document = self.runtime.block_on(self.store.document(Kind::Config, &there.config.to_string()))?;
                let document =
                    document.ok_or_else(|| Failure::world(anyhow::anyhow!("config {} is not on the record", there.config)))?;
                document.word().map_err(Failure::world)?
            }
            None => Config::default(),
        };
        let answers = config.model.as_deref().map(|served| self.local(served).to_owned());
        let model = self.args.model.clone().or_else(|| answers.clone());
        let model = model.ok_or_else(|| {
            Failure::user(format_args!("`{}` is no agent of the registry, so nothing says what to train", self.agent))
                .hint("name a model with --model")
        })?;
        Opened::named(&model, self.context).map_err(|failure| {
            failure.hint(format!("`{}` must be trained as a model of this machine: name one with --model", self.agent))
        })?;
        let is_own = answers.as_ref() == Some(&model);
        let adapter = config.adapter.filter(|_| is_own);
        let run = version.as_deref().map(|version| self.run_of(version)).transpose()?.flatten().filter(|_| adapter.is_some());
        match (&version, &run) {
            (Some(version), Some(run)) => self.say("agent", &format!("{version} serves; training goes on from {run}")),
            (Some(version), None) => self.say("agent", &format!("{version} serves; an adapter of {model} is made from nothing")),
            (None, _) => self.say("agent", &format!("reported by others; an adapter of {model} is made from nothing")),
        }
        Ok(Standing { version, config, is_own, adapter, run, model, since: None })
    }

    /// The model of this machine that `[serve]` answers with under a name; without one it is the name itself.
    fn local<'s>(&'s self, served: &'s str) -> &'s str {
        let models = self.context.settings.serve.models.iter().filter_map(|model| model.split_once('='));
        let found = models.filter(|(name, _)| *name == served).find_map(|(_, model)| model.strip_prefix(policy::LOCAL));
        found.unwrap_or(served)
    }

    /// The run that made a version, where an earlier loop of this agent did.
    fn run_of(&self, version: &str) -> Result<Option<String>, Failure> {
        let earlier = Journal::of_all(&format!("agent-{}", self.agent), self.runtime, &self.store)?;
        let deploys = earlier.iter().flatten().filter(|(stage, _)| stage.rsplit('/').next() == Some("deploy"));
        let deployed =
            deploys.filter_map(|(_, body)| Deployed::deserialize(body).ok()).find(|deployed| deployed.version == version);
        Ok(deployed.map(|deployed| deployed.run))
    }

    /// A batch of what was met, divided; none where the gates refuse it, which say what they found.
    fn prepare(&self, seen: &Seen) -> Result<Option<Dealt>, Failure> {
        let school = self.school();
        let pool: Vec<Trace> = self.traces(seen)?.into_iter().filter(|trace| trace.reward().is_some()).collect();
        let data = &self.context.settings.data;
        let held_out = held_out(data.held_out.as_deref(), &data.user_field)?;
        let (pool, left_out) = school.curate(pool, &held_out);
        let left_out: Vec<String> = left_out.iter().map(|(why, n)| format!("; {n} left out: {why}")).collect();
        self.say("data", &format!("a pool of {} episodes{}", pool.len(), left_out.concat()));
        beyond(&pool, &self.settings()?).iter().for_each(|text| self.say("data", text));
        if !school.is_fit(&pool, &held_out, |text| self.say("gate", text))? {
            return Ok(None);
        }
        let plan = Plan { seed: self.args.seed, points_max: N_TRACES_MAX, validation: VALIDATION, test: TEST };
        let said = self.runtime.block_on(Demonstrations::read(&*self.store))?;
        let batch = school.prepare(Purpose::Rl, &pool, &said, held_out, plan)?;
        let manifest = batch.folder.join("manifest.json");
        let hash = BlobHash::of(&std::fs::read(&manifest).map_err(at_path(&manifest))?);
        for part in [Split::Validation, Split::Test] {
            let path = batch.folder.join(format!("{}.jsonl", part.as_str()));
            if std::fs::metadata(&path).map_err(at_path(&path))?.len() == 0 {
                return Err(Failure::user(format_args!(
                    "nothing can be held out for {}: too few different questions",
                    part.as_str()
                ))
                .hint("questions that differ in numbers alone, and all of one user, stay together; collect more"));
            }
        }
        let shown = if batch.n_shown == 0 { String::new() } else { format!(", {} with answers of people", batch.n_shown) };
        self.say("data", &format!("{} traces in {}{shown}", batch.n_traces, batch.folder.display()));
        Ok(Some(Dealt { batch, hash }))
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let filed = self.context.settings.training.get(Algorithm::Grpo.as_str()).cloned().unwrap_or_default();
        filed.resolve(Algorithm::Grpo).map_err(Failure::user)
    }

    fn given(&self) -> Given {
        Given { seed: Some(self.args.seed), ..Given::default() }
    }

    /// The world: the batch, played again, unless the user has one.
    fn world(&self, dealt: &Dealt) -> String {
        self.args.env.clone().unwrap_or_else(|| format!("replay:{}", dealt.batch.folder.display()))
    }

    fn warm_up(&self, standing: &Standing, dealt: &Dealt) -> Result<Trained, Failure> {
        let context = self.settings()?.context;
        let given = Given { quality_min: Some(SOLVED), context: Some(context), ..self.given() };
        let trained = self.school().warm_up(&standing.model, &dealt.batch, standing.run.as_deref(), &given)?;
        self.say("train", &format!("SFT on the best of {} traces: {}", dealt.batch.n_traces, trained.why));
        Ok(trained)
    }

    fn practise(&self, standing: &Standing, dealt: &Dealt) -> Result<Trained, Failure> {
        // Only its own world knows whether a task was solved; of a replay the recipe does.
        let measure = self.args.env.is_none().then_some(Measure::Rewarded);
        let given = Given { steps: Some(self.args.steps), measure, ..self.given() };
        // Records are weighed as the agent's episodes were; a world of its own may need no judge.
        let is_judged = self.args.env.is_none() || self.world_needs_judge()?;
        let judge = self.args.judge.as_deref().filter(|_| is_judged);
        let trained = self.school().practise(&standing.model, &self.world(dealt), &given, false, judge)?;
        self.say("train", &format!("GRPO: {}", trained.why));
        Ok(trained)
    }

    /// The agent before and after on records that nobody trained on.
    fn measure(&self, standing: &Standing, dealt: &Dealt, trained: &Trained) -> Result<Measured, Failure> {
        let world = self.runtime.block_on(World::named(&self.world(dealt), self.context))?;
        let settings = self.settings()?;
        let threads = self.args.threads.map(usize::from);
        let (voice, config) =
            policy::voice(&standing.model, settings.context as usize, N_CONVERSATIONS, threads, 1, self.context)?;
        let dressed = |folder: &Path| {
            let weights = peft::load(folder, &config).map_err(Failure::world)?;
            let id = AdapterId::of(peft::hash(&config, &weights).as_bytes());
            voice.with_adapter(weights, id).map_err(Failure::bug)
        };
        let name = standing.version.as_deref().unwrap_or("record");
        let before = match (standing.is_own, standing.adapter) {
            (false, _) => self.measure_one(name, Player::Gold, &world, &settings)?,
            (true, None) => self.measure_one(name, Player::Policy(&voice), &world, &settings)?,
            (true, Some(id)) => {
                let cache = self.context.settings.folder.join("adapters");
                let folder = self.runtime.block_on(adapters::fetch(id, &*self.store, &cache));
                let folder = folder.map_err(|error| Failure::world(anyhow::anyhow!(error)))?;
                self.measure_one(name, Player::Policy(&dressed(&folder)?), &world, &settings)?
            }
        };
        let after = self.measure_one("new", Player::Policy(&dressed(&trained.folder)?), &world, &settings)?;
        Ok(Measured::new(None, before, after))
    }

    fn measure_one(&self, name: &str, player: Player<'_>, world: &World, settings: &Settings) -> Result<Line, Failure> {
        let limits = Limits {
            turns_max: settings.turns as usize,
            answer_tokens_max: u64::from(settings.answer_tokens),
            ..Limits::default()
        };
        let gym = Gym {
            env: world.env.as_ref(),
            recipe: Some(&world.recipe),
            judge: self.judge(),
            tenant: &self.context.settings.tenant,
            seed: self.args.seed,
            split: Some(Split::Test),
            limits,
            run: &self.name,
        };
        let tasks = gym.scenarios(Split::Test, self.args.tasks as usize)?;
        let mut played = gym.play(Exercise { name, round: 0, n_samples: N_REPEATS }, player, &tasks)?;
        decide(&mut played);
        let needs_tool: Vec<bool> =
            tasks.iter().map(|task| world.replay.as_ref().is_some_and(|replay| replay.called_tools(task))).collect();
        let line = Line::of(name, &tasks, &needs_tool, &played);
        self.say("eval", &format!("{name}: {:.1} % of {} held-out tasks solved", 100.0 * line.completion, tasks.len()));
        Ok(line)
    }
}

/// A batch, and the hash of its manifest.
#[derive(Debug, Serialize, Deserialize)]
struct Dealt {
    batch: Batch,
    hash: BlobHash,
}

/// Says of every episode whose outcome is unknown whether it was solved, by what it earned.
fn decide(played: &mut [Played]) {
    for trace in played.iter_mut().flat_map(|played| &mut played.traces).filter(|trace| trace.outcome == TraceOutcome::Unknown) {
        let is_solved = trace.reward().is_some_and(|reward| reward.total >= SOLVED);
        trace.outcome = if is_solved { TraceOutcome::Success } else { TraceOutcome::Failure };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{ConfigHash, Message, Role, Segment, Tenant, TraceId, Turn};

    /// An episode of one call with so many tokens.
    fn episode(tokens_in: u64, tokens_out: u64) -> Trace {
        let mut turn = Turn::new(Vec::new(), Message::text(Role::Assistant, "yes".to_owned()));
        turn.llm_calls = vec![LlmCall { tokens_in, tokens_out, ..LlmCall::default() }];
        let (id, hash) = (TraceId::derived(&["episode"]), ConfigHash::from_bytes([0; 32]));
        let trace = Trace::new(id, Tenant::default(), Time::from_unix_nanos(0), hash);
        Trace { segments: vec![Segment { turns: vec![turn], ..Segment::default() }], ..trace }
    }

    #[test]
    fn what_the_settings_cut_off_is_told() {
        let given = Given { answer_tokens: Some(64), context: Some(1024), ..Given::default() };
        let settings = given.resolve(Algorithm::Grpo).unwrap();
        assert_eq!(beyond(&[episode(900, 64), episode(960, 64)], &settings), [""; 0]);
        let told = beyond(&[episode(10, 65), episode(10, 10), episode(1000, 80)], &settings);
        assert!(
            told[0].starts_with("2 of them have an answer of more than 64 tokens") && told[0].contains("`answer_tokens`"),
            "{told:?}"
        );
        assert!(told[1].starts_with("1 of them have more than 1024 tokens") && told[1].contains("`context`"), "{told:?}");
    }
}
