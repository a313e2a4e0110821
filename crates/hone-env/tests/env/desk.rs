//! The desk as others see it: who plays well is right in every scenario, who does nothing never is, and a seed fixes every byte.

use hone_env::Dialect;
use hone_env::desk::{Desk, DeskOptions, Habits, N_ANSWERS_MAX};
use hone_env::rollout::{Luck, Plan, traces};
use hone_env::{Player, call, said};
use hone_trace::env::{Env, EnvError, Play, Split};
use hone_trace::{Category, Family, Message, Scenario, ScenarioId, Trace, TraceOutcome, V1};
use proptest::prelude::ProptestConfig;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const DIALECTS: [Dialect; 2] = [Dialect::Natural, Dialect::Short];

fn desk(dialect: Dialect, fault_rate: f64) -> Desk {
    Desk::new(DeskOptions { dialect, fault_rate }).expect("a rate between 0 and 1")
}

fn play(desk: &Desk, player: Player<'_>, scenarios: &[Scenario], seed: u64, n_concurrent: usize) -> Vec<Trace> {
    traces(desk, player, &Plan { luck: Luck::Own, n_concurrent, ..Plan::new("desk", scenarios, seed) })
}

fn n_correct(traces: &[Trace]) -> usize {
    traces.iter().filter(|trace| trace.turns().last().and_then(|turn| turn.signals.get("correct")) == Some(&1.0)).count()
}

fn errors(traces: &[Trace]) -> BTreeMap<&str, usize> {
    let mut n_seen = BTreeMap::new();
    let kinds = traces.iter().flat_map(Trace::turns).flat_map(|turn| &turn.errors).map(|error| error.kind.as_str());
    kinds.for_each(|kind| *n_seen.entry(kind).or_default() += 1);
    n_seen
}

#[test]
fn gold_is_right_in_every_scenario() {
    for (dialect, split, seed, fault_rate) in DIALECTS.into_iter().flat_map(|dialect| {
        let rates = [(1, 0.05), (2, 1.0), (12_345_678_901, 1.0)];
        Split::ALL.into_iter().flat_map(move |split| rates.map(|(seed, rate)| (dialect, split, seed, rate)))
    }) {
        let desk = desk(dialect, fault_rate);
        let scenarios = desk.scenarios(split, seed, 1200).unwrap();
        let traces = play(&desk, Player::Gold, &scenarios, seed, 2);
        for (trace, scenario) in traces.iter().zip(&scenarios) {
            assert_eq!(n_correct(std::slice::from_ref(trace)), 1, "{dialect:?} {seed} {fault_rate}: {}", scenario.id);
            assert_eq!(trace.outcome, TraceOutcome::Success);
            assert!(trace.turns().count() <= N_ANSWERS_MAX);
            let best = desk.best(scenario);
            let last = &trace.turns().last().unwrap().signals;
            assert!(best.0.iter().all(|(name, value)| last.get(&**name) == Some(value)));
        }
        let n_hard = scenarios.iter().filter(|scenario| scenario.difficulty > Some(0.5)).count();
        let errors = errors(&traces);
        let n_faults: usize = errors.values().sum();
        assert!(errors.keys().all(|kind| ["tool_timeout", "tool_rate_limit", "tool_wrong_data"].contains(kind)), "{errors:?}");
        if fault_rate == 1.0 {
            assert_eq!(n_faults, n_hard, "every first call fails, and no second one");
        } else {
            assert!((10..90).contains(&n_faults), "{n_faults} faults in {n_hard} episodes with calls");
        }
    }
}

