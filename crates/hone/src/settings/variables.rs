//! Settings from the environment: `HONE_<TABLE>_<KEY>`, and a few short names.
//!
//! A list is written as in `hone.toml`, or with commas between its items: see [`texts`]. The variables arrive as a list; only [`Variables::of_process`] looks at the process. A variable of ours that sets
//! nothing is an error, because somebody believes that it does.

use super::neighbour::nearest;
use super::schema::{Key, Value};
use crate::failure::Failure;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Short names for keys that are set from outside often.
const SHORT: &[(&str, &str)] = &[("HONE_DATABASE_URL", "HONE_STORE_DATABASE_URL")];

/// The variable that names the settings file.
pub(crate) const CONFIG: &str = "HONE_CONFIG";

/// Names that belong to tests and benchmarks.
const RESERVED: &[&str] = &["HONE_TEST_", "HONE_BENCH_", "HONE_SLOW"];

/// The environment of this process.
#[derive(Debug, Clone, Default)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Reads them all, once.
    pub fn of_process() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
        let all = std::env::vars_os();
        Self(all.collect())
    }

    /// The value of one, where it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(&OsString::from(name)).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
impl Variables {
    pub(crate) fn with(mut self, (name, value): (&str, &str)) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Variables {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.map(|(name, value)| (name.into(), value.into())).into())
    }
}

/// The values in the environment, each with its place among the keys and the variable that set it.
pub(crate) fn read(variables: &Variables, keys: &[Key]) -> Result<Vec<(usize, Value, String)>, Failure> {
    let mut values: Vec<(usize, Value, String)> = Vec::new();
    for (name, text) in &variables.0 {
        let name = name.to_string_lossy().into_owned();
        let reserved = RESERVED.iter().any(|prefix| name.starts_with(prefix));
        if !name.starts_with("HONE_") || reserved || name == CONFIG {
            continue;
        }
        let long = SHORT.iter().find(|(short, _)| *short == name).map_or(name.as_str(), |(_, long)| long);
        let Some(idx) = keys.iter().position(|key| key.variable() == long) else {
            return Err(unknown(&name, keys));
        };
        let Some(text) = text.to_str() else {
            return Err(Failure::config(format_args!("the variable {name} is not UTF-8")));
        };
        let default = &keys[idx].default;
        let value = value(text, default).ok_or_else(|| wrong(&name, default))?;
        match values.iter().find(|(other, _, _)| *other == idx) {
            Some((_, same, _)) if *same == value => {}
            Some((_, _, other)) => {
                let text = format!("the variables {other} and {name} set the same key to two values");
                return Err(Failure::config(text).hint("unset one of them"));
            }
            None => values.push((idx, value, name)),
        }
    }
    Ok(values)
}

fn value(text: &str, default: &Value) -> Option<Value> {
    Some(match default {
        Value::Text(_) => Value::Text(text.to_owned()),
        Value::Number(_) => Value::Number(text.trim().parse().ok()?),
        Value::Texts(_) => Value::Texts(texts(text.trim())?),
    })
}

/// A list: as in `hone.toml`, `["gpt=0.25,2", "own=1,4"]`, or in JSON, or with commas between the items. A comma belongs to an
/// item `NAME=…` unless another `NAME=` follows it: `gpt=0.25,2,own=1,4` are two.
fn texts(text: &str) -> Option<Vec<String>> {
    if text.starts_with('[') {
        let of_toml = || Vec::deserialize(toml::de::ValueDeserializer::parse(text).ok()?).ok();
        return serde_json::from_str(text).ok().or_else(of_toml);
    }
    let mut items: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match items.last_mut() {
            Some(item) if is_named(item) && !is_named(part) => *item += &format!(",{part}"),
            _ => items.push(part.to_owned()),
        }
    }
    Some(items)
}

/// Whether an item begins with `NAME=`. What is in front of an `=` of a URL is no name.
fn is_named(item: &str) -> bool {
    item.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains("://"))
}

fn wrong(name: &str, default: &Value) -> Failure {
    let failure = Failure::config(format_args!("the variable {name} must be {}", default.type_name()));
    match default {
        Value::Texts(_) => failure.hint(format!("write {name}='[\"ONE\", \"OTHER\"]', or ONE,OTHER without brackets")),
        _ => failure,
    }
}

