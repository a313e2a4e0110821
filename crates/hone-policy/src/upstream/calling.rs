//! Which tools an answer calls, as each format says it.
//!
//! OpenAI says it in two parameters, Anthropic in one, and the others know a part of it: what a format has no words for is named by
//! [`Calling::unfollowed`], so that it can be refused instead of being forgotten.

use super::wire::Wire;
use serde_json::{Value, json};

/// OpenAI's names of what is said here.
pub const TOOL_CHOICE: &str = "tool_choice";
/// Whether an answer may call several tools.
pub const PARALLEL: &str = "parallel_tool_calls";

/// Which tools an answer calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calling {
    /// Which it has to call.
    pub called: Called,
    /// Whether it calls one at most.
    pub is_single: bool,
}

/// Which tools an answer has to call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Called {
    /// Those that it wants to.
    #[default]
    Free,
    /// None of them.
    None,
    /// At least one.
    Some,
    /// This one.
    Named(String),
}

impl Calling {
    /// In the words of OpenAI's chats; nothing where they say something else.
    pub fn of_chat(choice: &Value, parallel: &Value) -> Option<Self> {
        Self::of(choice, parallel, |choice| choice["function"]["name"].as_str())
    }

    /// In the words of OpenAI's responses.
    pub fn of_responses(choice: &Value, parallel: &Value) -> Option<Self> {
        Self::of(choice, parallel, |choice| choice["name"].as_str())
    }

    fn of<'v>(choice: &'v Value, parallel: &Value, name: impl FnOnce(&'v Value) -> Option<&'v str>) -> Option<Self> {
        let called = match choice {
            Value::Null => Called::Free,
            Value::String(word) => match word.as_str() {
                "auto" => Called::Free,
                "none" => Called::None,
                "required" => Called::Some,
                _ => return None,
            },
            choice => Called::Named(name(choice).filter(|_| choice["type"] == "function")?.to_owned()),
        };
        let is_single = match parallel {
            Value::Null => false,
            parallel => !parallel.as_bool()?,
        };
        Some(Self { called, is_single })
    }

    /// In Anthropic's words.
    pub fn of_anthropic(choice: &Value) -> Option<Self> {
        let called = match choice["type"].as_str() {
            None if choice.is_null() => Called::Free,
            Some("auto") => Called::Free,
            Some("none") => Called::None,
            Some("any") => Called::Some,
            Some("tool") => Called::Named(choice["name"].as_str()?.to_owned()),
            _ => return None,
        };
        let is_single = match &choice["disable_parallel_tool_use"] {
            Value::Null => false,
            is_single => is_single.as_bool()?,
        };
        Some(Self { called, is_single })
    }

    /// Whether any answer does so where no tools are on offer: it calls none then.
    pub fn is_met_without_tools(&self) -> bool {
        matches!(self.called, Called::Free | Called::None)
    }

