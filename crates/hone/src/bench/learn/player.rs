//! Where the parts on games begin: a small player, made from nothing, that imitates somebody.
//!
//! It sees the rules and the present board, never the moves before. Knows nothing of any game.

use crate::failure::Failure;
use crate::gym::Exercise;
use crate::learner::{Learner, LearnerOptions};
use crate::r#loop::ADAM;
use hone_engine::config::TinySpec;
use hone_trace::{Message, Role, Trace};

/// Tries are scenarios of this other seed, so that none of them was imitated.
pub(super) const TRIES: u64 = 1 << 40;
/// Tokens of an answer: a move is one word, and then it ends.
pub(super) const ANSWER_TOKENS_MAX: u64 = 4;

/// About 400,000 parameters.
const SPEC: TinySpec = TinySpec { dim: 128, n_layers: 2, n_heads: 4, n_kv_heads: 4, ffn_dim: 512, vocab: 512, context_len: 96 };
/// Traces whose words it knows.
const N_CORPUS: usize = 200;
const LR: f32 = 1e-3;
/// Trained tokens of a step.
const N_TOKENS: usize = 64;

/// A player that knows the words of these traces and of this text, and does what was done in the traces.
pub(super) fn beginner(traces: &[Trace], words: String, seed: u64) -> Result<Learner, Failure> {
    let corpus: Vec<String> = traces.iter().take(N_CORPUS).map(told).chain([words]).collect();
    let options = LearnerOptions {
        adam: ADAM,
        seed,
        context_len: SPEC.context_len,
        n_concurrent: 256,
        n_threads: None,
        temperature: 1.0,
        memory: Some(0),
        now: None,
    };
    let mut learner = Learner::small("player", SPEC, &corpus, options)?;
    learner.imitate_in_steps(traces, N_TOKENS, LR, usize::MAX, |_, _| {})?;
    Ok(learner)
}

/// Every scenario once.
pub(super) fn once(name: &str) -> Exercise<'_> {
    Exercise { name, round: 0, n_samples: 1 }
}

/// All that was said, each message under its role.
fn told(trace: &Trace) -> String {
    let line = |message: &Message| {
        let role = match message.role {
            Role::System | Role::Developer => "system",
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        format!("{role}\n{}\n", message.content.text())
    };
    trace.turns().flat_map(|turn| turn.input.iter().chain([&turn.answer])).map(line).collect()
}
