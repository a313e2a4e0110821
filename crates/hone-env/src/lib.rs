//! Worlds, the driver that plays them, and the curriculum.
//!
//! A world gives scenarios and plays episodes; see [`hone_trace::env`] for the seam. [`rollout`] plays many episodes at
//! once and makes a trace of each. A bad episode is data: a tool that fails or an answer that cannot be read is recorded on
//! its trace, and the others go on.
//!
//! Knows nothing of models, rewards or the store.

mod action;
pub mod code;
pub mod curriculum;
pub mod desk;
mod dialect;
pub mod external;
pub mod inbox;
pub mod math;
mod player;
pub mod replay;
pub mod rollout;
pub mod tictactoe;
pub mod twenty48;
mod word;

pub use action::{Call, call, calls, said, tool_result, unparsable};
pub use dialect::Dialect;
pub use player::{Player, Script, Scripted};
