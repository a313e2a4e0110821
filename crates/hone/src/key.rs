//! `hone key`: keys to the server, made, listed and revoked.
//!
//! A key is shown when it is made and never again: the store has its hash alone. Servers of the same store follow what is done here.

use crate::clock::now;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use clap::ValueEnum;
use hone_gateway::keys::{self, Key, KeyError};
use hone_gateway::{Role, Token};
use hone_trace::store::Store;
use hone_trace::{KeyName, Tenant, V1};
use serde_json::{Value, json};
use std::fmt::Write;
use std::num::NonZeroU32;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Add(AddArgs),
    /// List the keys of the tenant, also those that are revoked
    ///
    /// One JSON object per key and line with --json. Neither keys nor their hashes are shown.
    List,
    Revoke(RevokeArgs),
}

/// Make a key to the server, and show it this once
///
/// The key opens the data of the tenant that it is made for (--tenant). As soon as there is one key, every `hone serve` of this store
/// asks for one, also on this machine; it need not be started again.
#[derive(Debug, clap::Args)]
struct AddArgs {
    /// What the key is called, such as the program that gets it
    name: KeyName,
    /// What it may do
    #[arg(long)]
    role: Right,
    /// How many requests a minute it may make; without this, what `hone serve --requests-per-minute` says, or any number
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<NonZeroU32>,
}

/// Revoke a key for ever
///
/// Servers that run refuse it within a second. Its name can be given to a new key.
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// What the key is called
    name: KeyName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Right {
    /// Send feedback, and see the counters
    Report,
    /// Ask models, and send OpenTelemetry spans and logs as well
    Call,
    /// See traces, runs and agents on the dashboard as well
    Read,
    /// Decide about canaries and advice as well
    Admin,
}

impl From<Right> for Role {
    fn from(right: Right) -> Self {
        match right {
            Right::Report => Self::Report,
            Right::Call => Self::Call,
            Right::Read => Self::Read,
            Right::Admin => Self::Admin,
        }
    }
}

/// A key of a command that serves and asks by itself.
pub(crate) struct Lent {
    name: KeyName,
    pub(crate) secret: String,
}

impl Lent {
    /// One to ask models, where the store has keys: its servers let in nobody without one.
    pub(crate) async fn where_needed(store: &dyn Store, tenant: &Tenant) -> Result<Option<Self>, Failure> {
        if !keys::all(store).await.map_err(failed)?.are_needed() {
            return Ok(None);
        }
        let secret = draw()?;
        let name: KeyName = format!("loop-{}", &secret[PREFIX.len()..][..12]).parse().map_err(Failure::bug)?;
        let key = made(name.clone(), tenant, Role::Call, None, &secret);
        keys::add(store, &key).await.map_err(|error| named(error, &name))?;
        Ok(Some(Self { name, secret }))
    }

    /// Gives it back. One that is not, because of a kill, is known to nobody.
    pub(crate) async fn give_back(&self, store: &dyn Store, tenant: &Tenant) -> Result<(), Failure> {
        keys::revoke(store, &self.name, tenant, now()).await.map(drop).map_err(|error| named(error, &self.name))
    }
}

/// A new key of this secret.
fn made(name: KeyName, tenant: &Tenant, role: Role, requests_per_minute: Option<NonZeroU32>, secret: &str) -> Key {
    let (tenant, hash) = (tenant.clone(), Token::of(secret));
    Key { v: V1, name, tenant, role, hash, at: now(), requests_per_minute, revoked_at: None }
}

/// What every key begins with, so that one that lies around is known for what it is.
const PREFIX: &str = "hone-";
/// The random bytes of a key.
const N_BYTES: usize = 32;

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    context.wait(async |context| match &args.command {
        Command::Add(args) => add(args, context).await,
        Command::List => list(context).await,
        Command::Revoke(args) => revoke(args, context).await,
    })
}

