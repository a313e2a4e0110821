//! What is made of public tasks: the default division, new inputs for known rules, variations, and the scripted editor.

use hone_arc::augment::Augmentation;
use hone_arc::measure::difficulty;
use hone_arc::task::{Pair, Task};
use hone_arc::world::{ArcOptions, ArcWorld, Score, answer_of, damaged, editor};
use hone_arc::{regenerate, shipped, task};
use hone_trace::Draws;
use hone_trace::env::{Env, Split};
use hone_trace::policy::AnswerLimits;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

fn data(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

fn families(world: &ArcWorld, split: Split) -> BTreeSet<String> {
    world.scenarios(split, 1, 100_000).unwrap().iter().map(|scenario| scenario.family.to_string()).collect()
}

#[test]
fn five_hundred_tasks_are_to_learn_from_and_three_hundred_are_held_out() {
    let Some(folder) = data("arc-agi-1") else { return };
    let world = ArcWorld::new(ArcOptions { augmented: 1, ..ArcOptions::new(folder.clone()) }).unwrap();
    let [train, validation, test] = Split::ALL.map(|split| families(&world, split));
    assert_eq!((train.len(), validation.len() + test.len()), (500, 300));
    assert!((40..=80).contains(&validation.len()), "{}", validation.len());
    assert!(train.is_disjoint(&test) && train.is_disjoint(&validation) && validation.is_disjoint(&test));
    let training = task::read(&folder.join("training.jsonl")).unwrap();
    assert!(training.iter().all(|task| train.contains(&format!("arc-{}", task.id))));
    // Whatever is held out is so in every other file as well.
    let held_out: BTreeSet<&String> = validation.union(&test).collect();
    let alone = ArcWorld::new(ArcOptions::new(folder.join("evaluation.jsonl"))).unwrap();
    assert!(families(&alone, Split::Train).iter().all(|family| !held_out.contains(family)));
    let Some(second) = data("arc-agi-2") else { return };
    let later = ArcWorld::new(ArcOptions::new(second)).unwrap();
    assert!(families(&later, Split::Train).iter().all(|family| !held_out.contains(family)));
    assert!(families(&later, Split::Train).len() > 600);
}

#[test]
fn known_rules_get_new_inputs_that_say_something() {
    let Some(path) = data("arc-agi-1/training.jsonl") else { return };
    let tasks = task::read(&path).unwrap();
    let (mut n_made, mut n_known) = (0, 0);
    for task in tasks.iter().filter(|task| shipped::programs().contains_key(task.id.as_str())) {
        n_known += 1;
        let program = &shipped::programs()[task.id.as_str()];
        let Some(new) = regenerate::regenerated(task, program, &mut Draws::new(1, &[&task.id])) else { continue };
        n_made += 1;
        assert_eq!((new.train.len(), new.test.len(), &new.family), (task.train.len(), task.test.len(), &task.family));
        let pairs: Vec<Pair> = new.pairs().cloned().collect();
        assert!(Score::of(program, &pairs).is_solved, "{}", task.id);
        for (nth, pair) in pairs.iter().enumerate() {
            assert!(
                pairs[..nth].iter().all(|other| other.input != pair.input) && task.pairs().all(|old| old.input != pair.input)
            );
            assert!(pair.output.cells().iter().all(|cell| (0..=9).contains(cell)) && pair.output.height() <= 30);
        }
        let again = regenerate::regenerated(task, program, &mut Draws::new(1, &[&task.id]));
        assert_eq!(again, Some(new), "the same draws give the same task");
    }
    println!("{n_made} of {n_known} tasks with a known rule get new inputs");
    assert!(2 * n_made > n_known, "{n_made} of {n_known}");
    let world = ArcWorld::new(ArcOptions { regenerated: 2, ..ArcOptions::new(path) }).unwrap();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for scenario in Split::ALL.iter().flat_map(|split| world.scenarios(*split, 1, 100_000).unwrap()) {
        *ids.entry(scenario.family.to_string()).or_default() += 1;
    }
    assert!(ids.values().any(|n| *n == 3) && ids.values().all(|n| *n <= 3));
}

fn turned() -> Task {
    let line = r#"{"id": "67a3c6ac", "train": [{"input": [[1, 2, 3], [4, 5, 6]], "output": [[3, 2, 1], [6, 5, 4]]}, {"input": [[7, 0]], "output": [[0, 7]]}], "test": [{"input": [[1, 0, 8]], "output": [[8, 0, 1]]}]}"#;
    task::parse(line, None).unwrap()
}

fn world() -> (tempfile::TempDir, ArcWorld) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.jsonl");
    std::fs::write(&path, turned().to_json(true).to_string()).unwrap();
    (folder, ArcWorld::editing(ArcOptions::new(path)).unwrap())
}

