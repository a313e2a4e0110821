//! What stands behind the question mark of an address, or in the body of a form.

use super::html::segment;
use std::fmt;

/// The most pairs of one query.
const N_PAIRS_MAX: usize = 64;

/// Names with values, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `name=value&name=value`. What is not UTF-8 after decoding is replaced.
    pub(crate) fn read(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Self(text.split('&').filter(|pair| !pair.is_empty()).take(N_PAIRS_MAX).map(pair).collect())
    }

    /// The value of a name, where it is there and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|pair| pair.0 == name).map(|pair| pair.1.trim()).filter(|value| !value.is_empty())
    }

    /// All values of a name, in order, without empty ones.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|pair| pair.0 == name).map(|pair| pair.1.trim());
        values.filter(|value| !value.is_empty()).collect()
    }

    /// The same with another value under this name; with none, without it.
    pub(crate) fn with(&self, name: &str, value: Option<&str>) -> Self {
        let rest = self.0.iter().filter(|pair| pair.0 != name && !pair.1.is_empty()).cloned();
        Self(rest.chain(value.map(|value| (name.to_owned(), value.to_owned()))).collect())
    }
}

impl fmt::Display for Query {
    /// With its question mark, unless it is empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, (name, value)) in self.0.iter().enumerate() {
            let sign = if idx == 0 { '?' } else { '&' };
            write!(f, "{sign}{}={}", segment(name), segment(value))?;
        }
        Ok(())
    }
}

fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&bytes_of(text)).into_owned()
}

/// Whether what is written in an address is a text at all.
pub(super) fn is_text(written: &str) -> bool {
    String::from_utf8(bytes_of(written)).is_ok()
}

fn bytes_of(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |idx: usize| bytes.get(idx).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut found, mut idx) = (Vec::with_capacity(bytes.len()), 0);
    while idx < bytes.len() {
        match (bytes[idx], digit(idx + 1), digit(idx + 2)) {
            (b'%', Some(high), Some(low)) => {
                found.push((high * 16 + low) as u8);
                idx += 2;
            }
            (b'+', ..) => found.push(b' '),
            (byte, ..) => found.push(byte),
        }
        idx += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_written() {
        let query = Query::read("q=a+b%26c&empty=&outcome=success&%zz=1");
        assert_eq!((query.get("q"), query.get("empty"), query.get("other")), (Some("a b&c"), None, None));
        assert_eq!(query.get("%zz"), Some("1"), "what is no code stands for itself");
        assert_eq!(query.with("outcome", Some("failure")).to_string(), "?q=a%20b%26c&%25zz=1&outcome=failure");
        assert_eq!(query.with("q", None).with("outcome", None).with("%zz", None).to_string(), "");
        assert_eq!(Query::read(&"a=1&".repeat(1000)).0.len(), N_PAIRS_MAX);
    }
}
