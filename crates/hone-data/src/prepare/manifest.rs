//! What a batch says of itself: from what it was made, by which settings, and what its files are. The same inputs, settings and key
//! give the same manifest, byte for byte: it knows no time and no place.

use super::Plan;
use crate::anonymise::Report;
use crate::gate::{Bars, Purpose};
use hone_trace::V1;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a batch says of itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of this record.
    pub v: V1,
    /// What was asked for.
    pub plan: Plan,
    /// What a trace had to be.
    pub rules: Rules,
    /// What tells the key of the pseudonyms from others.
    pub key: String,
    /// Traces that were looked at.
    pub seen: u64,
    /// Those that were left out, by why.
    pub left_out: BTreeMap<String, u64>,
    /// The hash of the traces that were taken, as they were.
    pub input: String,
    /// The batch by type of task and how hard it was.
    pub tasks: BTreeMap<String, BTreeMap<&'static str, u64>>,
    /// What was replaced in it.
    pub anonymised: Report,
    /// Its files.
    pub outputs: Vec<Output>,
}

/// What a trace of a batch had to be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rules {
    /// What the batch is for.
    pub purpose: Purpose,
    /// The fewest traces.
    pub points: u64,
    /// The reward from which a trace counts, for imitation.
    pub quality: f64,
    /// Two answers to one scenario that are more alike than this are one.
    pub likeness: f64,
}

impl Rules {
    /// Those of the bars that are asked of a single trace, and how many there must be.
    pub fn of(bars: &Bars) -> Self {
        let Bars { purpose, points, quality, likeness, .. } = *bars;
        Self { purpose, points, quality, likeness }
    }
}

/// A file of a batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Output {
    /// Its name.
    pub file: String,
    /// How many traces it holds, one per line.
    pub traces: u64,
    /// How long it is.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub hash: String,
}

/// The hash of bytes that come one after the other.
#[derive(Debug, Clone, Default)]
pub struct Digest(blake3::Hasher);

impl Digest {
    /// Adds these.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash so far, in hexadecimal.
    pub fn hex(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
