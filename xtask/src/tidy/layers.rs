//! The layer table: dependencies between our crates point strictly down.
//!
//! shell > edge > joints > parts > ground. Two crates of one layer do not know each other. Dev-dependencies are free,
//! because tests may look up. Read from the manifests line by line; knows nothing of crates from elsewhere.

use super::{Finding, Tree};

/// From the top down. A crate may be listed before it is born.
const LAYERS: &[(&str, &[&str])] = &[
    ("shell", &["hone"]),
    ("edge", &["hone-gateway"]),
    ("joints", &["hone-policy", "hone-train"]),
    (
        "parts",
        &[
            "hone-env",
            "hone-arc",
            "hone-reward",
            "hone-data",
            "hone-render",
            "hone-eval",
            "hone-arbiter",
            "hone-advise",
            "hone-store",
        ],
    ),
    ("ground", &["hone-program", "hone-trace", "hone-engine"]),
];

/// An edge inside one layer that is allowed all the same.
struct SameLayer {
    from: &'static str,
    to: &'static str,
    /// Why the two crates are neither one crate nor in two layers.
    reason: &'static str,
}

/// The only way around the table. Every entry has to argue for itself.
const SAME_LAYER: &[SameLayer] = &[
    SameLayer {
        from: "hone-advise",
        to: "hone-eval",
        reason: "configs are compared by what a report measures of an episode, and that is written once",
    },
    SameLayer {
        from: "hone-arbiter",
        to: "hone-eval",
        reason: "an estimate from a log has the same interval as a report, and statistics are written once",
    },
];

const TABLE: &str = "xtask/src/tidy/layers.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, SAME_LAYER)
}

fn check_with(tree: &Tree, same_layer: &[SameLayer]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = vec![false; same_layer.len()];
    for (path, text) in tree.texts("/Cargo.toml") {
        let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else { continue };
        if name.contains('/') {
            continue;
        }
        let Some((from_depth, from_layer)) = layer(name) else {
            findings.push(Finding::new(path, 1, format!("the crate `{name}` is not in the layer table of {TABLE}")));
            continue;
        };
        for (line, dependency) in dependencies(text) {
            match layer(&dependency) {
                Some((depth, _)) if depth > from_depth => {}
                Some((depth, to_layer)) => {
                    let exception = same_layer.iter().position(|edge| edge.from == name && edge.to == dependency);
                    match exception {
                        Some(idx) if depth == from_depth && !same_layer[idx].reason.is_empty() => used[idx] = true,
                        _ => findings.push(Finding::new(
                            path,
                            line,
                            format!("`{name}` ({from_layer}) must not depend on `{dependency}` ({to_layer}): arrows point strictly down"),
                        )),
                    }
                }
                None if dependency.starts_with("hone-") => {
                    findings.push(Finding::new(path, line, format!("`{dependency}` is not in the layer table of {TABLE}")));
                }
                None => {}
            }
        }
    }
    for (edge, _) in same_layer.iter().zip(used).filter(|(_, used)| !used) {
        findings.push(Finding::new(TABLE, 1, format!("the exception `{}` -> `{}` is not used: delete it", edge.from, edge.to)));
    }
    findings
}

/// How far down a crate stands, and what its layer is called.
fn layer(name: &str) -> Option<(usize, &'static str)> {
    LAYERS.iter().enumerate().find(|(_, (_, crates))| crates.contains(&name)).map(|(depth, (layer, _))| (depth, *layer))
}

/// Where in a manifest a line stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// `[dependencies]`, one entry per line.
    Dependencies,
    /// `[dependencies.name]`, the long form of one entry.
    Dependency,
    Other,
}

