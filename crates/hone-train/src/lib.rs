//! Training: scored episodes in, gradients and new weights out.
//!
//! The way of a group: [`advantage`] turns its rewards into advantages, [`episode`] finds the trained tokens of its
//! traces, [`batch`] packs them with their prompts shared ([`groups`] does these three at once), and [`step`] moves the weights under a [`loss`]. [`sft`] picks
//! what is worth imitating. Everything but the step is a pure function, and all sums have a fixed order.
//!
//! Knows nothing of environments, chat templates, files, clocks, SQL or HTTP.

pub mod advantage;
pub mod batch;
mod error;
pub mod episode;
pub mod groups;
pub mod loss;
pub mod sft;
pub mod step;
#[cfg(test)]
mod testing;

pub use error::TrainError;
