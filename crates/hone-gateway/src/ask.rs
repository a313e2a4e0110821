//! Asking: one question, put to those who answer under its name until one does, and the answer on the record.
//!
//! Work goes on in a task of its own. When the client leaves, what was asked upstream is dropped, which ends it there too, and the call
//! is recorded as abandoned, with what it took; so it is when the client stays and takes nothing until the time of the answer is over.
//! A client that reads slowly takes its pieces out of the [backlog](crate::backlog), while the call has ended long before. The end of an
//! answer is sent only after the call is durable.

use crate::backlog::{Queue, Waited};
use crate::catalogue::{Upstream, Who};
use crate::choices;
use crate::completions::message;
use crate::episode::digest;
use crate::error::Refused;
use crate::local::{Drawing, Drawn, Local};
use crate::question::Question;
use crate::record::{AGENT, Call, NotKept};
use crate::responses::STORE;
use crate::server::Gateway;
use axum::body::Body;
use hone_policy::local::Piece;
use hone_policy::upstream::{ChatRequest, Client, Completion, Reply, Streaming, Transfer, UpstreamError};
use hone_trace::format::openai::Conversation;
use hone_trace::policy::PolicyErrorKind;
use hone_trace::{Config, EPISODE_NAME, ErrorEvent, LlmCall, Message, Role, Time, Turn};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long a client hears nothing, in milliseconds.
const PING_MS: u64 = 2_000;

/// How long the end of an answer waits at least for a client to take what came before, in milliseconds.
const END_MS: u64 = 2_000;

/// How an answer is told to a client, in its wire format.
pub(crate) trait Speaker: Send {
    /// The answer in one piece.
    fn whole(&self, reply: &Reply) -> Value;
    /// A piece of the answer.
    fn piece(&mut self, piece: &Piece) -> String;
    /// That this stop string ended the answer, which not every format tells.
    fn stopped_by(&mut self, _: String) {}
    /// What is told once the answer is whole and durable.
    fn end(&mut self, reply: &Reply) -> String;
    /// That it goes on though nothing is told: a client that hears nothing for seconds may leave.
    fn ping(&self) -> &'static str {
        ": \n\n"
    }
    /// That there is no more, and why.
    fn failed(&mut self, refused: &Refused) -> String;
}

/// An answer that has begun.
enum Opened {
    Whole(Box<Drawn>),
    Stream(Box<Streaming>),
    Drawing(Drawing),
}

impl Opened {
    /// Asks a provider.
    async fn there(client: &Arc<Client>, request: &ChatRequest, transfer: Transfer) -> Result<Self, UpstreamError> {
        match transfer {
            Transfer::Plain => Ok(Self::Whole(Box::new(of_provider(client.complete(request).await?)))),
            Transfer::Stream => Ok(Self::Stream(Box::new(client.stream(request).await?))),
        }
    }

    /// Asks a model of this process. Its answer has begun when something was drawn: until then it may still be refused, and another may
    /// be asked.
    async fn here(local: &Arc<Local>, question: &Question, left_ms: u64, transfer: Transfer) -> Result<Self, UpstreamError> {
        let mut drawing = local.answer(question, left_ms)?;
        if transfer == Transfer::Stream && drawing.has_begun().await {
            return Ok(Self::Drawing(drawing));
        }
        Ok(Self::Whole(Box::new(drawing.finish().await?)))
    }

    /// The next piece; `None` when all have come, or when it came in one.
    async fn next(&mut self) -> Result<Option<Piece>, UpstreamError> {
        let of_provider = |delta| Piece { choice_idx: 0, delta, tokens: Vec::new() };
        match self {
            Self::Whole(_) => Ok(None),
            Self::Stream(streaming) => Ok(streaming.next().await?.map(of_provider)),
            Self::Drawing(drawing) => Ok(drawing.next().await),
        }
    }

    /// The whole answer, or why it is not whole.
    async fn finish(self) -> Result<Drawn, UpstreamError> {
        match self {
            Self::Whole(drawn) => Ok(*drawn),
            Self::Stream(streaming) => streaming.finish().await.map(of_provider),
            Self::Drawing(drawing) => drawing.finish().await,
        }
    }

    /// Ends it because the client is gone, one way or the other: what it took until then.
    async fn leave(self, why: &str) -> UpstreamError {
        let calls = match self {
            Self::Whole(drawn) => drawn.completion.calls,
            Self::Stream(streaming) => streaming.leave(why),
            Self::Drawing(drawing) => drawing.leave().await,
        };
        UpstreamError { calls, ..UpstreamError::new(PolicyErrorKind::Abandoned, why) }
    }
}

