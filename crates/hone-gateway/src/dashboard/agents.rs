//! The list of agents: who serves, what is being handed over, and routes between them.

use super::figure::{count, percent};
use super::html::{Html, html, segment};
use super::page::{Page, Place, Turned};
use super::records::left_out;
use super::session::Reader;
use super::table::Table;
use crate::agents::{Canary, Entry, RouteBy};
use crate::server::Gateway;
use axum::extract::State;
use axum::response::Response;
use hone_arbiter::canary::State as Stands;
use hone_trace::{AgentName, Tenant};

pub(crate) async fn agents(State(gateway): State<Gateway>, Reader(viewer): Reader) -> Result<Response, Turned> {
    let view = gateway.agents().view();
    let ours: Vec<(&AgentName, &Entry)> =
        view.agents.iter().filter(|(_, entry)| entry.tenant == viewer.identity.tenant).collect();
    let mut main = html!("<h1>Agents</h1>");
    if ours.is_empty() {
        html!(main, "<p class=\"empty\">No agent yet. <code>hone deploy add desk v1 --model NAME</code> makes one.</p>");
    } else {
        let mut table = Table::new("Agents by name", &["Agent", "Serves", "Canary", "Share", "#Episodes", "#Estimated success"]);
        ours.iter().for_each(|(name, entry)| row(&mut table, name, entry));
        html!(main, "{}", table.shown());
    }
    let damaged = view.damaged.iter().filter(|(_, tenant)| **tenant == viewer.identity.tenant);
    html!(main, "{}", left_out(&damaged.map(|(name, _)| format!("agent {name}")).collect::<Vec<_>>()));
    html!(main, "{}", routes(&gateway, &viewer.identity.tenant));
    let n_running = ours.iter().filter(|(_, entry)| entry.canary.as_ref().is_some_and(is_running)).count();
    Ok(Page::new(Place::Agents, "Agents", main).moving(format!("{n_running} canaries run")).shown(Some(&viewer)))
}

fn row(table: &mut Table, name: &AgentName, entry: &Entry) {
    let (canary, share) = match &entry.canary {
        Some(canary) => (html!("{} {}", canary.to, badge(canary.state)), bar(canary.report.share)),
        None => (html!(""), html!("")),
    };
    let known = entry.performance.iter().filter(|(version, _)| *version == entry.live).flat_map(|(_, tasks)| tasks.values());
    let (n, solved) = known.fold((0, 0.0), |(n, solved), one| (n + one.n_episodes, solved + one.success * one.n_episodes as f64));
    let success = if n > 0 { percent(solved / n as f64) } else { "–".to_owned() };
    let link = html!("<a href=\"{}\">{}</a>", address(name), name);
    table.row(&[&link, &entry.live, &canary, &share, &count(n), &success]);
}

/// Names that stand for whichever agent does best.
fn routes(gateway: &Gateway, tenant: &Tenant) -> Html {
    let routes: Vec<_> = gateway.agents().routes.iter().filter(|route| gateway.agents().knows(tenant, &route.name)).collect();
    if routes.is_empty() {
        return Html::default();
    }
    let mut table = Table::new("Routes", &["Name", "Goes to", "By"]);
    for route in routes {
        let agents: Vec<&str> = route.agents.iter().map(AgentName::as_str).collect();
        let by = if route.by == RouteBy::Task { "type of task" } else { "features" };
        table.row(&[&route.name, &agents.join(", "), &by]);
    }
    html!("<section aria-labelledby=\"routes\"><h2 id=\"routes\">Routes</h2>{}</section>", table.shown())
}

/// Where an agent is shown.
pub(super) fn address(name: &AgentName) -> String {
    format!("/dashboard/agents/{}", segment(name.as_str()))
}

pub(super) fn is_running(canary: &Canary) -> bool {
    matches!(canary.state, Stands::Running | Stands::Paused)
}

/// Where a canary stands, in a word.
pub(super) fn word(state: Stands) -> &'static str {
    match state {
        Stands::Running => "running",
        Stands::Paused => "paused",
        Stands::Promoted => "promoted",
        Stands::RolledBack => "rolled back",
    }
}

/// The word with its colour.
pub(super) fn badge(state: Stands) -> Html {
    match state {
        Stands::Running => html!("<span class=\"tag accent moving\">{}</span>", word(state)),
        Stands::Paused => html!("<span class=\"tag warn\">{}</span>", word(state)),
        Stands::Promoted => html!("<span class=\"tag good\">{}</span>", word(state)),
        Stands::RolledBack => html!("<span class=\"tag bad\">{}</span>", word(state)),
    }
}

/// A share as a bar.
pub(super) fn bar(share: f64) -> Html {
    html!(
        "<meter min=\"0\" max=\"1\" value=\"{}\" aria-label=\"share\">{}</meter> <span class=\"n\">{}</span>",
        share,
        percent(share),
        percent(share)
    )
}
