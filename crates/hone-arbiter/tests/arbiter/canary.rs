//! What canaries do with rows, with people and with restarts.

use hone_arbiter::Arm;
use hone_arbiter::canary::{
    Action, Actor, AtEnd, Canary, Command, CommandError, Decision, Fact, Reason, Row, Rule, Settings, Stage, State,
};
use hone_arbiter::simulate::{World, play};
use hone_trace::Draws;

/// What the canary's episodes are like. Control's: 0.8 solved, 1 % errors, 1 cent, 100 ms, and all outcomes come.
#[derive(Clone, Copy)]
struct Episodes {
    solved: f64,
    errors: f64,
    cost_usd: Option<f64>,
    latency_ms: f64,
    /// How often an outcome is missing when the episode was solved, and when it was not.
    missing: (f64, f64),
    /// The share that the canary really gets, over the one that is logged.
    bias: f64,
    /// What an episode counts that was not solved, on either side; one that was counts 1.
    failed: f64,
}

const ALIKE: Episodes =
    Episodes { solved: 0.8, errors: 0.01, cost_usd: Some(0.01), latency_ms: 100.0, missing: (0.0, 0.0), bias: 1.0, failed: 0.0 };

fn non_inferior() -> Settings {
    Settings { rule: Rule::NonInferior { margin: 0.03 }, ..Settings::default() }
}

/// Feeds rows until the canary has ended or these many episodes have begun; says what was decided on the way.
fn feed(canary: &mut Canary, episodes: Episodes, n_rows: usize, seed: u64) -> Vec<Decision> {
    let mut draws = Draws::new(seed, &["feed"]);
    let mut decisions = Vec::new();
    for _ in 0..n_rows {
        let canary_share = canary.share();
        if canary_share <= 0.0 || canary_share >= 1.0 {
            break;
        }
        let arm = if draws.chance(canary_share * episodes.bias) { Arm::Canary } else { Arm::Control };
        let this = if arm == Arm::Canary { episodes } else { ALIKE };
        let noise = 0.5 + draws.uniform();
        let answer = Fact::Answered {
            is_error: draws.chance(this.errors),
            cost_usd: this.cost_usd.map(|cost| cost * noise),
            latency_ms: Some(this.latency_ms * noise),
        };
        let is_solved = draws.chance(this.solved);
        let outcome = match draws.chance(if is_solved { this.missing.0 } else { this.missing.1 }) {
            true => Fact::Missing,
            false => Fact::Matured { quality: if is_solved { 1.0 } else { episodes.failed } },
        };
        for fact in [Fact::Assigned, answer, outcome] {
            decisions.extend(canary.observe(&Row { arm, canary_share, fact }).unwrap());
        }
    }
    decisions
}

#[test]
fn an_arm_that_is_slow_is_not_taken_for_a_small_one() {
    let mut canary = Canary::new(Settings::default()).unwrap();
    let row = |arm, fact| Row { arm, canary_share: 0.1, fact };
    let answered = Fact::Answered { is_error: false, cost_usd: None, latency_ms: None };
    for n in 0..1000 {
        let arm = if n % 10 == 0 { Arm::Canary } else { Arm::Control };
        assert_eq!(canary.observe(&row(arm, Fact::Assigned)).unwrap(), None);
        if arm == Arm::Control {
            assert_eq!(canary.observe(&row(arm, answered)).unwrap(), None, "the answers of the canary are still underway");
        }
    }
    assert_eq!(canary.state(), State::Running);
}

#[track_caller]
fn check(settings: Settings, episodes: Episodes, state: State, reason: Reason) -> Vec<Decision> {
    let mut canary = Canary::new(settings).unwrap();
    let decisions = feed(&mut canary, episodes, 19_500, 1);
    let last = if state == State::Running { canary.report() } else { decisions.last().unwrap().clone() };
    assert_eq!((canary.state(), last.reason), (state, reason), "{last:#?}");
    decisions
}

#[test]
fn an_equal_canary_climbs_every_stage_under_non_inferior() {
    let decisions = check(non_inferior(), ALIKE, State::Promoted, Reason::Shown);
    assert_eq!(decisions.iter().map(|decision| decision.share).collect::<Vec<_>>(), [0.5, 1.0]);
    assert!(decisions.iter().all(|decision| (decision.action, decision.by) == (Action::Promote, Actor::Machine)));
    assert!(decisions[1].numbers.quality.low.unwrap() > -0.03, "{:#?}", decisions[1].numbers);
}

#[test]
fn under_improve_it_takes_a_gain() {
    check(Settings::default(), ALIKE, State::Running, Reason::NotShown);
    check(Settings::default(), Episodes { solved: 0.84, ..ALIKE }, State::Running, Reason::NotShown);
    check(Settings::default(), Episodes { solved: 0.95, ..ALIKE }, State::Promoted, Reason::Shown);
}

