//! What is kept.

use crate::upstream::nested;
use crate::world::{World, messages};
use hone_gateway::demonstrations::Demonstrations;
use hone_trace::store::Kind;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_plain_model_is_asked_about_a_type_of_task_too() {
    let world = World::open().await;
    for (said, headers, expected) in [
        ("hi", &[][..], None),
        ("hi", &[("x-hone-task", "greet")][..], Some("greet")),
        ("I want my money back", &[][..], Some("refund")),
    ] {
        let told = world.chat("well", &[("user", said)], headers).await;
        let trace = world.traces().await.into_iter().find(|trace| Some(trace.id.to_string()) == told.episode).unwrap();
        assert_eq!(trace.category.as_ref().map(hone_trace::Category::as_str), expected);
    }
}

#[tokio::test]
async fn a_conversation_is_known_by_its_words_whatever_its_provider_did_besides() {
    let world = World::open().await;
    let ask = |messages: Value| json!({"model": "claude", "max_tokens": 9, "messages": messages});
    let first = world.post("/v1/messages", &ask(json!([{"role": "user", "content": "hi"}])), &[]).await;
    let answer = json!([
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "text", "text": "bonjour"}
    ]);
    let said =
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": answer}, {"role": "user", "content": "and?"}]);
    let second = world.post("/v1/messages", &ask(said.clone()), &[]).await;
    assert_eq!((second.status, &second.episode), (200, &first.episode), "{}", second.body);
    assert_eq!(world.heard.last()["messages"], said, "its own provider is sent all of it");
}

#[tokio::test]
async fn a_call_is_on_the_record_when_its_answer_is_there() {
    let world = World::open().await;
    let told = world.chat("well", &[("system", "be kind"), ("user", "hi")], &[]).await;
    let traces = world.traces().await;
    assert_eq!(traces.len(), 1);
    let trace = &traces[0];
    assert_eq!(Some(trace.id.to_string()), told.episode);
    let turn = trace.turns().next().unwrap();
    assert_eq!(turn.input.len(), 2);
    assert_eq!(turn.answer.content.text(), "answer 2");
    let call = &turn.llm_calls[0];
    assert_eq!((call.tokens_in, call.tokens_out, call.tokens_cached), (20, 5, 4));
    assert!(call.duration_ms.is_some());
    let config = world.store.document(Kind::Config, &trace.config.to_string()).await.unwrap().unwrap();
    assert_eq!((&config.body["model"], &config.body["prompt"]), (&json!("well"), &json!("be kind")));
}

/// Asks this model, and says whether the config of the trace is on the record.
async fn keeps_config(world: &World, model: &str) -> bool {
    let told = world.chat(model, &[("user", "hi")], &[]).await;
    assert_eq!(told.status, 200, "{}", told.body);
    let trace = world.store.trace(told.episode.unwrap().parse().unwrap()).await.unwrap().unwrap();
    world.store.document(Kind::Config, &trace.config.to_string()).await.unwrap().is_some()
}

#[tokio::test]
async fn configs_are_on_the_record_of_a_store_that_was_restored_under_a_server_without_agents() {
    let world = World::open().await;
    let backup = world.back_up().await;
    world.say_started().await;
    assert!(keeps_config(&world, "well").await);
    world.restore(backup.path()).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(keeps_config(&world, "well").await);
}

/// The log of a back-up that was made between the start and the first call tells nothing: all of it stands where it stood.
#[tokio::test]
async fn configs_come_back_to_a_store_of_which_nothing_tells_that_it_was_restored() {
    let world = World::open().await;
    world.say_started().await;
    assert!(keeps_config(&world, "well").await);
    world.change("DELETE FROM bodies; DELETE FROM traces; DELETE FROM documents");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert!(keeps_config(&world, "well").await);
}

#[tokio::test]
async fn a_conversation_that_goes_on_is_one_trace() {
    let world = World::open().await;
    world.chat("well", &[("user", "one")], &[]).await;
    world.chat("well", &[("user", "one"), ("assistant", "answer 1"), ("user", "two")], &[]).await;
    let trace = world.trace_of(2).await;
    let inputs: Vec<usize> = trace.turns().map(|turn| turn.input.len()).collect();
    assert_eq!((trace.segments.len(), inputs), (1, vec![1, 1]), "nothing is written twice");
    world.chat("well", &[("user", "other")], &[]).await;
    assert_eq!(world.traces().await.len(), 2);
}

