//! OpenAI's responses: items in, items out, and conversations that come from the record.

use crate::world::{Told, World};
use hone_trace::Config;
use hone_trace::store::Kind;
use serde_json::{Value, json};

async fn respond(world: &World, body: Value) -> Told {
    world.post("/v1/responses", &body, &[]).await
}

/// The events of a stream, which must be numbered without a gap.
fn events(told: &Told) -> Vec<Value> {
    let events: Vec<Value> = told.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let named: Vec<&str> = told.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(named, kinds(&events), "an event has the name that it says inside");
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn adds() -> Value {
    json!([{"type": "function", "name": "add", "description": "adds", "parameters": {"type": "object"}, "strict": true}])
}

#[tokio::test]
async fn a_response_comes_whole_and_is_on_the_record() {
    let world = World::open().await;
    let ask = json!({"model": "well", "input": "hi", "instructions": "be kind", "max_output_tokens": 9, "metadata": {"a": "b"}});
    let told = respond(&world, ask).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let body = told.json();
    assert_eq!((&body["object"], &body["status"], &body["model"]), (&json!("response"), &json!("completed"), &json!("well")));
    assert_eq!((&body["instructions"], &body["metadata"]["a"], &body["store"]), (&json!("be kind"), &json!("b"), &json!(true)));
    let item = &body["output"][0];
    assert_eq!((&item["type"], &item["role"], &item["status"]), (&json!("message"), &json!("assistant"), &json!("completed")));
    assert_eq!((&item["content"][0]["type"], &item["content"][0]["text"]), (&json!("output_text"), &json!("answer 2")));
    let usage = json!({"input_tokens": 20, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 25});
    assert_eq!(body["usage"], usage);
    let heard = world.heard.last();
    assert_eq!((&heard["messages"][0]["content"], &heard["messages"][0]["role"]), (&json!("be kind"), &json!("system")));
    let trace = world.trace_of(1).await;
    assert_eq!((Some(trace.id.to_string()), &trace.metadata["api"]), (told.episode, &json!("openai.responses")));
    let feedback = json!({"inference_id": body["id"], "metric_name": "helpful", "value": true});
    assert_eq!(world.post("/v1/feedback", &feedback, &[]).await.status, 200);
    respond(&world, json!({"model": "well", "input": "again"})).await;
    let heard = world.heard.last();
    assert_eq!((heard.get("max_tokens"), heard.get("max_completion_tokens")), (None, None), "no limit is made up");
}

#[tokio::test]
async fn a_stream_tells_every_item_from_its_beginning_to_its_end() {
    let world = World::open().await;
    let told = respond(&world, json!({"model": "well", "input": "hi", "stream": true})).await;
    let events = events(&told);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&events), expected, "{}", told.body);
    let last = &events[9]["response"];
    let item = &events[2]["item"]["id"];
    assert!(events[3..8].iter().all(|event| event["item_id"] == *item && event["output_index"] == 0), "{}", told.body);
    let pieces: String = events[4..6].iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!((pieces.as_str(), &events[6]["text"]), ("answer 1", &json!("answer 1")));
    assert_eq!((&last["output"][0], &last["usage"]["total_tokens"]), (&events[8]["item"], &json!(15)));
    assert_eq!((&last["id"], &last["output"][0]["id"]), (&events[0]["response"]["id"], item));
    assert_eq!(world.trace_of(1).await.turns().next().unwrap().extra["id"], last["id"]);
}

