//! What the driver promises, shown with a world of two doors.

use hone_env::rollout::{Limits, Luck, Plan, Played, rollout, traces};
use hone_env::{Player, Scripted, call, calls, said, tool_result};
use hone_trace::env::{Env, EnvError, Play, Reset, Signals, Split, Step};
use hone_trace::policy::{Answered, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{Category, Config, Family, LlmCall, Message, Role, Scenario, ScenarioId, Tenant, Trace, TraceOutcome, V1};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Behind one of nine doors is a prize. `open` with a door says whether it is there; a door that is no number breaks the world.
struct Doors;

struct Room {
    prize: u64,
}

impl Env for Doors {
    fn name(&self) -> &str {
        "doors"
    }

    fn scenarios(&self, _split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let scenario = |i: usize| Scenario {
            v: V1,
            id: ScenarioId::new(format!("doors/{seed}/{i}")).unwrap(),
            category: Category::new("doors").unwrap(),
            input: json!({}),
            truth: Some(json!(i % 9)),
            difficulty: None,
            family: Family::new(format!("{i}")).unwrap(),
        };
        Ok((0..n).map(scenario).collect())
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let prize = scenario.truth.as_ref().and_then(|truth| truth.as_u64());
        let prize = prize.ok_or_else(|| EnvError::Scenario { scenario: scenario.id.to_string(), reason: "no truth".into() })?;
        Ok(Reset {
            episode: Box::new(Room { prize }),
            tools: std::sync::Arc::default(),
            messages: vec![Message::text(Role::User, "which door?")],
        })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let door = scenario.truth.clone();
        Ok(Box::new(Scripted(move |_: &[Message]| call("open", &json!({"door": door})))))
    }

    fn random(&self, _scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let mut draws = hone_trace::Draws::new(seed, &["doors"]);
        Ok(Box::new(Scripted(move |_: &[Message]| call("open", &json!({"door": draws.below(9)})))))
    }

    fn best(&self, _scenario: &Scenario) -> Signals {
        [("found", 1.0)].into()
    }
}

impl Play for Room {
    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        let Some(read) = calls(action).next() else {
            return Ok(Step { messages: vec![Message::text(Role::User, "open a door")], ..Step::default() });
        };
        let door = match read {
            Ok(call) => call.arguments["door"].as_u64().ok_or_else(|| EnvError::Broken("that is no door".into()))?,
            Err(error) => return Ok(Step { errors: vec![error], ..Step::default() }),
        };
        let is_found = door == self.prize;
        Ok(Step {
            messages: vec![tool_result("", "open", if is_found { "prize" } else { "goat" })],
            signals: [("found", f64::from(u8::from(is_found)))].into(),
            done: is_found.then_some(TraceOutcome::Success),
            ..Step::default()
        })
    }
}

/// Opens door after door; what kind of trouble an episode has is read off its seed.
struct Trouble<F>(Config, F);

impl<F: Fn(usize) -> Result<Message, PolicyErrorKind> + Send + Sync + Clone + 'static> Policy for Trouble<F> {
    fn config(&self) -> &Config {
        &self.0
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        struct Talk<F>(F, usize);
        impl<F: Fn(usize) -> Result<Message, PolicyErrorKind> + Send> Conversation for Talk<F> {
            fn answer(&mut self, _input: &[Message], _limits: hone_trace::policy::AnswerLimits) -> Result<Answered, PolicyError> {
                self.1 += 1;
                let message = (self.0)(self.1 - 1);
                let failed = |kind| PolicyError { kind, message: "as told".into(), llm_calls: Vec::new() };
                let call = LlmCall { tokens_out: 10, ..LlmCall::default() };
                let answered = |message| Answered { llm_calls: vec![call], ..Answered::of(message) };
                message.map(answered).map_err(failed)
            }
        }
        Ok(Box::new(Talk(self.1.clone(), 0)))
    }
}

fn trouble<F: Fn(usize) -> Result<Message, PolicyErrorKind> + Send + Sync + Clone + 'static>(answer: F) -> Trouble<F> {
    Trouble(Config::default(), answer)
}

fn play_limited(player: Player<'_>, n: usize, n_samples: usize, n_concurrent: usize, limits: Limits) -> Vec<Played> {
    let scenarios = Doors.scenarios(Split::Train, 1, n).unwrap();
    let plan = Plan { tenant: Tenant::new("t").unwrap(), n_samples, limits, n_concurrent, ..Plan::new("test", &scenarios, 7) };
    let mut groups = Vec::new();
    rollout(&Doors, player, &plan, |played| {
        groups.push(played);
        ControlFlow::Continue(())
    });
    groups
}

fn play(player: Player<'_>) -> Trace {
    play_limited(player, 1, 1, 1, Limits::default()).remove(0).traces.remove(0)
}

