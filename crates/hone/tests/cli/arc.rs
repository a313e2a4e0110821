//! `hone env arc`: the grid language, programs against tasks, pictures; and the world that is played with them.

use super::Desk;

const TASK: &str = concat!(
    r#"{"id": "67a3c6ac", "train": [{"input": [[1, 2], [3, 4]], "output": [[2, 1], [4, 3]]}], "#,
    r#""test": [{"input": [[5, 6]], "output": [[6, 5]]}]}"#
);

fn desk() -> Desk {
    let desk = Desk::new();
    std::fs::write(desk.path("tasks.jsonl"), format!("{TASK}\n")).expect("written");
    std::fs::create_dir(desk.path("tasks")).expect("written");
    std::fs::write(desk.path("tasks/67a3c6ac.json"), TASK).expect("written");
    desk
}

fn programs(desk: &Desk, body: &str) {
    let source = format!("from dsl import *\nfrom constants import *\n\n\ndef solve_67a3c6ac(I):\n    {body}\n");
    std::fs::write(desk.path("programs.py"), source).expect("written");
}

#[test]
fn the_language_is_listed_and_told_to_a_model() {
    let desk = desk();
    desk.hone("env arc dsl").expect(0, "vmirror(piece: Piece) -> Piece", "");
    desk.hone("env arc dsl --prompt").expect(0, "# Constants\nF = False\n", "");
    let all = desk.hone("env arc dsl --json").expect(0, "\"section\":\"Colours\"", "").json();
    assert_eq!(all.len(), 188);
    assert!(all.iter().any(|entry| entry["name"] == "UP_RIGHT" && entry["value"] == "(-1, 1)"));
}

#[test]
fn programs_are_verified_against_a_file_and_a_folder() {
    let desk = desk();
    programs(&desk, "return vmirror(I)");
    for tasks in ["tasks.jsonl", "tasks"] {
        let line = format!("env arc verify --programs programs.py --tasks {tasks}");
        desk.hone(&line).expect(0, "1 of 1 tasks solved, 2 grids, ", "");
        let report = desk.hone(&format!("{line} --json")).expect(0, "\"failed\":[]", "").json().remove(0);
        assert!(report["grids_per_s"].as_f64().unwrap() > 0.0);
        assert_eq!((&report["tasks"], &report["solved"], &report["grids"]), (&1.into(), &1.into(), &2.into()));
    }
    programs(&desk, "return hmirror(I)");
    let line = "env arc verify --programs programs.py --tasks tasks.jsonl";
    desk.hone(line).expect(1, "67a3c6ac  train pair 1: 4 of 4 cells differ", "");
    let report = desk.hone(&format!("{line} --json")).expect(1, "\"solved\":0", "").json().remove(0);
    assert_eq!(report["failed"][0]["task"], "67a3c6ac");
}

#[test]
fn shipped_programs_are_verified_on_the_tasks_that_are_there() {
    let desk = desk();
    desk.hone("env arc verify --tasks tasks.jsonl").expect(0, "1 of 1 tasks solved, 2 grids, ", "");
    std::fs::write(desk.path("mine.jsonl"), TASK.replace("67a3c6ac", "mine")).unwrap();
    desk.hone("env arc verify --tasks mine.jsonl").expect(2, "", "shipped programs is for a task of mine.jsonl");
}

#[test]
fn what_cannot_be_verified_is_said_with_its_place() {
    let desk = desk();
    let line = "env arc verify --programs programs.py --tasks tasks.jsonl";
    desk.hone(line).expect(2, "", "cannot read programs.py");
    std::fs::write(desk.path("programs.py"), "def solve_67a3c6ac(I):\n    return (I\n").unwrap();
    desk.hone(line).expect(2, "", "programs.py, line ");
    std::fs::write(desk.path("programs.py"), "def other(I):\n    return I\n").unwrap();
    desk.hone(line).expect(2, "", "programs.py defines no function `solve_<task id>(I)`");
    std::fs::write(desk.path("tasks.jsonl"), format!("{TASK}\n{{\n")).unwrap();
    desk.hone(line).expect(2, "", "tasks.jsonl, line 2: ");
    desk.hone("env arc show 00000000 --tasks tasks").expect(2, "", "there are 1, such as 67a3c6ac");
}

#[test]
fn a_task_is_shown_as_digits_and_keeps_its_answers_to_itself() {
    let desk = desk();
    let lines = "train 1\n1 2  -> 2 1 \n3 4     4 3 \n\ntest 1\n5 6 \n";
    let shown = desk.hone("env arc show 67a3c6ac --tasks tasks.jsonl").expect(0, lines, "");
    assert!(!shown.out.contains('\u{1b}'), "no colour without a terminal");
    desk.hone("env arc show 67a3c6ac --tasks tasks.jsonl --answers").expect(0, "5 6  -> 6 5", "");
    let task = desk.hone("env arc show 67a3c6ac --tasks tasks.jsonl --json").expect(0, "\"train\"", "").json().remove(0);
    assert!(task["test"][0].get("output").is_none());
}

#[test]
fn the_world_is_played_by_its_name() {
    let desk = desk();
    desk.hone("env list").expect(0, "arc", "");
    desk.hone("env show arc").expect(2, "", "write `arc:FILE.jsonl` or `arc:FOLDER`");
    let shown = ["train", "validation", "test"].map(|split| desk.hone(&format!("env show arc:tasks.jsonl --split {split}")));
    let played: Vec<_> = shown.into_iter().filter(|ended| ended.code == 0).collect();
    assert_eq!(played.len(), 1, "a task is in one split");
    played.into_iter().next().unwrap().expect(0, "def solve(I):", "").expect(0, "solved 1", "");
    desk.hone("env show arc:tasks.jsonl?turns=3").expect(2, "", "turns");
}
