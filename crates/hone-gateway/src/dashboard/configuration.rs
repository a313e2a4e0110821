//! The configuration: every setting in effect with where it came from, who answers, and who has keys. Nothing secret is among it.

use super::figure::{count, to_second};
use super::html::{Html, html};
use super::page::{Page, Place, Turned};
use super::records::left_out;
use super::session::{Reader, Viewer};
use super::table::Table;
use crate::access::Access;
use crate::keys;
use crate::server::Gateway;
use axum::extract::State;
use axum::response::Response;

pub(crate) async fn configuration(State(gateway): State<Gateway>, Reader(viewer): Reader) -> Result<Response, Turned> {
    let keys = keys_of(&gateway, &viewer).await;
    let mut main = html!("<h1>Configuration</h1>{}{}", answers(&gateway, &viewer), keys);
    let dashboard = gateway.dashboard();
    if dashboard.tenant == viewer.identity.tenant {
        let table = Table::new("Settings", &["Setting", "Value", "From"]);
        let mut table = table.titled("In effect since the server was started; passwords are left out");
        for setting in &dashboard.settings {
            let (name, value) = (html!("<code>{}</code>", setting.name), html!("<code>{}</code>", setting.value));
            table.row(&[&name, &value, &html!("<span class=\"quiet\">{}</span>", setting.from)]);
        }
        html!(main, "<section aria-labelledby=\"settings\"><h2 id=\"settings\">Settings</h2>{}</section>", table.shown());
    }
    Ok(Page::new(Place::Configuration, "Configuration", main).shown(Some(&viewer)))
}

/// Who answers under which name, and what the server can bear.
fn answers(gateway: &Gateway, viewer: &Viewer) -> Html {
    let (limits, names) = (gateway.limits(), gateway.agents().names(&viewer.identity.tenant));
    let mut page = html!("<section aria-labelledby=\"server\"><h2 id=\"server\">This server</h2><dl class=\"notes\">");
    html!(page, "<div><dt>Version</dt><dd>{}</dd></div>", env!("CARGO_PKG_VERSION"));
    html!(page, "<div><dt>Models</dt><dd>{}</dd></div>", gateway.catalogue().names().collect::<Vec<_>>().join(", "));
    html!(
        page,
        "<div><dt>Agents and routes</dt><dd>{}</dd></div>",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    );
    html!(page, "<div><dt>Requests at once</dt><dd>{}</dd></div>", count(limits.n_requests_max as u64));
    let per_minute = limits.requests_per_minute.map_or_else(|| "any number".to_owned(), |n| count(u64::from(n.get())));
    html!(page, "<div><dt>Requests a minute of a key</dt><dd>{}</dd></div>", per_minute);
    let open = if matches!(*gateway.access(), Access::Open(_)) { "this machine, without a key" } else { "who has a key" };
    html!(page, "<div><dt>Open to</dt><dd>{}</dd></div></dl></section>", open);
    page
}

/// The keys of the tenant by name; neither they nor their hashes.
async fn keys_of(gateway: &Gateway, viewer: &Viewer) -> Html {
    let all = keys::all(gateway.record().store()).await.unwrap_or_default();
    let ours: Vec<_> = all.sound.iter().filter(|key| key.tenant == viewer.identity.tenant).collect();
    let damaged = all.damaged.iter().filter(|key| key.tenant.as_ref() == Some(&viewer.identity.tenant));
    let damaged = left_out(&damaged.map(|key| format!("key {}", key.name)).collect::<Vec<_>>());
    if ours.is_empty() && damaged == Html::default() {
        return Html::default();
    }
    let mut table = Table::new("Keys to this server", &["Name", "Role", "Made", "State"]);
    for key in ours {
        let state = key.revoked_at.map_or_else(|| "live".to_owned(), |at| format!("revoked {}", to_second(at)));
        table.row(&[&key.name, &key.role.as_str(), &to_second(key.at), &state]);
    }
    html!("<section aria-labelledby=\"keys\"><h2 id=\"keys\">Keys</h2>{}{}</section>", table.shown(), damaged)
}
