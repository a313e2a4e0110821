//! Limits in dollars hold, whatever the provider does.

use crate::faults::good;
use crate::server::{Play, Server, json, sse};
use crate::world::{errors, play};
use crate::{RUNTIME, SECRET, options, policy};
use hone_policy::upstream::{Budget, ChatRequest, Client, ClientError, ClientOptions, Key, Price, Sampling, Upstream};
use hone_trace::policy::Policy;
use hone_trace::{Trace, TraceOutcome};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::sync::Arc;

const PRICE: Price = Price { input: 10.0, output: 100.0, cached: 1.0, cache_write: None };

fn paid(budget: &Arc<Budget>) -> ClientOptions {
    ClientOptions { price: Some(PRICE), budget: Some(Arc::clone(budget)), ..options() }
}

fn cost(traces: &[Trace]) -> f64 {
    traces.iter().map(|trace| trace.head().cost_usd).sum()
}

#[test]
fn a_run_ends_before_the_money_does() {
    for n_concurrent in [1, 8] {
        let server = Server::start(good);
        let budget = Budget::limited(0.05);
        let traces = play(&policy(&server, paid(&budget)), 200, n_concurrent);
        let spent = budget.spent();
        assert!(traces.len() < 200, "the rollout stops when the money is spent");
        assert!((cost(&traces) - spent.known_usd).abs() < 1e-9 && spent.known_usd <= 0.05, "{spent:?}");
        // What is left is less than the worst case of one call.
        assert!(spent.known_usd > 0.05 - PRICE.worst_usd(1500, 100), "{spent:?}");
        assert_eq!((spent.assumed_usd, spent.set_aside_usd), (0.0, 0.0));
        let n_broke = traces.iter().filter(|trace| errors(trace) == ["policy_budget!"]).count();
        let n_solved = traces.iter().filter(|trace| trace.outcome == TraceOutcome::Success).count();
        assert!(n_broke >= 1 && n_broke <= n_concurrent && n_broke + n_solved == traces.len());
        let n_calls: usize = traces.iter().flat_map(Trace::turns).map(|turn| turn.llm_calls.len()).sum();
        assert_eq!(server.seen().len(), n_calls, "a call that is refused is never sent");
        // 50 tokens read, 16 of them cached, 7 written.
        let call = &traces[0].turns().next().unwrap().llm_calls[0];
        assert!((call.cost_usd.unwrap() - (34.0 * 10.0 + 16.0 + 700.0) / 1e6).abs() < 1e-12);
    }
}

#[test]
fn answers_that_break_are_booked_at_their_worst() {
    let half = r#"{"choices":[{"delta":{"content":"10"}}]}"#;
    let server = Server::playing(vec![Play::Say(sse(&[half]))]);
    let budget = Budget::limited(0.05);
    let traces = play(&policy(&server, paid(&budget)), 50, 4);
    let spent = budget.spent();
    assert!(spent.known_usd == 0.0 && spent.assumed_usd > 0.0 && spent.assumed_usd <= 0.05, "{spent:?}");
    assert!(traces.len() < 50 && errors(traces.last().unwrap()) == ["policy_budget!"]);
    assert!((server.seen().len() as f64) <= 0.05 / PRICE.worst_usd(0, 100));
}

#[test]
fn tokens_are_counted_for_nothing() {
    let budget = Budget::limited(0.05);
    let server = Server::playing(vec![Play::Say(Vec::new()), json(&json!({"input_tokens": 7}))]);
    let client = crate::client(&server, "anthropic", paid(&budget));
    let asked = json!({"model": "mine", "messages": [{"role": "user", "content": "hi"}]});
    let told = RUNTIME.block_on(client.count(asked.as_object().unwrap(), HeaderMap::new())).unwrap();
    assert_eq!((told, server.seen().len()), (json!({"input_tokens": 7}), 2), "what breaks off is tried again");
    let seen = &server.seen()[1];
    assert_eq!((seen.path(), &seen.body["model"]), ("/v1/messages/count_tokens", &json!("test-model")));
    let spent = budget.spent();
    assert_eq!((spent.known_usd, spent.assumed_usd, spent.set_aside_usd), (0.0, 0.0, 0.0));
}

