//! What is gone or damaged is named, left out of back-ups, and put back from one: one suite, both databases.

use crate::common::{self, grown, next, on_each, reward, time, trace, turn, write};
use hone_store::{Database, Place, backup, restore, verify};
use hone_trace::store::{Document, DocumentHead, Field, Kind, StoreError, TraceQuery, Write};
use hone_trace::{Adapter, AdapterId, BlobHash, Config, Tenant, Trace, V1};
use std::path::Path;

/// Changes the database behind the store's back: tables are named as on SQLite.
async fn change(place: &Place, sql: &str) {
    match place {
        Place::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("hone.db")).expect("the database");
            database.execute_batch(sql).expect("a change");
        }
        Place::Postgres(url) => {
            let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server answers");
            tokio::spawn(connection);
            let sql = format!("SET search_path = hone; {sql}");
            client.batch_execute(&sql).await.expect("a change");
        }
    }
}

/// The id of a sample trace, as it stands in a statement.
fn id(place: &Place, n: u32) -> String {
    let bytes = trace(n).id.bytes();
    match place {
        Place::Folder(_) => format!("x'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        Place::Postgres(_) => format!("'{}'", uuid::Uuid::from_bytes(bytes)),
    }
}

/// A hash that no record has.
fn other_hash(place: &Place) -> &'static str {
    match place {
        Place::Folder(_) => "zeroblob(16)",
        Place::Postgres(_) => r"'\x00000000000000000000000000000000'",
    }
}

async fn complaints(store: &dyn Database) -> Vec<String> {
    verify(store, |_| ()).await.expect("the store can be read").complaints
}

async fn backed_up(store: &dyn Database, folder: &Path) -> hone_store::Manifest {
    backup(store, folder, |_| ()).await.expect("a back-up")
}

#[test]
fn verify_names_what_is_gone() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let given = |n: u32| Write::Reward(trace(n).id, reward(&n.to_string(), 0.5));
        store.put((0..4).flat_map(|n| [write(n), turn(n, 1), turn(n, 2), turn(n, 3), given(n)]).collect()).await.unwrap();
        let weights = BlobHash::of(b"weights");
        let adapter = Adapter {
            v: V1,
            id: AdapterId::of(b"weights"),
            tenant: Tenant::default(),
            at: time(0),
            base: "tiny".into(),
            run: None,
            data: None,
            blob: weights,
        };
        store.put(vec![Write::Document(Document::of(&adapter, 0, Tenant::default(), time(0)))]).await.unwrap();
        assert_eq!(store.put_blob(b"weights".to_vec()).await.unwrap(), weights);
        assert_eq!(complaints(&*store).await, [] as [&str; 0], "on {}", fresh.name);

        let (first, second, third) = (id(&fresh.place, 0), id(&fresh.place, 1), id(&fresh.place, 2));
        change(&fresh.place, &format!("DELETE FROM turns WHERE trace = {first} AND turn_idx IN (1, 2)")).await;
        change(&fresh.place, &format!("DELETE FROM turns WHERE trace = {second}")).await;
        let bodies = if fresh.name == "sqlite" {
            format!("DELETE FROM bodies WHERE seq = (SELECT seq FROM traces WHERE id = {third});")
        } else {
            String::new()
        };
        change(&fresh.place, &format!("{bodies} DELETE FROM traces WHERE id = {third}")).await;
        match &fresh.place {
            Place::Folder(folder) => std::fs::remove_dir_all(folder.join("blobs")).unwrap(),
            Place::Postgres(_) => change(&fresh.place, "DELETE FROM blobs").await,
        }
        let expected = [
            format!("trace {} lacks 2 of the turns that it counts", trace(0).id),
            format!("trace {} lacks 3 of the turns that it counts", trace(1).id),
            format!("trace {} is gone, and 3 of its turns are there", trace(2).id),
            format!("trace {} is gone, and 1 of its rewards are there", trace(2).id),
            format!("blob {weights}, the files of adapter {}, is gone", adapter.id),
        ];
        let found = complaints(&*store).await;
        assert_eq!(found.len(), expected.len(), "{found:?} on {}", fresh.name);
        for complaint in &expected {
            assert!(found.contains(complaint), "{complaint}: {found:?} on {}", fresh.name);
        }
    });
}

