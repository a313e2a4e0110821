//! Every setting of training does something: for each key, two runs that differ in nothing else come to something else.
//!
//! A key of several algorithms is tried with one of them, another one from key to key; slow tests try it with all.

use super::practice::COMMON;
use super::{Desk, is_slow};
use hone_train::settings::{Algorithm, KEYS};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a run comes to.
type Outcome = (i32, String, serde_json::Value);

/// A key, what it is beside, and the value that changes something.
struct Case {
    key: &'static str,
    beside: &'static str,
    value: &'static str,
    /// Where not for all algorithms that have the key.
    of: Option<Algorithm>,
}

/// Keys that two short runs cannot show, with where they are shown.
const ELSEWHERE: [(&str, &str); 2] = [
    ("hacking_z", "reward hacking needs some twenty steps of evidence: hone-train/src/stop/tests.rs and settings/tests.rs"),
    ("max_dollars", "only a judge costs dollars: train_run.rs"),
];

const fn case(key: &'static str, beside: &'static str, value: &'static str) -> Case {
    Case { key, beside, value, of: None }
}

const fn only(of: Algorithm, key: &'static str, beside: &'static str, value: &'static str) -> Case {
    Case { key, beside, value, of: Some(of) }
}

const CASES: &[Case] = &[
    case("seed", "", "2"),
    case("steps", "", "2"),
    case("passes", "", "3"),
    case("lr", "", "0.05"),
    case("lr_floor", "", "1"),
    case("warmup", "", "2"),
    case("rank", "", "2"),
    case("alpha", "", "8"),
    case("beta2", "", "0.5"),
    case("weight_decay", "", "0.5"),
    case("grad_clip", "", "0.0001"),
    case("scenarios", "", "3"),
    case("samples", "", "4"),
    case("temperature", "", "0.5"),
    case("answer_tokens", "", "2"),
    case("turns", "", "1"),
    only(Algorithm::Grpo, "context", "", "200"),
    only(Algorithm::Ppo, "context", "", "210"),
    case("context", "", "300"),
    // PPO learns from tokens as they were sampled: only its validation remembers.
    only(Algorithm::Ppo, "memory", "--validation 256", "0"),
    case("memory", "", "0"),
    case("resamples", "", "2"),
    case("max_staleness", "", "1"),
    case("loss", "", "dapo"),
    only(Algorithm::Grpo, "clip_low", "--epochs 3", "0.0001"),
    case("clip_low", "", "0.0001"),
    only(Algorithm::Grpo, "clip_high", "--epochs 3", "0.0001"),
    case("clip_high", "", "0.0001"),
    case("kl", "", "0.5"),
    case("kl_estimator", "--kl 0.5", "k2"),
    case("kl_in", "--kl 0.5", "reward"),
    case("entropy_bonus", "", "0.1"),
    case("epochs", "", "2"),
    case("minibatches", "", "2"),
    case("credit", "--loss grpo", "turns"),
    case("centring", "", "leave_one_out"),
    case("deviation_min", "--centring deviation", "1"),
    case("turn_baseline", "--credit turns", "per_turn"),
    only(Algorithm::Grpo, "gamma", "--credit turns", "0.5"),
    only(Algorithm::Ppo, "gamma", "", "0.5"),
    case("overlong", "", "128"),
    case("correction", "--max-staleness 1", "none"),
    case("correction_max", "--max-staleness 1", "1.001"),
    case("quality_min", "", "1.2"),
    only(Algorithm::Dpo, "traces", "", "40"),
    only(Algorithm::Ppo, "traces", "", "60"),
    case("traces", "", "120"),
    case("batch_tokens", "", "200"),
    case("awr_temperature", "", "3"),
    case("awr_weight_max", "", "1.5"),
    case("batch_pairs", "", "3"),
    case("pair_margin", "", "0.9"),
    case("dpo_beta", "", "1"),
    case("label_smoothing", "", "0.3"),
    case("gae_lambda", "", "0"),
    case("value_clip", "", "0"),
    case("value_lr", "", "0.5"),
    case("value_epochs", "", "1"),
    case("validate_every", "", "3"),
    case("validation", "", "5"),
    case("checkpoints", "", "0"),
    case("measure", "--validation 64", "format"),
    only(Algorithm::Grpo, "evidence", "--plateau 5 --steps 10 --validate-every 5", "judge"),
    case("evidence", "--plateau 5", "judge"),
    case("plateau", "", "1"),
    case("target", "--measure format --validation 64", "0.001"),
    case("baseline", "--measure format --validation 64", "0.001"),
    case("margin", "--measure format --validation 64 --baseline 0.001", "0.9"),
    case("max_tokens", "", "1"),
    case("max_seconds", "", "0.000001"),
    case("max_turns", "--plateau 1", "0.01"),
    case("max_episode_tokens", "--plateau 1", "0.01"),
    case("max_episode_ms", "--plateau 1", "0.000001"),
    // A loss that is not finite, and a scale at which gradients are not.
    only(Algorithm::Grpo, "bad_steps", "--entropy-bonus 1e308", "1"),
    case("bad_steps", "--alpha 1e38 --lr 1", "1"),
];