/// Thumbs, up for 1 and down for -1: a part of a quality below 0 is less than nothing, and no gain.
#[test]
fn under_improve_it_takes_a_gain_below_zero_too() {
    let thumbs = |solved: f64| {
        let mut canary = Canary::new(Settings { rule: Rule::Improve { gain: 0.5, margin: 0.2 }, ..Settings::default() }).unwrap();
        let mut draws = Draws::new(1, &["thumbs"]);
        for _ in 0..6000 {
            let canary_share = canary.share();
            let arm = if draws.chance(canary_share) { Arm::Canary } else { Arm::Control };
            let quality = if draws.chance(if arm == Arm::Canary { solved } else { 0.2 }) { 1.0 } else { -1.0 };
            let answered = Fact::Answered { is_error: false, cost_usd: Some(0.01), latency_ms: Some(100.0) };
            for fact in [Fact::Assigned, answered, Fact::Matured { quality }] {
                if canary.state() == State::Running {
                    canary.observe(&Row { arm, canary_share, fact }).unwrap();
                }
            }
        }
        canary.state()
    };
    assert_eq!(thumbs(0.2), State::Running);
    assert_eq!(thumbs(0.6), State::Promoted);
}

#[test]
fn harm_of_every_kind_takes_it_back() {
    let back = |episodes, reason| check(non_inferior(), episodes, State::RolledBack, reason);
    back(Episodes { solved: 0.6, ..ALIKE }, Reason::QualityWorse);
    back(Episodes { errors: 0.3, ..ALIKE }, Reason::MoreErrors);
    back(Episodes { cost_usd: Some(0.02), ..ALIKE }, Reason::CostHigher);
    back(Episodes { latency_ms: 200.0, ..ALIKE }, Reason::LatencyHigher);
    back(Episodes { bias: 0.6, ..ALIKE }, Reason::SampleRatio);
}

#[test]
fn missing_data_never_promotes() {
    let holds = |episodes, reason| {
        let decisions = check(non_inferior(), episodes, State::Running, reason);
        assert!(decisions.iter().all(|decision| decision.share < 1.0), "{decisions:#?}");
    };
    holds(Episodes { missing: (1.0, 1.0), ..ALIKE }, Reason::TooFewRows);
    // Only good news comes in, so that it seems better than control.
    holds(Episodes { solved: 0.6, missing: (0.0, 1.0), ..ALIKE }, Reason::OutcomesMissing);
    // Thumbs: what is missing might have been as bad as -1, and not only nothing.
    holds(Episodes { solved: 0.7, missing: (0.0, 1.0), failed: -1.0, ..ALIKE }, Reason::OutcomesMissing);
    holds(Episodes { cost_usd: None, ..ALIKE }, Reason::GuardMissing);
    check(
        Settings { cost_rise_max: None, ..non_inferior() },
        Episodes { cost_usd: None, ..ALIKE },
        State::Promoted,
        Reason::Shown,
    );
}

/// One stage at a half that asks for no more than a hundred outcomes, and few rows in all: as quick as it gets.
fn quick(rule: Rule) -> Settings {
    let stages = vec![Stage { share: 0.5, n_canary_min: 100, harm_max: None }];
    let (n_rows_to_promote, n_rows_max) = (5_000, 5_000);
    Settings { rule, stages, cost_rise_max: None, latency_rise_max: None, n_rows_to_promote, n_rows_max, ..Settings::default() }
}

#[test]
fn outcomes_that_are_still_awaited_do_not_promote() {
    let improve = quick(Rule::Improve { gain: 0.1, margin: 0.03 });
    let no_worse = quick(Rule::NonInferior { margin: 0.03 });
    let silent = World { base: 0.5, silent: 0.9, ..World::with_lift(0.0) };
    let modest = World { silent: 0.0, modest: 0.9, ..silent };
    let worse = |world| World { lift: -0.03, ..world };
    for (settings, world) in [(&improve, silent), (&no_worse, worse(silent)), (&improve, modest), (&no_worse, worse(modest))] {
        let n_promoted = (0..60).filter(|&run| play(settings, &world, 8, run).state == State::Promoted).count();
        assert!(n_promoted <= 2, "{n_promoted} of 60 under {:?} in {world:?}", settings.rule);
    }
}

#[test]
fn outcomes_that_are_late_on_both_sides_hold_no_good_canary() {
    let improve = quick(Rule::Improve { gain: 0.1, margin: 0.03 });
    let rows = |n_delay_mean| {
        let world = World { base: 0.5, n_delay_mean, ..World::with_lift(0.3) };
        let mut played: Vec<_> = (0..60).map(|run| play(&improve, &world, 8, run)).collect();
        played.retain(|played| played.state == State::Promoted);
        played.sort_by_key(|played| played.n_outcomes);
        assert!(played.len() >= 55, "{} of 60", played.len());
        played[played.len() / 2].n_outcomes
    };
    let (prompt, late) = (rows(0.0), rows(200.0));
    assert!(late * 10 <= prompt * 12, "{late} outcomes, and {prompt} when they are prompt");
}