fn of_provider(completion: Completion) -> Drawn {
    Drawn { completion, sampled: None, is_new_segment: false, stopped_by: None }
}

/// What was asked so far, and who is asked now.
#[derive(Default)]
struct Tried {
    calls: Vec<LlmCall>,
    underway: Option<(String, Time)>,
}

impl Tried {
    /// The client left while nobody had begun to answer. What a call took that was dropped is not known.
    fn left(&mut self, now: Time) -> UpstreamError {
        self.calls.extend(self.underway.take().map(|(model, started)| LlmCall {
            model,
            duration_ms: Some(now.millis_since(started)),
            extra: Map::from_iter([("error".to_owned(), abandoned().to_string().into())]),
            ..LlmCall::default()
        }));
        abandoned()
    }
}

/// A whole answer: the body of a response.
pub(crate) async fn whole(gateway: &Gateway, question: Question, mut speaker: Box<dyn Speaker>) -> Result<Value, Refused> {
    let (mut told, answer) = oneshot::channel();
    let (gateway, begun) = (gateway.clone(), Instant::now());
    tokio::spawn(async move {
        let mut tried = Tried::default();
        let asked = tokio::select! {
            asked = async {
                let (opened, upstream) = ask(&gateway, &question, Transfer::Plain, begun, &mut tried).await?;
                let asked = opened.finish().await;
                upstream.ended(asked.as_ref().err(), gateway.now());
                asked
            } => asked,
            () = told.closed() => Err(tried.left(gateway.now())),
        };
        let asked = after(tried, asked);
        tell_stop(&mut *speaker, &asked);
        let recorded = record(&gateway, question, asked, Duration::ZERO).await;
        // Who has left misses the answer; the record has it.
        drop(told.send(recorded.map(|reply| speaker.whole(&reply))));
    });
    answer.await.unwrap_or(Err(Refused::Busy))
}

/// An answer as it comes: the body of a response, once there is something to tell, or once the client has waited for long.
pub(crate) async fn streamed(gateway: &Gateway, question: Question, mut speaker: Box<dyn Speaker>) -> Result<Body, Refused> {
    let (pieces, received) = gateway.backlog().queue();
    let (opens, first) = oneshot::channel();
    let (gateway, begun) = (gateway.clone(), Instant::now());
    let deadline = after_ms(begun, gateway.limits().answer_ms);
    tokio::spawn(async move {
        let mut tried = Tried::default();
        let mut door = Door { opens: Some(opens), pieces: &pieces, ping: speaker.ping() };
        let asked = ask(&gateway, &question, Transfer::Stream, begun, &mut tried);
        let opened = tokio::select! {
            opened = door.until(asked, gateway.limits().quiet_ms) => opened,
            () = pieces.closed() => Err(tried.left(gateway.now())),
        };
        let (mut opened, upstream) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let recorded = record(&gateway, question, after(tried, Err(error)), Duration::ZERO).await;
                return if let Err(refused) = recorded {
                    door.refuse(refused, &mut *speaker);
                };
            }
        };
        door.open();
        gateway.metrics().begun(&question, gateway.now().millis_since(question.started));
        let mut waited = Waited::default();
        let followed = tokio::select! {
            followed = follow(&mut opened, &mut *speaker, &pieces, deadline, &mut waited) => followed,
            () = pieces.closed() => Err(Cut::Left(LEFT)),
        };
        let asked = match followed {
            Ok(()) => opened.finish().await,
            Err(Cut::Failed(error)) => Err(error),
            Err(Cut::Left(why)) => Err(opened.leave(why).await),
        };
        let waited = waited.time();
        let asked = without_waiting(asked, waited);
        upstream.ended(asked.as_ref().err(), gateway.now());
        let asked = after(tried, asked);
        tell_stop(&mut *speaker, &asked);
        let last = match record(&gateway, question, asked, waited).await {
            Ok(reply) => speaker.end(&reply),
            Err(refused) => speaker.failed(&refused),
        };
        // It is on the record: who reads slowly has a little longer for the end.
        let until = deadline.max(after_ms(Instant::now(), END_MS));
        drop(timeout_at(until, pieces.push(last.into(), &mut Waited::default())).await);
    });
    first.await.unwrap_or(Err(Refused::Busy))?;
    Ok(Body::from_stream(received))
}

