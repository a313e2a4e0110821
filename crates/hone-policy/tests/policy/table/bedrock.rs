//! A server of Bedrock's Converse, with its binary frames, and both ways to say who asks.

use super::{
    ARGUMENTS, ASKED, ASKED_TO_CALL, ASKED_TO_FAIL, PIECES, Row, aws_key, check_head, check_names, disliked, key, no, same,
};
use crate::SECRET;
use crate::server::{Play, Seen, bytes, json};
use hone_trace::policy::PolicyErrorKind::{Account, RateLimit};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MODEL: &str = "/model/eu.anthropic.claude-sonnet-4-6-v1%3A0";

/// How it is asked.
#[derive(Clone, Copy)]
enum Proof {
    Bearer,
    Signature,
}

pub(super) fn rows() -> [Row; 2] {
    let row = || Row {
        name: "Bedrock",
        spec: "bedrock:eu.anthropic.claude-sonnet-4-6-v1:0",
        variables: &[("AWS_REGION", "eu-west-1")],
        access: key(),
        serve: Box::new(|seen| serve(Proof::Bearer, seen)),
        // It does not say.
        model: None,
        thought: Some("hm"),
        call_id: "tooluse_1",
        usage: [50, 7, 16, 4],
        error: (RateLimit, "Too many requests, please wait"),
    };
    let signed = Row {
        name: "Bedrock (SigV4)",
        access: aws_key(),
        serve: Box::new(|seen| serve(Proof::Signature, seen)),
        error: (Account, "403 InvalidSignatureException: The request signature we calculated does not match"),
        ..row()
    };
    [row(), signed]
}

fn serve(proof: Proof, seen: &Seen) -> Play {
    let is_stream = seen.path().ends_with("-stream");
    if let Err(what) = check(proof, seen, is_stream) {
        return disliked(what);
    }
    let last = &seen.body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default()["content"][0];
    let is_call = match (last.get("toolResult"), last["text"].as_str()) {
        (Some(_), _) | (_, Some(ASKED)) => false,
        (_, Some(ASKED_TO_CALL)) => true,
        (_, Some(ASKED_TO_FAIL)) => return refused(proof, is_stream),
        _ => return disliked(last),
    };
    let reason = if is_call { "tool_use" } else { "end_turn" };
    let usage =
        json!({"inputTokens": 30, "outputTokens": 7, "totalTokens": 57, "cacheReadInputTokens": 16, "cacheWriteInputTokens": 4});
    if !is_stream {
        let thought = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}});
        let said = match is_call {
            true => {
                json!({"toolUse": {"toolUseId": "tooluse_1", "name": "add", "input": serde_json::from_str::<Value>(ARGUMENTS).unwrap()}})
            }
            false => json!({"text": PIECES.concat()}),
        };
        return json(&json!({"output": {"message": {"role": "assistant", "content": [thought, said]}}, "stopReason": reason,
            "usage": usage, "metrics": {"latencyMs": 5}}));
    }
    let delta = |idx: u64, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": idx, "delta": delta, "p": "abc"}));
    let stop = |idx: u64| ("contentBlockStop", json!({"contentBlockIndex": idx}));
    let mut events = vec![
        ("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "hm"}})),
        delta(0, json!({"reasoningContent": {"signature": "sig"}})),
        stop(0),
    ];
    if is_call {
        let (begin, rest) = ARGUMENTS.split_at(4);
        let start = json!({"toolUse": {"toolUseId": "tooluse_1", "name": "add"}});
        events.push(("contentBlockStart", json!({"contentBlockIndex": 1, "start": start})));
        events.extend([begin, rest].map(|part| delta(1, json!({"toolUse": {"input": part}}))));
    } else {
        events.extend(PIECES.map(|piece| delta(1, json!({"text": piece}))));
    }
    events.extend([
        stop(1),
        ("messageStop", json!({"stopReason": reason})),
        ("metadata", json!({"usage": usage, "metrics": {"latencyMs": 5}})),
    ]);
    let frames: Vec<u8> = events.iter().flat_map(|(kind, event)| frame("event", kind, event)).collect();
    bytes("application/vnd.amazon.eventstream", &frames)
}

