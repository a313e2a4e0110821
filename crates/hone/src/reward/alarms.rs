//! `hone reward alarms`: signs of reward hacking in traces that are in the store.
//!
//! The store lists newest first, and a run is watched from its beginning. So the heads are walked once to note where each
//! stretch of the list begins, and the stretches are then read from the last to the first: what is held at once is one stretch
//! without its texts. A trace that is written meanwhile may take the place of another.
//!
//! Knows nothing of code that a trace changed: `scaffolding` is for those who have the files.

mod watch;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::{Style, counted};
use crate::trace::Filter;
use hone_reward::alarm::{Alarm, STEPS_MIN, TraceReport};
use hone_trace::Trace;
use hone_trace::store::{Cursor, Store, TraceQuery};
use serde_json::Value;
use watch::{Met, Summary, Watch};

/// Look for reward hacking in scored traces
///
/// Takes traces oldest first and so many to a step, and compares the run with itself: outputs that become alike, repeat
/// themselves, flatter the judge, speak for a tool or grow, a part of the reward that takes over, a reward that jumps or parts
/// from validation. Each alarm says what was seen, what to do and which traces to read. Exit code 1 when there is any.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many traces make a step
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    per_step: u32,
    /// Traces with this in their metadata are validation, such as split=validation, and only compared with
    #[arg(long, value_name = "KEY=VALUE", value_parser = mark)]
    validation: Option<Mark>,
    /// The most traces that are looked at, the newest
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    limit: u32,
    #[command(flatten)]
    filter: Filter,
}

/// A value in the metadata of a trace.
#[derive(Debug, Clone, PartialEq)]
struct Mark {
    key: String,
    value: String,
}

/// The most traces of a stretch.
const STRETCH_LEN: u32 = 1000;

/// A part of the list, newest first.
struct Stretch {
    after: Option<Cursor>,
    n_traces: u32,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let (store, query) = (context.store_to_read().await?, args.filter.query(context));
    let mut watch = Watch::new(args.per_step);
    let bar = context.printer.count_bar("traces");
    for stretch in stretches(&*store, &query, args.limit).await?.into_iter().rev() {
        for met in read(&*store, &query, &stretch, args.validation.as_ref()).await?.into_iter().rev() {
            bar.inc(1);
            watch.take(met).iter().try_for_each(|alarm| show(alarm, context))?;
        }
    }
    bar.finish_and_clear();
    let (last, summary) = watch.end();
    last.iter().try_for_each(|alarm| show(alarm, context))?;
    conclude(&summary, context)?;
    Ok(if summary.alarms.is_empty() { Exit::Yes } else { Exit::No })
}

/// Where the stretches of the list begin, newest first.
async fn stretches(store: &(impl Store + ?Sized), query: &TraceQuery, limit: u32) -> Result<Vec<Stretch>, Failure> {
    let (mut found, mut after, mut left) = (Vec::new(), None, limit);
    while left > 0 {
        let page = store.heads(query, after, left.min(STRETCH_LEN)).await?;
        let n_traces = u32::try_from(page.items.len()).unwrap_or(left).min(left);
        found.push(Stretch { after, n_traces });
        left -= n_traces;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The traces of a stretch, newest first.
async fn read(
    store: &(impl Store + ?Sized),
    query: &TraceQuery,
    stretch: &Stretch,
    validation: Option<&Mark>,
) -> Result<Vec<Met>, Failure> {
    let (mut found, mut after, n_traces) = (Vec::new(), stretch.after, stretch.n_traces as usize);
    while found.len() < n_traces {
        let page = store.traces(query, after, u32::try_from(n_traces - found.len()).unwrap_or(STRETCH_LEN)).await?;
        found.extend(page.items.iter().map(|trace| met(trace, validation)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

fn met(trace: &Trace, validation: Option<&Mark>) -> Met {
    match trace.reward() {
        None => Met::Unscored,
        Some(reward) if validation.is_some_and(|mark| mark.is_on(trace)) => Met::Validation(reward.total),
        Some(_) => TraceReport::of(trace, 0).map_or(Met::WithoutScenario, Met::Report),
    }
}

impl Mark {
    fn is_on(&self, trace: &Trace) -> bool {
        let text = |found: &Value| found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        trace.metadata.get(&self.key).is_some_and(|found| text(found) == self.value)
    }
}

fn mark(text: &str) -> Result<Mark, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok(Mark { key: key.to_owned(), value: value.to_owned() }),
        _ => Err("write a key and a value, such as split=validation".to_owned()),
    }
}

fn show(alarm: &Alarm, context: &Context<'_>) -> Result<(), Failure> {
    if context.printer.wants_json() {
        return Ok(());
    }
    let name = format!("{} at step {}", alarm.kind.name(), alarm.step);
    context.printer.line(&[(Style::Bad, &name), (Style::Plain, &format!(": {}", alarm.sentence))])?;
    context.printer.line(&[(Style::Note, &format!("  {}", alarm.action))])?;
    alarm.traces.iter().try_for_each(|id| context.printer.line(&[(Style::Faint, &format!("  hone trace show {id}"))]))
}

fn conclude(summary: &Summary, context: &Context<'_>) -> Result<(), Failure> {
    if context.printer.wants_json() {
        context.printer.json(summary)?;
    } else {
        let (steps, alarms) = (counted(summary.steps.into(), "step"), counted(summary.alarms.len() as u64, "alarm"));
        context.printer.plain(&format!("{steps} of {} traces, {alarms}", summary.per_step))?;
        if let Some(trend) = summary.trend {
            context.printer.plain(&format!("the run is {}: {}", trend.name(), trend.action()))?;
        }
    }
    gaps(summary).iter().for_each(|gap| context.printer.complain(gap));
    Ok(())
}

/// What could not be looked at, and what would help.
fn gaps(summary: &Summary) -> Vec<String> {
    let n_traces = summary.traces + summary.left_over;
    let (of_unscored, of_left_over) = (counted(summary.unscored as u64, "trace"), counted(summary.left_over as u64, "trace"));
    let is_short = (summary.steps as usize) < STEPS_MIN;
    let mut gaps = Vec::new();
    if summary.unscored > 0 {
        gaps.push(format!("{of_unscored} without a reward: weigh them with `hone reward score`"));
    }
    if summary.without_scenario > 0 {
        let of_them = counted(summary.without_scenario as u64, "trace");
        gaps.push(format!("{of_them} without a scenario: what was asked is not known, so they cannot be compared"));
    }
    if summary.left_over > 0 && !is_short {
        gaps.push(format!("the newest {of_left_over} fill no step, and were left out"));
    }
    if is_short {
        gaps.push(format!(
            "{} to look at are too few: alarms compare a run with itself and need {STEPS_MIN} steps of {}; take more \
             traces, or smaller steps with --per-step",
            counted(n_traces as u64, "scored trace"),
            summary.per_step
        ));
    } else if summary.trend.is_none() {
        gaps.push(
            "the trend is not known: it takes 60 steps with five validations, marked with --validation KEY=VALUE".to_owned(),
        );
    }
    gaps
}
