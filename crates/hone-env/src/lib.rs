//! Worlds, the driver that plays them, and the curriculum.
//!
//! A world gives scenarios and plays episodes; see [`hone_trace::env`] for the seam. [`rollout`] plays many episodes at
//! once and makes a trace of each. A bad episode is data: a tool that fails or an answer that cannot be read is recorded on
//! its trace, and the others go on.
//!
//! Knows nothing of models, rewards or the store.

mod action;
mod player;
pub mod rollout;

pub use action::{Call, call, calls, said, tool_result, unparsable};
pub use player::{Player, Scripted};
