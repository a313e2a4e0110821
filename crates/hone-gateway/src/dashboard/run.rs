//! One run: its curves, alarms with the traces behind them, and what it was started with.

use super::chart::{Chart, Line};
use super::figure::{ago, known, to_second};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::records::{Curve, Named, curve, run_named};
use super::runs::{badge, state};
use super::session::{Reader, Viewer};
use super::traces::link;
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{Path, State};
use axum::response::Response;
use hone_trace::RunState;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is drawn first, where a run has it: its name in the metrics, and what people call it.
pub(super) const FIRST: [(&str, &str); 11] = [
    ("reward", "Reward"),
    ("validation", "Validation"),
    ("kl", "KL from the start"),
    ("entropy", "Entropy"),
    ("tokens_per_answer", "Tokens of an answer"),
    ("sampled_tokens_per_s", "Tokens a second, sampling"),
    ("trained_tokens_per_s", "Tokens a second, training"),
    ("loss", "Loss"),
    ("solved", "Solved"),
    ("grad_norm", "Norm of the gradient"),
    ("lr", "Learning rate"),
];
/// Further values that are drawn.
const N_OTHERS_MAX: usize = 40;
/// Alarms that are shown, the newest.
const N_ALARMS_MAX: usize = 50;

/// A run with what it has measured.
pub(super) struct Seen {
    pub(super) named: Named,
    pub(super) curve: Arc<Curve>,
}

pub(super) async fn seen(gateway: &Gateway, viewer: &Viewer, name: &str) -> Result<Seen, Turned> {
    let missing = || Refused::NotFound(format!("there is no run `{}`", name.chars().take(100).collect::<String>()));
    let tenant = &viewer.identity.tenant;
    let named = run_named(gateway.record().store(), tenant, name).await.seen_by(viewer)?;
    let named = named.ok_or_else(missing).seen_by(viewer)?;
    let curve = curve(gateway, tenant, name).await.seen_by(viewer)?;
    Ok(Seen { named, curve })
}

pub(crate) async fn run(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    Path(name): Path<String>,
) -> Result<Response, Turned> {
    let seen = seen(&gateway, &viewer, &name).await?;
    let Seen { named, curve } = &seen;
    let now = gateway.now();
    let mut main = html!("<p class=\"crumbs\"><a href=\"/dashboard/runs\">Runs</a></p>");
    html!(main, "<h1>{} {}</h1>{}", name, badge(named, curve, now), headline(&seen, &gateway));
    html!(main, "{}", alarms(curve));
    html!(main, "<section aria-labelledby=\"curves\"><h2 id=\"curves\">Curves</h2>{}</section>", curves(&[&seen]));
    html!(main, "<section aria-labelledby=\"facts\"><h2 id=\"facts\">What it was started with</h2><dl class=\"notes\">");
    for (key, value) in named.facts() {
        html!(main, "<div><dt>{}</dt><dd>{}</dd></div>", key, value);
    }
    html!(main, "</dl></section>");
    let line = format!(
        "{name} {}: step {}, reward {}, validation {}",
        state(named, curve, now).0,
        curve.last_step().unwrap_or(0),
        known(curve.last("reward")),
        known(curve.last("validation"))
    );
    let page = Page::new(Place::Runs, format!("Run {name}"), main);
    // What has ended does not move.
    Ok(if named.is_open() { page.moving(line) } else { page }.shown(Some(&viewer)))
}

fn headline(seen: &Seen, gateway: &Gateway) -> Html {
    let Seen { named, curve } = seen;
    let mut page = html!("<dl class=\"facts\">");
    let mut fact = |name: &'static str, value: Html| html!(page, "<div><dt>{}</dt><dd>{}</dd></div>", name, value);
    fact("Step", html!("<b class=\"n\" id=\"step\">{}</b>", curve.last_step().unwrap_or(0)));
    fact("Reward", html!("<b class=\"n\">{}</b>", known(curve.last("reward"))));
    if let Some((step, best)) = curve.highest("validation") {
        let (low, high) = (known(curve.last("validation_low")), known(curve.last("validation_high")));
        fact(
            "Validation",
            html!("<b class=\"n\">{}</b> <span class=\"quiet\">{} to {}</span>", known(curve.last("validation")), low, high),
        );
        fact("Best", html!("<b class=\"n\">{}</b> <span class=\"quiet\">at step {}</span>", known(Some(best)), step));
    }
    fact("Method", html!("{}", named.run.stage));
    for (key, name) in [("model", "Model"), ("env", "World")] {
        if let Some(value) = named.fact(key) {
            fact(name, html!("{}", value));
        }
    }
    fact("Began", html!("<time datetime=\"{}\">{}</time>", named.run.started, to_second(named.run.started)));
    match (&named.run.state, curve.at()) {
        (RunState::Ended { at, reason }, _) => fact("Ended", html!("{} <span class=\"quiet\">{}</span>", to_second(*at), reason)),
        (RunState::Failed { at, error }, _) => fact("Failed", html!("{} <span class=\"quiet\">{}</span>", to_second(*at), error)),
        (RunState::Running, Some(at)) => fact("Last step", ago(at, gateway.now())),
        (RunState::Running, None) => {}
    }
    html!(page, "</dl>");
    page
}

