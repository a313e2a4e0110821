//! Wire formats as tables: what is sent, and what is read.

use hone_policy::upstream::{
    Called, Calling, ChatRequest, Label, Manner, Reply, Sampling, Transfer, UpstreamSpec, Wire, WireError, body, reply,
};
use hone_trace::{Content, Message, Role, ToolRequest, ToolSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

fn call(id: &str, name: &str, arguments: &str) -> ToolRequest {
    ToolRequest { id: id.into(), name: name.into(), arguments: arguments.into(), extra: Map::new() }
}

/// Instructions, a picture, two calls at once, their results, a further question.
fn conversation() -> Vec<Message> {
    let said = |role, text: &str| Message::text(role, text);
    let picture = Content::Parts(vec![
        json!({"type": "text", "text": "look"}),
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}),
    ]);
    let result = |id: &str, text: &str| Message { tool_call_id: Some(id.into()), ..said(Role::Tool, text) };
    let calls = vec![call("a", "find", r#"{"x":1}"#), call("b", "find", "not json")];
    vec![
        said(Role::System, "be brief"),
        said(Role::Developer, "and kind"),
        Message { content: picture, ..said(Role::User, "") },
        Message { content: Content::None, tool_calls: calls, ..said(Role::Assistant, "") },
        result("a", "one"),
        result("b", "two"),
        said(Role::Assistant, "found"),
        said(Role::User, "more?"),
    ]
}

fn request() -> ChatRequest {
    let find = ToolSpec {
        name: "find".into(),
        description: Some("Finds".into()),
        parameters: json!({"type": "object", "properties": {"x": {"type": "integer"}}}),
        extra: Map::from_iter([("strict".to_owned(), true.into())]),
    };
    let bare = ToolSpec { name: "bare".into(), description: None, parameters: Value::Null, extra: Map::new() };
    ChatRequest {
        messages: conversation(),
        tools: [find, bare].into(),
        sampling: Sampling { temperature: Some(0.5), top_p: Some(0.9), stops: vec!["END".into()], ..Sampling::default() },
        tokens_max: 64,
        seed: 5 << 33,
        ..ChatRequest::default()
    }
}

fn check_body(spec: &str, request: &ChatRequest, transfer: Transfer, expected: &Value) {
    let spec: UpstreamSpec = spec.parse().unwrap();
    let found = body(&spec, request, transfer).unwrap();
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(found.get(name), Some(value), "{name} of {spec:?}");
    }
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&found), names(expected));
}

#[test]
fn every_format_says_which_tools_are_called() {
    let check = |spec: &str, called: Called, pointer: &str, expected: Option<Value>| {
        let request = ChatRequest { calling: Some(Calling { called, is_single: false }), ..request() };
        let body = body(&spec.parse().unwrap(), &request, Transfer::Plain).unwrap();
        assert_eq!(body.pointer(pointer).cloned(), expected, "{spec}: {body}");
    };
    let named = || Called::Named("find".into());
    check("openai:m", Called::Free, "/tool_choice", None);
    check("openai:m", Called::Some, "/tool_choice", Some("required".into()));
    check("openai:m", named(), "/tool_choice/function/name", Some("find".into()));
    check("anthropic:m", Called::Free, "/tool_choice", None);
    check("anthropic:m", Called::None, "/tool_choice/type", Some("none".into()));
    check("anthropic:m", named(), "/tool_choice", Some(json!({"type": "tool", "name": "find"})));
    check("gemini:m", Called::Some, "/toolConfig/functionCallingConfig/mode", Some("ANY".into()));
    check("gemini:m", named(), "/toolConfig/functionCallingConfig/allowedFunctionNames", Some(json!(["find"])));
    check("bedrock+https://h#m", Called::Some, "/toolConfig/toolChoice", Some(json!({"any": {}})));
    check("cohere:m", Called::None, "/tool_choice", Some("NONE".into()));
    check("cohere:m", Called::Free, "/tool_choice", None);
}

#[test]
fn every_format_says_how_much_is_thought() {
    let check = |spec: &str, place: &str, expected: Value| {
        let manner = Manner { effort: Some("low"), verbosity: Some("high") };
        let asked = body(&spec.parse().unwrap(), &ChatRequest { manner: Some(manner), ..request() }, Transfer::Plain).unwrap();
        assert_eq!(asked.pointer(place), Some(&expected), "{spec}: {asked}");
    };
    check("openai:m", "/reasoning_effort", "low".into());
    check("openai:m", "/verbosity", "high".into());
    check("anthropic:m", "/output_config", json!({"effort": "low"}));
    check("gemini:gemini-3-pro", "/generationConfig/thinkingConfig", json!({"thinkingLevel": "low"}));
    check("gemini:gemini-2.5-pro", "/generationConfig/thinkingConfig", json!({"thinkingBudget": 1024}));
}

