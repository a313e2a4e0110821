//! The test suite as one or two runs of cargo: nextest where there is one, and the doctests, which it does not run,
//! where there are some; libtest otherwise.
//!
//! Which tests are slow, need PostgreSQL or the real model is theirs to know, from HONE_SLOW, HONE_TEST_POSTGRES and
//! HONE_TEST_SMOLLM2.

use crate::cargo::{cargo, root};
use crate::counts::{self, Counts, Runner};
use crate::postgres::Postgres;
use crate::tidy;
use std::io::IsTerminal;
use std::path::Path;
use std::process::Stdio;
use std::thread::available_parallelism;

/// How many cases a property is tried on with `--slow`, which draws others each time.
const N_CASES_SLOW: &str = "20000";

/// One command that runs tests.
pub(crate) struct Run {
    runner: Runner,
    args: &'static [&'static str],
}

const NEXTEST: Run =
    Run { runner: Runner::Nextest, args: &["nextest", "run", "--workspace", "--tests", "--no-fail-fast", "--no-tests=pass"] };
const DOCTESTS: Run = Run { runner: Runner::Libtest, args: &["test", "--doc", "--workspace", "--no-fail-fast"] };
const LIBTEST: Run = Run { runner: Runner::Libtest, args: &["test", "--workspace", "--no-fail-fast"] };

/// The runs that together are all tests.
pub(crate) fn runs() -> &'static [Run] {
    let mut probe = cargo();
    probe.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    let has_nextest = probe.status().is_ok_and(|status| status.success());
    match (has_nextest, has_doctests()) {
        (true, true) => &[NEXTEST, DOCTESTS],
        (true, false) => &[NEXTEST],
        (false, _) => &[LIBTEST],
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cargo {}", self.args.join(" "))
    }
}

impl Run {
    /// Runs to the end, passes the output on and reads the counts from it; says why when it failed.
    pub(crate) fn start(&self, slow: bool, server: Option<&Postgres>, model: Option<&Path>) -> (Option<String>, Counts) {
        let mut command = cargo();
        command.args(self.args);
        match server {
            Some(server) => command.env("HONE_TEST_POSTGRES", server.url()),
            None => command.env_remove("HONE_TEST_POSTGRES"),
        };
        match model {
            Some(model) => command.env("HONE_TEST_SMOLLM2", model),
            None => command.env_remove("HONE_TEST_SMOLLM2"),
        };
        // Some tests wait for what comes in time: one more than there are cores keeps these busy.
        if std::env::var_os("NEXTEST_TEST_THREADS").is_none() {
            command.env("NEXTEST_TEST_THREADS", available_parallelism().map_or(2, |n| n.get() + 1).to_string());
        }
        match slow {
            true => command.env("HONE_SLOW", "1").env("NEXTEST_PROFILE", "slow").env("PROPTEST_CASES", N_CASES_SLOW),
            // What is drawn is the same in every run, unless another seed is asked for: whether a change is sound must not depend on luck.
            false => command
                .env_remove("HONE_SLOW")
                .env("PROPTEST_RNG_SEED", std::env::var("PROPTEST_RNG_SEED").as_deref().unwrap_or("1")),
        };
        if std::io::stderr().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        // The summary is on one of the two streams; the other one is inherited and needs no care.
        match self.runner {
            Runner::Nextest => command.stderr(Stdio::piped()),
            Runner::Libtest => command.stdout(Stdio::piped()),
        };
        let ended = command.spawn().and_then(|mut child| {
            let counts = match (child.stderr.take(), child.stdout.take()) {
                (Some(stderr), _) => counts::copy(self.runner, stderr, std::io::stderr())?,
                (_, Some(stdout)) => counts::copy(self.runner, stdout, std::io::stdout())?,
                (None, None) => Counts::default(),
            };
            Ok((child.wait()?, counts))
        });
        match ended {
            Ok((status, counts)) if status.success() => (None, counts),
            // A run that failed without a failing test, for example to compile, counts as one.
            Ok((status, counts)) if counts.failed == 0 => (Some(status.to_string()), Counts { failed: 1, ..counts }),
            Ok((_, counts)) => (Some(counts.to_string()), counts),
            Err(error) => (Some(format!("lost the runner: {error}")), Counts { failed: 1, ..Counts::default() }),
        }
    }
}

/// Whether a library seems to have an example in its documentation that rustdoc would compile. A wrong yes costs a
/// second, a wrong no would hide a test.
fn has_doctests() -> bool {
    tidy::tree(root()).is_ok_and(|tree| {
        tree.files.iter().any(|(path, file)| path.starts_with("crates/") && path.ends_with(".rs") && documents_code(&file.text))
    })
}

fn documents_code(source: &str) -> bool {
    let mut fenced = false;
    let mut after_blank = true;
    source.lines().any(|line| {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (fenced, after_blank) = (false, true);
            return line.starts_with("#![doc = include_str!") || line.starts_with("#[doc = include_str!");
        };
        let Some(info) = doc.trim_start().strip_prefix("```") else {
            // Without a fence, code is indented by four more blanks than prose.
            let indented = after_blank && !fenced && doc.starts_with("     ");
            after_blank = doc.trim().is_empty();
            return indented;
        };
        fenced = !fenced;
        fenced
            && info.split([',', ' ']).all(|word| {
                matches!(word, "" | "rust" | "no_run" | "should_panic" | "compile_fail") || word.starts_with("edition")
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctests_are_seen() {
        for (source, expected) in [
            ("/// ```\n/// assert!(true);\n/// ```\nfn f() {}\n", true),
            ("//! ```rust,no_run\n//! f();\n//! ```\n", true),
            ("/// ```text\n/// a picture\n/// ```\nfn f() {}\n", false),
            ("// ```\n// not documentation\n// ```\n", false),
            ("/// So:\n///\n///     f();\nfn f() {}\n", true),
            ("/// - a list\n///     goes on\nfn f() {}\n", false),
            ("#![doc = include_str!(\"../README.md\")]\n", true),
            ("fn f() {}\n", false),
        ] {
            assert_eq!(documents_code(source), expected, "{source}");
        }
    }
}
