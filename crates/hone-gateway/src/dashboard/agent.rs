//! One agent: its versions, its canary, how well versions do, and what was decided.

use super::agents::{bar, word};
use super::canary::{self, why};
use super::decide::{WISHES, asking};
use super::figure::{count, dollars, duration, percent, to_second};
use super::html::{Html, html, segment};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::session::Reader;
use super::table::Table;
use super::traces::tail;
use crate::agents::Entry;
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use hone_arbiter::canary::{Action, Actor};
use hone_trace::{AgentName, Time};

pub(crate) async fn agent(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let view = gateway.agents().view();
    let name = AgentName::new(name).map_err(|_| missing()).seen_by(&viewer)?;
    let entry = view.agents.get(&name).filter(|entry| entry.tenant == viewer.identity.tenant).ok_or_else(missing);
    let entry = entry.seen_by(&viewer)?;
    let query = Query::read(query.as_deref().unwrap_or_default());
    if let Some(asked) = query.get("ask") {
        return asking(&name, entry, asked, &viewer);
    }
    let mut main = html!("<p class=\"crumbs\"><a href=\"/dashboard/agents\">Agents</a></p><h1>{}</h1>", name);
    if let Some(done) = query.get("done").and_then(|word| WISHES.iter().find(|wish| wish.0 == word)) {
        html!(main, "<p class=\"done\" role=\"status\">{}: written down.</p>", done.1);
    }
    html!(main, "{}", versions(entry));
    html!(main, "<p><a href=\"/dashboard/advice?agent={}\">Advice on {}</a></p>", segment(name.as_str()), name);
    if let Some(canary) = &entry.canary {
        html!(main, "{}", canary::shown(&name, entry, canary, &viewer, gateway.now()));
    }
    html!(main, "{}{}", performance(entry), decisions(entry, gateway.now()));
    let line = match &entry.canary {
        Some(canary) => format!("{name}: {} {} at {}", canary.to, word(canary.state), percent(canary.report.share)),
        None => format!("{name}: {} serves", entry.live),
    };
    Ok(Page::new(Place::Agents, name.to_string(), main).moving(line).shown(Some(&viewer)))
}

pub(super) fn missing() -> Refused {
    Refused::NotFound("there is no such agent".into())
}

fn versions(entry: &Entry) -> Html {
    let mut table = Table::new("Versions with their shares of the traffic", &["Version", "Share", "Model", "Config", "Here"]);
    for (version, share) in entry.registered.iter().rev() {
        let ready = entry.versions.get(version);
        let model = ready.and_then(|ready| ready.config.model.clone()).unwrap_or_default();
        let config = ready.map(|ready| ready.config_hash.to_string()).map_or_else(Html::default, |hash| {
            html!("<a href=\"/dashboard/traces?config={}\"><code>{}</code></a>", hash, tail(&hash))
        });
        let here = match ready.map(|ready| &ready.model) {
            Some(Ok(_)) => html!("ready"),
            Some(Err(why)) => html!("<span class=\"tag bad\">cannot answer</span> {}", why),
            None => html!("<span class=\"quiet\">not needed</span>"),
        };
        table.row(&[version, &bar(*share), &model, &config, &here]);
    }
    html!("<section aria-labelledby=\"versions\"><h2 id=\"versions\">Versions</h2>{}</section>", table.shown())
}

/// How well each version does at each type of task.
fn performance(entry: &Entry) -> Html {
    if entry.performance.iter().all(|(_, tasks)| tasks.is_empty()) {
        return Html::default();
    }
    let columns = ["Version", "Task", "#Episodes", "#Estimated success", "#Nothing failed", "#Cost", "#Latency"];
    let mut table = Table::new("Versions by type of task", &columns);
    for (version, tasks) in entry.performance.iter().rev() {
        for (task, known) in tasks {
            let (cost, latency) = (known.cost_usd.map(dollars), known.latency_ms.map(duration));
            table.row(&[
                version,
                task,
                &count(known.n_episodes),
                &percent(known.success),
                &percent(known.reliability),
                &cost.unwrap_or_default(),
                &latency.unwrap_or_default(),
            ]);
        }
    }
    html!("<section aria-labelledby=\"performance\"><h2 id=\"performance\">How well versions do</h2>{}</section>", table.shown())
}

/// What was decided, by whom and why.
fn decisions(entry: &Entry, now: Time) -> Html {
    let mut page = html!("<section aria-labelledby=\"log\"><h2 id=\"log\">Decisions</h2>");
    if entry.past.decisions().next().is_none() {
        html!(page, "<p class=\"empty\">Nothing was decided yet.</p></section>");
        return page;
    }
    let mut table = Table::new("Decisions, newest first", &["When", "What", "By", "Why", "#Share", "#Outcomes"]);
    for one in entry.past.decisions() {
        let what = match one.decision.action {
            Action::Hold => "began",
            Action::Promote => "promoted",
            Action::RollBack => "rolled back",
            Action::Pause => "paused",
            Action::Resume => "resumed",
        };
        let by = if one.decision.by == Actor::Machine { "the rules" } else { "a person" };
        let n_rows = one.decision.numbers.canary.n_matured + one.decision.numbers.control.n_matured;
        let (age, at) = (ago_text(one.at, now), to_second(one.at));
        let when = html!("<time datetime=\"{}\" title=\"{}\">{}</time>", one.at, age, at);
        table.row(&[&when, &what, &by, &why(one.decision.reason), &percent(one.decision.share), &count(n_rows)]);
    }
    html!(page, "{}</section>", table.shown());
    page
}

fn ago_text(at: Time, now: Time) -> String {
    format!("{} ago", duration(now.millis_since(at).max(0.0)))
}