#[tokio::test]
async fn functions_are_called_and_their_results_go_back() {
    let world = World::open().await;
    let first = respond(&world, json!({"model": "well", "input": "hi", "tools": adds()})).await.json();
    let call = &first["output"][0];
    assert_eq!(
        (&call["type"], &call["call_id"], &call["name"]),
        (&json!("function_call"), &json!("call_1"), &json!("add")),
        "{first}"
    );
    assert_eq!(call["arguments"], "{\"a\":1}");
    let function = &world.heard.last()["tools"][0]["function"];
    assert_eq!((&function["name"], &function["strict"]), (&json!("add"), &json!(true)));
    let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "2"});
    // By sending everything again, and by naming the answer.
    let again = json!([{"role": "user", "content": "hi"}, call, result]);
    let told = respond(&world, json!({"model": "well", "input": again, "tools": adds()})).await;
    assert_eq!(told.json()["output"][0]["content"][0]["text"], "answer 3", "{}", told.body);
    let trace = world.trace_of(2).await;
    assert_eq!(trace.segments.len(), 1, "it went on");
    let named = json!({"model": "well", "input": [result], "previous_response_id": first["id"], "tools": adds()});
    let told = respond(&world, named).await;
    assert_eq!(told.json()["output"][0]["content"][0]["text"], "answer 3", "{}", told.body);
    assert_eq!(told.json()["previous_response_id"], first["id"]);
    let heard = world.heard.last();
    assert_eq!((&heard["messages"][1]["tool_calls"][0]["id"], &heard["messages"][2]["role"]), (&json!("call_1"), &json!("tool")));
    let trace = world.trace_of(3).await;
    assert_eq!(trace.segments.len(), 2, "it went on from a place where the episode stood before");
}

#[tokio::test]
async fn a_called_function_is_streamed() {
    let world = World::open().await;
    // A server of the other format tells its calls in pieces, too.
    let tools = json!([{"type": "function", "name": "add", "parameters": {"type": "object"}}]);
    let told = respond(&world, json!({"model": "calls", "input": "hi", "tools": tools, "stream": true})).await;
    let events = events(&told);
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds(&events), expected, "{}", told.body);
    assert_eq!((&events[8]["item"]["name"], &events[8]["item"]["arguments"]), (&json!("add"), &json!("")));
    assert_eq!((&events[11]["arguments"], &events[11]["output_index"]), (&json!("{\"a\":1}"), &json!(1)));
    assert_eq!(events[13]["response"]["output"][1], events[12]["item"]);
}