/// Where the client of a stream waits until there is something to tell.
struct Door<'a> {
    /// As long as it is closed.
    opens: Option<oneshot::Sender<Result<(), Refused>>>,
    pieces: &'a Queue,
    ping: &'static str,
}

impl Door<'_> {
    fn open(&mut self) {
        self.opens.take().map(|opens| opens.send(Ok(())));
    }

    /// What comes of asking. Who has waited for so long is let in and hears that it goes on: whoever stands between would give it up.
    async fn until<T>(&mut self, asked: impl Future<Output = T>, quiet_ms: u64) -> T {
        let mut ping = after_ms(Instant::now(), quiet_ms);
        tokio::pin!(asked);
        loop {
            tokio::select! {
                biased;
                came = &mut asked => return came,
                () = sleep_until(ping) => {
                    self.open();
                    self.pieces.offer(self.ping.into());
                    ping = after_ms(Instant::now(), PING_MS);
                }
            }
        }
    }

    /// Says that there is no answer, to who is in as a piece of the stream.
    fn refuse(&mut self, refused: Refused, speaker: &mut dyn Speaker) {
        match self.opens.take() {
            Some(opens) => drop(opens.send(Err(refused))),
            None => self.pieces.offer(speaker.failed(&refused).into()),
        }
    }
}

/// Says which stop string ended the answer, where one is known to have.
fn tell_stop(speaker: &mut dyn Speaker, asked: &Result<Drawn, UpstreamError>) {
    if let Some(stop) = asked.as_ref().ok().and_then(|drawn| drawn.stopped_by.clone()) {
        speaker.stopped_by(stop);
    }
}

/// Asks one after the other until one answers, and says who. What was asked in vain is told apart.
async fn ask<'a>(
    gateway: &Gateway,
    question: &'a Question,
    transfer: Transfer,
    begun: Instant,
    tried: &mut Tried,
) -> Result<(Opened, &'a Upstream), UpstreamError> {
    let (mut failure, mut unable) = (None, None);
    let allowed_ms = gateway.limits().answer_ms;
    for upstream in question.model.in_turn(gateway.now()) {
        // Who comes after others has the time that they left; the first has all of it.
        let used_ms = if failure.is_none() { 0 } else { u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX) };
        let left_ms = allowed_ms.saturating_sub(used_ms);
        if left_ms == 0 {
            break;
        }
        // Who cannot follow what is asked leaves it to those who can.
        let opened = match &upstream.who {
            Who::Local(local) => {
                if let Err(refused) = question.can_be_followed_by(local) {
                    unable.get_or_insert(refused);
                    continue;
                }
                tried.underway = Some((question.model.name().to_owned(), gateway.now()));
                Opened::here(local, question, left_ms, transfer).await
            }
            Who::Provider(client) => {
                let request = match question.request_for(client) {
                    Ok(request) => ChatRequest { time_max_ms: Some(left_ms), ..request },
                    Err(refused) => {
                        unable.get_or_insert(refused);
                        continue;
                    }
                };
                tried.underway = Some((client.spec().model.clone(), gateway.now()));
                Opened::there(client, &request, transfer).await
            }
        };
        tried.underway = None;
        match opened {
            Ok(opened) => return Ok((opened, upstream)),
            Err(mut error) => {
                let may_fare_better = upstream.failed(&error, gateway.now());
                tried.calls.append(&mut error.calls);
                failure = Some(error);
                if !may_fare_better {
                    break;
                }
            }
        }
    }
    let nobody = || {
        let why = question.problem().unwrap_or_else(|| "nobody answers under this name".to_owned());
        UpstreamError::new(PolicyErrorKind::Provider, why)
    };
    Err(failure.or(unable).unwrap_or_else(nobody))
}

/// So many milliseconds later. A limit may be longer than any clock counts: then it is a year.
pub(crate) fn after_ms(begun: Instant, ms: u64) -> Instant {
    begun.checked_add(Duration::from_millis(ms)).unwrap_or_else(|| begun + Duration::from_secs(365 * 86_400))
}

