//! Judges that training hears: what they cost, what they cannot score, and which are refused.

use super::train_run::grpo;
use super::{Desk, judge, provider};
use serde_json::json;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// A recipe by which a judge is asked of every episode.
const RUBRIC: &str = "components = [{ name = 'quality', kind = 'rubric', weight = 1.0, role = 'primary', \
                  criteria = [{ id = 'good', text = 'Is it good?' }] }]";

#[test]
fn a_judge_costs_dollars_up_to_a_limit() {
    let desk = Desk::of_practice();
    fs::write(desk.path("hone.toml"), format!("[reward.tictactoe]\n{}", judge::RANK)).unwrap();
    let (url, _) = judge::judge(|_, _| judge::Reply::Scores);
    let flags = "--force --judge-price 100,100";
    let run = |name: &str, more: &str| {
        let line = grpo(&format!("--judge {url} {flags} {more}")).replace("--run r", &format!("--run {name}"));
        desk.hone(&line)
    };
    // A call costs 18 tokens of 100 dollars per million, a step four calls.
    run("free", "").expect(0, "\"reason\":\"steps\"", "");
    let figures = desk.standing("free")["figures"].clone();
    assert!((figures["6 dollars"].as_f64().unwrap() - 6.0 * 4.0 * 0.0018).abs() < 1e-9, "{figures}");
    run("limited", "--max-dollars 0.012").expect(0, "\"reason\":\"dollars\"", "");
    let unpriced = grpo(&format!("--judge {url} --force --max-dollars 1"));
    desk.hone(&unpriced).expect(2, "", "max_dollars has no effect: it is not known what the judge costs\n\nhint: say it");
    desk.hone(&grpo("")).expect(2, "", "the recipe asks for a judge\n\nhint: name one with --judge");
}

#[test]
fn what_validation_asks_of_a_judge_is_paid_for_too() {
    let desk = Desk::of_practice();
    fs::write(desk.path("hone.toml"), format!("[reward.tictactoe]\n{RUBRIC}")).unwrap();
    let (url, counted) = provider::start(|_, n_before| {
        let score = json!({"criterion": "good", "explanation": "", "score": (n_before % 2) as f64});
        Some(provider::said(json!({"scores": [score]}).to_string()))
    });
    let run = |name: &str, dollars: f64| {
        let flags = format!("--judge {url} --judge-price 100,100 --measure rewarded --max-dollars {dollars}");
        desk.hone(&grpo(&flags).replace("--run r", &format!("--run {name}"))).expect(0, "\"reason\":\"dollars\"", "")
    };
    // A call costs 0.0018 dollars; validation takes 8 of them, a step 16.
    assert_eq!(run("short", 0.012).json()[0]["step"], 0);
    assert_eq!(counted.load(Ordering::SeqCst), 8);
    // The second step spends the last of it, so that the validation which is due then is not paid for.
    assert_eq!(run("later", 0.06).json()[0]["step"], 2);
    assert_eq!(counted.load(Ordering::SeqCst), 8 + 8 + 2 * 16);
    desk.hone("train grpo --run later --threads 1 --quiet --resume").expect(0, "dollars: 0.07 dollars were spent", "");
    assert_eq!(counted.load(Ordering::SeqCst), 8 + 8 + 2 * 16, "what is measured is not paid for again");
    // Nor is that of the last step, which would end the run in any case.
    let flags = format!("--judge {url} --judge-price 100,100 --measure rewarded --max-dollars 0.06");
    let last = grpo(&flags).replace("--run r", "--run last").replace("--steps 6", "--steps 2");
    let why = "all 2 steps are done; step 2 was not measured, for max_dollars is spent";
    desk.hone(&last).expect(0, "\"reason\":\"steps\"", "").expect(0, why, "");
    assert_eq!(counted.load(Ordering::SeqCst), 2 * (8 + 2 * 16) + 8);
}

#[test]
fn a_task_of_validation_that_could_not_be_scored_is_told() {
    let desk = Desk::of_practice();
    fs::write(desk.path("hone.toml"), format!("[reward.tictactoe]\n{RUBRIC}")).unwrap();
    // The judge says nothing of use of the task that comes first, also when it is asked again.
    let first = Mutex::new(None);
    let (url, _) = provider::start(move |asked, _| {
        let task = asked["messages"][1].clone();
        let is_first = *first.lock().unwrap().get_or_insert_with(|| task.clone()) == task;
        let score = json!({"criterion": "good", "explanation": "", "score": 1});
        Some(provider::said(if is_first { "well".to_owned() } else { json!({"scores": [score]}).to_string() }))
    });
    let flags = format!("--judge {url} --judge-price 1,1 --measure rewarded --max-seconds 0.000001");
    let ended = desk.hone(&grpo(&flags).replace(" --json --quiet", ""));
    ended.expect(0, "seconds", "validation 87.5 % (52.9-97.8)  1 could not be scored and count as failed: component `quality`");
    assert_eq!(desk.standing("r")["figures"]["0 validation_unscored"], 1.0);
}

