//! Our own JSONL: one [`Trace`] in its JSON form per line. Nothing is left out, and every number comes back bit for bit.
//!
//! Not here: configs. A line names its config by hash only; the record itself stays in the store it came from.

use super::{FormatError, Imported, object, origin};
use crate::Trace;

/// Reads one line.
pub(super) fn read(line: &str) -> Result<Imported, FormatError> {
    let trace: Trace = object::from_line(line)?;
    trace.check().map_err(|error| FormatError::new("", error.to_string()))?;
    for (idx, reward) in trace.rewards.iter().enumerate() {
        origin::check_reward(reward.total).map_err(|reason| FormatError::new(format!("rewards[{idx}].total"), reason))?;
    }
    Ok(Imported { traces: vec![trace], ..Imported::default() })
}

/// Writes one line.
pub(super) fn write(trace: &Trace) -> String {
    serde_json::to_string(trace).expect("a trace has string keys")
}
