//! The database: which one is configured, whether it opens, and what is in it.

use super::{Finding, Verdict};
use crate::context::{Context, has_database};
use crate::failure::Failure;
use crate::printer::counted;
use crate::settings::without_password;
use hone_store::{Info, Place};
use std::time::Duration;
use tokio::time::timeout;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

pub(super) async fn look(context: &Context<'_>) -> Finding {
    let place = match &context.settings.place {
        Place::Folder(folder) => folder.display().to_string(),
        Place::Postgres(url) => without_password(url),
    };
    let finding = match &context.settings.place {
        // Opening would make it, and looking around should not.
        Place::Folder(folder) if !has_database(folder) => {
            Finding::new("database", Verdict::Ok, format!("SQLite in {place}: not there yet, the first import makes it"))
        }
        _ => match timeout(PATIENCE, open(context)).await {
            Ok(Ok(info)) => describe(&info),
            Ok(Err(failure)) => Finding::new("database", Verdict::Missing, failure.to_string()),
            Err(_) => {
                let says = format!("{place} did not answer within {} seconds", PATIENCE.as_secs());
                Finding::new("database", Verdict::Missing, says)
            }
        },
    };
    finding.needed().fact("place", place)
}

async fn open(context: &Context<'_>) -> Result<Info, Failure> {
    Ok(context.store().await?.info().await?)
}

fn describe(info: &Info) -> Finding {
    let Info { place, engine, schema, counts, .. } = info;
    let says = format!("{engine} at {place}, schema {schema}: it answers, and holds {}", counted(counts.traces, "trace"));
    Finding::new("database", Verdict::Good, says)
        .fact("engine", engine.as_str())
        .fact("schema", *schema)
        .fact("records", serde_json::to_value(counts).expect("numbers have a JSON form"))
}
