//! Why a request is not answered: a closed list, each with a status, a word for programs and a sentence for people.
//!
//! What is said here came from the request, from hone itself, or from a provider after the key was taken out of it. Nothing of the
//! inside of this process is ever quoted.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hone_policy::upstream::{UpstreamError, Words};
use hone_trace::format::FormatError;
use hone_trace::policy::PolicyErrorKind;
use serde_json::{Value, json};

/// What a client is told of a key or an account that is not its own.
const LOCKED_OUT: &str = "the upstream refused the key or the account that this server has there";

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The request is not what the protocol asks for.
    #[error("{message}")]
    Malformed {
        /// The parameter, where it is one.
        param: Option<String>,
        /// What is wrong with it.
        message: String,
    },
    /// Nobody of this name answers here.
    #[error("the model `{0}` does not exist or you do not have access to it; GET /v1/models lists those that do")]
    NoModel(String),
    /// There is no such episode or inference.
    #[error("{0}")]
    NotFound(String),
    /// There is no such answer to go on with.
    #[error("{0}")]
    NoPrevious(String),
    /// Something else was said under this id.
    #[error("`id` `{0}` has said something else of this episode, which counts; say it again with another `id`")]
    Taken(String),
    /// Nothing is served at this path.
    #[error("there is nothing at this path")]
    NoPath,
    /// The path is served, but not so.
    #[error("this path does not take this method")]
    Method,
    /// No key, or a wrong one.
    #[error("the API key is missing or not known")]
    Key,
    /// A key that may not do this.
    #[error("this API key may not do this")]
    Role,
    /// A change that did not come from a page of this server.
    #[error("this did not come from a page of this server; open the page again and repeat it there")]
    Elsewhere,
    /// A browser sent it for a page that is not of this server.
    #[error(
        "this came from a web page of another origin (Origin, Sec-Fetch-Site), and none may use this server; let a server of that page ask it"
    )]
    Foreign,
    /// A host that this server is not.
    #[error("this server is not known by the name in the Host header")]
    Host,
    /// The body is too large.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// The body stopped coming.
    #[error("the rest of the body did not come in time")]
    LateBody,
    /// The body is of a form that is not read here.
    #[error("{0}")]
    MediaType(&'static str),
    /// All places are taken.
    #[error("the server is busy; try again later")]
    Busy,
    /// The caller has asked too often.
    #[error("too many requests with this API key; try again in {retry_s} s")]
    RateLimit {
        /// After so many seconds there is room for one.
        retry_s: u64,
    },
    /// The money is spent.
    #[error("{0}")]
    Budget(String),
    /// The conversation does not fit the model.
    #[error("{0}")]
    TooLong(String),
    /// Who should have answered did not.
    #[error("{message}")]
    Upstream {
        /// What kind of failure.
        status: u16,
        /// In the provider's words.
        message: String,
        /// Its words for programs, where it has refused.
        words: Box<Words>,
        /// How many seconds it asks to wait.
        retry_s: Option<u64>,
    },
    /// The version of an agent that should answer is not there.
    #[error("{0}")]
    Unavailable(String),
    /// The record could not be made durable, so nothing is promised.
    #[error("the call could not be recorded; nothing was kept")]
    Store,
}

impl Refused {
    /// A parameter that cannot be followed.
    pub(crate) fn param(param: &str, message: impl Into<String>) -> Self {
        Self::Malformed { param: Some(param.to_owned()), message: message.into() }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Malformed { .. } | Self::TooLong(_) => StatusCode::BAD_REQUEST,
            Self::Key => StatusCode::UNAUTHORIZED,
            Self::Role | Self::Elsewhere | Self::Foreign => StatusCode::FORBIDDEN,
            Self::NoModel(_) | Self::NoPath | Self::NotFound(_) | Self::NoPrevious(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Taken(_) => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LateBody => StatusCode::REQUEST_TIMEOUT,
            Self::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Budget(_) | Self::RateLimit { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy | Self::Store | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Upstream { status, .. } => StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY),
        }
    }

    /// The words for programs of who has refused: a provider, or hone in its place.
    fn words(&self) -> Option<&Words> {
        if let Self::Upstream { words, .. } = self { Some(words) } else { None }
    }

