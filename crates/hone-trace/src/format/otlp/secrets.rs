//! What a span must not bring along: attributes that carry keys, passwords and cookies are dropped before anything is kept.
//!
//! An attribute is one by its name (`http.request.header.authorization`, `openai.api_key`), or because its text begins like the
//! header of a key. The parameters and headers of a call come as JSON inside a text: there the same names are dropped wherever they
//! stand, but for the messages, which are what was said. Addresses lose their keys in every text, see [`url`].

mod url;

use crate::format::object::json_inside;
use serde_json::{Map, Value};

/// Words that name a secret by themselves.
const WORDS: [&str; 17] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "auth",
    "authorization",
    "bearer",
    "connectionstring",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "secrets",
];
/// Words that do so after another one.
const KEYS: [(&str, &str); 6] = [
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("signing", "key"),
    ("subscription", "key"),
    ("connection", "string"),
];
/// Attributes whose text is the JSON of a call.
const CALLS: [&str; 8] = [
    "ai.toolCall.args",
    "input.value",
    "langfuse.observation.input",
    "langfuse.observation.model.parameters",
    "langfuse.observation.output",
    "llm.invocation_parameters",
    "metadata",
    "output.value",
];
/// Members of a call that are the conversation itself.
const SAID: [&str; 3] = ["choices", "input", "messages"];

/// Drops what carries secrets from the attributes of a resource, a scope, a span or an event.
pub(super) fn drop_from(fields: &mut Map<String, Value>) {
    let Some(attributes) = fields.get_mut("attributes").and_then(Value::as_array_mut) else { return };
    attributes.retain_mut(|attribute| {
        let key = attribute.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(value) = attribute.get_mut("value") else { return !is_name(&key) };
        if is_name(&key) || says_header(value) {
            return false;
        }
        clean_any(value);
        let Some(text) = value.get_mut("stringValue") else { return true };
        if are_headers(&key) {
            return clean_text(text) || !text.as_str().is_some_and(names_secret);
        }
        if CALLS.contains(&key.as_str()) {
            clean_text(text);
        }
        true
    });
}

/// Cleans the pairs and addresses inside a value.
pub(super) fn clean_any(value: &mut Value) {
    if let Some(pairs) = value.get_mut("kvlistValue").and_then(|list| list.get_mut("values")?.as_array_mut()) {
        pairs.retain_mut(|pair| {
            if pair.get("key").and_then(Value::as_str).is_some_and(is_name) || pair.get("value").is_some_and(says_header) {
                return false;
            }
            pair.get_mut("value").map(clean_any);
            true
        });
    }
    if let Some(values) = value.get_mut("arrayValue").and_then(|list| list.get_mut("values")?.as_array_mut()) {
        values.retain(|inner| !says_header(inner));
        values.iter_mut().for_each(clean_any);
    }
    if let Some(text) = value.get_mut("stringValue")
        && let Some(cut) = text.as_str().and_then(url::without_secrets)
    {
        *text = cut.into();
    }
}

/// Whether an attribute of this name holds all headers of a request or an answer.
fn are_headers(key: &str) -> bool {
    key.rsplit(|sign: char| !sign.is_ascii_alphanumeric())
        .next()
        .is_some_and(|word| ["headers", "header", "environ", "env"].iter().any(|name| word.eq_ignore_ascii_case(name)))
}

/// Whether a text that is not JSON, such as the lines of a head, names a secret anywhere.
fn names_secret(text: &str) -> bool {
    text.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '-' || sign == '_')).any(is_name)
}

fn says_header(value: &Value) -> bool {
    value.get("stringValue").and_then(Value::as_str).is_some_and(is_header)
}

/// Cleans the JSON inside a text; one that has nothing to hide stays as it is. Says whether there is JSON.
fn clean_text(text: &mut Value) -> bool {
    let json = text.as_str().and_then(json_inside).filter(|json| json.is_object() || json.is_array());
    let Some(mut json) = json else { return false };
    if clean(&mut json) {
        *text = json.to_string().into();
    }
    true
}

/// Says whether anything was dropped.
fn clean(json: &mut Value) -> bool {
    match json {
        Value::Object(members) => {
            let n_before = members.len();
            members.retain(|name, value| !is_name(name) && !value.as_str().is_some_and(is_header));
            let mut is_any = members.len() < n_before;
            for (_, inner) in members.iter_mut().filter(|(name, _)| !SAID.contains(&name.as_str())) {
                is_any |= clean(inner);
            }
            is_any
        }
        Value::Array(entries) => {
            let n_before = entries.len();
            entries.retain(|entry| !is_pair(entry) && !entry.as_str().is_some_and(is_header));
            let mut is_any = entries.len() < n_before;
            for entry in entries {
                is_any |= clean(entry);
            }
            is_any
        }
        _ => false,
    }
}

