//! Spans in over HTTP: both encodings, packed or not, in any order, and what becomes of them. The fixtures are what real exporters sent
//! (`spans/make.py`).

use crate::world::{World, tenant};
use flate2::{Compression, write::GzEncoder};
use hone_gateway::{Access, Identity, Limits, Role, Token};
use hone_trace::format::otlp::protobuf::Message;
use hone_trace::store::{self, Event, Store};
use hone_trace::{EventId, Tenant, Time, Trace};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

const GENAI: &[u8] = include_bytes!("spans/genai.pb");
const OPENINFERENCE: &[u8] = include_bytes!("spans/openinference.pb");
const PATH: &str = "/v1/traces";
pub(crate) const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

async fn world() -> World {
    World::with(Access::open(tenant()), Limits { spans_wait_ms: 400, stop_ms: 5_000, ..Limits::default() }).await
}

/// The status, the content type and the body.
pub(crate) async fn send(
    world: &World,
    path: &str,
    body: impl Into<reqwest::Body>,
    headers: &[(&str, &str)],
) -> (u16, String, Vec<u8>) {
    let mut request = world.http.post(format!("{}{path}", world.url)).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let form = response.headers().get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
    (response.status().as_u16(), form, response.bytes().await.unwrap().to_vec())
}

pub(crate) async fn sent(world: &World, body: &Value) -> Value {
    let (status, form, answer) = send(world, PATH, body.to_string(), &[JSON]).await;
    assert_eq!((status, form.as_str()), (200, "application/json"), "{}", String::from_utf8_lossy(&answer));
    serde_json::from_slice(&answer).unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn attribute(key: &str, text: &str) -> Value {
    json!({"key": key, "value": {"stringValue": text}})
}

/// A model call in which this was said, the answer last.
fn chat(trace: u8, no: u8, said: &[&str], more: Vec<Value>) -> Value {
    let role = |text: &str| if text.starts_with('a') { "assistant" } else { "user" };
    let message = |text: &&str| json!({"role": role(text), "parts": [{"type": "text", "content": text}]});
    let texts = |said: &[&str]| Value::from_iter(said.iter().map(message)).to_string();
    let (input, answer) = said.split_at(said.len() - 1);
    let mut told = vec![
        attribute("gen_ai.operation.name", "chat"),
        attribute("gen_ai.request.model", "m"),
        attribute("gen_ai.input.messages", &texts(input)),
        attribute("gen_ai.output.messages", &texts(answer)),
    ];
    told.extend(more);
    json!({"traceId": format!("{trace:032x}"), "spanId": format!("{no:016x}"), "parentSpanId": "00000000000000ff", "name": "chat m",
        "startTimeUnixNano": format!("{no}000000000"), "endTimeUnixNano": format!("{no}500000000"), "attributes": told})
}

pub(crate) fn request(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}]}]})
}

fn answers(trace: &Trace) -> Vec<String> {
    trace.turns().map(|turn| turn.answer.content.text()).collect()
}

