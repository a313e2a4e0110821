//! `hone train list`: all runs, one line each.

use super::elsewhere;
use super::metrics::figure;
use super::runs::{Files, Recorded, Runs};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use serde_json::{Value, json};

/// List training runs and how they ended
///
/// A run that has not ended is at work; one whose process is gone was cut off, and how it goes on is said. Where several machines share a PostgreSQL, their runs are
/// listed too, with where the files of each are. With --json, one object per line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let (printer, runs) = (context.printer, Runs::of(&context.settings));
    let (names, mut all) = (runs.names()?, Vec::new());
    for name in &names {
        match runs.read(name) {
            Ok(recorded) => all.push(recorded),
            // One that cannot be read does not hide the others.
            Err(failure) => printer.complain(&format!("{name}: {failure}")),
        }
    }
    all.iter().filter_map(Recorded::warning).for_each(|warning| printer.complain(&warning));
    all.iter().filter_map(|recorded| recorded.way_on(&context.settings)).for_each(|way_on| printer.say(&way_on));
    all.extend(elsewhere::others(&names, context));
    if names.is_empty() && all.is_empty() {
        printer.say("no run is recorded here yet: `hone train grpo --run NAME --model MODEL --env WORLD` begins one");
    } else if printer.wants_json() {
        all.iter().try_for_each(|recorded| printer.json(&summary(recorded)))?;
    } else {
        let heads = ["name", "method", "model", "env", "steps", "reward", "best validation", "ended", "files"];
        // Where all are here there is nothing to tell apart.
        let n_columns = heads.len() - usize::from(all.iter().all(|recorded| recorded.files == Files::Here));
        let rows: Vec<Vec<String>> = all.iter().map(|recorded| row(recorded).into_iter().take(n_columns).collect()).collect();
        printer.table(&heads[..n_columns], &rows)?;
    }
    Ok(Exit::Yes)
}

fn row(recorded: &Recorded) -> Vec<String> {
    let Recorded { run, metrics, .. } = recorded;
    let best = metrics.highest("validation").map(|(step, value)| format!("{} at step {step}", figure(value)));
    vec![
        run.name.clone(),
        run.method.clone(),
        run.model.clone(),
        run.env.clone().unwrap_or_default(),
        metrics.last_step().unwrap_or(0).to_string(),
        metrics.at("reward", u64::MAX).map(figure).unwrap_or_default(),
        best.unwrap_or_default(),
        recorded.ended().to_owned(),
        recorded.files.to_string(),
    ]
}

fn summary(recorded: &Recorded) -> Value {
    let Recorded { run, metrics, end, files, .. } = recorded;
    let best = metrics.highest("validation");
    json!({
        "name": run.name, "method": run.method, "model": run.model, "env": run.env, "seed": run.seed,
        "steps": metrics.last_step().unwrap_or(0),
        "reward": metrics.at("reward", u64::MAX),
        "best_validation": best.map(|(_, value)| value),
        "best_validation_step": best.map(|(step, _)| step),
        "ended": end.as_ref().map(|end| &end.reason),
        "cut_off": recorded.is_cut_off(),
        "files": files.to_string(),
    })
}
