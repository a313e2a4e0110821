//! One turn of the loop, stage by stage.

mod collect;

use super::arbiter::Arbiter;
use super::canary::Handed;
use super::client::Client;
use super::ground::Ground;
use super::handover::HandOver;
use super::report::{Line, Measured};
use super::school::{self, Batch, School, Trained};
use super::traffic::Traffic;
use super::{Args, IMITATION_LR, MANUAL_LR, N_TICKETS_TURN, WORLD};
use crate::context::Context;
use crate::failure::Failure;
use crate::gym::{flat, solved};
use crate::model::Opened;
use hone_data::gate::Purpose;
use hone_data::prepare::Plan;
use hone_engine::lora::LoraWeights;
use hone_engine::peft;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_eval::{Episode, Measures};
use hone_gateway::demonstrations::Demonstrations;
use hone_store::Database;
use hone_trace::store::{Document, Put, Write};
use hone_trace::{AdapterId, AgentName, BlobHash, Config, Draws, Time, Trace};
use hone_train::loss::Method;
use hone_train::settings::{Algorithm, Given};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The most traces of a batch.
const N_POINTS_MAX: usize = 10_000;
/// The deviation of the noise that a damaged adapter has on its weights.
const DAMAGE: f32 = 0.5;
/// The longest conversation with a model that was not made here, in tokens.
const CONTEXT_LEN: usize = 512;

/// The first agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct First {
    /// The model that all versions are made of.
    pub(super) model: String,
    pub(super) standing: Standing,
    /// What was there before anything was trained.
    pub(super) world_hash: BlobHash,
}

/// The version that serves.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) version: String,
    /// The folder of its adapter, and the run that made it; a model made here for the purpose has neither.
    pub(super) adapter: Option<PathBuf>,
    pub(super) run: Option<String>,
}

/// What was collected.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Collected {
    pub(super) n: usize,
    /// Turns of it, and those whose tokens are not the ones that were sampled.
    pub(super) n_turns: usize,
    pub(super) n_retokenized: usize,
    /// Episodes that were cut off once, by their number, and how often.
    pub(super) again: BTreeMap<usize, u32>,
}

/// What was deployed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Deployed {
    pub(super) adapter: Option<AdapterId>,
    pub(super) canary: Handed,
    #[serde(skip, default = "Handed::not_started")]
    pub(super) drill: Handed,
}

impl Deployed {
    pub(super) fn nothing() -> Self {
        Self { adapter: None, canary: Handed::not_started(), drill: Handed::not_started() }
    }
}

/// One turn of the loop.
pub(super) struct Turn<'a> {
    pub(super) args: &'a Args,
    pub(super) context: &'a Context<'a>,
    pub(super) runtime: &'a Runtime,
    pub(super) store: Arc<dyn Database>,
    pub(super) ground: Ground,
    pub(super) name: String,
    pub(super) agent: AgentName,
    /// Counted from 1.
    pub(super) number: u32,
    pub(super) standing: Standing,
    pub(super) began: Instant,
}

impl<'a> Turn<'a> {
    pub(super) fn new(args: &'a Args, name: &str, runtime: &'a Runtime, context: &'a Context<'a>) -> Result<Self, Failure> {
        let ground = Ground::new(args.seed, args.tasks as usize, context)?.verbose();
        let agent = AgentName::new(name).map_err(Failure::bug)?;
        let store = runtime.block_on(context.store())?;
        let (name, standing, began) = (name.to_owned(), Standing::default(), Instant::now());
        Ok(Self { args, context, runtime, store, ground, name, agent, number: 1, standing, began })
    }

    /// What the version is called that this turn makes.
    pub(super) fn version(&self) -> String {
        format!("v{}", self.number)
    }

    /// What batches and runs of this turn are called by.
    fn called(&self) -> String {
        school::called(&self.name, self.number)
    }

    pub(super) fn say(&self, stage: &str, text: &str) {
        self.context.printer.say(&format!("{:>4.0} s  {stage:<7} {text}", self.began.elapsed().as_secs_f64()));
    }

    /// An agent that does what the script does, only worse.
    pub(super) fn first_agent(&self) -> Result<First, Failure> {
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

    pub(super) fn arbiter(&self, model: &str) -> Result<Arbiter<'a>, Failure> {
        Arbiter::open(model, self.context_len(), self.threads(), &self.store, self.runtime, self.context)
    }

    /// The longest conversation in tokens.
    fn context_len(&self) -> usize {
        if self.args.model.is_some() { CONTEXT_LEN } else { self.ground.lengths().1 }
    }

