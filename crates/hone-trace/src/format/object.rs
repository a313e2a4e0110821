//! Reading JSON objects field by field: known keys into their words, the rest into a map, with the path kept for errors.
//!
//! Serde's `flatten` would copy every value twice on the way; this reads each one once, straight into its place.

use super::error::inside;
use super::{DEPTH_MAX, LIST_LEN_MAX, analysis};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// Something that is read from a JSON object.
pub(super) trait Object: Default {
    /// What it is, for an error.
    const WHAT: &'static str;

    /// Takes the value of this key.
    fn field<'de, A: MapAccess<'de>>(&mut self, key: Cow<'de, str>, map: &mut A) -> Result<(), A::Error>;

    /// Checks what can be checked only at the end, and says the place inside the object and the reason.
    fn end(&mut self) -> Result<(), (&'static str, String)> {
        Ok(())
    }
}

/// Reads a `T` from a JSON object.
pub(super) struct Read<T>(pub(super) T);

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, T: Object> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Object> Visitor<'de> for Visit<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::WHAT)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
                let mut object = T::default();
                while let Some(Key(key)) = map.next_key()? {
                    // A borrowed key can be named in an error without a copy made beforehand.
                    match key {
                        Cow::Borrowed(name) => object
                            .field(Cow::Borrowed(name), &mut map)
                            .map_err(|error| inside(format_args!(".{}", short(name)), &error))?,
                        Cow::Owned(name) => object.field(Cow::Owned(name), &mut map)?,
                    }
                }
                object.end().map_err(|(key, reason)| match key {
                    "" => A::Error::custom(reason),
                    key => inside(format_args!(".{key}"), &reason),
                })?;
                Ok(object)
            }
        }
        deserializer.deserialize_map(Visit(PhantomData)).map(Read)
    }
}

/// A foreign key as an error shows it.
pub(super) fn short(key: &str) -> Cow<'_, str> {
    match key.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &key[..end]).into(),
        None => key.into(),
    }
}

/// A list of objects that is not longer than [`LIST_LEN_MAX`], or a text that holds one as JSON.
pub(super) struct List<T>(pub(super) Vec<T>);

impl<'de, T: Object> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Object> Visitor<'de> for Visit<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list in which each entry is {}", T::WHAT)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
                if text.is_empty() {
                    return Ok(Vec::new());
                }
                if analysis::depth(text) > DEPTH_MAX {
                    return Err(E::custom(super::too_deep("").reason));
                }
                // The place is in the text, whose lines are not those of the file.
                let not_a_list = |error| E::custom(format_args!("a text must hold a list as JSON ({error})"));
                serde_json::from_str(text).map(|List(list)| list).map_err(not_a_list)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                loop {
                    let idx = list.len();
                    let next = seq.next_element().map_err(|error| inside(format_args!("[{idx}]"), &error))?;
                    let Some(Read(entry)) = next else { return Ok(list) };
                    if idx == LIST_LEN_MAX {
                        return Err(A::Error::custom(format_args!("the list has more than {LIST_LEN_MAX} entries")));
                    }
                    list.push(entry);
                }
            }
        }
        deserializer.deserialize_any(Visit(PhantomData)).map(List)
    }
}

/// Takes an optional text: a `null` is kept in `extra`, so that it can be told from a missing key.
pub(super) fn text<'de, A: MapAccess<'de>>(
    key: &str,
    map: &mut A,
    extra: &mut Map<String, Value>,
) -> Result<Option<String>, A::Error> {
    let text: Option<String> = map.next_value()?;
    match text {
        Some(_) => extra.remove(key),
        None => extra.insert(key.to_owned(), Value::Null),
    };
    Ok(text)
}

/// Takes an optional list: `null` and an empty list are kept in `extra`, so that they can be told from a missing key.
pub(super) fn list<'de, A: MapAccess<'de>, T: Object>(
    key: &str,
    map: &mut A,
    extra: &mut Map<String, Value>,
) -> Result<Vec<T>, A::Error> {
    let list: Option<List<T>> = map.next_value()?;
    let nothing = match &list {
        None => Value::Null,
        Some(List(list)) if list.is_empty() => Value::Array(Vec::new()),
        Some(_) => {
            extra.remove(key);
            return Ok(list.map(|List(list)| list).unwrap_or_default());
        }
    };
    extra.insert(key.to_owned(), nothing);
    Ok(Vec::new())
}

/// Keeps the value of a key that has no word. Our own notes cannot come from outside.
pub(super) fn leftover<'de, A: MapAccess<'de>>(
    key: Cow<'de, str>,
    map: &mut A,
    extra: &mut Map<String, Value>,
) -> Result<(), A::Error> {
    if super::is_note(&key) {
        map.next_value::<serde::de::IgnoredAny>()?;
    } else {
        extra.insert(key.into_owned(), map.next_value()?);
    }
    Ok(())
}

/// Reads one whole line.
pub(super) fn from_line<'de, T: Deserialize<'de>>(line: &'de str) -> Result<T, super::FormatError> {
    serde_json::from_str(line).map_err(|error| super::FormatError::from_json(&error))
}

/// Reads JSON that came inside a text, if it is JSON that can be stored.
pub(super) fn json_inside(text: &str) -> Option<Value> {
    if analysis::depth(text) > DEPTH_MAX { None } else { serde_json::from_str(text).ok() }
}