#[test]
fn a_turn_that_is_gone_is_put_back_and_the_next_back_up_is_whole() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put((0..2).flat_map(|n| [write(n), turn(n, 1), turn(n, 2), turn(n, 3)]).collect()).await.unwrap();
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        backed_up(&*store, before.path()).await;
        change(&fresh.place, &format!("DELETE FROM turns WHERE trace = {} AND turn_idx IN (1, 3)", id(&fresh.place, 0))).await;
        assert!(store.trace(trace(0).id).await.is_err());
        let restored = restore(&*store, before.path(), |_| ()).await.unwrap();
        assert_eq!((restored.repaired, restored.same, restored.n_differing), (2, 6, 0), "{restored:?} on {}", fresh.name);
        assert_eq!(store.trace(trace(0).id).await.unwrap(), Some(grown(0, 4)));
        assert_eq!(complaints(&*store).await, [] as [&str; 0]);

        let manifest = backed_up(&*store, after.path()).await;
        assert_eq!((manifest.records.turns, manifest.n_damaged), (6, 0));
        let target = common::sqlite();
        let target = target.open().await;
        restore(&*target, after.path(), |_| ()).await.unwrap();
        assert_eq!(target.trace(trace(0).id).await.unwrap(), Some(grown(0, 4)), "from {}", fresh.name);
    });
}

#[test]
fn a_record_whose_body_and_hash_are_damaged_is_put_back_and_a_sound_other_one_stays() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let given = Write::Reward(trace(0).id, reward("later", 0.9));
        store.put(vec![write(0), turn(0, 1), given, Write::Event(common::event(1, "s")), write(1)]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        backed_up(&*store, folder.path()).await;
        let (hash, body) = (other_hash(&fresh.place), if fresh.name == "sqlite" { "'{'" } else { "'{}'" });
        for table in ["turns", "rewards", "events"] {
            change(&fresh.place, &format!("UPDATE {table} SET hash = {hash}, body = {body}")).await;
        }
        let first = id(&fresh.place, 0);
        change(&fresh.place, &format!("UPDATE traces SET hash = {hash} WHERE id = {first}")).await;
        let bodies = format!("UPDATE bodies SET body = {body} WHERE seq = (SELECT seq FROM traces WHERE id = {first})");
        let bodies = if fresh.name == "sqlite" { bodies } else { format!("UPDATE traces SET body = {body} WHERE id = {first}") };
        change(&fresh.place, &bodies).await;
        let restored = restore(&*store, folder.path(), |_| ()).await.unwrap();
        assert_eq!((restored.repaired, restored.same, restored.n_differing), (4, 1, 0), "{restored:?} on {}", fresh.name);
        assert_eq!(complaints(&*store).await, [] as [&str; 0]);

        let target = common::sqlite();
        let target = target.open().await;
        let sound = Trace { outcome: hone_trace::TraceOutcome::Unknown, ..trace(1) };
        target.put(vec![Write::Trace(Box::new(sound.clone()))]).await.unwrap();
        let restored = restore(&*target, folder.path(), |_| ()).await.unwrap();
        assert_eq!((restored.repaired, restored.n_differing), (0, 1), "{restored:?}");
        assert_eq!(target.trace(trace(1).id).await.unwrap(), Some(sound));
    });
}

