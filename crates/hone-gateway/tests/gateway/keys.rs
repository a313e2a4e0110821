//! Keys of the store: who has one is let in, within its rate, and what is done to it holds for a server that runs.

use crate::world::{Told, World, tenant};
use hone_gateway::keys::{self, Key, KeyError};
use hone_gateway::{Access, Limits, Role, Token};
use hone_trace::store::{Document, Kind, Store, Write};
use hone_trace::{KeyName, Tenant, Time, V1};
use serde_json::json;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

const NOW: Time = Time::from_unix_nanos(1_800_000_000_000_000_000);

fn name(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

/// The key `hone-NAME` for the tenant of this world.
fn key(named: &str, role: Role) -> Key {
    let (name, tenant, hash) = (name(named), tenant(), Token::of(&format!("hone-{named}")));
    Key { v: V1, name, tenant, role, hash, at: NOW, requests_per_minute: None, revoked_at: None }
}

async fn list(world: &World, key: &str) -> Told {
    world.get("/v1/models", &[("x-api-key", &format!("hone-{key}"))]).await
}

/// Waits until a request with this key is answered so; about a second is promised, and the machine may be busy.
async fn until(world: &World, key: &str, status: u16) {
    let began = Instant::now();
    while list(world, key).await.status != status {
        assert!(began.elapsed() < Duration::from_secs(30), "{key} is not answered with {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_follows_the_keys_of_its_store() {
    let world = World::open().await;
    assert_eq!(list(&world, "nobody's").await.status, 200, "without keys this machine is let in");
    keys::add(&*world.store, &key("one", Role::Call)).await.unwrap();
    until(&world, "nobody's", 401).await;
    assert_eq!(list(&world, "one").await.status, 200);
    keys::add(&*world.store, &key("two", Role::Report)).await.unwrap();
    until(&world, "two", 403).await;
    keys::revoke(&*world.store, &name("one"), &tenant(), NOW).await.unwrap();
    until(&world, "one", 401).await;
    keys::revoke(&*world.store, &name("two"), &tenant(), NOW).await.unwrap();
    until(&world, "two", 401).await;
    assert_eq!(list(&world, "nobody's").await.status, 401, "a server that has asked for keys does not open again");
    let again = world.again().await;
    assert_eq!(list(&again, "one").await.status, 200, "one that starts where no key is live is open to this machine");
}

#[tokio::test]
async fn a_server_follows_the_keys_of_a_store_that_was_restored_under_it() {
    let world = World::open().await;
    for named in ["one", "leaked"] {
        keys::add(&*world.store, &key(named, Role::Call)).await.unwrap();
    }
    let backup = world.back_up().await;
    for named in ["three", "four", "five"] {
        keys::add(&*world.store, &key(named, Role::Call)).await.unwrap();
    }
    until(&world, "five", 200).await;
    world.restore(backup.path()).await;
    until(&world, "five", 401).await;
    keys::revoke(&*world.store, &name("leaked"), &tenant(), NOW).await.unwrap();
    until(&world, "leaked", 401).await;
    keys::add(&*world.store, &key("six", Role::Call)).await.unwrap();
    until(&world, "six", 200).await;
    assert_eq!(list(&world, "one").await.status, 200);
}

#[tokio::test]
async fn a_server_knows_the_keys_of_all_tenants_from_its_first_request() {
    let world = World::open().await;
    let other = Tenant::new("other").unwrap();
    keys::add(&*world.store, &Key { tenant: other.clone(), ..key("theirs", Role::Call) }).await.unwrap();
    let again = world.again().await;
    assert_eq!(list(&again, "nobody's").await.status, 401);
    assert_eq!(again.chat("well", &[("user", "hi")], &[("authorization", "Bearer hone-theirs")]).await.status, 200);
    assert_eq!(again.trace_of(1).await.tenant, other);
}

#[tokio::test]
async fn a_name_belongs_to_one_live_key_and_revoking_is_final() {
    let world = World::open().await;
    let store: &dyn Store = &*world.store;
    keys::add(store, &key("ci", Role::Call)).await.unwrap();
    assert!(matches!(keys::add(store, &key("ci", Role::Admin)).await, Err(KeyError::Taken(_))));
    let other = Tenant::new("other").unwrap();
    let theirs = Key { tenant: other.clone(), ..key("ci", Role::Admin) };
    assert!(matches!(keys::add(store, &theirs).await, Err(KeyError::Taken(whose)) if whose == tenant()));
    assert!(matches!(keys::revoke(store, &name("ci"), &other, NOW).await, Err(KeyError::NotFound)));
    assert!(matches!(keys::revoke(store, &name("no"), &tenant(), NOW).await, Err(KeyError::NotFound)));
    assert_eq!(keys::revoke(store, &name("ci"), &tenant(), NOW).await.unwrap().revoked_at, Some(NOW));
    assert!(matches!(keys::revoke(store, &name("ci"), &tenant(), NOW).await, Err(KeyError::Revoked(NOW))));
    let new = Key { hash: Token::of("hone-new"), ..key("ci", Role::Report) };
    keys::add(store, &new).await.unwrap();
    assert_eq!(keys::all(store).await.unwrap().sound, [new]);
    until(&world, "new", 403).await;
    until(&world, "ci", 401).await;
}

/// Both read that the name is free; the store lets one of them write.
#[tokio::test]
async fn two_who_add_at_once_do_not_both_get_the_name() {
    let world = World::open().await;
    let keys_of = ["a", "b", "c", "d"].map(|secret| Key { hash: Token::of(secret), ..key("ci", Role::Call) });
    let (a, b, c, d) = tokio::join!(
        keys::add(&*world.store, &keys_of[0]),
        keys::add(&*world.store, &keys_of[1]),
        keys::add(&*world.store, &keys_of[2]),
        keys::add(&*world.store, &keys_of[3]),
    );
    assert_eq!([a, b, c, d].iter().filter(|added| added.is_ok()).count(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_opens_nothing_and_is_not_quoted() {
    let world = World::open().await;
    let mut document = Document::of(&key("odd", Role::Admin), 0, tenant(), NOW);
    document.body["role"] = json!("canary");
    world.store.put(vec![Write::Document(document)]).await.unwrap();
    let [damaged] = &keys::all(&*world.store).await.unwrap().damaged[..] else { panic!("one cannot be read") };
    let error = damaged.to_string();
    assert!(error.contains("`odd`") && !error.contains("canary") && !error.contains(&Token::of("hone-odd").to_hex()), "{error}");
    keys::add(&*world.store, &key("good", Role::Call)).await.unwrap();
    until(&world, "nobody's", 401).await;
    assert_eq!((list(&world, "good").await.status, list(&world, "odd").await.status), (200, 401));
}

/// The store cannot even read it: the others open the server as before, and it stays closed to who has none.
#[tokio::test]
async fn a_damaged_key_opens_nothing_and_locks_nobody_out() {
    let world = World::open().await;
    keys::add(&*world.store, &key("broken", Role::Admin)).await.unwrap();
    until(&world, "broken", 200).await;
    world.change("UPDATE documents SET body = '{' WHERE kind = 'key'");
    keys::add(&*world.store, &key("good", Role::Call)).await.unwrap();
    until(&world, "good", 200).await;
    until(&world, "broken", 401).await;
    let all = keys::all(&*world.store).await.unwrap();
    assert_eq!(all.sound, [key("good", Role::Call)]);
    assert_eq!(
        all.damaged.iter().map(|key| (key.name.as_str(), key.tenant.clone())).collect::<Vec<_>>(),
        [("broken", Some(tenant()))]
    );
    assert!(world.said.lock().unwrap().iter().any(|text| text.contains("`broken`")));
    assert!(matches!(keys::add(&*world.store, &key("broken", Role::Admin)).await, Err(KeyError::Unreadable(_))));
    let again = world.again().await;
    assert_eq!((list(&again, "good").await.status, list(&again, "broken").await.status), (200, 401));
    keys::revoke(&*world.store, &name("good"), &tenant(), NOW).await.unwrap();
    let last = again.again().await;
    assert_eq!(list(&last, "nobody's").await.status, 401, "where the only key is damaged, nobody is let in");
    assert!(keys::all(&*world.store).await.unwrap().are_needed());
}

#[tokio::test]
async fn the_key_itself_is_nowhere() {
    let world = World::open().await;
    keys::add(&*world.store, &key("secret", Role::Call)).await.unwrap();
    until(&world, "secret", 200).await;
    world.chat("well", &[("user", "hi")], &[("authorization", "Bearer hone-secret")]).await;
    let (document, events) =
        (world.store.document(Kind::Key, "secret").await.unwrap().unwrap(), world.store.events(None, 0, 1000).await.unwrap());
    assert_eq!(document.body["hash"], Token::of("hone-secret").to_hex());
    let kept = format!("{document:?} {events:?} {:?}", world.traces().await);
    let counted = world.get("/metrics", &[("x-api-key", "hone-secret")]).await.body;
    assert!(!kept.contains("hone-secret") && !counted.contains("hone-secret"));
}

#[tokio::test]
async fn a_key_asks_as_often_as_it_may() {
    let limits = Limits { requests_per_minute: NonZeroU32::new(3), ..Limits::default() };
    let world = World::with(Access::open(tenant()), limits).await;
    let slow = Key { requests_per_minute: NonZeroU32::new(1), ..key("slow", Role::Call) };
    let watch = Key { requests_per_minute: NonZeroU32::new(1000), ..key("watch", Role::Report) };
    for key in [&key("plain", Role::Call), &slow, &watch] {
        keys::add(&*world.store, key).await.unwrap();
    }
    until(&world, "watch", 403).await;
    let n_refused = async || {
        let counted = world.get("/metrics", &[("x-api-key", "hone-watch")]).await.body;
        let line = counted.lines().find_map(|line| line.strip_prefix("hone_refused_total{reason=\"rate_limit\"} "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let n_before = n_refused().await;
    assert_eq!(list(&world, "slow").await.status, 200);
    let told = world.chat("well", &[("user", "hi")], &[("authorization", "Bearer hone-slow")]).await;
    assert_eq!((told.status, told.json()["error"]["code"].clone()), (429, json!("rate_limit_exceeded")));
    assert!(told.retry_s.is_some_and(|seconds| (50..=60).contains(&seconds)), "{:?}", told.retry_s);
    let told = world.post("/v1/messages", &json!({}), &[("x-api-key", "hone-slow")]).await;
    assert_eq!((told.status, told.json()["error"]["type"].clone()), (429, json!("rate_limit_error")));
    assert_eq!(told.json()["type"], "error");
    // Another key does not wait for that one, and has the limit of the server.
    for expected in [200, 200, 200, 429] {
        assert_eq!(list(&world, "plain").await.status, expected);
    }
    assert_eq!(n_refused().await - n_before, 3);
    assert_eq!(world.get("/healthz", &[]).await.status, 200, "who needs no key needs no patience");
}
