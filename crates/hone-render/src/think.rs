//! A budget for thinking: at most so many tokens between `<think>` and `</think>`, and at least so many.
//!
//! At the upper end the closing text is forced. Below the lower end the closing token and the end tokens are forbidden, so
//! the model thinks on. Budget forcing (s1) also says "Wait" where the model wanted to stop. A rule sees a token only
//! after it was drawn, and a drawn `</think>` cannot be taken back; so "Wait" is said elsewhere: at ends of lines, which is
//! where a thought would have been closed, spread evenly over the least length and at most so many times.
//!
//! Tags are recognised in the text, so a model may also spell them in characters. Only the one-token form can be
//! forbidden: a least length needs a vocabulary that has it. Forced tokens count towards the budget.

use crate::error::RenderError;
use crate::mark::Rendered;
use crate::tail::Tail;
use crate::tokenizer::Tokenizer;
use hone_engine::constraint::{Constraint, Verdict};
use std::sync::Arc;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// How long a model thinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinkBudget {
    /// Most tokens; then the thought is closed.
    pub n_tokens_max: usize,
    /// Fewest tokens; before, it cannot be closed.
    pub n_tokens_min: usize,
    /// How often `wait` is said below the least length.
    pub n_waits_max: usize,
    /// What closes a thought.
    pub closing: String,
    /// What keeps it going.
    pub wait: String,
}

impl Default for ThinkBudget {
    fn default() -> Self {
        Self { n_tokens_max: 1024, n_tokens_min: 0, n_waits_max: 0, closing: "\n</think>\n\n".into(), wait: "Wait".into() }
    }
}

/// Who opens the thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// The prompt ends inside it.
    Prompt,
    /// The model, if it wants to.
    Model,
}

/// The rule over one sample.
#[derive(Debug, Clone)]
pub struct ThinkRule {
    tokenizer: Arc<Tokenizer>,
    budget: ThinkBudget,
    closing_ids: Vec<u32>,
    /// The part of the closing text behind the tag.
    after_ids: Vec<u32>,
    wait_ids: Vec<u32>,
    /// What must not be drawn below the least length.
    kept_out: Vec<u32>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Before(Tail),
    Inside { closing: Tail, n_tokens: usize, n_waits: usize },
    After,
}

impl ThinkRule {
    /// Prepares the rule for one sample.
    pub fn new(tokenizer: Arc<Tokenizer>, budget: ThinkBudget, opening: Opening) -> Result<Self, RenderError> {
        if budget.n_tokens_min > budget.n_tokens_max {
            let (min, max) = (budget.n_tokens_min, budget.n_tokens_max);
            return Err(RenderError::Rule(format!("a thought cannot have at least {min} and at most {max} tokens")));
        }
        let Some((_, after)) = budget.closing.split_once(CLOSE) else {
            return Err(RenderError::Rule(format!("the closing text {:?} does not contain {CLOSE}", budget.closing)));
        };
        let mut kept_out = Vec::new();
        if budget.n_tokens_min > 0 {
            let Some(close) = tokenizer.id_of(CLOSE) else {
                let what = format!("a least length of thoughts needs a vocabulary with {CLOSE} as one token");
                return Err(RenderError::Rule(what));
            };
            kept_out = tokenizer.eos_ids().to_vec();
            kept_out.push(close);
        }
        let after_ids = tokenizer.encode_rendered(&Rendered::trusted(after))?;
        let closing_ids = tokenizer.encode_rendered(&Rendered::trusted(budget.closing.as_str()))?;
        let wait_ids = tokenizer.encode_rendered(&Rendered::trusted(budget.wait.as_str()))?;
        let state = match opening {
            Opening::Prompt => inside(),
            Opening::Model => State::Before(Tail::new([OPEN])),
        };
        Ok(Self { tokenizer, budget, closing_ids, after_ids, wait_ids, kept_out, state })
    }

    /// Whether the model is inside a thought.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::Inside { .. })
    }

    /// The token that opens a thought, while the model may still do so.
    pub(crate) fn opening_id(&self) -> Option<u32> {
        matches!(self.state, State::Before(_)).then(|| self.tokenizer.id_of(OPEN)).flatten()
    }

    /// What stands between a thought and the answer.
    pub(crate) fn after_ids(&self) -> &[u32] {
        &self.after_ids
    }
}

fn inside() -> State {
    State::Inside { closing: Tail::new([CLOSE]), n_tokens: 0, n_waits: 0 }
}

impl Constraint for ThinkRule {
    fn mask(&mut self, allowed: &mut [u64]) -> bool {
        let State::Inside { n_tokens, .. } = self.state else { return false };
        if n_tokens >= self.budget.n_tokens_min {
            return false;
        }
        for &id in &self.kept_out {
            if let Some(word) = allowed.get_mut(id as usize / 64) {
                *word &= !(1 << (id % 64));
            }
        }
        true
    }

    fn accept(&mut self, id: u32) -> Verdict {
        let bytes = self.tokenizer.bytes(id);
        match &mut self.state {
            State::Before(opening) => {
                if opening.push(bytes) {
                    self.state = inside();
                }
                Verdict::Go
            }
            State::Inside { closing, n_tokens, n_waits } => {
                *n_tokens += 1;
                let budget = &self.budget;
                // The i-th of n waits is due after i / (n + 1) of the least length.
                let is_due = *n_tokens * (budget.n_waits_max + 1) >= budget.n_tokens_min * (*n_waits + 1);
                if closing.push(bytes) {
                    self.state = State::After;
                    Verdict::Go
                } else if *n_tokens >= budget.n_tokens_max {
                    self.state = State::After;
                    Verdict::Force(self.closing_ids.clone())
                } else if *n_waits < budget.n_waits_max && *n_tokens < budget.n_tokens_min && is_due && bytes.ends_with(b"\n") {
                    *n_waits += 1;
                    *n_tokens += self.wait_ids.len();
                    Verdict::Force(self.wait_ids.clone())
                } else {
                    Verdict::Go
                }
            }
            State::After => Verdict::Go,
        }
    }
}
