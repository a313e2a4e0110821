//! One model at one provider: the address, the key, the limits.
//!
//! [`Client::complete`] gives a whole answer; [`Client::stream`] gives it as it comes. Both try again what may be tried
//! again, keep to the limits of time, size, number and money, and put every attempt on the record. [`Client::embed`] does the
//! same for vectors of texts. The key is sent to the address it was given for and nowhere else: redirects are not followed.

use super::access::Access;
use super::budget::Budget;
use super::call::{Call, Completion, Streaming, UpstreamError};
use super::embedding::{self, Embeddings};
use super::key::KeyError;
use super::price::Price;
use super::request::{ChatRequest, Transfer};
use super::retry::{RealSleeper, Retry, Sleeper};
use super::signature::AwsKey;
use super::spec::UpstreamSpec;
use super::wire::{self, Wire};
use crate::local::Prompt;
use hone_trace::{Clock, Time};
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The limits of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// How [`Client::complete`] has the answer sent.
    pub transfer: Transfer,
    /// How failed attempts are tried again.
    pub retry: Retry,
    /// Milliseconds that a provider may ask to wait before it is asked again; where it asks for more, its no is the answer.
    pub asked_ms_max: u64,
    /// Milliseconds of a call with all its attempts.
    pub total_ms: u64,
    /// What sets it, for who reads that the time was not enough; empty where nobody can.
    pub total_set_by: &'static str,
    /// Milliseconds of one attempt.
    pub attempt_ms: u64,
    /// Milliseconds in which nothing comes; an answer in one piece may take longer to begin.
    pub idle_ms: u64,
    /// Milliseconds until a connection stands.
    pub connect_ms: u64,
    /// Calls at once; others wait.
    pub n_concurrent_max: usize,
    /// Bytes of an answer.
    pub body_bytes_max: usize,
    /// Bytes of one event of a stream.
    pub event_bytes_max: usize,
    /// What tokens cost; without this, as in the built-in table.
    pub price: Option<Price>,
    /// Who pays.
    pub budget: Option<Arc<Budget>>,
    /// What measures how long a call takes, and dates what is signed.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where waiting happens.
    pub sleeper: Arc<dyn Sleeper>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            transfer: Transfer::Stream,
            retry: Retry::default(),
            asked_ms_max: u64::MAX,
            total_ms: 600_000,
            total_set_by: "",
            attempt_ms: 300_000,
            idle_ms: 60_000,
            connect_ms: 10_000,
            n_concurrent_max: 32,
            body_bytes_max: 32 << 20,
            event_bytes_max: 4 << 20,
            price: None,
            budget: None,
            clock: None,
            sleeper: Arc::new(RealSleeper),
        }
    }
}

/// Why a client cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// There is a limit in dollars, and nobody knows what a token costs.
    #[error("a limit in dollars needs the price of `{0}`, which is not in the table of {date}: give its prices", date = super::price::PRICES_DATE)]
    NoPrice(String),
    /// A price that is none.
    #[error("prices are dollars per million tokens, none below 0")]
    Price,
    /// A limit of 0 lets nothing through.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// The key cannot be sent.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Requests are to be signed where no signature is understood.
    #[error("only Bedrock takes signed requests; `{0}` takes a key")]
    Signed(String),
    /// A signature without a date is none.
    #[error("signed requests need a clock")]
    NoClock,
    /// The part that speaks HTTP could not be set up.
    #[error("HTTP could not be set up: {0}")]
    Http(String),
}

/// One model at one provider.
#[derive(Clone)]
pub struct Client {
    pub(super) http: reqwest::Client,
    pub(super) spec: UpstreamSpec,
    access: Access,
    proof: Proof,
    pub(super) price: Option<Price>,
    pub(super) options: ClientOptions,
    pub(super) gate: Arc<Semaphore>,
}

/// What every request carries: always the same, or signed anew each time.
#[derive(Clone)]
enum Proof {
    Fixed(HeaderMap),
    Signed(AwsKey, Arc<dyn Clock>),
}