#[test]
fn openai_is_asked() {
    let parameters = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let expected = json!({
        "model": "gpt",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "developer", "content": "and kind"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{\"x\":1}"}},
                {"id": "b", "type": "function", "function": {"name": "find", "arguments": "not json"}}]},
            {"role": "tool", "content": "one", "tool_call_id": "a"},
            {"role": "tool", "content": "two", "tool_call_id": "b"},
            {"role": "assistant", "content": "found"},
            {"role": "user", "content": "more?"}],
        "tools": [
            {"type": "function", "function": {"name": "find", "description": "Finds", "parameters": parameters, "strict": true}},
            {"type": "function", "function": {"name": "bare", "parameters": {"type": "object", "properties": {}}}}],
        "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 5, "max_completion_tokens": 64,
        "stream": true, "stream_options": {"include_usage": true}});
    check_body("openai:gpt", &request(), Transfer::Stream, &expected);

    let user = vec![Message { name: Some("ann".into()), ..Message::text(Role::User, "hi") }];
    let any = json!({"type": "object"});
    let plain = ChatRequest { messages: user, schema: Some(any), tokens_max: 8, ..ChatRequest::default() };
    let messages = json!([{"role": "user", "content": "hi", "name": "ann"}]);
    let format = json!({"type": "json_object"});
    let mut expected = json!({"model": "m", "messages": messages, "response_format": format, "max_tokens": 8, "seed": 0});
    check_body("http://h/v1#m", &plain, Transfer::Plain, &expected);
    let mistral = expected.as_object_mut().unwrap();
    let seed = mistral.remove("seed").unwrap();
    mistral.insert("random_seed".into(), seed);
    mistral.insert("stream".into(), true.into());
    check_body("mistral:m", &plain, Transfer::Stream, &expected);
    // A schema that allows more than it names would be refused as a strict one.
    for is_strict in [true, false] {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": !is_strict});
        let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": is_strict}});
        let expected = json!({"model": "m", "messages": [], "response_format": format, "seed": 0});
        check_body("http://h/v1#m", &ChatRequest { schema: Some(schema), ..ChatRequest::default() }, Transfer::Plain, &expected);
    }
    let extra = json!({"reasoning_effort": "low"}).as_object().unwrap().clone();
    let sampling = Sampling { token_ids: true, extra, ..Sampling::default() };
    let expected =
        json!({"model": "m", "messages": [], "seed": 0, "return_token_ids": true, "logprobs": true, "reasoning_effort": "low"});
    check_body("http://h/v1#m", &ChatRequest { sampling, ..ChatRequest::default() }, Transfer::Plain, &expected);
}

#[test]
fn anthropic_is_asked() {
    let expected = json!({
        "model": "claude", "max_tokens": 64, "system": "be brief\n\nand kind",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "a", "name": "find", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "find", "input": {"unreadable": "not json"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "one"}]},
                {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "two"}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "found"}]},
            {"role": "user", "content": [{"type": "text", "text": "more?"}]}],
        "tools": [
            {"name": "find", "description": "Finds", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            {"name": "bare", "input_schema": {"type": "object", "properties": {}}}],
        "temperature": 0.5, "top_p": 0.9, "stop_sequences": ["END"], "stream": true});
    check_body("anthropic:claude", &request(), Transfer::Stream, &expected);

    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut thought = Message::text(Role::Assistant, "so");
    let block = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    thought.extra.insert("thinking_blocks".into(), json!([block]));
    let messages =
        vec![Message::text(Role::User, "n?"), thought, Message::text(Role::User, ""), Message::text(Role::User, "and?")];
    let asked = ChatRequest { messages, schema: Some(schema.clone()), tokens_max: 8, ..ChatRequest::default() };
    let expected = json!({
        "model": "claude", "max_tokens": 8,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "n?"}]},
            {"role": "assistant", "content": [block, {"type": "text", "text": "so"}]},
            {"role": "user", "content": [{"type": "text", "text": "and?"}]}],
        "tool_choice": {"type": "tool", "name": "answer"},
        "tools": [{"name": "answer", "description": "Give the answer.", "input_schema": schema}]});
    check_body("anthropic:claude", &asked, Transfer::Plain, &expected);
}

