//! The benchmarks keep the form that others read, and what they count must be right; how fast it was is not asserted.

use super::{Desk, is_slow, server};

/// 20 kills, or 300 where slow tests run.
fn kill(desk: &Desk, store: &str) {
    let n_kills = if is_slow() { 300 } else { 20 };
    let ended = desk.hone(&format!("bench crash --kills {n_kills} --store {store} --json --quiet")).expect(0, "{", "");
    let report = &ended.json()[0];
    for key in ["lost", "duplicated", "corrupt"] {
        assert_eq!(report[key], 0, "{report}");
    }
    assert_eq!((&report["store"], &report["kills"]), (&store.into(), &n_kills.into()));
    assert!(report["acked"].as_u64().unwrap_or(0) > 0, "{report}");
    assert_eq!(report["bound"], 3.0 / f64::from(n_kills));
}

#[test]
fn sqlite_keeps_what_it_acknowledged_through_kills() {
    kill(&Desk::new(), "sqlite");
}

#[test]
fn postgres_keeps_what_it_acknowledged_through_kills() {
    let Some(url) = server() else {
        println!("skipped: HONE_TEST_POSTGRES is not set (`cargo xtask test` sets it)");
        return;
    };
    kill(&Desk::new().set("HONE_DATABASE_URL", &url), "postgres");
}

#[test]
fn the_store_benchmark_reports_what_it_promises() {
    let desk = match server() {
        Some(url) => Desk::new().set("HONE_DATABASE_URL", &url),
        None => Desk::new(),
    };
    let ended = desk.hone("bench store --traces 300 --rounds 1 --json --quiet").expect(0, "{", "");
    let report = &ended.json()[0];
    let shared = ["fsync_p50_ms", "ack_p50_ms", "ack_p99_ms", "traces_per_s"];
    let check = |store: &str, own: &[&str]| {
        for key in shared.iter().chain(own) {
            assert!(report[store][key].as_f64().is_some_and(|figure| figure > 0.0), "{store}.{key} in {report}");
        }
    };
    check("sqlite", &["vs_bulk", "vs_batched"]);
    if server().is_some() {
        check("postgres", &["vs_copy"]);
    }
    let left: Vec<_> = std::fs::read_dir(desk.folder.path()).expect("the desk").collect();
    assert!(left.is_empty(), "a benchmark leaves nothing behind: {left:?}");
}

#[test]
fn the_large_benchmark_counts_what_comes_out() {
    let ended = Desk::new().hone("bench large --traces 3000 --json --quiet").expect(0, "{", "");
    let report = &ended.json()[0];
    assert_eq!((&report["traces"], &report["exported"]), (&3000.into(), &3000.into()));
    assert!(report["list_plan"].as_str().is_some_and(|plan| plan.contains("USING INDEX traces_by_category")), "{report}");
    assert!(report["import_rss_mb"].as_u64().is_some_and(|mb| mb > 0 && mb < 300), "{report}");
}

#[test]
fn sampler_and_trainer_agree_to_the_bit_through_kills() {
    let report = Desk::new().hone("bench onpolicy --sequences 24 --kills 2 --json --quiet").expect(0, "\"max_abs_diff\":0.0", "");
    let report = &report.json()[0];
    assert_eq!(report["sequences"], 24);
    assert!(report["tokens"].as_u64().is_some_and(|n| n >= 24 * 8), "{report}");
    assert_eq!(report["kills"], 2, "a run was over before it could be killed");
    assert_eq!(report["adapter_hash_1_thread"], report["adapter_hash_killed_and_resumed"]);
}

#[test]
fn the_dashboard_benchmark_asks_for_every_page() {
    let ended = Desk::new().hone("bench dashboard --traces 300 --requests 2 --json --quiet").expect(0, "{", "");
    let report = &ended.json()[0];
    let pages = report["pages"].as_array().expect("a list of pages");
    assert_eq!((report["traces"].as_u64(), pages.len()), (Some(300), 5));
    for page in pages {
        assert!(page["p99_ms"].as_f64() >= page["p50_ms"].as_f64() && page["bytes"].as_u64() > Some(1000), "{page}");
    }
}

#[test]
fn the_gateway_benchmark_keeps_its_form() {
    let ended = Desk::new().hone("bench gateway --seconds 1 --rounds 1 --rate 50 --json --quiet").expect(0, "{", "");
    let report = &ended.json()[0];
    for number in ["added_p50_ms", "added_p99_ms", "fsync_p99_ms", "overload_goodput"] {
        assert!(report[number].is_number(), "{report}");
    }
    assert!(report["rps"]["median"].as_f64().is_some_and(|rate| rate > 10.0), "{report}");
    assert!(report["rss_mb"].as_f64().is_some_and(|mb| mb > 1.0), "{report}");
    assert_eq!((report["streams_ok"].as_u64(), report["failed"].as_u64()), (Some(2000), Some(0)), "{report}");
    assert!(report["overload_refused"].as_u64().is_some_and(|n| n > 0), "{report}");
}