    pub(super) fn traffic(&self, arbiter: &Arbiter<'_>) -> Result<Traffic, Failure> {
        Ok(Traffic {
            http: reqwest::Client::builder().no_proxy().build().map_err(Failure::world)?,
            key: arbiter.key().map(str::to_owned),
            client: self.args.client.as_deref().map(|command| Client::start(command, arbiter)).transpose()?,
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

    pub(super) fn school(&self) -> School<'_> {
        let Self { context, runtime, store, args, .. } = self;
        School { context, runtime, store, name: self.called(), threads: args.threads }
    }

    /// Adds a version to the agent.
    fn add(&self, version: &Standing, first: &First, traffic: &Traffic) -> Result<Option<AdapterId>, Failure> {
        let hand_over = self.hand_over(traffic);
        let base = || Opened::named(&first.model, self.context);
        let adapter = version.adapter.as_ref().map(|folder| hand_over.keep(folder, &base()?)).transpose()?;
        hand_over.add(&version.version, &first.model, adapter)?;
        Ok(adapter)
    }

    /// A batch of the best of the pool; none where the gates refuse it.
    pub(super) fn prepare(&self, pool: &[Trace]) -> Result<Option<Batch>, Failure> {
        let school = self.school();
        if !school.is_fit(pool, &self.ground.to_hold_out()?, |text| self.say("gate", text))? {
            return Ok(None);
        }
        // What it reports by are tasks that are in no trace at all.
        let plan = Plan { seed: self.args.seed, points_max: N_POINTS_MAX, validation: 0.0, test: 0.0 };
        let batch = school.prepare(Purpose::Sft, pool, &Demonstrations::default(), self.ground.to_hold_out()?, plan)?;
        self.say("data", &format!("{} traces worth imitating in {}", batch.n_traces, batch.folder.display()));
        Ok(Some(batch))
    }

    /// What all training of this loop has in common.
    fn given(&self) -> Given {
        Given { seed: Some(self.args.seed), context: u32::try_from(self.context_len()).ok(), ..Given::default() }
    }

    pub(super) fn warm_up(&self, arbiter: &Arbiter<'_>, batch: &Batch) -> Result<Trained, Failure> {
        // In a control the batch was chosen by the rewards of others, and what each earned itself is not asked again.
        let quality_min = if self.args.control { f64::MIN } else { 0.5 };
        let given = Given { quality_min: Some(quality_min), ..self.given() };
        let given = self.with_usual(given, Algorithm::Sft, Given { lr: self.small(1e-3), ..Given::default() });
        let trained = self.school().warm_up(arbiter.model(), batch, self.standing.run.as_deref(), &given)?;
        self.say("train", &format!("SFT on {} traces: {}", batch.n_traces, trained.why));
        Ok(trained)
    }

    pub(super) fn practise(&self, arbiter: &Arbiter<'_>) -> Result<Trained, Failure> {
        let is_small = self.args.model.is_none();
        let answer_tokens = u32::try_from(self.ground.lengths().0).ok();
        let given = Given { steps: Some(self.args.steps), answer_tokens, ..self.given() };
        let usual = Given {
            scenarios: is_small.then_some(32),
            samples: is_small.then_some(8),
            lr: self.small(3e-3),
            loss: Some(Method::Dapo),
            deviation_min: Some(0.05),
            validate_every: is_small.then_some(20),
            validation: is_small.then_some(200),
            ..Given::default()
        };
        let given = self.with_usual(given, Algorithm::Grpo, usual);
        let trained = self.school().practise(arbiter.model(), WORLD, &given, self.args.control, None)?;
        self.say("train", &format!("GRPO: {}", trained.why));
        Ok(trained)
    }

    /// What is given, and the loop's own choice where the user's file says nothing.
    fn with_usual(&self, given: Given, algorithm: Algorithm, usual: Given) -> Given {
        let filed = self.context.settings.training.get(algorithm.as_str()).cloned().unwrap_or_default();
        given.or(filed).or(usual)
    }

    /// A learning rate for a model made from nothing; others have the usual one.
    fn small(&self, lr: f64) -> Option<f64> {
        self.args.model.is_none().then_some(lr)
    }

    /// The script, the agent before and the agent after on tasks that nobody trained on, by the engine that serves them.
    pub(super) fn measure(&self, arbiter: &Arbiter<'_>, trained: &Trained) -> Result<Measured, Failure> {
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
    pub(super) fn deploy(
        &self,
        first: &First,
        arbiter: &Arbiter<'_>,
        traffic: &Traffic,
        trained: &Trained,
    ) -> Result<Deployed, Failure> {
        let version = Standing { version: self.version(), adapter: Some(trained.folder.clone()), run: None };
        let adapter = self.add(&version, first, traffic)?;
        let canary = self.canary(traffic, &version.version, self.args.episodes as usize)?;
        let told = format!("after {} episodes through {}: {}", canary.n_episodes, arbiter.url, canary.why);
        self.say("deploy", &format!("{} {told}", version.version));
        Ok(Deployed { adapter, canary, drill: Handed::not_started() })
    }

    /// Deploys a damaged adapter: it must be taken back.
    pub(super) fn drill(
        &self,
        first: &First,
        arbiter: &Arbiter<'_>,
        traffic: &Traffic,
        trained: &Trained,
    ) -> Result<Handed, Failure> {
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

/// Puts noise on an adapter, so that what it says is worthless.
fn damage(weights: &mut LoraWeights, seed: u64) {
    let mut draws = Draws::new(seed, &["damage"]);
    for matrix in weights.matrices.values_mut() {
        matrix.iter_mut().for_each(|weight| *weight += DAMAGE * draws.normal() as f32);
    }
}
