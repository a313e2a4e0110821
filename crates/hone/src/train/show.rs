//! `hone train show`: one run from what it was started with to why it stopped.

use super::elsewhere;
use super::metrics::{Metrics, figure};
use super::plot::{Glyphs, Size, plot};
use super::runs::{Recorded, text};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, Style};
use serde_json::json;

/// Show a run: its settings, its curves, and why it stopped
///
/// With --json, everything that is known of it, every step included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run, as `hone train list` names it
    #[arg(value_name = "RUN")]
    run: String,
    /// Draw this value instead of reward, validation and entropy; may be given several times
    #[arg(long, value_name = "VALUE")]
    plot: Vec<String>,
}

const SIZE: Size = Size { n_columns: 72, n_rows: 8 };

/// What a list of values begins with; the others follow by name.
const FIRST: [&str; 6] = ["reward", "reward_half_width", "solved", "validation", "validation_low", "validation_high"];

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let (printer, recorded) = (context.printer, elsewhere::find(&args.run, context)?);
    let Recorded { run, metrics, end, files, is_at_work } = &recorded;
    let curves = curves(&args.plot, metrics)?;
    recorded.warning().iter().for_each(|warning| printer.complain(warning));
    recorded.notice().iter().for_each(|notice| printer.say(notice));
    if printer.wants_json() {
        let (files, cut_off) = (files.to_string(), recorded.is_cut_off());
        printer.json(&json!({"run": run, "metrics": metrics.lines, "end": end, "files": files, "cut_off": cut_off}))?;
        return Ok(Exit::Yes);
    }
    printer.line(&[(Style::Strong, &run.name)])?;
    let fact = |key: &str, value: &str| printer.line(&[(Style::Faint, &format!("{key:<20} ")), (Style::Plain, value)]);
    run.facts().iter().try_for_each(|(key, value)| fact(key, value))?;
    if let Some(fork) = &run.fork {
        fact("forked from", &format!("{} at step {}", fork.run, fork.step))?;
        for (key, (before, after)) in &fork.changes {
            fact(&format!("  {key}"), &format!("{} → {}", text(before), text(after)))?;
        }
    }
    for name in curves {
        draw(name, &metrics.series(name), printer)?;
    }
    if let Some(last) = metrics.last_step() {
        let best = recorded.best_step();
        let at = |name: &str, step: Option<u64>| step.and_then(|step| metrics.at(name, step)).map(figure).unwrap_or_default();
        let row = |name: &str| vec![name.to_owned(), at(name, Some(last)), at(name, best)];
        let head = best.map_or_else(|| "best".to_owned(), |best| format!("best, step {best}"));
        printer.plain("")?;
        printer
            .table(&["value", &format!("end, step {last}"), &head], &ordered(metrics).into_iter().map(row).collect::<Vec<_>>())?;
    }
    printer.plain("")?;
    match end {
        Some(end) => printer.line(&[
            (Style::Strong, &format!("{} at step {}", end.reason, end.step)),
            (Style::Plain, &format!(": {}", end.why)),
        ])?,
        None => match recorded.way_on(&context.settings) {
            Some(way_on) => printer.plain(&way_on)?,
            None if *is_at_work == Some(true) => printer.plain("it has not ended: it is at work")?,
            None => printer.plain("it has not ended: it is at work, or was cut off and waits to be resumed")?,
        },
    }
    Ok(Exit::Yes)
}

/// The names of the values, the most telling first.
pub(super) fn ordered(metrics: &Metrics) -> Vec<&str> {
    let mut names: Vec<&str> = metrics.names().into_iter().collect();
    names.sort_by_key(|name| (FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()), *name));
    names
}

/// The values to draw: those that were asked for, or those that tell most of what there is.
fn curves<'a>(asked: &'a [String], metrics: &Metrics) -> Result<Vec<&'a str>, Failure> {
    let names = metrics.names();
    if let Some(unknown) = asked.iter().find(|name| !names.contains(name.as_str())) {
        let hint = format!("it has {}", names.into_iter().collect::<Vec<_>>().join(", "));
        return Err(Failure::user(format_args!("the run has no value `{unknown}`")).hint(hint));
    }
    if !asked.is_empty() {
        return Ok(asked.iter().map(String::as_str).collect());
    }
    let learned = if names.contains("reward") { "reward" } else { "loss" };
    Ok([learned, "validation", "entropy"].into_iter().filter(|name| names.contains(name)).collect())
}

fn draw(name: &str, series: &[(u64, f64)], printer: &Printer) -> Result<(), Failure> {
    let glyphs = Glyphs::of(printer);
    printer.line(&[(Style::Strong, &format!("\n{name}"))])?;
    plot(series, SIZE, glyphs).iter().try_for_each(|line| printer.plain(line))
}
