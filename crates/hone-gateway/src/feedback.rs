//! What people and programs say of an answer or of an episode: `POST /v1/feedback`.
//!
//! `true`, `false` and numbers become rewards; words become a comment, and words or a message the demonstration of what an answer should
//! have been: lines of the event log, of which [`demonstrations`] makes something to learn from. Feedback that is sent twice counts once
//! when it carries the same id; what says something else under that id is refused.

use crate::access::Reporter;
use crate::demonstrations;
use crate::error::Refused;
use crate::openai::parsed;
use crate::otlp;
use crate::record::{assigned_to, has_failed};
use crate::route::{json_response, read};
use crate::server::Gateway;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use hone_arbiter::Reached;
use hone_arbiter::canary::{Fact, QUALITY_MAX};
use hone_arbiter::log::Line;
use hone_trace::store::{Event, Put, Write};
use hone_trace::{Component, DEMONSTRATION, EventId, Giver, GiverKind, Message, Reward, RewardId, Tenant, Time, Trace, TraceId};
use serde::Deserialize;
use serde_json::{Value, json};

/// The longest name of a metric, and the longest words.
const NAME_LEN_MAX: usize = 128;
pub(crate) const WORDS_LEN_MAX: usize = 64 << 10;
/// Comments and demonstrations that are read at once.
const N_WORDS_READ: u32 = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Feedback {
    /// The `id` of an answer.
    #[serde(default)]
    inference_id: Option<String>,
    /// The episode: what the header of its answers says, or the name that the client gave it.
    #[serde(default)]
    episode_id: Option<String>,
    /// What is said: `comment` takes words, `demonstration` words or a message, every other name a number, true or false.
    metric_name: String,
    value: Value,
    /// Feedback of the same id counts once.
    #[serde(default)]
    id: Option<String>,
}

/// What somebody says of a trace.
pub(crate) struct Said<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a Value,
    /// The answer that is meant; `None` for the whole trace.
    pub(crate) turn_idx: Option<u32>,
    /// Said again under the same id, it counts once.
    pub(crate) id: Option<&'a str>,
    pub(crate) by: &'a str,
}

pub(crate) async fn give(State(gateway): State<Gateway>, Reporter(caller): Reporter, body: Body) -> Result<Response, Refused> {
    let feedback: Feedback = parsed(&read(&gateway, body).await?)?;
    if feedback.metric_name.is_empty() || feedback.metric_name.len() > NAME_LEN_MAX {
        return Err(Refused::param("metric_name", format!("`metric_name` must have 1 to {NAME_LEN_MAX} characters")));
    }
    let (trace, meant) = feedback.target(&gateway, &caller.tenant).await?;
    // An answer takes the place of one: without a word about which, of the last there is.
    let n_turns = || u32::try_from(trace.turns().count()).ok();
    let last = || (feedback.metric_name == DEMONSTRATION).then(n_turns).flatten()?.checked_sub(1);
    let turn_idx = meant.or_else(last);
    let (name, value, id, by) = (&feedback.metric_name, &feedback.value, feedback.id.as_deref(), &caller.name);
    let own = take(&gateway, &trace, &Said { name, value, turn_idx, id, by }).await?;
    Ok(json_response(&json!({"feedback_id": own, "episode_id": trace.id, "turn_idx": turn_idx})))
}

/// Writes it down; its id.
pub(crate) async fn take(gateway: &Gateway, whole: &Trace, said: &Said<'_>) -> Result<String, Refused> {
    let (trace, tenant, turn_idx, now) = (whole.id, &whole.tenant, said.turn_idx, gateway.now());
    let own = said.id.map_or_else(|| gateway.new_trace().to_string(), str::to_owned);
    let facts = [tenant.as_str(), &trace.to_string(), said.name, &own];
    let line = |words: &str, answer: Option<&Message>| {
        let mut body = json!({"trace": trace, "turn_idx": turn_idx, "words": words, "by": said.by});
        if let Some(answer) = answer {
            body["answer"] = json!(answer);
        }
        let (id, stream, kind) = (EventId::derived(&facts), stream(trace), said.name.to_owned());
        Write::Event(Event { id, at: now, tenant: tenant.clone(), stream, kind, body })
    };
    let is_short = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len) <= WORDS_LEN_MAX;
    let write = match (said.name, said.value) {
        ("comment", Value::String(words)) if (1..=WORDS_LEN_MAX).contains(&words.len()) => line(words, None),
        (DEMONSTRATION, value) if is_short(value) => {
            let answer = demonstrations::answer(value, demonstrations::tools_of(whole, turn_idx))?;
            line(&answer.content.text(), demonstrations::beyond_words(&answer))
        }
        (kind @ ("comment" | DEMONSTRATION), _) => {
            let what = if kind == DEMONSTRATION { "text or message" } else { "text" };
            let message = format!("`value` of a {kind} must be a {what} of 1 to {WORDS_LEN_MAX} bytes");
            return Err(Refused::param("value", message));
        }
        (name, value) => {
            let number = value.as_bool().map(|yes| f64::from(u8::from(yes))).or_else(|| value.as_f64());
            let number = number.filter(|number| number.abs() <= QUALITY_MAX).ok_or_else(|| {
                let message = format!("`value` must be true, false or a number from -{QUALITY_MAX} to {QUALITY_MAX}");
                Refused::param("value", message)
            })?;
            let by = Giver { kind: GiverKind::Human, name: name.to_owned(), config: None };
            let components = vec![Component { name: name.to_owned(), value: number, weight: 1.0 }];
            let reward = Reward::sum(RewardId::derived(&facts), now, by, components);
            Write::Reward(trace, Reward { turn_idx, ..reward })
        }
    };
    let lines = match &write {
        Write::Reward(_, reward) if is_outcome(gateway, reward) => lines(whole, reward.total, now),
        Write::Event(event) if event.kind == DEMONSTRATION => vec![demonstrations::naming(trace, tenant.clone(), now)],
        _ => Vec::new(),
    };
    let is_told = matches!(write, Write::Reward(..)) && !lines.is_empty();
    let writes = std::iter::once(write.clone()).chain(lines.into_iter().map(Write::Event)).collect();
    let puts = gateway.record().store().put(writes).await.map_err(|error| {
        gateway.log(format!("feedback on {trace} could not be recorded: {error}"));
        Refused::Store
    })?;
    if is_told {
        gateway.agents().grown.notify_one();
    }
    match (puts.first(), said.id) {
        (Some(Put::Conflict), None) => Err(Refused::Store),
        // The time of a repetition is another.
        (Some(Put::Conflict), Some(id)) if !is_repeated(gateway, &write).await? => Err(Refused::Taken(id.to_owned())),
        _ => Ok(own),
    }
}

