//! Spans come back as they were, in whatever lines and order they came.
//!
//! Left out of the generators, because the format keeps no trace of them: keys beside `resourceSpans`, resources and
//! scopes without spans, and conversations without a model or tool call (each generated trace id ends with a `chat`).

use crate::json::{self, Any, Field, anything, list, maybe, must, number, object, or_null, text, unknown};
use crate::read;
use hone_trace::format::otlp::{Assembler, Plan};
use hone_trace::format::{Format, Imported, Origin, write};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The keys whose text holds JSON: spaces and order of keys inside are not kept.
const JSON_KEYS: [&str; 8] = [
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "tool.parameters",
    "input.value",
    "ai.toolCall.args",
    "langfuse.observation.input",
];

/// All spans with their places, sorted, with attributes sorted.
fn spans(lines: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines {
        for mut resource in json::parse(line)["resourceSpans"].as_array().cloned().unwrap_or_default() {
            let scopes = resource["scopeSpans"].take();
            resource.as_object_mut().unwrap().remove("scopeSpans");
            for mut scope in scopes.as_array().cloned().unwrap_or_default() {
                let spans = scope["spans"].take();
                scope.as_object_mut().unwrap().remove("spans");
                for span in spans.as_array().cloned().unwrap_or_default() {
                    found.push(format!("{} {} {}", json::normal(&resource), json::normal(&scope), json::normal(&sorted(span))));
                }
            }
        }
    }
    found.sort();
    found
}

fn sorted(mut span: Value) -> Value {
    if let Some(attributes) = span.get_mut("attributes").and_then(Value::as_array_mut) {
        for attribute in attributes.iter_mut() {
            let key = attribute["key"].as_str().unwrap_or_default().to_owned();
            if let Some(int) = attribute["value"].get_mut("intValue")
                && let Some(number) = int.as_str().and_then(|text| text.parse::<u64>().ok())
            {
                *int = json!(number);
            }
            if let Some(text) = attribute["value"].get_mut("stringValue")
                && JSON_KEYS.contains(&key.as_str())
                && let Some(value) = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok())
            {
                *text = json!({ "json": value });
            }
        }
        attributes.sort_by_key(|attribute| json::normal(attribute).to_string());
    }
    span
}

pub(crate) fn assert_same(found: &[String], expected: &[String]) {
    assert_eq!(spans(found).join("\n"), spans(expected).join("\n"));
}

fn attribute(key: &str, value: impl Into<Value>) -> Value {
    Value::Object(Map::from_iter([("key".to_owned(), key.into()), ("value".to_owned(), value.into())]))
}

fn said(text: &str) -> Value {
    json!({ "stringValue": text })
}

fn any_value() -> Any {
    prop_oneof![
        text().prop_map(|text| json!({ "stringValue": text })),
        any::<bool>().prop_map(|flag| json!({ "boolValue": flag })),
        any::<i64>().prop_map(|int| json!({"intValue": int.to_string()})),
        (0_i64..9).prop_map(|int| json!({ "intValue": int })),
        number().prop_map(|double| json!({ "doubleValue": double })),
        Just(json!({"doubleValue": "NaN"})),
        Just(json!({"bytesValue": "AAEC"})),
        Just(json!({})),
        Just(json!({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}]}})),
        Just(json!({"kvlistValue": {"values": [{"key": "role", "value": {"stringValue": "user"}}]}})),
        anything(),
    ]
    .boxed()
}

fn part() -> Any {
    let arguments = prop_oneof![Just(json!({"a": 1})), text(), anything()].boxed();
    prop_oneof![
        3 => object(vec![must("type", Just(json!("text")).boxed()), must("content", text())]),
        1 => object(vec![must("type", Just(json!("reasoning")).boxed()), must("content", text()), unknown()]),
        2 => object(vec![must("type", Just(json!("tool_call")).boxed()), maybe("id", text()), must("name", text()), maybe("arguments", arguments)]),
        1 => object(vec![must("type", Just(json!("tool_call_response")).boxed()), must("id", text()), must("response", anything())]),
        1 => anything(),
    ]
    .boxed()
}

