//! Who may do what: keys with a role and a tenant, known by their hashes alone.
//!
//! A handler names the right that it needs as a type among its arguments, so that one without is not written by accident; there is no
//! default identity. Keys are looked up by the hash of what was sent, so that neither the time nor an error tells how near a guess was.
//!
//! Knows nothing of where keys are kept.

use crate::error::Refused;
use crate::server::Gateway;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::prelude::{BASE64_STANDARD, Engine};
use hone_trace::Tenant;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;

/// What a key may do. Each may also do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Send feedback, and see the counters.
    Report,
    /// Ask models.
    Call,
    /// See everything.
    Read,
    /// See and change everything.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Report, Self::Call, Self::Read, Self::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Call => "call",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Whose data it is.
    pub tenant: Tenant,
    /// What it may do.
    pub role: Role,
    /// The name of the key, which may be shown.
    pub name: String,
    /// How often it may ask in a minute, where it has a limit of its own.
    pub requests_per_minute: Option<NonZeroU32>,
}

/// The hash of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 32]);

impl Token {
    /// The hash of this key.
    pub fn of(key: &str) -> Self {
        Self(*blake3::hash(key.as_bytes()).as_bytes())
    }

    /// The hash in its text form.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// Its text form.
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Debug for Token {
    /// Not even the hash is for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("this is not the hash of a key"))
    }
}

/// Why keys cannot be used so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// A server that others can reach needs keys.
    #[error("a server that other machines can reach needs at least one API key")]
    NoKeys,
}

/// Who has access.
#[derive(Debug, Clone)]
pub enum Access {
    /// Everybody who can reach the server, which is this machine alone.
    Open(Identity),
    /// Who has one of these keys.
    Keys(HashMap<Token, Identity>),
}

impl Access {
    /// This machine alone may do everything.
    pub fn open(tenant: Tenant) -> Self {
        Self::Open(Identity { tenant, role: Role::Admin, name: "local".into(), requests_per_minute: None })
    }

    /// Who has one of these keys.
    pub fn keys(keys: impl IntoIterator<Item = (Token, Identity)>) -> Result<Self, AccessError> {
        let keys: HashMap<Token, Identity> = keys.into_iter().collect();
        if keys.is_empty() { Err(AccessError::NoKeys) } else { Ok(Self::Keys(keys)) }
    }

    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Identity, Refused> {
        match self {
            Self::Open(identity) => Ok(identity.clone()),
            Self::Keys(keys) => {
                let key = sent(headers).ok_or(Refused::Key)?;
                keys.get(&Token::of(&key)).cloned().ok_or(Refused::Key)
            }
        }
    }
}

/// The key as OpenAI's clients send it, as Anthropic's do, or as exporters of spans do.
fn sent(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let authorization = text(header::AUTHORIZATION);
    let of_scheme = |scheme| authorization.and_then(|value| in_scheme(value, scheme));
    let plain = of_scheme("Bearer").or_else(|| text(header::HeaderName::from_static("x-api-key")));
    plain.map(|key| Cow::Borrowed(key.trim())).or_else(|| basic(of_scheme("Basic")?).map(Cow::Owned))
}

/// What is sent in this scheme, whose name may be written large or small.
fn in_scheme<'a>(authorization: &'a str, scheme: &str) -> Option<&'a str> {
    authorization.split_once(' ').filter(|(said, _)| said.eq_ignore_ascii_case(scheme)).map(|(_, sent)| sent)
}

/// The key in a name and a password: the password, as with Langfuse's public and secret key.
fn basic(sent: &str) -> Option<String> {
    let pair = String::from_utf8(BASE64_STANDARD.decode(sent.trim()).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

/// Who asks, if it may: with a key that is known, not too often, and in a role that is enough.
fn admitted(gateway: &Gateway, headers: &HeaderMap, least: Role) -> Result<Identity, Refused> {
    let identity = gateway.access().identify(headers)?;
    let per_minute = identity.requests_per_minute.or(gateway.limits().requests_per_minute);
    gateway.rates().take(&identity.name, per_minute, gateway.now())?;
    if identity.role < least { Err(Refused::Role) } else { Ok(identity) }
}

macro_rules! right {
    ($($(#[$doc:meta])* $name:ident = $role:expr),* $(,)?) => {$(
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Identity);

        impl FromRequestParts<Gateway> for $name {
            type Rejection = Refused;

            async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Self, Refused> {
                let identity = admitted(gateway, &parts.headers, $role);
                identity.map(Self).inspect_err(|refused| gateway.metrics().refused(refused))
            }
        }
    )*};
}

right! {
    /// Who may report.
    Reporter = Role::Report,
    /// Who may ask models.
    Caller = Role::Call,
    /// Who may see everything of its tenant.
    Reader = Role::Read,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, value: &str, expected: Result<&str, Refused>) {
        let identity =
            |role, name: &str| Identity { tenant: Tenant::new("t").unwrap(), role, name: name.into(), requests_per_minute: None };
        let keys = [(Token::of("sk-1"), identity(Role::Call, "one")), (Token::of("sk-2"), identity(Role::Admin, "two"))];
        let access = Access::keys(keys).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::HeaderName::try_from(header).unwrap(), value.parse().unwrap());
        let found = access.identify(&headers).map(|identity| identity.name);
        assert_eq!(found, expected.map(str::to_owned), "{header}: {value}");
    }

    #[test]
    fn keys_are_found_in_either_header() {
        check("authorization", "Bearer sk-1", Ok("one"));
        check("x-api-key", "sk-2", Ok("two"));
        check("authorization", "Basic cGstMTpzay0x", Ok("one"));
        check("authorization", "bearer sk-1", Ok("one"));
        check("authorization", "BEARER sk-1", Ok("one"));
        check("authorization", "basic cGstMTpzay0x", Ok("one"));
        check("authorization", "Basic c2stMTo=", Err(Refused::Key));
        check("authorization", "Basic sk-1", Err(Refused::Key));
        check("authorization", "Bearer sk-3", Err(Refused::Key));
        check("authorization", "sk-1", Err(Refused::Key));
        check("authorization", "Bearer ", Err(Refused::Key));
        check("authorization", "Bearersk-1", Err(Refused::Key));
        check("x-other", "sk-1", Err(Refused::Key));
    }

    #[test]
    fn without_a_key_nobody_is_anybody() {
        assert_eq!(Access::keys([]).unwrap_err(), AccessError::NoKeys);
        let token = Token::of("sk-1");
        assert_eq!(Token::from_hex(&token.to_hex()), Some(token));
        assert_eq!(Token::from_hex("sk-1"), None);
    }

    #[test]
    fn a_hash_is_told_to_the_store_alone() {
        let token = Token::of("sk-1");
        assert!(!format!("{token:?}").contains(&token.to_hex()[..8]));
        let wrong = serde_json::from_str::<Token>("\"canary\"").unwrap_err();
        assert!(!wrong.to_string().contains("canary"), "{wrong}");
        assert_eq!(serde_json::from_value::<Token>(serde_json::json!(token)).unwrap(), token);
    }
}
