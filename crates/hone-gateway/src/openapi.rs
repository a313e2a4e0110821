//! The server as OpenAPI 3.1 describes it: `GET /openapi.json`, made of the table of paths and of the schemas beside this file.
//!
//! Schemas name what hone itself looks at. Whatever else a body has is passed on, so none of them forbids anything.

use crate::access::Reporter;
use crate::paths::{Gives, PATHS, Path};
use crate::route::json_response;
use axum::response::Response;
use serde_json::{Map, Value, json};

const SCHEMAS: &str = include_str!("openapi/schemas.json");

pub(crate) async fn tell(Reporter(_): Reporter) -> Response {
    json_response(&document())
}

fn document() -> Value {
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("the schemas are well formed");
    let mut paths: Map<String, Value> = Map::new();
    for path in PATHS {
        let of_path = paths.entry(path.path).or_insert_with(|| json!({}));
        of_path[path.method] = operation(path);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "hone",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Answers in OpenAI's and Anthropic's words, and keeps what was said.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "session": {"type": "apiKey", "in": "cookie", "name": "hone_session"},
            },
        },
    })
}

fn operation(path: &Path) -> Value {
    let refused = if matches!(path.gives, Gives::Page) { given(path.gives) } else { json_of(path.refuses) };
    let refusal = |why: &str| json!({"description": why, "content": refused});
    let mut responses = Map::new();
    responses.insert("200".into(), json!({"description": "Done", "content": given(path.gives)}));
    responses.insert("default".into(), refusal("Refused, or failed"));
    let mut operation = json!({"operationId": id(path), "summary": path.says, "security": []});
    if let Some(least) = path.least {
        operation["security"] = match path.gives {
            Gives::Page => json!([{"bearer": []}, {"header": []}, {"session": []}]),
            _ => json!([{"bearer": []}, {"header": []}]),
        };
        operation["description"] =
            format!("Where keys are needed, one with the role `{}` or a higher one.", least.as_str()).into();
        operation["x-hone-role"] = least.as_str().into();
        responses.insert("401".into(), refusal("The key is missing or not known"));
        responses.insert("403".into(), refusal("The key may not do this"));
        let mut too_often = refusal("Too many requests with this key");
        too_often["headers"] = json!({"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}});
        responses.insert("429".into(), too_often);
    }
    let named: Vec<Value> = parameters(path.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if !named.is_empty() {
        operation["parameters"] = named.into();
    }
    if let Some(schema) = path.takes {
        let mut content = json_of(schema);
        if let (Gives::Page, Value::Object(kinds)) = (path.gives, &mut content) {
            // A page takes what its own forms send.
            let form = kinds.remove("application/json").unwrap_or_default();
            kinds.insert("application/x-www-form-urlencoded".into(), form);
        }
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation["responses"] = responses.into();
    operation
}

fn given(gives: Gives) -> Value {
    match gives {
        Gives::Json(schema) => json_of(schema),
        Gives::JsonOrEvents(schema) => {
            let mut content = json_of(schema);
            content["text/event-stream"] = json!({"schema": {"type": "string"}});
            content
        }
        Gives::Page => json!({"text/html": {"schema": {"type": "string"}}}),
        Gives::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
    }
}

fn json_of(schema: &str) -> Value {
    json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}})
}

/// The names between braces.
fn parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A name for programs, such as `get_v1_models_name`.
fn id(path: &Path) -> String {
    let words = path.path.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(path.method).chain(words).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        for reference in &found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(found.contains(&format!("#/components/schemas/{name}").as_str()), "nobody uses {name}");
        }
    }

    #[test]
    fn every_path_is_there_under_a_name_of_its_own() {
        let document = document();
        let names: HashSet<String> = PATHS.iter().map(id).collect();
        assert_eq!(names.len(), PATHS.len());
        for path in PATHS {
            let operation = &document["paths"][path.path][path.method];
            assert_eq!(operation["summary"], path.says, "{}", path.path);
            assert_eq!(operation["responses"].get("401").is_some(), path.least.is_some(), "{}", path.path);
        }
        assert_eq!(document["paths"]["/v1/models/{name}"]["get"]["parameters"][0]["name"], "name");
    }
}