fn message() -> Any {
    let role = prop::sample::select(vec!["system", "user", "assistant", "tool", "model"]).prop_map(Value::from).boxed();
    let plain = object(vec![must("role", role.clone()), must("parts", list(part(), 0..3)), unknown()]);
    prop_oneof![5 => plain, 1 => object(vec![must("role", role), maybe("finish_reason", text())]), 1 => anything()].boxed()
}

/// How a span tells its messages.
#[derive(Debug, Clone, Copy)]
enum Telling {
    GenAi,
    OpenInference,
    Traceloop,
    Value,
    Nothing,
}

/// The attributes for a list of messages in one of the conventions.
fn told(telling: Telling, side: &str, messages: &[Value]) -> Vec<Value> {
    let (prefix, dot, call) = match (telling, side) {
        (Telling::GenAi, _) => return vec![attribute(&format!("gen_ai.{side}.messages"), said(&json!(messages).to_string()))],
        (Telling::Value, _) => return vec![attribute(&format!("{side}.value"), said(&json!(messages).to_string()))],
        (Telling::Nothing, _) => return Vec::new(),
        (Telling::OpenInference, "input") => ("llm.input_messages", "message.", "tool_call.function."),
        (Telling::OpenInference, _) => ("llm.output_messages", "message.", "tool_call.function."),
        (Telling::Traceloop, "input") => ("gen_ai.prompt", "", ""),
        (Telling::Traceloop, _) => ("gen_ai.completion", "", ""),
    };
    let mut out = Vec::new();
    for (idx, message) in messages.iter().enumerate() {
        let base = format!("{prefix}.{idx}.{dot}");
        out.push(attribute(&format!("{base}role"), said(message["role"].as_str().unwrap_or("user"))));
        for part in message["parts"].as_array().into_iter().flatten() {
            if let Some(text) = part["content"].as_str() {
                out.push(attribute(&format!("{base}content"), said(text)));
            }
            if let Some(name) = part["name"].as_str() {
                out.push(attribute(&format!("{base}tool_calls.0.{call}name"), said(name)));
                out.push(attribute(&format!("{base}tool_calls.0.{call}arguments"), said("{}")));
            }
        }
    }
    out
}

fn noise() -> BoxedStrategy<Vec<Value>> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "gen_ai.request.model",
            "gen_ai.response.model",
            "llm.model_name",
            "gen_ai.usage.input_tokens",
            "llm.token_count.prompt",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.cost",
            "llm.input_messages.4294967295.message.role",
            "llm.input_messages.99999999999999999999.message.role",
            "gen_ai.prompt.name",
            "gen_ai.completion.0.finish_reason",
            "llm.output_messages.0.message.contents.0.message_content.text",
            "gen_ai.input.messages",
            "gen_ai.system_instructions",
            "gen_ai.tool.definitions",
            "llm.tools.0.tool.json_schema",
            "error.type",
            "metadata",
            "gen_ai.tool.name",
            "tool.parameters",
            "ai.model.id",
            "ai.prompt.messages",
            "ai.response.text",
            "ai.toolCall.args",
            "ai.usage.inputTokens",
            "langfuse.observation.input",
            "langfuse.observation.output",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ];
    let plain = (key.clone(), any_value()).prop_map(|(key, value)| attribute(&key, value));
    let odd = (key, any_value(), anything()).prop_map(|(key, value, more)| json!({"key": key, "value": value, "x_more": more}));
    let scalars = (any::<u64>(), 0_u64..9, text()).prop_map(|(n, m, model)| {
        attribute(
            ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.request.model"][(n % 3) as usize],
            if n % 3 == 2 { json!({"stringValue": model}) } else { json!({"intValue": m.to_string()}) },
        )
    });
    vec(prop_oneof![4 => plain, 1 => odd, 3 => scalars], 0..5).boxed()
}

