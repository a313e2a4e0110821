//! `hone deploy estimate`: what a route would have earned with one of its agents alone, from the episodes that it chose for.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use hone_arbiter::{Estimate, OffPolicy, OffPolicyError, hindsight};
use hone_eval::interval::wilson_of;
use hone_gateway::registry;
use serde_json::json;

/// Estimate from a route's log what each of its agents alone would have reached
///
/// Every choice of a route is logged with how likely it was, so the log also tells of choices that were not made: by the
/// self-normalised (SNIPS) and the doubly robust estimate, each with a 95 % interval. Where the log is worth too few episodes to an
/// agent, it says so instead. One JSON object per agent and line with --json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The route, as `hone serve` names it
    route: String,
    /// How many episodes the log must be worth to an agent
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    min_effective: u32,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let ended = registry::ended(&*store, &context.settings.tenant, &args.route).await?;
    if ended.is_empty() {
        return Err(Failure::user(format_args!("no episode of a route `{}` has an outcome yet", args.route))
            .hint("ask `hone serve` for the route's name, and say how episodes went with POST /v1/feedback"));
    }
    let printer = context.printer;
    let found = hindsight(&ended, f64::from(args.min_effective));
    let reached = ended.iter().map(|row| row.reached.success).sum::<f64>() / ended.len() as f64;
    let (low, high) = wilson_of(reached, ended.len());
    if !printer.wants_json() {
        let (route, told) = (&args.route, [reached, low, high].map(|share| format!("{:.1}", 100.0 * share)));
        let [reached, low, high] = told;
        let over = counted(ended.len() as u64, "episode");
        printer.plain(&format!("{route} reached {reached} % ({low} to {high}) over {over}; with one agent alone:"))?;
    }
    let mut rows = Vec::new();
    for (agent, estimate) in &found {
        let n_chosen = ended.iter().filter(|row| row.agent == *agent).count();
        if printer.wants_json() {
            let (estimate, refused) = (estimate.as_ref().ok(), estimate.as_ref().err().map(OffPolicyError::to_string));
            printer.json(&json!({
                "route": args.route, "agent": agent, "chosen": n_chosen, "reached": {"value": reached, "low": low, "high": high},
                "estimate": estimate, "refused": refused,
            }))?;
        } else {
            rows.push(row(agent.as_str(), n_chosen, estimate));
        }
    }
    if !printer.wants_json() {
        printer.table(&["agent", "chosen", "worth", "snips", "doubly robust"], &rows)?;
        for (agent, refused) in found.iter().filter_map(|(agent, estimate)| Some((agent, estimate.as_ref().err()?))) {
            printer.say(&format!("{agent}: {refused}"));
        }
    }
    Ok(Exit::Yes)
}

fn row(agent: &str, n_chosen: usize, estimate: &Result<OffPolicy, OffPolicyError>) -> Vec<String> {
    let mut row = vec![agent.to_owned(), n_chosen.to_string()];
    row.extend(match estimate {
        Ok(found) => [format!("{:.0}", found.n_effective), told(&found.snips), told(&found.dr)],
        Err(OffPolicyError::TooFew { n_effective, .. }) => [format!("{n_effective:.0}"), "-".into(), "-".into()],
        Err(OffPolicyError::Row { .. }) => ["-", "-", "-"].map(str::to_owned),
    });
    row
}

fn told(estimate: &Estimate) -> String {
    format!("{:.1} ± {:.1} %", 100.0 * estimate.value, 100.0 * estimate.half_width)
}
