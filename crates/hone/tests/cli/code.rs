//! The world of programming problems, played by its name; and a grader that is a program.

use super::Desk;

const MBPP: &str = concat!(
    r#"{"task_id": 601, "text": "Write a function to add one.", "code": "def add_one(n):\r\n    return n + 1", "test_setup_code": "", "#,
    r#""test_list": ["assert add_one(1) == 2", "assert add_one(2) == 3", "assert add_one(-1) == 0"]}"#,
    "\n",
    r#"{"task_id": 602, "text": "Write a function that matches.", "code": "import re\r\ndef match(t):\r\n    return bool(re.search('a', t))", "#,
    r#""test_setup_code": "", "test_list": ["assert match('a')"]}"#,
    "\n"
);

#[test]
fn problems_are_played_and_how_many_run_is_told() {
    let desk = Desk::with(&[("mbpp.jsonl", MBPP)]);
    desk.hone("env list").expect(0, "code", "");
    desk.hone("env show code").expect(2, "", "write `code:FILE.jsonl`");
    desk.hone("env show code:nowhere.jsonl").expect(2, "", "nowhere.jsonl");
    desk.hone("env show code:mbpp.jsonl --split train").expect(0, "assert add_one(1) == 2", "1 of 2 problems run in the subset");
    desk.hone("rollout --env code:mbpp.jsonl --split train --policy gold -n 1 --samples 1").expect(
        0,
        "1 trace in 1 group, 1 solved, mean reward 1.100",
        "1 of 2 problems",
    );
    desk.hone("rollout --env code:mbpp.jsonl --split train --policy empty -n 1 --samples 1").expect(
        0,
        "0 solved, mean reward 0.000",
        "1 of 2 problems",
    );
    desk.hone("rollout --env code:mbpp.jsonl?edit=true --split train --policy gold -n 1 --samples 1").expect(
        0,
        "1 solved",
        "1 of 2 problems",
    );
    std::fs::write(desk.path("other.jsonl"), "{\"question\": 1}\n").unwrap();
    desk.hone("env show code:other.jsonl").expect(2, "", "line 1 is a problem neither of MBPP nor of HumanEval");
}

#[test]
fn a_world_that_an_option_makes_another_is_weighed_by_its_own_recipe() {
    let desk = Desk::with(&[("mbpp.jsonl", MBPP)]);
    let play = |env: &str| {
        desk.hone(&format!("rollout --env {env} --split train --policy gold -n 1 --samples 1 --quiet")).expect(0, "1 solved", "");
    };
    play("code:mbpp.jsonl");
    let weighed = |env: &str| desk.hone(&format!("reward score --env {env} --quiet"));
    weighed("code:mbpp.jsonl?edit=true").expect(0, "0 scored", "");
    play("code:mbpp.jsonl?edit=true");
    weighed("code:mbpp.jsonl?edit=true").expect(0, "1 scored in 1 group, mean reward 1.4", "");
    weighed("code-edit").expect(0, "1 scored in 1 group, mean reward 1.4", "");
    weighed("code:elsewhere.jsonl?turns_max=2").expect(0, "1 scored in 1 group, mean reward 1.100", "");
    weighed("arc:tasks?edit=true").expect(0, "0 scored", "");
    desk.hone("reward lint --env arc:tasks?edit=true").expect(0, "arc-edit", "");
    weighed("code:mbpp.jsonl?edited=true").expect(2, "", "unknown field `edited`");
}

#[test]
fn a_recipe_may_grade_by_a_program() {
    let source = "def grade(sample, item):\\n    return 1.0 if 'add_one' in sample['output_text'] else 0.0";
    let toml = format!(
        "[reward.code]\ncomponents = [{{ name = \"p\", kind = \"grader\", grader = {{ type = \"python\", source = \"{source}\" }}, \
         range = [0, 1], weight = 2.0, role = \"primary\" }}]\n"
    );
    let desk = Desk::with(&[("mbpp.jsonl", MBPP), ("hone.toml", &toml)]);
    desk.hone("rollout --env code:mbpp.jsonl --split train --policy gold -n 1 --samples 1").expect(
        0,
        "mean reward 2.000",
        "1 of 2 problems",
    );
    std::fs::write(desk.path("hone.toml"), toml.replace("def grade", "def judge")).unwrap();
    desk.hone("env list").expect(2, "", "defines no function `grade(sample, item)`");
}