    /// OpenAI's name of what a format has no words for, where tools are on offer or not, and a schema is asked for or not.
    pub fn unfollowed(&self, wire: Wire, has_tools: bool, has_schema: bool) -> Option<&'static str> {
        let has_none_to_call = !has_tools && !self.is_met_without_tools();
        // Where a schema is a tool, that one must be called.
        let is_taken = has_schema && matches!(wire, Wire::Anthropic | Wire::Bedrock) && *self != Self::default();
        let is_unknown = matches!((wire, &self.called), (Wire::Bedrock, Called::None) | (Wire::Cohere, Called::Named(_)));
        if has_none_to_call || is_taken || is_unknown {
            return Some(TOOL_CHOICE);
        }
        (self.is_single && !matches!(wire, Wire::OpenAi | Wire::Anthropic)).then_some(PARALLEL)
    }

    /// The choice in the words of OpenAI's chats, where there is something to say.
    pub fn chat(&self) -> Option<Value> {
        Some(match &self.called {
            Called::Free => return None,
            Called::None => json!("none"),
            Called::Some => json!("required"),
            Called::Named(name) => json!({"type": "function", "function": {"name": name}}),
        })
    }

    pub(super) fn anthropic(&self) -> Option<Value> {
        let mut choice = match &self.called {
            Called::Free if !self.is_single => return None,
            Called::Free => json!({"type": "auto"}),
            Called::None => return Some(json!({"type": "none"})),
            Called::Some => json!({"type": "any"}),
            Called::Named(name) => json!({"type": "tool", "name": name}),
        };
        if self.is_single {
            choice["disable_parallel_tool_use"] = true.into();
        }
        Some(choice)
    }

    pub(super) fn gemini(&self) -> Option<Value> {
        let config = match &self.called {
            Called::Free => return None,
            Called::None => json!({"mode": "NONE"}),
            Called::Some => json!({"mode": "ANY"}),
            Called::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        };
        Some(json!({"functionCallingConfig": config}))
    }

    pub(super) fn bedrock(&self) -> Option<Value> {
        match &self.called {
            Called::Free | Called::None => None,
            Called::Some => Some(json!({"any": {}})),
            Called::Named(name) => Some(json!({"tool": {"name": name}})),
        }
    }

    pub(super) fn cohere(&self) -> Option<Value> {
        match self.called {
            Called::Free | Called::Named(_) => None,
            Called::None => Some("NONE".into()),
            Called::Some => Some("REQUIRED".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_format_cannot_say_is_named() {
        let named = Calling { called: Called::Named("f".into()), is_single: false };
        let single = Calling { is_single: true, ..Calling::default() };
        let check = |calling: &Calling, wire, has_schema, expected: Option<&str>| {
            assert_eq!(calling.unfollowed(wire, true, has_schema), expected, "{calling:?} {wire:?} {has_schema}");
        };
        for wire in [Wire::OpenAi, Wire::Anthropic, Wire::Gemini, Wire::Bedrock] {
            check(&named, wire, false, None);
            assert_eq!(named.unfollowed(wire, false, false), Some(TOOL_CHOICE), "there is none to call");
            check(&Calling::default(), wire, true, None);
        }
        check(&named, Wire::Cohere, false, Some(TOOL_CHOICE));
        check(&named, Wire::Anthropic, true, Some(TOOL_CHOICE));
        check(&Calling { called: Called::None, is_single: false }, Wire::Bedrock, false, Some(TOOL_CHOICE));
        check(&single, Wire::Anthropic, false, None);
        check(&single, Wire::Gemini, false, Some(PARALLEL));
    }

    #[test]
    fn what_is_read_is_what_was_said() {
        let of_chat = |choice: Value, parallel: Value| Calling::of_chat(&choice, &parallel);
        assert_eq!(of_chat(Value::Null, Value::Null), Some(Calling::default()));
        assert_eq!(of_chat("auto".into(), true.into()), Some(Calling::default()));
        let named = Calling { called: Called::Named("f".into()), is_single: true };
        assert_eq!(of_chat(json!({"type": "function", "function": {"name": "f"}}), false.into()), Some(named.clone()));
        assert_eq!(Calling::of_responses(&json!({"type": "function", "name": "f"}), &false.into()), Some(named.clone()));
        let theirs = json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true});
        assert_eq!(Calling::of_anthropic(&theirs), Some(named.clone()));
        assert_eq!(named.anthropic(), Some(theirs));
        assert_eq!(named.chat(), Some(json!({"type": "function", "function": {"name": "f"}})));
        for choice in [json!("often"), json!({"type": "allowed_tools", "tools": []}), json!({"type": "function"}), json!(7)] {
            assert_eq!(of_chat(choice, Value::Null), None);
        }
        assert_eq!(of_chat("none".into(), "no".into()), None);
        assert_eq!(Calling::of_anthropic(&json!({"type": "any", "disable_parallel_tool_use": 1})), None);
    }
}
