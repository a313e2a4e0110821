//! `hone store`: back up, restore and examine what is kept.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use clap::Subcommand;
use hone_store::{BackupError, Counts, Restored};
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write all records and blobs into a new folder
    ///
    /// The back-up is one consistent view, also while others write. It does not depend on the database: what was backed up
    /// from SQLite can be restored into PostgreSQL, and the other way round.
    ///
    /// Exit code 1 when a record or blob is not what was written: it is named and left out, and all others are backed up.
    Backup {
        /// The folder to write, which must not hold a back-up yet
        #[arg(id = "dir", value_name = "DIR")]
        folder: PathBuf,
    },
    /// Read a back-up into the store
    ///
    /// The back-up is checked against its manifest before anything is written. An interrupted restore is run again with
    /// `--merge`: a record that is there is not written twice. One that is there and damaged is put back. An agent that has gone on here keeps
    /// its own log, and is named.
    ///
    /// Exit code 1 when other content is there under the id of a record, which then stays.
    Restore {
        /// The folder of the back-up
        #[arg(id = "dir", value_name = "DIR")]
        folder: PathBuf,
        /// Add to a store that has records already
        #[arg(long)]
        merge: bool,
    },
    /// Read everything back and compare it with what was written
    ///
    /// Exit code 1 when a record or blob is not what was written, or the database finds its own files damaged.
    Verify,
    /// Say which database is in use and how much it holds
    Info,
}

/// What a back-up did.
#[derive(Debug, Serialize)]
struct BackedUp {
    folder: PathBuf,
    records: Counts,
    blobs: usize,
    /// What was left out because it is damaged, as many as are named.
    damaged: Vec<String>,
    n_damaged: u64,
}

/// What a restore did.
#[derive(Debug, Serialize)]
struct Told<'a> {
    folder: PathBuf,
    #[serde(flatten)]
    restored: &'a Restored,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match &args.command {
        Command::Backup { folder } => context.wait(async |context| backup(folder.clone(), context).await),
        Command::Restore { folder, merge } => context.wait(async |context| restore(folder.clone(), *merge, context).await),
        Command::Verify => context.wait(verify),
        Command::Info => context.wait(info),
    }
}

async fn backup(folder: PathBuf, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let bar = context.printer.count_bar("records");
    let manifest = hone_store::backup(&*store, &folder, advance(&bar)).await;
    bar.finish_and_clear();
    let manifest = manifest.map_err(failure)?;
    let hone_store::Manifest { records, blobs, damaged, n_damaged, .. } = manifest;
    let done = BackedUp { folder, records, blobs: blobs.len(), damaged, n_damaged };
    if context.printer.wants_json() {
        context.printer.json(&done)?;
    } else {
        done.damaged.iter().try_for_each(|damage| context.printer.plain(damage))?;
        let (records, blobs) = (counted(records.total(), "record"), counted(done.blobs as u64, "blob"));
        let left_out =
            if n_damaged == 0 { String::new() } else { format!(", {} damaged and left out", counted(n_damaged, "thing")) };
        context.printer.say(&format!("backed up {records} and {blobs}{left_out}: {}", done.folder.display()));
    }
    Ok(if n_damaged == 0 { Exit::Yes } else { Exit::No })
}

async fn restore(folder: PathBuf, merge: bool, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let n_there = store.info().await?.counts.total();
    if n_there > 0 && !merge {
        return Err(Failure::user(format_args!("the store has {} already", counted(n_there, "record")))
            .hint("`--merge` adds the back-up to them, also after an interrupted restore; `--folder` names another place"));
    }
    let bar = context.printer.count_bar("records");
    let restored = hone_store::restore(&*store, &folder, advance(&bar)).await;
    bar.finish_and_clear();
    let restored = restored.map_err(failure)?;
    if context.printer.wants_json() {
        context.printer.json(&Told { folder, restored: &restored })?;
    } else {
        restored.differing.iter().try_for_each(|record| context.printer.plain(record))?;
        let (records, blobs) = (counted(restored.records.total(), "record"), counted(restored.blobs, "blob"));
        let also = [
            (restored.repaired, "of them damaged before"),
            (restored.same, "there already"),
            (restored.n_differing, "different and left alone"),
            (restored.left_out, "damaged when this was backed up, and not in it"),
        ];
        let also: String = also.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
        context.printer.say(&format!("restored {records} and {blobs}{also}: {}", folder.display()));
    }
    Ok(if restored.n_differing == 0 { Exit::Yes } else { Exit::No })
}

async fn verify(context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let bar = context.printer.count_bar("records");
    let verdict = hone_store::verify(&*store, advance(&bar)).await;
    bar.finish_and_clear();
    let verdict = verdict?;
    if context.printer.wants_json() {
        context.printer.json(&verdict)?;
    } else {
        let (records, blobs) = (counted(verdict.counts.total(), "record"), counted(verdict.blobs, "blob"));
        for complaint in &verdict.complaints {
            context.printer.plain(complaint)?;
        }
        let wrong = counted(verdict.n_complaints, "thing");
        context.printer.say(&match verdict.n_complaints {
            0 => format!("{records} and {blobs} are what was written"),
            _ => format!("{records} and {blobs} read, {wrong} wrong"),
        });
    }
    Ok(if verdict.n_complaints == 0 { Exit::Yes } else { Exit::No })
}

async fn info(context: &Context<'_>) -> Result<Exit, Failure> {
    let Some(store) = context.store_if_there().await? else {
        context.printer.say(&format!("{}; the first that is written makes the database", context.no_records()));
        return Ok(Exit::Yes);
    };
    let info = store.info().await?;
    let Counts { traces, documents, links, events, .. } = info.counts;
    let rows = [
        ("place", json!(info.place)),
        ("engine", json!(info.engine)),
        ("schema", json!(info.schema)),
        ("traces", json!(traces)),
        // Of all traces, whether written with them or added later.
        ("turns", json!(info.n_turns)),
        ("rewarded", json!(info.n_rewarded)),
        ("documents", json!(documents)),
        ("links", json!(links)),
        ("events", json!(events)),
    ];
    if context.printer.wants_json() {
        context.printer.json(&rows.into_iter().collect::<BTreeMap<_, _>>())?;
        return Ok(Exit::Yes);
    }
    let shown = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    context.printer.table(&["what", "value"], &rows.map(|(what, value)| vec![what.to_owned(), shown(value)]))?;
    Ok(Exit::Yes)
}

fn advance(bar: &ProgressBar) -> impl FnMut(u64) + '_ {
    |n_records| bar.set_position(n_records)
}

fn failure(error: BackupError) -> Failure {
    match error {
        BackupError::Store(error) => error.into(),
        BackupError::Folder(..) => Failure::user(error),
        BackupError::File(..) => Failure::world(error),
    }
}
