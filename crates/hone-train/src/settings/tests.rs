use super::*;
use serde_json::{Value, json};

fn given(text: Value) -> Given {
    serde_json::from_value(text).expect("known keys")
}

/// What becomes of these settings.
fn check(algorithm: Algorithm, text: &Value, expected: Result<(), &str>) {
    let found = given(text.clone()).resolve(algorithm).map(drop).map_err(|error| error.to_string());
    assert_eq!(found, expected.map_err(str::to_owned), "{algorithm} {text}");
}

/// A value of the key, for those that are nothing by default.
fn some(name: &str) -> Value {
    match name {
        "centring" => json!("mean"),
        "memory" | "max_tokens" => json!(3),
        _ => json!(0.5),
    }
}

#[test]
fn a_setting_has_an_effect_on_an_algorithm_or_is_refused_there() {
    for algorithm in Algorithm::ALL {
        let defaults = serde_json::to_value(Given::default().resolve(algorithm).expect("defaults")).expect("plain data");
        for key in KEYS {
            let value = Some(defaults[key.name].clone()).filter(|value| !value.is_null()).unwrap_or_else(|| some(key.name));
            let given = given(json!({ key.name: value }));
            assert!(given.has(key.name), "{}", key.name);
            let refused = matches!(given.resolve(algorithm), Err(TrainError::NoEffect { name, .. }) if name == key.name);
            assert_eq!(refused, !key.algorithms.contains(&algorithm), "{} of {algorithm}", key.name);
        }
    }
}

#[test]
fn every_key_is_for_somebody_and_says_what_it_means() {
    for key in KEYS {
        assert!(!key.algorithms.is_empty() && !key.about.is_empty() && !key.about.ends_with('.'), "{}", key.name);
    }
}

#[test]
fn what_has_no_effect_beside_the_others_is_refused() {
    let ok = Ok(());
    let grpo = |text: Value, expected| check(Grpo, &text, expected);
    grpo(json!({"margin": 0.1}), Err("margin has no effect without a baseline"));
    grpo(json!({"margin": 0.1, "baseline": 0.5}), ok);
    grpo(json!({"kl_in": "reward"}), Err("kl_in has no effect while kl is 0"));
    grpo(json!({"kl_in": "reward", "kl": 0.1}), ok);
    grpo(json!({"kl_estimator": "k2"}), Err("kl_estimator has no effect while kl is 0"));
    grpo(json!({"kl_estimator": "k2", "kl": 0.1}), ok);
    let one = "clip_low and clip_high have no effect on one move of the weights per step: raise epochs or minibatches";
    grpo(json!({"clip_low": 0.1}), Err(one));
    grpo(json!({"clip_high": 0.1}), Err(one));
    grpo(json!({"clip_high": 0.1, "minibatches": 2}), ok);
    let corrected =
        "clip_low and clip_high have no effect on samples that are corrected: the ratio is to the weights before each move";
    grpo(json!({"clip_high": 0.1, "max_staleness": 1}), Err(corrected));
    grpo(json!({"clip_high": 0.1, "max_staleness": 1, "correction": "none"}), ok);
    grpo(
        json!({"clip_low": 0.1, "loss": "cispo", "epochs": 2}),
        Err("clip_low has no effect on cispo, which only bounds ratios from above"),
    );
    grpo(
        json!({"correction": "mask"}),
        Err("correction has no effect on one move of the weights per step: the samples are the policy's own"),
    );
    grpo(json!({"correction": "mask", "epochs": 2}), ok);
    grpo(json!({"correction_max": 3.0}), Err("correction_max has no effect without a correction"));
    grpo(json!({"correction_max": 3.0, "max_staleness": 1}), ok);
    let turns = "centring has no effect on credit = \"turns\", which has turn_baseline";
    grpo(json!({"credit": "turns", "centring": "mean"}), Err(turns));
    let deviation = "deviation_min has no effect where rewards are not divided by their deviation: set centring = \"deviation\"";
    grpo(json!({"deviation_min": 0.1}), Err(deviation));
    grpo(json!({"deviation_min": 0.1, "centring": "deviation"}), ok);
    grpo(json!({"deviation_min": 0.1, "loss": "dapo"}), ok);
    let episode = "turn_baseline has no effect on credit = \"episode\": set credit = \"turns\"";
    grpo(json!({"turn_baseline": "per_turn"}), Err(episode));
    grpo(json!({"turn_baseline": "per_turn", "credit": "turns"}), ok);
    grpo(json!({"gamma": 0.9}), Err("gamma has no effect on credit = \"episode\": set credit = \"turns\""));
    grpo(json!({"gamma": 0.9, "credit": "turns"}), ok);
    check(Ppo, &json!({"gamma": 0.9, "clip_low": 0.1}), ok);
    grpo(json!({"hacking_z": 2.0}), Err("hacking_z has no effect without evidence = \"hybrid\""));
    let judge = "evidence = \"judge\" has no effect without a plateau: a judge's reward only says when it stops rising";
    grpo(json!({"evidence": "judge"}), Err(judge));
    grpo(json!({"evidence": "judge", "plateau": 5}), ok);
    let goals = "max_turns, max_episode_tokens and max_episode_ms hold back a target, a baseline or a plateau, and none is set";
    grpo(json!({"max_turns": 3.0}), Err(goals));
    grpo(json!({"max_turns": 3.0, "plateau": 5}), ok);
}