#[test]
fn gemini_is_asked() {
    let mut request = request();
    request.messages[3].tool_calls[0].extra.insert("thought_signature".into(), "sig".into());
    request.schema = Some(json!({"type": "object"}));
    let budget = json!({"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}, "safetySettings": []});
    request.sampling.extra = budget.as_object().unwrap().clone();
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "be brief"}, {"text": "and kind"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "find", "args": {"x": 1}}, "thoughtSignature": "sig"},
                {"functionCall": {"name": "find", "args": {"unreadable": "not json"}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "find", "response": {"result": "one"}}},
                {"functionResponse": {"name": "find", "response": {"result": "two"}}}]},
            {"role": "model", "parts": [{"text": "found"}]},
            {"role": "user", "parts": [{"text": "more?"}]}],
        "tools": [{"functionDeclarations": [
            {"name": "find", "description": "Finds", "parametersJsonSchema": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            {"name": "bare", "parametersJsonSchema": {"type": "object", "properties": {}}}]}],
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "stopSequences": ["END"], "seed": 5, "maxOutputTokens": 64,
            "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}, "thinkingConfig": {"thinkingBudget": 0}},
        "safetySettings": []});
    check_body("gemini:flash", &request, Transfer::Stream, &expected);

    // A call that came without a signature says so, where one would have to stand.
    request.messages[3].tool_calls[0].extra.clear();
    let mut unsigned = expected;
    unsigned["contents"][1]["parts"][0]["thoughtSignature"] = "skip_thought_signature_validator".into();
    check_body("gemini:flash", &request, Transfer::Stream, &unsigned);
}

#[test]
fn cohere_is_asked() {
    let mut request = request();
    request.messages[3].extra.insert("tool_plan".into(), "find it".into());
    let parameters = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let expected = json!({
        "model": "command", "max_tokens": 64, "stream": true, "seed": 5, "temperature": 0.5, "p": 0.9, "stop_sequences": ["END"],
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "system", "content": "and kind"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]},
            {"role": "assistant", "tool_plan": "find it", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{\"x\":1}"}},
                {"id": "b", "type": "function", "function": {"name": "find", "arguments": "not json"}}]},
            {"role": "tool", "content": "one", "tool_call_id": "a"},
            {"role": "tool", "content": "two", "tool_call_id": "b"},
            {"role": "assistant", "content": "found"},
            {"role": "user", "content": "more?"}],
        "tools": [
            {"type": "function", "function": {"name": "find", "description": "Finds", "parameters": parameters}},
            {"type": "function", "function": {"name": "bare", "parameters": {"type": "object", "properties": {}}}}]});
    check_body("cohere:command", &request, Transfer::Stream, &expected);

    let user = vec![Message { name: Some("ann".into()), ..Message::text(Role::User, "hi") }];
    let asked = ChatRequest { messages: user, schema: Some(json!({"type": "object"})), tokens_max: 8, ..ChatRequest::default() };
    let expected = json!({
        "model": "command", "max_tokens": 8, "stream": false, "seed": 0, "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "json_object", "json_schema": {"type": "object"}}});
    check_body("cohere:command", &asked, Transfer::Plain, &expected);
}

#[test]
fn bedrock_is_asked() {
    let expected = json!({
        "system": [{"text": "be brief"}, {"text": "and kind"}],
        "messages": [
            {"role": "user", "content": [{"text": "look"}, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}]},
            {"role": "assistant", "content": [
                {"toolUse": {"toolUseId": "a", "name": "find", "input": {"x": 1}}},
                {"toolUse": {"toolUseId": "b", "name": "find", "input": {"unreadable": "not json"}}}]},
            {"role": "user", "content": [
                {"toolResult": {"toolUseId": "a", "content": [{"text": "one"}]}},
                {"toolResult": {"toolUseId": "b", "content": [{"text": "two"}]}}]},
            {"role": "assistant", "content": [{"text": "found"}]},
            {"role": "user", "content": [{"text": "more?"}]}],
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "find", "description": "Finds", "inputSchema": {"json": {"type": "object", "properties": {"x": {"type": "integer"}}}}}},
            {"toolSpec": {"name": "bare", "inputSchema": {"json": {"type": "object", "properties": {}}}}}]},
        "inferenceConfig": {"maxTokens": 64, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        "additionalModelRequestFields": {"top_k": 5}});
    let mut request = request();
    request.sampling.extra = json!({"additionalModelRequestFields": {"top_k": 5}}).as_object().unwrap().clone();
    check_body("bedrock+https://h#claude", &request, Transfer::Stream, &expected);

    let schema = json!({"type": "object"});
    let mut thought = Message::text(Role::Assistant, "so");
    let block = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}});
    thought.extra.insert("reasoning_blocks".into(), json!([block]));
    let messages = vec![Message::text(Role::User, "n?"), thought, Message::text(Role::User, "and?")];
    let asked = ChatRequest { messages, schema: Some(schema.clone()), tokens_max: 8, ..ChatRequest::default() };
    let answer = json!({"name": "answer", "description": "Give the answer.", "inputSchema": {"json": schema}});
    let expected = json!({
        "messages": [
            {"role": "user", "content": [{"text": "n?"}]},
            {"role": "assistant", "content": [block, {"text": "so"}]},
            {"role": "user", "content": [{"text": "and?"}]}],
        "toolConfig": {"toolChoice": {"tool": {"name": "answer"}}, "tools": [{"toolSpec": answer}]},
        "inferenceConfig": {"maxTokens": 8}});
    check_body("bedrock+https://h#claude", &asked, Transfer::Plain, &expected);

    let linked = Content::Parts(vec![json!({"type": "image_url", "image_url": {"url": "https://h/cat.png"}})]);
    let linked = ChatRequest { messages: vec![Message { content: linked, ..Message::text(Role::User, "") }], ..asked };
    let error = body(&"bedrock+https://h#m".parse().unwrap(), &linked, Transfer::Plain).unwrap_err().to_string();
    assert!(error.contains("as data"), "{error}");
}

