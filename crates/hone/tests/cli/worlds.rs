//! `hone env`, `rollout`, `reward` and `eval baseline`: from a scenario to a scored group.

use super::{Desk, provider};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// The players that every world has, in the order in which they are asked for.
const PLAYERS: [&str; 3] = ["gold", "random", "empty"];

#[test]
fn gold_is_best_empty_is_nothing_and_the_same_seed_gives_the_same_bytes() {
    let desk = Desk::new();
    for seed in [1, 7] {
        let line = format!("eval baseline -n 8 --json --seed {seed} --concurrency");
        let alone = desk.hone(&format!("{line} 1")).expect(0, "desk:short", "").json();
        let crowd = desk.hone(&format!("{line} 64")).expect(0, "desk:short", "").json();
        assert_eq!(alone, crowd);
        for (figures, player) in alone.iter().zip(PLAYERS.iter().cycle()) {
            let score = figures["score"].as_f64().unwrap();
            match *player {
                "gold" => assert!(score >= 0.98 && figures["reliability"] == 1.0, "{figures}"),
                "empty" => assert_eq!(score, 0.0, "{figures}"),
                _ => assert!(score < 0.9, "{figures}"),
            }
            assert_eq!(figures["policy"], *player);
        }
        let worlds: std::collections::BTreeSet<&str> = alone.iter().filter_map(|line| line["env"].as_str()).collect();
        assert_eq!(worlds.len(), 7, "{worlds:?}");
    }
    assert!(!desk.path(".hone").exists(), "an evaluation that is not recorded leaves nothing behind");
}

#[test]
fn a_rollout_is_recorded_once_and_weighed_again_by_another_recipe() {
    let desk = Desk::new();
    let line = "rollout --env desk --policy random -n 5 --samples 4 --json";
    let first = desk.hone(line).expect(0, "\"traces\":20", "").json();
    assert_eq!(first, desk.hone(line).expect(0, "\"run\"", "").json());
    let listed = desk.hone("trace list --json").expect(0, "\"id\"", "").json();
    assert_eq!(listed.len(), 20);
    assert!(listed.iter().all(|head| head["reward"].is_number()), "{listed:?}");
    let shown = desk.hone(&format!("trace show {}", listed[0]["id"].as_str().unwrap()));
    shown.expect(0, "signals ", "").expect(0, "reward ", "");

    std::fs::write(
        desk.path("steps.toml"),
        "components = [\n\
         { name = 'solved', kind = 'outcome', weight = 1.0, role = 'primary' },\n\
         { name = 'steps', kind = 'steps', free_turns = 1, per_turn = 0.1, cost_max = 0.3, weight = 1.0, role = 'penalty' }]",
    )
    .unwrap();
    let score = "reward score --recipe steps.toml --json";
    let once = desk.hone(score).expect(0, "\"scored\":20", "").json();
    assert!(once[0]["mean_reward"].as_f64().unwrap() < 0.0, "{once:?}");
    assert_eq!(once, desk.hone(score).expect(0, "scored", "").json());
    let rewards =
        |head: &Value| desk.hone(&format!("trace show --json {}", head["id"].as_str().unwrap())).json()[0]["rewards"].clone();
    let of_trace = rewards(&listed[0]).as_array().unwrap().iter().filter(|reward| reward["turn_idx"].is_null()).count();
    assert_eq!(of_trace, 2, "one by each recipe, however often it is weighed");
}

