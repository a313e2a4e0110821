//! How models write tool calls, and how they are read back out of an answer.
//!
//! Two habits: Hermes, Qwen and their kin wrap each call in `<tool_call>` tags; Llama 3 writes bare JSON, perhaps behind
//! `<|python_tag|>`. Which one a model has is seen in its chat template. Thinking is taken off first: a call that was only
//! thought of is not a call. What looks like a call and cannot be read is reported with the reason, never dropped.
//! Knows nothing of running tools.

use hone_trace::{Content, Message, Role, ToolRequest, ToolSpec};
use serde_json::{Map, Value as Json, json};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const PYTHON_TAG: &str = "<|python_tag|>";
pub(crate) const THINK_OPEN: &str = "<think>";
pub(crate) const THINK_CLOSE: &str = "</think>";

/// How a model writes tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, any number of them.
    Hermes,
    /// `{"name": …, "parameters": {…}}` and nothing else.
    Llama3,
    /// The template knows no tools: an answer is text.
    None,
}

/// A sampled answer, taken apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// What was thought, without its tags.
    pub reasoning: Option<String>,
    /// What was said.
    pub content: String,
    /// The tool calls that could be read.
    pub calls: Vec<ToolRequest>,
    /// Those that could not.
    pub broken: Vec<BrokenCall>,
}

/// Something that looks like a tool call and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenCall {
    /// What the model wrote.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl ToolFormat {
    /// Sees the habit in a chat template.
    pub fn detect(template: &str) -> Self {
        if template.contains(OPEN) {
            Self::Hermes
        } else if template.contains("python_tag") || template.contains(r#""parameters": dictionary"#) {
            Self::Llama3
        } else {
            Self::None
        }
    }

    /// Takes an answer apart. Its text must be without the token that ended it.
    pub fn read(self, text: &str) -> Answer {
        let (reasoning, said) = split_thinking(text);
        let mut answer = Answer { reasoning, ..Answer::default() };
        match self {
            Self::Hermes => read_hermes(said, &mut answer),
            Self::Llama3 => read_llama3(said, &mut answer),
            Self::None => answer.content = said.to_owned(),
        }
        answer
    }

    /// Writes calls the way the model would.
    pub fn write(self, calls: &[ToolRequest]) -> String {
        let written = calls.iter().map(|call| {
            let (name, arguments) = (Json::from(call.name.as_str()), arguments(call));
            match self {
                Self::Hermes => format!("{OPEN}\n{{\"name\": {name}, \"arguments\": {arguments}}}\n{CLOSE}"),
                Self::Llama3 | Self::None => format!("{{\"name\": {name}, \"parameters\": {arguments}}}"),
            }
        });
        written.collect::<Vec<_>>().join("\n")
    }
}

impl Answer {
    /// The answer as a message of the conversation.
    pub fn into_message(self) -> Message {
        let mut message = Message::text(Role::Assistant, self.content);
        if message.content == Content::Text(String::new()) && !self.calls.is_empty() {
            message.content = Content::None;
        }
        message.reasoning = self.reasoning;
        message.tool_calls = self.calls;
        message
    }
}

/// A tool in the form that templates expect.
pub(crate) fn tool_json(tool: &ToolSpec) -> Json {
    let mut function = Map::new();
    function.insert("name".into(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        function.insert("description".into(), description.as_str().into());
    }
    if !tool.parameters.is_null() {
        function.insert("parameters".into(), tool.parameters.clone());
    }
    // What a client said besides, such as `strict`; what we note ourselves has names of ours.
    let besides = tool.extra.iter().filter(|(key, _)| !key.starts_with("hone."));
    function.extend(besides.map(|(key, value)| (key.clone(), value.clone())));
    json!({"type": "function", "function": function})
}

/// The arguments of a call as JSON where they are JSON, else as the text that they are.
pub(crate) fn arguments(call: &ToolRequest) -> Json {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| Json::from(call.arguments.as_str()))
}

/// Splits off what was thought. A thought that was never closed is all there is.
pub(crate) fn split_thinking(text: &str) -> (Option<String>, &str) {
    let opened = text.trim_start().strip_prefix(THINK_OPEN);
    match (opened.unwrap_or(text).split_once(THINK_CLOSE), opened) {
        (Some((thought, said)), _) => (Some(thought.trim_matches('\n').to_owned()), said.trim_start_matches('\n')),
        (None, Some(thought)) => (Some(thought.trim_matches('\n').to_owned()), ""),
        (None, None) => (None, text),
    }
}

