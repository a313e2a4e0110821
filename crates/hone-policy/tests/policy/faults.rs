//! What a provider can do wrong, and what stands on the trace afterwards. Its neighbours finish every time.

use crate::server::{Play, Seen, Server, http, json, refusal, sse};
use crate::world::{errors, play};
use crate::{Awake, SECRET, options, policy};
use hone_policy::upstream::{
    Access, AwsKey, ChatRequest, Client, ClientError, ClientOptions, Key, Region, Transfer, UpstreamSpec,
};
use hone_trace::policy::PolicyErrorKind;
use hone_trace::{SteppedClock, Time, Trace, TraceOutcome};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const USAGE: &str =
    r#"{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":16}}}"#;
const HALF_CALL: &str =
    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\":"}}]}}]}"#;
const HALF_TEXT: &str = r#"{"model":"m","choices":[{"delta":{"role":"assistant","content":"10"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;

/// What a good provider says: the tool first, then the sum that the tool told.
pub(crate) fn good(seen: &Seen) -> Play {
    let messages = seen.body["messages"].as_array().unwrap();
    let told = messages.iter().rev().find(|message| message["role"] == "tool").map(|message| message["content"].clone());
    let is_stream = seen.body["stream"] == true;
    let message = match &told {
        Some(sum) => json!({"role": "assistant", "content": sum}),
        None => {
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}]})
        }
    };
    let reason = if told.is_some() { "stop" } else { "tool_calls" };
    if !is_stream {
        let usage: Value = serde_json::from_str(USAGE).unwrap();
        let choice = json!({"message": message, "finish_reason": reason});
        return json(&json!({"model": "m-1", "choices": [choice], "usage": usage["usage"]}));
    }
    let delta = json!({"model": "m-1", "choices": [{"delta": message, "finish_reason": null}]}).to_string();
    let stop = json!({"choices": [{"delta": {}, "finish_reason": reason}]}).to_string();
    Play::Say(sse(&[&delta, &stop, USAGE, "[DONE]"]))
}

/// Plays four cases. The provider does `plays` in turn with case 1, and the last of them again and again; what is `None` is
/// done well.
fn played(options: ClientOptions, plays: Vec<Option<Play>>) -> (Vec<Trace>, usize) {
    let n_asked = Arc::new(AtomicUsize::new(0));
    let n_case = Arc::clone(&n_asked);
    let server = Server::start(move |seen| {
        if !seen.body["messages"].to_string().contains("case 1:") {
            return good(seen);
        }
        let at = n_case.fetch_add(1, Ordering::SeqCst).min(plays.len() - 1);
        plays[at].clone().unwrap_or_else(|| good(seen))
    });
    let traces = play(&policy(&server, options), 4, 4);
    let is_fine = |trace: &Trace| trace.outcome == TraceOutcome::Success && errors(trace).is_empty();
    assert!(traces.len() == 4 && [0, 2, 3].iter().all(|&at| is_fine(&traces[at])), "the neighbours finish");
    assert!(!serde_json::to_string(&traces).unwrap().contains(SECRET), "a key is on a trace");
    (traces, n_asked.load(Ordering::SeqCst))
}

/// Expects these errors on the trace of case 1 (`kind` recovered, `kind!` not) and these words in one of them.
fn check_with(options: ClientOptions, plays: Vec<Option<Play>>, expected: &str, words: &str) {
    let (traces, n_asked) = played(options, plays);
    let trace = &traces[1];
    assert_eq!(errors(trace).join(" "), expected, "{words}");
    let events: Vec<_> = trace.turns().flat_map(|turn| &turn.errors).collect();
    assert!(events.iter().any(|event| event.message.contains(words)), "{words}: {events:?}");
    let calls: Vec<_> = trace.turns().flat_map(|turn| &turn.llm_calls).collect();
    assert_eq!(calls.len(), n_asked, "every attempt is on the record");
    assert!(calls.iter().all(|call| call.duration_ms.is_some()));
    let is_lost = expected.contains('!');
    let n_failed = calls.iter().filter(|call| call.extra.contains_key("error")).count();
    assert_eq!(n_failed, if is_lost { calls.len() } else { events.len() }, "{words}");
    assert_eq!(trace.outcome, if is_lost { TraceOutcome::Unknown } else { TraceOutcome::Success }, "{words}");
}

/// Once, then the provider behaves: the episode goes on. Always: it ends after three attempts, and says why.
fn check_retried(play: &Play, kind: &str, words: &str) {
    check_with(options(), vec![Some(play.clone()), None], kind, words);
    check_with(options(), vec![Some(play.clone())], &format!("{kind}!"), words);
}

