use super::*;
use crate::testing::{Script, group, scores, timeout, trace};
use hone_trace::env::Signals;
use hone_trace::{ErrorEvent, LlmCall, ToolCall};
use proptest::prelude::*;
use serde_json::json;

fn at() -> Time {
    Time::from_unix_nanos(9)
}

fn error(kind: &str) -> ErrorEvent {
    ErrorEvent { kind: kind.into(), recovered: true, message: String::new() }
}

fn call(order: usize, success: bool) -> ToolCall {
    ToolCall {
        id: String::new(),
        name: "look_up".into(),
        arguments: json!({"order": order}),
        success: Some(success),
        duration_ms: None,
        extra: serde_json::Map::new(),
    }
}

/// A trace of which each turn is (successful calls, timeouts), each call about another order, with this value of `correct` at the end.
fn worked(turns: &[(usize, usize)], correct: f64) -> Trace {
    let mut worked = trace("worked", &vec!["on it"; turns.len()]);
    let mut orders = 0..;
    for (turn, &(n_successes, n_timeouts)) in worked.segments[0].turns.iter_mut().zip(turns) {
        let kinds = std::iter::repeat_n(true, n_successes).chain(std::iter::repeat_n(false, n_timeouts));
        turn.tool_calls = kinds.zip(&mut orders).map(|(success, order)| call(order, success)).collect();
        turn.errors = vec![error("tool_timeout"); n_timeouts];
    }
    if let Some(last) = worked.segments[0].turns.last_mut() {
        last.signals.insert("correct".into(), correct);
    }
    worked
}

fn score(recipe: &Recipe, trace: &Trace) -> Scored {
    Scorer::new(recipe, None).unwrap().score(Attempt { trace, item: &Value::Null }, 1, at()).unwrap()
}

fn recipe(components: &str) -> Recipe {
    Recipe::parse(&format!("components = [\n{components}\n]")).unwrap()
}

const CORRECT: &str =
    r#"{ name = "correct", kind = "signal", signal = "correct", range = [0, 1], weight = 1, role = "primary" },"#;

#[track_caller]
fn check(components: &str, trace: &Trace, total: f64) {
    let scored = score(&recipe(components), trace);
    assert!((scored.reward.total - total).abs() < 1e-9, "{:?}", scored.reward);
}

