//! What becomes of advice: taken, or turned down.

use super::{busy, show};
use crate::clock::now;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_advise::short;
use hone_gateway::advice::{self, Kept, Step, TakeError};
use hone_gateway::documents::Damaged;
use hone_store::Database;
use hone_trace::{AgentName, Answer, Recommendation};
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

pub(super) async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let all = match context.store_if_there().await? {
        Some(store) => all(&store, context).await?,
        None => Vec::new(),
    };
    if context.printer.wants_json() {
        all.iter().try_for_each(|one| context.printer.json(&one.recommendation))?;
    } else if all.is_empty() {
        context.printer.say("no advice was given yet; ask for it with `hone advise`");
    } else {
        let rows: Vec<Vec<String>> = all.iter().map(|one| show::line(&one.recommendation)).collect();
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
        context.printer.plain(&format!("turned down: {}", short(&recommendation.id.to_string())))?;
    }
    Ok(Exit::Yes)
}

pub(super) async fn accept(args: &AcceptArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let recommendation = answered(&args.id, Answer::Accepted, &store, context).await?;
    let serving = advice::serving(&*store, &recommendation.tenant).await?;
    let taken = advice::take(&*store, &recommendation, &serving, args.version.as_deref(), now()).await;
    let steps: Vec<String> = taken.map_err(untaken)?.iter().map(told).collect();
    if context.printer.wants_json() {
        let mut told = serde_json::to_value(&recommendation).unwrap_or_default();
        told["next"] = json!(steps);
        return context.printer.json(&told).map(|()| Exit::Yes);
    }
    context.printer.plain(&format!("taken: {}", short(&recommendation.id.to_string())))?;
    steps.iter().for_each(|step| context.printer.say(step));
    Ok(Exit::Yes)
}

fn told(step: &Step) -> String {
    step.command().map_or_else(|| step.to_string(), |command| format!("{step} `{command}`"))
}

fn untaken(error: TakeError) -> Failure {
    let by_hand = |agent: &AgentName| format!("add it by hand with `hone deploy add {agent} VERSION --model NAME`");
    let hint = match &error {
        TakeError::NoConfig(_, agent) => by_hand(agent),
        TakeError::Version { .. } => "name another with --version".to_owned(),
        TakeError::Store(_) => String::new(),
    };
    match error {
        TakeError::Store(error) => error.into(),
        error => Failure::user(error).hint(hint),
    }
}

/// All advice that can be read; what cannot be is named.
async fn all(store: &Arc<dyn Database>, context: &Context<'_>) -> Result<Vec<Kept>, Failure> {
    let named = |damaged: Damaged| context.printer.complain(&damaged.why.to_string());
    let all = advice::all(&**store, &context.settings.tenant).await?;
    Ok(all.into_iter().filter_map(|one| one.map_err(named).ok()).collect())
}

/// Writes down an answer to the advice whose id begins so.
async fn answered(id: &str, answer: Answer, store: &Arc<dyn Database>, context: &Context<'_>) -> Result<Recommendation, Failure> {
    let hint = "`hone advise list` names all";
    let all = all(store, context).await?;
    let is_meant = |one: &Recommendation| !id.is_empty() && one.id.to_string().starts_with(&id.to_lowercase());
    let mut meant = all.into_iter().filter(|one| is_meant(&one.recommendation));
    let Some(found) = meant.next() else {
        return Err(Failure::user(format_args!("there is no advice `{id}`")).hint(hint));
    };
    if meant.next().is_some() {
        return Err(Failure::user(format_args!("`{id}` is the beginning of several")).hint(hint));
    }
    advice::answer(&**store, found, answer).await.map_err(busy)
}
