//! Which provider and which model: `openai:gpt-5-mini`, `anthropic:claude-sonnet-4-5`, `http://127.0.0.1:8000/v1#my-model`.
//!
//! A provider is a row of a table: an address, a wire format, the name of the variable that its key is customarily in (only
//! the binary reads it), and the few words in which its requests differ. A bare address speaks OpenAI's format;
//! `anthropic+https://…#model` and `gemini+https://…#model` speak the others. An address is taken for a known provider only
//! when it is exactly that provider's, so that no look-alike draws out a key.

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
    /// Where it is.
    pub base_url: &'static str,
    /// The environment variable that customarily holds its key.
    pub key_variable: Option<&'static str>,
    /// Its word for the limit of tokens, where the wire format leaves a choice.
    pub(super) tokens_key: &'static str,
    /// Its word for the seed, where it has one.
    pub(super) seed_key: Option<&'static str>,
    /// Whether it must be asked to tell the usage of a stream.
    pub(super) asks_usage: bool,
}

const PLAIN: Provider = Provider {
    name: "",
    wire: Wire::OpenAi,
    base_url: "",
    key_variable: None,
    tokens_key: "max_tokens",
    seed_key: Some("seed"),
    asks_usage: true,
};

const fn openai_like(name: &'static str, base_url: &'static str, key_variable: &'static str) -> Provider {
    Provider { name, base_url, key_variable: Some(key_variable), ..PLAIN }
}

/// All known providers.
pub const PROVIDERS: [Provider; 13] = [
    Provider { tokens_key: "max_completion_tokens", ..openai_like("openai", "https://api.openai.com/v1", "OPENAI_API_KEY") },
    Provider {
        wire: Wire::Anthropic,
        seed_key: None,
        ..openai_like("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")
    },
    Provider {
        wire: Wire::Gemini,
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
    Provider { name: "ollama", base_url: "http://127.0.0.1:11434/v1", ..PLAIN },
    Provider { name: "vllm", base_url: "http://127.0.0.1:8000/v1", ..PLAIN },
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
    /// No model after the provider.
    #[error("`{0}` names no model; write provider:model or http://host:port/v1#model")]
    Model(String),
    /// Not an address to ask at.
    #[error("`{0}` is not an address such as http://host:port/v1, without user, password and query")]
    Address(String),
}

impl FromStr for UpstreamSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (head, rest) = text.split_once(':').ok_or_else(|| SpecError::Model(text.into()))?;
        let (wire, is_address) = match head {
            "http" | "https" | "openai+http" | "openai+https" => (Wire::OpenAi, true),
            "anthropic+http" | "anthropic+https" => (Wire::Anthropic, true),
            "gemini+http" | "gemini+https" => (Wire::Gemini, true),
            _ => (Wire::OpenAi, false),
        };
        if is_address {
            let n_prefix = head.find('+').map_or(0, |at| at + 1);
            return at_address(wire, &text[n_prefix..]);
        }
        let provider = PROVIDERS.iter().find(|provider| provider.name == head);
        let provider = *provider.ok_or_else(|| SpecError::Provider(head.into()))?;
        let base_url = Url::parse(provider.base_url).map_err(|_| SpecError::Address(provider.base_url.into()))?;
        let model = rest.to_owned();
        if model.is_empty() { Err(SpecError::Model(text.into())) } else { Ok(Self { provider, base_url, model }) }
    }
}

fn at_address(wire: Wire, text: &str) -> Result<UpstreamSpec, SpecError> {
    let (address, model) = text.split_once('#').ok_or_else(|| SpecError::Model(without_user(text)))?;
    let refused = || SpecError::Address(without_user(address));
    let base_url = Url::parse(address).map_err(|_| refused())?;
    let is_bare = base_url.username().is_empty() && base_url.password().is_none() && base_url.query().is_none();
    if !is_bare || base_url.host_str().is_none() {
        return Err(refused());
    }
    if model.is_empty() {
        return Err(SpecError::Model(text.into()));
    }
    let address = base_url.as_str().trim_end_matches('/');
    let known = PROVIDERS.iter().find(|known| known.wire == wire && known.base_url == address);
    let seed_key = PLAIN.seed_key.filter(|_| wire != Wire::Anthropic);
    let provider = known.copied().unwrap_or(Provider { wire, seed_key, ..PLAIN });
    Ok(UpstreamSpec { provider, base_url, model: model.into() })
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
        let found = match text.parse::<UpstreamSpec>() {
            Ok(UpstreamSpec { provider, base_url, model }) => {
                format!("{} {base_url} {model} {}", provider.name, provider.key_variable.unwrap_or("-"))
            }
            Err(error) => error.to_string(),
        };
        assert!(found == expected || found.contains(expected) && found.contains('`'), "{text}: {found}");
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
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let error = "http://user:hunter2@h/v1#m".parse::<UpstreamSpec>().unwrap_err().to_string();
        assert!(error.contains("…@h") && !error.contains("hunter2"), "{error}");
    }
}
