//! PostgreSQL by itself: a plain COPY of the same rows into a table without indexes.

use super::figures::Spread;
use super::scratch::Database;
use super::store::{Figures, Load, Seen, batches, fsyncs, import, lists_under_load, writers};
use crate::context::Context;
use crate::failure::Failure;
use bytes::Bytes;
use futures_util::SinkExt;
use hone_store::Options;
use hone_trace::store::Store;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

pub(super) async fn measure(load: &Load, n_rounds: u32, database: &Database, context: &Context<'_>) -> Result<Figures, Failure> {
    let store: Arc<dyn Store> = hone_store::open(&database.place(), &Options::default()).await?;
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.map_err(Failure::world)?;
    tokio::spawn(connection);
    let copies = copy_texts(load);
    let (mut copied, mut file) = (Vec::new(), Vec::new());
    let mut seen = Seen::default();
    let rate = |time: Duration| load.n_traces as f64 / time.as_secs_f64();
    for round in 0..n_rounds {
        context.printer.say(&format!("postgres, round {}", round + 1));
        seen.syncs.extend(fsyncs(load.folder.path())?);
        let plain = copy(&client, &copies).await.map_err(Failure::world)?;
        client.batch_execute("TRUNCATE hone.traces, hone.trace_fields").await.map_err(Failure::world)?;
        let batched = batches(&database.place(), load).await?;
        copied.push(rate(batched) / rate(plain));
        seen.rates.push(rate(batched));
        client.batch_execute("TRUNCATE hone.traces, hone.trace_fields").await.map_err(Failure::world)?;
        let imported = import(&load.file, database.place(), context).await?;
        file.push(rate(imported) / rate(plain));
        seen.file_rates.push(rate(imported));
        let (many, times) = writers(&store, load).await?;
        seen.acks.extend(times);
        seen.writer_rates.push(rate(many));
    }
    seen.lists = lists_under_load(database.place(), load, context).await?;
    let copied = Spread::of(&copied);
    Ok(Figures {
        vs_copy: Some(copied.median),
        vs_copy_spread: Some(copied),
        file_vs_copy_spread: Some(Spread::of(&file)),
        ..seen.figures()
    })
}

const COPY: &str = "COPY bare (seq, id, tenant, at, category, config, outcome, reward, band, n_turns, n_tokens, cost_usd, hash, body) \
                    FROM STDIN";

/// The columns of the store's own table, none of its indexes, 1,000 rows a COPY.
async fn copy(client: &Client, texts: &[String]) -> Result<Duration, tokio_postgres::Error> {
    client
        .batch_execute("DROP TABLE IF EXISTS bare; CREATE TABLE bare (LIKE hone.traces INCLUDING COMPRESSION INCLUDING STORAGE)")
        .await?;
    let start = Instant::now();
    for text in texts {
        let mut sink = pin!(client.copy_in(COPY).await?);
        sink.send(Bytes::copy_from_slice(text.as_bytes())).await?;
        sink.finish().await?;
    }
    Ok(start.elapsed())
}

fn copy_texts(load: &Load) -> Vec<String> {
    let row = |(n, line): (usize, &String)| {
        let trace = load.samples.trace(n as u64);
        let head = trace.head();
        let (reward, band) = (head.reward.unwrap_or(0.0), (head.reward.unwrap_or(0.0) * 20.0).floor() + 20.0);
        let category = head.category.map(|category| category.to_string()).unwrap_or_default();
        format!(
            "{n}\t{}\t1\t{}\t{category}\t\\\\x{}\t1\t{reward}\t{band}\t{}\t{}\t{}\t\\\\x00112233445566778899aabbccddeeff\t{}\n",
            head.id,
            head.started.unix_nanos(),
            head.config,
            head.n_turns,
            head.n_tokens,
            head.cost_usd,
            line.replace('\\', "\\\\"),
        )
    };
    let rows: Vec<String> = load.lines.iter().enumerate().map(row).collect();
    rows.chunks(1000).map(<[String]>::concat).collect()
}
