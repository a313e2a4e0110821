//! What commands that play scenarios have in common: which ones, how often, how many at once, what is cut short, and how groups are
//! weighed and recorded.

use crate::clock::RealClock;
use crate::failure::Failure;
use crate::printer::{Printer, counted};
use crate::world::World;
use clap::ValueEnum;
use hone_env::Player;
use hone_env::rollout::{Limits, Luck, Plan, Played, Timing};
use hone_reward::{Attempt, Recipe, ScoreError, Scorer};
use hone_trace::env::Split;
use hone_trace::policy::Policy;
use hone_trace::store::{Document, Write};
use hone_trace::{Config, ErrorEvent, RunId, Scenario, ScenarioId, Tenant, Time, Trace, TraceId};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Which scenarios are played, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scenarios")]
pub(crate) struct PlayArgs {
    /// Which part of a world's scenarios
    #[arg(long, value_enum, default_value_t = SplitName::Test)]
    split: SplitName,
    /// The seed of scenarios, worlds and policies
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// How many episodes are played at once
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrency: u16,
    /// The most answers of an episode
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: u32,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: u64,
    /// The most seconds of an episode, looked at before and in each answer, and kept to by a world of your own; a step of any other is waited for
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    max_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SplitName {
    /// To learn from
    Train,
    /// To choose by
    Validation,
    /// To report
    Test,
}

/// Why an episode ended: no answer came from who plays.
pub(crate) fn unanswered(trace: &Trace) -> Option<&ErrorEvent> {
    trace.turns().flat_map(|turn| &turn.errors).find(|error| !error.recovered && error.kind.starts_with("policy_"))
}

/// What is to be said where a model plays with tools that its chat template does not show it.
pub(crate) fn unseen_tools<'a>(player: Player<'_>, traces: impl IntoIterator<Item = &'a Trace>) -> Option<String> {
    let Player::Policy(policy) = player else { return None };
    let n_tools = traces.into_iter().flat_map(|trace| &trace.segments).map(|segment| segment.tools.len()).max().unwrap_or(0);
    (n_tools > 0 && !policy.calls_tools()).then(|| {
        let model = policy.config().model.as_deref().unwrap_or("the model");
        format!(
            "{model} does not see the {} of this world: its chat template has no place for them",
            counted(n_tools as u64, "tool")
        )
    })
}

impl PlayArgs {
    pub(crate) fn split(&self) -> Split {
        match self.split {
            SplitName::Train => Split::Train,
            SplitName::Validation => Split::Validation,
            SplitName::Test => Split::Test,
        }
    }

    /// The first `n` scenarios of a world; that it has fewer is said.
    pub(crate) fn scenarios(&self, world: &World, n: usize, printer: &Printer) -> Result<Vec<Scenario>, Failure> {
        let split = self.split();
        let scenarios = world.env.scenarios(split, self.seed, n).map_err(|error| Failure::world(error).context(&world.name))?;
        if scenarios.is_empty() {
            return Err(Failure::user(format_args!("{} has no scenarios in its {} split", world.name, split.as_str())));
        }
        if scenarios.len() < n {
            let has = counted(scenarios.len() as u64, "scenario");
            printer.say(&format!("{} has only {has} in its {} split, not {n}", world.name, split.as_str()));
        }
        Ok(scenarios)
    }

