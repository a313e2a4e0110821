//! Dead links: every relative link and `#anchor` in a Markdown file leads to a file, a folder or a heading.
//!
//! Anchors follow GitHub's rule for the slugs of headings, `#L12` in a source file is a line of it. Addresses with
//! a scheme are not followed: no test needs the network.

use super::markdown::{Kind, lines, split_spans};
use super::{Finding, Tree, resolve};
use std::collections::HashMap;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        for line in lines(text).iter().filter(|line| line.kind != Kind::Code) {
            let (prose, _) = split_spans(line.text);
            for target in targets(&prose) {
                if let Err(why) = follow(tree, path, target) {
                    findings.push(Finding::new(path, line.number, format!("the link `{target}` is dead: {why}")));
                }
            }
        }
    }
    findings
}

/// The targets of the links that end on this line, `[text](target "title")`, or of its definition, `[label]: target`.
fn targets(prose: &str) -> Vec<&str> {
    let mut found: Vec<&str> = prose.match_indices("](").map(|(at, _)| inline_target(&prose[at + 2..])).collect();
    if let Some((label, target)) = prose.trim_start().split_once("]: ")
        && label.starts_with('[')
        && !label.starts_with("[^")
    {
        found.extend(target.split_whitespace().next());
    }
    found
}

fn inline_target(rest: &str) -> &str {
    if let Some(bracketed) = rest.strip_prefix('<') {
        return bracketed.split('>').next().unwrap_or_default();
    }
    let mut depth = 0;
    let end = rest.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c.is_whitespace() || depth < 0
    });
    &rest[..end.unwrap_or(rest.len())]
}

fn follow(tree: &Tree, from: &str, target: &str) -> Result<(), String> {
    let has_scheme = target
        .split_once(':')
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)));
    if has_scheme || target.starts_with("//") {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = path.replace("%20", " ");
    let path = if path.is_empty() { from.to_owned() } else { resolve(from, &path).ok_or("it leaves the repository")? };
    let Some(file) = tree.files.get(&path) else {
        return if tree.has_folder(&path) && anchor.is_none() {
            Ok(())
        } else {
            Err(format!("there is no `{path}` in the repository"))
        };
    };
    let Some(anchor) = anchor else { return Ok(()) };
    let exists = if path.ends_with(".md") {
        anchors(&file.text).iter().any(|known| known == anchor)
    } else {
        let n_lines = file.text.lines().count();
        anchor.split('-').all(|end| {
            end.strip_prefix('L')
                .and_then(|number| number.parse().ok())
                .is_some_and(|number: usize| (1..=n_lines).contains(&number))
        })
    };
    if exists { Ok(()) } else { Err(format!("`{path}` has no `#{anchor}`")) }
}

/// What can be linked to in a Markdown file: its headings, and elements with an id or a name.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for line in lines(text) {
        if line.kind == Kind::Heading {
            let slug = slug(line.text);
            let n_before = seen.entry(slug.clone()).and_modify(|n| *n += 1).or_insert(0);
            anchors.push(if *n_before == 0 { slug } else { format!("{slug}-{n_before}") });
        }
        if line.kind != Kind::Code {
            for attribute in ["id=\"", "name=\""] {
                anchors.extend(line.text.split(attribute).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
    anchors
}

/// GitHub's slug: the text of the heading in lower case, without punctuation, with a hyphen for each blank.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().trim_end_matches('#').trim_end();
    let mut plain = String::new();
    let mut rest = text;
    // Of a link only its text counts, and a tag not at all.
    while let Some(at) = rest.find(['<', ']']) {
        plain.push_str(&rest[..at]);
        let skipped = match &rest[at..] {
            link if link.starts_with("](") => link.find(')'),
            tag if tag.starts_with('<') => tag.find('>'),
            _ => None,
        };
        rest = &rest[at + skipped.unwrap_or(0) + 1..];
    }
    plain.push_str(rest);
    plain
        .chars()
        .flat_map(char::to_lowercase)
        .filter(|&c| c.is_alphanumeric() || "_- ".contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    #[test]
    fn links_resolve() {
        for (text, dead) in [
            ("[a](docs/guide.md) ![b](docs/guide.md \"title\") [c](docs) [d](docs/) [e](<docs/guide.md>)", None),
            ("[a](https://example.org/x#y) [b](mailto:a@example.org) [c](//example.org)", None),
            ("[a](docs/guide.md#first-steps) [b](docs/guide.md#first-steps-1) [c](docs/guide.md#here)", None),
            ("# Here & now\n[a](#here--now)", None),
            ("`[a](nowhere)`\n```\n[b](nowhere)\n```", None),
            ("[a](src/x.rs#L2) [b](src/x.rs#L1-L2)", None),
            ("[a]: docs/guide.md\n[^1]: A note.", None),
            ("[a](docs/gide.md)", Some("1: there is no `docs/gide.md`")),
            ("fine\n[a](docs/guide.md#steps)", Some("2: has no `#steps`")),
            ("[a](#nowhere)", Some("1: `README.md` has no `#nowhere`")),
            ("[a](../outside)", Some("1: leaves the repository")),
            ("[a](src/x.rs#L3)", Some("1: has no `#L3`")),
            ("[a]: nowhere.md", Some("1: there is no `nowhere.md`")),
            ("[a](docs#x)", Some("1: there is no `docs`")),
        ] {
            let guide = "# First steps\n## `First` steps\n<a id=\"here\"></a>\n";
            let files = [("README.md", text), ("docs/guide.md", guide), ("src/x.rs", "fn a() {}\nfn b() {}\n")];
            let dead: Vec<String> = dead.iter().map(|rest| format!("README.md:{rest}")).collect();
            expect(check, &files, &dead.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn slugs_follow_github() {
        for (heading, expected) in [
            ("# The loop", "the-loop"),
            (
                "## Crates (arrows point down only; `cargo xtask tidy` tests this table)",
                "crates-arrows-point-down-only-cargo-xtask-tidy-tests-this-table",
            ),
            ("## A & B", "a--b"),
            ("## snake_case, 2x", "snake_case-2x"),
            ("## [Linked](docs/x.md) *text* ##", "linked-text"),
            ("## Größe <a id=\"x\"></a>", "größe-"),
        ] {
            assert_eq!(slug(heading), expected, "{heading}");
        }
    }
}
