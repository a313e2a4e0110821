//! The engine's promises, on every backend that this machine has.

#![expect(clippy::print_stderr, reason = "a test that skips says so")]

mod operations;
mod rule;

mod ahead;
mod cuda;
mod files;
mod gradients;
mod guesses;
mod host;
mod kernels;
mod onpolicy;
mod parity;
mod smollm2;
