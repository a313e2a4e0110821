//! `hone bench canary`: how often simulated canaries err, and after how many rows they stop harm.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_arbiter::simulate::{Condition, study};

/// Measure how often simulated canaries err, and how soon they stop harm
///
/// Control solves 0.8 of its episodes; the canary is as good, or better or worse by so many points, and moves through 10, 50 and
/// 100 % of the traffic by the rules of a real one. Every truth is also played with a base rate that drifts by 10 points, with
/// outcomes that come 200 episodes late on average, and with 10 % of outcomes missing. The shares on top are those of the worst of these
/// four conditions, the rows those of the plain one. `non_inferior` has a margin of 3 points, `improve` asks for a gain of a tenth.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the runs
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Runs of each truth under each condition
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = study(args.seed, args.runs as usize, n_threads, |condition| context.printer.say(&format!("playing {condition}")));
    if context.printer.wants_json() {
        context.printer.json(&found)?;
        return Ok(Exit::Yes);
    }
    let headings = [
        "condition",
        "A/A back",
        "at margin on",
        "-5 on",
        "rows to back -30",
        "-10",
        "-5",
        "improve: 0 on",
        "+15 on",
        "A/A rows to on",
    ];
    let rows: Vec<Vec<String>> = found.conditions.iter().map(|(name, condition)| row(name, condition)).collect();
    context.printer.table(&headings, &rows)?;
    context.printer.plain(&format!("95 % of dead canaries are off within {} rows", rows_of(found.dead_p95_rows)))?;
    Ok(Exit::Yes)
}

fn row(name: &str, condition: &Condition) -> Vec<String> {
    let share = |value: f64| format!("{:.2} %", 100.0 * value);
    let mut row = vec![
        name.to_owned(),
        share(condition.aa_false_rollback),
        share(condition.margin_false_promote),
        share(condition.minus5_false_promote),
    ];
    row.extend(["-30", "-10", "-5"].map(|points| rows_of(condition.median_rows.get(points).copied().flatten())));
    row.extend([share(condition.improve.false_promote), share(condition.improve.promote_plus15)]);
    row.push(rows_of(condition.aa_promote_median_rows));
    row
}

fn rows_of(rows: Option<f64>) -> String {
    rows.map_or_else(|| "never".to_owned(), |rows| format!("{rows:.0}"))
}
