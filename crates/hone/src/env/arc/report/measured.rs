//! What was reached, as numbers.

use super::tried::Tried;
use crate::printer::counted;
use hone_arc::measure::difficulty;
use hone_eval::interval::wilson;
use hone_eval::pass_at;
use serde::Serialize;

/// What was reached.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) run: String,
    tasks: usize,
    samples: usize,
    /// Tasks whose last program, chosen by the examples, is right on all pairs.
    solved: usize,
    /// Their share, with its 95 % interval.
    solved_interval: (f64, f64),
    /// The mean share of hidden cells that are right.
    pixel_score: f64,
    /// The chance that one of k samples solves a task, the mean over tasks with as many.
    pass_at: Vec<PassAt>,
    /// Tasks that are solved by the output that most samples agree on, augmentations undone.
    solved_by_vote: usize,
    /// Tokens of thinking, those of failed samples too, for each solved task.
    thinking_tokens_per_solved: Option<f64>,
    by_difficulty: Vec<Level>,
}

#[derive(Debug, Serialize)]
struct PassAt {
    k: usize,
    share: f64,
    tasks: usize,
}

#[derive(Debug, Serialize)]
struct Level {
    level: &'static str,
    tasks: usize,
    solved: usize,
}

/// How many samples are drawn at most.
const K: [usize; 5] = [1, 2, 4, 8, 16];
/// How hard tasks of a level are at most.
const LEVELS: [(&str, f64); 3] = [("easy", 0.4), ("medium", 0.6), ("hard", f64::INFINITY)];

impl Measured {
    pub(super) fn of(run: &str, tried: &[Tried]) -> Self {
        let solved = tried.iter().filter(|tried| tried.score.is_solved).count();
        let thinking: f64 = tried.iter().flat_map(|tried| &tried.samples).map(|sample| sample.thinking_tokens).sum();
        Self {
            run: run.to_owned(),
            tasks: tried.len(),
            samples: tried.iter().map(|tried| tried.samples.len()).sum(),
            solved,
            solved_interval: wilson(solved, tried.len()),
            pixel_score: tried.iter().map(|tried| tried.hidden.right_pixels).sum::<f64>() / tried.len().max(1) as f64,
            pass_at: K.into_iter().filter_map(|k| pass(k, tried)).collect(),
            solved_by_vote: tried.iter().filter(|tried| tried.is_voted).count(),
            thinking_tokens_per_solved: (solved > 0).then(|| (thinking / solved as f64).round()),
            by_difficulty: by_difficulty(tried),
        }
    }

    /// The numbers with their names.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let (low, high) = self.solved_interval;
        let mut rows = vec![
            vec![
                "solved".to_owned(),
                format!("{} of {} tasks ({:.1} % to {:.1} %)", self.solved, self.tasks, low * 100.0, high * 100.0),
            ],
            vec!["pixels".to_owned(), format!("{:.1} % of hidden cells right", self.pixel_score * 100.0)],
            vec![
                "votes".to_owned(),
                format!(
                    "{} of {} tasks solved by what most of {} samples agree on",
                    self.solved_by_vote, self.tasks, self.samples
                ),
            ],
        ];
        for PassAt { k, share, tasks } in &self.pass_at {
            rows.push(vec![format!("pass@{k}"), format!("{:.1} % over {}", share * 100.0, counted(*tasks as u64, "task"))]);
        }
        let thinking = self
            .thinking_tokens_per_solved
            .map_or_else(|| "nothing is solved".to_owned(), |n| format!("{n} tokens per solved task"));
        rows.push(vec!["thinking".to_owned(), thinking]);
        rows
    }

    /// The levels of difficulty.
    pub(super) fn levels(&self) -> Vec<Vec<String>> {
        let row = |level: &Level| vec![level.level.to_owned(), level.tasks.to_string(), level.solved.to_string()];
        self.by_difficulty.iter().map(row).collect()
    }
}

fn pass(k: usize, tried: &[Tried]) -> Option<PassAt> {
    let n_solved = |tried: &Tried| tried.samples.iter().filter(|sample| sample.is_solved).count();
    let shares: Vec<f64> = tried.iter().filter_map(|tried| pass_at(k, tried.samples.len(), n_solved(tried))).collect();
    (!shares.is_empty()).then(|| PassAt { k, share: shares.iter().sum::<f64>() / shares.len() as f64, tasks: shares.len() })
}

fn by_difficulty(tried: &[Tried]) -> Vec<Level> {
    let level_of = |tried: &Tried| {
        let hard = difficulty(&tried.task);
        LEVELS.iter().position(|(_, most)| hard <= *most).unwrap_or(0)
    };
    let of_level = |nth: usize| {
        let members: Vec<&Tried> = tried.iter().filter(|tried| level_of(tried) == nth).collect();
        Level { level: LEVELS[nth].0, tasks: members.len(), solved: members.iter().filter(|tried| tried.score.is_solved).count() }
    };
    (0..LEVELS.len()).map(of_level).collect()
}
