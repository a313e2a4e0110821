//! `hone data arc-edits`: edits of a search as samples to be imitated, chosen step by step, with a page on which a person has the
//! last word.
//!
//! Programs are run again here: what an edit gained is measured, not believed. The same store, tasks, rules and verdicts give the
//! same bytes.

mod batch;
mod review;

use crate::context::Context;
use crate::env::arc::edits::{self, Edit};
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use batch::{Batch, Manifest};
use hone_arc::Grid;
use hone_arc::comment::commented;
use hone_arc::task::{Pair, Task};
use hone_arc::world::{ArcOptions, ArcWorld, Attempt, Score};
use hone_data::edits::{Chosen, Edit as Candidate, Rules, choose};
use hone_trace::env::Split;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Make samples to imitate of the edits that made programs better
///
/// Takes the edits of `hone env arc evolve` and drops, step by step, what gained nothing, is held out, gives away the answer or
/// says nothing new; of each task the best three stay. DIR holds train.jsonl and validation.jsonl, which `hone trace import`
/// reads, the same samples as plain text, review.html and manifest.json. Exit code 1 when nothing stays.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks that were searched: a folder of JSON files, or a file
    #[arg(long, value_name = "FOLDER|FILE.jsonl")]
    tasks: PathBuf,
    /// The folder to write, which must not be there yet with other content
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Take the edits of this search alone
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// What a person said on the review page of a batch
    #[arg(long, value_name = "FILE")]
    review: Option<PathBuf>,
    /// How many edits of a task stay
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    top: u8,
    /// The most edits of a task with all its augmentations
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    at_most: u8,
    /// Two gains that differ by no more are the same, in thousandths
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    epsilon: u16,
    /// The share of tasks that is kept to choose by
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=50))]
    validation: u8,
    /// The seed of what is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// An edit as it is shown and written.
pub(super) struct Sample<'a> {
    id: String,
    task: &'a Task,
    gain: f64,
    /// The program before.
    from: &'a str,
    /// The program after, with comments.
    program: String,
    thinking: String,
    edit: &'a Edit,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let arc = ArcWorld::new(ArcOptions::new(args.tasks.clone())).map_err(Failure::user)?;
    let verdicts = args.review.as_deref().map(review::read).transpose()?.unwrap_or_default();
    let store = context.store_to_read().await?;
    let mut edits = edits::read(&*store, &context.settings.tenant, args.run.as_deref()).await?;
    let n_all = edits.len();
    let ids: BTreeSet<&str> = edits.iter().map(|edit| edit.origin.task.as_str()).collect();
    let tasks: BTreeMap<String, Task> = ids.into_iter().filter_map(|id| Some((id.to_owned(), arc.task(id)?))).collect();
    edits.retain(|edit| tasks.contains_key(edit.origin.task.as_str()));
    if n_all > edits.len() {
        let text = format!("{} of tasks that are not in {}", counted((n_all - edits.len()) as u64, "edit"), args.tasks.display());
        context.printer.complain(&format!("{text} are left out"));
    }
    if edits.is_empty() {
        let of = args.run.as_ref().map_or_else(String::new, |run| format!(" of the search `{run}`"));
        return Err(
            Failure::user(format_args!("there are no edits{of} in the store")).hint("make some with `hone env arc evolve`")
        );
    }
    let rules = args.rules();
    let candidates: Vec<Candidate> = edits.iter().map(|edit| candidate(edit, &arc, &tasks[edit.origin.task.as_str()])).collect();
    let chosen = choose(&candidates, &rules, &verdicts);
    let sample = |nth: usize| sample(&edits[nth], &candidates[nth], &tasks[edits[nth].origin.task.as_str()]);
    let mut batch = Batch::default();
    for &(nth, split) in &chosen.kept {
        batch.add(&sample(nth), split)?;
    }
    let kept: Vec<Sample<'_>> = chosen.kept.iter().map(|&(nth, _)| sample(nth)).collect();
    let doubtful: Vec<(Sample<'_>, String)> =
        chosen.doubtful.iter().take(review::DOUBTFUL_MAX).map(|(nth, why)| (sample(*nth), why.clone())).collect();
    batch.page(review::page(&batch.name(), &kept, &doubtful));
    let manifest = batch.manifest(&Manifest {
        run: args.run.clone(),
        rules,
        found: edits.len(),
        steps: chosen.steps.clone(),
        tasks: batch::hash_of(arc.tasks().iter().map(|task| task.to_json(true).to_string())),
        edits: batch::hash_of(edits.iter().map(|edit| serde_json::to_string(&edit.trace).unwrap_or_default())),
        verdicts: verdicts.len(),
    })?;
    let is_new = if chosen.kept.is_empty() { false } else { batch.publish(&args.out)? };
    print(args, &chosen, edits.len(), &manifest, is_new, context)
}

