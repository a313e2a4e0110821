//! Metrics to a collector: OTLP over HTTP in JSON, to the address in the standard variables.
//!
//! Every value is a gauge `hone.train.NAME` of the resource that is the run. The step is a gauge as well and no attribute, because a
//! collector keeps a series for every attribute it sees. A thread of its own sends what has come together since it last did; a
//! collector that is slow or away loses lines and never holds up the run. Lines are not sent again: the run's own file has them all.

use super::metrics::Line;
use super::runs::Run;
use crate::failure::Failure;
use crate::printer::counted;
use crate::settings::{Variables, without_password};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most lines that wait for the collector; one request holds at most as many.
const QUEUE_LEN_MAX: usize = 64;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of a run waits for what is still on its way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Where metrics go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Collector {
    url: String,
    headers: HeaderMap,
    service: String,
}

impl Collector {
    /// The one that the variables name.
    pub(crate) fn of(variables: &Variables) -> Result<Option<Self>, Failure> {
        let get = |name: &str| variables.get(name).map(|value| value.to_string_lossy().trim().to_owned());
        let own = |what: &str| get(&format!("OTEL_EXPORTER_OTLP_METRICS_{what}")).or(get(&format!("OTEL_EXPORTER_OTLP_{what}")));
        let is_off = get("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"))
            || get("OTEL_METRICS_EXPORTER").is_some_and(|text| text == "none");
        let base = get("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| format!("{}/v1/metrics", base.trim_end_matches('/')));
        let Some(url) = get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").or(base).filter(|_| !is_off) else { return Ok(None) };
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Failure::config("the address of the OTLP collector must begin with http:// or https://")
                .hint("correct OTEL_EXPORTER_OTLP_ENDPOINT, or set OTEL_METRICS_EXPORTER=none"));
        }
        if own("PROTOCOL").is_some_and(|protocol| protocol == "grpc") {
            return Err(Failure::config("OTEL_EXPORTER_OTLP_PROTOCOL asks for grpc, and hone sends metrics over HTTP")
                .hint("name the HTTP port of the collector (4318 as a rule) and http/json, or set OTEL_METRICS_EXPORTER=none"));
        }
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for pair in own("HEADERS").iter().flat_map(|text| text.split(',')).filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = header(pair)
                .ok_or_else(|| Failure::config("OTEL_EXPORTER_OTLP_HEADERS is not a list such as `name=value,other=value`"))?;
            headers.insert(name, value);
        }
        Ok(Some(Self { url, headers, service: get("OTEL_SERVICE_NAME").unwrap_or_else(|| "hone".to_owned()) }))
    }
}

/// Lines on their way to a collector.
pub(crate) struct Telemetry {
    queue: SyncSender<Line>,
    done: Receiver<()>,
    lost: Arc<Mutex<Lost>>,
    address: String,
}

/// What did not arrive.
#[derive(Debug, Default)]
struct Lost {
    n_lines: u64,
    /// Why the first of them did not.
    why: Option<String>,
    is_told: bool,
}

impl Telemetry {
    /// Starts the thread that sends.
    pub(crate) fn start(collector: Collector, run: &Run) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::world)?;
        let client = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().map_err(Failure::world)?;
        let ((queue, lines), (finish, done)) = (sync_channel::<Line>(QUEUE_LEN_MAX), channel());
        let (lost, address) = (Arc::<Mutex<Lost>>::default(), without_password(&collector.url));
        let (shared, resource) = (Arc::clone(&lost), resource(&collector.service, run));
        let send = move || {
            while let Ok(first) = lines.recv() {
                let batch: Vec<Line> = [first].into_iter().chain(lines.try_iter().take(QUEUE_LEN_MAX - 1)).collect();
                let body = export(&resource, &batch).to_string();
                let request = client.post(&collector.url).headers(collector.headers.clone()).body(body);
                let why = match runtime.block_on(async { request.send().await }) {
                    Ok(answer) if answer.status().is_success() => continue,
                    Ok(answer) => format!("it answers {}", answer.status()),
                    Err(error) => format!("{:#}", anyhow::Error::new(error.without_url())),
                };
                lose(&shared, batch.len() as u64, why);
            }
            // Nobody waits for it when the run was given up.
            let _ = finish.send(());
        };
        std::thread::Builder::new().name("telemetry".to_owned()).spawn(send).map_err(Failure::world)?;
        Ok(Self { queue, done, lost, address })
    }

    /// Hands a line over, and waits for nothing.
    pub(crate) fn add(&self, line: &Line) {
        if self.queue.try_send(line.clone()).is_err() {
            lose(&self.lost, 1, "it is too slow".to_owned());
        }
    }

    /// What went wrong, when it did for the first time.
    pub(crate) fn trouble(&self) -> Option<String> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let why = lost.why.clone().filter(|_| !lost.is_told)?;
        lost.is_told = true;
        Some(format!("metrics do not reach {}: {why}. The run goes on, and keeps them in metrics.jsonl", self.address))
    }

    /// Waits a moment for what is on its way; says what did not arrive in all.
    pub(crate) fn close(self) -> Option<String> {
        drop(self.queue);
        let is_late = self.done.recv_timeout(CLOSE_TIMEOUT).is_err();
        let n_lines = self.lost.lock().unwrap_or_else(PoisonError::into_inner).n_lines;
        match (n_lines, is_late) {
            (0, false) => None,
            (_, true) => Some(format!("{} did not take the last metrics in time; metrics.jsonl has them all", self.address)),
            (n, false) => {
                Some(format!("{} did not get {} of metrics; metrics.jsonl has them all", self.address, counted(n, "line")))
            }
        }
    }
}

fn lose(lost: &Mutex<Lost>, n_lines: u64, why: String) {
    let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
    lost.n_lines += n_lines;
    lost.why.get_or_insert(why);
}

fn resource(service: &str, run: &Run) -> Value {
    let mut facts =
        vec![("service.name", service), ("hone.run", &run.name), ("hone.method", &run.method), ("hone.model", &run.model)];
    facts.extend(run.env.as_deref().map(|env| ("hone.env", env)));
    let attributes: Vec<Value> = facts.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect();
    json!({ "attributes": attributes })
}

/// An `ExportMetricsServiceRequest`: a gauge for each value, with a point for each line that has it.
fn export(resource: &Value, lines: &[Line]) -> Value {
    let mut points: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for line in lines {
        let time = line.unix_nanos().to_string();
        let step = ("step", json!({"timeUnixNano": time, "asInt": line.step.to_string()}));
        let values = line.values.iter().map(|(name, value)| (name.as_str(), json!({"timeUnixNano": time, "asDouble": value})));
        values.chain([step]).for_each(|(name, point)| points.entry(name).or_default().push(point));
    }
    let gauge =
        |(name, points): (&str, Vec<Value>)| json!({"name": format!("hone.train.{name}"), "gauge": {"dataPoints": points}});
    let scope = json!({"name": "hone.train", "version": env!("CARGO_PKG_VERSION")});
    let metrics: Vec<Value> = points.into_iter().map(gauge).collect();
    json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]})
}

/// `name=value` with the value in percent encoding.
fn header(pair: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = pair.split_once('=')?;
    let mut value = HeaderValue::from_bytes(&decoded(value.trim())?).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
