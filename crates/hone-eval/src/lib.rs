//! Statistics over traces: many episodes in, one report out.
//!
//! Knows nothing of IO, worlds or training.

pub mod interval;
mod measures;
mod pass;
mod thrift;

pub use measures::{Episode, Measures};
pub use pass::pass_at;
pub use thrift::{Spent, Thrift};
