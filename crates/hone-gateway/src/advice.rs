//! Advice on what is on the record, as `hone advise` and the dashboard both give it: a look at the episodes, what was proposed because of it,
//! and what became of that.
//!
//! Looking writes nothing. [`keep`] writes down what was found, [`answer`] what somebody decided, and [`take`] makes a proposed config a version
//! of its agent: the canary that hands traffic over has the last word. What is damaged is passed by and counted.
//!
//! Knows nothing of pages and of terminals.

mod answer;
mod look;
mod record;

pub use answer::{AnswerError, Step, TakeError, answer, steps, take};
pub use look::{Advised, Asked, Look, LookError, Seen, Serving, Used, look, serving};
pub use record::{Given, Kept, all, keep, keep_one, kept, proposed};