    /// OpenAI's word for the kind.
    fn kind(&self) -> &str {
        if let Some(kind) = self.words().and_then(|words| words.kind.as_deref()) {
            return kind;
        }
        match self {
            Self::Upstream { status: 429, .. } => "rate_limit_error",
            Self::Upstream { status: 403, .. } => "permission_error",
            Self::Upstream { status: 400..500, .. } => "invalid_request_error",
            Self::Key => "authentication_error",
            Self::Role | Self::Elsewhere | Self::Foreign => "permission_error",
            Self::Budget(_) => "insufficient_quota",
            Self::RateLimit { .. } => "rate_limit_error",
            Self::Busy | Self::Store | Self::Unavailable(_) | Self::Upstream { .. } => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// OpenAI's word for the case.
    fn code(&self) -> Option<&str> {
        if let Some(code) = self.words().and_then(|words| words.code.as_deref()) {
            return Some(code);
        }
        match self {
            Self::Upstream { status: 429, .. } => Some("rate_limit_exceeded"),
            // What the provider says is all there is to say.
            Self::Upstream { words, .. } if **words != Words::default() => None,
            Self::NoModel(_) => Some("model_not_found"),
            Self::NoPrevious(_) => Some("previous_response_not_found"),
            Self::Key => Some("invalid_api_key"),
            Self::Budget(_) => Some("insufficient_quota"),
            Self::RateLimit { .. } => Some("rate_limit_exceeded"),
            Self::TooLong(_) => Some("context_length_exceeded"),
            Self::Upstream { status: 504, .. } => Some("upstream_timeout"),
            Self::Upstream { .. } => Some("upstream_error"),
            _ => None,
        }
    }

    /// The body in OpenAI's form.
    pub(crate) fn openai(&self) -> Value {
        let param = match self {
            Self::Malformed { param, .. } => param.as_deref(),
            Self::Upstream { words, .. } => words.param.as_deref(),
            Self::NoModel(_) => Some("model"),
            Self::Taken(_) => Some("id"),
            Self::NoPrevious(_) => Some("previous_response_id"),
            _ => None,
        };
        json!({"error": {"message": self.to_string(), "type": self.kind(), "param": param, "code": self.code()}})
    }

    /// The body in Anthropic's form.
    pub(crate) fn anthropic(&self) -> Value {
        let kind = match self {
            Self::NoModel(_) | Self::NoPath | Self::NotFound(_) | Self::NoPrevious(_) => "not_found_error",
            Self::TooLarge(_) => "request_too_large",
            Self::Budget(_) | Self::RateLimit { .. } => "rate_limit_error",
            Self::Upstream { status: 400 | 422, .. } => "invalid_request_error",
            Self::Upstream { status: 403, .. } => "permission_error",
            Self::Upstream { status: 404, .. } => "not_found_error",
            Self::Upstream { status: 429, .. } => "rate_limit_error",
            Self::Upstream { status: 504, .. } => "timeout_error",
            Self::Busy => "overloaded_error",
            Self::Store | Self::Unavailable(_) | Self::Upstream { .. } => "api_error",
            _ => self.kind(),
        };
        json!({"type": "error", "error": {"type": kind, "message": self.to_string()}})
    }

    /// A response with this body.
    pub(crate) fn respond(&self, body: &Value) -> Response {
        let mut response = (self.status(), body.to_string()).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if matches!(self, Self::LateBody) {
            // What comes later is the rest of the body, and no request.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let retry_s = match self {
            Self::Busy | Self::Store => Some(1),
            Self::RateLimit { retry_s } => Some(*retry_s),
            Self::Upstream { retry_s, .. } => *retry_s,
            _ => None,
        };
        if let Some(seconds) = retry_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.respond(&self.openai());
        // Some clients are told the same in other words.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<FormatError> for Refused {
    fn from(error: FormatError) -> Self {
        Self::Malformed { param: None, message: error.to_string() }
    }
}

impl From<&UpstreamError> for Refused {
    fn from(error: &UpstreamError) -> Self {
        let told = error.told.as_deref();
        // Its status is that of the response, and its words for programs stand beside what it says.
        let message = || told.map(|told| &told.message).filter(|said| !said.is_empty()).unwrap_or(&error.message).clone();
        let upstream = |status| {
            let retry_s = told.and_then(|told| told.retry_ms).map(|ms| ms.div_ceil(1000).max(1));
            // What a provider has to say of its own troubles is not the client's affair.
            let (message, words) = match told.filter(|_| status < 500) {
                Some(told) => (message(), Box::new(told.words.clone())),
                None => (error.message.clone(), Box::default()),
            };
            Self::Upstream { status, message, words, retry_s }
        };
        match error.kind {
            PolicyErrorKind::Timeout | PolicyErrorKind::Abandoned => upstream(504),
            PolicyErrorKind::RateLimit => upstream(429),
            // What it says of our key or our account there is for who runs the server, and on the record.
            PolicyErrorKind::Account => {
                Self::Upstream { status: 502, message: LOCKED_OUT.into(), words: Box::default(), retry_s: None }
            }
            PolicyErrorKind::Provider | PolicyErrorKind::Protocol => upstream(502),
            PolicyErrorKind::Refused => match told.map(|told| told.status) {
                // It could not be put into words for anybody, or a model of this machine does not take it.
                None => Self::Malformed { param: None, message: error.message.clone() },
                Some(status @ (403 | 404 | 422)) => upstream(status),
                Some(_) => upstream(400),
            },
            PolicyErrorKind::TooLong => Self::TooLong(message()),
            PolicyErrorKind::Budget => Self::Budget(error.message.clone()),
        }
    }
}
