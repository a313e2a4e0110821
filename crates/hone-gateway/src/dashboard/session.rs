//! Who looks at a page: somebody on this machine where the server is open, or who signed in with a key.
//!
//! The key is sent once. What the browser keeps is a random number that stands for it, in this process alone and for a while; the
//! key is looked up again at every request, so that one that was revoked opens nothing. What changes something must come from a
//! page of ours: it names a second random number of its session, or where nobody signs in, the browser says that the page was of
//! the same origin.

use super::Dashboard;
use super::page::Turned;
use crate::access::{Access, Identity, Role, Token};
use crate::error::Refused;
use crate::origin::is_same_origin;
use crate::server::Gateway;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use hone_trace::Time;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a session lasts.
const LIFE_S: i64 = 12 * 3600;
/// Sessions at once; the one that ends first makes room.
const N_SESSIONS_MAX: usize = 10_000;
/// Pages a minute of one session: a page that moves asks for itself every second.
const PAGES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(1200).expect("it is not 0");
/// The name of the cookie; under TLS with a prefix by which browsers refuse it from anywhere else.
const COOKIE: &str = "hone_session";
const SECURE_COOKIE: &str = "__Host-hone_session";

/// Sessions by the hashes of their numbers.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Token, Session>>);

struct Session {
    /// The key that it stands for, by its hash.
    key: Token,
    /// What a form of this session names.
    form: String,
    until: Time,
}

/// A session that has just begun.
struct Begun {
    number: String,
}

