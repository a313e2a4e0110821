//! Code that never runs: behind a return, under `if False`, or in a private function that nobody names.

use super::super::{Asked, Language, Source, language::Role, tree::NONE};
use std::collections::BTreeMap;

pub(super) fn nodes(source: &Source, _: &Asked) -> Vec<u32> {
    let mut found = unreachable(source);
    found.extend(never(source));
    found.extend(unused(source));
    found
}

/// The first statement behind one that does not come back. JavaScript hoists functions, so those may stand there.
fn unreachable(source: &Source) -> Vec<u32> {
    let mut found = Vec::new();
    for block in source.nodes_of(Role::Block) {
        let statements = source.kids(block);
        for pair in statements.windows(2) {
            if ends(source, pair[0]) && source.role(pair[1]) != Role::Function && !is_label(source, pair[1]) {
                found.push(pair[1]);
                break;
            }
        }
    }
    found
}

fn ends(source: &Source, statement: u32) -> bool {
    let bare = source.bare(statement);
    match source.role(bare) {
        Role::Return | Role::Raise | Role::Jump => true,
        Role::Macro => matches!(source.callee(bare), "panic" | "unreachable" | "todo" | "unimplemented"),
        Role::Call if source.language() == Language::Go => source.callee(bare) == "panic",
        _ => false,
    }
}

fn is_label(source: &Source, statement: u32) -> bool {
    source.kind(statement) == "labeled_statement"
}

fn never(source: &Source) -> Vec<u32> {
    source
        .all()
        .filter(|&idx| matches!(source.role(idx), Role::If | Role::While))
        .filter(|&idx| {
            let condition = source.tree.children(idx).next();
            condition.is_some_and(|condition| matches!(source.text_of(condition), "False" | "false" | "0" | "None" | "null"))
        })
        .collect()
}

fn unused(source: &Source) -> Vec<u32> {
    let attributes = source.attributes();
    let is_module = ["export ", "module.exports", "import "].iter().any(|word| source.text().contains(word));
    let is_candidate = |&idx: &u32| !attributes.contains_key(&idx) && is_private(source, idx, is_module);
    let candidates: Vec<u32> = source.nodes_of(Role::Function).filter(is_candidate).collect();
    let mut n_uses: BTreeMap<&str, usize> = candidates.iter().map(|&idx| (source.name_of(idx), 0)).collect();
    if !candidates.is_empty() {
        for idx in source.nodes_of(Role::Identifier) {
            if let Some(n) = n_uses.get_mut(source.text_of(idx)) {
                *n += 1;
            }
        }
    }
    candidates.into_iter().filter(|&idx| n_uses[source.name_of(idx)] == 1).collect()
}

/// Whether nothing outside this file, and no framework, can be expected to call a function. In JavaScript that needs a module.
fn is_private(source: &Source, function: u32, is_module: bool) -> bool {
    let name = source.name_of(function);
    let is_nested = source.tree.at(function).function != NONE;
    let parent = source.tree.at(function).parent;
    let (stands_in_block, holder) = match source.parent_role(function) {
        Some(Role::Block) => (true, source.tree.at(parent).parent),
        Some(_) => (false, source.tree.at(parent).parent),
        None => (false, NONE),
    };
    let in_class = holder != NONE && source.kind(holder) == "class_definition";
    let in_module = holder != NONE && source.role(holder) == Role::Module;
    match source.language() {
        Language::Python => stands_in_block && !in_class && (is_nested || (name.starts_with('_') && !name.starts_with("__"))),
        Language::JavaScript | Language::TypeScript => stands_in_block && (is_nested || is_module),
        Language::Rust => (stands_in_block || in_module) && name != "main" && !source.text_of(function).starts_with("pub"),
        Language::Go => {
            let is_method = source.kind(function) == "method_declaration";
            !is_method && name.starts_with(|first: char| first.is_lowercase()) && !matches!(name, "main" | "init")
        }
    }
}
