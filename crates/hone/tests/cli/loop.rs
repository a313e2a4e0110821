//! `hone loop`, much smaller than a person would run it: every stage does its part, and the same seed gives the same table.

use super::Desk;
use serde_json::Value;

const SMALL: &str = "loop --pages 400 --traces 200 --episodes 150 --steps 2 --tasks 50 --json";
/// Bars that so few episodes can reach, and little practice.
const BARS: &str = "[data]\nsft_points = 50\nrl_points = 100\ntask_types = 3\ntask_points = 5\n
[train.grpo]\nscenarios = 8\nvalidation = 40\n";

fn desk() -> Desk {
    let desk = Desk::new();
    std::fs::write(desk.path("hone.toml"), BARS).expect("written");
    desk
}

/// The report without what the clock says.
fn report(desk: &Desk, line: &str, says: &str) -> Value {
    let mut report = desk.hone(line).expect(1, "\"verdict\"", says).json()[0].clone();
    let mut remove = |place: &str, key: &str| {
        let object = report.pointer_mut(place).and_then(Value::as_object_mut).expect("an object");
        assert!(object.remove(key).is_some(), "{place} {key}");
    };
    remove("", "seconds");
    for policy in ["/script", "/before", "/after"] {
        remove(policy, "latency_p50_ms");
        remove(policy, "latency_p50_ms_interval");
    }
    report
}

#[test]
fn every_stage_leaves_its_records_and_the_seed_fixes_the_table() {
    let desk = desk();
    let first = report(&desk, SMALL, "v1: ");
    assert_eq!(first["verdict"], "not_better", "two steps make nobody better: {first}");
    assert_eq!((&first["canary"], &first["drill"]), (&"not_started".into(), &"not_started".into()));
    for key in ["completion", "reliability", "tool_adoption", "tokens_per_solved", "format_valid", "hacks"] {
        assert!(first["before"].get(key).is_some() && first["after"].get(key).is_some(), "{key}: {first}");
    }
    let script = first["script"]["completion"].as_f64().unwrap();
    assert!((0.5..0.8).contains(&script), "easy tickets and some others: {script}");
    // The script's 200, 150 of the first agent, two steps of 8 by 8, 40 tasks to validate by before and after them, and twice 50
    // tasks three times.
    let n_traces = desk.hone("trace list --limit 2000 --json").expect(0, "\"id\"", "").json().len();
    assert_eq!(n_traces, 200 + 150 + 2 * 64 + 2 * 40 + 2 * 150);
    desk.hone("train list").expect(0, "desk-grpo", "");
    desk.hone("deploy status desk").expect(0, "v0 serves", "");

    desk.hone("loop --resume --tenant other").expect(2, "", "there is no loop to go on with");
    let held = std::fs::File::open(desk.path(".hone/loops/desk")).unwrap();
    held.lock().unwrap();
    desk.hone("loop --resume").expect(2, "", "the loop `desk` is at work in another process");
    drop(held);
    let mut again = report(&desk, "loop --resume --json", "answers as desk");
    assert_eq!(again, first, "a loop that has ended says the same again");
    again = report(&desk, &format!("{SMALL} --threads 1"), "v1: ");
    assert_eq!(again["name"], "desk-2", "another loop has another name");
    again["name"] = "desk".into();
    assert_eq!(again, first, "and comes to the same, whatever the threads");
    // What another store has of the folder's loops is not known to this one, and nobody is let in without a key any more.
    for file in ["hone.db", "hone.db-wal", "hone.db-shm"] {
        let _ = std::fs::remove_file(desk.path(&format!(".hone/{file}")));
    }
    desk.hone("key add k --role report").expect(0, "hone-", "key `k` may report");
    let control = report(&desk, &format!("{SMALL} --control"), "v1: ");
    assert_eq!(control["name"], "desk-3", "what the folder has of the others stays theirs");
    let keys = desk.hone("key list --json").json();
    let live: Vec<&Value> = keys.iter().filter(|key| key["revoked_at"].is_null()).map(|key| &key["name"]).collect();
    assert_eq!((keys.len(), live), (2, vec![&Value::from("k")]), "the loop's own key is given back");
    assert_eq!((&control["before"], &control["world_hash"]), (&first["before"], &first["world_hash"]), "it begins alike");
    assert_ne!(control["after"], first["after"], "other rewards, another agent");
}

#[test]
fn a_pool_that_is_too_small_is_refused_by_the_name_of_the_gate() {
    let desk = Desk::new();
    desk.hone("loop --resume").expect(2, "", "there is no loop to go on with");
    let refused = desk.hone("loop --pages 100 --traces 100 --episodes 100 --steps 1 --tasks 50");
    refused.expect(1, "", "gate `points` refuses").expect(1, "", "`sft_points` of `[data]`");
    let again = desk.hone("loop --resume");
    let again = again.expect(1, "", "gate `points` refuses").expect(1, "", "the loop `desk` ends here");
    assert!(!again.err.contains("episodes; \n"), "{}", again.err);
    // Who asks for less goes on.
    let less = "[data]\nsft_points = 1\nrl_points = 1\nclean_percent = 0\ntask_types = 1\ntask_points = 1\n
[train.grpo]\nscenarios = 2\nvalidation = 20\n";
    std::fs::write(desk.path("hone.toml"), less).unwrap();
    let on = desk.hone("loop --resume");
    assert!(on.err.contains("traces worth imitating") && !on.err.contains("ends here"), "{}", on.err);
}
