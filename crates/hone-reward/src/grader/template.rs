//! Texts with places: `{{ item.answer }}` and `{{ sample.output_text }}` become what they name.
//!
//! A place is a path and nothing else; what it gives is never read as a template again. A path into the sample that leads
//! nowhere is the sample's fault, such as an answer that is not JSON; one into the item is the grader's, and so is one to what no sample has.

use hone_trace::Trace;
use serde_json::{Value, json};

/// The most places in one text.
const PLACES_MAX: usize = 256;
/// What a sample can have.
const SAMPLE: [&str; 3] = ["output_text", "output_tools", "output_json"];
/// The longest text that may come of it.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// What the places of a grader's texts refer to.
pub(super) struct Facts<'a> {
    pub(super) item: &'a Value,
    pub(super) sample: Value,
}

impl<'a> Facts<'a> {
    /// The sample is the last answer of the trace.
    pub(super) fn new(trace: &Trace, item: &'a Value) -> Self {
        let Some(turn) = trace.turns().last() else { return Self { item, sample: json!({"output_text": ""}) } };
        let text = turn.answer.content.text();
        let call = |call: &hone_trace::ToolRequest| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}});
        let calls: Vec<Value> = turn.answer.tool_calls.iter().map(call).collect();
        let mut sample = json!({"output_text": text, "output_tools": calls});
        if let Ok(read) = serde_json::from_str::<Value>(text.trim()) {
            sample["output_json"] = read;
        }
        Self { item, sample }
    }

    fn get(&self, path: &str) -> Result<&Value, TemplateError> {
        let (root, steps) = rooted(path);
        let (from, missing): (&Value, fn(String) -> TemplateError) = match root {
            "item" => (self.item, TemplateError::Item),
            "sample" => (&self.sample, TemplateError::Sample),
            _ => return Err(TemplateError::Root(path.to_owned())),
        };
        let mut at = from;
        for name in steps.split('.').filter(|name| !name.is_empty()) {
            let next = match at {
                Value::Array(list) => name.parse::<usize>().ok().and_then(|idx| list.get(idx)),
                other => other.get(name),
            };
            at = next.ok_or_else(|| missing(path.to_owned()))?;
        }
        Ok(at)
    }
}

/// Why a text could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A path into the sample that leads nowhere.
    #[error("the sample has no `{0}`")]
    Sample(String),
    /// A path into the item that leads nowhere.
    #[error("the item has no `{0}`")]
    Item(String),
    /// A path that begins elsewhere.
    #[error("`{{{{ {0} }}}}` is not a path that begins with `item` or `sample`")]
    Root(String),
    /// A path into the sample to what no sample has.
    #[error("`{{{{ {0} }}}}` is not a path into the sample, which has `{known}`", known = SAMPLE.join("`, `"))]
    NotOfSample(String),
    /// A place that is not closed.
    #[error("a `{{{{` is never closed")]
    Open,
    /// Too much of it.
    #[error("a text has at most {PLACES_MAX} places and {TEXT_BYTES_MAX} bytes")]
    TooLarge,
}

/// Says what cannot be filled, whatever the item and the sample are.
pub(super) fn check(template: &str) -> Result<(), TemplateError> {
    Read::of(template)?.places.into_iter().try_for_each(|(_, path)| known(path))
}

/// Says whether a path can lead anywhere in some item or sample.
fn known(path: &str) -> Result<(), TemplateError> {
    let (root, steps) = rooted(path);
    let first = steps.split('.').find(|name| !name.is_empty());
    match root {
        "item" => Ok(()),
        "sample" if first.is_none_or(|name| SAMPLE.contains(&name)) => Ok(()),
        "sample" => Err(TemplateError::NotOfSample(path.to_owned())),
        _ => Err(TemplateError::Root(path.to_owned())),
    }
}

