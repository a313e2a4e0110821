//! `hone trace export --to`: spans to a collector, which may be another hone, be busy, or refuse some.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::Desk;
use super::serve::Listening;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

const CHAT: &str = r#"{"messages":[{"role":"system","content":"You are a desk agent."},{"role":"user","content":"Where is order 7?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find_order","arguments":"{\"id\":7}"}}]},{"role":"tool","tool_call_id":"c1","content":"shipped"},{"role":"assistant","content":"It is on its way."}],"tools":[{"type":"function","function":{"name":"find_order","parameters":{"type":"object"}}}]}
{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}
"#;

/// What must never be shown.
const CANARY: &str = "sk-canary-0123456789";

fn desk() -> Desk {
    let desk = Desk::with(&[("chat.jsonl", CHAT)]);
    desk.hone("trace import chat.jsonl").expect(0, "", "2 new");
    desk
}

/// A collector that gives these answers, one after the other, and then says what it heard.
fn collector(answers: &[(&str, &str)]) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers: Vec<(String, String)> = answers.iter().map(|(head, body)| ((*head).to_owned(), (*body).to_owned())).collect();
    let answering = std::thread::spawn(move || {
        let answered = answers.into_iter().map(|(head, body)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = Vec::new();
            let mut chunk = [0; 4096];
            let is_whole = |heard: &[u8]| {
                let text = String::from_utf8_lossy(heard).into_owned();
                let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
                let len: usize = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
                heard.len() >= head.len() + 4 + len
            };
            while !is_whole(&heard) {
                let n = stream.read(&mut chunk).unwrap();
                heard.extend_from_slice(&chunk[..n]);
            }
            write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
            String::from_utf8_lossy(&heard).into_owned()
        });
        answered.collect()
    });
    (port, answering)
}

/// What was said in each trace: roles, texts and tool calls, and the tools on offer.
fn conversations(desk: &Desk, line: &str) -> Vec<String> {
    let said = |trace: &Value| {
        let segments = trace["segments"].as_array().unwrap();
        let turns = segments.iter().flat_map(|segment| segment["turns"].as_array().unwrap());
        let messages = turns
            .flat_map(|turn| turn["input"].as_array().cloned().unwrap_or_default().into_iter().chain([turn["answer"].clone()]));
        let call = |call: &Value| json!([call["id"], call["name"], call["arguments"].as_str().map(|text| text.replace(' ', ""))]);
        let calls = |message: &Value| message["tool_calls"].as_array().into_iter().flatten().map(call).collect::<Value>();
        let messages =
            messages.map(|message| json!([message["role"], message["content"], calls(&message), message["tool_call_id"]]));
        let tools: Value = segments.iter().map(|segment| segment["tools"][0]["name"].clone()).collect();
        json!([messages.collect::<Value>(), tools]).to_string()
    };
    let mut found: Vec<String> = desk.hone(line).json().iter().map(said).collect();
    found.sort();
    found
}

#[test]
fn another_hone_takes_what_is_sent_and_has_the_same_conversations() {
    for encoding in ["protobuf", "json"] {
        let desk = desk();
        let mut served = Listening::start(&desk, "serve --folder other --address 127.0.0.1:0 --model m=http://127.0.0.1:9/v1#m");
        let to = format!("trace export --to http://127.0.0.1:{} --encoding {encoding}", served.port);
        let said = format!("2 traces sent to http://127.0.0.1:{}/v1/traces as 3 spans, 3 accepted", served.port);
        for _ in 0..2 {
            desk.hone(&to).expect(0, "", &said);
        }
        served.signal("-TERM");
        assert_eq!(served.child.wait().unwrap().code(), Some(0));
        let here = conversations(&desk, "trace export");
        assert_eq!((here.len(), conversations(&desk, "trace export --folder other")), (2, here), "{encoding}");
    }
}

