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
fn pairs_are_exported_as_they_are_imported() {
    let asked = json!([says("system", "Count."), says("user", "one")]);
    let desk = desk(&[
        json!({"prompt": asked, "chosen": [says("assistant", "9 9")], "rejected": [says("assistant", "1 1")], "category": "c"}),
        json!({"prompt": "one", "completion": "9 1", "label": true}),
    ]);
    desk.hone("trace import set.jsonl --tenant set").expect(0, "", "3 new");
    let ended = desk.hone("trace export --pairs --tenant set").expect(0, "chosen", "no pair of 1 trace in no group\n1 pair");
    let expected = json!({
        "prompt": asked, "chosen": [says("assistant", "9 9")], "rejected": [says("assistant", "1 1")],
        "score_chosen": 1.0, "score_rejected": 0.0, "category": "c",
    });
    assert_eq!(ended.json(), [expected]);
    let report = desk.hone("trace export --pairs --tenant set -o pairs.jsonl --json --quiet").expect(0, "{", "").json();
    assert_eq!((&report[0]["pairs"], &report[0]["in_no_group"]), (&1.into(), &1.into()));
    desk.hone("trace import pairs.jsonl --folder other").expect(0, "", "2 new, 0 already there, 0 conflicting, 0 bad");
    desk.hone("trace export --pairs --folder other").expect(0, "chosen", "1 pair").json().iter().for_each(|again| {
        assert_eq!((&again["prompt"], &again["chosen"]), (&asked, &json!([says("assistant", "9 9")])));
    });
    // What earned the same is no better.
    let desk =
        Desk::with(&[("all.jsonl", &desk.hone("trace export --tenant set").out.replace("\"total\":0.0", "\"total\":1.0"))]);
    desk.hone("trace import all.jsonl --tenant set").expect(0, "", "3 new");
    desk.hone("trace export --pairs --tenant set").expect(0, "", "0 pairs");
    desk.hone("trace export --pairs --format art").expect(2, "", "--pairs");
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
    let entries =
        json!([{"instruction": "one", "output": "9"}, {"instruction": 3, "output": "7"}, {"instruction": "two", "output": "8"}]);
    let text = serde_json::to_string_pretty(&entries).unwrap();
    fs::write(desk.path("list.json"), &text).unwrap();
    let bad = "list.json, entry 2: instruction: must be a text";
    let placed = format!("{bad} (it begins in line 6 of the file)");
    desk.hone("trace import list.json --strict").expect(1, "", &format!("{placed}\n1 bad line: nothing was written"));
    desk.hone("trace import list.json").expect(1, "", &format!("{placed}\n2 new, 0 already there, 0 conflicting, 1 bad"));
    fs::write(desk.path("list.json"), entries.to_string()).unwrap();
    desk.hone("trace import list.json").expect(1, "", &format!("{bad}\n0 new, 2 already there, 0 conflicting, 1 bad"));
    fs::write(desk.path("list.json"), text.trim_end().trim_end_matches(']')).unwrap();
    desk.hone("trace import list.json").expect(1, "", "list.json, entry 4: the list ends without `]`: the file is cut off");
}

/// What is not closed costs its own entry, and what begins with a bracket need not be a list.
#[test]
fn a_damaged_entry_costs_no_other() {
    let desk = desk(&[]);
    let import = |text: &str, code: i32, says: &str| {
        fs::write(desk.path("any.json"), text).unwrap();
        desk.hone("trace import any.json --folder other").expect(code, "", says);
        fs::remove_dir_all(desk.path("other")).unwrap_or_default();
    };
    let good = |n: usize| json!({"messages": [says("user", &n.to_string()), says("assistant", "9")]}).to_string();
    let mut entries: Vec<String> = (0..50).map(good).collect();
    let list = |entries: &[String]| format!("[\n{}\n]\n", entries.join(",\n"));
    import(&list(&entries), 0, "50 new, 0 already there, 0 conflicting, 0 bad");
    entries[10] = good(10).replace("}]", "}");
    import(&list(&entries), 1, "49 new, 0 already there, 0 conflicting, 1 bad");
    entries[10] = good(10).replace("\"9\"", "\"9");
    import(&list(&entries), 1, "49 new, 0 already there, 0 conflicting, 1 bad");
    import(&format!("[2026-01-01] starting\n{}\n{}\n", good(1), good(2)), 1, "2 new, 0 already there, 0 conflicting, 1 bad");
    import(&format!("[]\n{}\n", good(1)), 1, "1 new, 0 already there, 0 conflicting, 1 bad");
    import(&format!("[{}]\n[{}]\n", good(1), good(2)), 0, "2 new");
    import(" [\n]\n", 0, "0 new, 0 already there, 0 conflicting, 0 bad");
    let pretty = |n: usize| serde_json::to_string_pretty(&serde_json::from_str::<Value>(&good(n)).unwrap()).unwrap();
    import(&format!("{}\n{}\n", pretty(1), pretty(2)), 0, "2 new, 0 already there, 0 conflicting, 0 bad");
    import(&pretty(1), 0, "1 new");
    import(&json!({"data": [1]}).to_string(), 1, "or bring one record to a line: `jq -c '.data[]' FILE | hone trace import -`");
    fs::write(desk.path("any.json"), [0x1f, 0x8b, 8, 0]).unwrap();
    desk.hone("trace import any.json").expect(1, "", "this is compressed: `zcat FILE | hone trace import -` reads it");
}

/// Who imports an example says what it earned where nobody else does.
#[test]
fn what_people_said_of_a_trace_outlives_another_import() {
    let desk = desk(&[json!({"messages": [says("user", "one"), says("assistant", "9")]})]);
    desk.hone("trace import set.jsonl --reward 1").expect(0, "", "1 new");
    let mut trace: Value = desk.hone("trace export").json().remove(0);
    let mut said = trace["rewards"][0].clone();
    said["id"] = json!("0194e0c5-7d80-8000-8000-000000000001");
    said["by"] = json!({"kind": "human", "name": "desk"});
    said["total"] = json!(0.0);
    trace["rewards"].as_array_mut().unwrap().push(said);
    fs::write(desk.path("said.jsonl"), trace.to_string()).unwrap();
    desk.hone("trace import said.jsonl --folder other").expect(0, "", "1 new");
    desk.hone("trace import set.jsonl --reward 1 --folder other").expect(0, "", "0 new, 1 already there");
    assert_eq!(desk.hone("trace list --json --folder other").json()[0]["reward"], 0.0);
}

/// Shards of a set are the set.
#[test]
fn pairs_that_share_an_answer_may_stand_in_two_files() {
    let desk = desk(&[json!({"prompt": "Q", "chosen": "A", "rejected": "B"})]);
    fs::write(desk.path("more.jsonl"), json!({"prompt": "Q", "chosen": "A", "rejected": "C"}).to_string()).unwrap();
    desk.hone("trace import set.jsonl more.jsonl --tenant set").expect(0, "", "4 new, 0 already there, 0 conflicting, 0 bad");
    desk.hone("trace import more.jsonl set.jsonl --tenant set").expect(0, "", "0 new, 4 already there, 0 conflicting, 0 bad");
    desk.hone("trace export --pairs --tenant set").expect(0, "chosen", "2 pairs");
}