fn read_hermes(said: &str, answer: &mut Answer) {
    let mut rest = said;
    while let Some((before, inside)) = rest.split_once(OPEN) {
        answer.content.push_str(before);
        let (call, after, is_closed) = match inside.split_once(CLOSE) {
            Some((call, after)) => (call, after, true),
            None => (inside, "", false),
        };
        match read_call(call, "arguments") {
            Ok(request) => answer.calls.push(request),
            Err(why) => {
                let why = if is_closed { why } else { format!("{CLOSE} is missing; {why}") };
                answer.broken.push(BrokenCall { text: call.to_owned(), why });
            }
        }
        rest = after;
    }
    answer.content.push_str(rest);
    if !answer.calls.is_empty() || !answer.broken.is_empty() {
        answer.content.truncate(answer.content.trim_end().len());
    }
}

fn read_llama3(said: &str, answer: &mut Answer) {
    let (before, call) = match said.split_once(PYTHON_TAG) {
        Some((before, call)) => (before, call),
        None if is_bare_call(said) => ("", said),
        None => (said, ""),
    };
    answer.content = before.to_owned();
    // Several calls stand one after the other, perhaps with a semicolon between.
    let mut rest = call.trim();
    while !rest.is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Json>();
        let read = match values.next() {
            Some(Ok(value)) => request(&value, "parameters"),
            Some(Err(error)) => Err(not_json(&error)),
            None => return,
        };
        let n_read = values.byte_offset();
        match read {
            Ok(call) => answer.calls.push(call),
            Err(why) => {
                answer.broken.push(BrokenCall { text: rest.to_owned(), why });
                return;
            }
        }
        rest = rest[n_read..].trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    }
}

