//! `hone train compare`: what two runs were told apart, and what came of it.

use super::elsewhere;
use super::metrics::figure;
use super::runs::{Recorded, differences};
use super::show::ordered;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Compare two runs: what differs in their settings, and what came of it
///
/// Figures are those of the last step and of the best one: the step that the run named, or else the one with the highest
/// validation, or reward where nothing was validated. Also says when each first reached the best of the other.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run, as `hone train list` names it
    #[arg(value_name = "A")]
    a: String,
    /// Another one
    #[arg(value_name = "B")]
    b: String,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let printer = context.printer;
    let (a, b) = (elsewhere::find(&args.a, context)?, elsewhere::find(&args.b, context)?);
    [&a, &b].into_iter().filter_map(Recorded::warning).for_each(|warning| printer.complain(&warning));
    [&a, &b].into_iter().filter_map(Recorded::notice).for_each(|notice| printer.say(&notice));
    // Both are measured alike, or it would be no comparison.
    let measure = if a.measure() == b.measure() { a.measure() } else { "reward" };
    let differ = differences(&a.run, &b.run);
    let (reach_a, reach_b) = (Reach::of(&a, &b, measure), Reach::of(&b, &a, measure));
    if printer.wants_json() {
        let differ: BTreeMap<&str, (String, String)> = differ.into_iter().map(|(key, a, b)| (key, (a, b))).collect();
        let (a, b) = (side(&a, &reach_a), side(&b, &reach_b));
        printer.json(&json!({"measure": measure, "differ": differ, "a": a, "b": b}))?;
        return Ok(Exit::Yes);
    }
    let (name_a, name_b) = (a.run.name.as_str(), b.run.name.as_str());
    if differ.is_empty() {
        printer.plain("both were started with the same settings")?;
    } else {
        let rows: Vec<Vec<String>> = differ.into_iter().map(|(key, a, b)| vec![key.to_owned(), a, b]).collect();
        printer.table(&["setting", name_a, name_b], &rows)?;
    }
    printer.plain("")?;
    let heads = [format!("{name_a}, end"), format!("{name_b}, end"), format!("{name_a}, best"), format!("{name_b}, best")];
    let heads: Vec<&str> = ["value"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    printer.table(&heads, &figures(&a, &b))?;
    printer.plain("")?;
    for (recorded, other, reach) in [(&a, &b, &reach_a), (&b, &a, &reach_b)] {
        if let Some(text) = reach.text(recorded, other, measure) {
            printer.plain(&text)?;
        }
    }
    Ok(Exit::Yes)
}

/// How one run stands to the best of another.
struct Reach {
    best_of_other: Option<f64>,
    /// The first step that was as good.
    step: Option<u64>,
}

impl Reach {
    fn of(recorded: &Recorded, other: &Recorded, measure: &str) -> Self {
        let best_of_other = other.best_step().and_then(|step| other.metrics.at(measure, step));
        Self { best_of_other, step: best_of_other.and_then(|value| recorded.metrics.reached(measure, value)) }
    }

    fn text(&self, recorded: &Recorded, other: &Recorded, measure: &str) -> Option<String> {
        let best = format!("the best {measure} of {}, {}", other.run.name, figure(self.best_of_other?));
        Some(match self.step {
            Some(step) => format!("{} reached {best}, at step {step}", recorded.run.name),
            None => format!("{} did not reach {best}", recorded.run.name),
        })
    }
}

fn figures(a: &Recorded, b: &Recorded) -> Vec<Vec<String>> {
    let mut names = ordered(&a.metrics);
    names.extend(ordered(&b.metrics).into_iter().filter(|name| !a.metrics.names().contains(name)));
    let step =
        |recorded: &Recorded, step: Option<u64>| step.map_or_else(String::new, |step| format!("{step}, {}", recorded.ended()));
    let best = |recorded: &Recorded| recorded.best_step().map_or_else(String::new, |step| step.to_string());
    let steps = vec!["step".to_owned(), step(a, a.metrics.last_step()), step(b, b.metrics.last_step()), best(a), best(b)];
    let at = |recorded: &Recorded, name: &str, step: Option<u64>| {
        step.and_then(|step| recorded.metrics.at(name, step)).map(figure).unwrap_or_default()
    };
    let row = |name: &str| {
        let (end, best) = (|run| at(run, name, Some(u64::MAX)), |run: &Recorded| at(run, name, run.best_step()));
        vec![name.to_owned(), end(a), end(b), best(a), best(b)]
    };
    [steps].into_iter().chain(names.into_iter().map(row)).collect()
}

fn side(recorded: &Recorded, reach: &Reach) -> Value {
    let Recorded { run, metrics, end, .. } = recorded;
    let values = |step: Option<u64>| -> BTreeMap<&str, f64> {
        let at = |name| Some((name, metrics.at(name, step?)?));
        metrics.names().into_iter().filter_map(at).collect()
    };
    json!({
        "name": run.name,
        "ended": end.as_ref().map(|end| &end.reason),
        "end": {"step": metrics.last_step(), "values": values(metrics.last_step())},
        "best": {"step": recorded.best_step(), "values": values(recorded.best_step())},
        "reached_best_of_other": reach.step,
    })
}
