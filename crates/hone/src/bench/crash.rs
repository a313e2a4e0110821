//! `hone bench crash`: a process under load is killed again and again, and everything it had acknowledged
//! must be there afterwards: once, and unchanged.

use super::sample::{Random, Samples};
use super::scratch;
use super::writer::{PLACE, event_id, place_text, trace_id};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_store::{Options, Place, verify};
use hone_trace::store::Write;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How many writers the child has.
const N_WRITERS: usize = 8;
/// A child is killed at a random moment up to this long after its start.
const LIFE_MAX_MS: i64 = 400;

/// Kill a process under load again and again and count what is lost
///
/// A child process with eight concurrent writers is killed with SIGKILL at random moments. What it had acknowledged is
/// compared with what is in the store afterwards. Works in a folder or database of its own, which it removes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many times to kill
    #[arg(long, default_value_t = 20, value_name = "N")]
    kills: u64,
    /// Which database to test; without this, the configured one
    #[arg(long, value_enum)]
    store: Option<Which>,
    /// The seed of the traces and of the moments
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// A SQLite file in a folder
    Sqlite,
    /// The configured PostgreSQL server
    Postgres,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    store: &'static str,
    kills: u64,
    /// Writes that the child saw acknowledged: each is a trace, an event, a link and the next turn of the trace before.
    acked: u64,
    lost: u64,
    duplicated: u64,
    corrupt: u64,
    /// The 95 % upper bound of the rate of failures per kill.
    bound: f64,
    /// Children that were killed before they had acknowledged anything.
    killed_early: u64,
    complaints: Vec<String>,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let configured = match context.settings.place {
        Place::Folder(_) => Which::Sqlite,
        Place::Postgres(_) => Which::Postgres,
    };
    let report = match args.store.unwrap_or(configured) {
        Which::Sqlite => {
            let folder = scratch::folder(context)?;
            kill_and_count(args, "sqlite", &Place::Folder(folder.path().join(".hone")), context).await?
        }
        Which::Postgres => {
            let database = scratch::Database::create(context).await?.ok_or_else(|| {
                Failure::user("no PostgreSQL server is configured")
                    .hint("set HONE_DATABASE_URL, or run `cargo xtask pg -- COMMAND`")
            })?;
            let report = kill_and_count(args, "postgres", &database.place(), context).await;
            database.remove().await?;
            report?
        }
    };
    let clean = report.lost + report.duplicated + report.corrupt == 0;
    if context.printer.wants_json() {
        context.printer.json(&report)?;
    } else {
        let Report { store, kills, acked, lost, duplicated, corrupt, bound, .. } = &report;
        context.printer.plain(&format!(
            "{store}: {kills} kills, {acked} acknowledged writes, {lost} lost, {duplicated} duplicated, {corrupt} corrupt; \
             with 95 % confidence at most {bound} failures per kill"
        ))?;
    }
    for complaint in &report.complaints {
        context.printer.complain(complaint);
    }
    Ok(if clean { Exit::Yes } else { Exit::No })
}

async fn kill_and_count(args: &Args, name: &'static str, place: &Place, context: &Context<'_>) -> Result<Report, Failure> {
    let samples = Samples::new(args.seed);
    let mut random = Random(args.seed);
    let mut report = Report { store: name, kills: args.kills, bound: 3.0 / args.kills.max(1) as f64, ..Report::default() };
    // How far each writer's acknowledgements go: everything below is in the ledger.
    let mut acked = [0_u64; N_WRITERS];
    for kill in 0..args.kills {
        let before = acked;
        one_life(args.seed, place, Duration::from_millis(random.below(LIFE_MAX_MS).unsigned_abs() + 1), &mut acked, &mut report)?;
        if acked == before {
            report.killed_early += 1;
        }
        let store = hone_store::open(place, &Options::default()).await?;
        for (writer, (&from, &to)) in before.iter().zip(&acked).enumerate() {
            for n in from..to {
                match store.trace(trace_id(&samples, writer as u64, n)).await {
                    Ok(Some(_)) => {}
                    Ok(None) => report.lose(format!("kill {kill}: writer {writer} lost trace {n}")),
                    Err(error) => report.spoil(format!("kill {kill}: {error}")),
                }
            }
        }
        if kill % 10 == 0 {
            context.printer.say(&format!(
                "{name}: {} of {} kills, {} acknowledged",
                kill + 1,
                args.kills,
                acked.iter().sum::<u64>()
            ));
        }
    }
    report.acked = acked.iter().sum();
    examine(place, &samples, &acked, &mut report).await?;
    Ok(report)
}

