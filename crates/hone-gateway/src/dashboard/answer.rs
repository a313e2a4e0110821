//! What somebody may decide about advice: first a page that asks whether that is wanted and names what follows, then the deed.
//!
//! An answer is the next revision of the advice in the store, written by the same code that `hone advise accept` uses. Advice that nobody has
//! written down yet is looked for again, and written down with its evidence: a form names it, and cannot make it up.

use super::advice::{asked, looked, serving, unread};
use super::html::{Html, html};
use super::page::{For, Page, Place, Turned, elsewhere};
use super::proposals::plain;
use super::query::Query;
use super::session::{Decider, Viewer};
use super::sign_in::form_of;
use crate::advice::{self, AnswerError, Asked, Kept, Look, TakeError, keep_one, kept, proposed};
use crate::error::Refused;
use crate::registry::AddError;
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use hone_advise::{aim, described, percent, short};
use hone_trace::store::{Kind, Store, StoreError};
use hone_trace::{Answer, Config, ConfigHash, Recommendation, RecommendationId};

/// How long looking for advice again may take: who decides waits for it once.
const LOOK_MS_MAX: f64 = 10_000.0;

/// What can be asked for.
pub(super) struct Wish {
    /// Its word in an address.
    pub(super) word: &'static str,
    /// What the button says.
    pub(super) says: &'static str,
    /// What is said when it is done.
    pub(super) done: &'static str,
    answer: Answer,
}

pub(super) const WISHES: [Wish; 2] = [
    Wish { word: "accept", says: "Take it", done: "Taken", answer: Answer::Accepted },
    Wish { word: "reject", says: "Turn it down", done: "Turned down", answer: Answer::Rejected },
];

/// Advice that somebody means.
enum Meant {
    /// It is on the record.
    Kept(Kept),
    /// It was found, and nobody has written it down: which of the configs in use it is for, and which of its proposals it is.
    Found(Box<Look>, usize, usize),
}

/// The page that asks whether this is wanted.
pub(super) async fn asking(
    gateway: &Gateway,
    query: &Query,
    asked: &Asked,
    word: &str,
    viewer: &Viewer,
) -> Result<Response, Turned> {
    if !viewer.may_deploy() {
        return Err(Refused::Role).seen_by(viewer);
    }
    let wish = wish(Some(word)).seen_by(viewer)?;
    let id = id(query.get("id")).seen_by(viewer)?;
    let recommendation = match meant(gateway, asked, id).await.seen_by(viewer)? {
        Meant::Kept(kept) => kept.recommendation,
        Meant::Found(look, used, proposal) => {
            let one = &look.advised[used];
            proposed(&look, one, &one.advice.proposals[proposal], &asked.tenant)
        }
    };
    is_open(&recommendation, wish).seen_by(viewer)?;
    let back = format!("/dashboard/advice{}", plain(query));
    let tasks = recommendation.category.as_ref().map(|category| format!(" for {category}")).unwrap_or_default();
    let mut main = html!("<p class=\"crumbs\"><a href=\"{}\">Advice</a></p>", back);
    html!(main, "<form class=\"ask\" method=\"post\" action=\"{}\"><h1>{}?</h1><p>", back, wish.says);
    html!(main, "<b>{}</b>{}, sure to {}: ", aim(recommendation.kind), tasks, percent(recommendation.confidence));
    let from = name(gateway.record().store(), recommendation.from).await;
    let to = name(gateway.record().store(), recommendation.to).await;
    html!(main, "{} → {}.</p><p>{}</p>", from, to, follows(gateway, &recommendation, wish));
    html!(
        main,
        "<input type=\"hidden\" name=\"token\" value=\"{}\"><input type=\"hidden\" name=\"ask\" value=\"{}\">",
        viewer.form_token(),
        wish.word
    );
    html!(main, "<input type=\"hidden\" name=\"id\" value=\"{}\">", id);
    html!(main, "<p class=\"wishes\"><button class=\"strong\">Yes, {}</button> ", wish.says.to_lowercase());
    html!(main, "<a class=\"button\" href=\"{}\">No, leave it</a></p></form>", back);
    Ok(Page::new(Place::Advice, format!("{}?", wish.says), main).shown(Some(viewer)))
}

fn wish(word: Option<&str>) -> Result<&'static Wish, Refused> {
    let word = word.unwrap_or_default();
    let found = WISHES.iter().find(|wish| wish.word == word);
    found.ok_or_else(|| Refused::param("ask", format!("`{word}` cannot be asked for")))
}

fn id(text: Option<&str>) -> Result<RecommendationId, Refused> {
    let id = text.and_then(|text| text.parse().ok());
    id.ok_or_else(|| Refused::param("id", "it does not say which advice is meant"))
}

/// Refuses another answer than the one that was given: somebody may have been first.
fn is_open(recommendation: &Recommendation, wish: &Wish) -> Result<(), Refused> {
    let other = WISHES.iter().find(|other| recommendation.answer == Some(other.answer) && other.answer != wish.answer);
    match other {
        Some(other) => {
            let said = format!("this advice was answered already: {}; `hone advise` can change that", other.done.to_lowercase());
            Err(Refused::param("ask", said))
        }
        None => Ok(()),
    }
}

