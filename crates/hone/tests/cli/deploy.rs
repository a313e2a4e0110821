//! `hone deploy`: the registry and what a person asks of a canary, without any server.

use super::Desk;

#[test]
fn versions_are_added_and_do_not_change() {
    let desk = Desk::with(&[("prompt.txt", "be brief\n")]);
    desk.hone("deploy status").expect(0, "", "there are no agents yet; add one with `hone deploy add");
    desk.hone("deploy status desk").expect(2, "", "there is no agent `desk`");
    desk.hone("deploy add desk v1 --model gpt --prompt prompt.txt").expect(0, "desk v1 is added", "it serves");
    desk.hone("deploy add desk v1 --model gpt --prompt prompt.txt").expect(0, "desk v1 is there already", "it serves");
    desk.hone("deploy add desk v1 --model other").expect(2, "", "is there, and is another one");
    desk.hone("deploy add desk@home v1 --model gpt").expect(2, "", "`@` stands between");
    desk.hone("deploy add desk v2 --model gpt --temperature 3").expect(2, "", "--temperature 3 is not between 0 and 2");
    desk.hone("deploy add desk v2 --model gpt --adapter nowhere").expect(2, "", "there is no model `gpt`");
    desk.hone("deploy add desk v2 --model gpt --base gpt").expect(2, "", "--adapter");
    desk.hone("deploy add desk v2 --model gpt --tenant other").expect(2, "", "another tenant has an agent `desk`");
    desk.hone("deploy status nobody").expect(2, "", "there is no agent `nobody`");
    desk.hone("deploy status --tenant other").expect(0, "", "there are no agents yet");
    let status: serde_json::Value = serde_json::from_str(&desk.hone("deploy status --json").out).expect("JSON");
    assert_eq!((status["live"].as_str(), status["canary"].is_null()), (Some("v1"), true), "{status}");
    let told = desk.hone("deploy add gpt v1 --model gpt");
    assert!(!told.err.contains("it serves"), "{}", told.err);
    told.expect(0, "gpt v1 is added", "`gpt` is the name of a model too");
}

#[test]
fn a_person_moves_a_canary_and_what_has_ended_stays_so() {
    let desk = Desk::new();
    desk.hone("deploy add desk v1 --model gpt").expect(0, "added", "serves");
    desk.hone("deploy start desk v2").expect(2, "", "has no version v2");
    desk.hone("deploy start desk v1").expect(2, "", "desk v1 serves already");
    desk.hone("deploy add desk v2 --model gpt --temperature 0").expect(0, "added", "hone deploy start desk v2");
    desk.hone("deploy promote desk").expect(2, "", "no canary of `desk` runs");
    for (flags, complaint) in [
        ("--rule non_inferior --gain 0.2", "--gain has no effect"),
        ("--rule non_inferior --margin 0", "margin is 0"),
        ("--shares 0.5,0.1", "share is 0.1"),
        ("--shares 0.1,0.5 --min-outcomes 10", "1 numbers for 2 shares"),
        ("--max-cost-rise much", "or `off`"),
    ] {
        desk.hone(&format!("deploy start desk v2 {flags}")).expect(2, "", complaint);
    }
    desk.hone("deploy start desk v2 --max-cost-rise off").expect(0, "canary v2 gets 10.0 % of new episodes", "");
    desk.hone("deploy start desk v2").expect(2, "", "a canary of desk v2 runs already");
    desk.hone("deploy resume desk").expect(2, "", "is not paused");
    desk.hone("deploy pause desk").expect(0, "is held at 10.0 %", "");
    desk.hone("deploy resume desk").expect(0, "gets 10.0 %", "");
    desk.hone("deploy promote desk").expect(0, "gets 50.0 %", "");
    desk.hone("deploy rollback desk").expect(0, "was taken back", "");
    desk.hone("deploy promote desk").expect(2, "", "no canary of `desk` runs");
    let status: serde_json::Value = serde_json::from_str(&desk.hone("deploy status desk --json").out).expect("JSON");
    assert_eq!((status["live"].as_str(), status["canary"]["state"].as_str()), (Some("v1"), Some("rolled_back")));
    assert_eq!(status["canary"]["n_awaited"], serde_json::json!({"canary": 0, "control": 0}));
    let actions: Vec<&str> = status["canary"]["decisions"]
        .as_array()
        .expect("decisions")
        .iter()
        .filter_map(|decided| decided["decision"]["action"].as_str())
        .collect();
    assert_eq!(actions, ["hold", "pause", "resume", "promote", "roll_back"]);
    // Another canary may begin, and a person may carry it to the end.
    desk.hone("deploy start desk v2 --shares 0.5").expect(0, "gets 50.0 %", "");
    let back = "to go back: `hone deploy start desk v1 --shares 0.5`, then `hone deploy promote desk`";
    desk.hone("deploy promote desk").expect(0, "has taken over", back);
    // It is told how the version before serves again, and so it does.
    desk.hone("deploy rollback desk").expect(2, "", back);
    desk.hone("deploy promote desk").expect(2, "", "`hone deploy status` says how agents stand");
    desk.hone("deploy start desk v1 --shares 0.5").expect(0, "canary v1 gets 50.0 %", "");
    desk.hone("deploy promote desk").expect(0, "v1 serves", "hone deploy start desk v2");
    desk.hone("deploy start desk v2").expect(0, "canary v2 gets 10.0 %", "");
}
