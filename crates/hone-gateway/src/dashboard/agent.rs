//! One agent: its versions, its canary with the evidence as pictures, what was decided, and what somebody may decide now.
//!
//! A decision takes two pages, the second of which asks whether that is wanted and names what follows. It is a line of the log of agents,
//! written by the same code that `hone deploy` uses.

use super::agents::{address, badge, bar, is_running, word};
use super::chart::{Chart, Line, interval};
use super::figure::{ago, count, dollars, duration, figure, percent, to_second};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned, elsewhere};
use super::query::Query;
use super::session::{Decider, Reader, Viewer};
use super::sign_in::form_of;
use super::traces::tail;
use crate::agents::{Canary, Entry};
use crate::error::Refused;
use crate::registry::{self, AskError};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use hone_arbiter::canary::{Action, Actor, Bound, Command, Numbers, Reason, State as Stands};
use hone_trace::{AgentName, EventId, Tenant, Time};

/// What can be asked for: its word in an address, what the button says, and the command.
const WISHES: [(&str, &str, Command); 4] = [
    ("promote", "Promote", Command::Promote),
    ("rollback", "Roll back", Command::Abort),
    ("pause", "Pause", Command::Pause),
    ("resume", "Resume", Command::Resume),
];

/// Bounds are drawn from where they are so many times as far apart as they are now.
const N_WIDTHS_MAX: f64 = 5.0;

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
    if let Some(canary) = &entry.canary {
        html!(main, "{}", shown(&name, entry, canary, &viewer, gateway.now()));
    }
    html!(main, "{}{}", performance(entry), decisions(entry, gateway.now()));
    let line = match &entry.canary {
        Some(canary) => format!("{name}: {} {} at {}", canary.to, word(canary.state), percent(canary.report.share)),
        None => format!("{name}: {} serves", entry.live),
    };
    Ok(Page::new(Place::Agents, name.to_string(), main).moving(line).shown(Some(&viewer)))
}

fn missing() -> Refused {
    Refused::NotFound("there is no such agent".into())
}

fn versions(entry: &Entry) -> Html {
    let mut page = html!(
        "<section aria-labelledby=\"versions\"><h2 id=\"versions\">Versions</h2><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>"
    );
    html!(
        page,
        "<caption class=\"unseen\">Versions with their shares of the traffic</caption><thead><tr><th scope=\"col\">Version</th>"
    );
    html!(
        page,
        "<th scope=\"col\">Share</th><th scope=\"col\">Model</th><th scope=\"col\">Config</th><th scope=\"col\">Here</th></tr></thead><tbody>"
    );
    for (version, share) in entry.registered.iter().rev() {
        let ready = entry.versions.get(version);
        let model = ready.and_then(|ready| ready.config.model.clone()).unwrap_or_default();
        html!(page, "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>", version, bar(*share), model);
        if let Some(ready) = ready {
            let hash = ready.config_hash.to_string();
            html!(page, "<a href=\"/dashboard/traces?config={}\"><code>{}</code></a>", hash, tail(&hash));
        }
        html!(page, "</td><td>");
        match ready.map(|ready| &ready.model) {
            Some(Ok(_)) => html!(page, "ready"),
            Some(Err(why)) => html!(page, "<span class=\"tag bad\">cannot answer</span> {}", why),
            None => html!(page, "<span class=\"quiet\">not needed</span>"),
        }
        html!(page, "</td></tr>");
    }
    html!(page, "</tbody></table></div></section>");
    page
}

/// A canary with its evidence.
fn shown(name: &AgentName, entry: &Entry, canary: &Canary, viewer: &Viewer, now: Time) -> Html {
    let report = &canary.report;
    let mut page = html!(
        "<section aria-labelledby=\"canary\"><h2 id=\"canary\">Canary {} → {} {}</h2>",
        canary.from,
        canary.to,
        badge(canary.state)
    );
    html!(page, "<p>{} <span class=\"quiet\">Began {}.</span></p>", said(canary), ago(canary.at, now));
    if viewer.may_deploy() && is_running(canary) {
        html!(page, "<p class=\"wishes\">");
        for (ask, says, command) in WISHES.iter().filter(|wish| is_possible(wish.2, canary.state)) {
            let class = if *command == Command::Abort { "button bad" } else { "button" };
            html!(page, "<a class=\"{}\" href=\"{}?ask={}\">{}</a> ", class, address(name), ask, says);
        }
        html!(page, "</p>");
    }
    html!(
        page,
        "<div class=\"charts\">{}{}</div>{}</section>",
        share_chart(entry, canary, now),
        quality_chart(entry),
        numbers(&report.numbers)
    );
    page
}

