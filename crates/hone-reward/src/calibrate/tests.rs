use super::*;
use crate::ruler::{Ruler, RulerOptions};
use crate::testing::{Script, scores, trace};

/// Groups of four traces with labels 0, 1, 2, 3; each says its label and is as long as drawn.
fn groups(n: usize, label_of: fn(usize) -> f64) -> Vec<LabelledGroup> {
    let member = |group: usize, idx: usize| {
        let n_bytes = Draws::new(5, &["length", &group.to_string(), &idx.to_string()]).below(400);
        let label = label_of(idx);
        (trace(&format!("{group}/{idx}"), &[&format!("{} {idx} q={label}", "z".repeat(n_bytes))]), label)
    };
    (0..n).map(|group| LabelledGroup { members: (0..4).map(|idx| member(group, idx)).collect() }).collect()
}

fn calibrated(judge: &Script, groups: &[LabelledGroup]) -> Calibration {
    calibrate(&Ruler::new(judge, RulerOptions::default()).unwrap(), groups, Floor::default(), 11, 1)
}

fn judge(score: impl Fn(&str, &str, usize, &mut Draws) -> f64 + Send + Sync + 'static) -> Script {
    Script::says(move |asked| {
        let mut draws = Draws::new(asked.call_idx as u64, &["judge"]);
        let all = asked.shown().into_iter().enumerate();
        scores(&all.map(|(place, (id, text))| (id.clone(), score(&id, &text, place, &mut draws))).collect::<Vec<_>>())
    })
}

fn label(text: &str) -> f64 {
    crate::testing::quality(text)
}

#[test]
fn a_good_judge_is_accepted() {
    let judge = judge(|_, text, _, draws| (label(text) / 4.0 + 0.2 * draws.uniform()).clamp(0.0, 1.0));
    let report = calibrated(&judge, &groups(40, |idx| idx as f64));
    assert!(report.is_accepted() && report.warnings.is_empty(), "{report:?}");
    assert_eq!((report.agreement.value, report.n_pairs, report.n_failed), (1.0, 240, 0));
    assert_eq!(report.agreement.n, 120.0);
    serde_json::to_string(&report).unwrap();
}

#[test]
fn groups_are_judged_at_once_with_the_same_result() {
    let judge = judge(|_, text, position, _| (label(text) / 8.0 + position as f64 / 100.0).clamp(0.0, 1.0));
    let (ruler, groups) = (Ruler::new(&judge, RulerOptions::default()).unwrap(), groups(40, |idx| idx as f64));
    let measured = |n_concurrent| calibrate(&ruler, &groups, Floor::default(), 11, n_concurrent);
    assert_eq!(measured(1), measured(7));
}

#[test]
fn a_judge_at_chance_is_refused() {
    let judge = judge(|_, _, _, draws| draws.uniform());
    let report = calibrated(&judge, &groups(100, |idx| idx as f64));
    assert!((0.4..0.6).contains(&report.agreement.value), "{report:?}");
    assert!(!report.is_accepted());
    assert!(report.refusals[0].contains("below the floor of 60.0 %"), "{:?}", report.refusals);
}

#[test]
fn a_judge_who_says_the_same_of_all_is_at_chance() {
    let report = calibrated(&judge(|_, _, _, _| 0.5), &groups(50, |idx| idx as f64));
    assert_eq!((report.agreement.value, report.n_ties), (0.5, 300));
    assert!(!report.is_accepted());
}

#[test]
fn few_groups_prove_little() {
    let judge = judge(|_, text, _, _| label(text) / 4.0);
    let report = calibrated(&judge, &groups(1, |idx| idx as f64));
    assert!(report.agreement.value == 1.0 && !report.is_accepted(), "{report:?}");
    assert!(!calibrated(&judge, &[]).is_accepted());
}

#[test]
fn a_judge_who_favours_a_place_is_found_out() {
    let judge = judge(|_, text, place, _| 0.15 * label(text) + 0.15 * place as f64);
    let report = calibrated(&judge, &groups(60, |idx| idx as f64));
    assert!(report.position_bias.low > 0.3, "{report:?}");
    assert!(report.warnings[0].starts_with("what is shown later scores higher"), "{:?}", report.warnings);
}