impl Client {
    /// Checks the options and binds the access to the address.
    pub fn new(spec: UpstreamSpec, access: impl Into<Access>, options: ClientOptions) -> Result<Self, ClientError> {
        let access = access.into();
        let price = options.price.or_else(|| Price::known(spec.provider.name, &spec.model));
        if price.is_some_and(|price| !price.is_sound()) {
            return Err(ClientError::Price);
        }
        if has_limit(&options) && price.is_none() {
            return Err(ClientError::NoPrice(spec.model));
        }
        let counts = [
            ("the number of attempts", u64::from(options.retry.n_attempts_max)),
            ("the number of calls at once", options.n_concurrent_max as u64),
            ("the size of an answer", options.body_bytes_max as u64),
            ("the size of an event", options.event_bytes_max as u64),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ClientError::Zero(name));
        }
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_millis(options.connect_ms))
            .user_agent(concat!("hone/", env!("CARGO_PKG_VERSION")));
        if matches!(spec.base_url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            // A server on this machine is not asked through a proxy elsewhere.
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| ClientError::Http(error.to_string()))?;
        let proof = match &access {
            Access::Open => Proof::Fixed(wire::headers(&spec.provider, None)?),
            Access::Key(key) => Proof::Fixed(wire::headers(&spec.provider, Some(key))?),
            Access::Signed(_) if spec.provider.wire != Wire::Bedrock => return Err(ClientError::Signed(spec.model)),
            Access::Signed(key) => Proof::Signed(key.clone(), options.clock.clone().ok_or(ClientError::NoClock)?),
        };
        let gate = Arc::new(Semaphore::new(options.n_concurrent_max.min(Semaphore::MAX_PERMITS)));
        Ok(Self { http, spec, access, proof, price, options, gate })
    }

    /// The model that is asked.
    pub fn spec(&self) -> &UpstreamSpec {
        &self.spec
    }

    /// What its tokens cost, where that is known.
    pub fn price(&self) -> Option<Price> {
        self.price
    }

    /// The limits.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// A whole answer.
    pub async fn complete(self: &Arc<Self>, request: &ChatRequest) -> Result<Completion, UpstreamError> {
        Call::new(Arc::clone(self), request, self.options.transfer)?.complete().await
    }

    /// An answer as it comes. Failures before the first piece are tried again; a later one is told, because what was
    /// passed on cannot be taken back.
    pub async fn stream(self: &Arc<Self>, request: &ChatRequest) -> Result<Streaming, UpstreamError> {
        Call::new(Arc::clone(self), request, Transfer::Stream)?.stream().await
    }

    /// The vectors of texts, one each and in their order, of as many dimensions as are asked for.
    pub async fn embed(self: &Arc<Self>, texts: &[Prompt], dimensions: Option<u64>) -> Result<Embeddings, UpstreamError> {
        Call::asking(Arc::clone(self), embedding::outgoing(&self.spec, texts, dimensions))?.embed(texts.len()).await
    }

    /// How many tokens a body in Anthropic's words has, in the provider's.
    pub async fn count(self: &Arc<Self>, body: &Map<String, Value>, headers: HeaderMap) -> Result<Value, UpstreamError> {
        Call::asking(Arc::clone(self), wire::counting(&self.spec, body, headers))?.count().await
    }

    /// What proves who sends this body to this address.
    pub(super) fn headers(&self, url: &Url, body: &[u8]) -> Result<HeaderMap, KeyError> {
        match &self.proof {
            Proof::Fixed(headers) => Ok(headers.clone()),
            Proof::Signed(key, clock) => key.headers(url, body, clock.now()),
        }
    }

    /// Whether an answer must not be longer than what was set aside for it.
    pub(super) fn pays_by_length(&self) -> bool {
        has_limit(&self.options) && self.price.is_some_and(|price| price.output > 0.0)
    }

    pub(super) fn now(&self) -> Option<Time> {
        self.options.clock.as_ref().map(|clock| clock.now())
    }

    /// A text from outside, without secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        self.access.redact(text)
    }
}

fn has_limit(options: &ClientOptions) -> bool {
    options.budget.as_ref().is_some_and(|budget| budget.limit_usd().is_some())
}