fn is_possible(command: Command, state: Stands) -> bool {
    match command {
        Command::Pause => state == Stands::Running,
        Command::Resume => state == Stands::Paused,
        Command::Promote | Command::Abort => true,
    }
}

/// Where a canary stands, in a sentence.
fn said(canary: &Canary) -> String {
    let share = percent(canary.report.share);
    match canary.state {
        Stands::Promoted => format!("{} has all of the traffic.", canary.to),
        Stands::RolledBack => format!("{} was taken back; {} has all of the traffic.", canary.to, canary.from),
        Stands::Paused => format!("{} stays at {share} until somebody moves it.", canary.to),
        Stands::Running => format!("{} has {share} of new episodes; {}.", canary.to, why(canary.report.reason)),
    }
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::QualityWorse => "quality fell",
        Reason::CostHigher => "it costs more than is allowed",
        Reason::LatencyHigher => "it is slower than is allowed",
        Reason::MoreErrors => "it fails more often",
        Reason::SampleRatio => "episodes do not come in the shares that were logged",
        Reason::Shown => "what this stage asks for was shown",
        Reason::TooFewRows => "this stage has too few outcomes yet",
        Reason::GuardMissing => "cost or latency is not known often enough",
        Reason::OutcomesMissing => "it loses more outcomes than the version before",
        Reason::NotShown => "it has not shown enough yet",
        Reason::RowsSpent => "it has shown nothing within its outcomes",
        Reason::Paused => "somebody paused it",
        Reason::Ended => "it has ended",
        Reason::Asked => "somebody asked for it",
    }
}

/// The share over time, as steps, until now.
fn share_chart(entry: &Entry, canary: &Canary, now: Time) -> Html {
    let minutes = |at: Time| at.millis_since(canary.at) / 60_000.0;
    let mut points: Vec<(f64, f64)> = entry.past.shares(canary.id).iter().map(|(at, share)| (minutes(*at), *share)).collect();
    if is_running(canary) {
        points.push((minutes(now), canary.report.share));
    }
    let line = Line { name: "share".into(), points, is_stepped: true, ..Line::default() };
    let (title, reach) = ("Share of new episodes".to_owned(), Some((0.0, 1.0)));
    Chart { title, along: "minutes", lines: vec![line], reach, ..Chart::default() }.draw()
}

/// How much better or worse it is, with bounds that hold at every row.
fn quality_chart(entry: &Entry) -> Html {
    let points = entry.past.points();
    let sequence = |name: &str, of: &dyn Fn(&crate::dashboard::past::Point) -> Option<Bound>| {
        let known: Vec<(f64, Bound)> = points.iter().filter_map(|point| Some((point.n_rows as f64, of(point)?))).collect();
        let band: Vec<(f64, f64, f64)> = known.iter().filter_map(|(at, bound)| Some((*at, bound.low?, bound.high?))).collect();
        // While next to nothing is known the bounds are so far apart that nobody would see the rest.
        let width_max = band.last().map_or(0.0, |(_, low, high)| N_WIDTHS_MAX * (high - low));
        let band: Vec<_> = band.into_iter().filter(|(_, low, high)| high - low <= width_max).collect();
        let first = band.first().map_or(0.0, |one| one.0);
        let points = known.iter().filter(|(at, _)| *at >= first).map(|(at, bound)| (*at, bound.estimate)).collect();
        Chart { marks: vec![(0.0, "no difference".to_owned())], ..Chart::line(name, "outcomes", points) }.banded(band).draw()
    };
    let mut page = sequence("Quality less that of the version before", &|point| Some(point.quality));
    if points.iter().any(|point| point.gain.is_some()) {
        html!(page, "{}", sequence("Quality less the gain that is asked for", &|point| point.gain));
    }
    page
}

