//! The engine of hone: token ids in; log-probabilities, token ids and gradients out.
//!
//! One decoder family described by data ([`config`]), read from GGUF or safetensors ([`load`]), computed by a backend
//! ([`backend`]: the readable [`reference`], the fast [`cpu`], one
//! GPU by [`cuda`], either by [`machine`]). The forward and backward pass are written once over it
//! ([`forward`], [`backward`]). [`host`] owns a model and lets others sample ([`batch`]) and train ([`trainer`]) with it.
//!
//! Five promises: what is sampled is what is trained, to the bit; the same seed gives the same bits; sampled ids are
//! never tokenized again; the prompt of a group is computed once; logits are never whole.
//!
//! Knows nothing of what tokens mean, of SQL or of HTTP.

pub mod backend;
pub mod backward;
pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod constraint;
pub mod cpu;
pub mod cuda;
pub mod error;
pub mod forward;
pub mod gguf;
pub mod host;
pub mod kv;
pub mod layout;
pub mod load;
pub mod lora;
pub mod machine;
pub mod mapped;
pub mod memory;
pub mod model;
pub mod optim;
pub mod param;
pub mod peft;
pub mod quant;
pub mod random;
pub mod reference;
pub mod safetensors;
pub mod sampler;
pub mod shapes;
pub mod tape;
pub mod trainer;
