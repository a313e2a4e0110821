//! What clients of Anthropic's expect besides answers: counts of tokens, lists of models, outputs that follow a schema, refusals in its form.

use crate::world::{Told, World, messages};
use serde_json::{Value, json};

const HI: &[(&str, &str)] = &[("user", "the cat sat")];
const VERSION: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

async fn count(world: &World, body: Value) -> Told {
    world.post("/v1/messages/count_tokens", &body, VERSION).await
}

/// Why, where the refusal has Anthropic's form.
fn refusal(told: &Told) -> (u16, String, String) {
    let body = told.json();
    assert_eq!(body["type"], "error", "{}", told.body);
    let word = |name: &str| body["error"][name].as_str().unwrap().to_owned();
    (told.status, word("type"), word("message"))
}

#[tokio::test]
async fn tokens_are_counted_as_they_are_read() {
    let world = World::open().await;
    let tools = json!([{"name": "add", "description": "adds", "input_schema": {"type": "object"}}]);
    for rest in [json!({}), json!({"system": "be kind"}), json!({"tools": tools})] {
        let mut body = json!({"model": "own/tiny", "messages": messages(HI)});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let counted = count(&world, body.clone()).await;
        body["max_tokens"] = 1.into();
        let usage = world.post("/v1/messages", &body, &[]).await.json()["usage"].clone();
        let read = usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
        assert_eq!(counted.json(), json!({ "input_tokens": read }), "{rest}: {}", counted.body);
    }
    let n_traces = world.traces().await.len();
    let counted = count(&world, json!({"model": "claude", "messages": messages(HI), "thinking": {"type": "disabled"}})).await;
    assert_eq!(counted.json(), json!({"input_tokens": 2095}), "as its provider counts");
    assert_eq!(
        (&world.heard.last()["thinking"]["type"], world.heard.headers()),
        (&json!("disabled"), vec!["2023-06-01".to_owned()])
    );
    assert_eq!(world.traces().await.len(), n_traces, "nobody was asked anything");
    assert_eq!(count(&world, json!({"model": "claude-first", "messages": messages(HI)})).await.status, 200, "one of them counts");
    let (status, kind, why) = refusal(&count(&world, json!({"model": "well", "messages": messages(HI)})).await);
    assert_eq!((status, kind.as_str()), (400, "invalid_request_error"));
    assert!(why.contains("nobody who answers as `well` counts"), "{why}");
    let unread = json!({"model": "own/toolless", "messages": messages(HI), "tools": tools});
    assert!(refusal(&count(&world, unread).await).2.contains("`tools`"), "it would not be answered either");
    assert_eq!(refusal(&count(&world, json!({"model": "other", "messages": messages(HI)})).await).0, 404);
    assert_eq!(refusal(&count(&world, json!({"model": "own/tiny", "messages": []})).await).0, 400);
}

#[tokio::test]
async fn what_is_of_another_type_than_it_must_be_is_named_and_not_passed_by() {
    let world = World::open().await;
    for model in ["own/tiny", "well", "claude"] {
        for (name, value) in [
            ("temperature", json!("hot")),
            ("temperature", json!(5)),
            ("top_p", json!("x")),
            ("stream", json!("true")),
            ("stop_sequences", json!("END")),
            ("stop_sequences", json!([1])),
            ("tools", json!({"name": "f"})),
        ] {
            let body = json!({"model": model, "max_tokens": 4, "messages": messages(HI), name: value});
            let (status, kind, why) = refusal(&world.post("/v1/messages", &body, &[]).await);
            assert_eq!((status, kind.as_str(), why.contains(name)), (400, "invalid_request_error", true), "{body}: {why}");
        }
    }
}

#[tokio::test]
async fn an_agent_has_no_tokens_before_its_version_is_known() {
    let world = World::open().await;
    crate::sample::write(&*world.store).await;
    let mut told = count(&world, json!({"model": "desk", "messages": messages(HI)})).await;
    for _ in 0..100 {
        // The agent is there as soon as the log was read.
        if told.status == 404 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            told = count(&world, json!({"model": "desk", "messages": messages(HI)})).await;
        }
    }
    let (status, _, why) = refusal(&told);
    assert!(status == 400 && why.contains("`desk` is an agent"), "{why}");
}

#[tokio::test]
async fn what_is_refused_is_refused_in_its_form() {
    let world = World::open().await;
    let (status, kind, _) = refusal(&world.post("/v1/messages/batches", &json!({}), &[]).await);
    assert_eq!((status, kind.as_str()), (404, "not_found_error"));
    assert_eq!(refusal(&world.get("/v1/messages", &[]).await).0, 405);
    assert_eq!(refusal(&world.get("/v1/models/other", VERSION).await).0, 404);
    assert_eq!(refusal(&world.get("/v1/files", VERSION).await).0, 404);
    let foreign = &[("anthropic-version", "2023-06-01"), ("origin", "https://elsewhere.test")];
    assert_eq!(refusal(&world.post("/v1/messages", &json!({}), foreign).await).0, 403);
    for path in ["/v1/files", "/v1/messagesque"] {
        assert_eq!(world.get(path, &[]).await.json()["error"]["param"], json!(null), "others have theirs");
    }
}

