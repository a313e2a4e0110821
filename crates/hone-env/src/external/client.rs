//! JSON over HTTP, on a leash: time, size and number of tries are limited, and redirects are not followed.

use reqwest::blocking::{Client as Http, Response};
use reqwest::{StatusCode, Url};
use serde::de::DeserializeOwned;
use std::io::Read;
use std::time::{Duration, Instant};

use super::ExternalOptions;

/// The first wait before a request is sent again; it doubles each time.
const WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Characters of a server's own words that an error shows.
const QUOTE_CHARS_MAX: usize = 200;

/// Who talks to the server.
pub(super) struct Client {
    http: Http,
    base: String,
    options: ExternalOptions,
}

/// Why a request failed, with the address.
pub(super) struct Failure {
    pub(super) url: String,
    pub(super) reason: String,
    /// Whether the server does not know the address.
    pub(super) is_missing: bool,
    /// Whether it is the caller's time that ran out, and not what every request has.
    pub(super) is_late: bool,
    is_worth_a_retry: bool,
}

impl Failure {
    pub(super) fn text(&self) -> String {
        format!("{}: {}", self.url, self.reason)
    }
}

impl Client {
    pub(super) fn new(url: &str, options: ExternalOptions) -> Result<Self, Failure> {
        let failed = |reason: String| Failure::new(url, reason);
        let parsed = Url::parse(url).map_err(|error| failed(format!("this is no URL: {error}")))?;
        if !["http", "https"].contains(&parsed.scheme()) {
            return Err(failed(format!("a world is reached by http or https, not by {}", parsed.scheme())));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(Failure::new(parsed.host_str().unwrap_or(""), "a URL with a user name or password is refused".into()));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(failed("the URL of a world has no query and no fragment".into()));
        }
        let http = Http::builder()
            .timeout(Duration::from_millis(options.timeout_ms))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| failed(said(&error)))?;
        Ok(Self { http, base: parsed.as_str().trim_end_matches('/').to_owned(), options })
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(path, None, None)
    }

    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, body: &serde_json::Value) -> Result<T, Failure> {
        self.post_within(path, body, None)
    }

    /// The same, with all its tries, in this time.
    pub(super) fn post_within<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
        time_max_ms: Option<u64>,
    ) -> Result<T, Failure> {
        self.ask(path, Some(&body.to_string()), time_max_ms.map(Duration::from_millis))
    }

    fn ask<T: DeserializeOwned>(&self, path: &str, body: Option<&str>, time_max: Option<Duration>) -> Result<T, Failure> {
        let url = format!("{}/{path}", self.base);
        let (started, own) = (Instant::now(), Duration::from_millis(self.options.timeout_ms));
        let left = || time_max.map_or(Duration::MAX, |max| max.saturating_sub(started.elapsed()));
        let (mut wait, mut n_left) = (WAIT, self.options.retries);
        loop {
            let limit = left();
            match self.once(&url, body, limit.min(own)) {
                Err(failure) if failure.is_late && limit < own => return Err(failure),
                Err(failure) if failure.is_worth_a_retry && n_left > 0 && left() > wait => std::thread::sleep(wait),
                other => return other.map_err(|failure| Failure { is_late: false, ..failure }),
            }
            wait = (wait * 2).min(WAIT_MAX);
            n_left -= 1;
        }
    }

    fn once<T: DeserializeOwned>(&self, url: &str, body: Option<&str>, limit: Duration) -> Result<T, Failure> {
        let deadline = Instant::now() + limit;
        let request = match body {
            None => self.http.get(url),
            Some(body) => self.http.post(url).header("content-type", "application/json").body(body.to_owned()),
        };
        let response = request.timeout(limit).send().map_err(|error| match error.is_timeout() {
            true => Failure::lost(url, format!("no answer in {} ms", limit.as_millis()), true),
            false => Failure::lost(url, said(&error), false),
        })?;
        let status = response.status();
        let bytes = self.body(url, response, deadline, limit)?;
        if !status.is_success() {
            let words: String = String::from_utf8_lossy(&bytes).chars().take(QUOTE_CHARS_MAX).collect();
            let words = words.trim();
            let reason = if words.is_empty() { format!("status {status}") } else { format!("status {status}: {words}") };
            let is_worth_a_retry = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            let is_missing = status == StatusCode::NOT_FOUND;
            return Err(Failure { is_missing, is_worth_a_retry, ..Failure::new(url, reason) });
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = if error.is_data() { "the answer does not follow the protocol" } else { "the answer is not JSON" };
            Failure::new(url, format!("{what}: {error}"))
        })
    }

    /// The whole body.
    fn body(&self, url: &str, mut response: Response, deadline: Instant, limit: Duration) -> Result<Vec<u8>, Failure> {
        let late = || Failure::lost(url, format!("the answer was not complete in {} ms", limit.as_millis()), true);
        let (mut body, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
        loop {
            let n_read = response.read(&mut chunk).map_err(|error| match Instant::now() > deadline {
                true => late(),
                false => Failure::lost(url, format!("the answer broke off: {error}"), false),
            })?;
            if n_read == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..n_read]);
            if body.len() > self.options.body_bytes_max {
                return Err(Failure::new(url, format!("the answer is longer than {} bytes", self.options.body_bytes_max)));
            }
            // The client's own limit is for each piece; a server that drips must end, too.
            if Instant::now() > deadline {
                return Err(late());
            }
        }
    }
}

impl Failure {
    pub(super) fn new(url: &str, reason: String) -> Self {
        Self { url: url.into(), reason, is_missing: false, is_late: false, is_worth_a_retry: false }
    }

    /// There was no answer, or not in time; another try may have one.
    fn lost(url: &str, reason: String, is_late: bool) -> Self {
        Self { is_late, is_worth_a_retry: true, ..Self::new(url, reason) }
    }
}

/// An error with what caused it, without the address that stands before it anyway.
fn said(error: &reqwest::Error) -> String {
    let mut text = String::from("the request failed");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
