//! The list of traces: newest first, by filters that an index answers, or by words that are looked for in the newest of them.

use super::figure::{ago, count, dollars, known, short};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::records::{asked_after, cursor_text};
use super::session::Reader;
use super::table::Table;
use super::{page, trace};
use crate::documents;
use crate::error::Refused;
use crate::record::episodes_called;
use crate::server::Gateway;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use hone_trace::store::{Cursor, Page as Part, StoreError, TraceQuery};
use hone_trace::{Category, Tenant, Time, Trace, TraceHead, TraceId, TraceOutcome};
use serde_json::Value;
use std::str::FromStr;

/// Traces of one page.
const N_TRACES: u32 = 50;
/// Traces that words are looked for in, and how many are read at once.
const N_LOOKED_MAX: usize = 2000;
const N_LOOKED: u32 = 200;
/// How long that may take, for traces may be large.
const LOOK_MS_MAX: f64 = 1000.0;

pub(crate) async fn traces(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let query = Query::read(query.as_deref().unwrap_or_default());
    let wanted = filters(&query, &viewer.identity.tenant).seen_by(&viewer)?;
    let after = asked_after(&query).seen_by(&viewer)?;
    let store = gateway.record().store();
    let (found, n_looked) = match query.get("q") {
        None => (store.heads(&wanted, after, N_TRACES).await.seen_by(&viewer)?, None),
        Some(words) => {
            let mut named = Vec::new();
            if after.is_none() {
                named = called(&gateway, &viewer.identity.tenant, words).await.seen_by(&viewer)?;
                let is_id = |head: &TraceHead| words.parse() == Ok(head.id);
                if let Some(head) = named.iter().find(|head| is_id(head)) {
                    return Ok(page::elsewhere(&trace::address(head.id)));
                }
            }
            let (mut found, n_looked) = look_for(&gateway, words, &wanted, after).await.seen_by(&viewer)?;
            found.items.retain(|head| named.iter().all(|named| named.id != head.id));
            if let ([head], []) = (&named[..], &found.items[..]) {
                return Ok(page::elsewhere(&trace::address(head.id)));
            }
            found.items.splice(..0, named);
            (found, Some(n_looked))
        }
    };
    let mut main = html!("<h1>Traces</h1>{}", form(&query));
    if let Some(n_looked) = n_looked {
        let place = if after.is_some() { "further " } else { "newest " };
        html!(main, "<p class=\"quiet\">Looked for these words in the {}{} that fit.</p>", place, count(n_looked as u64));
    }
    if found.items.is_empty() {
        html!(main, "<p class=\"empty\">{}</p>", hint(&query));
    } else {
        html!(main, "{}", table(&found.items, gateway.now(), "Traces, newest first"));
    }
    html!(main, "<nav class=\"pages\" aria-label=\"Older and newer\">");
    if after.is_some() {
        html!(main, "<a href=\"/dashboard/traces{}\">Newest</a>", query.with("after", None));
    }
    if let Some(next) = found.next {
        html!(main, "<a rel=\"next\" href=\"/dashboard/traces{}\">Older</a>", query.with("after", Some(&cursor_text(next))));
    }
    html!(main, "</nav>");
    Ok(Page::new(Place::Traces, "Traces", main).shown(Some(&viewer)))
}

/// The traces that have just these words as their id, or are called by them.
async fn called(gateway: &Gateway, tenant: &Tenant, words: &str) -> Result<Vec<TraceHead>, StoreError> {
    let mut heads: Vec<TraceHead> = Vec::new();
    for id in words.parse().ok().into_iter().chain(episodes_called(tenant, words)) {
        let trace = match gateway.record().store().trace(id).await {
            Err(StoreError::Damaged { .. }) => None,
            trace => trace?.filter(|trace| trace.tenant == *tenant),
        };
        heads.extend(trace.map(|trace| trace.head()).filter(|head| heads.iter().all(|known| known.id != head.id)));
    }
    Ok(heads)
}