#[test]
fn a_judge_who_favours_length_is_found_out_with_and_without_ties() {
    let favours = || judge(|_, text, _, _| (0.1 * label(text) + text.len() as f64 / 1000.0).min(1.0));
    for label_of in [(|idx| (idx / 2) as f64) as fn(usize) -> f64, |idx| idx as f64] {
        let report = calibrated(&favours(), &groups(60, label_of));
        assert!(report.length_bias.low > 0.5, "{report:?}");
        assert!(report.warnings[0].starts_with("what is longer scores higher"), "{:?}", report.warnings);
    }
    let fair = judge(|_, text, _, draws| 0.2 * label(text) + 0.1 * draws.uniform());
    assert!(calibrated(&fair, &groups(60, |idx| (idx / 2) as f64)).warnings.is_empty());
}

#[test]
fn groups_that_fail_count_against_the_judge() {
    let judge = Script::new(|asked| match asked.last().len() % 2 {
        0 => Ok("no idea".into()),
        _ => Ok(scores(&asked.qualities().into_iter().map(|(id, label)| (id, label / 4.0)).collect::<Vec<_>>()).to_string()),
    });
    let report = calibrated(&judge, &groups(60, |idx| idx as f64));
    assert!(report.n_failed > 12 && report.n_failed < 60, "{report:?}");
    let [failure] = &report.failures[..] else { panic!("one reason: {:?}", report.failures) };
    assert_eq!(failure.groups.len(), report.n_failed);
    let refusal = report.refusals.iter().find(|refusal| refusal.contains("it failed on")).unwrap();
    assert!(refusal.ends_with(&format!(" of 60 groups, more than 20 %, the first so: {}", failure.why)), "{refusal}");
}

#[test]
fn groups_that_say_nothing_of_a_judge_are_told() {
    let mut all = groups(40, |idx| idx as f64);
    all.extend(groups(3, |_| 1.0));
    let report = calibrated(&judge(|_, text, _, _| label(text) / 4.0), &all);
    assert!(report.is_accepted(), "{report:?}");
    assert_eq!(report.warnings, ["3 of 43 groups give no pair to compare: all labels in them are equal"]);
}

#[test]
fn the_last_record_gives_a_judge_its_standing() {
    let standing = |judge: &Script, n: usize| {
        let found = calibrated(judge, &groups(n, |idx| idx as f64));
        let record = serde_json::to_string(&Measurement::of(&found, Floor::default(), "the best")).unwrap();
        let record: Measurement = serde_json::from_str(&record).unwrap();
        assert_eq!((record.agreement, record.floor, record.n_pairs), (found.agreement, 0.6, found.n_pairs));
        Standing::of(Some(&record))
    };
    assert_eq!(Standing::of(None), Standing::Unmeasured);
    assert_eq!(standing(&judge(|_, text, _, _| label(text) / 4.0), 40), Standing::Accepted);
    let Standing::Refused(why) = standing(&judge(|_, text, _, _| 1.0 - label(text) / 4.0), 40) else { panic!("it is wrong") };
    assert!(why.starts_with("it agrees with the labels in 0.0 % of the pairs") && why.ends_with("floor of 60.0 %"), "{why}");
}

#[test]
fn labelled_groups_are_read_from_lines() {
    let trace = serde_json::to_string(&trace("t", &["q=1"])).unwrap();
    let line = format!(
        r#"{{"group": [{{"trace": {trace}, "label": 1}},
            {{"messages": [{{"role": "user", "content": "hi"}}, {{"role": "assistant", "content": "ho"}}], "label": 0.5}}]}}"#
    )
    .replace('\n', " ");
    let group = read_group(&line).unwrap();
    assert_eq!(group.members.iter().map(|(_, label)| *label).collect::<Vec<_>>(), [1.0, 0.5]);
    assert_eq!(group.members[1].0.turns().next().unwrap().answer.content.text(), "ho");
    for (line, error) in [
        ("{", "EOF"),
        ("{}", "the line has no list `group`"),
        (r#"{"group": [{"messages": []}]}"#, "group[0]: there is no number `label`"),
        (r#"{"group": [{"label": 1}]}"#, "group[0]: "),
    ] {
        let message = read_group(line).unwrap_err();
        assert!(message.contains(error), "{message}");
    }
}
