//! Alarms and minimal diffs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod alarm;
mod diff;
