//! How many reference solutions of MBPP and HumanEval run, with their tests, in the subset.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_program::{Library, Limits, Program};

fn data(name: &str) -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    read(&folder.join(name))
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok();
    if text.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    text
}

/// Runs programs that check themselves, prints how many pass and why others do not, and asserts a floor in percent.
fn check(name: &str, programs: &[(String, String)], floor: usize) {
    let library = Arc::new(Library::new());
    let limits = Limits { fuel: 50_000_000, memory: 256 << 20, ..Limits::default() };
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut n_passed = 0;
    for (id, source) in programs {
        let outcome = Program::parse(source, &library, &limits).and_then(|program| program.run_module(&limits).result);
        match outcome {
            Ok(_) => n_passed += 1,
            Err(error) => {
                reasons.entry(format!("{}: {}", error.kind, error.message)).or_default().push(format!("{id}:{}", error.line));
            }
        }
    }
    println!("{name}: {n_passed} of {} run and pass", programs.len());
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    for (reason, ids) in reasons {
        println!("  {:4}  {}  {}", ids.len(), reason.chars().take(150).collect::<String>(), ids[..ids.len().min(4)].join(" "));
    }
    assert!(n_passed * 100 >= programs.len() * floor, "fewer than {floor} % of {name} pass");
}

#[test]
fn mbpp() {
    let Some(text) = data("mbpp/mbpp.jsonl") else { return };
    let programs: Vec<_> = text
        .lines()
        .map(|line| {
            let task: serde_json::Value = serde_json::from_str(line).unwrap();
            let tests: Vec<_> = task["test_list"].as_array().unwrap().iter().map(|test| test.as_str().unwrap()).collect();
            let parts = [task["code"].as_str().unwrap(), task["test_setup_code"].as_str().unwrap_or(""), &tests.join("\n")];
            (task["task_id"].to_string(), parts.join("\n"))
        })
        .collect();
    check("MBPP", &programs, 70);
}

#[test]
fn humaneval() {
    let Some(text) = data("humaneval/HumanEval.jsonl") else { return };
    let programs: Vec<_> = text
        .lines()
        .map(|line| {
            let task: serde_json::Value = serde_json::from_str(line).unwrap();
            let part = |name: &str| task[name].as_str().unwrap();
            let call = format!("check({})", part("entry_point"));
            (part("task_id").to_owned(), [part("prompt"), part("canonical_solution"), "\n", part("test"), "\n", &call].concat())
        })
        .collect();
    check("HumanEval", &programs, 70);
}
