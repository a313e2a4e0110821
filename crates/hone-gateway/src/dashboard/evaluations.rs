//! Evaluation reports: what configs reached, each with its interval, and what runs reached on tasks that they never trained on.

use super::chart::interval;
use super::figure::{ago, count, dollars, duration, known, percent};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::records::{Curve, Named, asked_after, cursor_text, curve, left_out, of_tenant};
use super::runs::address;
use super::session::Reader;
use super::table::Table;
use super::traces::tail;
use crate::documents;
use crate::server::Gateway;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use hone_eval::interval::wilson_of;
use hone_trace::store::{Kind, Store, StoreError};
use hone_trace::{Config, ConfigHash, Outcome, Time};
use std::collections::HashMap;
use std::sync::Arc;

/// Reports of one page, and runs beside them.
const N_REPORTS: usize = 50;
const N_RUNS: usize = 20;

pub(crate) async fn evaluations(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let (tenant, store, now) = (&viewer.identity.tenant, gateway.record().store(), gateway.now());
    let after = asked_after(&Query::read(query.as_deref().unwrap_or_default())).seen_by(&viewer)?;
    let found = of_tenant(store, Kind::Outcome, tenant, after, N_REPORTS, documents::word).await.seen_by(&viewer)?;
    let outcomes: &[Outcome] = &found.items;
    let configs = configs(store, outcomes).await.seen_by(&viewer)?;
    let mut main = html!("<h1>Evaluations</h1>");
    if outcomes.is_empty() {
        html!(
            main,
            "<p class=\"empty\">No report yet. <code>hone eval baseline --record</code> writes one for each policy and world.</p>"
        );
    } else {
        html!(main, "{}", table(outcomes, &configs, now));
    }
    html!(main, "{}", left_out(&found.damaged));
    if let Some(next) = found.next {
        html!(main, "<nav class=\"pages\" aria-label=\"Older and newer\">");
        html!(main, "<a rel=\"next\" href=\"/dashboard/evaluations?after={}\">Older</a></nav>", cursor_text(next));
    }
    let runs = of_tenant(store, Kind::Run, tenant, None, N_RUNS, Named::of).await.seen_by(&viewer)?;
    let mut validated = Vec::new();
    for named in runs.items {
        let curve = curve(&gateway, tenant, &named.name).await.seen_by(&viewer)?;
        validated.extend(curve.last("validation").map(|share| (named, curve, share)));
    }
    if !validated.is_empty() {
        html!(main, "{}", of_runs(&validated));
    }
    Ok(Page::new(Place::Evaluations, "Evaluations", main).shown(Some(&viewer)))
}

/// What each config is, as far as it is on the record.
async fn configs(store: &dyn Store, outcomes: &[Outcome]) -> Result<HashMap<ConfigHash, Config>, StoreError> {
    let mut found = HashMap::new();
    for outcome in outcomes {
        if !found.contains_key(&outcome.config)
            && let Some(config) = documents::sound(store, &outcome.config.to_string()).await?
        {
            found.insert(outcome.config, config);
        }
    }
    Ok(found)
}

/// The interval of the share of an outcome, over its scenarios.
pub(super) fn bounds(outcome: &Outcome) -> (f64, f64) {
    let n = outcome.n_scenarios.unwrap_or(outcome.n_traces);
    wilson_of(outcome.success, usize::try_from(n).unwrap_or(usize::MAX))
}

fn table(outcomes: &[Outcome], configs: &HashMap<ConfigHash, Config>, now: Time) -> Html {
    let columns = [
        "Who",
        "Tasks",
        "Solved",
        "#Range",
        "#Traces",
        "#Reliable",
        "#Turns/solved",
        "#Tokens/solved",
        "#Cost",
        "#Median time",
        "Failure",
        "Measured",
    ];
    let mut table = Table::new("Reports", &columns).titled("Reports, newest first; the range is the 95 % interval");
    for outcome in outcomes {
        let (low, high) = bounds(outcome);
        let task = outcome.category.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
        let who = configs.get(&outcome.config).and_then(who).unwrap_or_else(|| tail(&outcome.config.to_string()));
        table.row(&[
            &html!("<a href=\"/dashboard/traces?config={}\">{}</a>", outcome.config, who),
            &task,
            &solved(outcome.success, (low, high)),
            &range(low, high),
            &count(outcome.n_traces),
            &outcome.reliability.map_or_else(|| "–".to_owned(), percent),
            &known(outcome.turns_per_solved),
            &known(outcome.tokens_per_solved),
            &outcome.cost_usd.map(dollars).unwrap_or_default(),
            &outcome.latency_p50_ms.map(duration).unwrap_or_default(),
            &outcome.failure_pattern.as_deref().unwrap_or_default(),
            &ago(outcome.at, now),
        ]);
    }
    table.shown()
}

/// The model, with the adapter on it where there is one.
fn who(config: &Config) -> Option<String> {
    let model = config.model.clone()?;
    Some(match &config.adapter {
        Some(adapter) => format!("{model} + {}", tail(&adapter.to_string())),
        None => model,
    })
}

/// A share with its interval, as a picture and a number.
fn solved(share: f64, bounds: (f64, f64)) -> Html {
    html!("{} <span class=\"n\">{}</span>", interval(share, bounds, (0.0, 1.0)), percent(share))
}

fn range(low: f64, high: f64) -> String {
    format!("{} – {}", percent(low), percent(high))
}

/// What runs reached on tasks that they never trained on.
fn of_runs(validated: &[(Named, Arc<Curve>, f64)]) -> Html {
    let mut table = Table::new("Validation of runs", &["Run", "World", "Last", "#Range", "#Best"]);
    for (named, curve, share) in validated {
        let (low, high) = (curve.last("validation_low").unwrap_or(*share), curve.last("validation_high").unwrap_or(*share));
        let best = curve.highest("validation").map(|(step, best)| format!("{} at step {step}", percent(best)));
        table.row(&[
            &html!("<a href=\"{}\">{}</a>", address(&named.name), named.name),
            &named.fact("env").unwrap_or_default(),
            &solved(*share, (low, high)),
            &range(low, high),
            &best.unwrap_or_default(),
        ]);
    }
    html!("<section aria-labelledby=\"runs\"><h2 id=\"runs\">Validation of runs</h2>{}</section>", table.shown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::AdapterId;

    #[test]
    fn a_model_is_told_apart_from_itself_with_an_adapter() {
        let of = |adapter: Option<AdapterId>| who(&Config { model: Some("small".into()), adapter, ..Config::default() });
        let (one, other) = (of(Some(AdapterId::of(b"one"))).unwrap(), of(Some(AdapterId::of(b"other"))).unwrap());
        assert_eq!(of(None).as_deref(), Some("small"));
        assert!(one.starts_with("small + ") && other.starts_with("small + ") && one != other, "{one} {other}");
        assert_eq!(who(&Config::default()), None);
    }
}
