//! `hone train grpo`: many tries at the same task, and more of what earned more.
//!
//! Samples come from the weights that are trained, in the same process. With `max_staleness` the next samples are drawn while a
//! step trains, from the weights before it, and are corrected for that.

use super::finished::Finished;
use super::flags::SettingFlags;
use super::session::{Practice, Session, Stepped, Teacher, gym, n_sampled};
use super::start::{RunArgs, start};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::gym::{Broken, Exercise, earned, is_unscored, solved, whole};
use crate::learner::Learner;
use crate::r#loop::permute;
use crate::printer::counted;
use crate::world::World;
use hone_engine::optim::Schedule;
use hone_env::Player;
use hone_env::rollout::Played;
use hone_eval::interval::mean;
use hone_trace::env::Split;
use hone_trace::policy::Policy;
use hone_trace::{Config, Scenario, Trace, TraceOutcome};
use hone_train::groups::{Counts, Groups};
use hone_train::settings::{Given, Settings};
use hone_train::step::{StepOptions, StepStats, kl_by_episode};
use std::time::Instant;

/// The place of this algorithm among all.
const GRPO: usize = 1;

/// Improve an adapter by many tries at the same tasks
///
/// Many tries at the same task, and more of what earned more. The run stands in a folder of its own: `adapter` is the last one, `best`
/// the one that did best on validation, `metrics.jsonl` and `tensorboard` what every step did. A run that was killed goes on with
/// --resume to the same bits.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    settings: SettingFlags<GRPO>,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    learn(&args.run, &args.settings.0, false, context)?.tell(context)
}

/// A run of GRPO that is part of something larger. In a control every reward is given to a random member of its group, so that nothing can be learned.
pub(crate) fn practise(args: &RunArgs, given: &Given, is_control: bool, context: &Context<'_>) -> Result<Finished, Failure> {
    // A run that goes on has its settings.
    let given = if args.resume { &Given::default() } else { given };
    learn(args, given, is_control, context)
}

fn learn(args: &RunArgs, given: &Given, is_control: bool, context: &Context<'_>) -> Result<Finished, Failure> {
    start(args, SettingFlags::<GRPO>::ALGORITHM, given, context, |ground| {
        let world = ground.world.cloned().ok_or_else(|| Failure::user("GRPO plays in a world").hint("name one with --env"))?;
        Ok(Tries { world, n_steps: u64::from(ground.settings.steps), ahead: None, is_control, has_told_broken: false })
    })
}

/// What a step of GRPO is made of.
struct Tries {
    world: World,
    n_steps: u64,
    /// What was sampled while the last step trained, for the next.
    ahead: Option<Sampled>,
    /// Whether rewards are given to random members of their groups.
    is_control: bool,
    /// Whether it was said why episodes break: once is enough, every step counts them.
    has_told_broken: bool,
}

/// What was sampled for a step.
struct Sampled {
    step: u64,
    config: Config,
    groups: Vec<Played>,
    /// Groups that were played and told nothing, so that others were played in their place.
    dropped: Vec<Played>,
    /// Why the last episode that could not be scored was not.
    unscored: Option<String>,
    /// Episodes that a judge saw without their middle.
    n_shortened: usize,
    seconds: f64,
}

impl Teacher for Tries {
    fn n_steps(&self) -> u64 {
        self.n_steps
    }

    fn step(&mut self, session: &mut Session<'_>) -> Result<Stepped, Failure> {
        let step = session.position.step;
        let mut sampled = self.sampled(session, step)?;
        if self.is_control {
            permute(&mut sampled.groups, session.settings.seed ^ step << 32);
        }
        // A step that nobody could score is played again when the run goes on, and kept with what it earns then.
        if is_unscored(&sampled.groups) {
            return Err(session.unscored(&format!("no group of step {}", step + 1), sampled.unscored.as_deref()));
        }
        self.tell_broken(&sampled, session);
        session.record(&sampled.config, &sampled.groups)?;
        session.record(&sampled.config, &sampled.dropped)?;
        let begun = Instant::now();
        let next = (session.settings.max_staleness > 0 && step + 1 < self.n_steps).then_some(step + 1);
        let policy = next.map(|_| session.policy()).transpose()?;
        let (trained, ahead) = self.train(session, &sampled, next.zip(policy.as_deref()))?;
        self.ahead = ahead;
        Ok(told(session, sampled, trained, begun.elapsed().as_secs_f64()))
    }
}

impl Tries {
    fn tell_broken(&mut self, sampled: &Sampled, session: &Session<'_>) {
        let traces = sampled.groups.iter().chain(&sampled.dropped).flat_map(|played| &played.traces);
        let Some(Broken { n, why }) = Broken::among(traces).filter(|_| !self.has_told_broken) else { return };
        self.has_told_broken = true;
        let text = format!("{} of step {} broke and taught nothing", counted(n as u64, "episode"), sampled.step + 1);
        session.context.printer.complain(&format!("{text}, the first so: {why}"));
    }

