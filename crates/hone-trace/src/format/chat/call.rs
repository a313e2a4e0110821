//! Tool calls in the form of the OpenAI API.
//!
//! | wire | word |
//! |---|---|
//! | `id`, `function.name`, `function.arguments` | the same; a missing `id` is empty |
//! | `arguments` that are JSON, not a text | their text, noted as `hone.arguments: "json"`; missing ones as `"absent"` |
//! | other keys of the call · of `function` | `extra` · `extra["hone.function"]` |
//! | a missing `type` | `hone.no_type` |
//! | a call without `function`, such as one of a custom tool | its name and input; the call itself as `hone.call` |

use super::Out;
use crate::ToolRequest;
use crate::format::object::{self, Object, Read};
use serde::de::{Deserialize, Deserializer, MapAccess};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The key of the one call that an answer could ask for in the legacy form.
pub(super) const LEGACY: &str = "function_call";

/// Whether the call came in the legacy form.
pub(super) fn is_legacy(call: &ToolRequest) -> bool {
    call.extra.get("hone.form").is_some_and(|form| form == LEGACY)
}

/// A call as it is read.
pub(in crate::format) struct Call {
    pub(super) request: ToolRequest,
    /// Whether it named a function.
    found: bool,
}

impl Default for Call {
    fn default() -> Self {
        let request = ToolRequest { id: String::new(), name: String::new(), arguments: String::new(), extra: Map::new() };
        Self { request, found: false }
    }
}

impl Call {
    pub(super) fn legacy(function: Function) -> Self {
        let mut call = Self::default();
        call.take(function);
        call.request.extra.insert("hone.form".to_owned(), LEGACY.into());
        call
    }

    fn take(&mut self, function: Function) {
        let Function { name, arguments, extra } = function;
        self.request.name = name.unwrap_or_default();
        let form = match arguments {
            Some(Arguments::Text(text)) => {
                self.request.arguments = text;
                None
            }
            Some(Arguments::Json(value)) => {
                self.request.arguments = value.to_string();
                Some("json")
            }
            None => Some("absent"),
        };
        self.request.extra.extend(form.map(|form| ("hone.arguments".to_owned(), form.into())));
        if !extra.is_empty() {
            self.request.extra.insert("hone.function".to_owned(), Value::Object(extra));
        }
    }
}

impl Object for Call {
    const WHAT: &'static str = "a tool call";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "id" => {
                self.request.id = object::text(&key, map, &mut self.request.extra)?.unwrap_or_default();
                if self.request.id.is_empty() {
                    self.request.extra.entry("id").or_insert_with(|| "".into());
                }
            }
            "function" => match map.next_value::<Option<Read<Function>>>()? {
                Some(Read(function)) => {
                    self.take(function);
                    self.found = true;
                }
                None => {
                    self.request.extra.insert(key.into_owned(), Value::Null);
                }
            },
            _ => object::leftover(key, map, &mut self.request.extra)?,
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        let call = &mut self.request;
        if self.found {
            match call.extra.get("type") {
                None => drop(call.extra.insert("hone.no_type".to_owned(), true.into())),
                Some(kind) if kind == "function" => drop(call.extra.remove("type")),
                Some(_) => {}
            }
            return Ok(());
        }
        let custom = call.extra.get("custom").or_else(|| call.extra.get("type"));
        let name = custom.and_then(|custom| custom.get("name").unwrap_or(custom).as_str());
        call.name = name.unwrap_or("custom").to_owned();
        let input = call.extra.get("custom").and_then(|custom| custom.get("input")?.as_str());
        call.arguments = input.unwrap_or_default().to_owned();
        let mut whole = std::mem::take(&mut call.extra);
        if !call.id.is_empty() {
            whole.insert("id".to_owned(), call.id.clone().into());
        }
        call.extra.insert("hone.call".to_owned(), Value::Object(whole));
        Ok(())
    }
}

/// The function that a call names.
#[derive(Default)]
pub(super) struct Function {
    name: Option<String>,
    arguments: Option<Arguments>,
    extra: Map<String, Value>,
}

impl Object for Function {
    const WHAT: &'static str = "a function with `name` and `arguments`";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "name" => self.name = Some(map.next_value()?),
            "arguments" => self.arguments = Some(map.next_value()?),
            _ => object::leftover(key, map, &mut self.extra)?,
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        if self.name.is_none() { Err(("", "`name` is missing".to_owned())) } else { Ok(()) }
    }
}

enum Arguments {
    Text(String),
    Json(Value),
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Self::Text(text),
            other => Self::Json(other),
        })
    }
}

/// A call as it is written.
pub(super) struct Written<'a>(pub(super) &'a ToolRequest);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let call = self.0;
        if let Some(Value::Object(whole)) = call.extra.get("hone.call")
            && whole.get("function").is_none_or(Value::is_null)
        {
            return whole.serialize(serializer);
        }
        let mut out = Out::new(serializer.serialize_map(None)?, &call.extra);
        if call.id.is_empty() {
            out.nothing("id", |id| id.is_null() || id == "")?;
        } else {
            out.put("id", &call.id)?;
        }
        if call.extra.contains_key("type") {
            out.nothing("type", |_| true)?;
        } else if !call.extra.contains_key("hone.no_type") {
            out.put("type", "function")?;
        }
        out.put("function", &WrittenFunction(call))?;
        out.end(&["id", "type", "function"])
    }
}

/// The function of a call as it is written.
pub(super) struct WrittenFunction<'a>(pub(super) &'a ToolRequest);

impl Serialize for WrittenFunction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let call = self.0;
        let none = Map::new();
        let extra = call.extra.get("hone.function").and_then(Value::as_object).unwrap_or(&none);
        let mut out = Out::new(serializer.serialize_map(None)?, extra);
        out.put("name", &call.name)?;
        let form = call.extra.get("hone.arguments").and_then(Value::as_str);
        match (form, object::json_inside(&call.arguments)) {
            (Some("json"), Some(value)) => out.put("arguments", &value)?,
            (Some("absent"), _) if call.arguments.is_empty() => {}
            _ => out.put("arguments", &call.arguments)?,
        }
        out.end(&["name", "arguments"])
    }
}
