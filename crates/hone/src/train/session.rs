//! A run under way: steps until there is a reason to stop, each measured, recorded and durable.
//!
//! What a step is made of is up to a [`Teacher`]; everything else is the same for all of them: validation on tasks that are never
//! trained on, the best adapter so far, alarms, worlds that are watched for forgetting, the reason for stopping.

use super::finished::Finished;
use super::live;
use super::meter::Meter;
use super::metrics::Line;
use super::plot::{Glyphs, sparkline};
use super::runs::{End, Run};
use super::sampler::Sampler;
use super::sinks::Sinks;
use super::state::{Position, States};
use super::timed::Timed;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::gym::{Broken, Exercise, Gym, NO_ROOM, Weighed, is_unscored, whole};
use crate::learner::Learner;
use crate::play::unseen_tools;
use crate::printer::counted;
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Limits, Played};
use hone_eval::interval::{mean, wilson};
use hone_reward::alarm::{Alarm, StepReport, TraceReport};
use hone_trace::env::Split;
use hone_trace::policy::Policy;
use hone_trace::store::{Document, Write};
use hone_trace::{Config, Time, Trace, TraceOutcome};
use hone_train::settings::{Algorithm, Measure, Settings};
use hone_train::step::StepStats;
use hone_train::stop::{Evaluation, Reason, Secondary, Spent, StepSeen, Stop, StopOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a step is made of.
pub(super) trait Teacher {
    /// Steps in all.
    fn n_steps(&self) -> u64;

    /// Keeps what it needs to go on, in the folder of a run that begins.
    fn begin(&self, _folder: &Path) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes the next step. Everything about it follows from the settings, the position and the weights.
    fn step(&mut self, session: &mut Session<'_>) -> Result<Stepped, Failure>;
}

/// What a step came to.
#[derive(Default)]
pub(super) struct Stepped {
    /// What it did to the weights; nothing where nothing was to be learned.
    pub(super) stats: Option<StepStats>,
    /// What rises when all goes well: the mean reward, or the loss turned round.
    pub(super) merit: f64,
    /// Tokens sampled and trained.
    pub(super) n_tokens: u64,
    /// Further figures.
    pub(super) values: Vec<(&'static str, f64)>,
    /// What was played.
    pub(super) groups: Vec<Played>,
}

/// A run under way.
pub(super) struct Session<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) settings: Settings,
    pub(super) run: Run,
    /// What its episodes are named by: another run of this name, in another folder, has others.
    pub(super) records: String,
    pub(super) learner: Learner,
    /// Who samples, where it is not the learner itself.
    pub(super) sampler: Option<Sampler>,
    pub(super) position: Position,
    pub(super) states: States,
    pub(super) folder: PathBuf,
    /// Where it is trained or measured, where there is such a world.
    pub(super) world: Option<World>,
    /// Who judges, where the recipe asks for one.
    pub(super) judge: Option<&'a dyn Policy>,
    /// What judges have cost.
    pub(super) spent: &'a dyn Fn() -> f64,
    /// What of time and money has been counted.
    pub(super) meter: Meter,
    /// Worlds that are measured only to see what is forgotten.
    pub(super) watched: Vec<World>,
    pub(super) sinks: Sinks<'a>,
    pub(super) lines: Vec<Line>,
    /// The command that goes on with it.
    pub(super) way_on: &'a str,
    /// Whether somebody pressed Ctrl-C.
    pub(super) is_interrupted: &'a AtomicBool,
}

/// Where a run practises, and by which settings.
pub(super) struct Practice<'p> {
    pub(super) gym: Gym<'p>,
    pub(super) settings: &'p Settings,
}

