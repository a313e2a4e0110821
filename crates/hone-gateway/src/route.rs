//! Questions from their bytes to their answers: each is read, admitted, asked and told, each in one line.

use crate::access::{Caller, Identity, Reporter};
use crate::agents::{Picked, Version};
use crate::ask::{self, Speaker};
use crate::catalogue::Model;
use crate::episode::digests;
use crate::error::Refused;
use crate::openai::malformed;
use crate::origin::is_foreign;
use crate::paths::PATHS;
use crate::question::{Asked, Question};
use crate::record::{Joined, NotKept, called};
use crate::server::Gateway;
use crate::{anthropic, completions, dashboard, openai, responses};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use futures_core::Stream;
use hone_arbiter::canary::Fact;
use hone_arbiter::log::{Assigned, Line};
use hone_arbiter::{ANY_TASK, Situation};
use hone_policy::upstream::Wire;
use hone_trace::{Category, Time, TraceId};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The header in which a client names its episode, and is told it.
const EPISODE: HeaderName = HeaderName::from_static("x-hone-episode");
/// The headers in which a client is told which agent answered, also where a route chose it, and which version of it.
const ANSWERED_BY: [HeaderName; 2] = [HeaderName::from_static("x-hone-agent"), HeaderName::from_static("x-hone-version")];
/// The headers that say what a request is called, to OpenAI's clients and to Anthropic's.
const REQUESTS: [HeaderName; 2] = [HeaderName::from_static("x-request-id"), HeaderName::from_static("request-id")];
/// The header in which clients of Anthropic's name the version of its interface.
const VERSION: &str = "anthropic-version";
/// The header in which a client names the type of task.
const TASK: &str = "x-hone-task";
/// The longest word about a situation.
const WORD_LEN_MAX: usize = 128;
/// The longest name of an episode.
const EPISODE_LEN_MAX: usize = 256;
/// Bytes of a body that there is always room for; those beyond share what there is for all.
const OWN_BYTES_MAX: usize = 64 << 10;
/// Bytes of a body that come at least in the time after which it is given up, unless it ends.
const N_BYTES_MIN: usize = 16 << 10;

pub(crate) fn router(gateway: Gateway) -> Router {
    let paths = PATHS.iter().fold(Router::new(), |router, path| {
        // Names may have slashes.
        router.route(&path.path.replace("{name}", "{*name}"), (path.handler)())
    });
    paths
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(gateway.clone(), dashboard::led))
        .layer(middleware::from_fn_with_state(gateway.clone(), meant_for_us))
        .layer(middleware::from_fn_with_state(gateway.clone(), in_its_words))
        .with_state(gateway)
}

async fn no_path(State(gateway): State<Gateway>, uri: Uri, headers: HeaderMap) -> Response {
    dashboard::lost(&gateway, &uri, &headers, Refused::NoPath)
}

async fn no_method(State(gateway): State<Gateway>, uri: Uri, headers: HeaderMap) -> Response {
    dashboard::lost(&gateway, &uri, &headers, Refused::Method)
}

/// Refuses what a page of elsewhere has a browser send: requests for another host, since a name can be made to point at this machine, and
/// those that do more than look and come from another origin. Who looks from there is not shown the answer by the browser.
async fn meant_for_us(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_known = matches!(name, "localhost" | "127.0.0.1" | "[::1]")
        || gateway.hosts().iter().any(|known| known.eq_ignore_ascii_case(name));
    let looks = request.method().is_safe();
    match () {
        () if !is_known => Refused::Host.into_response(),
        () if !looks && is_foreign(request.headers()) => Refused::Foreign.into_response(),
        () => next.run(request).await,
    }
}

/// Says in the words of its client why a request is not answered, where its path alone does not say whose client it is, and what the
/// request is called: as its trace, or by a name of its own where it has none.
async fn in_its_words(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let is_asked = request.uri().path().starts_with("/v1/");
    let is_anthropic = is_anthropic(request.uri().path(), request.headers());
    let mut response = next.run(request).await;
    if let Some(refused) = response.extensions_mut().remove::<Refused>().filter(|_| is_anthropic) {
        response = Format::Anthropic.refuse(&refused);
    }
    if is_asked && !REQUESTS.iter().any(|header| response.headers().contains_key(header)) {
        let id = response.headers().get(EPISODE).and_then(|trace| trace.to_str().ok()).map(str::to_owned);
        let id = id.unwrap_or_else(|| format!("req_{:016x}{:016x}", gateway.draw(), gateway.draw()));
        say(&mut response, &REQUESTS[usize::from(is_anthropic)], &id);
    }
    response
}

/// Says something of a response in a header.
fn say(response: &mut Response, header: &HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(header.clone(), value);
    }
}