async fn add(args: &AddArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let (secret, tenant) = (draw()?, &context.settings.tenant);
    let key = made(args.name.clone(), tenant, args.role.into(), args.requests_per_minute, &secret);
    keys::add(&*context.store().await?, &key).await.map_err(|error| named(error, &args.name))?;
    if context.printer.wants_json() {
        let mut told = told(&key);
        told["key"] = secret.into();
        context.printer.json(&told)?;
        return Ok(Exit::Yes);
    }
    context.printer.plain(&secret)?;
    let may = match key.role {
        Role::Report => "report",
        Role::Call => "report, ask models and send spans",
        Role::Read => "report, ask models, send spans and see everything",
        Role::Admin => "do everything",
    };
    context.printer.say(&format!("key `{}` may {may} for tenant `{tenant}`; it is not shown again", key.name));
    Ok(Exit::Yes)
}

async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let all = match context.store_if_there().await? {
        Some(store) => keys::all(&*store).await.map_err(failed)?,
        None => keys::Keys::default(),
    };
    all.damaged.iter().for_each(|key| context.printer.complain(&key.to_string()));
    let tenant = &context.settings.tenant;
    let (ours, others): (Vec<Key>, Vec<Key>) = all.sound.into_iter().partition(|key| key.tenant == *tenant);
    if context.printer.wants_json() {
        ours.iter().try_for_each(|key| context.printer.json(&told(key)))?;
    } else if !ours.is_empty() {
        let row = |key: &Key| {
            let limit = key.requests_per_minute.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
            let state = key.revoked_at.map_or_else(|| "live".to_owned(), |at| format!("revoked {at}"));
            vec![key.name.to_string(), key.role.as_str().to_owned(), limit, key.at.to_string(), state]
        };
        let rows: Vec<Vec<String>> = ours.iter().map(row).collect();
        context.printer.table(&["name", "role", "requests/min", "made", "state"], &rows)?;
    }
    if ours.is_empty() {
        context.printer.say(&format!("tenant `{tenant}` has no keys; `hone key add NAME --role call` makes one"));
    }
    let n_others = others.iter().filter(|key| key.is_live()).count() as u64;
    if n_others > 0 {
        context.printer.say(&format!("other tenants have {}", counted(n_others, "live key")));
    }
    Ok(Exit::Yes)
}

async fn revoke(args: &RevokeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let (store, tenant) = (context.store_to_read().await?, &context.settings.tenant);
    let key = keys::revoke(&*store, &args.name, tenant, now()).await.map_err(|error| named(error, &args.name))?;
    if context.printer.wants_json() {
        context.printer.json(&told(&key))?;
        return Ok(Exit::Yes);
    }
    context.printer.plain(&format!("key `{}` is revoked for ever", key.name))?;
    context.printer.say("servers that run refuse it within a second");
    Ok(Exit::Yes)
}

/// A new key.
fn draw() -> Result<String, Failure> {
    let mut bytes = [0; N_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::world(anyhow::anyhow!("the operating system gives no random numbers: {error}")))?;
    let mut key = PREFIX.to_owned();
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    Ok(key)
}

/// A key for programs to read, without its hash.
fn told(key: &Key) -> Value {
    json!({
        "name": key.name,
        "tenant": key.tenant,
        "role": key.role,
        "requests_per_minute": key.requests_per_minute,
        "at": key.at,
        "revoked_at": key.revoked_at,
    })
}

/// Why the keys cannot be used.
pub(crate) fn failed(error: KeyError) -> Failure {
    match error {
        KeyError::Store(error) => error.into(),
        other => Failure::world(other),
    }
}

/// Why nothing was done with the key of this name.
fn named(error: KeyError, name: &KeyName) -> Failure {
    match error {
        KeyError::Taken(tenant) => Failure::user(format_args!("tenant `{tenant}` has a key `{name}`"))
            .hint("take another name, or revoke that key first: `hone key revoke NAME`"),
        KeyError::NotFound => Failure::user(format_args!("there is no key `{name}`"))
            .hint("`hone key list` lists those of the tenant; `--tenant` names another tenant"),
        KeyError::Revoked(at) => Failure::user(format_args!("key `{name}` is revoked already, since {at}")),
        KeyError::TooMany => Failure::user(KeyError::TooMany).hint("give a new key the name of one that is revoked"),
        other => failed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_never_the_same() {
        let keys: Vec<String> = (0..100).map(|_| draw().unwrap()).collect();
        for (idx, key) in keys.iter().enumerate() {
            let digits = key.strip_prefix(PREFIX).unwrap();
            assert!(digits.len() * 4 >= 192 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
            assert!(!keys[..idx].contains(key));
        }
    }
}