#[test]
fn a_world_weighs_its_own_traces_and_overrules_nobody_unasked() {
    let desk = Desk::new();
    for world in ["desk", "math:sums"] {
        desk.hone(&format!("rollout --env {world} --policy empty -n 1 --samples 2 --quiet")).expect(0, "2 traces", "");
    }
    // What customers said, of one trace of the world and of one that was recorded elsewhere.
    for (id, env) in [("0195a1b2-0000-7000-8000-000000000001", "desk"), ("0195a1b2-0000-7000-8000-000000000002", "elsewhere")] {
        let mut trace = desk.hone("trace export --field metadata.env=desk").json().remove(0);
        trace["id"] = json!(id);
        trace["metadata"]["env"] = json!(env);
        trace["rewards"] = json!([{
            "id": id, "at": "2026-03-14T15:09:26Z", "by": {"kind": "human", "name": "solved"}, "total": 1.0,
        }]);
        trace.as_object_mut().unwrap().remove("group");
        desk.hone_reading("trace import -", trace.to_string().as_bytes()).expect(0, "", "1 new");
    }
    let reward = |id: &str| desk.hone(&format!("trace show --json {id}")).json()[0]["rewards"].as_array().unwrap().len();
    let text = "components = [{ name = 'failed', kind = 'outcome', weight = -1.0, role = 'primary' }]";
    std::fs::write(desk.path("hone.toml"), format!("[reward.desk]\n{text}")).unwrap();

    let said = "1 trace that a person reported on: what was said stays the reward";
    desk.hone("reward score --env desk").expect(0, "2 scored in 1 group,", said);
    let heads = |filter: &str| {
        let heads = desk.hone(&format!("trace list --json {filter}")).json();
        heads.iter().map(|head| head["reward"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(heads("--reward-min 1"), [1.0, 1.0], "what people said is what counts");
    assert_eq!(heads("--field metadata.env=math").len(), 2);
    let ids = ["0195a1b2-0000-7000-8000-000000000001", "0195a1b2-0000-7000-8000-000000000002"];
    assert_eq!(ids.map(reward), [1, 1]);

    let run = desk.hone("trace list --json --field metadata.env=math").json()[0]["id"].as_str().unwrap().to_owned();
    let nothing = "no trace that fits was recorded in the world `desk`";
    desk.hone(&format!("reward score --env desk --field id={run}")).expect(0, "0 scored", nothing);
    let overruled = desk.hone("reward score --env desk --overrule --json").json();
    assert_eq!((&overruled[0]["scored"], &overruled[0]["reported"]), (&json!(3), &json!(0)));
    assert_eq!(ids.map(reward), [2, 1], "the recipe has the last word on its own world");
}

#[test]
fn of_two_recipes_the_one_that_weighed_last_counts() {
    let desk = Desk::new();
    let recipe = |weight: f64| {
        let text = format!(
            "components = [{{ name = 'c', kind = 'signal', signal = 'correct', range = [0, 1], weight = {weight}, role = 'primary' }}]"
        );
        std::fs::write(desk.path(&format!("{weight}.toml")), text).unwrap();
    };
    [0.25, 0.5].into_iter().for_each(recipe);
    desk.hone("rollout --env desk --split train --policy gold -n 20 --samples 1 --quiet").expect(0, "20 traces", "");
    for weight in [0.25, 0.5, 0.25, 0.25] {
        desk.hone(&format!("reward score --recipe {weight}.toml --quiet")).expect(0, &format!("mean reward {weight:.3}"), "");
        let heads = desk.hone("trace list --json").json();
        assert!(heads.iter().all(|head| head["reward"] == weight), "{weight}: {heads:?}");
    }
    let id = desk.hone("trace list --json").json()[0]["id"].as_str().unwrap().to_owned();
    let rewards = desk.hone(&format!("trace show --json {id}")).json()[0]["rewards"].clone();
    // By the world, by one, by the other, and by the first again, who has nothing new to say the last time.
    assert_eq!(rewards.as_array().unwrap().iter().filter(|reward| reward["turn_idx"].is_null()).count(), 4);
    desk.hone("data gate --points 1 --task-types 1 --task-points 1 --quality 0").expect(0, "clean", "fit");
}

#[test]
fn a_rollout_of_more_scenarios_adds_them_and_one_of_other_groups_is_another_run() {
    let desk = Desk::new();
    let check = |how: &str, n_listed: usize| {
        let line = format!("rollout --env desk --policy random --json {how}");
        let played = desk.hone(&line).expect(0, "\"conflicts\":0", "").json();
        assert_eq!(desk.hone("trace list --limit 100 --json").json().len(), n_listed, "{how}");
        played[0]["run"].clone()
    };
    let first = check("-n 2 --samples 2", 4);
    assert_eq!(check("-n 3 --samples 2", 6), first);
    assert_eq!(check("-n 1 --samples 2", 6), first);
    assert_ne!(check("-n 2 --samples 3", 12), first);
    assert_ne!(check("-n 2 --samples 2 --max-turns 1", 16), first);
    assert_eq!(check("-n 2 --samples 2", 16), first);
    // What a baseline records is kept whole too: in the store, a group has all of its traces.
    for (repeats, n_listed) in [(1, 18), (2, 22), (2, 22)] {
        desk.hone(&format!("eval baseline --env desk --policy gold -n 2 --repeats {repeats} --record --quiet"))
            .expect(0, "gold", "");
        assert_eq!(desk.hone("trace list --limit 100 --json").json().len(), n_listed, "{repeats}");
    }
}

#[test]
fn an_adapter_that_nobody_would_have_is_refused() {
    let desk = Desk::new();
    for line in ["rollout --env desk --policy gold", "eval baseline --env desk --policy gold --policy empty"] {
        desk.hone(&format!("{line} -n 1 --adapter nowhere")).expect(2, "", "--adapter is for local models");
    }
}

#[test]
fn the_name_of_a_run_is_not_given_twice() {
    let desk = Desk::new();
    let again = "give this run another name";
    desk.hone("rollout --env desk --policy random -n 5 --samples 4 --run mine").expect(0, "20 traces", "signal");
    desk.hone("rollout --env desk --policy gold -n 5 --samples 4 --run mine").expect(1, "20 traces", again);
    assert_eq!(desk.hone("trace list --json").json().len(), 20);
}

#[test]
fn that_a_world_has_fewer_scenarios_than_asked_for_is_said() {
    let questions: String = (0..40).map(|n| format!("{{\"question\": \"word{n}?\", \"answer\": \"#### {n}\"}}\n")).collect();
    let desk = Desk::with(&[("math.jsonl", &questions)]);
    let fewer = "math:math.jsonl has only ";
    for line in ["rollout --policy gold --samples 1", "eval baseline --policy gold --repeats 1", "env show math:math.jsonl"] {
        let line = if line.starts_with("env") { line.to_owned() } else { format!("{line} --env math:math.jsonl") };
        let many = desk.hone(&format!("{line} --split train -n 50"));
        assert_eq!((many.code, many.err.matches(fewer).count()), (0, 1), "{}", many.err);
        assert!(!desk.hone(&format!("{line} --split train -n 1")).err.contains(fewer));
    }
}

#[test]
fn recorded_traces_are_a_world_of_their_own() {
    let desk = Desk::new();
    desk.hone("rollout --env desk --split train --policy gold -n 40 --samples 1").expect(0, "40 solved", "groups without signal");
    let played = desk.hone("eval baseline --env replay --split train --policy gold -n 20 --repeats 1 --json").json();
    assert!(played[0]["accuracy"].as_f64().unwrap() >= 0.95 && played[0]["score"] == 1.0, "{played:?}");
    let report = &played[0]["replay"];
    assert!(report["share_from_record"].as_f64().unwrap() >= 0.95 && report["share_same_outcome"] == 1.0, "{report}");
    let other = desk.hone("eval baseline --env replay --split train --policy random -n 20 --repeats 1");
    assert!(other.out.contains("drift 0.") || other.out.contains("drift 1."), "{}", other.out);
}

/// The example of a world of the user's own, which ends with the test.
struct Example(std::process::Child);

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_world_of_the_users_own_is_measured_like_any_other() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/external_env.py");
    let started = std::process::Command::new("python3").args([script, "--port", &port.to_string()]).spawn();
    let Ok(_example) = started.map(Example) else {
        println!("skipped: there is no python3");
        return;
    };
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let lines = Desk::new().hone(&format!("eval baseline --env http://127.0.0.1:{port} -n 5 --json")).json();
    let scores: Vec<&Value> = lines.iter().map(|line| &line["score"]).collect();
    assert_eq!((scores[0], scores[2]), (&1.0.into(), &0.0.into()), "{lines:?}");
}

#[test]
fn recipes_stand_in_the_settings_and_unwise_ones_are_named() {
    let desk = Desk::with(&[(
        "hone.toml",
        "[reward.desk]\ncomponents = [\n\
         { name = 'correct', kind = 'signal', signal = 'correct', range = [0, 1], weight = 0.1, role = 'primary' },\n\
         { name = 'talk', kind = 'format', weight = 5.0, role = 'secondary' }]",
    )]);
    desk.hone("reward lint --env desk").expect(0, "`talk`: it can move the total by 5.000", "");
    desk.hone("reward lint --env inbox").expect(0, "", "nothing is unwise");
    desk.hone("reward lint --env nowhere").expect(2, "", "there is no recipe for `nowhere`");
    desk.hone("reward lint").expect(2, "", "--recipe");
    let broken = Desk::with(&[("hone.toml", "[store]\n[reward.desk]\ncomponents = 3")]);
    broken.hone("reward lint --env desk").expect(2, "", "hone.toml:2: `[reward.desk]`");
}

#[test]
fn a_signal_that_no_trace_has_is_said() {
    let desk = Desk::with(&[(
        "hone.toml",
        "[reward.desk]\ncomponents = [\n\
         { name = 'right', kind = 'signal', signal = 'corect', range = [0, 1], weight = -1, role = 'primary' }]",
    )]);
    desk.hone("reward lint --env desk")
        .expect(0, "`right`: the world gives no signal `corect`; it gives", "")
        .expect(0, "correct, format", "")
        .expect(0, "`right`: it is primary, and its weight is -1", "");
    for world in ["2048", "tictactoe", "inbox", "math", "math:sums", "code"] {
        desk.hone(&format!("reward lint --env {world}")).expect(0, "", &format!("nothing is unwise about {}", &world[..4]));
    }
    desk.hone("rollout --env desk --policy gold -n 3 --samples 2 --quiet");
    let score = desk.hone("reward score --env desk --json");
    let score = score.expect(0, "\"lacking\":{\"corect\":6}", "6 of 6 traces have no signal `corect`");
    assert_eq!(score.json()[0]["scored"], 6);
}

#[test]
fn only_files_of_one_language_are_compared() {
    let desk = Desk::with(&[("a.py", "x = 1\n"), ("b.py", "x = 2\n"), ("c.rs", "fn f() {}\n"), ("d.toml", "x = 1\n")]);
    desk.hone("reward diff a.py b.py").expect(0, "score", "");
    desk.hone("reward diff a.py d.toml").expect(2, "", "d.toml: the ending names no language");
    desk.hone("reward diff a.py c.rs").expect(2, "", "c.rs: this is rust, and a.py is python");
    desk.hone("reward diff a.py b.py --reference c.rs").expect(2, "", "c.rs: this is rust");
}

#[test]
fn repeats_of_one_task_are_not_tasks() {
    let desk = Desk::new();
    desk.hone("eval baseline --env desk --policy gold -n 1 --repeats 50").expect(0, "1.00 (0.21-1.00)", "");
}

#[test]
fn files_with_a_mark_and_blank_lines_are_read() {
    let task = r#"{"id": "t", "train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[1]], "output": [[2]]}]}"#;
    let problem =
        r#"{"task_id": 601, "text": "Add one.", "code": "def f(n):\n    return n + 1", "test_list": ["assert f(1) == 2"]}"#;
    let questions: String =
        (0..40).map(|n| format!("{{\"question\": \"word{n}?\", \"answer\": \"#### 1e{}\"}}\n\n", n % 9)).collect();
    let desk = Desk::new();
    for (file, text) in [("arc.jsonl", task), ("code.jsonl", problem), ("math.jsonl", &questions)] {
        std::fs::write(desk.path(file), format!("\u{feff}\n{text}\n\n")).unwrap();
    }
    std::fs::write(desk.path("one.json"), format!("\u{feff}{task}\n")).unwrap();
    desk.hone("env arc show --tasks arc.jsonl t").expect(0, "t", "");
    desk.hone("env arc show --tasks one.json t").expect(0, "t", "");
    for world in ["code:code.jsonl", "math:math.jsonl"] {
        let ended = desk.hone(&format!("rollout --env {world} --split train --policy gold -n 1 --samples 1"));
        assert!(ended.out.contains("1 solved"), "{world}: {} {}", ended.out, ended.err);
    }
}

#[test]
fn nothing_is_learned_of_a_judge_from_nothing() {
    let one = r#"{"group": [{"messages": [{"role": "assistant", "content": "a"}], "label": 1}]}"#;
    let desk = Desk::with(&[("none.jsonl", "{\"group\":[]}\n"), ("one.jsonl", one), ("judge.jsonl", "\"I like them all\"\n")]);
    for file in ["none.jsonl", "one.jsonl"] {
        desk.hone(&format!("reward calibrate {file} --judge script:judge.jsonl")).expect(2, "", "there is nothing to compare");
    }
    assert!(!desk.path(".hone").exists(), "nothing is kept");
}

#[test]
fn a_judge_at_chance_is_refused_and_one_that_cannot_speak_is_said() {
    let desk = Desk::with(&[("judge.jsonl", "\"I like them all\"\n")]);
    let ended = desk.hone("reward calibrate --env desk -n 5 --judge script:judge.jsonl --json");
    let report = ended.expect(1, "n_failed", "judging 5 groups").json();
    assert_eq!((&report[0]["n_groups"], &report[0]["n_failed"]), (&5.into(), &5.into()));
    desk.hone("reward calibrate --env desk --judge gold").expect(2, "", "`gold` plays, and cannot judge");
    desk.hone("reward calibrate --judge script:judge.jsonl").expect(2, "", "required");
}

#[test]
fn a_world_has_scores_and_labels_whatever_its_recipe_asks_for() {
    let ruler = "[reward.desk]\ncomponents = [{ name = 'rank', kind = 'ruler', weight = 1.0, role = 'primary' }]\n";
    let grader = "[reward.math]\ncomponents = [{ name = 'right', kind = 'grader', weight = 1.0, role = 'primary', grader = {
        type = 'string_check', input = '{{ sample.output_text }}', reference = '{{ item.truth.answer }}', operation = 'like' } }]\n";
    let desk = Desk::with(&[("hone.toml", &format!("{ruler}{grader}")), ("judge.jsonl", "\"I like them all\"\n")]);
    let lines = desk.hone("eval baseline --env desk --env math:sums --policy gold --policy empty -n 3 --repeats 1 --json").json();
    let scores: Vec<Option<f64>> = lines.iter().map(|line| line["score"].as_f64()).collect();
    assert_eq!(scores, [1.0, 0.0, 1.0, 0.0].map(Some));
    for world in ["desk", "math:sums"] {
        desk.hone(&format!("reward calibrate --env {world} -n 2 --judge script:judge.jsonl")).expect(
            1,
            "groups",
            "judging 2 groups",
        );
    }
}

