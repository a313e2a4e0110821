//! Tools on offer in the form of the OpenAI API.
//!
//! | wire | word |
//! |---|---|
//! | `function.name`, `.description`, `.parameters` | the same |
//! | other keys of `function` · of the tool | `extra` · `extra["hone.outer"]` |
//! | a missing `type` | `hone.no_type` |
//! | an entry of the legacy list `functions` | noted as `hone.form` |
//! | a tool without `function`, such as a built-in one | its name; the tool itself as `hone.tool` |

use super::Out;
use crate::ToolSpec;
use crate::format::object::{self, Object, Read};
use serde::de::MapAccess;
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The key of the legacy list.
pub(in crate::format) const LEGACY: &str = "functions";

fn is_legacy(tool: &ToolSpec) -> bool {
    tool.extra.get("hone.form").is_some_and(|form| form == LEGACY)
}

/// A tool as it is read.
#[derive(Default)]
pub(in crate::format) struct Tool {
    function: Option<Function>,
    outer: Map<String, Value>,
}

impl Object for Tool {
    const WHAT: &'static str = "a tool";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        if key == "function" {
            match map.next_value::<Option<Read<Function>>>()? {
                Some(Read(function)) => self.function = Some(function),
                None => drop(self.outer.insert(key.into_owned(), Value::Null)),
            }
        } else {
            object::leftover(key, map, &mut self.outer)?;
        }
        Ok(())
    }
}

impl Tool {
    /// The tool, once it has been read to its end.
    pub(in crate::format) fn into_spec(self) -> ToolSpec {
        let mut outer = self.outer;
        let Some(function) = self.function else {
            let name = outer.get("name").or_else(|| outer.get("custom")?.get("name")).or_else(|| outer.get("type"));
            let name = name.and_then(Value::as_str).unwrap_or("tool").to_owned();
            let extra = Map::from_iter([("hone.tool".to_owned(), Value::Object(outer))]);
            return ToolSpec { name, description: None, parameters: Value::Null, extra };
        };
        let mut spec = function.into_spec();
        match outer.get("type") {
            None => drop(spec.extra.insert("hone.no_type".to_owned(), true.into())),
            Some(kind) if kind == "function" => drop(outer.remove("type")),
            Some(_) => {}
        }
        if !outer.is_empty() {
            spec.extra.insert("hone.outer".to_owned(), Value::Object(outer));
        }
        spec
    }
}

/// A function as it is read.
#[derive(Default)]
pub(in crate::format) struct Function {
    name: Option<String>,
    description: Option<String>,
    parameters: Value,
    extra: Map<String, Value>,
}

impl Object for Function {
    const WHAT: &'static str = "a function with `name`";

    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "name" => self.name = Some(map.next_value()?),
            "description" => self.description = object::text(&key, map, &mut self.extra)?,
            "parameters" => {
                self.parameters = map.next_value()?;
                if self.parameters.is_null() {
                    self.extra.insert(key.into_owned(), Value::Null);
                }
            }
            _ => object::leftover(key, map, &mut self.extra)?,
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), (&'static str, String)> {
        if self.name.is_none() { Err(("", "`name` is missing".to_owned())) } else { Ok(()) }
    }
}

impl Function {
    fn into_spec(self) -> ToolSpec {
        let Self { name, description, parameters, extra } = self;
        ToolSpec { name: name.unwrap_or_default(), description, parameters, extra }
    }

    /// The tool that an entry of the legacy list offers.
    pub(in crate::format) fn into_legacy_spec(self) -> ToolSpec {
        let mut spec = self.into_spec();
        spec.extra.insert("hone.form".to_owned(), LEGACY.into());
        spec
    }
}

/// Writes the tools under their keys; a null or an empty list comes from the leftovers.
pub(in crate::format) fn write<M: serde::ser::SerializeMap>(tools: &[ToolSpec], out: &mut Out<'_, M>) -> Result<(), M::Error> {
    out.list("tools", tools.iter().filter(|tool| !is_legacy(tool)).map(Written))?;
    out.list(LEGACY, tools.iter().filter(|tool| is_legacy(tool)).map(WrittenFunction))
}

/// Writes all tools under the modern key.
pub(in crate::format) fn write_modern<M: serde::ser::SerializeMap>(
    tools: &[ToolSpec],
    out: &mut Out<'_, M>,
) -> Result<(), M::Error> {
    out.list("tools", tools.iter().map(Written))
}

/// A tool as it is written.
struct Written<'a>(&'a ToolSpec);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extra = &self.0.extra;
        if let Some(Value::Object(whole)) = extra.get("hone.tool")
            && whole.get("function").is_none_or(Value::is_null)
        {
            return whole.serialize(serializer);
        }
        let none = Map::new();
        let outer = extra.get("hone.outer").and_then(Value::as_object).unwrap_or(&none);
        let mut out = Out::new(serializer.serialize_map(None)?, outer);
        if outer.contains_key("type") {
            out.nothing("type", |_| true)?;
        } else if !extra.contains_key("hone.no_type") {
            out.put("type", "function")?;
        }
        out.put("function", &WrittenFunction(self.0))?;
        out.end(&["type", "function"])
    }
}

struct WrittenFunction<'a>(&'a ToolSpec);

impl Serialize for WrittenFunction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tool = self.0;
        let mut out = Out::new(serializer.serialize_map(None)?, &tool.extra);
        out.put("name", &tool.name)?;
        out.text("description", tool.description.as_deref())?;
        if tool.parameters.is_null() {
            out.nothing("parameters", Value::is_null)?;
        } else {
            out.put("parameters", &tool.parameters)?;
        }
        out.end(&["name", "description", "parameters"])
    }
}
