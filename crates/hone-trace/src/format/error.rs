//! Why a line was refused: the place inside it and what is wrong there.

use std::fmt;

/// Stands between path and reason while an error climbs out of nested readers.
const MARK: char = '\u{1}';

/// Why a line was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// The place as a JSON path such as `messages[3].role`; empty for the whole line.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
    /// The column of the line at which reading stopped, counted in bytes from 1.
    pub column: Option<usize>,
}

impl FormatError {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into(), column: None }
    }

    /// What serde_json says about a line.
    pub(crate) fn from_json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = text.strip_suffix(&place).unwrap_or(&text);
        let (path, reason) = text.split_once(MARK).unwrap_or(("", text));
        let path = path.strip_prefix('.').unwrap_or(path).to_owned();
        let column = (error.line() == 1 && error.column() > 0).then_some(error.column());
        let reason = if error.line() > 1 { format!("{reason}{place}") } else { reason.to_owned() };
        Self { path, reason, column }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)?;
        match self.column {
            Some(column) => write!(f, " (column {column})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FormatError {}

/// Puts a step of the path before what an inner reader said.
pub(super) fn inside<E: serde::de::Error>(step: fmt::Arguments<'_>, error: &impl fmt::Display) -> E {
    let text = error.to_string();
    // serde_json takes the trailing place out of a custom message again, so it survives the climb.
    if text.contains(MARK) { E::custom(format_args!("{step}{text}")) } else { E::custom(format_args!("{step}{MARK}{text}")) }
}

#[cfg(test)]
mod tests {
    use crate::format::{Format, Origin, Reader};

    fn check(format: Format, line: &str, expected: &str) {
        let error = Reader::new(format, Origin::default()).line(line).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_error_names_the_place_and_what_is_wrong() {
        check(
            Format::Openai,
            r#"{"messages":[{"role":"user"},{"role":"assistant","tool_calls":[{"function":{"name":7}}]}]}"#,
            "messages[1].tool_calls[0].function.name: invalid type: integer `7`, expected a string (column 84)",
        );
        check(
            Format::Openai,
            r#"{"messages":[{"role":"narrator"}]}"#,
            "messages[0].role: `narrator` is not a role: system, developer, user, assistant, tool or function (column 32)",
        );
        check(Format::Openai, r#"{"messages":[{"content":"x"}]}"#, "messages[0]: `role` is missing (column 28)");
        check(Format::Openai, r#"{"model":"m"}"#, "`messages` is missing");
        check(Format::Openai, r#"{"messages":[]}"#, "the trace is empty: it has no turn and no message");
        check(Format::Openai, r#"{"messages":"#, "messages: EOF while parsing a value (column 12)");
        check(
            Format::Art,
            r#"{"trajectories":[{"messages_and_choices":[{"message":{"role":"user"}}]}]}"#,
            "trajectories[0].messages_and_choices[0].message.role: a choice is an answer: its role must be `assistant` (column 69)",
        );
        check(
            Format::Openai,
            r#"{"messages":[{"role":"user"}],"reward":1e308}"#,
            "reward: a reward of 1e308 must be from -1000000 to 1000000",
        );
        check(
            Format::Art,
            r#"{"trajectories":[{"messages_and_choices":[{"role":"user"}],"reward":-1000001}]}"#,
            "trajectories[0].reward: a reward of -1.000001e6 must be from -1000000 to 1000000 (column 77)",
        );
        check(
            Format::Otlp,
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"1","events":[{"name":"gen_ai.evaluation.result","attributes":[
               {"key":"gen_ai.evaluation.score.value","value":{"doubleValue":1e7}}]}]}]}]}]}"#,
            "resourceSpans[0].scopeSpans[0].spans[0].events[0].gen_ai.evaluation.score.value: a reward of 1e7 must be from -1000000 to 1000000",
        );
        check(
            Format::Otlp,
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x"}]}]}]}"#,
            "resourceSpans[0].scopeSpans[0].spans[0].traceId: must be a text that is not empty",
        );
    }
}