fn event() -> Any {
    let judged = (proptest::option::of(json::reward()), text()).prop_map(|(score, name)| {
        let mut attributes = vec![attribute("gen_ai.evaluation.name", json!({ "stringValue": name }))];
        attributes.extend(score.map(|score| attribute("gen_ai.evaluation.score.value", json!({ "doubleValue": score }))));
        json!({"name": "gen_ai.evaluation.result", "timeUnixNano": "17", "attributes": attributes})
    });
    let exception = Just(json!({"name": "exception", "attributes": [attribute("exception.type", said("Timeout"))]}));
    prop_oneof![
        judged,
        exception,
        object(vec![
            maybe("name", prop_oneof![text(), Just(json!("gen_ai.user.message")), Just(json!("gen_ai.choice"))].boxed()),
            maybe(
                "attributes",
                prop_oneof![anything(), Just(json!([{"key": "content", "value": {"stringValue": "x"}}]))].boxed()
            ),
            unknown()
        ])
    ]
    .boxed()
}

fn rest() -> Vec<Field> {
    let nanos =
        prop_oneof![(0_u64..50).prop_map(|n| json!(n.to_string())), any::<u64>().prop_map(Value::from), anything()].boxed();
    let code = prop_oneof![(0_u64..3).prop_map(Value::from), anything()].boxed();
    vec![
        maybe("spanId", text()),
        maybe("parentSpanId", text()),
        maybe("name", text()),
        maybe("kind", number()),
        maybe("startTimeUnixNano", nanos.clone()),
        maybe("endTimeUnixNano", nanos),
        maybe("status", or_null(object(vec![maybe("code", code), maybe("message", text()), unknown()]))),
        maybe("events", or_null(list(event(), 0..3))),
        maybe("links", or_null(list(object(vec![unknown()]), 0..2))),
        unknown(),
    ]
}

/// The spans of one conversation: model calls over growing prefixes of one list of messages, tools and others.
fn conversation(trace: usize) -> BoxedStrategy<Vec<Value>> {
    let telling =
        prop::sample::select(vec![Telling::GenAi, Telling::OpenInference, Telling::Traceloop, Telling::Value, Telling::Nothing]);
    let kind = prop::sample::select(vec!["chat", "chat", "chat", "LLM", "execute_tool", "TOOL", "other", "invoke_agent"]);
    let span = (kind, noise(), object(rest()), any::<prop::sample::Index>(), any::<bool>(), any::<bool>());
    let names = prop_oneof![Just(None), prop::sample::select(vec!["c1", "c2"]).prop_map(Some)];
    (vec(message(), 0..6), telling, vec(span, 0..5), names)
        .prop_map(move |(messages, telling, spans, name)| {
            let trace = format!("{trace:032x}");
            let mut out: Vec<Value> = Vec::new();
            for (kind, noise, rest, cut, named, noise_first) in spans {
                let mut attributes = if noise_first { noise.clone() } else { Vec::new() };
                let model = kind == "chat" || kind == "LLM";
                let tool = kind == "execute_tool" || kind == "TOOL";
                let key = if kind.chars().all(char::is_uppercase) { "openinference.span.kind" } else { "gen_ai.operation.name" };
                attributes.push(attribute(key, said(kind)));
                if model || kind == "invoke_agent" {
                    let cut = if messages.is_empty() { 0 } else { cut.index(messages.len()) };
                    attributes.extend(told(telling, "input", &messages[..cut]));
                    attributes.extend(told(telling, "output", &messages[cut..messages.len().min(cut + 1)]));
                }
                if tool {
                    attributes.push(attribute("gen_ai.tool.name", said("look")));
                    attributes.push(attribute("gen_ai.tool.call.arguments", said("{\"q\": [1, 2]}")));
                }
                attributes.extend(
                    name.filter(|_| named && (model || tool)).map(|name| attribute("gen_ai.conversation.id", said(name))),
                );
                if !noise_first {
                    attributes.extend(noise);
                }
                let mut span = rest;
                span["traceId"] = json!(trace);
                span["attributes"] = json!(attributes);
                out.push(span);
            }
            out.push(json!({"traceId": trace, "name": "chat", "attributes": [attribute("gen_ai.operation.name", said("chat"))]}));
            out
        })
        .boxed()
}

