//! What must not stay behind in the repository: large files, paths of somebody's machine, unfinished places.
//!
//! The words it looks for are put together from pieces here, so that this file does not find itself.

use super::{Finding, Tree};

const N_BYTES_MAX: u64 = 400 * 1024;

const MACHINE_PATHS: [&str; 3] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

const UNFINISHED_WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const UNFINISHED_CALLS: [&str; 2] = [concat!("todo", "!("), concat!("unimple", "mented!(")];

/// Prose, locks and recorded data may hold any word.
const NOT_SOURCE: &[&str] = &[".md", ".lock", ".json", ".jsonl", ".txt", ".csv", ".svg", "LICENSE"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, file) in &tree.files {
        if file.n_bytes > N_BYTES_MAX {
            let message = format!(
                "{} KB is too large for git, at most {} are allowed: generate it, or fetch it",
                file.n_bytes / 1024,
                N_BYTES_MAX / 1024
            );
            findings.push(Finding::new(path, 1, message));
        }
        let is_source = !NOT_SOURCE.iter().any(|suffix| path.ends_with(suffix));
        for (idx, line) in file.text.lines().enumerate() {
            if let Some(machine_path) = MACHINE_PATHS.iter().find(|needle| has_path(line, needle)) {
                findings.push(Finding::new(path, idx + 1, format!("`{machine_path}` is a path of one machine")));
            }
            let word = UNFINISHED_WORDS.iter().find(|needle| has_word(line, needle));
            let call = UNFINISHED_CALLS.iter().find(|needle| line.contains(**needle));
            if let Some(unfinished) = word.or(call).filter(|_| is_source) {
                findings.push(Finding::new(
                    path,
                    idx + 1,
                    format!("`{unfinished}` marks unfinished work: finish it, or open an issue"),
                ));
            }
        }
    }
    findings
}

/// Whether an absolute path begins like this, rather than some folder in the middle of another path or of a URL.
fn has_path(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}*".contains(c)))
}

fn has_word(line: &str, needle: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(needle).any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + needle.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    #[test]
    fn leftovers_are_found() {
        let [root, home, work] = MACHINE_PATHS;
        let [first, second, third] = UNFINISHED_WORDS;
        for (path, line, expected) in [
            ("a.rs", format!("let path = \"{root}x\";"), Some("is a path of one machine")),
            ("README.md", format!("see {home}me/x"), Some("is a path of one machine")),
            ("a.toml", format!("x = '{work}main'"), Some("is a path of one machine")),
            ("README.md", format!("https://example.org{home}x, src{work}x, ${{x}}{root}"), None),
            ("a.rs", format!("// {first}: later"), Some("unfinished")),
            ("run", format!("# {second}"), Some("unfinished")),
            ("a.sql", format!("-- ({third})"), Some("unfinished")),
            ("a.rs", format!("mktemp {third}{third}, {first}S, S_{second}"), None),
            ("a.rs", format!("{}\"later\")", UNFINISHED_CALLS[0]), Some("unfinished")),
            ("a.rs", format!("{})", UNFINISHED_CALLS[1]), Some("unfinished")),
            ("README.md", format!("a {first} list"), None),
        ] {
            let expected: Vec<String> = expected.iter().map(|part| format!("{path}:2: {part}")).collect();
            expect(check, &[(path, &format!("\n{line}\n"))], &expected.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn large_files_are_found() {
        expect(
            check,
            &[("a.bin", &"x".repeat(400 * 1024)), ("b.bin", &"x".repeat(401 * 1024))],
            &["b.bin:1: 401 KB is too large"],
        );
    }
}