    /// What this step learns from: sampled ahead, or by the weights that it begins with.
    fn sampled(&mut self, session: &mut Session<'_>, step: u64) -> Result<Sampled, Failure> {
        if let Some(ahead) = self.ahead.take_if(|ahead| ahead.step == step) {
            return Ok(ahead);
        }
        let is_stale = session.settings.max_staleness > 0 && step > 0;
        if !is_stale {
            let policy = session.policy()?;
            return sample(&session.practice(&self.world), policy.as_ref(), step);
        }
        // A run that goes on samples anew what it had sampled ahead, by the weights of that time.
        let now = session.learner.state()?;
        let before = session.states.load(step - 1)?;
        session.states.restore(step - 1, before, &mut session.learner)?;
        let policy = session.policy()?;
        let sampled = sample(&session.practice(&self.world), policy.as_ref(), step);
        session.learner.restore(now)?;
        sampled
    }

    /// Moves the weights; meanwhile the samples of the next step are drawn, where that is asked for.
    fn train(
        &self,
        session: &mut Session<'_>,
        sampled: &Sampled,
        next: Option<(u64, &dyn Policy)>,
    ) -> Result<(Trained, Option<Sampled>), Failure> {
        let lr = session.settings.lr_at(session.position.step, self.n_steps);
        let options = session.settings.step_options(session.sampler.is_some());
        let options = StepOptions { schedule: Schedule::Constant { lr }, ..options };
        let Some((step, policy)) = next else {
            return Ok((train(&mut session.learner, &session.settings, options, &sampled.groups)?, None));
        };
        let Session { context, settings, records, learner, judge, .. } = session;
        let practice = Practice { gym: gym(context, settings, records, &self.world, *judge), settings };
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| sample(&practice, policy, step));
            let trained = train(learner, settings, options, &sampled.groups)?;
            let ahead = ahead.join().map_err(|_| Failure::bug("sampling ahead stopped in the middle of its work"))??;
            Ok((trained, Some(ahead)))
        })
    }
}

/// Draws the samples of a step.
fn sample(practice: &Practice<'_>, policy: &dyn Policy, step: u64) -> Result<Sampled, Failure> {
    let start = Instant::now();
    let Practice { gym, settings } = practice;
    let (n, n_samples) = (settings.scenarios as usize, usize::from(settings.samples));
    let n_rounds = settings.resamples as usize + 1;
    let all = gym.scenarios(Split::Train, (step as usize + 1) * n * n_rounds)?;
    // A world with few scenarios is gone through again, but not within a round: the dice would fall the same.
    let n = n.min(all.len());
    let (per_step, first) = (n * n_rounds, step as usize * n * n_rounds);
    let chosen: Vec<Scenario> = (first..first + per_step).map(|i| all[i % all.len()].clone()).collect();
    let (mut groups, mut dropped, mut unscored): (Vec<Played>, Vec<Played>, _) = (Vec::new(), Vec::new(), None);
    let mut n_shortened = 0;
    for (round, scenarios) in chosen.chunks(n).enumerate() {
        let n_missing = n - groups.iter().filter(|played| has_signal(played)).count();
        if round > 0 && n_missing == 0 {
            break;
        }
        if round > 0 {
            dropped.extend(groups.extract_if(.., |played| !has_signal(played)));
        }
        let exercise = Exercise { name: "step", round: step << 8 | round as u64, n_samples };
        let played = gym.play_and_weigh(exercise, Player::Policy(policy), &scenarios[..n_missing.min(scenarios.len())])?;
        groups.extend(played.groups);
        unscored = played.unscored.or(unscored);
        n_shortened += played.n_shortened;
    }
    let (config, seconds) = (policy.config().clone(), start.elapsed().as_secs_f64());
    Ok(Sampled { step, config, groups, dropped, unscored, n_shortened, seconds })
}

fn has_signal(played: &Played) -> bool {
    let rewards: Vec<f64> = played.traces.iter().filter_map(|trace| Some(trace.reward()?.total)).collect();
    hone_train::advantage::group(&rewards, hone_train::advantage::Centring::Mean).is_some()
}

/// What training on the samples of a step came to.
struct Trained {
    counts: Counts,
    stats: Option<StepStats>,
    n_tokens: u64,
}

/// So many parts of all, as even as can be.
fn parts<T>(all: &[T], n: usize) -> impl Iterator<Item = &[T]> {
    let cut = move |idx: usize| idx * all.len() / n;
    (0..n).map(move |idx| &all[cut(idx)..cut(idx + 1)]).filter(|part| !part.is_empty())
}

