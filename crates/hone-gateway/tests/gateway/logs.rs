//! Log records in over HTTP: what was said in calls whose spans do not say it.

use crate::spans::{JSON, PROTOBUF, attribute, request, send, sent};
use crate::world::{World, tenant};
use hone_gateway::{Access, Limits};
use hone_trace::format::otlp::protobuf::Message;
use serde_json::{Value, json};
use std::time::Duration;

const PATH: &str = "/v1/logs";

async fn world(spans_wait_ms: u64) -> World {
    World::with(Access::open(tenant()), Limits { spans_wait_ms, stop_ms: 5_000, ..Limits::default() }).await
}

/// A model call that says nothing of what was said, and has nothing above it.
fn silent(no: u8) -> Value {
    let told = [attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.request.model", "m")];
    json!({"traceId": format!("{:032x}", 1), "spanId": format!("{no:016x}"), "name": "chat m", "startTimeUnixNano": format!("{no}000000000"),
        "endTimeUnixNano": format!("{no}500000000"), "attributes": told})
}

/// An event of a call, as a record.
fn record(no: u8, name: &str, body: &Value) -> Value {
    json!({"traceId": format!("{:032X}", 1), "spanId": format!("{no:016x}"), "eventName": name, "observedTimeUnixNano": "1", "body": any(body)})
}

fn any(value: &Value) -> Value {
    match value {
        Value::String(text) => json!({"stringValue": text}),
        Value::Array(list) => json!({"arrayValue": {"values": list.iter().map(any).collect::<Vec<_>>()}}),
        Value::Object(members) => {
            let pairs: Vec<Value> = members.iter().map(|(key, value)| json!({"key": key, "value": any(value)})).collect();
            json!({"kvlistValue": {"values": pairs}})
        }
        other => json!({"intValue": other.to_string()}),
    }
}

fn records(records: &[Value]) -> Value {
    json!({"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"scope": {"name": "test"}, "logRecords": records}]}]})
}

async fn told(world: &World, body: &Value) -> Value {
    let (status, form, answer) = send(world, PATH, body.to_string(), &[JSON]).await;
    assert_eq!((status, form.as_str()), (200, "application/json"), "{}", String::from_utf8_lossy(&answer));
    serde_json::from_slice(&answer).unwrap()
}

#[tokio::test]
async fn what_was_said_finds_its_span_before_it_and_after_it() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}});
    let said = [
        record(1, "gen_ai.system.message", &json!({"content": "be brief", "api_key": "sk-canary"})),
        record(1, "gen_ai.user.message", &json!({"content": "rain?"})),
        record(
            1,
            "gen_ai.choice",
            &json!({"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}}),
        ),
        record(2, "gen_ai.system.message", &json!({"content": "be brief"})),
        record(2, "gen_ai.user.message", &json!({"content": "rain?"})),
        record(2, "gen_ai.assistant.message", &json!({"tool_calls": [call]})),
        record(2, "gen_ai.tool.message", &json!({"content": "it rains", "id": "c1"})),
        record(2, "gen_ai.choice", &json!({"index": 0, "finish_reason": "stop", "message": {"content": "yes"}})),
    ];
    for comes_first in [true, false] {
        let world = world(600_000).await;
        if comes_first {
            assert_eq!(told(&world, &records(&said)).await, json!({}));
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
        sent(&world, &request(&[silent(1), silent(2)])).await;
        if !comes_first {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            assert_eq!(world.traces().await.len(), 0, "what was said may still come");
            // The same in protobuf, and twice.
            for _ in 0..2 {
                let (status, form, answer) = send(&world, PATH, Message::Logs.write(&records(&said)), &[PROTOBUF]).await;
                assert_eq!((status, form.as_str(), answer.len()), (200, "application/x-protobuf", 0));
            }
        }
        let trace = world.trace_of(2).await;
        let turns: Vec<_> = trace.turns().collect();
        let words: Vec<String> = turns.iter().flat_map(|turn| &turn.input).map(|message| message.content.text()).collect();
        assert_eq!((words, trace.segments.len()), (vec!["be brief".to_owned(), "rain?".into(), "it rains".into()], 1));
        assert_eq!((turns[0].answer.tool_calls[0].name.as_str(), turns[1].answer.content.text()), ("weather", "yes".to_owned()));
        assert!(!serde_json::to_string(&trace).unwrap().contains("sk-canary"), "keys are not kept");
    }
}

#[tokio::test]
async fn one_event_may_tell_all_of_a_call_and_another_judge_it() {
    let world = world(600_000).await;
    let message = |role: &str, text: &str| json!([{"role": role, "parts": [{"type": "text", "content": text}]}]);
    let details = json!({"traceId": format!("{:032x}", 1), "spanId": format!("{:016x}", 1), "timeUnixNano": "1", "attributes": [
        attribute("event.name", "gen_ai.client.inference.operation.details"),
        {"key": "gen_ai.input.messages", "value": any(&message("user", "rain?"))},
        {"key": "gen_ai.output.messages", "value": any(&message("assistant", "no"))},
    ]});
    let judged = json!({"traceId": format!("{:032x}", 1), "spanId": format!("{:016x}", 1), "eventName": "gen_ai.evaluation.result", "attributes": [
        attribute("gen_ai.evaluation.name", "polite"),
        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.75}},
    ]});
    told(&world, &records(&[details, judged])).await;
    sent(&world, &request(&[silent(1)])).await;
    let trace = world.trace_of(1).await;
    let turn = trace.turns().next().unwrap();
    assert_eq!((turn.input[0].content.text(), turn.answer.content.text()), ("rain?".to_owned(), "no".to_owned()));
    assert_eq!(trace.rewards.iter().map(|reward| reward.total).collect::<Vec<_>>(), [0.75]);
}

#[tokio::test]
async fn records_that_tell_of_no_call_are_passed_over_and_bad_ones_named() {
    let world = world(200).await;
    let other = json!({"body": {"stringValue": "started"}, "severityText": "INFO"});
    assert_eq!(told(&world, &records(std::slice::from_ref(&other))).await, json!({}));
    let mut without = record(1, "gen_ai.user.message", &json!({"content": "hi"}));
    without["spanId"] = "".into();
    let answer = told(&world, &records(&[other, without])).await;
    let partial = &answer["partialSuccess"];
    assert_eq!(partial["rejectedLogRecords"], "1");
    let said = partial["errorMessage"].as_str().unwrap();
    assert!(said.contains("resourceLogs[0].scopeLogs[0].logRecords[1].spanId"), "{said}");
    for body in ["[]", "{\"resourceLogs\": 1}", "{\"resourceLogs\": [{\"scopeLogs\": [7]}]}", "{"] {
        let (status, _, answer) = send(&world, PATH, body, &[JSON]).await;
        assert_eq!(status, 400, "{}", String::from_utf8_lossy(&answer));
    }
    let (status, ..) = send(&world, PATH, vec![10, 200], &[PROTOBUF]).await;
    assert_eq!(status, 400);
}
