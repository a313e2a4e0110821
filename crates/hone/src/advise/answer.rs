//! What becomes of advice: taken, or turned down.

use super::record::{busy, write};
use super::show;
use crate::clock::now;
use crate::context::Context;
use crate::deploy::live;
use crate::failure::{Exit, Failure};
use hone_gateway::{documents, registry};
use hone_store::Database;
use hone_trace::store::Kind;
use hone_trace::{Agent, Answer, Config, ConfigHash, Outcome, Recommendation, RecommendationKind};
use serde_json::json;
use std::sync::Arc;

/// Take advice
///
/// Where the config in use serves an agent, the proposed one becomes a version of it, which takes over by the canary whose command is said.
/// The advice stays on the record with this answer.
#[derive(Debug, clap::Args)]
pub(crate) struct AcceptArgs {
    /// Which advice, by the beginning of its id
    id: String,
    /// What the new version of the agent is called; without this, the next number
    #[arg(long, value_name = "NAME")]
    version: Option<String>,
}

/// Turn advice down: it is not given again
#[derive(Debug, clap::Args)]
pub(crate) struct RejectArgs {
    /// Which advice, by the beginning of its id
    id: String,
}

/// Documents that are read at once.
const N_PAGE: u32 = 200;

pub(super) async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let all = match context.store_if_there().await? {
        Some(store) => all(&store, context).await?,
        None => Vec::new(),
    };
    if context.printer.wants_json() {
        all.iter().try_for_each(|(one, _)| context.printer.json(one))?;
    } else if all.is_empty() {
        context.printer.say("no advice was given yet; ask for it with `hone advise`");
    } else {
        let rows: Vec<Vec<String>> = all.iter().map(|(one, _)| show::line(one)).collect();
        context.printer.table(&["advice", "for", "tasks", "from", "to", "sure", "answer"], &rows)?;
    }
    Ok(Exit::Yes)
}

pub(super) async fn reject(args: &RejectArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let recommendation = answered(&args.id, Answer::Rejected, &store, context).await?;
    if context.printer.wants_json() {
        context.printer.json(&recommendation)?;
    } else {
        context.printer.plain(&format!("turned down: {}", show::short(&recommendation.id.to_string())))?;
    }
    Ok(Exit::Yes)
}

pub(super) async fn accept(args: &AcceptArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let recommendation = answered(&args.id, Answer::Accepted, &store, context).await?;
    let mut steps = Vec::new();
    if let Some(category) = &recommendation.category {
        steps.push(format!(
            "it is for tasks of type {category}: make the config an agent of its own, and let `hone serve --route` send such tasks to it"
        ));
    } else {
        for (entry, served) in serving(recommendation.from, &store, context).await? {
            let version = version(&entry, &recommendation, args, &store, context).await?;
            let rule = rule(&recommendation, &store).await?;
            steps.push(format!(
                "{served} serves; the proposed one takes over by `hone deploy start {} {version}{rule}`",
                entry.name
            ));
        }
        if steps.is_empty() {
            steps.push(format!(
                "no agent runs on config {}: change it where it is set",
                show::short(&recommendation.from.to_string())
            ));
        }
    }
    if context.printer.wants_json() {
        let mut told = serde_json::to_value(&recommendation).unwrap_or_default();
        told["next"] = json!(steps);
        return context.printer.json(&told).map(|()| Exit::Yes);
    }
    context.printer.plain(&format!("taken: {}", show::short(&recommendation.id.to_string())))?;
    steps.iter().for_each(|step| context.printer.say(step));
    Ok(Exit::Yes)
}