/// Whether a text without a tag is meant as a call: JSON that begins with a name.
fn is_bare_call(said: &str) -> bool {
    let inner = said.trim_start().strip_prefix('{').map(str::trim_start);
    inner.is_some_and(|inner| inner.starts_with(r#""name""#) || inner.starts_with(r#""type""#)) && said.contains(r#""name""#)
}

fn read_call(text: &str, arguments_key: &str) -> Result<ToolRequest, String> {
    let value: Json = serde_json::from_str(text.trim()).map_err(|error| not_json(&error))?;
    request(&value, arguments_key)
}

fn request(value: &Json, arguments_key: &str) -> Result<ToolRequest, String> {
    let Some(name) = value.get("name").and_then(Json::as_str).filter(|name| !name.is_empty()) else {
        return Err("the call has no `name`".into());
    };
    // Models mix the two words up; nothing else could be meant.
    let given = value.get(arguments_key).or_else(|| value.get("arguments")).or_else(|| value.get("parameters"));
    let arguments = match given {
        Some(Json::Object(map)) => Json::Object(map.clone()).to_string(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Null) | None => "{}".to_owned(),
        Some(_) => return Err(format!("`{arguments_key}` is not an object")),
    };
    Ok(ToolRequest { id: String::new(), name: name.to_owned(), arguments, extra: Map::new() })
}

fn not_json(error: &serde_json::Error) -> String {
    format!("the call is not JSON: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each expectation is `name arguments`, or `! part of the reason`.
    fn check(format: ToolFormat, text: &str, content: &str, expected: &[&str]) {
        let answer = format.read(text);
        let calls = answer.calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
        let found: Vec<String> = calls.chain(answer.broken.iter().map(|broken| format!("! {}", broken.why))).collect();
        assert_eq!(answer.content, content, "{text}");
        assert_eq!(found.len(), expected.len(), "{text}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            let fits = match expected.strip_prefix("! ") {
                Some(why) => found.starts_with('!') && found.contains(why),
                None => found == expected,
            };
            assert!(fits, "{text}: {found} instead of {expected}");
        }
    }

    #[test]
    fn hermes_calls() {
        use ToolFormat::Hermes;
        check(Hermes, "hello", "hello", &[]);
        check(Hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>", "", &[r#"f {"x":1}"#]);
        let two = "ok\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>";
        check(Hermes, two, "ok", &["f {}", "g {}"]);
        check(Hermes, "<tool_call>{\"name\":\"f\",\"arguments\":{}}", "", &["f {}"]);
        check(Hermes, "<tool_call>{\"name\":\"f\",", "", &["! </tool_call> is missing"]);
        check(Hermes, "<tool_call>f(1)</tool_call> and", " and", &["! not JSON"]);
        check(Hermes, "<tool_call>{\"arguments\":{}}</tool_call>", "", &["! no `name`"]);
        check(Hermes, "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>", "", &["! not an object"]);
    }

    #[test]
    fn a_call_that_was_only_thought_of_is_not_a_call() {
        let text = "<think>\n<tool_call>{\"name\":\"f\"}</tool_call>\n</think>\n\nno";
        check(ToolFormat::Hermes, text, "no", &[]);
        assert!(ToolFormat::Hermes.read(text).reasoning.is_some_and(|thought| thought.contains("tool_call")));
        check(ToolFormat::Hermes, "<think>forever <tool_call>", "", &[]);
        // The template opened the thought, so the answer has only the end of it.
        check(ToolFormat::Hermes, "so\n</think>\n\nyes", "yes", &[]);
    }

    #[test]
    fn what_a_client_says_of_a_tool_reaches_the_template() {
        let extra = Map::from_iter([("strict".to_owned(), json!(true)), ("hone.no_type".to_owned(), json!(true))]);
        let tool = ToolSpec { name: "f".into(), description: None, parameters: json!({"type": "object"}), extra };
        let expected = r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}"#;
        assert_eq!(tool_json(&tool).to_string(), expected);
    }

    #[test]
    fn llama_calls() {
        use ToolFormat::Llama3;
        check(Llama3, r#"{"name": "f", "parameters": {"x": "y"}}"#, "", &[r#"f {"x":"y"}"#]);
        check(Llama3, r#"<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g"}"#, "", &["f {}", "g {}"]);
        check(Llama3, r#"{"type": "function", "name": "f", "parameters": {}}"#, "", &["f {}"]);
        check(Llama3, "<|python_tag|>search.call(query=\"x\")", "", &["! not JSON"]);
        check(Llama3, r#"{"name": "f", "#, "", &["! not JSON"]);
        check(Llama3, r#"{"answer": 42}"#, r#"{"answer": 42}"#, &[]);
    }

    #[test]
    fn the_habit_is_seen_in_the_template() {
        assert_eq!(ToolFormat::detect("… within <tool_call></tool_call> tags"), ToolFormat::Hermes);
        assert_eq!(ToolFormat::detect("{{- '<|python_tag|>' }}"), ToolFormat::Llama3);
        assert_eq!(ToolFormat::detect("{{ messages }}"), ToolFormat::None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(name in "[a-z_]{1,12}", key in "\\PC{0,8}", value in "\\PC{0,20}") {
            prop_assume!(!key.contains(CLOSE) && !value.contains(CLOSE));
            let arguments = json!({ key: value }).to_string();
            let calls = vec![ToolRequest { id: String::new(), name, arguments, extra: Map::new() }; 2];
            for format in [ToolFormat::Hermes, ToolFormat::Llama3] {
                let answer = format.read(&format.write(&calls));
                prop_assert_eq!(&answer.calls, &calls);
                prop_assert!(answer.broken.is_empty() && answer.content.is_empty());
            }
        }

        #[test]
        fn no_text_panics_and_none_is_lost(
            pieces in proptest::collection::vec(
                prop_oneof![Just(OPEN.to_owned()), Just(CLOSE.to_owned()), Just(THINK_OPEN.to_owned()), Just(THINK_CLOSE.to_owned()),
                    Just(PYTHON_TAG.to_owned()), Just(r#"{"name":"f"}"#.to_owned()), "\\PC{0,6}"],
                0..8,
            )
        ) {
            let text = pieces.concat();
            for format in [ToolFormat::Hermes, ToolFormat::Llama3, ToolFormat::None] {
                let answer = format.read(&text);
                if format == ToolFormat::Hermes {
                    let n_opened = split_thinking(&text).1.matches(OPEN).count();
                    prop_assert!(answer.calls.len() + answer.broken.len() <= n_opened);
                    prop_assert!(n_opened == 0 || answer.calls.len() + answer.broken.len() > 0);
                }
            }
        }
    }
}
