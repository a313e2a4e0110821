//! The child of `hone bench crash`: writes under load and says what was acknowledged, until it is killed.

use super::sample::Samples;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_store::{Options, Place};
use hone_trace::store::{Event, Link, Store, Write};
use hone_trace::{EventId, Tenant, TraceId};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Write until killed (for `hone bench crash`)
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of the traces
    #[arg(long)]
    seed: u64,
    /// Where each writer goes on, such as 5,0,12
    #[arg(long, value_delimiter = ',')]
    from: Vec<u64>,
}

/// The variable that says where to write: a URL has a password, which does not belong on a command line.
pub(super) const PLACE: &str = "HONE_BENCH_PLACE";

/// The place as the value of [`PLACE`].
pub(super) fn place_text(place: &Place) -> String {
    match place {
        Place::Folder(folder) => folder.display().to_string(),
        Place::Postgres(url) => url.clone(),
    }
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let text = context.variables.get(PLACE).ok_or_else(|| Failure::user("this command is run by `hone bench crash`"))?;
    let place = match text.to_str().filter(|text| text.starts_with("postgres://")) {
        Some(url) => Place::Postgres(url.to_owned()),
        None => Place::Folder(PathBuf::from(text)),
    };
    let store: Arc<dyn Store> = hone_store::open(&place, &Options::default()).await?;
    let samples = Samples::new(args.seed);
    let mut writers = tokio::task::JoinSet::new();
    for (writer, &first) in args.from.iter().enumerate() {
        let (store, samples) = (Arc::clone(&store), samples.clone());
        writers.spawn(async move {
            for n in first.. {
                let Ok(puts) = store.put(writes(&samples, writer as u64, n)).await else { return };
                // A write that was sent before and not acknowledged may be there already: Same. Never another one.
                let kinds: String = puts.iter().map(|put| format!("{put:?} ")).collect();
                let line = format!("{writer} {n} {kinds}\n");
                // One call, so that a line is never cut by another writer's.
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
    while writers.join_next().await.is_some() {}
    Ok(Exit::Yes)
}

/// What the n-th step of a writer writes: a trace, an event and a link that belong together, and the turn that the trace of
/// the step before goes on with.
pub(super) fn writes(samples: &Samples, writer: u64, n: u64) -> Vec<Write> {
    let trace = samples.trace(number(writer, n));
    let link = Link { from: format!("trace:{}", trace.id), rel: "written_by".to_owned(), to: format!("writer:{writer}") };
    let event = Event {
        id: event_id(writer, n),
        at: trace.started,
        tenant: Tenant::default(),
        stream: format!("writer:{writer}"),
        kind: "wrote".to_owned(),
        body: json!({"n": n, "trace": trace.id}),
    };
    let turn = n.checked_sub(1).map(|before| {
        let (trace, next) = samples.next_turn(number(writer, before));
        Write::Turn(trace, Box::new(next))
    });
    [Write::Trace(Box::new(trace)), Write::Link(link), Write::Event(event)].into_iter().chain(turn).collect()
}

pub(super) fn trace_id(samples: &Samples, writer: u64, n: u64) -> TraceId {
    samples.trace(number(writer, n)).id
}

pub(super) fn event_id(writer: u64, n: u64) -> EventId {
    EventId::derived(&["bench crash", &writer.to_string(), &n.to_string()])
}

fn number(writer: u64, n: u64) -> u64 {
    writer * 10_000_000 + n
}
