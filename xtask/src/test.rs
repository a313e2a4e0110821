//! `cargo xtask test`: set-up, then the parts one after the other, then one table that says how each ended.
//!
//! A failing part does not stop the next, so that one run shows everything. The suite counts by its tests, tidy by
//! its checks, every other part as one. Knows nothing of single tests; which of them need PostgreSQL is theirs to
//! know, from HONE_TEST_POSTGRES.

use crate::cargo::cargo;
use crate::counts::Counts;
use crate::packages::{self, Missing};
use crate::postgres::{self, Postgres};
use crate::{Exit, model, suite, tidy};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Fmt,
    Clippy,
    Tidy,
    Test,
}

const PARTS: [(&str, Part); 4] = [("fmt", Part::Fmt), ("clippy", Part::Clippy), ("tidy", Part::Tidy), ("test", Part::Test)];

/// The command line of `test`.
#[derive(Debug)]
pub(crate) struct Options {
    slow: bool,
    /// In the order of [`PARTS`].
    parts: Vec<(&'static str, Part)>,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Self, String> {
        let mut slow = false;
        let mut only = Vec::new();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            match arg.split_once('=').unwrap_or((arg, "")) {
                ("--slow", "") => slow = true,
                ("--only", "") => only.push(*args.next().ok_or("`--only` needs the name of a part")?),
                ("--only", name) => only.push(name),
                _ => return Err(format!("`test` has no option `{arg}`")),
            }
        }
        if let Some(name) = only.iter().find(|&&name| PARTS.iter().all(|(known, _)| *known != name)) {
            return Err(format!("`{name}` is no part; there are fmt, clippy, tidy and test"));
        }
        let parts = PARTS.into_iter().filter(|(name, _)| only.is_empty() || only.contains(name)).collect();
        Ok(Self { slow, parts })
    }
}

/// One line of the closing table.
struct Row {
    name: &'static str,
    end: End,
    counts: Counts,
    took: Duration,
}

/// How a part ended, and why where that is not plain.
#[derive(PartialEq, Eq)]
enum End {
    Ok,
    Failed(String),
    Skipped(String),
}

