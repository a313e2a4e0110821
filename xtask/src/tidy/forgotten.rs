//! Forgotten files: every `*.rs` file is reached from a target of some package, so that no test silently never runs.
//!
//! Targets are those that cargo finds by convention and those that a manifest names by `path`. From there it follows
//! `mod name;`, `#[path]` and the `include` macros. Conditional compilation is not considered: a module that some
//! configuration compiles is not forgotten.

use super::rust::{Reading, literal, read};
use super::{Finding, Tree, resolve};
use std::collections::BTreeSet;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let mut open = targets(tree);
    while let Some(path) = open.pop() {
        let Some(file) = tree.files.get(&path) else { continue };
        if reached.insert(path.clone()) {
            open.extend(mentions(&path, &file.text).into_iter().filter(|path| path.ends_with(".rs")));
        }
    }
    let forgotten = tree.texts(".rs").filter(|(path, _)| !reached.contains(*path));
    forgotten
        .map(|(path, _)| Finding::new(path, 1, "no `mod` and no target reaches this file, so it is never compiled"))
        .collect()
}

/// The files that cargo compiles by itself.
fn targets(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (manifest, text) in tree
        .files
        .iter()
        .filter(|(path, _)| *path == "Cargo.toml" || path.ends_with("/Cargo.toml"))
        .map(|(path, file)| (path, &file.text))
    {
        let folder = manifest.strip_suffix("Cargo.toml").unwrap_or_default();
        found.extend(["build.rs", "src/lib.rs", "src/main.rs"].map(|file| format!("{folder}{file}")));
        for (path, _) in tree.texts(".rs") {
            let Some(inside) = path.strip_prefix(folder) else { continue };
            let by_convention = ["src/bin/", "tests/", "examples/", "benches/"].iter().any(|targets| {
                inside
                    .strip_prefix(targets)
                    .is_some_and(|rest| !rest.contains('/') || rest.split_once('/').is_some_and(|(_, file)| file == "main.rs"))
            });
            if by_convention {
                found.push(path.to_owned());
            }
        }
        for line in text.lines() {
            if let Some((key, value)) = line.split_once('=')
                && key.trim() == "path"
            {
                found.extend(resolve(manifest, value.trim().trim_matches('"')));
            }
        }
    }
    found
}

/// The files that a source file may pull in; those that do not exist are harmless.
fn mentions(path: &str, source: &str) -> Vec<String> {
    let reading = read(source);
    let mut found = Vec::new();
    for needle in ["include!(", "include_str!(", "include_bytes!(", "#[path"] {
        for (at, _) in reading.code.match_indices(needle) {
            found.extend(literal(&reading, at, reading.code.len()).and_then(|name| resolve(path, name)));
        }
    }
    let home = home(path);
    let (files, inline) = modules(&reading);
    for name in files {
        // A module in a module that is written in place lives one folder deeper; which one is not tracked.
        for folder in std::iter::once(home.clone()).chain(inline.iter().map(|inline| format!("{home}{inline}/"))) {
            found.push(format!("{folder}{name}.rs"));
            found.push(format!("{folder}{name}/mod.rs"));
        }
    }
    found
}

/// The folder where the modules of a file live, with its slash: beside a root, in a folder of its name otherwise.
fn home(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').map_or(("", path), |(folder, file)| (folder, file));
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let is_target = ["tests", "examples", "benches", "bin"].iter().any(|targets| folder.ends_with(&format!("{targets}/")));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" | "build.rs" => folder,
        _ if is_target => folder,
        _ => format!("{folder}{}/", file.trim_end_matches(".rs")),
    }
}

/// The names of the modules in files of their own, and of those written in place.
fn modules(reading: &Reading) -> (Vec<&str>, Vec<&str>) {
    let (mut files, mut inline) = (Vec::new(), Vec::new());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in reading.code.match_indices("mod ") {
        if reading.code[..at].ends_with(is_word) {
            continue;
        }
        let rest = reading.code[at + 4..].trim_start();
        // A name that is a keyword has a mark before it, and its file has none.
        let rest = rest.strip_prefix("r#").unwrap_or(rest);
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        match rest[name.len()..].trim_start().chars().next() {
            Some(';') => files.push(name),
            Some('{') => inline.push(name),
            _ => {}
        }
    }
    (files, inline)
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "");

    #[test]
    fn reached_files_pass() {
        for files in [
            &[
                ("crates/a/src/lib.rs", "pub mod b;\nmod c;\nmod r#loop;"),
                ("crates/a/src/loop.rs", ""),
                ("crates/a/src/b.rs", "pub(crate) mod d;"),
                ("crates/a/src/b/d.rs", ""),
                ("crates/a/src/c/mod.rs", ""),
            ][..],
            &[("crates/a/src/main.rs", "#[cfg(test)]\nmod tests;"), ("crates/a/src/tests.rs", "")],
            &[
                ("crates/a/tests/it.rs", "mod common;"),
                ("crates/a/tests/common/mod.rs", ""),
                ("crates/a/tests/all/main.rs", "mod x;"),
                ("crates/a/tests/all/x.rs", ""),
            ],
            &[("crates/a/src/lib.rs", "#[path = \"odd/name.rs\"]\nmod b;"), ("crates/a/src/odd/name.rs", "")],
            &[("crates/a/src/lib.rs", "mod b { mod c; }"), ("crates/a/src/b/c.rs", "")],
            &[
                ("crates/a/build.rs", ""),
                ("crates/a/examples/loop.rs", ""),
                ("crates/a/benches/x.rs", ""),
                ("crates/a/src/bin/y.rs", ""),
            ],
            &[
                ("crates/a/tests/it.rs", "const S: &str = include_str!(\"data/sample.rs\");"),
                ("crates/a/tests/data/sample.rs", ""),
            ],
            &[
                (
                    "crates/b/Cargo.toml",
                    "[[bin]]\nname = \"f\"\npath = \"targets/f.rs\"\n[[test]]\npath = \"../../tests/cve.rs\"\n",
                ),
                ("crates/b/targets/f.rs", ""),
                ("tests/cve.rs", ""),
            ],
        ] {
            expect(check, &[&[MANIFEST], files].concat(), &[]);
        }
    }

    #[test]
    fn forgotten_files_are_found() {
        for (files, expected) in [
            (&[("crates/a/src/lib.rs", ""), ("crates/a/src/b.rs", "")][..], "crates/a/src/b.rs:1"),
            (
                &[("crates/a/src/lib.rs", "// mod b;\nconst X: &str = \"mod b;\";"), ("crates/a/src/b.rs", "")],
                "crates/a/src/b.rs:1",
            ),
            (&[("crates/a/tests/it.rs", ""), ("crates/a/tests/store/b.rs", "")], "crates/a/tests/store/b.rs:1"),
            (
                &[
                    ("crates/a/src/lib.rs", "mod b;"),
                    ("crates/a/src/b.rs", ""),
                    ("crates/a/src/b/c.rs", "mod d;"),
                    ("crates/a/src/lib/b.rs", ""),
                ],
                "crates/a/src/b/c.rs:1",
            ),
            (&[("crates/b/src/lib.rs", "")], "crates/b/src/lib.rs:1"),
        ] {
            let found = check(&Tree::of(&[&[MANIFEST], files].concat()));
            assert!(found.iter().any(|f| format!("{}:{}", f.path, f.line) == expected), "{files:?} gave {found:?}");
        }
    }
}
