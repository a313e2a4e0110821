//! The frame of every page: its head, the way around, and the headers under which a browser shows it.
//!
//! A page is whole without its script, and has no script or style of its own: a browser is told to run nothing else than the one
//! file.

use super::html::{Html, html, segment};
use super::session::{By, Viewer};
use crate::error::Refused;
use crate::metrics::Metrics;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hone_trace::store::StoreError;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const ICON: &str = include_str!("icon.svg");

/// What a browser may do with a page: show it, with our own style, script and pictures, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The places that the navigation leads to, by the order of the loop.
const PLACES: [(Place, &str, &str); 9] = [
    (Place::Overview, "/dashboard", "Overview"),
    (Place::Traces, "/dashboard/traces", "Traces"),
    (Place::Groups, "/dashboard/groups", "Groups"),
    (Place::Data, "/dashboard/data", "Data"),
    (Place::Runs, "/dashboard/runs", "Runs"),
    (Place::Evaluations, "/dashboard/evaluations", "Evaluations"),
    (Place::Agents, "/dashboard/agents", "Agents"),
    (Place::Advice, "/dashboard/advice", "Advice"),
    (Place::Configuration, "/dashboard/configuration", "Configuration"),
];

/// Where a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Traces,
    Groups,
    Data,
    Runs,
    Evaluations,
    Agents,
    Advice,
    Configuration,
    /// Signing in, and what went wrong.
    Outside,
}

/// A page that is ready to be sent.
pub(crate) struct Page {
    pub(crate) place: Place,
    pub(crate) title: String,
    pub(crate) main: Html,
    /// What moves, in one line: read aloud when it changes.
    pub(crate) moves: Option<String>,
}

impl Page {
    pub(crate) fn new(place: Place, title: impl Into<String>, main: Html) -> Self {
        Self { place, title: title.into(), main, moves: None }
    }

    /// A page that asks for itself again while somebody looks at it.
    pub(crate) fn moving(self, line: impl Into<String>) -> Self {
        Self { moves: Some(line.into()), ..self }
    }

    /// The response.
    pub(crate) fn shown(&self, viewer: Option<&Viewer>) -> Response {
        self.shown_as(StatusCode::OK, viewer)
    }

