//! Data gates: what `hone data gate` found, the last of each purpose and those before it.

use super::figure::{ago, count, figure, percent};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::session::Reader;
use super::table::Table;
use super::traces::link;
use crate::gates::{self, Gate, Verdict};
use crate::server::Gateway;
use axum::extract::State;
use axum::response::Response;
use hone_trace::Time;

/// Earlier verdicts that are listed.
const N_EARLIER: usize = 50;

pub(crate) async fn data(State(gateway): State<Gateway>, Reader(viewer): Reader) -> Result<Response, Turned> {
    let verdicts = gates::read(gateway.record().store(), &viewer.identity.tenant).await.seen_by(&viewer)?;
    let now = gateway.now();
    let mut main = html!("<h1>Data</h1><p class=\"quiet\">Whether what is on the record is fit to learn from, as ");
    html!(main, "<code>hone data gate</code> found it.</p>");
    if verdicts.is_empty() {
        html!(main, "<p class=\"empty\">Nobody has asked yet. <code>hone data gate --for sft</code> or ");
        html!(main, "<code>--for rl</code> looks, and what it finds stands here.</p>");
    }
    for purpose in ["sft", "rl"] {
        if let Some((at, verdict)) = verdicts.iter().rev().find(|(_, verdict)| verdict.purpose == purpose) {
            html!(main, "{}", shown(*at, verdict, now));
        }
    }
    if verdicts.len() > 1 {
        html!(main, "{}", earlier(&verdicts, now));
    }
    Ok(Page::new(Place::Data, "Data", main).shown(Some(&viewer)))
}

fn shown(at: Time, verdict: &Verdict, now: Time) -> Html {
    let title = if verdict.purpose == "sft" { "To be imitated" } else { "To be reinforced" };
    let mut table = Table::new(title, &["Gate", "Verdict", "#Found", "#Bar", "Behind it"]);
    for gate in &verdict.gates {
        let (found, bar) = figures(gate);
        let mut behind = Html::default();
        for (record, why) in gate.records.iter().zip(&gate.why) {
            match record.parse() {
                Ok(id) => html!(behind, "<div>{} {}</div>", link(id), why),
                Err(_) => html!(behind, "<div>{} {}</div>", record, why),
            }
        }
        table.row(&[&gate.name.replace('_', " "), &badge(gate.pass), &found, &bar, &behind]);
    }
    let mut page = html!("<section aria-label=\"{}\"><h2>{} {} ", title, title, badge(verdict.pass));
    html!(
        page,
        "<span class=\"quiet\">{} traces, {}</span></h2>{}</section>",
        count(verdict.traces),
        ago(at, now),
        table.shown()
    );
    page
}

fn badge(pass: bool) -> Html {
    if pass { html!("<span class=\"tag good\">pass</span>") } else { html!("<span class=\"tag bad\">refused</span>") }
}

/// What was found and what was asked for, in the unit of the gate.
fn figures(gate: &Gate) -> (String, String) {
    match gate.name.as_str() {
        "clean" => (percent(gate.value), format!("≥ {}", percent(gate.bar))),
        "points" | "task_types" => (figure(gate.value), format!("≥ {}", figure(gate.bar))),
        _ => (figure(gate.value), format!("≤ {}", figure(gate.bar))),
    }
}

fn earlier(verdicts: &[(Time, Verdict)], now: Time) -> Html {
    let mut table = Table::new("Verdicts, newest first", &["When", "For", "Verdict", "#Traces", "Refused by"]);
    for (at, verdict) in verdicts.iter().rev().take(N_EARLIER) {
        let refused: Vec<String> =
            verdict.gates.iter().filter(|gate| !gate.pass).map(|gate| gate.name.replace('_', " ")).collect();
        let (pass, traces) = (badge(verdict.pass), count(verdict.traces));
        table.row(&[&ago(*at, now), &verdict.purpose, &pass, &traces, &refused.join(", ")]);
    }
    html!("<section aria-labelledby=\"earlier\"><h2 id=\"earlier\">All verdicts</h2>{}</section>", table.shown())
}
