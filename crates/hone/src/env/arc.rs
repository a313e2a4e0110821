//! `hone env arc`: the grid language, whether programs solve their tasks, what a task looks like, and the search for better
//! programs.

pub(crate) mod edits;
mod evolve;
pub(crate) mod figures;
mod report;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::Style;
use hone_arc::task::{self, Task, TaskError};
use hone_arc::verify::{Report, limits, verify};
use hone_arc::{dsl, picture};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// ARC tasks: the grid language, programs against tasks, pictures, and the search for programs
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Dsl(Dsl),
    Verify(Verify),
    Show(Show),
    Evolve(Box<evolve::Args>),
    Report(report::Args),
}

/// List the functions and constants of the grid language
///
/// With --json one object per function and constant.
#[derive(Debug, clap::Args)]
struct Dsl {
    /// As one text, to be put before a model
    #[arg(long)]
    prompt: bool,
}

/// Run a file of programs against all train and test pairs of their tasks
///
/// The file holds functions `solve_<task id>(I)`. Ends with 1 if a task is not solved. With --json one object with `tasks`,
/// `solved`, `grids`, `grids_per_s` and `failed`.
#[derive(Debug, clap::Args)]
struct Verify {
    /// The programs; if it is left out, those that ship with hone and are for one of the tasks
    #[arg(long, value_name = "FILE.py")]
    programs: Option<PathBuf>,
    /// The tasks: a folder of JSON files, or a file
    #[arg(long, value_name = "FOLDER|FILE.jsonl")]
    tasks: PathBuf,
}

/// Show a task as coloured grids
///
/// Each cell is its digit, so that it reads the same without colour. With --json the task itself.
#[derive(Debug, clap::Args)]
struct Show {
    /// The id of the task, such as 67a3c6ac
    #[arg(value_name = "TASK")]
    task: String,
    /// The tasks: a folder of JSON files, or a file
    #[arg(long, value_name = "FOLDER|FILE.jsonl")]
    tasks: PathBuf,
    /// Show the outputs of test pairs too
    #[arg(long)]
    answers: bool,
}

/// The largest file of programs, in bytes.
const PROGRAMS_BYTES_MAX: u64 = 16 << 20;

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Dsl(args) => list(args, context),
        Command::Verify(args) => verify_all(args, context),
        Command::Show(args) => show(args, context),
        Command::Evolve(args) => evolve::run(args, context),
        Command::Report(args) => context.wait(async |context| report::run(args, context).await),
    }
}

fn list(args: &Dsl, context: &Context<'_>) -> Result<Exit, Failure> {
    let printer = context.printer;
    if args.prompt && printer.wants_json() {
        printer.json(&json!({"prompt": dsl::prompt()}))?;
    } else if args.prompt {
        printer.plain(dsl::prompt().trim_end())?;
    } else if printer.wants_json() {
        for (section, functions) in dsl::SECTIONS {
            for function in functions {
                let (name, signature, about) = (function.name, function.signature(), function.about);
                printer.json(&json!({"name": name, "signature": signature, "about": about, "section": section}))?;
            }
        }
        for (name, value) in dsl::constants() {
            printer.json(&json!({"name": name, "value": dsl::told(&value)}))?;
        }
    } else {
        let of_function = |function: &dsl::Function| vec![function.signature(), function.about.to_owned()];
        let rows: Vec<Vec<String>> = dsl::functions().map(of_function).collect();
        printer.table(&["function", "what it does"], &rows)?;
        printer.plain("")?;
        let of_constant = |(name, value): (&str, _)| vec![name.to_owned(), dsl::told(&value)];
        let rows: Vec<Vec<String>> = dsl::constants().into_iter().map(of_constant).collect();
        printer.table(&["constant", "value"], &rows)?;
    }
    Ok(Exit::Yes)
}

