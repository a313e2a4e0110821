//! The curriculum with a simulated learner: what it chooses, and that a restart changes nothing.

use hone_env::curriculum::{Curriculum, CurriculumError, CurriculumOptions, Entry, Pick};
use hone_trace::{Draws, ScenarioId};

fn entry(name: &str, level: usize, can_vary: bool) -> Entry {
    Entry { scenario: ScenarioId::new(name).unwrap(), level, can_vary }
}

/// Easy ones on level 1, hard ones on level 2, one that nobody can do beside each.
fn entries() -> Vec<Entry> {
    let easy = (0..18).map(|idx| entry(&format!("easy-{idx:02}"), 1, true));
    let hard = (0..9).map(|idx| entry(&format!("hard-{idx}"), 2, true));
    easy.chain(hard).chain([entry("impossible-1", 1, true), entry("impossible-2", 2, false)]).collect()
}

/// The rewards of eight episodes by a learner whose ability grows with the step. A variation of what is impossible is easy.
fn rewards(pick: &Pick, step: u64) -> Vec<f64> {
    let chance = match (pick.scenario.as_str().split('-').next(), pick.vary_seed) {
        (_, Some(_)) => 0.6,
        (Some("easy"), None) => (step as f64 / 40.0).min(1.0),
        (Some("hard"), None) => (step as f64 / 120.0).min(1.0),
        _ => 0.0,
    };
    let mut draws = Draws::new(step, &["learner", pick.scenario.as_str()]);
    (0..8).map(|_| f64::from(u8::from(draws.chance(chance)))).collect()
}

fn play(curriculum: &mut Curriculum, steps: std::ops::Range<u64>) -> Vec<Vec<Pick>> {
    steps
        .map(|step| {
            let picks = curriculum.choose(step, 8);
            picks.iter().for_each(|pick| curriculum.record(pick, &rewards(pick, step)).unwrap());
            picks
        })
        .collect()
}

#[test]
fn a_growing_learner_goes_up_the_levels() {
    let mut curriculum = Curriculum::new("a pool", CurriculumOptions::default(), entries()).unwrap();
    let id = |name: &str| ScenarioId::new(name).unwrap();
    let mut opened_at = None;
    let (mut n_impossible, mut n_varied, mut n_easy_early) = (0, 0, 0);
    for step in 0..400 {
        let before = curriculum.standing();
        let picks = curriculum.choose(step, 8);
        for pick in &picks {
            let is_hard = pick.scenario.as_str().starts_with("hard") || pick.scenario == id("impossible-2");
            assert!(!is_hard || before.open_level == 2, "step {step}: {} before its level opened", pick.scenario);
            assert_eq!(pick.token_budget, if is_hard { 1024 } else { 512 });
            assert!(!curriculum.is_retired(&pick.scenario));
            assert!(pick.vary_seed.is_none() || pick.scenario != id("impossible-2"), "its world has no variations");
            if (5..40).contains(&step) {
                n_impossible += usize::from(pick.scenario == id("impossible-1"));
                n_varied += usize::from(pick.scenario == id("impossible-1") && pick.vary_seed.is_some());
                n_easy_early += usize::from(pick.scenario.as_str().starts_with("easy"));
            }
            curriculum.record(pick, &rewards(pick, step)).unwrap();
        }
        if opened_at.is_none() && curriculum.standing().open_level == 2 {
            opened_at = Some(step);
            let solved = (0..18).filter(|idx| curriculum.difficulty(&id(&format!("easy-{idx:02}"))).unwrap() < 0.2).count();
            assert!(solved >= 16, "level 1 counted as saturated with {solved} of 19 solved");
        }
    }
    // The learner reaches 0.8 on level 1 at step 32.
    assert!(opened_at.is_some_and(|step| (25..80).contains(&step)), "{opened_at:?}");
    // Nineteen scenarios share eight picks a step: the stuck one gets more than its share, mostly varied.
    assert!(n_impossible as f64 > 1.2 * n_easy_early as f64 / 18.0, "{n_impossible} against {n_easy_early} / 18");
    assert!(n_varied > 0 && n_varied < n_impossible, "{n_varied} of {n_impossible}");
    let end = curriculum.standing();
    assert_eq!((end.n_retired, end.n_active, end.n_stuck, end.n_waiting), (27, 2, 2, 0));
    assert_eq!(curriculum.difficulty(&id("impossible-1")), Some(1.0));
}

