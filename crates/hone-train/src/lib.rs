//! Training: scored episodes in, gradients and new weights out.
//!
//! The way of a group: [`advantage`] turns its rewards into advantages, [`episode`] finds the trained tokens of its traces,
//! [`batch`] packs them with their prompts shared ([`groups`] does these three at once), and [`mod@step`] moves the weights
//! under a [`loss`]. [`critic`] judges episodes without a group; [`sft`] picks what is worth imitating; [`stop`] says when a
//! run has reached its end, and why. All sums have a fixed order, so the same input gives the same bits.
//!
//! Knows nothing of environments, chat templates, files, clocks, SQL or HTTP.

pub mod advantage;
pub mod batch;
pub mod critic;
pub mod episode;
mod error;
pub mod groups;
pub mod loss;
pub mod settings;
pub mod sft;
pub mod step;
pub mod stop;
#[cfg(test)]
mod testing;

pub use error::TrainError;
