//! `hone data`: a pool that fails each gate in turn, and batches that can be rebuilt.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use super::Desk;
use hone_trace::Config;
use serde_json::{Value, json};
use std::fmt::Write;

/// Bars that a small pool can reach.
const SMALL: &str = "[data]\nsft_points = 50\nrl_points = 50\ntask_points = 5\n";

const TASKS: [&str; 5] = ["refund", "search", "booking", "billing", "advice"];

/// A trace with answers that are like no other's.
fn trace(n: usize) -> Value {
    let mut answer = String::new();
    for word in 0..30 {
        let _ = write!(
            answer,
            "{} ",
            ["alpha", "beta", "gamma", "delta", "omega", "kappa", "sigma"][(n * (word + 3) + word * word) % 7]
        );
    }
    let _ = write!(answer, "number {n}");
    json!({
        "v": 1,
        "id": id(n),
        "tenant": "default",
        "started": format!("2026-03-{:02}T15:09:{:02}Z", 1 + n / 60 % 28, n % 60),
        "ended": "2026-03-30T15:09:26Z",
        "config": "00".repeat(32),
        "category": TASKS[n % 5],
        "scenario": format!("desk/train/1/{n}"),
        "outcome": "success",
        "segments": [{"turns": [{
            "input": [{"role": "user", "content": format!("please do task {n}")}],
            "answer": {"role": "assistant", "content": answer},
        }]}],
        "rewards": [{
            "id": format!("00000000-0000-8000-9000-{n:012x}"), "at": "2026-03-30T15:10:26Z", "total": 1.0,
            "by": {"kind": "check", "name": "solved"}, "components": [{"name": "solved", "value": 1.0, "weight": 1.0}],
        }],
        "metadata": {"user": format!("u{}", n / 2)},
    })
}

fn id(n: usize) -> String {
    format!("00000000-0000-8000-8000-{n:012x}")
}

fn lines(traces: &[Value]) -> String {
    traces.iter().map(|trace| format!("{trace}\n")).collect()
}

fn pool(n: usize) -> Vec<Value> {
    (0..n).map(trace).collect()
}

/// A desk whose store holds these.
fn desk(settings: &str, traces: &[Value]) -> Desk {
    let desk = Desk::with(&[("hone.toml", settings), ("pool.jsonl", &lines(traces))]);
    desk.hone("trace import pool.jsonl --quiet").expect(0, "", "");
    desk
}

/// The pool is refused by this gate alone, and by this record.
#[track_caller]
fn refused(desk: &Desk, line: &str, gate: &str, record: &str, why: &str) {
    let ended = desk.hone(&format!("{line} --json")).expect(1, "\"pass\":false", "");
    let verdict = &ended.json()[0];
    let failed: Vec<&Value> = verdict["gates"].as_array().expect("gates").iter().filter(|gate| gate["pass"] == false).collect();
    assert_eq!(failed.iter().map(|gate| gate["name"].as_str().expect("a name")).collect::<Vec<_>>(), [gate], "{verdict}");
    if !record.is_empty() {
        assert!(failed[0]["records"].as_array().expect("records").contains(&record.into()), "{verdict}");
        assert!(failed[0]["why"].to_string().contains(why), "{verdict}");
        desk.hone(line).expect(1, record, "1 gate refused").expect(1, why, "refused");
    }
}

