//! A curriculum in a file: it says which scenarios a rollout plays, and learns what they earned.
//!
//! The step's seed follows from the command's seed and the state in the file. So the same command goes on where the last one
//! stopped, and on the same state it plays the same again. The state is written when the records of the step are in the
//! store: a step that was killed is played again.
//! Knows nothing of how scenarios are chosen: that is `hone_env::curriculum`.

use super::choice::Choice;
use crate::context::Context;
use crate::failure::{Failure, at_path};
use crate::play::PlayArgs;
use crate::printer::Printer;
use crate::scale::Scale;
use crate::world::World;
use hone_env::curriculum::{Curriculum, CurriculumOptions, Entry, Pick};
use hone_env::rollout::Played;
use hone_trace::{Draws, Scenario, ScenarioId, Trace, TraceOutcome};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Which scenarios are played, by what they earned before.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Curriculum")]
pub(super) struct CourseArgs {
    /// Choose by what scenarios earned before, and keep that in this file
    ///
    /// What is solved steadily retires; what earns nothing is played more often, mostly in variations where the world has them;
    /// harder levels open when the easier ones are solved. The same command again goes on where this one stopped.
    #[arg(long, value_name = "FILE")]
    curriculum: Option<PathBuf>,
    /// How many scenarios of the world are in the curriculum
    #[arg(long, default_value_t = 256, value_name = "N", requires = "curriculum", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pool: u32,
    /// The tokens that an episode may write, level by level; as many levels as numbers. Without this, 512,1024,2048
    #[arg(long, value_name = "N,…", requires = "curriculum", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    level_tokens: Vec<u64>,
}

/// More than any curriculum that fits the largest pool.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A curriculum under way.
pub(super) struct Course<'a> {
    path: PathBuf,
    world: &'a World,
    pool: BTreeMap<ScenarioId, Scenario>,
    curriculum: Curriculum,
    /// What this step plays, by the scenario that is played, which may be a variation of the one that was picked.
    picks: BTreeMap<ScenarioId, Pick>,
    scale: Option<Scale<'a>>,
}

/// Where it stands.
#[derive(Debug, Serialize)]
pub(super) struct Standing {
    open_level: usize,
    active: usize,
    stuck: usize,
    retired: usize,
    waiting: usize,
    /// Variations that were played in this step.
    varied: usize,
}

impl CourseArgs {
    pub(super) fn is_asked(&self) -> bool {
        self.curriculum.is_some()
    }

    /// The curriculum in the file, or a new one; `None` where none is asked for.
    pub(super) fn open<'a>(&self, world: &'a World, play: &PlayArgs, printer: &Printer) -> Result<Option<Course<'a>>, Failure> {
        let Some(path) = &self.curriculum else { return Ok(None) };
        let scenarios = play.scenarios(world, self.pool as usize, printer)?;
        let name = format!("the first {} of {} ({}, seed {})", self.pool, world.name, play.split().as_str(), play.seed);
        let curriculum = match read(path)? {
            Some(text) => self.known(&text, &name, &scenarios).map_err(|failure| failure.context(path.display()))?,
            None => self.fresh(name, &scenarios, world)?,
        };
        let pool = scenarios.into_iter().map(|scenario| (scenario.id.clone(), scenario)).collect();
        Ok(Some(Course { path: path.clone(), world, pool, curriculum, picks: BTreeMap::new(), scale: None }))
    }

    fn fresh(&self, name: String, scenarios: &[Scenario], world: &World) -> Result<Curriculum, Failure> {
        let mut options = CurriculumOptions::default();
        if !self.level_tokens.is_empty() {
            options.token_budgets.clone_from(&self.level_tokens);
        }
        let n_levels = options.token_budgets.len();
        let mut difficulties: Vec<f64> = scenarios.iter().filter_map(|scenario| scenario.difficulty).collect();
        difficulties.sort_by(f64::total_cmp);
        let entries = scenarios.iter().map(|scenario| Entry {
            scenario: scenario.id.clone(),
            level: scenario.difficulty.map_or(1, |difficulty| level(difficulty, &difficulties, n_levels)),
            can_vary: world.env.vary(scenario, 0).is_some(),
        });
        Curriculum::new(name, options, entries).map_err(Failure::user)
    }

    /// Reads a state, and sees that it is one of these scenarios.
    fn known(&self, text: &str, name: &str, scenarios: &[Scenario]) -> Result<Curriculum, Failure> {
        let anew = "name another file to begin anew";
        let curriculum = Curriculum::parse(text)
            .map_err(|error| Failure::user(error).hint(format!("put a copy from before in its place, or {anew}")))?;
        if curriculum.pool() != name {
            let text = format!("this is a curriculum of {}, not of {name}", curriculum.pool());
            return Err(Failure::user(text).hint(format!("ask for the same world, --split, --seed and --pool, or {anew}")));
        }
        let ids: BTreeSet<&ScenarioId> = scenarios.iter().map(|scenario| &scenario.id).collect();
        if let Some(missing) = curriculum.scenarios().find(|id| !ids.contains(id)) {
            return Err(Failure::user(format_args!("the world has no scenario {missing} any more")).hint(anew));
        }
        let budgets = &curriculum.options().token_budgets;
        if !self.level_tokens.is_empty() && self.level_tokens != *budgets {
            let budgets: Vec<String> = budgets.iter().map(u64::to_string).collect();
            let text = format!("this curriculum was made with --level-tokens {}", budgets.join(","));
            return Err(Failure::user(text).hint(format!("leave --level-tokens out, or {anew}")));
        }
        Ok(curriculum)
    }
}

