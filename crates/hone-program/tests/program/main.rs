//! Programs that people wrote, that nobody would write, and that mean harm.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and one that skips or measures says so"
)]

mod random;
mod reference;

mod behaviour;
mod corpora;
mod differential;
mod hostile;
mod mutated;
mod seam;