#[test]
fn who_says_nothing_or_anything_is_seldom_right() {
    for dialect in DIALECTS {
        let desk = desk(dialect, 0.05);
        let scenarios = desk.scenarios(Split::Test, 3, 1200).unwrap();
        let empty = play(&desk, Player::Empty, &scenarios, 3, 2);
        assert_eq!(n_correct(&empty), 0);
        assert!(empty.iter().all(|trace| trace.outcome == TraceOutcome::Failure));
        assert!(empty.iter().flat_map(Trace::turns).all(|turn| turn.signals["format"] == 0.0));
        let random = play(&desk, Player::Random, &scenarios, 3, 2);
        assert!(n_correct(&random) < 60, "{}", n_correct(&random));
        assert!(random.iter().flat_map(Trace::turns).all(|turn| turn.signals["format"] == 1.0), "{:?}", errors(&random));
        assert!(!errors(&random).contains_key("unparsable_action"));
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_any_concurrency() {
    for dialect in DIALECTS {
        let desk = desk(dialect, 0.3);
        let scenarios = desk.scenarios(Split::Train, 7, 300).unwrap();
        for player in [Player::Gold, Player::Random] {
            let bytes = |n_concurrent| serde_json::to_vec(&play(&desk, player, &scenarios, 7, n_concurrent)).unwrap();
            assert!(bytes(1) == bytes(64));
        }
        assert_eq!(
            serde_json::to_string(&scenarios).unwrap(),
            serde_json::to_string(&desk.scenarios(Split::Train, 7, 300).unwrap()).unwrap()
        );
    }
}

#[test]
fn no_family_is_in_two_splits() {
    let desk = desk(Dialect::Short, 0.0);
    let families = Split::ALL.map(|split| {
        let scenarios = (0..3).flat_map(|seed| desk.scenarios(split, seed, 2000).unwrap());
        scenarios.map(|scenario| scenario.family).collect::<BTreeSet<Family>>()
    });
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert_eq!(families[a].intersection(&families[b]).next(), None);
    }
    assert!(families.iter().all(|families| families.len() > 2000), "{:?}", families.map(|families| families.len()));
}

#[test]
fn an_id_fixes_its_scenario_and_a_longer_list_begins_with_the_shorter() {
    let desk = desk(Dialect::Natural, 0.05);
    for split in Split::ALL {
        let long = desk.scenarios(split, 5, 240).unwrap();
        assert_eq!(desk.scenarios(split, 5, 60).unwrap(), long[..60]);
        assert!(long.iter().all(|scenario| desk.scenario(&scenario.id).unwrap() == *scenario));
        let mut n_of: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        long.iter()
            .for_each(|scenario| *n_of.entry((scenario.category.as_str(), scenario.difficulty > Some(0.5))).or_default() += 1);
        assert_eq!(n_of.len(), 12);
        assert!(n_of.values().all(|&n| n == 20), "{n_of:?}");
    }
    for id in ["desk/train/1", "desk/exam/1/2", "inbox/train/1/2", "desk/train/x/2", "desk/train/1/2/3/4", "desk/train/-1/2"] {
        assert!(matches!(desk.scenario(&ScenarioId::new(id).unwrap()), Err(EnvError::Scenario { .. })), "{id}");
    }
}

#[test]
fn a_variation_is_another_ticket_of_the_same_kind() {
    let desk = desk(Dialect::Short, 0.05);
    for split in Split::ALL {
        let scenarios = desk.scenarios(split, 9, 240).unwrap();
        let varied: Vec<Scenario> =
            scenarios.iter().map(|scenario| desk.vary(scenario, 4).expect("the desk has variations")).collect();
        for (one, other) in scenarios.iter().zip(&varied) {
            assert_eq!((&one.category, one.difficulty), (&other.category, other.difficulty));
            assert_ne!(one.family, other.family);
            assert_eq!(desk.scenario(&other.id).as_ref(), Ok(other));
            assert_eq!(desk.vary(one, 4).as_ref(), Some(other));
            assert!(other.id.as_str().starts_with(&format!("desk/{}/9/", split.as_str())));
        }
        assert_eq!(n_correct(&play(&desk, Player::Gold, &varied, 1, 2)), varied.len());
    }
}

#[test]
fn easy_tickets_need_no_tool_and_hard_ones_do() {
    for dialect in DIALECTS {
        let desk = desk(dialect, 0.05);
        let scenarios = desk.scenarios(Split::Validation, 11, 1200).unwrap();
        for (trace, scenario) in play(&desk, Player::Gold, &scenarios, 11, 2).iter().zip(&scenarios) {
            let is_hard = scenario.difficulty > Some(0.5);
            let n_calls = trace.turns().map(|turn| turn.tool_calls.len()).sum::<usize>();
            assert_eq!(n_calls > 0, is_hard, "{}", scenario.id);
            // What cannot be worked out must have been said.
            let question = trace.turns().next().unwrap().input.last().unwrap().content.text();
            let truth = scenario.truth.as_ref().and_then(Value::as_str).unwrap();
            let is_said = question.split([' ', ',', '.']).any(|word| word == truth) || question.contains(truth);
            if ["order", "policy"].contains(&scenario.category.as_str()) && !is_hard {
                assert!(is_said, "{question} / {truth}");
            }
            if scenario.category.as_str() == "order" && is_hard {
                assert!(!is_said, "{question} / {truth}");
            }
        }
    }
}

#[test]
fn the_truth_of_arithmetic_is_what_integers_say() {
    let desk = desk(Dialect::Short, 0.0);
    for scenario in desk.scenarios(Split::Train, 2, 1200).unwrap().iter().filter(|one| one.category.as_str() == "arithmetic") {
        let question = desk.reset(scenario, 0).unwrap().messages[0].content.text();
        let words: Vec<&str> = question.split(' ').collect();
        let ["what", a, sign, b] = words[..] else { panic!("{question}") };
        let (a, b): (i64, i64) = (a.parse().unwrap(), b.parse().unwrap());
        let expected = match sign {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            _ => a / b,
        };
        assert_eq!(scenario.truth, Some(expected.to_string().into()), "{question}");
    }
}

#[test]
fn the_short_dialect_has_few_words_and_short_episodes() {
    let words: BTreeSet<&str> = Desk::words().into_iter().collect();
    assert!(words.len() < 300, "{}", words.len());
    let desk = desk(Dialect::Short, 0.5);
    let scenarios = desk.scenarios(Split::Train, 1, 1200).unwrap();
    let mut n_tokens = Vec::new();
    for player in [Player::Gold, Player::Random, Player::Empty] {
        for trace in play(&desk, player, &scenarios, 1, 2) {
            let tail = &trace.segments[0].tail;
            let texts: Vec<String> = trace
                .turns()
                .flat_map(|turn| turn.input.iter().chain([&turn.answer]))
                .chain(tail)
                .map(|m| m.content.text())
                .collect();
            let pieces: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).flat_map(pieces).collect();
            for piece in &pieces {
                let is_mark = piece.len() == 1 && !piece.chars().all(char::is_alphabetic);
                assert!(is_mark || words.contains(piece), "{piece} in {texts:?}");
            }
            if matches!(player, Player::Gold) {
                n_tokens.push(pieces.len());
            }
        }
    }
    n_tokens.sort_unstable();
    let (median, most) = (n_tokens[n_tokens.len() / 2], n_tokens[n_tokens.len() - 1]);
    assert!(median <= 30 && most <= 82, "median {median}, most {most}");
    let corpus = desk.corpus(1, 50).unwrap();
    assert_eq!(corpus.len(), 52);
    assert!(corpus[2].starts_with("user\nwhat ") && corpus[2].contains("\nassistant\nanswer "), "{}", corpus[2]);
}

