//! `hone loop`: the main job on the embedded default. An agent's traces in, a better agent out, on a bare laptop.
//!
//! The agent at the service desk shuns its tools. What it does is recorded and weighed; a model of less than a million parameters,
//! made from nothing, reads the agent's manual, learns to do what the agent does, and then to do it better by GRPO in the same
//! process. Whether it is better is said by tasks that it has never seen, each policy on the same ones.

mod ground;
mod lesson;
mod report;

pub(crate) use ground::{ADAM, Ground};
pub(crate) use lesson::{Lesson, Step, permute};
pub(crate) use report::{CategoryGain, Line};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::gym::{earned, flat, solved};
use crate::learner::Learner;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_eval::interval::mean;
use hone_trace::store::{Document, Put, Write};
use hone_trace::{BlobHash, Config, Time, Trace};
use report::{Report, Verdict};
use std::ops::ControlFlow;
use std::time::Instant;

/// Run the whole loop on a small agent, from traces to a better one
///
/// Takes a few minutes on two cores, and needs no model, no GPU, no key and no server. What the agent and the model did is kept
/// in the store with its rewards; a model that is better than both that came before it is added as `desk-agent`. Exit code 1
/// when it is not better.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of everything
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Steps of GRPO
    #[arg(long, default_value_t = N_STEPS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Traces of the agent that is imitated
    #[arg(long, default_value_t = N_TRACES, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    traces: u32,
    /// Pages of the agent's manual
    #[arg(long, default_value_t = N_PAGES, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pages: u32,
    /// Held-out tasks that every policy is measured on
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=10_000))]
    tasks: u32,
    /// Give every reward to a random member of its group: nothing should be learned
    #[arg(long)]
    control: bool,
    /// How many threads compute; without this, all cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

/// What a run has when nothing else is said: traces of the agent, pages of its manual, steps of GRPO.
pub(crate) const N_TRACES: u32 = 8000;
pub(crate) const N_PAGES: u32 = 100_000;
pub(crate) const N_STEPS: u32 = 100;
/// Learning rates of the manual and of imitation.
pub(crate) const MANUAL_LR: f32 = 3e-3;
pub(crate) const IMITATION_LR: f32 = 1e-3;

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let turn = Turn { args, context, ground: Ground::new(args.seed, args.tasks as usize, context)?, began: Instant::now() };
    let (traces, world_hash) = turn.collect()?; // trace → reward
    let mut learner = turn.imitate(&traces)?; // data → train
    let before = turn.measure("before GRPO", &mut learner)?; // eval
    turn.improve(&mut learner)?; // train
    let after = turn.measure(if args.control { "after control" } else { "after GRPO" }, &mut learner)?; // eval
    let seconds = turn.began.elapsed().as_secs_f64();
    let report = Report::new(turn.ground.measure_agent()?, before, after, world_hash, args.control, seconds);
    let is_better = report.verdict == Verdict::Better;
    if is_better && !args.control {
        learner.keep("desk-agent", context)?; // deploy
    }
    report.print(context.printer)?;
    Ok(if is_better { Exit::Yes } else { Exit::No })
}

/// One turn of the loop.
struct Turn<'a> {
    args: &'a Args,
    context: &'a Context<'a>,
    ground: Ground,
    began: Instant,
}

impl Turn<'_> {
    fn say(&self, text: &str) {
        self.context.printer.say(&format!("{:>4.0} s  {text}", self.began.elapsed().as_secs_f64()));
    }

    /// What the agent did, weighed.
    fn collect(&self) -> Result<(Vec<Trace>, BlobHash), Failure> {
        let (config, played) = self.ground.demonstrations(self.args.traces as usize)?;
        let hash = self.ground.hash(&played)?;
        self.record(&config, &played)?;
        self.say(&format!("trace   {} episodes of the agent, {:.0} % of them solved", played.len(), 100.0 * solved(&played)));
        Ok((flat(played), hash))
    }

    /// A model that does what the agent does.
    fn imitate(&self, traces: &[Trace]) -> Result<Learner, Failure> {
        let mut learner = self.ground.learner(self.args.threads.map(usize::from))?;
        let pages = self.ground.manual(self.args.pages as usize)?;
        let bar = self.context.printer.count_bar("steps of reading");
        let tick = |_, _| bar.inc(1);
        let read = learner.imitate(&pages, MANUAL_LR, usize::MAX, tick)?;
        self.say(&format!("train   read {} pages of the manual, {} tokens, loss {:.3}", pages.len(), read.n_tokens, read.loss));
        let told = learner.imitate(traces, IMITATION_LR, usize::MAX, tick)?;
        bar.finish_and_clear();
        self.say(&format!("train   imitated {} episodes, {} tokens, loss {:.3}", traces.len(), told.n_tokens, told.loss));
        Ok(learner)
    }

    /// GRPO, every step recorded.
    fn improve(&self, learner: &mut Learner) -> Result<(), Failure> {
        let n_steps = self.args.steps as usize;
        let lesson = Lesson::new(if self.args.control { "control" } else { "grpo" });
        let tries = self.ground.tries(n_steps * lesson.n_scenarios)?;
        let weigh = |groups: &mut [Played], round: u64| {
            if self.args.control {
                permute(groups, self.args.seed ^ round << 32);
            }
        };
        lesson.teach(learner, &self.ground.gym(), &tries, weigh, |_, step| {
            if step.number.is_multiple_of(10) || step.number == n_steps {
                let (reward, half) = mean(&earned(step.groups));
                self.say(&format!(
                    "train   step {:>3}/{n_steps}  reward {reward:.2} ± {half:.2}  solved {:>3.0} %  entropy {:.2}  {} of {} \
                     groups without signal  {:.0} + {:.0} ms  sampler and trainer differ by {}",
                    step.number,
                    100.0 * solved(step.groups),
                    step.improved.entropy,
                    step.improved.n_without_signal,
                    lesson.n_scenarios,
                    1e3 * step.sampled_s,
                    1e3 * step.trained_s,
                    step.improved.mismatch_max
                ));
            }
            self.record(step.config, step.groups)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The model on tasks that it has never seen.
    fn measure(&self, name: &str, learner: &mut Learner) -> Result<Line, Failure> {
        let policy = learner.policy()?;
        let (line, played) = self.ground.measure(name, Player::Policy(&policy))?;
        self.record(&Player::Policy(&policy).config(), &played)?;
        self.say(&format!("eval    {name}: {:.1} % of {} held-out tasks solved", 100.0 * line.completion, self.args.tasks));
        Ok(line)
    }

    fn record(&self, config: &Config, all: &[Played]) -> Result<(), Failure> {
        const N_WRITES: usize = 1000;
        let tenant = &self.context.settings.tenant;
        let document = Write::Document(Document::of(config, 0, tenant.clone(), Time::from_unix_nanos(0)));
        let writes: Vec<Write> = [document].into_iter().chain(all.iter().cloned().flat_map(crate::play::writes)).collect();
        let n_conflicts = self.context.wait(async |context| {
            let (store, mut n_conflicts) = (context.store().await?, 0);
            for part in writes.chunks(N_WRITES) {
                n_conflicts += store.put(part.to_vec()).await?.into_iter().filter(|put| *put == Put::Conflict).count();
            }
            Ok(n_conflicts)
        })?;
        if n_conflicts > 0 {
            self.say(&format!(
                "{n_conflicts} records of this seed were there already with other content, and stayed as they were"
            ));
        }
        Ok(())
    }
}
