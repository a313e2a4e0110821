//! Messages to tokens and back: what a conversation looks like to a model, and what the model said.
//!
//! A [`Tokenizer`] is read from the files of a model, or built small from a corpus ([`tiny`]). With the model's chat template
//! ([`template`]) and its way of calling tools ([`tools`]) it makes a [`Renderer`], the one thing that others hold. An
//! [`Episode`] keeps the ids of a conversation: prompts are rendered, sampled ids are kept, and only what is new is ever
//! tokenized. [`Rules`] over tokens (stop strings, thinking budgets, grammars) plug into the engine's sampler.
//!
//! Two promises: no message can forge a special token, and no id that was sampled is made again from text.
//!
//! Knows nothing of devices, files, clocks, SQL or HTTP: bytes and times arrive as arguments.

mod answer;
mod bare;
mod budget;
mod compiled;
mod episode;
mod error;
mod gguf;
mod guard;
mod json;
mod known;
mod mark;
mod pattern;
mod renderer;
mod rules;
pub mod schema;
mod special;
mod spelling;
pub mod stop;
mod stream;
mod strftime;
mod tail;
pub mod template;
pub mod think;
pub mod tiny;
mod tokenizer;
pub mod tools;

pub use episode::{Episode, EpisodeSegment, Extension};
pub use error::RenderError;
pub use mark::Rendered;
pub use renderer::{Ending, Renderer, Setting};
pub use rules::Rules;
pub use stream::TextStream;
pub use tokenizer::{JSON_LEN_MAX, Tokenizer};