#[test]
fn what_is_outside_its_range_is_named_as_the_user_named_it() {
    for (algorithm, text, says) in [
        (Grpo, json!({"bad_steps": 0}), "bad_steps = 0 is outside 1 to 1000"),
        (Grpo, json!({"max_tokens": 0}), "max_tokens = 0 is outside above 0"),
        (Grpo, json!({"max_episode_ms": -1.0, "plateau": 5}), "max_episode_ms = -1 is outside above 0"),
        (Grpo, json!({"baseline": 0.9, "margin": 0.2}), "baseline + margin = 1.1 is outside 0 to below 1"),
        (Grpo, json!({"validation": 70_000}), "validation = 70000 is outside 1 to 65536"),
        (Grpo, json!({"overlong": 65, "turns": 1}), "overlong = 65 is outside 0 to the tokens of the longest episode"),
        (Grpo, json!({"minibatches": 5, "scenarios": 4}), "minibatches = 5 is outside 1 to 64, and to the scenarios of a step"),
        (Grpo, json!({"warmup": 7, "steps": 6}), "warmup = 7 is outside 0 to the steps of the run"),
        (Grpo, json!({"kl": -0.1}), "kl = -0.1 is outside 0 and above"),
        (Ppo, json!({"gae_lambda": 1.5}), "gae_lambda = 1.5 is outside 0 to 1"),
        (Ppo, json!({"value_epochs": 1001}), "value_epochs = 1001 is outside 0 to 1000"),
        (Dpo, json!({"dpo_beta": 0.0}), "dpo_beta = 0 is outside above 0"),
        (Dpo, json!({"label_smoothing": 0.5}), "label_smoothing = 0.5 is outside 0 to below 0.5"),
        (Awr, json!({"awr_temperature": 0.0}), "awr_temperature = 0 is outside above 0"),
    ] {
        check(algorithm, &text, Err(says));
    }
}

#[test]
fn what_validation_decides_is_refused_where_nothing_is_validated() {
    let refused = |text| given(text).check_unmeasured().map_err(|error| error.to_string());
    let says = |name| Err(format!("{name} has no effect on a run that is measured nowhere"));
    assert_eq!(refused(json!({"lr": 0.1, "max_seconds": 9.0})), Ok(()));
    assert_eq!(refused(json!({"validation": 9})), says("validation"));
    assert_eq!(refused(json!({"plateau": 9})), says("plateau"));
    assert_eq!(refused(json!({"plateau": 9, "evidence": "judge"})), Ok(()));
    assert_eq!(refused(json!({"evidence": "hybrid"})), says("evidence"));
}

#[test]
fn what_ends_a_run_arrives_where_it_is_decided() {
    let text = json!({"evidence": "hybrid", "hacking_z": 2.5, "plateau": 7, "target": 0.9, "baseline": 0.5, "margin": 0.1,
        "max_tokens": 5, "max_seconds": 6.0, "max_dollars": 7.0, "max_turns": 8.0, "max_episode_tokens": 9.0,
        "max_episode_ms": 10.0, "bad_steps": 2});
    let stop = given(text).resolve(Grpo).expect("good settings").stop(11);
    assert_eq!((stop.mode, stop.hacking_z, stop.plateau, stop.target), (Mode::Hybrid, Some(2.5), Some(7), Some(0.9)));
    assert_eq!(stop.baseline.map(|baseline| (baseline.score, baseline.margin)), Some((0.5, 0.1)));
    assert_eq!((stop.n_tokens_max, stop.seconds_max, stop.dollars_max), (Some(5), Some(6.0), Some(7.0)));
    assert_eq!((stop.goals.turns_max, stop.goals.cost_max, stop.goals.latency_ms_max), (Some(8.0), Some(9.0), Some(10.0)));
    assert_eq!((stop.n_bad_max, stop.n_steps_max), (2, 11));
}