fn place() -> Any {
    let resource =
        or_null(object(vec![maybe("attributes", list(Just(attribute("service.name", said("desk"))).boxed(), 0..2)), unknown()]));
    object(vec![maybe("resource", resource), maybe("schemaUrl", or_null(text())), unknown()])
}

/// A file: spans dealt out to lines, each under some place.
fn file() -> BoxedStrategy<Vec<String>> {
    let spans = (conversation(1), conversation(2), conversation(3)).prop_map(|(a, b, c)| [a, b, c].concat());
    (spans, vec((place(), place()), 1..3), any::<u64>())
        .prop_map(|(spans, places, seed)| {
            let mut lines: Vec<Vec<Value>> = vec![Vec::new(); 3];
            for (idx, span) in spans.into_iter().enumerate() {
                let dice = seed.rotate_left(idx as u32 * 7) as usize;
                let (mut resource, mut scope) = places[dice % places.len()].clone();
                scope["spans"] = json!([span]);
                resource["scopeSpans"] = json!([scope]);
                lines[dice / 7 % 3].push(resource);
            }
            lines.into_iter().map(|resources| json!({ "resourceSpans": resources }).to_string()).collect()
        })
        .boxed()
}

fn assemble(lines: &[String]) -> Imported {
    let mut plan = Plan::default();
    for (no, line) in lines.iter().enumerate() {
        plan.note(no as u64, line).unwrap_or_else(|error| panic!("{error}\n{line}"));
    }
    let mut assembler = Assembler::new(plan, Origin::default());
    let mut all = Imported::default();
    for (no, line) in lines.iter().enumerate() {
        let imported = assembler.line(no as u64, line).unwrap();
        all.traces.extend(imported.traces);
        all.refused.extend(imported.refused);
        all.n_spans_skipped += imported.n_spans_skipped;
        all.n_records_skipped += imported.n_records_skipped;
    }
    assert_eq!(assembler.finish(), Imported::default(), "every conversation ended on its last line");
    all
}

proptest! {
    #[test]
    fn a_file_comes_back(lines in file()) {
        let imported = assemble(&lines);
        prop_assert_eq!((imported.refused.len(), imported.n_spans_skipped), (0, 0));
        let written: Vec<String> = imported.traces.iter().map(|trace| write(trace, Format::Otlp)).collect();
        assert_same(&written, &lines);
        for trace in &imported.traces {
            let stored = read(Format::Hone, &write(trace, Format::Hone));
            prop_assert_eq!(&stored.traces[0], trace);
        }
    }
}

fn chat(no: u64, input: &Value, output: &Value, more: &[Value]) -> Value {
    let mut attributes = vec![
        attribute("gen_ai.operation.name", said("chat")),
        attribute("gen_ai.request.model", said("m")),
        attribute("gen_ai.usage.input_tokens", json!({"intValue": "12"})),
        attribute("gen_ai.input.messages", said(&input.to_string())),
        attribute("gen_ai.output.messages", said(&output.to_string())),
    ];
    attributes.extend(more.iter().cloned());
    json!({"traceId": "00000000000000000000000000000001", "spanId": format!("{no:016x}"), "name": "chat m",
        "startTimeUnixNano": (no * 1000).to_string(), "endTimeUnixNano": (no * 1000 + 500).to_string(), "attributes": attributes})
}

fn request(spans: &[Value]) -> String {
    json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}).to_string()
}

