//! `hone bench dashboard`: how fast the first pages are, with very many traces on the record.

use super::figures::Times;
use super::sample::{CATEGORIES, Samples};
use super::scratch;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_store::{Options, Place};
use hone_trace::store::Write;
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Traces of one write.
const BATCH_LEN: u64 = 2000;

/// Ask for the first pages of the dashboard, with very many traces in SQLite
///
/// Writes realistic traces (about 6 KB each), starts `hone serve` on them as a process of its own, and asks for pages as a browser does,
/// one after the other. Needs about 8 GB of disk for a million traces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many traces
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    traces: u64,
    /// How often each page is asked for
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// The seed of the traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    traces: u64,
    requests: u32,
    pages: Vec<PageTimes>,
}

#[derive(Debug, Serialize)]
struct PageTimes {
    page: &'static str,
    p50_ms: f64,
    p99_ms: f64,
    bytes: usize,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = scratch::folder(context)?;
    let place = folder.path().join(".hone");
    fill(args, &place, context).await?;
    let served = Served::start(folder.path(), &place)?;
    let report = measure(args, &served).await?;
    drop(served);
    if context.printer.wants_json() {
        context.printer.json(&report)?;
        return Ok(Exit::Yes);
    }
    let row = |page: &PageTimes| {
        let times = [page.p50_ms, page.p99_ms].map(|ms| format!("{ms} ms"));
        [page.page.to_owned()].into_iter().chain(times).chain([format!("{}", page.bytes)]).collect()
    };
    let rows: Vec<Vec<String>> = report.pages.iter().map(row).collect();
    context.printer.table(&["page", "p50", "p99", "bytes"], &rows)?;
    Ok(Exit::Yes)
}

async fn fill(args: &Args, place: &Path, context: &Context<'_>) -> Result<(), Failure> {
    context.printer.say(&format!("writing {} traces", args.traces));
    let store = hone_store::open(&Place::Folder(place.to_owned()), &Options::default()).await?;
    let samples = Samples::new(args.seed);
    let bar = context.printer.count_bar("traces");
    let mut first = 0;
    while first < args.traces {
        let next = (first + BATCH_LEN).min(args.traces);
        store.put((first..next).map(|n| Write::Trace(Box::new(samples.trace(n)))).collect()).await?;
        bar.inc(next - first);
        first = next;
    }
    bar.finish_and_clear();
    Ok(())
}

async fn measure(args: &Args, served: &Served) -> Result<Report, Failure> {
    let category = CATEGORIES[0];
    let pages = [
        ("overview", "/dashboard".to_owned()),
        ("newest traces", "/dashboard/traces".to_owned()),
        ("of a task and an outcome", format!("/dashboard/traces?task={category}&outcome=success")),
        ("of a range of rewards", "/dashboard/traces?reward_min=0.5&reward_max=0.9".to_owned()),
        ("words in the newest", "/dashboard/traces?q=nowhere".to_owned()),
    ];
    let client = reqwest::Client::builder().no_proxy().build().map_err(Failure::world)?;
    let mut found = Vec::new();
    for (page, path) in pages {
        let (mut times, mut bytes) = (Times::default(), 0);
        for _ in 0..args.requests {
            let start = Instant::now();
            let answer = client.get(format!("{}{path}", served.url)).send().await.map_err(Failure::world)?;
            let (status, body) = (answer.status(), answer.bytes().await.map_err(Failure::world)?);
            times.add(start.elapsed());
            bytes = body.len();
            if !status.is_success() {
                return Err(Failure::bug(format_args!("{path} gave {status}")));
            }
        }
        found.push(PageTimes { page, p50_ms: times.percentile(0.5), p99_ms: times.percentile(0.99), bytes });
    }
    Ok(Report { traces: args.traces, requests: args.requests, pages: found })
}

/// A server of its own, for as long as this lives.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(folder: &Path, place: &Path) -> Result<Self, Failure> {
        let exe = std::env::current_exe().map_err(Failure::world)?;
        // Nobody is asked for an answer, so that nobody need be there to give one.
        let words = ["serve", "--quiet", "--address", "127.0.0.1:0", "--model", "m=http://127.0.0.1:9/v1#m"];
        let mut child = Command::new(exe)
            .args(words)
            .current_dir(folder)
            .env_remove("HONE_DATABASE_URL")
            .env("HONE_STORE_FOLDER", place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Failure::world)?;
        let mut first = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut first).map_err(Failure::world)?;
        }
        let served = |url: &str| Self { child, url: url.to_owned() };
        first.split_once("/v1 ").map(|(url, _)| url).map(served).ok_or_else(|| Failure::bug("`hone serve` did not start"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has nothing to finish, and whatever goes wrong here leaves a process that ends with this one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
