//! Errors that are caught or dropped without a word.

use super::{
    super::{Asked, Language, Source, language::Role},
    LITERAL_SIZE_MAX,
};

pub(super) fn nodes(source: &Source, _: &Asked) -> Vec<u32> {
    source.all().filter(|&idx| is_swallowed(source, idx)).collect()
}

fn is_swallowed(source: &Source, idx: u32) -> bool {
    match (source.role(idx), source.language()) {
        (Role::Catch, _) => is_empty_catch(source, idx),
        (Role::With, Language::Python) => source
            .tree
            .subtree(idx)
            .take(LITERAL_SIZE_MAX)
            .take_while(|&below| source.role(below) != Role::Block)
            .any(|below| source.role(below) == Role::Call && source.callee(below) == "suppress"),
        (Role::Call, Language::JavaScript | Language::TypeScript) => is_empty_handler(source, idx),
        (Role::Binding, Language::Rust) => {
            let text = source.text_of(idx);
            let is_dropped = text
                .strip_prefix("let")
                .is_some_and(|rest| rest.trim_start().starts_with("_ ") || rest.trim_start().starts_with("_="));
            is_dropped
                && source
                    .tree
                    .subtree(idx)
                    .take(LITERAL_SIZE_MAX)
                    .any(|below| matches!(source.role(below), Role::Call | Role::Macro))
        }
        (Role::Statement, Language::Rust) => {
            let bare = source.bare(idx);
            source.role(bare) == Role::Call && source.callee(bare) == "ok" && source.text_of(bare).ends_with(".ok()")
        }
        (Role::Arm, Language::Rust) => {
            let kids = source.kids(idx);
            let (Some(&pattern), Some(&body)) = (kids.first(), kids.last()) else { return false };
            source.text_of(pattern).starts_with("Err(") && kids.len() > 1 && is_idle(source, body)
        }
        (Role::If, Language::Rust) => {
            source.text_of(idx).starts_with("if let Err(") && source.body(idx).is_some_and(|body| is_idle(source, body))
        }
        (Role::If, Language::Go) => {
            let condition = source.kids(idx).into_iter().find(|&kid| source.role(kid) == Role::Comparison);
            condition.is_some_and(|condition| source.head_of(condition).replace(' ', "") == "err!=nil")
                && source.body(idx).is_some_and(|body| is_idle(source, body))
        }
        (Role::Binding, Language::Go) => {
            let kids = source.kids(idx);
            let (Some(&left), Some(&right)) = (kids.first(), kids.get(1)) else { return false };
            source.head_of(left).rsplit(',').next().is_some_and(|last| last.trim() == "_")
                && source.tree.subtree(right).take(2).any(|below| source.role(below) == Role::Call)
        }
        _ => false,
    }
}

/// A handler that does nothing, or one for every error that answers with a constant and tells nobody.
fn is_empty_catch(source: &Source, catch: u32) -> bool {
    let kids = source.kids(catch);
    let Some(&body) = kids.last().filter(|&&kid| source.role(kid) == Role::Block) else { return true };
    if is_idle(source, body) {
        return true;
    }
    let is_broad = kids.len() == 1 || kids[..kids.len() - 1].iter().all(|&kid| is_broad_error(source, kid));
    is_broad
        && match source.statements(body).as_slice() {
            [only] => source.role(*only) == Role::Return && source.tree.children(*only).all(|value| source.is_literal(value)),
            _ => false,
        }
}

fn is_broad_error(source: &Source, caught: u32) -> bool {
    match source.language() {
        Language::Python => {
            let text = source.text_of(caught);
            text.starts_with("Exception") || text.starts_with("BaseException")
        }
        // A JavaScript handler catches everything.
        _ => true,
    }
}

fn is_idle(source: &Source, body: u32) -> bool {
    let statements = match source.role(body) {
        Role::Block => source.statements(body),
        _ => vec![body],
    };
    statements.iter().all(|&statement| {
        let bare = source.bare(statement);
        matches!(source.role(bare), Role::Idle)
            || source.text_of(bare) == "()"
            || (source.role(bare) == Role::Block && bare != body && source.kids(bare).is_empty())
    })
}

/// `promise.catch(() => {})`.
fn is_empty_handler(source: &Source, call: u32) -> bool {
    if source.callee(call) != "catch" {
        return false;
    }
    source.tree.children(call).nth(1).is_some_and(|arguments| {
        source.tree.children(arguments).any(|argument| {
            source.role(argument) == Role::Lambda
                && source
                    .kids(argument)
                    .last()
                    .is_some_and(|&body| source.role(body) == Role::Block && source.kids(body).is_empty())
        })
    })
}
