//! `hone bench store`: how fast the store takes traces with full durability and all indexes, beside what the
//! database does with the same bytes when it is asked for nothing else.

use super::figures::{Spread, Times, rounded};
use super::sample::{CATEGORIES, Samples};
use super::{postgres, scratch, sqlite};
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::printer::{Printer, Wishes};
use crate::settings::Settings;
use crate::trace;
use hone_store::{Options, Place};
use hone_trace::Category;
use hone_trace::store::{Put, Store, StoreError, TraceQuery, Write};
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// How many writers wait for their acknowledgement at the same time.
const N_WRITERS: usize = 64;
/// How many traces a batch has.
const BATCH_LEN: u64 = 1000;

/// Measure how fast the store takes and lists traces
///
/// Writes realistic traces (8 turns, 3 tool calls, about 6 KB) with full durability and all indexes, and beside it lets
/// the database insert the same bytes with nothing else to do. Works in a folder and a database of its own, which it
/// removes. PostgreSQL is measured where one is configured: `cargo xtask pg -- hone bench store` starts one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many traces a measurement takes
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    traces: u64,
    /// How many times each measurement is taken
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: u32,
    /// The seed of the traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What every round works on.
pub(super) struct Load {
    pub(super) samples: Samples,
    pub(super) n_traces: u64,
    /// The traces as lines of our own format.
    pub(super) lines: Vec<String>,
    /// The same in a file.
    pub(super) file: PathBuf,
    /// Others, for ingest beside a reader.
    pub(super) more: PathBuf,
    pub(super) folder: tempfile::TempDir,
}

#[derive(Debug, Serialize)]
struct Report {
    traces: u64,
    mean_bytes: usize,
    sqlite: Figures,
    postgres: Option<Figures>,
}

/// What is published of one store. The first figure of each pair is that of the store.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Batch import against a bare bulk insert of the same bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vs_bulk: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vs_bulk_spread: Option<Spread>,
    /// 64 concurrent writers against one that inserts the same schema at 64 rows a transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vs_batched: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vs_batched_spread: Option<Spread>,
    /// Batch import against a plain COPY of the same rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vs_copy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vs_copy_spread: Option<Spread>,
    /// The same of `hone trace import FILE`, which has to read and check the JSON as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_vs_bulk_spread: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_vs_copy_spread: Option<Spread>,
    pub(super) traces_per_s: f64,
    pub(super) file_traces_per_s: f64,
    pub(super) writers_traces_per_s: f64,
    pub(super) ack_p50_ms: f64,
    pub(super) ack_p99_ms: f64,
    pub(super) fsync_p50_ms: f64,
    pub(super) fsync_p99_ms: f64,
    /// The newest 50 of a category and reward range while ingest runs at full rate.
    pub(super) list_p50_ms: f64,
    pub(super) list_p99_ms: f64,
    pub(super) lists: usize,
}

/// What the rounds of either store have seen.
#[derive(Default)]
pub(super) struct Seen {
    /// Traces a second: in batches, from a file, by 64 writers.
    pub(super) rates: Vec<f64>,
    pub(super) file_rates: Vec<f64>,
    pub(super) writer_rates: Vec<f64>,
    pub(super) acks: Times,
    pub(super) syncs: Times,
    pub(super) lists: Times,
}

