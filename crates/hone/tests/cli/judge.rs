//! RULER over HTTP: a judge that misbehaves in every known way, what becomes of the group, and whether the judge is heard at all.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::{Desk, provider};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the judge does with the scores of a call, given how many calls came before it.
pub(crate) type Manner = fn(&mut Vec<Value>, usize) -> Reply;

pub(crate) enum Reply {
    /// The scores as JSON.
    Scores,
    /// With words around them.
    Prose,
    /// Nothing at all, until the other side gives up.
    Silence,
}

/// A judge that gives every trajectory the length of its text as a score, in its own manner.
pub(crate) fn judge(manner: Manner) -> (String, Arc<AtomicUsize>) {
    provider::start(move |request, n_before| {
        let messages = request["messages"].as_array().unwrap();
        let mut texts = messages.iter().filter_map(|message| message["content"].as_str());
        let mut scores: Vec<Value> = texts
            .find(|text| text.contains("<trajectory id="))
            .unwrap()
            .split("<trajectory id=\"")
            .skip(1)
            .map(|part| {
                let (id, text) = part.split_once('"').unwrap();
                let n_lines = text.split("</trajectory>").next().unwrap().lines().count();
                json!({"trajectory_id": id, "explanation": "by its length", "score": n_lines as f64 / 100.0})
            })
            .collect();
        let reply = manner(&mut scores, n_before);
        let text = json!({ "scores": scores }).to_string();
        match reply {
            Reply::Scores => Some(provider::said(text)),
            Reply::Prose => {
                Some(provider::said(format!("Here is what I think, {{as asked}}:\n```json\n{text}\n```\nI hope it helps.")))
            }
            Reply::Silence => None,
        }
    })
}

/// A recipe that asks for a judge.
pub(crate) const RANK: &str = "components = [{ name = 'rank', kind = 'ruler', n_retries = 1, weight = 1.0, role = 'primary' }]";

/// Scores one group of four traces by this judge: the exit code, the summary, the rewards, and how often it was asked.
#[track_caller]
fn check(manner: Manner, code: i32, n_scored: usize, n_calls: usize, said: &str) -> Vec<f64> {
    let desk = Desk::with(&[("rank.toml", RANK)]);
    desk.hone("rollout --env 2048 --policy random -n 1 --samples 4 --json").expect(0, "\"traces\":4", "");
    let (url, counted) = judge(manner);
    let line = format!("reward score --recipe rank.toml --judge {url} --max-answer-seconds 2 --json --quiet");
    let ended = desk.hone(&line);
    let ended = ended.expect(code, "\"groups\":1", said);
    assert_eq!(ended.json()[0]["scored"], n_scored, "{}", ended.err);
    assert_eq!(counted.load(Ordering::SeqCst), n_calls);
    let heads = desk.hone("trace list --json").json();
    assert_eq!(heads.len(), 4, "nothing is dropped");
    let mut by_turns: Vec<(u64, f64)> =
        heads.iter().map(|head| (head["n_turns"].as_u64().unwrap(), head["reward"].as_f64().unwrap())).collect();
    by_turns.sort_by_key(|(n_turns, _)| *n_turns);
    by_turns.into_iter().map(|(_, reward)| reward).collect()
}

fn is_rising(rewards: &[f64]) -> bool {
    rewards.windows(2).all(|pair| pair[0] <= pair[1]) && rewards.iter().all(|reward| (0.0..=1.0).contains(reward))
}

#[test]
fn scores_are_matched_by_id_whatever_their_order() {
    let shuffled = |scores: &mut Vec<Value>, _| {
        scores.reverse();
        Reply::Scores
    };
    assert!(is_rising(&check(shuffled, 0, 4, 1, "")));
}

#[test]
fn a_part_of_a_group_is_ranked_within_the_whole() {
    let desk = Desk::with(&[("rank.toml", RANK)]);
    desk.hone("rollout --env 2048 --policy random -n 1 --samples 4 --quiet").expect(0, "4 traces", "");
    let rewards = || {
        let heads = desk.hone("trace list --json").json();
        let earned = |head: &Value| (head["id"].to_string(), head["reward"].as_f64().unwrap());
        heads.iter().map(earned).collect::<BTreeMap<String, f64>>()
    };
    let before = rewards();
    let mut sorted: Vec<f64> = before.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let least = sorted[2];
    assert!(sorted[1] < least, "{before:?}");
    // Each is worth its share of what is shown.
    let (url, counted) = judge(|scores, _| {
        let share = 1.0 / scores.len() as f64;
        scores.iter_mut().for_each(|score| score["score"] = json!(share));
        Reply::Scores
    });
    let line = format!("reward score --recipe rank.toml --judge {url} --reward-min {least}");
    desk.hone(&line).expect(0, "2 scored in 1 group,", "2 traces that the filter leaves out: judged as the rest of their groups");
    assert_eq!(counted.load(Ordering::SeqCst), 1);
    let expected = before.into_iter().map(|(id, reward)| (id, if reward < least { reward } else { 0.25 }));
    assert_eq!(rewards(), expected.collect());
}

