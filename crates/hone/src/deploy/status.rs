//! `hone deploy status`: how agents stand, their canaries with the numbers, and how well each version does.

use crate::clock::to_second;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::Style;
use hone_arbiter::canary::{Bound, Decision, Numbers, State};
use hone_arbiter::{Deployment, Fleet};
use hone_gateway::registry::{self, Decided, live};
use hone_store::Database;
use hone_trace::{Agent, AgentName};
use serde_json::{Value, json};
use std::sync::Arc;

/// Say how agents stand: versions, shares, the latest canary with its evidence, performance by type of task
///
/// One JSON object per agent and line with --json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One agent; without this, all
    agent: Option<AgentName>,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let hint = "add one with `hone deploy add AGENT VERSION --model NAME`";
    let store = context.store_if_there().await?;
    let all = match &store {
        Some(store) => entries(args.agent.as_ref(), store, context).await?,
        None => Vec::new(),
    };
    let Some(store) = store.filter(|_| !all.is_empty()) else {
        if let Some(agent) = &args.agent {
            return Err(Failure::user(format_args!("there is no agent `{agent}`")).hint(hint));
        }
        context.printer.say(&format!("there are no agents yet; {hint}"));
        return Ok(Exit::Yes);
    };
    let (fleet, decided) = registry::history(&*store).await?;
    for entry in all {
        let of_agent: Vec<Decided> = decided.iter().filter(|decided| decided.agent == entry.name).cloned().collect();
        tell(&entry, fleet.deployment(&entry.name), &of_agent, &fleet, context)?;
    }
    Ok(Exit::Yes)
}

async fn entries(agent: Option<&AgentName>, store: &Arc<dyn Database>, context: &Context<'_>) -> Result<Vec<Agent>, Failure> {
    let is_ours = |entry: &Agent| entry.tenant == context.settings.tenant;
    if let Some(agent) = agent {
        return Ok(registry::agent(&**store, agent).await?.map(|(entry, _)| entry).filter(is_ours).into_iter().collect());
    }
    let registry::Entries { sound, damaged } = registry::agents(&**store).await?;
    damaged.iter().for_each(|(name, error)| context.printer.complain(&format!("agent {name} cannot be shown: {error}")));
    Ok(sound.into_iter().filter(is_ours).collect())
}

