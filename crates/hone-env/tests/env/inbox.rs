//! The inbox world played by the three scripts, and its promises to whoever trains in it.

use hone_env::inbox::{Inbox, InboxOptions};
use hone_env::rollout::{Plan, traces};
use hone_env::{Player, call, said};
use hone_trace::env::{Env, EnvError, Split};
use hone_trace::{Scenario, Trace, TraceOutcome};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static WORLD: LazyLock<Inbox> = LazyLock::new(|| Inbox::new(InboxOptions::default()).unwrap());

fn play(env: &dyn Env, player: Player<'_>, scenarios: &[Scenario], seed: u64, n_concurrent: usize) -> Vec<Trace> {
    traces(env, player, &Plan { n_concurrent, ..Plan::new("inbox", scenarios, seed) })
}

fn last(trace: &Trace, signal: &str) -> f64 {
    trace.turns().last().unwrap().signals[signal]
}

#[test]
fn gold_answers_everything_and_finds_it_by_searching() {
    for (corpus_seed, seed) in [(1, 1), (1, 2), (77, 3), (1234, 4), (9, 5)] {
        let world = Inbox::new(InboxOptions { corpus_seed, n_mails: 3000 }).unwrap();
        for split in Split::ALL {
            let scenarios = world.scenarios(split, seed, 300).unwrap();
            assert!(scenarios.len() >= 80, "{split:?}: {}", scenarios.len());
            for (scenario, trace) in scenarios.iter().zip(play(&world, Player::Gold, &scenarios, seed, 4)) {
                assert_eq!(trace.outcome, TraceOutcome::Success, "{}", scenario.id);
                let turns: Vec<_> = trace.turns().collect();
                for (name, best) in world.best(scenario).0 {
                    assert_eq!(last(&trace, &name), best, "{} {name}", scenario.id);
                }
                assert!(turns.iter().all(|turn| turn.errors.is_empty()), "{}", scenario.id);
                // A mail is read after a search has listed it.
                if let Some(turn) = turns.iter().find(|turn| turn.tool_calls[0].name == "read_email") {
                    let listed = turn.input[0].content.text();
                    let id = turn.tool_calls[0].arguments["message_id"].as_str().unwrap();
                    assert!(listed.contains(id), "{} {id} is not in {listed}", scenario.id);
                }
            }
        }
    }
}

#[test]
fn empty_earns_nothing_and_random_next_to_nothing() {
    let scenarios = WORLD.scenarios(Split::Train, 5, 200).unwrap();
    for trace in play(&*WORLD, Player::Empty, &scenarios, 5, 4) {
        assert_eq!(trace.outcome, TraceOutcome::Failure);
        assert!(trace.turns().all(|turn| turn.signals.values().all(|&value| value == 0.0)));
    }
    let traces = play(&*WORLD, Player::Random, &scenarios, 5, 4);
    let n_right = traces.iter().filter(|trace| trace.outcome == TraceOutcome::Success).count();
    assert!(n_right < 20, "{n_right}");
    assert!(traces.iter().all(|trace| trace.turns().count() <= 10));
    assert!(traces.iter().any(|trace| last(trace, "wrong") == 1.0));
}

#[test]
fn traces_are_the_same_bytes_whatever_plays_beside_them() {
    let scenarios = WORLD.scenarios(Split::Test, 9, 120).unwrap();
    for player in [Player::Gold, Player::Random, Player::Empty] {
        let bytes = |n_concurrent| serde_json::to_string(&play(&*WORLD, player, &scenarios, 9, n_concurrent)).unwrap();
        assert!(bytes(1) == bytes(64));
    }
}

#[test]
fn no_fact_is_on_two_sides_and_longer_lists_begin_with_shorter() {
    let families = |split: Split, seed: u64| -> BTreeSet<String> {
        WORLD.scenarios(split, seed, usize::MAX).unwrap().iter().map(|scenario| scenario.family.to_string()).collect()
    };
    let [train, validation, test] = Split::ALL.map(|split| families(split, 1));
    assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test));
    // Another seed asks in another order and other words, but keeps the sides.
    assert_eq!(train, families(Split::Train, 2));
    let (all, some) = (WORLD.scenarios(Split::Train, 1, usize::MAX).unwrap(), WORLD.scenarios(Split::Train, 1, 50).unwrap());
    assert_eq!(all[..50], some);
    assert_ne!(some, WORLD.scenarios(Split::Train, 2, 50).unwrap());
    let ids: BTreeSet<_> = all.iter().map(|scenario| &scenario.id).collect();
    assert_eq!(ids.len(), all.len());
    let categories: BTreeSet<_> = all.iter().map(|scenario| scenario.category.as_str()).collect();
    assert_eq!(categories.len(), 8, "{categories:?}");
}