#[test]
fn a_curriculum_gets_variations_of_a_task_and_how_hard_it_is() {
    let (_folder, world) = world();
    let scenario = Split::ALL.iter().find_map(|split| world.scenarios(*split, 1, 1).unwrap().pop()).unwrap();
    assert_eq!(scenario.difficulty, Some(difficulty(&turned())));
    assert!((0.0..=1.0).contains(&difficulty(&turned())));
    let varied: Vec<_> = (0..20).filter_map(|seed| world.vary(&scenario, seed)).collect();
    assert_eq!(varied.len(), 20);
    for other in &varied {
        assert_eq!(other.family, scenario.family);
        assert!(other.id != scenario.id && other.id.as_str().ends_with(".varied"));
        world.reset(other, 1).unwrap();
    }
    assert!(varied.iter().any(|other| other.input["train"] != scenario.input["train"]));
    let edited = world.edit(&turned(), shipped::EMPTY).unwrap();
    assert_eq!(world.vary(&edited, 1), None, "a program is for the task as it is");
}

#[test]
fn a_shipped_program_is_laid_as_an_augmented_task_is() {
    let Some(path) = data("arc-agi-1/training.jsonl") else { return };
    let tasks = task::read(&path).unwrap();
    for task in tasks.iter().filter(|task| shipped::programs().contains_key(task.id.as_str())) {
        let other = Augmentation::draw(&mut Draws::new(3, &[&task.id]), task.train.len()).apply(task);
        let pairs: Vec<Pair> = other.pairs().cloned().collect();
        assert!(Score::of(&shipped::solution(&other.id).unwrap(), &pairs).is_solved, "{}", other.id);
    }
}

#[test]
fn the_scripted_editor_mends_spoils_copies_and_rambles() {
    let (_folder, world) = world();
    let task = turned();
    let start = damaged(&task, 1, &mut Draws::new(1, &[])).unwrap();
    let scenario = world.edit(&task, &start).unwrap();
    let told = world.reset(&scenario, 1).unwrap().messages[1].content.text();
    assert!(told.contains("This program is there already:") && told.contains("Example 1: wrong"), "{told}");
    let pairs: Vec<Pair> = task.pairs().cloned().collect();
    let before = Score::of(&start, &pairs).correctness;
    let (mut n_better, mut n_worse, mut n_broken, mut n_copied) = (0, 0, 0, 0);
    for seed in 0..200 {
        let answer = editor(&scenario, seed).unwrap().answer(&[], AnswerLimits::default()).unwrap().message.content.text();
        let again = editor(&scenario, seed).unwrap().answer(&[], AnswerLimits::default()).unwrap().message.content.text();
        assert_eq!(answer, again);
        let answer = answer_of(&answer);
        assert!(!answer.thoughts.is_empty());
        let score = Score::of(&answer.program, &pairs);
        n_better += usize::from(score.correctness > before);
        n_worse += usize::from(score.correctness < before);
        n_broken += usize::from(!score.is_valid);
        n_copied += usize::from(answer.program.contains("if I == "));
    }
    assert!(n_better > 60 && n_broken > 2 && n_copied > 2, "{n_better} {n_worse} {n_broken} {n_copied}");
    assert!(n_better < 180, "{n_better}");
}
