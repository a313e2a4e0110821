//! Rules over tokens, driven as the engine drives them.

use crate::{drawn, tiny};
use hone_engine::constraint::{Constraint, Verdict};
use hone_render::schema::GrammarHost;
use hone_render::stop::{StopStrings, cut};
use hone_render::think::{Opening, ThinkBudget, ThinkRule};
use hone_render::{Renderer, Rules, Tokenizer};
use serde_json::{Value as Json, json};
use std::sync::Arc;

fn tokenizer() -> Arc<Tokenizer> {
    tiny(None).tokenizer().clone()
}

fn is_allowed(allowed: &[u64], id: u32) -> bool {
    allowed[id as usize / 64] >> (id % 64) & 1 == 1
}

/// Runs a rule over tokens that a model wants to draw; returns the text and how it went: drawn tokens that were forbidden
/// are left out, forced ones stand in brackets.
fn run(tokenizer: &Tokenizer, rule: &mut dyn Constraint, wanted: &[u32]) -> (String, Option<Verdict>) {
    let mut bytes = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for &id in wanted {
        let mut allowed = vec![u64::MAX; tokenizer.vocab_len().div_ceil(64)];
        if rule.mask(&mut allowed) && !is_allowed(&allowed, id) {
            continue;
        }
        bytes.extend_from_slice(tokenizer.bytes(id));
        match rule.accept(id) {
            Verdict::Go => {}
            Verdict::Stop => return (text(&bytes), Some(Verdict::Stop)),
            Verdict::Force(ids) => bytes.extend(format!("[{}]", tokenizer.decode_continuation(&ids)).bytes()),
        }
    }
    (text(&bytes), None)
}

fn check_stop(stops: &[&str], text: &str, expected: Option<&str>) {
    let tokenizer = tokenizer();
    let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
    let mut rule = StopStrings::new(tokenizer.clone(), &stops).expect("sound strings");
    let (seen, verdict) = run(&tokenizer, &mut rule, &drawn(&tokenizer, text));
    assert_eq!(verdict.map(|_| cut(&seen, &stops)), expected, "{stops:?} in {text:?}");
}

#[test]
fn stop_strings_are_found_across_tokens() {
    check_stop(&["sunny!"], "it is sunny! Wait", Some("it is "));
    check_stop(&["s s"], "it is sunny", Some("it i"));
    check_stop(&["é"], "caf\u{e9}s", Some("caf"));
    check_stop(&["zz", "nny"], "it is sunny", Some("it is su"));
    check_stop(&["Sunny"], "it is sunny", None);
    assert!(StopStrings::new(tokenizer(), &[String::new()]).is_err());
}

fn check_think(budget: &ThinkBudget, opening: Opening, text: &str, expected: &str) {
    let tokenizer = tokenizer();
    let mut rule = ThinkRule::new(tokenizer.clone(), budget.clone(), opening).expect("a sound budget");
    assert_eq!(run(&tokenizer, &mut rule, &drawn(&tokenizer, text)).0, expected, "{budget:?}");
}

#[test]
fn thoughts_are_closed_at_the_most() {
    let budget = ThinkBudget { n_tokens_max: 3, ..ThinkBudget::default() };
    check_think(&budget, Opening::Prompt, "it is so it is", "it is so[\n</think>\n\n] it is");
    check_think(&budget, Opening::Model, "<think>it is so it is", "<think>it is so[\n</think>\n\n] it is");
    check_think(&budget, Opening::Model, "it is so it is", "it is so it is");
    check_think(&budget, Opening::Prompt, "it</think> is so it is", "it</think> is so it is");
}

#[test]
fn thoughts_are_kept_open_to_the_least() {
    let budget = ThinkBudget { n_tokens_min: 4, ..ThinkBudget::default() };
    check_think(&budget, Opening::Prompt, "it</think> is<|im_end|> so it</think> is", "it is so it</think> is");
    let budget = ThinkBudget { n_tokens_min: 6, n_waits_max: 1, ..ThinkBudget::default() };
    check_think(&budget, Opening::Prompt, "it\n is\n so\n</think>", "it\n is\n[Wait] so\n</think>");
    let none = ThinkBudget { n_tokens_min: 3, n_tokens_max: 2, ..ThinkBudget::default() };
    assert!(ThinkRule::new(tokenizer(), none, Opening::Prompt).is_err());
    let odd = ThinkBudget { closing: "enough".into(), ..ThinkBudget::default() };
    assert!(ThinkRule::new(tokenizer(), odd, Opening::Prompt).is_err());
}