/// Where a run practises.
pub(super) fn gym<'g>(
    context: &'g Context<'_>,
    settings: &Settings,
    records: &'g str,
    world: &'g World,
    judge: Option<&'g dyn Policy>,
) -> Gym<'g> {
    let limits =
        Limits { turns_max: settings.turns as usize, answer_tokens_max: u64::from(settings.answer_tokens), ..Limits::default() };
    let (env, tenant) = (world.env.as_ref(), &context.settings.tenant);
    // Without a judge, what only a judge can weigh is not weighed.
    let recipe = Some(&world.recipe).filter(|recipe| judge.is_some() || !recipe.needs_judge());
    Gym { env, recipe, judge, tenant, seed: settings.seed, split: None, limits, run: records }
}

/// The file that asks a run to stop.
pub(super) const STOP_FILE: &str = "stop";
/// Points that a watched world may lose before it is said.
const FORGOTTEN_POINTS: f64 = 3.0;
/// Tasks of a watched world below which nothing is said: a few say little.
const N_WATCHED_MIN: usize = 10;
/// Steps that the sparkline shows.
const SPARKLINE_LEN: usize = 24;

impl Session<'_> {
    /// Steps until there is a reason to stop.
    pub(super) fn go(mut self, teacher: &mut dyn Teacher) -> Result<Finished, Failure> {
        match self.advance(teacher) {
            Ok(stop) => self.end(&stop),
            Err(failure) => {
                // Should these fail too, the first failure is the one to tell.
                let _ = self.count_lost();
                let _ = self.sinks.fail(&failure, crate::clock::now());
                Err(self.with_way_on(failure))
            }
        }
    }

    /// What the world did to a run can pass: how it goes on then. A model that has no longer context cannot be given one.
    fn with_way_on(&self, failure: Failure) -> Failure {
        let model_len = self.learner.model_context_len();
        if failure.hint.as_deref() == Some(NO_ROOM) && model_len <= self.settings.context as usize {
            return failure
                .hint(format!("the model reads {model_len} tokens at most: train another one, or in a world of shorter texts"));
        }
        if failure.kind != Kind::World {
            return failure;
        }
        let way_on = format!("the run goes on with `{}`", self.way_on);
        let hint = failure.hint.as_ref().map_or_else(|| way_on.clone(), |hint| format!("{hint}; {way_on}"));
        failure.hint(hint)
    }

    fn advance(&mut self, teacher: &mut dyn Teacher) -> Result<Stop, Failure> {
        let options = self.settings.stop(teacher.n_steps());
        let every = u64::from(self.settings.validate_every);
        if self.position.step == 0 && self.position.adapter.is_empty() {
            self.states.keep(&mut self.position, &mut self.learner, self.settings.checkpoints as usize)?;
        }
        loop {
            let step = self.position.step;
            if self.world.is_some()
                && (step.is_multiple_of(every) || step == teacher.n_steps())
                && self.last_measured() != Some(step)
            {
                // Measuring by a judge costs too: not once the money is spent, whatever else the run ends for.
                let is_spent = options.dollars_max.is_some_and(|max| self.position.progress.spent().dollars >= max);
                if let Some(stop) = self.reason(&options).filter(|_| is_spent && self.is_judged()) {
                    let why = format!("{}; step {step} was not measured, for max_dollars is spent", stop.why);
                    return Ok(Stop { why, ..stop });
                }
                if let Some(stop) = self.interrupted() {
                    return Ok(stop);
                }
                self.measure()?;
            }
            if let Some(stop) = self.reason(&options) {
                return Ok(stop);
            }
            self.step(teacher)?;
        }
    }

    /// What was spent on a step or validation that failed stays counted when the run goes on.
    fn count_lost(&mut self) -> Result<(), Failure> {
        let spent = self.meter.lap(Instant::now(), (self.spent)());
        let Some(mut durable) = self.states.position()? else { return Ok(()) };
        durable.progress.see_spent(spent).map_err(Failure::bug)?;
        self.states.note(&durable)
    }

    /// The step of the last evaluation.
    fn last_measured(&self) -> Option<u64> {
        self.position.progress.evaluations().last().map(|last| last.step)
    }

    fn interrupted(&self) -> Option<Stop> {
        self.is_interrupted.load(Ordering::Relaxed).then(|| Stop::interrupted(self.position.step))
    }

    fn reason(&self, options: &StopOptions) -> Option<Stop> {
        let is_asked = self.folder.join(STOP_FILE).exists();
        self.interrupted()
            .or_else(|| is_asked.then(|| Stop::asked(self.position.step)))
            .or_else(|| self.position.progress.stop(options))
    }

    /// One step, durable when it returns.
    fn step(&mut self, teacher: &mut dyn Teacher) -> Result<(), Failure> {
        let stepped = teacher.step(self)?;
        let step = self.position.step + 1;
        let is_bad = stepped.stats.as_ref().is_some_and(|stats| stats.skipped.is_some());
        if is_bad {
            self.keep_bad(step, &stepped)?;
        }
        let alarms = self.watch(step, &stepped.groups)?;
        let mut values = stepped.values;
        values.push(("alarms", alarms.len() as f64));
        if let Some(stats) = &stepped.stats {
            values.extend(figures(stats));
        }
        let Spent { seconds, dollars, .. } = self.meter.lap(Instant::now(), (self.spent)());
        let (reward_mean, n_tokens) = (stepped.merit, stepped.n_tokens);
        let seen = StepSeen { step, reward_mean, n_tokens, seconds, dollars, applied: !is_bad };
        self.position.progress.see_step(seen).map_err(Failure::bug)?;
        self.position.step = step;
        self.tell(step, teacher.n_steps(), values)?;
        self.sinks.sync()?;
        self.states.keep(&mut self.position, &mut self.learner, self.settings.checkpoints as usize)
    }

    fn tell(&mut self, step: u64, n_steps: u64, values: Vec<(&'static str, f64)>) -> Result<(), Failure> {
        let line = Line::new(step, crate::clock::now(), values);
        self.sinks.add(&line)?;
        self.lines.push(line);
        let shown = ["reward", "loss"].into_iter().find(|name| self.lines.iter().any(|line| line.values.contains_key(*name)));
        let series: Vec<f64> = self.lines.iter().filter_map(|line| line.values.get(shown?).copied()).collect();
        let mut values = self.lines[self.lines.len() - 1].values.clone();
        if self.settings.algorithm != Algorithm::Grpo {
            // How far the weights have moved since others sampled says nothing of the sampler.
            values.remove("mismatch_max");
        }
        let printer = self.context.printer;
        printer.say(&live::line(
            step,
            n_steps,
            &values,
            &sparkline(&series, SPARKLINE_LEN, Glyphs::of(printer)),
            live::eta(&self.lines, n_steps),
        ));
        Ok(())
    }

    /// Looks for reward hacking in what was played, and says what it finds.
    fn watch(&mut self, step: u64, groups: &[Played]) -> Result<Vec<Alarm>, Failure> {
        let traces: Vec<TraceReport> =
            groups.iter().flat_map(|played| &played.traces).filter_map(|trace| TraceReport::of(trace, 0)).collect();
        if traces.is_empty() {
            return Ok(Vec::new());
        }
        let solved = self.position.progress.evaluations().last().filter(|last| last.step + 1 == step).map(Evaluation::mean);
        // What was solved, in the units of the reward: these are compared.
        let [low, high] = self.world.as_ref().and_then(|world| world.recipe.primary_range()).unwrap_or([0.0, 1.0]);
        let validation = solved.map(|solved| low + solved * (high - low));
        let report = StepReport { step: u32::try_from(step).unwrap_or(u32::MAX), validation, level: 0, traces };
        let alarms = self.position.monitor.watch(&report);
        for alarm in &alarms {
            self.context.printer.complain(&format!("{}: {}; {}", alarm.kind.name(), alarm.sentence, alarm.action));
            self.sinks.alarm(alarm, crate::clock::now())?;
        }
        Ok(alarms)
    }

    /// Keeps what a step was taken on whose loss or gradient was not finite.
    fn keep_bad(&self, step: u64, stepped: &Stepped) -> Result<(), Failure> {
        let traces: Vec<String> =
            stepped.groups.iter().flat_map(|played| &played.traces).map(|trace| trace.id.to_string()).collect();
        let path = self.folder.join(format!("bad-{step}.json"));
        let record = serde_json::json!({"step": step, "stats": stepped.stats, "traces": traces});
        crate::durable::write(&path, &format!("{record:#}\n"))?;
        let text = format!("step {step} was not finite and moved nothing; what it was taken on is in {}", path.display());
        self.context.printer.complain(&text);
        Ok(())
    }

    /// Measures the adapter on tasks that are never trained on; keeps it where it is the best so far.
    fn measure(&mut self) -> Result<(), Failure> {
        let step = self.position.step;
        let n = self.settings.validation as usize;
        let Some(world) = self.world.clone() else { return Ok(()) };
        let Measured { played, unscored, broken, n_shortened, latency_ms } = self.evaluate(&world, n)?;
        if self.settings.measure == Measure::Rewarded && is_unscored(&played) {
            return Err(self.unscored("no task of validation", unscored.as_deref()));
        }
        let traces: Vec<&Trace> = whole(&played).collect();
        let per_episode = |total: usize| total as f64 / traces.len().max(1) as f64;
        let n_unscored = match self.settings.measure {
            Measure::Rewarded => traces.iter().filter(|trace| trace.reward().is_none()).count(),
            Measure::Solved | Measure::Format => 0,
        };
        let n_solved = traces.iter().filter(|trace| is_done(trace, self.settings.measure)).count();
        let (low, high) = wilson(n_solved, traces.len());
        let validation = n_solved as f64 / traces.len().max(1) as f64;
        let turns = per_episode(traces.iter().map(|trace| trace.turns().count()).sum());
        let tokens = per_episode(traces.iter().map(|trace| n_sampled(trace)).sum());
        let readable = per_episode(traces.iter().filter(|trace| is_done(trace, Measure::Format)).count());
        let secondary = Secondary { cost: Some(tokens), latency_ms, turns: Some(turns) };
        let scores = scores(&played, self.settings.measure);
        let n_broken = broken.as_ref().map_or(0, |broken| broken.n);
        let evaluation = Evaluation { step, scores, n_broken, secondary };
        self.position.progress.see_evaluation(evaluation).map_err(Failure::bug)?;
        let mut values = vec![
            ("validation".to_owned(), validation),
            ("validation_low".to_owned(), low),
            ("validation_high".to_owned(), high),
            ("validation_turns".to_owned(), turns),
            ("validation_tokens".to_owned(), tokens),
            ("validation_format".to_owned(), readable),
        ];
        values.extend((n_broken > 0).then(|| ("validation_broken".to_owned(), n_broken as f64)));
        values.extend((n_unscored > 0).then(|| ("validation_unscored".to_owned(), n_unscored as f64)));
        values.extend((n_shortened > 0).then(|| ("validation_shortened".to_owned(), n_shortened as f64)));
        let by_category = by_category(&played, self.settings.measure);
        if by_category.len() > 1 {
            values.extend(by_category.into_iter().map(|(name, share)| (format!("validation/{name}"), share)));
        }
        for watched in self.watched.clone() {
            values.push(self.look_back(&watched, n)?);
        }
        let spent = self.meter.lap(Instant::now(), (self.spent)());
        self.position.progress.see_spent(spent).map_err(Failure::bug)?;
        values.extend(self.is_judged().then(|| ("dollars".to_owned(), self.dollars())));
        let mut said = format!("validation {:.1} % ({:.1}-{:.1})", 100.0 * validation, 100.0 * low, 100.0 * high);
        if let Some(Broken { n, why }) = &broken {
            said += &format!("  {n} broke and count for nothing: {why}");
        }
        if n_unscored > 0 {
            said += &format!(
                "  {n_unscored} could not be scored and count as failed: {}",
                unscored.as_deref().unwrap_or("no reward")
            );
        }
        if n_shortened > 0 {
            said += &format!("  {n_shortened} judged without their middle: they do not fit the judge's context");
        }
        self.context.printer.say(&format!("{:>10}  {said}", format!("step {step}")));
        self.sinks.add(&Line::new(step, crate::clock::now(), values.iter().map(|(name, value)| (name.as_str(), *value))))?;
        self.position.kept.push(step);
        if self.position.progress.is_best() {
            self.states.keep_best(&mut self.learner)?;
        }
        // What it took stays counted in a run that goes on, and is not spent again.
        self.sinks.sync()?;
        self.states.note(&self.position)
    }

    /// Measures a world that is not trained in, and says what was forgotten.
    fn look_back(&mut self, world: &World, n: usize) -> Result<(String, f64), Failure> {
        let now = scores(&self.evaluate(world, n)?.played, Measure::Solved);
        let share = now.iter().sum::<f32>() / now.len().max(1) as f32;
        let first = self.position.watched.entry(world.name.clone()).or_insert_with(|| now.clone());
        if let Some(Lost { points, surely }) = Lost::between(first, &now) {
            let lost = format!("{} lost {points:.1} points since the start, surely {surely:.1}", world.name);
            self.context.printer.complain(&format!("{lost}: it is being forgotten; lower lr, or hold it by kl"));
        }
        Ok((format!("watched/{}", world.name), f64::from(share)))
    }

    /// Plays validation tasks of a world, always the same with the same dice.
    fn evaluate(&mut self, world: &World, n: usize) -> Result<Measured, Failure> {
        let policy = self.policy()?;
        let timed = Timed::new(policy.as_ref());
        // Labels need no judge; where only a judge knows, it is asked here too.
        let judge = self.judge.filter(|_| self.is_judged());
        // The dice are the same every time, the episodes are not.
        let records = format!("{} step {}", self.records, self.position.step);
        let gym = Gym { split: Some(Split::Validation), ..gym(self.context, &self.settings, &records, world, judge) };
        let exercise = Exercise { name: "validation", round: 0, n_samples: 1 };
        let scenarios = gym.scenarios(Split::Validation, n)?;
        if self.position.step == 0 && scenarios.len() < n {
            let (there, world) = (counted(scenarios.len() as u64, "task"), &world.name);
            self.context.printer.say(&format!("{world} has {there} to measure on, and {n} were asked for"));
        }
        if self.position.step == 0 {
            // Nothing else is heard of a run until this is done.
            let tasks = counted(scenarios.len() as u64, "task");
            self.context.printer.say(&format!("measures {tasks} of {} before the first step", world.name));
        }
        let Weighed { groups: played, unscored, n_shortened } =
            gym.play_and_weigh(exercise, Player::Policy(&timed), &scenarios)?;
        if let Some(text) = unseen_tools(Player::Policy(policy.as_ref()), played.iter().flat_map(|group| &group.traces))
            && self.position.step == 0
        {
            self.context.printer.complain(&text);
        }
        let broken = Broken::among(played.iter().flat_map(|group| &group.traces));
        if let Some(Broken { n, why }) = broken.as_ref().filter(|broken| 2 * broken.n > scenarios.len()) {
            let text = format!("{n} of {} tasks of {} broke, too many to measure by: {why}", scenarios.len(), world.name);
            return Err(Failure::world(anyhow::Error::msg(text)));
        }
        self.record(policy.config(), &played)?;
        Ok(Measured { played, unscored, broken, n_shortened, latency_ms: timed.mean_ms() })
    }

    /// Whether a judge is asked in validation.
    fn is_judged(&self) -> bool {
        self.judge.is_some() && self.settings.measure == Measure::Rewarded
    }

    /// Dollars that the run has spent, before it was resumed and since.
    pub(super) fn dollars(&self) -> f64 {
        self.position.progress.spent().dollars + self.meter.uncounted((self.spent)())
    }

    /// Ends a run in which nothing could be scored: it would go on to pay for nothing.
    pub(super) fn unscored(&self, what: &str, why: Option<&str>) -> Failure {
        let name = &self.run.name;
        let resume = format!("`{}`", self.way_on);
        let way_out = match self.judge {
            Some(_) => {
                format!("when the judge answers, go on with {resume}; another judge is for a fork: --fork {name} --judge POLICY")
            }
            None => format!("mend that, and go on with {resume}"),
        };
        Failure::user(format_args!("{what} could be scored: {}", why.unwrap_or("nothing weighs it"))).hint(way_out)
    }

    /// The model with its adapter as it is now, as a policy.
    pub(super) fn policy(&mut self) -> Result<Box<dyn Policy>, Failure> {
        Ok(match &mut self.sampler {
            Some(sampler) => Box::new(sampler.policy(&mut self.learner, self.position.step)?),
            None => Box::new(self.learner.policy()?),
        })
    }

    /// Where it practises, and by which settings.
    pub(super) fn practice<'p>(&'p self, world: &'p World) -> Practice<'p> {
        let Self { context, settings, records, judge, .. } = self;
        Practice { gym: gym(context, settings, records, world, *judge), settings }
    }

    /// Keeps what was played.
    pub(super) fn record(&self, config: &Config, groups: &[Played]) -> Result<(), Failure> {
        let tenant = self.context.settings.tenant.clone();
        let config = Write::Document(Document::of(config, 0, tenant, Time::TOLD));
        let writes: Vec<Write> = [config].into_iter().chain(groups.iter().cloned().flat_map(crate::play::writes)).collect();
        let n_conflicts = self.sinks.put(&writes)?;
        if n_conflicts > 0 {
            let text =
                format!("{n_conflicts} records of step {} were not kept: others are there under their ids", self.position.step);
            self.context.printer.complain(&text);
        }
        Ok(())
    }

    fn end(self, stop: &Stop) -> Result<Finished, Failure> {
        let best = self.position.progress.best();
        let reason = serde_json::to_value(stop.reason).map_err(Failure::bug)?;
        let end = End {
            reason: super::runs::text(&reason),
            why: stop.why.clone(),
            step: stop.step,
            best_step: best.map(|best| best.step),
        };
        let validation = self.position.progress.evaluations().last().map(Evaluation::mean);
        self.sinks.end(&end, crate::clock::now())?;
        let kept = if best.is_some() { "best" } else { "adapter" };
        Ok(Finished {
            folder: self.folder.join(kept),
            best_validation: best.map(|best| best.score),
            run: self.run.name,
            end,
            validation,
            adapter: self.position.adapter,
            resume: matches!(stop.reason, Reason::Asked | Reason::Interrupted).then(|| self.way_on.to_owned()),
        })
    }
}