/// The text with its places filled.
pub(super) fn fill(template: &str, facts: &Facts<'_>) -> Result<String, TemplateError> {
    let Read { places, rest } = Read::of(template)?;
    let mut out = String::new();
    for (before, path) in places {
        out.push_str(before);
        match facts.get(path)? {
            Value::String(text) => out.push_str(text),
            Value::Null => {}
            other => out.push_str(&serde_json::to_string(&hone_trace::Sorted(other)).expect("JSON has string keys")),
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err(TemplateError::TooLarge);
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// A text whose places were found.
struct Read<'t> {
    /// What stands before each place, and its path.
    places: Vec<(&'t str, &'t str)>,
    /// What stands behind the last.
    rest: &'t str,
}

impl<'t> Read<'t> {
    fn of(template: &'t str) -> Result<Self, TemplateError> {
        let (mut places, mut rest) = (Vec::new(), template);
        while let Some((before, after)) = rest.split_once("{{") {
            let (path, after) = after.split_once("}}").ok_or(TemplateError::Open)?;
            places.push((before, path.trim()));
            if places.len() > PLACES_MAX {
                return Err(TemplateError::TooLarge);
            }
            rest = after;
        }
        Ok(Self { places, rest })
    }
}

/// Where a path begins, and its steps from there.
fn rooted(path: &str) -> (&str, &str) {
    path.split_once('.').unwrap_or((path, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(template: &str) -> Result<String, TemplateError> {
        let item = json!({"answer": "42", "list": [1, {"b": true}], "nested": {"x": "{{ sample.output_text }}"}, "no": null});
        let sample = json!({"output_text": "it is 42", "output_json": {"a": {"b": 7}}});
        fill(template, &Facts { item: &item, sample })
    }

    #[test]
    fn places_become_what_they_name() {
        for (template, text) in [
            ("plain { text }", "plain { text }"),
            ("{{ item.answer }}/{{sample.output_text}}", "42/it is 42"),
            ("{{ item.list.1.b }} {{ item.list }}", r#"true [1,{"b":true}]"#),
            ("{{ sample.output_json.a.b }}", "7"),
            ("{{ item.no }}", ""),
            // What a place gives is not a template.
            ("{{ item.nested.x }}", "{{ sample.output_text }}"),
        ] {
            assert_eq!(filled(template), Ok(text.to_owned()), "{template}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_named() {
        assert_eq!(filled("{{ item.gone }}"), Err(TemplateError::Item("item.gone".into())));
        assert_eq!(filled("{{ item.list.2 }}"), Err(TemplateError::Item("item.list.2".into())));
        assert_eq!(filled("{{ sample.output_json.z }}"), Err(TemplateError::Sample("sample.output_json.z".into())));
        assert_eq!(filled("{{ config.key }}"), Err(TemplateError::Root("config.key".into())));
        assert_eq!(filled("{{ item.answer | upper }}"), Err(TemplateError::Item("item.answer | upper".into())));
        assert_eq!(filled("{{ item.answer"), Err(TemplateError::Open));
        assert_eq!(filled(&"{{item.answer}}".repeat(300)), Err(TemplateError::TooLarge));
    }

    #[test]
    fn what_no_sample_has_is_refused_before_there_is_one() {
        let not_of_sample = |path: &str| Err(TemplateError::NotOfSample(path.to_owned()));
        for (template, checked) in [
            ("{{ sample }} {{ sample.output_text }}", Ok(())),
            ("{{ sample.output_tools.0.function.name }}", Ok(())),
            ("{{ sample.output_json.city.name }} {{ item.outputtext }}", Ok(())),
            ("{{ sample.output_text }} {{ sample.outputtext }}", not_of_sample("sample.outputtext")),
            ("{{ sample.output.text }}", not_of_sample("sample.output.text")),
            ("{{ sample.choices.0.message }}", not_of_sample("sample.choices.0.message")),
            ("{{ sampel.output_text }}", Err(TemplateError::Root("sampel.output_text".into()))),
        ] {
            assert_eq!(check(template), checked, "{template}");
        }
        let told = check("{{ sample.outputtext }}").unwrap_err().to_string();
        let expected = "which has `output_text`, `output_tools`, `output_json`";
        assert_eq!(told, format!("`{{{{ sample.outputtext }}}}` is not a path into the sample, {expected}"));
    }

    proptest! {
        #[test]
        fn any_text_is_filled_without_a_panic(text in any::<String>(), near in "[{} .a-z0-9]{0,60}") {
            let _ = filled(&text);
            let _ = filled(&near);
            let _ = check(&text);
        }
    }
}