#[test]
fn signals_are_combined_over_the_turns() {
    let mut trace = trace("t", &["a", "b", "c"]);
    for (turn, value) in trace.segments[0].turns.iter_mut().zip([3.0, -1.0]) {
        turn.signals.insert("points".into(), value);
    }
    for (options, value) in [
        ("", -1.0),
        (r#", combine = "last""#, -1.0),
        (r#", combine = "sum""#, 2.0),
        (r#", combine = "max""#, 3.0),
        (r#", combine = "mean""#, 1.0),
        (r#", combine = "max", range = [0, 2]"#, 2.0),
    ] {
        let part = format!(r#"{{ name = "p", kind = "signal", signal = "points", weight = 2, role = "primary"{options} }}"#);
        check(&part, &trace, 2.0 * value);
    }
    check(r#"{ name = "p", kind = "signal", signal = "gone", missing = -1, weight = 1, role = "primary" }"#, &trace, -1.0);
}

#[test]
fn what_is_too_long_costs_up_to_a_limit() {
    let mut trace = trace("t", &["a", "b", "c"]);
    trace.segments[0].turns[0].llm_calls = vec![LlmCall { tokens_out: 150, ..LlmCall::default() }];
    let length = |max: &str| {
        format!(
            r#"{CORRECT} {{ name = "l", kind = "length", free_tokens = 100, per_token = 0.01, cost_max = {max}, weight = 1, role = "penalty" }}"#
        )
    };
    check(&length("1"), &trace, -0.5);
    check(&length("0.2"), &trace, -0.2);
    let steps = r#"{ name = "s", kind = "steps", free_turns = 1, per_turn = 0.1, cost_max = 1, weight = 0.5, role = "penalty" }"#;
    check(&format!("{CORRECT} {steps}"), &trace, -0.1);
}

#[test]
fn format_is_the_share_of_turns_that_could_be_read() {
    let mut trace = trace("t", &["a", " ", "c", "d", "e"]);
    trace.segments[0].turns[2].errors = vec![error("unparsable_action")];
    trace.segments[0].turns[3].errors = vec![error("tool_timeout")];
    trace.segments[0].turns[4].signals.insert("format".into(), 0.0);
    check(r#"{ name = "f", kind = "format", weight = 1, role = "primary" }"#, &trace, 0.4);
}

#[test]
fn outcomes_and_graders_are_components_too() {
    let mut trace = trace("t", &["Paris"]);
    trace.outcome = TraceOutcome::Success;
    check(r#"{ name = "o", kind = "outcome", weight = 2, role = "primary" }"#, &trace, 2.0);
    let grader = r#"{ name = "g", kind = "grader", weight = 1, role = "primary",
        grader = { type = "string_check", input = "{{ sample.output_text }}", reference = "Paris", operation = "eq" } }"#;
    check(grader, &trace, 1.0);
}

const PROCESS: &str = r#"{ name = "process", kind = "process", weight = 1, role = "secondary" }"#;

#[test]
fn process_rewards_are_earned_by_turns_and_add_up() {
    let recipe = recipe(&format!("{CORRECT} {PROCESS}"));
    let scored = score(&recipe, &worked(&[(1, 0), (0, 1), (2, 0)], 1.0));
    assert!((scored.reward.total - 1.05).abs() < 1e-9, "{:?}", scored.reward);
    let turns: Vec<(Option<u32>, f64)> = scored.turns.iter().map(|reward| (reward.turn_idx, reward.total)).collect();
    assert_eq!(turns, [(Some(0), 0.05), (Some(1), -0.1), (Some(2), 0.1)]);
}

#[test]
fn the_same_call_pays_once() {
    let mut trace = worked(&[(1, 0), (0, 1), (3, 0)], 1.0);
    trace.segments[0].turns[1].tool_calls = vec![call(7, false)];
    trace.segments[0].turns[2].tool_calls = vec![call(0, true), call(7, true), call(7, true)];
    // The first look-up, and the one that worked after a timeout.
    check(&format!("{CORRECT} {PROCESS}"), &trace, 1.0 + 2.0 * 0.05 - 0.1);
}

#[test]
fn a_world_that_knows_says_which_calls_pay() {
    let process = r#"{ name = "process", kind = "process", signal = "needed", weight = 1, role = "secondary" }"#;
    let recipe = recipe(&format!("{CORRECT} {process}"));
    let mut trace = worked(&[(4, 0), (4, 0), (0, 0)], 1.0);
    assert_eq!(score(&recipe, &trace).reward.total, 1.0, "nobody said that a call was needed");
    for (turn, needed) in trace.segments[0].turns.iter_mut().zip([0.0, 2.0]) {
        turn.signals.insert("needed".into(), needed);
    }
    let scored = score(&recipe, &trace);
    assert!((scored.reward.total - 1.1).abs() < 1e-9, "{:?}", scored.reward);
    assert_eq!(scored.turns.iter().map(|reward| reward.turn_idx).collect::<Vec<_>>(), [Some(1)]);
    trace.segments[0].turns[1].signals.insert("needed".into(), f64::INFINITY);
    let error = Scorer::new(&recipe, None).unwrap().score(Attempt { trace: &trace, item: &Value::Null }, 1, at()).unwrap_err();
    assert_eq!(error.to_string(), "component `process`: its value is not a finite number");
}

#[test]
fn farming_calls_pays_nothing_without_success_and_little_with_it() {
    let recipe = recipe(&format!("{CORRECT} {PROCESS}"));
    let total = |turns: &[(usize, usize)], correct: f64| score(&recipe, &worked(turns, correct)).reward.total;
    assert_eq!(total(&[(1000, 0); 5], 0.0), 0.0);
    assert!((total(&[(1000, 0); 5], 1.0) - 1.3).abs() < 1e-9);
    assert!((total(&[(0, 1000); 5], 0.0) + 0.3).abs() < 1e-9);
    assert!((total(&[(0, 1000); 5], 1.0) - 0.7).abs() < 1e-9);
    assert!(score(&recipe, &worked(&[(1000, 0); 5], 0.0)).turns.is_empty());
}

#[test]
fn several_process_components_share_what_they_may_reach() {
    let part =
        |name: &str, more: &str| format!(r#"{{ name = "{name}", kind = "process", weight = 1, role = "secondary"{more} }},"#);
    let four: String = ["a", "b", "c", "d"].map(|name| part(name, "")).concat();
    let total = |parts: &str, turns: &[(usize, usize)], correct: f64| {
        let scored = score(&recipe(&format!("{CORRECT} {parts}")), &worked(turns, correct));
        let turns: f64 = scored.turns.iter().map(|reward| reward.total).sum();
        assert!((turns + correct - scored.reward.total).abs() < 1e-9, "{scored:?}");
        scored.reward.total
    };
    assert!((total(&four, &[(1000, 0); 5], 1.0) - 1.3).abs() < 1e-9);
    assert!((total(&four, &[(0, 1000); 5], 1.0) - 0.7).abs() < 1e-9);
    // What one leaves, the next may use: four times 0.05, and of 0.1 each three.
    assert!((total(&four, &[(1, 0)], 1.0) - 1.2).abs() < 1e-9);
    assert!((total(&four, &[(1, 0), (1, 0)], 1.0) - 1.3).abs() < 1e-9);
    // One with a larger share has what is left of that.
    let two = part("a", "") + &part("b", ", share_max = 0.5");
    assert!((total(&two, &[(1000, 0); 5], 1.0) - 1.5).abs() < 1e-9);
}

proptest! {
    #[test]
    fn whatever_the_calls_a_success_beats_a_failure(
        good in prop::collection::vec((0usize..4, 0usize..3), 1..6),
        bad in prop::collection::vec((0usize..4, 0usize..3), 1..6),
        weight in 0.1f64..5.0,
        timeout in -0.2f64..0.0,
        success in 0.0f64..1.0,
    ) {
        let process = format!(
            r#"{{ name = "process", kind = "process", timeout = {timeout:?}, success = {success:?}, weight = {weight:?}, role = "secondary" }}"#
        );
        let recipe = recipe(&format!("{CORRECT} {process}"));
        let (good, bad) = (score(&recipe, &worked(&good, 1.0)), score(&recipe, &worked(&bad, 0.0)));
        prop_assert!(good.reward.total >= 0.7 - 1e-9 && bad.reward.total <= 1e-9, "{:?} {:?}", good.reward, bad.reward);
        for scored in [good, bad] {
            let component = &scored.reward.components[1];
            let turns: f64 = scored.turns.iter().map(|reward| reward.total).sum();
            prop_assert!((component.value * component.weight).abs() <= 0.3 + 1e-9);
            prop_assert!((turns - component.value * component.weight).abs() < 1e-9);
        }
    }
}

#[test]
fn scoring_twice_gives_the_same_rewards_and_another_recipe_other_ids() {
    let (one, other) = (recipe(&format!("{CORRECT} {PROCESS}")), recipe(CORRECT));
    let trace = worked(&[(1, 0), (1, 0)], 1.0);
    assert_eq!(score(&one, &trace), score(&one, &trace));
    let scored = score(&one, &trace);
    assert_ne!(scored.reward.id, score(&other, &trace).reward.id);
    let ids = [scored.reward.id, scored.turns[0].id, scored.turns[1].id];
    assert!(ids[0] != ids[1] && ids[1] != ids[2]);
    assert_eq!((scored.reward.by.kind, scored.reward.by.config), (GiverKind::Check, Some(one.hash())));
}

#[test]
fn a_rewarded_trace_can_be_stored() {
    let recipe = recipe(&format!("{CORRECT} {PROCESS}"));
    let mut trace = worked(&[(1, 0), (0, 2)], 1.0);
    let scored = score(&recipe, &trace);
    trace.rewards = [vec![scored.reward], scored.turns].concat();
    trace.check().unwrap();
}

#[test]
fn a_signal_that_is_no_number_leaves_the_trace_unscored() {
    let mut trace = trace("t", &["a"]);
    trace.segments[0].turns[0].signals.insert("points".into(), f64::INFINITY);
    let recipe = recipe(r#"{ name = "p", kind = "signal", signal = "points", weight = 1, role = "primary" }"#);
    let error = Scorer::new(&recipe, None).unwrap().score(Attempt { trace: &trace, item: &Value::Null }, 1, at()).unwrap_err();
    assert_eq!(error.to_string(), "component `p`: its value is not a finite number");
}

#[test]
fn the_worlds_scale_is_that_of_what_is_known_without_a_judge() {
    let (mut gold, mut empty) = (trace("gold", &["It is 42."]), trace("empty", &[""]));
    gold.segments[0].turns[0].signals.insert("correct".into(), 1.0);
    empty.segments[0].turns[0].signals.insert("correct".into(), 0.0);
    let item = json!({"truth": {"answer": "42"}});
    let check = |recipe: &Recipe, is_enough: bool, at_best: f64, of_gold: f64, of_empty: f64| {
        let of = |trace| recipe.measured(Attempt { trace, item: &item }).unwrap();
        let measured = (recipe.measures(), recipe.measured_at_best(&Signals::from([("correct", 1.0)])), of(&gold), of(&empty));
        assert_eq!(measured, (is_enough, at_best, of_gold, of_empty));
    };
    check(&Recipe::for_world("desk").unwrap(), true, 1.0, 1.0, 0.0);
    let like = r#"{ name = "right", kind = "grader", weight = 2, role = "primary", grader = { type = "string_check",
        input = "{{ sample.output_text }}", reference = "{{ item.truth.answer }}", operation = "like" } },"#;
    check(&recipe(like), true, 2.0, 2.0, 0.0);
    check(&recipe(&like.replace("weight = 2", "weight = -2")), true, 0.0, -2.0, 0.0);
    check(&recipe(&like.replace("primary", "secondary")), false, 2.0, 2.0, 0.0);
    check(&recipe(RULER), false, 0.0, 0.0, 0.0);
    let python = r#"{ name = "p", kind = "grader", weight = 1, role = "primary", grader = { type = "python",
        source = "def grade(sample, item):\n    return 7.0" } },"#;
    check(&recipe(python), false, 0.0, 0.0, 0.0);
    check(&recipe(&python.replace("weight = 1", "weight = 1, range = [0, 7]")), true, 7.0, 7.0, 7.0);
}

#[test]
fn a_score_lies_between_doing_nothing_and_the_best() {
    for (score, nothing, best, normalised) in
        [(1.0, 0.0, 1.0, 1.0), (0.0, -1.0, 1.0, 0.5), (0.2, 0.2, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0)]
    {
        assert_eq!(Recipe::normalised(score, nothing, best), normalised);
    }
}

const RULER: &str = r#"{ name = "rank", kind = "ruler", explain = true, weight = 1, role = "primary" },"#;

fn score_group(recipe: &Recipe, judge: &Script, traces: &[Trace]) -> ScoredGroup {
    let attempts: Vec<Attempt<'_>> = traces.iter().map(|trace| Attempt { trace, item: &Value::Null }).collect();
    Scorer::new(recipe, Some(judge)).unwrap().score_group(&attempts, 3, at())
}

#[test]
fn a_ruler_ranks_the_group_and_keeps_its_words() {
    let judge = Script::says(|asked| scores(&asked.qualities()));
    let scored = score_group(&recipe(RULER), &judge, &group(&[0.3, 0.8]));
    let rewards: Vec<&Reward> = scored.traces.iter().map(|scored| &scored.as_ref().unwrap().reward).collect();
    assert_eq!((rewards[0].total, rewards[1].total), (0.3, 0.8));
    assert_eq!(rewards[1].explanation.as_deref(), Some("rank: about 0.8"));
    assert_eq!(rewards[0].by.kind, GiverKind::Judge);
    let trace = &group(&[0.3])[0];
    let recipe = recipe(RULER);
    let scorer = Scorer::new(&recipe, Some(&judge)).unwrap();
    let id = |seed| scorer.score(Attempt { trace, item: &Value::Null }, seed, at()).unwrap().reward.id;
    assert!(id(1) == id(1) && id(1) != id(2) && id(3) != rewards[0].id);
    assert_eq!(scored.bill().n_calls, 1);
    assert_eq!(scored.ruled.unwrap().unwrap().n_distinct, 2);
}

#[test]
fn a_group_that_cannot_be_ranked_is_kept_with_the_reason() {
    let judge = Script::new(|_| Err(timeout()));
    let scored = score_group(&recipe(RULER), &judge, &group(&[0.3, 0.8]));
    assert_eq!((scored.traces.len(), scored.bill().n_calls), (2, 3));
    for trace in scored.traces {
        let error = trace.unwrap_err();
        assert_eq!(error.component, "rank");
        assert!(matches!(*error.reason, ScoreErrorReason::Judge(_)), "{error}");
    }
}

const RUBRIC: &str = r#"{ name = "quality", kind = "rubric", weight = 2, role = "primary", criteria = [
    { id = "true", text = "Is it true?", weight = 3 }, { id = "kind", text = "Is it kind?" } ] },"#;

fn graded(scores: &[(&str, f64)]) -> Value {
    let entry = |(id, score): &(&str, f64)| json!({"criterion": id, "explanation": format!("{id} is {score}"), "score": score});
    json!({"scores": scores.iter().map(entry).collect::<Vec<_>>()})
}

#[test]
fn a_rubric_gives_a_component_per_criterion() {
    let judge = Script::says(|_| graded(&[("kind", 0.2), ("true", 1.0)]));
    let scored = score_group(&recipe(RUBRIC), &judge, &group(&[0.5]));
    let scored = scored.traces[0].as_ref().unwrap();
    assert!((scored.reward.total - 2.0 * (0.75 + 0.25 * 0.2)).abs() < 1e-9, "{:?}", scored.reward);
    let names: Vec<&str> = scored.reward.components.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["quality.true", "quality.kind"]);
    assert_eq!(scored.reward.explanation.as_deref(), Some("quality.true: true is 1\nquality.kind: kind is 0.2"));
    assert_eq!((scored.reward.by.kind, scored.bill.n_calls), (GiverKind::Rubric, 1));
}

#[test]
fn a_judge_that_keeps_to_schemas_is_left_nothing_of_a_rubric_to_get_wrong_but_the_scores() {
    let asked_of = |keeps_to_schemas: bool| {
        let mut judge = Script::says(|_| graded(&[("true", 1.0), ("kind", 0.2)]));
        judge.keeps_to_schemas = keeps_to_schemas;
        score_group(&recipe(RUBRIC), &judge, &group(&[0.5])).traces.swap_remove(0).unwrap();
        let schema = judge.calls.lock().unwrap()[0].opening.schema.clone().unwrap();
        schema["properties"]["scores"].clone()
    };
    let exact = asked_of(true);
    assert_eq!((&exact["items"], &exact["minItems"], &exact["maxItems"]), (&json!(false), &json!(2), &json!(2)));
    let entries = exact["prefixItems"].as_array().unwrap();
    for (entry, id) in entries.iter().zip(["true", "kind"]) {
        let parts = &entry["properties"];
        assert_eq!((&parts["criterion"], &parts["explanation"]["maxLength"]), (&json!({"const": id}), &json!(160)));
        let scores: Vec<f64> = parts["score"]["enum"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect();
        assert_eq!((scores.first(), scores.last(), scores.len()), (Some(&0.0), Some(&1.0), 21));
        assert_eq!(entry["required"], json!(["criterion", "explanation", "score"]));
    }
    assert_eq!(entries.len(), 2);
    assert_eq!(asked_of(false)["items"]["properties"]["criterion"]["enum"], json!(["true", "kind"]));
}

#[test]
fn a_rubric_asks_again_for_what_does_not_fit_and_then_reports_it() {
    for (wrong, complaint) in [
        (graded(&[("true", 1.0)]), "no score for kind"),
        (graded(&[("true", 1.0), ("true", 0.5), ("kind", 1.0)]), "several scores for true"),
        (graded(&[("true", 7.0), ("kind", 1.0)]), "the score 7 of true is not between 0 and 1"),
        (graded(&[("true", 1.0), ("kind", 1.0), ("short", 1.0)]), "nobody asked for short"),
    ] {
        let once = wrong.clone();
        let judge =
            Script::says(move |asked| if asked.call_idx == 0 { once.clone() } else { graded(&[("true", 1.0), ("kind", 1.0)]) });
        let scored = score_group(&recipe(RUBRIC), &judge, &group(&[0.5]));
        assert_eq!(scored.traces[0].as_ref().unwrap().bill.n_calls, 2);
        assert!(judge.calls.lock().unwrap()[1].last().contains(complaint));
        let judge = Script::says(move |_| wrong.clone());
        let error = score_group(&recipe(RUBRIC), &judge, &group(&[0.5])).traces.swap_remove(0).unwrap_err();
        assert_eq!(error.to_string(), format!("component `quality`: the rubric was not answered (3 calls): {complaint}"));
    }
}

#[test]
fn what_was_paid_for_before_a_failure_is_still_on_the_bill() {
    let judge = Script::says(|asked| if asked.call_idx == 0 { json!({"explanation": "", "result": 1}) } else { json!({}) });
    let grader =
        r#"{ name = "g", kind = "grader", weight = 1, role = "primary", grader = { type = "score_model", input = [] } },"#;
    let scored = score_group(&recipe(&format!("{grader} {RUBRIC}")), &judge, &group(&[0.5]));
    assert_eq!((scored.bill().n_calls, judge.n_calls()), (4, 4));
    assert_eq!(scored.traces[0].as_ref().unwrap_err().component, "quality");
}

#[test]
fn a_judge_is_asked_for_by_name() {
    let error = Scorer::new(&recipe(RULER), None).err().unwrap();
    assert_eq!(error.to_string(), "component `rank`: it needs a judge, and there is none");
}

#[test]
fn a_recipe_that_cannot_be_read_says_where() {
    let with = |part: &str| Recipe::parse(&format!("components = [{part}]")).unwrap_err().to_string();
    for (part, error) in [
        (r#"{ kind = "format", weight = 1, role = "primary" }"#, "a component needs a `name`"),
        (r#"{ name = "a", kind = "format", role = "primary" }"#, "component `a`: missing field `weight`"),
        (r#"{ name = "a", kind = "format", weight = 1, role = "main" }"#, "component `a`: unknown variant `main`"),
        (r#"{ name = "a", kind = "guess", weight = 1, role = "primary" }"#, "component `a`: unknown variant `guess`"),
        (r#"{ name = "a", kind = "format", weight = 1, role = "primary", wieght = 2 }"#, "component `a`: unknown field `wieght`"),
        (
            r#"{ name = "a", kind = "process", weight = 1, role = "secondary", timout = 2 }"#,
            "component `a`: unknown field `timout`",
        ),
        (r#"{ name = "a", kind = "process", weight = 1, role = "secondary", share_max = 2 }"#, "component `a`: `share_max` is 2"),
        (r#"{ name = "a", kind = "signal", signal = "s", range = [1, 0], weight = 1, role = "primary" }"#, "the range [1, 0]"),
        (r#"{ name = "a", kind = "ruler", repeats = 99, weight = 1, role = "primary" }"#, "component `a`: `repeats` is 99"),
        (
            r#"{ name = "a", kind = "rubric", criteria = [], weight = 1, role = "primary" }"#,
            "component `a`: a rubric has 1 to 64",
        ),
        (
            r#"{ name = "a", kind = "grader", grader = { type = "python", source = "" }, weight = 1, role = "primary" }"#,
            "its source defines no function `grade(sample, item)`",
        ),
        ("", "a recipe has 1 to 32 components, this one has 0"),
    ] {
        let message = with(part);
        assert!(message.contains(error), "{message}");
    }
    assert!(Recipe::parse("component = []").unwrap_err().to_string().contains("unknown field `component`"));
}

#[test]
fn a_recipe_is_the_same_after_a_round_trip() {
    let recipe = recipe(&format!("{CORRECT} {RULER} {RUBRIC} {PROCESS}"));
    let read: Recipe = serde_json::from_str(&serde_json::to_string(&recipe).unwrap()).unwrap();
    assert_eq!((&read, read.hash()), (&recipe, recipe.hash()));
}

#[test]
fn the_table_of_the_guide_is_read_and_sound() {
    #[derive(serde::Deserialize)]
    struct Settings {
        reward: Recipe,
    }
    let settings: Settings = toml::from_str(
        r#"
        [reward]
        name = "support"
        components = [
            { name = "solved", kind = "signal", signal = "correct", range = [0, 1], weight = 1.0, role = "primary" },
            { name = "process", kind = "process", timeout = -0.1, success = 0.05, share_max = 0.3, weight = 1.0, role = "secondary" },
            { name = "quality", kind = "rubric", weight = 0.2, role = "secondary", criteria = [
                { id = "grounded", text = "Does every claim come from a tool result?", weight = 2 },
                { id = "polite", text = "Is the tone friendly and brief?" },
            ] },
            { name = "tokens", kind = "length", free_tokens = 400, per_token = 0.0005, cost_max = 0.1, weight = 1.0, role = "penalty" },
        ]"#,
    )
    .unwrap();
    assert_eq!(crate::lint(&settings.reward), []);
    assert!(settings.reward.needs_judge());
}