impl Seen {
    /// The figures that both stores have; each adds its own ratios.
    pub(super) fn figures(&self) -> Figures {
        let median = |rates: &[f64]| rounded(Spread::of(rates).median);
        Figures {
            traces_per_s: median(&self.rates),
            file_traces_per_s: median(&self.file_rates),
            writers_traces_per_s: median(&self.writer_rates),
            ack_p50_ms: self.acks.percentile(0.5),
            ack_p99_ms: self.acks.percentile(0.99),
            fsync_p50_ms: self.syncs.percentile(0.5),
            fsync_p99_ms: self.syncs.percentile(0.99),
            list_p50_ms: self.lists.percentile(0.5),
            list_p99_ms: self.lists.percentile(0.99),
            lists: self.lists.len(),
            ..Figures::default()
        }
    }
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let printer = context.printer;
    let load = Load::make(args, context)?;
    printer.say(&format!("{} traces, {} rounds", args.traces, args.rounds));
    let sqlite = sqlite::measure(&load, args.rounds, context).await?;
    let postgres = match scratch::Database::create(context).await? {
        Some(database) => {
            let figures = postgres::measure(&load, args.rounds, &database, context).await;
            database.remove().await?;
            Some(figures?)
        }
        None => {
            printer.say("PostgreSQL is left out: none is configured (`cargo xtask pg -- COMMAND` starts one)");
            None
        }
    };
    let mean_bytes = load.lines.iter().map(String::len).sum::<usize>() / load.lines.len().max(1);
    let report = Report { traces: args.traces, mean_bytes, sqlite, postgres };
    if printer.wants_json() {
        printer.json(&report)?;
        return Ok(Exit::Yes);
    }
    let mut rows = Vec::new();
    for (name, figures) in [("sqlite", Some(&report.sqlite)), ("postgres", report.postgres.as_ref())] {
        let Some(figures) = figures else { continue };
        let mut row = |what: &str, value: String| rows.push(vec![name.to_owned(), what.to_owned(), value]);
        let ratios = [
            ("batches of 1,000 / bare bulk insert", figures.vs_bulk_spread),
            ("import of a file / bare bulk insert", figures.file_vs_bulk_spread),
            ("64 writers / one writer at 64 rows a transaction", figures.vs_batched_spread),
            ("batches of 1,000 / plain COPY", figures.vs_copy_spread),
            ("import of a file / plain COPY", figures.file_vs_copy_spread),
        ];
        for (what, spread) in ratios {
            if let Some(spread) = spread {
                row(what, spread.to_string());
            }
        }
        row("batches of 1,000, traces/s", figures.traces_per_s.to_string());
        row("import of a file, traces/s", figures.file_traces_per_s.to_string());
        row("64 writers, traces/s", figures.writers_traces_per_s.to_string());
        row("acknowledged, p50 / p99", format!("{} / {} ms", figures.ack_p50_ms, figures.ack_p99_ms));
        row("bare fsync, p50 / p99", format!("{} / {} ms", figures.fsync_p50_ms, figures.fsync_p99_ms));
        row("newest 50 under load, p50 / p99", format!("{} / {} ms", figures.list_p50_ms, figures.list_p99_ms));
    }
    printer.table(&["store", "figure", "value (spread)"], &rows)?;
    Ok(Exit::Yes)
}

impl Load {
    fn make(args: &Args, context: &Context<'_>) -> Result<Self, Failure> {
        if args.traces == 0 || args.rounds == 0 {
            return Err(Failure::user("--traces and --rounds need at least 1"));
        }
        let folder = scratch::folder(context)?;
        let samples = Samples::new(args.seed);
        let lines: Vec<String> = (0..args.traces).map(|n| samples.line(n)).collect();
        let (file, more) = (folder.path().join("traces.jsonl"), folder.path().join("more.jsonl"));
        write_lines(&file, lines.iter().cloned())?;
        write_lines(&more, (args.traces..args.traces * 3).map(|n| samples.line(n)))?;
        Ok(Self { samples, n_traces: args.traces, lines, file, more, folder })
    }
}

pub(super) fn write_lines(path: &Path, lines: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(at_path(path))?);
    for line in lines {
        out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(at_path(path))?;
    }
    out.into_inner().map_err(std::io::IntoInnerError::into_error).and_then(|file| file.sync_all()).map_err(at_path(path))
}

/// `hone trace import FILE` into this place, as a user would run it; the time it took.
pub(super) async fn import(file: &Path, place: Place, context: &Context<'_>) -> Result<Duration, Failure> {
    let silent = Printer::on(Wishes { quiet: true, ..Wishes::default() }, std::io::sink(), std::io::sink());
    let settings = Settings { place, ..context.settings.clone() };
    let there = Context { settings, printer: &silent, variables: context.variables };
    let start = Instant::now();
    match trace::import(file, &there).await? {
        Exit::Yes => Ok(start.elapsed()),
        Exit::No => Err(Failure::bug("the import of sample traces refused some")),
    }
}

