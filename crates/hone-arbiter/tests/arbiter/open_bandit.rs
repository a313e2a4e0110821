//! Off-policy estimates against a real log: what the random policy of a shop earned, estimated from the log of its bandit.
//!
//! Both policies ran side by side, so the random log says what is right. Clicks are rare (38 to 69 in 10,000), hence intervals are wide:
//! this checks the code, and ranks nothing. One of three logs is dominated by a row that the bandit chose with almost no
//! probability: it is worth two rows, and must be refused.

use hone_arbiter::{Logged, OffPolicyError, off_policy};
use std::path::PathBuf;

struct Shown {
    item: usize,
    click: f64,
    propensity: f64,
}

/// The rows of one log; `None` where the data is not there.
fn read(name: &str) -> Option<Vec<Shown>> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/open-bandit"));
    let Ok(text) = std::fs::read_to_string(folder.join(name)) else {
        eprintln!("skipped: ../shared/data/open-bandit/{name} is not there");
        return None;
    };
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Shown { item: fields[1].parse().unwrap(), click: fields[3].parse().unwrap(), propensity: fields[4].parse().unwrap() }
    };
    Some(text.lines().skip(1).map(row).collect())
}

/// The rate of clicks of each item over these rows, shrunk to that of all.
fn model<'a>(rows: impl Iterator<Item = &'a Shown> + Clone, n_items: usize) -> Vec<f64> {
    let (n, clicks) = rows.clone().fold((0.0, 0.0), |(n, clicks), row| (n + 1.0, clicks + row.click));
    let mut sums = vec![(0.0, 0.0); n_items];
    rows.for_each(|row| sums[row.item] = (sums[row.item].0 + 1.0, sums[row.item].1 + row.click));
    sums.iter().map(|(shown, clicked)| (clicked + 200.0 * clicks / n) / (shown + 200.0)).collect()
}

/// The bandit's log as the random policy sees it, and the random policy's own log.
fn campaign(name: &str) -> Option<(Vec<Logged>, Vec<Shown>)> {
    let (bandit, random) = (read(&format!("bts_{name}.csv"))?, read(&format!("random_{name}.csv"))?);
    let n_items = bandit.iter().chain(&random).map(|row| row.item + 1).max().unwrap();
    // Each half is judged by a model of the other half.
    let models = [1, 0].map(|half| model(bandit.iter().skip(half).step_by(2), n_items));
    let even = 1.0 / n_items as f64;
    let seen = |(idx, row): (usize, &Shown)| Logged {
        reward: row.click,
        propensity: row.propensity,
        target: even,
        expected_chosen: models[idx % 2][row.item],
        expected_target: models[idx % 2].iter().sum::<f64>() * even,
    };
    Some((bandit.iter().enumerate().map(seen).collect(), random))
}

fn check(name: &str) {
    let Some((log, random)) = campaign(name) else { return };
    let found = off_policy(&log, 100.0).unwrap();
    let truth = random.iter().map(|row| row.click).sum::<f64>() / random.len() as f64;
    let spread = 1.96 * (truth * (1.0 - truth) / random.len() as f64).sqrt();
    eprintln!("{name}: random earned {truth:.5} ± {spread:.5}; estimated {found:?}");
    for estimate in [found.ips, found.snips, found.dr] {
        // Both numbers are uncertain.
        assert!((estimate.value - truth).abs() < estimate.half_width.hypot(spread), "{estimate:?}");
        assert!(estimate.half_width > 0.0 && estimate.half_width < 0.003, "{estimate:?}");
    }
    assert!(found.n_effective < 1_000.0 && found.n_rows == 10_000);
}

#[test]
fn estimates_agree_with_what_the_random_policy_earned() {
    check("all");
    check("men");
}

#[test]
fn a_log_that_is_worth_two_rows_is_refused() {
    let Some((log, _)) = campaign("women") else { return };
    assert!(matches!(off_policy(&log, 100.0), Err(OffPolicyError::TooFew { n_effective, .. }) if n_effective < 3.0));
}
