//! Every crate that we build comes from the official index, with a checksum, or from this repository.
//!
//! The same rule stands in `deny.toml`; here it is kept on machines without cargo-deny as well. Knows nothing of
//! licences and advisories, which cargo-deny checks.

use super::{Finding, Tree};

const OFFICIAL: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts("Cargo.lock") {
        let mut name = "";
        for (idx, line) in text.lines().enumerate() {
            match line.split_once(" = ").map(|(key, value)| (key, value.trim_matches('"'))) {
                Some(("name", value)) => name = value,
                Some(("source", value)) if value != OFFICIAL => {
                    findings.push(Finding::new(
                        path,
                        idx + 1,
                        format!("`{name}` comes from {value}, not from the official index"),
                    ));
                }
                _ => {}
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    #[test]
    fn only_the_official_index_passes() {
        let lock = |source: &str| format!("[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n{source}");
        let official = lock(&format!("source = \"{OFFICIAL}\"\nchecksum = \"00\"\n"));
        expect(check, &[("Cargo.lock", &official), ("fuzz/Cargo.lock", &lock(""))], &[]);
        for source in ["git+https://example.org/a?rev=1#1", "registry+https://example.org/index", "sparse+https://example.org/"] {
            expect(check, &[("Cargo.lock", &lock(&format!("source = \"{source}\"\n")))], &["Cargo.lock:4: `a` comes from"]);
        }
    }
}
