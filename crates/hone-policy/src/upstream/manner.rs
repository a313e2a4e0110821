//! How much an answer thinks and says, as each format says it.
//!
//! OpenAI has a word for either; Anthropic and Gemini have some for the thinking, older models of Gemini as a number of tokens. What a
//! format has no words for is named by [`Manner::unfollowed`], so that it can be refused instead of being forgotten.

use super::spec::UpstreamSpec;
use super::wire::Wire;
use serde_json::{Value, json};

/// OpenAI's names of what is said here.
pub const EFFORT: &str = "reasoning_effort";
/// How much an answer says.
pub const VERBOSITY: &str = "verbosity";

const NONE: &str = "none";
const MEDIUM: &str = "medium";
/// How much may be thought, from the least to the most.
const EFFORTS: [&str; 7] = [NONE, "minimal", "low", MEDIUM, "high", "xhigh", "max"];
const VERBOSITIES: [&str; 3] = ["low", MEDIUM, "high"];

/// How much an answer thinks and says; `None` where nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manner {
    /// How much is thought before it.
    pub effort: Option<&'static str>,
    /// How much it says.
    pub verbosity: Option<&'static str>,
}

impl Manner {
    /// In OpenAI's words; nothing where they say something else.
    pub fn of(effort: &Value, verbosity: &Value) -> Option<Self> {
        Some(Self { effort: known(effort, &EFFORTS)?, verbosity: known(verbosity, &VERBOSITIES)? })
    }

    /// What cannot be said to this model, by OpenAI's name; without one, to a model of this machine, which thinks and says as it does.
    pub fn unfollowed(&self, spec: Option<&UpstreamSpec>) -> Option<&'static str> {
        let wire = spec.map(|spec| spec.provider.wire);
        let is_followed = match wire {
            Some(Wire::OpenAi) => return None,
            Some(Wire::Anthropic) => self.effort == Some(NONE) || self.anthropic().is_some(),
            Some(Wire::Gemini) => spec.is_some_and(|spec| self.gemini(&spec.model).is_some()),
            _ => self.effort == Some(NONE),
        };
        if self.effort.is_some() && !is_followed {
            return Some(EFFORT);
        }
        self.verbosity.filter(|said| *said != MEDIUM).map(|_| VERBOSITY)
    }

    /// Thoughts are asked for elsewhere there, so that none is what happens where nothing is said.
    pub(super) fn anthropic(&self) -> Option<Value> {
        let effort = self.effort.filter(|effort| ![NONE, "minimal"].contains(effort))?;
        Some(json!({ "effort": effort }))
    }

    /// As many tokens as Gemini itself takes OpenAI's words for.
    pub(super) fn gemini(&self, model: &str) -> Option<Value> {
        let effort = self.effort?;
        if !model.starts_with("gemini-2") {
            return Some(json!({ "thinkingLevel": effort })).filter(|_| ![NONE, "xhigh", "max"].contains(&effort));
        }
        let n_tokens = match effort {
            NONE => 0,
            "minimal" | "low" => 1024,
            MEDIUM => 8192,
            "high" => 24_576,
            _ => return None,
        };
        Some(json!({ "thinkingBudget": n_tokens }))
    }
}

/// The word that is said; nothing where it is none of these.
fn known(said: &Value, words: &[&'static str]) -> Option<Option<&'static str>> {
    match said {
        Value::Null => Some(None),
        _ => words.iter().find(|word| said == *word).map(|word| Some(*word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(manner: Manner, spec: &str, expected: Option<&str>) {
        let spec: Option<UpstreamSpec> = (!spec.is_empty()).then(|| spec.parse().unwrap());
        assert_eq!(manner.unfollowed(spec.as_ref()), expected, "{manner:?} {spec:?}");
    }

    #[test]
    fn what_cannot_be_said_is_named() {
        let effort = |effort| Manner { effort: Some(effort), verbosity: Some(MEDIUM) };
        for spec in ["", "openai:m", "anthropic:m", "gemini:gemini-3-pro", "gemini:gemini-2.5-pro", "cohere:m"] {
            check(Manner::default(), spec, None);
            let terse = Manner { effort: None, verbosity: Some("low") };
            check(terse, spec, Some(VERBOSITY).filter(|_| spec != "openai:m"));
        }
        for spec in ["", "anthropic:m", "gemini:gemini-2.5-flash", "cohere:m"] {
            check(effort(NONE), spec, None);
        }
        check(effort(NONE), "gemini:gemini-3-pro", Some(EFFORT));
        check(effort("low"), "", Some(EFFORT));
        check(effort("low"), "cohere:m", Some(EFFORT));
        check(effort("minimal"), "anthropic:m", Some(EFFORT));
        check(effort("max"), "anthropic:m", None);
        check(effort("max"), "gemini:gemini-2.5-pro", Some(EFFORT));
        check(effort("xhigh"), "openai:m", None);
    }

    #[test]
    fn every_format_has_its_own_words() {
        let of = |effort: &str| Manner::of(&effort.into(), &Value::Null).unwrap();
        assert_eq!((of("high").anthropic(), of(NONE).anthropic()), (Some(json!({"effort": "high"})), None));
        assert_eq!(of("low").gemini("gemini-3-pro"), Some(json!({"thinkingLevel": "low"})));
        assert_eq!(of(NONE).gemini("gemini-2.5-flash"), Some(json!({"thinkingBudget": 0})));
        assert_eq!(of("high").gemini("gemini-2.5-flash"), Some(json!({"thinkingBudget": 24_576})));
        for (effort, verbosity) in [(json!("often"), json!(null)), (json!(null), json!("loud")), (json!(7), json!(null))] {
            assert_eq!(Manner::of(&effort, &verbosity), None);
        }
    }
}