/// The same traces in batches of 1,000, a few of them on their way at a time, until the store is closed again.
pub(super) async fn batches(place: &Place, load: &Load) -> Result<Duration, Failure> {
    let mut batches: Vec<Vec<Write>> = Vec::new();
    for n in 0..load.n_traces {
        if n % BATCH_LEN == 0 {
            batches.push(Vec::new());
        }
        batches.last_mut().expect("a batch was begun").push(Write::Trace(Box::new(load.samples.trace(n))));
    }
    let start = Instant::now();
    let store = hone_store::open(place, &Options::default()).await?;
    let mut on_their_way = VecDeque::new();
    for batch in batches {
        let store = Arc::clone(&store);
        on_their_way.push_back(tokio::spawn(async move { store.put(batch).await }));
        if on_their_way.len() == 6 {
            settle(on_their_way.pop_front()).await?;
        }
    }
    while !on_their_way.is_empty() {
        settle(on_their_way.pop_front()).await?;
    }
    drop(store);
    Ok(start.elapsed())
}

async fn settle(sent: Option<JoinHandle<Result<Vec<Put>, StoreError>>>) -> Result<(), Failure> {
    let Some(sent) = sent else { return Ok(()) };
    let puts = sent.await.map_err(|error| Failure::bug(error.to_string()))??;
    if puts.iter().all(|put| *put == Put::New) { Ok(()) } else { Err(Failure::bug("a new trace was there already")) }
}

/// 64 writers that each wait for the acknowledgement of one trace before they send the next.
pub(super) async fn writers(store: &Arc<dyn Store>, load: &Load) -> Result<(Duration, Times), Failure> {
    let mut traces: Vec<Vec<Write>> = vec![Vec::new(); N_WRITERS];
    for n in 0..load.n_traces {
        // Ids of their own, so that every write is a new one.
        traces[n as usize % N_WRITERS].push(Write::Trace(Box::new(load.samples.trace(n + 10 * load.n_traces))));
    }
    let start = Instant::now();
    let writing = traces.into_iter().map(|traces| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut times = Times::default();
            for trace in traces {
                let sent = Instant::now();
                store.put(vec![trace]).await?;
                times.add(sent.elapsed());
            }
            Ok::<_, StoreError>(times)
        })
    });
    let mut times = Times::default();
    for writer in writing.collect::<Vec<_>>() {
        times.extend(writer.await.map_err(|error| Failure::bug(error.to_string()))??);
    }
    Ok((start.elapsed(), times))
}

/// Lists the newest 50 of a category and reward range again and again while an import runs.
pub(super) async fn lists_under_load(place: Place, load: &Load, context: &Context<'_>) -> Result<Times, Failure> {
    let store = hone_store::open(&place, &context.settings.options).await?;
    let query = newest_query();
    let mut times = Times::default();
    let importing = import(&load.more, place, context);
    tokio::pin!(importing);
    loop {
        let listing = async {
            let start = Instant::now();
            store.heads(&query, None, 50).await?;
            let time = start.elapsed();
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, Failure>(time)
        };
        tokio::select! {
            imported = &mut importing => {
                imported?;
                return Ok(times);
            }
            listed = listing => {
                times.add(listed?);
            }
        }
    }
}

/// Of one category, with a reward from 0.5 to 0.9.
pub(super) fn newest_query() -> TraceQuery {
    TraceQuery {
        category: Category::new(CATEGORIES[0]).ok(),
        reward_min: Some(0.5),
        reward_max: Some(0.9),
        ..TraceQuery::default()
    }
}

/// What a sync of 4 KB costs here, with nothing else going on.
pub(super) fn fsyncs(folder: &Path) -> Result<Times, Failure> {
    let path = folder.join("fsync");
    let mut file = File::create(&path).map_err(at_path(&path))?;
    let mut times = Times::default();
    for _ in 0..300 {
        file.write_all(&[7; 4096]).map_err(at_path(&path))?;
        let start = Instant::now();
        file.sync_data().map_err(at_path(&path))?;
        times.add(start.elapsed());
    }
    Ok(times)
}
