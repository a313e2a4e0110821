//! Groups: several traces of one scenario, side by side with what each earned.

use super::figure::{ago, count, figure, known};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned};
use super::query::Query;
use super::records::{asked_after, cursor_text, left_out, of_tenant};
use super::session::Reader;
use super::table::Table;
use super::traces::{link, outcome, tail};
use super::turn;
use crate::documents;
use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use hone_trace::store::{Kind, Store, StoreError};
use hone_trace::{ConfigHash, Group, Message, Reward, TraceHead};

/// Groups of one page.
const N_GROUPS: usize = 50;
/// Members that are shown side by side.
const N_MEMBERS: usize = 32;

pub(crate) async fn groups(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    RawQuery(query): RawQuery,
) -> Result<Response, Turned> {
    let after = asked_after(&Query::read(query.as_deref().unwrap_or_default())).seen_by(&viewer)?;
    let (store, tenant) = (gateway.record().store(), &viewer.identity.tenant);
    let found = of_tenant(store, Kind::Group, tenant, after, N_GROUPS, documents::word).await.seen_by(&viewer)?;
    let groups: &[Group] = &found.items;
    let mut main =
        html!("<h1>Groups</h1><p class=\"quiet\">Several traces of one scenario: what is judged and learned from together.</p>");
    if groups.is_empty() {
        html!(main, "<p class=\"empty\">No group yet. <code>hone rollout</code> and <code>hone train grpo</code> make them.</p>");
    } else {
        html!(main, "{}", table(groups, &gateway));
    }
    html!(main, "{}", left_out(&found.damaged));
    if let Some(next) = found.next {
        html!(main, "<nav class=\"pages\" aria-label=\"Older and newer\">");
        html!(main, "<a rel=\"next\" href=\"/dashboard/groups?after={}\">Older</a></nav>", cursor_text(next));
    }
    Ok(Page::new(Place::Groups, "Groups", main).shown(Some(&viewer)))
}

fn table(groups: &[Group], gateway: &Gateway) -> Html {
    let mut table = Table::new("Groups, newest first", &["Group", "Made", "Scenario", "Policy", "#Traces"]);
    for group in groups {
        let link = html!("<a href=\"/dashboard/groups/{}\"><code>{}</code></a>", group.id, tail(&group.id.to_string()));
        let scenario = group.scenario.as_ref().map(ToString::to_string).unwrap_or_default();
        let policy = group.policy.as_deref().map(policy).unwrap_or_default();
        table.row(&[&link, &ago(group.at, gateway.now()), &scenario, &policy, &group.traces.len()]);
    }
    table.shown()
}

pub(crate) async fn group(
    State(gateway): State<Gateway>,
    Reader(viewer): Reader,
    Path(id): Path<String>,
) -> Result<Response, Turned> {
    let missing = || Refused::NotFound("there is no such group".into());
    let store = gateway.record().store();
    let document = store.document(Kind::Group, &id).await.seen_by(&viewer)?;
    let document = document.filter(|document| document.tenant == viewer.identity.tenant).ok_or_else(missing).seen_by(&viewer)?;
    let group: Group = document.word().seen_by(&viewer)?;
    let members = members(store, &group).await.seen_by(&viewer)?;
    let mut main =
        html!("<p class=\"crumbs\"><a href=\"/dashboard/groups\">Groups</a></p><h1>Group <code>{}</code></h1>", tail(&id));
    html!(main, "<p>{} traces", count(group.traces.len() as u64));
    if let Some(scenario) = &group.scenario {
        html!(main, " of <b>{}</b>", scenario);
    }
    if let Some(policy) = &group.policy {
        html!(main, " by {}", self::policy(policy));
    }
    html!(main, "</p>");
    let rewards: Vec<f64> = members.iter().filter_map(|member| member.head.reward).collect();
    let mean = (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64);
    let n_left_out = group.traces.len() - members.len();
    if let Some(mean) = mean {
        let is_equal = n_left_out == 0 && rewards.iter().all(|reward| *reward == rewards[0]);
        let learned = if is_equal { " All earned the same: there is nothing to learn from it." } else { "" };
        let of = if n_left_out > 0 { format!(" of the {} shown", members.len()) } else { String::new() };
        html!(main, "<p>Mean reward <b class=\"n\">{}</b>{}.{}</p>", figure(mean), of, learned);
    }
    html!(
        main,
        "<div class=\"sides\" role=\"list\" tabindex=\"0\" aria-label=\"Members, in the order in which they were sampled\">"
    );
    members.iter().for_each(|member| html!(main, "{}", side(member, mean)));
    html!(main, "</div>");
    if n_left_out > 0 {
        html!(main, "<p class=\"quiet\">{} not shown.</p>", turn::counted(n_left_out, "further member"));
    }
    Ok(Page::new(Place::Groups, format!("Group {}", tail(&id)), main).shown(Some(&viewer)))
}

/// Whose traces these are: what the group calls it, or the way to the traces of a config.
fn policy(named: &str) -> Html {
    match named.parse::<ConfigHash>() {
        Ok(hash) => html!("<a href=\"/dashboard/traces?config={}\"><code>{}</code></a>", hash, tail(named)),
        Err(_) => html!("{}", named),
    }
}

/// What is shown of a member; the rest of it may be large.
struct Member {
    head: TraceHead,
    reward: Option<Reward>,
    /// What it said last.
    answer: Option<Message>,
}

async fn members(store: &dyn Store, group: &Group) -> Result<Vec<Member>, StoreError> {
    let mut found = Vec::new();
    for &id in group.traces.iter().take(N_MEMBERS) {
        let trace = match store.trace(id).await {
            // One that is damaged is counted with those that are not shown.
            Err(StoreError::Damaged { .. }) => None,
            trace => trace?.filter(|trace| trace.tenant == group.tenant),
        };
        found.extend(trace.map(|trace| Member {
            head: trace.head(),
            reward: trace.reward().cloned(),
            answer: trace.turns().last().map(|turn| turn.answer.clone()),
        }));
    }
    Ok(found)
}

/// One member: its score, how far that is from the mean, and how it ended.
fn side(member: &Member, mean: Option<f64>) -> Html {
    let Member { head, reward, answer } = member;
    let mut page = html!("<article class=\"side\" role=\"listitem\"><h2>{}</h2>", link(head.id));
    html!(page, "<p class=\"score\"><b class=\"n\">{}</b>", known(head.reward));
    if let (Some(reward), Some(mean)) = (head.reward, mean) {
        let advantage = reward - mean;
        let (class, sign) = if advantage < 0.0 { ("bad", "") } else { ("good", "+") };
        html!(page, " <span class=\"tag {}\" title=\"reward less the mean of the group\">", class);
        html!(page, "{}{}</span>", sign, figure(advantage));
    }
    html!(page, "</p><p>{} <span class=\"quiet\">", outcome(head.outcome));
    html!(page, "{} turns · {} tokens</span></p>", head.n_turns, count(head.n_tokens));
    if let Some(reward) = reward {
        html!(page, "<dl class=\"parts\">");
        for part in &reward.components {
            html!(page, "<div><dt>{}</dt><dd class=\"n\">{}</dd></div>", part.name, figure(part.value));
        }
        html!(page, "</dl>");
        if let Some(words) = &reward.explanation {
            html!(page, "<blockquote>{}</blockquote>", turn::text(words));
        }
    }
    if let Some(answer) = answer {
        html!(page, "{}", turn::message(answer));
    }
    html!(page, "</article>");
    page
}
