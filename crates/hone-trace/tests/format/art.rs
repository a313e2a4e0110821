//! Trajectories and groups come back as they were.

use crate::json::{self, Any, anything, list, maybe, must, null, number, object, or_null, text, unknown};
use crate::{openai, read};
use hone_trace::format::{Format, art, write};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

fn logprob() -> Any {
    let short = any::<f32>().prop_filter("finite", |x| x.is_finite()).prop_map(|x| json!(x.to_string().parse::<f64>().unwrap()));
    prop_oneof![4 => short, 1 => number(), 1 => Just(json!(0)), 1 => Just(json!(-0.0))].boxed()
}

fn entry() -> Any {
    let token = prop_oneof![
        6 => any::<u32>().prop_map(|id| json!(format!("token_id:{id}"))),
        1 => Just(json!("token_id:007")),
        1 => text(),
    ];
    object(vec![
        must("token", token.boxed()),
        must("logprob", logprob()),
        maybe("bytes", or_null(Just(json!([])).boxed())),
        unknown(),
    ])
}

fn logprobs() -> Any {
    let id = any::<u32>()
        .prop_map(|id| json!({"token": format!("token_id:{id}"), "logprob": -0.5, "bytes": null, "top_logprobs": []}));
    let content = prop_oneof![list(id.boxed(), 0..4), list(entry(), 0..4), null(), list(anything(), 0..2)].boxed();
    prop_oneof![4 => object(vec![maybe("content", content), maybe("refusal", null()), unknown()]), 1 => anything()].boxed()
}

fn choice() -> Any {
    let ids = prop_oneof![3 => vec(any::<u32>(), 0..4).prop_map(Value::from).boxed(), 1 => anything()].boxed();
    object(vec![
        must("message", openai::message(Just(json!("assistant")).boxed())),
        maybe("finish_reason", or_null(text())),
        maybe("index", number()),
        maybe("logprobs", logprobs()),
        maybe("token_ids", ids),
        unknown(),
    ])
}

fn history(min: usize) -> Any {
    list(prop_oneof![openai::any_message(), choice()].boxed(), min..5)
}

fn trajectory() -> Any {
    let additional =
        object(vec![must("messages_and_choices", history(0)), maybe("tools", or_null(list(openai::tool(), 0..2))), unknown()]);
    let metric = prop_oneof![3 => number(), 2 => any::<bool>().prop_map(Value::from), 1 => anything()].boxed();
    let metrics = vec(("[a-z]{1,4}", metric), 0..3).prop_map(|pairs| Value::Object(pairs.into_iter().collect())).boxed();
    let facts = vec(("[a-z_]{0,9}", anything()), 0..3).prop_map(|pairs| Value::Object(pairs.into_iter().collect())).boxed();
    object(vec![
        must("messages_and_choices", history(1)),
        maybe("tools", or_null(list(openai::tool(), 0..3))),
        maybe("additional_histories", or_null(list(additional, 0..3))),
        maybe("reward", or_null(json::reward())),
        maybe("initial_policy_version", or_null(number())),
        maybe("final_policy_version", or_null(number())),
        maybe("metrics", or_null(metrics)),
        maybe("metadata", or_null(facts)),
        maybe("logs", or_null(list(text(), 0..3))),
        unknown(),
    ])
}

fn group() -> Any {
    let exception = object(vec![must("type", text()), must("message", text()), maybe("traceback", text())]);
    object(vec![
        must("trajectories", list(trajectory(), 1..3)),
        maybe("exceptions", or_null(list(exception, 0..2))),
        maybe("metadata", anything()),
        maybe("metrics", anything()),
        maybe("reward", anything()),
        maybe("logs", or_null(list(text(), 0..2))),
        unknown(),
    ])
}

proptest! {
    #[test]
    fn a_trajectory_comes_back(document in trajectory()) {
        let imported = read(Format::Art, &document.to_string());
        prop_assert_eq!(imported.traces.len(), 1);
        json::assert_same(&json::parse(&write(&imported.traces[0], Format::Art)), &document);
        let stored = read(Format::Hone, &write(&imported.traces[0], Format::Hone));
        prop_assert_eq!(stored.traces, imported.traces);
    }

    #[test]
    fn a_group_comes_back(document in group()) {
        let imported = read(Format::Art, &document.to_string());
        json::assert_same(&json::parse(&art::write_group(&imported.groups[0], &imported.traces)), &document);
    }
}

#[test]
fn a_choice_is_a_trainable_turn_and_a_group_knows_its_policy() {
    let trajectory = json!({
        "messages_and_choices": [
            {"role": "user", "content": "hi"},
            {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": "ho"},
             "logprobs": {"content": [{"token": "token_id:7", "logprob": -0.1, "bytes": [], "top_logprobs": []}], "refusal": null}},
            {"role": "assistant", "content": "not trained"},
        ],
        "reward": 1, "metrics": {"won": true, "moves": 3}, "metadata": {"task_type": "2048"},
        "initial_policy_version": 4, "final_policy_version": 4,
        "additional_histories": [{"messages_and_choices": [{"role": "user", "content": "again"}]}],
    });
    let imported = read(Format::Art, &json!({"trajectories": [trajectory, trajectory]}).to_string());
    let trace = &imported.traces[0];
    let turns: Vec<_> = trace.turns().collect();
    assert_eq!(turns[0].sampled.as_ref().map(|sampled| (sampled.ids[0], sampled.logprobs[0])), Some((7, -0.1)));
    assert_eq!((turns[1].sampled.is_none(), trace.segments.len()), (true, 2));
    assert_eq!((trace.reward().unwrap().total, trace.metrics.len()), (1.0, 2));
    assert_eq!(trace.category.as_ref().unwrap().as_str(), "2048");
    let group = &imported.groups[0];
    assert_eq!((group.policy.as_deref(), group.traces.len()), (Some("4"), 2));
    assert_eq!((trace.group, group.traces[0] != group.traces[1]), (Some(group.id), true));
}
