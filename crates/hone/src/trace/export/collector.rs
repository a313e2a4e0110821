//! Traces to an OpenTelemetry collector: spans over HTTP, some traces to a request, one request after the other.
//!
//! A collector that is busy or away is asked again, as late as it wants. A span is known by its id, so that a collector that has some of
//! them already takes no harm when all are sent again. What a header says of a key is never shown, not even in the words of the
//! collector.

use crate::failure::Failure;
use crate::printer::counted;
use crate::settings::without_password;
use hone_trace::Trace;
use hone_trace::format::otlp::protobuf::Message;
use hone_trace::format::otlp::request;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde_json::{Value, json};
use std::time::Duration;

/// How many bytes of spans and how many traces go into one request, but for a single trace that is larger.
const BATCH_BYTES_MAX: usize = 1 << 20;
const BATCH_LEN_MAX: usize = 100;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a request is sent before it is given up, and how long the first wait is; it doubles with each.
const N_ATTEMPTS_MAX: u32 = 6;
const WAIT: Duration = Duration::from_millis(500);
/// The longest wait that a collector may ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// What to do about a collector that is busy or away.
const LATER: &str = "run the same command again later: spans are known by their ids, and count once however often they are sent";
/// How much of an answer is read, and how much of it is shown.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const SHOWN_LEN_MAX: usize = 300;

/// How spans are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Encoding {
    /// OTLP in protobuf, which every collector takes
    Protobuf,
    /// OTLP in JSON
    Json,
}

/// Who is sent spans.
pub(super) struct Collector {
    client: Client,
    url: Url,
    headers: HeaderMap,
    encoding: Encoding,
    waiting: Vec<Value>,
    waiting_bytes: usize,
    sent: Sent,
}

/// What was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// The address, as it may be shown.
    pub(super) to: String,
    pub(super) n_traces: u64,
    pub(super) n_spans: u64,
    pub(super) n_refused: u64,
    /// What the collector said of the first that it refused.
    pub(super) why: Option<String>,
}

/// Why a request did not arrive.
enum Trouble {
    /// It may arrive later, and the collector may have said when.
    Passing(String, Option<Duration>),
    Lasting(String),
}

