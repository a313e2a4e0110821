//! `hone rollout --curriculum`: what scenarios earn decides what is played next, over many commands.

use super::{Desk, provider};
use serde_json::Value;

/// One step of a curriculum of six scenarios.
fn line(env: &str, policy: &str) -> String {
    format!("rollout --env {env} --policy {policy} --split train -n 6 --samples 2 --pool 6 --curriculum state.json --json")
}

/// Where the curriculum stands after one step.
#[track_caller]
fn step(desk: &Desk, line: &str) -> Value {
    desk.hone(line).expect(0, "\"curriculum\"", "").json()[0]["curriculum"].clone()
}

#[test]
fn what_is_solved_steadily_retires() {
    let desk = Desk::new();
    let line = line("desk:short", "gold");
    let mut standings = vec![step(&desk, &line)];
    while standings.len() < 20 && standings.last().unwrap()["retired"] != 6 {
        standings.push(step(&desk, &line));
    }
    let n_steps = standings.len();
    assert!(standings[..7].iter().all(|standing| standing["retired"] == 0), "eight groups in a row are asked for");
    assert_eq!(
        (&standings[n_steps - 1]["active"], &standings[n_steps - 1]["waiting"]),
        (&0.into(), &0.into()),
        "{n_steps} steps"
    );
    let before = desk.read("state.json");
    let ended = desk.hone(&line.replace("--json", "")).expect(0, "all 6 scenarios are learned", "");
    assert!(!ended.out.contains("run"), "nothing was played: {}", ended.out);
    assert_eq!(desk.hone(&line).expect(0, "\"groups\":0", "").json()[0].get("run"), None);
    assert_eq!(desk.read("state.json"), before);
}

#[test]
fn what_earns_nothing_is_stuck_and_varied() {
    for env in ["desk:short", "math:sums"] {
        let desk = Desk::new();
        let line = line(env, "empty");
        let standings: Vec<Value> = (0..6).map(|_| step(&desk, &line)).collect();
        let of = |step: usize, what: &str| standings[step][what].as_u64().unwrap();
        assert_eq!((of(0, "stuck"), of(0, "varied"), of(1, "varied")), (0, 0, 0), "{standings:?}");
        assert!(of(1, "stuck") > 0 && of(1, "stuck") == of(1, "active"), "{standings:?}");
        assert!(of(5, "waiting") > 0, "harder ones wait until the easy ones are solved: {standings:?}");
        let n_varied: u64 = (2..6).map(|step| of(step, "varied")).sum();
        assert!(n_varied > 0, "{standings:?}");
        // A variation is a scenario of its own, so its traces are found beside those of the original.
        let scenarios: Vec<Value> = desk.hone("trace export").json().iter().map(|trace| trace["scenario"].clone()).collect();
        let state: Value = serde_json::from_str(&desk.read("state.json")).unwrap();
        let is_own = |id: &&Value| state["scenarios"].get(id.as_str().unwrap()).is_some();
        let n_own = scenarios.iter().filter(is_own).count() as u64;
        assert_eq!(scenarios.len() as u64 - n_own, 2 * n_varied, "{env}: two samples of each variation");
    }
}

#[test]
fn a_state_goes_on_and_the_same_state_plays_the_same() {
    let (desk, other) = (Desk::new(), Desk::new());
    let line = line("desk:short", "random");
    let first = desk.hone(&line).expect(0, "\"run\"", "").json();
    std::fs::copy(desk.path("state.json"), other.path("state.json")).unwrap();
    let second = desk.hone(&line).expect(0, "\"run\"", "").json();
    assert_ne!(first[0]["run"], second[0]["run"]);
    assert_eq!(other.hone(&line).expect(0, "\"run\"", "").json(), second);
    assert_eq!(desk.read("state.json"), other.read("state.json"));
    let named = format!("{line} --run mine");
    let (third, fourth) = (desk.hone(&named).expect(0, "\"run\"", "").json(), desk.hone(&named).expect(0, "\"run\"", "").json());
    assert_ne!(third[0]["run"], fourth[0]["run"], "each step is a run of its own");
}

#[test]
fn a_file_that_is_damaged_or_of_another_pool_is_refused() {
    let desk = Desk::with(&[("state.json", "{\"v\":1")]);
    desk.hone(&line("desk", "gold")).expect(2, "", "state.json: damaged curriculum").expect(2, "", "name another file");
    assert_eq!(desk.read("state.json"), "{\"v\":1", "what cannot be read is left alone");
    let desk = Desk::new();
    step(&desk, &line("desk:short", "gold"));
    let state = desk.read("state.json");
    let first = "the first 6 of desk:short (train, seed 1)";
    for (asked, said) in [
        (line("desk", "gold"), first),
        (line("math:sums", "gold"), first),
        (format!("{} --seed 2", line("desk:short", "gold")), "not of the first 6 of desk:short (train, seed 2)"),
        (format!("{} --level-tokens 64", line("desk:short", "gold")), "made with --level-tokens 512,1024,2048"),
        ("rollout --env desk --policy gold --pool 3".into(), "--curriculum"),
    ] {
        desk.hone(&asked).expect(2, "", said);
    }
    std::fs::write(desk.path("state.json"), state.replacen("desk/train/1/0", "desk/train/1/77", 1)).unwrap();
    desk.hone(&line("desk:short", "gold")).expect(2, "", "no scenario desk/train/1/77 any more");
}

#[test]
fn token_budgets_hold_and_a_run_that_is_broken_off_is_kept() {
    // Never an answer, and forty tokens for each try.
    let (url, _) =
        provider::start(|_, n_before| Some(provider::Reply { text: format!("hm {n_before}"), tokens_in: 100, tokens_out: 40 }));
    let desk = Desk::new();
    let line = format!("{} --level-tokens 60 --concurrency 1", line("desk:short", &url));
    desk.hone(&line).expect(0, "\"groups\":6", "");
    let text = desk.hone("trace export").out;
    assert!(text.lines().count() == 12 && text.lines().all(|line| line.contains("limit of 60 tokens")), "{text}");

    let state = desk.read("state.json");
    let paid = line.replace("--level-tokens 60", "--price 1,1 --max-tokens 64 --budget 0.003");
    let ended = desk.hone(&paid).expect(1, "\"groups\"", "the budget is spent").json();
    let n_groups = ended[0]["groups"].as_u64().unwrap();
    assert!((1..6).contains(&n_groups), "{ended:?}");
    assert_ne!(desk.read("state.json"), state, "what was learned before the end is kept");
}
