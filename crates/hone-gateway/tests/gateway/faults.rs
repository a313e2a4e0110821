//! What happens when something fails.

use crate::world::{World, messages, tenant};
use hone_gateway::{Access, Limits};
use serde_json::json;
use std::time::Duration;

const HI: &[(&str, &str)] = &[("user", "hi")];

#[tokio::test]
async fn when_one_fails_the_next_is_asked() {
    let world = World::open().await;
    for _ in 0..4 {
        assert_eq!(world.chat("both", HI, &[]).await.status, 200);
    }
    let traces = world.traces().await;
    let n_calls: Vec<usize> = traces.iter().map(|trace| trace.turns().next().unwrap().llm_calls.len()).collect();
    assert_eq!(n_calls.iter().sum::<usize>(), 6, "every second call met the broken one first: {n_calls:?}");
}

#[tokio::test]
async fn failures_are_told_and_kept() {
    let world = World::open().await;
    for (model, status, code) in [("broken", 502, json!("upstream_error")), ("picky", 400, json!(null))] {
        let told = world.chat(model, HI, &[("x-hone-episode", model)]).await;
        assert_eq!((told.status, told.json()["error"]["code"].clone()), (status, code), "{}", told.body);
        let trace = world.traces().await.into_iter().find(|trace| trace.metadata["asked_for"] == model).unwrap();
        let turn = trace.turns().next().unwrap();
        assert!(!turn.errors[0].recovered && !turn.llm_calls.is_empty(), "{turn:?}");
    }
    for (model, said) in [("picky", "top_k is not known"), ("busy", "slow down"), ("broken", "500: oh")] {
        assert_eq!(world.chat(model, HI, &[]).await.json()["error"]["message"], said, "in its own words");
    }
}