/// A table of traces.
pub(super) fn table(heads: &[TraceHead], now: Time, caption: &str) -> Html {
    let mut table = Table::new(caption, &["Trace", "Began", "Task", "Outcome", "#Reward", "#Turns", "#Tokens", "#Cost"]);
    for head in heads {
        let category = head.category.as_ref().map(Category::as_str).unwrap_or_default();
        table.row(&[
            &link(head.id),
            &ago(head.started, now),
            &category,
            &outcome(head.outcome),
            &known(head.reward),
            &head.n_turns,
            &count(head.n_tokens),
            &dollars(head.cost_usd),
        ]);
    }
    table.shown()
}

/// The way to a trace.
pub(super) fn link(id: TraceId) -> Html {
    html!("<a href=\"{}\"><code>{}</code></a>", trace::address(id), tail(&id.to_string()))
}

/// What tells ids apart that were given at about the same time: their end.
pub(super) fn tail(id: &str) -> String {
    let first = short(id);
    let last: String = id.chars().skip(id.len().saturating_sub(6)).collect();
    format!("{first}…{last}")
}

/// How a trace ended, as a word with a colour.
pub(super) fn outcome(outcome: TraceOutcome) -> Html {
    match outcome {
        TraceOutcome::Success => html!("<span class=\"tag good\">success</span>"),
        TraceOutcome::Failure => html!("<span class=\"tag bad\">failure</span>"),
        TraceOutcome::Unknown => html!("<span class=\"tag\">unknown</span>"),
    }
}

/// What the filters say, or which of them cannot be followed.
fn filters(query: &Query, tenant: &Tenant) -> Result<TraceQuery, Refused> {
    let outcome = match query.get("outcome") {
        None => None,
        Some("success") => Some(TraceOutcome::Success),
        Some("failure") => Some(TraceOutcome::Failure),
        Some("unknown") => Some(TraceOutcome::Unknown),
        Some(other) => return Err(Refused::param("outcome", format!("`{other}` is no outcome"))),
    };
    Ok(TraceQuery {
        tenant: Some(tenant.clone()),
        category: one(query, "task", "a type of task")?,
        config: one(query, "config", "the hash of a config")?,
        outcome,
        since: one(query, "since", "a time such as 2026-03-14 or 2026-03-14T15:00:00Z")?,
        until: one(query, "until", "a time such as 2026-03-14 or 2026-03-14T15:00:00Z")?,
        reward_min: one(query, "reward_min", "a number")?.map(|Finite(number)| number),
        reward_max: one(query, "reward_max", "a number")?.map(|Finite(number)| number),
        field: None,
    })
}

/// What an address has under a name, where it has something.
pub(super) fn one<T: FromStr>(query: &Query, name: &str, wanted: &str) -> Result<Option<T>, Refused> {
    let wrong = |text: &str| Refused::param(name, format!("`{text}` under {name} is not {wanted}"));
    query.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// A number that can be compared with others.
struct Finite(f64);

impl FromStr for Finite {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.parse().ok().filter(|number: &f64| number.is_finite()).map(Self).ok_or(())
    }
}

/// Traces in which these words stand, among the newest that fit, and how many were looked at.
async fn look_for(
    gateway: &Gateway,
    words: &str,
    wanted: &TraceQuery,
    mut after: Option<Cursor>,
) -> Result<(Part<TraceHead>, usize), StoreError> {
    let words = words.to_lowercase();
    let (mut items, mut n_looked, began) = (Vec::new(), 0, gateway.now());
    loop {
        let (part, _) = documents::traces(gateway.record().store(), wanted, after, N_LOOKED).await?;
        n_looked += part.items.len();
        items.extend(part.items.iter().filter(|trace| has(trace, &words)).map(Trace::head));
        after = part.next;
        let is_enough = items.len() >= N_TRACES as usize || n_looked >= N_LOOKED_MAX;
        if after.is_none() || is_enough || gateway.now().millis_since(began) > LOOK_MS_MAX {
            return Ok((Part { items, next: after }, n_looked));
        }
    }
}

