//! The only HTTP server of hone: it answers in OpenAI's and Anthropic's words, and keeps what was said, here or in spans of elsewhere.
//!
//! A request is read from its wire format into words ([`openai`], [`responses`], [`completions`], [`anthropic`]), finds who answers in the
//! [`catalogue`], and joins an episode of the [`record`]. The end of the answer is sent only after the call is durable. Nothing waits
//! without a limit: connections, requests, bodies and open episodes each have one, and who comes too many is told so at once.
//!
//! Knows nothing of files, environment variables or training: keys, clocks, the store and who answers arrive as arguments.

mod access;
pub mod advice;
mod agents;
mod anthropic;
mod ask;
mod backlog;
mod catalogue;
mod choices;
mod completions;
mod count;
pub(crate) mod dashboard;
pub mod demonstrations;
pub mod documents;
mod embedding;
mod episode;
mod error;
mod events;
mod feedback;
mod follow;
pub mod gates;
mod health;
pub mod keys;
mod local;
mod lookout;
mod metrics;
mod openai;
mod openapi;
mod origin;
mod otlp;
mod paths;
mod question;
mod rate;
mod record;
pub mod registry;
mod responses;
mod route;
mod server;
mod status;
mod task;
mod tls;

pub use access::{Access, AccessError, Identity, Role, Token};
pub use agents::{Adapters, NoVoice, Route, RouteBy, VoiceMade};
pub use catalogue::{Catalogue, CatalogueError, Model, Who};
pub use dashboard::{Dashboard, Setting};
pub use error::Refused;
pub use local::Local;
pub use lookout::STREAM;
pub use metrics::Metrics;
pub use record::{AGENT, episodes_called};
pub use server::{Gateway, Limits, Setup, serve};
pub use task::TaskRule;
pub use tls::{Tls, TlsError};
