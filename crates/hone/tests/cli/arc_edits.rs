//! From a search over programs to samples that are worth imitating: `hone env arc evolve`, `hone data arc-edits`, `hone env arc
//! report`.

use super::{Desk, provider};
use std::path::PathBuf;

const TASK: &str = concat!(
    r#"{"id": "67a3c6ac", "train": [{"input": [[1, 2], [3, 4]], "output": [[2, 1], [4, 3]]}, "#,
    r#"{"input": [[0, 7, 7]], "output": [[7, 7, 0]]}], "test": [{"input": [[5, 6, 8]], "output": [[8, 6, 5]]}]}"#
);

/// The public training tasks, where they are.
#[expect(clippy::print_stdout, reason = "who runs the tests should know what they did not try")]
pub(super) fn training() -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/arc-agi-1/training.jsonl");
    let there = path.canonicalize().ok();
    if there.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    there
}

fn desk() -> Desk {
    Desk::with(&[("tasks.jsonl", TASK)])
}

const EVOLVE: &str = "env arc evolve --tasks tasks.jsonl --policy script --mistakes 1 --edits 4";

#[test]
fn a_search_keeps_every_edit_and_goes_on_where_it_stopped() {
    let desk = desk();
    let first = desk.hone(&format!("{EVOLVE} --rounds 1 --json")).expect(0, "\"calls\":4", "round 1/1: ").json().remove(0);
    assert_eq!((&first["tasks"], &first["edits"]), (&1.into(), &4.into()));
    let listed = desk.hone("trace list --json").json();
    assert_eq!(listed.len(), 4);
    let trace = desk.hone(&format!("trace show {} --json", listed[0]["id"].as_str().unwrap())).json().remove(0);
    assert_eq!((&trace["metadata"]["evolve"], &trace["metadata"]["task"]), (&"evolve".into(), &"67a3c6ac".into()));
    assert!(trace["metadata"]["from"].as_str().unwrap().contains("def solve(I):"));
    let again =
        desk.hone(&format!("{EVOLVE} --rounds 6 --json")).expect(0, "\"examples_right\":1", "round 1/6: ").json().remove(0);
    assert_eq!(again["rounds"][0]["known"], 4, "the first round is not asked for again");
    assert_eq!(again["calls"].as_u64().unwrap() + 4, again["edits"].as_u64().unwrap());
    let third = desk.hone(&format!("{EVOLVE} --rounds 6 --json")).json().remove(0);
    assert_eq!((&third["calls"], &third["edits"]), (&0.into(), &again["edits"]));
    // The same search in one go elsewhere comes to the same.
    let other = self::desk();
    let whole = other.hone(&format!("{EVOLVE} --rounds 6 --json")).json().remove(0);
    assert_eq!((&whole["edits"], &whole["gained"]), (&again["edits"], &again["gained"]));
}

#[test]
fn a_search_starts_from_the_programs_that_are_given() {
    let desk = desk();
    std::fs::write(desk.path("start.py"), "from dsl import *\n\n\ndef solve_67a3c6ac(I):\n    O = trim(I)\n    return O\n")
        .unwrap();
    desk.hone(&format!("{EVOLVE} --rounds 1 --start start.py --quiet")).expect(0, "4 edits of 1 task", "");
    let listed = desk.hone("trace list --field metadata.evolve=evolve --json").json();
    assert_eq!(listed.len(), 4);
    let trace = desk.hone(&format!("trace show {} --json", listed[0]["id"].as_str().unwrap())).json().remove(0);
    assert!(trace["metadata"]["from"].as_str().unwrap().contains("O = trim(I)"), "{trace}");
    desk.hone(&format!("{EVOLVE} --start nowhere.py --run other")).expect(2, "", "cannot read nowhere.py");
}

