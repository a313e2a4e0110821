//! What is lost elsewhere: GRPO trains three of the desk's six categories, drawn by the seed, and the other three are measured
//! before and after, task by task.

use super::figure::Figure;
use super::warm::Warm;
use crate::failure::Failure;
use crate::r#loop::{CategoryGain, Lesson};
use hone_trace::{Draws, Scenario};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Held-out tasks: a thousand of each category, so that a loss of three points cannot hide.
const N_TASKS: usize = 6000;
/// How many categories are trained.
const N_TRAINED: usize = 3;

/// One seed: what every category gained.
pub(super) struct Run {
    trained: Vec<CategoryGain>,
    others: Vec<CategoryGain>,
}

impl Run {
    /// The most that an untrained category may have lost, in points.
    fn max_loss_points(&self) -> f64 {
        self.others.iter().map(|gain| -gain.bound).fold(f64::NEG_INFINITY, f64::max)
    }

    pub(super) fn told(&self) -> String {
        let gains = |gains: &[CategoryGain]| {
            let tell = |gain: &CategoryGain| format!("{} {:+.1} (≥ {:+.1})", gain.category, gain.points, gain.bound);
            gains.iter().map(tell).collect::<Vec<_>>().join(", ")
        };
        format!("trained: {}; others: {}", gains(&self.trained), gains(&self.others))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// The largest upper one-sided 95 % bound of an untrained category's loss.
    max_loss_points: Figure,
    /// Points gained, over the seeds that trained the category and over those that did not.
    trained: BTreeMap<String, Figure>,
    others: BTreeMap<String, Figure>,
}

impl Figures {
    pub(super) fn of(runs: &[Run]) -> Self {
        Self {
            max_loss_points: Figure::of(runs, Run::max_loss_points),
            trained: by_category(runs, |run| &run.trained),
            others: by_category(runs, |run| &run.others),
        }
    }

    pub(super) fn told(&self) -> String {
        let Figure { mean, most, .. } = self.max_loss_points;
        format!(
            "trained on half of the categories, another may have lost {mean:.1} points by its 95 % bound, {most:.1} in the worst run"
        )
    }
}

fn by_category(runs: &[Run], gains: impl Fn(&Run) -> &[CategoryGain]) -> BTreeMap<String, Figure> {
    let mut by_category: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for gain in runs.iter().flat_map(&gains) {
        by_category.entry(gain.category.clone()).or_default().push(gain.points);
    }
    by_category.into_iter().map(|(category, points)| (category, Figure::of(&points, |points| *points))).collect()
}

pub(super) fn run(warm: &mut Warm, n_steps: usize) -> Result<Run, Failure> {
    let tasks = warm.ground.held_out(N_TASKS)?;
    let mut categories: Vec<String> =
        tasks.iter().map(|task| task.category.to_string()).collect::<BTreeSet<_>>().into_iter().collect();
    Draws::new(warm.seed, &["forgetting"]).shuffle(&mut categories);
    categories.truncate(N_TRAINED);
    let is_trained = |category: &str| categories.iter().any(|trained| trained == category);

    warm.rewind()?;
    let before = warm.measure_on("before", &tasks)?;
    let lesson = Lesson::new("forgetting");
    // Half of the tickets are of the trained categories; three times as many leave enough of them.
    let wanted = n_steps * lesson.n_scenarios;
    let mut tries: Vec<Scenario> = warm.ground.tries(3 * wanted)?;
    tries.retain(|task| is_trained(task.category.as_str()));
    tries.truncate(wanted);
    lesson.teach(&mut warm.learner, &warm.ground.gym(), &tries, |_, _| {}, |_, _| Ok(ControlFlow::Continue(())))?;
    let after = warm.measure_on("after", &tasks)?;
    let (trained, others) = after.gains_by_category(&before).into_iter().partition(|gain| is_trained(&gain.category));
    Ok(Run { trained, others })
}
