//! Configs in use, with what is proposed in their place, its evidence, and what became of it.

use super::advice::{serving, unread};
use super::answer::WISHES;
use super::beside::{beside, of_types};
use super::figure::count;
use super::html::{Html, html};
use super::query::Query;
use super::records::{left_out, of_tenant};
use super::session::Viewer;
use super::table::Table;
use crate::advice::{self, Advised, Kept, Look, Used, kept, proposed};
use crate::error::Refused;
use crate::server::Gateway;
use hone_advise::{Proposal, Scope, aim, changes, described, percent, reached, short};
use hone_trace::store::{Kind, StoreError};
use hone_trace::{Answer, ConfigHash, Recommendation, RecommendationId};
use std::collections::BTreeSet;

/// Proposals that are shown of one in use.
const N_OFFERED: usize = 25;
/// Signs of each side of a difference.
const N_SIGNS: usize = 400;
/// Advice given before that is listed.
const N_BEFORE: usize = 50;

/// All configs in use, each with what is proposed and with those beside it.
pub(super) async fn shown(gateway: &Gateway, query: &Query, look: &Look, viewer: &Viewer) -> Result<Html, Refused> {
    let (mut page, by_config) = (Html::default(), look.seen.by_config());
    for (idx, one) in look.advised.iter().enumerate() {
        let id = format!("used-{idx}");
        html!(page, "<section aria-labelledby=\"{}\"><h2 id=\"{}\">", id, id);
        match &one.used {
            Used::Serves(agent, version) => html!(page, "In use: {} {} ", agent, version),
            Used::Asked => html!(page, "Asked for "),
            Used::Most => html!(page, "In use: the config with the most episodes "),
        }
        let rows = by_config.get(&one.from).map(Vec::as_slice).unwrap_or_default();
        html!(page, "<span class=\"quiet\">{}</span></h2><p>{}</p>", named(one.from, look), reached(rows));
        let offered = offered(gateway, query, look, one, viewer).await?;
        html!(page, "{}{}{}</section>", offered, beside(look, one), of_types(look, one));
    }
    if look.n_more_used > 0 {
        html!(page, "<p class=\"quiet\">{} more agents serve: choose one above.</p>", count(look.n_more_used as u64));
    }
    Ok(page)
}

/// A config as a link to its traces.
pub(super) fn named(config: ConfigHash, look: &Look) -> Html {
    let told = described(&config, look.seen.configs.get(&config));
    html!("<a href=\"/dashboard/traces?config={}\">{}</a>", config, told)
}

/// What is proposed in the place of a config.
async fn offered(gateway: &Gateway, query: &Query, look: &Look, one: &Advised, viewer: &Viewer) -> Result<Html, Refused> {
    let (mut page, mut n_rejected) = (Html::default(), 0);
    for proposal in one.advice.proposals.iter().take(N_OFFERED) {
        let new = proposed(look, one, proposal, &viewer.identity.tenant);
        let there = match kept(gateway.record().store(), new.id, &viewer.identity.tenant).await {
            Ok(there) => Ok(there),
            Err(StoreError::Damaged { .. }) => Err(()),
            Err(error) => return Err(unread(&error)),
        };
        if there.as_ref().is_ok_and(|there| answer_to(there.as_ref()) == Some(Answer::Rejected)) {
            n_rejected += 1;
            continue;
        }
        html!(page, "{}", head(proposal, &new));
        html!(page, "<p>{}.</p>{}", proposal.compared.because(), differences(look, one.from, proposal.to));
        match there {
            Err(()) => {
                html!(page, "<p><span class=\"tag warn\">damaged</span> What became of it cannot be read: ");
                html!(page, "<code>hone store verify</code> names the record.</p></article>");
            }
            Ok(Some(taken)) if taken.recommendation.answer == Some(Answer::Accepted) => {
                let next = next(gateway, &taken.recommendation).await?;
                html!(page, "{}</article>", next);
            }
            Ok(there) => html!(page, "{}</article>", wishes(query, &new, there.is_some(), viewer)),
        }
    }
    if one.advice.proposals.len() > N_OFFERED {
        let n_more = count((one.advice.proposals.len() - N_OFFERED) as u64);
        html!(page, "<p class=\"quiet\">And {} more proposals for types of task: choose one above.</p>", n_more);
    }
    if n_rejected > 0 {
        let proposals = if n_rejected == 1 { "proposal was" } else { "proposals were" };
        html!(page, "<p class=\"quiet\">{} {} turned down before.</p>", n_rejected, proposals);
    }
    if one.advice.proposals.is_empty() && one.advice.candidates.iter().any(|candidate| candidate.scope == Scope::All) {
        html!(
            page,
            "<p class=\"empty\">Nothing is proposed: no other config is surely better, or as good and surely cheaper.</p>"
        );
    }
    Ok(page)
}

fn answer_to(there: Option<&Kept>) -> Option<Answer> {
    there.and_then(|there| there.recommendation.answer)
}

fn head(proposal: &Proposal, new: &Recommendation) -> Html {
    let tasks = proposal.scope.category().map(|category| format!(" for {category}")).unwrap_or_default();
    let id = new.id.to_string();
    let mut page = html!("<article class=\"advice\"><h3><b>{}</b>{} ", aim(proposal.kind), tasks);
    html!(page, "<span class=\"quiet\">sure to {} · <code>{}</code></span></h3>", percent(proposal.confidence), short(&id));
    page
}