#[test]
fn a_good_pool_passes() {
    let desk = desk("", &pool(5000));
    let verdict = &desk.hone("data gate --json").expect(0, "\"pass\":true", "").json()[0];
    let names: Vec<&str> = verdict["gates"].as_array().unwrap().iter().map(|gate| gate["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["points", "clean", "task_types", "privacy", "leaks", "consent"]);
    assert_eq!((&verdict["gates"][0]["value"], &verdict["gates"][0]["bar"]), (&5000.0.into(), &5000.0.into()));
    refused(&desk, "data gate --for rl", "points", "", "");
    desk.hone("data gate --for rl --points 5000").expect(0, "pass     points      5000 of at least 5000", "fit to learn from");
}

#[test]
fn too_few_points_are_refused() {
    refused(&desk(SMALL, &pool(49)), "data gate", "points", "", "");
    let mut poor = pool(50);
    poor[7]["rewards"][0]["total"] = 0.5.into();
    poor[7]["rewards"][0]["components"][0]["value"] = 0.5.into();
    let desk = desk(SMALL, &poor);
    refused(&desk, "data gate", "points", "", "");
    desk.hone("data gate --for rl").expect(0, "50 of at least 50", "fit");
    desk.hone("data gate --quality 50").expect(0, "50 of at least 50", "fit");
}

#[test]
fn a_dirty_pool_is_refused() {
    let dirty = |spoil: &dyn Fn(&mut Value), why: &str| {
        let mut traces = pool(60);
        (55..60).for_each(|n| spoil(&mut traces[n]));
        refused(&desk(SMALL, &traces), "data gate", "clean", &id(57), why);
    };
    dirty(&|trace| trace["segments"][0]["turns"][0]["answer"]["content"] = "".into(), "the answer of turn 1 is empty");
    dirty(&|trace| trace["category"] = Value::Null, "no type of task");
    dirty(&|trace| trace["rewards"][0]["total"] = 2.0.into(), "is not the sum of its parts");
    let says_otherwise = |trace: &mut Value, kind: &str| {
        let mut first = trace["rewards"][0].clone();
        first["by"]["kind"] = kind.into();
        let mut second = first.clone();
        second["id"] = first["id"].as_str().unwrap().replace("-9000-", "-a000-").into();
        first["total"] = 0.9.into();
        first["components"][0]["value"] = 0.9.into();
        trace["rewards"] = json!([first, second]);
    };
    dirty(&|trace| says_otherwise(trace, "check"), "solved gave 0.9 and 1");
    // A model that is asked again may say something else.
    let mut traces = pool(60);
    traces.iter_mut().for_each(|trace| says_otherwise(trace, "judge"));
    desk(SMALL, &traces).hone("data gate").expect(0, "clean", "fit");
    let call = json!([{"id": "c1", "name": "look", "arguments": "{}"}]);
    dirty(
        &|trace| {
            trace["segments"][0]["turns"][0]["answer"]["tool_calls"] = call.clone();
            let next =
                json!({"input": [{"role": "user", "content": "well?"}], "answer": {"role": "assistant", "content": "done"}});
            trace["segments"][0]["turns"].as_array_mut().unwrap().push(next);
        },
        "the call c1 of look has no result",
    );
    dirty(
        &|trace| {
            trace["rewards"] = json!([]);
            trace["outcome"] = "unknown".into();
            trace["ended"] = Value::Null;
        },
        "nobody said how it ended",
    );
    let first = trace(0);
    dirty(&|trace| trace["segments"] = first["segments"].clone(), "says the same as");
    let near = |trace: &mut Value| {
        let words: Vec<String> = (0..400).map(|n| format!("w{n}")).collect();
        trace["scenario"] = "desk/train/1/0".into();
        trace["segments"][0]["turns"][0]["answer"]["content"] = format!("{} {}", words.join(" "), trace["id"]).into();
    };
    let mut traces = pool(70);
    (60..70).for_each(|n| near(&mut traces[n]));
    refused(&desk(SMALL, &traces), "data gate", "clean", &id(65), "says nearly the same as");
    desk(SMALL, &traces).hone("data gate --near-duplicate 100 --clean 80").expect(0, "clean", "fit");
}

#[test]
fn one_type_of_task_is_refused() {
    let mut traces = pool(60);
    traces.iter_mut().for_each(|trace| trace["category"] = "refund".into());
    traces[3]["category"] = "search".into();
    let desk = desk(SMALL, &traces);
    refused(&desk, "data gate", "task_types", "search", "1 of 5 points");
    desk.hone("data gate --task-types 1").expect(0, "1 with enough points", "fit");
}

#[test]
fn a_planted_card_is_refused_and_not_printed() {
    let mut traces = pool(60);
    traces[31]["segments"][0]["turns"][0]["input"][0]["content"] = "pay with 4111 1111 1111 1111 please".into();
    let desk = desk(SMALL, &traces);
    refused(&desk, "data gate", "privacy", &id(31), "1 card");
    assert!(!desk.hone("data gate").out.contains("4111"));
}

#[test]
fn a_leaked_scenario_is_refused() {
    let mut traces = pool(60);
    traces[12]["scenario"] = "desk/test/1/12".into();
    refused(&desk(SMALL, &traces), "data gate", "leaks", &id(12), "desk/test/1/12 is of the test split");
    let desk = desk(SMALL, &pool(60));
    std::fs::write(desk.path("held.txt"), "desk/train/1/44\n").unwrap();
    refused(&desk, "data gate --held-out held.txt", "leaks", &id(44), "scenario desk/train/1/44 is held out");
    std::fs::write(desk.path("held.jsonl"), "{}\n").unwrap();
    desk.hone("data gate --held-out held.jsonl").expect(2, "", "held.jsonl, line 1: there is no `id`");
}

#[test]
fn a_tenant_without_consent_is_refused() {
    let desk = desk(SMALL, &pool(60));
    let mut other = trace(61);
    other["tenant"] = "acme".into();
    std::fs::write(desk.path("other.jsonl"), lines(&[other])).unwrap();
    desk.hone("trace import other.jsonl --tenant acme --quiet").expect(0, "", "");
    desk.hone("data gate").expect(0, "consent", "fit");
    refused(&desk, "data gate --all-tenants", "consent", &id(61), "tenant acme has not consented");
    std::fs::write(desk.path("hone.toml"), format!("{SMALL}consent = ['acme']\n")).unwrap();
    desk.hone("data gate --all-tenants").expect(0, "consent", "61 traces: fit");
}

#[test]
fn a_file_is_judged_like_the_store() {
    let desk = Desk::with(&[("hone.toml", SMALL), ("pool.jsonl", &lines(&pool(60))), ("bad.jsonl", "{}\n")]);
    desk.hone("data gate --from pool.jsonl").expect(
        0,
        "pass     points      60 of at least 50\n\
         pass     clean       60 of 60 traces: 100.00 % of at least 95 %\n\
         pass     task_types  5 with enough points, of at least 5\n\
         pass     privacy     no personal data in 60 traces\n\
         pass     leaks       nothing that is held out in 60 traces\n\
         pass     consent     consent for 60 of 60 traces\n",
        "60 traces: fit to learn from, and all of them clean",
    );
    let dirty: Vec<Value> = pool(61).into_iter().chain([trace(1)]).collect();
    std::fs::write(desk.path("dirty.jsonl"), lines(&dirty)).unwrap();
    let told = "62 traces: fit to learn from; 1 not clean, which `hone data prepare` leaves out";
    desk.hone("data gate --from dirty.jsonl").expect(0, "61 of 62 traces: 98.39 % of at least 95 %", told);
    desk.hone("data gate --from bad.jsonl").expect(2, "", "bad.jsonl, line 1");
    let marked = format!("\u{feff}{}\n  \n", lines(&pool(60)).replace('\n', "\r\n\r\n"));
    std::fs::write(desk.path("marked.jsonl"), marked).unwrap();
    desk.hone("data gate --from marked.jsonl").expect(0, "60 of at least 50", "60 traces: fit");
    desk.hone("data gate").expect(2, "", "there are no records");
    std::fs::write(desk.path("hone.toml"), "[data]\nclean_percent = 101\n").unwrap();
    desk.hone("data gate").expect(2, "", "`data.clean_percent`: 101 is not between 0 and 100");
}

/// A pool in which people say who they are.
fn personal() -> Vec<Value> {
    let mut traces = pool(80);
    for (n, trace) in traces.iter_mut().enumerate().take(40) {
        let text = format!("My name is Ann Miller, write to ann{}@shop.com or call +1 415 555 01{:02}", n % 3, n % 100);
        trace["segments"][0]["turns"][0]["input"][0]["content"] = text.into();
        trace["segments"][0]["turns"][0]["sampled"] = json!({"ids": [1, 2, 3]});
    }
    traces[70]["scenario"] = "desk/test/1/1".into();
    traces
}

#[test]
fn what_an_agent_answered_stands_behind_the_instructions_that_it_had() {
    let config = Config { model: Some("gpt".into()), prompt: Some("Answer kindly.".into()), ..Config::default() };
    let mut traces = pool(60);
    for trace in &mut traces[..30] {
        trace["config"] = config.hash().to_string().into();
        trace["metadata"]["agent"] = json!({"agent": "helper", "version": "v1"});
    }
    let desk = desk(SMALL, &traces);
    std::fs::write(desk.path("prompt.txt"), "Answer kindly.\n").unwrap();
    desk.hone("deploy add helper v1 --model gpt --prompt prompt.txt --quiet").expect(0, "helper v1 is added", "");
    desk.hone("data prepare --out batch --quiet").expect(0, "nothing was replaced", "");
    let all = ["train", "validation", "test"].map(|part| desk.read(&format!("batch/{part}.jsonl"))).concat();
    let first =
        |line: &str| -> Value { serde_json::from_str::<Value>(line).unwrap()["segments"][0]["turns"][0]["input"][0].take() };
    let n_instructed = all.lines().filter(|line| first(line) == json!({"role": "system", "content": "Answer kindly."})).count();
    assert_eq!((all.lines().count(), n_instructed), (60, 30));
}

#[test]
fn a_batch_is_private_divided_and_rebuilt_bit_for_bit() {
    let desk = desk(SMALL, &personal());
    desk.hone("data prepare --out batch --map names.map").expect(0, "email", "wrote batch").expect(
        0,
        "phone",
        "left out: 1 leak",
    );
    let manifest: Value = serde_json::from_str(&desk.read("batch/manifest.json")).unwrap();
    assert_eq!((&manifest["seen"], &manifest["left_out"]["leak"]), (&80.into(), &1.into()));
    assert_eq!(manifest["anonymised"]["turns_without_tokens"], 40);
    let all: String = ["train", "validation", "test"].map(|part| desk.read(&format!("batch/{part}.jsonl"))).concat();
    assert_eq!(all.lines().count(), 79);
    for personal in ["Ann", "Miller", "shop.com", "415 555", "\"u3\"", &id(3)] {
        assert!(!all.contains(personal), "{personal}");
    }
    // Users are whole on one side.
    let users = |part: &str| -> std::collections::BTreeSet<String> {
        let lines = desk.read(&format!("batch/{part}.jsonl"));
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["metadata"]["user"].to_string()).collect()
    };
    assert!(users("train").is_disjoint(&users("test")) && users("train").is_disjoint(&users("validation")));
    assert!(!users("test").is_empty() && !users("validation").is_empty());
    // Again: the same bytes, here and in another place.
    desk.hone("data prepare --out batch").expect(0, "replaced", "the same batch is there");
    desk.hone("data prepare --out again --quiet").expect(0, "replaced", "");
    for file in ["train.jsonl", "validation.jsonl", "test.jsonl", "manifest.json"] {
        assert_eq!(desk.read(&format!("batch/{file}")), desk.read(&format!("again/{file}")), "{file}");
    }
    desk.hone("data prepare --out batch --seed 2").expect(2, "", "batch is there already, and is not this batch");
    desk.hone("data prepare --out small --at-most 40 --at-least 40 --json").expect(0, "\"seen\":80", "");
    // The map opens with the key, and with no other.
    let map = &desk.hone("data reveal names.map --json").expect(0, "Miller", "").json()[0];
    let (pseudonym, _) = map.as_object().unwrap().iter().find(|(_, value)| *value == "ann1@shop.com").unwrap();
    assert!(all.contains(pseudonym));
    desk.hone(&format!("data reveal names.map {pseudonym}")).expect(0, "ann1@shop.com", "");
    std::fs::write(desk.path("other.key"), "ab".repeat(32)).unwrap();
    desk.hone("data reveal names.map --key other.key").expect(2, "", "does not open with this key");
    // What was prepared can be learned from.
    desk.hone("trace import batch/train.jsonl --folder fresh --quiet").expect(0, "", "");
    desk.hone("data gate --from batch/train.jsonl --points 40 --task-points 2").expect(
        0,
        "privacy     no personal data in ",
        "fit",
    );
}

#[test]
fn the_good_one_of_twins_is_taken() {
    let mut traces = pool(60);
    traces[59]["segments"] = traces[3]["segments"].clone();
    traces[59]["rewards"][0]["total"] = 0.1.into();
    traces[59]["rewards"][0]["components"][0]["value"] = 0.1.into();
    // The newest is read first.
    let manifest = &desk(SMALL, &traces).hone("data prepare --out batch --json").expect(0, "\"seen\":60", "").json()[0];
    assert_eq!(manifest["left_out"], json!({"quality": 1}));
}

#[test]
fn a_batch_for_reinforcement_holds_whole_groups() {
    let mut traces = pool(80);
    for (n, trace) in traces.iter_mut().enumerate() {
        trace["group"] = format!("00000000-0000-8000-b000-{:012x}", n / 4).into();
        trace["scenario"] = format!("desk/train/1/{}", n / 4).into();
    }
    let desk = desk(SMALL, &traces);
    let line = "data prepare --for rl --at-most 22 --validation 0 --test 0";
    desk.hone(&format!("{line} --out batch --at-least 20")).expect(0, "nothing was replaced\n", "20 in train.jsonl");
    let mut sizes = std::collections::BTreeMap::new();
    for line in desk.read("batch/train.jsonl").lines() {
        *sizes.entry(serde_json::from_str::<Value>(line).unwrap()["group"].to_string()).or_insert(0) += 1;
    }
    assert_eq!(sizes.into_values().collect::<Vec<_>>(), [4; 5]);
    desk.hone(&format!("{line} --out more --at-least 21")).expect(1, "", "20 of at least 21 points: nothing was written");
}

#[test]
fn half_a_batch_never_looks_whole() {
    let desk = desk(SMALL, &personal());
    desk.hone("data prepare --out batch --at-least 500").expect(1, "", "79 of at least 500 points: nothing was written");
    assert!(!desk.path("batch").exists() && !desk.path(".hone/data.key").exists());
    for wait_ms in [0, 5, 20, 60] {
        let mut child = desk.command("data prepare --out batch").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        if desk.path("batch").exists() {
            assert!(desk.path("batch/manifest.json").exists());
        }
    }
    desk.hone("data prepare --out batch --quiet").expect(0, "replaced", "");
    desk.hone("data prepare --out whole --quiet").expect(0, "replaced", "");
    assert_eq!(desk.read("batch/train.jsonl"), desk.read("whole/train.jsonl"));
    assert!(!desk.path("batch.partial").exists());
    desk.hone("data prepare --out batch --map other.map --seed 2").expect(2, "", "is not this batch");
    assert!(!desk.path("other.map").exists());
    desk.hone("data prepare --out batch2 --map batch2/names.map").expect(2, "", "is inside of the batch");
    desk.hone("data prepare --out batch2 --map hone.toml").expect(2, "", "hone.toml is there already");
    desk.hone("data prepare --out batch2 --at-most 10").expect(2, "", "at most 10 is fewer than the 50");
    std::fs::write(desk.path("held.txt"), "desk/train/1/44\n").unwrap();
    desk.hone("data prepare --out batch2 --held-out held.txt --json").expect(0, "\"leak\":2", "");
    desk.hone("data prepare --out batch3 --quality 101").expect(1, "", "0 of at least 50 points");
}

/// The lines of each file of a batch are as many as its manifest says.
fn is_described(desk: &Desk, batch: &str) {
    let manifest: Value = serde_json::from_str(&desk.read(&format!("{batch}/manifest.json"))).unwrap();
    for output in manifest["outputs"].as_array().unwrap() {
        let text = desk.read(&format!("{batch}/{}", output["file"].as_str().unwrap()));
        assert_eq!(
            (output["traces"].as_u64(), output["bytes"].as_u64()),
            (Some(text.lines().count() as u64), Some(text.len() as u64))
        );
    }
}

#[test]
fn two_processes_never_write_one_batch() {
    let desk = desk(SMALL, &personal());
    for round in 0..4 {
        let line = |n: usize| desk.command(&format!("data prepare --out batch{round}/ --at-most {n}")).spawn().unwrap();
        let ended = [line(60), line(70)].map(|child| child.wait_with_output().unwrap());
        assert!(ended.iter().any(|ended| ended.status.success()), "{ended:?}");
        for ended in ended.iter().filter(|ended| !ended.status.success()) {
            let told = String::from_utf8_lossy(&ended.stderr);
            let is_clear = ["is being written by another process", "is there already, and is not this batch"];
            assert!(is_clear.iter().any(|clear| told.contains(clear)), "{told}");
        }
        is_described(&desk, &format!("batch{round}"));
        assert!(!desk.path(&format!("batch{round}.partial")).exists());
    }
    // Who writes holds the folder.
    std::fs::create_dir(desk.path("batch.partial")).unwrap();
    let held = std::fs::File::open(desk.path("batch.partial")).unwrap();
    held.lock().unwrap();
    desk.hone("data prepare --out batch").expect(2, "", "batch is being written by another process");
    drop(held);
    desk.hone("data prepare --out batch").expect(0, "replaced", "wrote batch");
}

#[test]
fn nothing_foreign_is_removed_or_taken_for_a_batch() {
    let desk = desk(SMALL, &personal());
    std::fs::create_dir(desk.path("batch.partial")).unwrap();
    for name in ["train.jsonl", "thesis.txt"] {
        std::fs::write(desk.path("batch.partial").join(name), "mine").unwrap();
    }
    desk.hone("data prepare --out batch").expect(2, "", "batch.partial/thesis.txt is in the way, and is not of a batch");
    assert_eq!(desk.read("batch.partial/thesis.txt") + &desk.read("batch.partial/train.jsonl"), "minemine");
    std::fs::remove_file(desk.path("batch.partial/thesis.txt")).unwrap();
    desk.hone("data prepare --out batch --quiet").expect(0, "replaced", "");
    std::fs::write(desk.path("batch/test.jsonl"), "").unwrap();
    desk.hone("data prepare --out batch").expect(2, "", "batch/test.jsonl is not what manifest.json beside it says");
}

#[test]
fn anonymisation_is_measured() {
    let desk = Desk::new();
    let report = &desk.hone("bench anonymise --megabytes 1 --rounds 1 --json").expect(0, "{", "").json()[0];
    assert!(report["generated"]["pattern_recall"].as_f64().is_some_and(|recall| recall >= 0.99), "{report}");
    assert_eq!(report["second_pass_found"], 0);
    assert!(report["mb_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
    desk.hone("bench anonymise --megabytes 1 --rounds 1 --labelled nowhere.jsonl").expect(2, "", "nowhere.jsonl");
}