/// Words, single digits and marks, as a small tokenizer cuts them.
fn pieces(word: &str) -> Vec<&str> {
    if word.chars().all(char::is_alphabetic) { vec![word] } else { word.split("").filter(|piece| !piece.is_empty()).collect() }
}

#[test]
fn options_and_scenarios_that_make_no_sense_are_refused() {
    for fault_rate in [-0.1, 1.1, f64::NAN] {
        assert!(Desk::new(DeskOptions { dialect: Dialect::Short, fault_rate }).is_err());
    }
    let desk = desk(Dialect::Short, 0.0);
    let good = desk.scenarios(Split::Train, 1, 1).unwrap().remove(0);
    for damaged in [Scenario { input: json!({"level": "hard"}), ..good.clone() }, Scenario { truth: None, ..good }] {
        assert!(matches!(desk.reset(&damaged, 1), Err(EnvError::Scenario { .. })));
        assert!(matches!(desk.gold(&damaged, 1), Err(EnvError::Scenario { .. })));
    }
}

/// One hand-made ticket, and a talk about it.
struct Talk {
    episode: Box<dyn Play>,
}

fn talk(dialect: Dialect, fault_rate: f64, query: &Value, missing: &Value, truth: &str) -> Talk {
    let order = json!({"order": 1043, "item": "novel", "category": "books", "status": "shipped", "city": "oslo",
        "total": "45.90", "name": "mara"});
    let policy = json!({"category": "books", "return": 30, "warranty": 12, "fee": 5});
    let scenario = Scenario {
        v: V1,
        id: ScenarioId::new("desk/by/hand").expect("a name"),
        category: Category::new("test").expect("a name"),
        input: json!({"level": "hard", "query": query, "missing": missing, "phrasing": 0, "customer": "mara",
            "records": {"orders": [order], "policies": [policy]}}),
        truth: Some(truth.into()),
        difficulty: None,
        family: Family::new("hand").expect("a name"),
    };
    Talk { episode: desk(dialect, fault_rate).reset(&scenario, 1).expect("a ticket").episode }
}