#[test]
fn budgets_end_a_search_and_what_cannot_be_done_is_said() {
    let desk = desk();
    let stopped = desk.hone(&format!("{EVOLVE} --rounds 6 --calls 3 --json"));
    let stopped = stopped.expect(1, "\"stopped_by\":\"calls\"", "the budget of calls ended the search").json().remove(0);
    assert_eq!(stopped["edits"], 0, "a group is asked for whole or not at all");
    desk.hone(&format!("{EVOLVE} --rounds 6 --tokens 0")).expect(1, "evolve: 0 edits", "the budget of tokens ended the search");
    let gold = "env arc evolve --tasks tasks.jsonl --policy gold";
    desk.hone(gold).expect(2, "", "`gold` does not edit programs");
    desk.hone(&format!("{EVOLVE} --split test")).expect(2, "", "choose another part with --split");
    desk.hone(&format!("{EVOLVE} --rounds 1")).expect(0, "4 edits", "4 calls");
    std::fs::write(desk.path("say.jsonl"), "{\"role\": \"assistant\", \"content\": \"no\"}\n").unwrap();
    let other = EVOLVE.replace("--policy script", "--policy script:say.jsonl");
    desk.hone(&other).expect(2, "", "was made by another policy");
    desk.hone(&format!("{other} --run other --rounds 1")).expect(0, "other: 4 edits of 1 task, 0 gained", "round 1/1");
    desk.hone("data arc-edits --tasks tasks.jsonl --run nobody --out out").expect(
        2,
        "",
        "there are no edits of the search `nobody`",
    );
    desk.hone("env arc report --tasks tasks.jsonl --run nobody").expect(2, "", "no search and no rollout `nobody`");
}

#[test]
fn edits_without_an_answer_are_counted_and_asked_for_again() {
    let desk = desk();
    let (url, counted) = provider::refusing(|n_before| match n_before {
        1 | 3 => None,
        _ => Some(provider::said("```python\ndef solve(I):\n    return I\n```".into())),
    });
    let line = EVOLVE.replace("--policy script", &format!("--policy {url} --rounds 1 --concurrency 1 --json"));
    let first =
        desk.hone(&line).expect(0, "\"unanswered\":2", "2 edits ended without an answer, the first so: ").json().remove(0);
    assert_eq!((&first["edits"], &first["calls"]), (&2.into(), &4.into()));
    let second = desk.hone(&line).expect(0, "\"unanswered\":0", "round 1/1").json().remove(0);
    assert_eq!((&second["edits"], &second["rounds"][0]["known"], &second["calls"]), (&4.into(), &2.into(), &2.into()));
    let third = desk.hone(&line).json().remove(0);
    assert_eq!((&third["edits"], &third["calls"]), (&4.into(), &0.into()));
    assert_eq!(counted.load(std::sync::atomic::Ordering::SeqCst), 6);
    // Where nothing is answered, that is no success, and further rounds are not asked for.
    let (url, counted) = provider::refusing(|_| None);
    let line = EVOLVE.replace("--policy script", &format!("--policy {url} --rounds 6 --run gone"));
    desk.hone(&line).expect(1, "gone: 0 edits", "4 edits ended without an answer");
    assert_eq!(counted.load(std::sync::atomic::Ordering::SeqCst), 4);
}

#[test]
fn a_search_that_is_told_something_else_is_another_one() {
    let desk = desk();
    desk.hone(&format!("{EVOLVE} --rounds 1")).expect(0, "4 edits", "round 1/1");
    std::fs::write(desk.path("start.py"), "from dsl import *\n\n\ndef solve_67a3c6ac(I):\n    O = trim(I)\n    return O\n")
        .unwrap();
    let others = [
        (format!("{EVOLVE} --seed 2"), "was made with --seed 1\n"),
        (EVOLVE.replace("--mistakes 1 --edits 4", "--mistakes 2 --edits 8"), "was made with --mistakes 1 and --edits 4\n"),
        (format!("{EVOLVE} --start start.py"), "was made with no --start\n"),
        (format!("{EVOLVE} --max-tokens 512"), "was made with --max-tokens 2048\n"),
        (EVOLVE.replace("tasks.jsonl", "changed.jsonl"), "task 67a3c6ac had other pairs when the search `evolve` was made\n"),
    ];
    std::fs::write(desk.path("changed.jsonl"), TASK.replace("[[5, 6, 8]]", "[[5, 6, 9]]")).unwrap();
    for (line, says) in others {
        desk.hone(&line).expect(2, "", says).expect(2, "", "another name with --run");
    }
    desk.hone(&format!("{EVOLVE} --rounds 3 --calls 100 --tokens 100000 -n 1")).expect(0, "edits", "round 1/3");
    let recipe = "[reward.arc-edit]\ncomponents = [{ name = 'gain', kind = 'signal', signal = 'correctness_gain', \
        range = [-1, 1], weight = 2, role = 'primary' }]\n";
    std::fs::write(desk.path("hone.toml"), recipe).unwrap();
    std::fs::write(desk.path("other.jsonl"), TASK.replace("67a3c6ac", "007bbfb7")).unwrap();
    let other = EVOLVE.replace("tasks.jsonl", "other.jsonl");
    desk.hone(&format!("{other} --rounds 1"))
        .expect(0, "4 edits of 1 task", "`evolve` has edits of 1 task that this command does not search: they stay as they are")
        .expect(0, "4 edits", "edits of `evolve` were weighed by another recipe before, and stay so");
}

