//! The world of ARC tasks: gold earns everything, nobody earns nothing, and every scenario can be played.

use hone_arc::world::{ArcOptions, ArcWorld};
use hone_trace::env::{Env, Signals, Split, Step};
use hone_trace::{Message, Role, Scenario, ToolRequest, TraceOutcome};
use serde_json::json;
use std::path::PathBuf;

/// Three tasks of our own in a folder: one that a shipped program solves, a small and a large one that none does.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |id: &str, text: &str| std::fs::write(folder.path().join(format!("{id}.json")), text).unwrap();
    write(
        "67a3c6ac",
        r#"{"train": [{"input": [[1, 2], [3, 4]], "output": [[2, 1], [4, 3]]}],
            "test": [{"input": [[5, 6]], "output": [[6, 5]]}]}"#,
    );
    write("ffffffff", r#"{"train": [{"input": [[1]], "output": [[2, 2]]}], "test": [{"input": [[3]], "output": [[4, 4]]}]}"#);
    write("eeeeeeee", &large());
    folder
}

/// A task of grids of 20 by 20: a program that knows its answers is long.
fn large() -> String {
    let grid = |first: usize| (0..20).map(|y| (0..20).map(|x| (first + x * y) % 10).collect()).collect::<Vec<Vec<usize>>>();
    let pair = |first: usize| json!({"input": grid(first), "output": grid(first + 1)});
    json!({"train": [pair(1), pair(2), pair(3)], "test": [pair(4)]}).to_string()
}

fn options(path: PathBuf) -> ArcOptions {
    ArcOptions { turns_max: 2, ..ArcOptions::new(path) }
}

fn all(world: &ArcWorld) -> Vec<Scenario> {
    Split::ALL.iter().flat_map(|split| world.scenarios(*split, 7, 100).unwrap()).collect()
}

fn scenario(world: &ArcWorld, id: &str) -> Scenario {
    all(world).into_iter().find(|scenario| scenario.id.as_str().contains(id)).unwrap()
}

/// The steps of an episode with these answers.
fn play(world: &ArcWorld, scenario: &Scenario, answers: &[&str]) -> Vec<Step> {
    let mut episode = world.reset(scenario, 1).unwrap().episode;
    answers.iter().map(|answer| episode.step(&Message::text(Role::Assistant, *answer)).unwrap()).collect()
}

const RIGHT: &str = "<think>left is right</think>```python\nfrom arc_dsl import *\ndef solve(I):\n    return vmirror(I)\n```";

#[test]
fn gold_earns_the_best_and_an_empty_answer_nothing() {
    let folder = folder();
    let world = ArcWorld::new(ArcOptions { augmented: 5, ..options(folder.path().to_owned()) }).unwrap();
    assert_eq!(all(&world).len(), 18);
    for scenario in all(&world) {
        let mut gold = world.gold(&scenario, 1).unwrap();
        let limits = hone_trace::policy::AnswerLimits { tokens_max: 1000, time_max_ms: None };
        let answer = gold.answer(&[], limits).unwrap().message;
        let last = world.reset(&scenario, 1).unwrap().episode.step(&answer).unwrap();
        assert_eq!((last.done, &last.signals), (Some(TraceOutcome::Success), &world.best(&scenario)), "{}", scenario.id);
        let empty = play(&world, &scenario, &["", ""]).pop().unwrap();
        assert_eq!(
            (empty.done, empty.signals.get("correctness"), empty.signals.get("valid_syntax")),
            (Some(TraceOutcome::Failure), Some(0.0), Some(0.0))
        );
    }
}

#[test]
fn a_wrong_program_is_told_what_it_made_and_may_be_changed() {
    let folder = folder();
    let world = ArcWorld::new(options(folder.path().to_owned())).unwrap();
    let scenario = scenario(&world, "67a3c6ac");
    let steps = play(&world, &scenario, &["```python\ndef solve(I):\n    return I\n```", RIGHT]);
    let told = steps[0].messages[0].content.text();
    assert!(told.contains("Example 1: wrong: 4 of 4 cells differ; it made:\n1 2\n3 4\n"), "{told}");
    assert_eq!(steps[0].signals.get("right_shape"), Some(1.0));
    assert_eq!((steps[1].done, steps[1].signals.get("thoughts")), (Some(TraceOutcome::Success), Some(1.0)));
}

