//! `hone train sft`, `awr`, `dpo` and `ppo`: learning from traces that are in the store, without new samples.
//!
//! What it learns from is [`Material`].

use super::finished::Finished;
use super::flags::SettingFlags;
use super::material::{Began, Material};
use super::session::{Session, Stepped, Teacher};
use super::start::{Ground, RunArgs, start};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::learner::{Learner, Unlearnable};
use crate::printer::counted;
use crate::trace::Filter;
use hone_engine::optim::Schedule;
use hone_trace::store::TraceQuery;
use hone_trace::{GroupId, Trace, Turn};
use hone_train::advantage::turn_rewards;
use hone_train::batch::{Advantage, Batch};
use hone_train::episode::Episode;
use hone_train::loss::awr_weights;
use hone_train::settings::{Algorithm, Given, Settings};
use hone_train::{TrainError, sft, step};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Instant;

/// Learn from traces in the store
#[derive(Debug, clap::Args)]
pub(crate) struct Args<const A: usize> {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    settings: SettingFlags<A>,
}

pub(super) fn run<const A: usize>(args: &Args<A>, context: &Context<'_>) -> Result<Exit, Failure> {
    let query = args.filter.query(context);
    let all = TraceQuery { tenant: query.tenant.clone(), ..TraceQuery::default() };
    if args.run.resume && query != all {
        return Err(Failure::user("a run that goes on learns from the traces that it began with")
            .hint("leave the filters away, or begin another run"));
    }
    let (algorithm, given) = (SettingFlags::<A>::ALGORITHM, &args.settings.0);
    let filed = context.settings.training.get(algorithm.as_str());
    let temperature = given.temperature.or_else(|| filed?.temperature);
    learn(&args.run, algorithm, given, context, |ground| Material::of(ground, &query, temperature, context))?.tell(context)
}

/// A run of SFT on these traces that is part of something larger.
pub(crate) fn imitate(args: &RunArgs, given: &Given, traces: &[Trace], context: &Context<'_>) -> Result<Finished, Failure> {
    // A run that goes on has its settings.
    let given = if args.resume { &Given::default() } else { given };
    learn(args, Algorithm::Sft, given, context, |_| Ok(Material::as_they_went(traces)))
}

