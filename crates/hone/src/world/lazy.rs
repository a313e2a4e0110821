//! What players earn who do not try: never more than playing at random does, or a fifth of what can be earned. And at the desk, what
//! calls earn that nobody needed: nothing.

use hone_env::desk::{Desk, DeskOptions};
use hone_env::inbox::{Inbox, InboxOptions};
use hone_env::math::{CountdownOptions, Math, MathSource, SumsOptions};
use hone_env::rollout::{Plan, traces};
use hone_env::tictactoe::{TicTacToe, TicTacToeOptions};
use hone_env::twenty48::{Twenty48, Twenty48Options};
use hone_env::{Dialect, Player, Script, Scripted, call, said};
use hone_reward::{Attempt, Recipe, Scorer};
use hone_trace::env::{Env, EnvError, Split};
use hone_trace::policy::{AnswerLimits, Conversation};
use hone_trace::{Message, Scenario, Time, ToolSpec};
use serde_json::{Map, Value, json};

/// What a player's episodes earn, one by one.
fn earned(env: &dyn Env, player: Player<'_>, n: usize) -> Vec<f64> {
    let recipe = Recipe::for_world(env.name()).expect("a shipped world has a recipe");
    let scorer = Scorer::new(&recipe, None).expect("it needs no judge");
    let scenarios = env.scenarios(Split::Train, 7, n).expect("scenarios");
    let weigh = |trace| scorer.score(Attempt { trace, item: &Value::Null }, 1, Time::from_unix_nanos(0)).expect("a score");
    traces(env, player, &Plan::new("lazy", &scenarios, 7)).iter().map(|trace| weigh(trace).reward.total).collect()
}

fn mean(earned: &[f64]) -> f64 {
    earned.iter().sum::<f64>() / earned.len() as f64
}

/// A call of a tool with whatever fits its parameters.
fn any_call(tool: &ToolSpec) -> Message {
    let empty = Map::new();
    let properties = tool.parameters["properties"].as_object().unwrap_or(&empty);
    let value = |of: &Value| match (of["enum"].get(0), of["type"].as_str()) {
        (Some(first), _) => first.clone(),
        (None, Some("integer" | "number")) => 1.into(),
        (None, Some("array")) => json!(["a"]),
        _ => "2024-01-01".into(),
    };
    let arguments: Map<String, Value> = properties.iter().map(|(name, of)| (name.clone(), value(of))).collect();
    call(&tool.name, &arguments.into())
}

/// Players that look at the task no further than to repeat it.
fn lazy<'a>(env: &'a dyn Env) -> Vec<(String, Box<Script<'a>>)> {
    let constants = ["42", "answer: 42", "answer 42", "left", "5", "a", "yes", "I don't know", "answer: 1 2 3 4 5 6 7 8 9"];
    let mut players: Vec<(String, Box<Script<'a>>)> = Vec::new();
    for text in constants {
        let answers = move |_: &Scenario, _| -> Result<Box<dyn Conversation>, EnvError> {
            Ok(Box::new(Scripted(move |_: &[Message]| said(text))))
        };
        players.push((format!("always {text}"), Box::new(answers)));
    }
    let echoes = |_: &Scenario, _| -> Result<Box<dyn Conversation>, EnvError> {
        Ok(Box::new(Scripted(|input: &[Message]| said(input.last().map(|message| message.content.text()).unwrap_or_default()))))
    };
    players.push(("echo".into(), Box::new(echoes)));
    let tools = move |scenario: &Scenario, seed| -> Result<Box<dyn Conversation>, EnvError> {
        let mut calls: Vec<Message> = env.reset(scenario, seed)?.tools.iter().map(any_call).collect();
        let mut all = calls.first().cloned().unwrap_or_else(|| said("answer: 42"));
        all.tool_calls = calls.drain(..).flat_map(|one| one.tool_calls).take(4).collect();
        let mut turns = vec![said("answer: 42"), all];
        Ok(Box::new(Scripted(move |_: &[Message]| turns.pop().unwrap_or_else(|| said("answer: 42")))))
    };
    players.push(("all tools once".into(), Box::new(tools)));
    players
}

#[test]
fn who_does_not_try_earns_no_more_than_chance() {
    let desk = |dialect| Desk::new(DeskOptions { dialect, ..DeskOptions::default() }).expect("a desk");
    let worlds: Vec<Box<dyn Env>> = vec![
        Box::new(desk(Dialect::Natural)),
        Box::new(desk(Dialect::Short)),
        Box::new(Twenty48::new(Twenty48Options::default()).expect("a board")),
        Box::new(TicTacToe::new(TicTacToeOptions::default()).expect("a board")),
        Box::new(Inbox::new(InboxOptions { n_mails: 500, ..InboxOptions::default() }).expect("a mailbox")),
        Box::new(Math::new(&MathSource::Sums(SumsOptions::default())).expect("sums")),
        Box::new(Math::new(&MathSource::Countdown(CountdownOptions::default())).expect("numbers")),
    ];
    for env in &worlds {
        let of = |player: Player<'_>| mean(&earned(&**env, player, 60));
        let (gold, random) = (of(Player::Gold), of(Player::Random));
        // What lies on a board of 2048 before the first move is worth something.
        let nothing = of(Player::Empty);
        assert!(nothing < f64::max(0.05, 0.25 * random), "nothing earns {nothing} in {} (random {random})", env.name());
        for (name, script) in lazy(&**env) {
            let lazy = of(Player::Script(&name, &*script));
            assert!(
                lazy < f64::max(random + 0.05, 0.2 * gold),
                "`{name}` earns {lazy} in {} (gold {gold}, random {random})",
                env.name()
            );
        }
    }
}

#[test]
fn at_the_desk_no_call_pays_that_the_ticket_does_not_need() {
    for dialect in [Dialect::Natural, Dialect::Short] {
        let desk = Desk::new(DeskOptions { dialect, fault_rate: 0.0 }).expect("a desk");
        let gold = earned(&desk, Player::Gold, 240);
        let manual = |scenario: &Scenario, _| desk.manual(scenario);
        let with_needless = earned(&desk, Player::Script("manual", &manual), 240);
        // A needless call before anything else, where there is a turn to spare.
        let order =
            if dialect == Dialect::Natural { call("calculator", &json!({"expression": "1 + 1"})) } else { said("calc 1 + 1") };
        let spends = |scenario: &Scenario, seed| -> Result<Box<dyn Conversation>, EnvError> {
            let (mut gold, mut spent) = (desk.gold(scenario, seed)?, Some(order.clone()));
            let mut first: Vec<Message> = Vec::new();
            Ok(Box::new(Scripted(move |input: &[Message]| match spent.take() {
                Some(call) => {
                    first = input.to_vec();
                    call
                }
                None => {
                    let told = if first.is_empty() { input.to_vec() } else { std::mem::take(&mut first) };
                    gold.answer(&told, AnswerLimits::default()).expect("a script answers").message
                }
            })))
        };
        let with_spare = earned(&desk, Player::Script("spends", &spends), 240);
        assert!(gold.iter().zip(&with_needless).all(|(gold, other)| other <= gold), "{dialect:?}");
        assert!(gold.iter().zip(&with_spare).all(|(gold, other)| other <= gold), "{dialect:?}");
        assert!(gold.iter().any(|earned| *earned > 1.11) && gold.iter().any(|earned| (earned - 1.1).abs() < 1e-9), "{gold:?}");
    }
}
