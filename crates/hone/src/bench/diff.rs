//! `hone bench diff`: pairs of files compared per second, with both parsed and with the first one kept.

use super::figures::Spread;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_reward::diff::{Asked, Language, Source, diff, sample};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Measure how many changes of 200-line files are evaluated per second
///
/// One thread, by language. Cold: both files are parsed. Cached: the first one is kept, as for the samples of a group, and the
/// second is parsed from what it has in common with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the files and their changes
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Lines of each file
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=10_000))]
    lines: u32,
    /// Rounds to measure
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Pairs of one round.
const N_PAIRS: u64 = 100;

#[derive(Debug, Serialize)]
struct Figures {
    cold_pairs_per_s: f64,
    cold_spread: Spread,
    cached_pairs_per_s: f64,
    cached_spread: Spread,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let mut all = BTreeMap::new();
    for language in Language::ALL {
        let before = sample::file(language, args.lines as usize, args.seed);
        let pairs: Vec<String> = (0..N_PAIRS).map(|pair| sample::edited(language, &before, args.seed + pair)).collect();
        let parsed = Source::parse(language, before.as_str()).map_err(Failure::world)?;
        let (mut cold, mut cached) = (Vec::new(), Vec::new());
        for _ in 0..args.rounds {
            cold.push(rate(&pairs, |after| {
                diff(&Source::parse(language, before.as_str())?, &Source::parse(language, after)?, &Asked::default())
            })?);
            cached.push(rate(&pairs, |after| diff(&parsed, &parsed.edited(after)?, &Asked::default()))?);
        }
        let (cold, cached) = (Spread::of(&cold), Spread::of(&cached));
        let figures = Figures {
            cold_pairs_per_s: cold.median,
            cold_spread: cold,
            cached_pairs_per_s: cached.median,
            cached_spread: cached,
        };
        all.insert(language.name(), figures);
    }
    if context.printer.wants_json() {
        context.printer.json(&all)?;
    } else {
        let row = |(name, figures): (&&str, &Figures)| {
            vec![(*name).to_owned(), figures.cold_spread.to_string(), figures.cached_spread.to_string()]
        };
        let rows: Vec<Vec<String>> = all.iter().map(row).collect();
        context.printer.table(&["language", "pairs/s, both parsed", "pairs/s, the first kept"], &rows)?;
    }
    Ok(Exit::Yes)
}

fn rate<T>(pairs: &[String], compare: impl Fn(&str) -> Result<T, hone_reward::diff::DiffError>) -> Result<f64, Failure> {
    let start = Instant::now();
    for after in pairs {
        std::hint::black_box(compare(after).map_err(Failure::world)?);
    }
    Ok(pairs.len() as f64 / start.elapsed().as_secs_f64())
}