impl Talk {
    /// Says this, and checks what comes back: the words, the signals, and the type of error.
    #[track_caller]
    fn check(&mut self, action: &Message, told: &str, signals: &[(&str, f64)], error: Option<&str>) {
        let step = self.episode.step(action).expect("the episode goes on");
        let texts: Vec<String> = step.messages.iter().map(|message| message.content.text()).collect();
        assert_eq!(texts.join(" | "), told);
        let found: Vec<(&str, f64)> = step.signals.0.iter().map(|(name, value)| (&**name, *value)).collect();
        assert_eq!(found, signals);
        assert_eq!(step.errors.first().map(|error| error.kind.as_str()), error);
        assert!(step.errors.iter().all(|error| error.recovered));
        let is_over = signals.iter().any(|(name, _)| *name == "correct");
        assert_eq!(step.done.is_some(), is_over);
        assert!(!is_over || self.episode.step(&said("answer 1")).is_err());
    }
}

const READ: (&str, f64) = ("format", 1.0);
const UNREAD: (&str, f64) = ("format", 0.0);
const WORKED: (&str, f64) = ("tool_ok", 1.0);
const FAILED: (&str, f64) = ("tool_ok", 0.0);
const NEEDED: (&str, f64) = ("needed", 1.0);
const NEEDLESS: (&str, f64) = ("needed", 0.0);
const RIGHT: (&str, f64) = ("correct", 1.0);
const WRONG: (&str, f64) = ("correct", 0.0);

fn product() -> Value {
    json!({"calculate": {"expression": "387 * 46"}})
}

fn length() -> Value {
    json!({"convert": {"amount": "12", "from": "km", "to": "m"}})
}

const USAGE: &str = "use calc convert date order policy text ask answer";

