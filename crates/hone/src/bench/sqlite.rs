//! SQLite by itself: a bulk insert of the same bytes, and one writer on the same schema.

use super::figures::Spread;
use super::store::{Figures, Load, Seen, batches, fsyncs, import, lists_under_load, writers};
use crate::context::Context;
use crate::failure::Failure;
use hone_store::{Options, Place};
use hone_trace::store::Store;
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) async fn measure(load: &Load, n_rounds: u32, context: &Context<'_>) -> Result<Figures, Failure> {
    let folder = load.folder.path();
    let (mut bulk, mut file, mut grouped) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = Seen::default();
    let rate = |time: Duration| load.n_traces as f64 / time.as_secs_f64();
    for round in 0..n_rounds {
        context.printer.say(&format!("sqlite, round {}", round + 1));
        seen.syncs.extend(fsyncs(folder)?);
        let bare = bulk_insert(&folder.join(format!("bulk-{round}.db")), &load.lines).map_err(Failure::world)?;
        let batched = batches(&Place::Folder(folder.join(format!("batches-{round}"))), load).await?;
        bulk.push(rate(batched) / rate(bare));
        seen.rates.push(rate(batched));
        let imported = import(&load.file, Place::Folder(folder.join(format!("import-{round}"))), context).await?;
        file.push(rate(imported) / rate(bare));
        seen.file_rates.push(rate(imported));

        let one = one_writer(&folder.join(format!("one-{round}")), load).await?;
        let place = Place::Folder(folder.join(format!("writers-{round}")));
        let store: Arc<dyn Store> = hone_store::open(&place, &Options::default()).await?;
        let (many, times) = writers(&store, load).await?;
        seen.acks.extend(times);
        grouped.push(rate(many) / rate(one));
        seen.writer_rates.push(rate(many));
    }
    let last = Place::Folder(folder.join(format!("import-{}", n_rounds - 1)));
    seen.lists = lists_under_load(last, load, context).await?;
    let (bulk, grouped) = (Spread::of(&bulk), Spread::of(&grouped));
    Ok(Figures {
        vs_bulk: Some(bulk.median),
        vs_bulk_spread: Some(bulk),
        vs_batched: Some(grouped.median),
        vs_batched_spread: Some(grouped),
        file_vs_bulk_spread: Some(Spread::of(&file)),
        ..seen.figures()
    })
}

/// The same bytes into a table without anything else, as durable, 1,000 in a transaction.
fn bulk_insert(path: &Path, lines: &[String]) -> rusqlite::Result<Duration> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; CREATE TABLE bulk (body TEXT NOT NULL)",
    )?;
    let start = Instant::now();
    for thousand in lines.chunks(1000) {
        let transaction = connection.transaction()?;
        for line in thousand {
            transaction.prepare_cached("INSERT INTO bulk (body) VALUES (?1)")?.execute([line])?;
        }
        transaction.commit()?;
    }
    // An import ends with its store closed and the log copied into the file, and so does this.
    drop(connection);
    Ok(start.elapsed())
}

/// One writer on the store's own schema, 64 rows a transaction, with everything encoded beforehand.
async fn one_writer(folder: &Path, load: &Load) -> Result<Duration, Failure> {
    drop(hone_store::open(&Place::Folder(folder.to_owned()), &Options::default()).await?);
    let traces: Vec<_> = (0..load.n_traces).map(|n| load.samples.trace(n)).map(|trace| (trace.head(), trace.started)).collect();
    let insert = || -> rusqlite::Result<Duration> {
        let mut connection = Connection::open(folder.join("hone.db"))?;
        connection.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; INSERT INTO tenants (id, name) VALUES (1, 'default')",
        )?;
        let start = Instant::now();
        let rows: Vec<_> = traces.iter().zip(&load.lines).collect();
        for batch in rows.chunks(64) {
            let transaction = connection.transaction()?;
            for ((head, at), line) in batch {
                let band = (head.reward.unwrap_or(0.0) * 20.0).floor() as i64 + 20;
                let category = head.category.as_ref().map(|category| category.as_str());
                transaction
                    .prepare_cached(
                        "INSERT INTO traces (id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens,
                                             cost_usd, hash)
                         VALUES (?1, 1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10)",
                    )?
                    .execute(params![
                        head.id.bytes(),
                        at.unix_nanos(),
                        category,
                        head.config.bytes(),
                        head.reward,
                        band,
                        head.n_turns,
                        i64::try_from(head.n_tokens).unwrap_or(0),
                        head.cost_usd,
                        [0_u8; 16],
                    ])?;
                let seq = transaction.last_insert_rowid();
                transaction.prepare_cached("INSERT INTO bodies (seq, body) VALUES (?1, ?2)")?.execute(params![seq, line])?;
            }
            transaction.commit()?;
        }
        Ok(start.elapsed())
    };
    insert().map_err(Failure::world)
}