fn learn(
    args: &RunArgs,
    algorithm: Algorithm,
    given: &Given,
    context: &Context<'_>,
    material: impl FnOnce(&Ground<'_>) -> Result<Material, Failure>,
) -> Result<Finished, Failure> {
    start(args, algorithm, given, context, |ground| {
        let lessons = Lessons::new(&material(ground)?, ground.learner, ground.settings)?;
        context.printer.say(&lessons.told);
        Ok(lessons)
    })
}

/// What the steps of a run are made of.
struct Lessons {
    /// All that was looked at.
    began: Vec<Began>,
    episodes: Vec<Episode>,
    /// Per episode what it is trained with: how much it counts, or what its turns earned.
    counts: Vec<f64>,
    rewards: Vec<Vec<f64>>,
    /// Pairs of a better and a worse episode.
    pairs: Vec<[usize; 2]>,
    /// Per step, the episodes or pairs of it.
    steps: Vec<Vec<usize>>,
    told: String,
}

impl Lessons {
    fn new(Material { traces, n_held_out }: &Material, learner: &Learner, settings: &Settings) -> Result<Self, Failure> {
        let is_good = |trace: &Trace| match settings.algorithm {
            Algorithm::Sft => sft::is_good(trace, settings.quality_min).is_ok(),
            _ => trace.reward().is_some(),
        };
        let (mut episodes, mut kept, mut n_said, mut n_undrawn) = (Vec::new(), Vec::new(), 0, 0);
        let mut left_out = LeftOut { n_held_out: *n_held_out, ..LeftOut::default() };
        for (began, trace) in traces {
            if trace.broken().is_some() {
                left_out.n_broken += 1;
                continue;
            }
            if !is_good(trace) {
                left_out.n_not_good += 1;
                continue;
            }
            let wanted = match settings.algorithm {
                Algorithm::Sft => sft::good_turns(trace),
                _ => trace.turns().map(Turn::teaches).collect(),
            };
            if !wanted.contains(&true) {
                left_out.n_without_good_turn += 1;
                continue;
            }
            match learner.episode(trace, &wanted, settings.algorithm != Algorithm::Ppo) {
                Err(Unlearnable::NoTokens) => left_out.n_without_tokens += 1,
                Err(Unlearnable::TooLong) => left_out.n_too_long += 1,
                Err(Unlearnable::Unrendered(error)) => *left_out.unrendered.entry(error.to_string()).or_default() += 1,
                Ok(episode) => {
                    let was_told = episode.is_told();
                    let episode = began.sampled(episode);
                    n_undrawn += usize::from(was_told && !episode.is_told());
                    episodes.push(episode);
                    kept.push(trace);
                    n_said += usize::from(began.is_said());
                }
            }
        }
        let counts = counts(&kept, settings)?;
        let rewards: Vec<Vec<f64>> = kept.iter().map(|trace| turn_rewards(trace)).collect();
        let pairs = if settings.algorithm == Algorithm::Dpo { pairs(&kept, settings.pair_margin) } else { Vec::new() };
        let passes = 0..u64::from(settings.passes);
        let steps: Vec<Vec<usize>> = match settings.algorithm {
            Algorithm::Dpo => {
                let ones = vec![1; pairs.len()];
                passes.flat_map(|pass| sft::cut(&ones, settings.batch_pairs as usize, settings.seed, pass)).collect()
            }
            _ => {
                let lengths: Vec<usize> = episodes.iter().map(Episode::n_trained).collect();
                passes.flat_map(|pass| sft::cut(&lengths, settings.batch_tokens as usize, settings.seed, pass)).collect()
            }
        };
        if steps.is_empty() {
            let hint = match settings.algorithm {
                _ if traces.is_empty() && *n_held_out > 0 => {
                    "`hone rollout --split train` makes traces of tasks that may be learned from".to_owned()
                }
                _ if traces.is_empty() => "`hone trace list` with the same filters shows which traces there are".to_owned(),
                Algorithm::Sft if left_out.is_mostly(left_out.n_not_good) => {
                    format!(
                        "{} traces were looked at; lower --quality-min, or weigh them with `hone reward score`; of a file of good \
                         examples, `hone trace import FILE --reward 1` says so, even where it was imported before",
                        traces.len()
                    )
                }
                Algorithm::Dpo if !kept.is_empty() => {
                    "DPO needs groups: several traces of one scenario with other rewards, as `hone rollout` makes them; or answers of \
                     people, given as feedback"
                        .to_owned()
                }
                _ => left_out.way_out().to_owned(),
            };
            return Err(Failure::user(format_args!("there is nothing to learn from{left_out}")).hint(hint));
        }
        if u64::from(settings.warmup) > steps.len() as u64 {
            let text = format!("warmup = {} never ends: the run has {}", settings.warmup, counted(steps.len() as u64, "step"));
            return Err(Failure::user(text).hint("a shorter --warmup, more --passes or smaller steps give it an end"));
        }
        let n_looked_at = traces.iter().filter(|(began, _)| began.is_counted()).count() + n_held_out;
        let what = match settings.algorithm {
            Algorithm::Dpo => format!("{} of {n_looked_at} traces to learn from", counted(pairs.len() as u64, "pair")),
            _ => format!("{} of {n_looked_at} traces to learn from", episodes.len()),
        };
        let of_people = if n_said == 0 { String::new() } else { format!(", {n_said} with answers of people") };
        let undrawn = match settings.algorithm {
            Algorithm::Ppo if n_undrawn > 0 => {
                format!(
                    "; what the sampler said of {n_undrawn} cannot be compared: not the temperature alone decided, or nobody knows it"
                )
            }
            _ => String::new(),
        };
        let told = format!("{what}{of_people}, {}{left_out}{undrawn}", counted(steps.len() as u64, "step"));
        let began = traces.iter().map(|(began, _)| *began).collect();
        Ok(Self { began, episodes, counts, rewards, pairs, steps, told })
    }

    /// The batch of a step.
    fn batch(&self, chosen: &[usize], settings: &Settings) -> Result<Batch, TrainError> {
        let n_rows_max = settings.n_rows_max();
        if settings.algorithm == Algorithm::Dpo {
            let pair = |&idx: &usize| self.pairs[idx].map(|episode_idx| self.episodes[episode_idx].clone());
            return Ok(Batch::of_pairs(&chosen.iter().map(pair).collect::<Vec<_>>(), n_rows_max));
        }
        let episodes: Vec<Episode> = chosen.iter().map(|&idx| self.episodes[idx].clone()).collect();
        let mut batch = Batch::new(&episodes, n_rows_max);
        batch.set_advantages(&chosen.iter().map(|&idx| Advantage::Episode(self.counts[idx])).collect::<Vec<_>>())?;
        Ok(batch)
    }
}

/// Traces that cannot be learned from, by why.
#[derive(Default)]
struct LeftOut {
    n_held_out: usize,
    n_broken: usize,
    n_not_good: usize,
    n_without_good_turn: usize,
    n_without_tokens: usize,
    n_too_long: usize,
    /// By what the chat template said of them.
    unrendered: BTreeMap<String, usize>,
}

impl LeftOut {
    /// Whether this is the most frequent reason, or there is none.
    fn is_mostly(&self, n: usize) -> bool {
        let others = [self.n_broken, self.n_not_good, self.n_without_good_turn, self.n_without_tokens, self.n_too_long];
        n >= others.into_iter().chain(self.unrendered.values().copied()).max().unwrap_or(0)
    }

    /// What to do where all were left out.
    fn way_out(&self) -> &'static str {
        if self.is_mostly(self.n_not_good) {
            "weigh traces with `hone reward score`, or send feedback that names the episode"
        } else if self.is_mostly(self.n_too_long) {
            "a longer --context has room for them"
        } else if self.is_mostly(self.n_without_tokens) {
            "the sampler's tokens are needed: traces of local models have them"
        } else if self.is_mostly(self.n_without_good_turn) {
            "every turn had an error, a call that failed, a weight of 0 or a reward below 0 of its own: `hone trace show` tells which"
        } else {
            "`hone trace show` tells what became of one"
        }
    }
}