#[test]
fn an_answer_is_judged_by_what_it_says() {
    let scenarios = WORLD.scenarios(Split::Train, 1, usize::MAX).unwrap();
    let of = |category: &str| scenarios.iter().find(|scenario| scenario.category.as_str() == category).unwrap();
    let check = |scenario: &Scenario, answer: &str, sources: serde_json::Value, expected: &[(&str, f64)]| {
        let mut episode = WORLD.reset(scenario, 0).unwrap().episode;
        let step = episode.step(&call("return_answer", &json!({"answer": answer, "sources": sources}))).unwrap();
        let raised: Vec<_> =
            step.signals.0.iter().map(|(name, value)| (&**name, *value)).filter(|(_, value)| *value != 0.0).collect();
        assert_eq!(raised, expected, "{answer}");
    };
    let told = of("invoice");
    let truth = told.truth.as_ref().unwrap();
    let right = truth["answer"]["text"].as_str().unwrap();
    check(told, right, json!([]), &[("correct", 1.0), ("format", 1.0)]);
    check(told, right, truth["sources"].clone(), &[("correct", 1.0), ("sources_right", 1.0), ("format", 1.0)]);
    check(told, right, json!([truth["sources"][0], "m99999"]), &[("correct", 1.0), ("format", 1.0)]);
    check(told, "I don't know", json!([]), &[("unknown", 1.0), ("format", 1.0)]);
    check(told, "EUR 0.01", json!([]), &[("wrong", 1.0), ("format", 1.0)]);
    let untold = of("unanswerable");
    check(untold, "I don't know", json!([]), &[("correct", 1.0), ("sources_right", 1.0), ("format", 1.0)]);
    check(untold, "I don't know", json!(["m00001"]), &[("correct", 1.0), ("format", 1.0)]);
    check(untold, "EUR 12.00", json!([]), &[("wrong", 1.0), ("format", 1.0)]);
}

#[test]
fn what_makes_no_sense_is_said_and_the_episode_goes_on() {
    let scenario = &WORLD.scenarios(Split::Train, 1, 1).unwrap()[0];
    let check = |action: &hone_trace::Message, kind: &str, format: f64| {
        let mut episode = WORLD.reset(scenario, 0).unwrap().episode;
        let step = episode.step(action).unwrap();
        assert_eq!(step.errors.iter().map(|error| error.kind.as_str()).collect::<Vec<_>>(), [kind], "{action:?}");
        assert_eq!((step.done, step.messages.len(), step.signals.get("format")), (None, 1, Some(format)), "{action:?}");
    };
    check(&said("The answer is 12."), "unparsable_action", 0.0);
    check(&call("search_inbox", &json!([1])), "unparsable_action", 0.0);
    check(&call("search_inbox", &json!({})), "bad_arguments", 0.0);
    check(&call("search_inbox", &json!({"keywords": []})), "bad_arguments", 0.0);
    check(&call("search_inbox", &json!({"keywords": ["a"], "sent_after": "yesterday"})), "bad_arguments", 0.0);
    check(&call("search_inbox", &json!({"keywords": ["a"], "limit": 3})), "bad_arguments", 0.0);
    check(&call("delete_all", &json!({})), "bad_arguments", 0.0);
    check(&call("return_answer", &json!({"answer": 12})), "bad_arguments", 0.0);
    check(&call("read_email", &json!({"message_id": "m99999"})), "tool_error", 1.0);
}

#[test]
fn foreign_and_damaged_scenarios_are_refused_by_name() {
    let other = Inbox::new(InboxOptions { corpus_seed: 2, n_mails: 300 }).unwrap();
    let scenario = &other.scenarios(Split::Train, 1, 1).unwrap()[0];
    let refused = |scenario: &Scenario| WORLD.reset(scenario, 0).err().unwrap().to_string();
    assert!(refused(scenario).ends_with("it asks about mailbox 300-2, and this is 3000-1"), "{}", refused(scenario));
    assert!(refused(&Scenario { input: json!({}), ..scenario.clone() }).contains("its input is damaged"));
    let without = Scenario { truth: None, ..WORLD.scenarios(Split::Train, 1, 1).unwrap()[0].clone() };
    assert!(refused(&without).contains("it has no truth"));
    let too_many = Inbox::new(InboxOptions { corpus_seed: 1, n_mails: 60_000 });
    assert!(matches!(too_many.err(), Some(EnvError::Data { .. })));
}
