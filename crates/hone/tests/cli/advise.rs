//! `hone advise`: clusters of failures, proposals, and what becomes of them.

use super::Desk;
use serde_json::{Value, json};

/// Lines of chat logs: episodes of a model at tasks of a type, so many of them solved.
fn episodes(model: &str, task: &str, n_solved: usize, n: usize) -> String {
    let line = |idx: usize| {
        let is_solved = idx < n_solved;
        let said = if is_solved { "It is on its way." } else { "I'm sorry, but I cannot help with that." };
        let episode = json!({
            "messages": [{"role": "user", "content": format!("{task}: where is order {idx}?")}, {"role": "assistant", "content": said}],
            "model": model, "category": task, "reward": u8::from(is_solved),
        });
        format!("{episode}\n")
    };
    (0..n).map(line).collect()
}

fn told(desk: &Desk, command: &str) -> Value {
    let told = desk.hone(command);
    serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("{command}: {error}: {} {}", told.out, told.err))
}

#[test]
fn a_better_config_is_found_proposed_taken_and_turned_down() {
    let all = [episodes("old", "lookup", 60, 150), episodes("new", "lookup", 130, 149)].concat();
    let desk = Desk::with(&[("log.jsonl", all.as_str())]);
    desk.hone("advise").expect(2, "", "there are no records");
    desk.hone("trace import log.jsonl").expect(0, "", "299 new");
    desk.hone("advise").expect(0, "declines to do it", "").expect(0, "model: old → new", "");
    let found = told(&desk, "advise --json");
    assert_eq!((found["episodes"].as_u64(), found["with_outcome"].as_u64()), (Some(299), Some(299)), "{found}");
    assert_eq!((found["failures"][0]["name"].as_str(), found["failures"][0]["n"].as_u64()), (Some("declined"), Some(109)));
    let proposal = &found["configs"][0]["proposals"][0];
    assert_eq!((proposal["kind"].as_str(), proposal["answer"].is_null()), (Some("highest_perf"), true), "{found}");
    assert_eq!(told(&desk, "advise --json"), found, "the same look finds the same");
    let id = &proposal["id"].as_str().unwrap()[..8];
    desk.hone("advise list").expect(0, id, "");
    desk.hone("advise reject nobody").expect(2, "", "there is no advice `nobody`");
    desk.hone(&format!("advise reject {id}")).expect(0, "turned down", "");
    desk.hone("advise").expect(0, "declines", "1 proposal turned down before");
    desk.hone(&format!("advise accept {id}")).expect(0, "taken", "no agent runs on config");
    desk.hone("advise list").expect(0, "taken", "");
    desk.hone("advise --tenant other").expect(2, "", "there are no episodes");
    desk.hone("advise list --tenant other").expect(0, "", "no advice was given yet");
}

#[test]
fn advice_on_an_agent_becomes_a_version_of_it() {
    let rare: String = (0..9).map(|idx| episodes(&format!("rare{idx}"), "lookup", 1, 2)).collect();
    let all = [episodes("old", "lookup", 60, 150), episodes("new", "lookup", 130, 150), rare].concat();
    let desk = Desk::with(&[("log.jsonl", all.as_str())]);
    desk.hone("trace import log.jsonl").expect(0, "", "318 new");
    desk.hone("advise").expect(0, "too few tasks: 2 beside 150", "4 more configs cannot be compared");
    desk.hone("deploy add shop v1 --model old").expect(0, "shop v1 is added", "it serves");
    desk.hone("advise --agent nobody").expect(2, "", "there is no agent `nobody`");
    let found = told(&desk, "advise --agent shop --json");
    let advised = &found["configs"][0];
    assert_eq!((advised["agent"].as_str(), advised["version"].as_str()), (Some("shop"), Some("v1")), "{found}");
    let id = advised["proposals"][0]["id"].as_str().unwrap_or_else(|| panic!("{found}"));
    desk.hone(&format!("advise accept {id}")).expect(0, "taken", "hone deploy start shop v2 --gain 0.10");
    desk.hone("deploy start shop v2 --gain 0.10").expect(0, "canary v2 gets 10.0 %", "");
    desk.hone(&format!("advise accept {id}")).expect(0, "taken", "hone deploy start shop v2");
}

#[test]
fn a_damaged_config_is_named_and_the_others_are_advised_on() {
    let all =
        [episodes("old", "lookup", 60, 150), episodes("new", "lookup", 130, 149), episodes("lost", "lookup", 6, 6)].concat();
    let desk = Desk::with(&[("log.jsonl", all.as_str())]);
    desk.hone("trace import log.jsonl").expect(0, "", "305 new");
    let database = rusqlite::Connection::open(desk.path(".hone/hone.db")).unwrap();
    let sql = "UPDATE documents SET body = '{' WHERE kind = 'config' AND body LIKE '%lost%'";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    let found = desk.hone("advise").expect(0, "model: old → new", "in the store is damaged");
    assert!(found.err.contains("left out with it: 6 episodes"), "{}", found.err);
    assert_eq!(told(&desk, "advise --json --quiet")["episodes"], 299);
    // What was advised before does not hide what is sound either.
    database.execute("UPDATE documents SET body = '{' WHERE kind = 'recommendation'", []).unwrap();
    desk.hone("advise list").expect(0, "", "in the store is damaged");
}

#[test]
fn nothing_is_proposed_where_nobody_said_how_it_went() {
    let silent = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#;
    let desk = Desk::with(&[("log.jsonl", silent)]);
    desk.hone("trace import log.jsonl").expect(0, "", "1 new");
    desk.hone("advise").expect(1, "no outcome", "1 episode without an outcome");
}

#[test]
fn a_damaged_trace_is_passed_by_and_counted() {
    let desk = Desk::with(&[("log.jsonl", episodes("old", "lookup", 5, 30).as_str())]);
    desk.hone("trace import log.jsonl").expect(0, "", "30 new");
    let database = rusqlite::Connection::open(desk.path(".hone/hone.db")).unwrap();
    database.execute("UPDATE bodies SET body = '{' WHERE seq = (SELECT max(seq) FROM bodies)", []).unwrap();
    drop(database);
    desk.hone("advise").expect(0, "29 episodes of 1 config", "1 damaged record passed by");
    assert_eq!(told(&desk, "advise --json")["damaged"].as_u64(), Some(1));
}
