//! Statistics over traces: many episodes in, one report out.
//!
//! Knows nothing of IO, worlds or training.

pub mod interval;
mod measures;

pub use measures::{Episode, Measures};
