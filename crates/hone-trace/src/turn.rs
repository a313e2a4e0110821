//! A turn: one answer of the policy, with what caused it and what it set off.

use crate::{Message, Time, sorted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One answer of the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// What was said since the turn before: instructions, a question, tool results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<Message>,
    /// The answer.
    pub answer: Message,
    /// When the policy was asked, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// The tools that ran because of this answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The calls of a model behind this answer (several when one was retried).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub llm_calls: Vec<LlmCall>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorEvent>,
    /// The choices that the agent said it made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// What the world measured after this answer, where the world was ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signals: BTreeMap<String, f64>,
    /// The tokens of this turn, where the sampler told them: only such a turn can be trained on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// What a foreign format said of this turn besides.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub extra: Map<String, Value>,
}

/// Where OpenAI's sets for fine-tuning say of an answer what it counts.
pub(crate) const WEIGHT: &str = "weight";

impl Turn {
    /// Whether nothing failed in it: no error, and no call of a tool.
    pub fn went_well(&self) -> bool {
        self.errors.is_empty() && self.tool_calls.iter().all(|call| call.success != Some(false))
    }

    /// Whether its answer is there to be learned from: where `weight` is 0, as OpenAI's sets for fine-tuning have it, it is but history.
    pub fn teaches(&self) -> bool {
        self.answer.extra.get(WEIGHT).and_then(Value::as_f64) != Some(0.0)
    }

    /// A turn of which only the conversation is known.
    pub fn new(input: Vec<Message>, answer: Message) -> Self {
        Self {
            input,
            answer,
            started: None,
            tool_calls: Vec::new(),
            llm_calls: Vec::new(),
            errors: Vec::new(),
            decisions: Vec::new(),
            signals: BTreeMap::new(),
            sampled: None,
            extra: Map::new(),
        }
    }

    /// Tokens read and written by the models behind this answer.
    pub fn n_tokens(&self) -> u64 {
        self.llm_calls.iter().fold(0, |sum, call| sum.saturating_add(call.tokens_in).saturating_add(call.tokens_out))
    }

    /// The price of those calls in US dollars, as far as it is known.
    pub fn cost_usd(&self) -> f64 {
        // Not `sum`, whose zero is negative.
        self.llm_calls.iter().filter_map(|call| call.cost_usd).fold(0.0, |sum, cost| sum + cost)
    }
}

/// A tool that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The id of the request, where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Value::is_null", serialize_with = "sorted::value")]
    pub arguments: Value,
    /// Whether it did what it was asked; `None` when nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// What a foreign format said of this call besides.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub extra: Map<String, Value>,
}

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmCall {
    /// The model that answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Tokens read, cached ones included.
    #[serde(default)]
    pub tokens_in: u64,
    /// Tokens written.
    #[serde(default)]
    pub tokens_out: u64,
    /// Those of `tokens_in` that came from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens_cached: u64,
    /// The price in US dollars, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// What a foreign format said of this call besides.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub extra: Map<String, Value>,
}

/// Something that went wrong: a timeout, a refused tool call, an unparsable answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorEvent {
    /// Its kind, such as `tool_timeout`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the episode went on in spite of it.
    pub recovered: bool,
    /// What was said about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A choice that the agent said it made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What it chose.
    pub chosen: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
}

/// The tokens of a turn as the sampler saw them. They are never made again from text.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// The tokens of the turn's input: what was appended to the segment before sampling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_ids: Vec<u32>,
    /// The sampled tokens.
    pub ids: Vec<u32>,
    /// The log-probability of each sampled token under the support it was drawn from; empty when unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
    /// The positions in `ids` of tokens that were forced, not chosen: they carry no loss.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<u32>,
    /// The temperature of the draws, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Whether more than the model and the temperature decided how likely tokens were, such as a top-p or a schema.
    #[serde(default, skip_serializing_if = "is_false")]
    pub narrowed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(is: &bool) -> bool {
    !*is
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
