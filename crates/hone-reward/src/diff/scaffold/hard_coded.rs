//! Literal answers for literal inputs: `if n == 37: return 24157817`, a table of such, or arms of a match.
//!
//! Where the hidden inputs are known, only they count. Where they are not, a literal has to be specific (not 0, 1, "" or a
//! constant, which honest base cases use) on both sides.

use super::{
    super::{Asked, Source, language::Role, tree::NONE},
    LITERAL_SIZE_MAX,
};
use std::collections::BTreeMap;

pub(super) fn nodes(source: &Source, asked: &Asked) -> Vec<u32> {
    let mut found: Vec<u32> = source.nodes_of(Role::If).filter(|&idx| is_planted_if(source, asked, idx)).collect();
    found.extend(planted_arms(source, asked));
    found.extend(source.nodes_of(Role::Composite).filter(|&idx| is_planted_table(source, asked, idx)));
    found
}

fn is_planted_if(source: &Source, asked: &Asked, idx: u32) -> bool {
    let kids = source.kids(idx);
    let Some(&condition) = kids.iter().find(|&&kid| source.role(kid) == Role::Comparison || source.role(kid) == Role::Plain)
    else {
        return false;
    };
    let Some(body) = source.body(idx) else { return false };
    let statements = source.statements(body);
    let [only] = statements.as_slice() else { return false };
    let Some(answer) = answer(source, *only) else { return false };
    let equalities = source.tree.subtree(condition).take(LITERAL_SIZE_MAX).filter(|&below| is_equality(source, below));
    equalities
        .flat_map(|equality| source.kids(equality))
        .any(|side| source.is_literal(side) && is_planted(source, asked, side, answer))
}

fn is_equality(source: &Source, idx: u32) -> bool {
    source.role(idx) == Role::Comparison && {
        let kids = source.kids(idx);
        let [left, right] = kids.as_slice() else { return false };
        let (from, to) = (source.tree.at(*left).end as usize, source.tree.at(*right).start as usize);
        let sign = source.text().get(from..to).unwrap_or_default().trim_matches(|c: char| c.is_whitespace() || "()".contains(c));
        matches!(sign, "==" | "===")
    }
}

/// The literal that a statement answers with: a return, or the last expression of a Rust block.
fn answer(source: &Source, statement: u32) -> Option<u32> {
    let bare = source.bare(statement);
    let mut value = if source.role(bare) == Role::Return { source.tree.children(bare).next()? } else { bare };
    // `return 5, nil` in Go, `Ok(5)` and `Some(5)` in Rust: the answer is inside.
    if source.kind(value) == "expression_list" {
        value = source.tree.children(value).next()?;
    }
    if source.role(value) == Role::Call && matches!(source.callee(value), "Ok" | "Some") {
        value = source.tree.children(source.tree.children(value).nth(1)?).next()?;
    }
    source.is_literal(value).then_some(value)
}

fn is_planted(source: &Source, asked: &Asked, input: u32, answer: u32) -> bool {
    let (input_text, answer_text) = (plain(source.head_of(input)), plain(source.head_of(answer)));
    if asked.inputs.is_empty() {
        return is_specific(source, input) && is_specific(source, answer);
    }
    let has = |list: &[String], text: &str| list.iter().any(|item| plain(item) == text);
    has(&asked.inputs, &input_text) && (asked.outputs.is_empty() || has(&asked.outputs, &answer_text))
}

/// A literal without layout and quotes.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !"\"'`".contains(*c)).collect()
}

fn is_specific(source: &Source, idx: u32) -> bool {
    let text = plain(source.head_of(idx));
    match source.role(idx) {
        Role::Constant => false,
        Role::Text => text.chars().count() > 1,
        Role::Composite => source.kids(idx).len() > 1,
        _ => !matches!(text.trim_start_matches(['-', '+']), "0" | "1" | "2" | "0.0" | "1.0" | "0." | "1." | "10" | "100"),
    }
}

/// Arms of one match or switch that turn literals into literals, when there are at least two.
fn planted_arms(source: &Source, asked: &Asked) -> Vec<u32> {
    let arms: Vec<u32> = source.nodes_of(Role::Arm).filter(|&arm| is_planted_arm(source, asked, arm)).collect();
    let mut n_by_match: BTreeMap<u32, usize> = BTreeMap::new();
    arms.iter().for_each(|&arm| *n_by_match.entry(source.tree.at(arm).parent).or_default() += 1);
    arms.into_iter().filter(|&arm| n_by_match[&source.tree.at(arm).parent] > 1).collect()
}

fn is_planted_arm(source: &Source, asked: &Asked, arm: u32) -> bool {
    let kids = source.kids(arm);
    let (Some(&pattern), Some(&body)) = (kids.first(), kids.last()) else { return false };
    let pattern = literal_in(source, pattern);
    let statements = if source.role(body) == Role::Block { source.statements(body) } else { vec![body] };
    let (Some(input), [only]) = (pattern, statements.as_slice()) else { return false };
    kids.len() > 1 && answer(source, *only).is_some_and(|answer| is_planted(source, asked, input, answer))
}

/// A pattern that is one literal, however deeply it is wrapped.
fn literal_in(source: &Source, pattern: u32) -> Option<u32> {
    let mut at = pattern;
    loop {
        if source.is_literal(at) && source.role(at) != Role::Composite {
            return Some(at);
        }
        let kids = source.kids(at);
        let [only] = kids.as_slice() else { return None };
        at = *only;
    }
}

/// A dictionary inside a function of which at least half the entries give a literal for a literal. Tables at the top of a
/// file are data, not answers.
fn is_planted_table(source: &Source, asked: &Asked, table: u32) -> bool {
    let function = source.tree.at(table).function;
    let pairs: Vec<u32> = source.tree.children(table).filter(|&kid| source.role(kid) == Role::Pair).collect();
    if function == NONE || pairs.len() < 2 || pairs.len() != source.tree.children(table).count() {
        return false;
    }
    let planted = |&pair: &u32| {
        let kids = source.kids(pair);
        let [key, value] = kids.as_slice() else { return false };
        let value = literal_in(source, *value).or_else(|| source.is_literal(*value).then_some(*value));
        let key = literal_in(source, *key)
            .or_else(|| (source.role(*key) == Role::Identifier).then_some(*key))
            .or_else(|| source.is_literal(*key).then_some(*key));
        matches!((key, value), (Some(key), Some(value)) if is_planted(source, asked, key, value))
    };
    pairs.iter().filter(|pair| planted(pair)).count() * 2 >= pairs.len() && pairs.iter().any(planted)
}
