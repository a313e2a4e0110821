//! The wire formats side by side: where each is asked, in which headers, with which body, and how its answer is read.
//!
//! Everything here is a pure function. A stream is put together into the body that the provider would have sent in one
//! piece, and read by the same function: there is one reader per format.

use super::exchange::Outgoing;
use super::frames::FrameDecoder;
use super::key::{Key, KeyError};
use super::reply::{CallIds, Delta, Reply, Usage, WireError, broken};
use super::request::{ChatRequest, Endpoint, RequestError, Transfer};
use super::signature::encoded;
use super::spec::{Place, Provider, UpstreamSpec};
use super::sse::{Decoder, Event};
use super::{anthropic, bedrock, cohere, completions, gemini, openai};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Chat completions.
    OpenAi,
    /// Messages.
    Anthropic,
    /// `generateContent`.
    Gemini,
    /// Chat, the second version.
    Cohere,
    /// Converse.
    Bedrock,
}

/// Puts a stream together.
pub(super) trait Assembler: Send {
    /// Takes an event, and says what is new.
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError>;

    /// The event that was taken last, as it is passed on.
    fn passed_on(&self, event: &Event) -> String {
        event.data.clone()
    }

    /// What the provider has said so far about the usage.
    fn usage(&self) -> Option<Usage>;

    /// Whether the provider has said that this is all.
    fn is_done(&self) -> bool;

    /// The whole answer. A stream that ended too early is an error.
    fn finish(self: Box<Self>) -> Result<Reply, WireError>;
}

/// Cuts the bytes of a stream into events.
pub(super) enum Cutter {
    Lines(Decoder),
    Frames(FrameDecoder),
}

impl Cutter {
    /// Events of at most this size.
    pub(super) fn new(wire: Wire, event_bytes_max: usize) -> Self {
        match wire {
            Wire::Bedrock => Self::Frames(FrameDecoder::new(event_bytes_max)),
            _ => Self::Lines(Decoder::new(event_bytes_max)),
        }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, WireError> {
        match self {
            Self::Lines(decoder) => decoder.push(bytes).map_err(|error| broken(error.to_string())),
            Self::Frames(decoder) => {
                let frames = decoder.push(bytes).map_err(|error| broken(error.to_string()))?;
                frames.iter().map(bedrock::event).collect()
            }
        }
    }
}

/// The type of an answer that comes in pieces.
pub(super) fn stream_type(wire: Wire) -> &'static str {
    match wire {
        Wire::Bedrock => "application/vnd.amazon.eventstream",
        _ => "text/event-stream",
    }
}

/// The body of a request.
pub fn body(spec: &UpstreamSpec, request: &ChatRequest, transfer: Transfer) -> Result<Value, RequestError> {
    let is_openai = spec.provider.wire == Wire::OpenAi;
    if request.endpoint == Endpoint::Completions && !(is_openai && request.body.is_some()) {
        let text = "plain texts go on at servers of OpenAI's format only, and are passed on to them as they came";
        return Err(RequestError(format!("{text}; ask `{}` in a chat", spec.model)));
    }
    if let Some(own) = &request.body {
        return Ok(Value::Object(passed_on(spec, own, transfer)));
    }
    let body = match spec.provider.wire {
        Wire::OpenAi => openai::body(spec, request, transfer)?,
        Wire::Anthropic => anthropic::body(spec, request, transfer)?,
        Wire::Gemini => gemini::body(spec, request)?,
        Wire::Cohere => cohere::body(spec, request, transfer)?,
        Wire::Bedrock => bedrock::body(request)?,
    };
    Ok(Value::Object(body))
}

/// Reads an answer that came in one piece.
pub fn reply(wire: Wire, json: &Value, request: &ChatRequest) -> Result<Reply, WireError> {
    let (mut json, ids, is_passed_on) = (json.clone(), CallIds::new(request), request.body.is_some());
    if wire == Wire::OpenAi && request.endpoint == Endpoint::Chat {
        openai::mend(&mut json, ids, is_passed_on);
    }
    let reply = read(wire, &json, request, ids)?;
    Ok(Reply { json: is_passed_on.then_some(json), ..reply })
}

