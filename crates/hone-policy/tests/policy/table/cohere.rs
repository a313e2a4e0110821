//! A server of Cohere's second chat interface.

use super::{ARGUMENTS, ASKED, ASKED_TO_CALL, ASKED_TO_FAIL, PIECES, Row, check_head, check_names, disliked, key, no, same};
use crate::SECRET;
use crate::server::{Play, Seen, http, json};
use hone_trace::policy::PolicyErrorKind;
use serde_json::{Value, json};

pub(super) fn row() -> Row {
    Row {
        name: "Cohere",
        spec: "cohere:command-a-03-2025",
        variables: &[],
        access: key(),
        serve: Box::new(serve),
        // It does not say.
        model: None,
        // A thought before a text, a plan before a call.
        thought: Some("hm"),
        call_id: "add_3v76fs3zjrgq",
        usage: [50, 7, 16, 0],
        error: (PolicyErrorKind::RateLimit, "429: You are using a Trial key"),
    }
}

fn serve(seen: &Seen) -> Play {
    if let Err(what) = check(seen) {
        return disliked(what);
    }
    let last = seen.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let is_call = match (last["role"].as_str(), last["content"].as_str()) {
        (Some("tool"), Some("42")) | (Some("user"), Some(ASKED)) => false,
        (Some("user"), Some(ASKED_TO_CALL)) => true,
        (Some("user"), Some(ASKED_TO_FAIL)) => {
            let words = "You are using a Trial key, which is limited to 20 API calls / minute.";
            return no("429 Too Many Requests", "", &json!({"id": "e1", "message": words}));
        }
        _ => return disliked(last),
    };
    // Counts have decimal points, and what was read is more than what is charged.
    let usage = json!({"billed_units": {"input_tokens": 50.0, "output_tokens": 7.0}, "tokens": {"input_tokens": 566.0, "output_tokens": 7.0}, "cached_tokens": 16.0});
    let call = |arguments: &str| json!({"id": "add_3v76fs3zjrgq", "type": "function", "function": {"name": "add", "arguments": arguments}});
    let reason = if is_call { "TOOL_CALL" } else { "COMPLETE" };
    if seen.body["stream"] != true {
        let message = match is_call {
            true => json!({"role": "assistant", "tool_plan": "hm", "tool_calls": [call(ARGUMENTS)]}),
            false => {
                json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": PIECES.concat()}]})
            }
        };
        return json(&json!({"id": "m1", "finish_reason": reason, "message": message, "usage": usage}));
    }
    let event = |kind: &str, index: u64, message: Value| json!({"type": kind, "index": index, "delta": {"message": message}});
    let mut events = vec![
        json!({"id": "m1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}}}),
    ];
    if is_call {
        let (begin, rest) = ARGUMENTS.split_at(4);
        let more = |part: &str| event("tool-call-delta", 1, json!({"tool_calls": {"function": {"arguments": part}}}));
        events.extend(["h", "m"].map(|part| json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": part}}})));
        // The number of a call goes on after those of the texts.
        events.push(event("tool-call-start", 1, json!({"tool_calls": call("")})));
        events.extend([more(begin), more(rest), json!({"type": "tool-call-end", "index": 1})]);
    } else {
        events.push(event("content-start", 0, json!({"content": {"type": "thinking", "thinking": ""}})));
        events.push(event("content-delta", 0, json!({"content": {"thinking": "hm"}})));
        events.push(json!({"type": "content-end", "index": 0}));
        events.push(event("content-start", 1, json!({"content": {"type": "text", "text": ""}})));
        events.extend(PIECES.map(|piece| event("content-delta", 1, json!({"content": {"text": piece}}))));
        events.push(json!({"type": "citation-start", "index": 0, "delta": {"message": {"citations": {"start": 0, "end": 3}}}}));
        events.push(json!({"type": "content-end", "index": 1}));
    }
    events.push(json!({"type": "message-end", "id": "m1", "delta": {"finish_reason": reason, "usage": usage}}));
    let line = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    let events: String = events.iter().map(line).collect();
    Play::Say(http("200 OK", "content-type: text/event-stream\n", &events))
}

fn check(seen: &Seen) -> Result<(), String> {
    check_head(seen, "/v2/chat", Some(("authorization", &format!("Bearer {SECRET}"))))?;
    let body = &seen.body;
    check_names("the body", body, &["model", "messages", "max_tokens", "stream", "seed", "temperature"], &["tools"])?;
    for tool in body["tools"].as_array().into_iter().flatten() {
        check_names("a tool", tool, &["type", "function"], &[])?;
        check_names("a function", &tool["function"], &["name", "description", "parameters"], &[])?;
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("system" | "user") => check_names("a message", message, &["role", "content"], &[])?,
            Some("assistant") => {
                check_names("an answer", message, &["role", "tool_calls", "tool_plan"], &[])?;
                same("plan", message["tool_plan"].as_str(), Some("hm"))?;
                check_names("a call", &message["tool_calls"][0], &["id", "type", "function"], &[])?;
            }
            Some("tool") => check_names("a result", message, &["role", "content", "tool_call_id"], &[])?,
            other => return Err(format!("the role is {other:?}")),
        }
    }
    Ok(())
}