/// The numbers behind it all.
fn numbers(numbers: &Numbers) -> Html {
    let mut page = html!(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table class=\"slim\"><caption>Episodes</caption><thead><tr><th scope=\"col\">Side</th>"
    );
    html!(
        page,
        "<th scope=\"col\" class=\"n\">Answered</th><th scope=\"col\" class=\"n\">Errors</th><th scope=\"col\" class=\"n\">Outcomes</th><th scope=\"col\" class=\"n\">Missing</th></tr></thead><tbody>"
    );
    for (side, arm) in [("canary", numbers.canary), ("control", numbers.control)] {
        html!(page, "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td>", side, count(arm.n_answered));
        html!(page, "<td class=\"n\">{}</td><td class=\"n\">{}</td>", count(arm.n_errors), count(arm.n_matured));
        html!(page, "<td class=\"n\">{}</td></tr>", count(arm.n_missing));
    }
    html!(
        page,
        "</tbody></table></div><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table class=\"slim\"><caption>Bounds that hold at every row</caption><thead><tr>"
    );
    html!(
        page,
        "<th scope=\"col\">Canary less control</th><th scope=\"col\">Picture</th><th scope=\"col\" class=\"n\">Estimate</th><th scope=\"col\" class=\"n\">From</th><th scope=\"col\" class=\"n\">To</th></tr></thead><tbody>"
    );
    let known = [
        ("quality", Some(numbers.quality)),
        ("gain", numbers.gain),
        ("cost", numbers.cost),
        ("log latency", numbers.log_latency),
    ];
    for (what, bound) in known.into_iter().filter_map(|(what, bound)| Some((what, bound?))) {
        let end = |bound: Option<f64>| bound.map_or_else(|| "–".to_owned(), figure);
        html!(page, "<tr><th scope=\"row\">{}</th><td>", what);
        if let (Some(low), Some(high)) = (bound.low, bound.high) {
            let reach = low.abs().max(high.abs()).max(1e-9);
            html!(page, "{}", interval(bound.estimate, (low, high), (-reach, reach)));
        }
        html!(page, "</td><td class=\"n\">{}</td><td class=\"n\">{}</td>", figure(bound.estimate), end(bound.low));
        html!(page, "<td class=\"n\">{}</td></tr>", end(bound.high));
    }
    html!(page, "</tbody></table></div>");
    let evidence = [
        ("more errors", numbers.error_evidence, numbers.error_evidence_max),
        ("a wrong sample ratio", numbers.sample_ratio_evidence, numbers.sample_ratio_evidence_max),
    ];
    html!(page, "<p class=\"quiet\">");
    for (of, value, limit) in evidence {
        html!(page, "Evidence of {}: {} of {}. ", of, figure(value), figure(limit));
    }
    html!(page, "</p>");
    page
}

/// How well each version does at each type of task.
fn performance(entry: &Entry) -> Html {
    if entry.performance.iter().all(|(_, tasks)| tasks.is_empty()) {
        return Html::default();
    }
    let mut page = html!(
        "<section aria-labelledby=\"performance\"><h2 id=\"performance\">How well versions do</h2><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>"
    );
    html!(
        page,
        "<caption class=\"unseen\">Versions by type of task</caption><thead><tr><th scope=\"col\">Version</th><th scope=\"col\">Task</th>"
    );
    html!(
        page,
        "<th scope=\"col\" class=\"n\">Episodes</th><th scope=\"col\" class=\"n\">Success</th><th scope=\"col\" class=\"n\">Nothing failed</th>"
    );
    html!(page, "<th scope=\"col\" class=\"n\">Cost</th><th scope=\"col\" class=\"n\">Latency</th></tr></thead><tbody>");
    for (version, tasks) in entry.performance.iter().rev() {
        for (task, known) in tasks {
            html!(
                page,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{}</td>",
                version,
                task,
                count(known.n_episodes)
            );
            html!(page, "<td class=\"n\">{}</td><td class=\"n\">{}</td>", percent(known.success), percent(known.reliability));
            html!(page, "<td class=\"n\">{}</td>", known.cost_usd.map(dollars).unwrap_or_default());
            html!(page, "<td class=\"n\">{}</td></tr>", known.latency_ms.map(duration).unwrap_or_default());
        }
    }
    html!(page, "</tbody></table></div></section>");
    page
}

/// What was decided, by whom and why.
fn decisions(entry: &Entry, now: Time) -> Html {
    let mut page = html!("<section aria-labelledby=\"log\"><h2 id=\"log\">Decisions</h2>");
    if entry.past.decisions().next().is_none() {
        html!(page, "<p class=\"empty\">Nothing was decided yet.</p></section>");
        return page;
    }
    html!(
        page,
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><caption class=\"unseen\">Decisions, newest first</caption><thead><tr><th scope=\"col\">When</th><th scope=\"col\">What</th>"
    );
    html!(
        page,
        "<th scope=\"col\">By</th><th scope=\"col\">Why</th><th scope=\"col\" class=\"n\">Share</th><th scope=\"col\" class=\"n\">Outcomes</th></tr></thead><tbody>"
    );
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
        html!(
            page,
            "<tr><td><time datetime=\"{}\" title=\"{}\">{}</time></td>",
            one.at,
            ago_text(one.at, now),
            to_second(one.at)
        );
        html!(page, "<td>{}</td><td>{}</td><td>{}</td>", what, by, why(one.decision.reason));
        html!(page, "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>", percent(one.decision.share), count(n_rows));
    }
    html!(page, "</tbody></table></div></section>");
    page
}

