//! A rule that does all that rules may do.

use hone_engine::constraint::{Constraint, Verdict};

/// Forbids what it saw last, forces two tokens after every so many, and ends in time.
pub(crate) struct Rule {
    last: Option<u32>,
    n_between: usize,
    n: usize,
}

impl Rule {
    /// Forbids this one first, if any.
    pub(crate) fn boxed(last: Option<u32>, n_between: usize) -> Box<dyn Constraint> {
        Box::new(Self { last, n_between, n: 0 })
    }
}

impl Constraint for Rule {
    fn mask(&mut self, allowed: &mut [u64]) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        allowed[last as usize / 64] &= !(1 << (last % 64));
        true
    }

    fn accept(&mut self, id: u32) -> Verdict {
        (self.last, self.n) = (Some(id), self.n + 1);
        match self.n {
            n if n.is_multiple_of(self.n_between) => Verdict::Force(vec![7, 9]),
            41 => Verdict::Stop,
            _ => Verdict::Go,
        }
    }
}
