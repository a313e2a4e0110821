//! Keys to the server, as who makes them and who serves both use them.
//!
//! A key is a document of the store under its name: whose it is, what it may do, and its hash; the key itself is nowhere. A new state is
//! the next revision, so that two who write at once cannot both have a name, and what was revoked stays on the record. Every change is
//! also a line of a log, which servers follow.

mod follow;

pub(crate) use follow::Follower;

use crate::access::{Identity, Role, Token};
use crate::documents;
use hone_trace::store::{Document, Event, Kind, Put, Store, StoreError, Word, Write};
use hone_trace::{EventId, KeyName, Tenant, Time, V1};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::num::NonZeroU32;

/// The stream of the store's events in which changes of keys are told.
const STREAM: &str = "keys";
/// Keys that are read at once.
const N_PAGE: u32 = 1000;
/// Names that keys may have had.
const N_KEYS_MAX: usize = 10_000;

/// A key, by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Version of this record.
    pub v: V1,
    /// What people call it.
    pub name: KeyName,
    /// Whose data it opens.
    pub tenant: Tenant,
    /// What it may do.
    pub role: Role,
    /// The hash of the key.
    pub hash: Token,
    /// When it was made.
    pub at: Time,
    /// How often it may ask in a minute, where it has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// When it was revoked: from then on it opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}

impl Word for Key {
    const KIND: Kind = Kind::Key;

    fn document_id(&self) -> String {
        self.name.to_string()
    }
}

impl Key {
    /// Whether it opens anything.
    pub fn is_live(&self) -> bool {
        self.revoked_at.is_none()
    }

    /// Who has it.
    pub fn identity(&self) -> Identity {
        Identity {
            tenant: self.tenant.clone(),
            role: self.role,
            name: self.name.to_string(),
            requests_per_minute: self.requests_per_minute,
        }
    }
}

/// Why a key is not made, found or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A live key of this tenant has the name.
    #[error("tenant `{0}` has a key of this name")]
    Taken(Tenant),
    /// There were too many.
    #[error("there are {N_KEYS_MAX} names of keys already, and that is the most")]
    TooMany,
    /// The tenant has no key of this name.
    #[error("there is no key of this name")]
    NotFound,
    /// It opens nothing any more.
    #[error("it was revoked at {0}")]
    Revoked(Time),
    /// What is in the store is not a key that this hone knows. It is not quoted.
    #[error("the key `{0}` in the store cannot be read: it is damaged, or a newer hone wrote it")]
    Unreadable(String),
    /// Somebody else was first.
    #[error("somebody else writes to this key; try again")]
    Busy,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The keys of all tenants.
#[derive(Debug, Default)]
pub struct Keys {
    /// Those that can be read, also those that are revoked, by name.
    pub sound: Vec<Key>,
    /// Those that cannot, which open nothing.
    pub damaged: Vec<Damaged>,
}

/// A key that cannot be read. What is in it is not quoted.
#[derive(Debug, thiserror::Error)]
#[error("the key `{name}` in the store cannot be read and opens nothing: it is damaged, or a newer hone wrote it")]
pub struct Damaged {
    /// Its name.
    pub name: String,
    /// Whose it is, unless that cannot be read either.
    pub tenant: Option<Tenant>,
}

impl Keys {
    /// Whether a server asks for keys: it does for one that cannot be read, as that may have been live.
    pub fn are_needed(&self) -> bool {
        !self.damaged.is_empty() || self.sound.iter().any(Key::is_live)
    }
}

/// All keys of all tenants. One that is damaged hides no other.
pub async fn all(store: &dyn Store) -> Result<Keys, KeyError> {
    let mut all = Keys::default();
    for key in read(store).await? {
        match key {
            Ok(key) => all.sound.push(key),
            Err(damaged) => all.damaged.push(damaged),
        }
    }
    all.sound.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Adds a key. Its name must not be that of a live one.
pub async fn add(store: &dyn Store, key: &Key) -> Result<(), KeyError> {
    let found = find(store, &key.name).await?;
    let revision = match &found {
        Some((there, _)) if there.is_live() => return Err(KeyError::Taken(there.tenant.clone())),
        Some((_, revision)) => revision + 1,
        None if read(store).await?.len() >= N_KEYS_MAX => return Err(KeyError::TooMany),
        None => 0,
    };
    write(store, key, revision, key.at).await
}

/// Revokes a key of this tenant for ever, and gives it as it stands then.
pub async fn revoke(store: &dyn Store, name: &KeyName, tenant: &Tenant, now: Time) -> Result<Key, KeyError> {
    let found = find(store, name).await?.filter(|(key, _)| key.tenant == *tenant);
    let (key, revision) = found.ok_or(KeyError::NotFound)?;
    if let Some(at) = key.revoked_at {
        return Err(KeyError::Revoked(at));
    }
    let key = Key { revoked_at: Some(now), ..key };
    write(store, &key, revision + 1, now).await?;
    Ok(key)
}

async fn find(store: &dyn Store, name: &KeyName) -> Result<Option<(Key, u32)>, KeyError> {
    let unreadable = |_| KeyError::Unreadable(name.to_string());
    let document = match store.document(Kind::Key, name.as_str()).await {
        Err(error @ StoreError::Damaged { .. }) => return Err(unreadable(error)),
        document => document?,
    };
    document.map(|document| Ok((document.word().map_err(unreadable)?, document.revision))).transpose()
}

async fn write(store: &dyn Store, key: &Key, revision: u32, now: Time) -> Result<(), KeyError> {
    let line = Event {
        id: EventId::derived(&["key", key.name.as_str(), &revision.to_string()]),
        at: now,
        tenant: key.tenant.clone(),
        stream: STREAM.to_owned(),
        kind: if key.is_live() { "added" } else { "revoked" }.to_owned(),
        body: json!({"key": key.name}),
    };
    let document = Document::of(key, revision, key.tenant.clone(), now);
    match store.put(vec![Write::Document(document), Write::Event(line)]).await?.first() {
        Some(Put::Conflict) => Err(KeyError::Busy),
        _ => Ok(()),
    }
}

/// Every key of the store, or why it cannot be read.
async fn read(store: &dyn Store) -> Result<Vec<Result<Key, Damaged>>, StoreError> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = documents::page(store, Kind::Key, after, N_PAGE).await?;
        keys.extend(
            page.items.into_iter().map(|document| document.and_then(|document| documents::word(&document)).map_err(unread)),
        );
        after = page.next;
        if after.is_none() {
            return Ok(keys);
        }
    }
}

fn unread(damaged: documents::Damaged) -> Damaged {
    Damaged { name: damaged.id, tenant: damaged.tenant }
}