/// Never tried again.
fn check_at_once(play: Play, kind: &str, words: &str) {
    let (traces, n_asked) = played(options(), vec![Some(play.clone())]);
    assert_eq!(n_asked, 1, "{words}: {:?}", errors(&traces[1]));
    check_with(options(), vec![Some(play)], &format!("{kind}!"), words);
}

fn stream(events: &[&str]) -> Play {
    Play::Say(sse(events))
}

#[test]
fn a_stream_that_is_not_whole_is_no_answer() {
    check_retried(&stream(&[HALF_TEXT]), "policy_protocol", "cut off before its finish reason");
    check_retried(&stream(&[HALF_TEXT, "[DONE]"]), "policy_protocol", "no finish reason");
    check_retried(&stream(&[HALF_CALL]), "policy_protocol", "cut off before its finish reason");
    check_retried(&stream(&[HALF_TEXT, "{\"choices\":", STOP, "[DONE]"]), "policy_protocol", "not JSON");
    let mut cut = sse(&[HALF_TEXT]);
    cut.extend(b"data: {\"choices\":[{\"del");
    check_retried(&Play::Say(cut), "policy_protocol", "cut off");
    let chunked = http("200 OK", "content-type: text/event-stream\ntransfer-encoding: chunked\n", "20\r\ndata: {\"cho");
    check_retried(&Play::Say(chunked), "policy_protocol", "connection broke in the middle");
    let nameless = HALF_CALL.replace("add", "").replace("{\\\"x\\\":", "{}");
    check_retried(&stream(&[&nameless, STOP, "[DONE]"]), "policy_protocol", "no name");
    let gap = HALF_CALL.replace("\"index\":0", "\"index\":7");
    check_retried(&stream(&[&gap, STOP, "[DONE]"]), "policy_protocol", "tool call 7");
    check_retried(
        &Play::Say(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: \xff\xfe\n\n".to_vec()),
        "policy_protocol",
        "not UTF-8",
    );
}

#[test]
fn wrong_types_and_wrong_json_are_no_answer() {
    let page = Play::Say(http("200 OK", "content-type: text/html\n", "<html>busy</html>"));
    check_retried(&page, "policy_protocol", "of type `text/html`");
    check_retried(&json(&json!({"choices": []})), "policy_protocol", "of type `application/json`");
    let plain = || ClientOptions { transfer: Transfer::Plain, ..options() };
    let wrong = |body: &str, words: &str| {
        let play = Play::Say(http("200 OK", "content-type: application/json\n", body));
        check_with(plain(), vec![Some(play.clone()), None], "policy_protocol", words);
        check_with(plain(), vec![Some(play)], "policy_protocol!", words);
    };
    wrong("{\"choices\": [", "not JSON");
    wrong("{\"choices\": []}", "no choice");
    wrong("{\"choices\": [{\"message\": {\"content\": \"1001\"}}]}", "no finish reason");
    wrong("{\"choices\": [{\"message\": {\"content\": 7}, \"finish_reason\": \"stop\"}]}", "neither text nor");
    wrong("{\"choices\": [{\"message\": {\"tool_calls\": [{\"function\": {}}]}, \"finish_reason\": \"stop\"}]}", "no name");
    check_with(
        plain(),
        vec![Some(Play::Say(http("200 OK", "content-type: application/json\ncontent-length: 900\n", "{"))), None],
        "policy_protocol",
        "broke in the middle",
    );
}

#[test]
fn a_provider_that_fails_is_asked_again() {
    check_retried(&refusal("500 Internal Server Error", "", "server_error", "oops"), "policy_provider", "500 server_error: oops");
    check_retried(&refusal("529 Overloaded", "", "overloaded_error", "busy"), "policy_provider", "529");
    check_retried(&refusal("409 Conflict", "", "", "conflict"), "policy_provider", "409: conflict");
    check_retried(&refusal("408 Request Timeout", "", "", "slow"), "policy_timeout", "408");
    check_retried(&Play::Say(http("502 Bad Gateway", "", "<html>long page</html>")), "policy_provider", "502");
    check_retried(&Play::Say(Vec::new()), "policy_provider", "connection broke before the answer");
    let overloaded = r#"{"error":{"type":"overloaded_error","message":"come back later"}}"#;
    check_retried(&stream(&[HALF_TEXT, overloaded]), "policy_provider", "come back later");
    let limited = r#"{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}"#;
    check_retried(&stream(&[limited]), "policy_rate_limit", "slow down");
}

#[test]
fn retry_after_is_kept() {
    let check = |headers: &str, expected: std::ops::Range<u64>| {
        let awake = Arc::new(Awake::default());
        let options = ClientOptions { sleeper: Arc::clone(&awake) as _, ..options() };
        check_with(
            options,
            vec![Some(refusal("429 Too Many Requests", headers, "rate_limit", "slow down")), None],
            "policy_rate_limit",
            "429",
        );
        let slept = awake.0.lock().unwrap().clone();
        assert!(slept.len() == 1 && expected.contains(&slept[0]), "{headers}: {slept:?}");
    };
    check("", 0..100);
    check("retry-after: 7\n", 7000..7100);
    check("retry-after: Sun, 06 Nov 1994 08:49:37 GMT\ndate: Sun, 06 Nov 1994 08:49:34 GMT\n", 3000..3100);
    // Longer than all the time there is: nobody waits for it.
    let far = refusal("429 Too Many Requests", "retry-after: 3600\n", "rate_limit", "slow down");
    check_at_once(far, "policy_rate_limit", "no time is left");
    check_retried(&refusal("429 Too Many Requests", "", "rate_limit", "slow down"), "policy_rate_limit", "slow down");
}

#[test]
fn who_asks_for_more_patience_than_there_is_has_said_no() {
    let said = |seconds: u64| refusal("429 Too Many Requests", &format!("retry-after: {seconds}\n"), "rate_limit", "slow down");
    let awake = Arc::new(Awake::default());
    let options = || ClientOptions { asked_ms_max: 5000, sleeper: Arc::clone(&awake) as _, ..options() };
    let server = Server::playing(vec![said(10)]);
    let request = ChatRequest::default();
    let error = crate::RUNTIME.block_on(crate::client(&server, "openai", options()).complete(&request)).unwrap_err();
    assert_eq!((error.kind, error.calls.len()), (PolicyErrorKind::RateLimit, 1));
    assert_eq!(error.told.unwrap().retry_ms, Some(10_000), "who asked may come back then");
    assert!(awake.0.lock().unwrap().is_empty(), "nobody slept");
    check_with(options(), vec![Some(said(5)), None], "policy_rate_limit", "429");
}

#[test]
fn a_refusal_is_final_and_told_in_the_providers_words() {
    check_at_once(
        refusal("401 Unauthorized", "", "invalid_api_key", &format!("wrong key {SECRET}")),
        "policy_account",
        "wrong key …",
    );
    check_at_once(refusal("404 Not Found", "", "model_not_found", "no such model"), "policy_refused", "no such model");
    check_at_once(refusal("400 Bad Request", "", "context_length_exceeded", "too long"), "policy_too_long", "too long");
    let long = "This model's maximum context length is 8192 tokens";
    check_at_once(refusal("400 Bad Request", "", "invalid_request_error", long), "policy_too_long", "8192");
    check_at_once(refusal("429 Too Many Requests", "", "insufficient_quota", "no credit"), "policy_account", "no credit");
    check_at_once(refusal("402 Payment Required", "", "billing_error", "pay first"), "policy_account", "pay first");
    let poor = "Your credit balance is too low to access the API";
    check_at_once(refusal("400 Bad Request", "", "invalid_request_error", poor), "policy_account", "too low");
    check_at_once(refusal("400 Bad Request", "", "x", &"y".repeat(5000)), "policy_refused", "yyy…");
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::playing(vec![stream(&["[DONE]"])]);
    let location = format!("location: http://{}/v1/chat/completions\n", elsewhere.address);
    check_at_once(Play::Say(http("307 Temporary Redirect", &location, "")), "policy_provider", "redirects");
    assert!(elsewhere.seen().is_empty(), "the key would have been sent there");
}

#[test]
fn a_provider_that_hangs_is_left() {
    let check = |transfer, play: &Play, words: &str| {
        let hurried = || ClientOptions { transfer, attempt_ms: 1800, idle_ms: 1200, ..options() };
        check_with(hurried(), vec![Some(play.clone()), None], "policy_timeout", words);
        check_with(hurried(), vec![Some(play.clone())], "policy_timeout!", words);
    };
    check(Transfer::Stream, &Play::Hang(Vec::new()), "nothing came for 1200 ms");
    check(Transfer::Stream, &Play::Hang(sse(&[HALF_TEXT])), "nothing came for 1200 ms");
    check(Transfer::Plain, &Play::Hang(Vec::new()), "not complete within 1800 ms");
    // The time of the whole call ends the second attempt early, and there is no third.
    let (traces, n_asked) =
        played(ClientOptions { total_ms: 3000, idle_ms: 2000, ..options() }, vec![Some(Play::Hang(Vec::new()))]);
    assert_eq!((n_asked, errors(&traces[1])), (2, vec!["policy_timeout!".to_owned()]));
    // A call that may take all of its time is sent once, and says what was not enough.
    for (transfer, said) in [(Transfer::Plain, Vec::new()), (Transfer::Stream, Vec::new()), (Transfer::Stream, sse(&[HALF_TEXT]))]
    {
        let (total_ms, total_set_by) = (2000, "--max-answer-seconds");
        let patient = ClientOptions { transfer, total_ms, total_set_by, attempt_ms: total_ms, idle_ms: total_ms, ..options() };
        let (traces, n_asked) = played(patient, vec![Some(Play::Hang(said))]);
        let error = &traces[1].turns().next().unwrap().errors[0].message;
        assert_eq!(n_asked, 1, "{error}");
        assert_eq!(error, "the answer was not complete within 2 s, the time allowed (--max-answer-seconds)");
    }
}

#[test]
fn an_answer_without_end_is_cut() {
    let text = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "x".repeat(8000));
    check_at_once(stream(&vec![text.as_str(); 20]), "policy_protocol", "longer than 65536 bytes");
    check_retried(&stream(&[&"y".repeat(20_000)]), "policy_protocol", "an event is longer than 16384 bytes");
    let endless = Play::Say(http("500 Oops", "content-type: text/plain\n", &"z".repeat(1 << 20)));
    check_retried(&endless, "policy_provider", "500: zzz");
}

