//! `hone loop --agent`: an agent behind a server of its own gets better by what it met there, and its customers are handed over.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::Desk;
use super::serve::{Listening, send};
use serde_json::Value;
use std::process::Child;
use std::time::Duration;

/// An agent is good when it says hello, which one that has read a little of the desk's manual does now and then.
const SETTINGS: &str = r#"
[serve]
models = ["m=local:desk-v0"]

[data]
sft_points = 10
rl_points = 100
task_types = 2
task_points = 2

[reward.helper]
components = [{ name = "hello", kind = "grader", weight = 1.0, role = "primary",
  grader = { type = "string_check", name = "hello", input = "{{ sample.output_text }}", reference = "hello", operation = "ilike" } }]

[train.sft]
lr = 0.003

[train.grpo]
lr = 0.003
scenarios = 16
context = 256
answer_tokens = 8
validate_every = 10
validation = 20
"#;

/// Asks the agent so many questions, each another; says how many of the answers are good.
fn ask(port: u16, numbers: std::ops::Range<usize>) -> usize {
    let is_good = |number: usize| {
        let episode = format!("ask-{number}");
        let task = ["greet", "thank"][number % 2];
        // What differs in numbers alone would be one question.
        let whom: String = number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        let head = format!("x-hone-episode: {episode}\r\nx-hone-task: {task}\r\n");
        let body = format!(
            r#"{{"model":"helper","max_tokens":8,"seed":{number},"messages":[{{"role":"user","content":"{task} {whom}"}}]}}"#
        );
        let told: Value = serde_json::from_str(&send(port, "/v1/chat/completions", &head, &body)).unwrap();
        let said = told["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
        said.to_lowercase().contains("hello")
    };
    numbers.filter(|number| is_good(*number)).count()
}

/// A process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_learns_from_its_own_traffic_and_takes_it_over() {
    let desk = Desk::with(&[("hone.toml", SETTINGS)]);
    desk.hone("loop --agent helper").expect(2, "", "is no agent of the registry");
    // A small loop makes a model that says something.
    let small = "loop --pages 3000 --traces 200 --episodes 100 --steps 1 --tasks 50 --json";
    desk.hone(small).expect(1, "\"verdict\"", "this is v0");
    desk.hone("deploy add helper v0 --model m").expect(0, "added", "serves");
    let served = Listening::start(&desk, "serve --address 127.0.0.1:0 --context 256 --threads 1");
    desk.hone("loop --agent helper --steps 1").expect(1, "", "gate `points` refuses: 0 of 10");
    let before = ask(served.port, 0..300);
    // Of some somebody says what the answer should have been.
    for number in (0..300).step_by(10) {
        let said = format!(r#"{{"episode_id":"ask-{number}","metric_name":"demonstration","value":"hello to you"}}"#);
        assert!(send(served.port, "/v1/feedback", "", &said).contains("feedback_id"));
    }

    let mut learning = Killed(desk.command("loop --agent helper --steps 20 --tasks 50 --json").spawn().unwrap());
    // It is promoted by a person here; by evidence it would be after some thousand episodes.
    let version = "agent-helper-2-1";
    let mut status = String::new();
    for _ in 0..200 {
        status = desk.hone("deploy status helper").out;
        if status.contains(version) || learning.0.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(status.contains(version), "no canary was started: {status}");
    desk.hone("deploy promote helper").expect(0, "gets 50.0 %", "");
    desk.hone("deploy promote helper").expect(0, "has taken over", "to go back");
    assert_eq!(learning.0.wait().unwrap().code(), Some(0));
    let after = ask(served.port, 300..600);
    assert!(after > before + 90, "{before} of 300 answers were good before, and {after} after");

    // Answers of people are imitated where what they answer is learned from; what is played again goes as it went.
    let batch = |file: &str| desk.read(&format!(".hone/batches/agent-helper-2/{file}.jsonl"));
    let shown = batch("shown");
    assert!((1..=30).contains(&shown.lines().count()) && shown.lines().all(|line| line.contains("hello to you")), "{shown}");
    assert!(["train", "validation", "test"].iter().all(|part| !batch(part).contains("hello to you")));

    // A loop that has ended says the same again, and the next one begins where it ended.
    let again = desk.hone("loop --agent helper --resume --json").expect(0, "\"promoted\"", "").json()[0].clone();
    assert_eq!((again["verdict"].as_str(), again["drill"].as_str()), (Some("better"), Some("not_started")));
    assert!(again["after"]["completion"].as_f64() > again["before"]["completion"].as_f64(), "{again}");
    desk.hone("loop --agent helper --steps 1 --tasks 50").expect(
        1,
        "points over agent-helper-2-1",
        "training goes on from agent-helper-2-grpo",
    );
}
