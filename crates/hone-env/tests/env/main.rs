//! Worlds as policies see them, and the driver that plays them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod code;
mod curriculum;
mod desk;
mod external;
mod games;
mod inbox;
mod math;
mod replay;
mod rollout;
