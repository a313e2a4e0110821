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
        self.ask(path, None)
    }

    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, body: &serde_json::Value) -> Result<T, Failure> {
        self.ask(path, Some(&body.to_string()))
    }

    fn ask<T: DeserializeOwned>(&self, path: &str, body: Option<&str>) -> Result<T, Failure> {
        let url = format!("{}/{path}", self.base);
        let mut wait = WAIT;
        for _ in 0..self.options.retries {
            match self.once(&url, body) {
                Err(failure) if failure.is_worth_a_retry => std::thread::sleep(wait),
                other => return other,
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
        self.once(&url, body)
    }

    fn once<T: DeserializeOwned>(&self, url: &str, body: Option<&str>) -> Result<T, Failure> {
        let deadline = Instant::now() + Duration::from_millis(self.options.timeout_ms);
        let lost = |reason: String| Failure { is_worth_a_retry: true, ..Failure::new(url, reason) };
        let request = match body {
            None => self.http.get(url),
            Some(body) => self.http.post(url).header("content-type", "application/json").body(body.to_owned()),
        };
        let response = request.send().map_err(|error| {
            let is_late = error.is_timeout();
            lost(if is_late { format!("no answer in {} ms", self.options.timeout_ms) } else { said(&error) })
        })?;
        let status = response.status();
        let bytes = self
            .body(response, deadline)
            .map_err(|(reason, is_worth_a_retry)| Failure { is_worth_a_retry, ..Failure::new(url, reason) })?;
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

    /// The whole body, or why it was left, and whether asking again could help.
    fn body(&self, mut response: Response, deadline: Instant) -> Result<Vec<u8>, (String, bool)> {
        let (mut body, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
        loop {
            let n_read = response.read(&mut chunk).map_err(|error| (format!("the answer broke off: {error}"), true))?;
            if n_read == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..n_read]);
            if body.len() > self.options.body_bytes_max {
                return Err((format!("the answer is longer than {} bytes", self.options.body_bytes_max), false));
            }
            // The client's own limit is for each piece; a server that drips must end, too.
            if Instant::now() > deadline {
                return Err((format!("the answer was not complete in {} ms", self.options.timeout_ms), true));
            }
        }
    }
}

impl Failure {
    pub(super) fn new(url: &str, reason: String) -> Self {
        Self { url: url.into(), reason, is_missing: false, is_worth_a_retry: false }
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
