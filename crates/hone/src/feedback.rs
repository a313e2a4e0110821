//! `hone loop`: the main job on the embedded default. An agent's traces in, a better agent out, on a bare laptop.
//!
//! The agent at the service desk shuns its tools. Its traces are recorded and weighed; a model of a million parameters, made
//! from nothing, learns to do what the agent does, and then to do it better by GRPO in the same process. Whether it is better is
//! said by tasks that it has never seen, each policy on the same ones.

mod apprentice;
mod report;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use apprentice::Apprentice;
use hone_env::desk::{Desk, DeskOptions, Dialect};
use hone_env::rollout::{Limits, Luck, Plan, Played, Timing, rollout};
use hone_env::{Player, Scripted};
use hone_eval::{Episode, Measures};
use hone_reward::{Attempt, Recipe, Scorer};
use hone_trace::env::{Env, Split};
use hone_trace::store::{Document, Write};
use hone_trace::{Config, RunId, Scenario, Time, Trace};
use report::{Line, Report, Verdict};
use serde_json::Value;
use std::ops::ControlFlow;
use std::time::Instant;

/// Run the whole loop on a small agent, from traces to a better one
///
/// Takes a few minutes on two cores, and needs no model, no GPU, no key and no server. Traces, groups and rewards go into the
/// store, the trained model is added as `desk-agent`: talk to it with `hone chat desk-agent`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of everything
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Steps of GRPO
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Traces of the agent that is imitated
    #[arg(long, default_value_t = 12_000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    traces: u32,
    /// Held-out tasks that every policy is measured on
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=10_000))]
    tasks: u32,
    /// How many threads compute; without this, all cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

/// How often the agent takes to its tools where it needs them.
const TOOL_SHARE: f64 = 0.15;
/// Transcripts of correct tool use that are given to the apprentice besides: the agent's manual.
const MANUAL_SHARE: f64 = 0.1;
/// Scenarios of a step, and samples of each.
const N_SCENARIOS: usize = 16;
const N_SAMPLES: usize = 16;
/// Tokens of an answer: the longest right one has about twenty.
const ANSWER_TOKENS_MAX: u64 = 28;

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let turn = Turn::begin(args, context)?;
    let traces = turn.collect()?; // trace → reward
    let mut apprentice = turn.warm_up(&traces)?; // data → train
    let before = turn.eval("imitation", Player::Policy(&apprentice.policy()?))?; // eval
    turn.improve(&mut apprentice)?; // train
    let after = turn.eval("after GRPO", Player::Policy(&apprentice.policy()?))?; // eval
    let report = turn.report(before, after)?;
    if report.verdict == Verdict::Better {
        apprentice.keep("desk-agent", context)?; // deploy
    }
    report.print(context.printer)?;
    Ok(if report.verdict == Verdict::Better { Exit::Yes } else { Exit::No })
}

/// One turn of the loop.
struct Turn<'a> {
    args: &'a Args,
    context: &'a Context<'a>,
    desk: Desk,
    recipe: Recipe,
    began: Instant,
}

impl<'a> Turn<'a> {
    fn begin(args: &'a Args, context: &'a Context<'a>) -> Result<Self, Failure> {
        let desk = Desk::new(DeskOptions { dialect: Dialect::Short, ..DeskOptions::default() }).map_err(Failure::bug)?;
        let recipe = context.settings.rewards.get("desk").cloned().or_else(|| Recipe::for_world("desk"));
        let recipe = recipe.ok_or_else(|| Failure::bug("the desk has a recipe"))?;
        Ok(Self { args, context, desk, recipe, began: Instant::now() })
    }

    fn say(&self, text: &str) {
        self.context.printer.say(&format!("{:>4.0} s  {text}", self.began.elapsed().as_secs_f64()));
    }

    /// What the agent did, weighed: an agent that shuns its tools, and a few pages of its manual.
    fn collect(&self) -> Result<Vec<Trace>, Failure> {
        let n = self.args.traces as usize;
        let scenarios = self.desk.scenarios(Split::Train, self.args.seed, n).map_err(Failure::bug)?;
        let shy = |scenario: &Scenario, seed| self.desk.shy(scenario, TOOL_SHARE, seed);
        let mut traces = self.play("agent", Player::Script("shy", &shy), &scenarios, 1, 0)?;
        let solved = share_solved(&traces);
        let pages = self.desk.scenarios(Split::Train, self.args.seed ^ 1 << 40, (n as f64 * MANUAL_SHARE) as usize);
        traces.extend(self.play("manual", Player::Gold, &pages.map_err(Failure::bug)?, 1, 0)?);
        self.say(&format!("trace   {n} episodes of the agent, {:.0} % of them solved, and its manual", 100.0 * solved));
        Ok(traces.into_iter().flat_map(|played| played.traces).collect())
    }

    /// A model that does what the agent does.
    fn warm_up(&self, traces: &[Trace]) -> Result<Apprentice, Failure> {
        let corpus = self.desk.corpus(self.args.seed, 500).map_err(Failure::bug)?;
        let threads = self.args.threads.map(usize::from);
        let mut apprentice = Apprentice::new(&corpus, self.args.seed, threads)?;
        let told = apprentice.imitate(traces)?;
        self.say(&format!("train   imitated {} episodes, {} tokens, loss {:.3} → {:.3}", told.n_episodes, told.n_tokens, told.first_loss, told.last_loss));
        Ok(apprentice)
    }