#[tokio::test]
async fn models_are_listed_in_pages() {
    let world = World::open().await;
    let all = world.get("/v1/models", VERSION).await.json();
    let model = json!({"type": "model", "id": "both", "display_name": "both", "created_at": "1970-01-01T00:00:00Z"});
    assert_eq!((&all["data"][0], &all["has_more"]), (&model, &json!(false)));
    let n = all["data"].as_array().unwrap().len();
    assert_eq!((&all["first_id"], &all["last_id"]), (&all["data"][0]["id"], &all["data"][n - 1]["id"]));
    let page = async |query: &str| {
        let told = world.get(&format!("/v1/models?{query}"), VERSION).await.json();
        let ids: Vec<&str> = told["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        (ids.join(" "), told["has_more"] == true)
    };
    assert_eq!(page("limit=2").await, ("both broken".into(), true));
    assert_eq!(page("limit=2&after_id=broken").await, ("broken-late busy".into(), true));
    assert_eq!(page("after_id=slow-first").await, ("well".into(), false));
    assert_eq!(page("limit=1&before_id=broken-late").await, ("broken".into(), true));
    assert_eq!(refusal(&world.get("/v1/models?after_id=nobody", VERSION).await).0, 400);
    assert_eq!(refusal(&world.get("/v1/models?limit=0", VERSION).await).0, 400);
    assert_eq!(world.get("/v1/models/own/tiny", VERSION).await.json()["display_name"], "own/tiny");
}

#[tokio::test]
async fn an_output_follows_its_schema() {
    let world = World::open().await;
    let schema =
        json!({"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "schema": schema});
    let ask = |model: &str, said: Value| {
        let mut body = json!({"model": model, "max_tokens": 100, "messages": messages(HI)});
        body.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        body
    };
    for said in [json!({"output_config": {"format": format, "effort": null}}), json!({"output_format": format})] {
        let told = world.post("/v1/messages", &ask("own/tiny", said.clone()), &[]).await;
        let text = told.json()["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(serde_json::from_str::<Value>(&text).is_ok_and(|json| json["yes"].is_boolean()), "{said}: {}", told.body);
        assert_eq!(world.post("/v1/messages", &ask("well", said.clone()), &[]).await.status, 200);
        assert_eq!(world.heard.last()["response_format"]["json_schema"]["schema"], schema);
        assert_eq!(world.post("/v1/messages", &ask("claude", said.clone()), &[]).await.status, 200);
        let heard = world.heard.last();
        assert!(said.as_object().unwrap().iter().all(|(name, value)| heard[name] == *value), "as it came: {heard}");
    }
    assert_eq!(world.post("/v1/messages", &ask("well", json!({"output_config": {"effort": "low"}})), &[]).await.status, 200);
    assert_eq!(world.heard.last()["reasoning_effort"], "low");
    for (said, param) in [
        (json!({"output_config": {"effort": "low"}}), "`output_config.effort`"),
        (json!({"output_config": {"task_budget": {"total": 9}}}), "`output_config`"),
        (json!({"output_config": {"format": {"type": "grammar"}}}), "`output_config`"),
    ] {
        let (status, _, why) = refusal(&world.post("/v1/messages", &ask("own/tiny", said), &[]).await);
        assert!(status == 400 && why.contains(param), "{param}: {why}");
    }
}

#[tokio::test]
async fn a_picture_is_refused_where_it_stands() {
    let world = World::open().await;
    let check = async |path: &str, list: &str, said: Value, place: &str| {
        let mut body = json!({"model": "own/tiny", "max_tokens": 9});
        body[list] = said;
        let told = world.post(path, &body, &[]).await;
        assert!(told.status == 400 && told.body.contains(place), "{place}: {}", told.body);
    };
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let said = json!([{"role": "user", "content": [{"type": "text", "text": "hi"}, image]}]);
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        check(path, "messages", said.clone(), "`messages.0.content.1.image.source` is a picture").await;
    }
    let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": [image]}]);
    let said = json!([{"role": "user", "content": "hi"}, {"role": "user", "content": result}]);
    check("/v1/messages", "messages", said, "`messages.1.content.0.content.0.image.source`").await;
    let said = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]}]);
    check("/v1/chat/completions", "messages", said, r#""param":"messages[0].content[0].image_url""#).await;
    let said = json!([{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]}]);
    let body = json!({"model": "own/tiny", "input": said});
    assert_eq!(world.post("/v1/responses", &body, &[]).await.json()["error"]["param"], "input[0].content[0].image_url");
}
