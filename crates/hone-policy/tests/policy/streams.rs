//! Streams of each format, put together; pieces as they come; tokens turn by turn.

use crate::server::{Play, Server, bytes, refusal, sse};
use crate::table::bedrock::frame;
use crate::wire::line;
use crate::{RUNTIME, client, options};
use hone_policy::upstream::{
    Budget, ChatRequest, ClientOptions, Delta, Endpoint, Label, Price, Reply, Retry, Sampling, Upstream,
};
use hone_trace::policy::{AnswerLimits, Opening, Policy, PolicyErrorKind};
use hone_trace::{Message, Role};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Expects the pieces (thoughts in brackets, calls as `call_idx:name arguments`) and the whole answer.
fn check(format: &str, stream: &str, has_schema: bool, pieces: &[&str], whole: &str) {
    check_played(format, bytes("text/event-stream", stream.as_bytes()), has_schema, pieces, whole);
}

fn check_played(format: &str, play: Play, has_schema: bool, pieces: &[&str], whole: &str) {
    let server = Server::playing(vec![play]);
    let client = client(&server, format, options());
    let (schema, name) = (has_schema.then(|| json!({"type": "object"})), Some("invoice".to_owned()));
    let request = ChatRequest { schema, label: Label { name, ..Label::default() }, tokens_max: 9, ..ChatRequest::default() };
    let (found, told, completion) = RUNTIME.block_on(async {
        let mut streaming = client.stream(&request).await.unwrap();
        let (mut found, mut told) = (Vec::new(), BTreeMap::<usize, (String, String, Map<String, Value>)>::new());
        while let Some(piece) = streaming.next().await.unwrap() {
            if let Delta::ToolCall { call_idx, id, arguments, extra, .. } = &piece {
                let call = told.entry(*call_idx).or_default();
                call.0.push_str(id.as_deref().unwrap_or_default());
                call.1.push_str(arguments);
                call.2.extend(extra.clone());
            }
            found.push(match piece {
                Delta::Text(text) => text,
                Delta::Reasoning(text) => format!("({text})"),
                Delta::ToolCall { call_idx, name, arguments, .. } => {
                    format!("{call_idx}:{} {arguments}", name.unwrap_or_default())
                }
                Delta::Event(data) => panic!("nothing was passed on, but {data} came as it is"),
            });
        }
        (found, told, streaming.finish().await)
    });
    assert_eq!(found, pieces);
    let completion = completion.unwrap();
    let recorded = completion.reply.message.tool_calls.iter();
    let recorded = recorded.map(|call| (call.id.clone(), call.arguments.clone(), call.extra.clone()));
    assert_eq!(told.into_values().collect::<Vec<_>>(), recorded.collect::<Vec<_>>(), "what is told is what is recorded");
    assert_eq!(line(&completion.reply), whole);
    assert_eq!(completion.calls.len(), 1);
    // Asked for a whole answer, the same stream gives the same.
    assert_eq!(RUNTIME.block_on(client.complete(&request)).unwrap().reply, completion.reply);
}

#[test]
fn openai_streams() {
    let stream = r#": keep alive

data: {"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}

data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}

data: {"choices":[{"delta":{"content":"so"}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"id":"b","function":{"name":"g"}}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":null,"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}}

data: [DONE]

"#;
    let pieces = ["(hm)", "so", "0:f ", "0: {\"x\":", "0: 1}", "1:g ", "1: {}"];
    let whole = r#""so" (hm) a:f{"x":1} b:g{} ToolCalls 9/4/2/0"#;
    check("openai", stream, false, &pieces, whole);
    // Some servers close the connection instead of the last word, or leave out the empty line behind it.
    check("openai", stream.strip_suffix("data: [DONE]\n\n").unwrap(), false, &pieces, whole);
    check("openai", stream.strip_suffix('\n').unwrap(), false, &pieces, whole);
}

