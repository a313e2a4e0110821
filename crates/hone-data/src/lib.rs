//! Data that is fit to learn from: private, checked against bars, balanced and split without leaks.
//!
//! [`anonymise`] takes personal data out of text and of traces; [`measure`] says how well it does that, on labelled text or on
//! the generated one of [`sample`]. [`gate`] says whether a pool may be learned from, by the [`facts`] of its traces, and
//! [`prepare`] makes a batch of what is clean; [`edits`] chooses edits of programs that are worth imitating. Everything is a pure
//! function of what it is given, and works on one trace at a time.
//!
//! Knows nothing of stores, files, HTTP or the command line.

pub mod anonymise;
pub mod edits;
pub mod facts;
pub mod gate;
pub mod measure;
pub mod prepare;
pub mod sample;
