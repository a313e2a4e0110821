//! A config: everything that shapes an agent. Its hash stands on every row that the agent produced.

use crate::{AdapterId, ConfigHash, ToolSpec, V1, sorted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Everything that shapes an agent. A field that is `None` was left to the provider, or is not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this record.
    pub v: V1,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The LoRA weights on top of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterId>,
    /// The standing instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// How many tokens it may think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_tokens_max: Option<u64>,
    /// How often a failed call is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_max: Option<u32>,
    /// Everything else that a framework sets.
    #[serde(default, skip_serializing_if = "Map::is_empty", serialize_with = "sorted::map")]
    pub settings: Map<String, Value>,
}

impl Config {
    /// The hash of its JSON form, in which the keys of free settings are sorted.
    pub fn hash(&self) -> ConfigHash {
        ConfigHash::of(&serde_json::to_vec(self).expect("a config has string keys"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys() {
        let one: Config = serde_json::from_str(r#"{"v":1,"model":"m","settings":{"a":1,"b":2}}"#).unwrap();
        let two: Config = serde_json::from_str(r#"{"settings":{"b":2,"a":1},"model":"m","v":1}"#).unwrap();
        assert_eq!(one.hash(), two.hash());
        assert_ne!(one.hash(), Config::default().hash());
    }
}
