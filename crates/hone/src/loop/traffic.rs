//! Customers: they bring their tickets to the agent over HTTP, as a team's own clients would, and say how it went.
//!
//! Everything about an episode but its times follows from the seed and its ticket, so the same agent does the same again.

use super::arbiter::{N_CONVERSATIONS, OUTCOME};
use super::client::Client;
use crate::failure::Failure;
use hone_trace::env::{Env, Reset};
use hone_trace::format::openai::{Conversation, message_json};
use hone_trace::{AgentName, Draws, Message, Scenario, TraceOutcome};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The most answers of an episode.
const N_ANSWERS_MAX: usize = 16;
/// How often somebody looks whether the arbiter has heard of the agent, ten times a second.
const N_LOOKS: usize = 600;
/// How often somebody comes back who was told to.
const N_TRIES: usize = 20;

/// Customers of one agent.
#[derive(Clone)]
pub(super) struct Traffic {
    pub(super) http: reqwest::Client,
    /// What the arbiter lets them in by, where it asks for a key.
    pub(super) key: Option<String>,
    /// Who asks the agent, where it is not us.
    pub(super) client: Option<Arc<Client>>,
    pub(super) url: String,
    pub(super) agent: AgentName,
    pub(super) env: Arc<dyn Env>,
    pub(super) answer_tokens_max: u64,
    pub(super) seed: u64,
    /// What passes between two customers; none where they come as fast as they are served.
    pub(super) pause: Duration,
}

/// A ticket, and the name of the episode that it becomes.
#[derive(Clone)]
pub(super) struct Ticket {
    pub(super) episode: String,
    pub(super) scenario: Scenario,
}

/// When customers say how it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporting {
    AtOnce,
    Later,
}

impl Traffic {
    /// Brings all tickets, many at a time, and says of each whether it was solved: to the caller, and to the arbiter where somebody
    /// reports. `seen` is called whenever one is done.
    pub(super) async fn bring(
        &self,
        tickets: Vec<Ticket>,
        reporting: Reporting,
        mut seen: impl FnMut(),
    ) -> Result<Vec<bool>, Failure> {
        let mut solved = vec![false; tickets.len()];
        let mut waiting = tickets.into_iter().enumerate();
        let mut underway: JoinSet<Result<(usize, bool), Failure>> = JoinSet::new();
        loop {
            while underway.len() < N_CONVERSATIONS
                && let Some((idx, ticket)) = waiting.next()
            {
                if !self.pause.is_zero() {
                    tokio::time::sleep(self.pause).await;
                }
                let customer = self.clone();
                underway.spawn(async move {
                    let is_solved = customer.episode(&ticket).await?;
                    if reporting == Reporting::AtOnce {
                        customer.report(&ticket.episode, is_solved).await?;
                    }
                    Ok((idx, is_solved))
                });
            }
            let Some(ended) = underway.join_next().await else { return Ok(solved) };
            let (idx, is_solved) = ended.map_err(|error| Failure::bug(error.to_string()))??;
            solved[idx] = is_solved;
            seen();
        }
    }

    /// Waits until the arbiter has heard of the agent.
    pub(super) async fn wait(&self) -> Result<(), Failure> {
        let url = format!("{}/v1/models/{}", self.url, self.agent);
        for _ in 0..N_LOOKS {
            if self.let_in(self.http.get(&url)).send().await.map_err(Failure::world)?.status().is_success() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Failure::world(anyhow::anyhow!("the arbiter has not heard of `{}`", self.agent)))
    }

    fn let_in(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            None => request,
            Some(key) => request.bearer_auth(key),
        }
    }

    /// Says how well an episode went; twice is once.
    pub(super) async fn report(&self, episode: &str, is_solved: bool) -> Result<(), Failure> {
        let body = json!({"episode_id": episode, "metric_name": OUTCOME, "value": is_solved, "id": "once"});
        self.post("/v1/feedback", &[], &body).await.map(drop)
    }

    /// One episode, from the question to its end.
    async fn episode(&self, ticket: &Ticket) -> Result<bool, Failure> {
        let Ticket { episode: name, scenario } = ticket;
        let broken = |error: hone_trace::env::EnvError| Failure::world(error).context(&scenario.id);
        let mut draws = Draws::new(self.seed, &["traffic", scenario.id.as_str()]);
        let Reset { mut episode, tools, messages } = self.env.reset(scenario, draws.bits()).map_err(broken)?;
        let mut said: Vec<Value> = messages.iter().map(message_json).collect();
        let metadata = json!({"family": scenario.family, "difficulty": scenario.difficulty, "env": self.env.name()});
        let headers = [("x-hone-episode", name.as_str()), ("x-hone-task", scenario.category.as_str())];
        for _ in 0..N_ANSWERS_MAX {
            let mut body = json!({
                "model": self.agent, "messages": said, "max_tokens": self.answer_tokens_max, "seed": draws.bits() >> 1,
                "metadata": metadata,
            });
            if !tools.is_empty() {
                body["tools"] = tools.iter().map(|tool| json!({"type": "function", "function": tool})).collect();
            }
            // Who has talked until no room is left has not helped.
            let Some(answer) = self.ask(&headers, &body).await? else { return Ok(false) };
            let step = episode.step(&message(&answer)?).map_err(broken)?;
            if let Some(outcome) = step.done {
                return Ok(outcome == TraceOutcome::Success);
            }
            said.push(answer);
            said.extend(step.messages.iter().map(message_json));
        }
        Ok(false)
    }

    /// What the agent answers. `None` when the conversation has grown too long.
    async fn ask(&self, headers: &[(&str, &str)], body: &Value) -> Result<Option<Value>, Failure> {
        match &self.client {
            Some(client) => client.ask(headers, body).await,
            None => {
                Ok(self.post("/v1/chat/completions", headers, body).await?.map(|mut told| told["choices"][0]["message"].take()))
            }
        }
    }

    /// Asks the arbiter, and again when there is too much to do. `None` when the conversation has grown too long.
    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Option<Value>, Failure> {
        let url = format!("{}{path}", self.url);
        for n_tries in 1.. {
            let request =
                headers.iter().fold(self.let_in(self.http.post(&url)), |request, (name, value)| request.header(*name, *value));
            let response = request.header("content-type", "application/json").body(body.to_string()).send();
            let response = response.await.map_err(Failure::world)?;
            let status = response.status();
            let text = response.text().await.map_err(Failure::world)?;
            match status {
                StatusCode::OK => return serde_json::from_str(&text).map(Some).map_err(Failure::world),
                StatusCode::BAD_REQUEST if text.contains("context_length_exceeded") => return Ok(None),
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS if n_tries < N_TRIES => {
                    tokio::time::sleep(Duration::from_millis(50 * n_tries as u64)).await;
                }
                _ => return Err(Failure::world(anyhow::anyhow!("{path} answered {status}: {text}"))),
            }
        }
        Err(Failure::bug("there is always another try or an end"))
    }
}

/// The message of an answer.
fn message(answer: &Value) -> Result<Message, Failure> {
    let conversation = Conversation::read(&json!({"messages": [answer]}).to_string()).map_err(Failure::world)?;
    conversation.messages.into_iter().next().ok_or_else(|| Failure::bug("one message was read"))
}