/// Runs the chosen parts.
pub(crate) fn run(options: &Options) -> Exit {
    let mut rows = Vec::new();
    let mut broken = false;
    let (mut server, mut model) = (None, None);
    if options.parts.iter().any(|&(_, part)| part == Part::Test) {
        (rows, server, broken) = set_up();
        model = set_up_model(&mut rows);
    }
    for &(name, part) in &options.parts {
        let start = Instant::now();
        let (end, counts) = match part {
            Part::Fmt => plain(name, &["fmt", "--all", "--check"]),
            Part::Clippy => plain(name, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
            Part::Tidy => tidied(name),
            Part::Test => tested(name, options.slow, server.as_ref(), model.as_deref()),
        };
        rows.push(finish(name, end, counts, start));
    }
    drop(server);
    print_table(&rows);
    match rows.iter().any(|row| matches!(row.end, End::Failed(_))) {
        _ if broken => Exit::Broken,
        true => Exit::Failed,
        false => Exit::Good,
    }
}

/// What the tests need: packages, and a server. Packages that only the user can install are a failure of the parts
/// that need them; everything else that goes wrong here means that set-up itself is broken, the last value.
fn set_up() -> (Vec<Row>, Option<Postgres>, bool) {
    headline("packages", "what the tests need");
    let start = Instant::now();
    let provided = packages::provide(packages::TOOLS);
    let mut broken = matches!(provided, Err(Missing::Failed { .. }));
    let end = provided.map_or_else(|missing| End::Failed(missing.to_string()), |()| End::Ok);
    let counts = Counts { failed: u64::from(end != End::Ok), ..Counts::default() };
    let packages = finish("packages", end, counts, start);

    headline("postgres", "a private server for the tests");
    let start = Instant::now();
    let mut counts = Counts::default();
    let (server, end) = if postgres::binaries().is_none() {
        counts.skipped = 1;
        (None, End::Skipped("not installed, and without it the tests prove nothing about it".into()))
    } else {
        match Postgres::start() {
            Ok(server) => {
                eprintln!("listening on 127.0.0.1:{}", server.port());
                (Some(server), End::Ok)
            }
            Err(why) => {
                broken = true;
                counts.failed = 1;
                (None, End::Failed(why))
            }
        }
    };
    (vec![packages, finish("postgres", end, counts, start)], server, broken)
}

/// The real model. A machine without a network has none, and that is no failure of the code.
fn set_up_model(rows: &mut Vec<Row>) -> Option<PathBuf> {
    headline("model", "SmolLM2-135M-Instruct for the tests that speak with a real one");
    let start = Instant::now();
    let provided = model::provide();
    let skipped = u64::from(provided.is_err());
    let end = provided.as_ref().map_or_else(|why| End::Skipped(why.clone()), |_| End::Ok);
    rows.push(finish("model", end, Counts { skipped, ..Counts::default() }, start));
    provided.ok()
}

type Ended = (End, Counts);

/// A part that is one cargo command and counts as one.
fn plain(name: &str, args: &[&str]) -> Ended {
    headline(name, &format!("cargo {}", args.join(" ")));
    let end = match cargo().args(args).status() {
        Ok(status) if status.success() => End::Ok,
        Ok(status) => End::Failed(status.to_string()),
        Err(error) => End::Failed(format!("did not start: {error}")),
    };
    let counts = Counts { passed: u64::from(end == End::Ok), failed: u64::from(end != End::Ok), skipped: 0 };
    (end, counts)
}

fn tidied(name: &str) -> Ended {
    headline(name, "what no compiler checks");
    match tidy::check() {
        Ok(counts) if counts.failed == 0 => (End::Ok, counts),
        Ok(counts) => (End::Failed(format!("{} of its checks", counts.failed)), counts),
        Err(why) => (End::Failed(why), Counts { failed: 1, ..Counts::default() }),
    }
}

fn tested(name: &str, slow: bool, server: Option<&Postgres>, model: Option<&Path>) -> Ended {
    let mut sum = Counts::default();
    let mut end = End::Ok;
    for run in suite::runs() {
        headline(name, &run.to_string());
        let (failure, counts) = run.start(slow, server, model);
        sum += counts;
        if let (End::Ok, Some(why)) = (&end, failure) {
            end = End::Failed(format!("{run}: {why}"));
        }
    }
    (end, sum)
}

fn headline(name: &str, what: &str) {
    eprintln!("\n=== {name}: {what}");
}

fn finish(name: &'static str, end: End, counts: Counts, start: Instant) -> Row {
    let row = Row { name, end, counts, took: start.elapsed() };
    eprintln!("=== {name} after {}: {}", seconds(row.took), row.end);
    row
}

fn print_table(rows: &[Row]) {
    println!();
    let mut sum = Counts::default();
    for row in rows {
        sum += row.counts;
        // A long reason, such as a server's log, stands in full where the part ended.
        let end = row.end.to_string();
        println!("{:<9} {:>9}  {}", row.name, seconds(row.took), end.lines().next().unwrap_or_default());
    }
    println!("\n{sum}");
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_options(args: &[&str], expected: Result<(bool, &[Part]), &str>) {
        match (Options::parse(args), expected) {
            (Ok(options), Ok((slow, parts))) => {
                assert_eq!(options.slow, slow, "{args:?}");
                assert_eq!(options.parts.iter().map(|&(_, part)| part).collect::<Vec<_>>(), parts, "{args:?}");
            }
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (parsed, _) => panic!("{args:?} gave {parsed:?}"),
        }
    }

    #[test]
    fn options_choose_parts() {
        check_options(&[], Ok((false, &[Part::Fmt, Part::Clippy, Part::Tidy, Part::Test])));
        check_options(&["--slow"], Ok((true, &[Part::Fmt, Part::Clippy, Part::Tidy, Part::Test])));
        check_options(&["--only", "tidy", "--only=fmt"], Ok((false, &[Part::Fmt, Part::Tidy])));
        check_options(&["--only"], Err("needs the name"));
        check_options(&["--only", "lint"], Err("`lint` is no part"));
        check_options(&["--fast"], Err("`--fast`"));
    }
}
