//! Policies behind one trait: the local engine, upstream providers, scripts.
//!
//! All of them answer conversations; see [`hone_trace::policy`] for the seam. [`local`] samples from weights in this
//! process and tells every token. [`upstream`] asks a provider over HTTP, pays for it, and trusts nothing that it says.
//! [`script`] says what it was told to say.
//!
//! Knows nothing of worlds, rewards, files, environment variables or SQL: keys, clocks and weights arrive as arguments.

pub mod local;
pub mod script;
pub mod upstream;
