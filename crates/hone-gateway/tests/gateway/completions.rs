//! Plain texts that go on.

use crate::world::{Told, World};
use hone_trace::Content;
use serde_json::{Value, json};

async fn complete(world: &World, body: Value) -> Told {
    world.post("/v1/completions", &body, &[]).await
}

#[tokio::test]
async fn a_text_goes_on_as_it_stands_and_its_tokens_are_on_the_record() {
    let world = World::open().await;
    let ask = json!({"model": "own/tiny", "prompt": "the cat ", "max_tokens": 9, "seed": 1, "logprobs": 2});
    let told = complete(&world, ask.clone()).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let body = told.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("text_completion"), &json!("own/tiny")));
    assert!(body["id"].as_str().unwrap().starts_with("cmpl-"), "{body}");
    let (text, logprobs) = (body["choices"][0]["text"].as_str().unwrap(), &body["choices"][0]["logprobs"]);
    let tokens: Vec<&str> = logprobs["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!((tokens.len(), logprobs["token_logprobs"].as_array().unwrap().len()), (tokens.len(), tokens.len()));
    assert_eq!(logprobs["text_offset"][0], 0);
    assert!(logprobs["top_logprobs"].as_array().unwrap().iter().all(|map| !map.as_object().unwrap().is_empty()), "{logprobs}");

    let trace = world.trace_of(1).await;
    assert_eq!((Some(trace.id.to_string()), trace.metadata["api"].clone()), (told.episode, json!("openai.completions")));
    let turn = trace.turns().next().unwrap();
    assert_eq!((turn.input[0].content.text(), turn.answer.content.text()), ("the cat ".to_owned(), text.to_owned()));
    let sampled = turn.sampled.as_ref().unwrap();
    assert_eq!(body["usage"]["prompt_tokens"], sampled.input_ids.len(), "there is nothing before the prompt but what it says");
    assert_eq!(body["usage"]["completion_tokens"], sampled.ids.len());

    // The same tokens go on in the same way.
    let by_ids = json!({"model": "own/tiny", "prompt": sampled.input_ids, "max_tokens": 9, "seed": 1});
    assert_eq!(complete(&world, by_ids).await.json()["choices"][0]["text"], text);
    let turns: Vec<Content> =
        world.traces().await.iter().flat_map(|trace| trace.turns()).map(|turn| turn.input[0].content.clone()).collect();
    assert!(turns.iter().any(|content| matches!(content, Content::Parts(parts) if parts[0]["type"] == "token_ids")), "{turns:?}");
}

#[tokio::test]
async fn several_texts_and_several_answers_are_numbered_one_after_the_other() {
    let world = World::open().await;
    let ask = json!({"model": "own/tiny", "prompt": ["the cat", "12 times"], "max_tokens": 6, "seed": 1, "n": 2});
    let body = complete(&world, ask.clone()).await.json();
    let choices = body["choices"].as_array().unwrap();
    assert_eq!(choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3], "{body}");
    let turn = world.trace_of(1).await.turns().next().unwrap().clone();
    assert_eq!(turn.extra["prompts"], json!(["the cat", "12 times"]));
    let others = turn.extra["others"].as_array().unwrap();
    assert_eq!(others.len(), 3);
    let input = |sampled: &Value| sampled["input_ids"].clone();
    assert_eq!(input(&others[0]["sampled"]), json!(turn.sampled.unwrap().input_ids), "it went on from the same text");
    assert_eq!(input(&others[1]["sampled"]), input(&others[2]["sampled"]));
    assert_ne!(input(&others[0]["sampled"]), input(&others[1]["sampled"]));

    let mut streamed = ask;
    streamed["stream"] = true.into();
    let told = complete(&world, streamed).await;
    let events = told.events();
    assert_eq!(events.last().unwrap(), "[DONE]", "{}", told.body);
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    for choice in choices {
        let of_it = || chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|piece| piece["index"] == choice["index"]);
        let said: String = of_it().map(|piece| piece["text"].as_str().unwrap()).collect();
        assert_eq!(said, choice["text"].as_str().unwrap());
        assert_eq!(of_it().next_back().unwrap()["finish_reason"], choice["finish_reason"]);
    }
}

#[tokio::test]
async fn a_stop_string_ends_a_text_and_is_not_part_of_it() {
    let world = World::open().await;
    let ask = |stop: Value| json!({"model": "own/tiny", "prompt": "the cat", "max_tokens": 12, "seed": 5, "stop": stop});
    let free = complete(&world, ask(Value::Null)).await.json()["choices"][0]["text"].as_str().unwrap().to_owned();
    let stop = free.chars().skip(1).find(char::is_ascii_alphanumeric).unwrap().to_string();
    let cut = complete(&world, ask(json!([stop]))).await.json();
    let before = free.split_once(&stop).unwrap().0;
    assert_eq!((&cut["choices"][0]["text"], &cut["choices"][0]["finish_reason"]), (&json!(before), &json!("stop")));
}

#[tokio::test]
async fn a_provider_of_the_format_is_asked_in_the_clients_own_words() {
    for is_stream in [false, true] {
        let world = World::open().await;
        let ask = json!({"model": "well", "prompt": ["abc", "de"], "user": "u", "best_of": 1, "stream": is_stream});
        let told = complete(&world, ask).await;
        assert_eq!(told.status, 200, "{}", told.body);
        let heard = world.heard.last();
        assert_eq!((&heard["user"], &heard["prompt"], &heard["model"]), (&json!("u"), &json!(["abc", "de"]), &json!("well")));
        assert!(told.body.contains(" has 3 signs") && told.body.contains(" has 2 signs"), "{}", told.body);
        assert_eq!(told.body.contains("data: [DONE]"), is_stream);
        let turn = world.trace_of(1).await.turns().next().unwrap().clone();
        assert_eq!((turn.input[0].content.text().as_str(), turn.answer.content.text().as_str()), ("abc", " has 3 signs"));
        assert_eq!(turn.extra["others"][0]["answer"]["content"], " has 2 signs");
        assert_eq!((turn.llm_calls[0].tokens_in, turn.llm_calls[0].tokens_out), (7, 3));
    }
}

#[tokio::test]
async fn what_cannot_be_followed_is_refused_by_name() {
    let world = World::open().await;
    for (body, words) in [
        (json!({"model": "own/tiny"}), "`prompt` is missing"),
        (json!({"model": "own/tiny", "prompt": ""}), "the prompt is empty"),
        (json!({"model": "own/tiny", "prompt": [9999]}), "outside the vocabulary"),
        (json!({"model": "own/tiny", "prompt": "a", "echo": true}), "`echo`"),
        (json!({"model": "own/tiny", "prompt": "a", "suffix": "b"}), "`suffix`"),
        (json!({"model": "own/tiny", "prompt": "a", "best_of": 3}), "`best_of`"),
        (json!({"model": "own/tiny", "prompt": vec!["a"; 20], "n": 7}), "`n`"),
        (json!({"model": "own/tiny", "prompt": "a", "max_tokens": 0}), "`max_tokens`"),
        (json!({"model": "well", "prompt": [1, 2]}), "`prompt` must be text here"),
        (json!({"model": "claude", "prompt": "a"}), "OpenAI's format only"),
    ] {
        let told = complete(&world, body.clone()).await;
        assert!(told.status == 400 && told.body.contains(words), "{body}: {}", told.body);
    }
    let long = complete(&world, json!({"model": "own/tiny", "prompt": "the cat ".repeat(400)})).await;
    assert_eq!((long.status, long.json()["error"]["code"].clone()), (400, json!("context_length_exceeded")), "{}", long.body);
}
