//! The gateway over HTTP: a real server, a real store, and upstreams that speak the wire formats of providers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod sample;
mod tiny;
mod upstream;
mod world;

mod access;
mod advice;
mod agents;
mod answers;
mod anthropic;
mod browser;
mod choices;
mod completions;
mod dashboard;
mod faults;
mod keys;
mod logs;
mod records;
mod responses;
mod safety;
mod spans;
mod tls;
