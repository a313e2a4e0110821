//! Which provider and which model: `openai:gpt-5-mini`, `anthropic:claude-sonnet-4-5`, `http://127.0.0.1:8000/v1#my-model`.
//!
//! A provider is a row of a table: an address, a wire format, the name of the variable that its key is customarily in (only
//! the binary reads it), and the few words in which its requests differ. Two have no address of their own: Azure's is the
//! user's resource, Bedrock's depends on a region; the caller looks both up. A bare address speaks OpenAI's format;
//! `anthropic+https://…#model`, and likewise gemini, cohere, azure and bedrock, speak the others. An address is taken for a
//! known provider only when it is exactly that provider's, so that no look-alike draws out a key.

use super::signature::{Region, RegionError};
use super::wire::Wire;
use reqwest::Url;
use std::str::FromStr;

/// A provider as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Its name.
    pub name: &'static str,
    /// How it is spoken to.
    pub wire: Wire,
    /// Where it is, where that is the same for everyone.
    pub base_url: &'static str,
    pub(super) place: Place,
    /// The environment variable that customarily holds its key.
    pub key_variable: Option<&'static str>,
    /// The header that its key goes into, and what stands before it there.
    pub(super) key_header: (&'static str, &'static str),
    /// Its word for the limit of tokens, where the wire format leaves a choice.
    pub(super) tokens_key: &'static str,
    /// Its word for the seed, where it has one.
    pub(super) seed_key: Option<&'static str>,
    /// Whether it must be asked to tell the usage of a stream.
    pub(super) asks_usage: bool,
    /// Whether it is asked for embeddings in base64, which is shorter and loses nothing.
    pub(super) asks_base64: bool,
}

/// How the address of a provider is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is known.
    Known,
    /// A resource of the user's on Azure, where models are deployments.
    Azure,
    /// A region of AWS.
    Region,
}

const PLAIN: Provider = Provider {
    name: "",
    wire: Wire::OpenAi,
    base_url: "",
    place: Place::Known,
    key_variable: None,
    key_header: ("authorization", "Bearer "),
    tokens_key: "max_tokens",
    seed_key: Some("seed"),
    asks_usage: true,
    asks_base64: false,
};

