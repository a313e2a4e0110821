//! A store that an older hone made opens, becomes a newer one, and holds what it held.

use crate::common::{grown, on_each, reward, trace, turn};
use hone_store::{Place, verify};
use hone_trace::store::{Put, TraceQuery};
use std::path::Path;
use uuid::Uuid;

/// A trace and a reward that was given to it later, as schema 1 keeps them.
struct Old {
    trace: [u8; 16],
    at: i64,
    config: Vec<u8>,
    hash: Vec<u8>,
    body: String,
    reward: [u8; 16],
    reward_hash: Vec<u8>,
    reward_body: String,
}

impl Old {
    fn new() -> Self {
        let (trace, reward) = (trace(1), reward("later", 0.5));
        let ((body, hash), (reward_body, reward_hash)) = (encoded(&trace), encoded(&reward));
        let (at, config) = (trace.started.unix_nanos(), trace.config.bytes().to_vec());
        Self { trace: trace.id.bytes(), at, config, hash, body, reward: reward.id.bytes(), reward_hash, reward_body }
    }
}

/// The record's JSON text, and its hash as a store keeps it.
fn encoded(record: &impl serde::Serialize) -> (String, Vec<u8>) {
    let text = hone_trace::json::to_vec(record).expect("a record has a JSON form");
    let hash = blake3::hash(&text).as_bytes()[..16].to_vec();
    (String::from_utf8(text).expect("JSON is UTF-8"), hash)
}

fn make_sqlite(folder: &Path, old: &Old) -> rusqlite::Result<()> {
    let database = rusqlite::Connection::open(folder.join("hone.db"))?;
    database.execute_batch(include_str!("../schema-1/sqlite.sql"))?;
    database.execute("INSERT INTO tenants (id, name) VALUES (1, 'default')", [])?;
    database.execute(
        "INSERT INTO traces (seq, id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens, cost_usd, hash)
         VALUES (1, ?1, 1, ?2, 'odd', ?3, 1, 0.5, 30, 1, 25, 0, ?4)",
        (&old.trace, old.at, &old.config, &old.hash),
    )?;
    database.execute("INSERT INTO bodies (seq, body) VALUES (1, ?1)", [&old.body])?;
    database.execute(
        "INSERT INTO rewards (id, trace, hash, body) VALUES (?1, ?2, ?3, ?4)",
        (&old.reward, &old.trace, &old.reward_hash, &old.reward_body),
    )?;
    Ok(())
}

async fn make_postgres(url: &str, old: &Old) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client
        .batch_execute(
            "CREATE SCHEMA hone;
             CREATE TABLE hone.meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
             INSERT INTO hone.meta (key, value) VALUES ('schema', '1');",
        )
        .await?;
    client.batch_execute(include_str!("../schema-1/postgres.sql")).await?;
    let (trace, reward) = (Uuid::from_bytes(old.trace), Uuid::from_bytes(old.reward));
    client.execute("INSERT INTO hone.tenants (name) VALUES ('default')", &[]).await?;
    client
        .execute(
            "INSERT INTO hone.traces
                (id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens, cost_usd, hash, body)
             VALUES ($1, 1, $2, 'odd', $3, 1, 0.5, 30, 1, 25, 0, $4, $5::text::jsonb)",
            &[&trace, &old.at, &old.config, &old.hash, &old.body],
        )
        .await?;
    client
        .execute(
            "INSERT INTO hone.rewards (id, trace, hash, body) VALUES ($1, $2, $3, $4::text::jsonb)",
            &[&reward, &trace, &old.reward_hash, &old.reward_body],
        )
        .await?;
    Ok(())
}

#[test]
fn a_store_from_before_traces_grew_holds_what_it_held_and_its_traces_go_on() {
    on_each(async |fresh| {
        match &fresh.place {
            Place::Folder(folder) => {
                std::fs::create_dir_all(folder).unwrap();
                make_sqlite(folder, &Old::new()).unwrap();
            }
            Place::Postgres(url) => make_postgres(url, &Old::new()).await.unwrap(),
        }
        let store = fresh.open().await;
        let info = store.info().await.unwrap();
        assert_eq!((info.schema, info.counts.traces, info.counts.turns, info.counts.rewards), (2, 1, 0, 1));
        let mut expected = trace(1);
        expected.rewards.push(reward("later", 0.5));
        assert_eq!(store.trace(expected.id).await.unwrap().as_ref(), Some(&expected));
        let heads = store.heads(&TraceQuery { reward_min: Some(0.5), ..TraceQuery::default() }, None, 10).await.unwrap().items;
        assert_eq!(heads, [expected.head()]);
        assert!(verify(&*store, |_| ()).await.unwrap().complaints.is_empty());
        assert_eq!(store.put(vec![turn(1, 1)]).await.unwrap(), [Put::New]);
        drop(store);
        let store = fresh.open().await;
        assert_eq!(store.trace(expected.id).await.unwrap().unwrap().segments, grown(1, 2).segments);
    });
}