fn read(wire: Wire, json: &Value, request: &ChatRequest, ids: CallIds) -> Result<Reply, WireError> {
    match wire {
        Wire::OpenAi if request.endpoint == Endpoint::Completions => completions::reply(json),
        Wire::OpenAi => openai::reply(json),
        Wire::Anthropic => anthropic::reply(json, request.answer_tool().as_deref()),
        Wire::Gemini => gemini::reply(json, ids),
        Wire::Cohere => cohere::reply(json),
        Wire::Bedrock => bedrock::reply(json, request.answer_tool().as_deref()),
    }
}

/// The caller's own body: only the model and how the answer comes are ours to say.
fn passed_on(spec: &UpstreamSpec, own: &Map<String, Value>, transfer: Transfer) -> Map<String, Value> {
    let mut body = own.clone();
    body.insert("model".into(), spec.model.as_str().into());
    match transfer {
        Transfer::Plain => {
            body.remove("stream");
            body.remove("stream_options");
        }
        Transfer::Stream => {
            body.insert("stream".into(), true.into());
            if spec.provider.wire == Wire::OpenAi && spec.provider.asks_usage {
                match body.get_mut("stream_options").and_then(Value::as_object_mut) {
                    Some(options) => drop(options.insert("include_usage".into(), true.into())),
                    None => drop(body.insert("stream_options".into(), json!({"include_usage": true}))),
                }
            }
        }
    }
    body
}

pub(super) fn assembler(wire: Wire, request: &ChatRequest) -> Box<dyn Assembler> {
    let (ids, is_passed_on, n_asked) = (CallIds::new(request), request.body.is_some(), request.n_answers());
    let assembler: Box<dyn Assembler> = match wire {
        Wire::OpenAi if request.endpoint == Endpoint::Completions => Box::new(completions::Stream::new(n_asked)),
        Wire::OpenAi => Box::new(openai::Stream::new(ids, is_passed_on, n_asked)),
        Wire::Anthropic => Box::new(anthropic::Stream::new(request.answer_tool())),
        Wire::Gemini => Box::new(gemini::Stream::new(ids)),
        Wire::Cohere => Box::new(cohere::Stream::default()),
        Wire::Bedrock => Box::new(bedrock::Stream::new(request.answer_tool())),
    };
    if is_passed_on { Box::new(PassedOn(assembler)) } else { assembler }
}

/// Gives events as they came but for what calls lack, and reads them beside that.
struct PassedOn(Box<dyn Assembler>);

impl Assembler for PassedOn {
    fn push(&mut self, event: &Event) -> Result<Vec<Delta>, WireError> {
        self.0.push(event)?;
        let is_end = event.data.trim() == openai::DONE;
        Ok(if is_end { Vec::new() } else { vec![Delta::Event(self.0.passed_on(event))] })
    }

