//! Data gates: what `hone data gate` found, the last of each purpose and those before it.

use super::figure::{ago, count, figure, percent};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::session::Reader;
use super::trace;
use super::traces::tail;
use crate::gates::{self, Gate, Verdict};
use crate::server::Gateway;
use axum::extract::State;
use axum::response::Response;
use hone_trace::{Time, TraceId};

/// Earlier verdicts that are listed.
const N_EARLIER: usize = 50;

pub(crate) async fn data(State(gateway): State<Gateway>, Reader(viewer): Reader) -> Result<Response, Turned> {
    let verdicts = gates::read(gateway.record().store(), &viewer.identity.tenant).await.seen_by(&viewer)?;
    let now = gateway.now();
    let mut main = html!(
        "<h1>Data</h1><p class=\"quiet\">Whether what is on the record is fit to learn from, as `hone data gate` found it.</p>"
    );
    if verdicts.is_empty() {
        html!(
            main,
            "<p class=\"empty\">Nobody has asked yet. `hone data gate --for sft` or `--for rl` looks, and what it finds stands here.</p>"
        );
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
    let mut page = html!("<section aria-label=\"{}\"><h2>{} {} ", title, title, badge(verdict.pass));
    html!(
        page,
        "<span class=\"quiet\">{} traces, {}</span></h2><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>",
        count(verdict.traces),
        ago(at, now)
    );
    html!(
        page,
        "<caption class=\"unseen\">Gates: {}</caption><thead><tr><th scope=\"col\">Gate</th><th scope=\"col\">Verdict</th>",
        title
    );
    html!(
        page,
        "<th scope=\"col\" class=\"n\">Found</th><th scope=\"col\" class=\"n\">Bar</th><th scope=\"col\">Behind it</th></tr></thead><tbody>"
    );
    for gate in &verdict.gates {
        let (found, bar) = figures(gate);
        html!(page, "<tr><th scope=\"row\">{}</th><td>{}</td>", gate.name.replace('_', " "), badge(gate.pass));
        html!(page, "<td class=\"n\">{}</td><td class=\"n\">{}</td><td>", found, bar);
        for (record, why) in gate.records.iter().zip(&gate.why) {
            match record.parse::<TraceId>() {
                Ok(id) => html!(page, "<div><a href=\"{}\"><code>{}</code></a> {}</div>", trace::address(id), tail(record), why),
                Err(_) => html!(page, "<div>{} {}</div>", record, why),
            }
        }
        html!(page, "</td></tr>");
    }
    html!(page, "</tbody></table></div></section>");
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
    let mut page = html!(
        "<section aria-labelledby=\"earlier\"><h2 id=\"earlier\">All verdicts</h2><div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>"
    );
    html!(
        page,
        "<caption class=\"unseen\">Verdicts, newest first</caption><thead><tr><th scope=\"col\">When</th><th scope=\"col\">For</th>"
    );
    html!(
        page,
        "<th scope=\"col\">Verdict</th><th scope=\"col\" class=\"n\">Traces</th><th scope=\"col\">Refused by</th></tr></thead><tbody>"
    );
    for (at, verdict) in verdicts.iter().rev().take(N_EARLIER) {
        let refused: Vec<String> =
            verdict.gates.iter().filter(|gate| !gate.pass).map(|gate| gate.name.replace('_', " ")).collect();
        html!(page, "<tr><td>{}</td><td>{}</td><td>{}</td>", ago(*at, now), verdict.purpose, badge(verdict.pass));
        html!(page, "<td class=\"n\">{}</td><td>{}</td></tr>", count(verdict.traces), refused.join(", "));
    }
    html!(page, "</tbody></table></div></section>");
    page
}