/// Whether these words stand in what was said, done, thought or noted.
fn has(trace: &Trace, words: &str) -> bool {
    let is_in = |text: &str| text.to_lowercase().contains(words);
    let is_in_value = |value: &Value| value.as_str().map_or_else(|| is_in(&value.to_string()), is_in);
    let messages = trace.turns().flat_map(|turn| turn.input.iter().chain([&turn.answer]));
    let mut messages = messages.chain(trace.segments.iter().flat_map(|segment| &segment.tail));
    messages.any(|message| {
        is_in(&message.content.text())
            || message.reasoning.as_deref().is_some_and(is_in)
            || message.tool_calls.iter().any(|call| is_in(&call.name) || is_in(&call.arguments))
    }) || trace.turns().any(|turn| turn.errors.iter().any(|error| is_in(&error.kind) || is_in(&error.message)))
        || trace.metadata.values().any(is_in_value)
        || trace.scenario.as_ref().is_some_and(|scenario| is_in(scenario.as_str()))
        || trace.rewards.iter().any(|reward| reward.explanation.as_deref().is_some_and(is_in))
}

fn hint(query: &Query) -> Html {
    let filters = ["q", "task", "outcome", "reward_min", "reward_max", "since", "until", "config", "after"];
    if filters.iter().any(|name| query.get(name).is_some()) {
        return html!("No trace fits. Take a filter away, or look further back.");
    }
    let mut page = html!("No trace yet. They come from clients that ask this server, from ");
    html!(page, "<code>hone trace import</code> and from runs.");
    page
}

fn form(query: &Query) -> Html {
    let value = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let mut page = html!("<form class=\"filters\" method=\"get\" action=\"/dashboard/traces\" role=\"search\">");
    html!(
        page,
        "<label class=\"grow\">Words, an id or the name of an episode<input type=\"search\" name=\"q\" value=\"{}\"></label>",
        value("q")
    );
    html!(page, "<label>Task<input name=\"task\" value=\"{}\" size=\"12\"></label>", value("task"));
    html!(page, "<label>Outcome<select name=\"outcome\"><option value=\"\">any</option>");
    for outcome in ["success", "failure", "unknown"] {
        let selected = if query.get("outcome") == Some(outcome) { html!(" selected") } else { html!("") };
        html!(page, "<option{}>{}</option>", selected, outcome);
    }
    html!(page, "</select></label><label>Reward from<input name=\"reward_min\" value=\"{}\" size=\"5\" ", value("reward_min"));
    html!(
        page,
        "inputmode=\"decimal\"></label><label>to<input name=\"reward_max\" value=\"{}\" size=\"5\" ",
        value("reward_max")
    );
    html!(page, "inputmode=\"decimal\"></label><label>Since<input name=\"since\" value=\"{}\" size=\"11\" ", value("since"));
    html!(
        page,
        "placeholder=\"2026-03-14\"></label><label>Until<input name=\"until\" value=\"{}\" size=\"11\"></label>",
        value("until")
    );
    if let Some(config) = query.get("config") {
        html!(page, "<label>Config<input name=\"config\" value=\"{}\" size=\"12\"></label>", config);
    }
    html!(page, "<button>Find</button></form>");
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Config, Message, Role, Segment, Turn};

    #[test]
    fn filters_that_cannot_be_followed_are_named() {
        let tenant = Tenant::default();
        for (text, expected) in [
            ("outcome=good", "`good` is no outcome"),
            ("reward_min=much", "`much` under reward_min is not a number"),
            ("reward_min=NaN", "`NaN` under reward_min is not a number"),
            ("reward_max=inf", "`inf` under reward_max is not a number"),
            ("since=yesterday", "`yesterday` under since is not a time"),
            ("config=x", "`x` under config is not the hash of a config"),
        ] {
            let error = filters(&Query::read(text), &tenant).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let query = filters(&Query::read("task=refund&outcome=failure&reward_max=0.5&since=2026-03-14"), &tenant).unwrap();
        assert_eq!((query.tenant, query.outcome, query.reward_max), (Some(tenant), Some(TraceOutcome::Failure), Some(0.5)));
    }

    #[test]
    fn words_are_found_wherever_they_stand() {
        let mut trace =
            Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
        let turn = Turn::new(vec![Message::text(Role::User, "My Order is late")], Message::text(Role::Assistant, "Sorry"));
        trace.segments = vec![Segment { turns: vec![turn], ..Segment::default() }];
        trace.metadata.insert("customer".into(), "Acme".into());
        for (words, expected) in [("order", true), ("sorry", true), ("acme", true), ("refund", false)] {
            assert_eq!(has(&trace, words), expected, "{words}");
        }
    }
}
