//! The world of programming problems: the reference earns everything, nobody earns nothing, and cheating does not pay.

use hone_env::code::{Code, CodeOptions};
use hone_trace::env::{Env, Signals, Split, Step};
use hone_trace::policy::AnswerLimits;
use hone_trace::{Message, Role, Scenario, TraceOutcome};
use std::path::PathBuf;

const HUMAN_EVAL: &str = r#"{"task_id": "HumanEval/900", "prompt": "def largest(numbers):\n    \"\"\" The largest number. \"\"\"\n", "entry_point": "largest", "canonical_solution": "    best = numbers[0]\n    for n in numbers:\n        if n > best:\n            best = n\n    return best\n", "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    many = list(range(50))\n    assert candidate([1, 2]) == 2\n    assert candidate([3]) == 3\n    assert candidate(\n        many) == 49\n    assert sorted([candidate([2, 1])]) == [2]\n"}"#;

fn world(options: impl FnOnce(CodeOptions) -> CodeOptions) -> (tempfile::TempDir, Code) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("problems.jsonl");
    std::fs::write(&path, HUMAN_EVAL).unwrap();
    let world = Code::new(options(CodeOptions { path, turns_max: 2, edit: false })).unwrap();
    (folder, world)
}

fn scenario(world: &Code) -> Scenario {
    world.scenarios(Split::Test, 1, 10).unwrap().remove(0)
}

fn play(world: &Code, answers: &[&str]) -> Vec<Step> {
    let mut episode = world.reset(&scenario(world), 1).unwrap().episode;
    answers.iter().map(|answer| episode.step(&Message::text(Role::Assistant, *answer)).unwrap()).collect()
}

#[test]
fn the_reference_earns_the_best_and_an_empty_answer_nothing() {
    for edit in [false, true] {
        let (_folder, world) = world(|options| CodeOptions { edit, ..options });
        let scenario = scenario(&world);
        let answer = world.gold(&scenario, 1).unwrap().answer(&[], AnswerLimits::default()).unwrap().message;
        let last = world.reset(&scenario, 1).unwrap().episode.step(&answer).unwrap();
        assert_eq!((last.done, &last.signals), (Some(TraceOutcome::Success), &world.best(&scenario)));
        let empty = play(&world, &["", ""]).pop().unwrap();
        assert_eq!((empty.done, empty.signals.get("tests_passed")), (Some(TraceOutcome::Failure), Some(0.0)));
        assert_eq!(empty.signals.get("valid_syntax"), Some(0.0));
    }
}

#[test]
fn every_check_is_a_test_of_its_own_and_only_the_first_is_told() {
    let (_folder, world) = world(|options| options);
    let reset = world.reset(&scenario(&world), 1).unwrap();
    let told = reset.messages[1].content.text();
    assert!(told.contains("candidate([1, 2]) == 2") && !told.contains("== 49") && !told.contains("best"), "{told}");
    let steps = play(
        &world,
        &["def largest(numbers):\n    return numbers[-1]", "```python\ndef largest(numbers):\n    return max(numbers)\n```"],
    );
    assert_eq!(steps[0].signals.get("tests_passed"), Some(0.75));
    assert!(steps[0].messages[0].content.text().contains("3 of 4 tests pass"));
    assert_eq!((steps[1].done, steps[1].signals.get("solved")), (Some(TraceOutcome::Success), Some(1.0)));
}

#[test]
fn a_builtin_with_another_meaning_makes_no_test_pass() {
    let (_folder, world) = world(|options| options);
    for cheat in [
        "def largest(numbers):\n    return 2\nsorted = lambda values: [2]",
        "def largest(numbers):\n    return 2\ndef sorted(values):\n    return [2]",
        "def largest(numbers):\n    global sorted\n    sorted = print\n    return 2",
        "def largest(numbers):\n    return 2\nif True:\n    def sorted(values):\n        return [2]",
        "def largest(numbers):\n    return 2\nfor sorted in [lambda values: [2]]:\n    pass",
        "def largest(numbers):\n    return 2\nx = [y for y in [1] if (sorted := lambda values: [2])]",
    ] {
        let step = play(&world, &[cheat]).remove(0);
        assert_eq!(step.signals.get("tests_passed"), Some(0.0), "{cheat}");
        assert!(step.messages[0].content.text().contains("gives `sorted` another meaning"));
    }
    let fair = play(&world, &["def largest(numbers):\n    return sorted(numbers)[-1]"]).remove(0);
    assert_eq!(fair.done, Some(TraceOutcome::Success));
}

#[test]
fn a_small_change_is_worth_more_than_a_rewrite_and_none_is_worth_nothing() {
    let (_folder, world) = world(|options| CodeOptions { edit: true, ..options });
    let scenario = scenario(&world);
    let start = scenario.input["program"].as_str().unwrap().to_owned();
    let signal = |signals: &Signals, name: &str| signals.get(name).unwrap();
    let unchanged = play(&world, &[&start]).remove(0).signals;
    assert_eq!((signal(&unchanged, "tests_gained"), signal(&unchanged, "small_change")), (0.0, 0.0));
    let rewritten = "def largest(numbers):\n    ordered = sorted(numbers)\n    last = len(ordered) - 1\n    found = ordered[last]\n    answer = found\n    return answer\n";
    let rewritten = play(&world, &[rewritten]).remove(0).signals;
    assert_eq!(signal(&world.best(&scenario), "small_change"), 1.0);
    assert!(signal(&rewritten, "tests_gained") > 0.0 && signal(&rewritten, "small_change") < 0.6, "{rewritten:?}");
}

#[test]
fn endless_programs_end() {
    let (_folder, world) = world(|options| options);
    let step = play(&world, &["def largest(numbers):\n    while True:\n        pass"]).remove(0);
    assert_eq!(step.signals.get("tests_passed"), Some(0.0));
}

/// How many public problems run, by the figures that the guide gives.
#[test]
fn most_public_problems_are_played() {
    for (file, n_found, n_least) in [("mbpp/mbpp.jsonl", 974, 860), ("humaneval/HumanEval.jsonl", 164, 155)] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
        if !path.exists() {
            println!("skipped: {} is not there", path.display());
            continue;
        }
        let world = Code::new(CodeOptions { path, turns_max: 3, edit: false }).unwrap();
        println!("{file}: {} of {} problems run", world.counts().1, world.counts().0);
        assert_eq!(world.counts().0, n_found);
        assert!(world.counts().1 >= n_least, "{file}: {:?}", world.counts());
        let n: usize = Split::ALL.iter().map(|split| world.scenarios(*split, 1, 2000).unwrap().len()).sum();
        assert_eq!(n, world.counts().1);
    }
}
