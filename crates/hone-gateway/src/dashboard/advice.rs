//! Advice: in which ways episodes fail, which configs do better than those in use, and what is proposed because of it.
//!
//! A page looks at the newest episodes, as many as it can in its time, and says how many these were. It writes nothing: what is decided
//! goes through a form ([`super::answer`]).

use super::answer::{WISHES, asking};
use super::figure::count;
use super::html::{Html, html, segment};
use super::page::{For, Page, Place, Turned};
use super::proposals;
use super::query::Query;
use super::session::{Reader, Viewer};
use super::table::Table;
use super::traces::{link, one};
use crate::advice::{self, Asked, Look, LookError, Seen, Serving};
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use hone_advise::{Cluster, Counts, percent};
use hone_trace::Tenant;
use hone_trace::store::StoreError;

/// Episodes that are looked at, the newest, and how long that may take.
const N_LOOKED_MAX: u32 = 10_000;
const LOOK_MS_MAX: f64 = 2_000.0;
/// Configs in use that are advised on at once.
const N_USED_MAX: usize = 10;
/// Ways to fail that are shown, and types of task of each.
const N_CLUSTERS: usize = 20;
const N_TASKS: usize = 3;

pub(crate) async fn advice(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let query = Query::read(query.as_deref().unwrap_or_default());
    let asked = asked(&gateway, &query, &viewer.identity.tenant).seen_by(&viewer)?;
    if let Some(word) = query.get("ask") {
        return asking(&gateway, &query, &asked, word, &viewer).await;
    }
    let look = looked(&gateway, &asked, LOOK_MS_MAX).await.seen_by(&viewer)?;
    let mut main =
        html!("<h1>Advice</h1><p class=\"quiet\">In which ways episodes fail, and which config would do better than the ");
    html!(main, "one in use, as <code>hone advise</code> finds it.</p>{}", form(&gateway, &query, &viewer));
    if let Some(done) = query.get("done").and_then(|word| WISHES.iter().find(|wish| wish.word == word)) {
        html!(main, "<p class=\"done\" role=\"status\">{}: written down.</p>", done.done);
    }
    if look.seen.is_empty() {
        html!(main, "<p class=\"empty\">{}</p>{}", hint(&query), damaged(&look.seen));
    } else {
        let proposals = proposals::shown(&gateway, &query, &look, &viewer).await.seen_by(&viewer)?;
        html!(main, "{}{}{}", seen(&look), failures(&look.clusters), proposals);
    }
    let before = proposals::before(&gateway, &query, &look, &viewer).await.seen_by(&viewer)?;
    html!(main, "{}", before);
    Ok(Page::new(Place::Advice, "Advice", main).shown(Some(&viewer)))
}

/// What an address asks for.
pub(super) fn asked(gateway: &Gateway, query: &Query, tenant: &Tenant) -> Result<Asked, Refused> {
    Ok(Asked {
        tenant: tenant.clone(),
        agent: one(query, "agent", "the name of an agent")?,
        from: None,
        metric: query.get("metric").map(str::to_owned),
        category: one(query, "task", "a type of task")?,
        thrift: gateway.agents().thrift,
        since: one(query, "since", "a time such as 2026-03-14 or 2026-03-14T15:00:00Z")?,
        until: one(query, "until", "a time such as 2026-03-14 or 2026-03-14T15:00:00Z")?,
        n_max: N_LOOKED_MAX,
        n_used_max: N_USED_MAX,
    })
}

/// Looks at the newest episodes for as long as that. A few may look at once, and who comes too many is told so.
pub(super) async fn looked(gateway: &Gateway, asked: &Asked, ms_max: f64) -> Result<Look, Refused> {
    let _place = gateway.looks().try_acquire().map_err(|_| Refused::Busy)?;
    let began = gateway.now();
    let go_on = |_| gateway.now().millis_since(began) < ms_max;
    let serving = serving(gateway, &asked.tenant);
    advice::look(gateway.record().store(), asked, &serving, go_on).await.map_err(|error| match error {
        LookError::NoAgent(_) | LookError::NoEpisode(_) => Refused::NotFound(error.to_string()),
        LookError::Store(error) => unread(&error),
    })
}