#[test]
fn a_real_model_plays_and_judges() {
    let Some(model) = super::real_model() else {
        println!("skipped: no real model; `cargo xtask test` fetches one");
        return;
    };
    let desk = Desk::new();
    let line = format!("eval baseline --env math:sums --policy local:{model} -n 2 --repeats 1 --max-tokens 24 --json");
    let played = desk.hone(&line).expect(0, "accuracy", "").json();
    assert!(played[0]["tokens_per_solved"].is_number() || played[0]["accuracy"] == 0.0, "{played:?}");
    assert!(played[0]["latency_p50_ms"].as_f64().unwrap() > 0.0);
    let line = format!("rollout --env desk --policy local:{model} -n 1 --samples 1 --max-turns 1 --max-tokens 4");
    desk.hone(&line).expect(0, "1 trace", "does not see the 6 tools of this world");
    let line = format!("reward calibrate --env math:sums -n 1 --judge local:{model} --json");
    let judged = desk.hone(&line).expect(1, "n_failed", "judging").json();
    assert_eq!((&judged[0]["n_groups"], &judged[0]["n_failed"]), (&1.into(), &0.into()), "{judged:?}");
}

#[test]
fn providers_that_are_elsewhere_for_everyone_are_found_by_their_variables() {
    let (url, n_calls) = provider::start(|_, _| Some(provider::said("#### 7".into())));
    let base = url.split("/v1").next().unwrap();
    let line = "rollout --env math:sums --policy azure:my-deployment -n 2 --samples 1 --json";
    let desk = Desk::new().set("AZURE_API_BASE", base);
    desk.hone(line).expect(2, "", "there is no key for azure: set AZURE_API_KEY");
    desk.set("AZURE_API_KEY", "sk-4711").hone(line).expect(0, "traces", "");
    assert_eq!(n_calls.load(Ordering::SeqCst), 2);
    let line = "rollout --env math:sums --policy bedrock:m:0 -n 1";
    let desk = Desk::new().set("AWS_REGION", "eu-west-1").set("AWS_ACCESS_KEY_ID", "AKID");
    desk.hone(line).expect(2, "", "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION");
    Desk::new().set("AWS_REGION", "evil.example/").hone(line).expect(2, "", "`evil.example/` is not a region");
}

