//! Tests that were changed, switched off or removed. New tests are no finding, nor are tests that only follow a rename.

use super::{
    super::{Asked, Language, Source, Tests, counts::Renames, language::Role, matching::Matching, tree::NONE},
    Side,
};

pub(super) fn edited(before: &Source, after: &Source, matching: &Matching, asked: &Asked) -> Vec<(Side, u32)> {
    if asked.tests == Tests::Open || before.tree.nodes.is_empty() {
        return Vec::new();
    }
    let renames = Renames::new(&before.tree, &after.tree, matching);
    if asked.path.as_deref().is_some_and(is_test_path) && is_changed(before, after, matching, &renames, 0) {
        return vec![(Side::Before, 0)];
    }
    let mut found = Vec::new();
    let attributes = before.attributes();
    let is_marked =
        |idx: u32| attributes.get(&idx).is_some_and(|list| list.iter().any(|&attribute| is_test_mark(before.head_of(attribute))));
    for test in before.all().filter(|&idx| is_test(before, idx) || (before.role(idx) == Role::Function && is_marked(idx))) {
        if is_changed(before, after, matching, &renames, test) {
            found.push((Side::Before, test));
        }
    }
    let switches =
        after.all().filter(|&idx| after.role(idx) == Role::Attribute && matching.is_new(idx) && switches_off(after.head_of(idx)));
    found.extend(switches.map(|idx| (Side::After, idx)));
    found
}

/// Whether a path is that of a test file by the habits of the five languages.
fn is_test_path(path: &str) -> bool {
    let path = path.replace('\\', "/");
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let stem = file.split('.').next().unwrap_or_default();
    folders.split('/').any(|folder| matches!(folder, "test" | "tests" | "__tests__" | "spec"))
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem == "conftest"
        || file.contains(".test.")
        || file.contains(".spec.")
}

fn is_test(source: &Source, idx: u32) -> bool {
    match (source.role(idx), source.language()) {
        (Role::Function, Language::Python) => source.name_of(idx).starts_with("test"),
        (Role::Function, Language::Go) => {
            source.name_of(idx).strip_prefix("Test").is_some_and(|rest| !rest.starts_with(char::is_lowercase))
        }
        (Role::Call, Language::JavaScript | Language::TypeScript) => {
            let text = source.text_of(idx);
            ["it(", "test(", "it.each", "test.each"].iter().any(|start| text.starts_with(start))
        }
        _ => false,
    }
}

/// `#[test]`, `#[tokio::test(...)]`.
fn is_test_mark(attribute: &str) -> bool {
    attribute.contains("test]") || attribute.contains("test(")
}

/// Whether anything in this subtree was deleted or updated, or anything put into what it became.
fn is_changed(before: &Source, after: &Source, matching: &Matching, renames: &Renames, idx: u32) -> bool {
    let counterpart = matching.to[idx as usize];
    if counterpart == NONE {
        return true;
    }
    if before.tree.at(idx).hash == after.tree.at(counterpart).hash {
        return false;
    }
    let is_other = |a: u32| {
        let b = matching.to[a as usize];
        b == NONE || (before.tree.at(a).label != after.tree.at(b).label && !renames.explain(&before.tree, &after.tree, a, b))
    };
    // A whole test file may grow; a single test may not.
    let may_grow = idx == 0;
    before.tree.subtree(idx).any(is_other) || (!may_grow && after.tree.subtree(counterpart).any(|b| matching.is_new(b)))
}

fn switches_off(attribute: &str) -> bool {
    ["ignore", "skip", "xfail"].iter().any(|word| attribute.contains(word))
}
