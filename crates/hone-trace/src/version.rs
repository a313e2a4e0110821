//! The version that every stored record carries as `"v"`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version 1 of a record's JSON form: written as `1`, and nothing else is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct V1;

impl Serialize for V1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(1)
    }
}

impl<'de> Deserialize<'de> for V1 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            1 => Ok(Self),
            other => Err(serde::de::Error::custom(format_args!(
                "this record has version {other}, and this hone knows version 1 only: a newer hone wrote it"
            ))),
        }
    }
}