    fn usage(&self) -> Option<Usage> {
        self.0.usage()
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn finish(self: Box<Self>) -> Result<Reply, WireError> {
        self.0.finish()
    }
}

/// Where a request goes.
pub(super) fn url(spec: &UpstreamSpec, endpoint: Endpoint, transfer: Transfer) -> Result<Url, RequestError> {
    let is_stream = transfer == Transfer::Stream;
    match spec.provider.wire {
        Wire::OpenAi if endpoint == Endpoint::Completions => openai_url(spec, &["completions"]),
        Wire::OpenAi => openai_url(spec, &["chat", "completions"]),
        Wire::Anthropic => below(&spec.base_url, &["messages"]),
        Wire::Cohere => below(&spec.base_url, &["chat"]),
        Wire::Gemini => {
            let verb = if is_stream { "streamGenerateContent" } else { "generateContent" };
            let mut url = below(&spec.base_url, &["models", &format!("{}:{verb}", spec.model)])?;
            url.set_query(is_stream.then_some("alt=sse"));
            Ok(url)
        }
        Wire::Bedrock => {
            let verb = if is_stream { "converse-stream" } else { "converse" };
            let mut url = below(&spec.base_url, &[])?;
            if spec.model.bytes().all(|byte| byte == b'.') {
                return Err(RequestError(format!("`{}` is not the name of a model", spec.model)));
            }
            // What is signed has every sign of the name encoded, a colon as well.
            let path = format!("{}/model/{}/{verb}", url.path().trim_end_matches('/'), encoded(&spec.model, b""));
            url.set_path(&path);
            Ok(url)
        }
    }
}

/// Asks how many tokens a body in Anthropic's words has.
pub(super) fn counting(spec: &UpstreamSpec, own: &Map<String, Value>, headers: HeaderMap) -> Result<Outgoing, RequestError> {
    let url = below(&spec.base_url, &["messages", "count_tokens"])?;
    let body = Value::Object(passed_on(spec, own, Transfer::Plain)).to_string().into_bytes();
    Ok(Outgoing { url, body, transfer: Transfer::Plain, headers })
}

/// Where an endpoint of OpenAI's format is. On Azure a dated interface has its place below the deployment.
pub(super) fn openai_url(spec: &UpstreamSpec, endpoint: &[&str]) -> Result<Url, RequestError> {
    let base = &spec.base_url;
    let is_dated = base.query().is_some();
    let names_version = base.path().trim_end_matches('/').ends_with("/openai/v1");
    let between: &[&str] = match spec.provider.place {
        Place::Azure if is_dated => &["openai", "deployments", &spec.model],
        Place::Azure if !names_version => &["openai", "v1"],
        _ => &[],
    };
    below(base, &[between, endpoint].concat())
}

fn below(base: &Url, names: &[&str]) -> Result<Url, RequestError> {
    let mut url = base.clone();
    let mut path = url.path_segments_mut().map_err(|()| RequestError(format!("{base} has no path")))?;
    path.pop_if_empty().extend(names);
    drop(path);
    Ok(url)
}

pub(super) fn headers(provider: &Provider, key: Option<&Key>) -> Result<HeaderMap, KeyError> {
    let mut headers = HeaderMap::new();
    if provider.wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    if let Some(key) = key {
        let (name, prefix) = provider.key_header;
        headers.insert(HeaderName::from_static(name), key.header(prefix)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_of_its_stream_stays_beside_what_is_asked_of_it_here() {
        let own = json!({"stream_options": {"include_obfuscation": false}}).as_object().cloned().unwrap();
        let body = passed_on(&"openai:m".parse().unwrap(), &own, Transfer::Stream);
        assert_eq!(body["stream_options"], json!({"include_obfuscation": false, "include_usage": true}));
        assert!(!passed_on(&"openai:m".parse().unwrap(), &own, Transfer::Plain).contains_key("stream_options"));
    }

    #[test]
    fn requests_go_where_each_provider_expects_them() {
        let check = |spec: &str, transfer, expected: &str| {
            assert_eq!(url(&spec.parse().unwrap(), Endpoint::Chat, transfer).unwrap().as_str(), expected);
        };
        let plain = url(&"http://h:1/v1#m".parse().unwrap(), Endpoint::Completions, Transfer::Plain).unwrap();
        assert_eq!(plain.as_str(), "http://h:1/v1/completions");
        check("openai:m", Transfer::Stream, "https://api.openai.com/v1/chat/completions");
        check("http://h:1/v1/#m", Transfer::Plain, "http://h:1/v1/chat/completions");
        check("anthropic:m", Transfer::Stream, "https://api.anthropic.com/v1/messages");
        let gemini = "https://generativelanguage.googleapis.com/v1beta/models/m";
        check("gemini:m", Transfer::Plain, &format!("{gemini}:generateContent"));
        check("gemini:m", Transfer::Stream, &format!("{gemini}:streamGenerateContent?alt=sse"));
        // A model's name cannot lead elsewhere.
        let escaped = "https://generativelanguage.googleapis.com/v1beta/models/..%2Fx%3Fy:generateContent";
        check("gemini:../x?y", Transfer::Plain, escaped);
        check("cohere:m", Transfer::Stream, "https://api.cohere.com/v2/chat");
        let azure = "https://mine.openai.azure.com";
        check(&format!("azure+{azure}#gpt"), Transfer::Stream, &format!("{azure}/openai/v1/chat/completions"));
        check(&format!("azure+{azure}/openai/v1/#gpt"), Transfer::Stream, &format!("{azure}/openai/v1/chat/completions"));
        let dated = format!("{azure}/openai/deployments/gpt%2F4/chat/completions?api-version=2024-10-21");
        check(&format!("azure+{azure}/?api-version=2024-10-21#gpt/4"), Transfer::Plain, &dated);
        let bedrock = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        check(&format!("bedrock+{bedrock}#eu.x-v1:0"), Transfer::Plain, &format!("{bedrock}/model/eu.x-v1%3A0/converse"));
        let escaped = format!("{bedrock}/model/..%2F..%2Fx/converse-stream");
        check(&format!("bedrock+{bedrock}#../../x"), Transfer::Stream, &escaped);
        assert!(url(&"bedrock+https://h#..".parse().unwrap(), Endpoint::Chat, Transfer::Plain).is_err());
    }
}