/// What both fixtures tell of.
fn assert_desk(trace: &Trace) {
    let turns: Vec<_> = trace.turns().collect();
    assert_eq!((turns.len(), trace.segments.len()), (3, 2), "{trace:?}");
    let roles: Vec<String> =
        turns[0].input.iter().map(|message| format!("{:?} {}", message.role, message.content.text())).collect();
    assert_eq!(roles, ["System You are a desk agent.", "User is it raining"]);
    let call = &turns[0].answer.tool_calls[0];
    assert_eq!(
        (call.id.as_str(), call.name.as_str(), call.arguments.replace(' ', "")),
        ("call_1", "weather", r#"{"city":"word"}"#.to_owned())
    );
    assert_eq!((turns[0].tool_calls[0].name.as_str(), turns[0].tool_calls[0].success), ("weather", Some(true)));
    assert_eq!((turns[1].input.len(), turns[1].input[0].content.text().as_str()), (1, "it rains"), "{:?}", turns[1].input);
    assert_eq!(turns[1].answer.content.text(), "2 words");
    let llm = &turns[1].llm_calls[0];
    assert_eq!((llm.model.as_str(), llm.tokens_in, llm.tokens_out), ("agent", 10, 2));
    assert!(llm.duration_ms.is_some_and(|duration| duration > 0.0) && turns[1].started > turns[0].started);
    assert!(turns[2].errors[0].message.contains("out of order"), "{:?}", turns[2].errors);
    assert_eq!(trace.segments[0].tools[0].name, "weather");
    assert_eq!((trace.metadata["agent_name"].clone(), trace.metadata["service"].clone()), (json!("desk"), json!("desk")));
    assert_eq!(trace.metadata["conversation_id"], "ticket-7");
    assert!(!serde_json::to_string(trace).unwrap().contains("sk-canary"), "keys are not kept");
}

#[tokio::test]
async fn what_real_exporters_send_becomes_a_trace() {
    for body in [GENAI, OPENINFERENCE] {
        let world = world().await;
        let (status, form, answer) = send(&world, PATH, body, &[PROTOBUF]).await;
        assert_eq!((status, form.as_str(), answer.len()), (200, "application/x-protobuf", 0), "all of it was taken");
        assert_desk(&world.trace_of(3).await);
    }
}

#[tokio::test]
async fn json_says_the_same_as_protobuf_and_so_does_gzip() {
    for body in [GENAI, OPENINFERENCE] {
        let json = Message::Request.read(body).unwrap().to_string();
        let (gzip, path) = (("content-encoding", "gzip"), "/api/public/otel/v1/traces");
        let forms = [
            (PATH, json.clone().into_bytes(), vec![("content-type", "application/json; charset=utf-8")]),
            (path, packed(json.as_bytes()), vec![JSON, gzip]),
            (PATH, packed(body), vec![PROTOBUF, gzip]),
        ];
        let world = world().await;
        for (path, body, headers) in forms {
            let (status, form, answer) = send(&world, path, body, &headers).await;
            assert_eq!(
                (status, form.split(';').next()),
                (200, headers[0].1.split(';').next()),
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        // All three told the same spans.
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_desk(&world.trace_of(3).await);
    }
}

#[tokio::test]
async fn spans_of_a_conversation_come_in_any_order_and_more_than_once() {
    let world = world().await;
    let spans = [
        chat(1, 1, &["u1", "a1"], vec![]),
        chat(1, 2, &["u1", "a1", "u2", "a2"], vec![]),
        chat(1, 3, &["u1", "a1", "u2", "a2", "u3", "a3"], vec![]),
    ];
    for n in [2, 0, 1, 0, 2] {
        assert_eq!(sent(&world, &request(&spans[n..=n])).await, json!({}));
    }
    let trace = world.trace_of(3).await;
    assert_eq!((answers(&trace), trace.segments.len()), (vec!["a1".to_owned(), "a2".into(), "a3".into()], 1));
    // What comes when it is written goes on with it, and what is known changes nothing.
    sent(&world, &request(&[spans[1].clone(), chat(1, 4, &["u1", "a1", "u2", "a2", "u3", "a3", "u4", "a4"], vec![])])).await;
    let trace = world.trace_of(4).await;
    assert_eq!((answers(&trace)[3].as_str(), trace.segments.len(), trace.turns().last().unwrap().input.len()), ("a4", 1, 1));
}

#[tokio::test]
async fn a_span_that_comes_too_late_for_its_place_is_not_lost() {
    let world = world().await;
    sent(&world, &request(&[chat(1, 2, &["u1", "a1", "u2", "a2"], vec![])])).await;
    world.trace_of(1).await;
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    let trace = world.trace_of(2).await;
    assert_eq!((answers(&trace), trace.segments.len()), (vec!["a2".to_owned(), "a1".into()], 2));
    let started: Vec<_> = trace.turns().map(|turn| turn.started).collect();
    assert!(started[1] < started[0], "its time says when it was");
}

#[tokio::test]
async fn a_session_brings_traces_together() {
    let world = world().await;
    let session = || vec![attribute("session.id", "s1")];
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], session())])).await;
    world.trace_of(1).await;
    sent(&world, &request(&[chat(2, 2, &["u1", "a1", "u2", "a2"], session()), chat(3, 3, &["u9", "a9"], vec![])])).await;
    for _ in 0..100 {
        let mut turns: Vec<usize> = world.traces().await.iter().map(|trace| trace.turns().count()).collect();
        turns.sort_unstable();
        if turns == [1, 2] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let traces = world.traces().await;
    let of_session = traces.iter().find(|trace| trace.metadata.contains_key("conversation_id")).unwrap();
    assert_eq!((traces.len(), answers(of_session), of_session.segments.len()), (2, vec!["a1".to_owned(), "a2".into()], 1));
    // Feedback finds it by the name that its spans gave it.
    let body = json!({"episode_id": "s1", "metric_name": "solved", "value": true});
    assert_eq!(world.post("/v1/feedback", &body, &[]).await.json()["episode_id"], of_session.id.to_string());
    let body = json!({"episode_id": format!("{:032X}", 3), "metric_name": "solved", "value": true});
    assert_eq!(world.post("/v1/feedback", &body, &[]).await.status, 200);
}

