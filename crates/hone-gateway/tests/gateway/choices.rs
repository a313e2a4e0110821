//! Several answers to one question, and the tokens they are made of.

use crate::world::{World, messages};
use serde_json::{Value, json};

const HI: &[(&str, &str)] = &[("user", "the cat")];

fn ask(model: &str, rest: &Value) -> Value {
    let mut body = json!({"model": model, "messages": messages(HI), "max_tokens": 12, "seed": 3});
    body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    body
}

async fn chat(world: &World, model: &str, rest: Value) -> Value {
    let told = world.post("/v1/chat/completions", &ask(model, &rest), &[]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    told.json()
}

fn text(choice: &Value) -> &str {
    choice["message"]["content"].as_str().unwrap()
}

#[tokio::test]
async fn every_answer_is_drawn_on_its_own_and_is_on_the_record() {
    let world = World::open().await;
    let body = chat(&world, "own/tiny", json!({"n": 3})).await;
    let choices = body["choices"].as_array().unwrap();
    let indices: Vec<u64> = choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [0, 1, 2]);
    let texts: Vec<&str> = choices.iter().map(text).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2] && texts[0] != texts[2], "{texts:?}");
    let turn = world.trace_of(1).await.turns().next().unwrap().clone();
    assert_eq!(turn.answer.content.text(), texts[0]);
    let others = turn.extra["others"].as_array().unwrap();
    let said: Vec<&str> = others.iter().map(|other| other["answer"]["content"].as_str().unwrap()).collect();
    assert_eq!(said, texts[1..]);
    let n_drawn = |sampled: &Value| sampled["ids"].as_array().unwrap().len() as u64;
    let n_others: u64 = others.iter().map(|other| n_drawn(&other["sampled"])).sum();
    let n_all = n_others + turn.sampled.unwrap().ids.len() as u64;
    assert_eq!((body["usage"]["completion_tokens"].as_u64(), turn.llm_calls[0].tokens_out), (Some(n_all), n_all));
    assert_eq!(chat(&world, "own/tiny", json!({"n": 3})).await["choices"], body["choices"], "the seed fixes all of them");
    assert_eq!(text(&chat(&world, "own/tiny", json!({})).await["choices"][0]), texts[0], "the first is what it is alone");
}

#[tokio::test]
async fn any_whole_number_is_a_seed_and_nothing_else_is() {
    let world = World::open().await;
    let first = chat(&world, "own/tiny", json!({"seed": -7})).await;
    assert_eq!(text(&chat(&world, "own/tiny", json!({"seed": -7})).await["choices"][0]), text(&first["choices"][0]));
    assert_ne!(text(&chat(&world, "own/tiny", json!({"seed": 7})).await["choices"][0]), text(&first["choices"][0]));
    for wrong in [json!(1.5), json!("seven"), json!(1e30)] {
        let told = world.post("/v1/chat/completions", &ask("own/tiny", &json!({"seed": wrong})), &[]).await;
        assert_eq!((told.status, told.body.contains("`seed`")), (400, true), "{}", told.body);
    }
}

#[tokio::test]
async fn what_a_client_expects_to_hear_changes_no_token() {
    let world = World::open().await;
    let plain = chat(&world, "own/tiny", json!({"logprobs": true})).await;
    for content in [json!(text(&plain["choices"][0])), json!([{"type": "text", "text": "something else"}]), json!("")] {
        let wish = json!({"logprobs": true, "prediction": {"type": "content", "content": content}});
        assert_eq!(chat(&world, "own/tiny", wish).await["choices"], plain["choices"]);
    }
    assert_eq!(chat(&world, "own/tiny", json!({"logprobs": true, "prediction": null})).await["choices"], plain["choices"]);
}

