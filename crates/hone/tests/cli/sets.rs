//! Data sets of others: imported as they are, and learned from.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::Desk;
use serde_json::{Value, json};
use std::fs;

/// A model, and a file with these lines.
fn desk(lines: &[Value]) -> Desk {
    let desk = Desk::of_practice();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(desk.path("set.jsonl"), lines).unwrap();
    desk
}

fn says(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

#[test]
fn a_set_of_preferences_is_preferred() {
    let asked = json!([says("user", "one")]);
    let desk = desk(&[
        json!({"prompt": asked, "chosen": [says("assistant", "9 9")], "rejected": [says("assistant", "1 1")]}),
        json!({"input": {"messages": asked}, "preferred_output": [says("assistant", "9")], "non_preferred_output": [says("assistant", "1")]}),
        json!({"prompt": "one", "completion": "9 1", "label": true}),
    ]);
    desk.hone("trace import set.jsonl --tenant set").expect(0, "", "5 new, 0 already there, 0 conflicting, 0 bad");
    desk.hone("trace import set.jsonl --tenant set").expect(0, "", "0 new, 5 already there, 0 conflicting, 0 bad");
    let dpo = "train dpo --tenant set --model tiny --run r --threads 1 --passes 20 --lr 0.02";
    desk.hone(dpo).expect(0, "steps", "2 pairs of 5 traces to learn from, 20 steps");
    let metrics = desk.read(".hone/runs/r/metrics.jsonl");
    let last: Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert!(last["values"]["pair_accuracy"].as_f64().unwrap() > 0.99, "{last}");
}

#[test]
fn a_set_of_good_examples_is_imitated_where_who_imports_it_says_so() {
    let told = [
        json!({"messages": [says("user", "one"), says("assistant", "9 9")]}),
        json!({"prompt": "one", "completion": "9", "label": false}),
    ];
    let desk = desk(&told);
    let sft = "train sft --tenant set --model tiny --threads 1 --passes 1";
    desk.hone("trace import set.jsonl --tenant set").expect(0, "", "2 new");
    desk.hone(&format!("{sft} --run a")).expect(
        2,
        "",
        "`hone trace import FILE --reward 1` says so, even where it was imported before",
    );
    desk.hone(&format!("{sft} --run a --category none")).expect(2, "", "`hone trace list` with the same filters shows");
    for _ in 0..2 {
        desk.hone("trace import set.jsonl --tenant set --reward 1").expect(0, "", "0 new, 2 already there, 0 conflicting, 0 bad");
    }
    desk.hone(&format!("{sft} --run b")).expect(0, "its one step", "1 of 2 traces to learn from, 1 step");
    // In another store, in one go.
    desk.hone("trace import set.jsonl --tenant set --reward 1 --folder other").expect(0, "", "2 new");
    let heads = desk.hone("trace list --folder other --tenant set --json").json();
    let mut rewards: Vec<f64> = heads.iter().map(|head| head["reward"].as_f64().unwrap()).collect();
    rewards.sort_by(f64::total_cmp);
    assert_eq!(rewards, [0.0, 1.0]);
    // What is said last counts, also where it was said before.
    for reward in [0, 1, 0, 1] {
        desk.hone(&format!("trace import set.jsonl --tenant set --reward {reward}")).expect(
            0,
            "",
            "0 new, 2 already there, 0 conflicting, 0 bad",
        );
        let heads = desk.hone("trace list --tenant set --json").json();
        let total: f64 = heads.iter().map(|head| head["reward"].as_f64().unwrap()).sum();
        assert_eq!(total, f64::from(reward));
    }
    desk.hone("trace import set.jsonl --tenant set --reward 1e7").expect(2, "", "must be from -1000000 to 1000000");
}

#[test]
fn an_answer_without_weight_is_but_history() {
    let line = |category: &str, weight: u8| {
        let history = json!({"role": "assistant", "content": "1 1 1", "weight": weight});
        let messages = [says("user", "one"), history, says("user", "two"), says("assistant", "9")];
        json!({"messages": messages, "reward": 1, "category": category})
    };
    let desk = desk(&[line("history", 0), line("example", 1)]);
    desk.hone("trace import set.jsonl --tenant set").expect(0, "", "2 new");
    let n_tokens = |category: &str| {
        let sft = format!("train sft --tenant set --model tiny --threads 1 --passes 1 --run {category} --category {category}");
        desk.hone(&sft).expect(0, "its one step", "1 of 1 traces to learn from, 1 step");
        let metrics = desk.read(&format!(".hone/runs/{category}/metrics.jsonl"));
        serde_json::from_str::<Value>(metrics.lines().last().unwrap()).unwrap()["values"]["tokens"].as_f64().unwrap()
    };
    let (history, example) = (n_tokens("history"), n_tokens("example"));
    assert!(example >= history + 3.0, "{example} and {history}");
}

#[test]
fn sets_of_instructions_and_of_speakers_are_imitated() {
    let desk = desk(&[
        json!({"instruction": "one", "input": "", "output": "9"}),
        json!({"conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "9 9"}]}),
    ]);
    desk.hone("trace import set.jsonl --tenant set --reward 1").expect(0, "", "2 new, 0 already there, 0 conflicting, 0 bad");
    let sft = "train sft --tenant set --model tiny --threads 1 --passes 1 --run a";
    desk.hone(sft).expect(0, "its one step", "2 of 2 traces to learn from, 1 step");
}

#[test]
fn a_file_that_is_one_list_is_read_entry_by_entry() {
    let desk = desk(&[]);
    let entries = json!([{"instruction": "one", "output": "9"}, {"instruction": 3}, {"instruction": "two", "output": "8"}]);
    let text = serde_json::to_string_pretty(&entries).unwrap();
    fs::write(desk.path("list.json"), &text).unwrap();
    let bad = "list.json, entry 2: `messages` is missing";
    desk.hone("trace import list.json --strict").expect(1, "", &format!("{bad}\n1 bad line: nothing was written"));
    desk.hone("trace import list.json").expect(1, "", &format!("{bad}\n2 new, 0 already there, 0 conflicting, 1 bad"));
    fs::write(desk.path("list.json"), entries.to_string()).unwrap();
    desk.hone("trace import list.json").expect(1, "", &format!("{bad}\n0 new, 2 already there, 0 conflicting, 1 bad"));
    fs::write(desk.path("list.json"), text.trim_end().trim_end_matches(']')).unwrap();
    desk.hone("trace import list.json").expect(1, "", "list.json, entry 4: the list ends without `]`: the file is cut off");
}
