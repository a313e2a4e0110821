//! Answers of people, from the server that takes them to the runs and batches that learn from them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::Desk;
use super::serve::{Listening, send};
use serde_json::{Value, json};
use std::fs;

const TENANT: &str = "--tenant shop";
const SHOWN: &str = "9 9 9 9 9 9 9 9 9";

/// A model, and a server with three calls on its record, each a type of task: of the first somebody said what it should have been, the second earned 1, and of the
/// third nobody said anything.
fn told() -> (Desk, Listening, Vec<String>) {
    let desk = Desk::of_practice();
    let (served, _provider) = serve(&desk);
    let ids = ["one", "two", "three"].map(|text| ask(&served, text, &json!([])));
    say(&served, &ids[0], SHOWN);
    let episode = desk.hone(&format!("trace show {} --json {TENANT}", ids[1])).json()[0]["id"].clone();
    let solved = json!({"episode_id": episode, "metric_name": "solved", "value": 1}).to_string();
    assert!(send(served.port, "/v1/feedback", "", &solved).contains("feedback_id"));
    (desk, served, ids.to_vec())
}

/// A server, and the provider that it asks.
fn serve(desk: &Desk) -> (Listening, Listening) {
    let provider = Listening::provider(desk);
    let line = format!("serve --address 127.0.0.1:0 {TENANT} --model m=http://127.0.0.1:{}/v1#m", provider.port);
    (Listening::start(desk, &line), provider)
}

/// Asks something, with these tools on offer; the id of the answer.
fn ask(served: &Listening, text: &str, tools: &Value) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": text}], "tools": tools}).to_string();
    let task = format!("x-hone-task: {text}\r\n");
    let answer: Value = serde_json::from_str(&send(served.port, "/v1/chat/completions", &task, &body)).unwrap();
    answer["id"].as_str().unwrap().to_owned()
}

fn say(served: &Listening, id: &str, answer: impl Into<Value>) {
    let body = json!({"inference_id": id, "metric_name": "demonstration", "value": answer.into()}).to_string();
    let answer = send(served.port, "/v1/feedback", "", &body);
    assert!(answer.contains("feedback_id"), "{answer}");
}

fn learned(desk: &Desk, run: &str) -> Vec<Value> {
    serde_json::from_str(&desk.read(&format!(".hone/runs/{run}/data.json"))).unwrap()
}

#[test]
fn an_answer_of_people_is_imitated_instead_of_the_one_that_was_given() {
    let (desk, _served, _) = told();
    let sft = format!("train sft --model tiny --run r --threads 1 --passes 60 --lr 0.02 --category one {TENANT}");
    desk.hone(&sft).expect(0, "steps", "1 of 1 traces to learn from, 1 with answers of people, ");
    assert_eq!(learned(&desk, "r").iter().filter(|began| began["said"]["is_better"] == true).count(), 1);
    // What it says then are the words of the person.
    let chat = desk.hone("chat tiny --adapter .hone/runs/r/adapter --temperature 0 --max-tokens 20 -m one");
    assert!(chat.out.contains("9 9 9 9"), "{} {}", chat.out, chat.err);
}

#[test]
fn an_answer_of_people_is_preferred_to_the_one_that_was_given() {
    let (desk, _served, _) = told();
    let dpo = format!("train dpo --model tiny --run r --threads 1 {TENANT}");
    desk.hone(&dpo).expect(0, "steps", "1 pair of 3 traces to learn from, 1 with answers of people, ");
}

#[test]
fn a_tool_that_should_have_been_called_is_learned() {
    let desk = Desk::of_practice();
    let (served, _provider) = serve(&desk);
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}});
    let id = ask(&served, "one", &json!([tool]));
    let call = json!({"type": "function", "function": {"name": "look", "arguments": r#"{"at": 9}"#}});
    say(&served, &id, json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    let shown = desk.hone(&format!("trace show {id} {TENANT}"));
    shown.expect(0, "calls look({\"at\": 9})", "");
    let told = desk.hone(&format!("trace show {id} --json {TENANT}")).json();
    assert_eq!(told[0]["feedback"][0]["answer"]["tool_calls"][0]["name"], "look");
    let line = format!("data prepare --at-least 1 --validation 0 --test 0 --key key {TENANT}");
    desk.hone(&format!("{line} --out batch")).expect(0, "nothing was replaced", "1 in train.jsonl");
    let batch: Value = serde_json::from_str(desk.read("batch/train.jsonl").lines().next().unwrap()).unwrap();
    let learned = &batch["segments"][0]["turns"][0]["answer"];
    assert_eq!((&learned["tool_calls"][0]["name"], &learned["content"]), (&json!("look"), &Value::Null), "{batch}");
    let sft = format!("train sft --model tiny --run r --threads 1 {TENANT}");
    desk.hone(&sft).expect(0, "steps", "1 of 1 traces to learn from, 1 with answers of people, ");
}

#[test]
fn what_is_said_later_changes_nothing_of_a_run_that_has_begun() {
    let (desk, served, ids) = told();
    let sft = format!("train sft --model tiny --run r --threads 1 --batch-tokens 4 --passes 30 {TENANT}");
    desk.hone(&sft).expect(0, "steps", "2 of 3 traces to learn from, 1 with answers of people, ");
    let weights = || fs::read(desk.path(".hone/runs/r/adapter/adapter_model.safetensors")).unwrap();
    let expected = weights();
    // The same once more, stopped in the middle.
    fs::remove_dir_all(desk.path(".hone/runs/r")).unwrap();
    let mut child = desk.command(&sft).spawn().unwrap();
    super::train_run::wait_for_lines(&desk, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    ids.iter().for_each(|id| say(&served, id, "9 8 7"));
    desk.hone(&format!("train sft --run r --threads 1 --resume {TENANT}")).expect(0, "steps", "1 with answers of people");
    assert!(weights() == expected);
    fs::remove_dir_all(desk.path(".hone/runs/r")).unwrap();
    desk.hone(&sft).expect(0, "steps", "3 of 3 traces to learn from, 3 with answers of people, ");
    assert!(weights() != expected);
}

#[test]
fn a_batch_has_the_answers_of_people() {
    let (desk, served, _) = told();
    let given = desk.hone(&format!("trace export {TENANT}")).out;
    let line = format!("data prepare --at-least 1 --validation 0 --test 0 --key key {TENANT}");
    desk.hone(&format!("{line} --out batch")).expect(0, "nothing was replaced", "2 in train.jsonl");
    let batch = desk.read("batch/train.jsonl");
    assert!(batch.contains(SHOWN) && !given.contains(SHOWN), "{batch}");
    desk.hone(&format!("{line} --out other --for rl")).expect(0, "nothing was replaced", "1 in train.jsonl");
    assert!(!desk.read("other/train.jsonl").contains(SHOWN), "nobody is reinforced for what somebody else said");
    drop(served);
    let bars = "--points 2 --task-types 2 --task-points 1 --clean 0";
    desk.hone(&format!("data gate {bars} {TENANT}")).expect(0, "2 of at least 2", "3 traces: fit to learn from");
}
