//! Where measurements of judges are kept: one stream of events per judge, of which the last counts.
//!
//! A judge is known by the hash of its config, so that another model, adapter or temperature is another judge. Each tenant
//! measures for itself: its labels say nothing about the tasks of others.

use crate::context::{Context, has_database};
use crate::failure::Failure;
use hone_reward::{Measurement, Standing};
use hone_store::Place;
use hone_trace::store::{Event, Write};
use hone_trace::{ConfigHash, EventId};
use serde::Deserialize;

/// What happened to the judge.
const CALIBRATED: &str = "calibrated";

/// The most events that are held at once.
const PAGE_LEN: u32 = 1000;

/// Keeps what was found about a judge.
pub(super) async fn record(judge: ConfigHash, found: &Measurement, context: &Context<'_>) -> Result<(), Failure> {
    let (at, tenant, stream) = (crate::clock::now(), context.settings.tenant.clone(), stream(judge));
    let body = serde_json::to_value(found).map_err(Failure::bug)?;
    let facts = [stream.as_str(), tenant.as_str(), &at.unix_nanos().to_string(), &body.to_string()];
    let id = EventId::derived(&facts);
    let event = Event { id, at, tenant, stream, kind: CALIBRATED.to_owned(), body };
    context.store().await?.put(vec![Write::Event(event)]).await?;
    Ok(())
}

/// The standing of a judge by its last measurement.
pub(super) async fn last(judge: ConfigHash, context: &Context<'_>) -> Result<Standing, Failure> {
    if matches!(&context.settings.place, Place::Folder(folder) if !has_database(folder)) {
        // A project without records has measured nobody.
        return Ok(Standing::Unmeasured);
    }
    let (store, stream) = (context.store().await?, stream(judge));
    let (mut last, mut after) = (None, 0);
    loop {
        let page = store.events(Some(&stream), after, PAGE_LEN).await?;
        let Some((seq, _)) = page.last() else { break };
        after = *seq;
        let is_ours = |event: &Event| event.kind == CALIBRATED && event.tenant == context.settings.tenant;
        last = page.into_iter().map(|(_, event)| event).rfind(is_ours).or(last);
    }
    let measured = last.map(|event| Measurement::deserialize(event.body)).transpose();
    let measured = measured.map_err(|error| Failure::world(error).context(format_args!("the last event of {stream}")))?;
    Ok(Standing::of(measured.as_ref()))
}

/// Whether this judge may be heard, by how it was last measured.
pub(crate) fn trust(name: &str, judge: ConfigHash, env: Option<&str>, force: bool, context: &Context<'_>) -> Result<(), Failure> {
    let standing = context.wait(async |context| last(judge, context).await)?;
    // What was recorded has no labels of its own.
    let env = env.filter(|env| !env.starts_with("replay:"));
    let groups = env.map_or_else(|| "labelled.jsonl".to_owned(), |env| format!("--env {env}"));
    match standing {
        Standing::Accepted => {}
        Standing::Unmeasured => context.printer.say(&format!(
            "`{name}` was never measured as a judge: `hone reward calibrate {groups} --judge {name}` does so, with the same \
             policy options as here"
        )),
        Standing::Refused(why) if force => context.printer.say(&format!("`{name}` is heard though it was refused: {why}")),
        Standing::Refused(why) => {
            return Err(Failure::user(format_args!("`{name}` was refused as a judge: {why}"))
                .hint("take another judge, measure this one again with `hone reward calibrate`, or hear it with `--force`"));
        }
    }
    Ok(())
}

fn stream(judge: ConfigHash) -> String {
    format!("judge:{judge}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::{Printer, Wishes};
    use crate::settings::{Flags, Settings, Variables};

    #[test]
    fn a_project_without_records_hears_a_judge_that_was_never_measured() {
        let folder = tempfile::tempdir().unwrap();
        let (variables, printer) = (Variables::default(), Printer::on(Wishes::default(), std::io::sink(), std::io::sink()));
        let settings = Settings::load(&Flags::default(), &variables, folder.path()).unwrap();
        let context = Context { settings, printer: &printer, variables: &variables };
        trust("judge", ConfigHash::of(b"judge"), Some("desk"), false, &context).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a look around leaves nothing behind");
    }
}