/// Why a page cannot be made of what the store says. What went wrong inside is not for the page.
pub(super) fn unread(error: &StoreError) -> Refused {
    Refused::Unavailable(match error {
        StoreError::Damaged { .. } => "a record behind this is damaged; `hone store verify` names it".into(),
        _ => "the store does not answer; try again".into(),
    })
}

/// The versions that serve, as this server knows them.
pub(super) fn serving(gateway: &Gateway, tenant: &Tenant) -> Vec<Serving> {
    let view = gateway.agents().view();
    let ours = view.agents.iter().filter(|(_, entry)| entry.tenant == *tenant);
    let serving = ours.filter_map(|(agent, entry)| {
        let config = entry.versions.get(&entry.live)?.config_hash;
        Some(Serving { agent: agent.clone(), version: entry.live.clone(), config })
    });
    serving.collect()
}

fn form(gateway: &Gateway, query: &Query, viewer: &Viewer) -> Html {
    let value = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let mut page = html!("<form class=\"filters\" method=\"get\" action=\"/dashboard/advice\" role=\"search\">");
    let view = gateway.agents().view();
    let ours = view.agents.iter().filter(|(_, entry)| entry.tenant == viewer.identity.tenant);
    html!(page, "<label>Agent<select name=\"agent\"><option value=\"\">all</option>");
    for (agent, _) in ours {
        let selected = if query.get("agent") == Some(agent.as_str()) { html!(" selected") } else { html!("") };
        html!(page, "<option{}>{}</option>", selected, agent);
    }
    html!(page, "</select></label><label>Task<input name=\"task\" value=\"{}\" size=\"12\"></label>", value("task"));
    html!(page, "<label>Weighed by<input name=\"metric\" value=\"{}\" size=\"12\" ", value("metric"));
    html!(
        page,
        "placeholder=\"how it ended\"></label><label>Since<input name=\"since\" value=\"{}\" size=\"11\" ",
        value("since")
    );
    html!(
        page,
        "placeholder=\"2026-03-14\"></label><label>Until<input name=\"until\" value=\"{}\" size=\"11\"></label>",
        value("until")
    );
    html!(page, "<button>Look</button></form>");
    page
}

fn hint(query: &Query) -> Html {
    if ["agent", "task", "since", "until"].iter().any(|name| query.get(name).is_some()) {
        return html!("No episode fits. Take a filter away, or look further back.");
    }
    let mut page = html!("No episodes to look at yet. They come from clients that ask this server, from ");
    html!(page, "<code>hone trace import</code> and from runs.");
    page
}

/// What was looked at, and what of it says nothing.
fn seen(look: &Look) -> Html {
    let (seen, counts) = (&look.seen, Counts::of(&look.seen.rows));
    let (n_episodes, n_configs) = (seen.n_episodes(), seen.by_config().len());
    let of = if seen.has_older { "the newest " } else { "" };
    let mut page = html!("<p>Looked at {}<b class=\"n\">{}</b>", of, episodes(n_episodes));
    html!(page, " of {} config{}", n_configs, if n_configs == 1 { "" } else { "s" });
    match counts.solved() {
        Some(solved) => {
            html!(page, "; {} with an outcome, <b class=\"n\">{}</b> solved.", count(counts.n_told as u64), percent(solved));
        }
        None => html!(page, "; none with an outcome."),
    }
    if seen.has_older {
        html!(page, " <span class=\"quiet\">There are older ones: <code>hone advise</code> looks further back.</span>");
    }
    html!(page, "</p><ul class=\"plain quiet\">");
    if counts.n_silent > 0 {
        html!(page, "<li>{} without an outcome: say how they went with ", episodes(counts.n_silent));
        html!(page, "<code>POST /v1/feedback</code>, or weigh them with <code>hone reward score</code>.</li>");
    }
    if counts.n_broken > 0 {
        html!(page, "<li>{} broke, and compare nothing.</li>", episodes(counts.n_broken));
    }
    if seen.n_studied > 0 {
        html!(page, "<li>{} of adapters on tasks that they may have learned from: left out.</li>", episodes(seen.n_studied));
    }
    html!(page, "</ul>{}", damaged(seen));
    page
}

