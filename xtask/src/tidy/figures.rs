//! Every measured figure in the documents stands next to the command that produces it.
//!
//! The rule: in `README.md` and `docs/**/*.md`, a number with a unit of time (`12.3 ms`), of memory (`45 MB`) or of
//! speed (`1,234 traces/s`, `45 MB/s`, `900 requests per second`), or a ratio (`3.4x`, `3 times faster`) needs, in
//! its own section (from one heading to the next), a command in a fence or a code span that contains `hone bench`,
//! `bench/` or `cargo xtask`.
//!
//! Not figures: whatever stands in code, and the rows of a table of options, whose first cell is nothing but a code
//! span. A line with a setting in prose says so with `<!-- setting -->`.
//! Knows nothing of whether a figure is true.

use super::markdown::{Kind, lines, split_spans};
use super::{Finding, Tree};

const COMMANDS: [&str; 3] = ["hone bench", "bench/", "cargo xtask"];

const UNITS: &[&str] = &[
    "ns",
    "µs",
    "μs",
    "us",
    "ms",
    "s",
    "sec",
    "min",
    "seconds",
    "second",
    "milliseconds",
    "microseconds",
    "minutes",
    "KB",
    "kB",
    "MB",
    "GB",
    "TB",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "FLOPS",
    "GFLOPS",
    "TFLOPS",
];

/// What makes `3 times` a ratio and not a count.
const COMPARISONS: &[&str] = &["faster", "slower", "as", "less", "more", "fewer", "smaller", "larger", "cheaper"];

/// How many words may stand between a number and its `/s`, as in `1,234 durable traces/s`.
const WORDS_BETWEEN_MAX: usize = 2;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts(".md")
        .filter(|(path, _)| *path == "README.md" || path.starts_with("docs/"))
        .flat_map(|(path, text)| check_file(path, text))
        .collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let lines = lines(text);
    let mut findings = Vec::new();
    for section in lines.chunk_by(|_, next| next.kind != Kind::Heading) {
        let mut has_command = false;
        let mut figures = Vec::new();
        for line in section {
            let (prose, spans) = split_spans(line.text);
            if line.kind == Kind::Code {
                has_command |= is_command(line.text);
                continue;
            }
            has_command |= spans.iter().any(|span| is_command(span));
            if !line.text.contains("<!-- setting -->") && !is_option_row(&prose, &spans) {
                figures.extend(find_figures(&prose).into_iter().map(|figure| (line.number, figure.to_owned())));
            }
        }
        if !has_command {
            findings.extend(figures.into_iter().map(|(line, figure)| {
                let message = format!(
                    "the figure `{figure}` stands in a section without the command that produces it (`hone bench`, `bench/` or `cargo xtask`); a setting is marked <!-- setting -->"
                );
                Finding::new(path, line, message)
            }));
        }
    }
    findings
}

fn is_command(code: &str) -> bool {
    COMMANDS.iter().any(|command| code.contains(command))
}

/// A table row whose first cell is a code span and nothing else.
fn is_option_row(prose: &str, spans: &[&str]) -> bool {
    let first_cell = prose.trim_start().strip_prefix('|').and_then(|rest| rest.split('|').next());
    first_cell.is_some_and(|cell| cell.trim().is_empty()) && !spans.is_empty()
}

/// The figures of a line of prose, as they are written.
fn find_figures(prose: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = prose[at..].find(|c: char| c.is_ascii_digit()).map(|offset| at + offset) {
        let n_number = number_len(&prose[start..]);
        let rest = &prose[start + n_number..];
        at = start + n_number;
        if begins_a_number(&prose[..start])
            && prose[start..at].matches('.').count() <= 1
            && let Some(n_unit) = unit_len(rest)
        {
            found.push(&prose[start..at + n_unit]);
            at += n_unit;
        }
    }
    found
}

/// Digits with commas and points between them: a sentence may end right after a number.
fn number_len(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches([',', '.']).len()
}

/// Whether a number may begin after this text: not inside a name, a version, a path, a port or an address.
fn begins_a_number(before: &str) -> bool {
    let mut before = before.chars().rev();
    match (before.next(), before.next()) {
        (Some('-'), Some(c)) => !c.is_alphabetic(),
        (Some(c), _) => !c.is_alphanumeric() && !"._/#:@".contains(c),
        (None, _) => true,
    }
}

