//! Mathematics through the rollout driver: gold earns the best, nobody earns nothing, and no family is in two splits.

use hone_env::math::{CountdownOptions, JsonlForm, JsonlOptions, Math, MathSource, SumsOptions};
use hone_env::rollout::{Plan, traces};
use hone_env::{Player, said};
use hone_trace::env::{Env, Signals, Split};
use hone_trace::{Family, Scenario, Trace, TraceOutcome};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn play(env: &dyn Env, player: Player<'_>, scenarios: &[Scenario], seed: u64, n_concurrent: usize) -> Vec<Trace> {
    traces(env, player, &Plan { n_concurrent, ..Plan::new("math", scenarios, seed) })
}

/// The sources that are at hand: the generators always, files where the data is.
#[expect(clippy::print_stdout, reason = "a skipped source is said")]
fn sources() -> Vec<MathSource> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let mut sources = vec![MathSource::Sums(SumsOptions::default()), MathSource::Countdown(CountdownOptions::default())];
    let files = [
        ("gsm8k/train.jsonl", Some("gsm8k/test.jsonl"), Some(JsonlForm::Gsm8k)),
        ("gsm8k/train.jsonl", None, None),
        ("svamp/svamp.jsonl", None, None),
    ];
    for (path, test_path, form) in files {
        if data.join(path).exists() {
            let test_path = test_path.map(|path| data.join(path));
            sources.push(MathSource::Jsonl(JsonlOptions { path: data.join(path), test_path, form }));
        } else {
            println!("skipped: {} is not here", data.join(path).display());
        }
    }
    sources
}

#[test]
fn gold_earns_the_best_and_nobody_earns_nothing() {
    for source in sources() {
        let env = Math::new(&source).unwrap();
        for (split, seed) in [(Split::Train, 1), (Split::Validation, 22), (Split::Test, 333)] {
            let scenarios = env.scenarios(split, seed, 100).unwrap();
            assert!(scenarios.len() >= 70, "{source:?} has {} of {}", scenarios.len(), split.as_str());
            for (scenario, trace) in scenarios.iter().zip(play(&env, Player::Gold, &scenarios, seed, 2)) {
                let earned: Vec<(String, f64)> = trace.turns().last().unwrap().signals.clone().into_iter().collect();
                let mut best: Vec<(String, f64)> =
                    env.best(scenario).0.into_iter().map(|(name, value)| (name.into(), value)).collect();
                best.sort_by(|a, b| a.0.cmp(&b.0));
                assert_eq!((earned, trace.outcome), (best, TraceOutcome::Success), "{}", scenario.id);
            }
            for trace in play(&env, Player::Empty, &scenarios, seed, 2) {
                assert!(trace.turns().last().unwrap().signals.values().all(|value| *value == 0.0));
                assert_eq!(trace.outcome, TraceOutcome::Failure);
            }
            let by_chance = play(&env, Player::Random, &scenarios, seed, 2);
            let n_right = by_chance.iter().filter(|trace| trace.outcome == TraceOutcome::Success).count();
            assert!(n_right < scenarios.len() / 5, "{source:?}: {n_right} right by chance");
            assert!(by_chance.iter().all(|trace| trace.turns().last().unwrap().signals["format"] == 1.0), "well-formed");
        }
    }
}

#[test]
fn traces_do_not_depend_on_what_plays_beside_them() {
    for source in sources() {
        let env = Math::new(&source).unwrap();
        let scenarios = env.scenarios(Split::Train, 4, 60).unwrap();
        for player in [Player::Gold, Player::Random] {
            let text = |n_concurrent| serde_json::to_string(&play(&env, player, &scenarios, 4, n_concurrent)).unwrap();
            assert_eq!(text(1), text(64));
        }
    }
}

#[test]
fn splits_share_no_family_and_lists_begin_alike() {
    for source in sources() {
        let env = Math::new(&source).unwrap();
        let families = |split| -> BTreeSet<Family> {
            let n = if matches!(source, MathSource::Jsonl(_)) { usize::MAX } else { 500 };
            (0..2).flat_map(|seed| env.scenarios(split, seed, n).unwrap()).map(|scenario| scenario.family).collect()
        };
        let [train, validation, test] = Split::ALL.map(families);
        assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test), "{source:?}");
        let long = env.scenarios(Split::Train, 9, 60).unwrap();
        assert_eq!(env.scenarios(Split::Train, 9, 25).unwrap(), long[..25]);
        assert_ne!(env.scenarios(Split::Train, 8, 60).unwrap(), long);
        assert_eq!(long.iter().map(|scenario| &scenario.id).collect::<BTreeSet<_>>().len(), 60);
    }
}

