//! The games through the rollout driver: gold earns the best, nobody earns nothing, and the same seed gives the same bytes.

use hone_env::rollout::{Luck, Plan, traces};
use hone_env::tictactoe::{Skill, TicTacToe, TicTacToeOptions};
use hone_env::twenty48::{Twenty48, Twenty48Options};
use hone_env::{Dialect, Player, said};
use hone_trace::env::{Env, EnvError, Split, Step};
use hone_trace::{Family, Scenario, Trace, TraceOutcome};
use std::collections::BTreeSet;

fn play(env: &dyn Env, player: Player<'_>, scenarios: &[Scenario], seed: u64, n_concurrent: usize) -> Vec<Trace> {
    traces(env, player, &Plan { n_samples: 2, luck: Luck::Own, n_concurrent, ..Plan::new("games", scenarios, seed) })
}

fn worlds() -> [Box<dyn Env>; 2] {
    let twenty48 = Twenty48::new(Twenty48Options::default()).unwrap();
    let tictactoe = TicTacToe::new(TicTacToeOptions::default()).unwrap();
    [Box::new(twenty48), Box::new(tictactoe)]
}

fn last(trace: &Trace, signal: &str) -> f64 {
    trace.turns().last().unwrap().signals[signal]
}

#[test]
fn gold_earns_the_best_and_nobody_earns_nothing() {
    for env in worlds() {
        for (split, seed, n) in [(Split::Train, 1, 40), (Split::Validation, 2, 40), (Split::Test, 77, 70)] {
            let scenarios = env.scenarios(split, seed, n).unwrap();
            assert_eq!(scenarios.len(), n);
            for (idx, trace) in play(&*env, Player::Gold, &scenarios, seed, 2).iter().enumerate() {
                let scenario = &scenarios[idx / 2];
                for (name, best) in env.best(scenario).0 {
                    assert!(last(trace, &name) >= best, "{}: {name} is {} of {best}", scenario.id, last(trace, &name));
                }
                assert_eq!(trace.outcome, TraceOutcome::Success);
                trace.check().unwrap();
            }
            for trace in play(&*env, Player::Empty, &scenarios, seed, 2) {
                assert_eq!((trace.outcome, trace.turns().count(), last(&trace, "format")), (TraceOutcome::Failure, 1, 0.0));
                let gained = if env.name() == "2048" { last(&trace, "won") } else { last(&trace, "result") };
                assert_eq!(gained, 0.0);
            }
        }
    }
}

#[test]
fn traces_do_not_depend_on_what_plays_beside_them() {
    for env in worlds() {
        let scenarios = env.scenarios(Split::Train, 5, 24).unwrap();
        for player in [Player::Gold, Player::Random] {
            let text = |n_concurrent| serde_json::to_string(&play(&*env, player, &scenarios, 5, n_concurrent)).unwrap();
            assert_eq!(text(1), text(64), "{}", env.name());
        }
    }
}

#[test]
fn splits_share_no_family_and_lists_begin_alike() {
    for env in worlds() {
        let families = |split| -> BTreeSet<Family> {
            (0..3).flat_map(|seed| env.scenarios(split, seed, 300).unwrap()).map(|scenario| scenario.family).collect()
        };
        let [train, validation, test] = Split::ALL.map(families);
        assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test), "{}", env.name());
        assert!(test.len() > 3, "{}: {} families to test by", env.name(), test.len());
        let long = env.scenarios(Split::Test, 9, 50).unwrap();
        assert_eq!(env.scenarios(Split::Test, 9, 20).unwrap(), long[..20]);
        assert_ne!(env.scenarios(Split::Test, 8, 50).unwrap(), long);
        assert_eq!(long.iter().map(|scenario| &scenario.id).collect::<BTreeSet<_>>().len(), 50);
    }
}

/// Says one thing in a fresh episode of this input.
fn step(env: &dyn Env, input: &str, truth: Option<&str>, answer: &str) -> Result<Step, EnvError> {
    let mut scenario = env.scenarios(Split::Train, 1, 1).unwrap().remove(0);
    scenario.input = serde_json::from_str(input).unwrap();
    scenario.truth = truth.map(|truth| serde_json::from_str(truth).unwrap());
    env.reset(&scenario, 3)?.episode.step(&said(answer))
}

