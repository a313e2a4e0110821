//! A provider's key. It goes into one header of requests to the endpoint it was given for, and nowhere else.

use reqwest::header::HeaderValue;
use std::fmt;
use std::sync::Arc;

/// A secret that does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

/// The text cannot be sent as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key is empty or has characters that cannot be sent in a header")]
pub struct KeyError;

impl Key {
    /// Takes the text of a key; white space around it, such as the line break of a file, is not part of it.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_plain.then(|| Self(text.into())).ok_or(KeyError)
    }

    /// The secret itself, for those who compute with it.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The value of a header, marked so that it is not printed there either.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue, KeyError> {
        let mut value = HeaderValue::try_from(format!("{prefix}{}", self.0)).map_err(|_| KeyError)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Takes the key out of a text that came from outside.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&*self.0, "…")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = Key::new(" sk-secret\n").unwrap();
        assert_eq!(format!("{key:?} {:?}", Some(key.header("Bearer ").unwrap())), "… Some(Sensitive)");
        assert_eq!(key.redact("wrong key sk-secret!"), "wrong key …!");
        assert!(Key::new("").is_err() && Key::new("two\nlines").is_err() && Key::new("sch\u{f6}n").is_err());
    }
}