#[test]
fn a_repeated_history_is_told_once_and_a_rewritten_one_begins_a_segment() {
    let text = |role: &str, text: &str| json!({"role": role, "parts": [{"type": "text", "content": text}]});
    let call = json!({"role": "assistant", "parts": [{"type": "tool_call", "id": "t1", "name": "look", "arguments": {"q": 1}}]});
    let mut answer = call.clone();
    answer["finish_reason"] = json!("tool_calls");
    let result = json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": "42"}]});
    let judged = json!([{"name": "gen_ai.evaluation.result", "attributes": [
        attribute("gen_ai.evaluation.name", said("kind")), attribute("gen_ai.evaluation.score.value", json!({"doubleValue": 0.5}))]}]);
    let mut last = chat(4, &json!([text("user", "summary")]), &json!([text("assistant", "done")]), &[]);
    last["events"] = judged;
    last["status"] = json!({"code": 2, "message": "slow"});
    let tool = json!({"traceId": "00000000000000000000000000000001", "spanId": "aa", "name": "execute_tool look", "startTimeUnixNano": "1600",
        "endTimeUnixNano": "2001600", "status": {"code": 2}, "attributes": [attribute("gen_ai.operation.name", said("execute_tool")),
        attribute("gen_ai.tool.name", said("look")), attribute("gen_ai.tool.call.id", said("t1"))]});
    let lines = [
        request(&[chat(1, &json!([text("user", "hi")]), &json!([answer]), &[]), tool]),
        request(&[chat(2, &json!([text("user", "hi"), call, result]), &json!([text("assistant", "it is 42")]), &[]), last]),
    ];
    let imported = assemble(&lines);
    assert_eq!(imported.traces.len(), 1);
    let trace = &imported.traces[0];
    assert_eq!(trace.segments.iter().map(|segment| segment.turns.len()).collect::<Vec<_>>(), [2, 1]);
    let turns: Vec<_> = trace.turns().collect();
    assert_eq!(turns.iter().map(|turn| turn.input.len()).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!((turns[0].tool_calls[0].success, turns[0].tool_calls[0].duration_ms), (Some(false), Some(2.0)));
    assert_eq!((turns[1].llm_calls[0].tokens_in, turns[1].llm_calls[0].model.as_str()), (12, "m"));
    assert_eq!((trace.rewards[0].turn_idx, trace.rewards[0].total, trace.rewards[0].by.name.as_str()), (Some(2), 0.5, "kind"));
    assert_eq!(turns[2].errors[0].message, "slow");
    // Nothing of the conversation is held twice.
    assert!(!json!(turns[1].llm_calls[0].extra).to_string().contains("42"));
    assert_same(&[write(trace, Format::Otlp)], &lines);
}

#[test]
fn messages_in_events_are_read() {
    let event = |name: &str, text: &str| json!({"name": name, "attributes": [attribute("content", said(text))]});
    let span = json!({"traceId": "1", "attributes": [attribute("gen_ai.operation.name", said("chat"))],
        "events": [event("gen_ai.user.message", "hi"), event("gen_ai.choice", "ho")]});
    let line = request(&[span]);
    let trace = &read(Format::Otlp, &line).traces[0];
    let turn = trace.turns().next().unwrap();
    assert_eq!((turn.input[0].content.text(), turn.answer.content.text()), ("hi".to_owned(), "ho".to_owned()));
    assert_same(&[write(trace, Format::Otlp)], &[line]);
}

/// What each model call adds to the conversation: its input, its answer, and what it cost.
fn calls(trace: &hone_trace::Trace) -> Vec<String> {
    let said = |message: &hone_trace::Message| {
        let calls = message.tool_calls.iter().map(|call| format!(" {}#{}{}", call.name, call.id, call.arguments));
        let id = message.tool_call_id.iter().map(|id| format!(" to {id}"));
        format!("{:?}: {}{}", message.role, message.content.text(), calls.chain(id).collect::<String>())
    };
    let turns = trace.turns().map(|turn| {
        let told = turn.input.iter().chain([&turn.answer]).map(said).collect::<Vec<_>>().join(", ");
        let tools = turn.tool_calls.iter().map(|tool| format!(" | {} {}", tool.name, tool.arguments)).collect::<String>();
        let llm = &turn.llm_calls[0];
        format!("{told} | {} {}+{} {:?}{tools}", llm.model, llm.tokens_in, llm.tokens_out, llm.cost_usd.unwrap_or_default())
    });
    turns.collect()
}

/// A span with these attributes: texts as they are, all else as JSON in a text.
fn told_by_sdk(no: u64, attributes: &[(&str, Value)]) -> Value {
    let value = |value: &Value| match value {
        Value::Number(n) => json!({"intValue": n}),
        Value::String(text) => said(text),
        json => said(&json.to_string()),
    };
    let attributes: Vec<Value> = attributes.iter().map(|(key, told)| attribute(key, value(told))).collect();
    json!({"traceId": "00000000000000000000000000000001", "spanId": format!("{no:016x}"), "name": "look",
        "startTimeUnixNano": (no * 1000).to_string(), "attributes": attributes})
}

#[test]
fn spans_of_langfuse_are_read() {
    let kind = |kind: &str| ("langfuse.observation.type", json!(kind));
    let input = |input: Value| ("langfuse.observation.input", input);
    let output = |output: Value| ("langfuse.observation.output", output);
    let model = ("langfuse.observation.model.name", json!("m"));
    let (hi, asks, result) = (
        json!({"role": "user", "content": "hi"}),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}),
        json!({"role": "tool", "tool_call_id": "t1", "content": "42"}),
    );
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let session = ("langfuse.session.id", json!("s"));
    let line = request(&[
        told_by_sdk(1, &[kind("span"), input(json!({"q": 1})), session.clone()]),
        told_by_sdk(
            2,
            &[
                kind("generation"),
                model.clone(),
                input(json!({"messages": [hi], "tools": tools})),
                output(asks.clone()),
                ("langfuse.observation.usage_details", json!({"input": 3, "output": 2, "total": 5})),
                ("langfuse.observation.cost_details", json!({"total": 0.5})),
                ("langfuse.observation.model.parameters", json!({"temperature": 0.2, "top_p": 1})),
                session.clone(),
            ],
        ),
        told_by_sdk(3, &[kind("tool"), input(json!({"q": "x"})), output(json!("42")), session.clone()]),
        told_by_sdk(4, &[kind("generation"), input(json!([hi, asks, result])), output(json!("it is 42")), session.clone()]),
        told_by_sdk(5, &[kind("generation"), input(json!("anew")), output(json!({"sure": true})), session]),
    ]);
    let imported = read(Format::Otlp, &line);
    let (trace, config) = (&imported.traces[0], &imported.configs[0]);
    assert_eq!(
        calls(trace),
        [
            r#"User: hi, Assistant:  look#t1{} | m 3+2 0.5 | look {"q":"x"}"#,
            "Tool: 42 to t1, Assistant: it is 42 |  0+0 0.0",
            r#"User: anew, Assistant: {"sure":true} |  0+0 0.0"#,
        ]
    );
    assert_eq!(trace.metadata["conversation_id"], "s");
    assert_eq!((config.model.as_deref(), config.temperature, config.tools.len()), (Some("m"), Some(0.2), 1));
    assert_eq!(config.settings["request.top_p"], 1);
    assert_same(&[write(trace, Format::Otlp)], &[line]);
}