    fn shown_as(&self, status: StatusCode, viewer: Option<&Viewer>) -> Response {
        let mut page = Html::default();
        html!(page, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{} · hone</title>", self.title);
        html!(page, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        html!(page, "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"/dashboard/icon.svg\">");
        html!(page, "<link rel=\"stylesheet\" href=\"/dashboard/style.css?{}\">", version(STYLE));
        html!(page, "<script src=\"/dashboard/script.js?{}\" defer></script></head>", version(SCRIPT));
        html!(page, "<body><a class=\"skip\" href=\"#main\">Skip to the content</a>");
        if let Some(viewer) = viewer {
            html!(page, "{}", self.top(viewer));
        }
        html!(page, "<main id=\"main\" tabindex=\"-1\"{}>", if self.moves.is_some() { html!(" data-live") } else { html!("") });
        html!(page, "{}</main>", self.main);
        if let Some(line) = &self.moves {
            html!(page, "<p id=\"moves\" class=\"unseen\" role=\"status\" aria-live=\"polite\">{}</p>", line);
        }
        html!(page, "</body></html>\n");
        respond(status, "text/html; charset=utf-8", page.into_bytes(), "no-store")
    }

    fn top(&self, viewer: &Viewer) -> Html {
        let mut page =
            html!("<header class=\"top\"><a class=\"name\" href=\"/dashboard\">hone</a><nav aria-label=\"Pages\"><ul>");
        for (place, address, name) in PLACES {
            let current = if place == self.place { html!(" aria-current=\"page\"") } else { html!("") };
            html!(page, "<li><a href=\"{}\"{}>{}</a></li>", address, current, name);
        }
        html!(page, "</ul></nav><div class=\"who\"><span class=\"quiet\">{}", viewer.identity.tenant);
        if let By::Session(form) = &viewer.by {
            html!(page, " · {}</span><form method=\"post\" action=\"/dashboard/sign-out\">", viewer.identity.name);
            html!(
                page,
                "<input type=\"hidden\" name=\"token\" value=\"{}\"><button class=\"plain\">Sign out</button></form>",
                form
            );
        } else {
            html!(page, "</span>");
        }
        html!(page, "</div></header>");
        page
    }
}

/// A few signs that change with a file.
fn version(file: &str) -> String {
    blake3::hash(file.as_bytes()).to_hex().chars().take(12).collect()
}

pub(crate) async fn style() -> Response {
    respond(StatusCode::OK, "text/css; charset=utf-8", STYLE.into(), "public, max-age=31536000, immutable")
}

pub(crate) async fn script() -> Response {
    respond(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT.into(), "public, max-age=31536000, immutable")
}

pub(crate) async fn icon() -> Response {
    respond(StatusCode::OK, "image/svg+xml", ICON.into(), "public, max-age=86400")
}

/// Where somebody who comes to the server itself wants to go.
pub(crate) async fn door() -> Response {
    elsewhere("/dashboard")
}

fn respond(status: StatusCode, kind: &'static str, body: Vec<u8>, kept: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, kept),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Sends the browser to another page of ours.
pub(crate) fn elsewhere(address: &str) -> Response {
    let mut response = respond(StatusCode::SEE_OTHER, "text/plain", Vec::new(), "no-store");
    let address = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/dashboard"));
    response.headers_mut().insert(header::LOCATION, address);
    response
}

/// Why a page is not shown.
pub(crate) enum Turned {
    /// Who asks is not known yet; afterwards it comes back here.
    SignIn(String),
    Refused(Refused),
    /// Who asks is known, and what it asks for is refused.
    Known(Box<Viewer>, Refused),
}

impl Turned {
    pub(crate) fn count(&self, metrics: &Metrics) {
        match self {
            Self::SignIn(_) => metrics.refused(&Refused::Key),
            Self::Refused(refused) | Self::Known(_, refused) => metrics.refused(refused),
        }
    }
}

impl From<Refused> for Turned {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// What a page is made from, or why there is none, for one who looks.
pub(crate) trait For<T> {
    fn seen_by(self, viewer: &Viewer) -> Result<T, Turned>;
}

impl<T> For<T> for Result<T, Refused> {
    fn seen_by(self, viewer: &Viewer) -> Result<T, Turned> {
        self.map_err(|refused| Turned::Known(Box::new(viewer.clone()), refused))
    }
}

impl<T> For<T> for Result<T, StoreError> {
    /// What went wrong inside is not for the page.
    fn seen_by(self, viewer: &Viewer) -> Result<T, Turned> {
        self.map_err(|_| Refused::Unavailable("the store does not answer; try again".into())).seen_by(viewer)
    }
}

impl IntoResponse for Turned {
    fn into_response(self) -> Response {
        let (viewer, refused) = match self {
            Self::SignIn(back) => return elsewhere(&format!("/dashboard/sign-in?back={}", segment(&back))),
            Self::Refused(refused) => (None, refused),
            Self::Known(viewer, refused) => (Some(viewer), refused),
        };
        let mut main = html!("<h1>This cannot be shown</h1><p>{}.</p>", capital(&refused.to_string()));
        if refused == Refused::Role {
            html!(main, "<p>Looking takes a key with the role <code>read</code>, deciding one with <code>admin</code>. ");
            html!(main, "<a href=\"/dashboard/sign-in\">Sign in with another key</a></p>");
        } else {
            html!(main, "<p><a href=\"/dashboard\">To the overview</a></p>");
        }
        Page::new(Place::Outside, "Not shown", main).shown_as(refused.status(), viewer.as_deref())
    }
}

/// A sentence begins with a capital letter.
fn capital(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map(|first| first.to_uppercase().chain(signs).collect()).unwrap_or_default()
}