impl Collector {
    /// A collector at this address. Its path is that of OTLP unless it has one.
    pub(super) fn new(to: &str, headers: &[String], encoding: Encoding) -> Result<Self, Failure> {
        let shown = without_password(to);
        let mut url =
            Url::parse(to).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host()).ok_or_else(|| {
                Failure::user(format_args!("--to {shown} is not an address"))
                    .hint("it begins with http:// or https://, such as http://127.0.0.1:4318")
            })?;
        if url.path() == "/" {
            url.set_path("/v1/traces");
        }
        let mut all = HeaderMap::new();
        for pair in headers {
            let (name, value) = header(pair).ok_or_else(|| {
                // Only the name is shown, and only if there is one.
                let name = pair.split_once('=').map_or("…", |(name, _)| name);
                Failure::user(format_args!("--header {name}=… is not a header"))
                    .hint("write it as NAME=VALUE, such as authorization=Bearer …")
            })?;
            all.insert(name, value);
        }
        let form = if encoding == Encoding::Json { "application/json" } else { "application/x-protobuf" };
        all.insert(CONTENT_TYPE, HeaderValue::from_static(form));
        // Headers are meant for this address alone.
        let client = Client::builder().timeout(REQUEST_TIMEOUT).redirect(reqwest::redirect::Policy::none());
        let client = client.build().map_err(Failure::world)?;
        let sent = Sent { to: without_password(url.as_str()), ..Sent::default() };
        Ok(Self { client, url, headers: all, encoding, waiting: Vec::new(), waiting_bytes: 0, sent })
    }

    /// Sends a trace, now or with the next ones.
    pub(super) async fn add(&mut self, trace: &Trace) -> Result<(), Failure> {
        let Value::Object(mut request) = request(trace) else { return Ok(()) };
        let resources = request.remove("resourceSpans").unwrap_or_default();
        let bytes = resources.to_string().len();
        if self.waiting_bytes + bytes > BATCH_BYTES_MAX || self.waiting.len() >= BATCH_LEN_MAX {
            self.send().await?;
        }
        self.waiting.push(resources);
        self.waiting_bytes += bytes;
        Ok(())
    }

    /// Sends what waits, and says what was sent in all.
    pub(super) async fn close(mut self) -> Result<Sent, Failure> {
        self.send().await?;
        Ok(self.sent)
    }

    async fn send(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if waiting.is_empty() {
            return Ok(());
        }
        let n_traces = waiting.len() as u64;
        let resources: Vec<Value> = waiting.into_iter().filter_map(|list| list.as_array().cloned()).flatten().collect();
        let n_spans = resources.iter().map(n_spans).sum::<u64>();
        let body = json!({"resourceSpans": resources});
        let body = match self.encoding {
            Encoding::Protobuf => Message::Request.write(&body),
            Encoding::Json => body.to_string().into_bytes(),
        };
        let (n_refused, why) = self.deliver(&body).await?;
        self.sent.n_traces += n_traces;
        self.sent.n_spans += n_spans;
        self.sent.n_refused += n_refused.min(n_spans);
        self.sent.why = self.sent.why.take().or(why);
        Ok(())
    }

    /// Sends one request until it arrives. Says how many spans were refused, and why.
    async fn deliver(&self, body: &[u8]) -> Result<(u64, Option<String>), Failure> {
        let mut wait = WAIT;
        for n_attempts in 1.. {
            let (why, asked) = match self.attempt(body).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Passing(why, asked)) if n_attempts < N_ATTEMPTS_MAX => (why, asked),
                Err(Trouble::Passing(why, _)) => return Err(self.failure(&why).hint(LATER)),
                Err(Trouble::Lasting(why)) => return Err(self.failure(&why)),
            };
            let asked = asked.unwrap_or(wait);
            if asked > WAIT_MAX {
                let why = format!("{why}, and wants to be asked again in {} s", asked.as_secs());
                return Err(self.failure(&why).hint(LATER));
            }
            tokio::time::sleep(asked).await;
            wait *= 2;
        }
        Err(Failure::bug("attempts have no end"))
    }

    fn failure(&self, why: &str) -> Failure {
        let Sent { to, n_traces, .. } = &self.sent;
        let done =
            if *n_traces == 0 { "nothing".to_owned() } else { format!("{} and then no more", counted(*n_traces, "trace")) };
        Failure::world(anyhow::anyhow!("{to} took {done}: {why}"))
    }

    async fn attempt(&self, body: &[u8]) -> Result<(u64, Option<String>), Trouble> {
        let sending = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body.to_vec()).send();
        let response =
            sending.await.map_err(|error| Trouble::Passing(format!("{:#}", anyhow::Error::new(error.without_url())), None))?;
        let (status, asked) = (response.status(), asked(&response));
        let answer = read(response).await;
        if status.is_success() {
            let partial = self.partial(&answer);
            let why = || format!("it answers {status} with something else than OTLP: {}", self.said(&answer));
            return partial.ok_or_else(|| Trouble::Lasting(why()));
        }
        let said = self.said(&answer);
        let why = if said.is_empty() { format!("it answers {status}") } else { format!("it answers {status}: {said}") };
        let passing = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        if passing.contains(&status) { Err(Trouble::Passing(why, asked)) } else { Err(Trouble::Lasting(why)) }
    }

    /// How many spans of a request that arrived were refused, and why. `None` when this is not the answer of a collector: a page
    /// to log in on also comes with 200. Some collectors answer in JSON whatever they are asked in.
    fn partial(&self, answer: &[u8]) -> Option<(u64, Option<String>)> {
        let is_page = answer.trim_ascii_start().starts_with(b"<");
        let json = || serde_json::from_slice(answer).ok().filter(Value::is_object);
        let answer = match self.encoding {
            _ if answer.trim_ascii().is_empty() => Value::default(),
            _ if is_page => return None,
            Encoding::Protobuf => json().or_else(|| Message::Response.read(answer).ok())?,
            Encoding::Json => json()?,
        };
        let partial = &answer["partialSuccess"];
        let rejected = &partial["rejectedSpans"];
        let n_refused = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        Some((n_refused, partial["errorMessage"].as_str().filter(|why| !why.is_empty()).map(|why| self.shown(why))))
    }

    /// What the collector says of its refusal: the message of a status, or whatever text there is.
    fn said(&self, answer: &[u8]) -> String {
        let status = match self.encoding {
            Encoding::Protobuf => Message::Status.read(answer).ok(),
            Encoding::Json => serde_json::from_slice(answer).ok(),
        };
        let message = status.and_then(|status: Value| Some(status["message"].as_str()?.to_owned()));
        self.shown(&message.unwrap_or_else(|| String::from_utf8_lossy(answer).into_owned()))
    }

    /// The words of a collector without what headers say, and not too many of them.
    fn shown(&self, text: &str) -> String {
        let values = self.headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
        let mut text = text.to_owned();
        for value in
            values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or_default()]).filter(|value| !value.is_empty())
        {
            text = text.replace(value, "***");
        }
        text.trim().chars().take(SHOWN_LEN_MAX).collect()
    }
}

/// How many spans a resource has.
fn n_spans(resource: &Value) -> u64 {
    let scopes = resource["scopeSpans"].as_array().into_iter().flatten();
    scopes.map(|scope| scope["spans"].as_array().map_or(0, |spans| spans.len() as u64)).sum()
}

/// How long the collector wants not to be asked, where it says so in seconds.
fn asked(response: &Response) -> Option<Duration> {
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The beginning of an answer.
async fn read(mut response: Response) -> Vec<u8> {
    let mut answer = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        answer.extend_from_slice(&chunk);
        if answer.len() > ANSWER_BYTES_MAX {
            answer.truncate(ANSWER_BYTES_MAX);
            break;
        }
    }
    answer
}

fn header(pair: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = pair.split_once('=')?;
    let mut value: HeaderValue = value.trim().parse().ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}
