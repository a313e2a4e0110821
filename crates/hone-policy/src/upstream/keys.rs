//! Keys for servers that are named by their address: each is for one address and what lies below it, and for nobody else.

use super::key::{Key, KeyError};
use reqwest::Url;

/// Keys by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<(Url, Key)>);

/// Why a text gives no key to an address. It never repeats the text, which may hold one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// Not an address and a key.
    #[error("number {0} is not ADDRESS=KEY with an address such as https://host:port/v1, without user, password and query")]
    Shape(usize),
    /// The key cannot be sent.
    #[error("{0}: {1}")]
    Key(Url, KeyError),
    /// One address has two keys.
    #[error("{0} has two keys")]
    Twice(Url),
}

impl Keys {
    /// Reads texts of the form `ADDRESS=KEY`.
    pub fn read(texts: &[String]) -> Result<Self, KeysError> {
        let mut keys: Vec<(Url, Key)> = Vec::new();
        for (number, text) in (1..).zip(texts) {
            let (place, key) = text.split_once('=').ok_or(KeysError::Shape(number))?;
            let place = super::spec::address(place.trim()).map_err(|_| KeysError::Shape(number))?;
            let key = Key::new(key).map_err(|error| KeysError::Key(place.clone(), error))?;
            if keys.iter().any(|(known, _)| path(known) == path(&place) && known.origin() == place.origin()) {
                return Err(KeysError::Twice(place));
            }
            keys.push((place, key));
        }
        Ok(Self(keys))
    }

    /// The key for an address: of those that it lies at or below, the nearest.
    pub fn of(&self, address: &Url) -> Option<&Key> {
        let is_below = |place: &Url| {
            let rest = path(address).strip_prefix(path(place));
            place.origin() == address.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let fitting = self.0.iter().filter(|(place, _)| is_below(place));
        fitting.max_by_key(|(place, _)| path(place).len()).map(|(_, key)| key)
    }

    /// The addresses, which are no secret.
    pub fn addresses(&self) -> impl Iterator<Item = &Url> {
        self.0.iter().map(|(place, _)| place)
    }
}

/// The path of an address, with or without a stroke at its end.
fn path(address: &Url) -> &str {
    address.path().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Keys, KeysError> {
        Keys::read(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    fn check(address: &str, expected: Option<&str>) {
        let keys = read(&["https://h=one", "https://h/team/v1/=two==", "http://127.0.0.1:8000=three", "https://h:444/v1=four"]);
        let (keys, address) = (keys.unwrap(), Url::parse(address).unwrap());
        assert_eq!(keys.of(&address).map(Key::text), expected, "{address}");
    }

    #[test]
    fn a_key_is_for_its_address_and_what_lies_below() {
        check("https://h/v1", Some("one"));
        check("https://H:443/v1/", Some("one"));
        check("https://h/team/v1", Some("two=="));
        check("https://h/team/v1/", Some("two=="));
        check("https://h/team/v12", Some("one"));
        check("http://127.0.0.1:8000/v1", Some("three"));
        check("https://h:444/v1", Some("four"));
        for other in ["http://h/v1", "https://h:444/v2", "https://h.evil.example/v1", "https://g/v1", "http://127.0.0.1:8001/v1"]
        {
            check(other, None);
        }
    }

    #[test]
    fn what_gives_no_key_is_refused_and_never_repeated() {
        for (texts, expected) in [
            (&["hunter2"][..], "number 1 is not ADDRESS=KEY"),
            (&["https://h=a", "h=hunter2"], "number 2 is not ADDRESS=KEY"),
            (&["https://user:hunter2@h=a"], "number 1 is not ADDRESS=KEY"),
            (&["https://h?key=hunter2"], "number 1 is not ADDRESS=KEY"),
            (&["https://h="], "https://h/: the key is empty"),
            (&["https://h=hunter2\u{f6}"], "https://h/: the key"),
            (&["https://h=hunter2", "https://h/=b"], "https://h/ has two keys"),
        ] {
            let error = read(texts).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
        assert!(!format!("{:?}", read(&["https://h=hunter2"])).contains("hunter2"));
    }
}