const fn openai_like(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Provider {
    Provider { name, base_url, key_variable: Some(key_variable), ..PLAIN }
}

/// All known providers.
pub const PROVIDERS: [Provider; 17] = [
    Provider {
        tokens_key: "max_completion_tokens",
        asks_base64: true,
        ..openai_like("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    },
    Provider {
        wire: Wire::Anthropic,
        key_header: ("x-api-key", ""),
        seed_key: None,
        ..openai_like("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")
    },
    Provider {
        wire: Wire::Gemini,
        key_header: ("x-goog-api-key", ""),
        ..openai_like("gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY")
    },
    // Refuses words that it does not know, and tells the usage unasked.
    Provider {
        seed_key: Some("random_seed"),
        asks_usage: false,
        ..openai_like("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
    },
    openai_like("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    openai_like("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    openai_like("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    openai_like("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    openai_like("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    openai_like("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    openai_like("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    Provider { wire: Wire::Cohere, ..openai_like("cohere", "https://api.cohere.com/v2", "COHERE_API_KEY") },
    Provider {
        place: Place::Azure,
        key_header: ("api-key", ""),
        tokens_key: "max_completion_tokens",
        asks_base64: true,
        ..openai_like("azure", "", "AZURE_API_KEY")
    },
    Provider {
        wire: Wire::Bedrock,
        place: Place::Region,
        seed_key: None,
        ..openai_like("bedrock", "", "AWS_BEARER_TOKEN_BEDROCK")
    },
    Provider { name: "ollama", base_url: "http://127.0.0.1:11434/v1", ..PLAIN },
    Provider { name: "vllm", base_url: "http://127.0.0.1:8000/v1", ..PLAIN },
    Provider { name: "sglang", base_url: "http://127.0.0.1:30000/v1", ..PLAIN },
];

/// A model at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamSpec {
    /// The provider; its name is empty when only the address is known.
    pub provider: Provider,
    /// Where it is asked.
    pub base_url: Url,
    /// The model.
    pub model: String,
}

/// Why a text names no model at a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No provider of this name.
    #[error("there is no provider `{0}`; there are {known}, and addresses such as http://host:port/v1#model", known = names())]
    Provider(String),
    /// No format of this name.
    #[error("there is no format `{0}`; there are openai, anthropic, gemini, cohere, azure and bedrock")]
    Format(String),
    /// No model after the provider.
    #[error("`{0}` names no model; write provider:model or http://host:port/v1#model")]
    Model(String),
    /// Not an address to ask at.
    #[error("`{0}` is not an address such as http://host:port/v1, without user, password and query")]
    Address(String),
    /// The provider is somewhere else for everyone.
    #[error("where {0} is depends on you: set {1}")]
    Place(&'static str, &'static str),
    /// The region is none.
    #[error(transparent)]
    Region(#[from] RegionError),
}

impl FromStr for UpstreamSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::named(text, |_| None)
    }
}

impl UpstreamSpec {
    /// The model of this name, at an address that may depend on variables, which the caller looks up.
    pub fn named(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, SpecError> {
        let (head, rest) = text.split_once(':').ok_or_else(|| SpecError::Model(text.into()))?;
        let (format, scheme) = head.split_once('+').unwrap_or(("openai", head));
        if matches!(scheme, "http" | "https") {
            let own = PROVIDERS.iter().find(|provider| provider.name == format && has_format(provider));
            let own = own.ok_or_else(|| SpecError::Format(format.into()))?;
            return at_address(own, &text[head.find('+').map_or(0, |at| at + 1)..]);
        }
        let provider = PROVIDERS.iter().find(|provider| provider.name == head);
        let provider = *provider.ok_or_else(|| SpecError::Provider(head.into()))?;
        let model = rest.to_owned();
        if model.is_empty() {
            return Err(SpecError::Model(text.into()));
        }
        Ok(Self { provider, base_url: base_url(&provider, variable)?, model })
    }
}

/// Whether its name is also that of a format.
fn has_format(provider: &Provider) -> bool {
    provider.wire != Wire::OpenAi || provider.name == "openai" || provider.place == Place::Azure
}

fn base_url(provider: &Provider, variable: impl Fn(&str) -> Option<String>) -> Result<Url, SpecError> {
    match provider.place {
        Place::Known => address(provider.base_url),
        Place::Azure => {
            let base = variable("AZURE_API_BASE").ok_or(SpecError::Place(provider.name, "AZURE_API_BASE"))?;
            let mut url = address(base.trim())?;
            if let Some(version) = variable("AZURE_API_VERSION") {
                url.query_pairs_mut().append_pair("api-version", version.trim());
            }
            Ok(url)
        }
        Place::Region => {
            if let Some(own) = variable("AWS_ENDPOINT_URL_BEDROCK_RUNTIME") {
                return address(own.trim());
            }
            let region = region(variable)?.ok_or(SpecError::Place(provider.name, "AWS_REGION"))?;
            address(&format!("https://bedrock-runtime.{}.amazonaws.com", region.as_str()))
        }
    }
}

/// The region that is customarily meant.
pub(super) fn region(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Region>, RegionError> {
    let text = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    text.map(|text| Region::new(text.trim())).transpose()
}

/// An address without user, password and query.
pub(super) fn address(text: &str) -> Result<Url, SpecError> {
    let url = Url::parse(text).ok().filter(|url| url.host_str().is_some() && matches!(url.scheme(), "http" | "https"));
    let bare = url.filter(|url| url.username().is_empty() && url.password().is_none() && url.query().is_none());
    bare.ok_or_else(|| SpecError::Address(without_user(text)))
}

fn at_address(own: &Provider, text: &str) -> Result<UpstreamSpec, SpecError> {
    let (place, model) = text.split_once('#').ok_or_else(|| SpecError::Model(without_user(text)))?;
    // The version of Azure's interface is part of where a deployment is.
    let (bare, version) = match place.split_once("?api-version=") {
        Some((bare, version)) if own.place == Place::Azure && !version.contains('&') => (bare, Some(version)),
        _ => (place, None),
    };
    let mut base_url = address(bare)?;
    if model.is_empty() {
        return Err(SpecError::Model(text.into()));
    }
    let known = base_url.as_str().trim_end_matches('/');
    let known = PROVIDERS.iter().find(|provider| provider.wire == own.wire && provider.base_url == known);
    let unknown = Provider { name: "", base_url: "", key_variable: None, asks_base64: false, ..*own };
    let unknown = if own.name == "openai" { PLAIN } else { unknown };
    if let Some(version) = version {
        base_url.query_pairs_mut().append_pair("api-version", version);
    }
    Ok(UpstreamSpec { provider: known.copied().unwrap_or(unknown), base_url, model: model.into() })
}

/// An address with a password in it must not be printed.
fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => text.to_owned(),
    }
}

fn names() -> String {
    PROVIDERS.map(|provider| provider.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects `provider address model variable`, or part of the error.
    fn check(text: &str, expected: &str) {
        check_with(&[], text, expected);
    }

    fn check_with(variables: &[(&str, &str)], text: &str, expected: &str) {
        let value = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        match UpstreamSpec::named(text, value) {
            Ok(UpstreamSpec { provider, base_url, model }) => {
                let variable = provider.key_variable.unwrap_or("-");
                assert_eq!(format!("{} {base_url} {model} {variable}", provider.name), expected, "{text}");
            }
            Err(error) => assert!(error.to_string().contains(expected), "{text}: {error}"),
        }
    }

    #[test]
    fn specs() {
        check("openai:gpt-5-mini", "openai https://api.openai.com/v1 gpt-5-mini OPENAI_API_KEY");
        check("openrouter:meta/llama-3:free", "openrouter https://openrouter.ai/api/v1 meta/llama-3:free OPENROUTER_API_KEY");
        check("http://127.0.0.1:8000/v1#my-model", "vllm http://127.0.0.1:8000/v1 my-model -");
        check("https://api.groq.com/openai/v1#m", "groq https://api.groq.com/openai/v1 m GROQ_API_KEY");
        check("https://evil.example/api.groq.com/openai/v1#m", " https://evil.example/api.groq.com/openai/v1 m -");
        check("anthropic+https://api.anthropic.com/v1#c", "anthropic https://api.anthropic.com/v1 c ANTHROPIC_API_KEY");
        check("https://api.anthropic.com/v1#c", " https://api.anthropic.com/v1 c -");
        check("nobody:m", "no provider `nobody`");
        check("openai:", "names no model");
        check("gpt-5", "names no model");
        check("http://h/v1", "names no model");
        check("http://h/v1#", "names no model");
        check("http://h/v1?key=1#m", "is not an address");
        check("mistral+http://h/v1#m", "no format `mistral`");
        check("ftp+http:", "no format `ftp`");
    }

    #[test]
    fn providers_that_are_elsewhere_for_everyone() {
        check("cohere:command-a", "cohere https://api.cohere.com/v2 command-a COHERE_API_KEY");
        check("cohere+http://h/v2#m", " http://h/v2 m -");
        check("sglang:m", "sglang http://127.0.0.1:30000/v1 m -");
        let base = ("AZURE_API_BASE", "https://mine.openai.azure.com/");
        check_with(&[base], "azure:gpt", "azure https://mine.openai.azure.com/ gpt AZURE_API_KEY");
        let dated = [base, ("AZURE_API_VERSION", "2024-10-21")];
        check_with(&dated, "azure:gpt", "azure https://mine.openai.azure.com/?api-version=2024-10-21 gpt AZURE_API_KEY");
        check("azure:gpt", "where azure is depends on you: set AZURE_API_BASE");
        check_with(&[("AZURE_API_BASE", "https://user:hunter2@h")], "azure:gpt", "`…@h` is not an address");
        check_with(&[("AZURE_API_BASE", "mine")], "azure:gpt", "is not an address");
        check("azure+https://mine.openai.azure.com?api-version=1#gpt", " https://mine.openai.azure.com/?api-version=1 gpt -");
        check("azure+https://h?api-version=1&key=2#gpt", "is not an address");
        let bedrock = "bedrock https://bedrock-runtime.eu-west-1.amazonaws.com/ m:0 AWS_BEARER_TOKEN_BEDROCK";
        check_with(&[("AWS_REGION", "eu-west-1")], "bedrock:m:0", bedrock);
        check_with(&[("AWS_DEFAULT_REGION", "eu-west-1")], "bedrock:m:0", bedrock);
        let own = [("AWS_REGION", "eu-west-1"), ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "https://vpce.example")];
        check_with(&own, "bedrock:m", "bedrock https://vpce.example/ m AWS_BEARER_TOKEN_BEDROCK");
        check("bedrock:m", "where bedrock is depends on you: set AWS_REGION");
        check_with(&[("AWS_REGION", "evil.example/")], "bedrock:m", "`evil.example/` is not a region");
        check("bedrock+https://vpce.example#m:0", " https://vpce.example/ m:0 -");
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let error = "http://user:hunter2@h/v1#m".parse::<UpstreamSpec>().unwrap_err().to_string();
        assert!(error.contains("…@h") && !error.contains("hunter2"), "{error}");
    }
}
