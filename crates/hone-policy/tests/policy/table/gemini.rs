//! A server of Gemini's `generateContent`.

use super::{ARGUMENTS, ASKED, ASKED_TO_CALL, ASKED_TO_FAIL, PIECES, Row, check_head, check_names, disliked, key, no, same};
use crate::SECRET;
use crate::server::{Play, Seen, json, sse};
use hone_trace::policy::PolicyErrorKind;
use serde_json::{Value, json};

const MODELS: &str = "/v1beta/models/gemini-2.5-flash";

pub(super) fn row() -> Row {
    Row {
        name: "Gemini",
        spec: "gemini:gemini-2.5-flash",
        variables: &[],
        access: key(),
        serve: Box::new(serve),
        model: Some("gemini-2.5-flash"),
        thought: Some("hm"),
        // Calls have no ids here, and get one.
        call_id: "call_0",
        usage: [50, 7, 16, 0],
        error: (PolicyErrorKind::Account, "400 INVALID_ARGUMENT: API key not valid"),
    }
}

fn serve(seen: &Seen) -> Play {
    let is_stream = seen.path().ends_with("?alt=sse");
    if let Err(what) = check(seen, is_stream) {
        return disliked(what);
    }
    let last = &seen.body["contents"].as_array().and_then(|contents| contents.last()).cloned().unwrap_or_default()["parts"][0];
    let call = json!({"functionCall": {"name": "add", "args": serde_json::from_str::<Value>(ARGUMENTS).unwrap()}, "thoughtSignature": "sig"});
    let thought = json!({"text": "hm", "thought": true});
    let parts = match (last.get("functionResponse"), last["text"].as_str()) {
        (Some(_), _) | (_, Some(ASKED)) => PIECES.map(|piece| json!({"text": piece})).to_vec(),
        (_, Some(ASKED_TO_CALL)) => vec![call],
        (_, Some(ASKED_TO_FAIL)) => {
            let error = json!({"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT", "details": []});
            return no("400 Bad Request", "", &if is_stream { json!([{"error": error}]) } else { json!({"error": error}) });
        }
        _ => return disliked(last),
    };
    let usage = json!({"promptTokenCount": 50, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "cachedContentTokenCount": 16, "totalTokenCount": 57});
    let answer = |parts: &[Value], reason: Option<&str>| {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if let Some(reason) = reason {
            candidate["finishReason"] = reason.into();
        }
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash", "responseId": "r"})
    };
    if !is_stream {
        return json(&answer(&[&[thought], parts.as_slice()].concat(), Some("STOP")));
    }
    let mut events = vec![answer(&[thought], None).to_string()];
    events.extend(parts.iter().map(|part| answer(std::slice::from_ref(part), None).to_string()));
    events.push(answer(&[json!({"text": ""})], Some("STOP")).to_string());
    Play::Say(sse(&events.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn check(seen: &Seen, is_stream: bool) -> Result<(), String> {
    let verb = if is_stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    check_head(seen, &format!("{MODELS}:{verb}"), Some(("x-goog-api-key", SECRET)))?;
    let body = &seen.body;
    check_names("the body", body, &["contents", "systemInstruction", "generationConfig"], &["tools"])?;
    check_names("the configuration", &body["generationConfig"], &["maxOutputTokens", "seed", "temperature"], &[])?;
    same("instructions", &body["systemInstruction"], &json!({"parts": [{"text": "be brief"}]}))?;
    for tool in body["tools"][0]["functionDeclarations"].as_array().into_iter().flatten() {
        check_names("a tool", tool, &["name", "description", "parametersJsonSchema"], &[])?;
    }
    for (message_idx, message) in body["contents"].as_array().into_iter().flatten().enumerate() {
        let role = if message_idx % 2 == 0 { "user" } else { "model" };
        same("role", message["role"].as_str(), Some(role))?;
        for part in message["parts"].as_array().ok_or("parts are no list")? {
            if let Some(call) = part.get("functionCall") {
                same("call", call, &json!({"name": "add", "args": serde_json::from_str::<Value>(ARGUMENTS).unwrap()}))?;
                same("signature", part["thoughtSignature"].as_str(), Some("sig"))?;
            } else if let Some(result) = part.get("functionResponse") {
                same("result", result, &json!({"name": "add", "response": {"result": "42"}}))?;
            } else {
                check_names("a part", part, &["text"], &[])?;
            }
        }
    }
    Ok(())
}
