//! What is anonymised, in texts and in traces.

mod anonymise;
mod presidio;
mod trace;