/// The easiest scenarios are on the first level, about equally many on each; what is equally hard stays together.
fn level(difficulty: f64, sorted: &[f64], n_levels: usize) -> usize {
    let n_easier = sorted.partition_point(|other| *other < difficulty);
    let n_not_harder = sorted.partition_point(|other| *other <= difficulty);
    // The part of the list in which the middle of those that are equally hard lies.
    let place = (n_easier + n_not_harder) * n_levels / (2 * sorted.len().max(1));
    1 + place.min(n_levels - 1)
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at_path(path)(error)),
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            Err(Failure::user(format_args!("{} is too large for a curriculum", path.display())).hint("name another file"))
        }
        Ok(_) => std::fs::read_to_string(path).map(Some).map_err(at_path(path)),
    }
}

impl Course<'_> {
    /// What this step plays; nothing when everything is learned.
    pub(super) fn choose(&mut self, n: usize, play: &PlayArgs, context: &Context<'_>) -> Choice {
        let seed = Draws::new(play.seed, &["curriculum", &self.curriculum.to_text()]).bits();
        let mut choice = Choice::all(Vec::new(), seed);
        for mut pick in self.curriculum.choose(seed, n) {
            let Some(own) = self.pool.get(&pick.scenario) else { continue };
            let varied = pick.vary_seed.and_then(|seed| self.world.env.vary(own, seed));
            pick.vary_seed = pick.vary_seed.filter(|_| varied.is_some());
            let scenario = varied.unwrap_or_else(|| own.clone());
            choice.tokens_max.insert(scenario.id.clone(), pick.token_budget);
            self.picks.insert(scenario.id.clone(), pick);
            choice.scenarios.push(scenario);
        }
        self.scale = Some(Scale::of(self.world, &choice.scenarios, play, context));
        choice
    }

    /// Takes in what a group earned. Episodes that say nothing of their scenario are left out.
    pub(super) fn record(&mut self, played: &Played) {
        let pick = played.group.scenario.as_ref().and_then(|id| self.picks.get(id));
        let (Some(pick), Some(scale)) = (pick, &self.scale) else { return };
        let earned = |trace: &Trace| {
            let solved = || f64::from(u8::from(trace.outcome == TraceOutcome::Success));
            scale.score(trace).unwrap_or_else(solved).clamp(0.0, 1.0)
        };
        let rewards: Vec<f64> = played.traces.iter().filter(|trace| trace.broken().is_none()).map(earned).collect();
        if !rewards.is_empty() {
            self.curriculum.record(pick, &rewards).expect("a pick of this curriculum, with rewards from 0 to 1");
        }
    }

    pub(super) fn save(&self) -> Result<(), Failure> {
        crate::durable::write(&self.path, &(self.curriculum.to_text() + "\n"))
    }

    pub(super) fn standing(&self) -> Standing {
        let now = self.curriculum.standing();
        Standing {
            open_level: now.open_level,
            active: now.n_active,
            stuck: now.n_stuck,
            retired: now.n_retired,
            waiting: now.n_waiting,
            varied: self.picks.values().filter(|pick| pick.vary_seed.is_some()).count(),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open_level, active, stuck, retired, waiting, varied } = self;
        if *active == 0 && *waiting == 0 {
            return write!(f, "curriculum: all {retired} scenarios are learned, nothing is left to play");
        }
        write!(
            f,
            "curriculum: level {open_level} is open; {active} active, of them {stuck} stuck; {retired} retired, {waiting} waiting"
        )?;
        if *varied > 0 { write!(f, "; {varied} played in variations") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn levels_follow_the_order_of_difficulty() {
        let check = |sorted: &[f64], expected: &[usize]| {
            let levels: Vec<usize> = sorted.iter().map(|one| level(*one, sorted, 3)).collect();
            assert_eq!(levels, expected, "{sorted:?}");
        };
        check(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5], &[1, 1, 2, 2, 3, 3]);
        check(&[0.0, 0.0, 0.1, 0.1, 0.1, 0.2], &[1, 1, 2, 2, 2, 3]);
        check(&[0.2, 0.2, 0.7, 0.7], &[1, 1, 3, 3]);
        check(&[0.5, 0.5], &[2, 2]);
        check(&[0.9], &[2]);
    }
}