#[tokio::test]
async fn a_conversation_goes_on_from_the_record_after_a_restart() {
    let world = World::open().await;
    let first = respond(&world, json!({"model": "well", "input": "one", "instructions": "be kind"})).await;
    let id = first.json()["id"].clone();
    let world = world.again().await;
    let told = respond(&world, json!({"model": "well", "input": "two", "previous_response_id": id})).await;
    assert_eq!(told.status, 200, "{}", told.body);
    assert_eq!(told.episode, first.episode);
    let said: Vec<Value> = world.heard.last()["messages"].as_array().unwrap().iter().map(|one| one["content"].clone()).collect();
    assert_eq!(said, ["one", "answer 2", "two"], "instructions hold for one request");
    let next = json!({"model": "well", "input": "three", "previous_response_id": told.json()["id"], "instructions": "be brief"});
    assert_eq!(respond(&world, next).await.status, 200);
    let said: Vec<Value> = world.heard.last()["messages"].as_array().unwrap().iter().map(|one| one["content"].clone()).collect();
    assert_eq!(said, ["be brief", "one", "answer 2", "two", "answer 3", "three"]);
    world.trace_of(3).await;
    // Through another format nothing changes.
    let told = respond(&world, json!({"model": "claude", "input": "four", "previous_response_id": id})).await;
    assert_eq!(told.json()["output"][0]["content"][0]["text"], "bonjour", "{}", told.body);
    assert_eq!(world.heard.last()["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_unknown_answer_is_not_gone_on_with() {
    let world = World::open().await;
    let failed = respond(&world, json!({"model": "broken", "input": "hi"})).await;
    assert_eq!(failed.status, 502, "{}", failed.body);
    let failed = world.trace_of(1).await.turns().next().unwrap().extra["id"].clone();
    let nobody = json!("resp_00000000000000000000000000000000-0");
    for previous in [json!("resp_x"), json!(""), nobody, failed] {
        let told = respond(&world, json!({"model": "well", "input": "hi", "previous_response_id": previous})).await;
        let error = told.json()["error"].clone();
        assert_eq!((told.status, &error["code"]), (404, &json!("previous_response_not_found")), "{previous}: {}", told.body);
        assert_eq!(error["param"], "previous_response_id");
    }
}

#[tokio::test]
async fn how_much_is_thought_and_said_reaches_a_provider_in_its_own_words() {
    let world = World::open().await;
    let ask = |model: &str, effort: &str, verbosity: &str| {
        json!({"model": model, "input": "hi", "store": false, "include": ["reasoning.encrypted_content"], "max_output_tokens": 3,
            "reasoning": {"effort": effort, "summary": "auto"}, "text": {"verbosity": verbosity}})
    };
    let told = respond(&world, ask("well", "low", "low")).await;
    assert_eq!((told.status, &told.json()["reasoning"]["effort"]), (200, &json!("low")), "{}", told.body);
    assert_eq!(told.json()["text"], json!({"format": {"type": "text"}, "verbosity": "low"}));
    let heard = world.heard.last();
    assert_eq!((&heard["reasoning_effort"], &heard["verbosity"]), (&json!("low"), &json!("low")));
    let config = world.store.document(Kind::Config, &world.trace_of(1).await.config.to_string()).await.unwrap().unwrap();
    let Config { settings, .. } = config.word().unwrap();
    assert_eq!((&settings["reasoning_effort"], &settings["verbosity"]), (&json!("low"), &json!("low")), "they shape an agent");
    assert_eq!(respond(&world, ask("claude", "high", "medium")).await.status, 200);
    assert_eq!(world.heard.last()["output_config"], json!({"effort": "high"}));
    let chat = json!({"model": "claude", "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "low"});
    assert_eq!(world.post("/v1/chat/completions", &chat, &[]).await.status, 200);
    assert_eq!(world.heard.last()["output_config"], json!({"effort": "low"}));
    assert_eq!(respond(&world, ask("own/tiny", "none", "medium")).await.status, 200);
    for (model, effort, verbosity, param) in [
        ("claude", "low", "low", "text.verbosity"),
        ("claude", "minimal", "medium", "reasoning.effort"),
        ("own/tiny", "low", "medium", "reasoning.effort"),
        ("own/tiny", "none", "high", "text.verbosity"),
    ] {
        let told = respond(&world, ask(model, effort, verbosity)).await;
        let error = &told.json()["error"];
        assert_eq!((told.status, &error["code"], &error["param"]), (400, &json!("unsupported_value"), &json!(param)), "{model}");
    }
}

#[tokio::test]
async fn nobody_goes_on_with_an_answer_that_was_not_to_be_stored() {
    let world = World::open().await;
    for (is_stored, status) in [(true, 200), (false, 404)] {
        let first = respond(&world, json!({"model": "well", "input": "hi", "store": is_stored})).await;
        assert_eq!((first.status, &first.json()["store"]), (200, &json!(is_stored)), "{}", first.body);
        let next = json!({"model": "well", "input": "so", "previous_response_id": first.json()["id"]});
        let told = respond(&world, next).await;
        assert_eq!((told.status, told.body.contains("`store` false")), (status, !is_stored), "{}", told.body);
    }
}

#[tokio::test]
async fn a_model_of_this_machine_responds_and_follows_a_schema() {
    let world = World::open().await;
    let schema =
        json!({"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
    let ask = json!({"model": "own/tiny", "input": "the cat", "text": {"format": format}, "max_output_tokens": 100});
    let body = respond(&world, ask).await.json();
    let text = body["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(text).unwrap()["yes"].is_boolean(), "{body}");
    assert_eq!(body["text"]["format"]["name"], "answer");
    let next =
        json!({"model": "own/tiny", "input": "so", "previous_response_id": body["id"], "max_output_tokens": 3, "stream": true});
    let told = respond(&world, next).await;
    let last = events(&told).pop().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.incomplete"), &json!("incomplete")),
        "{}",
        told.body
    );
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    let trace = world.trace_of(2).await;
    assert!(trace.turns().all(|turn| turn.sampled.is_some()));
}

#[tokio::test]
async fn what_breaks_off_is_told_as_failed() {
    let world = World::open().await;
    let told = respond(&world, json!({"model": "cut", "input": "hi", "stream": true})).await;
    let events = events(&told);
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")), "{}", told.body);
    assert!(last["response"]["error"]["message"].as_str().is_some_and(|message| message.contains("cut off")), "{}", told.body);
    let refused = respond(&world, json!({"model": "well", "input": "hi", "background": true})).await;
    assert_eq!((refused.status, refused.json()["error"]["param"].clone()), (400, json!("background")), "{}", refused.body);
    assert_eq!(respond(&world, json!({"model": "nobody", "input": "hi"})).await.json()["error"]["code"], "model_not_found");
}
