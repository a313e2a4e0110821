//! Advice: in which ways episodes fail, and which config would do better.
//!
//! Traces in, clusters of failures and comparisons of configs out. Advice is a proposal with its evidence: whether it holds is said by
//! the canary that hands traffic over.
//!
//! Knows nothing of the store, of HTTP and of who takes the advice.

mod compare;
mod diff;
mod failures;
mod recommend;
mod row;
mod sign;
pub mod simulate;
mod told;
mod words;

pub use compare::{Compared, Difference, Equal, N_TASKS_MIN, Unlike, compare};
pub use diff::{ConfigChange, changes};
pub use failures::{Cluster, Failures};
pub use recommend::{Advice, Candidate, MARGIN, Proposal, Scope, Verdict, advise, is_script};
pub use row::{Row, quality};
pub use told::{Counts, aim, described, percent, reached, short};