#[tokio::test]
async fn the_same_words_of_two_clients_stay_two_episodes() {
    let world = World::open().await;
    for _ in 0..2 {
        world.chat("well", &[("user", "one")], &[]).await;
    }
    for next in ["two", "three"] {
        world.chat("well", &[("user", "one"), ("assistant", "answer 1"), ("user", next)], &[]).await;
    }
    let turns: Vec<usize> = world.traces().await.iter().map(|trace| trace.turns().count()).collect();
    assert_eq!(turns, [2, 2]);
}

#[tokio::test]
async fn an_episode_that_is_named_stays_together_whatever_is_said() {
    let world = World::open().await;
    let named = &[("x-hone-episode", "job 17")];
    world.chat("well", &[("user", "one")], named).await;
    world.chat("well", &[("user", "rewritten")], named).await;
    let told = world.chat("well", &[("user", "rewritten"), ("assistant", "answer 1"), ("user", "on")], named).await;
    let trace = world.trace_of(3).await;
    assert_eq!(Some(trace.id.to_string()), told.episode);
    let turns: Vec<usize> = trace.segments.iter().map(|segment| segment.turns.len()).collect();
    assert_eq!(turns, [1, 2], "what was rewritten begins a segment");
    assert_eq!(trace.metadata.get("episode_name"), Some(&json!("job 17")));
    assert_eq!(hone_gateway::episodes_called(&trace.tenant, "job 17").first(), Some(&trace.id));
    let named = &[("x-hone-episode", told.episode.as_deref().unwrap())];
    world.chat("well", &[("user", "by its id")], named).await;
    world.trace_of(4).await;
    let wrong = world.chat("well", &[("user", "one")], &[("x-hone-episode", &"x".repeat(300))]).await;
    assert_eq!((wrong.status, wrong.json()["error"]["param"].clone()), (400, json!("x-hone-episode")));
}

/// A stream says its episode when it begins, and is on the record when it ends.
#[tokio::test]
async fn an_episode_can_be_named_by_its_id_while_its_first_call_is_underway() {
    let world = World::open().await;
    let body = json!({"model": "endless", "messages": messages(&[("user", "hi")]), "stream": true});
    let underway = world.http.post(format!("{}/v1/chat/completions", world.url)).body(body.to_string()).send().await.unwrap();
    let id = underway.headers()["x-hone-episode"].to_str().unwrap().to_owned();
    let told = world.chat("well", &[("user", "meanwhile")], &[("x-hone-episode", &id)]).await;
    assert_eq!((told.status, told.episode.as_deref()), (200, Some(id.as_str())), "{}", told.body);
    drop(underway);
    world.trace_of(2).await;
}

#[tokio::test]
async fn a_conversation_goes_on_after_a_name_that_was_mistyped() {
    let world = World::open().await;
    world.chat("well", &[("user", "one")], &[]).await;
    let next = [("user", "one"), ("assistant", "answer 1"), ("user", "two")];
    assert_eq!(world.chat("wel", &next, &[]).await.status, 404);
    world.chat("well", &next, &[]).await;
    assert_eq!(world.trace_of(2).await.turns().count(), 2);
}

#[tokio::test]
async fn who_tries_again_goes_on_where_it_failed() {
    let world = World::open().await;
    let named = &[("x-hone-episode", "again")];
    let failed = world.chat("broken", &[("user", "hi")], named).await;
    let told = world.chat("well", &[("user", "hi")], named).await;
    assert_eq!((failed.status, told.status, &failed.episode), (502, 200, &told.episode));
    world.chat("well", &[("user", "hi"), ("assistant", "answer 1"), ("user", "on")], named).await;
    let trace = world.trace_of(3).await;
    let inputs: Vec<usize> = trace.turns().map(|turn| turn.input.len()).collect();
    assert_eq!((trace.segments.len(), inputs), (1, vec![1, 0, 1]));
}