#[test]
fn a_2048_move_is_measured() {
    let [env, _] = worlds();
    let check = |board: &str, answer: &str, expected: [f64; 6], done: Option<TraceOutcome>| {
        let input = format!(r#"{{"board":"{board}","winning_tile":128}}"#);
        let step = step(&*env, &input, None, answer).unwrap();
        let values: Vec<f64> = step.signals.0.iter().map(|(_, value)| (value * 1000.0).round() / 1000.0).collect();
        assert_eq!((values, step.done), (expected.to_vec(), done), "{board} {answer}");
    };
    let empty = ". . . . . . . . . . . .";
    // The tile that appears adds 2 here: log2(66) and log2(130) over 10.
    check(
        &format!("32 32 . . {empty}"),
        "left",
        [5.0 / 6.0, 0.504, 0.875, 0.0, 1.0, 1.0].map(|x: f64| (x * 1000.0).round() / 1000.0),
        None,
    );
    check(
        &format!("64 64 . . {empty}"),
        "I go <move>Right</move>",
        [1.0, 0.602, 0.875, 1.0, 1.0, 1.0],
        Some(TraceOutcome::Success),
    );
    check(&format!("2 4 . . {empty}"), "left", [0.167, 0.158, 0.875, 0.0, 1.0, 0.0], Some(TraceOutcome::Failure));
    check(&format!("2 4 . . {empty}"), "", [0.167, 0.158, 0.875, 0.0, 0.0, 0.0], Some(TraceOutcome::Failure));
    check("2 4 8 16 4 8 16 32 8 16 32 64 8 8 32 16", "left", [0.833, 0.711, 0.0, 0.0, 1.0, 1.0], Some(TraceOutcome::Failure));
}

#[test]
fn random_play_that_knows_the_rules_ends_with_a_full_board() {
    for dialect in [Dialect::Natural, Dialect::Short] {
        let env = Twenty48::new(Twenty48Options { winning_tile: 2048, dialect }).unwrap();
        let legal = |scenario: &Scenario, seed| env.legal(scenario, seed);
        let scenarios = env.scenarios(Split::Train, 3, 20).unwrap();
        for trace in play(&env, Player::Script("legal", &legal), &scenarios, 3, 2) {
            assert!(trace.turns().all(|turn| turn.signals["valid"] == 1.0));
            assert_eq!(last(&trace, "room"), 0.0);
            let tile = env.highest_tile(&trace);
            assert!(tile.is_power_of_two() && (16..=512).contains(&tile), "{tile}");
        }
    }
}

#[test]
fn an_amateur_loses_less_than_chance_and_more_than_gold() {
    for dialect in [Dialect::Natural, Dialect::Short] {
        let options = TicTacToeOptions { opponents: vec![Skill::Random], dialect, ..TicTacToeOptions::default() };
        let env = TicTacToe::new(options).unwrap();
        let scenarios = env.scenarios(Split::Train, 4, 200).unwrap();
        let amateur = |scenario: &Scenario, seed| env.amateur(scenario, 0.5, seed);
        let share_lost = |player: Player<'_>| {
            let traces = play(&env, player, &scenarios, 4, 2);
            assert!(traces.iter().flat_map(Trace::turns).all(|turn| turn.signals["valid"] == 1.0));
            traces.iter().filter(|trace| last(trace, "result") == 0.0).count() as f64 / traces.len() as f64
        };
        let [gold, amateur, random] = [Player::Gold, Player::Script("amateur", &amateur), Player::Random].map(share_lost);
        assert!(gold == 0.0 && 0.02 < amateur && amateur + 0.1 < random, "{gold} {amateur} {random}");
    }
}

#[test]
fn a_tictactoe_move_is_measured() {
    let [_, env] = worlds();
    let check = |board: &str, best: f64, answer: &str, expected: [f64; 3], done: Option<TraceOutcome>| {
        let input = format!(r#"{{"board":"{board}","opponent":"blocks","opponent_name":"ann"}}"#);
        let step = step(&*env, &input, Some(&format!(r#"{{"best":{best}}}"#)), answer).unwrap();
        let values: Vec<f64> = step.signals.0.iter().map(|(_, value)| *value).collect();
        assert_eq!((values, step.done), (expected.to_vec(), done), "{board} {answer}");
    };
    check("X X 3 O O 6 7 8 9", 1.0, "3", [1.0, 1.0, 1.0], Some(TraceOutcome::Success));
    check("X X 3 O O 6 7 8 9", 1.0, "cell c3", [0.0, 1.0, 1.0], Some(TraceOutcome::Failure));
    check("X X 3 O O 6 7 8 9", 1.0, "b2", [0.0, 1.0, 0.0], Some(TraceOutcome::Failure));
    check("X X 3 O O 6 7 8 9", 1.0, "pass", [0.0, 0.0, 0.0], Some(TraceOutcome::Failure));
    check("X O X X O O O X 9", 0.5, "9", [0.5, 1.0, 1.0], Some(TraceOutcome::Success));
    check("X O X X O O O X 9", 1.0, "9", [0.5, 1.0, 1.0], Some(TraceOutcome::Failure));
    check("X 2 3 4 O 6 7 8 9", 0.5, "9", [0.0, 1.0, 1.0], None);
}

#[test]
fn what_is_no_game_is_refused() {
    let [twenty48, tictactoe] = worlds();
    let check = |env: &dyn Env, input: &str, message: &str| {
        let error = step(env, input, None, "left").unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    check(&*twenty48, r#"{"board":"2 2","winning_tile":128}"#, "sixteen tiles");
    check(&*twenty48, r#"{"winning_tile":100}"#, "power of two");
    check(&*twenty48, r#"{"board":". . . . . . . . . . . . . . . .","winning_tile":8}"#, "over before it begins");
    check(&*tictactoe, r#"{"board":"X X X O O 6 7 8 9"}"#, "goes on");
    check(&*tictactoe, r#"{"board":"1 2 3 4 5 6 7 8 9","opponent":"weak"}"#, "random, blocks and perfect");
    assert!(Twenty48::new(Twenty48Options { winning_tile: 100, ..Twenty48Options::default() }).is_err());
    assert!(TicTacToe::new(TicTacToeOptions { opponents: Vec::new(), ..TicTacToeOptions::default() }).is_err());
    let only_perfect = TicTacToeOptions { opponents: vec![Skill::Perfect], opening_marks_max: 0, ..TicTacToeOptions::default() };
    let only_perfect = TicTacToe::new(only_perfect).unwrap();
    // There is one empty board, and it is in one split.
    let n: Vec<usize> = Split::ALL.map(|split| only_perfect.scenarios(split, 0, 5).unwrap().len()).to_vec();
    assert_eq!((n.iter().sum::<usize>(), n.contains(&5)), (5, true), "{n:?}");
}
