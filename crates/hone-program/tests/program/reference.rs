//! A reference interpreter, where the machine has one.

use std::io::Write;
use std::process::{Command, Stdio};

/// What the reference came to for one program.
pub(crate) struct Outcome {
    pub(crate) output: String,
    /// The type of the exception that ended it, or nothing; `Late` or `MemoryError` where it was stopped.
    pub(crate) error: String,
}

/// Runs every program of a list on standard input, and prints a list of outputs and types of exceptions.
const RUNNER: &str = r#"
import contextlib, io, json, resource, signal, sys
sys.setrecursionlimit(1000)
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
class Late(BaseException): pass
def late(*_): raise Late()
signal.signal(signal.SIGVTALRM, late)
results = []
for source in json.load(sys.stdin):
    output, error = io.StringIO(), ""
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.5)
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(source, "program", "exec"), {"__name__": "program"})
    except BaseException as e:
        error = type(e).__name__
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    results.append([output.getvalue(), error])
json.dump(results, sys.stdout)
"#;

/// Runs programs by `python3`; says so and returns nothing where there is none.
pub(crate) fn run(sources: &[&str]) -> Option<Vec<Outcome>> {
    let child = Command::new("python3").args(["-W", "ignore", "-c", RUNNER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        println!("skipped: there is no python3 to compare with");
        return None;
    };
    let text = serde_json::to_string(sources).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let results: Vec<(String, String)> = serde_json::from_slice(&output.stdout).unwrap();
    Some(results.into_iter().map(|(output, error)| Outcome { output, error }).collect())
}