/// Whether a client of Anthropic's asks: all of them name the version of its interface.
fn is_anthropic(path: &str, headers: &HeaderMap) -> bool {
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    path.strip_prefix("/v1/messages").is_some_and(is_below) || path.starts_with("/v1/") && headers.contains_key(VERSION)
}

/// The wire formats in which questions come.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    OpenAi,
    Completions,
    Responses,
    Anthropic,
}

impl Format {
    fn read(self, body: &[u8]) -> Result<Asked, Refused> {
        match self {
            Self::OpenAi => openai::read(body),
            Self::Completions => completions::read(body),
            Self::Responses => responses::read(body),
            Self::Anthropic => anthropic::read(body),
        }
    }

    /// The format of the providers that are asked in the client's own words.
    fn wire(self) -> Option<Wire> {
        match self {
            Self::OpenAi | Self::Completions => Some(Wire::OpenAi),
            Self::Responses => None,
            Self::Anthropic => Some(Wire::Anthropic),
        }
    }

    /// What the record calls it.
    fn api(self) -> &'static str {
        match self {
            Self::OpenAi => "openai.chat",
            Self::Completions => "openai.completions",
            Self::Responses => "openai.responses",
            Self::Anthropic => "anthropic.messages",
        }
    }

    /// The id of an answer.
    fn id(self, answer: &str) -> String {
        match self {
            Self::OpenAi => format!("chatcmpl-{answer}"),
            Self::Completions => format!("cmpl-{answer}"),
            Self::Responses => format!("resp_{answer}"),
            Self::Anthropic => format!("msg_{answer}"),
        }
    }

    fn speaker(self, id: String, created: Time, asked: &Asked) -> Box<dyn Speaker> {
        let model = asked.model.clone();
        match self {
            Self::OpenAi => Box::new(openai::OpenAi::new(id, created, model, asked.tells_usage)),
            Self::Completions => Box::new(completions::Completions::new(id, created, model, asked.tells_usage)),
            Self::Responses => Box::new(responses::Responses::new(id, created, asked)),
            Self::Anthropic => Box::new(anthropic::Anthropic::new(id, model)),
        }
    }

    /// What of a client's headers goes to a provider of the same format.
    pub(crate) fn headers(self, headers: &HeaderMap) -> HeaderMap {
        let known: &[&str] = if matches!(self, Self::Anthropic) { &[VERSION, "anthropic-beta"] } else { &[] };
        headers
            .iter()
            .filter(|(name, _)| known.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Says where a response stands on the record: what is asked is called as its turn is.
    fn name(self, response: &mut Response, call: &Call) {
        name(response, call.episode);
        say(response, &REQUESTS[usize::from(matches!(self, Self::Anthropic))], &call.id);
        if let Some(assigned) = &call.assigned {
            let by = [assigned.agent.as_str(), &assigned.version];
            ANSWERED_BY.iter().zip(by).for_each(|(header, name)| say(response, header, name));
        }
    }

    pub(crate) fn refuse(self, refused: &Refused) -> Response {
        match self {
            Self::OpenAi | Self::Completions | Self::Responses => refused.respond(&refused.openai()),
            Self::Anthropic => refused.respond(&refused.anthropic()),
        }
    }
}

/// Answers questions in this format, and says in its words why one is not answered.
pub(crate) fn asked_in(format: Format) -> MethodRouter<Gateway> {
    let handler = move |State(gateway): State<Gateway>, caller: Result<Caller, Refused>, headers: HeaderMap, body: Body| async move {
        let answered = answer(format, &gateway, caller, &headers, body).await;
        answered.unwrap_or_else(|Unanswered { refused, call }| {
            let mut response = format.refuse(&refused);
            call.iter().for_each(|call| format.name(&mut response, call));
            response
        })
    };
    post(handler)
}

/// Where a call stands on the record: its episode, the id of its turn, and the version of an agent that it got.
struct Call {
    episode: TraceId,
    id: String,
    assigned: Option<Arc<Assigned>>,
}

/// Why there is no answer, and where the record says so, if it came that far.
struct Unanswered {
    refused: Refused,
    call: Option<Call>,
}

impl From<Refused> for Unanswered {
    fn from(refused: Refused) -> Self {
        Self { refused, call: None }
    }
}

/// A question from its bytes to its answer.
async fn answer(
    format: Format,
    gateway: &Gateway,
    caller: Result<Caller, Refused>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Unanswered> {
    let Caller(caller) = caller?;
    let (admitted, body) = admitted(gateway, body).await?;
    let started = gateway.now();
    let mut asked = format.read(&body)?;
    gateway.can_record().await?;
    let previous = match asked.previous.take() {
        Some(previous) => Some(responses::go_on(gateway, &caller.tenant, &previous, &mut asked).await?),
        None => None,
    };
    let said = digests(&asked.conversation.messages);
    let named = named_episode(gateway, &caller, headers).await?.or(previous);
    let found = if named.is_none() { gateway.record().find(&caller.tenant, &said) } else { None };
    let episode = named.or(found).map_or_else(|| Joined::New(gateway.new_trace()), Joined::Named);
    let task = header(headers, TASK).or_else(|| gateway.task_of(&asked.conversation.messages)).map(str::to_owned);
    let chosen = who(format, gateway, &caller, headers, task.as_deref(), &mut asked, episode).await;
    let (model, agent) = chosen.inspect_err(|_| found.into_iter().for_each(|episode| gateway.record().put_back(episode)))?;
    let trace = episode.trace();
    let episode_name = headers.get(EPISODE).and_then(|name| name.to_str().ok());
    let episode_name = episode_name.filter(|name| called(&caller.tenant, name) == trace).map(str::to_owned);
    let begun = matches!(episode, Joined::New(_)).then(|| gateway.record().begin(&caller.tenant, trace));
    let id = format.id(&gateway.new_answer(trace));
    let call = Call { episode: trace, id: id.clone(), assigned: agent.as_ref().map(|(assigned, _)| Arc::clone(assigned)) };
    let speaker = format.speaker(id.clone(), started, &asked);
    let (wire, api, headers) = (format.wire(), format.api(), format.headers(headers));
    let Asked { is_stream, body, conversation, mut request, choices, prompts, .. } = asked;
    request.time_max_ms = Some(gateway.limits().answer_ms);
    if conversation.rest.get("seed").is_none_or(Value::is_null) {
        request.seed = gateway.draw();
    }
    let question = Question {
        id,
        caller,
        started,
        episode,
        episode_name,
        said,
        category: task.and_then(|task| Category::new(task).ok()),
        model,
        agent,
        conversation,
        request,
        prompts,
        choices,
        body,
        wire,
        headers,
        api,
        admitted,
        begun,
    };
    let answered = match is_stream {
        true => ask::streamed(gateway, question, speaker).await.map(streaming),
        false => ask::whole(gateway, question, speaker).await.map(|body| json_response(&body)),
    };
    match answered {
        Ok(mut response) => {
            format.name(&mut response, &call);
            Ok(response)
        }
        Err(refused) => Err(Unanswered { refused, call: Some(call) }),
    }
}

/// Who answers: a model of the catalogue, or the version of an agent that this episode gets, which shapes what is asked.
async fn who(
    format: Format,
    gateway: &Gateway,
    caller: &Identity,
    headers: &HeaderMap,
    task: Option<&str>,
    asked: &mut Asked,
    episode: Joined,
) -> Result<(Arc<Model>, Option<(Arc<Assigned>, Arc<Version>)>), Refused> {
    gateway.record().can_join(&caller.tenant, episode).await.map_err(|error| match error {
        NotKept::Foreign | NotKept::Full => Refused::NotFound(error.to_string()),
        NotKept::Store(_) => Refused::Store,
    })?;
    if let Ok(model) = gateway.model(&asked.model) {
        return Ok((model, None));
    }
    let Picked { assigned, version } = version_of(gateway, caller, headers, task, asked, episode).await?;
    version.shape(format.wire(), asked)?;
    Ok((version.answering(), Some((assigned, version))))
}

/// The version of an agent that this episode gets.
async fn version_of(
    gateway: &Gateway,
    caller: &Identity,
    headers: &HeaderMap,
    task: Option<&str>,
    asked: &Asked,
    episode: Joined,
) -> Result<Picked, Refused> {
    let agents = gateway.agents();
    if !agents.knows(&caller.tenant, &asked.model) {
        return Err(Refused::NoModel(asked.model.chars().take(256).collect()));
    }
    let messages = &asked.conversation.messages;
    let situation = Situation {
        task: task.unwrap_or(ANY_TASK),
        n_chars: messages.iter().map(|message| message.content.text().len()).sum(),
        n_messages: messages.len(),
        n_tools: asked.conversation.tools.len(),
        role: header(headers, "x-hone-role"),
        segment: header(headers, "x-hone-segment"),
        domain: header(headers, "x-hone-domain"),
        config: header(headers, "x-hone-config"),
        failure: header(headers, "x-hone-failure"),
        usd_per_success: None,
    };
    let before = gateway.record().assigned(&caller.tenant, episode).await.map_err(|_| Refused::Store)?;
    let picked = agents.pick(&caller.tenant, &asked.model, episode.trace(), &situation, before.as_ref())?;
    if before.is_none()
        && let Some(row) = picked.assigned.row(episode.trace(), Fact::Assigned)
    {
        let event = Line::Row(row.clone()).event(row.id(), gateway.now(), caller.tenant.clone());
        gateway.record().note(event);
    }
    Ok(picked)
}

/// What a client says of its episode in this header.
fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a str> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.filter(|value| !value.is_empty() && value.len() <= WORD_LEN_MAX)
}

pub(crate) async fn models(
    State(gateway): State<Gateway>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let agents = gateway.agents().names(&caller.tenant);
    let mut listed = HashSet::new();
    let names = gateway.catalogue().names().chain(agents.iter().map(String::as_str)).filter(|name| listed.insert(*name));
    if headers.contains_key(VERSION) {
        let query = dashboard::Query::read(query.as_deref().unwrap_or_default());
        return anthropic::models(&names.collect::<Vec<_>>(), &query).map(|page| json_response(&page));
    }
    let all: Vec<Value> = names.map(openai::model).collect();
    Ok(json_response(&json!({"object": "list", "data": all})))
}

pub(crate) async fn model(
    State(gateway): State<Gateway>,
    Caller(caller): Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    if !gateway.agents().knows(&caller.tenant, &name) {
        gateway.model(&name)?;
    }
    let told = if headers.contains_key(VERSION) { anthropic::model(&name) } else { openai::model(&name) };
    Ok(json_response(&told))
}

pub(crate) async fn metrics(State(gateway): State<Gateway>, Reporter(_): Reporter) -> Response {
    let text = gateway.metrics().text(gateway.n_underway());
    let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, form)], text).into_response()
}

