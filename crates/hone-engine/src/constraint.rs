//! The seam for rules that need the meaning of tokens: grammars, stop strings, thinking budgets.
//!
//! The engine asks which ids are allowed, tells what was drawn, and does what it is told. It knows ids only.

/// What a constraint says after a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// The sequence ends here.
    Stop,
    /// These tokens follow, undrawn. They are recorded as forced, carry no loss, and are not shown to `accept`.
    Force(Vec<u32>),
}

/// A rule over one sequence.
pub trait Constraint: Send {
    /// Clears the bits of forbidden ids (bit `id % 64` of word `id / 64`; all are set on entry). Returns false when
    /// nothing was forbidden.
    fn mask(&mut self, allowed: &mut [u64]) -> bool;
    /// Takes note of a drawn token.
    fn accept(&mut self, id: u32) -> Verdict;
    /// True when it never forbids and never forces a token: then it need not be asked, and may be told of several after they are drawn.
    fn only_stops(&self) -> bool {
        false
    }
}
