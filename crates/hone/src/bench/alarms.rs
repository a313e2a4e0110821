//! `hone bench alarms`: which planted reward hacks are noticed, and how often a clean run is disturbed.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_reward::alarm::simulate::simulate;

/// Measure reward-hacking alarms on simulated runs
///
/// Runs of 300 steps with realistic noise, half of them with a planted hack: a constant answer, every category at once, an
/// edit of the tests, log spam, rubric wording or farming of process rewards. The table counts the runs in which a detector
/// spoke up, by hack. The monitor sees what a real run shows, and never which hack was planted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the runs
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How many runs
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    runs: u32,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let found = simulate(args.seed, args.runs as usize);
    if context.printer.wants_json() {
        context.printer.json(&found)?;
        return Ok(Exit::Yes);
    }
    let hacks: Vec<&str> = found.table.values().next().map(|row| row.keys().copied().collect()).unwrap_or_default();
    let headings: Vec<&str> = std::iter::once("detector").chain(hacks.iter().copied()).collect();
    let row = |(detector, counts): (&&str, &std::collections::BTreeMap<&str, usize>)| {
        std::iter::once((*detector).to_owned()).chain(hacks.iter().map(|hack| counts[hack].to_string())).collect()
    };
    let rows: Vec<Vec<String>> = found.table.iter().map(row).collect();
    context.printer.table(&headings, &rows)?;
    context.printer.plain(&format!("recall {:.3}, {:.2} false alarms in 100 clean runs", found.recall, found.false_per_100))?;
    Ok(Exit::Yes)
}
