//! `hone bench gateway`: what `hone serve` adds to a provider's time, what it carries, and what it does when there is too much.
//!
//! A mock provider and the gateway are processes of their own, the load comes from this one, and all share the machine: what is
//! published are rates and times beside each other in one run. Recording is on, and durable. Peers carry the same load.

mod load;
pub(super) mod mock;
pub(super) mod peer;

use super::figures::{Spread, rounded};
use super::{scratch, store};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use load::{Seen, Target, closed, open};
use peer::{Peer, Process};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Connections of the load that looks for the most.
const N_CONNECTIONS: usize = 128;
/// Streams at once.
const N_STREAMS: usize = 2000;
/// Milliseconds between the words of a stream.
const WORD_MS: u64 = 200;
/// How much more than it can carry is asked of it.
const OVERLOAD: f64 = 5.0;
/// Connections over which it is asked: more than a place can be found for in the time that one waits for it.
const N_CONNECTIONS_OVERLOAD: usize = 4096;
/// Requests that it works on at once while there is too much.
const N_REQUESTS_MAX: u32 = 256;
/// The name it answers to.
const MODEL: &str = "mock";

/// Measure what the gateway carries, what it adds, and what it does under overload
///
/// A mock provider, the gateway and the load share this machine. Beside it the bare provider, the disk, and with --peers a LiteLLM proxy
/// and a TensorZero gateway, which are installed with pip on first use.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often each is repeated
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Requests a second at which added latency is measured
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Milliseconds that the mock provider takes to answer at the fixed rate; timers are no finer, so without any the least is seen
    #[arg(long, default_value_t = 0, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    latency_ms: u64,
    /// Let one of so many calls to the provider fail; 0 lets none
    #[arg(long, default_value_t = 0, value_name = "N")]
    fail_every: u64,
    /// Measure LiteLLM and TensorZero beside it
    #[arg(long)]
    peers: bool,
    /// The seed of the order of the rounds
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Figures {
    /// Answers a second over 128 connections to a provider that takes no time.
    rps: Spread,
    direct_rps: Spread,
    /// What the gateway adds at the fixed rate, percentile against percentile.
    added_p50_ms: f64,
    added_p99_ms: f64,
    fsync_p50_ms: f64,
    fsync_p99_ms: f64,
    /// Memory of the gateway after the loads, and with all streams open.
    rss_mb: f64,
    streams_rss_mb: f64,
    streams_ok: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    litellm_rps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vs_litellm: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensorzero_rps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vs_tensorzero: Option<f64>,
    /// Good answers at five times the peak, as a share of the peak of the same round.
    overload_goodput: f64,
    overload_rounds: Vec<f64>,
    overload_refused: u64,
    /// Requests that got neither an answer nor a refusal, over all loads.
    failed: u64,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = scratch::folder(context)?;
    let figures = measure(args, folder.path(), context).await?;
    if context.printer.wants_json() {
        context.printer.json(&figures)?;
        return Ok(Exit::Yes);
    }
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("answers a second, 128 connections", figures.rps.to_string()),
        row("the same without a gateway", figures.direct_rps.to_string()),
        row(
            &format!("added at {} a second, p50 / p99", args.rate),
            format!("{} / {} ms", figures.added_p50_ms, figures.added_p99_ms),
        ),
        row("bare fsync, p50 / p99", format!("{} / {} ms", figures.fsync_p50_ms, figures.fsync_p99_ms)),
        row("memory after the loads", format!("{} MB", figures.rss_mb)),
        row("2,000 streams at once", format!("{} whole, {} MB", figures.streams_ok, figures.streams_rss_mb)),
        row("good answers at five times the peak", format!("{} of the peak", figures.overload_goodput)),
    ];
    for (name, rate, times) in
        [("LiteLLM", figures.litellm_rps, figures.vs_litellm), ("TensorZero", figures.tensorzero_rps, figures.vs_tensorzero)]
    {
        if let (Some(rate), Some(times)) = (rate, times) {
            rows.push(row(&format!("{name}, answers a second"), format!("{rate} (hone: {times} times that)")));
        }
    }
    context.printer.table(&["", ""], &rows)?;
    Ok(Exit::Yes)
}

