//! What somebody may decide about a canary: first a page that asks whether that is wanted and names what follows, then the deed.
//!
//! A decision is a line of the log of agents, written by the same code that `hone deploy` uses. It names the canary that was
//! looked at, so that it cannot hit another that began meanwhile.

use super::agent::missing;
use super::agents::{address, is_running, word};
use super::figure::percent;
use super::html::html;
use super::page::{For, Page, Place, Turned, elsewhere};
use super::session::{Decider, Viewer};
use super::sign_in::form_of;
use crate::agents::Entry;
use crate::error::Refused;
use crate::registry::{self, AskError};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use hone_arbiter::canary::{Command, State as Stands};
use hone_trace::{AgentName, EventId, Tenant};

/// What can be asked for: its word in an address, what the button says, and the command.
pub(super) const WISHES: [(&str, &str, Command); 4] = [
    ("promote", "Promote", Command::Promote),
    ("rollback", "Roll back", Command::Abort),
    ("pause", "Pause", Command::Pause),
    ("resume", "Resume", Command::Resume),
];

/// Whether this can be asked of a canary that stands so.
pub(super) fn is_possible(command: Command, state: Stands) -> bool {
    match command {
        Command::Pause => state == Stands::Running,
        Command::Resume => state == Stands::Paused,
        Command::Promote | Command::Abort => true,
    }
}

/// The page that asks whether this is wanted.
pub(super) fn asking(name: &AgentName, entry: &Entry, asked: &str, viewer: &Viewer) -> Result<Response, Turned> {
    if !viewer.may_deploy() {
        return Err(Refused::Role).seen_by(viewer);
    }
    let wish = WISHES.iter().find(|wish| wish.0 == asked);
    let (ask, says, command) =
        *wish.ok_or_else(|| Refused::param("ask", format!("`{asked}` cannot be asked for"))).seen_by(viewer)?;
    let canary = entry.canary.as_ref().filter(|canary| is_running(canary));
    let canary = canary.ok_or_else(|| Refused::NotFound(format!("no canary of `{name}` runs any more"))).seen_by(viewer)?;
    if !is_possible(command, canary.state) {
        let message = format!("the canary of `{name}` is {}", word(canary.state));
        return Err(Refused::param("ask", message)).seen_by(viewer);
    }
    let (from, to) = (&canary.from, &canary.to);
    let follows = match command {
        Command::Abort => {
            format!("{from} gets all of the traffic at once, and {to} none. A canary that was taken back stays so.")
        }
        Command::Promote => {
            format!("{to} goes to its next share, or from the last one to all of the traffic, without waiting for evidence.")
        }
        Command::Pause => {
            format!("{to} stays at {} until somebody moves it; harm still takes it back.", percent(canary.report.share))
        }
        Command::Resume => "The evidence decides again.".to_owned(),
    };
    let mut main = html!("<p class=\"crumbs\"><a href=\"{}\">{}</a></p>", address(name), name);
    html!(
        main,
        "<form class=\"ask\" method=\"post\" action=\"{}\"><h1>{} {} of {}?</h1><p>{}</p>",
        address(name),
        says,
        to,
        name,
        follows
    );
    html!(
        main,
        "<input type=\"hidden\" name=\"token\" value=\"{}\"><input type=\"hidden\" name=\"ask\" value=\"{}\">",
        viewer.form_token(),
        ask
    );
    html!(main, "<input type=\"hidden\" name=\"canary\" value=\"{}\">", canary.id);
    let class = if command == Command::Abort { "bad" } else { "strong" };
    html!(main, "<p class=\"wishes\"><button class=\"{}\">Yes, {}</button> ", class, says.to_lowercase());
    html!(main, "<a class=\"button\" href=\"{}\">No, leave it</a></p></form>", address(name));
    Ok(Page::new(Place::Agents, format!("{says}?"), main).shown(Some(viewer)))
}

pub(crate) async fn decide(
    State(gateway): State<Gateway>,
    Decider(viewer): Decider,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Turned> {
    let sent = form_of(&gateway, body).await.seen_by(&viewer)?;
    viewer.confirm(&headers, sent.get("token")).seen_by(&viewer)?;
    let wish = WISHES.iter().find(|wish| sent.get("ask") == Some(wish.0));
    let (ask, _, command) = *wish.ok_or_else(|| Refused::param("ask", "it does not say what is asked for")).seen_by(&viewer)?;
    let canary = sent.get("canary").and_then(|text| text.parse().ok());
    let canary: EventId =
        canary.ok_or_else(|| Refused::param("canary", "it does not say which canary is meant")).seen_by(&viewer)?;
    let name = AgentName::new(name).map_err(|_| missing()).seen_by(&viewer)?;
    ask_for(&gateway, &name, canary, command, &viewer.identity.tenant).await.seen_by(&viewer)?;
    gateway.log(format!("{ask} of {name} was asked for at the dashboard by {}", viewer.identity.name));
    gateway.agents().grown.notify_one();
    Ok(elsewhere(&format!("{}?done={ask}", address(&name))))
}

async fn ask_for(gateway: &Gateway, name: &AgentName, canary: EventId, command: Command, tenant: &Tenant) -> Result<(), Refused> {
    let asked = registry::ask(gateway.record().store(), name, Some(canary), command, tenant, gateway.now()).await;
    asked.map(drop).map_err(|error| match error {
        AskError::NoAgent => missing(),
        AskError::NoCanary => Refused::NotFound(format!("this canary of `{name}` does not run any more")),
        AskError::NotPaused => Refused::param("ask", format!("the canary of `{name}` is not paused")),
        AskError::Store(_) => Refused::Store,
    })
}