#[test]
fn outcomes_that_are_awaited_take_nothing_back() {
    let mut canary = Canary::new(quick(Rule::NonInferior { margin: 0.03 })).unwrap();
    let answered = Fact::Answered { is_error: false, cost_usd: None, latency_ms: None };
    for n in 0..4000 {
        let arm = if n % 2 == 0 { Arm::Canary } else { Arm::Control };
        // Of the canary one outcome in five comes, and they are as good as those of control.
        let outcome = Fact::Matured { quality: f64::from(u8::from(n / 10 % 2 == 0)) };
        let comes = arm == Arm::Control || n % 10 == 0;
        for fact in [Some(Fact::Assigned), Some(answered), comes.then_some(outcome)].into_iter().flatten() {
            assert_eq!(canary.observe(&Row { arm, canary_share: 0.5, fact }).unwrap(), None, "after {n} episodes");
        }
    }
    let report = canary.report();
    assert_eq!((canary.state(), report.numbers.canary.n_awaited()), (State::Running, 1600));
    assert!((report.numbers.excess_missing - 0.8).abs() < 0.01, "{}", report.numbers.excess_missing);
}

/// Early on bounds reach far. Of two rates everybody knows that they are not further apart than 1; of marks nobody does.
#[test]
fn bounds_on_two_rates_are_shown_within_one() {
    let report = |failed: f64| {
        let mut canary = Canary::new(Settings::default()).unwrap();
        feed(&mut canary, Episodes { failed, ..ALIKE }, 20, 3);
        let numbers = canary.report().numbers;
        assert!(numbers.quality.low.unwrap() < -1.0 && numbers.quality.high.unwrap() > 1.0, "{numbers:#?}");
        numbers
    };
    let rates = report(0.0);
    assert_eq!((rates.is_rate, rates.quality_shown().low, rates.quality_shown().high), (true, Some(-1.0), Some(1.0)));
    assert_eq!(rates.quality_shown().estimate, rates.quality.estimate);
    let marks = report(-5.0);
    assert_eq!((marks.is_rate, marks.quality_shown()), (false, marks.quality));
}

#[test]
fn rows_that_are_spent_pause_or_end_it_as_declared() {
    let short = |at_end| Settings { n_rows_to_harm: 500, n_rows_to_promote: 500, n_rows_max: 500, at_end, ..Settings::default() };
    check(short(AtEnd::Hold), ALIKE, State::Paused, Reason::RowsSpent);
    check(short(AtEnd::RollBack), ALIKE, State::RolledBack, Reason::RowsSpent);
}

#[test]
fn what_a_person_holds_is_not_raised_but_may_be_aborted() {
    let mut canary = Canary::new(non_inferior()).unwrap();
    assert_eq!(canary.command(Command::Resume), Err(CommandError::NotPaused));
    assert_eq!(canary.command(Command::Pause).unwrap().action, Action::Pause);
    assert_eq!(feed(&mut canary, ALIKE, 6_000, 2), []);
    // A person may still raise it, and it stays paused.
    assert_eq!(canary.command(Command::Promote).unwrap().share, 0.5);
    assert_eq!((canary.state(), canary.report().reason), (State::Paused, Reason::Paused));
    let decisions = feed(&mut canary, Episodes { errors: 1.0, ..ALIKE }, 6_000, 2);
    assert_eq!((decisions.len(), decisions[0].action, decisions[0].by), (1, Action::RollBack, Actor::Machine));
}

#[test]
fn what_has_ended_stays_as_it_ended() {
    for (commands, state) in
        [(vec![Command::Abort], State::RolledBack), (vec![Command::Promote, Command::Promote], State::Promoted)]
    {
        let mut canary = Canary::new(non_inferior()).unwrap();
        assert!(commands.iter().all(|&command| canary.command(command).unwrap().by == Actor::Person));
        let ended = canary.clone();
        let late = Row { arm: Arm::Canary, canary_share: 0.5, fact: Fact::Matured { quality: 0.0 } };
        assert!((0..2_000).all(|_| canary.observe(&late).unwrap().is_none()));
        for command in [Command::Pause, Command::Resume, Command::Promote, Command::Abort] {
            assert_eq!(canary.command(command), Err(CommandError::Ended(state)));
        }
        assert_eq!(canary, ended);
    }
}

