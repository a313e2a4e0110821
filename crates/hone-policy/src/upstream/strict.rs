//! Which JSON schemas OpenAI follows to the letter where `strict` says so, and which it refuses then.
//!
//! The answer is an object, every object in it requires all that it has and allows nothing else, and only the words on OpenAI's page
//! about structured outputs are used. Another schema is sent as a wish.
//! Knows nothing of limits on how large or deep a schema may be.

use serde_json::{Map, Value};

const WORDS: [&str; 22] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// Whether a schema may be sent as a strict one.
pub(super) fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none() && holds(schema)
}

fn holds(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    map.keys().all(|word| WORDS.contains(&word.as_str())) && is_closed(map) && inner(map).all(holds)
}

/// Whether an object requires all that it has and allows nothing else. What is no object is closed.
fn is_closed(map: &Map<String, Value>) -> bool {
    let is_object = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        kind => kind.is_some_and(|kind| kind == "object"),
    };
    let required = map.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut names = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    !is_object
        || map.get("additionalProperties") == Some(&Value::Bool(false))
            && names.all(|name| required.iter().any(|known| known == name))
}

/// The schemas inside a schema.
fn inner(map: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let named = ["properties", "$defs", "definitions"].into_iter().filter_map(|word| map.get(word)?.as_object());
    let listed = map.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    named.flat_map(Map::values).chain(listed).chain(map.get("items"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(properties: &Value, expected: bool) {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        assert_eq!(is_strict(&schema), expected, "{schema}");
    }

    #[test]
    fn strict_schemas_say_all_that_there_is_in_known_words() {
        check(&json!({}), true);
        check(
            &json!({"a": {"type": "string", "pattern": "x"}, "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}}),
            true,
        );
        check(&json!({"a": {"type": "array", "items": {"type": "string"}, "maxItems": 3}, "b": {"$ref": "#"}}), true);
        check(&json!({"a": {"type": "string", "minLength": 1}}), false);
        check(&json!({"a": {"allOf": [{"type": "string"}]}}), false);
        check(&json!({"a": {"type": "array", "items": {"type": "object"}}}), false);
        check(
            &json!({"a": {"type": ["object", "null"], "properties": {"x": {"type": "string"}}, "additionalProperties": false}}),
            false,
        );
        check(&json!({"a": true}), false);
    }

    #[test]
    fn strict_answers_are_objects_without_more() {
        let open = [
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", "anyOf": [], "additionalProperties": false}),
        ];
        assert!(open.iter().all(|schema| !is_strict(schema)));
    }
}