    /// How they are played. Scripts are played by the world's own time, so that the same seed gives the same bytes.
    pub(crate) fn plan<'a>(&self, run: RunId, tenant: &Tenant, scenarios: &'a [Scenario], play: Play) -> Plan<'a> {
        Plan {
            run,
            tenant: tenant.clone(),
            scenarios,
            split: Some(self.split()),
            n_samples: play.n_samples,
            seed: self.seed,
            luck: play.luck,
            limits: Limits {
                turns_max: self.max_turns as usize,
                answer_tokens_max: self.max_tokens,
                time_max_ms: self.max_seconds.map(|seconds| seconds * 1000),
                ..Limits::default()
            },
            tokens_max: BTreeMap::new(),
            n_concurrent: usize::from(self.concurrency),
            timing: if play.is_script { Timing::Told(Time::TOLD) } else { Timing::Real(&RealClock) },
        }
    }

    /// The run of a policy in a world. A model's is a new one each time. A script does the same every time, so its run is the same, and more
    /// scenarios are more of it; other groups or limits are other traces, and so another run.
    pub(crate) fn run(&self, command: &str, world: &World, config: &Config, seed: u64, play: Play) -> RunId {
        let now = if play.is_script { String::new() } else { crate::clock::now().to_string() };
        let limits = format!("{} {} {}", self.max_turns, self.max_tokens, self.max_seconds.unwrap_or(0));
        let (config, seed, n_samples) = (config.hash().to_string(), seed.to_string(), play.n_samples.to_string());
        RunId::derived(&[command, &world.name, &config, &seed, &n_samples, &limits, &now])
    }
}

/// What differs between commands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play {
    pub(crate) n_samples: usize,
    pub(crate) luck: Luck,
    pub(crate) is_script: bool,
}

/// What weighs the groups of a plan.
pub(crate) struct Weigher<'a> {
    scorer: Scorer<'a>,
    scenarios: BTreeMap<&'a ScenarioId, &'a Scenario>,
    seed: u64,
}

/// What is to be said of a group that was weighed.
#[derive(Default)]
pub(crate) struct Remarks {
    /// Traces that could not be scored, and why not.
    pub(crate) unscored: Vec<(TraceId, ScoreError)>,
    /// Traces that a judge saw without their middle.
    pub(crate) n_shortened: usize,
}

impl<'a> Weigher<'a> {
    pub(crate) fn new(recipe: &'a Recipe, plan: &Plan<'a>, judge: Option<&'a dyn Policy>) -> Result<Self, Failure> {
        let scorer = Scorer::new(recipe, judge).map_err(Failure::user)?;
        let scenarios = plan.scenarios.iter().map(|scenario| (&scenario.id, scenario)).collect();
        Ok(Self { scorer, scenarios, seed: plan.seed })
    }

    /// Puts the rewards of a group on its traces. A trace that cannot be scored has none, and so has an episode that broke: it
    /// says nothing of who played.
    pub(crate) fn weigh(&self, played: &mut Played) -> Remarks {
        let scenario = played.group.scenario.as_ref().and_then(|id| self.scenarios.get(id));
        let item = scenario.map_or(Value::Null, |scenario| item(scenario));
        let whole = |trace: &&Trace| trace.broken().is_none();
        let attempts: Vec<Attempt<'_>> = played.traces.iter().filter(whole).map(|trace| Attempt { trace, item: &item }).collect();
        let scored = self.scorer.score_group(&attempts, self.seed, played.group.at);
        let mut remarks = Remarks { unscored: Vec::new(), n_shortened: scored.n_shortened() };
        let whole = played.traces.iter_mut().filter(|trace| trace.broken().is_none());
        for (trace, scored) in whole.zip(scored.traces) {
            match scored {
                Ok(scored) => {
                    trace.rewards.extend(scored.turns);
                    trace.rewards.push(scored.reward);
                }
                Err(error) => remarks.unscored.push((trace.id, error)),
            }
        }
        remarks
    }
}

/// A scenario as graders see it.
pub(crate) fn item(scenario: &Scenario) -> Value {
    json!({"input": scenario.input, "truth": scenario.truth})
}

/// The records of a group.
pub(crate) fn writes(played: Played) -> Vec<Write> {
    let group = Write::Document(Document::of(&played.group, 0, played.group.tenant.clone(), played.group.at));
    played.traces.into_iter().map(|trace| Write::Trace(Box::new(trace))).chain([group]).collect()
}
