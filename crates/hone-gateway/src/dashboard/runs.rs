//! The list of runs: how far each has come, and two of them to compare.

use super::chart::sparkline;
use super::figure::{ago, figure, known};
use super::html::{Html, html, segment};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::records::{Curve, Named, asked_after, cursor_text, curve, left_out, of_tenant};
use super::session::Reader;
use super::table::Table;
use crate::server::Gateway;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use hone_trace::store::Kind;
use hone_trace::{RunState, Time};
use std::sync::Arc;

/// Runs of one page.
const N_RUNS: usize = 30;
/// A run that has measured nothing for so long is not at work any more.
const STILL_MS: f64 = 600_000.0;

pub(crate) async fn runs(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let (tenant, now) = (&viewer.identity.tenant, gateway.now());
    let after = asked_after(&Query::read(query.as_deref().unwrap_or_default())).seen_by(&viewer)?;
    let found = of_tenant(gateway.record().store(), Kind::Run, tenant, after, N_RUNS, Named::of).await.seen_by(&viewer)?;
    let mut all = Vec::new();
    for named in found.items {
        let curve = curve(&gateway, tenant, &named.name).await.seen_by(&viewer)?;
        all.push((named, curve));
    }
    let mut main = html!("<h1>Runs</h1>");
    if all.is_empty() {
        html!(
            main,
            "<p class=\"empty\">No run yet. <code>hone train grpo --env desk --model MODEL --run first</code> starts one.</p>"
        );
    } else {
        html!(main, "{}", table(&all, now));
    }
    html!(main, "{}", left_out(&found.damaged));
    if let Some(next) = found.next {
        html!(main, "<nav class=\"pages\" aria-label=\"Older and newer\">");
        html!(main, "<a rel=\"next\" href=\"/dashboard/runs?after={}\">Older</a></nav>", cursor_text(next));
    }
    let n_open = all.iter().filter(|(named, curve)| state(named, curve, now).0 == "running").count();
    Ok(Page::new(Place::Runs, "Runs", main).moving(format!("{n_open} at work")).shown(Some(&viewer)))
}

fn table(all: &[(Named, Arc<Curve>)], now: Time) -> Html {
    let columns = ["Run", "State", "Method", "Model", "World", "#Step", "Reward", "#Validation", "#Alarms", "Began", "Compare"];
    let mut table = Table::new("Runs, newest first", &columns);
    for (named, curve) in all {
        let name = &named.name;
        let link = html!("<a href=\"{}\">{}</a>", address(name), name);
        let fact = |key: &str| named.fact(key).unwrap_or_default().to_owned();
        table.row(&[
            &link,
            &badge(named, curve, now),
            &named.run.stage,
            &fact("model"),
            &fact("env"),
            &curve.last_step().unwrap_or(0),
            &spark(curve),
            &known(curve.last("validation")),
            &curve.alarms().count(),
            &ago(named.run.started, now),
            &mark(name),
        ]);
    }
    let button = html!("<p><button>Compare the two that are marked</button></p>");
    html!("<form method=\"get\" action=\"/dashboard/compare\">{}{}</form>", table.shown(), button)
}

/// The box by which a run is marked.
fn mark(name: &str) -> Html {
    let mut page = html!("<label class=\"check\"><input type=\"checkbox\" name=\"run\" value=\"{}\">", name);
    html!(page, "<span class=\"unseen\">Compare {}</span></label>", name);
    page
}

/// The reward of a run as a small line with its last height.
pub(super) fn spark(curve: &Curve) -> Html {
    let heights: Vec<f64> = curve.series("reward").iter().map(|point| point.1).collect();
    let Some(last) = heights.last() else { return Html::default() };
    let told = format!("reward step by step, last {}", figure(*last));
    html!("{} <b class=\"n\">{}</b>", sparkline(&heights, &told), figure(*last))
}

/// Where a run is shown.
pub(super) fn address(name: &str) -> String {
    format!("/dashboard/runs/{}", segment(name))
}

/// How a run stands, in a word, and as a sentence.
pub(super) fn state(named: &Named, curve: &Curve, now: Time) -> (&'static str, String) {
    match &named.run.state {
        RunState::Ended { reason, .. } => ("ended", reason.clone()),
        RunState::Failed { error, .. } => ("failed", error.clone()),
        RunState::Running if now.millis_since(curve.at().unwrap_or(named.run.started)) < STILL_MS => ("running", String::new()),
        RunState::Running => ("still", "it was killed and can be resumed, or a step takes very long".to_owned()),
    }
}

/// The word with its colour.
pub(super) fn badge(named: &Named, curve: &Curve, now: Time) -> Html {
    match state(named, curve, now) {
        ("running", _) => html!("<span class=\"tag accent moving\">running</span>"),
        ("failed", why) => html!("<span class=\"tag bad\" title=\"{}\">failed</span>", why),
        ("still", why) => html!("<span class=\"tag warn\" title=\"{}\">still</span>", why),
        (_, reason) if matches!(reason.as_str(), "reward_hacking" | "not_finite") => {
            html!("<span class=\"tag bad\">{}</span>", reason)
        }
        (_, reason) => html!("<span class=\"tag\">{}</span>", reason),
    }
}
