//! How many tests passed, failed and were skipped, read from the summaries that test runners print.
//!
//! nextest writes one `Summary` line at its end to stderr, libtest one `test result:` line per test binary to
//! stdout. Both are passed on as they come. Knows nothing of single tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::AddAssign;

/// Tests, or parts of the run that count as one test each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Counts {
    /// The last line of a run, which CI reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Whose summaries to look for. The output of a failing test shows those of other runners too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Nextest,
    Libtest,
}

/// Copies a runner's output line by line and reads the summaries in it.
pub(crate) fn copy(runner: Runner, from: impl Read, mut to: impl Write) -> std::io::Result<Counts> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut sum = Counts::default();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        if let Some(counts) = parse(runner, &without_colour(&String::from_utf8_lossy(&line))) {
            match runner {
                Runner::Nextest => sum = counts,
                Runner::Libtest => sum += counts,
            }
        }
        line.clear();
    }
    Ok(sum)
}

fn parse(runner: Runner, line: &str) -> Option<Counts> {
    let (_, summary) = match runner {
        Runner::Libtest => line.strip_prefix("test result: ")?.split_once(". ")?,
        Runner::Nextest => {
            line.trim_start().strip_prefix("Summary [")?.split_once(" run: ").filter(|(head, _)| head.contains(" test"))?
        }
    };
    // nextest explains some of its numbers in brackets, `9 passed (1 slow, 1 flaky)`; these are counted already.
    let mut depth = 0;
    let plain: String = summary
        .chars()
        .filter(|&c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0 && c != ')'
        })
        .collect();
    let mut counts = Counts::default();
    for item in plain.split([',', ';']) {
        let Some((number, word)) = item.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match word.trim() {
            "passed" => counts.passed += number,
            "failed" | "timed out" | "exec failed" | "leak-failed" => counts.failed += number,
            "skipped" | "ignored" => counts.skipped += number,
            _ => {}
        }
    }
    Some(counts)
}

fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A colour is ESC [ digits and semicolons, ended by a letter.
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runner: Runner, output: &str, (passed, failed, skipped): (u64, u64, u64)) {
        let mut echo = Vec::new();
        let counts = copy(runner, output.as_bytes(), &mut echo).unwrap();
        assert_eq!(echo, output.as_bytes(), "the output is passed on unchanged");
        assert_eq!(counts, Counts { passed, failed, skipped }, "{output}");
    }

    #[test]
    fn the_summary_of_nextest_is_read() {
        for (output, expected) in [
            ("     Summary [   0.123s] 12 tests run: 12 passed, 0 skipped\n", (12, 0, 0)),
            ("     Summary [   0.123s] 1 test run: 1 passed, 3 skipped", (1, 0, 3)),
            ("  Summary [ 9s] 9 tests run: 5 passed (1 slow, 2 flaky), 3 failed, 1 timed out, 2 skipped\n", (5, 4, 2)),
            ("  Summary [ 9s] 3/9 tests run: 1 passed, 1 failed, 1 exec failed, 6 skipped\n", (1, 2, 6)),
            (
                "\x1b[32;1m Summary\x1b[0m [ 0s] \x1b[1m2\x1b[0m tests run: \x1b[1m2\x1b[0m \x1b[32;1mpassed\x1b[0m, \x1b[1m0\x1b[0m skipped",
                (2, 0, 0),
            ),
            (
                "    test result: FAILED. 0 passed; 1 failed; 0 ignored\n  Summary [ 9s] 1 test run: 0 passed, 1 failed, 0 skipped\n",
                (0, 1, 0),
            ),
            ("Summary of the trace: 3 passed, 4 failed\nSummary [x] the second run: 3 passed\n", (0, 0, 0)),
            ("", (0, 0, 0)),
        ] {
            check(Runner::Nextest, output, expected);
        }
    }

    #[test]
    fn the_summaries_of_libtest_are_added_up() {
        for (output, expected) in [
            ("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n", (3, 0, 1)),
            (
                "test result: ok. 3 passed; 0 failed; 0 ignored\nrunning 2 tests\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n",
                (4, 1, 0),
            ),
            ("error: could not compile `hone`\n", (0, 0, 0)),
        ] {
            check(Runner::Libtest, output, expected);
        }
    }

    #[test]
    fn the_last_line_names_skipped_tests_only_when_there_are_some() {
        assert_eq!(Counts { passed: 3, failed: 0, skipped: 0 }.to_string(), "3 passed, 0 failed");
        assert_eq!(Counts { passed: 3, failed: 1, skipped: 2 }.to_string(), "3 passed, 1 failed, 2 skipped");
    }
}