#[tokio::test]
async fn the_last_span_of_a_trace_ends_the_wait() {
    let limits = Limits { spans_wait_ms: 600_000, stop_ms: 5_000, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(world.traces().await.len(), 0, "more may come");
    let root = json!({"traceId": format!("{:032x}", 1), "spanId": "00000000000000ff", "name": "POST /ask"});
    sent(&world, &request(&[root])).await;
    world.trace_of(1).await;
}

#[tokio::test]
async fn what_was_acknowledged_is_written_when_the_server_stops_and_after_a_crash() {
    let limits = Limits { spans_wait_ms: 600_000, stop_ms: 5_000, ..Limits::default() };
    let mut world = World::with(Access::open(tenant()), limits).await;
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    world.stop();
    world.trace_of(1).await;
    // A server that died before it could write: all that it leaves is the log.
    let event = world.store.events(Some("otlp"), 0, 10).await.unwrap().remove(0).1;
    let mut left = event.clone();
    left.id = EventId::derived(&["left"]);
    left.body = request(&[chat(1, 2, &["u1", "a1", "u2", "a2"], vec![])]);
    world.store.put(vec![store::Write::Event(left)]).await.unwrap();
    let mut next = world.again().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    next.stop();
    let trace = next.trace_of(2).await;
    assert_eq!((answers(&trace), trace.segments.len()), (vec!["a1".to_owned(), "a2".into()], 1));
}

fn soon() -> Limits {
    Limits { spans_wait_ms: 400, stop_ms: 5_000, ..Limits::default() }
}

/// The answers of all traces, when there are so many, one a line and in order.
async fn told(world: &World, n_traces: usize) -> Vec<String> {
    for _ in 0..300 {
        let traces = world.traces().await;
        if traces.len() == n_traces {
            let mut told: Vec<String> = traces.iter().map(|trace| answers(trace).join(" ")).collect();
            told.sort_unstable();
            return told;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("there are not {n_traces} traces: {:?}", world.traces().await);
}

/// A request in the log of a store, as a server leaves it that dies before it can write.
async fn leave(store: &dyn Store, spans: &[Value]) {
    let body = request(spans);
    let id = EventId::derived(&[&body.to_string()]);
    let (stream, kind) = ("otlp".to_owned(), "spans".to_owned());
    let event = Event { id, at: Time::from_unix_nanos(1), tenant: tenant(), stream, kind, body };
    store.put(vec![store::Write::Event(event)]).await.unwrap();
}

/// A back-up of a store that got one span and wrote it, in a log with many numbers that nothing has.
async fn backed_up() -> tempfile::TempDir {
    let mut world = world().await;
    let filler = |n: u32| Event {
        id: EventId::derived(&["filler", &n.to_string()]),
        at: Time::from_unix_nanos(1),
        tenant: tenant(),
        stream: "filler".into(),
        kind: "filler".into(),
        body: json!({}),
    };
    world.store.put((0..200).map(|n| store::Write::Event(filler(n))).collect()).await.unwrap();
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    world.trace_of(1).await;
    world.stop_and_wait().await;
    world.change("DELETE FROM events WHERE stream = 'filler'");
    world.back_up().await
}

#[tokio::test]
async fn spans_become_traces_after_a_restore_gave_all_events_other_numbers() {
    let backup = backed_up().await;
    let mut world = world().await;
    hone_store::restore(&*world.store, backup.path(), |_| ()).await.unwrap();
    let mut world = world.restarted(soon()).await;
    sent(&world, &request(&[chat(2, 1, &["u2", "a2"], vec![])])).await;
    assert_eq!(told(&world, 2).await, ["a1", "a2"]);
    let world = world.restarted(soon()).await;
    sent(&world, &request(&[chat(3, 1, &["u3", "a3"], vec![])])).await;
    assert_eq!(told(&world, 3).await, ["a1", "a2", "a3"]);
}

/// A back-up of a world that has one trace, and gets four more behind it.
async fn outlived(world: &World) -> tempfile::TempDir {
    sent(world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    assert_eq!(told(world, 1).await, ["a1"]);
    let backup = world.back_up().await;
    for n in 2..6 {
        sent(world, &request(&[chat(n, 1, &["u", "lost"], vec![])])).await;
    }
    told(world, 5).await;
    backup
}

#[tokio::test]
async fn spans_become_traces_in_a_store_that_was_restored_under_the_server() {
    let mut world = world().await;
    let mut world = world.restarted(soon()).await;
    let backup = outlived(&world).await;
    world.restore(backup.path()).await;
    sent(&world, &request(&[chat(7, 1, &["u7", "a7"], vec![])])).await;
    assert_eq!(told(&world, 2).await, ["a1", "a7"]);
    let world = world.restarted(soon()).await;
    sent(&world, &request(&[chat(8, 1, &["u8", "a8"], vec![])])).await;
    assert_eq!(told(&world, 3).await, ["a1", "a7", "a8"]);
}

#[tokio::test]
async fn spans_become_traces_in_a_store_that_was_restored_under_a_server_that_got_none_since_its_start() {
    let mut world = world().await;
    let mut world = world.restarted(soon()).await;
    let backup = outlived(&world).await;
    let world = world.restarted(soon()).await;
    // By then it has read how far spans are written.
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.restore(backup.path()).await;
    sent(&world, &request(&[chat(7, 1, &["u7", "a7"], vec![])])).await;
    assert_eq!(told(&world, 2).await, ["a1", "a7"]);
}

#[tokio::test]
async fn spans_of_a_store_that_was_restored_under_the_server_become_traces_though_none_comes() {
    let mut left = world().await;
    left.stop_and_wait().await;
    leave(&*left.store, &[chat(1, 1, &["u1", "a1"], vec![])]).await;
    let backup = left.back_up().await;
    let world = world().await;
    world.say_started().await;
    world.restore(backup.path()).await;
    assert_eq!(told(&world, 1).await, ["a1"]);
}

#[tokio::test]
async fn a_merge_does_not_say_of_spans_here_that_they_are_written() {
    let backup = backed_up().await;
    let mut world = world().await;
    world.stop_and_wait().await;
    leave(&*world.store, &[chat(2, 1, &["u2", "a2"], vec![])]).await;
    hone_store::restore(&*world.store, backup.path(), |_| ()).await.unwrap();
    let world = world.restarted(soon()).await;
    assert_eq!(told(&world, 2).await, ["a1", "a2"]);
}

#[tokio::test]
async fn a_number_that_an_older_version_noted_hides_no_spans() {
    let mut world = world().await;
    world.stop_and_wait().await;
    let note = Event {
        id: EventId::derived(&["note"]),
        at: Time::from_unix_nanos(1),
        tenant: tenant(),
        stream: "otlp.written".into(),
        kind: "up_to".into(),
        body: json!({"up_to": 191}),
    };
    world.store.put(vec![store::Write::Event(note)]).await.unwrap();
    leave(&*world.store, &[chat(2, 1, &["u2", "a2"], vec![])]).await;
    let world = world.restarted(soon()).await;
    assert_eq!(told(&world, 1).await, ["a2"]);
}

#[tokio::test]
async fn a_log_is_read_from_where_all_of_it_is_written() {
    let mut world = world().await;
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    told(&world, 1).await;
    world.stop_and_wait().await;
    // Were it read again, it would be written again.
    world.change("DELETE FROM bodies; DELETE FROM traces");
    let mut world = world.restarted(soon()).await;
    sent(&world, &request(&[chat(2, 1, &["u2", "a2"], vec![])])).await;
    assert_eq!(told(&world, 1).await, ["a2"]);
    world.stop_and_wait().await;
    assert_eq!(told(&world, 1).await, ["a2"]);
}

#[tokio::test]
async fn what_was_told_before_its_conversation_had_a_name_is_not_told_twice() {
    let mut world = world().await;
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    told(&world, 1).await;
    let session = vec![attribute("session.id", "s1")];
    sent(&world, &request(&[chat(1, 2, &["u1", "a1", "u2", "a2"], session)])).await;
    assert_eq!(told(&world, 2).await, ["a1", "a2"]);
    world.stop_and_wait().await;
    world.change("DELETE FROM events WHERE stream = 'otlp.written'");
    let mut world = world.restarted(soon()).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    world.stop_and_wait().await;
    assert_eq!(told(&world, 2).await, ["a1", "a2"]);
}

/// Waits until so many traces are on the record, damaged or not.
async fn until_heads(world: &World, n_traces: usize) {
    for _ in 0..300 {
        if world.store.heads(&store::TraceQuery::default(), None, 100).await.unwrap().items.len() == n_traces {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("there are not {n_traces} traces: {:?}", world.said.lock().unwrap());
}

#[tokio::test]
async fn a_damaged_trace_is_named_and_the_spans_of_others_become_traces() {
    let world = world().await;
    sent(&world, &request(&[chat(1, 1, &["u1", "a1"], vec![])])).await;
    let damaged = world.trace_of(1).await.id;
    world.change("UPDATE bodies SET body = '{'");
    sent(&world, &request(&[chat(1, 2, &["u1", "a1", "u2", "a2"], vec![])])).await;
    for trace in 2..12 {
        sent(&world, &request(&[chat(trace, 1, &["u1", "a1"], vec![])])).await;
    }
    until_heads(&world, 11).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let said = world.said.lock().unwrap().clone();
    let of_damage: Vec<&String> = said.iter().filter(|text| text.contains(&format!("trace {damaged} in the store"))).collect();
    assert_eq!(of_damage.len(), 1, "{said:?}");
}

#[tokio::test]
async fn a_damaged_request_in_the_log_is_named_and_the_others_are_read() {
    let mut world = world().await;
    world.stop_and_wait().await;
    for trace in 1..5 {
        leave(&*world.store, &[chat(trace, 1, &["u1", &format!("a{trace}")], vec![])]).await;
    }
    let log = world.store.events(Some("otlp"), 0, 10).await.unwrap();
    // Two beside each other with a gap before them, and the last.
    world.change("UPDATE events SET seq = seq + 1000 WHERE seq > 1; UPDATE events SET body = '{' WHERE seq <> 1002 AND seq > 1");
    let mut world = world.restarted(soon()).await;
    assert_eq!(told(&world, 2).await, ["a1", "a2"]);
    leave(&*world.store, &[chat(9, 1, &["u9", "a9"], vec![])]).await;
    sent(&world, &request(&[chat(10, 1, &["u9", "a10"], vec![])])).await;
    assert_eq!(told(&world, 4).await, ["a1", "a10", "a2", "a9"]);
    for (_, event) in &log[2..] {
        let said = world.said.lock().unwrap().clone();
        let of_it = said.iter().filter(|text| text.contains(&format!("event {} is damaged", event.id))).count();
        assert_eq!(of_it, 1, "{said:?}");
    }
    world.stop_and_wait().await;
}

#[tokio::test]
async fn bad_spans_are_named_and_the_good_ones_kept() {
    let world = world().await;
    let mut bad = chat(1, 2, &["u2", "a2"], vec![]);
    bad["spanId"] = json!("00");
    let body = request(&[chat(1, 1, &["u1", "a1"], vec![]), bad]);
    let told = sent(&world, &body).await;
    assert_eq!(told["partialSuccess"]["rejectedSpans"], "1");
    let why = told["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert_eq!(why, "resourceSpans[0].scopeSpans[0].spans[1].spanId: must be 16 hexadecimal digits that are not all zero");
    let (status, form, answer) = send(&world, PATH, Message::Request.write(&body), &[PROTOBUF]).await;
    assert_eq!((status, form.as_str()), (200, "application/x-protobuf"));
    assert_eq!(Message::Response.read(&answer).unwrap()["partialSuccess"]["rejectedSpans"], "1");
    assert_eq!(answers(&world.trace_of(1).await), ["a1"]);
    let counters = world.get("/metrics", &[]).await.body;
    assert!(
        counters.contains("hone_spans_total{status=\"kept\"} 2") && counters.contains("hone_spans_total{status=\"refused\"} 2")
    );
}

/// An attribute of lists in lists.
pub(crate) fn deep(n_levels: usize) -> Value {
    let list = |inner: Value| json!({"arrayValue": {"values": [inner]}});
    json!({"key": "deep", "value": (0..n_levels).fold(json!({"stringValue": "x"}), |inner, _| list(inner))})
}

#[tokio::test]
async fn a_span_that_nests_too_deep_is_named_and_the_others_kept() {
    let world = world().await;
    let mut n_refused = 0;
    // The deepest is more than JSON is read to.
    for n_levels in [19, 20, 30, 200] {
        let body = request(&[
            chat(1, 1, &["u1", "a1"], vec![deep(18)]),
            chat(1, 2, &["u2", "a2"], vec![deep(n_levels)]),
            chat(1, 3, &["u1", "a1", "u3", "a3"], vec![]),
        ]);
        let told = sent(&world, &body).await;
        assert_eq!(told["partialSuccess"]["rejectedSpans"], "1", "{n_levels}: {told}");
        let why = told["partialSuccess"]["errorMessage"].as_str().unwrap();
        assert_eq!(why, "resourceSpans[0].scopeSpans[0].spans[1]: lists and objects are nested deeper than 64 levels");
        let (status, _, answer) = send(&world, PATH, Message::Request.write(&body), &[PROTOBUF]).await;
        let told = Message::Response.read(&answer).unwrap();
        assert_eq!((status, &told["partialSuccess"]["errorMessage"]), (200, &json!(why)), "{n_levels}");
        n_refused += 2;
    }
    assert_eq!(answers(&world.trace_of(2).await), ["a1", "a3"]);
    let counters = world.get("/metrics", &[]).await.body;
    assert!(counters.contains(&format!("hone_spans_total{{status=\"refused\"}} {n_refused}")), "{counters}");
}

#[tokio::test]
async fn spans_of_a_place_that_nests_too_deep_are_counted_and_the_others_kept() {
    for (pointer, place, n_refused) in
        [("/resource/attributes", "resourceSpans[0]", 3), ("/scopeSpans/1/scope/attributes", "resourceSpans[0].scopeSpans[1]", 1)]
    {
        for form in [JSON, PROTOBUF] {
            let world = world().await;
            let mut body = request(&[chat(1, 1, &["u1", "a1"], vec![]), chat(1, 2, &["u1", "a1", "u2", "a2"], vec![])]);
            let scopes = body["resourceSpans"][0]["scopeSpans"].as_array_mut().unwrap();
            scopes.push(json!({"scope": {"attributes": []}, "spans": [chat(1, 3, &["u3", "a3"], vec![])]}));
            body["resourceSpans"][0]["resource"]["attributes"] = json!([]);
            *body["resourceSpans"][0].pointer_mut(pointer).unwrap() = json!([deep(200)]);
            let good = request(&[chat(2, 4, &["u4", "a4"], vec![])])["resourceSpans"][0].clone();
            body["resourceSpans"].as_array_mut().unwrap().push(good);
            let is_json = form == JSON;
            let bytes = if is_json { body.to_string().into_bytes() } else { Message::Request.write(&body) };
            let (status, _, answer) = send(&world, PATH, bytes, &[form]).await;
            let told = if is_json { serde_json::from_slice(&answer).unwrap() } else { Message::Response.read(&answer).unwrap() };
            let told: &Value = &told["partialSuccess"];
            assert_eq!((status, &told["rejectedSpans"]), (200, &json!(n_refused.to_string())), "{place}: {told}");
            let why = format!("{place}: lists and objects are nested deeper than 64 levels");
            assert_eq!(told["errorMessage"], why, "it is told once");
            let counters = world.get("/metrics", &[]).await.body;
            assert!(counters.contains(&format!("hone_spans_total{{status=\"kept\"}} {}", 4 - n_refused)), "{counters}");
        }
    }
}

#[tokio::test]
async fn garbage_is_refused_in_its_own_encoding_and_nothing_is_kept() {
    let world = world().await;
    let gzip = ("content-encoding", "gzip");
    let message = |answer: &[u8]| Message::Status.read(answer).unwrap()["message"].as_str().unwrap().to_owned();
    let cut = &GENAI[..GENAI.len() / 2];
    for body in [b"garbage".as_slice(), cut, &[0xff; 100]] {
        let (status, form, answer) = send(&world, PATH, body.to_vec(), &[PROTOBUF]).await;
        assert_eq!((status, form.as_str()), (400, "application/x-protobuf"));
        assert!(!message(&answer).is_empty());
    }
    let (status, _, answer) = send(&world, PATH, b"no gzip".to_vec(), &[PROTOBUF, gzip]).await;
    assert_eq!((status, message(&answer).contains("gzip")), (400, true));
    for (body, why) in
        [("{", "EOF"), ("[]", "object"), (r#"{"resourceSpans":7}"#, "must be a list"), (&"[".repeat(10_000), "nested")]
    {
        let (status, form, answer) = send(&world, PATH, body.to_owned(), &[JSON]).await;
        let told: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((status, form.as_str()), (400, "application/json"));
        assert!(told["message"].as_str().unwrap().contains(why), "{body}: {told}");
    }
    for headers in [&[][..], &[("content-type", "text/plain")], &[JSON, ("content-encoding", "br")]] {
        assert_eq!(send(&world, PATH, "{}", headers).await.0, 415, "{headers:?}");
    }
    assert_eq!(sent(&world, &json!({})).await, json!({}), "nothing to say is no mistake");
    assert_eq!(world.get(PATH, &[]).await.status, 405);
    assert!(world.store.events(Some("otlp"), 0, 10).await.unwrap().is_empty() && world.traces().await.is_empty());
}

#[tokio::test]
async fn a_bomb_is_refused_and_so_is_what_is_too_large() {
    let limits = Limits { body_bytes_max: 1 << 20, ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let bomb = packed(&vec![b' '; 512 << 20]);
    assert!(bomb.len() < 1 << 20, "{} bytes become half a gigabyte", bomb.len());
    let (status, _, answer) = send(&world, PATH, bomb, &[PROTOBUF, ("content-encoding", "gzip")]).await;
    assert_eq!(
        (status, Message::Status.read(&answer).unwrap()["message"].clone()),
        (413, json!("the body has more than 1048576 bytes"))
    );
    assert_eq!(send(&world, PATH, vec![0; 2 << 20], &[PROTOBUF]).await.0, 413);
}

#[tokio::test]
async fn spans_belong_to_the_tenant_of_the_key_whatever_they_say() {
    let identity = |name: &str| Identity {
        tenant: Tenant::new(name).unwrap(),
        role: Role::Call,
        name: name.into(),
        requests_per_minute: None,
    };
    let keys = [(Token::of("sk-one"), identity("one")), (Token::of("sk-two"), identity("two"))];
    let limits = Limits { spans_wait_ms: 200, ..Limits::default() };
    let world = World::with(Access::keys(keys).unwrap(), limits).await;
    let more = vec![attribute("tenant", "two"), attribute("session.id", "the same")];
    let body = request(&[chat(1, 1, &["u1", "a1"], more)]).to_string();
    // `pk-lf:sk-one` and `pk-lf:sk-two`, as exporters that are set up for Langfuse say it.
    for authorization in ["Bearer sk-one", "Basic cGstbGY6c2stb25l", "Basic cGstbGY6c2stdHdv"] {
        let headers = [JSON, ("authorization", authorization)];
        assert_eq!(send(&world, "/api/public/otel/v1/traces", body.clone(), &headers).await.0, 200, "{authorization}");
    }
    let (status, form, answer) = send(&world, PATH, GENAI, &[PROTOBUF, ("authorization", "Bearer sk-three")]).await;
    assert_eq!((status, form.as_str()), (401, "application/x-protobuf"));
    assert_eq!(Message::Status.read(&answer).unwrap()["message"], "the API key is missing or not known");
    for _ in 0..200 {
        if world.traces().await.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut tenants: Vec<String> = world.traces().await.iter().map(|trace| trace.tenant.to_string()).collect();
    tenants.sort();
    assert_eq!(tenants, ["one", "two"]);
}

#[tokio::test]
async fn what_was_exported_comes_in_again_as_the_same_conversation() {
    let world = world().await;
    world.chat("well", &[("system", "be kind"), ("user", "one")], &[]).await;
    world.chat("well", &[("system", "be kind"), ("user", "one"), ("assistant", "answer 1"), ("user", "two")], &[]).await;
    world.chat("broken", &[("user", "three")], &[("x-hone-episode", "failed")]).await;
    let recorded = world.traces().await;
    let other = self::world().await;
    for (n, trace) in recorded.iter().enumerate() {
        let exported = hone_trace::format::otlp::request(trace);
        let (body, form) = match n {
            0 => (Message::Request.write(&exported), PROTOBUF),
            _ => (exported.to_string().into_bytes(), JSON),
        };
        assert_eq!(send(&other, PATH, body, &[form]).await.0, 200);
    }
    for _ in 0..200 {
        if other.traces().await.len() == recorded.len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut found: Vec<Value> = other.traces().await.iter().map(conversation).collect();
    let mut expected: Vec<Value> = recorded.iter().map(conversation).collect();
    found.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    assert_eq!(found, expected);
}

/// What was said in a trace, by which model, and how it went.
fn conversation(trace: &Trace) -> Value {
    let message = |message: &hone_trace::Message| json!([message.role, message.content.text()]);
    let turns = trace.turns().map(|turn| {
        json!({
            "input": turn.input.iter().map(message).collect::<Vec<_>>(),
            "answer": message(&turn.answer),
            "started": turn.started,
            "models": turn.llm_calls.iter().map(|call| (&call.model, call.tokens_in, call.tokens_out)).collect::<Vec<_>>(),
            "errors": turn.errors.iter().map(|error| &error.message).collect::<Vec<_>>(),
        })
    });
    turns.collect()
}
