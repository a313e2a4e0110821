//! Several answers to one question, and the tokens they are made of: what a client may ask of a model of this machine.
//!
//! The conversation goes on with the first answer. The others stand beside it on the same turn, each with its own tokens. Log-probs are
//! told in the words of OpenAI's chat; whoever speaks another format puts them into its own.

use crate::error::Refused;
use crate::openai::{finish, flag, whole_number};
use hone_policy::local::ToldToken;
use hone_policy::upstream::{Choice, Reply};
use hone_trace::format::is_too_deep;
use hone_trace::{Message, Turn};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The most answers to one question, and of all questions of one request.
const N_CHOICES_MAX: u64 = 16;
const N_ALL_MAX: usize = 128;
/// The most alternatives that are told beside a token.
const N_LIKELIEST_MAX: usize = 20;
/// What the record calls the tokens that a provider told.
const LOGPROBS: &str = "logprobs";

/// What of the answers is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choices {
    /// How many there are to be.
    pub(crate) n: u64,
    /// Whether their tokens are told, and with how many alternatives each.
    pub(crate) tokens: Option<usize>,
}

impl Default for Choices {
    fn default() -> Self {
        Self { n: 1, tokens: None }
    }
}

impl Choices {
    /// Reads them from a chat in OpenAI's words.
    pub(crate) fn of_chat(rest: &Map<String, Value>) -> Result<Self, Refused> {
        let tells = flag(rest, "logprobs")?;
        let n_likeliest = count(rest, "top_logprobs")?;
        if n_likeliest.is_some_and(|n| n > 0) && !tells {
            return Err(Refused::param("top_logprobs", "`top_logprobs` needs `logprobs` to be true"));
        }
        Ok(Self { n: whole_number(rest, "n")?.unwrap_or(1), tokens: tells.then(|| n_likeliest.unwrap_or(0)) })
    }

    /// Reads them from a completion, in which `logprobs` is the number of alternatives.
    pub(crate) fn of_completion(rest: &Map<String, Value>) -> Result<Self, Refused> {
        Ok(Self { n: whole_number(rest, "n")?.unwrap_or(1), tokens: count(rest, "logprobs")? })
    }

    /// What of them a model of this machine does not follow, and why, where it does not.
    pub(crate) fn wrong(&self, n_prompts: usize) -> Option<(&'static str, String)> {
        let n_all = usize::try_from(self.n).unwrap_or(usize::MAX).saturating_mul(n_prompts.max(1));
        match self.tokens {
            _ if self.n > N_CHOICES_MAX => Some(("n", format!("`n` is at most {N_CHOICES_MAX} here"))),
            _ if n_all > N_ALL_MAX => {
                Some(("prompt", format!("`prompt` and `n` ask for {n_all} answers; {N_ALL_MAX} come at once")))
            }
            Some(n) if n > N_LIKELIEST_MAX => {
                let param = if n_prompts > 0 { "logprobs" } else { "top_logprobs" };
                Some((param, format!("`{param}` tells at most {N_LIKELIEST_MAX} alternatives")))
            }
            _ => None,
        }
    }
}

/// A whole number that may be 0.
fn count(map: &Map<String, Value>, name: &str) -> Result<Option<usize>, Refused> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|number| usize::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(Refused::param(name, format!("`{name}` must be a whole number"))),
        },
    }
}

/// Tokens in the words of OpenAI's chat.
pub(crate) fn told(tokens: &[ToldToken]) -> Vec<Value> {
    let one = |bytes: &[u8], logprob: f32| json!({"token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes});
    let token = |token: &ToldToken| {
        let mut told = one(&token.bytes, token.logprob);
        told["top_logprobs"] = token.likeliest.iter().map(|(bytes, logprob)| one(bytes, *logprob)).collect();
        told
    };
    tokens.iter().map(token).collect()
}

/// What marks, on the record, that a provider told more than could be kept.
const LEFT_OUT: &str = "left_out";

/// Puts an answer on the record, with what a turn has no word for: further answers and log-probs that a provider told. What it nests too
/// deep to be read back is left out, and named.
pub(crate) fn keep(turn: &mut Turn, reply: &Reply) {
    let mut left_out = BTreeSet::new();
    turn.answer = reply.message.clone();
    shorten(&mut turn.answer, &mut left_out);
    if turn.sampled.is_none() && !reply.tokens.told.is_null() {
        turn.extra.insert(LOGPROBS.into(), reply.tokens.told.clone());
        retain_readable(&mut turn.extra, &mut left_out);
    }
    let mut other = |choice: &Choice| {
        let mut message = choice.message.clone();
        shorten(&mut message, &mut left_out);
        let mut kept = Map::from_iter([("answer".into(), json!(message)), ("finish".into(), finish(choice.finish).into())]);
        match &choice.sampled {
            Some(sampled) => drop(kept.insert("sampled".into(), json!(sampled))),
            None if !choice.tokens.told.is_null() => drop(kept.insert(LOGPROBS.into(), choice.tokens.told.clone())),
            None => {}
        }
        retain_readable(&mut kept, &mut left_out);
        Value::Object(kept)
    };
    if !reply.others.is_empty() {
        let others = reply.others.iter().map(&mut other).collect();
        turn.extra.insert("others".into(), others);
    }
    if !left_out.is_empty() {
        turn.extra.insert(LEFT_OUT.into(), left_out.into_iter().collect());
    }
}

/// Leaves out what a provider says besides of a message and its calls, where it could not be read back.
fn shorten(message: &mut Message, left_out: &mut BTreeSet<String>) {
    retain_readable(&mut message.extra, left_out);
    message.tool_calls.iter_mut().for_each(|call| retain_readable(&mut call.extra, left_out));
}

fn retain_readable(told: &mut Map<String, Value>, left_out: &mut BTreeSet<String>) {
    told.retain(|name, value| {
        let is_readable = !is_too_deep(value);
        if !is_readable {
            left_out.insert(name.clone());
        }
        is_readable
    });
}
