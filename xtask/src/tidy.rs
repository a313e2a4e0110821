//! `cargo xtask tidy`: checks of what no compiler checks, each a plain function from the tree to its findings.
//!
//! The tree is what git tracks or would track, read once; the checks touch no disk, so their tests hand them trees
//! of a few lines. Knows nothing of Rust beyond a light reading of its text.

mod figures;
mod forgotten;
mod layers;
mod leftovers;
mod links;
mod markdown;
mod rust;
mod sources;
mod sql;

use crate::Exit;
use crate::cargo::root;
use crate::counts::Counts;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The files of the repository by their path from its root, with `/` between the parts.
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, Source>,
}

/// A file of the repository.
pub(crate) struct Source {
    n_bytes: u64,
    /// Empty when the file is not UTF-8.
    pub(crate) text: String,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("layers point down", layers::check),
    ("links lead somewhere", links::check),
    ("figures stand next to their command", figures::check),
    ("SQL is static", sql::check),
    ("every source file is compiled", forgotten::check),
    ("no large files, machine paths or unfinished places", leftovers::check),
    ("crates come from the official index", sources::check),
];

/// The command: 0 when all is tidy, 1 when something was found, 2 when the tree could not be read.
pub(crate) fn run() -> Exit {
    match check() {
        Ok(counts) => {
            println!("{counts}");
            if counts.failed == 0 { Exit::Good } else { Exit::Failed }
        }
        Err(error) => {
            eprintln!("error: {error}");
            Exit::Broken
        }
    }
}

/// Runs all checks, prints what they find, and counts each as one.
pub(crate) fn check() -> Result<Counts, String> {
    let tree = tree(root())?;
    let mut counts = Counts::default();
    for (name, check) in CHECKS {
        let findings = check(&tree);
        eprintln!("{:<6} {name}", if findings.is_empty() { "ok" } else { "failed" });
        for Finding { path, line, message } in &findings {
            eprintln!("  {path}:{line}: {message}");
        }
        match findings.len() {
            0 => counts.passed += 1,
            _ => counts.failed += 1,
        }
    }
    Ok(counts)
}

/// Reads the tracked files and the new ones that git does not ignore.
pub(crate) fn tree(root: &Path) -> Result<Tree, String> {
    // The checkout may belong to another user, in a container for example; listing its files is harmless.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git does not list the files of the repository: {}", why.trim()));
    }
    let mut files = BTreeMap::new();
    for path in String::from_utf8_lossy(&output.stdout).split_terminator('\0') {
        // A file deleted since it was last added is listed, but not there.
        if let Ok(bytes) = std::fs::read(root.join(path)) {
            files.insert(
                path.to_owned(),
                Source { n_bytes: bytes.len() as u64, text: String::from_utf8(bytes).unwrap_or_default() },
            );
        }
    }
    Ok(Tree { files })
}

impl Tree {
    /// The files whose path ends like this, with their text.
    fn texts<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files.iter().filter(move |(path, _)| path.ends_with(suffix)).map(|(path, file)| (path.as_str(), file.text.as_str()))
    }

    fn has_folder(&self, path: &str) -> bool {
        path.is_empty()
            || self.files.range(format!("{path}/")..).next().is_some_and(|(file, _)| file.starts_with(&format!("{path}/")))
    }
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

/// The path that `relative` means when it is written in the file `from`; `None` when it leaves the repository.
fn resolve(from: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if relative.starts_with('/') {
        parts.clear();
    }
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tree {
        pub(super) fn of(files: &[(&str, &str)]) -> Self {
            let source = |text: &str| Source { n_bytes: text.len() as u64, text: text.to_owned() };
            Self { files: files.iter().map(|&(path, text)| (path.to_owned(), source(text))).collect() }
        }
    }

    /// Runs a check on a small tree; each expectation is `path:line: part of the message`.
    pub(super) fn expect(check: Check, files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<String> =
            check(&Tree::of(files)).into_iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.message)).collect();
        let fits = |(found, expected): (&String, &&str)| {
            let (place, part) = expected.split_once(": ").unwrap_or((expected, ""));
            found.starts_with(&format!("{place}: ")) && found.contains(part)
        };
        let all_fit = found.len() == expected.len() && found.iter().zip(expected).all(fits);
        assert!(all_fit, "in {files:#?}\nexpected {expected:#?}\nfound {found:#?}");
    }

    #[test]
    fn paths_resolve_from_the_folder_of_the_file() {
        for (from, relative, expected) in [
            ("README.md", "docs/a.md", Some("docs/a.md")),
            ("docs/a.md", "../README.md", Some("README.md")),
            ("docs/a.md", "./b.md", Some("docs/b.md")),
            ("docs/a.md", "/LICENSE", Some("LICENSE")),
            ("docs/a.md", "..", Some("")),
            ("docs/a.md", "../../elsewhere", None),
        ] {
            assert_eq!(resolve(from, relative).as_deref(), expected, "{from} -> {relative}");
        }
    }

    #[test]
    fn folders_exist_through_their_files() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old.md", "")]);
        assert!(tree.has_folder("docs") && tree.has_folder(""));
        assert!(!tree.has_folder("doc") && !tree.has_folder("docs/a.md"));
    }
}