#[test]
fn a_restart_changes_no_choice() {
    let mut whole = Curriculum::new("a pool", CurriculumOptions::default(), entries()).unwrap();
    let mut halves = whole.clone();
    let all = play(&mut whole, 0..120);
    let mut played = play(&mut halves, 0..57);
    let text = halves.to_text();
    let mut again = Curriculum::parse(&text).unwrap();
    assert_eq!(again.to_text(), text);
    played.extend(play(&mut again, 57..120));
    assert_eq!(all, played);
    assert_eq!(again.to_text(), whole.to_text());
}

#[test]
fn choices_depend_on_the_seed_and_name_each_scenario_once() {
    let curriculum = Curriculum::new("a pool", CurriculumOptions::default(), entries()).unwrap();
    assert_eq!(curriculum.choose(1, 8), curriculum.choose(1, 8));
    assert_ne!(curriculum.choose(1, 8), curriculum.choose(2, 8));
    let mut all: Vec<ScenarioId> = curriculum.choose(3, 100).into_iter().map(|pick| pick.scenario).collect();
    assert_eq!(all.len(), 19);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 19);
}

#[test]
fn an_unsteady_scenario_does_not_retire() {
    let check = |rewards: &[f64], is_retired: bool| {
        let mut curriculum = Curriculum::new("a pool", CurriculumOptions::default(), [entry("a", 1, false)]).unwrap();
        for step in 0..8 {
            let picks = curriculum.choose(step, 1);
            assert_eq!(picks.len(), 1, "it retired after {step} groups");
            curriculum.record(&picks[0], rewards).unwrap();
        }
        assert_eq!(curriculum.choose(9, 1).is_empty(), is_retired, "{rewards:?}");
    };
    check(&[1.0; 8], true);
    check(&[0.95, 0.85, 0.9, 0.9], true);
    check(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0], false);
    check(&[0.8; 8], false);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let check = |options: CurriculumOptions, entries: Vec<Entry>, message: &str| {
        let error = Curriculum::new("a pool", options, entries).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    let one = || vec![entry("a", 1, false)];
    let options = CurriculumOptions::default;
    check(options(), Vec::new(), "1 to 1000000 scenarios");
    check(options(), vec![entry("a", 1, false), entry("a", 2, false)], "a is there twice");
    check(options(), vec![entry("a", 4, false)], "token budgets for levels 1 to 3");
    check(options(), vec![entry("a", 0, false)], "on level 0");
    check(CurriculumOptions { stuck_mean: 0.9, ..options() }, one(), "stuck_mean");
    check(CurriculumOptions { solved_mean: f64::NAN, ..options() }, one(), "solved_mean");
    check(CurriculumOptions { latest_share: 0.0, ..options() }, one(), "latest_share");
    check(CurriculumOptions { saturated_share: 1.5, ..options() }, one(), "saturated_share");
    check(CurriculumOptions { stuck_weight: 0.5, ..options() }, one(), "stuck_weight");
    check(CurriculumOptions { retire_deviation_max: -1.0, ..options() }, one(), "retire_deviation_max");
    check(CurriculumOptions { token_budgets: vec![512, 0], ..options() }, one(), "token_budgets");

    let mut curriculum = Curriculum::new("a pool", options(), one()).unwrap();
    let pick = curriculum.choose(0, 1).remove(0);
    assert!(matches!(curriculum.record(&pick, &[]), Err(CurriculumError::Rewards(_))));
    assert!(matches!(curriculum.record(&pick, &[0.5, f64::NAN]), Err(CurriculumError::Rewards(_))));
    let stranger = Pick { scenario: ScenarioId::new("b").unwrap(), ..pick };
    assert!(matches!(curriculum.record(&stranger, &[0.5]), Err(CurriculumError::Unknown(_))));
}

#[test]
fn a_damaged_document_is_refused() {
    let text = Curriculum::new("a pool", CurriculumOptions::default(), entries()).unwrap().to_text();
    let check = |from: &str, to: &str, message: &str| {
        assert!(text.contains(from), "{from}");
        let error = Curriculum::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    check("\"v\":1", "\"v\":2", "a newer hone wrote it");
    check("\"open_level\":1", "\"open_level\":9", "level 9 is open");
    check("\"open_level\":1", "\"open_level\":-1", "damaged curriculum");
    check("\"variance\":0.0", "\"variance\":-1.0", "easy-00 is not possible");
    check("\"n_steady\":0", "\"n_steady\":5", "easy-00 is not possible");
    check("\"level\":1", "\"level\":7", "on level 7");
    check("\"stuck_mean\"", "\"stuk_mean\"", "stuk_mean");
    assert!(Curriculum::parse(&text[..text.len() / 2]).unwrap_err().to_string().starts_with("damaged curriculum"));
    assert!(Curriculum::parse("").is_err());
}