/// Whether this is a secret with its name beside it: `["cookie", "…"]` or `{"name": "cookie", "value": "…"}`.
fn is_pair(entry: &Value) -> bool {
    let name = match entry {
        Value::Array(pair) if pair.len() == 2 => pair.first(),
        Value::Object(pair) if pair.contains_key("value") => pair.get("name").or_else(|| pair.get("key")),
        _ => None,
    };
    name.and_then(Value::as_str).is_some_and(is_name)
}

/// Whether this is the name of a secret.
fn is_name(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let words: Vec<&str> = key.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_pair = words.windows(2).any(|pair| KEYS.contains(&(pair[0], pair[1])));
    // The last word: `llm.token_count.prompt` counts tokens, `x-access-token` is one.
    is_pair || words.iter().any(|word| WORDS.contains(word)) || words.last() == Some(&"token")
}

/// Whether a text is what a header says of a key.
fn is_header(text: &str) -> bool {
    ["Bearer ", "Basic ", "bearer ", "basic "]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest.len() >= 8 && !rest.contains(char::is_whitespace)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(key: &str, value: &str, expected: Option<&str>) {
        let mut fields = Map::from_iter([("attributes".to_owned(), json!([{"key": key, "value": {"stringValue": value}}]))]);
        drop_from(&mut fields);
        let left = fields["attributes"].get(0).map(|attribute| attribute["value"]["stringValue"].as_str().unwrap());
        assert_eq!(left, expected, "{key}: {value}");
    }

    #[test]
    fn names_and_headers_of_keys_are_dropped() {
        for key in ["http.request.header.authorization", "openai.api_key", "X-Api-Key", "aws.secret", "db.password", "hf_token"] {
            check(key, "canary", None);
        }
        check("note", "Bearer sk-0123456789", None);
        check("note", "Basic cGs6c2s", Some("Basic cGs6c2s"));
        check("note", "Basic cGs6c2tjYW5hcnk=", None);
        for key in ["llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.token.type", "author", "gen_ai.tool.name"] {
            check(key, "kept", Some("kept"));
        }
        check("llm.output_messages.0.message.content", "Bearer of good news", Some("Bearer of good news"));
    }

    #[test]
    fn the_parameters_of_a_call_lose_their_keys_and_nothing_else() {
        check("llm.invocation_parameters", r#"{"a": 1}"#, Some(r#"{"a": 1}"#));
        check(
            "llm.invocation_parameters",
            r#"{"extra_headers":{"Authorization":"Bearer x"},"n":1}"#,
            Some(r#"{"extra_headers":{},"n":1}"#),
        );
        let said = r#"{"api_key":"k","messages":[{"content":"{}","password":"said"}]}"#;
        check("input.value", said, Some(r#"{"messages":[{"content":"{}","password":"said"}]}"#));
        check("langfuse.observation.input", said, Some(r#"{"messages":[{"content":"{}","password":"said"}]}"#));
        check("input.value", "not json", Some("not json"));
        check("other", r#"{"api_key":"k"}"#, Some(r#"{"api_key":"k"}"#));
    }

    #[test]
    fn headers_as_text_are_looked_at_like_single_ones() {
        let key = "http.request.headers";
        check(key, r#"{"authorization": "Bearer SECRET"}"#, Some("{}"));
        check(key, r#"{"accept":"*/*","x-api-key":"SECRET"}"#, Some(r#"{"accept":"*/*"}"#));
        check(key, r#"[["cookie","SECRET"],["accept","*/*"]]"#, Some(r#"[["accept","*/*"]]"#));
        check(key, r#"[{"name":"cookie","value":"SECRET"}]"#, Some("[]"));
        check(key, "accept: */*\r\nAuthorization: SECRET\r\n", None);
        check(key, "{'x-api-key': 'SECRET'}", None);
        check(key, "accept: */*", Some("accept: */*"));
        for key in ["pwd", "ssh.passphrase", "db.connection_string", "db.connectionString"] {
            check(key, "SECRET", None);
        }
    }

    #[test]
    fn addresses_lose_their_keys_in_every_text() {
        check("http.url", "https://user:SECRET@host/", Some("https://***@host/"));
        check("note", "ask https://host/v1?key=SECRET&alt=json now", Some("ask https://host/v1?key=***&alt=json now"));
        check("input.value", r#"{"url":"https://h/?sig=SECRET"}"#, Some(r#"{"url":"https://h/?sig=***"}"#));
    }

    #[test]
    fn pairs_inside_values_are_looked_at_too() {
        let pair = |key: &str| json!({"key": key, "value": {"stringValue": "x"}});
        let value = json!({"arrayValue": {"values": [{"kvlistValue": {"values": [pair("cookie"), pair("kept")]}}]}});
        let mut fields = Map::from_iter([("attributes".to_owned(), json!([{"key": "headers", "value": value}]))]);
        drop_from(&mut fields);
        let text = Value::Object(fields).to_string();
        assert!(!text.contains("cookie") && text.contains("kept"), "{text}");
    }
}
