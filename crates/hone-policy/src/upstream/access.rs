//! What proves who asks: nothing, one key in a header, or a signature of every request.
//!
//! Which of them a provider takes, and the variables that they customarily stand in, is known here; the caller looks the
//! variables up. A provider whose requests are signed may take a key as well: the key comes first, because it is the
//! narrower one.

use super::key::{Key, KeyError};
use super::keys::Keys;
use super::signature::{AwsKey, RegionError};
use super::spec::{Provider, UpstreamSpec, region};
use super::wire::Wire;

/// What proves who asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Access {
    /// Nobody asks who asks.
    #[default]
    Open,
    /// One secret, sent to one address.
    Key(Key),
    /// A secret that is never sent.
    Signed(AwsKey),
}

impl From<Key> for Access {
    fn from(key: Key) -> Self {
        Self::Key(key)
    }
}

impl From<Option<Key>> for Access {
    fn from(key: Option<Key>) -> Self {
        key.map_or(Self::Open, Self::Key)
    }
}

/// Why a provider cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Nothing that the provider takes is there.
    #[error("there is no key for {provider}: set {variables}")]
    Missing {
        /// The provider.
        provider: &'static str,
        /// The variables that customarily hold its key.
        variables: String,
    },
    /// A key cannot be sent.
    #[error("{0}: {1}")]
    Key(&'static str, KeyError),
    /// The region is none.
    #[error(transparent)]
    Region(#[from] RegionError),
}

impl Access {
    /// What this server takes: as a provider that is known, what it customarily takes, and otherwise the key for its address, where
    /// there is one.
    pub fn to(spec: &UpstreamSpec, keys: &Keys, variable: impl Fn(&str) -> Option<String>) -> Result<Self, AccessError> {
        match Self::of(&spec.provider, variable)? {
            Self::Open => Ok(keys.of(&spec.base_url).cloned().into()),
            known => Ok(known),
        }
    }

    /// What this provider customarily takes, from variables that the caller looks up.
    pub fn of(provider: &Provider, variable: impl Fn(&str) -> Option<String>) -> Result<Self, AccessError> {
        let key = |name: &'static str| -> Result<Option<Key>, AccessError> {
            variable(name).map(|text| Key::new(&text).map_err(|error| AccessError::Key(name, error))).transpose()
        };
        let Some(name) = provider.key_variable else { return Ok(Self::Open) };
        if let Some(key) = key(name)? {
            return Ok(Self::Key(key));
        }
        if provider.wire != Wire::Bedrock {
            return Err(AccessError::Missing { provider: provider.name, variables: name.into() });
        }
        match (key("AWS_ACCESS_KEY_ID")?, key("AWS_SECRET_ACCESS_KEY")?, region(&variable)?) {
            (Some(id), Some(secret), Some(region)) => {
                Ok(Self::Signed(AwsKey::new(id, secret, key("AWS_SESSION_TOKEN")?, region)))
            }
            _ => {
                let variables = format!("{name}, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION");
                Err(AccessError::Missing { provider: provider.name, variables })
            }
        }
    }

    /// A text from outside, without secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        match self {
            Self::Open => text.to_owned(),
            Self::Key(key) => key.redact(text),
            Self::Signed(key) => key.redact(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::spec::PROVIDERS;

    /// Variables are `NAME=value`, parted by spaces.
    fn check(provider: &str, variables: &str, expected: &str) {
        let provider = PROVIDERS.iter().find(|known| known.name == provider).unwrap();
        let pairs: Vec<(&str, &str)> = variables.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        let value = |name: &str| pairs.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        let found = match Access::of(provider, value) {
            Ok(access) => format!("{access:?}"),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{variables}: {found}");
        assert!(!found.contains("hunter2"), "{found}");
    }

    #[test]
    fn a_key_goes_to_the_address_that_it_was_given_for() {
        let keys = Keys::read(&["https://gpu.example=own".into(), "https://api.openai.com=other".into()]).unwrap();
        let access = |spec: &str| {
            let variable = |name: &str| (name == "OPENAI_API_KEY").then(|| "customary".to_owned());
            match Access::to(&spec.parse().unwrap(), &keys, variable).unwrap() {
                Access::Key(key) => key.text().to_owned(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(access("https://gpu.example/v1#m"), "own");
        assert_eq!(access("anthropic+https://gpu.example/v1#m"), "own");
        assert_eq!(access("http://gpu.example/v1#m"), "Open");
        assert_eq!(access("https://other.example/v1#m"), "Open");
        assert_eq!(access("openai:m"), "customary");
    }

    #[test]
    fn keys_are_where_they_customarily_are() {
        check("openai", "OPENAI_API_KEY=hunter2", "Key(…)");
        check("openai", "", "there is no key for openai: set OPENAI_API_KEY");
        check("openai", "OPENAI_API_KEY=hunter2\u{f6}", "OPENAI_API_KEY: the key");
        check("vllm", "OPENAI_API_KEY=hunter2", "Open");
        check("azure", "AZURE_API_KEY=hunter2", "Key(…)");
        check("cohere", "COHERE_API_KEY=hunter2", "Key(…)");
        let keys = "AWS_ACCESS_KEY_ID=AKID AWS_SECRET_ACCESS_KEY=hunter2";
        check("bedrock", &format!("{keys} AWS_REGION=eu-west-1"), r#"session: None, region: Region("eu-west-1")"#);
        let lent = format!("{keys} AWS_DEFAULT_REGION=eu-west-1 AWS_SESSION_TOKEN=hunter2");
        check("bedrock", &lent, "session: Some(…)");
        check("bedrock", &format!("{keys} AWS_BEARER_TOKEN_BEDROCK=hunter2"), "Key(…)");
        check("bedrock", keys, "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID");
        check("bedrock", &format!("{keys} AWS_REGION=evil.example/"), "`evil.example/` is not a region");
    }
}