fn ago_text(at: Time, now: Time) -> String {
    format!("{} ago", duration(now.millis_since(at).max(0.0)))
}

/// The page that asks whether this is wanted.
fn asking(name: &AgentName, entry: &Entry, asked: &str, viewer: &Viewer) -> Result<Response, Turned> {
    if !viewer.may_deploy() {
        return Err(Refused::Role).seen_by(viewer);
    }
    let wish = WISHES.iter().find(|wish| wish.0 == asked);
    let (ask, says, command) =
        *wish.ok_or_else(|| Refused::param("ask", format!("`{asked}` cannot be asked for"))).seen_by(viewer)?;
    let canary = entry.canary.as_ref().filter(|canary| is_running(canary));
    let canary = canary.ok_or_else(|| Refused::NotFound(format!("no canary of `{name}` runs any more"))).seen_by(viewer)?;
    let (from, to) = (&canary.from, &canary.to);
    let follows = match command {
        Command::Abort => {
            format!("{from} gets all of the traffic at once, and {to} none. A canary that was taken back stays so.")
        }
        Command::Promote => {
            format!("{to} goes to its next share, or from the last one to all of the traffic, without waiting for evidence.")
        }
        Command::Pause => {
            format!("{to} stays at {} until somebody moves it; harm still takes it back.", percent(canary.report.share))
        }
        Command::Resume => "The evidence decides again.".to_owned(),
    };
    let mut main = html!("<p class=\"crumbs\"><a href=\"{}\">{}</a></p>", address(name), name);
    html!(
        main,
        "<form class=\"ask\" method=\"post\" action=\"{}\"><h1>{} {} of {}?</h1><p>{}</p>",
        address(name),
        says,
        to,
        name,
        follows
    );
    html!(
        main,
        "<input type=\"hidden\" name=\"token\" value=\"{}\"><input type=\"hidden\" name=\"ask\" value=\"{}\">",
        viewer.form_token(),
        ask
    );
    html!(main, "<input type=\"hidden\" name=\"canary\" value=\"{}\">", canary.id);
    let class = if command == Command::Abort { "bad" } else { "strong" };
    html!(main, "<p class=\"wishes\"><button class=\"{}\">Yes, {}</button> ", class, says.to_lowercase());
    html!(main, "<a class=\"button\" href=\"{}\">No, leave it</a></p></form>", address(name));
    Ok(Page::new(Place::Agents, format!("{says}?"), main).shown(Some(viewer)))
}

pub(crate) async fn decide(
    State(gateway): State<Gateway>,
    Decider(viewer): Decider,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Turned> {
    let sent = form_of(body).await.seen_by(&viewer)?;
    viewer.confirm(&headers, sent.get("token")).seen_by(&viewer)?;
    let wish = WISHES.iter().find(|wish| sent.get("ask") == Some(wish.0));
    let (ask, _, command) = *wish.ok_or_else(|| Refused::param("ask", "it does not say what is asked for")).seen_by(&viewer)?;
    let canary = sent.get("canary").and_then(|text| text.parse().ok());
    let canary: EventId =
        canary.ok_or_else(|| Refused::param("canary", "it does not say which canary is meant")).seen_by(&viewer)?;
    let name = AgentName::new(name).map_err(|_| missing()).seen_by(&viewer)?;
    ask_for(&gateway, &name, canary, command, &viewer.identity.tenant).await.seen_by(&viewer)?;
    gateway.log(format!("{ask} of {name} was asked for at the dashboard by {}", viewer.identity.name));
    gateway.agents().grown.notify_one();
    Ok(elsewhere(&format!("{}?done={ask}", address(&name))))
}

async fn ask_for(gateway: &Gateway, name: &AgentName, canary: EventId, command: Command, tenant: &Tenant) -> Result<(), Refused> {
    let asked = registry::ask(gateway.record().store(), name, Some(canary), command, tenant, gateway.now()).await;
    asked.map(drop).map_err(|error| match error {
        AskError::NoAgent => missing(),
        AskError::NoCanary => Refused::NotFound(format!("this canary of `{name}` does not run any more")),
        AskError::NotPaused => Refused::param("ask", format!("the canary of `{name}` is not paused")),
        AskError::Store(_) => Refused::Store,
    })
}
