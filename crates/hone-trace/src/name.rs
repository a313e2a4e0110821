//! Names that people give: short, printable, one type per concept.

use serde::{Deserialize, Deserializer, Serialize};
use std::{fmt, str::FromStr};

/// The longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 256;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing in it.
    #[error("a {0} must not be empty")]
    Empty(&'static str),
    /// It is longer than [`NAME_BYTES_MAX`].
    #[error("a {0} has at most {NAME_BYTES_MAX} bytes, this one has {1}")]
    TooLong(&'static str, usize),
    /// It holds a line break or another control character.
    #[error("a {0} must not contain control characters")]
    Control(&'static str),
}

macro_rules! name {
    ($($(#[$doc:meta])* $name:ident = $word:literal),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the text and takes it as a name.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                if text.is_empty() {
                    Err(NameError::Empty($word))
                } else if text.len() > NAME_BYTES_MAX {
                    Err(NameError::TooLong($word, text.len()))
                } else if text.chars().any(char::is_control) {
                    Err(NameError::Control($word))
                } else {
                    Ok(Self(text))
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

name! {
    /// Whose data it is. Every record has one; what may be mixed across tenants is theirs to allow.
    Tenant = "tenant",
    /// The type of task, such as `refund` or `date-arithmetic`.
    Category = "category",
    /// Everything that fixes one task instance, a starting program included.
    ScenarioId = "scenario",
    /// Scenarios that must stay on one side of a split because they are variations of each other.
    Family = "family",
    /// An entry of the registry.
    AgentName = "agent name",
    /// A key to the server, by what people call it.
    KeyName = "key name",
}

impl Default for Tenant {
    /// The tenant of a single-team installation.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_printable() {
        assert!(Category::new("refund").is_ok());
        assert_eq!(Category::new(""), Err(NameError::Empty("category")));
        assert_eq!(Tenant::new("a\nb"), Err(NameError::Control("tenant")));
        assert_eq!(Tenant::new("x".repeat(257)), Err(NameError::TooLong("tenant", 257)));
    }
}