fn damaged(seen: &Seen) -> Html {
    let records = match seen.n_damaged {
        0 => return Html::default(),
        1 => "1 record is".to_owned(),
        n => format!("{} records are", count(n as u64)),
    };
    let n_lost: usize = seen.lost.iter().map(|(_, n_episodes)| n_episodes).sum();
    let lost = if n_lost > 0 { format!(", and {} of configs among them", episodes(n_lost)) } else { String::new() };
    html!(
        "<p><span class=\"tag warn\">damaged</span> {} passed by{}: <code>hone store verify</code> names all.</p>",
        records,
        lost
    )
}

fn episodes(n: usize) -> String {
    format!("{} episode{}", count(n as u64), if n == 1 { "" } else { "s" })
}

/// In which ways they fail.
fn failures(clusters: &[Cluster]) -> Html {
    let n_failed: usize = clusters.iter().map(|cluster| cluster.n).sum();
    let mut page = html!("<section aria-labelledby=\"failures\"><h2 id=\"failures\">How they fail ");
    html!(page, "<span class=\"quiet\">{} failure{}</span></h2>", count(n_failed as u64), if n_failed == 1 { "" } else { "s" });
    if clusters.is_empty() {
        html!(page, "<p class=\"empty\">No episode failed, as far as anybody said.</p></section>");
        return page;
    }
    let columns = ["What happens", "#Failures", "#Share", "Where", "What may help", "Read the newest"];
    let mut table = Table::new("Ways to fail, the most frequent first", &columns);
    for cluster in clusters.iter().take(N_CLUSTERS) {
        let read: Html = cluster.traces.iter().map(|id| html!("<span class=\"whole\">{}</span> ", link(*id))).collect();
        let (n, share) = (count(cluster.n as u64), percent(cluster.share));
        table.row(&[&happens(cluster), &n, &share, &place(cluster), &cluster.remedy, &read]);
    }
    html!(page, "{}", table.shown());
    if clusters.len() > N_CLUSTERS {
        let n_more: usize = clusters[N_CLUSTERS..].iter().map(|cluster| cluster.n).sum();
        let ways = clusters.len() - N_CLUSTERS;
        html!(page, "<p class=\"quiet\">And {} more ways with {} failures: ", count(ways as u64), count(n_more as u64));
        html!(page, "<code>hone advise --json</code> has all.</p>");
    }
    html!(page, "</section>");
    page
}

fn happens(cluster: &Cluster) -> Html {
    let mut page = html!("{}", cluster.what);
    if !cluster.said.is_empty() {
        html!(page, ": <span class=\"quiet\">“{}”</span>", cluster.said);
    }
    if cluster.is_broken {
        html!(page, " <span class=\"tag warn\">not its doing</span>");
    }
    page
}

/// The types of task that a cluster is in, and the words that tell it from other episodes.
fn place(cluster: &Cluster) -> Html {
    let mut page = Html::default();
    for (idx, (task, n)) in cluster.categories.iter().take(N_TASKS).enumerate() {
        let between = if idx == 0 { "" } else { ", " };
        html!(page, "{}<a href=\"/dashboard/traces?task={}&amp;outcome=failure\">{}</a>", between, segment(task.as_str()), task);
        html!(page, " {}", count(*n as u64));
    }
    if !cluster.words.is_empty() {
        let between = if cluster.categories.is_empty() { "" } else { "; " };
        html!(page, "<span class=\"quiet\">{}asked about {}</span>", between, cluster.words.join(", "));
    }
    page
}
