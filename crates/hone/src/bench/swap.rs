//! `hone bench swap`: adapters of a model take turns under load. Does a request fail, how soon does the new one answer, and is any
//! answer a mixture?
//!
//! Every question is asked without chance, and an engine answers the same whatever else it computes, so each answer must be, to the
//! letter, the one that the old version gives alone or the one that the new version gives alone.

use super::figures::{Spread, Times};
use super::gateway::peer::{Process, own};
use super::scratch;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::model::Opened;
use hone_engine::load::WeightSource;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::peft;
use hone_trace::Draws;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Sizes of the model without --model.
const TINY: &str = "tiny:d64,l2,h2,kv1,ff128,v512,ctx256";
/// Questions that are asked in turn.
const N_QUESTIONS: usize = 8;
/// The rank of the adapters, and the deviation of their weights: enough to change what is said.
const RANK: usize = 8;
const WEIGHT: f32 = 0.08;
/// The agent whose versions take turns, and those that have one version each, to compare with.
const AGENT: &str = "desk";
const VERSIONS: [&str; 2] = ["v1", "v2"];

/// Swap adapters under load, and look at every answer
///
/// A model of this machine behind `hone serve` is asked at a fixed rate while `hone deploy` hands its agent over from one adapter to
/// another and back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A model of this machine; without this, a tiny one that is made for it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Requests a second
    #[arg(long, default_value_t = 200.0, value_name = "N")]
    rate: f64,
    /// How often adapters are swapped
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    swaps: u32,
    /// Seconds between two swaps
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    pause: f64,
    /// Tokens of an answer
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    tokens: u32,
    /// The seed of the adapters
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Figures {
    model: String,
    rate: f64,
    swaps: usize,
    requests: usize,
    /// Requests without a whole answer.
    failed: usize,
    /// Answers that are neither the old version's nor the new one's.
    mixed: usize,
    /// From when the swap was on the record to the first answer of the new version.
    first_new_ms: Spread,
    p50_ms: f64,
    p99_ms: f64,
}

/// An answer under load.
struct Answer {
    question_idx: usize,
    /// What was said; `None` when there was no whole answer.
    said: Option<String>,
    at: Instant,
    took: Duration,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    for (flag, value, most) in [("--rate", args.rate, 100_000.0), ("--pause", args.pause, 600.0)] {
        if !(value > 0.0 && value <= most) {
            return Err(Failure::user(format_args!("{flag} {value} is not above 0 and at most {most}")));
        }
    }
    let scratch = scratch::folder(context)?;
    let figures = measure(args, scratch.path(), context).await?;
    if context.printer.wants_json() {
        context.printer.json(&figures)?;
    } else {
        let Figures { requests, failed, mixed, swaps, first_new_ms, p50_ms, p99_ms, .. } = &figures;
        context.printer.plain(&format!("{requests} requests over {swaps} swaps: {failed} failed, {mixed} mixed two versions"))?;
        context.printer.plain(&format!("first answer of the new version after {first_new_ms} ms"))?;
        context.printer.plain(&format!("answers took {p50_ms} ms, one of a hundred more than {p99_ms} ms"))?;
    }
    Ok(if figures.failed + figures.mixed == 0 { Exit::Yes } else { Exit::No })
}

