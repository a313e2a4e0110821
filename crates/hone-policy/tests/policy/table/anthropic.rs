//! A server of Anthropic's messages.

use super::{ARGUMENTS, ASKED, ASKED_TO_CALL, ASKED_TO_FAIL, PIECES, Row, check_head, check_names, disliked, key, no, same};
use crate::SECRET;
use crate::server::{Play, Seen, http, json};
use hone_trace::policy::PolicyErrorKind;
use serde_json::{Value, json};

pub(super) fn row() -> Row {
    Row {
        name: "Anthropic",
        spec: "anthropic:claude-sonnet-4-6",
        variables: &[],
        access: key(),
        serve: Box::new(serve),
        model: Some("claude-sonnet-4-6"),
        thought: Some("hm"),
        call_id: "toolu_01",
        usage: [50, 7, 16, 4],
        error: (PolicyErrorKind::Provider, "529 overloaded_error: Overloaded"),
    }
}

fn serve(seen: &Seen) -> Play {
    if let Err(what) = check(seen) {
        return disliked(what);
    }
    let last = &seen.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default()["content"][0];
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let is_call = match (last["type"].as_str(), last["text"].as_str()) {
        (Some("tool_result"), _) | (_, Some(ASKED)) => false,
        (_, Some(ASKED_TO_CALL)) => true,
        (_, Some(ASKED_TO_FAIL)) => {
            let error = json!({"type": "overloaded_error", "message": "Overloaded"});
            return no("529 Overloaded", "", &json!({"type": "error", "error": error, "request_id": "req_1"}));
        }
        _ => return disliked(last),
    };
    let (said, reason) = match is_call {
        true => (
            json!({"type": "tool_use", "id": "toolu_01", "name": "add", "input": serde_json::from_str::<Value>(ARGUMENTS).unwrap()}),
            "tool_use",
        ),
        false => (json!({"type": "text", "text": PIECES.concat()}), "end_turn"),
    };
    let usage = json!({"input_tokens": 30, "cache_read_input_tokens": 16, "cache_creation_input_tokens": 4, "output_tokens": 7});
    if seen.body["stream"] != true {
        return json(&json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6",
            "content": [thought, said], "stop_reason": reason, "stop_sequence": null, "usage": usage}));
    }
    let start = |idx: u64, block: Value| json!({"type": "content_block_start", "index": idx, "content_block": block});
    let delta = |idx: u64, delta: Value| json!({"type": "content_block_delta", "index": idx, "delta": delta});
    let stop = |idx: u64| json!({"type": "content_block_stop", "index": idx});
    let mut begun = usage.clone();
    begun["output_tokens"] = 1.into();
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-6", "content": [], "usage": begun}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "sig"})),
        stop(0),
    ];
    if is_call {
        let (begin, rest) = ARGUMENTS.split_at(4);
        events.push(start(1, json!({"type": "tool_use", "id": "toolu_01", "name": "add", "input": {}})));
        events.extend([begin, rest].map(|part| delta(1, json!({"type": "input_json_delta", "partial_json": part}))));
    } else {
        events.push(start(1, json!({"type": "text", "text": ""})));
        events.extend(PIECES.map(|piece| delta(1, json!({"type": "text_delta", "text": piece}))));
    }
    events.extend([
        stop(1),
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]);
    let line = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    let events: String = events.iter().map(line).collect();
    Play::Say(http("200 OK", "content-type: text/event-stream; charset=utf-8\n", &events))
}

fn check(seen: &Seen) -> Result<(), String> {
    check_head(seen, "/v1/messages", Some(("x-api-key", SECRET)))?;
    same("version", seen.header("anthropic-version"), Some("2023-06-01"))?;
    let body = &seen.body;
    check_names("the body", body, &["model", "max_tokens", "messages", "system", "temperature"], &["tools", "stream"])?;
    same("system", body["system"].as_str(), Some("be brief"))?;
    for tool in body["tools"].as_array().into_iter().flatten() {
        check_names("a tool", tool, &["name", "description", "input_schema"], &[])?;
    }
    for (message_idx, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let role = if message_idx % 2 == 0 { "user" } else { "assistant" };
        same("role", message["role"].as_str(), Some(role))?;
        for block in message["content"].as_array().ok_or("content is no list")? {
            match block["type"].as_str() {
                Some("text") => check_names("a text", block, &["type", "text"], &[])?,
                // A thought that comes before a call must be sent again with its signature.
                Some("thinking") => check_names("a thought", block, &["type", "thinking", "signature"], &[])?,
                Some("tool_use") => {
                    check_names("a call", block, &["type", "id", "name", "input"], &[])?;
                    same("the first block", message["content"][0]["type"].as_str(), Some("thinking"))?;
                    same("input", block["input"].is_object(), true)?;
                }
                Some("tool_result") => {
                    check_names("a result", block, &["type", "tool_use_id", "content"], &[])?;
                    same("the id of a result", block["tool_use_id"].as_str(), Some("toolu_01"))?;
                }
                other => return Err(format!("a block is {other:?}")),
            }
        }
    }
    Ok(())
}