/// The packages that a manifest needs to build, each with the line that names it.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut table = Table::Other;
    for (idx, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let parts: Vec<&str> = header.split(']').next().unwrap_or_default().split('.').collect();
            table = match parts.as_slice() {
                [.., "dependencies" | "build-dependencies"] => Table::Dependencies,
                [.., "dependencies" | "build-dependencies", name] => {
                    found.push((idx + 1, unquoted(name)));
                    Table::Dependency
                }
                _ => Table::Other,
            };
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        match (table, key.trim()) {
            (Table::Dependencies, key) if !key.starts_with('#') => {
                let name = renamed(value).unwrap_or_else(|| unquoted(key.split('.').next().unwrap_or_default()));
                found.push((idx + 1, name));
            }
            (Table::Dependency, "package") => {
                if let Some((_, name)) = found.last_mut() {
                    *name = unquoted(value);
                }
            }
            _ => {}
        }
    }
    // `name.workspace = true` and `name.features = []` are two lines of one entry.
    found.dedup_by(|a, b| a.1 == b.1);
    found
}

/// The name in `{ package = "name" }`.
fn renamed(value: &str) -> Option<String> {
    let rest = value.split_once("package")?.1.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    Some(rest.split('"').next().unwrap_or_default().to_owned())
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    /// The table without any way around it.
    fn strictly(tree: &Tree) -> Vec<Finding> {
        check_with(tree, &[])
    }

    #[test]
    fn arrows_point_down() {
        let manifest = |text| [("crates/hone-train/Cargo.toml", text)];
        for (text, expected) in [
            ("[dependencies]\nhone-trace.workspace = true\nhone-engine = { path = \"../hone-engine\" }\nserde = \"1\"\n", None),
            ("[dev-dependencies]\nhone.workspace = true\n", None),
            ("[dev-dependencies.hone]\nworkspace = true\n", None),
            ("[package]\nname = \"hone-train\"\n\n[features]\nhone-gateway = []\n", None),
            (
                "[dependencies]\nhone-gateway.workspace = true\n",
                Some("2: `hone-train` (joints) must not depend on `hone-gateway` (edge)"),
            ),
            ("[dependencies]\nserde = \"1\"\nhone-policy = \"0.1\"\n", Some("3: `hone-policy` (joints)")),
            ("[dependencies.hone]\npath = \"../hone\"\n", Some("1: `hone` (shell)")),
            ("[dependencies]\nother = { package = \"hone-gateway\", path = \"x\" }\n", Some("2: `hone-gateway`")),
            ("[dependencies.other]\npackage = \"hone-gateway\"\n", Some("1: `hone-gateway`")),
            ("[build-dependencies]\n\"hone\" = \"1\"\n", Some("2: `hone`")),
            ("[target.'cfg(unix)'.dependencies]\nhone = \"1\"\n", Some("2: `hone`")),
            ("[dependencies]\nhone-core.workspace = true\n", Some("2: `hone-core` is not in the layer table")),
        ] {
            let expected: Vec<String> = expected.iter().map(|rest| format!("crates/hone-train/Cargo.toml:{rest}")).collect();
            expect(strictly, &manifest(text), &expected.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_crate_needs_a_layer() {
        expect(strictly, &[("crates/hone-core/Cargo.toml", "")], &["crates/hone-core/Cargo.toml:1: not in the layer table"]);
        expect(strictly, &[("crates/hone-store/fuzz/Cargo.toml", "[dependencies]\nhone-x = \"1\"\n")], &[]);
    }

    #[test]
    fn an_exception_has_a_reason_and_is_used() {
        let tree = Tree::of(&[("crates/hone-arc/Cargo.toml", "[dependencies]\nhone-env.workspace = true\n")]);
        let with = |to, reason| check_with(&tree, &[SameLayer { from: "hone-arc", to, reason }]).len();
        assert_eq!(check_with(&tree, &[]).len(), 1);
        assert_eq!(with("hone-env", "the ARC world is an env"), 0);
        assert_eq!(with("hone-env", ""), 2);
        assert_eq!(with("hone-data", "nobody needs it"), 2);
    }

    #[test]
    fn every_crate_stands_in_one_layer() {
        let mut names: Vec<&str> = LAYERS.iter().flat_map(|(_, crates)| *crates).copied().collect();
        names.sort_unstable();
        let n_names = names.len();
        names.dedup();
        assert_eq!((names.len(), n_names), (16, 16));
    }
}
