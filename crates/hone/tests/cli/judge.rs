//! RULER over HTTP: a judge that misbehaves in every known way, and what becomes of the group.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::{Desk, provider};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the judge does with the scores of a call, given how many calls came before it.
type Manner = fn(&mut Vec<Value>, usize) -> Reply;

enum Reply {
    /// The scores as JSON.
    Scores,
    /// With words around them.
    Prose,
    /// Nothing at all, until the other side gives up.
    Silence,
}

/// A judge that gives every trajectory the length of its text as a score, in its own manner.
fn judge(manner: Manner) -> (String, Arc<AtomicUsize>) {
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

/// Scores one group of four traces by this judge: the exit code, the summary, the rewards, and how often it was asked.
#[track_caller]
fn check(manner: Manner, code: i32, n_scored: usize, n_calls: usize, said: &str) -> Vec<f64> {
    let desk = Desk::with(&[(
        "rank.toml",
        "components = [{ name = 'rank', kind = 'ruler', n_retries = 1, weight = 1.0, role = 'primary' }]",
    )]);
    desk.hone("rollout --env 2048 --policy random -n 1 --samples 4 --json").expect(0, "\"traces\":4", "");
    let (url, counted) = judge(manner);
    let line = format!("reward score --recipe rank.toml --judge {url} --max-answer-seconds 2 --json");
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
