//! Every reason and every option as data: a run in, its end out.

use super::*;
use crate::TrainError;

/// A run of steps with an evaluation after each, told as `reward score` or, without one, as `reward`; `!` marks a step that
/// was not finite. A score is the share of 400 tasks that are solved, always the first ones.
fn seen(text: &str) -> Progress {
    let mut progress = Progress::default();
    for told in text.split(',') {
        let words: Vec<&str> = told.split_whitespace().collect();
        let step = progress.step() + 1;
        let reward_mean = words[0].trim_end_matches('!').parse().expect("a reward");
        let applied = !words[0].ends_with('!');
        progress
            .see_step(StepSeen { step, reward_mean, n_tokens: 100, seconds: 2.0, dollars: 0.5, applied })
            .expect("a good step");
        if let Some(score) = words.get(1) {
            let evaluation = evaluation(step, score.parse().expect("a score"));
            progress.see_evaluation(evaluation).expect("a good evaluation");
        }
    }
    progress
}

fn evaluation(step: u64, share: f64) -> Evaluation {
    let scores = (0..400).map(|task_idx| f32::from(u8::from(f64::from(task_idx) < share * 400.0))).collect();
    let secondary = Secondary { cost: Some(0.02), latency_ms: Some(300.0), turns: None };
    Evaluation { step, scores, n_broken: 0, secondary }
}

/// The end of a run whose checkpoint was written and read again before it was asked.
fn end(progress: &Progress, options: &StopOptions) -> Option<Stop> {
    options.check().expect("good options");
    let text = serde_json::to_string(progress).expect("plain data");
    let resumed: Progress = serde_json::from_str(&text).expect("what was written");
    assert_eq!(&resumed, progress);
    resumed.stop(options)
}

#[track_caller]
fn check(text: &str, options: StopOptions, expected: Option<(Reason, &str)>) {
    let stop = end(&seen(text), &options);
    let found = stop.as_ref().map(|stop| (stop.reason, stop.why.as_str()));
    assert_eq!(found, expected, "{text}");
}

fn options() -> StopOptions {
    StopOptions { plateau: None, ..StopOptions::default() }
}

/// The rewards of a line with a zigzag of `noise`, the last `n` steps of it rising by `by` each.
fn rewards(n_flat: usize, n: usize, by: f64, noise: f64) -> Vec<f64> {
    let zigzag = |i: usize| if i.is_multiple_of(2) { noise } else { -noise };
    (0..n_flat + n).map(|i| 0.5 + by * (i + 1).saturating_sub(n_flat) as f64 + zigzag(i)).collect()
}