/// Where what is said of a trace in words stands.
pub(crate) fn stream(trace: TraceId) -> String {
    format!("feedback:{trace}")
}

impl Feedback {
    /// The trace, and the turn where one answer is meant.
    async fn target(&self, gateway: &Gateway, tenant: &Tenant) -> Result<(Trace, Option<u32>), Refused> {
        let one = "either `inference_id` or `episode_id` must say what the feedback is about";
        let (id, inference) = match (&self.inference_id, &self.episode_id) {
            (Some(inference), None) => (answered_in(inference), Some(inference)),
            (None, Some(episode)) => (Some(gateway.record().named(tenant, episode).await.map_err(|_| Refused::Store)?), None),
            _ => return Err(Refused::Malformed { param: None, message: one.into() }),
        };
        let missing = || Refused::NotFound("there is no such episode or answer on the record".into());
        let id = id.ok_or_else(missing)?;
        let mut trace = gateway.record().store().trace(id).await.map_err(|_| Refused::Store)?;
        // A conversation that was told by spans is called what they call it.
        for id in self.episode_id.iter().flat_map(|name| otlp::ids(tenant, name)) {
            if trace.is_none() {
                trace = gateway.record().store().trace(id).await.map_err(|_| Refused::Store)?;
            }
        }
        let trace = trace.filter(|trace| trace.tenant == *tenant).ok_or_else(missing)?;
        let turn_idx = inference.map(|inference| turn_of(&trace, inference).ok_or_else(missing)).transpose()?;
        Ok((trace, turn_idx))
    }
}

/// Whether what is on the record under the same id says the same, whenever and by whom it was said.
async fn is_repeated(gateway: &Gateway, write: &Write) -> Result<bool, Refused> {
    let store = gateway.record().store();
    match write {
        Write::Reward(trace, new) => {
            let trace = store.trace(*trace).await.map_err(|_| Refused::Store)?;
            let said = trace.iter().flat_map(|trace| &trace.rewards).find(|said| said.id == new.id);
            Ok(said.is_some_and(|said| (said.total, said.turn_idx) == (new.total, new.turn_idx)))
        }
        Write::Event(new) => {
            let mut after = 0;
            loop {
                let page = store.events(Some(&new.stream), after, N_WORDS_READ).await.map_err(|_| Refused::Store)?;
                let Some((last, _)) = page.last() else { return Ok(false) };
                after = *last;
                if let Some((_, said)) = page.iter().find(|(_, said)| said.id == new.id) {
                    return Ok(["words", "answer", "turn_idx"].iter().all(|key| said.body[key] == new.body[key]));
                }
            }
        }
        _ => Ok(false),
    }
}

/// Whether a reward says how well its episode went.
fn is_outcome(gateway: &Gateway, reward: &Reward) -> bool {
    gateway.outcome().is_none_or(|outcome| reward.by.name == outcome)
}

/// How well an episode went, as far as its record says.
pub(crate) fn outcome(gateway: &Gateway, trace: &Trace) -> Option<f64> {
    trace.rewards.iter().find(|reward| is_outcome(gateway, reward)).map(|reward| reward.total)
}

/// What the log of agents is told when an episode went so well. What it was told first counts.
fn lines(trace: &Trace, quality: f64, now: Time) -> Vec<Event> {
    let Some(assigned) = assigned_to(trace) else { return Vec::new() };
    let event = |line: &Line, id| line.event(id, now, trace.tenant.clone());
    let durations = trace.turns().flat_map(|turn| &turn.llm_calls).filter_map(|call| call.duration_ms);
    let reached = Reached {
        success: quality.clamp(0.0, 1.0),
        cost_usd: Some(trace.head().cost_usd),
        latency_ms: Some(durations.fold(0.0, |sum, duration| sum + duration)),
    };
    let row = assigned.row(trace.id, Fact::Matured { quality });
    let ended = assigned.ended(trace.id, reached, trace.turns().any(has_failed));
    let row = row.map(|row| event(&Line::Row(row.clone()), row.id()));
    row.into_iter().chain([event(&Line::Ended(Box::new(ended.clone())), ended.id())]).collect()
}

/// The episode in which an answer of this id was given.
pub(crate) fn answered_in(inference: &str) -> Option<TraceId> {
    let rest = ["chatcmpl-", "msg_", "cmpl-", "resp_"].into_iter().find_map(|kind| inference.strip_prefix(kind))?;
    rest.split_once('-')?.0.parse().ok()
}

fn turn_of(trace: &Trace, inference: &str) -> Option<u32> {
    let turn_idx = trace.turns().position(|turn| turn.extra.get("id").is_some_and(|id| id == inference))?;
    u32::try_from(turn_idx).ok()
}