async fn measure(args: &Args, folder: &Path, context: &Context<'_>) -> Result<Figures, Failure> {
    let say = |text: &str| context.printer.say(text);
    let time = Duration::from_secs(args.seconds);
    let mut failed = 0;
    let mut counted = |seen: Seen| {
        failed += seen.n_failed;
        if let Some(failure) = &seen.failure {
            context.printer.say(&format!("{} requests failed, one of them so: {failure}", seen.n_failed));
        }
        seen
    };

    say("a provider that takes no time");
    let quick = Process::mock(0, args.fail_every)?;
    let serve = Process::serve(&folder.join("peak"), quick.port, None)?;
    let strained = Process::serve(&folder.join("overload"), quick.port, Some(N_REQUESTS_MAX))?;
    let (mut rps, mut direct_rps, mut goodput, mut overload_refused) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 0..args.rounds {
        // In turns, so that neither always meets the machine that the other has warmed up.
        let order =
            if (u64::from(round) + args.seed).is_multiple_of(2) { [quick.port, serve.port] } else { [serve.port, quick.port] };
        for port in order {
            let seen = counted(closed(&target(port, false), N_CONNECTIONS, time).await);
            if port == serve.port { &mut rps } else { &mut direct_rps }.push(seen.ok_per_second());
        }
        // Five times as much as it carried a moment ago.
        let peak = rps.last().copied().unwrap_or_default();
        let seen = counted(open(&target(strained.port, false), N_CONNECTIONS_OVERLOAD, OVERLOAD * peak, time).await);
        goodput.push(seen.ok_per_second() / peak.max(1e-9));
        overload_refused += seen.n_refused;
    }
    let peak = Spread::of(&rps);
    let rss_mb = serve.rss_mb();
    drop((serve, strained));

    say("a fixed rate");
    let slow = Process::mock(args.latency_ms, args.fail_every)?;
    let serve = Process::serve(&folder.join("rate"), slow.port, None)?;
    let (mut through, mut direct) = (Seen::default(), Seen::default());
    let mut syncs = store::fsyncs(folder)?;
    for _ in 0..args.rounds {
        for (port, seen) in [(slow.port, &mut direct), (serve.port, &mut through)] {
            let more = counted(open(&target(port, false), N_CONNECTIONS * 4, f64::from(args.rate), time).await);
            seen.times.extend(more.times);
        }
        syncs.extend(store::fsyncs(folder)?);
    }
    drop(serve);

    say("two thousand streams");
    let streaming = Process::mock(WORD_MS, 0)?;
    let serve = Process::serve(&folder.join("streams"), streaming.port, None)?;
    let watched = serve.watch_rss();
    let streams = counted(open(&target(serve.port, true), N_STREAMS, N_STREAMS as f64, Duration::from_secs(1)).await);
    let streams_rss_mb = watched.most();
    drop(serve);

    let mut figures = Figures {
        rps: peak,
        direct_rps: Spread::of(&direct_rps),
        added_p50_ms: rounded(through.times.percentile(0.5) - direct.times.percentile(0.5)),
        added_p99_ms: rounded(through.times.percentile(0.99) - direct.times.percentile(0.99)),
        fsync_p50_ms: syncs.percentile(0.5),
        fsync_p99_ms: syncs.percentile(0.99),
        rss_mb,
        streams_rss_mb,
        streams_ok: streams.n_ok,
        litellm_rps: None,
        vs_litellm: None,
        tensorzero_rps: None,
        vs_tensorzero: None,
        overload_goodput: Spread::of(&goodput).median,
        overload_rounds: goodput.iter().map(|share| rounded(*share)).collect(),
        overload_refused,
        failed,
    };
    if args.peers {
        for peer in [Peer::LiteLlm, Peer::TensorZero] {
            say(peer.name());
            let process = Process::peer(peer, quick.port, folder)?;
            let target = Target { path: peer.path(), model: peer.model(), key: peer.key(), ..target(process.port, false) };
            // The first answers of an interpreter are slower than all others.
            drop(closed(&target, N_CONNECTIONS, Duration::from_secs(2)).await);
            let rate = closed(&target, N_CONNECTIONS, time).await.ok_per_second();
            let (per_second, times) = (Some(rounded(rate)), Some(rounded(peak.median / rate.max(1e-9))));
            match peer {
                Peer::LiteLlm => (figures.litellm_rps, figures.vs_litellm) = (per_second, times),
                Peer::TensorZero => (figures.tensorzero_rps, figures.vs_tensorzero) = (per_second, times),
            }
        }
    }
    Ok(figures)
}

fn target(port: u16, is_stream: bool) -> Target {
    Target { port, path: "/v1/chat/completions", model: MODEL.into(), is_stream, key: None }
}