impl Sessions {
    fn begin(&self, key: Token, draw: fn() -> Option<[u8; 32]>, now: Time) -> Option<Begun> {
        let (number, form) = (hex(draw()?), hex(draw()?));
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.until > now);
        if sessions.len() >= N_SESSIONS_MAX
            && let Some(first) = sessions.iter().min_by_key(|(_, session)| session.until).map(|(token, _)| *token)
        {
            sessions.remove(&first);
        }
        sessions.insert(Token::of(&number), Session { key, form, until: now.plus_nanos(LIFE_S * 1_000_000_000) });
        Some(Begun { number })
    }

    /// The key of a session and what its forms name.
    fn find(&self, number: &str, now: Time) -> Option<(Token, String)> {
        let sessions = self.lock();
        let session = sessions.get(&Token::of(number)).filter(|session| session.until > now)?;
        Some((session.key, session.form.clone()))
    }

    fn end(&self, number: &str) {
        self.lock().remove(&Token::of(number));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Token, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hex(bytes: [u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Who looks at a page.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    pub(crate) identity: Identity,
    /// How it is known.
    pub(crate) by: By,
}

/// How somebody is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum By {
    /// The server is open to this machine.
    Open,
    /// A key in the request itself, which no page of elsewhere can put there.
    Key,
    /// A session, whose forms name this.
    Session(String),
}

impl Viewer {
    pub(crate) fn may_deploy(&self) -> bool {
        self.identity.role >= Role::Admin
    }

    /// What forms of this viewer name.
    pub(crate) fn form_token(&self) -> &str {
        match &self.by {
            By::Session(form) => form,
            By::Open | By::Key => "",
        }
    }

    /// Refuses a change that did not come from a page of ours.
    pub(crate) fn confirm(&self, headers: &HeaderMap, form_token: Option<&str>) -> Result<(), Refused> {
        let is_ours = match &self.by {
            By::Open => is_same_origin(headers),
            By::Key => true,
            By::Session(form) => is_same_origin(headers) && form_token.is_some_and(|sent| Token::of(sent) == Token::of(form)),
        };
        if is_ours { Ok(()) } else { Err(Refused::Elsewhere) }
    }
}

/// Who asks for a page, if it may.
fn admitted(gateway: &Gateway, parts: &Parts, least: Role) -> Result<Viewer, Turned> {
    let viewer = match viewer(gateway, &parts.headers) {
        Ok(viewer) => viewer,
        Err(Refused::Key) if is_browser(parts) => return Err(Turned::SignIn(here(parts))),
        Err(refused) => return Err(refused.into()),
    };
    if viewer.identity.role < least { Err(Refused::Role.into()) } else { Ok(viewer) }
}

pub(crate) fn viewer(gateway: &Gateway, headers: &HeaderMap) -> Result<Viewer, Refused> {
    let (access, now) = (gateway.access(), gateway.now());
    let number = cookie(gateway.dashboard(), headers);
    let found = number.and_then(|number| gateway.sessions().find(number, now));
    if let (Access::Keys(keys), Some((key, form))) = (&*access, found) {
        let identity = keys.get(&key).cloned().ok_or(Refused::Key)?;
        gateway.rates().take(&format!("{} at a browser", identity.name), Some(PAGES_PER_MINUTE), now)?;
        return Ok(Viewer { identity, by: By::Session(form) });
    }
    let identity = access.identify(headers)?;
    let by = if matches!(&*access, Access::Open(_)) { By::Open } else { By::Key };
    let per_minute = identity.requests_per_minute.or(gateway.limits().requests_per_minute);
    // Nobody else can reach an open server: there, looking takes nothing from those who ask.
    gateway.rates().take(&identity.name, per_minute.filter(|_| by == By::Key), now)?;
    Ok(Viewer { identity, by })
}

/// Whether a person waits for the answer.
fn is_browser(parts: &Parts) -> bool {
    let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    parts.method == Method::GET && accept.contains("text/html")
}

fn here(parts: &Parts) -> String {
    parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default()
}

/// Begins a session for who has this key, and gives the cookie that stands for it.
pub(crate) fn begin(gateway: &Gateway, key: &str) -> Result<HeaderValue, Refused> {
    let token = Token::of(key.trim());
    let identity = match &*gateway.access() {
        Access::Keys(keys) => keys.get(&token).cloned().ok_or(Refused::Key)?,
        Access::Open(identity) => identity.clone(),
    };
    if identity.role < Role::Read {
        return Err(Refused::Role);
    }
    let dashboard = gateway.dashboard();
    let no_chance = || Refused::Unavailable("the machine gives no random numbers, so nobody can sign in".into());
    let begun = gateway.sessions().begin(token, dashboard.draw, gateway.now()).ok_or_else(no_chance)?;
    Ok(set_cookie(dashboard, &begun.number, LIFE_S))
}

/// Ends the session of this request, and gives the cookie that makes the browser forget it.
pub(crate) fn end(gateway: &Gateway, headers: &HeaderMap) -> HeaderValue {
    if let Some(number) = cookie(gateway.dashboard(), headers) {
        gateway.sessions().end(number);
    }
    set_cookie(gateway.dashboard(), "", 0)
}

fn set_cookie(dashboard: &Dashboard, number: &str, life_s: i64) -> HeaderValue {
    let (name, secure) = if dashboard.is_encrypted { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    let text = format!("{name}={number}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("digits and signs are a header")
}

fn cookie<'a>(dashboard: &Dashboard, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = if dashboard.is_encrypted { SECURE_COOKIE } else { COOKIE };
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
}

macro_rules! right {
    ($($(#[$doc:meta])* $name:ident = $role:expr),* $(,)?) => {$(
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Viewer);

        impl FromRequestParts<Gateway> for $name {
            type Rejection = Turned;

            async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Self, Turned> {
                let viewer = admitted(gateway, parts, $role);
                viewer.map(Self).inspect_err(|turned| turned.count(gateway.metrics()))
            }
        }
    )*};
}

right! {
    /// Who may look at everything of its tenant.
    Reader = Role::Read,
    /// Who may decide about canaries and advice.
    Decider = Role::Admin,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Tenant;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_cookie_is_for_the_server_alone() {
        let dashboard = |is_encrypted| Dashboard { tenant: Tenant::default(), settings: Vec::new(), draw: || None, is_encrypted };
        let plain = set_cookie(&dashboard(false), "7", LIFE_S);
        assert_eq!(plain, "hone_session=7; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
        let secure = set_cookie(&dashboard(true), "7", LIFE_S);
        assert_eq!(secure, "__Host-hone_session=7; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure");
        let sent = headers(&[("cookie", "other=1; __Host-hone_session=7; hone_session=8")]);
        assert_eq!((cookie(&dashboard(true), &sent), cookie(&dashboard(false), &sent)), (Some("7"), Some("8")));
    }

    #[test]
    fn a_session_ends_in_time_or_when_asked() {
        let (sessions, start) = (Sessions::default(), Time::from_unix_nanos(0));
        let begun = sessions.begin(Token::of("sk-1"), || Some([7; 32]), start).unwrap();
        let (key, form) = sessions.find(&begun.number, start).unwrap();
        assert_eq!((key, form.len(), begun.number.len()), (Token::of("sk-1"), 64, 64));
        assert!(sessions.find("other", start).is_none());
        assert!(sessions.find(&begun.number, start.plus_nanos(LIFE_S * 1_000_000_000)).is_none());
        sessions.end(&begun.number);
        assert!(sessions.find(&begun.number, start).is_none());
        assert!(sessions.begin(Token::of("sk-1"), || None, start).is_none());
    }
}
