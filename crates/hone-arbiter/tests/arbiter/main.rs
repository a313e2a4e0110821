//! Canaries, and estimates from logs.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on should stop, and one that skips or measures says so"
)]

mod canary;
mod open_bandit;