/// Signs of reward hacking, each with the traces to read.
fn alarms(curve: &Curve) -> Html {
    let all: Vec<_> = curve.alarms().collect();
    let mut page = Html::default();
    if all.is_empty() {
        return page;
    }
    html!(page, "<section aria-labelledby=\"alarms\" class=\"alarms\"><h2 id=\"alarms\">Alarms</h2><ul>");
    for alarm in all.iter().rev().take(N_ALARMS_MAX) {
        html!(
            page,
            "<li><b>{} at step {}</b>: {}. <i>{}.</i>",
            alarm.kind.replace('_', " "),
            alarm.step,
            alarm.sentence,
            alarm.action
        );
        if !alarm.traces.is_empty() {
            html!(page, " Read ");
        }
        for (idx, &id) in alarm.traces.iter().take(8).enumerate() {
            let between = if idx > 0 { ", " } else { "" };
            html!(page, "{}{}", between, link(id));
        }
        html!(page, "</li>");
    }
    html!(page, "</ul></section>");
    page
}

/// Every value as a picture, with the lines of all these runs in it.
pub(super) fn curves(all: &[&Seen]) -> Html {
    let names: BTreeSet<&str> = all.iter().flat_map(|seen| seen.curve.names()).collect();
    let is_bound = |name: &str| name.ends_with("_low") || name.ends_with("_high") || name.ends_with("_half_width");
    let first = FIRST.iter().copied().filter(|(name, _)| names.contains(name));
    let is_other = |name: &str| !is_bound(name) && name != "alarms" && FIRST.iter().all(|(known, _)| *known != name);
    let others: Vec<&str> = names.iter().copied().filter(|name| is_other(name)).take(N_OTHERS_MAX).collect();
    let mut page = html!("<div class=\"charts\">");
    first.for_each(|(name, title)| html!(page, "{}", chart(all, name, title)));
    html!(page, "</div>");
    if !others.is_empty() {
        let all_of_them = if others.len() == 1 { "value" } else { "values" };
        html!(page, "<details class=\"more\"><summary>{} further {}</summary>", others.len(), all_of_them);
        html!(page, "<div class=\"charts\">");
        others.iter().for_each(|name| html!(page, "{}", chart(all, name, name)));
        html!(page, "</div></details>");
    }
    page
}

fn chart(all: &[&Seen], name: &str, title: &str) -> Html {
    let line = |seen: &&Seen| {
        let points = seen.curve.series(name);
        let band = band(&seen.curve, name, &points);
        let called = if all.len() > 1 { seen.named.name.clone() } else { title.to_owned() };
        Line { name: called, points, band, is_stepped: false }
    };
    let lines: Vec<Line> = all.iter().map(line).collect();
    let steps = |seen: &&Seen| seen.curve.alarms().map(|alarm| alarm.step as f64).collect::<Vec<_>>();
    let events = if name == "reward" && all.len() == 1 { all.iter().flat_map(steps).collect() } else { Vec::new() };
    let is_share = matches!(name, "validation" | "solved") || name.starts_with("validation/") || name.starts_with("watched/");
    let reach = is_share.then_some((0.0, 1.0));
    Chart { title: title.to_owned(), along: "step", lines, events, reach, ..Chart::default() }.draw()
}

/// How far a value may be off, where the run told: a range, or half of one.
fn band(curve: &Curve, name: &str, points: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let (lows, highs) = (curve.series(&format!("{name}_low")), curve.series(&format!("{name}_high")));
    if !lows.is_empty() && lows.len() == highs.len() {
        return lows.iter().zip(&highs).map(|(low, high)| (low.0, low.1, high.1)).collect();
    }
    let halves = curve.series(&format!("{name}_half_width"));
    if halves.len() != points.len() {
        return Vec::new();
    }
    points.iter().zip(&halves).map(|(point, half)| (point.0, point.1 - half.1, point.1 + half.1)).collect()
}