/// What playing validation tasks came to.
struct Measured {
    played: Vec<Played>,
    /// Why the last episode that could not be scored was not.
    unscored: Option<String>,
    /// Episodes that broke: they say nothing of the adapter.
    broken: Option<Broken>,
    /// Episodes that a judge saw without their middle.
    n_shortened: usize,
    /// What an episode took in the mean.
    latency_ms: Option<f64>,
}

/// Points that a world has surely lost.
#[derive(Debug, PartialEq)]
struct Lost {
    points: f64,
    /// The least, with 95 % confidence.
    surely: f64,
}

impl Lost {
    /// By the scores of the same tasks; nothing where they are too few, or the loss too small, to be sure.
    fn between(first: &[f32], now: &[f32]) -> Option<Self> {
        let mut changes: Vec<f64> = now.iter().zip(first).map(|(now, first)| 100.0 * f64::from(now - first)).collect();
        if changes.len() < N_WATCHED_MIN {
            return None;
        }
        let (change, _) = mean(&changes);
        // One task more on either side, after Bonett and Price: that all changed alike does not make it certain.
        changes.extend([100.0, -100.0]);
        let (centre, half) = mean(&changes);
        let surely = -(centre + half);
        (surely > FORGOTTEN_POINTS).then_some(Self { points: -change, surely })
    }
}