/// Why a stream was not passed on to its end.
enum Cut {
    Failed(UpstreamError),
    /// The client does not take it, and how that shows.
    Left(&'static str),
}

/// Passes a stream on until it has ended, or until its time is over and the client has not taken what there is.
async fn follow(
    opened: &mut Opened,
    speaker: &mut dyn Speaker,
    pieces: &Queue,
    deadline: Instant,
    waited: &mut Waited,
) -> Result<(), Cut> {
    let (mut heard, ping) = (Instant::now(), speaker.ping());
    while let Some(piece) = next(opened, pieces, ping, &mut heard).await.map_err(Cut::Failed)? {
        let told = speaker.piece(&piece);
        if !told.is_empty() {
            let sent = timeout_at(deadline, pieces.push(told.into(), waited)).await;
            sent.map_err(|_| Cut::Left(STALLED))?.map_err(|_| Cut::Left(LEFT))?;
            heard = Instant::now();
        }
    }
    Ok(())
}

/// The next piece. A client that hears nothing meanwhile is told that one is waited for.
async fn next(
    opened: &mut Opened,
    pieces: &Queue,
    ping: &'static str,
    heard: &mut Instant,
) -> Result<Option<Piece>, UpstreamError> {
    let next = opened.next();
    tokio::pin!(next);
    loop {
        tokio::select! {
            biased;
            piece = &mut next => return piece,
            () = sleep_until(after_ms(*heard, PING_MS)) => pieces.offer(ping.into()),
        }
        *heard = Instant::now();
    }
}

/// What came of a call whose client was waited for so long: what it took without that. One that broke off may have been given up by who
/// had to wait, which is no fault of its own.
fn without_waiting(mut asked: Result<Drawn, UpstreamError>, waited: Duration) -> Result<Drawn, UpstreamError> {
    if waited.is_zero() {
        return asked;
    }
    if let Some(duration_ms) = calls_of(&mut asked).last_mut().and_then(|call| call.duration_ms.as_mut()) {
        *duration_ms = (*duration_ms - millis(waited)).max(0.0);
    }
    asked.map_err(|error| {
        use PolicyErrorKind::{Abandoned, Protocol, Provider, Timeout};
        let broke_off = error.told.is_none() && matches!(error.kind, Protocol | Provider | Timeout);
        if broke_off { UpstreamError { kind: Abandoned, message: format!("{SLOW}: {}", error.message), ..error } } else { error }
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Puts what came of a question on the record, and gives the answer only when that is durable. For so long its client was waited for.
async fn record(
    gateway: &Gateway,
    question: Question,
    asked: Result<Drawn, UpstreamError>,
    waited: Duration,
) -> Result<Reply, Refused> {
    let ended = gateway.now();
    let latency_ms = (ended.millis_since(question.started) - millis(waited)).max(0.0);
    gateway.metrics().asked(&question, asked.as_ref().map(|drawn| &drawn.completion), latency_ms);
    let refused = asked.as_ref().err().map(|error| question.problem().map_or_else(|| error.into(), Refused::Unavailable));
    let mut turn = Turn::new(Vec::new(), Message::text(Role::Assistant, ""));
    turn.started = Some(question.started);
    turn.extra.insert("id".into(), question.id.as_str().into());
    if question.body.get(STORE).is_some_and(|store| store == false) {
        turn.extra.insert(STORE.into(), false.into());
    }
    if question.prompts.len() > 1 {
        turn.extra.insert("prompts".into(), question.prompts.iter().map(|prompt| json!(message(prompt).content)).collect());
    }
    let (reply, is_new_segment) = match asked {
        Ok(Drawn { completion: Completion { reply, calls, failures }, sampled, is_new_segment, .. }) => {
            (turn.llm_calls, turn.errors, turn.sampled) = (calls, failures, sampled);
            choices::keep(&mut turn, &reply);
            (Some(reply), is_new_segment)
        }
        Err(UpstreamError { kind, message, calls, .. }) => {
            turn.llm_calls = calls;
            turn.errors = vec![ErrorEvent { kind: kind.as_str().into(), recovered: false, message }];
            (None, false)
        }
    };
    // What the client says of its episode stands on the trace; which agent answered is not for it to say. The name by which it finds the
    // episode again is the one of the header, where there is one.
    let said = |key: &str| question.conversation.rest.get(key).filter(|value| !value.is_null());
    let mut metadata = said("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.remove(AGENT);
    for (key, value) in USERS.into_iter().filter_map(|key| Some((key, said(key)?))) {
        metadata.entry(key).or_insert_with(|| value.clone());
    }
    metadata.extend(question.episode_name.clone().map(|name| (EPISODE_NAME.into(), name.into())));
    metadata.insert("api".into(), question.api.into());
    metadata.insert("asked_for".into(), question.name().into());
    let answered = question.answered(&turn, ended, latency_ms);
    let Question { caller, episode, said, category, model, agent, conversation, admitted, begun, .. } = question;
    let (assigned, config, config_hash) = match agent {
        Some((assigned, version)) => (Some(assigned), version.config.clone(), version.config_hash),
        None => {
            let config = Config { model: Some(model.name().to_owned()), ..conversation.config() };
            let config_hash = config.hash();
            (None, config, config_hash)
        }
    };
    let Conversation { messages, tools, .. } = conversation;
    let others = reply.iter().flat_map(|reply| &reply.others).map(|choice| digest(&choice.message)).collect();
    let tenant = caller.tenant;
    let is_canary = answered.is_some();
    let call = Call {
        tenant,
        episode,
        config,
        config_hash,
        said,
        others,
        messages,
        tools,
        turn,
        is_new_segment,
        ended,
        category,
        metadata,
        assigned,
        answered,
    };
    let kept = gateway.record().keep(call).await;
    drop((admitted, begun));
    if is_canary {
        gateway.agents().grown.notify_one();
    }
    match (reply, kept) {
        (_, Err(error @ (NotKept::Foreign | NotKept::Full))) => Err(Refused::NotFound(error.to_string())),
        (_, Err(error)) => {
            gateway.metrics().not_recorded();
            gateway.log(format!("a call of episode {} could not be recorded: {error}", episode.trace()));
            Err(Refused::Store)
        }
        (None, Ok(_)) => Err(refused.unwrap_or(Refused::Busy)),
        (Some(reply), Ok(_)) => Ok(reply),
    }
}

/// An answer that came in the client's own format: only its id and the model's name are ours, and what its calls lacked.
pub(crate) fn passed_on(came: &Map<String, Value>, id: &str, model: &str) -> Value {
    let mut body = came.clone();
    body.insert("id".into(), id.into());
    body.insert("model".into(), model.into());
    Value::Object(body)
}

/// What came of it, with the calls that were made in vain before.
fn after(tried: Tried, mut asked: Result<Drawn, UpstreamError>) -> Result<Drawn, UpstreamError> {
    calls_of(&mut asked).splice(..0, tried.calls);
    asked
}

fn calls_of(asked: &mut Result<Drawn, UpstreamError>) -> &mut Vec<LlmCall> {
    match asked {
        Ok(drawn) => &mut drawn.completion.calls,
        Err(error) => &mut error.calls,
    }
}

/// Where a client says for whom it asks, at the top of a request.
const USERS: [&str; 2] = ["safety_identifier", "user"];

/// A client that left in the middle of an answer, which says nothing of who answered.
const LEFT: &str = "the client left before the answer was whole";
/// A client that stayed and read too slowly, or not at all.
const STALLED: &str = "the client had not read the answer when its time was over";
/// An answer that came to nothing while it waited for its client.
const SLOW: &str = "the client read slowly, and the answer broke off";

/// A client that left before there was anything to tell it: it may have waited in vain.
pub(crate) fn abandoned() -> UpstreamError {
    UpstreamError::new(PolicyErrorKind::Timeout, "the client left before an answer began")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of five seconds that broke off so, after its client was waited for.
    fn check(kind: PolicyErrorKind, waited_s: u64, expected: (PolicyErrorKind, f64)) {
        let calls = vec![LlmCall { duration_ms: Some(5_000.0), ..LlmCall::default() }];
        let failed = UpstreamError { calls, ..UpstreamError::new(kind, "it broke off") };
        let error = without_waiting(Err(failed), Duration::from_secs(waited_s)).err().expect("it failed");
        assert_eq!((error.kind, error.calls[0].duration_ms), (expected.0, Some(expected.1)), "{kind} after {waited_s} s");
        assert!(error.message.ends_with("it broke off"), "{error}");
    }

    #[test]
    fn who_breaks_off_after_it_had_to_wait_is_not_at_fault() {
        use PolicyErrorKind::{Abandoned, Protocol, Provider, Refused, Timeout};
        for kind in [Protocol, Provider, Timeout] {
            check(kind, 0, (kind, 5_000.0));
            check(kind, 4, (Abandoned, 1_000.0));
        }
        check(Refused, 4, (Refused, 1_000.0));
        check(Protocol, 9, (Abandoned, 0.0));
    }
}
