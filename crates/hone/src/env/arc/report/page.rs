//! The report as a page: the numbers, then every task with its grids, step by step.

use super::measured::Measured;
use super::tried::Tried;
use crate::env::arc::figures::figures;
use crate::page::{Page, escaped};
use hone_arc::world::{Attempt, Score};

/// The most steps of a task that are drawn: the first, and the last ones.
const STEPS_MAX: usize = 6;

/// The page.
pub(super) fn page(measured: &Measured, tried: &[Tried], n_max: usize) -> String {
    let mut page = Page::new(&format!("ARC tasks: {}", measured.run));
    page.table(&["measure", "value"], &measured.rows());
    page.table(&["difficulty", "tasks", "solved"], &measured.levels());
    for tried in tried.iter().take(n_max) {
        task(&mut page, tried);
    }
    if tried.len() > n_max {
        page.add(&format!("<p>{} further tasks are not drawn; --at-most draws more.</p>", tried.len() - n_max));
    }
    page.finish()
}

fn task(page: &mut Page, tried: &Tried) {
    let (word, class) = if tried.score.is_solved { ("solved", "good") } else { ("not solved", "bad") };
    let id = escaped(&tried.task.id);
    let form = if tried.played.id == tried.task.id { String::new() } else { format!(", drawn as {}", escaped(&tried.played.id)) };
    page.add(&format!(
        "<section class=\"task\" id=\"task-{id}\"><h2>{id} <span class=\"{class}\">{word}</span></h2><p class=\"faint\">{} samples, {} of them right{form}</p>",
        tried.samples.len(),
        tried.samples.iter().filter(|sample| sample.is_solved).count()
    ));
    let skipped = tried.steps.len().saturating_sub(STEPS_MAX);
    let drawn = tried.steps.iter().enumerate().filter(|(nth, _)| *nth == 0 || *nth > skipped);
    let drawn: Vec<(String, &String, Option<Attempt>)> =
        drawn.map(|(nth, program)| (name(nth, tried, program), program, Attempt::of(program).ok())).collect();
    let attempts: Vec<(String, Option<&Attempt>)> =
        drawn.iter().map(|(name, _, attempt)| (name.clone(), attempt.as_ref())).collect();
    let trains = tried.played.train.iter().enumerate().map(|(nth, pair)| ("Example", nth, pair));
    let tests = tried.played.test.iter().enumerate().map(|(nth, pair)| ("Hidden pair", nth, pair));
    for (part, nth, pair) in trains.chain(tests) {
        page.add(&format!("<h3>{part} {}</h3>", nth + 1));
        page.add(&figures(pair, &attempts));
    }
    for (name, program, _) in &drawn {
        page.add(&format!("<details><summary>Program of {}</summary><pre>{}</pre></details>", escaped(name), escaped(program)));
    }
    page.add("</section>");
}

/// What a step is called, with how right it is on the examples.
fn name(nth: usize, tried: &Tried, program: &str) -> String {
    format!("step {nth} (r {:.2})", Score::of(program, &tried.played.train).correctness)
}
