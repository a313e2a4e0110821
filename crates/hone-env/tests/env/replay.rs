//! Traces recorded in other worlds, played again by the policy that made them and by others.

use hone_env::Dialect;
use hone_env::desk::{Desk, DeskOptions};
use hone_env::inbox::{Inbox, InboxOptions};
use hone_env::replay::{Fallback, Replay, ReplayOptions, drift};
use hone_env::rollout::{Plan, traces};
use hone_env::{Player, Scripted, call, said, tool_result};
use hone_trace::env::{Env, Split};
use hone_trace::policy::{Conversation, Opening, Policy, PolicyError};
use hone_trace::{
    Config, ErrorEvent, Message, Role, Scenario, Segment, Tenant, Time, ToolCall, ToolRequest, Trace, TraceId, TraceOutcome, Turn,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn play(env: &dyn Env, player: Player<'_>, scenarios: &[Scenario], n_concurrent: usize) -> Vec<Trace> {
    traces(env, player, &Plan { n_concurrent, ..Plan::new("replay", scenarios, 4) })
}

fn all(world: &Replay) -> Vec<Scenario> {
    Split::ALL.into_iter().flat_map(|split| world.scenarios(split, 1, usize::MAX).unwrap()).collect()
}

fn question(trace: &Trace) -> String {
    trace.turns().next().unwrap().input.iter().map(|message| message.content.text()).collect()
}

/// A policy that answers as the records did: it knows them by their first question.
struct Recorder {
    config: Config,
    answers: BTreeMap<String, Vec<Message>>,
}

impl Recorder {
    fn of(traces: &[Trace]) -> Self {
        let answers = traces.iter().map(|trace| (question(trace), trace.turns().map(|turn| turn.answer.clone()).collect()));
        Self { config: Config::default(), answers: answers.collect() }
    }
}

impl Policy for Recorder {
    fn config(&self) -> &Config {
        &self.config
    }

    fn open(&self, _: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        let (all, mut answers) = (self.answers.clone(), None);
        Ok(Box::new(Scripted(move |input: &[Message]| {
            let question = || input.iter().map(|message| message.content.text()).collect::<String>();
            let left = answers.get_or_insert_with(|| all[&question()].clone().into_iter());
            left.next().unwrap_or_else(|| said("out of answers"))
        })))
    }
}

fn replays_itself(env: &dyn Env, player: Player<'_>, n: usize) {
    let scenarios = env.scenarios(Split::Train, 1, n).unwrap();
    let mut recorded = play(env, player, &scenarios, 4);
    // The recorder knows an episode by its question, so a question is kept once.
    let mut questions = BTreeSet::new();
    recorded.retain(|trace| questions.insert(question(trace)));
    let world = Replay::new(&recorded, ReplayOptions::default()).unwrap();
    assert!(world.refused().is_empty(), "{:?}", world.refused());
    let replayed = play(&world, Player::Policy(&Recorder::of(&recorded)), &all(&world), 4);
    let report = drift(&replayed, &world);
    assert_eq!((report.n_episodes, report.n_foreign), (recorded.len(), 0));
    assert!(report.share_from_record >= 0.95 && report.share_same_outcome == 1.0 && report.mean_drift == 0.0, "{report:?}");
    // What was met is met again, to the letter: messages, tools with their latencies, errors.
    let by_id: BTreeMap<String, &Trace> = recorded.iter().map(|trace| (format!("replay/{}", trace.id), trace)).collect();
    for trace in &replayed {
        let record = by_id[trace.scenario.as_ref().unwrap().as_str()];
        assert_eq!(trace.turns().count(), record.turns().count());
        for (turn, then) in trace.turns().zip(record.turns()) {
            assert_eq!((&turn.input, &turn.answer, &turn.tool_calls), (&then.input, &then.answer, &then.tool_calls));
            let recovered =
                |turn: &Turn| turn.errors.iter().filter(|error| error.recovered).cloned().collect::<Vec<ErrorEvent>>();
            assert_eq!(recovered(turn), recovered(then));
        }
    }
}

#[test]
fn the_policy_that_made_the_traces_meets_its_records() {
    let inbox = Inbox::new(InboxOptions { corpus_seed: 3, n_mails: 1000 }).unwrap();
    replays_itself(&inbox, Player::Gold, 150);
    replays_itself(&inbox, Player::Random, 150);
    replays_itself(&inbox, Player::Empty, 20);
    for dialect in [Dialect::Natural, Dialect::Short] {
        let desk = Desk::new(DeskOptions { dialect, fault_rate: 0.3 }).unwrap();
        replays_itself(&desk, Player::Gold, 300);
        replays_itself(&desk, Player::Empty, 20);
    }
}

#[test]
fn another_policy_is_scored_and_its_drift_reported() {
    for dialect in [Dialect::Natural, Dialect::Short] {
        let desk = Desk::new(DeskOptions { dialect, fault_rate: 0.05 }).unwrap();
        let recorded = play(&desk, Player::Gold, &desk.scenarios(Split::Train, 1, 200).unwrap(), 4);
        for fallback in [Fallback::End, Fallback::Say("not here".into()), Fallback::Nearest] {
            let world = Replay::new(&recorded, ReplayOptions { fallback, ..ReplayOptions::default() }).unwrap();
            let gold = drift(&play(&world, Player::Gold, &all(&world), 4), &world);
            assert_eq!((gold.share_from_record, gold.mean_drift, gold.share_same_outcome), (1.0, 0.0, 1.0));
            let random = drift(&play(&world, Player::Random, &all(&world), 4), &world);
            assert_eq!(random.n_episodes, 200);
            assert!(random.mean_drift > 0.3 && random.share_same_answer < 0.1, "{dialect:?} {random:?}");
            let empty = drift(&play(&world, Player::Empty, &all(&world), 4), &world);
            assert!(empty.mean_drift == 1.0 && empty.share_same_answer == 0.0, "{empty:?}");
        }
    }
}

#[test]
fn traces_are_the_same_bytes_whatever_plays_beside_them() {
    let inbox = Inbox::new(InboxOptions { corpus_seed: 3, n_mails: 500 }).unwrap();
    let recorded = play(&inbox, Player::Random, &inbox.scenarios(Split::Train, 1, 100).unwrap(), 4);
    let world = Replay::new(&recorded, ReplayOptions { fallback: Fallback::Nearest, ..ReplayOptions::default() }).unwrap();
    for player in [Player::Gold, Player::Random, Player::Empty] {
        let bytes = |n_concurrent| serde_json::to_string(&play(&world, player, &all(&world), n_concurrent)).unwrap();
        assert!(bytes(1) == bytes(64));
    }
}

#[test]
fn questions_stay_on_one_side() {
    let desk = Desk::new(DeskOptions::default()).unwrap();
    let scenarios = desk.scenarios(Split::Train, 1, 300).unwrap();
    // Every question is recorded twice.
    let mut recorded = play(&desk, Player::Gold, &scenarios, 4);
    let again = recorded.clone().into_iter().map(|trace| Trace { id: TraceId::derived(&[&trace.id.to_string()]), ..trace });
    recorded.extend(again.collect::<Vec<_>>());
    let world = Replay::new(&recorded, ReplayOptions { shares: [50, 25, 25], ..ReplayOptions::default() }).unwrap();
    let [train, validation, test] = Split::ALL.map(|split| world.scenarios(split, 1, usize::MAX).unwrap());
    let families = |scenarios: &[Scenario]| scenarios.iter().map(|one| one.family.clone()).collect::<BTreeSet<_>>();
    let (a, b, c) = (families(&train), families(&validation), families(&test));
    assert!(a.is_disjoint(&b) && a.is_disjoint(&c) && b.is_disjoint(&c));
    assert!((240..360).contains(&train.len()) && (90..210).contains(&test.len()), "{} {}", train.len(), test.len());
    assert_eq!(world.scenarios(Split::Train, 1, 10).unwrap(), train[..10]);
    assert!(Replay::new(&recorded, ReplayOptions { shares: [0; 3], ..ReplayOptions::default() }).is_err());
}

/// Whoever plays records again to learn from them must not meet the tasks that are kept to report by.
#[test]
fn what_was_held_out_stays_held_out() {
    let desk = Desk::new(DeskOptions::default()).unwrap();
    let mut recorded = play(&desk, Player::Gold, &desk.scenarios(Split::Test, 1, 30).unwrap(), 4);
    recorded.iter_mut().for_each(|trace| drop(trace.metadata.insert("split".into(), "test".into())));
    let world = Replay::new(&recorded, ReplayOptions::default()).unwrap();
    let [train, validation, test] = Split::ALL.map(|split| world.scenarios(split, 1, usize::MAX).unwrap().len());
    assert_eq!((train, validation, test), (0, 0, recorded.len()));
}

/// A trace of these turns: input, answer, and the tools that ran.
fn trace(id: &str, turns: Vec<Turn>, tail: Vec<Message>, outcome: TraceOutcome) -> Trace {
    Trace {
        outcome,
        segments: vec![Segment { tools: Vec::new(), turns, tail }],
        ..Trace::new(TraceId::derived(&[id]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash())
    }
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

fn ran(name: &str, success: bool, duration_ms: f64) -> ToolCall {
    let (success, duration_ms) = (Some(success), Some(duration_ms));
    ToolCall { id: "call_0".into(), name: name.into(), arguments: json!({}), success, duration_ms, extra: serde_json::Map::new() }
}

/// Looks the same thing up twice (first in vain), asks, and answers.
fn recorded() -> Trace {
    let look = |arguments: serde_json::Value| call("look", &arguments);
    let timeout = ErrorEvent { kind: "tool_timeout".into(), recovered: true, message: "too slow".into() };
    let turn = |input: Message, answer: Message, tool_calls: Vec<ToolCall>| Turn { tool_calls, ..Turn::new(vec![input], answer) };
    let turns = vec![
        Turn {
            errors: vec![timeout],
            ..turn(user("How many?"), look(json!({"n": 1, "what": "eggs"})), vec![ran("look", false, 900.0)])
        },
        turn(tool_result("call_0", "look", "timeout"), look(json!({"n": 1, "what": "eggs"})), vec![ran("look", true, 12.0)]),
        turn(tool_result("call_0", "look", "12 eggs"), said("Which shop?"), vec![]),
        turn(user("The small one."), said("There are 1,200 eggs"), vec![]),
    ];
    trace("recorded", turns, vec![], TraceOutcome::Success)
}

/// Plays these actions; each step as `what was said | share from the record | kinds of errors`, then the outcome.
fn check(fallback: Fallback, actions: &[Message], expected: &[&str], outcome: Option<TraceOutcome>) {
    let world = Replay::new(&[recorded()], ReplayOptions { fallback, ..ReplayOptions::default() }).unwrap();
    let mut episode = world.reset(&all(&world)[0], 0).unwrap().episode;
    let mut done = None;
    let lines: Vec<String> = actions
        .iter()
        .map(|action| {
            let step = episode.step(action).unwrap();
            done = step.done;
            let said: Vec<String> = step.messages.iter().map(|message| message.content.text()).collect();
            let kinds: Vec<&str> = step.errors.iter().map(|error| error.kind.as_str()).collect();
            format!("{} | {} | {}", said.join(" "), step.signals.get("from_record").unwrap(), kinds.join(" "))
        })
        .collect();
    assert_eq!((lines.iter().map(String::as_str).collect::<Vec<_>>(), done), (expected.to_vec(), outcome));
}

#[test]
fn calls_are_matched_by_tool_and_arguments_in_recorded_order() {
    let look = |arguments: serde_json::Value| call("look", &arguments);
    let eggs = || look(json!({"what": "eggs", "n": 1.0}));
    let say = || Fallback::Say("not here".into());
    check(
        say(),
        &[eggs(), eggs(), eggs(), said("which shop?"), said("there  are 1200 EGGS")],
        &["timeout | 1 | tool_timeout", "12 eggs | 1 | ", "12 eggs | 1 | ", "The small one. | 1 | ", " | 1 | "],
        Some(TraceOutcome::Success),
    );
    // Other words get what the user said next; words that nobody replied to are the final answer, and a judge decides.
    check(say(), &[said("Where?"), said("I give up")], &["The small one. | 1 | ", " | 1 | "], Some(TraceOutcome::Unknown));
    check(say(), &[said("There are 1200 eggs")], &[" | 1 | "], Some(TraceOutcome::Success));
    check(say(), &[said("Where?"), said("")], &["The small one. | 1 | ", " | 1 | "], Some(TraceOutcome::Failure));
    let milk = || look(json!({"what": "milk", "n": 1}));
    check(say(), &[milk(), call("buy", &json!({}))], &["not here | 0 | not_recorded", "not here | 0 | not_recorded"], None);
    check(Fallback::End, &[milk()], &[" | 0 | not_recorded"], Some(TraceOutcome::Unknown));
    check(
        Fallback::Nearest,
        &[milk(), call("buy", &json!({}))],
        &["timeout | 0 | not_recorded tool_timeout", "this tool is not available in the replay | 0 | not_recorded"],
        None,
    );
    let broken = {
        let mut broken = eggs();
        broken.tool_calls[0].arguments = "{".into();
        broken
    };
    check(say(), &[broken], &["not here | 0 | unparsable_action not_recorded"], None);
}

#[test]
fn every_call_of_an_answer_has_a_result_and_those_too_many_are_refused() {
    let world = Replay::new(&[recorded()], ReplayOptions::default()).unwrap();
    let mut episode = world.reset(&all(&world)[0], 0).unwrap().episode;
    let one = call("look", &json!({"what": "eggs", "n": 1})).tool_calls.remove(0);
    let calls = (0..66).map(|n| ToolRequest { id: format!("c{n}"), ..one.clone() }).collect();
    let step = episode.step(&Message { tool_calls: calls, ..said("") }).unwrap();
    let answered: BTreeSet<&str> = step.messages.iter().filter_map(|message| message.tool_call_id.as_deref()).collect();
    assert_eq!((answered.len(), step.tool_calls.len()), (66, 66));
    let refused = step.messages.iter().filter(|message| message.content.text() == "error: at most 64 calls at once");
    assert_eq!(refused.count(), 2);
    assert_eq!(step.signals.get("from_record"), Some(64.0 / 66.0));
}

#[test]
fn an_episode_without_end_is_cut_at_twice_the_recorded_turns() {
    let world = Replay::new(&[recorded()], ReplayOptions::default()).unwrap();
    let mut episode = world.reset(&all(&world)[0], 0).unwrap().episode;
    let steps: Vec<_> = (0..10).map(|n| episode.step(&call("look", &json!({ "n": n }))).unwrap()).collect();
    assert!(steps[..9].iter().all(|step| step.done.is_none()));
    assert_eq!(steps[9].done, Some(TraceOutcome::Failure));
    assert_eq!(steps[9].signals.get("drift"), Some(1.0));
}

#[test]
fn the_call_that_ended_the_record_ends_the_replay() {
    let answer = |text: &str| call("return_answer", &json!({ "answer": text }));
    let check = |recorded_outcome, given: &str, expected| {
        let turns = vec![Turn::new(vec![user("How many?")], answer("12"))];
        let world = Replay::new(&[trace("t", turns, vec![], recorded_outcome)], ReplayOptions::default()).unwrap();
        let step = world.reset(&all(&world)[0], 0).unwrap().episode.step(&answer(given)).unwrap();
        assert_eq!((step.done, step.signals.get("from_record"), step.errors.len()), (Some(expected), Some(1.0), 0));
    };
    check(TraceOutcome::Success, "12", TraceOutcome::Success);
    check(TraceOutcome::Failure, "12", TraceOutcome::Failure);
    check(TraceOutcome::Success, "13", TraceOutcome::Unknown);
}

#[test]
fn what_cannot_be_played_again_is_refused_by_name_and_the_others_go_on() {
    let mut damaged = recorded();
    damaged.id = TraceId::derived(&["damaged"]);
    damaged.segments[0].turns[1].answer.tool_calls[0].arguments = "{\"n\": ".into();
    let mut unasked = recorded();
    unasked.id = TraceId::derived(&["unasked"]);
    unasked.segments[0].turns[2].input.clear();
    let empty = trace("empty", vec![], vec![user("hello")], TraceOutcome::Unknown);
    let traces = [damaged.clone(), recorded(), unasked.clone(), empty.clone(), recorded()];
    let world = Replay::new(&traces, ReplayOptions::default()).unwrap();
    let reasons: Vec<_> = world.refused().iter().map(|refused| (refused.trace, refused.reason.as_str())).collect();
    let expected = [
        (damaged.id, "turn 2: the arguments of look are not a JSON object"),
        (unasked.id, "turn 3 answers nothing: no message comes before it"),
        (empty.id, "it has no turn"),
        (recorded().id, "a trace of this id is already there"),
    ];
    assert_eq!((reasons.as_slice(), world.n_records()), (expected.as_slice(), 1));
}