#[test]
fn spans_of_vercel_are_read() {
    let operation = |id: &str| ("ai.operationId", json!(id));
    let model = ("ai.model.id", json!("m"));
    let (system, hi, asks, result) = (
        json!({"role": "system", "content": "Be kind."}),
        json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "I look."},
            {"type": "tool-call", "toolCallId": "t1", "toolName": "look", "input": {"q": 1}}]}),
        json!({"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "t1", "toolName": "look", "output": {"type": "json", "value": {"n": 42}}}]}),
    );
    let called = json!([{"toolCallType": "function", "toolCallId": "t1", "toolName": "look", "args": "{\"q\": 1}"}]);
    let line = request(&[
        told_by_sdk(1, &[operation("ai.generateText"), model.clone(), ("ai.response.text", json!("it is 42"))]),
        told_by_sdk(
            2,
            &[
                operation("ai.generateText.doGenerate"),
                model.clone(),
                ("ai.prompt.messages", json!([system, hi])),
                ("ai.response.text", json!("I look.")),
                ("ai.response.toolCalls", called),
                ("ai.usage.promptTokens", json!(3)),
                ("ai.usage.completionTokens", json!(2)),
            ],
        ),
        told_by_sdk(
            3,
            &[
                operation("ai.toolCall"),
                ("ai.toolCall.id", json!("t1")),
                ("ai.toolCall.name", json!("look")),
                ("ai.toolCall.args", json!({"q": 1})),
            ],
        ),
        told_by_sdk(
            4,
            &[
                operation("ai.streamText.doStream"),
                ("gen_ai.request.model", json!("n")),
                ("ai.prompt.messages", json!([system, hi, asks, result])),
                ("ai.response.text", json!("it is 42")),
                ("ai.usage.inputTokens", json!(7)),
                ("ai.usage.outputTokens", json!(1)),
            ],
        ),
    ]);
    let trace = &read(Format::Otlp, &line).traces[0];
    assert_eq!(
        calls(trace),
        [
            r#"System: Be kind., User: hi, Assistant: I look. look#t1{"q": 1} | m 3+2 0.0 | look {"q":1}"#,
            r#"Tool: {"n":42} to t1, Assistant: it is 42 | n 7+1 0.0"#,
        ]
    );
    assert_same(&[write(trace, Format::Otlp)], &[line]);
}

