//! A config: everything that shapes an agent. Its hash stands on every row that the agent produced.

use crate::{AdapterId, ConfigHash, ToolSpec, V1};
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
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
}

impl Config {
    /// The hash of the canonical JSON form, in which all keys are sorted.
    pub fn hash(&self) -> ConfigHash {
        let mut json = String::new();
        canonical(&serde_json::to_value(self).expect("a config has string keys"), &mut json);
        ConfigHash::of(json.as_bytes())
    }
}

/// Writes JSON with the keys of every object sorted, whatever order they are held in.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for key in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(&map[key], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
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
