//! Checks: assertions, and guards whose only act is to report an error. Which of them are gone, and which can no longer fail.

use super::super::{Asked, Language, Source, language::Role, matching::Matching, tree::NONE};
use std::collections::{BTreeMap, BTreeSet};

/// Assertions of something that is always true.
pub(super) fn hollow(source: &Source, _: &Asked) -> Vec<u32> {
    source
        .all()
        .filter(|&idx| is_assertion(source, idx))
        .filter(|&idx| {
            let condition = match source.role(idx) {
                Role::Assert => source.tree.children(idx).next(),
                _ => source.tree.children(idx).nth(1).and_then(|arguments| source.tree.children(arguments).next()),
            };
            condition.is_some_and(|condition| matches!(source.text_of(condition), "True" | "true" | "1"))
        })
        .collect()
}

/// Checks that have no counterpart, in functions (or the top of the file) that now have fewer checks than before.
/// Where a function went altogether, its checks went with it: that is no finding.
pub(super) fn removed(before: &Source, after: &Source, matching: &Matching) -> Vec<u32> {
    let (checks, checks_now) = (checks(before), checks(after));
    if checks.is_empty() {
        return Vec::new();
    }
    let checks_after: BTreeSet<u32> = checks_now.iter().copied().collect();
    let mut n_now: BTreeMap<u32, usize> = BTreeMap::new();
    for &check in &checks_now {
        *n_now.entry(after.tree.at(check).function).or_default() += 1;
    }
    let mut by_function: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &check in &checks {
        by_function.entry(before.tree.at(check).function).or_default().push(check);
    }
    let mut gone = Vec::new();
    for (function, checks) in by_function {
        let counterpart = if function == NONE { NONE } else { matching.to[function as usize] };
        if (function != NONE && counterpart == NONE) || n_now.get(&counterpart).copied().unwrap_or(0) >= checks.len() {
            continue;
        }
        // A guard that moved to another function still guards.
        let is_kept = |check: &u32| checks_after.contains(&matching.to[*check as usize]);
        gone.extend(checks.iter().filter(|check| !is_kept(check)));
    }
    // Guards that were gathered in another function are not gone either.
    if checks_now.len() >= checks.len() { Vec::new() } else { gone }
}

fn checks(source: &Source) -> Vec<u32> {
    source.all().filter(|&idx| is_assertion(source, idx) || is_guard(source, idx)).collect()
}

fn is_assertion(source: &Source, idx: u32) -> bool {
    match source.role(idx) {
        Role::Assert => true,
        Role::Macro => {
            let name = source.callee(idx);
            name.starts_with("assert") || name.starts_with("debug_assert")
        }
        Role::Call => {
            let text = source.text_of(idx);
            ["assert(", "assert.", "console.assert(", "expect(", "self.assert", "require.", "t.Fatal", "t.Error"]
                .iter()
                .any(|start| text.starts_with(start))
                && matches!(source.parent_role(idx), Some(Role::Statement | Role::Block))
        }
        _ => false,
    }
}

/// An `if` whose body is one statement that reports an error.
fn is_guard(source: &Source, idx: u32) -> bool {
    if source.role(idx) != Role::If {
        return false;
    }
    let Some(body) = source.body(idx) else { return false };
    match source.statements(body).as_slice() {
        [only] => reports_error(source, source.bare(*only)),
        _ => false,
    }
}

fn reports_error(source: &Source, idx: u32) -> bool {
    let text = source.head_of(idx);
    match (source.role(idx), source.language()) {
        (Role::Raise, _) => true,
        (Role::Macro, _) => matches!(source.callee(idx), "panic" | "bail"),
        (Role::Return, Language::Rust) => text.contains("Err("),
        (Role::Return, Language::Go) => ["err", "errors.", "Err"].iter().any(|word| text.contains(word)),
        (Role::Call, Language::Go) => text.starts_with("panic("),
        _ => false,
    }
}