/// A stream of OpenAI's format: what the choice says in each event, then why it ends.
fn chunks(deltas: &[Value], reason: &str) -> String {
    let chunk = |delta: &Value, reason: Value| json!({"id": "r", "choices": [{"delta": delta, "finish_reason": reason}]});
    let mut events: Vec<String> = deltas.iter().map(|delta| chunk(delta, Value::Null).to_string()).collect();
    events.extend([chunk(&json!({}), reason.into()).to_string(), "[DONE]".to_owned()]);
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// Pieces of calls: which, its name, more arguments.
fn calls(pieces: &[(u64, Option<&str>, &str)]) -> Value {
    let call = |(idx, name, arguments): &(u64, Option<&str>, &str)| match name {
        Some(name) => json!({"index": idx, "function": {"name": name, "arguments": arguments}}),
        None => json!({"index": idx, "function": {"arguments": arguments}}),
    };
    json!({"tool_calls": pieces.iter().map(call).collect::<Value>()})
}

#[test]
fn calls_without_ids_or_arguments_are_told_whole() {
    let check_pieces = |stream: &str, pieces: &[&str], whole: &str| check("openai", stream, false, pieces, whole);
    let check = |deltas: &[Value], pieces: &[&str], whole: &str| {
        check_pieces(&chunks(deltas, "tool_calls"), pieces, &format!("{whole} ToolCalls"));
    };
    // What follows a call without arguments waits until it is known that there are none.
    let (opened, next) = (calls(&[(0, Some("f"), "")]), calls(&[(1, Some("g"), "{\"x\":1}")]));
    check(&[opened.clone(), next], &["0:f ", "0: {}", "1:g {\"x\":1}"], r#""" call_0:f{} call_1:g{"x":1}"#);
    let late = [calls(&[(0, Some("f"), ""), (1, Some("g"), "")]), calls(&[(1, None, "{}"), (0, None, "{ }")])];
    check(&late, &["0:f ", "0: { }", "1:g ", "1: {}"], r#""" call_0:f{ } call_1:g{}"#);
    check(&[opened, json!({"content": "so"})], &["0:f ", "0: {}", "so"], r#""so" call_0:f{}"#);
    // Some servers say "" until they have a reason, and some never have one.
    let early = chunks(&[calls(&[(0, Some("f"), "")]), calls(&[(0, Some("f"), "{ }")])], "tool_calls");
    let early = early.replace(r#""finish_reason":null"#, r#""finish_reason":"""#);
    check_pieces(&early, &["0:f ", "0: { }"], r#""" call_0:f{ } ToolCalls"#);
    let never = chunks(&[calls(&[(0, Some("f"), "")])], "");
    check_pieces(&never, &["0:f ", "0: {}"], r#""" call_0:f{} ToolCalls"#);
    // The older form, to who did not ask in it.
    let older = [json!({"function_call": {"name": "f", "arguments": ""}}), json!({"function_call": {"arguments": "{}"}})];
    check(&older, &["0:f ", "0: {}"], r#""" call_0:f{}"#);
}

#[test]
fn calls_that_come_in_turns_are_told_one_after_the_other() {
    let check = |deltas: &[Value], pieces: &[&str], whole: &str| {
        check("openai", &chunks(deltas, "tool_calls"), false, pieces, &format!("{whole} ToolCalls"));
    };
    let (first, second) = (calls(&[(0, Some("f"), "{\"a\":")]), calls(&[(1, Some("g"), "{\"b\":")]));
    let said = json!({"content": "so"});
    let turns =
        [first.clone(), second.clone(), said.clone(), calls(&[(0, None, "{}}"), (1, None, "{")]), calls(&[(1, None, "}}")])];
    let pieces = ["0:f {\"a\":", "0: {}}", "1:g {\"b\":", "1: {", "1: }}", "so"];
    check(&turns, &pieces, r#""so" call_0:f{"a":{}} call_1:g{"b":{}}"#);
    // What waits behind a call that is never whole is told at the end, and what comes after a whole one at once.
    let broken = [first, second, said.clone(), calls(&[(0, None, "1")])];
    check(&broken, &["0:f {\"a\":", "0: 1", "1:g {\"b\":", "so"], r#""so" call_0:f{"a":1 call_1:g{"b":"#);
    let late = [calls(&[(0, Some("f"), "{}"), (1, Some("g"), "{}")]), calls(&[(0, None, " ")]), said];
    check(&late, &["0:f {}", "1:g {}", "0:  ", "so"], r#""so" call_0:f{}  call_1:g{}"#);
}

#[test]
fn calls_that_share_an_index_are_told_apart_by_their_ids() {
    let piece = |index: u64, id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "function": function}]})
    };
    let deltas = [
        piece(0, "a", "f", "{\"x\":"),
        piece(0, "a", "f", "0}"),
        piece(0, "b", "f", "{\"x\""),
        piece(0, "", "", ":1}"),
        piece(1, "c", "g", "{}"),
    ];
    let stream = chunks(&deltas, "tool_calls");
    let whole = r#""" a:f{"x":0} b:f{"x":1} c:g{} ToolCalls"#;
    check("openai", &stream, false, &["0:f {\"x\":", "0: 0}", "1:f {\"x\"", "1: :1}", "2:g {}"], whole);
    let (events, reply) = passed_on("openai", &stream);
    let told = events[..5].iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
    let indices: Value = told.map(|event| event["choices"][0]["delta"]["tool_calls"][0]["index"].clone()).collect();
    assert_eq!(indices, json!([0, 0, 1, 1, 2]), "who is passed the events can tell, too");
    assert_eq!(line(&reply), whole);
    // One that has a new id in every piece is still one.
    let renamed = [piece(0, "a", "f", "{\"x\":"), piece(0, "b", "f", "0}"), piece(0, "c", "", "")];
    check("openai", &chunks(&renamed, "tool_calls"), false, &["0:f {\"x\":", "0: 0}", "0: "], r#""" a:f{"x":0} ToolCalls"#);
}

#[test]
fn a_refusal_is_told_as_it_comes() {
    let stream = chunks(&[json!({"refusal": "I can"}), json!({"refusal": "not"})], "stop");
    check("openai", &stream, false, &["I can", "not"], r#""I cannot" Filtered"#);
}

/// The events that are passed on, and the whole answer.
fn passed_on(format: &str, stream: &str) -> (Vec<String>, Reply) {
    let server = Server::playing(vec![bytes("text/event-stream", stream.as_bytes())]);
    let client = client(&server, format, options());
    let request = ChatRequest { body: Some(Map::new()), ..ChatRequest::default() };
    RUNTIME.block_on(async {
        let mut streaming = client.stream(&request).await.unwrap();
        let mut events = Vec::new();
        while let Some(piece) = streaming.next().await.unwrap() {
            let Delta::Event(data) = piece else { panic!("{piece:?} was not passed on") };
            events.push(data);
        }
        (events, streaming.finish().await.unwrap().reply)
    })
}

#[test]
fn what_is_passed_on_lacks_nothing() {
    let (events, reply) = passed_on("openai", &chunks(&[calls(&[(0, Some("f"), "")])], "tool_calls"));
    let told: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let pieces: Vec<&Value> = told.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]).collect();
    let [call] = &reply.message.tool_calls[..] else { panic!("no call") };
    assert_eq!((&pieces[0]["id"], call.arguments.as_str()), (&json!(call.id), "{}"));
    assert_eq!(pieces[1], &json!({"index": 0, "function": {"arguments": "{}"}}));
    // Where nothing is missing, every byte stays.
    let whole = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]});
    let stream = chunks(&[whole, json!({"function_call": {"name": "g", "arguments": "{}"}})], "tool_calls");
    let (events, reply) = passed_on("openai", &stream);
    let came: Vec<&str> =
        stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]").collect();
    assert_eq!(events, came);
    assert_eq!(line(&reply), r#""" a:f{} :g{} ToolCalls"#);
}

/// A stream of Anthropic's blocks: how each begins, and its pieces.
fn blocks(blocks: &[(Value, &[Value])], reason: &str) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}})];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[test]
fn blocks_of_text_stand_apart_and_calls_without_input_say_so() {
    let text = |text: &str| json!({"type": "text_delta", "text": text});
    let call = |input: Value| json!({"type": "tool_use", "id": "a", "name": "f", "input": input});
    let empty = || json!({"type": "text", "text": ""});
    let silent = [json!({"type": "input_json_delta", "partial_json": ""})];
    let said = [text("b"), text("c")];
    let stream = blocks(&[(empty(), &[text("a")]), (empty(), &said), (call(json!({})), &silent)], "tool_use");
    let pieces = ["a", "\n\nb", "c", "0:f ", "0: ", "0: {}"];
    check("anthropic", &stream, false, &pieces, r#""a\n\nbc" a:f{} ToolCalls 5/2/0/0"#);
    let (events, reply) = passed_on("anthropic", &stream);
    let came: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(
        (events, reply.message.content.text().as_str()),
        (came.iter().map(|data| (*data).to_owned()).collect(), "a\n\nbc")
    );
    let stream = blocks(&[(call(json!({"x": 1})), &[])], "tool_use");
    check("anthropic", &stream, false, &["0:f ", "0: {\"x\":1}"], r#""" a:f{"x":1} ToolCalls 5/2/0/0"#);
}

#[test]
fn plain_texts_come_whole_or_not_at_all() {
    let body = json!({"prompt": ["a", "b"], "n": 1});
    let request = ChatRequest { body: body.as_object().cloned(), endpoint: Endpoint::Completions, ..ChatRequest::default() };
    let check = |stream: &str, expected: Result<&str, &str>| {
        let server = Server::playing(vec![bytes("text/event-stream", stream.as_bytes())]);
        let client =
            client(&server, "openai", ClientOptions { retry: Retry { n_attempts_max: 1, ..Retry::default() }, ..options() });
        let found = RUNTIME.block_on(client.complete(&request)).map(|completion| {
            let reply = completion.reply;
            let others = reply.others.iter().map(|choice| format!(" | {} {:?}", choice.message.content.text(), choice.finish));
            line(&reply) + &others.collect::<String>()
        });
        assert_eq!(found.as_deref().map_err(|error| error.message.as_str()), expected, "{stream}");
        assert_eq!(server.seen()[0].path(), "/v1/completions");
    };
    let pieces = r#"data: {"model":"m","choices":[{"index":1,"text":"no","finish_reason":"length"}]}

data: {"choices":[{"index":0,"text":"y","finish_reason":null},{"index":0,"text":"es","finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}

"#;
    let whole = Ok(r#""yes" Stop 2/3/0/0 | no Length"#);
    check(&format!("{pieces}data: [DONE]\n\n"), whole);
    check(pieces, whole);
    let half = pieces.replace("\"stop\"", "null");
    let cut_off = Err("the stream was cut off before its finish reason and [DONE]");
    check(&half, cut_off);
    check(pieces.split_once("\n\n").unwrap().1, cut_off);
    check(&format!("{half}data: [DONE]\n\n"), Err("the answer has no finish reason"));
}

#[test]
fn anthropic_streams() {
    let stream = r#"event: message_start
data: {"type":"message_start","message":{"id":"x","model":"claude","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":4,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"ping"}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"so"}}

data: {"type":"content_block_stop","index":1}

data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"NAME","input":{}}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}

data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}

data: {"type":"content_block_stop","index":2}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}

data: {"type":"message_stop"}

"#;
    let called = stream.replace("NAME", "f");
    check(
        "anthropic",
        &called,
        false,
        &["(hm)", "so", "0:f ", "0: {\"x\":", "0: 1}"],
        r#""so" (hm) a:f{"x":1} ToolCalls 9/15/4/0"#,
    );
    let answered = stream.replace("NAME", "invoice");
    check("anthropic", &answered, true, &["(hm)", "so", "{\"x\":", "1}"], r#""so{\"x\":1}" (hm) Stop 9/15/4/0"#);
}

#[test]
fn gemini_streams() {
    let stream = r#"data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"}}],"usageMetadata":{"promptTokenCount":9},"modelVersion":"g"}

data: {"candidates":[{"content":{"parts":[{"text":"so"}]}}]}

data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"s"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"thoughtsTokenCount":2}}

"#;
    check("gemini", stream, false, &["(hm)", "so", "0:f {\"x\":1}"], r#""so" (hm) call_0:f{"x":1} ToolCalls 9/5/0/0/2 thought"#);
}

#[test]
fn cohere_streams() {
    let stream = r#"event: message-start
data: {"id":"m","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[]}}}

event: content-start
data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":""}}}}

data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":"hm"}}}}

data: {"type":"content-end","index":0}

data: {"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"so"}}}}

data: {"type":"tool-plan-delta","delta":{"message":{"tool_plan":", find"}}}

data: {"type":"tool-call-start","index":2,"delta":{"message":{"tool_calls":{"id":"a","type":"function","function":{"name":"f","arguments":""}}}}}

data: {"type":"tool-call-start","index":3,"delta":{"message":{"tool_calls":{"id":"b","type":"function","function":{"name":"g","arguments":""}}}}}

data: {"type":"tool-call-delta","index":2,"delta":{"message":{"tool_calls":{"function":{"arguments":"{\"x\":"}}}}}

data: {"type":"tool-call-delta","index":2,"delta":{"message":{"tool_calls":{"function":{"arguments":"1}"}}}}}

data: {"type":"tool-call-end","index":2}

data: {"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"billed_units":{"input_tokens":9,"output_tokens":4},"tokens":{"input_tokens":90,"output_tokens":4}}}}

"#;
    let pieces = ["(hm)", "so", "(, find)", "0:f ", "1:g ", "0: {\"x\":", "0: 1}", "1: {}"];
    check("cohere", stream, false, &pieces, r#""so" (hm, find) a:f{"x":1} b:g{} ToolCalls 9/4/0/0"#);
}

/// A stream of frames: kinds of events and what they carry.
fn frames(events: &[(&str, Value)]) -> Play {
    let frames: Vec<u8> = events.iter().flat_map(|(kind, event)| frame("event", kind, event)).collect();
    bytes("application/vnd.amazon.eventstream", &frames)
}

fn delta(idx: u64, delta: &Value) -> (&'static str, Value) {
    ("contentBlockDelta", json!({"contentBlockIndex": idx, "delta": delta}))
}

#[test]
fn bedrock_streams() {
    let stream = |name: &str| {
        frames(&[
            ("messageStart", json!({"role": "assistant"})),
            delta(0, &json!({"reasoningContent": {"text": "hm"}})),
            delta(0, &json!({"reasoningContent": {"signature": "sig"}})),
            ("contentBlockStop", json!({"contentBlockIndex": 0})),
            delta(1, &json!({"text": "so"})),
            ("contentBlockStart", json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "a", "name": name}}})),
            delta(2, &json!({"toolUse": {"input": "{\"x\":"}})),
            delta(2, &json!({"toolUse": {"input": "1}"}})),
            ("messageStop", json!({"stopReason": "tool_use"})),
            ("metadata", json!({"usage": {"inputTokens": 5, "outputTokens": 15, "cacheReadInputTokens": 4}})),
        ])
    };
    let called = ["(hm)", "so", "0:f ", "0: {\"x\":", "0: 1}"];
    check_played("bedrock", stream("f"), false, &called, r#""so" (hm) a:f{"x":1} ToolCalls 9/15/4/0"#);
    let answered = ["(hm)", "so", "{\"x\":", "1}"];
    check_played("bedrock", stream("invoice"), true, &answered, r#""so{\"x\":1}" (hm) Stop 9/15/4/0"#);
    let silent = frames(&[
        ("contentBlockStart", json!({"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "a", "name": "f"}}})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        ("messageStop", json!({"stopReason": "tool_use"})),
    ]);
    check_played("bedrock", silent, false, &["0:f ", "0: {}"], r#""" a:f{} ToolCalls"#);
    // A tool of the provider's own is not called here.
    let own = json!({"toolUse": {"toolUseId": "a", "name": "search", "type": "server_tool_use"}});
    let searched = frames(&[
        ("contentBlockStart", json!({"contentBlockIndex": 0, "start": own})),
        delta(0, &json!({"toolUse": {"input": "{}"}})),
        delta(1, &json!({"text": "so"})),
        ("messageStop", json!({"stopReason": "end_turn"})),
        ("metadata", json!({"usage": {"inputTokens": 5, "outputTokens": 2}})),
    ]);
    check_played("bedrock", searched, false, &["so"], r#""so" Stop 5/2/0/0"#);
    // The answer is whole with its stop reason; the usage is then not told.
    let untold = frames(&[delta(0, &json!({"text": "so"})), ("messageStop", json!({"stopReason": "end_turn"}))]);
    check_played("bedrock", untold, false, &["so"], r#""so" Stop"#);
}

/// The error of a stream, after its pieces.
fn broken(format: &str, events: &[&str]) -> String {
    broken_play(format, Play::Say(sse(events)))
}

fn broken_play(format: &str, play: Play) -> String {
    let server = Server::playing(vec![play]);
    let client = client(&server, format, ClientOptions { transfer: Default::default(), ..options() });
    let error = RUNTIME.block_on(client.complete(&ChatRequest::default())).unwrap_err();
    assert_eq!(error.calls.len(), 3, "tried again");
    error.message
}

#[test]
fn streams_that_are_not_whole() {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#;
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    assert!(broken("anthropic", &[start, open]).contains("before message_stop"));
    assert!(broken("anthropic", &[start, open, end, stop]).contains("in the middle of a block"));
    assert!(broken("anthropic", &[start, end.replace("\"end_turn\"", "null").as_str(), stop]).contains("no stop reason"));
    let stray = r#"{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"x"}}"#;
    assert!(broken("anthropic", &[start, stray]).contains("not open"));
    assert!(
        broken("anthropic", &[start, r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#])
            .contains("busy")
    );
    assert!(broken("gemini", &[r#"{"candidates":[{"content":{"parts":[{"text":"h"}]}}]}"#]).contains("before its finish reason"));
    assert!(broken("gemini", &["{"]).contains("not JSON"));
    let said = r#"{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"h"}}}}"#;
    let piece = r#"{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{"}}}}}"#;
    assert!(broken("cohere", &[said]).contains("before message-end"));
    assert!(broken("cohere", &[piece]).contains("has not begun"));
    assert!(broken("cohere", &[said, r#"{"type":"message-end","delta":{}}"#]).contains("no finish reason"));
    let failed = r#"{"type":"message-end","delta":{"finish_reason":"ERROR","error":"out of luck"}}"#;
    assert!(broken("cohere", &[said, failed]).contains("503 ERROR: out of luck"));
    assert!(broken("cohere", &["{}"]).contains("no type"));
}

#[test]
fn frames_that_are_not_whole() {
    let check = |play: Play, words: &str| {
        let found = broken_play("bedrock", play);
        assert!(found.contains(words), "{found}");
    };
    let said = || delta(0, &json!({"text": "h"}));
    check(frames(&[said()]), "before messageStop");
    check(frames(&[delta(3, &json!({"text": "h"}))]), "out of order");
    let start = ("contentBlockStart", json!({"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "a", "name": "f"}}}));
    check(frames(&[said(), start]), "begins twice");
    let stream = |frames: &[Vec<u8>]| bytes("application/vnd.amazon.eventstream", &frames.concat());
    let stop = frame("event", "messageStop", &json!({"stopReason": "end_turn"}));
    // Half a frame is no frame, and a frame with a wrong bit ends it all.
    check(stream(&[frame("event", "contentBlockDelta", &said().1), stop[..stop.len() - 1].to_vec()]), "before messageStop");
    let mut wrong = stop.clone();
    wrong[40] ^= 1;
    check(stream(&[wrong]), "checksum");
    let exception = |kind: &str| frame("exception", kind, &json!({"message": "busy"}));
    check(stream(&[exception("modelStreamErrorException")]), "503 modelStreamErrorException: busy");
    check(stream(&[exception("modelTimeoutException")]), "408 modelTimeoutException: busy");
    check(stream(&[exception("throttlingException")]), "429 throttlingException: busy");
    check(bytes("text/event-stream", b"data: {}\n\n"), "of type `text/event-stream`");
}

#[test]
fn what_was_passed_on_is_not_taken_back() {
    let half = r#"{"choices":[{"delta":{"content":"10"}}]}"#;
    let busy = || refusal("503 Unavailable", "", "", "busy");
    let server = Server::playing(vec![busy(), Play::Hang(sse(&[half]))]);
    let budget = Budget::limited(1.0);
    let paid = ClientOptions {
        price: Some(Price { input: 1.0, output: 1.0, cached: 1.0, cache_write: None }),
        budget: Some(budget.clone()),
        idle_ms: 400,
        ..options()
    };
    let client = client(&server, "openai", paid);
    RUNTIME.block_on(async {
        let mut streaming = client.stream(&ChatRequest::default()).await.unwrap();
        assert_eq!(streaming.next().await.unwrap(), Some(Delta::Text("10".into())));
        let error = streaming.next().await.unwrap_err();
        assert_eq!((error.kind, error.calls.len()), (PolicyErrorKind::Timeout, 2), "{error}");
        assert_eq!(streaming.next().await.unwrap_err().kind, PolicyErrorKind::Protocol, "it stays failed");
        assert!(streaming.finish().await.is_err());
    });
    assert_eq!(server.seen().len(), 2, "a failure before the first piece was tried again, one after it was not");
    assert!(budget.spent().assumed_usd > 0.0 && budget.spent().set_aside_usd == 0.0);
}

#[test]
fn token_ids_are_told_turn_by_turn() {
    let answer = |prompt: &str, ids: &str, logprobs: &str| {
        let first = format!(
            r#"{{"prompt_token_ids":{prompt},"choices":[{{"delta":{{"content":"a"}},"token_ids":{ids},"logprobs":{{"content":{logprobs}}}}}]}}"#
        );
        Play::Say(sse(&[&first, r#"{"choices":[{"delta":{},"finish_reason":"stop","token_ids":[]}]}"#, "[DONE]"]))
    };
    let server = Server::playing(vec![
        answer("[1,2,3]", "[7,8]", r#"[{"logprob":-0.5},{"logprob":-1}]"#),
        answer("[1,2,3,7,8,4]", "[9]", r#"[{"logprob":-2}]"#),
        answer("[1,2,4,5]", "[6]", r#"[{"logprob":-3}]"#),
    ]);
    let sampling = Sampling { token_ids: true, ..Sampling::default() };
    let policy = Upstream::new(client(&server, "openai", options()), sampling, RUNTIME.handle().clone()).unwrap();
    let mut conversation = policy.open(&Opening::default()).unwrap();
    let mut ask = || conversation.answer(&[Message::text(Role::User, "?")], AnswerLimits::default()).unwrap();
    let (first, second, third) = (ask(), ask(), ask());
    let of = |answered: &hone_trace::policy::Answered| {
        let sampled = answered.sampled.clone().unwrap();
        (sampled.input_ids, sampled.ids, sampled.logprobs, answered.is_new_segment)
    };
    assert_eq!(of(&first), (vec![1, 2, 3], vec![7, 8], vec![-0.5, -1.0], false));
    assert_eq!(of(&second), (vec![4], vec![9], vec![-2.0], false));
    assert_eq!(of(&third), (vec![1, 2, 4, 5], vec![6], vec![-3.0], true), "the server rewrote history");
    assert_eq!(first.llm_calls[0].extra["usage"], "not told");
    let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies[2]["messages"].as_array().unwrap().len(), 5, "the whole conversation is sent");
    assert_ne!(bodies[0]["seed"], bodies[1]["seed"]);
}

#[test]
fn a_question_that_failed_can_be_asked_again() {
    let good = sse(&[r#"{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}"#, "[DONE]"]);
    let server = Server::playing(vec![refusal("400 Bad", "", "", "no"), Play::Say(good)]);
    let policy = crate::policy(&server, options());
    let mut conversation = policy.open(&Opening::default()).unwrap();
    let mut ask = || conversation.answer(&[Message::text(Role::User, "?")], AnswerLimits::default());
    assert_eq!(ask().unwrap_err().kind, PolicyErrorKind::Refused);
    assert_eq!(ask().unwrap().message.content.text(), "ok");
    assert_eq!(server.seen()[1].body["messages"].as_array().unwrap().len(), 1);
}