#[test]
fn a_limit_needs_a_price() {
    let new = |spec: &str, options| Client::new(spec.parse().unwrap(), Some(Key::new(SECRET).unwrap()), options);
    let limited = || ClientOptions { budget: Some(Budget::limited(1.0)), ..ClientOptions::default() };
    let error = new("http://127.0.0.1:1/v1#m", limited()).err().unwrap();
    assert_eq!(error, ClientError::NoPrice("m".into()));
    assert!(error.to_string().contains("give its prices"));
    assert!(new("openai:gpt-5-mini", limited()).is_ok());
    assert!(new("http://127.0.0.1:1/v1#m", ClientOptions { price: Some(Price::FREE), ..limited() }).is_ok());
    assert!(
        new("http://127.0.0.1:1/v1#m", ClientOptions { budget: Some(Budget::unlimited()), ..ClientOptions::default() }).is_ok()
    );
    let wrong = Price { input: -1.0, ..PRICE };
    assert_eq!(new("openai:gpt-5", ClientOptions { price: Some(wrong), ..limited() }).err(), Some(ClientError::Price));
    let none = ClientOptions { n_concurrent_max: 0, ..ClientOptions::default() };
    assert!(new("openai:gpt-5", none).err().unwrap().to_string().contains("at once"));
}

#[test]
fn two_policies_share_a_purse_and_no_config_holds_a_key() {
    let server = Server::start(good);
    let budget = Budget::limited(0.01);
    let (first, second) = (policy(&server, paid(&budget)), policy(&server, paid(&budget)));
    play(&first, 100, 2);
    let traces = play(&second, 100, 1);
    assert_eq!((traces.len(), errors(&traces[0])), (1, vec!["policy_budget!".to_owned()]));
    assert!(traces[0].turns().next().unwrap().llm_calls.is_empty(), "nothing was called");
    let config = serde_json::to_string(first.config()).unwrap();
    assert!(config.contains("test-model") && !config.contains(SECRET), "{config}");
}

#[test]
fn settings_without_effect_are_refused() {
    let server = Server::start(good);
    let new =
        |format: &str, sampling| Upstream::new(crate::client(&server, format, options()), sampling, RUNTIME.handle().clone());
    let ids = Sampling { token_ids: true, ..Sampling::default() };
    assert!(new("openai", ids.clone()).is_ok());
    assert!(new("gemini", ids).err().unwrap().to_string().contains("token ids"));
    let twice = [("max_tokens".to_owned(), 5.into())].into_iter().collect();
    assert!(new("openai", Sampling { extra: twice, ..Sampling::default() }).err().unwrap().to_string().contains("set twice"));
}

#[test]
fn a_body_without_a_limit_gets_the_one_that_is_paid_for() {
    let limited = || paid(&Budget::limited(1000.0));
    let check = |options: ClientOptions, tokens_max: u64, own: Value, expected: Value| {
        let server = Server::start(good);
        let body = own.as_object().cloned();
        let request = ChatRequest { body, tokens_max, ..ChatRequest::default() };
        RUNTIME.block_on(crate::client(&server, "openai", options).complete(&request)).unwrap();
        let sent = server.seen().remove(0).body;
        let limits = ["max_tokens", "max_completion_tokens"].map(|key| sent[key].clone());
        assert_eq!(json!(limits), expected, "{own}");
    };
    check(limited(), 300, json!({"messages": []}), json!([300, null]));
    check(limited(), 0, json!({"messages": []}), json!([4096, null]));
    check(limited(), 0, json!(null), json!([4096, null]));
    // This server knows the older word alone.
    check(limited(), 9, json!({"messages": [], "max_completion_tokens": 9}), json!([9, null]));
    check(limited(), 5, json!({"messages": [], "max_completion_tokens": 5, "max_tokens": 9}), json!([9, 5]));
    // Nobody pays by the length of the answer.
    check(paid(&Budget::unlimited()), 300, json!({"messages": []}), json!([null, null]));
    check(ClientOptions { price: Some(Price::FREE), ..limited() }, 300, json!({"messages": []}), json!([null, null]));
    check(options(), 300, json!({"messages": []}), json!([null, null]));
}