fn train(learner: &mut Learner, settings: &Settings, options: StepOptions, played: &[Played]) -> Result<Trained, Failure> {
    let mut counts = Counts::default();
    let (mut last, mut n_tokens): (Option<StepStats>, u64) = (None, 0);
    let (group_options, penalty, n_epochs) = (settings.groups(), settings.kl_in_reward(), settings.epochs);
    for epoch_idx in 0..n_epochs {
        for part in parts(played, settings.minibatches as usize) {
            let traces: Vec<&[Trace]> = part.iter().map(|played| played.traces.as_slice()).collect();
            let mut groups = Groups::new(&traces, &group_options).map_err(Failure::user)?;
            if epoch_idx == 0 {
                counts.add(&groups.counts);
            }
            if groups.batch.is_empty() {
                continue;
            }
            if let Some(kl) = penalty {
                groups = learner
                    .with_trainer(move |host, trainer| {
                        let kl_e = kl_by_episode(host, trainer, &mut groups.batch, &options, kl.estimator)?;
                        groups.penalise(&kl_e.iter().map(|divergence| kl.beta * divergence).collect::<Vec<_>>())?;
                        Ok::<_, hone_train::TrainError>(groups)
                    })?
                    .map_err(Failure::user)?;
            }
            n_tokens += groups.batch.n_tokens() as u64;
            let stats = learner.step(groups.batch, options)?;
            let is_bad = stats.skipped.is_some();
            last = Some(match last {
                // What the first move saw is of the policy that the samples came from.
                Some(mut first) if !is_bad => {
                    first.n_moves += stats.n_moves;
                    (first.drift, first.ratio_max) = (stats.drift, first.ratio_max.max(stats.ratio_max));
                    first
                }
                _ => stats,
            });
            if is_bad {
                return Ok(Trained { counts, stats: last, n_tokens });
            }
        }
    }
    Ok(Trained { counts, stats: last, n_tokens })
}

/// What a step came to. Groups that were dropped were played too: without them rewards would look better or worse than they are.
fn told(session: &Session<'_>, sampled: Sampled, trained: Trained, trained_s: f64) -> Stepped {
    let n_resampled = sampled.dropped.len();
    let played: Vec<Played> = sampled.groups.into_iter().chain(sampled.dropped).collect();
    let (reward, _) = mean(&earned(&played));
    // Tries at one task are alike: it is tasks that tell how sure a mean is.
    let by_task = played.iter().map(|group| earned(std::slice::from_ref(group))).filter(|earned| !earned.is_empty());
    let (_, half_width) = mean(&by_task.map(|earned| mean(&earned).0).collect::<Vec<_>>());
    let traces = || played.iter().flat_map(|played| &played.traces);
    let n_whole = whole(&played).count().max(1) as f64;
    let n_turns = whole(&played).map(|trace| trace.turns().count()).sum::<usize>() as f64;
    let n_whole_tokens = whole(&played).map(n_sampled).sum::<usize>() as f64;
    let n_tokens = traces().map(n_sampled).sum::<usize>() as f64;
    let n_failed = whole(&played).filter(|trace| trace.outcome == TraceOutcome::Unknown).count() as f64;
    let n_broken = Broken::among(traces()).map_or(0, |broken| broken.n);
    let rate = |n: f64, seconds: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
    let n_untrainable: usize = trained.counts.untrainable.values().sum();
    let mut values = vec![
        ("reward", reward),
        ("solved", solved(&played)),
        ("turns", n_turns / n_whole),
        ("tokens_per_answer", n_whole_tokens / n_turns.max(1.0)),
        ("n_without_signal", trained.counts.n_without_signal as f64),
        ("n_unscored", trained.counts.n_unscored as f64),
        ("n_untrainable", n_untrainable as f64),
        ("n_resampled", n_resampled as f64),
        ("n_unfinished", n_failed),
        ("sampled_s", sampled.seconds),
        ("trained_s", trained_s),
        ("sampled_tokens_per_s", rate(n_tokens, sampled.seconds)),
        ("trained_tokens_per_s", rate(trained.n_tokens as f64, trained_s)),
        ("tokens", session.position.progress.spent().n_tokens as f64 + n_tokens + trained.n_tokens as f64),
        ("dollars", session.dollars()),
    ];
    // A single task does not tell how sure it is.
    values.extend(half_width.is_finite().then_some(("reward_half_width", half_width)));
    values.extend((n_broken > 0).then_some(("n_broken", n_broken as f64)));
    values.extend((sampled.n_shortened > 0).then_some(("n_shortened", sampled.n_shortened as f64)));
    Stepped { stats: trained.stats, merit: reward, n_tokens: n_tokens as u64 + trained.n_tokens, values, groups: played }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn there_are_as_many_parts_as_were_asked_for() {
        let lengths = |len: usize, n: usize| parts(&vec![0; len], n).map(<[i32]>::len).collect::<Vec<_>>();
        assert_eq!((lengths(8, 1), lengths(8, 4), lengths(8, 5)), (vec![8], vec![2; 4], vec![1, 2, 1, 2, 2]));
        assert_eq!((lengths(8, 8), lengths(2, 4), lengths(0, 3)), (vec![1; 8], vec![1, 1], vec![]));
    }
}
