//! A canary with its evidence: how its share grew, how much better or worse it is by bounds that hold at every row, and its
//! numbers.

use super::agents::{address, badge, is_running};
use super::chart::{Chart, Line, interval};
use super::decide::{WISHES, is_possible};
use super::figure::{ago, count, dollars, figure, percent};
use super::html::{Html, html};
use super::past::Point;
use super::session::Viewer;
use super::table::Table;
use crate::agents::{Canary, Entry};
use hone_arbiter::canary::{Bound, Command, Numbers, Reason, State as Stands};
use hone_trace::{AgentName, Time};

/// Bounds are drawn from where they are so many times as far apart as they are now.
const N_WIDTHS_MAX: f64 = 5.0;

/// A canary with its evidence.
pub(super) fn shown(name: &AgentName, entry: &Entry, canary: &Canary, viewer: &Viewer, now: Time) -> Html {
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

pub(super) fn why(reason: Reason) -> &'static str {
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
    let sequence = |name: &str, of: &dyn Fn(&Point) -> Option<Bound>| {
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
    let columns = ["Side", "#Answered", "#Errors", "#Outcomes", "#Missing", "#Awaited"];
    let mut episodes = Table::new("Episodes", &columns).titled("Episodes").slim();
    for (side, arm) in [("canary", numbers.canary), ("control", numbers.control)] {
        let [answered, errors, matured, missing] = [arm.n_answered, arm.n_errors, arm.n_matured, arm.n_missing].map(count);
        episodes.row(&[&side, &answered, &errors, &matured, &missing, &count(arm.n_awaited())]);
    }
    let columns = ["Canary less control", "Picture", "#Estimate", "#From", "#To"];
    let mut bounds = Table::new("Bounds", &columns).titled("Bounds that hold at every row").slim();
    let known = [
        ("quality", Some(numbers.quality_shown())),
        ("quality beyond the gain asked for", numbers.gain),
        ("cost beyond what is allowed", numbers.cost),
        ("logarithm of latency", numbers.log_latency),
    ];
    for (what, bound) in known.into_iter().filter_map(|(what, bound)| Some((what, bound?))) {
        let text = if what.starts_with("cost") { dollars } else { figure };
        let end = |bound: Option<f64>| bound.map_or_else(|| "–".to_owned(), text);
        let picture = bound.low.zip(bound.high).map_or_else(Html::default, |(low, high)| {
            let reach = low.abs().max(high.abs()).max(1e-9);
            interval(bound.estimate, (low, high), (-reach, reach))
        });
        bounds.row(&[&what, &picture, &text(bound.estimate), &end(bound.low), &end(bound.high)]);
    }
    let mut page = html!("<div class=\"pair\">{}{}</div><p class=\"quiet\">", episodes.shown(), bounds.shown());
    let evidence = [
        ("more errors", numbers.error_evidence, numbers.error_evidence_max),
        ("a wrong sample ratio", numbers.sample_ratio_evidence, numbers.sample_ratio_evidence_max),
    ];
    for (of, value, limit) in evidence {
        html!(page, "Evidence of {}: {} of {}. ", of, figure(value), figure(limit));
    }
    html!(page, "</p>");
    page
}
