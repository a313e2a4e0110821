//! The real binary in a folder of its own: what it writes to which stream, and how it exits.

mod advise;
mod agent;
mod alarms;
mod arc;
mod arc_edits;
mod arc_pages;
mod bench;
mod broken_world;
mod code;
mod collector;
mod config;
mod cost;
mod curriculum;
mod dashboard;
mod data;
mod demonstrations;
mod deploy;
mod doctor;
mod hub;
mod judge;
mod key;
mod r#loop;
mod model;
mod output;
mod postgres;
mod practice;
mod provider;
mod serve;
mod sets;
mod store;
mod trace;
mod train;
mod train_judge;
mod train_run;
mod train_settings;
mod worlds;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The PostgreSQL server of this test run.
#[expect(clippy::disallowed_methods, reason = "the test run says by a variable where its server is")]
fn server() -> Option<String> {
    std::env::var("HONE_TEST_POSTGRES").ok()
}

/// The real model of this test run.
#[expect(clippy::disallowed_methods, reason = "the test run says by a variable where the model is")]
fn real_model() -> Option<String> {
    std::env::var("HONE_TEST_SMOLLM2").ok()
}

/// Whether slow tests run as well.
#[expect(clippy::disallowed_methods, reason = "the test run says by a variable whether slow tests run")]
fn is_slow() -> bool {
    std::env::var_os("HONE_SLOW").is_some()
}

/// A folder in which hone runs, without the variables of whoever runs the tests.
struct Desk {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

/// How a command ended.
struct Ended {
    line: String,
    code: i32,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder for the test"), variables: Vec::new() }
    }

    /// A desk with these files on it.
    fn with(files: &[(&str, &str)]) -> Self {
        let desk = Self::new();
        for (name, text) in files {
            std::fs::write(desk.path(name), text).expect("a file for the test");
        }
        desk
    }

    fn set(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file that the command wrote")
    }

    /// Runs `hone` with the words of this line.
    fn hone(&self, line: &str) -> Ended {
        self.hone_reading(line, b"")
    }

    /// Runs `hone` with this on its stdin.
    fn hone_reading(&self, line: &str, stdin: &[u8]) -> Ended {
        let mut child = self.command(line).stdin(Stdio::piped()).spawn().expect("the binary of this package");
        let mut to = child.stdin.take().expect("a pipe");
        let stdin = stdin.to_vec();
        let writer = std::thread::spawn(move || to.write_all(&stdin));
        let Output { status, stdout, stderr } = child.wait_with_output().expect("an end");
        // A command that does not read its stdin closes it: that is not a failure of the test.
        let _ = writer.join().expect("the writer does not panic");
        let text = |bytes| String::from_utf8(bytes).expect("hone writes UTF-8");
        Ended { line: line.to_owned(), code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
        command.args(line.split_whitespace()).current_dir(self.folder.path());
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Ended {
    /// With this exit code, and with these words somewhere on the two streams. An empty text means an empty stream.
    #[track_caller]
    fn expect(self, code: i32, out: &str, err: &str) -> Self {
        let told = format!("hone {}\n--- stdout\n{}--- stderr\n{}---", self.line, self.out, self.err);
        assert_eq!(self.code, code, "{told}");
        for (expected, found) in [(out, &self.out), (err, &self.err)] {
            assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "no `{expected}` in\n{told}");
        }
        self
    }

    /// The JSON values on stdout, one per line.
    #[track_caller]
    fn json(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}