fn unknown(name: &str, keys: &[Key]) -> Failure {
    let long: Vec<String> = keys.iter().map(Key::variable).collect();
    let known = long.iter().map(String::as_str).chain(SHORT.iter().map(|(short, _)| *short)).chain([CONFIG]);
    let failure = Failure::config(format_args!("the variable {name} sets nothing"));
    match nearest(name, known) {
        Some(known) => failure.hint(format!("did you mean {known}? Otherwise unset it")),
        None => failure.hint("unset it"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::keys;
    use super::*;

    fn check<const N: usize>(pairs: [(&str, &str); N], expected: Result<&[(&str, Value)], (&str, &str)>) {
        match (read(&pairs.into(), keys()), expected) {
            (Ok(values), Ok(expected)) => {
                let values: Vec<_> = values.into_iter().map(|(idx, value, _)| (keys()[idx].path(), value)).collect();
                let expected: Vec<_> = expected.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect();
                assert_eq!(values, expected);
            }
            (Err(failure), Err((text, hint))) => {
                assert!(failure.to_string().contains(text), "{failure}");
                assert!(failure.hint.as_deref().unwrap_or_default().contains(hint), "{failure:?}");
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_variable_sets_its_key_or_is_an_error() {
        let text = |text: &str| Value::Text(text.to_owned());
        check([("PATH", "/bin"), ("HONE_TEST_POSTGRES", "x"), ("HONE_SLOW", "1"), ("HONE_CONFIG", "f")], Ok(&[]));
        check([("HONE_STORE_FOLDER", "/data")], Ok(&[("store.folder", text("/data"))]));
        check([("HONE_DATABASE_URL", "postgres://h/d")], Ok(&[("store.database_url", text("postgres://h/d"))]));
        check([("HONE_TRACE_IMPORT_BATCH", "7")], Ok(&[("trace.import_batch", Value::Number(7))]));
        let fields = Value::Texts(vec!["a.b".to_owned(), "c".to_owned()]);
        check([("HONE_STORE_INDEXED_FIELDS", "a.b, c,")], Ok(&[("store.indexed_fields", fields)]));
        let list = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        for (written, meant) in [
            ("gpt=0.25,2", list(&["gpt=0.25,2"])),
            ("gpt=0.25,2, own=1,4", list(&["gpt=0.25,2", "own=1,4"])),
            ("[\"gpt=0.25,2\", 'own=1,4',]", list(&["gpt=0.25,2", "own=1,4"])),
            (r#" ["gpt=0.25,2\/"]"#, list(&["gpt=0.25,2/"])),
            ("[]", list(&[])),
        ] {
            check([("HONE_SERVE_PRICES", written)], Ok(&[("serve.prices", meant)]));
        }
        let two = list(&["gpt=http://a?x=1#m,http://b?y=2#m", "own=local:o"]);
        check([("HONE_SERVE_MODELS", "gpt=http://a?x=1#m,http://b?y=2#m,own=local:o")], Ok(&[("serve.models", two)]));
        for malformed in ["[\"gpt=0.25,2\"", "[gpt=0.25,2]", "[1]", "['a'] b"] {
            check([("HONE_SERVE_PRICES", malformed)], Err(("HONE_SERVE_PRICES must be a list of texts", "without brackets")));
        }
        check([("HONE_TRACE_IMPORT_BATCH", "many")], Err(("must be a whole number", "")));
        check([("HONE_DATABSE_URL", "x")], Err(("HONE_DATABSE_URL sets nothing", "HONE_DATABASE_URL?")));
        check([("HONE_STORE_TENNANT", "x")], Err(("HONE_STORE_TENNANT", "HONE_STORE_TENANT?")));
        check([("HONE_DATABASE_URL", "a"), ("HONE_STORE_DATABASE_URL", "b")], Err(("two values", "unset one")));
    }

    #[test]
    fn no_value_of_a_variable_is_repeated_in_an_error() {
        let failure = read(&[("HONE_DATABSE_URL", "postgres://u:canary@h/d")].into(), keys()).unwrap_err();
        assert!(!format!("{failure:?}").contains("canary"));
    }
}