#[test]
fn words_around_the_scores_do_no_harm() {
    assert!(is_rising(&check(|_, _| Reply::Prose, 0, 4, 1, "")));
}

#[test]
fn a_dropped_id_is_asked_for_again() {
    let first_only = |scores: &mut Vec<Value>, n_before: usize| {
        if n_before == 0 {
            scores.pop();
        }
        Reply::Scores
    };
    assert!(is_rising(&check(first_only, 0, 4, 2, "")));
    let always = |scores: &mut Vec<Value>, _| {
        scores.pop();
        Reply::Scores
    };
    check(always, 1, 0, 2, "no score for");
}

#[test]
fn a_repeated_id_is_refused() {
    let repeated = |scores: &mut Vec<Value>, _| {
        scores[1] = scores[0].clone();
        Reply::Scores
    };
    check(repeated, 1, 0, 2, "several scores for");
}

#[test]
fn a_score_outside_the_scale_is_refused() {
    let seven = |scores: &mut Vec<Value>, _| {
        scores[0]["score"] = json!(7);
        Reply::Scores
    };
    check(seven, 1, 0, 2, "7");
}

#[test]
fn a_judge_that_hangs_is_given_up() {
    check(|_, _| Reply::Silence, 1, 0, 2, "policy_timeout");
}

/// Labelled groups of four conversations, each a turn longer than the one before, and labelled by this.
pub(super) fn labelled(label: fn(usize) -> usize) -> String {
    let member = |group: usize, idx: usize| {
        let turn = |turn_idx: usize| {
            let (asked, answered) = (format!("Thing {turn_idx}?"), format!("Of {group} it is {turn_idx}."));
            [json!({"role": "user", "content": asked}), json!({"role": "assistant", "content": answered})]
        };
        json!({"messages": (0..=idx).flat_map(turn).collect::<Vec<_>>(), "label": label(idx)})
    };
    let group = |group: usize| json!({"group": (0..4).map(|idx| member(group, idx)).collect::<Vec<_>>()}).to_string() + "\n";
    (0..20).map(group).collect()
}

#[test]
fn a_judge_is_heard_by_how_it_was_last_measured() {
    let (right, wrong) = (labelled(|idx| idx), labelled(|idx| 3 - idx));
    let desk = Desk::with(&[("rank.toml", RANK), ("right.jsonl", &right), ("wrong.jsonl", &wrong)]);
    desk.hone("rollout --env 2048 --policy random -n 1 --samples 4 --json").expect(0, "\"traces\":4", "");
    let (url, counted) = judge(|_, _| Reply::Scores);
    let score = format!("reward score --recipe rank.toml --judge {url}");
    let calibrate = format!("reward calibrate --judge {url}");

    let never = format!("never measured as a judge: `hone reward calibrate labelled.jsonl --judge {url}`");
    desk.hone(&score).expect(0, "4 scored", &never);
    desk.hone(&format!("{calibrate} wrong.jsonl")).expect(1, "0.000 (0.000 to 0.", "the judge is refused");

    let n_calls = counted.load(Ordering::SeqCst);
    let refused = desk.hone(&score).expect(2, "", "in 0.0 % of the pairs").expect(2, "", "the floor of 60.0 %");
    assert!(refused.err.contains("hint: ") && refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(counted.load(Ordering::SeqCst), n_calls, "a refused judge is not paid");
    desk.hone(&format!("{score} --force")).expect(0, "4 scored", "is heard though it was refused: it agrees");
    desk.hone(&format!("{score} --temperature 0.5")).expect(0, "4 scored", "never measured");
    desk.hone(&format!("{calibrate} right.jsonl --tenant other")).expect(0, "1.000", "the judge is accepted");
    desk.hone(&score).expect(2, "", "was refused as a judge");

    desk.hone(&format!("{calibrate} right.jsonl --json")).expect(0, "\"refusals\":[]", "judging 20 groups");
    desk.hone(&score).expect(0, "4 scored", "");
}

#[test]
fn groups_that_a_judge_could_not_score_are_told_with_the_reason() {
    let desk = Desk::with(&[("right.jsonl", &labelled(|idx| idx))]);
    let (url, _) = judge(|scores, _| {
        scores.clear();
        Reply::Scores
    });
    let told = desk.hone(&format!("reward calibrate right.jsonl --judge {url}")).expect(1, "20, 20", "the judge is refused").err;
    assert!(told.contains("20 groups could not be scored (number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …): "), "{told}");
    assert!(told.contains("it failed on 20 of 20 groups, more than 20 %, the first so: "), "{told}");
}
