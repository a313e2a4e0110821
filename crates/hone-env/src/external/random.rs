//! Well-formed actions at random for tools of which only the schema is known.

use crate::{Scripted, call, said};
use hone_trace::policy::Conversation;
use hone_trace::{Draws, Message, ToolSpec};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How deep a schema is followed.
const DEPTH_MAX: usize = 8;

/// Calls any tool with any arguments, and now and then says a number.
pub(super) fn random(tools: Arc<[ToolSpec]>, mut draws: Draws) -> Box<dyn Conversation> {
    Box::new(Scripted(move |_: &[Message]| {
        if tools.is_empty() || draws.chance(0.25) {
            return said(draws.between(0, 100).to_string());
        }
        let tool = draws.pick(&tools);
        let arguments = value(&tool.parameters, &mut draws, 0);
        call(&tool.name, &if arguments.is_object() { arguments } else { Value::Object(Map::new()) })
    }))
}

/// A value that this schema allows, as far as its plainest words go.
fn value(schema: &Value, draws: &mut Draws, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.is_empty()) {
        return draws.pick(choices).clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object();
            properties.into_iter().flatten().map(|(name, schema)| (name.clone(), value(schema, draws, depth + 1))).collect()
        }
        Some("array") => {
            let n_items = schema["minItems"].as_i64().unwrap_or(1).clamp(0, 8);
            (0..n_items).map(|_| value(&schema["items"], draws, depth + 1)).collect()
        }
        Some("integer") => {
            let low = schema["minimum"].as_i64().unwrap_or(0).clamp(-1_000_000, 1_000_000);
            let high = schema["maximum"].as_i64().unwrap_or(low + 100).clamp(low, low + 1_000_000);
            json!(draws.between(low, high))
        }
        Some("number") => json!(draws.uniform() * 100.0),
        Some("boolean") => json!(draws.chance(0.5)),
        Some("string") => json!(draws.pick(&["one", "two", "red", "blue", "yes", "no"])),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_their_schema() {
        let mut draws = Draws::new(1, &[]);
        let schema = json!({"type": "object", "properties": {
            "item": {"enum": ["a", "b"]},
            "n": {"type": "integer", "minimum": 2, "maximum": 4},
            "all": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
        }});
        for _ in 0..50 {
            let value = value(&schema, &mut draws, 0);
            assert!(["a", "b"].contains(&value["item"].as_str().unwrap()));
            assert!((2..=4).contains(&value["n"].as_i64().unwrap()));
            assert!(value["all"].as_array().unwrap().iter().all(Value::is_boolean));
            assert_eq!(value["all"].as_array().unwrap().len(), 2);
        }
        let odd =
            json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 1}, "x": {}, "y": 3}});
        assert_eq!(value(&odd, &mut draws, 0), json!({"n": 5, "x": null, "y": null}));
    }
}