impl Args {
    fn rules(&self) -> Rules {
        Rules {
            top: usize::from(self.top),
            epsilon: f64::from(self.epsilon) / 1000.0,
            family_max: usize::from(self.at_most),
            validation: f64::from(self.validation) / 100.0,
            seed: self.seed,
            ..Rules::default()
        }
    }
}

/// What an edit is chosen by, measured anew.
fn candidate(edit: &Edit, arc: &ArcWorld, task: &Task) -> Candidate {
    let pairs: Vec<Pair> = task.pairs().cloned().collect();
    let before = Score::of(&edit.origin.from, &pairs).correctness;
    let (score, made) = match Attempt::of(&edit.program) {
        Ok(attempt) => Score::on(&attempt, &pairs),
        Err(_) => (Score::WRONG, Vec::new()),
    };
    let runs = made.iter().any(Result::is_ok);
    Candidate {
        id: edit.trace.id.to_string(),
        task: task.id.clone(),
        family: task.family.clone(),
        is_held_out: arc.split(task) != Split::Train,
        thinking: edit.thoughts.join("\n\n"),
        program: if runs { edit.program.clone() } else { String::new() },
        gain: score.correctness - before,
        right: made.iter().zip(&pairs).map(|(made, pair)| made.as_ref() == Ok(&pair.output)).collect(),
        outputs: pairs.iter().map(|pair| rows(&pair.output)).collect(),
    }
}

fn rows(grid: &Grid) -> Vec<Vec<i8>> {
    grid.rows().map(<[i8]>::to_vec).collect()
}

fn sample<'a>(edit: &'a Edit, candidate: &Candidate, task: &'a Task) -> Sample<'a> {
    Sample {
        id: candidate.id.clone(),
        task,
        gain: candidate.gain,
        from: &edit.origin.from,
        program: commented(&edit.program),
        thinking: candidate.thinking.clone(),
        edit,
    }
}

fn print(
    args: &Args,
    chosen: &Chosen,
    n_found: usize,
    manifest: &serde_json::Value,
    is_new: bool,
    context: &Context<'_>,
) -> Result<Exit, Failure> {
    let printer = context.printer;
    let exit = if chosen.kept.is_empty() { Exit::No } else { Exit::Yes };
    if printer.wants_json() {
        printer.json(manifest)?;
        return Ok(exit);
    }
    let mut rows = vec![vec!["found".to_owned(), String::new(), n_found.to_string(), "edits of the search".to_owned()]];
    for step in &chosen.steps {
        let dropped = if step.dropped == 0 { "0".to_owned() } else { format!("-{}", step.dropped) };
        rows.push(vec![step.step.to_owned(), dropped, step.left.to_string(), step.about.to_owned()]);
    }
    printer.table(&["step", "dropped", "left", "what it drops"], &rows)?;
    let n_of = |split: Split| chosen.kept.iter().filter(|(_, of)| *of == split).count();
    let (to_learn, n_validation) = (counted(n_of(Split::Train) as u64, "sample"), n_of(Split::Validation));
    printer.plain(&format!("{to_learn} to learn from, {n_validation} to choose by; no family is on both sides"))?;
    match exit {
        Exit::Yes if is_new => printer.say(&format!("written to {0}; look at {0}/review.html", args.out.display())),
        Exit::Yes => printer.say(&format!("{} holds the very same already", args.out.display())),
        _ => printer.complain("nothing stays, and nothing was written"),
    }
    Ok(exit)
}
