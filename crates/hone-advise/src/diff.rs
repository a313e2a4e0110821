//! What is different between two configs.

use hone_trace::{Config, ToolSpec};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Characters of a prompt that are shown of the place where two part.
const SHOWN: usize = 60;

/// One thing that is different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigChange {
    /// What: `model`, `prompt`, `tools.NAME`, `settings.KEY` and so on.
    pub what: String,
    /// What it is; `None` where it is left open.
    pub from: Option<String>,
    /// What it would be.
    pub to: Option<String>,
}

/// What is different, in the order of a config.
pub fn changes(from: &Config, to: &Config) -> Vec<ConfigChange> {
    let mut found = Vec::new();
    let mut see = |what: &str, from: Option<String>, to: Option<String>| {
        if from != to {
            found.push(ConfigChange { what: what.to_owned(), from, to });
        }
    };
    see("model", from.model.clone(), to.model.clone());
    see("adapter", from.adapter.map(|it| it.to_string()), to.adapter.map(|it| it.to_string()));
    if from.prompt != to.prompt {
        let at = parting(from.prompt.as_deref().unwrap_or(""), to.prompt.as_deref().unwrap_or(""));
        let shown = |prompt: &Option<String>| prompt.as_ref().map(|prompt| excerpt(prompt, at));
        see("prompt", shown(&from.prompt), shown(&to.prompt));
    }
    see("temperature", from.temperature.map(|it| it.to_string()), to.temperature.map(|it| it.to_string()));
    let tool = |config: &Config, name: &str| config.tools.iter().find(|tool| tool.name == name).map(described);
    let tools: BTreeSet<&String> = from.tools.iter().chain(&to.tools).map(|tool| &tool.name).collect();
    tools.into_iter().for_each(|name| see(&format!("tools.{name}"), tool(from, name), tool(to, name)));
    let number = |it: Option<u64>| it.map(|it| it.to_string());
    see("thinking_tokens_max", number(from.thinking_tokens_max), number(to.thinking_tokens_max));
    see("retries_max", number(from.retries_max.map(u64::from)), number(to.retries_max.map(u64::from)));
    let keys: BTreeSet<&String> = from.settings.keys().chain(to.settings.keys()).collect();
    let setting = |config: &Config, key: &str| config.settings.get(key).map(Value::to_string);
    keys.into_iter().for_each(|key| see(&format!("settings.{key}"), setting(from, key), setting(to, key)));
    found
}

/// Whether another model answers, with its adapter, and all else is equal.
pub(crate) fn is_model_alone(from: &Config, to: &Config) -> bool {
    let changes = changes(from, to);
    !changes.is_empty() && changes.iter().all(|change| matches!(change.what.as_str(), "model" | "adapter"))
}

fn described(tool: &ToolSpec) -> String {
    serde_json::to_string(tool).unwrap_or_default()
}

/// The number of the first character that is different.
fn parting(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

/// A text from shortly before a place on.
fn excerpt(text: &str, at: usize) -> String {
    let from = at.saturating_sub(SHOWN / 4);
    let shown: String = text.chars().skip(from).take(SHOWN).collect();
    let (before, after) = (from > 0, text.chars().count() > from + SHOWN);
    format!("{}{shown}{}", if before { "…" } else { "" }, if after { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn every_difference_is_named_with_both_sides() {
        let from = config(r#"{"v":1,"model":"a","prompt":"Be kind. Be short.","temperature":0.7,"settings":{"top_p":0.9}}"#);
        let to = config(r#"{"v":1,"model":"b","prompt":"Be kind. Be exact.","retries_max":2,"settings":{"top_p":0.9,"seed":1}}"#);
        let told: Vec<(String, Option<String>, Option<String>)> =
            changes(&from, &to).into_iter().map(|change| (change.what, change.from, change.to)).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            told,
            [
                ("model".to_owned(), some("a"), some("b")),
                ("prompt".to_owned(), some("Be kind. Be short."), some("Be kind. Be exact.")),
                ("temperature".to_owned(), some("0.7"), None),
                ("retries_max".to_owned(), None, some("2")),
                ("settings.seed".to_owned(), None, some("1")),
            ]
        );
        assert!(changes(&from, &from).is_empty());
        assert!(!is_model_alone(&from, &to) && is_model_alone(&from, &Config { model: some("c"), ..from.clone() }));
    }

    #[test]
    fn a_long_prompt_is_shown_where_it_parts() {
        let long = "x".repeat(500);
        let (from, to) = (format!("{long}one{long}"), format!("{long}two{long}"));
        let with = |prompt: &str| Config { prompt: Some(prompt.to_owned()), ..Config::default() };
        let change = changes(&with(&from), &with(&to)).remove(0);
        assert!(change.from.clone().unwrap().contains("xone") && change.to.unwrap().contains("xtwo"));
        assert!(change.from.unwrap().chars().count() < 70);
    }
}