#[test]
fn a_huge_position_and_a_lone_request_cost_nothing() {
    let span = json!({"traceId": "1", "attributes": [attribute("openinference.span.kind", said("LLM")),
        attribute("llm.input_messages.4294967295.message.role", said("user")),
        attribute("llm.input_messages.4294967295.message.content", said("hi"))]});
    let imported = read(Format::Otlp, &request(&[span]));
    assert_eq!(imported.traces[0].turns().next().unwrap().input.len(), 1);
    let skipped = read(Format::Otlp, &request(&[json!({"traceId": "1", "name": "GET /"})]));
    assert_eq!((skipped.traces.len(), skipped.n_spans_skipped), (0, 1));
}

#[test]
fn what_log_records_say_finds_its_span_wherever_it_stands() {
    let silent = |no: u64, conversation: &str| {
        json!({"traceId": "0000000000000000000000000000000A", "spanId": format!("{no:016x}"), "name": "chat m", "attributes": [
            attribute("gen_ai.operation.name", said("chat")), attribute("gen_ai.conversation.id", said(conversation))]})
    };
    let record = |no: u64, name: &str, text: &str| {
        let body = json!({"kvlistValue": {"values": [{"key": "content", "value": said(text)}]}});
        json!({"traceId": "0000000000000000000000000000000a", "spanId": format!("{no:016x}"), "eventName": name, "body": body})
    };
    let logs = |records: &[Value]| json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    let lines = [
        logs(&[record(1, "gen_ai.user.message", "hi"), json!({"body": said("started")})]),
        request(&[silent(1, "one"), silent(2, "two")]),
        logs(&[
            record(1, "gen_ai.choice", "ho"),
            record(2, "gen_ai.user.message", "you"),
            record(9, "gen_ai.choice", "of no span"),
        ]),
        logs(&[record(2, "gen_ai.choice", "me"), json!({"eventName": "gen_ai.choice", "spanId": "0000000000000003"})]),
        logs(&[record(1, "gen_ai.choice", "of no trace")]).replace("000a\"", "000b\""),
    ];
    assert_eq!(Format::detect(&lines[0]), Some(Format::Otlp));
    let imported = assemble(&lines);
    assert_eq!(imported.n_records_skipped, 1);
    let heard = |trace: &hone_trace::Trace| {
        let turn = trace.turns().next().unwrap();
        (turn.input[0].content.text(), turn.answer.content.text())
    };
    let heard: Vec<_> = imported.traces.iter().map(heard).collect();
    assert_eq!(heard, [("hi".to_owned(), "ho".to_owned()), ("you".to_owned(), "me".to_owned())]);
    let refused: Vec<String> = imported.refused.iter().map(ToString::to_string).collect();
    let reason = "must be 32 hexadecimal digits that are not all zero";
    assert_eq!(refused, [format!("resourceLogs[0].scopeLogs[0].logRecords[1].traceId: {reason}")]);
}