/// Per task, 1 where it was done. Where the episode broke, the mean of the others stands in: tasks are compared one by one, so none
/// may be missing.
fn scores(played: &[Played], measure: Measure) -> Vec<f32> {
    let score = |trace: &Trace| f32::from(u8::from(is_done(trace, measure)));
    let stand_in = whole(played).map(score).sum::<f32>() / whole(played).count().max(1) as f32;
    let traces = played.iter().flat_map(|played| &played.traces);
    traces.map(|trace| if trace.broken().is_some() { stand_in } else { score(trace) }).collect()
}

fn is_done(trace: &Trace, measure: Measure) -> bool {
    match measure {
        Measure::Solved => trace.outcome == TraceOutcome::Success,
        Measure::Format => trace.turns().all(|turn| turn.errors.iter().all(|error| error.kind != "unparsable_action")),
        Measure::Rewarded => trace.reward().is_some_and(|reward| reward.total >= 0.5),
    }
}

/// The share of each type of task that was done.
fn by_category(played: &[Played], measure: Measure) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for trace in whole(played) {
        let (done, n) = counts.entry(trace.category.as_ref().map_or_else(String::new, ToString::to_string)).or_default();
        *done += f64::from(u8::from(is_done(trace, measure)));
        *n += 1.0;
    }
    counts.into_iter().map(|(name, (done, n))| (name, done / n)).collect()
}

