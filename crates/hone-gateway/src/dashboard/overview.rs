//! The first page: the loop with the state of each of its six stages, and the newest traces.

use super::agents::{self, bar, is_running};
use super::chart::bars;
use super::evaluations::bounds;
use super::figure::{ago, count, duration, figure, percent};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::records::{Named, curve, newest};
use super::runs::{self, badge, spark};
use super::session::{Reader, Viewer};
use super::traces;
use crate::documents;
use crate::gates;
use crate::server::Gateway;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use hone_trace::store::{Kind, Store, TraceQuery};
use hone_trace::{Outcome, Time, TraceHead, TraceOutcome};

/// The newest traces that are looked at, and those that are listed.
const N_LOOKED: u32 = 500;
const N_LISTED: usize = 12;
/// Agents that are named.
const N_AGENTS: usize = 4;
/// Bars of the picture of rewards.
const N_BARS: usize = 20;

pub(crate) async fn overview(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    headers: HeaderMap,
) -> Result<Response, Turned> {
    let (tenant, store, now) = (&viewer.identity.tenant, gateway.record().store(), gateway.now());
    let query = TraceQuery { tenant: Some(tenant.clone()), ..TraceQuery::default() };
    let newest = store.heads(&query, None, N_LOOKED).await.seen_by(&viewer)?;
    let heads = &newest.items;
    let stages = [
        traced(heads, newest.next.is_some(), now),
        rewarded(heads),
        gated(&gateway, &viewer, now).await?,
        trained(&gateway, &viewer, now).await?,
        evaluated(store, &viewer, now).await?,
        deployed(&gateway, &viewer),
    ];
    let mut main = html!("<h1 class=\"unseen\">Overview</h1><ol class=\"loop\">");
    stages.iter().for_each(|stage| html!(main, "{}", stage.shown()));
    html!(main, "</ol><section aria-labelledby=\"newest\"><h2 id=\"newest\">Newest traces</h2>");
    if heads.is_empty() {
        html!(main, "{}", first_steps(&gateway, &headers));
    } else {
        html!(main, "{}", traces::table(&heads[..heads.len().min(N_LISTED)], now, "The newest traces"));
        html!(main, "<p><a href=\"/dashboard/traces\">All traces</a></p>");
    }
    html!(main, "</section>");
    let line = stages.iter().map(|stage| format!("{}: {}", stage.name, stage.state)).collect::<Vec<_>>().join(", ");
    Ok(Page::new(Place::Overview, "Overview", main).moving(line).shown(Some(&viewer)))
}

/// One stage of the loop.
struct Stage {
    name: &'static str,
    address: &'static str,
    /// A colour: `good`, `bad`, `warn`, `accent`, or none while there is nothing to say.
    class: &'static str,
    state: String,
    /// What there is to see of it.
    body: Html,
}

impl Stage {
    fn empty(name: &'static str, address: &'static str, hint: &Html) -> Self {
        Self { name, address, class: "", state: "nothing yet".into(), body: html!("<p class=\"quiet\">{}</p>", hint) }
    }

    fn shown(&self) -> Html {
        let mut page = html!("<li class=\"stage {}\"><h2><a href=\"{}\">{}</a></h2>", self.class, self.address, self.name);
        html!(page, "<p class=\"state\">{}</p>{}</li>", self.state, self.body);
        page
    }
}

/// How traces come in: the newest of them, and at what rate.
fn traced(heads: &[TraceHead], are_more: bool, now: Time) -> Stage {
    let (name, address) = ("Trace", "/dashboard/traces");
    let Some(newest) = heads.first() else {
        return Stage::empty(name, address, &html!("Clients ask this server, or <code>hone trace import</code> brings some."));
    };
    let clocked: Vec<Time> = heads.iter().map(|head| head.started).filter(|started| !started.is_told()).collect();
    let between = clocked.first().zip(clocked.last());
    let minutes = between.map_or(0.0, |(newest, oldest)| newest.millis_since(*oldest) / 60_000.0);
    let more = if are_more { "+" } else { "" };
    let mut body =
        html!("<p><b class=\"big n\">{}{}</b> <span class=\"quiet\">traces</span></p>", count(heads.len() as u64), more);
    if minutes > 0.0 {
        let rate = (clocked.len() - 1) as f64 / minutes;
        html!(body, "<p class=\"quiet\">{} a minute over {}</p>", figure(rate), duration(minutes * 60_000.0));
    }
    if let Some(last) = clocked.first() {
        html!(body, "<p class=\"quiet\">last {}</p>", ago(*last, now));
    }
    let is_live = (0.0..60_000.0).contains(&now.millis_since(newest.started));
    let (class, state) = if is_live { ("accent", "coming in") } else { ("good", "on the record") };
    Stage { name, address, class, state: state.into(), body }
}