#[tokio::test]
async fn a_text_in_parts_is_the_text_and_a_picture_is_refused() {
    let world = World::open().await;
    let said = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let plain = chat(&world, "own/tiny", said(json!("the cat"))).await;
    let parts = chat(&world, "own/tiny", said(json!([{"type": "text", "text": "the cat"}]))).await;
    assert_eq!((&parts["usage"], &parts["choices"]), (&plain["usage"], &plain["choices"]));
    let picture = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]);
    let told = world.post("/v1/chat/completions", &ask("own/tiny", &said(picture)), &[]).await;
    assert_eq!((told.status, told.body.contains("`messages[0].content[0].image_url`")), (400, true), "{}", told.body);
}

#[tokio::test]
async fn a_stream_tells_every_answer_with_its_number() {
    let world = World::open().await;
    let whole = chat(&world, "own/tiny", json!({"n": 2, "logprobs": true})).await;
    let rest = json!({"n": 2, "logprobs": true, "stream": true, "stream_options": {"include_usage": true}});
    let told = world.post("/v1/chat/completions", &ask("own/tiny", &rest), &[]).await;
    let events = told.events();
    assert_eq!(events.last().unwrap(), "[DONE]", "{}", told.body);
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    for index in 0..2 {
        let of_it = || chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
        let said: String = of_it().filter_map(|choice| choice["delta"]["content"].as_str()).collect();
        assert_eq!(said, text(&whole["choices"][index]), "{}", told.body);
        let tokens: Vec<&Value> = of_it().filter_map(|choice| choice["logprobs"]["content"].as_array()).flatten().collect();
        assert_eq!(json!(tokens), whole["choices"][index]["logprobs"]["content"]);
        assert_eq!(of_it().next().unwrap()["delta"]["role"], "assistant");
        let reasons: Vec<&str> = of_it().filter_map(|choice| choice["finish_reason"].as_str()).collect();
        assert_eq!(reasons, [whole["choices"][index]["finish_reason"].as_str().unwrap()]);
    }
    assert_eq!(chunks.last().unwrap()["usage"], whole["usage"]);
}