/// The body, as far as it is allowed to go.
pub(crate) async fn read(gateway: &Gateway, body: Body) -> Result<Bytes, Refused> {
    read_up_to(gateway.limits().body_bytes_max, gateway, body).await
}

/// The body, unless it is longer than this or stops coming.
pub(crate) async fn read_up_to(bytes_max: usize, gateway: &Gateway, body: Body) -> Result<Bytes, Refused> {
    held_up_to(bytes_max, gateway, body).await.map(|(body, _)| body)
}

/// The body, and then a place among the requests that are worked on: who sends slowly keeps nobody from one.
pub(crate) async fn admitted(gateway: &Gateway, body: Body) -> Result<(OwnedSemaphorePermit, Bytes), Refused> {
    let (body, held) = held_up_to(gateway.limits().body_bytes_max, gateway, body).await?;
    let place = gateway.admit().await?;
    drop(held);
    Ok((place, body))
}

/// The body, and the room that it holds as long as it has no place.
async fn held_up_to(bytes_max: usize, gateway: &Gateway, body: Body) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refused> {
    let (mut pieces, mut whole) = (body.into_data_stream(), Vec::new());
    let (mut held, mut n_before): (Option<OwnedSemaphorePermit>, _) = (None, 0);
    let mut is_late = Box::pin(gateway.body_is_late());
    loop {
        let next = poll_fn(|context| Pin::new(&mut pieces).poll_next(context));
        let piece = tokio::select! {
            biased;
            piece = next => piece,
            () = &mut is_late => return Err(Refused::LateBody),
        };
        match piece {
            None => return Ok((whole.into(), held)),
            Some(Err(_)) => return Err(malformed("the body broke off")),
            Some(Ok(piece)) if piece.len() > bytes_max - whole.len() => return Err(Refused::TooLarge(bytes_max)),
            Some(Ok(piece)) => {
                if whole.len() + piece.len() > OWN_BYTES_MAX {
                    let more = gateway.hold(piece.len()).await?;
                    match &mut held {
                        Some(held) => held.merge(more),
                        None => held = Some(more),
                    }
                }
                whole.extend_from_slice(&piece);
            }
        }
        // A byte now and then is not enough to be waited for.
        if whole.len() - n_before >= N_BYTES_MIN {
            (n_before, is_late) = (whole.len(), Box::pin(gateway.body_is_late()));
        }
    }
}

/// The episode that the client names, if it names one.
pub(crate) async fn named_episode(gateway: &Gateway, caller: &Identity, headers: &HeaderMap) -> Result<Option<TraceId>, Refused> {
    let Some(named) = headers.get(EPISODE) else { return Ok(None) };
    let named = named.to_str().ok().filter(|name| !name.is_empty() && name.len() <= EPISODE_LEN_MAX);
    let named = named.ok_or_else(|| {
        let message = format!("`{EPISODE}` must be a name of at most {EPISODE_LEN_MAX} printable characters");
        Refused::Malformed { param: Some(EPISODE.to_string()), message }
    })?;
    gateway.record().named(&caller.tenant, named).await.map(Some).map_err(|_| Refused::Store)
}

pub(crate) fn told(body: &Value, episode: TraceId) -> Response {
    let mut response = json_response(body);
    name(&mut response, episode);
    response
}

fn streaming(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Says the episode of a response.
pub(crate) fn name(response: &mut Response, episode: TraceId) {
    say(response, &EPISODE, &episode.to_string());
}

pub(crate) fn json_response(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.to_string()).into_response()
}
