//! The grid language on worked examples, random values and hostile programs; its world on the real tasks.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and one that skips or measures says so"
)]

mod examples;
mod laws;
mod more_tasks;
mod mutated;
mod reasons;
mod solvers;
mod world;
