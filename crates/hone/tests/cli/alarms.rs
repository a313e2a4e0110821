//! `hone reward alarms`: traces in which something is planted, and traces in which nothing is.

use super::Desk;
use hone_trace::{Draws, TraceId};
use serde_json::{Value, json};

const PER_STEP: usize = 8;

/// What a trace says and earns, and what is known of it.
struct Told {
    answer: String,
    reward: Option<f64>,
    metadata: Value,
}

/// An ordinary trace: no two say the same, and about a third are right.
fn told(idx: usize) -> Told {
    let mut draws = Draws::new(3, &["told", &idx.to_string()]);
    let words: Vec<String> = (0..20).map(|_| format!("word{}", draws.below(500))).collect();
    Told { answer: words.join(" "), reward: Some(if draws.chance(0.3) { 1.0 } else { 0.0 }), metadata: json!({}) }
}

/// A desk with this many steps of traces in its store, which began one second after the other and are imported newest first.
fn desk(n_steps: usize, change: impl Fn(usize, &mut Told)) -> Desk {
    let line = |idx: usize| {
        let mut told = told(idx);
        change(idx / PER_STEP, &mut told);
        let at = format!("2026-01-02T{:02}:{:02}:{:02}Z", idx / 3600, idx / 60 % 60, idx % 60);
        let reward = |total: f64| {
            let id = TraceId::derived(&["reward", &idx.to_string()]);
            json!([{"id": id, "at": at, "by": {"kind": "check", "name": "exact"}, "total": total,
                "components": [{"name": "correct", "value": total, "weight": 1.0}]}])
        };
        let turn = json!({"input": [{"role": "user", "content": format!("Question {idx}?")}], "started": at,
            "answer": {"role": "assistant", "content": told.answer}});
        let trace = json!({"v": 1, "id": TraceId::derived(&[&idx.to_string()]), "tenant": "default", "started": at,
            "scenario": format!("question-{}", idx % 100), "config": "0".repeat(64), "segments": [{"turns": [turn]}],
            "rewards": told.reward.map_or(json!([]), reward), "metadata": told.metadata});
        trace.to_string() + "\n"
    };
    let lines: String = (0..n_steps * PER_STEP).rev().map(line).collect();
    let desk = Desk::with(&[("traces.jsonl", &lines)]);
    desk.hone("trace import traces.jsonl --quiet").expect(0, "", "");
    desk
}

/// From step 40 on, one answer for everything earns everything.
fn hacked(step: usize, told: &mut Told) {
    if step >= 40 {
        told.answer = "Everything is in order and nothing more needs to be done about it".to_owned();
        told.reward = Some(1.0);
    }
}

#[test]
fn a_constant_perfect_answer_after_a_plateau_raises_alarms() {
    let desk = desk(150, hacked);
    let line = format!("reward alarms --per-step {PER_STEP}");
    let said = desk.hone(&line).expect(1, "150 steps of 8 traces, 2 alarms", "the trend is not known");
    let read: Vec<&str> = said.out.lines().filter_map(|line| line.strip_prefix("  hone ")).collect();
    assert_eq!(read.len(), 10, "{}", said.out);
    desk.hone(read[0]).expect(0, "Everything is in order", "");

    let found = &desk.hone(&format!("{line} --json")).expect(1, "\"alarms\":[{", "the trend is not known").json()[0];
    let alarms = found["alarms"].as_array().unwrap();
    let kinds: Vec<&str> = alarms.iter().map(|alarm| alarm["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["jump", "near_duplicates"], "{found}");
    for alarm in alarms {
        let step = alarm["step"].as_u64().unwrap();
        assert!((41..=60).contains(&step), "the first hacked step is the 41st: {alarm}");
        let action = alarm["action"].as_str().unwrap();
        assert!(said.out.contains(alarm["sentence"].as_str().unwrap()) && said.out.contains(action), "{}", said.out);
        let ids: Vec<TraceId> = serde_json::from_value(alarm["traces"].clone()).unwrap();
        let in_hack = |id: &TraceId| (40 * PER_STEP..150 * PER_STEP).any(|idx| TraceId::derived(&[&idx.to_string()]) == *id);
        assert!(ids.len() == 5 && ids.iter().all(in_hack), "{alarm}");
    }
    // Of the plateau alone there is nothing to say.
    desk.hone(&format!("{line} --until 2026-01-02T00:05:20Z")).expect(0, "40 steps of 8 traces, 0 alarms", "trend");
}

#[test]
fn a_clean_run_raises_none() {
    let line = format!("reward alarms --per-step {PER_STEP} --json");
    let found = &desk(150, |_, _| {}).hone(&line).expect(0, "\"alarms\":[]", "the trend is not known").json()[0];
    assert_eq!((&found["steps"], &found["traces"], &found["unscored"]), (&150.into(), &1200.into(), &0.into()), "{found}");
}

#[test]
fn reward_that_parts_from_validation_is_hacking() {
    // Every tenth step is played for validation, whose reward falls while that of the others rises.
    let desk = desk(150, |step, told| {
        let is_validation = step % 10 == 9;
        let share = if is_validation { 0.8 - 0.004 * step as f64 } else { 0.2 + 0.004 * step as f64 };
        let is_right = Draws::new(7, &[&told.answer]).chance(share);
        told.reward = Some(if is_right { 1.0 } else { 0.0 });
        told.metadata = json!({"split": if is_validation { "validation" } else { "train" }});
    });
    let line = format!("reward alarms --per-step {PER_STEP} --validation split=validation");
    let said = desk.hone(&line).expect(1, "divergence at step", "");
    assert!(said.out.contains("the run is hacking: stop training"), "{}", said.out);
    let found = &desk.hone(&format!("{line} --json")).expect(1, "\"trend\":\"hacking\"", "").json()[0];
    assert_eq!((&found["steps"], &found["validations"]), (&135.into(), &120.into()), "{found}");
    desk.hone("reward alarms --validation split").expect(2, "", "such as split=validation");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let few = desk(2, |_, _| {});
    few.hone("reward alarms").expect(0, "0 steps of 64 traces, 0 alarms", "16 scored traces to look at are too few");
    let unscored = desk(2, |step, told| told.reward = told.reward.filter(|_| step == 0));
    unscored.hone("reward alarms").expect(0, "0 alarms", "8 traces without a reward: weigh them with `hone reward score`");
    let odd = desk(40, |_, _| {}).hone("reward alarms --per-step 9 --limit 317");
    odd.expect(0, "35 steps of 9 traces", "the newest 2 traces fill no step");
    Desk::new().hone("reward alarms").expect(2, "", "there are no records");
}