/// What the newest traces earned.
fn rewarded(heads: &[TraceHead]) -> Stage {
    let (name, address) = ("Reward", "/dashboard/groups");
    let rewards: Vec<f64> = heads.iter().filter_map(|head| head.reward).collect();
    if rewards.is_empty() {
        return Stage::empty(name, address, &html!("<code>hone reward score</code> weighs traces; feedback does too."));
    }
    let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
    let (low, high) = rewards.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(*one), high.max(*one)));
    let mut counts = [0; N_BARS];
    for reward in &rewards {
        let place = if high > low { (reward - low) / (high - low) * (N_BARS - 1) as f64 } else { 0.0 };
        counts[place.round() as usize] += 1;
    }
    let n_solved = heads.iter().filter(|head| head.outcome == TraceOutcome::Success).count();
    let n_known = heads.iter().filter(|head| head.outcome != TraceOutcome::Unknown).count();
    let mut body = html!(
        "<p><b class=\"big n\">{}</b> <span class=\"quiet\">mean of {}</span></p>",
        figure(mean),
        count(rewards.len() as u64)
    );
    html!(body, "{}", bars(&counts, &format!("rewards from {} to {}", figure(low), figure(high))));
    html!(body, "<p class=\"ends quiet\"><span>{}</span><span>{}</span></p>", figure(low), figure(high));
    if n_known > 0 {
        html!(body, "<p class=\"quiet\">{} succeeded</p>", percent(n_solved as f64 / n_known as f64));
    }
    let share = rewards.len() as f64 / heads.len() as f64;
    let (class, state) = if share < 0.5 { ("warn", format!("{} weighed", percent(share))) } else { ("good", "weighed".into()) };
    Stage { name, address, class, state, body }
}

/// What the gates said last.
async fn gated(gateway: &Gateway, viewer: &Viewer, now: Time) -> Result<Stage, Turned> {
    let (name, address) = ("Data", "/dashboard/data");
    let verdicts = gates::read(gateway.record().store(), &viewer.identity.tenant).await.seen_by(viewer)?;
    let Some((at, verdict)) = verdicts.last() else {
        return Ok(Stage::empty(
            name,
            address,
            &html!("<code>hone data gate</code> says whether the pool is fit to learn from."),
        ));
    };
    let n_passed = verdict.gates.iter().filter(|gate| gate.pass).count();
    let mut body = html!(
        "<p><b class=\"big n\">{}/{}</b> <span class=\"quiet\">gates for {}</span></p>",
        n_passed,
        verdict.gates.len(),
        verdict.purpose
    );
    let refused: Vec<String> = verdict.gates.iter().filter(|gate| !gate.pass).map(|gate| gate.name.replace('_', " ")).collect();
    if !refused.is_empty() {
        html!(body, "<p>{}</p>", refused.join(", "));
    }
    html!(body, "<p class=\"quiet\">{} traces, {}</p>", count(verdict.traces), ago(*at, now));
    let (class, state) = if verdict.pass { ("good", "fit") } else { ("bad", "refused") };
    Ok(Stage { name, address, class, state: state.into(), body })
}

/// The newest run.
async fn trained(gateway: &Gateway, viewer: &Viewer, now: Time) -> Result<Stage, Turned> {
    let (name, address, tenant) = ("Train", "/dashboard/runs", &viewer.identity.tenant);
    let Some(named) = newest(gateway.record().store(), Kind::Run, tenant, Named::of).await.seen_by(viewer)? else {
        return Ok(Stage::empty(name, address, &html!("<code>hone train grpo</code> learns from groups.")));
    };
    let curve = curve(gateway, tenant, &named.name).await.seen_by(viewer)?;
    let mut body = html!("<p><a href=\"{}\">{}</a> {}</p>", runs::address(&named.name), named.name, badge(&named, &curve, now));
    html!(body, "<p>step <b class=\"n\">{}</b></p><p>{}</p>", curve.last_step().unwrap_or(0), spark(&curve));
    let n_alarms = curve.alarms().count();
    if n_alarms > 0 {
        html!(body, "<p><span class=\"tag bad\">{} alarm{}</span></p>", n_alarms, if n_alarms == 1 { "" } else { "s" });
    }
    let (word, reason) = runs::state(&named, &curve, now);
    let class = match word {
        _ if n_alarms > 0 => "warn",
        "running" => "accent",
        "failed" => "bad",
        "still" => "warn",
        _ => "good",
    };
    let state = if word == "ended" { reason.replace('_', " ") } else { word.to_owned() };
    Ok(Stage { name, address, class, state, body })
}

