//! Several rules over one sample, in the order in which they make sense.
//!
//! While the model thinks, only the budget for thinking holds; afterwards the answer follows its grammar, and stop strings
//! end it. A model that opens its thought itself may do so with its first token, whatever the grammar says; after its own
//! closing, what stands between thought and answer is forced, so that a grammar begins at the answer.
//! A request takes one rule per sample: this is that one.

use crate::schema::GrammarRule;
use crate::stop::StopStrings;
use crate::think::ThinkRule;
use hone_engine::constraint::{Constraint, Verdict};

/// The rules over one sample; what is `None` does not hold.
#[derive(Default)]
pub struct Rules {
    think: Option<ThinkRule>,
    grammar: Option<GrammarRule>,
    stop: Option<StopStrings>,
    is_begun: bool,
}

impl Rules {
    /// How long it thinks, what its answer looks like, and what ends it.
    pub fn new(think: Option<ThinkRule>, grammar: Option<GrammarRule>, stop: Option<StopStrings>) -> Self {
        Self { think, grammar, stop, is_begun: false }
    }

    /// Whether nothing holds: a sample without rules may be drawn on a device, many tokens at a time.
    pub fn is_free(&self) -> bool {
        self.think.is_none() && self.grammar.is_none() && self.stop.is_none()
    }

    /// Whether what may be said is laid down.
    pub fn has_grammar(&self) -> bool {
        self.grammar.is_some()
    }

    /// Why the grammar cannot be followed any further, when it cannot.
    pub fn error(&self) -> Option<String> {
        self.grammar.as_ref().and_then(GrammarRule::error)
    }

    fn is_thinking(&self) -> bool {
        self.think.as_ref().is_some_and(ThinkRule::is_thinking)
    }
}

impl Constraint for Rules {
    fn mask(&mut self, allowed: &mut [u64]) -> bool {
        let opening = self.think.as_ref().filter(|_| !self.is_begun).and_then(ThinkRule::opening_id);
        match (&mut self.think, &mut self.grammar) {
            (Some(think), _) if think.is_thinking() => think.mask(allowed),
            (_, Some(grammar)) => {
                let is_masked = grammar.mask(allowed);
                if let Some(id) = opening
                    && let Some(word) = allowed.get_mut(id as usize / 64)
                {
                    *word |= 1 << (id % 64);
                }
                is_masked
            }
            _ => false,
        }
    }

    fn only_stops(&self) -> bool {
        self.think.is_none() && self.grammar.is_none()
    }

    fn accept(&mut self, id: u32) -> Verdict {
        self.is_begun = true;
        let was_thinking = self.is_thinking();
        if let Some(think) = &mut self.think {
            let verdict = think.accept(id);
            let is_closed_by_model = was_thinking && !think.is_thinking() && verdict == Verdict::Go;
            if is_closed_by_model && self.grammar.is_some() && !think.after_ids().is_empty() {
                return Verdict::Force(think.after_ids().to_vec());
            }
            if was_thinking || think.is_thinking() {
                return verdict;
            }
        }
        if self.stop.as_mut().is_some_and(|stop| stop.accept(id) == Verdict::Stop) {
            return Verdict::Stop;
        }
        self.grammar.as_mut().map_or(Verdict::Go, |grammar| grammar.accept(id))
    }
}
