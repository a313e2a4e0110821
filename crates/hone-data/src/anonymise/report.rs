//! What was replaced, by kind.

use super::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How often, by kind.
    pub replaced: BTreeMap<Kind, u64>,
    /// Traces in which something was.
    pub traces: u64,
    /// Turns that lost their sampled tokens, because those still spelled what the text no longer says.
    pub turns_without_tokens: u64,
}

impl Report {
    pub(super) fn count(&mut self, kind: Kind) {
        *self.replaced.entry(kind).or_default() += 1;
    }

    /// How often anything was.
    pub fn total(&self) -> u64 {
        self.replaced.values().sum()
    }
}