/// What is wrong with a record that cannot be read.
fn named<T: std::fmt::Debug>(read: Result<T, StoreError>) -> String {
    match read {
        Err(StoreError::Damaged { what, .. }) => what,
        other => panic!("it is not called damaged: {other:?}"),
    }
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_the_database_is_not_blamed() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        let given = Write::Reward(trace(1).id, reward("later", 0.9));
        let config = Document::of(&Config::default(), 0, Tenant::default(), time(0));
        let event = common::event(1, "s");
        let (line, event_id) = (Write::Event(event.clone()), event.id);
        store.put(vec![write(0), write(1), given, turn(2, 1), write(2), Write::Document(config.clone()), line]).await.unwrap();
        let body = if fresh.name == "sqlite" { "body = '{'" } else { "raw = '{'" };
        for table in ["rewards", "turns", "documents", "events"] {
            change(&fresh.place, &format!("UPDATE {table} SET {body}")).await;
        }
        let first = id(&fresh.place, 0);
        let bodies = if fresh.name == "sqlite" {
            format!("UPDATE bodies SET {body} WHERE seq = (SELECT seq FROM traces WHERE id = {first})")
        } else {
            format!("UPDATE traces SET {body} WHERE id = {first}")
        };
        change(&fresh.place, &bodies).await;

        assert_eq!(named(store.trace(trace(0).id).await), format!("trace {}", trace(0).id), "on {}", fresh.name);
        assert_eq!(named(store.trace(trace(1).id).await), format!("a reward of trace {}", trace(1).id));
        assert_eq!(named(store.trace(trace(2).id).await), format!("a turn of trace {}", trace(2).id));
        assert_eq!(named(store.document(Kind::Config, &config.id).await), format!("config {}", config.id));
        assert_eq!(named(store.documents(Kind::Config, None, 10).await), format!("config {}", config.id));
        let heads = store.document_heads(Kind::Config, None, 10).await.unwrap().items;
        let head = DocumentHead { id: config.id.clone(), tenant: Some(Tenant::default()) };
        assert_eq!(heads, [head], "who does not read it is told which it is");
        assert_eq!(named(store.events(Some("s"), 0, 10).await), format!("event {event_id}"));
        assert_eq!(store.event_ids(Some("s"), 0, 10).await.unwrap(), [(1, event_id)], "who does not read it is told which it is");
        assert!(named(store.traces(&Default::default(), None, 10).await).contains("trace "));
        // A list by a field without an index looks into every body.
        let field = Some(Field { path: "metadata.customer".into(), value: "c1".into() });
        let query = TraceQuery { field, ..TraceQuery::default() };
        let found: Vec<_> = store.heads(&query, None, 10).await.unwrap().items.iter().map(|head| head.id).collect();
        assert_eq!(found, [trace(1).id]);
    });
}

#[test]
fn a_damaged_turn_does_not_take_the_turns_after_it_along() {
    on_each(async |fresh| {
        let store = fresh.open().await;
        store.put((0..2).flat_map(|n| (1..6).map(move |idx| turn(n, idx)).chain([write(n)])).collect()).await.unwrap();
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        backed_up(&*store, before.path()).await;
        let (first, body) = (id(&fresh.place, 0), if fresh.name == "sqlite" { "'{'" } else { "'{}'" });
        change(&fresh.place, &format!("UPDATE turns SET body = {body} WHERE trace = {first} AND turn_idx = 1")).await;
        change(
            &fresh.place,
            &format!("UPDATE turns SET hash = {} WHERE trace = {first} AND turn_idx = 2", other_hash(&fresh.place)),
        )
        .await;
        change(&fresh.place, &format!("DELETE FROM turns WHERE trace = {first} AND turn_idx = 4")).await;
        let manifest = backed_up(&*store, after.path()).await;
        assert_eq!((manifest.records.turns, manifest.n_damaged), (10, 3), "{:?} on {}", manifest.damaged, fresh.name);

        let mut targets = vec![common::sqlite()];
        targets.extend(common::postgres().await);
        for target in &targets {
            let restored = target.open().await;
            restore(&*restored, after.path(), |_| ()).await.unwrap();
            let found = restored.trace(trace(0).id).await.unwrap().unwrap();
            let errors: Vec<usize> = found.turns().map(|turn| turn.errors.len()).collect();
            assert_eq!(errors, [0, 1, 1, 0, 1, 0], "{} to {}", fresh.name, target.name);
            let last = found.turns().last().unwrap();
            assert_eq!(last.answer, next(0, 5).turn.answer);
            assert_eq!(restored.trace(trace(1).id).await.unwrap(), Some(grown(1, 6)));
            // An older back-up has them still.
            let again = restore(&*restored, before.path(), |_| ()).await.unwrap();
            assert_eq!((again.repaired, again.n_differing), (3, 0), "{again:?}");
            assert_eq!(restored.trace(trace(0).id).await.unwrap(), Some(grown(0, 6)));
            let heads = restored.heads(&Default::default(), None, 10).await.unwrap().items;
            let head = heads.into_iter().find(|head| head.id == trace(0).id).unwrap();
            assert_eq!((head.n_turns, head.n_tokens), (6, grown(0, 6).head().n_tokens));
            assert!((head.cost_usd - grown(0, 6).head().cost_usd).abs() < 1e-9, "{}", head.cost_usd);
            // And nothing takes them away again.
            let again = restore(&*restored, after.path(), |_| ()).await.unwrap();
            assert_eq!((again.repaired, again.n_differing), (0, 0), "{again:?}");
            assert_eq!(restored.trace(trace(0).id).await.unwrap(), Some(grown(0, 6)));
        }
    });
}