fn verify_all(args: &Verify, context: &Context<'_>) -> Result<Exit, Failure> {
    let source = match &args.programs {
        Some(path) => read_programs(path)?,
        None => hone_arc::shipped::PROGRAMS.to_owned(),
    };
    let place = args.programs.as_ref().map_or_else(|| "the shipped programs".into(), |path| path.display().to_string());
    let tasks = task::read(&args.tasks).map_err(unread)?;
    let start = Instant::now();
    let mut report = verify(&source, &tasks, &limits()).map_err(|error| Failure::user(format_args!("{place}, {error}")))?;
    let took = start.elapsed();
    if args.programs.is_none() {
        // They are for the tasks that were published with them; a file may have others, or some of them.
        let n_programs = report.n_tasks;
        report.failed.retain(|failed| tasks.iter().any(|task| task.id == failed.task));
        report.n_tasks = report.n_solved + report.failed.len();
        if report.n_tasks == 0 {
            let text = format!("none of the {n_programs} shipped programs is for a task of {}", args.tasks.display());
            return Err(Failure::user(text).hint("--programs FILE.py names programs of your own"));
        }
    }
    if report.n_tasks == 0 {
        return Err(Failure::user(format_args!("{place} defines no function `solve_<task id>(I)`")));
    }
    match context.printer.wants_json() {
        true => context.printer.json(&of_report(&report, took))?,
        false => print(&report, took, context)?,
    }
    Ok(if report.failed.is_empty() { Exit::Yes } else { Exit::No })
}

fn read_programs(path: &Path) -> Result<String, Failure> {
    let unreadable = |error: std::io::Error| Failure::user(format_args!("cannot read {}: {error}", path.display()));
    let n_bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if n_bytes > PROGRAMS_BYTES_MAX {
        let reason = format!("{} has {n_bytes} bytes, more than the {PROGRAMS_BYTES_MAX} that are read", path.display());
        return Err(Failure::user(reason).hint("divide it into several files"));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

fn per_second(report: &Report, took: Duration) -> f64 {
    (report.n_grids as f64 / took.as_secs_f64().max(1e-9)).round()
}

fn of_report(report: &Report, took: Duration) -> Value {
    let failed: Vec<Value> = report.failed.iter().map(|failed| json!({"task": failed.task, "reason": failed.reason})).collect();
    json!({
        "tasks": report.n_tasks,
        "solved": report.n_solved,
        "grids": report.n_grids,
        "grids_per_s": per_second(report, took),
        "failed": failed,
    })
}

fn print(report: &Report, took: Duration, context: &Context<'_>) -> Result<(), Failure> {
    let (solved, tasks, grids) = (report.n_solved, report.n_tasks, report.n_grids);
    context
        .printer
        .plain(&format!("{solved} of {tasks} tasks solved, {grids} grids, {:.0} grids/s", per_second(report, took)))?;
    if report.failed.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<String>> = report.failed.iter().map(|failed| vec![failed.task.clone(), failed.reason.clone()]).collect();
    context.printer.table(&["task", "why it is not solved"], &rows)
}

fn show(args: &Show, context: &Context<'_>) -> Result<Exit, Failure> {
    let tasks = task::read(&args.tasks).map_err(unread)?;
    let task = tasks.iter().find(|task| task.id == args.task).ok_or_else(|| no_task(&args.task, &tasks))?;
    if context.printer.wants_json() {
        context.printer.json(&task.to_json(args.answers))?;
        return Ok(Exit::Yes);
    }
    for line in picture::task(task, args.answers) {
        let style = |part: &picture::Part| part.colour.map_or(Style::Plain, Style::Cell);
        let parts: Vec<(Style, &str)> = line.iter().map(|part| (style(part), part.text.as_str())).collect();
        context.printer.line(&parts)?;
    }
    Ok(Exit::Yes)
}

fn no_task(id: &str, tasks: &[Task]) -> Failure {
    let some: Vec<&str> = tasks.iter().take(3).map(|task| task.id.as_str()).collect();
    Failure::user(format_args!("there is no task `{id}`")).hint(format!("there are {}, such as {}", tasks.len(), some.join(", ")))
}

fn unread(error: TaskError) -> Failure {
    Failure::user(error)
}