#[test]
fn what_a_client_says_of_its_schema_goes_where_there_is_a_place() {
    let schema = json!({"type": "object"});
    let (name, description) = (Some("invoice".to_owned()), Some("One invoice.".to_owned()));
    let label = Label { name, description, strict: Some(true) };
    let asked = ChatRequest { schema: Some(schema.clone()), label, ..ChatRequest::default() };
    let check = |spec: &str, request: &ChatRequest, pointer: &str, expected: Value| {
        let body = body(&spec.parse().unwrap(), request, Transfer::Plain).unwrap();
        assert_eq!(body.pointer(pointer), Some(&expected), "{spec}: {body}");
    };
    let named = json!({"name": "invoice", "description": "One invoice.", "schema": schema, "strict": true});
    check("openai:m", &asked, "/response_format", json!({"type": "json_schema", "json_schema": named}));
    let tool = json!({"name": "invoice", "description": "One invoice.", "input_schema": schema});
    check("anthropic:m", &asked, "/tools/0", tool);
    check("anthropic:m", &asked, "/tool_choice/name", "invoice".into());
    let tool = json!({"name": "invoice", "description": "One invoice.", "inputSchema": {"json": schema}});
    check("bedrock+https://h#m", &asked, "/toolConfig/tools/0/toolSpec", tool);
    check("bedrock+https://h#m", &asked, "/toolConfig/toolChoice/tool/name", "invoice".into());
    let labelled = json!({"type": "object", "title": "invoice", "description": "One invoice."});
    check("gemini:m", &asked, "/generationConfig/responseJsonSchema", labelled.clone());
    check("cohere:m", &asked, "/response_format/json_schema", labelled);
    let titled = ChatRequest { schema: Some(json!({"title": "Own"})), ..asked.clone() };
    check("gemini:m", &titled, "/generationConfig/responseJsonSchema/title", "Own".into());

    // The answer is found under its name, and under another one where that is no name of a tool, or a tool has it.
    let tools = |names: &[&str]| -> Arc<[ToolSpec]> {
        let tool = |name: &&str| {
            let (name, parameters) = ((*name).to_owned(), Value::Null);
            ToolSpec { name, description: None, parameters, extra: Map::new() }
        };
        names.iter().map(tool).collect()
    };
    for (name, others, expected) in [
        ("invoice", &[][..], "invoice"),
        ("invoice", &["invoice"], "answer"),
        ("invoice", &["invoice", "answer"], "answer_2"),
        ("two words", &[], "answer"),
        ("", &[], "answer"),
    ] {
        let label = Label { name: Some(name.into()), ..Label::default() };
        let asked = ChatRequest { label, tools: tools(others), ..asked.clone() };
        check("anthropic:m", &asked, &format!("/tools/{}/name", others.len()), expected.into());
        let call = |name: &str| json!({"content": [{"type": "tool_use", "id": "a", "name": name, "input": {"n": 1}}], "stop_reason": "tool_use"});
        assert_eq!(line(&reply(Wire::Anthropic, &call(expected), &asked).unwrap()), r#""{\"n\":1}" Stop"#);
        let call = |name: &str| {
            let content = json!([{"toolUse": {"toolUseId": "a", "name": name, "input": {"n": 1}}}]);
            json!({"output": {"message": {"content": content}}, "stopReason": "tool_use"})
        };
        assert_eq!(line(&reply(Wire::Bedrock, &call(expected), &asked).unwrap()), r#""{\"n\":1}" Stop"#);
        for tool in others {
            assert_eq!(line(&reply(Wire::Bedrock, &call(tool), &asked).unwrap()), format!(r#""" a:{tool}{{"n":1}} ToolCalls"#));
        }
    }
}

#[test]
fn a_part_that_a_provider_cannot_take_is_refused_by_name() {
    let sound = Content::Parts(vec![json!({"type": "input_audio", "input_audio": {}})]);
    let messages = vec![Message { content: sound, ..Message::text(Role::User, "") }];
    let request = ChatRequest { messages, ..ChatRequest::default() };
    for spec in ["anthropic:m", "gemini:m", "bedrock+https://h#m"] {
        let error = body(&spec.parse().unwrap(), &request, Transfer::Plain).unwrap_err().to_string();
        assert!(error.contains("input_audio"), "{error}");
    }
}

/// An answer in a line: text, thoughts, calls, why it ended, tokens in/out/cached/written, what is broken.
pub(crate) fn line(reply: &Reply) -> String {
    let message = &reply.message;
    let mut parts = vec![format!("{:?}", message.content.text())];
    parts.extend(message.reasoning.iter().map(|thought| format!("({thought})")));
    parts.extend(message.tool_calls.iter().map(|call| format!("{}:{}{}", short(&call.id), call.name, call.arguments)));
    parts.push(format!("{:?}", reply.finish));
    parts.extend(reply.usage.map(|usage| {
        let thought = if usage.tokens_thought > 0 { format!("/{} thought", usage.tokens_thought) } else { String::new() };
        format!("{}/{}/{}/{}{thought}", usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_cache_written)
    }));
    parts.extend(reply.broken.iter().map(|what| format!("! {what}")));
    parts.join(" ")
}

/// An id without what is drawn in it: `call_0`.
pub(crate) fn short(id: &str) -> String {
    match id.split('_').collect::<Vec<_>>().as_slice() {
        ["call", drawn, call_idx] if drawn.len() == 16 => format!("call_{call_idx}"),
        _ => id.to_owned(),
    }
}

fn check_reply(wire: Wire, json: &Value, schema: Option<Value>, expected: &str) {
    let found = match reply(wire, json, &ChatRequest { schema, ..ChatRequest::default() }) {
        Ok(reply) => line(&reply),
        Err(WireError::Broken(what)) => format!("broken: {what}"),
        Err(WireError::Failed(refusal)) => format!("{} {}: {}", refusal.status, refusal.code, refusal.message),
    };
    assert_eq!(found, expected, "{json}");
}

#[test]
fn openai_answers() {
    let check = |message: Value, reason: &str, usage: Value, expected: &str| {
        let json = json!({"choices": [{"message": message, "finish_reason": reason}], "usage": usage});
        check_reply(Wire::OpenAi, &json, None, expected);
    };
    check(json!({"content": "hi"}), "stop", json!({"prompt_tokens": 9, "completion_tokens": 2}), r#""hi" Stop 9/2/0/0"#);
    let cached = json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}, "prompt_cache_hit_tokens": 4});
    check(json!({"content": "hi"}), "length", cached, r#""hi" Length 9/2/4/0"#);
    let hit = json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 8});
    check(json!({"content": null, "reasoning_content": "hm"}), "stop", hit, r#""" (hm) Stop 9/2/8/0"#);
    let calls = json!([{"id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}, {"function": {"name": "g", "arguments": {"y": 2}}}]);
    check(json!({"content": null, "tool_calls": calls}), "tool_calls", json!(null), r#""" a:f{"x":1} call_1:g{"y":2} ToolCalls"#);
    let cut = json!([{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{\"y"}}]);
    check(json!({"tool_calls": cut}), "length", json!(null), r#""" a:f{} Length ! the call of g was cut off: {"y"#);
    let silent = json!([{"id": "a", "function": {"name": "f", "arguments": ""}}, {"id": "b", "function": {"name": "g"}}]);
    check(json!({"tool_calls": silent}), "tool_calls", json!(null), r#""" a:f{} b:g{} ToolCalls"#);
    let older = json!({"content": null, "function_call": {"name": "f", "arguments": "{\"x\":1}"}});
    check(older, "function_call", json!(null), r#""" call_0:f{"x":1} ToolCalls"#);
    check(json!({"refusal": "no"}), "stop", json!(null), r#""no" Filtered"#);
    let parts = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}]);
    check(json!({"content": parts}), "stop", json!(null), r#""so" (hm) Stop"#);
    let parts = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}]);
    check(json!({"content": parts}), "stop", json!(null), r#""so" (hm) Stop"#);
    check(json!({"tool_calls": [{"function": {"name": ""}}]}), "stop", json!(null), "broken: a tool call has no name");
    check_reply(Wire::OpenAi, &json!({"error": {"message": "no", "type": "server_error"}}), None, "503 server_error: no");
    check_reply(Wire::OpenAi, &json!({"choices": null}), None, "broken: the answer has no choice");
    check(json!({"content": "half"}), "error", json!(null), "broken: the provider says that the answer failed");
    let failed = json!({"choices": [{"error": {"code": 502, "message": "gone"}, "message": {"content": "half"}, "finish_reason": "stop"}]});
    check_reply(Wire::OpenAi, &failed, None, "502 : gone");
    // Thoughts that the sum says are apart count as written; others are among it already.
    let apart = json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 16, "completion_tokens_details": {"reasoning_tokens": 5}});
    check(json!({"content": "hi"}), "stop", apart, r#""hi" Stop 9/7/0/0/5 thought"#);
    let among = json!({"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16, "completion_tokens_details": {"reasoning_tokens": 5}});
    check(json!({"content": "hi"}), "stop", among, r#""hi" Stop 9/7/0/0/5 thought"#);
    check_reply(Wire::OpenAi, &json!({"choices": [{"finish_reason": "stop"}]}), None, "broken: the answer has no message");
}

#[test]
fn what_is_passed_on_is_what_is_recorded() {
    let passed_on = |message: Value| {
        let json = json!({"id": "r", "choices": [{"message": message, "finish_reason": "tool_calls"}]});
        let request = ChatRequest { body: Some(Map::new()), ..ChatRequest::default() };
        reply(Wire::OpenAi, &json, &request).unwrap()
    };
    let found =
        passed_on(json!({"content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": ""}}]}));
    let (told, recorded) = (&found.json.unwrap()["choices"][0]["message"]["tool_calls"][0], &found.message.tool_calls[0]);
    assert_eq!((told["id"].as_str(), &told["function"]["arguments"]), (Some(recorded.id.as_str()), &json!("{}")));
    assert_eq!((short(&recorded.id).as_str(), recorded.arguments.as_str()), ("call_0", "{}"));
    // The older form stays what it is, and is recorded as it is read when it is sent again.
    let older = json!({"content": null, "function_call": {"name": "f", "arguments": "{}"}});
    let found = passed_on(older.clone());
    assert_eq!(found.json.unwrap()["choices"][0]["message"], older);
    let [call] = &found.message.tool_calls[..] else { panic!("no call") };
    assert_eq!((call.id.as_str(), call.name.as_str(), &call.extra["hone.form"]), ("", "f", &json!("function_call")));
    let refused = passed_on(json!({"content": null, "refusal": "no"}));
    assert_eq!((refused.message.content.text().as_str(), &refused.message.extra["refusal"]), ("no", &json!("no")));
}

#[test]
fn made_ids_differ_from_turn_to_turn() {
    let call = json!({"functionCall": {"name": "f"}});
    let gemini = json!({"candidates": [{"content": {"parts": [call, call]}, "finishReason": "STOP"}]});
    let function = json!({"function": {"name": "f"}});
    let openai = json!({"choices": [{"message": {"tool_calls": [function, function]}, "finish_reason": "tool_calls"}]});
    for (wire, mut json) in [(Wire::Gemini, gemini), (Wire::OpenAi, openai)] {
        let mut request = ChatRequest { messages: vec![Message::text(Role::User, "?")], ..ChatRequest::default() };
        let mut ids = BTreeSet::new();
        for _ in 0..3 {
            let answer = reply(wire, &json, &request).unwrap().message;
            assert_eq!(answer, reply(wire, &json, &request).unwrap().message, "the same answer has the same ids");
            ids.extend(answer.tool_calls.iter().map(|call| call.id.clone()));
            request.messages.push(answer);
        }
        json["id"] = "r".into();
        json["responseId"] = "r".into();
        request.messages.truncate(1);
        ids.extend(reply(wire, &json, &request).unwrap().message.tool_calls.into_iter().map(|call| call.id));
        assert_eq!(ids.len(), 8, "{ids:?}");
    }
}

#[test]
fn who_sets_no_limit_leaves_it_to_the_provider() {
    let request = ChatRequest { messages: vec![Message::text(Role::User, "?")], ..ChatRequest::default() };
    for spec in ["openai:m", "http://h/v1#m", "gemini:m", "cohere:m", "bedrock+https://h#m"] {
        let found = body(&spec.parse().unwrap(), &request, Transfer::Plain).unwrap().to_string().to_lowercase();
        assert!(!found.contains("tokens"), "{spec}: {found}");
    }
    let found = body(&"anthropic:m".parse().unwrap(), &request, Transfer::Plain).unwrap();
    assert_eq!(found["max_tokens"], 4096, "this format insists on one");
}

#[test]
fn token_ids_come_with_their_logprobs() {
    let answer = |ids: Value| {
        let logprobs = json!({"content": [{"token": "h", "logprob": -0.5}, {"token": "i", "logprob": -1.25}]});
        let choice = json!({"message": {"content": "hi"}, "finish_reason": "stop", "token_ids": ids, "logprobs": logprobs});
        reply(Wire::OpenAi, &json!({"prompt_token_ids": [1, 2], "choices": [choice]}), &ChatRequest::default())
    };
    let tokens = answer(json!([7, 8])).unwrap().tokens;
    assert_eq!((tokens.prompt_ids, tokens.ids, tokens.logprobs), (vec![1, 2], vec![7, 8], vec![-0.5, -1.25]));
    assert_eq!(answer(json!([7])).unwrap_err(), WireError::Broken("1 token ids came with 2 log-probs".into()));
    assert_eq!(answer(json!([7, "x"])).unwrap_err(), WireError::Broken("a token id is not a number".into()));
}

#[test]
fn anthropic_answers() {
    let check = |content: Value, reason: &str, schema: Option<Value>, expected: &str| {
        let usage =
            json!({"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 7});
        check_reply(Wire::Anthropic, &json!({"content": content, "stop_reason": reason, "usage": usage}), schema, expected);
    };
    check(json!([{"type": "text", "text": "hi"}]), "end_turn", None, r#""hi" Stop 32/3/20/7"#);
    // As they are joined where the same blocks are read when they are sent again.
    let texts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]);
    check(texts, "end_turn", None, r#""a\n\nb" Stop 32/3/20/7"#);
    check(
        json!([{"type": "tool_use", "id": "a", "name": "f", "input": {}}]),
        "tool_use",
        None,
        r#""" a:f{} ToolCalls 32/3/20/7"#,
    );
    let calls = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}]);
    check(calls, "tool_use", None, r#""" (hm) a:f{"x":1} ToolCalls 32/3/20/7"#);
    let answer = json!([{"type": "tool_use", "id": "a", "name": "answer", "input": {"n": 4}}]);
    check(answer.clone(), "tool_use", Some(json!({})), r#""{\"n\":4}" Stop 32/3/20/7"#);
    check(answer, "tool_use", None, r#""" a:answer{"n":4} ToolCalls 32/3/20/7"#);
    check(json!([{"type": "text", "text": "h"}]), "max_tokens", None, r#""h" Length 32/3/20/7"#);
    check(json!([]), "refusal", None, r#""" Filtered 32/3/20/7"#);
    check(json!([{"text": "h"}]), "end_turn", None, "broken: a block of the answer has no type");
    check_reply(Wire::Anthropic, &json!({"content": [], "stop_reason": null}), None, "broken: the answer has no stop reason");
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    check_reply(Wire::Anthropic, &error, None, "503 overloaded_error: busy");
}

#[test]
fn gemini_answers() {
    let check = |parts: Value, reason: &str, expected: &str| {
        let usage = json!({"promptTokenCount": 30, "candidatesTokenCount": 4, "thoughtsTokenCount": 6, "cachedContentTokenCount": 10, "totalTokenCount": 40});
        let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": reason});
        check_reply(Wire::Gemini, &json!({"candidates": [candidate], "usageMetadata": usage}), None, expected);
    };
    check(
        json!([{"text": "hm", "thought": true}, {"text": "h"}, {"text": "i"}]),
        "STOP",
        r#""hi" (hm) Stop 30/10/10/0/6 thought"#,
    );
    let call =
        json!([{"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"}, {"functionCall": {"name": "g"}}]);
    check(call, "STOP", r#""" call_0:f{"x":1} call_1:g{} ToolCalls 30/10/10/0/6 thought"#);
    check(json!([{"text": "h"}]), "MAX_TOKENS", r#""h" Length 30/10/10/0/6 thought"#);
    check(json!([]), "SAFETY", r#""" Filtered 30/10/10/0/6 thought"#);
    check(json!([]), "MALFORMED_FUNCTION_CALL", r#""" Stop 30/10/10/0/6 thought ! MALFORMED_FUNCTION_CALL"#);
    check_reply(
        Wire::Gemini,
        &json!({"promptFeedback": {"blockReason": "SAFETY"}}),
        None,
        "400 SAFETY: the prompt was blocked: SAFETY",
    );
    check_reply(Wire::Gemini, &json!({"candidates": [{}]}), None, "broken: the answer has no finish reason");
    check_reply(
        Wire::Gemini,
        &json!([{"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}]),
        None,
        "503 UNAVAILABLE: later",
    );
    let signed = json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}, "thoughtSignature": "s"}]}, "finishReason": "STOP"}]});
    let reply = reply(Wire::Gemini, &signed, &ChatRequest::default()).unwrap();
    assert_eq!(reply.message.tool_calls[0].extra["thought_signature"], "s");
}

#[test]
fn cohere_answers() {
    let check = |message: Value, reason: &str, usage: Value, expected: &str| {
        let json = json!({"id": "m", "message": message, "finish_reason": reason, "usage": usage});
        check_reply(Wire::Cohere, &json, None, expected);
    };
    let text = || json!({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]});
    let billed =
        json!({"billed_units": {"input_tokens": 9, "output_tokens": 2}, "tokens": {"input_tokens": 70, "output_tokens": 2}});
    check(text(), "COMPLETE", billed, r#""hi" (hm) Stop 9/2/0/0"#);
    check(text(), "STOP_SEQUENCE", json!({"tokens": {"input_tokens": 70.0, "output_tokens": 2.0}}), r#""hi" (hm) Stop 70/2/0/0"#);
    check(text(), "MAX_TOKENS", json!(null), r#""hi" (hm) Length"#);
    check(json!({"content": "hi"}), "COMPLETE", json!({}), r#""hi" Stop"#);
    let calls = json!({"tool_plan": "find it", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]});
    check(calls, "TOOL_CALL", json!(null), r#""" (find it) a:f{"x":1} ToolCalls"#);
    check(text(), "ERROR", json!(null), "503 ERROR: the answer failed");
    check(text(), "TIMEOUT", json!(null), "408 TIMEOUT: the answer failed");
    check(json!(null), "COMPLETE", json!(null), "broken: the answer has no message");
    check_reply(Wire::Cohere, &json!({"message": {"content": []}}), None, "broken: the answer has no finish reason");
}

#[test]
fn bedrock_answers() {
    let check = |content: Value, reason: &str, schema: Option<Value>, expected: &str| {
        let usage = json!({"inputTokens": 5, "outputTokens": 3, "totalTokens": 35, "cacheReadInputTokens": 20, "cacheWriteInputTokens": 7});
        let json =
            json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": usage});
        check_reply(Wire::Bedrock, &json, schema, expected);
    };
    check(json!([{"text": "hi"}]), "end_turn", None, r#""hi" Stop 32/3/20/7"#);
    let calls = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}, {"reasoningContent": {"redactedContent": "QUJD"}},
        {"toolUse": {"toolUseId": "a", "name": "f", "input": {"x": 1}}}]);
    check(calls, "tool_use", None, r#""" (hm) a:f{"x":1} ToolCalls 32/3/20/7"#);
    let answer = json!([{"toolUse": {"toolUseId": "a", "name": "answer", "input": {"n": 4}}}]);
    check(answer.clone(), "tool_use", Some(json!({})), r#""{\"n\":4}" Stop 32/3/20/7"#);
    check(answer, "tool_use", None, r#""" a:answer{"n":4} ToolCalls 32/3/20/7"#);
    check(json!([{"text": "h"}]), "max_tokens", None, r#""h" Length 32/3/20/7"#);
    check(json!([]), "guardrail_intervened", None, r#""" Filtered 32/3/20/7"#);
    check(json!([]), "malformed_tool_use", None, r#""" Stop 32/3/20/7 ! malformed_tool_use"#);
    check(json!([{"toolUse": {}}]), "tool_use", None, "broken: a tool call has no name");
    let own =
        json!([{"toolUse": {"toolUseId": "a", "name": "search", "input": {}, "type": "server_tool_use"}}, {"text": "found"}]);
    check(own, "end_turn", None, r#""found" Stop 32/3/20/7"#);
    check_reply(Wire::Bedrock, &json!({"output": {"message": {"content": []}}}), None, "broken: the answer has no stop reason");
    check_reply(Wire::Bedrock, &json!({"stopReason": "end_turn"}), None, "broken: the answer has no content");
}
