//! JSON with the keys of every object in order.
//!
//! Equal records have equal bytes: hashes, ids and databases that keep objects in an order of their own depend on it.
//! A map of `serde_json` may remember the order in which its keys came, so it is not left to that.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// A value that is written with sorted keys.
#[derive(Debug, Clone, Copy)]
pub struct Sorted<'a>(pub &'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => map(fields, serializer),
            Value::Array(items) => list(items, serializer),
            leaf => leaf.serialize(serializer),
        }
    }
}

/// The same of a map.
pub(crate) struct SortedMap<'a>(pub(crate) &'a Map<String, Value>);

impl Serialize for SortedMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        map(self.0, serializer)
    }
}

pub(crate) fn value<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Sorted(value).serialize(serializer)
}

pub(crate) fn option<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Sorted).serialize(serializer)
}

pub(crate) fn list<S: Serializer>(items: &[Value], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(Sorted))
}

pub(crate) fn map<S: Serializer>(fields: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut entries: Vec<(&String, &Value)> = fields.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    let mut out = serializer.serialize_map(Some(entries.len()))?;
    for (key, value) in entries {
        out.serialize_entry(key, &Sorted(value))?;
    }
    out.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"b":[{"d":1,"c":[]}],"a":{"z":null,"y":"x"}}"#).unwrap();
        assert_eq!(serde_json::to_string(&Sorted(&value)).unwrap(), r#"{"a":{"y":"x","z":null},"b":[{"c":[],"d":1}]}"#);
    }
}