/// A question that got no answer says nothing of who asks it next: only an answer that comes back does.
#[tokio::test]
async fn the_same_question_after_a_failure_is_another_episode() {
    let world = World::open().await;
    let mut episodes = Vec::new();
    for model in ["broken", "picky", "broken", "well"] {
        episodes.push(world.chat(model, &[("user", "hi")], &[]).await.episode.expect("a failure says its episode too"));
    }
    let asked = json!({"model": "claude", "max_tokens": 9, "messages": messages(&[("user", "hi")])});
    episodes.push(world.post("/v1/messages", &asked, &[]).await.episode.unwrap());
    let traces = world.traces().await;
    assert!(traces.len() == 5 && traces.iter().all(|trace| trace.turns().count() == 1), "{traces:?}");
    let goes_on = &[("user", "hi"), ("assistant", "answer 1"), ("user", "on")];
    let failed = world.chat("broken", goes_on, &[]).await;
    let again = world.chat("well", goes_on, &[]).await;
    assert_eq!((failed.episode.as_ref(), again.episode.as_ref()), (Some(&episodes[3]), Some(&episodes[3])), "after an answer");
    episodes.sort_unstable();
    episodes.dedup();
    assert_eq!(episodes.len(), 5);
}

#[tokio::test]
async fn many_calls_of_one_episode_at_once_are_all_kept() {
    let world = World::open().await;
    let named = &[("x-hone-episode", "busy")];
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let body = json!({"model": "well", "messages": messages(&[("user", &format!("{n}"))])});
            let request = world.http.post(format!("{}/v1/chat/completions", world.url)).header(named[0].0, named[0].1);
            tokio::spawn(request.body(body.to_string()).send())
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    let trace = world.trace_of(20).await;
    let mut said: Vec<String> = trace.turns().map(|turn| turn.input[0].content.text()).collect();
    said.sort_by_key(|text| text.parse::<u32>().unwrap());
    assert_eq!(said, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn feedback_is_a_reward_on_the_answer_or_on_the_episode() {
    let world = World::open().await;
    let first = world.chat("well", &[("user", "one")], &[]).await.json();
    let said = &[("user", "one"), ("assistant", "answer 1"), ("user", "two")];
    let told = world.chat("well", said, &[]).await;
    let id = told.json()["id"].as_str().unwrap().to_owned();
    assert_ne!(first["id"], told.json()["id"]);
    let give = async |body: Value| world.post("/v1/feedback", &body, &[]).await;
    let on_answer = give(json!({"inference_id": id, "metric_name": "helpful", "value": true})).await;
    assert_eq!((on_answer.status, on_answer.json()["turn_idx"].clone()), (200, json!(1)), "{}", on_answer.body);
    for _ in 0..2 {
        let body = json!({"episode_id": told.episode, "metric_name": "solved", "value": 0.25, "id": "once"});
        assert_eq!(give(body).await.status, 200);
    }
    for _ in 0..2 {
        let body = json!({"episode_id": told.episode, "metric_name": "comment", "value": "good", "id": "once"});
        assert_eq!(give(body).await.status, 200);
    }
    for body in [
        json!({"episode_id": told.episode, "metric_name": "solved", "value": 0.75, "id": "once"}),
        json!({"inference_id": id, "metric_name": "solved", "value": 0.25, "id": "once"}),
        json!({"episode_id": told.episode, "metric_name": "comment", "value": "bad", "id": "once"}),
    ] {
        let refused = give(body).await;
        assert_eq!((refused.status, refused.json()["error"]["param"].clone()), (409, json!("id")), "{}", refused.body);
    }
    let body = json!({"episode_id": told.episode, "metric_name": "demonstration", "value": "better"});
    assert_eq!(give(body).await.json()["turn_idx"], 1, "the last answer so far is meant");
    let trace = world.trace_of(2).await;
    let rewards: Vec<(Option<u32>, f64)> = trace.rewards.iter().map(|reward| (reward.turn_idx, reward.total)).collect();
    assert_eq!(rewards, [(Some(1), 1.0), (None, 0.25)]);
    let events = world.store.events(Some(&format!("feedback:{}", trace.id)), 0, 10).await.unwrap();
    assert_eq!((events.len(), events[0].1.body["words"].clone()), (2, json!("good")));
    for (body, status) in [
        (json!({"episode_id": "nobody", "metric_name": "solved", "value": 1}), 404),
        (json!({"inference_id": "chatcmpl-x", "metric_name": "solved", "value": 1}), 404),
        (json!({"metric_name": "solved", "value": 1}), 400),
        (json!({"episode_id": told.episode, "metric_name": "solved", "value": "yes"}), 400),
        (json!({"episode_id": told.episode, "metric_name": "comment", "value": 1}), 400),
        (json!({"episode_id": told.episode, "metric_name": "solved", "value": 1, "unknown": 1}), 400),
    ] {
        assert_eq!(give(body.clone()).await.status, status, "{body}");
    }
    for value in [1.7e308, -1_000_001.0] {
        let refused = give(json!({"episode_id": told.episode, "metric_name": "solved", "value": value})).await;
        assert_eq!((refused.status, refused.json()["error"]["param"].clone()), (400, json!("value")), "{}", refused.body);
        assert!(refused.body.contains("from -1000000 to 1000000"), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_demonstration_may_call_the_tools_that_were_on_offer() {
    let world = World::open().await;
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}});
    let body = json!({"model": "well", "messages": messages(&[("user", "hi")]), "tools": [tool]});
    let told = world.post("/v1/chat/completions", &body, &[]).await;
    let give = async |value: Value| {
        let body = json!({"inference_id": told.json()["id"], "metric_name": "demonstration", "value": value, "id": "one"});
        world.post("/v1/feedback", &body, &[]).await
    };
    let call = |name: &str, arguments: &str| json!({"type": "function", "function": {"name": name, "arguments": arguments}});
    let says = |call: Value| json!({"role": "assistant", "content": null, "tool_calls": [call]});
    for (value, why) in [
        (json!({"content": "a"}), "`role` is missing"),
        (json!({"role": "user", "content": "a"}), "must be `assistant`"),
        (json!({"role": "assistant", "content": " "}), "says nothing and calls no tool"),
        (json!(""), "says nothing and calls no tool"),
        (json!(7), "must be a text, or the message of an assistant"),
        (json!({"role": "assistant", "content": "a", "mood": "good"}), "`mood` is nothing that a demonstration shows"),
        (json!({"role": "assistant", "content": [{"type": "image_url"}]}), "must be text"),
        (says(json!("look")), "tool_calls"),
        (says(call("look", "{")), "the arguments of `look` are not a JSON object"),
        (says(call("look", "[1]")), "the arguments of `look` are not a JSON object"),
        (says(call("leap", "{}")), "`leap` was not on offer there, but `look`"),
    ] {
        let refused = give(value.clone()).await;
        let param = refused.json()["error"]["param"].clone();
        assert!(refused.status == 400 && param == "value" && refused.body.contains(why), "{value}: {}", refused.body);
    }
    // As an answer comes back from a client, with what says nothing.
    let mut shown = says(call("look", r#"{"at": 1}"#));
    shown["refusal"] = Value::Null;
    shown["annotations"] = json!([]);
    shown["reasoning_content"] = json!("There is a tool.");
    for _ in 0..2 {
        assert_eq!(give(shown.clone()).await.json()["turn_idx"], 0);
    }
    assert_eq!(give(says(call("look", r#"{"at": 2}"#))).await.status, 409);
    let trace = world.trace_of(1).await;
    let said = Demonstrations::read(&*world.store).await.unwrap().of(&*world.store, &trace).await.unwrap();
    let answer = &said[0].answer;
    assert_eq!((said.len(), answer.tool_calls[0].arguments.as_str(), answer.extra.len()), (1, r#"{"at": 1}"#, 0));
    assert_eq!(answer.reasoning.as_deref(), Some("There is a tool."));
}

/// What nests too deep could be written, and no more be read: not by the store, not by an export, not by a back-up.
#[tokio::test]
async fn what_nests_too_deep_to_be_read_back_is_refused() {
    let world = World::open().await;
    let said = messages(&[("user", "hi")]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"model": "well", "messages": said, "metadata": {"a": nested(120)}})),
        (
            "/v1/messages",
            json!({"model": "claude", "max_tokens": 9, "messages": said, "tools": [{"name": "f", "input_schema": nested(123)}]}),
        ),
        (
            "/v1/responses",
            json!({"model": "well", "input": "hi", "tools": [{"type": "function", "name": "f", "parameters": nested(123)}]}),
        ),
        ("/v1/completions", json!({"model": "well", "prompt": "hi", "metadata": {"a": nested(120)}})),
        ("/v1/embeddings", json!({"model": "embed", "input": "hi", "metadata": nested(120)})),
        ("/v1/feedback", json!({"episode_id": "e", "metric_name": "m", "value": nested(120)})),
    ] {
        let told = world.post(path, &body, &[]).await;
        assert_eq!((told.status, told.body.contains("nested deeper than 64 levels")), (400, true), "{path}: {}", told.body);
    }
    assert_eq!((world.heard.n(), world.traces().await.len()), (0, 0));
    let content = json!([{"type": "document", "source": nested(59)}]);
    let deepest = json!({"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": content}]});
    assert_eq!(world.post("/v1/messages", &deepest, &[]).await.status, 200, "64 levels can be kept");
    assert_eq!(json!(world.trace_of(1).await.turns().next().unwrap().input[0].content), content);
}

#[tokio::test]
async fn what_a_provider_nests_too_deep_is_passed_on_and_left_out() {
    let world = World::open().await;
    for (is_stream, n_traces) in [(false, 1), (true, 2)] {
        let body = json!({"model": "well", "messages": messages(&[("user", "hi")]), "n": 2, "logprobs": true, "user": "deep",
            "stream": is_stream});
        let told = world.post("/v1/chat/completions", &body, &[]).await;
        assert!(told.status == 200 && told.body.contains("[[[[["), "{}", told.body);
        let traces = world.traces().await;
        assert_eq!(traces.len(), n_traces);
        let turn = traces[0].turns().next().unwrap();
        assert_eq!((turn.answer.content.text(), &turn.extra["left_out"]), ("answer 1".to_owned(), &json!(["logprobs"])));
        assert!(!turn.extra.contains_key("logprobs"));
        let others = turn.extra["others"].as_array().unwrap();
        assert!(others[0]["answer"]["content"] == "answer 1 more" && others[0].get("logprobs").is_none(), "{others:?}");
    }
}

#[tokio::test]
async fn every_request_is_called_as_its_record_calls_it() {
    let world = World::open().await;
    let hi = messages(&[("user", "hi")]);
    for (path, model, body) in [
        ("/v1/chat/completions", "well", json!({"messages": hi})),
        ("/v1/chat/completions", "well", json!({"messages": hi, "stream": true})),
        ("/v1/chat/completions", "broken", json!({"messages": hi})),
        ("/v1/responses", "well", json!({"input": "hi"})),
        ("/v1/messages", "well", json!({"messages": hi, "max_tokens": 9})),
        ("/v1/messages", "broken", json!({"messages": hi, "max_tokens": 9, "stream": true})),
    ] {
        let mut body = body;
        body["model"] = model.into();
        let told = world.post(path, &body, &[]).await;
        let traces = world.traces().await;
        let trace = traces.iter().find(|trace| Some(trace.id.to_string()) == told.episode).unwrap();
        let id = told.request.unwrap();
        assert!(trace.turns().any(|turn| turn.extra["id"] == id), "{path} {model}: {id}");
        let found = hone_gateway::episodes_called(&trace.tenant, &id);
        assert!(found.contains(&trace.id), "its id leads to its trace");
    }
    let vectors = world.post("/v1/embeddings", &json!({"model": "embed", "input": "a"}), &[]).await;
    assert_eq!((vectors.request.is_some(), vectors.request), (true, vectors.episode));
    let unread = world.post("/v1/messages", &json!({"model": "well"}), &[]).await;
    let unknown = world.get("/v1/files", &[]).await;
    for id in [unread.request.unwrap(), unknown.request.unwrap()] {
        assert!(id.starts_with("req_"), "{id} is on no record");
    }
    assert_eq!(world.get("/healthz", &[]).await.request, None);
}