#[test]
fn the_canary_benchmark_keeps_its_form() {
    let ended = Desk::new().hone("bench canary --runs 3 --seed 2 --json --quiet").expect(0, "{", "");
    let report = &ended.json()[0];
    for share in ["aa_false_rollback", "margin_false_promote", "minus5_false_promote"] {
        assert!(report[share].is_number(), "{report}");
    }
    for points in ["-30", "-10", "-5"] {
        assert!(report["median_rows"][points].as_f64().is_some_and(|rows| rows > 20.0), "{report}");
    }
    assert!(report["dead_p95_rows"].as_f64().is_some_and(|rows| rows < 200.0), "{report}");
    assert_eq!((&report["improve"]["false_promote"], &report["improve"]["promote_plus15"]), (&0.0.into(), &1.0.into()));
    let again = Desk::new().hone("bench canary --runs 3 --seed 2 --json --quiet").expect(0, "{", "");
    assert_eq!(&again.json()[0], report);
}

#[test]
fn the_bandit_benchmark_plays_digits_where_there_are_some() {
    let desk = Desk::new();
    let ended = desk.hone("bench bandit --decisions 200 --json").expect(0, "{", "no digits_mean_reward");
    assert!(ended.json()[0]["decision_p99_us"].as_f64().is_some_and(|micros| micros > 0.0));
    assert_eq!(ended.json()[0].get("digits_mean_reward"), None);
    let table = desk.folder.path().join("digits.csv");
    std::fs::write(&table, "a,b,label\n16,0,0\n0,16,1\n").expect("a table");
    let ended = desk.hone("bench bandit --decisions 200 --digits digits.csv --rounds 500 --json").expect(0, "{", "");
    assert!(ended.json()[0]["digits_mean_reward"].as_f64().is_some_and(|reward| reward > 0.9));
    std::fs::write(&table, "a,b,label\n16,0,0\n0,1\n").expect("a table");
    desk.hone("bench bandit --digits digits.csv").expect(2, "", "line 3: it has not as many fields");
}

#[test]
fn the_bombs_benchmark_names_the_slowest() {
    let ended = Desk::new().hone("bench bombs --rounds 1 --json --quiet");
    let report = &ended.json()[0];
    assert!(report["programs"].as_u64().is_some_and(|n| n > 300) && report["plain_ms"].as_f64() > Some(0.0), "{report}");
    let slowest = report["slowest"].as_array().expect("a list of programs");
    let times: Vec<f64> = slowest.iter().filter_map(|bomb| bomb["times"].as_f64()).collect();
    assert!(times.len() == 12 && times.is_sorted_by(|a, b| a >= b) && Some(times[0]) == report["times_max"].as_f64(), "{report}");
    assert!(slowest.iter().all(|bomb| bomb["verdict"].as_str().is_some_and(|said| !said.contains("syntax error"))), "{report}");
    assert_eq!(ended.code, i32::from(times[0] > 10.0), "{report}");
}

#[test]
fn the_arc_benchmark_verifies_the_same_programs_here_and_in_cpython() {
    let desk = Desk::new();
    let quick = "bench arc --seconds 0.01 --rounds 1 --json --quiet";
    let report = desk.hone(quick).expect(0, "{", "").json().remove(0);
    assert!(["programs_per_s", "runs_per_s"].iter().all(|key| report[key].as_f64().is_some_and(|rate| rate > 0.0)), "{report}");
    assert!(report.get("verify").is_none(), "{report}");
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let pair = |input: &str, output: &str| format!(r#"{{"input": {input}, "output": {output}}}"#);
    let task = format!(
        r#"{{"id": "67a3c6ac", "train": [{}], "test": [{}]}}"#,
        pair("[[1, 2], [3, 4]]", "[[2, 1], [4, 3]]"),
        pair("[[5, 6]]", "[[6, 5]]")
    );
    std::fs::write(desk.path("tasks.jsonl"), task).expect("written");
    let report = desk.hone(&format!("{quick} --tasks tasks.jsonl")).expect(0, "{", "").json().remove(0);
    let verified = &report["verify"];
    assert_eq!(
        (&verified["grids"], &verified["solved"], &verified["python_solved"]),
        (&2.into(), &1.into(), &1.into()),
        "{report}"
    );
    let rates = ["grids_per_s", "python_grids_per_s"];
    assert!(rates.iter().all(|key| verified[key].as_f64().is_some_and(|rate| rate > 0.0)), "{report}");
    desk.hone(&format!("{quick} --programs none.py")).expect(2, "", "--tasks");
}

#[test]
fn a_part_that_was_asked_for_and_cannot_run_is_an_error() {
    Desk::new().hone("bench learn --only smollm2").expect(2, "", "the part `smollm2` needs a model");
}
