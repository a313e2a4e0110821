//! `hone env arc report`: what was reached on tasks, as numbers and as a page with every grid.
//!
//! Reads the traces of a search or of a rollout, and runs their programs again on the tasks. Which program counts for a task
//! follows from the examples alone; the hidden pairs only say whether it was right.

mod measured;
mod page;
mod tried;

use crate::context::Context;
use crate::durable;
use crate::failure::{Exit, Failure};
use hone_arc::task::Task;
use hone_arc::world::{ArcOptions, ArcWorld};
use hone_store::Database;
use hone_trace::store::{Field, TraceQuery};
use hone_trace::{Category, RunId, Trace};
use measured::Measured;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tried::Tried;

/// Say what was reached on ARC tasks, and draw it
///
/// Takes the traces of `hone env arc evolve` or of `hone rollout --env arc:…`: solved tasks, pixels, pass@k, votes over
/// augmentations, by difficulty. With --out a page that shows for every task the input, what is expected and what each edit made
/// of it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The tasks: a folder of JSON files, or a file
    #[arg(long, value_name = "FOLDER|FILE.jsonl")]
    tasks: PathBuf,
    /// The name of a search, or the name or id of a rollout's run
    #[arg(long, default_value = "evolve", value_name = "NAME")]
    run: String,
    /// Write the page to this file
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// The most tasks that the page shows
    #[arg(long, default_value_t = 100, value_name = "N", requires = "out")]
    at_most: usize,
}

/// How many traces are asked for at once.
const PAGE_LEN: u32 = 500;

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let arc = ArcWorld::new(ArcOptions::new(args.tasks.clone())).map_err(Failure::user)?;
    let tasks: BTreeMap<&str, &Task> = arc.tasks().iter().map(|task| (task.id.as_str(), task)).collect();
    let store = context.store_to_read().await?;
    let traces = traces(args, &*store, context).await?;
    if traces.is_empty() {
        return Err(Failure::user(format_args!("the store has no search and no rollout `{}` on ARC tasks", args.run))
            .hint("--run names one of `hone env arc evolve`, or of `hone rollout`"));
    }
    let n_traces = traces.len();
    let tried = Tried::of(traces, &tasks);
    let n_left_out = n_traces - tried.iter().map(|tried| tried.samples.len()).sum::<usize>();
    if n_left_out > 0 {
        context.printer.complain(&format!("{n_left_out} traces are of tasks that are not in {}", args.tasks.display()));
    }
    if tried.is_empty() {
        return Err(Failure::user("no trace is of one of these tasks").hint("name the tasks that were played with --tasks"));
    }
    let measured = Measured::of(&args.run, &tried);
    if let Some(out) = &args.out {
        durable::write(out, &page::page(&measured, &tried, args.at_most))?;
    }
    print(args, &measured, context)
}

/// The traces of the search of this name, or else of the rollout.
async fn traces(args: &Args, store: &dyn Database, context: &Context<'_>) -> Result<Vec<Trace>, Failure> {
    let run = args.run.parse::<RunId>().unwrap_or_else(|_| RunId::derived(&["rollout", &args.run]));
    let fields = [(format!("metadata.{}", super::edits::SEARCH), args.run.clone()), ("run".to_owned(), run.to_string())];
    for (path, value) in fields {
        let query = TraceQuery {
            tenant: Some(context.settings.tenant.clone()),
            category: Some(Category::new("arc").map_err(Failure::bug)?),
            field: Some(Field { path, value }),
            ..TraceQuery::default()
        };
        let (mut traces, mut after) = (Vec::new(), None);
        loop {
            let page = store.traces(&query, after, PAGE_LEN).await?;
            traces.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if !traces.is_empty() {
            traces.sort_by_key(|trace| trace.id);
            return Ok(traces);
        }
    }
    Ok(Vec::new())
}

fn print(args: &Args, measured: &Measured, context: &Context<'_>) -> Result<Exit, Failure> {
    let printer = context.printer;
    if printer.wants_json() {
        printer.json(measured)?;
        return Ok(Exit::Yes);
    }
    printer.table(&["measure", "value"], &measured.rows())?;
    printer.plain("")?;
    printer.table(&["difficulty", "tasks", "solved"], &measured.levels())?;
    if let Some(out) = &args.out {
        printer.say(&format!("drawn in {}", out.display()));
    }
    Ok(Exit::Yes)
}
