//! `hone bench loop`: the loop killed at random moments and taken up again. Does it end with the same table?

use super::gateway::peer::own;
use super::scratch;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use hone_trace::Draws;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Kill the loop at random moments, take it up again, and compare what it says in the end
///
/// A loop that nobody disturbs comes first. Others are killed with SIGKILL and taken up with --resume until they end; their tables,
/// hashes and adapters must be the same but for times. Takes as long as some ten loops.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often a loop is killed, in all
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kills: u32,
    /// The seed of the moments, and of the loop
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Further options of the loops, such as --pages=20000
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Bars that loops of any size can reach: whether gates refuse is not what is asked here.
const BARS: &str = "[data]\nsft_points = 10\nrl_points = 10\ntask_types = 2\ntask_points = 2\n";
/// Of the time that a loop takes, the longest that passes between two kills.
const PAUSE_MAX: f64 = 0.3;

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let scratch = scratch::folder(context)?;
    let bench = Bench { args, folder: scratch.path() };
    let began = Instant::now();
    let expected = told(bench.start("whole", false)?)?;
    let seconds = began.elapsed().as_secs_f64();
    context.printer.say(&format!("undisturbed: {seconds:.0} s, {}", expected["verdict"]));
    let mut draws = Draws::new(args.seed, &["kills"]);
    let (mut n_kills, mut n_loops, mut n_equal) = (0, 0, 0);
    while n_kills < args.kills {
        n_loops += 1;
        let name = format!("killed-{n_loops}");
        let (report, n) = bench.disturbed(&name, seconds, &mut draws)?;
        n_kills += n;
        let is_equal = report == expected;
        n_equal += u32::from(is_equal);
        context
            .printer
            .say(&format!("loop {n_loops}, killed {n} times: {}", if is_equal { "the same" } else { "another table" }));
        if !is_equal {
            context.printer.complain(&format!("expected {expected}\n     got {report}"));
        }
    }
    let all = json!({"loops": n_loops, "kills": n_kills, "equal": n_equal, "seconds": seconds, "adapter": expected["adapter"]});
    if context.printer.wants_json() {
        context.printer.json(&all)?;
    } else {
        context.printer.plain(&format!("{n_equal} of {n_loops} loops ended with the same table after {n_kills} kills"))?;
    }
    Ok(if n_equal == n_loops { Exit::Yes } else { Exit::No })
}

struct Bench<'a> {
    args: &'a Args,
    folder: &'a Path,
}

impl Bench<'_> {
    /// A loop in a folder of its own, or the same again where it was killed.
    fn start(&self, name: &str, goes_on: bool) -> Result<Child, Failure> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        let settings = folder.join("hone.toml");
        std::fs::write(&settings, BARS).map_err(at_path(&settings))?;
        let mut command = own()?;
        command.current_dir(&folder).args(["--folder", "records", "loop", "--json"]);
        match goes_on {
            true => command.arg("--resume"),
            false => command.args(["--seed", &self.args.seed.to_string()]).args(&self.args.options),
        };
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(Failure::world)
    }

    /// What a loop says in the end that is killed again and again, and how often it was.
    fn disturbed(&self, name: &str, seconds: f64, draws: &mut Draws) -> Result<(Value, u32), Failure> {
        let mut n_kills = 0;
        let mut child = self.start(name, false)?;
        loop {
            let pause = Duration::from_secs_f64(seconds * PAUSE_MAX * draws.uniform());
            let until = Instant::now() + pause;
            while Instant::now() < until && child.try_wait().map_err(Failure::world)?.is_none() {
                std::thread::sleep(Duration::from_millis(10));
            }
            if child.try_wait().map_err(Failure::world)?.is_some() {
                return Ok((told(child)?, n_kills));
            }
            child.kill().and_then(|()| child.wait()).map_err(Failure::world)?;
            n_kills += 1;
            // Before its first line a loop has not begun, and there is nothing to go on with.
            child = self.start(name, true)?;
            std::thread::sleep(Duration::from_millis(300));
            if child.try_wait().map_err(Failure::world)?.is_some_and(|status| status.code() == Some(2)) {
                child = self.start(name, false)?;
            }
        }
    }
}

/// What a loop says in the end, without times.
fn told(child: Child) -> Result<Value, Failure> {
    let output = child.wait_with_output().map_err(Failure::world)?;
    let line = output.stdout.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
    let mut report: Value = serde_json::from_slice(line)
        .map_err(|_| Failure::user(format_args!("a loop ended with {} and without a report", output.status)))?;
    let remove = |of: &mut Value, key: &str| drop(of.as_object_mut().map(|object| object.remove(key)));
    remove(&mut report, "seconds");
    for policy in ["script", "before", "after"] {
        remove(&mut report[policy], "latency_p50_ms");
        remove(&mut report[policy], "latency_p50_ms_interval");
    }
    Ok(report)
}