/// All advice of this tenant, newest first, with its revision.
async fn all(store: &Arc<dyn Database>, context: &Context<'_>) -> Result<Vec<(Recommendation, u32)>, Failure> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = documents::page(&**store, Kind::Recommendation, after, N_PAGE).await?;
        for read in page.items {
            let read = read.and_then(|document| Ok((documents::word::<Recommendation>(&document)?, document)));
            match read {
                Ok((advice, document)) if document.tenant == context.settings.tenant => found.push((advice, document.revision)),
                Err(damaged) if damaged.tenant.as_ref() == Some(&context.settings.tenant) => {
                    context.printer.complain(&damaged.why.to_string());
                }
                _ => {}
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Writes down an answer to advice.
async fn answered(id: &str, answer: Answer, store: &Arc<dyn Database>, context: &Context<'_>) -> Result<Recommendation, Failure> {
    let hint = "`hone advise list` names all";
    let all = all(store, context).await?;
    let mut meant = all.into_iter().filter(|(one, _)| !id.is_empty() && one.id.to_string().starts_with(&id.to_lowercase()));
    let Some((found, revision)) = meant.next() else {
        return Err(Failure::user(format_args!("there is no advice `{id}`")).hint(hint));
    };
    if meant.next().is_some() {
        return Err(Failure::user(format_args!("`{id}` is the beginning of several")).hint(hint));
    }
    if found.answer == Some(answer) {
        return Ok(found);
    }
    let state = Recommendation { answer: Some(answer), ..found };
    if write(&state, revision + 1, store).await? { Ok(state) } else { Err(busy()) }
}

/// The agents whose version that serves has this config, and what that version is called.
async fn serving(config: ConfigHash, store: &Arc<dyn Database>, context: &Context<'_>) -> Result<Vec<(Agent, String)>, Failure> {
    let (fleet, _) = registry::history(&**store).await?;
    let ours = registry::agents(&**store).await?.sound.into_iter().filter(|entry| entry.tenant == context.settings.tenant);
    let serving = ours.filter_map(|entry| {
        let served = live(&entry, &fleet).to_owned();
        let is_meant = entry.versions.iter().any(|version| version.version == served && version.config == config);
        let name = format!("{} {served}", entry.name);
        is_meant.then_some((entry, name))
    });
    Ok(serving.collect())
}

/// The version of an agent that has the proposed config, made if there is none.
async fn version(
    entry: &Agent,
    recommendation: &Recommendation,
    args: &AcceptArgs,
    store: &Arc<dyn Database>,
    context: &Context<'_>,
) -> Result<String, Failure> {
    if let Some(there) = entry.versions.iter().find(|version| version.config == recommendation.to) {
        return Ok(there.version.clone());
    }
    let document = store.document(Kind::Config, &recommendation.to.to_string()).await?;
    let Some(config) = document.map(|document| document.word::<Config>()).transpose()? else {
        let missing = Failure::user(format_args!("config {} is not on the record", recommendation.to));
        return Err(missing.hint(format!("add it by hand with `hone deploy add {} VERSION --model NAME`", entry.name)));
    };
    let is_taken = |name: &str| entry.versions.iter().any(|version| version.version == name);
    let next = (entry.versions.len() + 1..).map(|number| format!("v{number}")).find(|name| !is_taken(name));
    let name = args.version.clone().or(next).unwrap_or_default();
    let tenant = &context.settings.tenant;
    registry::add(&**store, &entry.name, &name, &config, tenant, now()).await.map_err(|error| {
        Failure::user(format_args!("version {name} of agent `{}`: {error}", entry.name)).hint("name another with --version")
    })?;
    Ok(name)
}

/// What a canary should ask of a config that was proposed for this: half of the gain that was seen, or no loss.
async fn rule(recommendation: &Recommendation, store: &Arc<dyn Database>) -> Result<String, Failure> {
    if recommendation.kind == RecommendationKind::Cheapest {
        return Ok(" --rule non_inferior".to_owned());
    }
    let mut reached = Vec::new();
    for id in &recommendation.evidence {
        let document = store.document(Kind::Outcome, &id.to_string()).await?;
        reached.extend(document.map(|document| document.word::<Outcome>()).transpose()?.map(|outcome| outcome.success));
    }
    match reached[..] {
        [from, to] if from > 0.0 && to > from => Ok(format!(" --gain {:.2}", (0.5 * (to - from) / from).clamp(0.01, 0.1))),
        _ => Ok(" --rule non_inferior".to_owned()),
    }
}