#[tokio::test]
async fn tokens_are_told_with_what_else_was_likely() {
    let world = World::open().await;
    let body = chat(&world, "own/tiny", json!({"logprobs": true, "top_logprobs": 3})).await;
    let tokens = body["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let spelled: Vec<u8> =
        tokens.iter().flat_map(|token| token["bytes"].as_array().unwrap()).map(|byte| byte.as_u64().unwrap() as u8).collect();
    let content = body["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(String::from_utf8_lossy(&spelled).contains(content), "{body}");
    let sampled = world.trace_of(1).await.turns().next().unwrap().sampled.clone().unwrap();
    for (token, logprob) in tokens.iter().zip(&sampled.logprobs) {
        assert_eq!(token["logprob"].as_f64().unwrap() as f32, *logprob, "what is told is what is on the record");
        let likeliest: Vec<f64> =
            token["top_logprobs"].as_array().unwrap().iter().map(|one| one["logprob"].as_f64().unwrap()).collect();
        assert!(likeliest.len() == 3 && likeliest.is_sorted_by(|a, b| a >= b), "{token}");
    }
    let plain = chat(&world, "own/tiny", json!({"logprobs": true})).await;
    assert_eq!(plain["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json!([]));
    assert_eq!(chat(&world, "own/tiny", json!({})).await["choices"][0]["logprobs"], Value::Null);
}

#[tokio::test]
async fn what_cannot_be_drawn_is_refused_by_name() {
    let world = World::open().await;
    for (rest, param) in [
        (json!({"n": 17}), "`n`"),
        (json!({"n": 0}), "`n`"),
        (json!({"logprobs": true, "top_logprobs": 21}), "`top_logprobs`"),
        (json!({"top_logprobs": 2}), "`top_logprobs`"),
        (json!({"logit_bias": {"1": 2}}), "`logit_bias`"),
        (json!({"repetition_penalty": 1.1}), "`repetition_penalty`"),
        (json!({"min_p": 0.05}), "`min_p`"),
        (json!({"prediction": "the cat"}), "`prediction`"),
        (json!({"prediction": {"type": "content", "content": [{"type": "image"}]}}), "`prediction`"),
        (json!({"chat_template_kwargs": {"enable_thinking": false}}), "`chat_template_kwargs`"),
    ] {
        let told = world.post("/v1/chat/completions", &ask("own/tiny", &rest), &[]).await;
        assert!(told.status == 400 && told.body.contains(param), "{rest}: {}", told.body);
    }
    let nothing = json!({"repetition_penalty": 1.0, "min_p": 0, "chat_template_kwargs": {}, "max_tokens": 2});
    assert_eq!(world.post("/v1/chat/completions", &ask("own/tiny", &nothing), &[]).await.status, 200);
    // Where somebody else would have to follow it in other words, it stays refused.
    let told = world.post("/v1/chat/completions", &ask("claude", &json!({"n": 2})), &[]).await;
    assert!(told.status == 400 && told.body.contains("`n`"), "{}", told.body);
    let own = json!({"model": "own/tiny", "max_tokens": 9, "messages": messages(HI), "n": 2});
    let told = world.post("/v1/messages", &own, &[]).await;
    assert!(told.status == 400 && told.body.contains("`n`"), "{}", told.body);
}

#[tokio::test]
async fn a_top_p_of_nothing_leaves_the_likeliest_token() {
    let world = World::open().await;
    let likeliest = chat(&world, "own/tiny", json!({"temperature": 0})).await;
    for seed in [1, 2, 3] {
        let told = chat(&world, "own/tiny", json!({"top_p": 0, "temperature": 1.5, "seed": seed})).await;
        assert_eq!(text(&told["choices"][0]), text(&likeliest["choices"][0]), "seed {seed}");
    }
}

/// A model that would not even be told of them does not look as if it had been.
#[tokio::test]
async fn tools_are_refused_where_the_chat_template_has_none() {
    let world = World::open().await;
    let function = json!({"name": "add", "parameters": {"type": "object"}});
    let flat = json!({"type": "function", "name": "add", "parameters": {"type": "object"}});
    for (path, body) in [
        ("/v1/chat/completions", json!({"messages": messages(HI), "tools": [{"type": "function", "function": function}]})),
        ("/v1/responses", json!({"input": "hi", "tools": [flat]})),
        ("/v1/messages", json!({"messages": messages(HI), "tools": [{"name": "add", "input_schema": {"type": "object"}}]})),
    ] {
        for (model, status) in [("own/tiny", 200), ("own/toolless", 400)] {
            let mut body = body.clone();
            body["model"] = model.into();
            body[if path == "/v1/responses" { "max_output_tokens" } else { "max_tokens" }] = 16.into();
            let told = world.post(path, &body, &[]).await;
            assert_eq!(told.status, status, "{model} {path}: {}", told.body);
            assert!(status == 200 || told.body.contains("`tools`"), "{}", told.body);
            body["tools"] = json!([]);
            assert_eq!(world.post(path, &body, &[]).await.status, 200, "{model} {path}: none are on offer");
        }
    }
}

/// Where there are no tools, none are called and never two at once.
#[tokio::test]
async fn what_is_met_without_tools_is_answered() {
    let world = World::open().await;
    for (path, rest) in [
        ("/v1/chat/completions", json!({"messages": messages(HI), "max_tokens": 4, "tool_choice": "none"})),
        ("/v1/chat/completions", json!({"messages": messages(HI), "max_tokens": 4, "parallel_tool_calls": false, "tools": []})),
        ("/v1/responses", json!({"input": "hi", "max_output_tokens": 16, "tool_choice": "none", "parallel_tool_calls": false})),
        ("/v1/messages", json!({"messages": messages(HI), "max_tokens": 4, "tool_choice": {"type": "none"}})),
        (
            "/v1/messages",
            json!({"messages": messages(HI), "max_tokens": 4, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
        ),
    ] {
        let mut body = rest.clone();
        body["model"] = "own/tiny".into();
        let told = world.post(path, &body, &[]).await;
        assert_eq!(told.status, 200, "{path} {rest}: {}", told.body);
    }
    let offered = json!([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]);
    let body = json!({"model": "own/tiny", "messages": messages(HI), "tools": offered, "parallel_tool_calls": false});
    assert_eq!(world.post("/v1/chat/completions", &body, &[]).await.status, 400);
}

/// Nobody upstream was asked, and none is blamed.
#[tokio::test]
async fn what_is_refused_here_is_told_as_a_wrong_parameter() {
    let world = World::open().await;
    for (model, rest, param, code) in [
        ("own/tiny", json!({"tool_choice": "required"}), json!("tool_choice"), json!("unsupported_value")),
        ("own/tiny", json!({"n": 17}), json!("n"), json!("unsupported_value")),
        ("own/tiny", json!({"presence_penalty": 1}), json!("presence_penalty"), json!("unsupported_value")),
        ("own/tiny", json!({"logprobs": true, "top_logprobs": 21}), json!("top_logprobs"), json!("unsupported_value")),
        ("own/tiny", json!({"tools": [{"type": "web_search"}]}), json!("tools[0]"), json!("unsupported_value")),
        (
            "own/toolless",
            json!({"tools": [{"type": "function", "function": {"name": "add"}}]}),
            json!("tools"),
            json!("unsupported_value"),
        ),
        ("own/tiny", json!({"seed": "seven"}), json!("seed"), json!("invalid_value")),
        ("own/tiny", json!({"prediction": "the cat"}), json!("prediction"), json!("invalid_value")),
        ("own/tiny", json!({"stop": [""]}), json!(null), json!(null)),
        ("claude", json!({"logprobs": true}), json!("logprobs"), json!("unsupported_value")),
    ] {
        for is_stream in [false, true] {
            let mut body = ask(model, &rest);
            body["stream"] = is_stream.into();
            let told = world.post("/v1/chat/completions", &body, &[]).await;
            let error = &told.json()["error"];
            assert_eq!((told.status, &error["type"]), (400, &json!("invalid_request_error")), "{rest}: {}", told.body);
            assert_eq!((&error["param"], &error["code"]), (&param, &code), "{rest}: {}", told.body);
        }
    }
    let told = world.post("/v1/embeddings", &json!({"model": "own/tiny", "input": "hi"}), &[]).await;
    assert_eq!((told.status, &told.json()["error"]["param"]), (400, &json!("model")), "{}", told.body);
    assert_eq!(world.heard.n(), 0);
}

#[tokio::test]
async fn a_client_may_go_on_with_any_of_the_answers() {
    let world = World::open().await;
    let body = chat(&world, "own/tiny", json!({"n": 2})).await;
    let second = text(&body["choices"][1]);
    let said = messages(&[HI[0], ("assistant", second), ("user", "on")]);
    let ask = json!({"model": "own/tiny", "messages": said, "max_tokens": 4});
    assert_eq!(world.post("/v1/chat/completions", &ask, &[]).await.status, 200);
    let trace = world.trace_of(2).await;
    assert_eq!(trace.segments.len(), 2, "what it goes on with is not what the episode stood at");
    let input: Vec<String> = trace.segments[1].turns[0].input.iter().map(|message| message.content.text()).collect();
    assert_eq!(input, [HI[0].1, second, "on"]);
}

#[tokio::test]
async fn answers_of_a_provider_are_passed_on_and_all_on_the_record() {
    for is_stream in [false, true] {
        let world = World::open().await;
        let rest = json!({"n": 2, "logprobs": true, "stream": is_stream});
        let told = world.post("/v1/chat/completions", &ask("well", &rest), &[]).await;
        assert!(told.status == 200 && told.body.contains("answer 1 more") && told.body.contains(r#""logprob":-0.5"#));
        let turn = world.trace_of(1).await.turns().next().unwrap().clone();
        assert_eq!(turn.answer.content.text(), "answer 1");
        assert_eq!(turn.extra["logprobs"][0]["logprob"], json!(-0.5));
        let others = turn.extra["others"].as_array().unwrap();
        assert_eq!((others.len(), &others[0]["answer"]["content"]), (1, &json!("answer 1 more")));
        assert_eq!(others[0]["logprobs"][0]["token"], "answer 1");
    }
}