#[test]
fn lines_of_the_short_dialect_are_understood() {
    let check = |line: &str, told: &str, signals: &[(&str, f64)], error: Option<&str>| {
        talk(Dialect::Short, 0.0, &product(), &Value::Null, "17802").check(&said(line), told, signals, error);
    };
    check("calc 387 * 46", "= 17802", &[READ, WORKED, NEEDED], None);
    check("  CALC 387*46 ", "= 17802", &[READ, WORKED, NEEDED], None);
    check("convert 12 km m", "= 12000", &[READ, WORKED, NEEDLESS], None);
    check("date 2024-03-01 + 45", "= 2024-04-15", &[READ, WORKED, NEEDLESS], None);
    check("date 2024-03-01 - 1", "= 2024-02-29", &[READ, WORKED, NEEDLESS], None);
    check("date 2024-03-01 to 2024-04-15", "= 45", &[READ, WORKED, NEEDLESS], None);
    check("date 2024-03-01", "= friday", &[READ, WORKED, NEEDLESS], None);
    check("order 1043 status", "= shipped", &[READ, WORKED, NEEDLESS], None);
    check("policy books return", "= 30", &[READ, WORKED, NEEDLESS], None);
    check("text reverse lamp", "= p m a l", &[READ, WORKED, NEEDLESS], None);
    check("text count a lamp sand", "= 2", &[READ, WORKED, NEEDLESS], None);
    check("answer 17802", "", &[READ, RIGHT], None);
    check("answer 17,802.", "", &[READ, RIGHT], None);
    check("answer 17803", "", &[READ, WRONG], None);
    check("ask unit", "none", &[READ, ("asked", 0.0)], None);

    check("calc", "error expression", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("calc 1 / 0", "error expression", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("convert 12 km", "error to", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("convert 12 km kg", "error to", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("convert 12 km m m", "error to", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("date 2024-03-01 * 2", "error date", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("date 2024-03-01 + much", "error days", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("order 1044 status", "error order", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("order 1043", "error field", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("policy boats return", "error category", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("text reverse", "error text", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    check("text count lamp", "error letter", &[READ, FAILED, NEEDLESS], Some("tool_refused"));

    for line in ["", "17802", "fly to oslo", "answer", "ask", "ask why", "calc 1 + 1\nanswer 2"] {
        check(line, USAGE, &[UNREAD], Some("unparsable_action"));
    }
    check(&format!("answer {}", "1".repeat(1000)), USAGE, &[UNREAD], Some("unparsable_action"));
}

#[test]
fn answers_of_the_natural_dialect_are_understood() {
    let check = |action: &Message, told: &str, signals: &[(&str, f64)], error: Option<&str>| {
        talk(Dialect::Natural, 0.0, &product(), &Value::Null, "17802").check(action, told, signals, error);
    };
    check(&call("calculator", &json!({"expression": "387 * 46"})), "17802", &[READ, WORKED, NEEDED], None);
    check(&said("17802"), "", &[READ, RIGHT], None);
    check(&said("387 times 46 gives 17802.\n\n**Answer:** 17,802"), "", &[READ, RIGHT], None);
    check(&said("answer: 5, or rather answer: 17802"), "", &[READ, RIGHT], None);
    check(&said("It is 17802"), "", &[READ, WRONG], None);
    check(&said("Could you tell me more?"), "I have told you everything that I know.", &[READ, ("asked", 0.0)], None);
    check(&said(" "), "error: the answer is empty", &[UNREAD], Some("unparsable_action"));
    check(&said("Answer: "), "error: the answer is empty", &[UNREAD], Some("unparsable_action"));
    let unknown = "error: there is no tool `oracle`; there are calculator, convert, date, lookup, policy, text";
    check(&call("oracle", &json!({})), unknown, &[UNREAD], Some("unparsable_action"));
    check(
        &call("lookup", &json!({"order": 7})),
        "error: argument `order`: there is no order 7",
        &[READ, FAILED, NEEDLESS],
        Some("tool_refused"),
    );

    let mut both = call("lookup", &json!({"order": 1043, "field": "city"}));
    both.tool_calls.extend(call("convert", &json!({"amount": 1})).tool_calls);
    check(&both, "oslo | error: argument `from`: it is missing", &[READ, FAILED, NEEDLESS], Some("tool_refused"));
    let mut broken = both.clone();
    broken.tool_calls[1].arguments = "{amount: 1".into();
    let told = "oslo | error: the arguments of convert are not JSON: key must be a string at line 1 column 2";
    check(&broken, told, &[UNREAD, WORKED, NEEDLESS], Some("unparsable_action"));
    let mut many = both.clone();
    many.tool_calls = vec![both.tool_calls[0].clone(); 5];
    let told = "oslo | oslo | oslo | oslo | error: at most 4 calls can be made at once";
    check(&many, told, &[UNREAD, WORKED, NEEDLESS], Some("unparsable_action"));
}

#[test]
fn the_customer_tells_what_is_missing_as_often_as_asked() {
    let mut short = talk(Dialect::Short, 0.0, &length(), &json!("unit"), "12000");
    short.check(&said("ask order"), "none", &[READ, ("asked", 0.0)], None);
    short.check(&said("ask unit"), "= km", &[READ, ("asked", 1.0)], None);
    short.check(&said("ask unit"), "= km", &[READ, ("asked", 1.0)], None);
    short.check(&said("answer 12000"), "", &[READ, RIGHT], None);
    let mut natural = talk(Dialect::Natural, 0.0, &length(), &json!("unit"), "12000");
    natural.check(&said("Happy to help. In which unit is that?"), "It is in kilometres.", &[READ, ("asked", 1.0)], None);
    natural.check(&said("12000"), "", &[READ, RIGHT], None);
}

#[test]
fn a_call_is_needed_once_and_only_where_the_ticket_takes_it() {
    let lookup = json!({"lookup": {"order": 1043, "field": "status"}});
    let mut order = talk(Dialect::Natural, 0.0, &lookup, &Value::Null, "shipped");
    let ask = |field: &str| call("lookup", &json!({"order": 1043, "field": field}));
    order.check(&ask("city"), "oslo", &[READ, WORKED, NEEDLESS], None);
    let mut twice = ask("status");
    twice.tool_calls.extend(ask("status").tool_calls);
    order.check(&twice, "shipped | shipped", &[READ, WORKED, NEEDED], None);
    order.check(&ask("status"), "shipped", &[READ, WORKED, NEEDLESS], None);

    let mut number = talk(Dialect::Short, 0.0, &length(), &Value::Null, "12000");
    number.check(&said("calc 12 * 1001"), "= 12012", &[READ, WORKED, NEEDLESS], None);
    number.check(&said("calc 12 * 1000"), "= 12000", &[READ, WORKED, NEEDED], None);
    number.check(&said("convert 12 km m"), "= 12000", &[READ, WORKED, NEEDLESS], None);

    // The first look-up fails, as it may; the second try is the one that told.
    let mut unlucky = talk(Dialect::Natural, 1.0, &lookup, &Value::Null, "shipped").episode;
    let needed = |step: hone_trace::env::Step| step.signals.get("needed");
    assert_eq!(needed(unlucky.step(&ask("status")).unwrap()), Some(0.0));
    assert_eq!(needed(unlucky.step(&ask("status")).unwrap()), Some(1.0));
}

#[test]
fn gold_makes_as_many_needed_calls_as_anyone_can() {
    let n_needed = |trace: &Trace| trace.turns().filter_map(|turn| turn.signals.get("needed")).sum::<f64>();
    for dialect in DIALECTS {
        let desk = desk(dialect, 0.05);
        let scenarios = desk.scenarios(Split::Train, 5, 1200).unwrap();
        let page = |scenario: &Scenario, _| desk.manual(scenario);
        let gold = play(&desk, Player::Gold, &scenarios, 5, 2);
        let manual = play(&desk, Player::Script("manual", &page), &scenarios, 5, 2);
        for ((gold, manual), scenario) in gold.iter().zip(&manual).zip(&scenarios) {
            let expected = match (desk.needs_tool(scenario).unwrap(), scenario.category.as_str()) {
                (false, _) => 0.0,
                (true, "policy") => 2.0,
                (true, _) => 1.0,
            };
            assert_eq!((n_needed(gold), n_needed(manual)), (expected, expected), "{dialect:?} {}", scenario.id);
        }
    }
}

#[test]
fn the_fourth_answer_is_the_last() {
    let mut talk = talk(Dialect::Short, 0.0, &product(), &Value::Null, "17802");
    talk.check(&said("calc 387 * 46"), "= 17802", &[READ, WORKED, NEEDED], None);
    talk.check(&said("hm"), USAGE, &[UNREAD], Some("unparsable_action"));
    talk.check(&said("ask date"), "none", &[READ, ("asked", 0.0)], None);
    talk.check(&said("calc 387 * 46"), "= 17802", &[READ, WORKED, NEEDLESS, WRONG], None);
}

#[test]
fn a_fault_is_told_and_the_next_call_works() {
    let desk = desk(Dialect::Natural, 1.0);
    let scenarios = desk.scenarios(Split::Train, 1, 240).unwrap();
    let mut seen = BTreeSet::new();
    for trace in play(&desk, Player::Gold, &scenarios, 1, 1) {
        let calls: Vec<_> = trace.turns().filter(|turn| !turn.tool_calls.is_empty()).collect();
        let [failed, rest @ ..] = &calls[..] else { continue };
        let (call, error) = (&failed.tool_calls[0], &failed.errors[0]);
        assert_eq!(call.success, Some(false));
        assert_eq!(call.duration_ms == Some(30_000.0), error.kind == "tool_timeout");
        assert!(error.recovered && error.message.ends_with("Call it again."), "{}", error.message);
        assert!(rest.iter().all(|turn| turn.tool_calls[0].success == Some(true) && turn.errors.is_empty()));
        assert!(rest.iter().all(|turn| turn.tool_calls[0].duration_ms.is_some_and(|ms| (15.0..=60.0).contains(&ms))));
        seen.insert(error.kind.clone());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["tool_rate_limit", "tool_timeout", "tool_wrong_data"]);
}

#[test]
fn tools_are_described_and_only_the_natural_dialect_shows_them() {
    let scenario = desk(Dialect::Short, 0.0).scenarios(Split::Train, 1, 1).unwrap().remove(0);
    assert!(desk(Dialect::Short, 0.0).reset(&scenario, 1).unwrap().tools.is_empty());
    let tools = desk(Dialect::Natural, 0.0).reset(&scenario, 1).unwrap().tools;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["calculator", "convert", "date", "lookup", "policy", "text"]);
    for tool in tools.iter() {
        let properties = tool.parameters["properties"].as_object().unwrap();
        let required = tool.parameters["required"].as_array().unwrap();
        assert!(required.iter().all(|name| properties.contains_key(name.as_str().unwrap())), "{}", tool.name);
    }
}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(300)))]
    #[test]
    fn no_answer_breaks_the_desk(text: String, rest in "(calc|convert|date|order|policy|text|answer|ask) [-+*/(). 0-9a-zé]{0,40}") {
        for line in [&text, &rest] {
            let short = talk(Dialect::Short, 0.5, &product(), &Value::Null, "1").episode.step(&said(line.as_str()));
            let natural = talk(Dialect::Natural, 0.5, &product(), &Value::Null, "1").episode.step(&said(line.as_str()));
            let calculator = call("calculator", &json!({"expression": line}));
            let called = talk(Dialect::Natural, 0.5, &product(), &Value::Null, "1").episode.step(&calculator);
            proptest::prop_assert!(short.is_ok() && natural.is_ok() && called.is_ok());
        }
    }
}

#[test]
fn who_shuns_the_tools_solves_what_is_easy_and_a_share_of_the_rest() {
    let desk = desk(Dialect::Short, 0.0);
    let scenarios = desk.scenarios(Split::Train, 3, 1200).expect("scenarios");
    let correct = |tool_share: f64, talk_share: f64| {
        let shy = |scenario: &Scenario, seed| desk.shy(scenario, Habits { tool_share, talk_share }, seed);
        n_correct(&play(&desk, Player::Script("shy", &shy), &scenarios, 3, 4))
    };
    assert_eq!(correct(1.0, 0.0), 1200);
    assert_eq!(correct(1.0, 0.5), 1200, "who talks first is heard out");
    assert!((600..660).contains(&correct(0.0, 0.0)), "half of the tickets are easy, and a guess is seldom right");
    assert!((780..900).contains(&correct(0.4, 0.0)));
}

#[test]
fn the_manual_does_everything_with_tools() {
    for dialect in [Dialect::Short, Dialect::Natural] {
        let desk = desk(dialect, 0.0);
        let scenarios = desk.scenarios(Split::Train, 3, 240).unwrap();
        let page = |scenario: &Scenario, _| desk.manual(scenario);
        let traces = play(&desk, Player::Script("manual", &page), &scenarios, 3, 1);
        assert_eq!(n_correct(&traces), scenarios.len());
        let has_call = |trace: &Trace| trace.turns().any(|turn| turn.tool_calls.iter().any(|call| call.success == Some(true)));
        assert!(traces.iter().all(has_call), "also where it could do without");
        let n_needing = scenarios.iter().filter(|scenario| desk.needs_tool(scenario).unwrap()).count();
        assert!((100..140).contains(&n_needing), "about half need one: {n_needing}");
    }
}
