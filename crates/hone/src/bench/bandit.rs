//! `hone bench bandit`: how long a routing decision takes, and what the linear model earns on labels that it never sees.

use super::figures::{Spread, rounded};
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use hone_arbiter::simulate::{Labelled, mean_reward};
use hone_arbiter::{Belief, Linear, LinearSettings};
use hone_eval::interval::quantile;
use hone_trace::Draws;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measure how long a routing decision takes, and what it earns on digits
///
/// A decision draws from the linear models of 32 agents over 32 features. Propensities, which only the log needs, are computed beside it
/// and timed by themselves. With `--digits FILE`, a table that `bench/python/bandit.py export` writes, each class of
/// scikit-learn's digits is an arm, and only whether the chosen one was right becomes known: the mean reward over 4,000 rounds, the
/// median of three seeds. There no floor of exploration is kept, because nobody reads that log.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of contexts, rewards and choices
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Decisions to time
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    decisions: u32,
    /// Digits with their labels, as CSV with a heading
    #[arg(long, value_name = "FILE")]
    digits: Option<PathBuf>,
    /// Rounds of digits
    #[arg(long, default_value_t = 4000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
}

const N_AGENTS: usize = 32;
const N_FEATURES: usize = 32;

/// Rows that each agent has learned from.
const N_ROWS_EACH: usize = 100;

/// Propensities are timed after every so many decisions.
const PROPENSITIES_EVERY: u32 = 100;

#[derive(Debug, Serialize)]
struct Figures {
    decision_p50_us: f64,
    decision_p99_us: f64,
    propensities_p50_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    digits_mean_reward: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digits_spread: Option<Spread>,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let digits = args.digits.as_deref().map(read).transpose()?;
    let (decisions, propensities) = time(args.seed, args.decisions).map_err(Failure::world)?;
    let spread = match &digits {
        Some(examples) => Some(play(examples, args.rounds as usize, args.seed)?),
        None => {
            context
                .printer
                .complain("no digits_mean_reward: give --digits FILE, which `bench/python/bandit.py export FILE` writes");
            None
        }
    };
    let at = |micros: &[f64], share| rounded(quantile(micros, share).unwrap_or(0.0));
    let figures = Figures {
        decision_p50_us: at(&decisions, 0.5),
        decision_p99_us: at(&decisions, 0.99),
        propensities_p50_us: at(&propensities, 0.5),
        digits_mean_reward: spread.map(|spread| spread.median),
        digits_spread: spread,
    };
    if context.printer.wants_json() {
        context.printer.json(&figures)?;
        return Ok(Exit::Yes);
    }
    let Figures { decision_p50_us, decision_p99_us, propensities_p50_us, .. } = figures;
    context.printer.plain(&format!(
        "a decision among {N_AGENTS} agents by {N_FEATURES} features: {decision_p50_us} µs, p99 {decision_p99_us} µs"
    ))?;
    context.printer.plain(&format!("propensities, beside it: {propensities_p50_us} µs"))?;
    if let Some(spread) = spread {
        context.printer.plain(&format!("mean reward on digits after {} rounds: {spread}", args.rounds))?;
    }
    Ok(Exit::Yes)
}

/// Microseconds of each decision, and of propensities.
fn time(seed: u64, n_decisions: u32) -> Result<(Vec<f64>, Vec<f64>), hone_arbiter::LinearError> {
    let mut draws = Draws::new(seed, &["bench", "bandit"]);
    let names: Vec<String> = (0..N_AGENTS).map(|agent| format!("agent-{agent}")).collect();
    let agents: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut linear = Linear::new(LinearSettings::default(), N_FEATURES)?;
    let context = |draws: &mut Draws| -> Vec<f64> { (0..N_FEATURES).map(|_| draws.normal()).collect() };
    for row in 0..N_AGENTS * N_ROWS_EACH {
        let x = context(&mut draws);
        linear.add(agents[row % N_AGENTS], &x, draws.uniform())?;
    }
    let micros = |start: Instant| start.elapsed().as_secs_f64() * 1e6;
    let (mut decisions, mut propensities) = (Vec::new(), Vec::new());
    for decision in 0..n_decisions {
        let x = context(&mut draws);
        let start = Instant::now();
        let beliefs: Vec<Belief> = linear.beliefs(&agents, &x)?;
        std::hint::black_box(linear.choose(&beliefs, &mut draws));
        decisions.push(micros(start));
        if decision % PROPENSITIES_EVERY == 0 {
            let start = Instant::now();
            std::hint::black_box(linear.propensities(&beliefs));
            propensities.push(micros(start));
        }
    }
    Ok((decisions, propensities))
}

fn play(examples: &[Labelled], n_rounds: usize, seed: u64) -> Result<Spread, Failure> {
    let settings = LinearSettings { floor: 0.0, ..LinearSettings::default() };
    let reward = |seed| mean_reward(examples, settings, n_rounds, seed).map_err(Failure::world);
    let rewards = (seed..seed + 3).map(reward).collect::<Result<Vec<f64>, Failure>>()?;
    Ok(Spread::of(&rewards))
}

/// Examples of a table; more are not read.
const N_EXAMPLES_MAX: usize = 100_000;

/// Classes of a table.
const N_CLASSES_MAX: usize = 64;

/// Pixels from 0 to 16 and a label per line; a constant is added to the features.
fn read(path: &Path) -> Result<Vec<Labelled>, Failure> {
    let text = std::fs::read_to_string(path).map_err(at_path(path))?;
    let mut examples: Vec<Labelled> = Vec::new();
    for (idx, line) in text.lines().enumerate().skip(1) {
        let wrong = |what: &str| {
            let place = format!("{}, line {}: {what}", path.display(), idx + 1);
            Failure::user(place).hint("`bench/python/bandit.py export FILE` writes such a table")
        };
        let (pixels, label) = line.rsplit_once(',').ok_or_else(|| wrong("there is no comma"))?;
        let label: usize = label.trim().parse().map_err(|_| wrong("the label is not a whole number"))?;
        let pixels: Result<Vec<f64>, _> = pixels.split(',').map(|pixel| pixel.trim().parse::<f64>()).collect();
        let mut x: Vec<f64> = pixels.map_err(|_| wrong("a pixel is not a number"))?.iter().map(|pixel| pixel / 16.0).collect();
        x.push(1.0);
        if label >= N_CLASSES_MAX || examples.len() >= N_EXAMPLES_MAX {
            return Err(wrong("there are more than 64 classes or 100,000 examples"));
        }
        if examples.first().is_some_and(|first| first.x.len() != x.len()) {
            return Err(wrong("it has not as many fields as the first line"));
        }
        examples.push(Labelled { x, label });
    }
    if examples.is_empty() {
        return Err(Failure::user(format_args!("{} has no examples", path.display())));
    }
    Ok(examples)
}