#[test]
fn a_canary_that_was_written_down_goes_on_as_if_nothing_had_happened() {
    for episodes in [ALIKE, Episodes { solved: 0.75, ..ALIKE }] {
        let (mut whole, mut killed) = (Canary::new(non_inferior()).unwrap(), Canary::new(non_inferior()).unwrap());
        let (mut n_decided, mut part) = (0, 0);
        while !matches!(whole.state(), State::Promoted | State::RolledBack) && part < 200 {
            let once = feed(&mut whole, episodes, 97, part);
            let json = serde_json::to_string(&killed).unwrap();
            killed = serde_json::from_str(&json).unwrap();
            let again = feed(&mut killed, episodes, 97, part);
            assert_eq!(once, again);
            n_decided += once.len();
            part += 1;
        }
        assert_eq!((whole.clone(), n_decided > 0), (killed, true));
        let decision = serde_json::to_value(whole.report()).unwrap();
        assert_eq!(serde_json::from_value::<Decision>(decision).unwrap(), whole.report());
    }
}

#[test]
fn broken_records_and_rows_are_refused() {
    let mut canary = Canary::new(non_inferior()).unwrap();
    let mut json = serde_json::to_value(&canary).unwrap();
    json["stage_idx"] = 7.into();
    assert!(serde_json::from_value::<Canary>(json).unwrap_err().to_string().contains("stage_idx is 7"));
    let fresh = canary.clone();
    let mut refuse = |canary_share, fact, says: &str| {
        let error = canary.observe(&Row { arm: Arm::Canary, canary_share, fact }).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    refuse(1.0, Fact::Missing, "a share of 1 was logged");
    refuse(f64::NAN, Fact::Missing, "a share of NaN");
    for quality in [f64::NAN, f64::INFINITY, 1.7e308, -1_000_001.0] {
        refuse(0.1, Fact::Matured { quality }, "must be from -1000000 to 1000000");
    }
    refuse(0.1, Fact::Answered { is_error: false, cost_usd: Some(-1.0), latency_ms: None }, "cost_usd of a row is -1");
    assert_eq!(canary, fresh);
}

#[test]
fn settings_without_meaning_are_refused_by_name() {
    let check = |settings: Settings, says: &str| {
        let error = Canary::new(settings).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    let stage = |share| Stage { share, n_canary_min: 10, harm_max: None };
    check(Settings { stages: vec![], ..Settings::default() }, "number of stages is 0");
    check(Settings { stages: vec![stage(0.5), stage(0.1)], ..Settings::default() }, "share is 0.1");
    check(Settings { stages: vec![stage(1.0)], ..Settings::default() }, "share is 1");
    check(Settings { rule: Rule::NonInferior { margin: 0.0 }, ..Settings::default() }, "margin is 0");
    check(Settings { rule: Rule::Improve { gain: f64::NAN, margin: 0.0 }, ..Settings::default() }, "gain is NaN");
    check(Settings { quality_budget: 0.5, ..Settings::default() }, "quality_budget is 0.5");
    check(Settings { n_rows_max: 10, ..Settings::default() }, "from 1 to n_rows_max");
    check(Settings { latency_rise_max: Some(-0.1), ..Settings::default() }, "latency_rise_max is -0.1");
}

#[test]
fn simulated_canaries_err_as_rarely_as_promised() {
    let n_runs = 100;
    let ends = |world: World| -> Vec<State> { (0..n_runs).map(|run| play(&non_inferior(), &world, 3, run).state).collect() };
    let count = |states: &[State], state| states.iter().filter(|&&end| end == state).count();
    let late = World { drift: 0.1, n_delay_mean: 200.0, missing: 0.1, ..World::with_lift(0.0) };
    let (alike, worse) = (ends(late), ends(World { lift: -0.05, ..late }));
    assert!(count(&alike, State::RolledBack) <= 8 && count(&alike, State::Promoted) >= 80, "{alike:?}");
    assert!(count(&worse, State::RolledBack) >= 95 && count(&worse, State::Promoted) == 0, "{worse:?}");
}

#[test]
fn rare_and_sure_success_are_judged_as_fairly() {
    for base in [0.05, 0.5, 0.97] {
        let world = World { base, ..World::with_lift(0.0) };
        let n_back = (0..200).filter(|&run| play(&non_inferior(), &world, 7, run).state == State::RolledBack).count();
        assert!(n_back <= 12, "{n_back} of 200 at {base}");
    }
}

#[test]
fn a_dead_canary_is_off_within_a_few_rows() {
    // By the exact law of the count of errors 96.0 % are off within 66 rows: a few hundred runs could not tell that from 95 %.
    let mut rows: Vec<usize> = (0..4000).map(|run| play(&Settings::default(), &World::dead(), 5, run).n_rows).collect();
    rows.sort_unstable();
    assert!(rows[3800] <= 66, "{}", rows[3800]);
}