#[test]
fn hidden_outputs_are_in_no_message() {
    let folder = folder();
    let world = ArcWorld::new(options(folder.path().to_owned())).unwrap();
    let reset = world.reset(&scenario(&world, "67a3c6ac"), 1).unwrap();
    assert!(reset.messages.iter().all(|message| !message.content.text().contains("6 5")));
    assert!(reset.messages[1].content.text().contains("5 6"));
}

#[test]
fn a_run_on_an_example_is_counted_and_says_what_it_made() {
    let folder = folder();
    let world = ArcWorld::new(options(folder.path().to_owned())).unwrap();
    let mut episode = world.reset(&scenario(&world, "67a3c6ac"), 1).unwrap().episode;
    let mut ask = |arguments: &str| {
        let request =
            ToolRequest { id: "1".into(), name: "run_on_example".into(), arguments: arguments.into(), extra: Default::default() };
        episode.step(&Message { tool_calls: vec![request], ..Message::text(Role::Assistant, "") }).unwrap()
    };
    let ran = ask(r#"{"program": "def solve(I):\n    return I[::-1]\n", "example": 1}"#);
    assert_eq!(ran.signals, Signals::from([("runs", 1.0), ("thoughts", 0.0)]));
    assert!(ran.messages[0].content.text().starts_with("wrong: 4 of 4 cells differ"), "{}", ran.messages[0].content.text());
    assert!(ask(r#"{"program": "", "example": 2}"#).messages[0].content.text().contains("there are examples 1 to 1"));
    assert!(ask("nonsense").messages[0].content.text().starts_with("error: wrong arguments"));
}

#[test]
fn every_call_of_an_answer_has_a_result_and_those_too_many_are_refused() {
    let folder = folder();
    let world = ArcWorld::new(options(folder.path().to_owned())).unwrap();
    let mut episode = world.reset(&scenario(&world, "67a3c6ac"), 1).unwrap().episode;
    let arguments = r#"{"program": "def solve(I):\n    return I\n", "example": 1}"#;
    let request = |n: usize| ToolRequest {
        id: format!("c{n}"),
        name: "run_on_example".into(),
        arguments: arguments.into(),
        extra: Default::default(),
    };
    let action = Message { tool_calls: (0..10).map(request).collect(), ..Message::text(Role::Assistant, "") };
    let step = episode.step(&action).unwrap();
    let ids: Vec<&str> = step.messages.iter().filter_map(|message| message.tool_call_id.as_deref()).collect();
    assert_eq!(ids, ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"]);
    let refused = step.messages.iter().filter(|message| message.content.text() == "error: at most 8 calls at once");
    assert_eq!((refused.count(), step.signals.get("runs")), (2, Some(8.0)));
}

#[test]
fn an_edit_starts_almost_right_and_is_worth_what_it_gains() {
    let folder = folder();
    let world = ArcWorld::new(ArcOptions { edit: true, ..options(folder.path().to_owned()) }).unwrap();
    let scenarios = all(&world);
    assert_eq!(scenarios.len(), 1, "only the task with a shipped program");
    assert!(scenarios[0].input["program"].as_str().unwrap().contains("def solve(I):"));
    let step = play(&world, &scenarios[0], &[RIGHT]).pop().unwrap();
    assert_eq!((step.done, step.signals.get("correctness")), (Some(TraceOutcome::Success), Some(1.0)));
    assert!(step.signals.get("correctness_gain").is_some_and(|gain| gain > 0.0));
}

#[test]
fn a_family_stays_in_one_split_and_bad_options_are_named() {
    let folder = folder();
    let path = folder.path().to_owned();
    let world = ArcWorld::new(ArcOptions { augmented: 20, ..options(path.clone()) }).unwrap();
    for family in ["arc-67a3c6ac", "arc-ffffffff", "arc-eeeeeeee"] {
        let holds =
            |split: &&Split| world.scenarios(**split, 3, 1000).unwrap().iter().any(|scenario| scenario.family.as_str() == family);
        assert_eq!(Split::ALL.iter().filter(holds).count(), 1);
    }
    let refused = |options: ArcOptions| ArcWorld::new(options).unwrap_err().to_string();
    assert!(refused(ArcOptions { turns_max: 0, ..options(path.clone()) }).contains("turns_max"));
    assert!(refused(ArcOptions { edit: true, augmented: 1, ..options(path) }).contains("augmented"));
    assert!(refused(options("nowhere".into())).contains("cannot read"));
}