/// One is told to wait, in a stream only after it has begun; the other that its signature is wrong, with all that was signed.
fn refused(proof: Proof, is_stream: bool) -> Play {
    let busy = json!({"message": "Too many requests, please wait before trying again."});
    match proof {
        Proof::Bearer if is_stream => {
            let begin = frame("event", "messageStart", &json!({"role": "assistant"}));
            let frames = [begin, frame("exception", "throttlingException", &busy)].concat();
            bytes("application/vnd.amazon.eventstream", &frames)
        }
        Proof::Bearer => no("429 Too Many Requests", "x-amzn-errortype: ThrottlingException:http://internal/\n", &busy),
        Proof::Signature => {
            let words = "The request signature we calculated does not match the signature you provided. The canonical string was: x-amz-security-token:lent-4711";
            no("403 Forbidden", "x-amzn-errortype: InvalidSignatureException\n", &json!({"message": words}))
        }
    }
}

fn check(proof: Proof, seen: &Seen, is_stream: bool) -> Result<(), String> {
    let verb = if is_stream { "converse-stream" } else { "converse" };
    let expected = match proof {
        Proof::Bearer => format!("Bearer {SECRET}"),
        Proof::Signature => signature(seen)?,
    };
    check_head(seen, &format!("{MODEL}/{verb}"), Some(("authorization", &expected)))?;
    let body = &seen.body;
    check_names("the body", body, &["messages", "system", "inferenceConfig"], &["toolConfig"])?;
    check_names("the configuration", &body["inferenceConfig"], &["maxTokens", "temperature"], &[])?;
    same("system", &body["system"], &json!([{"text": "be brief"}]))?;
    for tool in body["toolConfig"]["tools"].as_array().into_iter().flatten() {
        check_names("a tool", &tool["toolSpec"], &["name", "description", "inputSchema"], &[])?;
        check_names("a schema", &tool["toolSpec"]["inputSchema"], &["json"], &[])?;
    }
    for (message_idx, message) in body["messages"].as_array().into_iter().flatten().enumerate() {
        let role = if message_idx % 2 == 0 { "user" } else { "assistant" };
        same("role", message["role"].as_str(), Some(role))?;
        for block in message["content"].as_array().ok_or("content is no list")? {
            if let Some(call) = block.get("toolUse") {
                check_names("a call", call, &["toolUseId", "name", "input"], &[])?;
                let thought = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}});
                same("the first block", &message["content"][0], &thought)?;
            } else if let Some(result) = block.get("toolResult") {
                same("result", result, &json!({"toolUseId": "tooluse_1", "content": [{"text": "42"}]}))?;
            } else if block.get("reasoningContent").is_none() {
                check_names("a block", block, &["text"], &[])?;
            }
        }
    }
    Ok(())
}

/// The header that AWS would compute for this request.
fn signature(seen: &Seen) -> Result<String, String> {
    same("session", seen.header("x-amz-security-token"), Some("lent-4711"))?;
    let stamp = seen.header("x-amz-date").ok_or("no date")?;
    let signed = ["content-type", "host", "x-amz-date", "x-amz-security-token"];
    let headers: String = signed.iter().map(|name| format!("{name}:{}\n", seen.header(name).unwrap_or_default())).collect();
    let (names, body) = (signed.join(";"), hex(&Sha256::digest(&seen.raw)));
    let canonical = format!("POST\n{}\n\n{headers}\n{names}\n{body}", seen.path().replace('%', "%25"));
    let scope = format!("{}/eu-west-1/bedrock/aws4_request", stamp.get(..8).ok_or("a short date")?);
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let key = scope.split('/').fold(format!("AWS4{SECRET}").into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, text.as_bytes()));
    Ok(format!("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, Signature={signature}"))
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let padded = |by: u8| (0..64).map(|at| key.get(at).unwrap_or(&0) ^ by).collect::<Vec<u8>>();
    let inner = Sha256::digest([padded(0x36).as_slice(), text].concat());
    Sha256::digest([padded(0x5c).as_slice(), inner.as_slice()].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A frame of this type and kind.
pub(crate) fn frame(message_type: &str, kind: &str, payload: &Value) -> Vec<u8> {
    let kind_name = if message_type == "event" { ":event-type" } else { ":exception-type" };
    let header = |name: &str, value: &str| {
        let value_len = u16::try_from(value.len()).unwrap().to_be_bytes();
        [&[name.len() as u8], name.as_bytes(), &[7], &value_len, value.as_bytes()].concat()
    };
    let headers =
        [header(kind_name, kind), header(":content-type", "application/json"), header(":message-type", message_type)].concat();
    let payload = payload.to_string();
    let number = |len: usize| u32::try_from(len).unwrap().to_be_bytes();
    let mut frame = [number(16 + headers.len() + payload.len()), number(headers.len())].concat();
    frame.extend(crc32(&frame).to_be_bytes());
    frame.extend([headers.as_slice(), payload.as_bytes()].concat());
    frame.extend(crc32(&frame).to_be_bytes());
    frame
}

/// Bit by bit, as it is defined.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}