/// Draws pseudo-random allowed tokens until the rule says stop.
fn wander(tokenizer: &Tokenizer, rule: &mut dyn Constraint, seed: u64, n_max: usize) -> Option<String> {
    let mut state = seed;
    let mut bytes = Vec::new();
    for _ in 0..n_max {
        let mut allowed = vec![u64::MAX; tokenizer.vocab_len().div_ceil(64)];
        rule.mask(&mut allowed);
        let open: Vec<u32> = (0..tokenizer.vocab_len() as u32).filter(|&id| is_allowed(&allowed, id)).collect();
        assert!(!open.is_empty(), "nothing is allowed after {:?}", String::from_utf8_lossy(&bytes));
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The longest ways out are taken more often, so that samples end.
        let ends: Vec<u32> =
            open.iter().copied().filter(|id| b"\"}]".contains(tokenizer.bytes(*id).last().unwrap_or(&0))).collect();
        let choice = if ends.is_empty() || state >> 63 == 0 { &open } else { &ends };
        let id = choice[(state >> 33) as usize % choice.len()];
        if !tokenizer.eos_ids().contains(&id) {
            bytes.extend_from_slice(tokenizer.bytes(id));
        }
        if rule.accept(id) == Verdict::Stop {
            return Some(String::from_utf8(bytes).expect("a grammar allows whole characters only"));
        }
    }
    None
}

fn host(renderer: &Renderer) -> GrammarHost {
    GrammarHost::new(renderer.tokenizer()).expect("a vocabulary with an end")
}

#[test]
fn every_finished_sample_follows_its_schema() {
    let renderer = tiny(None);
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "x", "list"],
        "properties": {"name": {"enum": ["f", "sunny"]}, "x": {"type": "integer", "minimum": 0, "maximum": 99},
            "list": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 3}},
        "$defs": {"item": {"type": ["boolean", "null"]}}});
    let grammar = host(&renderer).schema(&schema).expect("a sound schema");
    let mut n_finished = 0;
    for seed in 0..40 {
        let Some(text) = wander(renderer.tokenizer(), &mut grammar.rule(), seed, 300) else { continue };
        let value: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert!(["f", "sunny"].contains(&value["name"].as_str().expect("a name")), "{text}");
        assert!(value["x"].as_i64().is_some_and(|x| (0..100).contains(&x)), "{text}");
        let list = value["list"].as_array().expect("a list");
        assert!(list.len() <= 3 && list.iter().all(|item| item.is_boolean() || item.is_null()), "{text}");
        n_finished += 1;
    }
    assert!(n_finished > 20, "only {n_finished} samples finished");
}

#[test]
fn a_finished_answer_stops_and_a_wrong_token_is_forbidden() {
    let renderer = tiny(None);
    let tokenizer = renderer.tokenizer();
    let grammar = host(&renderer).schema(&json!({"const": {"x": 1}})).expect("a sound schema");
    let (text, verdict) = run(tokenizer, &mut grammar.rule(), &drawn(tokenizer, "Wait{\"x\": 21} so"));
    assert_eq!((text.as_str(), verdict), ("{\"x\": 1}", Some(Verdict::Stop)));
    let grammar = host(&renderer).regex("(so|it)+!").expect("a sound expression");
    let (text, verdict) = run(tokenizer, &mut grammar.rule(), &drawn(tokenizer, "so it!"));
    assert_eq!((text.as_str(), verdict), ("so!", Some(Verdict::Stop)));
    let grammar = host(&renderer).lark("start: \"it\" (\" is\")*").expect("a sound grammar");
    let (text, verdict) = run(tokenizer, &mut grammar.rule(), &drawn(tokenizer, "it is is<|im_end|>"));
    assert_eq!((text.as_str(), verdict), ("it is is<|im_end|>", Some(Verdict::Stop)));
}