    /// GRPO: many tries at the same task, and more of what earned more.
    fn improve(&self, apprentice: &mut Apprentice) -> Result<(), Failure> {
        let n_steps = self.args.steps as usize;
        let all = self.desk.scenarios(Split::Train, self.args.seed ^ 2 << 40, n_steps * N_SCENARIOS).map_err(Failure::bug)?;
        for (step, scenarios) in all.chunks(N_SCENARIOS).enumerate() {
            let start = Instant::now();
            let policy = apprentice.policy()?;
            let groups = self.play(&format!("step {step}"), Player::Policy(&policy), scenarios, N_SAMPLES, step as u64 + 1)?;
            let sampled_s = start.elapsed().as_secs_f64();
            let (reward, solved) = (mean_reward(&groups), share_solved(&groups));
            let told = apprentice.improve(&groups, step, n_steps)?;
            if step % 10 == 9 || step + 1 == n_steps {
                self.say(&format!(
                    "train   step {}/{n_steps}  reward {reward:.3}  solved {:.0} %  entropy {:.2}  {} groups without signal  {:.0} ms sampling, {:.0} ms training, mismatch {}",
                    step + 1,
                    100.0 * solved,
                    told.entropy,
                    told.n_without_signal,
                    1e3 * sampled_s,
                    1e3 * (start.elapsed().as_secs_f64() - sampled_s),
                    told.mismatch_max
                ));
            }
        }
        Ok(())
    }

    /// A policy on tasks that nobody has seen.
    fn eval(&self, name: &str, player: Player<'_>) -> Result<Line, Failure> {
        let tasks = self.desk.scenarios(Split::Test, self.args.seed, self.args.tasks as usize).map_err(Failure::bug)?;
        let groups = self.play(name, player, &tasks, 1, 0)?;
        let traces: Vec<Trace> = groups.into_iter().flat_map(|played| played.traces).collect();
        let episodes: Vec<Episode> = traces.iter().map(|trace| Episode::of(trace, self.recipe.of_trace_signals(trace))).collect();
        let line = Line::of(name, Measures::of(&episodes), &traces);
        self.say(&format!("eval    {name}: {:.1} % of {} held-out tasks solved", 100.0 * line.measures.accuracy, tasks.len()));
        Ok(line)
    }

    fn report(&self, before: Line, after: Line) -> Result<Report, Failure> {
        let shy = |scenario: &Scenario, seed| self.desk.shy(scenario, TOOL_SHARE, seed);
        let nobody = |_: &Scenario, _| Ok(Box::new(Scripted(|_: &[hone_trace::Message]| hone_env::said(""))) as _);
        let agent = self.eval("agent", Player::Script("shy", &shy))?;
        let empty = self.eval("nobody", Player::Script("nobody", &nobody))?;
        Ok(Report::new(vec![empty, agent, before, after], self.began.elapsed().as_secs_f64()))
    }

    /// Plays scenarios, weighs the traces and records both.
    fn play(&self, name: &str, player: Player<'_>, scenarios: &[Scenario], n_samples: usize, salt: u64) -> Result<Vec<Played>, Failure> {
        let config: Config = player.config().into_owned();
        let plan = Plan {
            run: RunId::derived(&["loop", name, &self.args.seed.to_string()]),
            tenant: self.context.settings.tenant.clone(),
            scenarios,
            n_samples,
            seed: self.args.seed.wrapping_mul(1 << 20).wrapping_add(salt),
            luck: Luck::Shared,
            limits: Limits { answer_tokens_max: ANSWER_TOKENS_MAX, ..Limits::default() },
            n_concurrent: if matches!(player, Player::Policy(_)) { 256 } else { 4 },
            timing: Timing::Told(Time::from_unix_nanos(1_750_000_000_000_000_000)),
        };
        let scorer = Scorer::new(&self.recipe, None).map_err(Failure::user)?;
        let mut all = Vec::new();
        rollout(&self.desk, player, &plan, |mut played| {
            let attempts: Vec<Attempt<'_>> = played.traces.iter().map(|trace| Attempt { trace, item: &Value::Null }).collect();
            let scored = scorer.score_group(&attempts, self.args.seed, played.group.at);
            for (trace, scored) in played.traces.iter_mut().zip(scored.traces) {
                if let Ok(scored) = scored {
                    trace.rewards.extend(scored.turns);
                    trace.rewards.push(scored.reward);
                }
            }
            all.push(played);
            ControlFlow::Continue(())
        });
        self.record(&config, &all)?;
        Ok(all)
    }

    fn record(&self, config: &Config, all: &[Played]) -> Result<(), Failure> {
        let tenant = &self.context.settings.tenant;
        let document = Write::Document(Document::of(config, 0, tenant.clone(), Time::from_unix_nanos(0)));
        let traces = all.iter().flat_map(|played| &played.traces).map(|trace| Write::Trace(Box::new(trace.clone())));
        let groups = all.iter().map(|played| Write::Document(Document::of(&played.group, 0, tenant.clone(), played.group.at)));
        let writes: Vec<Write> = [document].into_iter().chain(traces).chain(groups).collect();
        self.context.wait(async |context| {
            let store = context.store().await?;
            for part in writes.chunks(1000) {
                store.put(part.to_vec()).await?;
            }
            Ok(())
        })
    }
}

fn share_solved(groups: &[Played]) -> f64 {
    let traces = || groups.iter().flat_map(|played| &played.traces);
    let n_solved = traces().filter(|trace| trace.outcome == hone_trace::TraceOutcome::Success).count();
    n_solved as f64 / traces().count().max(1) as f64
}

fn mean_reward(groups: &[Played]) -> f64 {
    let rewards: Vec<f64> =
        groups.iter().flat_map(|played| &played.traces).filter_map(|trace| Some(trace.reward()?.total)).collect();
    hone_eval::interval::mean(&rewards).0
}