async fn measure(args: &Args, folder: &Path, context: &Context<'_>) -> Result<Figures, Failure> {
    let records = folder.join("records");
    let model = match &args.model {
        Some(model) => PathBuf::from(model).canonicalize().map_or_else(|_| model.clone(), |path| path.display().to_string()),
        None => {
            hone(&records, &["model", "add", TINY, "--name", "tiny"])?;
            records.join("models/tiny/files").display().to_string()
        }
    };
    let opened = Opened::named(&model, context)?;
    for (version_idx, version) in VERSIONS.into_iter().enumerate() {
        let adapter = folder.join(version);
        adapter_of(&opened, args.seed + version_idx as u64, &adapter)?;
        let adapter = adapter.display().to_string();
        for agent in [AGENT, version] {
            hone(&records, &["deploy", "add", agent, version, "--model", "own", "--base", &model, "--adapter", &adapter])?;
        }
    }
    let serve = Process::serve_with(&records, &[format!("--model=own=local:{model}")])?;
    let client = Client { http: reqwest::Client::new(), port: serve.port, n_tokens: args.tokens };
    let mut alone: Vec<[String; 2]> = Vec::new();
    for question_idx in 0..N_QUESTIONS {
        let said = [client.said(VERSIONS[0], question_idx).await, client.said(VERSIONS[1], question_idx).await];
        let [Some(first), Some(second)] = said else { return Err(Failure::user("the server does not answer before any load")) };
        alone.push([first, second]);
    }
    if alone.iter().all(|[first, second]| first == second) {
        return Err(Failure::user("the two adapters say the same, so nothing could be told apart").hint("take another --seed"));
    }

    let (answers, mut answered) = mpsc::unbounded_channel();
    let load = tokio::spawn(load(client, args.rate, answers));
    let mut swapped: Vec<(Instant, usize)> = Vec::new();
    for swap_idx in 0..args.swaps as usize {
        tokio::time::sleep(Duration::from_secs_f64(args.pause)).await;
        let to = (swap_idx + 1) % 2;
        context.printer.say(&format!("{} takes over", VERSIONS[to]));
        let records = records.clone();
        let deploy = tokio::task::spawn_blocking(move || {
            hone(&records, &["deploy", "start", AGENT, VERSIONS[to], "--shares", "0.5"])?;
            let at = Instant::now();
            hone(&records, &["deploy", "promote", AGENT]).map(|()| at)
        });
        swapped.push((deploy.await.map_err(Failure::world)??, to));
    }
    tokio::time::sleep(Duration::from_secs_f64(args.pause)).await;
    load.abort();
    let mut all: Vec<Answer> = Vec::new();
    while let Ok(answer) = answered.try_recv() {
        all.push(answer);
    }
    let (mut times, mut mixed) = (Times::default(), 0);
    for answer in &all {
        times.add(answer.took);
        mixed += usize::from(answer.said.as_ref().is_some_and(|said| !alone[answer.question_idx].contains(said)));
    }
    let first = |(at, to): &(Instant, usize)| {
        let is_new = |answer: &&Answer| {
            let [first, second] = &alone[answer.question_idx];
            answer.at >= *at && first != second && answer.said.as_ref() == Some(&alone[answer.question_idx][*to])
        };
        all.iter().filter(is_new).map(|answer| answer.at.duration_since(*at).as_secs_f64() * 1e3).min_by(f64::total_cmp)
    };
    let firsts: Option<Vec<f64>> = swapped.iter().map(first).collect();
    let firsts = firsts
        .ok_or_else(|| Failure::user("a new version did not answer until the next took over").hint("take a longer --pause"))?;
    Ok(Figures {
        model: opened.name.clone(),
        rate: args.rate,
        swaps: swapped.len(),
        requests: all.len(),
        failed: all.iter().filter(|answer| answer.said.is_none()).count(),
        mixed,
        first_new_ms: Spread::of(&firsts),
        p50_ms: times.percentile(0.5),
        p99_ms: times.percentile(0.99),
    })
}

/// An adapter that changes what is said.
fn adapter_of(model: &Opened, seed: u64, folder: &Path) -> Result<(), Failure> {
    let config = model.weights.config();
    let mut weights = LoraWeights::fresh(config, &LoraSpec::all(RANK, 2.0 * RANK as f32), seed);
    let mut draws = Draws::new(seed, &["swap"]);
    for matrix in weights.matrices.values_mut() {
        matrix.iter_mut().for_each(|weight| *weight = WEIGHT * draws.normal() as f32);
    }
    peft::save(folder, config, &weights, &model.name).map_err(Failure::world)
}

/// Runs a command of this program on the records of a folder.
fn hone(records: &Path, args: &[&str]) -> Result<(), Failure> {
    let output = own()?.arg("--folder").arg(records).args(args).output().map_err(at_path(records))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::user(format_args!("`hone {}` failed: {said}", args.join(" "))))
}

/// Who asks.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    port: u16,
    n_tokens: u32,
}

impl Client {
    /// What an agent says to a question; `None` when the answer is not whole.
    async fn said(&self, agent: &str, question_idx: usize) -> Option<String> {
        let question = format!("Question number {question_idx}: what is the answer?");
        let body = json!({
            "model": agent,
            "temperature": 0,
            "max_tokens": self.n_tokens,
            "messages": [{"role": "user", "content": question}],
        });
        let url = format!("http://127.0.0.1:{}/v1/chat/completions", self.port);
        let response = self.http.post(url).body(body.to_string()).send().await.ok()?.error_for_status().ok()?;
        let body: Value = serde_json::from_slice(&response.bytes().await.ok()?).ok()?;
        let choice = &body["choices"][0];
        // A tool call that nobody asked for is an answer, too.
        let calls = choice["message"].get("tool_calls").map(ToString::to_string).unwrap_or_default();
        choice["finish_reason"].as_str()?;
        Some(format!("{}{calls}", choice["message"]["content"].as_str().unwrap_or_default()))
    }
}

/// Asks at this rate until it is told to stop.
async fn load(client: Client, rate: f64, answers: mpsc::UnboundedSender<Answer>) {
    let (start, client) = (tokio::time::Instant::now(), Arc::new(client));
    let mut asked = JoinSet::new();
    for number in 0_u32.. {
        tokio::time::sleep_until(start + Duration::from_secs_f64(f64::from(number) / rate)).await;
        while asked.try_join_next().is_some() {}
        let (client, answers, question_idx) = (Arc::clone(&client), answers.clone(), number as usize % N_QUESTIONS);
        asked.spawn(async move {
            let began = Instant::now();
            let said = client.said(AGENT, question_idx).await;
            let at = Instant::now();
            // Who has stopped listening knows enough.
            drop(answers.send(Answer { question_idx, said, at, took: at - began }));
        });
    }
}