/// What the runs of an algorithm have in common.
fn flags_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Grpo => "--steps 3 --scenarios 4 --samples 8 --validation 16 --validate-every 1 --lr 0.3",
        Algorithm::Sft => "--batch-tokens 8 --validation 8 --validate-every 2 --lr 0.1",
        Algorithm::Awr => "--batch-tokens 64 --validation 8 --validate-every 2 --lr 0.1",
        Algorithm::Dpo => "--batch-pairs 1 --validation 8 --validate-every 2 --lr 0.1",
        Algorithm::Ppo => "--batch-tokens 128 --passes 2 --validation 8 --validate-every 2 --lr 0.1",
    }
}

/// The command of a run; of a flag that is given several times the last counts.
fn line(algorithm: Algorithm, more: &str) -> String {
    let all = format!("{COMMON} {} {more}", flags_of(algorithm));
    let mut flags: BTreeMap<&str, &str> = BTreeMap::new();
    for flag in all.split("--").filter(|flag| !flag.trim().is_empty()) {
        let (name, value) = flag.trim().split_once(' ').unwrap_or((flag.trim(), ""));
        flags.insert(name, value);
    }
    let words: Vec<String> = flags.iter().map(|(name, value)| format!("--{name} {value}")).collect();
    format!("train {algorithm} {}", words.join(" "))
}

/// The lines of the run without and with the setting.
fn lines(case: &Case, algorithm: Algorithm) -> [String; 2] {
    let changed = format!("{} --{} {}", case.beside, case.key.replace('_', "-"), case.value);
    [line(algorithm, case.beside), line(algorithm, &changed)]
}

#[test]
fn every_setting_has_an_effect() {
    let mut pairs = Vec::new();
    for (key_idx, key) in KEYS.iter().enumerate().filter(|(_, key)| ELSEWHERE.iter().all(|(name, _)| *name != key.name)) {
        let one = key_idx % key.algorithms.len();
        for &algorithm in if is_slow() { key.algorithms } else { &key.algorithms[one..=one] } {
            let fits = |case: &&Case| case.key == key.name && case.of.is_none_or(|of| of == algorithm);
            let case = CASES.iter().find(fits).unwrap_or_else(|| panic!("no case for {} of {algorithm}", key.name));
            pairs.push((format!("{} of {algorithm}", key.name), lines(case, algorithm)));
        }
    }
    let bases = Algorithm::ALL.map(|algorithm| line(algorithm, ""));
    let outcomes = outcomes(pairs.iter().flat_map(|(_, lines)| lines).chain(&bases));
    // The same again is the same: otherwise any two runs would differ.
    let again = self::outcomes(bases.iter());
    assert!(bases.iter().all(|line| outcomes[line] == again[line]), "a run is not the same twice");
    let idle = |lines: &[String; 2]| outcomes[&lines[0]] == outcomes[&lines[1]];
    let idle: Vec<&str> = pairs.iter().filter(|(_, lines)| idle(lines)).map(|(name, _)| name.as_str()).collect();
    assert!(idle.is_empty(), "these have no effect: {}", idle.join(", "));
}

/// What each of these lines comes to, two side by side.
fn outcomes<'a>(lines: impl Iterator<Item = &'a String>) -> BTreeMap<&'a String, Outcome> {
    let found: Mutex<BTreeMap<&String, Outcome>> = Mutex::default();
    let mut lines: Vec<&String> = lines.collect();
    lines.sort();
    lines.dedup();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let desk = Desk::of_practice();
                    let ended = desk.hone(line);
                    assert!(ended.code == 0 || ended.code == 1, "hone {line}\n{}", ended.err);
                    let standing = desk.standing("r");
                    found.lock().expect("no panic holds it").insert(line, (ended.code, ended.out, standing));
                }
            });
        }
    });
    found.into_inner().expect("no panic held it")
}