#[test]
fn a_call_that_ran_out_of_tokens_is_not_a_call() {
    // Also where it had not said a word of its arguments.
    for call in [HALF_CALL.to_owned(), HALF_CALL.replace(r#"{\"x\":"#, "")] {
        let cut = [call.as_str(), r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#, USAGE, "[DONE]"];
        let (traces, _) = played(options(), vec![Some(stream(&cut)), None]);
        assert_eq!(errors(&traces[1]), ["unparsable_action", "answer_cut"]);
        let first = traces[1].turns().next().unwrap();
        assert!(first.answer.tool_calls.is_empty(), "half a call is not passed off as one");
        let paid = &first.llm_calls[0];
        assert_eq!((paid.tokens_in, paid.tokens_out, paid.tokens_cached), (50, 7, 16));
    }
}

#[test]
fn nobody_listens() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let spec = format!("http://{address}/v1#m").parse().unwrap();
    let client = Arc::new(Client::new(spec, None, options()).unwrap());
    let policy = hone_policy::upstream::Upstream::new(client, Default::default(), crate::RUNTIME.handle().clone()).unwrap();
    let traces = play(&policy, 2, 2);
    assert!(traces.iter().all(|trace| errors(trace) == ["policy_provider!"]));
    assert!(traces.iter().all(|trace| trace.turns().next().unwrap().llm_calls.len() == 3));
}

#[test]
fn only_so_many_calls_run_at_once() {
    let server = Server::start(|seen| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        good(seen)
    });
    let traces = play(&policy(&server, ClientOptions { n_concurrent_max: 2, ..options() }), 12, 12);
    assert!(traces.iter().all(|trace| trace.outcome == TraceOutcome::Success));
    assert_eq!(server.n_at_once_max(), 2);
    assert!(server.seen().iter().all(|seen| seen.head.contains(&format!("authorization: Bearer {SECRET}"))));
}