/// The length of the unit at the start of what follows a number, blanks included.
fn unit_len(rest: &str) -> Option<usize> {
    let ends = |text: &str| !text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    for sign in ["x", "×"] {
        if rest.strip_prefix(sign).is_some_and(ends) {
            return Some(sign.len());
        }
    }
    // `5k programs/s`
    let shortened = rest.strip_prefix(['k', 'K', 'M']).filter(|text| ends(text)).unwrap_or(rest);
    let mut words = Vec::new();
    let mut tail = shortened;
    while words.len() < WORDS_BETWEEN_MAX + 3 {
        let word_start = tail.trim_start_matches([' ', '\u{a0}', '\u{202f}']);
        let n_word = word_start.find(|c: char| !c.is_alphanumeric() && c != '/' && c != '_').unwrap_or(word_start.len());
        // The next number has a unit of its own.
        if n_word == 0 || word_start.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        tail = &word_start[n_word..];
        words.push((&word_start[..n_word], rest.len() - tail.len()));
    }
    let word = |idx: usize| words.get(idx).map_or("", |(word, _)| *word);
    if UNITS.contains(&word(0)) {
        return Some(words[0].1);
    }
    if word(0) == "times" && COMPARISONS.contains(&word(1)) {
        return Some(words[1].1);
    }
    let rate = (0..=WORDS_BETWEEN_MAX).find_map(|idx| match (word(idx), word(idx + 1)) {
        (per, _) if per.ends_with("/s") || per.ends_with("/sec") => Some(idx),
        ("per" | "a", "second" | "minute" | "hour") => Some(idx + 1),
        _ => None,
    });
    rate.map(|idx| words[idx].1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    #[test]
    fn figures_are_told_from_other_numbers() {
        for (prose, expected) in [
            ("It takes 12.3 ms at p99.", &["12.3 ms"][..]),
            ("45 MB/s and 1,234 traces/s, 3.4x the peer", &["45 MB/s", "1,234 traces/s", "3.4x"]),
            (
                "1,234 durable traces/s, 5k programs/s, 900 requests per second",
                &["1,234 durable traces/s", "5k programs/s", "900 requests per second"],
            ),
            ("between 9 and 17 GB/s", &["17 GB/s"]),
            ("0.45-2.1 TFLOP/s, ±0.3 µs, 300MB, 2× as fast", &["2.1 TFLOP/s", "0.3 µs", "300MB", "2×"]),
            ("3 times faster, under 50 ms", &["3 times faster", "50 ms"]),
            ("version 1.95, 1.2.3 s, port 5432, 127.0.0.1:5432, HTTP/1.1 s, sha-256 s", &[]),
            ("8 turns, 3 tool calls, k = 3, 10 → 50 → 100 %, 2x2 tiles, 0x1023, x86, 3 times", &[]),
            ("64 writers, 16 crates, issue #12 s, Qwen2 s, 4 seconds_per_step", &[]),
        ] {
            assert_eq!(find_figures(prose), expected, "{prose}");
        }
    }

    #[test]
    fn a_figure_needs_its_command_in_its_section() {
        let bad = "README.md:2: the figure `12 ms`";
        for (text, expected) in [
            ("# Speed\nA write takes 12 ms.\n", Some(bad)),
            ("# Speed\nA write takes 12 ms (`hone bench store`).\n", None),
            ("# Speed\nA write takes 12 ms.\n```console\n$ hone bench store --json\n```\n", None),
            ("# Speed\nA write takes 12 ms.\n# Other\n`hone bench store`\n", Some(bad)),
            ("# Speed\nA write takes 12 ms; run hone bench store.\n", Some(bad)),
            ("# Speed\nThe deadline is 12 ms. <!-- setting -->\n", None),
            ("# Options\n| `timeout_ms` | 12 ms |\n", None),
            ("# Speed\n| write | 12 ms |\n", Some(bad)),
            ("# Speed\nSet `timeout = \"12 ms\"`.\n```\n12 ms\n```\n", None),
        ] {
            expect(check, &[("README.md", text)], &expected.into_iter().collect::<Vec<_>>());
        }
        expect(check, &[("ARCHITECTURE.md", "12 ms"), ("docs/a/b.md", "12 ms")], &["docs/a/b.md:1: 12 ms"]);
    }
}