#[test]
fn episodes_that_do_not_fit_the_context_of_a_judge_are_counted() {
    let desk = Desk::of_practice();
    let short = RUBRIC.replace("kind = 'rubric'", "kind = 'rubric', context_bytes_max = 1024");
    fs::write(desk.path("hone.toml"), format!("[reward.math]\n{short}")).unwrap();
    // As JSON, which the judge sees, this is six times as long.
    let question = |n| json!({"question": format!("{} word{n}?", "\u{1}".repeat(200)), "answer": "#### 1"}).to_string() + "\n";
    fs::write(desk.path("long.jsonl"), (0..60).map(question).collect::<String>()).unwrap();
    let (url, _) = provider::start(|_, n_before| {
        let score = json!({"criterion": "good", "explanation": "", "score": (n_before % 2) as f64});
        Some(provider::said(json!({"scores": [score]}).to_string()))
    });
    let line = grpo(&format!("--judge {url} --judge-price 1,1 --measure rewarded --max-tokens 1")).replace(" --json --quiet", "");
    let line = line.replace("--env tictactoe", "--env math:long.jsonl").replace("--validation 8", "--validation 2");
    let ended = desk.hone(&line).expect(0, "tokens", "judged without their middle").expect(0, "tokens", "  judged shortened 16");
    let figures = desk.standing("r")["figures"].clone();
    assert_eq!((&figures["0 validation_shortened"], &figures["1 n_shortened"]), (&json!(2.0), &json!(16.0)), "{}", ended.err);
}

#[test]
fn a_judge_that_answers_nothing_of_use_ends_the_run_which_then_goes_on() {
    let desk = Desk::of_practice();
    fs::write(desk.path("hone.toml"), format!("[reward.tictactoe]\n{}", judge::RANK)).unwrap();
    // A step takes four calls, or eight where each is in vain and made again.
    let (url, counted) = judge::judge(|scores, n_before| {
        if (4..12).contains(&n_before) {
            scores.clear();
        }
        judge::Reply::Scores
    });
    let says = "no group of step 2 could be scored: component `rank`: the group was not judged (2 calls): ";
    let ended = desk.hone(&grpo(&format!("--judge {url} --judge-price 100,100 --force"))).expect(2, "", says);
    assert!(ended.err.contains("go on with `hone train grpo --run r --resume --threads 1`"), "{}", ended.err);
    desk.hone("train grpo --run r --threads 1 --quiet --resume").expect(0, "steps: ", "");
    let (n_calls, figures) = (counted.load(Ordering::SeqCst), desk.standing("r")["figures"].clone());
    assert_eq!(n_calls, 6 * 4 + 8);
    assert!((figures["6 dollars"].as_f64().unwrap() - n_calls as f64 * 0.0018).abs() < 1e-9, "{figures}");
}

#[test]
fn an_unwise_recipe_is_learned_by_only_when_forced() {
    let desk = Desk::of_practice();
    let ruler = "{ name = 'rank', kind = 'ruler', weight = 1.0, role = 'primary' }";
    let short =
        "{ name = 'short', kind = 'length', free_tokens = 1, per_token = 0.001, cost_max = 0.1, weight = 1.0, role = 'penalty' }";
    fs::write(desk.path("hone.toml"), format!("[reward.tictactoe]\ncomponents = [{ruler}, {short}]\n")).unwrap();
    let (url, _) = judge::judge(|_, _| judge::Reply::Scores);
    let line = grpo(&format!("--judge {url} --max-tokens 1"));
    desk.hone(&line).expect(2, "", "or `--force`");
    desk.hone(&format!("{line} --force")).expect(0, "\"reason\":\"tokens\"", "");
}

#[test]
fn a_run_that_was_forced_to_hear_its_judge_goes_on_hearing_it() {
    let desk = Desk::of_practice();
    fs::write(desk.path("hone.toml"), format!("[reward.tictactoe]\n{}", judge::RANK)).unwrap();
    fs::write(desk.path("wrong.jsonl"), judge::labelled(|idx| 3 - idx)).unwrap();
    let (url, _) = judge::judge(|_, _| judge::Reply::Scores);
    desk.hone(&format!("reward calibrate --judge {url} wrong.jsonl")).expect(1, "0.000", "the judge is refused");
    let line = grpo(&format!("--judge {url} --max-tokens 1"));
    desk.hone(&line).expect(2, "", "was refused as a judge");
    desk.hone(&format!("{line} --force")).expect(0, "\"reason\":\"tokens\"", "");
    desk.hone("train grpo --run r --threads 1 --quiet --resume").expect(0, "tokens: ", "");
    desk.hone("train grpo --run r --threads 1 --quiet --resume --force").expect(0, "tokens: ", "");
}