/// What is different between two configs.
fn differences(look: &Look, from: ConfigHash, to: ConfigHash) -> Html {
    let known = look.seen.configs.get(&from).zip(look.seen.configs.get(&to));
    let Some((now, then)) = known else {
        return html!(
            "<p class=\"quiet\">{} → {}: what is different is not on the record.</p>",
            named(from, look),
            named(to, look)
        );
    };
    let mut table = Table::new("What is different", &["What", "Now", "Proposed"]).slim();
    for change in changes(now, then) {
        let side = |side: Option<String>| side.map_or_else(|| "not set".to_owned(), |text| cut(&text));
        table.row(&[&change.what, &side(change.from), &side(change.to)]);
    }
    table.shown()
}

/// As much of a text as is shown: the form of a tool may be long.
fn cut(text: &str) -> String {
    let shown: String = text.chars().take(N_SIGNS).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}

/// How a proposal is taken, and by whom.
fn wishes(query: &Query, new: &Recommendation, is_kept: bool, viewer: &Viewer) -> Html {
    let id = new.id.to_string();
    if viewer.may_deploy() {
        return html!("<p class=\"wishes\">{}</p>", buttons(query, new.id));
    }
    let first = if is_kept { "" } else { "hone advise && " };
    html!("<p class=\"quiet\">Who may decide takes it here, or with <code>{}hone advise accept {}</code>.</p>", first, short(&id))
}

fn buttons(query: &Query, id: RecommendationId) -> Html {
    let mut page = Html::default();
    for wish in WISHES {
        let query = plain(query).with("ask", Some(wish.word)).with("id", Some(&id.to_string()));
        html!(page, "<a class=\"button\" href=\"/dashboard/advice{}\">{}</a> ", query, wish.says);
    }
    page
}

/// What is looked at, without what was asked for there.
pub(super) fn plain(query: &Query) -> Query {
    query.with("ask", None).with("id", None).with("done", None)
}

/// What is to be done with advice that was taken.
async fn next(gateway: &Gateway, taken: &Recommendation) -> Result<Html, Refused> {
    let mut page = html!("<p><span class=\"tag good\">taken</span></p>");
    let serving = serving(gateway, &taken.tenant);
    let steps = match advice::steps(gateway.record().store(), taken, &serving).await {
        Ok(steps) => steps,
        Err(error @ StoreError::Damaged { .. }) => {
            html!(page, "<p class=\"quiet\">{}.</p>", unread(&error));
            return Ok(page);
        }
        Err(error) => return Err(unread(&error)),
    };
    html!(page, "<ul class=\"plain\">");
    for step in steps {
        match step.command() {
            Some(command) => html!(page, "<li>{} <code>{}</code></li>", step, command),
            None => html!(page, "<li>{}</li>", step),
        }
    }
    html!(page, "</ul>");
    Ok(page)
}

/// Advice that is on the record and is not shown above.
pub(super) async fn before(gateway: &Gateway, query: &Query, look: &Look, viewer: &Viewer) -> Result<Html, Refused> {
    let tenant = &viewer.identity.tenant;
    let mut page = html!("<section aria-labelledby=\"before\"><h2 id=\"before\">Advice given before</h2>");
    let found = of_tenant(gateway.record().store(), Kind::Recommendation, tenant, None, N_BEFORE, Kept::of).await;
    let found = found.map_err(|error| unread(&error))?;
    let offered: BTreeSet<String> = look
        .advised
        .iter()
        .flat_map(|one| one.advice.proposals.iter().take(N_OFFERED).map(move |proposal| (one, proposal)))
        .map(|(one, proposal)| proposed(look, one, proposal, tenant).id.to_string())
        .collect();
    let is_shown = |one: &Recommendation| one.answer != Some(Answer::Rejected) && offered.contains(&one.id.to_string());
    let mut n_listed = 0;
    let mut table = Table::new("Advice, newest first", &["Advice", "For", "Tasks", "From", "To", "#Sure", "Answer", "Decide"]);
    for Kept { recommendation, .. } in found.items.iter().filter(|kept| !is_shown(&kept.recommendation)) {
        n_listed += 1;
        let (tag, decide) = match recommendation.answer {
            Some(Answer::Accepted) => (html!("<span class=\"tag good\">taken</span>"), Html::default()),
            Some(Answer::Rejected) => (html!("<span class=\"tag\">turned down</span>"), Html::default()),
            None if viewer.may_deploy() => (html!("open"), buttons(query, recommendation.id)),
            None => (html!("open"), Html::default()),
        };
        let tasks = recommendation.category.as_ref().map_or_else(|| "all".to_owned(), ToString::to_string);
        let id = html!("<code>{}</code>", short(&recommendation.id.to_string()));
        let [from, to] = [recommendation.from, recommendation.to].map(|config| named(config, look));
        let (aim, sure) = (aim(recommendation.kind), percent(recommendation.confidence));
        table.row(&[&id, &aim, &tasks, &from, &to, &sure, &tag, &decide]);
    }
    match n_listed {
        0 => html!(page, "<p class=\"empty\">No other advice is on the record.</p>"),
        _ => html!(page, "{}", table.shown()),
    }
    html!(page, "{}", left_out(&found.damaged));
    if found.next.is_some() {
        html!(page, "<p class=\"quiet\">Older ones: <code>hone advise list</code>.</p>");
    }
    html!(page, "</section>");
    Ok(page)
}