#[test]
fn a_busy_collector_is_asked_again_and_what_it_refuses_is_told() {
    let desk = desk();
    let partial = r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"one is too old"}}"#;
    let (port, answering) =
        collector(&[("503 Busy\r\nretry-after: 1", ""), ("429 Slowly\r\nretry-after: 0", ""), ("200 OK", partial)]);
    let to = format!("http://127.0.0.1:{port}/otel?x=1");
    let line = format!("trace export --to {to} --encoding json --header x-key={CANARY} --header x-team=desk");
    let ended = desk.hone(&line).expect(1, "", &format!("2 traces sent to {to} as 3 spans, 2 accepted"));
    assert!(ended.err.contains("one is too old") && !ended.err.contains(CANARY), "{}", ended.err);
    let heard = answering.join().unwrap();
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|heard| heard.starts_with("POST /otel?x=1 ") && heard.contains("It is on its way.")));
    assert!(heard[2].contains(&format!("x-key: {CANARY}")) && heard[2].contains("x-team: desk"));
    let (port, answering) = collector(&[("200 OK", "")]);
    let ended = desk.hone(&format!("trace export --to http://127.0.0.1:{port} --json")).expect(0, "{", "");
    let summary = &ended.json()[0];
    assert_eq!(
        (summary["traces"].clone(), summary["spans"].clone(), summary["accepted"].clone()),
        (json!(2), json!(3), json!(3))
    );
    assert!(answering.join().unwrap()[0].contains("content-type: application/x-protobuf"));
}

#[test]
fn a_collector_that_refuses_is_not_asked_again_and_keeps_no_secret() {
    let desk = desk();
    let (port, answering) = collector(&[("401 No", &format!(r#"{{"message":"the key {CANARY} is not known"}}"#))]);
    let line = format!("trace export --to http://user:{CANARY}@127.0.0.1:{port} --encoding json --header authorization={CANARY}");
    let ended = desk.hone(&line).expect(2, "", "took nothing: it answers 401 Unauthorized: the key *** is not known");
    assert!(!ended.err.contains(CANARY), "{}", ended.err);
    assert_eq!(answering.join().unwrap().len(), 1);
    let (port, answering) = collector(&[("302 There\r\nlocation: http://127.0.0.1:1/", "")]);
    desk.hone(&format!("trace export --to http://127.0.0.1:{port} --header authorization={CANARY}")).expect(
        2,
        "",
        "it answers 302",
    );
    assert_eq!(answering.join().unwrap().len(), 1, "a header goes nowhere else");
}

#[test]
fn what_cannot_be_sent_is_said_before_anything_is() {
    let desk = desk();
    for (line, why) in [
        ("--to ftp://x", "--to ftp://x is not an address"),
        ("--to nowhere", "is not an address"),
        ("--to http://127.0.0.1:1 --format openai", "a collector takes spans, and --format openai is something else"),
        ("--to http://127.0.0.1:1 --output x", "cannot be used with"),
        ("--header a=b", "--to <URL>"),
        ("--encoding json", "--to <URL>"),
    ] {
        desk.hone(&format!("trace export {line}")).expect(2, "", why);
    }
    let ended = desk.hone(&format!("trace export --to http://127.0.0.1:1 --header {CANARY}")).expect(
        2,
        "",
        "--header …=… is not a header",
    );
    assert!(!ended.err.contains(CANARY), "{}", ended.err);
}

#[test]
fn an_answer_that_no_collector_gives_is_an_error() {
    let desk = desk();
    for (encoding, page) in
        [("protobuf", "<html>login</html>"), ("json", "<html>login</html>"), ("json", "[]"), ("protobuf", "ok")]
    {
        let (port, answering) = collector(&[("200 OK", page)]);
        let line = format!("trace export --to http://127.0.0.1:{port} --encoding {encoding}");
        desk.hone(&line).expect(2, "", &format!("something else than OTLP: {page}"));
        answering.join().unwrap();
    }
    let (port, answering) = collector(&[("200 OK", "{}")]);
    desk.hone(&format!("trace export --to http://127.0.0.1:{port}")).expect(0, "", "3 accepted");
    answering.join().unwrap();
}