/// Tokens that a trace sampled.
pub(super) fn n_sampled(trace: &Trace) -> usize {
    trace.turns().filter_map(|turn| turn.sampled.as_ref()).map(|sampled| sampled.ids.len()).sum()
}

/// What a step did to the weights, by name.
fn figures(stats: &StepStats) -> Vec<(&'static str, f64)> {
    let mut values = vec![
        ("loss", stats.loss),
        ("lr", f64::from(stats.lr)),
        ("grad_norm", stats.grad_norm),
        ("entropy", stats.entropy),
        ("clipped", stats.clip_share_low + stats.clip_share_high),
        ("ratio_max", stats.ratio_max),
        ("drift", stats.drift),
        ("trained_tokens", stats.n_tokens as f64),
    ];
    // Without a reference there is no divergence to tell.
    values.extend((stats.kl != 0.0).then_some(("kl", stats.kl)));
    values.extend(stats.mismatch_max.map(|mismatch| ("mismatch_max", mismatch)));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an alarm sounds when of `n` tasks, all solved at the start, so many are solved no more.
    fn alarms(n_lost: usize, n: usize) -> bool {
        let now: Vec<f32> = (0..n).map(|task_idx| f32::from(u8::from(task_idx >= n_lost))).collect();
        Lost::between(&vec![1.0; n], &now).is_some()
    }

    #[test]
    fn what_is_forgotten_is_said_when_enough_tasks_are_sure_of_it() {
        assert_eq!([(1, 1), (9, 9), (1, 10), (0, 400)].map(|(n_lost, n)| alarms(n_lost, n)), [false; 4]);
        assert_eq!([(10, 10), (5, 10), (24, 400)].map(|(n_lost, n)| alarms(n_lost, n)), [true; 3]);
    }

    #[test]
    fn that_all_tasks_are_lost_is_no_certainty() {
        let lost = Lost::between(&[1.0; 10], &[0.0; 10]).unwrap();
        assert!(lost.points == 100.0 && (40.0..60.0).contains(&lost.surely), "{lost:?}");
    }
}
