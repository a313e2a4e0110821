//! `hone bench large`: a million traces in and out, in how much memory, and how fast a list of them is.

use super::figures::Times;
use super::sample::Samples;
use super::store::{newest_query, write_lines};
use super::writer::place_text;
use super::{figures, scratch};
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use hone_store::{Options, Place};
use hone_trace::store::{Field, TraceQuery};
use serde::Serialize;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FIELD: &str = "metadata.customer";
/// How often a list is asked for: enough that twenty of them lie above the 99th percentile.
const N_LISTS: u64 = 2000;

/// Import and export very many traces and measure memory and lists
///
/// Writes a file of realistic traces (about 6 KB each), runs `hone trace import` and `hone trace export` on it as
/// processes of their own, and prints the most memory that each held. Then lists the newest 50 by category and reward
/// range, and by an indexed field, with the plan of the database. Needs about 15 GB of disk for a million traces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many traces
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    traces: u64,
    /// The seed of the traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    store: &'static str,
    traces: u64,
    import_s: f64,
    import_rss_mb: u64,
    export_s: f64,
    export_rss_mb: u64,
    exported: u64,
    list_p50_ms: f64,
    list_p99_ms: f64,
    list_plan: String,
    field_p50_ms: f64,
    field_p99_ms: f64,
    field_plan: String,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = scratch::folder(context)?;
    let file = folder.path().join("traces.jsonl");
    context.printer.say(&format!("writing {} traces to a file", args.traces));
    let samples = Samples::new(args.seed);
    write_lines(&file, (0..args.traces).map(|n| samples.line(n)))?;
    let report = match scratch::Database::create(context).await? {
        Some(database) => {
            let report = measure("postgres", args, &samples, &file, folder.path(), &database.place(), context).await;
            database.remove().await?;
            report?
        }
        None => {
            let place = Place::Folder(folder.path().join(".hone"));
            measure("sqlite", args, &samples, &file, folder.path(), &place, context).await?
        }
    };
    if context.printer.wants_json() {
        context.printer.json(&report)?;
        return Ok(Exit::Yes);
    }
    let rows = [
        ("import", format!("{} s, {} MB at most", report.import_s, report.import_rss_mb)),
        ("export", format!("{} s, {} MB at most, {} traces", report.export_s, report.export_rss_mb, report.exported)),
        ("newest 50 by category and reward, p50 / p99", format!("{} / {} ms", report.list_p50_ms, report.list_p99_ms)),
        ("newest 50 by an indexed field, p50 / p99", format!("{} / {} ms", report.field_p50_ms, report.field_p99_ms)),
    ];
    let rows: Vec<Vec<String>> = rows.map(|(what, value)| vec![what.to_owned(), value]).into();
    context.printer.table(&[report.store, "value"], &rows)?;
    context.printer.plain(&format!("\nby category and reward:\n{}\nby field:\n{}", report.list_plan, report.field_plan))?;
    Ok(Exit::Yes)
}

async fn measure(
    store: &'static str,
    args: &Args,
    samples: &Samples,
    file: &Path,
    folder: &Path,
    place: &Place,
    context: &Context<'_>,
) -> Result<Report, Failure> {
    context.printer.say("importing");
    let (import_s, import_rss_mb) = command(&["trace", "import"], Some(file), folder, place, None)?;
    context.printer.say("exporting");
    let out = folder.join("out.jsonl");
    let (export_s, export_rss_mb) = command(&["trace", "export"], None, folder, place, Some(&out))?;
    let exported = n_lines(&out)?;
    std::fs::remove_file(&out).map_err(at_path(&out))?;

    context.printer.say("listing");
    let options = Options { indexed_fields: vec![FIELD.to_owned()], ..Options::default() };
    let store_handle = hone_store::open(place, &options).await?;
    let by_reward = newest_query();
    let list_plan = store_handle.explain(&by_reward).await?;
    let list = lists(&*store_handle, |_| by_reward.clone()).await?;
    let by_field = |n: u64| {
        let trace = samples.trace(n * 7 % args.traces);
        let value = trace.metadata.get("customer").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        TraceQuery { field: Some(Field { path: FIELD.to_owned(), value }), ..TraceQuery::default() }
    };
    let field_plan = store_handle.explain(&by_field(1)).await?;
    let field = lists(&*store_handle, by_field).await?;
    Ok(Report {
        store,
        traces: args.traces,
        import_s,
        import_rss_mb,
        export_s,
        export_rss_mb,
        exported,
        list_p50_ms: list.percentile(0.5),
        list_p99_ms: list.percentile(0.99),
        list_plan,
        field_p50_ms: field.percentile(0.5),
        field_p99_ms: field.percentile(0.99),
        field_plan,
    })
}

async fn lists(store: &dyn hone_store::Database, query: impl Fn(u64) -> TraceQuery) -> Result<Times, Failure> {
    let mut times = Times::default();
    for n in 0..N_LISTS {
        let query = query(n);
        let start = Instant::now();
        let page = store.heads(&query, None, 50).await?;
        times.add(start.elapsed());
        if page.items.is_empty() {
            return Err(Failure::bug("a list of the sample traces is empty"));
        }
    }
    Ok(times)
}

/// Runs hone itself; its seconds, and the most memory it held in MB.
fn command(words: &[&str], file: Option<&Path>, folder: &Path, place: &Place, out: Option<&Path>) -> Result<(f64, u64), Failure> {
    let exe = std::env::current_exe().map_err(Failure::world)?;
    let (variable, value) = match place {
        Place::Folder(_) => ("HONE_STORE_FOLDER", place_text(place)),
        Place::Postgres(_) => ("HONE_DATABASE_URL", place_text(place)),
    };
    let stdout = match out {
        Some(path) => Stdio::from(File::create(path).map_err(at_path(path))?),
        None => Stdio::null(),
    };
    let start = Instant::now();
    let mut child = Command::new(exe)
        .args(words)
        .args(file)
        .arg("--quiet")
        .current_dir(folder)
        .env_remove("HONE_DATABASE_URL")
        .env(variable, value)
        .env("HONE_STORE_INDEXED_FIELDS", FIELD)
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn()
        .map_err(Failure::world)?;
    let mut most = 0;
    let status = loop {
        most = most.max(resident_mb(&child));
        match child.try_wait().map_err(Failure::world)? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.success() {
        Ok((figures::rounded(start.elapsed().as_secs_f64()), most))
    } else {
        Err(Failure::bug(format_args!("`hone {}` ended with {status}", words.join(" "))))
    }
}

/// The most memory the process has held so far, as the kernel says.
fn resident_mb(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn n_lines(path: &Path) -> Result<u64, Failure> {
    use std::io::{BufRead, BufReader};
    let file = File::open(path).map_err(at_path(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut n = 0;
    loop {
        let buffer = reader.fill_buf().map_err(at_path(path))?;
        if buffer.is_empty() {
            return Ok(n);
        }
        n += buffer.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let len = buffer.len();
        reader.consume(len);
    }
}