fn text_of(rewards: &[f64]) -> String {
    rewards.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

#[test]
fn a_target_is_reached_by_the_lower_bound() {
    let target = StopOptions { target: Some(0.8), ..options() };
    // 336 of 400 are at least 80.1 % with 95 % confidence, 335 are not at least 80 %.
    let why = "validation is 84.0 % (at least 80.1 % with 95 % confidence): the target of 80.0 % is reached";
    check("0.5 0.84", target, Some((Reason::Target, why)));
    check("0.5 0.835", target, None);
    check("0.5 0.84", options(), None);
}

#[test]
fn a_baseline_is_beaten_by_its_margin() {
    let baseline = |margin| StopOptions { baseline: Some(Baseline { score: 0.7, margin }), ..options() };
    let why = "validation is 84.0 % (at least 80.1 % with 95 % confidence): 10.0 points or more above the baseline of 70.0 %";
    check("0.5 0.84", baseline(0.1), Some((Reason::BeatsBaseline, why)));
    check("0.5 0.84", baseline(0.11), None);
}

#[test]
fn a_plateau_counts_steps_since_the_best() {
    let plateau = |n| StopOptions { plateau: Some(n), ..options() };
    let why = "validation was best at step 2 (50.0 %), and no better up to step 5";
    check("0.5 0.4,0.5 0.5,0.5,0.5 0.5,0.5 0.4", plateau(3), Some((Reason::Plateau, why)));
    check("0.5 0.4,0.5 0.5,0.5,0.5 0.5,0.5 0.4", plateau(4), None);
    // Steps without an evaluation say nothing.
    check("0.5 0.4,0.5 0.5,0.5,0.5,0.5,0.5,0.5", plateau(3), None);
    check("0.5 0.4,0.5 0.5,0.5,0.5 0.5,0.5 0.6", plateau(3), None);
}

#[test]
fn tasks_that_broke_make_an_evaluation_less_sure() {
    let target = StopOptions { target: Some(0.8), ..options() };
    let reason = |n_broken| {
        let mut progress = seen("0.5");
        progress.see_evaluation(Evaluation { n_broken, ..evaluation(1, 0.84) }).expect("a good evaluation");
        end(&progress, &target).map(|stop| stop.reason)
    };
    assert_eq!((reason(0), reason(200)), (Some(Reason::Target), None));
}

#[test]
fn goals_hold_back_success_and_no_limit() {
    let run = "0.5 0.84";
    let with = |goals| StopOptions { target: Some(0.8), goals, ..options() };
    let reason = |goals| end(&seen(run), &with(goals)).map(|stop| stop.reason);
    assert_eq!(reason(Goals { cost_max: Some(0.02), latency_ms_max: Some(300.0), turns_max: None }), Some(Reason::Target));
    assert_eq!(reason(Goals { cost_max: Some(0.019), ..Goals::default() }), None);
    assert_eq!(reason(Goals { latency_ms_max: Some(299.0), ..Goals::default() }), None);
    // Turns were not measured.
    assert_eq!(reason(Goals { turns_max: Some(9.0), ..Goals::default() }), None);
    let limited = StopOptions { n_steps_max: 1, ..with(Goals { turns_max: Some(9.0), ..Goals::default() }) };
    check(run, limited, Some((Reason::Steps, "its one step is done")));
}

#[test]
fn limits_end_a_run() {
    let run = "0.5,0.5,0.5";
    check(run, options(), None);
    check(run, StopOptions { n_steps_max: 3, ..options() }, Some((Reason::Steps, "all 3 steps are done")));
    check(run, StopOptions { n_steps_max: 4, ..options() }, None);
    let tokens = |n| StopOptions { n_tokens_max: Some(n), ..options() };
    check(run, tokens(300), Some((Reason::Tokens, "300 tokens were used, the limit is 300")));
    check(run, tokens(301), None);
    let dollars = |most| StopOptions { dollars_max: Some(most), ..options() };
    check(run, dollars(1.4), Some((Reason::Dollars, "1.50 dollars were spent, the limit is 1.40")));
    check(run, dollars(1.6), None);
    let seconds = |most| StopOptions { seconds_max: Some(most), ..options() };
    check(run, seconds(5.0), Some((Reason::Seconds, "6 seconds were used, the limit is 5")));
    check(run, seconds(6.5), None);
}

#[test]
fn steps_that_are_not_finite_end_a_run_when_they_come_in_a_row() {
    let bad = |n_bad_max| StopOptions { n_bad_max, ..options() };
    let why = "the last 2 steps had a loss or gradient that was not finite, and moved nothing";
    check("0.5,0.5!,NaN!", bad(2), Some((Reason::NotFinite, why)));
    check("0.5,0.5!,0.5!", bad(3), None);
    check("0.5!,0.5,0.5!", bad(2), None);
}

#[test]
fn a_judge_alone_ends_a_run_when_the_reward_stops_rising() {
    let judge = |plateau| StopOptions { mode: Mode::Judge, plateau, ..options() };
    let flat = text_of(&rewards(20, 0, 0.0, 0.01));
    let why = "the mean reward of the last 10 steps is 0.5000, +0.0000 ±0.0063 against the 10 before: it has stopped rising; \
               there are no labels, so a person should look at samples";
    check(&flat, judge(Some(10)), Some((Reason::RewardPlateau, why)));
    check(&flat, judge(None), None);
    check(&flat, judge(Some(11)), None);
    check(&flat, options(), None);
    check(&text_of(&rewards(0, 20, 0.01, 0.01)), judge(Some(10)), None);
    // It looks after 20 steps, then after 30.
    check(&text_of(&rewards(25, 0, 0.0, 0.01)), judge(Some(10)), None);
}

/// The reason after six evaluations with five steps each: flat for two, then the reward changes by `reward` a step, and validation by
/// `validation` an evaluation.
fn hybrid(reward: f64, validation: f64, options: StopOptions) -> Option<Stop> {
    let mut progress = Progress::default();
    for (step_idx, reward_mean) in rewards(10, 20, reward, 0.01).into_iter().enumerate() {
        let step = step_idx as u64 + 1;
        let seen = StepSeen { step, reward_mean, n_tokens: 0, seconds: 0.0, dollars: 0.0, applied: true };
        progress.see_step(seen).expect("a good step");
        if step.is_multiple_of(5) {
            let n_after = (step / 5).saturating_sub(2) as f64;
            progress.see_evaluation(evaluation(step, 0.8 + validation * n_after)).expect("a good evaluation");
        }
    }
    end(&progress, &options)
}

#[test]
fn reward_up_and_validation_down_is_reward_hacking() {
    let with = |mode| StopOptions { mode, ..options() };
    let reason = |reward, validation, options| hybrid(reward, validation, options).map(|stop| stop.reason);
    assert_eq!(reason(0.01, -0.01, with(Mode::Hybrid)), Some(Reason::RewardHacking));
    assert_eq!(reason(0.01, 0.01, with(Mode::Hybrid)), None);
    assert_eq!(reason(0.01, 0.0, with(Mode::Hybrid)), None);
    assert_eq!(reason(0.0, -0.01, with(Mode::Hybrid)), None);
    assert_eq!(reason(-0.01, -0.01, with(Mode::Hybrid)), None);
    assert_eq!(reason(0.01, -0.01, with(Mode::Verifiable)), None);
    assert_eq!(reason(0.01, -0.01, StopOptions { hacking_z: Some(9.0), ..with(Mode::Hybrid) }), None);
    let why = hybrid(0.01, -0.01, with(Mode::Hybrid)).expect("a stop").why;
    assert_eq!(
        why,
        "from step 10 to 30 validation fell by 4.0 points (4.0 standard errors over 400 tasks) while the training reward rose \
         by 0.2197 (21.6 standard errors); the best was 80.0 % at step 5"
    );
}

#[test]
fn the_best_is_the_earliest_of_equals() {
    let check = |text, is_best, step| {
        let progress = seen(text);
        assert_eq!((progress.is_best(), progress.best().map(|best| best.step)), (is_best, step), "{text}");
    };
    check("0.5", false, None);
    check("0.5 0.4", true, Some(1));
    check("0.5 0.4,0.5 0.5", true, Some(2));
    check("0.5 0.5,0.5 0.5", false, Some(1));
    check("0.5 0.5,0.5 0.4,0.5 0.45", false, Some(1));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut progress = seen("0.5 0.5");
    let before = progress.clone();
    let mut refused = |evaluation: Evaluation, says: &str| {
        let error = progress.see_evaluation(evaluation).expect_err("refused");
        assert_eq!(error.to_string(), says);
        assert_eq!(progress, before);
    };
    let scores = |score: f32, n: usize| Evaluation { step: 2, scores: vec![score; n], ..Evaluation::default() };
    refused(evaluation(1, 0.5), "step of an evaluation = 1 is outside what comes after the last evaluation");
    refused(evaluation(0, 0.5), "step of an evaluation = 0 is outside the last step and what comes after");
    refused(scores(0.5, 399), "399 values for 400 validation tasks, the same every time");
    refused(scores(0.5, 0), "validation tasks = 0 is outside 1 to 65536");
    refused(scores(1.5, 400), "validation score = 1.5 is outside 0 to 1");
    refused(scores(f32::NAN, 400), "validation score = NaN is outside 0 to 1");
    let secondary = Secondary { cost: Some(f64::NAN), ..Secondary::default() };
    refused(Evaluation { secondary, ..scores(0.5, 400) }, "cost = NaN is outside 0 and above");
    let seen = StepSeen { step: 2, reward_mean: 0.5, n_tokens: 0, seconds: 0.0, dollars: 0.0, applied: true };
    assert!(matches!(progress.see_step(StepSeen { step: 1, ..seen }), Err(TrainError::Setting { name: "step", .. })));
    assert!(progress.see_step(StepSeen { seconds: -1.0, ..seen }).is_err());
    assert!(progress.see_step(StepSeen { dollars: f64::NAN, ..seen }).is_err());
    assert_eq!(progress, before);
}

#[test]
fn what_is_kept_has_a_limit() {
    let mut progress = Progress::default();
    for step in 1..=5000 {
        let seen = StepSeen { step, reward_mean: 0.5, n_tokens: 1, seconds: 0.0, dollars: 0.0, applied: true };
        progress.see_step(seen).expect("a good step");
        let scores = vec![0.5; 2];
        progress.see_evaluation(Evaluation { step, scores, ..Evaluation::default() }).expect("a good evaluation");
    }
    assert_eq!((progress.rewards().len(), progress.evaluations().len()), (4096, 16));
    assert_eq!(progress.best().map(|best| best.step), Some(1));
}

#[test]
fn people_end_runs_too() {
    assert_eq!(Stop::asked(7).why, "it was asked to stop, and did after step 7");
    assert_eq!(Stop::interrupted(7).why, "by Ctrl-C, after step 7");
    assert_eq!(Stop::preferred(9, 7).why, "a person preferred what step 7 gave");
    let text = serde_json::to_string(&Stop::preferred(9, 7)).expect("plain data");
    assert_eq!(text, r#"{"reason":"preferred","why":"a person preferred what step 7 gave","step":9}"#);
}

#[test]
fn what_is_spent_beside_steps_counts_towards_the_limits() {
    let mut progress = seen("0.1 0.5");
    let limits = StopOptions { dollars_max: Some(1.0), seconds_max: Some(9.0), ..options() };
    assert_eq!(end(&progress, &limits), None);
    progress.see_spent(Spent { n_tokens: 0, seconds: 3.0, dollars: 0.75 }).expect("what was spent");
    assert_eq!(end(&progress, &limits).expect("an end").why, "1.25 dollars were spent, the limit is 1.00");
    progress.see_spent(Spent { n_tokens: 0, seconds: 4.0, dollars: 0.0 }).expect("what was spent");
    let seconds = StopOptions { seconds_max: Some(9.0), ..options() };
    assert_eq!(end(&progress, &seconds).expect("an end").why, "9 seconds were used, the limit is 9");
    assert!(progress.see_spent(Spent { n_tokens: 0, seconds: 0.0, dollars: -1.0 }).is_err());
}