#[tokio::test]
async fn a_provider_that_refuses_is_heard() {
    let world = World::open().await;
    for is_stream in [false, true] {
        let said = async |path: &str, model: &str| {
            let body = json!({"model": model, "messages": messages(HI), "stream": is_stream, "max_tokens": 9});
            let told = world.post(path, &body, &[]).await;
            let error = told.json()["error"].clone();
            (told.status, told.retry_s, json!([error["type"], error["code"], error["param"]]))
        };
        let openai = "/v1/chat/completions";
        assert_eq!(said(openai, "busy").await, (429, Some(7), json!(["requests", "rate_limit_exceeded", null])));
        assert_eq!(said(openai, "gone").await, (404, None, json!(["invalid_request_error", "model_not_found", "model"])));
        assert_eq!(said(openai, "picky").await, (400, None, json!(["invalid_request_error", null, null])));
        assert_eq!(said(openai, "broken").await, (502, None, json!(["server_error", "upstream_error", null])));
        let anthropic = "/v1/messages";
        assert_eq!(said(anthropic, "busy").await, (429, Some(7), json!(["rate_limit_error", null, null])));
        assert_eq!(said(anthropic, "gone").await, (404, None, json!(["not_found_error", null, null])));
        assert_eq!(said(anthropic, "picky").await, (400, None, json!(["invalid_request_error", null, null])));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_does_not_end_like_a_whole_one() {
    let world = World::open().await;
    let body = json!({"model": "cut", "messages": messages(HI), "stream": true});
    let told = world.post("/v1/chat/completions", &body, &[]).await;
    assert!(!told.events().contains(&"[DONE]".to_owned()) && told.body.contains("\"error\""), "{}", told.body);
    let turn = world.trace_of(1).await.turns().next().unwrap().clone();
    assert_eq!(turn.errors[0].kind, "policy_protocol");
}

/// The first piece is no answer: one who breaks off every time is left alone like any other who fails.
#[tokio::test]
async fn who_always_breaks_off_is_left_alone() {
    let world = World::open().await;
    let body = json!({"model": "cut-first", "messages": messages(HI), "stream": true});
    let mut are_whole = Vec::new();
    for _ in 0..7 {
        are_whole.push(world.post("/v1/chat/completions", &body, &[]).await.events().contains(&"[DONE]".to_owned()));
    }
    assert_eq!(are_whole, [false, true, false, true, false, true, true], "the seventh would be the turn of the broken one");
}

/// What is wrong with our key or our account says nothing of the request.
#[tokio::test]
async fn where_our_key_is_refused_the_next_is_asked() {
    let world = World::open().await;
    for is_stream in [false, true] {
        for model in ["poor-first", "poor-first", "poor", "poor"] {
            let body = json!({"model": model, "messages": messages(HI), "stream": is_stream});
            let told = world.post("/v1/chat/completions", &body, &[]).await;
            let status = if model == "poor" { 502 } else { 200 };
            assert_eq!(told.status, status, "{}", told.body);
            assert_eq!(told.body.contains("this server"), status == 502, "{}", told.body);
            assert!(!told.body.contains("6789") && !told.body.contains("your plan"), "{}", told.body);
        }
    }
    let recorded = serde_json::to_string(&world.traces().await).unwrap();
    assert!(recorded.contains("6789") && recorded.contains("your plan"), "who runs the server can look it up");
}

/// A model of this process is like any other: what it refuses is no answer, and when it fails the next is asked.
#[tokio::test]
async fn a_stream_of_this_machine_begins_with_its_first_piece() {
    let world = World::open().await;
    let long = "the cat ".repeat(400);
    for (said, param, value) in
        [(HI, "top_p", json!(1.5)), (HI, "stop", json!([""])), (&[("user", long.as_str())], "seed", json!(1))]
    {
        let body = json!({"model": "own/tiny", "messages": messages(said), "stream": true, param: value});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        assert_eq!((told.status, told.json()["error"].is_object()), (400, true), "{param}: {}", told.body);
    }
    for is_stream in [false, false, true, true] {
        let body = json!({"model": "mute-first", "messages": messages(HI), "stream": is_stream});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        assert!(told.status == 200 && told.body.contains("answer"), "{}", told.body);
    }
    assert_eq!(world.heard.n(), 4);
}

#[tokio::test]
async fn who_leaves_ends_the_call_upstream_too() {
    let world = World::open().await;
    let body = json!({"model": "slow", "messages": messages(HI)});
    let request = world.http.post(format!("{}/v1/chat/completions", world.url)).timeout(Duration::from_millis(300));
    assert!(request.body(body.to_string()).send().await.is_err());
    let turn = world.trace_of(1).await.turns().next().unwrap().clone();
    assert!(turn.errors[0].message.contains("left"), "{turn:?}");
    assert!(matches!(&turn.llm_calls[..], [call] if call.duration_ms.is_some() && call.extra.contains_key("error")), "{turn:?}");
    left(&world).await;
}

async fn left(world: &World) {
    for _ in 0..100 {
        if world.heard.n_left() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the upstream was not left");
}

/// What was told until then was paid for, and nobody is to blame.
#[tokio::test]
async fn who_leaves_in_the_middle_is_no_error_of_a_version() {
    let world = World::open().await;
    for (version, model) in [("v1", "endless"), ("v2", "well")] {
        crate::agents::add(&world, "desk", version, model).await;
    }
    crate::agents::start(&world, "desk", "v1", "v2").await;
    crate::agents::until(&world, "desk", |told| told["canary"]["state"] == "running").await;
    let told = loop {
        let body = json!({"model": "desk", "messages": messages(HI), "stream": true});
        let mut told = world.http.post(format!("{}/v1/chat/completions", world.url)).body(body.to_string()).send().await.unwrap();
        assert!(told.chunk().await.unwrap().is_some());
        if world.heard.last()["model"] == "endless" {
            break told;
        }
    };
    let episode = told.headers()["x-hone-episode"].to_str().unwrap().parse().unwrap();
    drop(told);
    left(&world).await;
    let trace = loop {
        match world.store.trace(episode).await.unwrap() {
            Some(trace) => break trace,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let turn = trace.turns().next().unwrap();
    assert_eq!(turn.errors[0].kind, "policy_abandoned");
    assert_eq!((turn.llm_calls.len(), turn.llm_calls[0].tokens_in, turn.llm_calls[0].tokens_out), (1, 10, 1));
    let rows = world.store.events(Some(hone_arbiter::log::STREAM), 0, 1000).await.unwrap();
    let of_episode = rows.iter().map(|(_, event)| &event.body).filter(|body| body["trace"] == episode.to_string());
    let told: Vec<bool> = of_episode.filter_map(|body| body["row"]["fact"]["answered"]["is_error"].as_bool()).collect();
    assert_eq!(told, [false]);
}

/// An answer that cannot be kept is paid for in vain, once.
#[tokio::test]
async fn while_the_store_takes_nothing_nobody_is_asked() {
    let world = World::open().await;
    let database = rusqlite::Connection::open(world.folder.path().join(".hone/hone.db")).unwrap();
    let tables = ["traces", "events", "documents"];
    let on_each = |sql: &dyn Fn(&str) -> String| tables.iter().for_each(|table| database.execute_batch(&sql(table)).unwrap());
    on_each(&|table| format!("CREATE TRIGGER no_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no room'); END"));
    let ready = async || world.get("/readyz", &[]).await.status;
    assert_eq!(ready().await, 200, "nobody knows yet");
    for _ in 0..3 {
        assert_eq!(world.chat("well", HI, &[]).await.status, 503);
    }
    assert_eq!((world.heard.n(), ready().await), (1, 503));
    on_each(&|table| format!("DROP TRIGGER no_{table}"));
    assert_eq!(ready().await, 200);
    assert_eq!(world.chat("well", HI, &[]).await.status, 200);
    let lost = world.store.events(Some("gateway"), 0, 10).await.unwrap();
    assert_eq!(
        lost.iter().map(|(_, event)| (event.kind.as_str(), &event.body)).collect::<Vec<_>>(),
        [("not_recorded", &json!({"n": 1}))]
    );
}

#[tokio::test]
async fn too_many_are_told_to_come_back() {
    let world = World::with(Access::open(tenant()), Limits { n_requests_max: 1, ..Limits::default() }).await;
    let body = json!({"model": "slow", "messages": messages(HI)});
    let slow = world.http.post(format!("{}/v1/chat/completions", world.url)).timeout(Duration::from_secs(2));
    let slow = tokio::spawn(slow.body(body.to_string()).send());
    while world.heard.n() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = world.chat("well", HI, &[]).await;
    assert_eq!(told.status, 503, "{}", told.body);
    assert!(slow.await.unwrap().is_err());
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let world = World::with(Access::open(tenant()), Limits { body_bytes_max: 1000, ..Limits::default() }).await;
    let told = world.chat("well", &[("user", &"x".repeat(2000))], &[]).await;
    assert_eq!(told.status, 413, "{}", told.body);
    assert_eq!(world.heard.n(), 0);
}

#[tokio::test]
async fn what_is_underway_ends_before_the_server_does() {
    let mut world = World::open().await;
    let told = world.chat("well", HI, &[]).await;
    assert_eq!(told.status, 200);
    world.stop();
    for _ in 0..100 {
        if world.http.get(format!("{}/healthz", world.url)).send().await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server still takes connections");
}

/// The time of an answer is that of all who are asked for it.
#[tokio::test]
async fn when_the_time_is_over_nobody_else_is_asked() {
    let world = World::with(Access::open(tenant()), Limits { answer_ms: 400, ..Limits::default() }).await;
    let mut statuses = Vec::new();
    for _ in 0..2 {
        let told = world.chat("slow-first", HI, &[]).await;
        assert!(told.status == 200 || told.body.contains("within the 0.4 s that were left"), "{}", told.body);
        statuses.push(told.status);
    }
    statuses.sort_unstable();
    assert_eq!((statuses, world.heard.n()), (vec![200, 504], 2), "those who answer take turns");
}