/// So many reasons of a chat template are told; the rest are counted.
const N_REASONS_MAX: usize = 3;

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, why) in [
            (self.n_held_out, "of tasks that are held out"),
            (self.n_broken, "in which the world broke or no answer came"),
            (self.n_not_good, "that earned too little, or nothing"),
            (self.n_without_good_turn, "in which no turn went well"),
            (self.n_without_tokens, "whose tokens are not known"),
            (self.n_too_long, "longer than the context"),
        ] {
            if n > 0 {
                write!(f, "; left out {n} {why}")?;
            }
        }
        let mut reasons: Vec<(&String, &usize)> = self.unrendered.iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        for (why, n) in reasons.iter().take(N_REASONS_MAX) {
            write!(f, "; left out {n} that cannot be rendered: {why}")?;
        }
        match reasons.iter().skip(N_REASONS_MAX).map(|(_, n)| **n).sum::<usize>() {
            0 => Ok(()),
            n => write!(f, "; left out {n} that cannot be rendered for other reasons"),
        }
    }
}

impl Teacher for Lessons {
    fn n_steps(&self) -> u64 {
        self.steps.len() as u64
    }

    fn begin(&self, folder: &Path) -> Result<(), Failure> {
        Began::keep(&self.began, folder)
    }

    fn step(&mut self, session: &mut Session<'_>) -> Result<Stepped, Failure> {
        let start = Instant::now();
        let step_idx = session.position.step;
        let chosen =
            usize::try_from(step_idx).ok().and_then(|idx| self.steps.get(idx)).ok_or_else(|| Failure::bug("a step too many"))?;
        let settings = session.settings.clone();
        let mut batch = self.batch(chosen, &settings).map_err(Failure::user)?;
        if batch.is_empty() {
            return Ok(Stepped::default());
        }
        let lr = settings.lr_at(step_idx, self.n_steps());
        let options = step::StepOptions { schedule: Schedule::Constant { lr }, ..settings.step_options(false) };
        let mut values = Vec::new();
        if let Some(mut critic) = session.position.critic.take() {
            let rewards: Vec<Vec<f64>> = chosen.iter().map(|&idx| self.rewards[idx].clone()).collect();
            let critic_options = settings.critic();
            let judged = session.learner.with_trainer(move |host, trainer| {
                let stats = critic.judge(host, trainer, &mut batch, &rewards, &critic_options)?;
                Ok::<_, TrainError>((critic, batch, stats))
            })?;
            let (critic, judged_batch, stats) = judged.map_err(Failure::user)?;
            (session.position.critic, batch) = (Some(critic), judged_batch);
            values.extend([("value_loss", stats.loss), ("value_explained", stats.explained)]);
        }
        let n_tokens = batch.n_tokens() as u64;
        let stats = session.learner.step(batch, options)?;
        if settings.algorithm == Algorithm::Dpo {
            values.extend([("pair_accuracy", stats.pair_accuracy), ("pair_margin", stats.pair_margin)]);
        }
        let seconds = start.elapsed().as_secs_f64();
        values.extend([("trained_s", seconds), ("trained_tokens_per_s", n_tokens as f64 / seconds.max(1e-9))]);
        values.push(("tokens", session.position.progress.spent().n_tokens as f64 + n_tokens as f64));
        Ok(Stepped { merit: -stats.loss, stats: Some(stats), n_tokens, values, groups: Vec::new() })
    }
}