#[test]
fn worlds_and_policies_that_are_not_there_are_named() {
    let desk = Desk::new();
    desk.hone("env list").expect(0, "tictactoe", "");
    desk.hone("env show desk:short").expect(0, "outcome  success", "");
    for (line, said) in [
        ("env show dusk", "there is no world `dusk`"),
        ("env show math", "write `math:sums`"),
        ("env show desk?fault_rate=2", "2 is not between 0 and 1"),
        ("env show desk?fault=0", "unknown field `fault`"),
        ("env show desk?fault_rate", "has no value"),
        ("env show math:nothing.jsonl", "nothing.jsonl"),
        ("env show http://127.0.0.1:1", "127.0.0.1:1"),
        ("rollout --env desk --policy nobody:x", "there is no provider `nobody`"),
        ("rollout --env desk --policy openai:gpt-5-mini", "set OPENAI_API_KEY"),
        ("rollout --env desk --policy cohere:command-a-03-2025", "set COHERE_API_KEY"),
        ("rollout --env desk --policy azure:gpt", "where azure is depends on you: set AZURE_API_BASE"),
        ("rollout --env desk --policy bedrock:m", "where bedrock is depends on you: set AWS_REGION"),
        ("rollout --env desk --policy local:nothing", "there is no model `nothing`"),
        ("rollout --env desk --policy http://127.0.0.1:1/v1#m --budget 1", "--price IN,OUT"),
        ("rollout --env replay --policy gold", "there are no records"),
        ("eval baseline --policy script:none.jsonl", "none.jsonl"),
    ] {
        desk.hone(line).expect(2, "", said);
    }
}