#[test]
fn from_twenty_tasks_to_samples_step_by_step() {
    let Some(tasks) = training() else { return };
    let (desk, tasks) = (Desk::new(), tasks.display());
    let search = format!("env arc evolve --tasks {tasks} --policy script -n 20 --json");
    desk.hone(&format!("{search} --rounds 1")).expect(0, "\"calls\":160", "round 1/1: ");
    let found = desk.hone(&search).json().remove(0);
    assert_eq!((&found["tasks"], &found["rounds"][0]["known"]), (&20.into(), &160.into()));
    assert!(found["calls"].as_u64().unwrap() > 0, "a second round is needed");
    // In one go elsewhere it comes to the same.
    let whole = Desk::new().hone(&search).json().remove(0);
    assert_eq!((&whole["edits"], &whole["gained"], &whole["solved"]), (&found["edits"], &found["gained"], &found["solved"]));
    let make = format!("data arc-edits --tasks {tasks} --run evolve");
    let told = desk.hone(&format!("{make} --out one")).expect(0, "edits that copy an output grid", "look at one/review.html");
    for step in ["found", "program", "gain", "held_out", "review", "leaks", "fluff", "top", "limit"] {
        assert!(told.out.contains(&format!("\n{step} ")), "{step}: {}", told.out);
    }
    let manifest = desk.hone(&format!("{make} --out one --json")).expect(0, "\"outputs\"", "").json().remove(0);
    let steps = manifest["steps"].as_array().unwrap();
    let dropped: u64 = steps.iter().map(|step| step["dropped"].as_u64().unwrap()).sum();
    let samples = |file: &str| desk.read(file).lines().count() as u64;
    let n_kept = samples("one/train.jsonl") + samples("one/validation.jsonl");
    assert_eq!(manifest["found"], found["edits"]);
    assert_eq!(dropped + n_kept, manifest["found"].as_u64().unwrap());
    for name in ["program", "gain", "leaks", "fluff"] {
        let step = steps.iter().find(|step| step["step"] == name).unwrap();
        assert!(step["dropped"].as_u64().unwrap() > 0, "the script gives {name} something to drop");
    }
    // Nothing but what is stored decides: built again, every byte is the same.
    desk.hone(&format!("{make} --out two")).expect(0, "samples to learn from", "written to two");
    for file in ["train.jsonl", "validation.jsonl", "train.text.jsonl", "review.html", "manifest.json"] {
        assert_eq!(desk.read(&format!("one/{file}")), desk.read(&format!("two/{file}")), "{file}");
    }
    desk.hone(&format!("{make} --out one --top 1")).expect(2, "", "one is there already with other content");
    let text: serde_json::Value = serde_json::from_str(desk.read("one/train.text.jsonl").lines().next().unwrap()).unwrap();
    let (prompt, answer) = text["text"].as_str().unwrap().rsplit_once("<think>").unwrap();
    assert!(prompt.contains("This program is there already:") && answer.contains("</think>\nfrom arc_dsl import *"));
    assert!(answer.contains("    # "), "{answer}");
    let other = Desk::new();
    std::fs::copy(desk.path("one/train.jsonl"), other.path("train.jsonl")).unwrap();
    other.hone("trace import train.jsonl").expect(0, "", " new, 0 already there, 0 conflicting, 0 bad");
    let families = |file: &str| -> std::collections::BTreeSet<String> {
        let rows = desk.read(file);
        rows.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["family"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(families("one/train.text.jsonl").is_disjoint(&families("one/validation.text.jsonl")));
}

#[test]
fn what_a_person_says_on_the_review_page_is_respected() {
    let Some(tasks) = training() else { return };
    let (desk, tasks) = (Desk::new(), tasks.display());
    desk.hone(&format!("env arc evolve --tasks {tasks} --policy script -n 4 --quiet"));
    let make = format!("data arc-edits --tasks {tasks}");
    desk.hone(&format!("{make} --out before --quiet")).expect(0, "samples", "");
    let first: serde_json::Value = serde_json::from_str(desk.read("before/train.text.jsonl").lines().next().unwrap()).unwrap();
    let id = first["id"].as_str().unwrap();
    assert!(desk.read("before/review.html").contains(&format!("data-id=\"{id}\"")));
    std::fs::write(desk.path("review.json"), format!(r#"{{"v": 1, "batch": "b", "verdicts": {{"{id}": "reject"}}}}"#)).unwrap();
    let manifest = desk.hone(&format!("{make} --out after --review review.json --json")).json().remove(0);
    assert_eq!((&manifest["verdicts"], &manifest["steps"][3]["dropped"]), (&1.into(), &1.into()));
    assert!(!desk.read("after/train.text.jsonl").contains(id));
    std::fs::write(desk.path("review.json"), r#"{"verdicts": {"a": "perhaps"}}"#).unwrap();
    desk.hone(&format!("{make} --out third --review review.json")).expect(2, "", "review.json is no file of verdicts");
}

#[test]
fn a_model_edits_until_its_tokens_or_its_dollars_are_spent() {
    let answer = "<think>Left and right change places.</think>\n```python\nfrom arc_dsl import *\n\n\ndef solve(I):\n    return hmirror(I)\n```";
    let (url, n_calls) =
        provider::start(move |_, _| Some(provider::Reply { text: answer.into(), tokens_in: 80, tokens_out: 20 }));
    let desk = desk();
    let search = format!("env arc evolve --tasks tasks.jsonl --policy {url} --rounds 5 --edits 2 --price 10,100 --json");
    let found = desk
        .hone(&format!("{search} --run a --tokens 300"))
        .expect(1, "\"stopped_by\":\"tokens\"", "the budget of tokens")
        .json()
        .remove(0);
    assert_eq!((&found["calls"], &found["tokens"]), (&4.into(), &400.into()), "it is looked before every group");
    assert!((found["usd"].as_f64().unwrap() - 4.0 * (80.0 * 10.0 + 20.0 * 100.0) / 1e6).abs() < 1e-9, "{found}");
    let before = n_calls.load(std::sync::atomic::Ordering::SeqCst);
    let again = desk.hone(&format!("{search} --run a")).expect(0, "\"stopped_by\":null", "round 5/5").json().remove(0);
    assert_eq!((&again["calls"], &again["rounds"][1]["known"]), (&6.into(), &2.into()), "what was paid for is not asked again");
    assert_eq!(n_calls.load(std::sync::atomic::Ordering::SeqCst), before + 6);
    let stopped = desk.hone(&format!("{search} --run b --budget 0.004"));
    let stopped = stopped.expect(1, "\"stopped_by\":\"dollars\"", "the budget of dollars").json().remove(0);
    assert_eq!(stopped["edits"], 0, "a group that the money did not suffice for is not played");
    let whole = desk.hone(&format!("{search} --run b")).expect(0, "\"stopped_by\":null", "round 5/5").json().remove(0);
    assert_eq!((&whole["edits"], &whole["rounds"][0]["known"]), (&10.into(), &0.into()), "it is asked for again, whole");
}

#[test]
fn what_a_search_will_cost_is_said_before_it_begins() {
    let answer = "```python\nfrom arc_dsl import *\n\n\ndef solve(I):\n    return hmirror(I)\n```";
    let (url, n_calls) =
        provider::start(move |_, _| Some(provider::Reply { text: answer.into(), tokens_in: 300, tokens_out: 60 }));
    let desk = desk();
    let search = format!("env arc evolve --tasks tasks.jsonl --policy {url} --rounds 4 --edits 2 --price 10,100 --json");
    let found = desk.hone(&search).expect(0, "projection", "if no task is right before the last round");
    let found = found.expect(0, "corrected", "by its first 3 groups").json().remove(0);
    let (before, spent) = (&found["projection"]["before"], found["usd"].as_f64().unwrap());
    assert!((found["projection"]["corrected"]["mean_usd"].as_f64().unwrap() - spent).abs() < 1e-9, "{found}");
    assert!(before["low_usd"].as_f64().unwrap() > 0.0 && before["high_usd"].as_f64().unwrap() > spent / 4.0, "{found}");
    assert_eq!(n_calls.load(std::sync::atomic::Ordering::SeqCst), 8);
    // Nothing is left to ask for, and so nothing to say.
    let again = desk.hone(&search).json().remove(0);
    assert_eq!((again.get("projection"), &again["calls"]), (None, &0.into()));
    let free = desk.hone(&search.replace(" --price 10,100", " --run free")).json().remove(0);
    assert_eq!(free.get("projection"), None);
}

#[test]
fn augmented_tasks_are_searched_and_stay_in_their_family() {
    let desk = desk();
    let found = desk.hone(&format!("{EVOLVE} --augmented 6 --rounds 4 --json")).json().remove(0);
    assert!(found["tasks"].as_u64().unwrap() > 4 && found["gained"].as_u64().unwrap() > 8, "{found}");
    desk.hone("data arc-edits --tasks tasks.jsonl --out out --at-most 5 --quiet").expect(0, "5 samples to learn from", "");
    let text = desk.read("out/train.text.jsonl");
    assert_eq!(text.matches("\"family\":\"67a3c6ac\"").count(), 5);
    assert!(text.contains("\"task\":\"67a3c6ac."), "{text}");
    desk.hone("env arc report --tasks tasks.jsonl").expect(0, "1 of 1 tasks", "");
}

#[test]
fn a_program_that_copies_outputs_counts_nowhere_in_a_report() {
    let task = TASK.replace("[[5, 6, 8]]", "[[5, 6, 8, 1]]").replace("[[8, 6, 5]]", "[[1, 8, 6, 5]]");
    let desk = Desk::with(&[("tasks.jsonl", &task)]);
    let copy = "def solve(I):\n    if len(I) == 2:\n        return ((2, 1), (4, 3))\n    \
                if len(I[0]) == 3:\n        return ((7, 7, 0),)\n    return ((1, 8, 6, 5),)\n";
    let answer = serde_json::json!({"role": "assistant", "content": format!("```python\n{copy}```")});
    std::fs::write(desk.path("copy.jsonl"), format!("{answer}\n")).unwrap();
    let play = "rollout --env arc:tasks.jsonl --split train --policy script:copy.jsonl --run copied -n 1 --samples 2";
    desk.hone(play).expect(0, "2 solved", "spent");
    let report = desk.hone("env arc report --tasks tasks.jsonl --run copied --json").json().remove(0);
    let reached = (&report["solved"], &report["solved_by_vote"], &report["pass_at"][0]["share"]);
    assert_eq!(reached, (&0.into(), &0.into(), &0.0.into()), "{report}");
}

#[test]
fn a_report_says_what_was_reached_and_draws_it() {
    let desk = desk();
    desk.hone(&format!("{EVOLVE} --rounds 6 --quiet")).expect(0, "1 of them solved", "");
    let report = desk.hone("env arc report --tasks tasks.jsonl --json").json().remove(0);
    assert_eq!((&report["solved"], &report["pixel_score"]), (&1.into(), &1.0.into()));
    desk.hone("env arc report --tasks tasks.jsonl --out report.html").expect(0, "pass@1", "drawn in report.html");
    let page = desk.read("report.html");
    for says in ["default-src 'none'", "<svg class=\"grid\"", "67a3c6ac", "expected", "step 1 (r 1.00): right"] {
        assert!(page.contains(says), "{says}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing comes from elsewhere");
    // Votes over augmentations, their predictions turned back.
    let play = "rollout --env arc:tasks.jsonl?augmented=5 --split train --policy gold --run voted -n 6 --samples 1";
    desk.hone(play).expect(0, "6 solved", "spent");
    let voted = desk.hone("env arc report --tasks tasks.jsonl --run voted --json").json().remove(0);
    assert_eq!((&voted["samples"], &voted["solved_by_vote"], &voted["tasks"]), (&6.into(), &1.into(), &1.into()));
    // Of one scenario of six, most seeds take an augmented one: what is solved there is solved.
    for seed in 1..5 {
        desk.hone(&play.replace("voted -n 6", &format!("one-{seed} -n 1 --seed {seed}"))).expect(0, "1 solved", "spent");
        let one =
            desk.hone(&format!("env arc report --tasks tasks.jsonl --run one-{seed} --out one.html --json")).json().remove(0);
        let reached = (&one["solved"], &one["pixel_score"], &one["solved_by_vote"], &one["pass_at"][0]["share"]);
        assert_eq!(reached, (&1.into(), &1.0.into(), &1.into(), &1.0.into()), "{seed}");
        assert!(desk.read("one.html").contains("step 0 (r 1.00): right"));
    }
}

#[test]
fn tasks_are_learned_on_levels_with_a_budget_of_tokens_each() {
    let desk = desk();
    let play =
        "rollout --env arc:tasks.jsonl --split train --policy gold -n 1 --samples 2 --curriculum arc.json --level-tokens 100,200";
    desk.hone(play).expect(0, "curriculum: level ", "spent");
    let kept: serde_json::Value = serde_json::from_str(&desk.read("arc.json")).unwrap();
    assert_eq!(kept["options"]["token_budgets"], serde_json::json!([100, 200]), "{kept}");
    // Who earns nothing meets the task in variations: turned and recoloured, of the same family.
    let empty = play.replace("gold", "empty").replace("arc.json", "stuck.json").replace("-n 1", "-n 4");
    let varied = (0..12).any(|_| desk.hone(&empty).out.contains("played in variations"));
    assert!(varied);
}