/// The newest report.
async fn evaluated(store: &dyn Store, viewer: &Viewer, now: Time) -> Result<Stage, Turned> {
    let (name, address) = ("Eval", "/dashboard/evaluations");
    let newest = newest(store, Kind::Outcome, &viewer.identity.tenant, documents::word).await.seen_by(viewer)?;
    let Some(outcome): Option<Outcome> = newest else {
        return Ok(Stage::empty(name, address, &html!("<code>hone eval baseline --record</code> measures policies.")));
    };
    let (low, high) = bounds(&outcome);
    let task = outcome.category.as_ref().map_or_else(|| "all tasks".to_owned(), ToString::to_string);
    let mut body = html!("<p><b class=\"big n\">{}</b> <span class=\"quiet\">of {}</span></p>", percent(outcome.success), task);
    html!(body, "<p class=\"quiet\">{} – {}, {} traces</p>", percent(low), percent(high), count(outcome.n_traces));
    html!(body, "<p class=\"quiet\">{}</p>", ago(outcome.at, now));
    Ok(Stage { name, address, class: "good", state: "measured".into(), body })
}

/// Agents, and what is being handed over.
fn deployed(gateway: &Gateway, viewer: &Viewer) -> Stage {
    let (name, address) = ("Deploy", "/dashboard/agents");
    let view = gateway.agents().view();
    let mut ours: Vec<_> = view.agents.iter().filter(|(_, entry)| entry.tenant == viewer.identity.tenant).collect();
    // What is being handed over is looked at first.
    ours.sort_by_key(|(_, entry)| !entry.canary.as_ref().is_some_and(is_running));
    if ours.is_empty() {
        return Stage::empty(name, address, &html!("<code>hone deploy add</code> makes an agent."));
    }
    let mut body = Html::default();
    for (agent, entry) in ours.iter().take(N_AGENTS) {
        html!(body, "<p><a href=\"{}\">{}</a> ", agents::address(agent), agent);
        match entry.canary.as_ref().filter(|canary| is_running(canary)) {
            Some(canary) => html!(body, "{} → {} {}</p>", canary.from, canary.to, bar(canary.report.share)),
            None => html!(body, "<span class=\"quiet\">{}</span></p>", entry.live),
        }
    }
    if ours.len() > N_AGENTS {
        html!(body, "<p class=\"quiet\">and {} more</p>", ours.len() - N_AGENTS);
    }
    let n_running = ours.iter().filter(|(_, entry)| entry.canary.as_ref().is_some_and(is_running)).count();
    let (class, state) = match n_running {
        0 => ("good", format!("{} serve{}", ours.len(), if ours.len() == 1 { "s" } else { "" })),
        1 => ("accent", "a canary runs".to_owned()),
        n => ("accent", format!("{n} canaries run")),
    };
    Stage { name, address, class, state, body }
}

/// What to do on the first day.
fn first_steps(gateway: &Gateway, headers: &HeaderMap) -> Html {
    let mut page = html!("<div class=\"empty\"><p>Nothing is on the record yet. Point a client of OpenAI at this server,</p>");
    html!(page, "<pre>OPENAI_BASE_URL={}/v1</pre><p>or bring traces along with ", here(gateway, headers));
    html!(page, "<code>hone trace import FILE</code>. Every call is here as soon as it is answered.</p></div>");
    page
}

/// This server as the browser has just reached it.
fn here(gateway: &Gateway, headers: &HeaderMap) -> String {
    let scheme = if gateway.dashboard().is_encrypted { "https" } else { "http" };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8321");
    format!("{scheme}://{host}")
}