/// Tells how one agent stands.
pub(super) fn tell(
    entry: &Agent,
    deployment: Option<&Deployment>,
    decided: &[Decided],
    fleet: &Fleet,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let printer = context.printer;
    let live = live(entry, fleet);
    if printer.wants_json() {
        return printer.json(&as_json(entry, deployment, decided, fleet, live));
    }
    printer.line(&[(Style::Strong, entry.name.as_str()), (Style::Plain, &format!("  {live} serves"))])?;
    if let Some(deployment) = deployment {
        canary(deployment, decided, context)?;
    }
    let rows: Vec<Vec<String>> = entry
        .versions
        .iter()
        .flat_map(|one| {
            let share = deployment.map_or(one.share, |deployment| deployment.share(&one.version));
            let known = fleet.performance(&entry.tenant).of(&entry.name, &one.version);
            let bare =
                vec![one.version.clone(), percent(share), "-".into(), "0".into(), "-".into(), "-".into(), "-".into(), "-".into()];
            let row = move |(task, known): (String, hone_arbiter::Known)| {
                vec![
                    one.version.clone(),
                    percent(share),
                    task,
                    known.n_episodes.to_string(),
                    percent(known.success),
                    percent(known.reliability),
                    known.cost_usd.map_or_else(|| "-".into(), |cost| format!("{cost:.6}")),
                    known.latency_ms.map_or_else(|| "-".into(), |latency| format!("{latency:.0}")),
                ]
            };
            let rows: Vec<Vec<String>> = known.into_iter().map(row).collect();
            if rows.is_empty() { vec![bare] } else { rows }
        })
        .collect();
    printer.table(&["version", "share", "task", "episodes", "estimated success", "without error", "cost usd", "ms"], &rows)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A canary for people to read.
fn canary(deployment: &Deployment, decided: &[Decided], context: &Context<'_>) -> Result<(), Failure> {
    let printer = context.printer;
    let Decision { reason, share, numbers, .. } = deployment.report();
    let (style, state) = match deployment.state() {
        State::Running => (Style::Note, format!("gets {} of new episodes", percent(share))),
        State::Paused => (Style::Note, format!("is held at {}", percent(share))),
        State::Promoted => (Style::Good, "has taken over".to_owned()),
        State::RolledBack => (Style::Bad, "was taken back".to_owned()),
    };
    let start = &deployment.start;
    let began = format!("  began {}, from {}, rule {}", to_second(deployment.at), start.from, word(&start.settings.rule));
    printer.line(&[
        (Style::Plain, "  canary "),
        (Style::Strong, &start.to),
        (Style::Plain, " "),
        (style, &state),
        (Style::Faint, &began),
    ])?;
    if deployment.is_running() {
        printer.plain(&format!("  waits for: {}", word(&reason).replace('_', " ")))?;
    }
    for line in evidence(&numbers) {
        printer.plain(&format!("  {line}"))?;
    }
    let of_this = decided.iter().filter(|decided| decided.canary == deployment.id);
    for Decided { at, decision, .. } in of_this.filter(|decided| word(&decided.decision.action) != "hold") {
        let (action, by, why) = (word(&decision.action), word(&decision.by), word(&decision.reason).replace('_', " "));
        let at = to_second(*at);
        printer.line(&[(Style::Faint, &format!("  {at}  {}, by a {by}: {why}", action.replace('_', " ")))])?;
    }
    Ok(())
}

/// The numbers of a canary, a line each.
fn evidence(numbers: &Numbers) -> Vec<String> {
    let arm = |name: &str, arm: &hone_arbiter::canary::ArmNumbers| {
        let (answered, errors, matured, missing) = (arm.n_answered, arm.n_errors, arm.n_matured, arm.n_missing);
        let awaited = arm.n_awaited();
        format!("{name}: {answered} answered, {errors} failed, {matured} outcomes, {missing} missing, {awaited} awaited")
    };
    let bound = |Bound { estimate, low, high }: &Bound| {
        let side = |side: &Option<f64>| side.map_or_else(|| "?".to_owned(), |side| format!("{side:+.3}"));
        format!("{estimate:+.3} ({} to {})", side(low), side(high))
    };
    let mut lines = vec![arm("canary ", &numbers.canary), arm("control", &numbers.control)];
    lines.push(format!("quality of the canary less that of control: {}", bound(&numbers.quality_shown())));
    lines.extend(numbers.gain.as_ref().map(|gain| format!("beyond the gain that is asked for: {}", bound(gain))));
    lines.extend(numbers.cost.as_ref().map(|cost| format!("cost beyond what is allowed: {}", bound(cost))));
    lines.extend(numbers.log_latency.as_ref().map(|latency| format!("log-latency beyond control's: {}", bound(latency))));
    let errors = (numbers.error_evidence, numbers.error_evidence_max);
    lines.push(format!("evidence of more errors: {:.2} of {:.0}", errors.0, errors.1));
    lines
}

/// The word that a record has for something.
pub(crate) fn word(of: &impl serde::Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(Value::String(word)) => word,
        Ok(other) => other["name"].as_str().unwrap_or_default().to_owned(),
        Err(_) => String::new(),
    }
}

fn as_json(entry: &Agent, deployment: Option<&Deployment>, decided: &[Decided], fleet: &Fleet, live: &str) -> Value {
    let versions: Vec<Value> = entry
        .versions
        .iter()
        .map(|one| {
            let share = deployment.map_or(one.share, |deployment| deployment.share(&one.version));
            let known = fleet.performance(&entry.tenant).of(&entry.name, &one.version);
            let performance: serde_json::Map<String, Value> =
                known.into_iter().map(|(task, known)| (task, json!(known))).collect();
            json!({"version": one.version, "config": one.config, "share": share, "performance": performance})
        })
        .collect();
    let canary = deployment.map(|deployment| {
        let of_this = decided.iter().filter(|decided| decided.canary == deployment.id);
        let decisions: Vec<Value> = of_this.map(|decided| json!({"at": decided.at, "decision": decided.decision})).collect();
        let report = deployment.report();
        json!({
            "id": deployment.id,
            "at": deployment.at,
            "state": deployment.state(),
            "start": deployment.start,
            "report": report,
            "n_awaited": report.numbers.n_awaited(),
            "decisions": decisions,
        })
    });
    json!({"agent": entry.name, "live": live, "versions": versions, "canary": canary})
}