#[test]
fn every_attempt_is_signed_anew_and_only_where_a_signature_is_understood() {
    let key = |text: &str| Key::new(text).unwrap();
    let access = || Access::Signed(AwsKey::new(key("AKID"), key(SECRET), None, Region::new("eu-west-1").unwrap()));
    let server = Server::playing(vec![refusal("503 Unavailable", "", "", "busy")]);
    let spec: UpstreamSpec = format!("bedrock+http://{}#m:0", server.address).parse().unwrap();
    let clock = Arc::new(SteppedClock::new(Time::from_unix_nanos(0), 1_000_000_000));
    let client = Client::new(spec.clone(), access(), ClientOptions { clock: Some(clock), ..options() }).unwrap();
    let error = crate::RUNTIME.block_on(Arc::new(client).complete(&ChatRequest::default())).unwrap_err();
    assert_eq!(error.calls.len(), 3);
    let proofs: BTreeSet<String> =
        server.seen().iter().filter_map(|seen| seen.header("authorization").map(str::to_owned)).collect();
    assert!(proofs.len() == 3 && proofs.iter().all(|proof| !proof.contains(SECRET)), "{proofs:?}");
    let undated = Client::new(spec, access(), ClientOptions { clock: None, ..options() }).err();
    assert_eq!(undated, Some(ClientError::NoClock));
    let elsewhere = Client::new("openai:gpt-5".parse().unwrap(), access(), options()).err();
    assert_eq!(elsewhere, Some(ClientError::Signed("gpt-5".into())));
}