fn last_error(trace: &Trace) -> &str {
    trace.turns().last().and_then(|turn| turn.errors.last()).map_or("", |error| &error.kind)
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_concurrency() {
    let text = |n_concurrent| {
        let groups = play_limited(Player::Random, 40, 4, n_concurrent, Limits::default());
        let traces: Vec<String> = groups.iter().flat_map(|g| &g.traces).map(|t| serde_json::to_string(t).unwrap()).collect();
        let groups: Vec<String> = groups.iter().map(|g| serde_json::to_string(&g.group).unwrap()).collect();
        (traces, groups)
    };
    let alone = text(1);
    assert_eq!(alone.0.len(), 160);
    assert_eq!(alone, text(64));
    assert_eq!(alone, text(3));
}

#[test]
fn samples_of_one_scenario_are_independent_and_ids_differ() {
    let groups = play_limited(Player::Random, 5, 8, 4, Limits::default());
    for played in &groups {
        let mut turns: Vec<usize> = played.traces.iter().map(|trace| trace.turns().count()).collect();
        turns.dedup();
        assert!(turns.len() > 1, "eight random players needed the same number of doors: {turns:?}");
        assert_eq!(played.group.traces, played.traces.iter().map(|trace| trace.id).collect::<Vec<_>>());
    }
}

#[test]
fn a_failing_policy_is_recorded_and_its_siblings_go_on() {
    let n_failed = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&n_failed);
    let policy = trouble(move |turn| {
        let is_first = turn == 1 && counter.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { Err(PolicyErrorKind::Timeout) } else { Ok(call("open", &json!({"door": turn}))) }
    });
    let groups = play_limited(Player::Policy(&policy), 9, 2, 2, Limits::default());
    let traces: Vec<&Trace> = groups.iter().flat_map(|played| &played.traces).collect();
    let failed: Vec<&&Trace> = traces.iter().filter(|trace| last_error(trace) == "policy_timeout").collect();
    assert_eq!((traces.len(), failed.len()), (18, 1));
    assert_eq!(traces.iter().filter(|trace| trace.outcome == TraceOutcome::Success).count(), 17);
    assert!(traces.iter().all(|trace| trace.check().is_ok()));
}

#[test]
fn a_broken_world_is_an_error_on_the_trace() {
    let trace = play(Player::Policy(&trouble(|_| Ok(call("open", &json!({"door": "none"}))))));
    assert_eq!((last_error(&trace), trace.outcome), ("env_error", TraceOutcome::Unknown));
}

#[test]
fn a_panic_ends_one_episode_and_stands_on_its_trace() {
    let policy = trouble(|turn| if turn == 1 { panic!("as planned") } else { Ok(call("open", &json!({"door": 0}))) });
    let groups = play_limited(Player::Policy(&policy), 3, 1, 2, Limits::default());
    let errors: Vec<&str> = groups.iter().map(|played| last_error(&played.traces[0])).collect();
    assert_eq!(errors, ["", "env_error", "env_error"]);
}

#[test]
fn limits_end_an_episode_and_say_so() {
    let limits = Limits { turns_max: 2, ..Limits::default() };
    let policy = trouble(|turn| Ok(call("open", &json!({"door": 8 - turn}))));
    let trace = play_limited(Player::Policy(&policy), 1, 1, 1, limits).remove(0).traces.remove(0);
    assert_eq!((trace.turns().count(), last_error(&trace), trace.outcome), (2, "turn_limit", TraceOutcome::Failure));
}

#[test]
fn a_scenario_may_have_a_limit_of_its_own() {
    let scenarios = Doors.scenarios(Split::Train, 1, 2).unwrap();
    let tokens_max = [(scenarios[0].id.clone(), 15)].into();
    let policy = trouble(|turn| Ok(call("open", &json!({"door": 8 - turn}))));
    let played = traces(&Doors, Player::Policy(&policy), &Plan { tokens_max, ..Plan::new("test", &scenarios, 7) });
    let ends: Vec<(usize, &str)> = played.iter().map(|trace| (trace.turns().count(), last_error(trace))).collect();
    assert_eq!(ends, [(2, "token_limit"), (8, "")]);
}

#[test]
fn the_same_call_without_progress_is_a_loop() {
    let trace = play(Player::Policy(&trouble(|_| Ok(call("open", &json!({"door": 5}))))));
    assert_eq!((trace.turns().count(), last_error(&trace)), (3, "loop"));
    let trace = play(Player::Empty);
    assert_eq!((trace.turns().count(), last_error(&trace)), (3, "loop"));
}

#[test]
fn a_change_of_action_or_result_is_no_loop() {
    let trace = play(Player::Policy(&trouble(|turn| match turn {
        6 => Ok(call("open", &json!({"door": 0}))),
        turn if turn % 2 == 0 => Ok(call("open", &json!({"door": 5}))),
        _ => Ok(said("hm")),
    })));
    assert_eq!((trace.turns().count(), trace.outcome), (7, TraceOutcome::Success));
}

#[test]
fn when_the_money_is_spent_no_new_group_begins() {
    let policy = trouble(|_| Err(PolicyErrorKind::Budget));
    let groups = play_limited(Player::Policy(&policy), 100, 4, 1, Limits::default());
    assert_eq!(groups.len(), 1);
    assert!(groups[0].traces.iter().all(|trace| last_error(trace) == "policy_budget"));
}

#[test]
fn the_taker_can_stop_the_run() {
    let scenarios = Doors.scenarios(Split::Train, 1, 1000).unwrap();
    let plan = Plan { n_samples: 2, luck: Luck::Own, n_concurrent: 8, ..Plan::new("test", &scenarios, 7) };
    let mut n_taken = 0;
    let n_groups = rollout(&Doors, Player::Gold, &plan, |_| {
        n_taken += 1;
        if n_taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((n_taken, n_groups), (3, 3));
}
