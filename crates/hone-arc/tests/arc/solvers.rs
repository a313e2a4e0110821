//! The shipped programs on the real tasks, where the data is there.

use hone_arc::{shipped, task, verify};
use std::path::Path;

const TASKS: &str = "../../../shared/data/arc-agi-1/training.jsonl";

fn tasks() -> Option<Vec<task::Task>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TASKS);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(task::read(&path).unwrap())
}

#[test]
fn the_shipped_programs_solve_their_tasks_twice_alike() {
    let Some(tasks) = tasks() else { return };
    let first = verify::verify(shipped::PROGRAMS, &tasks, &verify::limits()).unwrap();
    assert_eq!(first.failed, []);
    assert!(first.n_solved >= 60 && first.n_solved == first.n_tasks, "{} of {}", first.n_solved, first.n_tasks);
    assert_eq!(first, verify::verify(shipped::PROGRAMS, &tasks, &verify::limits()).unwrap());
}

#[test]
fn a_program_alone_solves_the_same_task() {
    let Some(tasks) = tasks() else { return };
    for (id, source) in shipped::programs() {
        let task = tasks.iter().find(|task| task.id == *id).unwrap();
        let program = hone_program::Program::parse(source, &hone_arc::dsl::library(), &verify::limits()).unwrap();
        for pair in task.pairs() {
            assert_eq!(verify::run(&program, shipped::ENTRY, &pair.input, &verify::limits()).as_ref(), Ok(&pair.output), "{id}");
        }
    }
}

/// Not a test of speed: a figure to look at, `cargo test --release -p hone-arc --test arc -- --ignored --nocapture`.
#[test]
#[ignore = "prints a figure"]
fn grids_per_second() {
    let Some(tasks) = tasks() else { return };
    let start = std::time::Instant::now();
    let n_grids: usize = (0..20).map(|_| verify::verify(shipped::PROGRAMS, &tasks, &verify::limits()).unwrap().n_grids).sum();
    println!("{:.0} grids/s", n_grids as f64 / start.elapsed().as_secs_f64());
}
