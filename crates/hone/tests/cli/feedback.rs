//! `hone loop`, much smaller than a person would run it: every stage does its part, and the same seed gives the same table.

use super::Desk;
use serde_json::Value;

const SMALL: &str = "loop --pages 3000 --traces 200 --steps 2 --tasks 50 --json";

/// The report without what the clock says.
fn report(desk: &Desk, line: &str, exit: i32) -> Value {
    let mut report = desk.hone(line).expect(exit, "\"verdict\"", "after ").json()[0].clone();
    let seconds = report.as_object_mut().expect("an object").remove("seconds");
    assert!(seconds.is_some());
    report
}

#[test]
fn every_stage_leaves_its_records_and_the_seed_fixes_the_table() {
    let desk = Desk::new();
    let first = report(&desk, SMALL, 1);
    assert_eq!(first["verdict"], "not_better", "two steps make nobody better: {first}");
    for key in ["completion", "reliability", "tool_adoption", "tokens_per_solved", "format_valid"] {
        assert!(first["before"].get(key).is_some() && first["after"].get(key).is_some(), "{key}: {first}");
    }
    let script = first["script"]["completion"].as_f64().unwrap();
    assert!((0.45..0.75).contains(&script), "easy tickets and a few others: {script}");
    // The agent's 200, two steps of 16 by 16, and twice 50 tasks three times.
    let n_traces = desk.hone("trace list --limit 2000 --json").expect(0, "\"id\"", "").json().len();
    assert_eq!(n_traces, 200 + 2 * 256 + 2 * 150);
    desk.hone("model list").expect(0, "", "no model was added");

    let other_desk = Desk::new();
    assert_eq!(report(&other_desk, &format!("{SMALL} --threads 1"), 1), first, "threads change no bit");
    assert_ne!(report(&other_desk, &format!("{SMALL} --seed 2"), 1)["world_hash"], first["world_hash"]);
    let control = report(&Desk::new(), &format!("{SMALL} --control"), 1);
    assert_eq!((&control["before"], &control["world_hash"]), (&first["before"], &first["world_hash"]));
    assert_ne!(control["after"], first["after"], "other rewards, another model");
}
