//! What comes back.

use crate::world::{World, messages, tenant};
use hone_gateway::{Access, Limits};
use hone_trace::store::Kind;
use hone_trace::{Config, Content, Trace};
use serde_json::{Value, json};

const HI: &[(&str, &str)] = &[("user", "hi")];

#[tokio::test]
async fn an_answer_is_passed_on_under_the_name_that_was_asked_for() {
    let world = World::open().await;
    let told = world.chat("well", HI, &[]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let body = told.json();
    assert_eq!(body["model"], "well");
    assert_eq!(body["choices"][0]["message"]["content"], "answer 1");
    assert_eq!(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    assert_eq!(body["system_fingerprint"], "fp", "what hone does not know is kept");
    assert!(told.episode.is_some());
}

#[tokio::test]
async fn unknown_parameters_reach_the_provider() {
    let world = World::open().await;
    let body = json!({"model": "well", "messages": messages(HI), "logit_bias": {"1": 2}, "n": 2, "user": "u"});
    assert_eq!(world.post("/v1/chat/completions", &body, &[]).await.status, 200);
    let heard = world.heard.last();
    assert_eq!((&heard["logit_bias"], &heard["n"], &heard["user"]), (&json!({"1": 2}), &json!(2), &json!("u")));
    assert_eq!(heard.get("max_tokens"), None, "no limit is made up");
}

#[tokio::test]
async fn what_another_format_cannot_follow_is_refused_by_name() {
    let world = World::open().await;
    for (param, value, status) in [
        ("n", json!(2), 400),
        ("n", json!(1), 200),
        ("logprobs", json!(true), 400),
        ("logprobs", json!(false), 200),
        ("tool_choice", json!("required"), 400),
        ("tool_choice", json!("auto"), 200),
        ("presence_penalty", json!(0), 200),
        ("reasoning_effort", json!("minimal"), 400),
        ("reasoning_effort", json!("high"), 200),
        ("reasoning_effort", json!("none"), 200),
        ("function_call", json!({"name": "add"}), 400),
        ("modalities", json!(["text"]), 200),
        ("user", json!("u"), 200),
        ("parallel_tool_calls", json!(true), 200),
        ("parallel_tool_calls", json!(false), 200),
        ("tool_choice", json!({"type": "allowed_tools"}), 400),
    ] {
        let body = json!({"model": "claude", "messages": messages(HI), param: value});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        assert_eq!(told.status, status, "{param}: {}", told.body);
        assert_eq!(told.body.contains(&format!("`{param}`")), status == 400, "{param}: {}", told.body);
    }
}

#[tokio::test]
async fn tools_that_only_their_provider_runs_are_not_taken_for_functions() {
    let world = World::open().await;
    let theirs = json!([{"name": "add", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}]);
    let body = json!({"model": "well", "max_tokens": 9, "messages": messages(HI), "tools": theirs});
    let told = world.post("/v1/messages", &body, &[]).await;
    assert_eq!((told.status, told.body.contains("`tools[1]`")), (400, true), "{}", told.body);
    let body = json!({"model": "claude", "messages": messages(HI), "tools": [{"type": "custom", "custom": {"name": "add"}}]});
    let told = world.post("/v1/chat/completions", &body, &[]).await;
    assert_eq!((told.status, told.body.contains("`custom`")), (400, true), "{}", told.body);
}

#[tokio::test]
async fn which_tools_are_called_is_said_in_the_words_of_who_is_asked() {
    let world = World::open().await;
    let own = json!([{"name": "add", "input_schema": {"type": "object"}}]);
    let function = json!({"name": "add", "parameters": {"type": "object"}});
    let heard = async |path: &str, body: &Value| {
        let told = world.post(path, body, &[]).await;
        assert_eq!(told.status, 200, "{body}: {}", told.body);
        let heard = world.heard.last();
        (heard["tool_choice"].clone(), heard["parallel_tool_calls"].clone())
    };
    let named = json!({"type": "function", "function": {"name": "add"}});
    for (choice, expected) in [
        (json!({"type": "any"}), (json!("required"), Value::Null)),
        (json!({"type": "none"}), (json!("none"), Value::Null)),
        (json!({"type": "tool", "name": "add", "disable_parallel_tool_use": true}), (named.clone(), json!(false))),
        (json!({"type": "auto", "disable_parallel_tool_use": true}), (Value::Null, json!(false))),
    ] {
        let body = json!({"model": "well", "max_tokens": 9, "messages": messages(HI), "tools": own, "tool_choice": choice});
        assert_eq!(heard("/v1/messages", &body).await, expected, "{choice}");
    }
    let mut flat = function.clone();
    flat["type"] = "function".into();
    let body = json!({"model": "well", "input": "hi", "tools": [flat], "tool_choice": {"type": "function", "name": "add"}});
    assert_eq!(heard("/v1/responses", &body).await, (named.clone(), Value::Null));
    let tools = json!([{"type": "function", "function": function}]);
    let body =
        json!({"model": "claude", "messages": messages(HI), "tools": tools, "tool_choice": named, "parallel_tool_calls": false});
    let theirs = json!({"type": "tool", "name": "add", "disable_parallel_tool_use": true});
    assert_eq!(heard("/v1/chat/completions", &body).await, (theirs, Value::Null));
}

/// A client that hears nothing for some seconds may leave, while its provider thinks.
#[tokio::test]
async fn who_waits_for_the_next_piece_hears_that_one_is_waited_for() {
    let world = World::open().await;
    let heard = async |path: &str, ping: &str| {
        let body = match path {
            "/v1/responses" => json!({"model": "endless", "input": "hi", "stream": true}),
            _ => json!({"model": "endless", "max_tokens": 9, "messages": messages(HI), "stream": true}),
        };
        let mut told = world.http.post(format!("{}{path}", world.url)).body(body.to_string()).send().await.unwrap();
        let mut said = String::new();
        while !said.ends_with(ping) {
            let piece = tokio::time::timeout(std::time::Duration::from_secs(60), told.chunk()).await;
            said += &String::from_utf8_lossy(&piece.expect("nothing is told").unwrap().unwrap());
        }
        assert!(said.contains("well"), "the answer has begun: {said}");
    };
    tokio::join!(
        heard("/v1/chat/completions", "\n\n: \n\n"),
        heard("/v1/messages", "event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        heard("/v1/responses", "\n\n: \n\n"),
    );
}

/// Whoever stands between client and arbiter gives up what is silent for long. What goes wrong later is told in the stream.
#[tokio::test]
async fn who_waits_for_the_first_piece_hears_that_it_is_waited_for() {
    let world = World::with(Access::open(tenant()), Limits { quiet_ms: 50, ..Limits::default() }).await;
    for (path, ping, wrong) in [
        ("/v1/chat/completions", ": \n\n", "data: {\"error\""),
        ("/v1/messages", "event: ping\n", "event: error\n"),
        ("/v1/responses", ": \n\n", "event: response.failed\n"),
    ] {
        for (model, says) in [("pondering", "answer"), ("broken-late", wrong)] {
            let body = match path {
                "/v1/responses" => json!({"model": model, "input": "hi", "stream": true}),
                _ => json!({"model": model, "max_tokens": 9, "messages": messages(HI), "stream": true}),
            };
            let told = world.post(path, &body, &[]).await;
            assert_eq!(told.status, 200, "{path} {model}: {}", told.body);
            assert!(told.body.starts_with(ping) && told.body.contains(says), "{path} {model}: {}", told.body);
        }
    }
    let turns: Vec<_> = world.traces().await.iter().map(|trace| trace.turns().next().unwrap().errors.len()).collect();
    assert_eq!(turns.iter().sum::<usize>(), 3, "what went wrong is on the record: {turns:?}");
}

#[tokio::test]
async fn an_anthropic_client_is_told_which_stop_sequence_ended_an_answer_of_this_machine() {
    let world = World::open().await;
    let ask = |rest: Value| {
        let mut body = json!({"model": "own/tiny", "max_tokens": 12, "seed": 3, "messages": messages(&[("user", "the cat")])});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        body
    };
    let text = |told: &Value| told["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let plain = world.post("/v1/messages", &ask(json!({})), &[]).await.json();
    assert_eq!((&plain["stop_reason"], &plain["stop_sequence"]), (&json!("max_tokens"), &json!(null)));
    let stop = text(&plain).chars().filter(char::is_ascii_graphic).nth(1).unwrap().to_string();
    let stopped = world.post("/v1/messages", &ask(json!({"stop_sequences": ["never said", stop]})), &[]).await.json();
    assert_eq!((&stopped["stop_reason"], &stopped["stop_sequence"]), (&json!("stop_sequence"), &json!(stop)), "{stopped}");
    assert!(text(&plain).starts_with(&text(&stopped)) && text(&stopped).len() < text(&plain).len());
    let told = world.post("/v1/messages", &ask(json!({"stop_sequences": [stop], "stream": true})), &[]).await;
    let events: Vec<Value> = told.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let said: Vec<&str> = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!((said.concat(), said.contains(&"")), (text(&stopped), false), "{}", told.body);
    let end = events.iter().find(|event| event["type"] == "message_delta").unwrap();
    assert_eq!(end["delta"], json!({"stop_reason": "stop_sequence", "stop_sequence": stop}));
}

#[tokio::test]
async fn who_cannot_follow_leaves_it_to_those_who_can() {
    let world = World::open().await;
    for turn in 0..4 {
        let body = json!({"model": "claude-first", "messages": messages(HI), "logit_bias": {"1": 2}});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        assert_eq!(told.status, 200, "{turn}: {}", told.body);
        assert_eq!(world.heard.last()["logit_bias"], json!({"1": 2}));
    }
}

#[tokio::test]
async fn pictures_that_tools_give_are_not_lost_on_the_way() {
    let world = World::open().await;
    let source = json!({"type": "base64", "media_type": "image/png", "data": "aGk="});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": source}]});
    let called = json!([{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]);
    let said = json!([
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": called},
        {"role": "user", "content": [result]}
    ]);
    let body = json!({"model": "well", "max_tokens": 9, "messages": said});
    assert_eq!(world.post("/v1/messages", &body, &[]).await.status, 200);
    let heard = world.heard.last();
    // Only what a user says may have pictures there.
    assert_eq!((&heard["messages"][2]["role"], &heard["messages"][2]["tool_call_id"]), (&json!("tool"), &json!("t1")), "{heard}");
    assert_eq!(heard["messages"][3]["role"], "user", "{heard}");
    assert_eq!(heard["messages"][3]["content"][0]["image_url"]["url"], "data:image/png;base64,aGk=", "{heard}");
}

#[tokio::test]
async fn a_stream_ends_with_its_usage_when_that_is_asked_for() {
    let world = World::open().await;
    for tells_usage in [false, true] {
        let body = json!({"model": "well", "messages": messages(HI), "stream": true,
            "stream_options": {"include_usage": tells_usage}});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        let events = told.events();
        assert_eq!(events.last().unwrap(), "[DONE]", "{}", told.body);
        let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, "answer 1");
        let usage: Vec<&Value> = chunks.iter().filter(|chunk| chunk["usage"].is_object()).collect();
        assert_eq!(usage.len(), usize::from(tells_usage), "{}", told.body);
        assert!(chunks.iter().all(|chunk| chunk.get("model").is_none_or(|model| model == "well")));
    }
}

#[tokio::test]
async fn anthropic_answers_openai_and_itself() {
    let world = World::open().await;
    let told = world.chat("claude", &[("system", "be French"), ("user", "hi")], &[]).await;
    let body = told.json();
    assert_eq!(body["choices"][0]["message"]["content"], "bonjour", "{}", told.body);
    assert_eq!(body["usage"]["prompt_tokens"], 10, "cached tokens are part of what was read");
    assert_eq!(world.heard.last()["system"], "be French");

    let own = json!({"model": "claude", "max_tokens": 9, "messages": messages(HI), "metadata": {"user_id": "u"}});
    let told = world.post("/v1/messages", &own, &[]).await;
    assert_eq!(
        (told.json()["content"][0]["text"].clone(), told.json()["usage"]["input_tokens"].clone()),
        (json!("bonjour"), json!(6))
    );
    assert_eq!(world.heard.last()["metadata"]["user_id"], "u");
}

#[tokio::test]
async fn what_an_anthropic_client_says_in_headers_reaches_its_provider() {
    let world = World::open().await;
    let ask = json!({"model": "claude", "max_tokens": 9, "messages": messages(HI)});
    assert_eq!(world.post("/v1/messages", &ask, &[]).await.status, 200);
    assert_eq!(world.heard.headers(), ["2023-06-01"]);
    let headers =
        &[("anthropic-version", "2099-01-01"), ("anthropic-beta", "one"), ("anthropic-beta", "two"), ("x-other", "three")];
    assert_eq!(world.post("/v1/messages", &ask, headers).await.status, 200);
    assert_eq!(world.heard.headers(), ["2099-01-01", "one", "two"]);
}

#[tokio::test]
async fn anthropic_words_reach_a_server_of_openai() {
    let world = World::open().await;
    let tools = json!([{"name": "add", "description": "adds", "input_schema": {"type": "object"}}]);
    let ask = json!({"model": "well", "max_tokens": 9, "system": "short", "messages": messages(HI), "tools": tools});
    let told = world.post("/v1/messages", &ask, &[]).await;
    let body = told.json();
    assert_eq!((&body["stop_reason"], &body["content"][0]["type"]), (&json!("tool_use"), &json!("tool_use")), "{}", told.body);
    assert_eq!(body["content"][0]["input"], json!({"a": 1}));
    let result = json!([{"type": "tool_result", "tool_use_id": "call_1", "content": "2"}]);
    let said = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": body["content"]}, {"role": "user", "content": result}]);
    let ask = json!({"model": "well", "max_tokens": 9, "system": "short", "messages": said, "tools": tools, "stream": true});
    let told = world.post("/v1/messages", &ask, &[]).await;
    let kinds: Vec<&str> = told.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(kinds.first(), Some(&"message_start"), "{}", told.body);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    assert!(kinds.contains(&"content_block_start") && kinds.contains(&"content_block_delta"));
    let trace = world.trace_of(2).await;
    assert_eq!(trace.segments.len(), 1, "the conversation went on");
    assert_eq!(trace.turns().last().unwrap().input[0].tool_call_id.as_deref(), Some("call_1"));
}

#[tokio::test]
async fn what_a_client_says_of_its_episode_stands_on_the_trace() {
    let world = World::open().await;
    let said = json!({"family": "refunds", "agent": {"agent": "desk", "version": "v9", "task": "any", "asked_for": "desk"}});
    let told =
        world.post("/v1/chat/completions", &json!({"model": "well", "messages": messages(HI), "metadata": said}), &[]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let trace = world.trace_of(1).await;
    assert_eq!(trace.metadata["family"], "refunds");
    assert_eq!(trace.metadata.get("agent"), None, "who answered is not for the client to say");
    let body = json!({"model": "well", "input": "hi there", "metadata": {"family": "returns"}});
    assert_eq!(world.post("/v1/responses", &body, &[]).await.status, 200);
    assert!(world.traces().await.iter().any(|trace| trace.metadata["family"] == "returns"));
}

#[tokio::test]
async fn vectors_of_tokens_and_of_a_chosen_length_are_asked_for_as_they_are() {
    let world = World::open().await;
    for (input, sent) in [(json!([7, 8]), json!([[7, 8]])), (json!([[7], [8, 9]]), json!([[7], [8, 9]]))] {
        let told = world.post("/v1/embeddings", &json!({"model": "embed", "input": input, "dimensions": 2}), &[]).await;
        assert_eq!(told.json()["data"].as_array().map(Vec::len), sent.as_array().map(Vec::len), "{}", told.body);
        assert_eq!((&world.heard.last()["input"], &world.heard.last()["dimensions"]), (&sent, &json!(2)));
    }
    let traces = world.traces().await;
    let told = |trace: &Trace| trace.turns().next().unwrap().input.clone();
    let tokens = |ids: &[u32]| Content::Parts(vec![json!({"type": "token_ids", "ids": ids})]);
    assert!(traces.iter().any(|trace| told(trace).len() == 1 && told(trace)[0].content == tokens(&[7, 8])), "{traces:?}");
    let config = world.store.document(Kind::Config, &traces[0].config.to_string()).await.unwrap().unwrap();
    assert_eq!(config.word::<Config>().unwrap().settings["dimensions"], 2, "what was asked for is on the record");
    for (wrong, param) in [
        (json!({"model": "embed", "input": [1, "a"]}), "input"),
        (json!({"model": "embed", "input": []}), "input"),
        (json!({"model": "embed", "input": "a", "dimensions": 0}), "dimensions"),
        (json!({"model": "own/tiny", "input": [1, 2]}), "model"),
    ] {
        let told = world.post("/v1/embeddings", &wrong, &[]).await;
        assert_eq!((told.status, &told.json()["error"]["param"]), (400, &json!(param)), "{wrong}: {}", told.body);
    }
}

#[tokio::test]
async fn vectors_come_as_numbers_or_in_base64() {
    let world = World::open().await;
    let told = world.post("/v1/embeddings", &json!({"model": "embed", "input": ["a", "b"]}), &[]).await;
    assert_eq!(told.json()["data"][1]["embedding"], json!([1.5, -1.0]), "{}", told.body);
    assert_eq!(told.json()["usage"]["prompt_tokens"], 3);
    let told = world.post("/v1/embeddings", &json!({"model": "embed", "input": "a", "encoding_format": "base64"}), &[]).await;
    assert_eq!(told.json()["data"][0]["embedding"], "AAAAPwAAgL8=");
    let told = world.post("/v1/embeddings", &json!({"model": "own/tiny", "input": "a"}), &[]).await;
    assert_eq!(told.status, 400, "{}", told.body);
    let beside = world.post("/v1/embeddings", &json!({"model": "embed", "input": "a"}), &[("x-hone-episode", "talk")]).await;
    assert_eq!(beside.status, 200, "{}", beside.body);
    let traces = world.traces().await;
    assert_eq!(traces.len(), 4, "every request is a trace, answered or not");
    assert!(traces.iter().all(|trace| trace.metadata["api"] == "openai.embeddings" && trace.turns().count() == 1));
    let n_failed = traces.iter().filter(|trace| trace.turns().any(|turn| !turn.errors.is_empty())).count();
    assert_eq!(n_failed, 1);
    let first = traces.iter().find(|trace| trace.turns().any(|turn| turn.input.len() == 2)).expect("the first request");
    assert_eq!(first.turns().next().unwrap().llm_calls[0].tokens_in, 3);
    assert_eq!(
        traces.iter().filter(|trace| trace.metadata.contains_key("episode")).count(),
        1,
        "it tells what it was asked beside"
    );
    let counted = world.get("/metrics", &[]).await.body;
    for line in [
        "hone_requests_total{model=\"embed\",status=\"ok\"} 3",
        "hone_input_tokens_total{model=\"embed\"} 9",
        "hone_requests_total{model=\"own/tiny\",status=\"policy_refused\"} 1",
    ] {
        assert!(counted.contains(line), "{line}: {counted}");
    }
}

#[tokio::test]
async fn models_are_listed() {
    let world = World::open().await;
    let told = world.get("/v1/models", &[]).await.json();
    let names: Vec<&str> = told["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "both",
            "broken",
            "broken-late",
            "busy",
            "calls",
            "claude",
            "claude-first",
            "cut",
            "cut-first",
            "embed",
            "endless",
            "fine",
            "flood",
            "gone",
            "leaky",
            "long",
            "mute-first",
            "own/tiny",
            "own/toolless",
            "picky",
            "pondering",
            "poor",
            "poor-first",
            "slow",
            "slow-first",
            "well"
        ]
    );
    assert_eq!(world.get("/v1/models/well", &[]).await.json()["object"], "model");
    for path in ["/v1/models/own/tiny", "/v1/models/own%2Ftiny"] {
        assert_eq!(world.get(path, &[]).await.json()["id"], "own/tiny", "a name may have a slash in it");
    }
    assert_eq!(world.get("/v1/models/other", &[]).await.json()["error"]["code"], "model_not_found");
}