#[test]
fn special_tokens_are_no_text_under_a_grammar() {
    let renderer = tiny(None);
    let tokenizer = renderer.tokenizer();
    let grammar = host(&renderer).schema(&json!({"type": "string"})).expect("a sound schema");
    let (text, _) = run(tokenizer, &mut grammar.rule(), &drawn(tokenizer, "\"so<think><|im_end|> it\""));
    assert_eq!(text, "\"so it\"");
    let grammar = host(&renderer).lark("start: <think> \"it\" </think>").expect("a sound grammar");
    let (text, verdict) = run(tokenizer, &mut grammar.rule(), &drawn(tokenizer, "<think>it</think>"));
    assert_eq!((text.as_str(), verdict), ("<think>it</think>", Some(Verdict::Stop)));
}

#[test]
fn bad_grammars_are_refused() {
    let renderer = tiny(None);
    let host = host(&renderer);
    let check = |schema: Json, says: &str| {
        let error = host.schema(&schema).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says) && !error.is_empty(), "{error} for {schema}");
    };
    check(json!(3), "object");
    check(json!({"type": "sunny"}), "sunny");
    check(json!({"$ref": "https://example.org/schema.json"}), "ref");
    check(json!({"type": "string", "pattern": "("}), "");
    check(json!({"enum": ["x".repeat(300 << 10)]}), "KiB");
    assert!(host.regex("(").is_err() && host.lark("start: nothing").is_err());
}

/// Refused, or followed at a bounded price: both are fine, taking long is not.
#[test]
fn hostile_grammars_end_soon() {
    let renderer = tiny(None);
    let host = host(&renderer);
    let check = |schema: Json| {
        if let Ok(grammar) = host.schema(&schema) {
            let mut rule = grammar.rule();
            for &id in &drawn(renderer.tokenizer(), "[\"aaaaaaaaaa") {
                let mut allowed = vec![u64::MAX; renderer.tokenizer().vocab_len().div_ceil(64)];
                rule.mask(&mut allowed);
                rule.accept(id);
            }
        }
    };
    check(json!({"type": "array", "minItems": 10_000_000, "items": {"type": "integer"}}));
    check(
        json!({"type": "array", "minItems": 10_000, "items": {"type": "array", "minItems": 10_000, "items": {"pattern": "a{5000}"}}}),
    );
    check(json!({"type": "string", "pattern": "((a{1,1000}){1,1000}){1,1000}"}));
    check(json!({"type": "string", "pattern": "(a|aa|a?){1,500}b(a|aa){400}.*(a|b){400}c"}));
    check(json!({"$ref": "#"}));
    check(json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}));
    let mut deep = json!({"type": "integer"});
    for _ in 0..100 {
        deep = json!({"anyOf": [deep.clone(), {"type": "array", "items": deep}]});
        if deep.to_string().len() > 200 << 10 {
            break;
        }
    }
    check(deep);
}

#[test]
fn rules_hold_one_after_the_other() {
    let renderer = tiny(None);
    let tokenizer = renderer.tokenizer();
    let grammar = host(&renderer).schema(&json!({"type": "boolean"})).expect("a sound schema");
    let budget = ThinkBudget { n_tokens_max: 3, ..ThinkBudget::default() };
    let check = |opening: Opening, text: &str, expected: &str, stops: bool| {
        let think = ThinkRule::new(tokenizer.clone(), budget.clone(), opening).expect("a budget");
        let stop = StopStrings::new(tokenizer.clone(), &["sunny".into()]).expect("a string");
        let mut rules = Rules::new(Some(think), Some(grammar.rule()), Some(stop));
        let (text, verdict) = run(tokenizer, &mut rules, &drawn(tokenizer, text));
        assert_eq!((text.as_str(), verdict.is_some()), (expected, stops));
    };
    check(Opening::Prompt, "it sunny</think> so\ntrue", "it sunny</think>[\n\n]true", true);
    check(Opening::Prompt, "it is so it\ntrue", "it is so[\n</think>\n\n]true", true);
    check(Opening::Model, "<think>it</think> so\ntrue", "<think>it</think>[\n\n]true", true);
    check(Opening::Model, "it\ntrue", "true", true);
    let mut only_stop = Rules::new(None, None, Some(StopStrings::new(tokenizer.clone(), &["sunny".into()]).expect("a string")));
    assert_eq!(run(tokenizer, &mut only_stop, &drawn(tokenizer, "it sunny is")).0, "it sunny");
}
