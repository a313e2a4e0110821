//! Vectors of texts: what is asked, what is read, what is tried again and what it costs.

use crate::server::{Play, Server, http, json, refusal};
use crate::{RUNTIME, SECRET, client, options};
use hone_policy::local::Prompt;
use hone_policy::upstream::{Budget, Client, ClientOptions, Embeddings, Key, Price, UpstreamError, UpstreamSpec};
use hone_trace::policy::PolicyErrorKind;
use serde_json::{Value, json};
use std::sync::Arc;

fn embed(client: &Arc<Client>, texts: &[&str]) -> Result<Embeddings, UpstreamError> {
    let texts: Vec<Prompt> = texts.iter().map(|text| Prompt::Text((*text).to_owned())).collect();
    RUNTIME.block_on(client.embed(&texts, None))
}

/// Two vectors, the second one first.
fn vectors(first: Value, second: Value) -> Play {
    let row = |idx: u64, embedding: Value| json!({"object": "embedding", "index": idx, "embedding": embedding});
    let usage = json!({"prompt_tokens": 8, "total_tokens": 8});
    json(&json!({"object": "list", "data": [row(1, second), row(0, first)], "model": "e-1", "usage": usage}))
}

#[test]
fn numbers_and_base64_are_the_same_vectors() {
    let expected = vec![vec![1.0, -2.5], vec![0.5, 0.0]];
    for play in [vectors(json!([1.0, -2.5]), json!([0.5, 0])), vectors("AACAPwAAIMA=".into(), "AAAAPwAAAAA=".into())] {
        let server = Server::playing(vec![play]);
        let found = embed(&client(&server, "openai", options()), &["one", "two"]).unwrap();
        assert_eq!(found.vectors, expected);
        let call = &found.calls[0];
        assert_eq!((found.calls.len(), call.model.as_str(), call.tokens_in, call.tokens_out), (1, "e-1", 8, 0));
        let seen = &server.seen()[0];
        assert_eq!((seen.path(), &seen.body), ("/v1/embeddings", &json!({"model": "test-model", "input": ["one", "two"]})));
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    }
}

#[test]
fn tokens_and_dimensions_are_sent_as_they_are() {
    let server = Server::playing(vec![vectors(json!([1.0]), json!([2.0]))]);
    let client = client(&server, "openai", options());
    let texts = [Prompt::Ids(vec![7, 100_257]), Prompt::Ids(vec![8])];
    assert_eq!(RUNTIME.block_on(client.embed(&texts, Some(1))).unwrap().vectors, [[1.0], [2.0]]);
    assert_eq!(server.seen()[0].body, json!({"model": "test-model", "input": [[7, 100_257], [8]], "dimensions": 1}));
    let error = RUNTIME.block_on(client.embed(&[Prompt::Ids(Vec::new())], None)).unwrap_err();
    assert!(error.to_string().contains("text 0 is empty"), "{error}");
}

#[test]
fn where_they_are_asked_for() {
    let check = |spec: &str, variables: &[(&str, &str)], path: &str, encoding: Option<&str>| {
        let server = Server::playing(vec![vectors(json!([1.0]), json!([2.0]))]);
        let value = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        let mut spec = UpstreamSpec::named(spec, value).unwrap();
        spec.base_url.set_scheme("http").unwrap();
        spec.base_url.set_ip_host(server.address.ip()).unwrap();
        spec.base_url.set_port(Some(server.address.port())).unwrap();
        let client = Arc::new(Client::new(spec, Key::new(SECRET).unwrap(), options()).unwrap());
        embed(&client, &["one", "two"]).unwrap();
        let seen = &server.seen()[0];
        assert_eq!((seen.path(), seen.body["encoding_format"].as_str()), (path, encoding));
    };
    check("openai:text-embedding-3-small", &[], "/v1/embeddings", Some("base64"));
    check("mistral:mistral-embed", &[], "/v1/embeddings", None);
    let azure = [("AZURE_API_BASE", "https://mine.openai.azure.com"), ("AZURE_API_VERSION", "2024-10-21")];
    check("azure:e", &azure, "/openai/deployments/e/embeddings?api-version=2024-10-21", Some("base64"));
    check("azure:e", &azure[..1], "/openai/v1/embeddings", Some("base64"));
}

#[test]
fn failures_are_tried_again_and_paid_for() {
    let good = || vectors(json!([1.0]), json!([2.0]));
    let price = Price { input: 10.0, output: 0.0, cached: 10.0, cache_write: None };
    let budget = Budget::limited(0.01);
    let paid = ClientOptions { price: Some(price), budget: Some(Arc::clone(&budget)), ..options() };
    let busy = refusal("503 Unavailable", "", "server_error", &format!("busy {SECRET}"));
    let server = Server::playing(vec![busy, vectors(json!([1.0]), json!("AADAfw==")), good()]);
    let found = embed(&client(&server, "openai", paid), &["one", "two"]).unwrap();
    assert_eq!((found.vectors, found.calls.len()), (vec![vec![1.0], vec![2.0]], 3));
    let told: Vec<&str> = found.failures.iter().map(|failure| failure.message.as_str()).collect();
    assert_eq!(told, ["503 server_error: busy …", "vector 1 cannot be read"]);
    assert_eq!(found.calls[2].cost_usd, Some(8.0 * 10.0 / 1e6));
    let spent = budget.spent();
    assert!((spent.known_usd - 8e-5).abs() < 1e-9 && spent.assumed_usd > 0.0 && spent.set_aside_usd == 0.0, "{spent:?}");
    // What does not fit is never sent.
    let poor = ClientOptions { price: Some(price), budget: Some(Budget::limited(1e-6)), ..options() };
    let server = Server::playing(vec![good()]);
    let error = embed(&client(&server, "openai", poor), &["one", "two"]).unwrap_err();
    assert_eq!((error.kind, server.seen().len()), (PolicyErrorKind::Budget, 0));
}

#[test]
fn what_cannot_be_asked_is_never_sent() {
    let server = Server::playing(vec![vectors(json!([1.0]), json!([2.0]))]);
    let check = |format: &str, texts: &[&str], words: &str| {
        let error = embed(&client(&server, format, options()), texts).unwrap_err();
        assert!(error.kind == PolicyErrorKind::Refused && error.to_string().contains(words), "{error}");
        assert!(error.calls.is_empty());
    };
    for format in ["anthropic", "gemini", "cohere", "bedrock"] {
        check(format, &["one"], "of servers of OpenAI's format only, and `test-model` is at none");
    }
    check("openai", &[], "of 1 to 2048 texts at once, not of 0");
    check("openai", &["x"; 2049], "not of 2049");
    check("openai", &["one", ""], "text 1 is empty");
    assert!(server.seen().is_empty());
}

#[test]
fn limits_hold() {
    let long = Play::Say(http("200 OK", "content-type: application/json\n", &format!("[{}]", "1,".repeat(40_000))));
    let server = Server::playing(vec![long]);
    let error = embed(&client(&server, "openai", options()), &["one"]).unwrap_err();
    assert!(error.to_string().contains("longer than 65536 bytes"), "{error}");
    let server = Server::playing(vec![refusal("404 Not Found", "", "not_found", "no embeddings here")]);
    let error = embed(&client(&server, "openai", options()), &["one"]).unwrap_err();
    assert_eq!((error.kind, error.calls.len()), (PolicyErrorKind::Refused, 1));
}
