//! Ids of records: UUIDs, each with its own type.
//!
//! Live traffic takes UUIDv7 (time-ordered); a seeded stage derives a UUIDv8 from what fixes the record,
//! so that the same seed gives the same id.

use crate::Time;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A UUIDv7 from the time and 74 random bits of `random`.
            pub fn live(now: Time, random: u128) -> Self {
                Self(v7(now, random))
            }

            /// The id that this list of facts fixes, such as (run, scenario, sample).
            pub fn derived(facts: &[&str]) -> Self {
                Self(v8(stringify!($name), facts))
            }

            /// The sixteen bytes, most significant first.
            pub fn bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }

            /// The id with these sixteen bytes.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )*};
}

id! {
    /// One episode.
    TraceId,
    /// Several traces of one scenario by one policy version.
    GroupId,
    /// One judgement of a trace or of a turn.
    RewardId,
    /// One training, evaluation or rollout run.
    RunId,
    /// One measured consequence of a config.
    OutcomeId,
    /// One proposed change of a config.
    RecommendationId,
    /// One line of the event log.
    EventId,
}

fn v7(now: Time, random: u128) -> Uuid {
    let millis = u64::try_from(now.unix_nanos().max(0) / 1_000_000).unwrap_or(0);
    let random = random.to_be_bytes();
    let mut counter_random = [0; 10];
    counter_random.copy_from_slice(&random[6..]);
    uuid::Builder::from_unix_timestamp_millis(millis, &counter_random).into_uuid()
}

fn v8(kind: &str, facts: &[&str]) -> Uuid {
    let mut hasher = blake3::Hasher::new();
    for part in std::iter::once(&kind).chain(facts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_ids_sort_by_time_and_say_version_seven() {
        let earlier = TraceId::live(Time::from_unix_nanos(1_700_000_000_000_000_000), u128::MAX);
        let later = TraceId::live(Time::from_unix_nanos(1_700_000_000_001_000_000), 0);
        assert!(earlier < later);
        assert_eq!(earlier.0.get_version_num(), 7);
    }

    #[test]
    fn derived_ids_depend_on_kind_facts_and_their_borders() {
        let id = TraceId::derived(&["run-1", "scenario", "0"]);
        assert_eq!(id, TraceId::derived(&["run-1", "scenario", "0"]));
        assert_ne!(id, TraceId::derived(&["run-1scenario", "", "0"]));
        assert_ne!(id.bytes(), GroupId::derived(&["run-1", "scenario", "0"]).bytes());
        assert_eq!(id.0.get_version_num(), 8);
    }
}