/// A config by its hash and what is best known of it.
async fn name(store: &dyn Store, config: ConfigHash) -> String {
    let document = store.document(Kind::Config, &config.to_string()).await.ok().flatten();
    described(&config, document.and_then(|document| document.word::<Config>().ok()).as_ref())
}

/// What follows from it.
fn follows(gateway: &Gateway, recommendation: &Recommendation, wish: &Wish) -> Html {
    if wish.answer == Answer::Rejected {
        return html!("It is not proposed again, and stays on the record as turned down.");
    }
    if let Some(category) = &recommendation.category {
        return html!(
            "It is kept as taken. It is for tasks of type {}: make the config an agent of its own, and let <code>hone serve --route</code> send such tasks to it.",
            category
        );
    }
    let serving = serving(gateway, &recommendation.tenant);
    let agents: Vec<&str> =
        serving.iter().filter(|one| one.config == recommendation.from).map(|one| one.agent.as_str()).collect();
    if agents.is_empty() {
        let config = recommendation.from.to_string();
        return html!("It is kept as taken. No agent runs on config {}: change it where it is set.", short(&config));
    }
    html!(
        "The proposed config becomes a version of {}, and gets no traffic by that: the canary that hands it over is started by <code>hone deploy start</code>.",
        agents.join(", ")
    )
}

/// Advice that is on the record, or that can still be found.
async fn meant(gateway: &Gateway, asked: &Asked, id: RecommendationId) -> Result<Meant, Refused> {
    match kept(gateway.record().store(), id, &asked.tenant).await {
        Ok(Some(kept)) => return Ok(Meant::Kept(kept)),
        Ok(None) => {}
        Err(error) => return Err(unread(&error)),
    }
    let look = looked(gateway, asked, LOOK_MS_MAX).await?;
    for (used, one) in look.advised.iter().enumerate() {
        let is_meant = |proposal| proposed(&look, one, proposal, &asked.tenant).id == id;
        if let Some(proposal) = one.advice.proposals.iter().position(is_meant) {
            return Ok(Meant::Found(Box::new(look), used, proposal));
        }
    }
    Err(Refused::NotFound("this is not proposed any more; look again".into()))
}

pub(crate) async fn answer(
    State(gateway): State<Gateway>,
    Decider(viewer): Decider,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Turned> {
    let sent = form_of(&gateway, body).await.seen_by(&viewer)?;
    viewer.confirm(&headers, sent.get("token")).seen_by(&viewer)?;
    let wish = wish(sent.get("ask")).seen_by(&viewer)?;
    let id = id(sent.get("id")).seen_by(&viewer)?;
    let query = Query::read(query.as_deref().unwrap_or_default());
    let asked = asked(&gateway, &query, &viewer.identity.tenant).seen_by(&viewer)?;
    let recommendation = written(&gateway, &asked, id, wish).await.seen_by(&viewer)?;
    let (done, by) = (wish.done.to_lowercase(), &viewer.identity.name);
    gateway.log(format!("advice {} was {done} at the dashboard by {by}", short(&id.to_string())));
    if wish.answer == Answer::Accepted {
        taken(&gateway, &recommendation).await.seen_by(&viewer)?;
        gateway.agents().grown.notify_one();
    }
    Ok(elsewhere(&format!("/dashboard/advice{}", plain(&query).with("done", Some(wish.word)))))
}

/// Writes the answer down, and before it the advice where nobody has.
async fn written(gateway: &Gateway, asked: &Asked, id: RecommendationId, wish: &Wish) -> Result<Recommendation, Refused> {
    let store = gateway.record().store();
    let found = match meant(gateway, asked, id).await? {
        Meant::Kept(kept) => kept,
        Meant::Found(look, used, proposal) => {
            let one = &look.advised[used];
            keep_one(store, &look, one, &one.advice.proposals[proposal], &asked.tenant).await.map_err(unwritten)?;
            let there = kept(store, id, &asked.tenant).await.map_err(|error| unread(&error))?;
            there.ok_or(Refused::Store)?
        }
    };
    is_open(&found.recommendation, wish)?;
    advice::answer(store, found, wish.answer).await.map_err(unwritten)
}

fn unwritten(error: AnswerError) -> Refused {
    match error {
        AnswerError::Busy => Refused::Unavailable("somebody else keeps writing to this advice; try again".into()),
        AnswerError::Store(error @ StoreError::Damaged { .. }) => unread(&error),
        AnswerError::Store(_) => Refused::Store,
    }
}

/// Makes the proposed config a version of the agents that it is for.
async fn taken(gateway: &Gateway, recommendation: &Recommendation) -> Result<(), Refused> {
    let store = gateway.record().store();
    let serving = advice::serving(store, &recommendation.tenant).await.map_err(|error| unread(&error))?;
    let steps = advice::take(store, recommendation, &serving, None, gateway.now()).await;
    steps.map(drop).map_err(|error| match &error {
        TakeError::NoConfig(_, agent) => {
            let by_hand = format!("add it by hand with `hone deploy add {agent} VERSION --model NAME`");
            Refused::NotFound(format!("it is taken, but {error}: {by_hand}"))
        }
        TakeError::Version { error: AddError::Store(_), .. } => Refused::Store,
        TakeError::Version { .. } => Refused::Unavailable(format!("it is taken, but not added: {error}")),
        TakeError::Store(error) => unread(error),
    })
}