#[test]
fn a_variation_is_no_harder_and_can_be_solved() {
    for source in [MathSource::Sums(SumsOptions::default()), MathSource::Countdown(CountdownOptions::default())] {
        let env = Math::new(&source).unwrap();
        for scenario in env.scenarios(Split::Train, 5, 30).unwrap() {
            let varied: Vec<Scenario> = (0..8).map(|seed| env.vary(&scenario, seed).unwrap()).collect();
            assert_eq!(env.vary(&scenario, 0).as_ref(), Some(&varied[0]));
            assert!(varied.iter().any(|other| other.id != varied[0].id), "{}", scenario.id);
            let level = |scenario: &Scenario| scenario.input["level"].as_u64().unwrap();
            assert!(varied.iter().all(|other| other.id != scenario.id && level(other) <= level(&scenario)));
            assert!(play(&env, Player::Gold, &varied, 1, 1).iter().all(|trace| trace.outcome == TraceOutcome::Success));
        }
    }
}

#[test]
fn an_answer_is_judged_exactly() {
    let judge = |source: MathSource, input: &str, truth: &str, answer: &str| -> Signals {
        let env = Math::new(&source).unwrap();
        let mut scenario = env.scenarios(Split::Train, 1, 1).unwrap().remove(0);
        scenario.input = serde_json::from_str(input).unwrap();
        scenario.truth = Some(serde_json::from_str(truth).unwrap());
        env.reset(&scenario, 0).unwrap().episode.step(&said(answer)).unwrap().signals
    };
    let number = |answer: &str, correct: f64, format: f64| {
        let signals = judge(MathSource::default(), r#"{"question":"?"}"#, r#"{"answer":"1080"}"#, answer);
        assert_eq!(signals, Signals::from([("correct", correct), ("format", format)]), "{answer}");
    };
    number("#### 1,080", 1.0, 1.0);
    number("It is 1080.00 dollars", 1.0, 0.0);
    number("#### 1080.5", 0.0, 1.0);
    number("no idea", 0.0, 0.0);
    let countdown = |answer: &str, correct: f64, format: f64, closeness: f64| {
        let source = MathSource::Countdown(CountdownOptions::default());
        let input = r#"{"question":"?","numbers":[3,5,7],"target":50}"#;
        let signals = judge(source, input, r#"{"expression":"(3 + 7) * 5"}"#, answer);
        assert_eq!(signals, Signals::from([("correct", correct), ("format", format), ("closeness", closeness)]), "{answer}");
    };
    countdown("#### (3 + 7) * 5", 1.0, 1.0, 1.0);
    countdown("First I add.\n5 * (7 + 3) = 50", 1.0, 1.0, 1.0);
    countdown("<answer>7 * 5</answer>", 0.0, 1.0, 0.7);
    countdown("#### 5 * 5 * 3", 0.0, 0.0, 0.0);
    countdown("#### 50", 0.0, 0.0, 0.0);
    countdown("#### 5 / (3 - 3)", 0.0, 0.0, 0.0);
    countdown("", 0.0, 0.0, 0.0);
}

#[test]
fn what_cannot_be_read_is_said() {
    let check = |source: &str, message: &str| {
        let error = match serde_json::from_str::<MathSource>(source) {
            Ok(source) => Math::new(&source).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(message), "{source}: {error}");
    };
    check(r#"{"source":"jsonl","path":"nowhere.jsonl","form":"gsm8k"}"#, "nowhere.jsonl");
    check(r#"{"source":"sums","digits_max":0}"#, "within 1 to 9");
    check(r#"{"source":"sums","digits_may":2}"#, "digits_may");
    check(r#"{"source":"countdown","n_numbers_max":9}"#, "within 2 to 6");
    check(r#"{"source":"countdown","target_max":1}"#, "target_max 1");
    check(r#"{"source":"algebra"}"#, "algebra");
    let path: PathBuf = std::env::temp_dir().join(format!("hone-math-{}.jsonl", std::process::id()));
    std::fs::write(&path, "{\"question\":\"a\",\"answer\":\"1\"}\n\n{\"question\":\"b\"}\n").unwrap();
    let options = JsonlOptions { path: path.clone(), test_path: None, form: None };
    let error = Math::new(&MathSource::Jsonl(options)).unwrap_err().to_string();
    std::fs::write(&path, "{\"q\":\"a\",\"a\":\"1\"}\n").unwrap();
    let options = JsonlOptions { path: path.clone(), test_path: None, form: None };
    let unknown = Math::new(&MathSource::Jsonl(options)).unwrap_err().to_string();
    assert!(unknown.contains("looks like neither gsm8k"), "{unknown}");
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains(".jsonl:3: `answer` is missing"), "{error}");
}