/// How much each episode counts: all alike, or for AWR by what it earned beyond its siblings.
fn counts(traces: &[&Trace], settings: &Settings) -> Result<Vec<f64>, Failure> {
    if settings.algorithm != Algorithm::Awr {
        return Ok(vec![1.0; traces.len()]);
    }
    let earned = |trace: &Trace| trace.reward().map_or(0.0, |reward| reward.total);
    let sibling = |trace: &Trace| trace.category.as_ref().map_or_else(String::new, ToString::to_string);
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for trace in traces {
        let (sum, n) = sums.entry(sibling(trace)).or_default();
        (*sum, *n) = (*sum + earned(trace), *n + 1.0);
    }
    let beyond = |trace: &&Trace| earned(trace) - sums.get(&sibling(trace)).map_or(0.0, |(sum, n)| sum / n);
    let advantages: Vec<f64> = traces.iter().map(beyond).collect();
    awr_weights(&advantages, settings.awr_temperature, settings.awr_weight_max).map_err(Failure::user)
}

/// Of every group the best and the worst, where they differ enough.
fn pairs(traces: &[&Trace], margin: f64) -> Vec<[usize; 2]> {
    let mut groups: BTreeMap<GroupId, Vec<(f64, usize)>> = BTreeMap::new();
    for (idx, trace) in traces.iter().enumerate() {
        if let (Some(group), Some(reward)) = (trace.group, trace.reward()) {
            groups.entry(group).or_default().push((reward.total, idx));
        }
    }
    groups.values().filter_map(|members| best_and_worst(members, margin)).collect()
}

/// The places of whoever earned most and least, where they differ enough.
pub(crate) fn best_and_worst(earned: &[(f64, usize)], margin: f64) -> Option<[usize; 2]> {
    let by_reward = |a: &&(f64, usize), b: &&(f64, usize)| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1));
    let (best, worst) = (earned.iter().max_by(by_reward)?, earned.iter().min_by(by_reward)?);
    (best.0 - worst.0 >= margin && best.0 > worst.0).then_some([best.1, worst.1])
}