/// Starts a child, kills it after a while, and takes down what it had acknowledged until then.
fn one_life(seed: u64, place: &Place, life: Duration, acked: &mut [u64; N_WRITERS], report: &mut Report) -> Result<(), Failure> {
    let exe = std::env::current_exe().map_err(Failure::world)?;
    let from: Vec<String> = acked.iter().map(u64::to_string).collect();
    let mut child = Command::new(exe)
        .args(["bench", "crash-writer", "--seed", &seed.to_string(), "--from", &from.join(",")])
        .env(PLACE, place_text(place))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(Failure::world)?;
    let ledger = child
        .stdout
        .take()
        .map(|pipe| std::thread::spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).collect::<Vec<String>>()));
    std::thread::sleep(life);
    child.kill().map_err(Failure::world)?;
    child.wait().map_err(Failure::world)?;
    let lines = ledger.and_then(|thread| thread.join().ok()).unwrap_or_default();
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(writer), Some(n)) = (number(words.next()), number(words.next())) else { continue };
        let kinds: Vec<&str> = words.collect();
        if kinds.contains(&"Conflict") {
            report.spoil(format!("writer {writer}, step {n}: a write that was sent again met other content"));
        }
        // They belong to one put: they were all there from before, or none of them.
        if kinds.windows(2).any(|pair| pair[0] != pair[1]) {
            report.spoil(format!("writer {writer}, step {n}: only a part of it had been kept: {kinds:?}"));
        }
        if let Some(acked) = acked.get_mut(writer as usize) {
            *acked = n + 1;
        }
    }
    Ok(())
}

fn number(word: Option<&str>) -> Option<u64> {
    word?.parse().ok()
}

/// Reads the whole store back and compares it with the ledger.
async fn examine(place: &Place, samples: &Samples, acked: &[u64; N_WRITERS], report: &mut Report) -> Result<(), Failure> {
    let store = hone_store::open(place, &Options::default()).await?;
    let verdict = verify(&*store, |_| ()).await?;
    for complaint in verdict.complaints {
        report.spoil(complaint);
    }
    let (sink, mut records) = tokio::sync::mpsc::channel(1024);
    let (mut traces, mut turns, mut links, mut events) = (HashMap::new(), HashSet::new(), HashSet::new(), HashSet::new());
    let reading = async {
        while let Some(record) = records.recv().await {
            match record {
                Ok((_, Write::Trace(trace))) => *traces.entry(trace.id).or_insert(0_u64) += 1,
                Ok((_, Write::Turn(trace, _))) if !turns.insert(trace) => report.duplicated += 1,
                Ok((_, Write::Link(link))) => drop(links.insert(link.from)),
                Ok((_, Write::Event(event))) if !events.insert(event.id) => report.duplicated += 1,
                _ => {}
            }
        }
    };
    let (dumped, ()) = tokio::join!(store.dump(sink), reading);
    dumped?;
    report.duplicated += traces.values().filter(|&&n| n > 1).count() as u64;
    for (writer, &to) in acked.iter().enumerate() {
        let writer = writer as u64;
        for n in 0..to {
            let id = trace_id(samples, writer, n);
            let whole = traces.contains_key(&id)
                && links.contains(&format!("trace:{id}"))
                && events.contains(&event_id(writer, n))
                && n.checked_sub(1).is_none_or(|before| turns.contains(&trace_id(samples, writer, before)));
            if !whole {
                report.lose(format!("in the end: writer {writer}, step {n} is not all there"));
            }
        }
        // The last step may have been kept without being acknowledged; nothing beyond it can be there.
        if traces.contains_key(&trace_id(samples, writer, to + 1)) {
            report.spoil(format!("writer {writer} has a step beyond the one that it waited for"));
        }
    }
    check_order(&store, report).await
}

/// The events of each writer are in the log in the order in which it wrote them.
async fn check_order(store: &Arc<dyn hone_store::Database>, report: &mut Report) -> Result<(), Failure> {
    let (mut after, mut next) = (0, HashMap::new());
    loop {
        let page = store.events(None, after, 1000).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        for (_, event) in page {
            let expected = next.entry(event.stream.clone()).or_insert(0_u64);
            if event.body["n"].as_u64() != Some(*expected) {
                report.spoil(format!("{}: event {} where {expected} was due", event.stream, event.body["n"]));
            }
            *expected += 1;
        }
    }
}

impl Report {
    fn lose(&mut self, complaint: String) {
        self.lost += 1;
        self.complain(complaint);
    }

    fn spoil(&mut self, complaint: String) {
        self.corrupt += 1;
        self.complain(complaint);
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < 20 {
            self.complaints.push(complaint);
        }
    }
}
