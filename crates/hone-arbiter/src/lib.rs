//! Pure decisions: which agent answers, and whether a new version may take over.
//!
//! Everything here is a function of rows that happened and of seeded draws; the same rows in the same order give the same
//! decisions, also after the state was written down and read again. Acting on a decision and making it durable is for others.
//!
//! Knows nothing of clocks, sockets, files, SQL or the command line.

mod assignment;
pub mod canary;
mod counts;
mod features;
mod fleet;
mod hindsight;
mod linear;
pub mod log;
mod offpolicy;
mod performance;
mod sampling;
mod score;
mod sequence;
pub mod simulate;
mod thompson;

pub use assignment::{Arm, Assignment, assign};
pub use counts::{Alternative, Counts};
pub use features::{N_FEATURES, Situation};
pub use fleet::{Change, Deployment, Fleet};
pub use hindsight::hindsight;
pub use linear::{Linear, LinearError, LinearSettings};
pub use offpolicy::{Estimate, Logged, OffPolicy, OffPolicyError, off_policy};
pub use performance::{ANY_TASK, Known, Performance};
pub use sampling::{Belief, win_shares};
pub use score::{Lack, Lacking, Scores};
pub use sequence::{Sequence, e_value};
pub use thompson::{Cell, Reached, Thompson, ThompsonError, ThompsonSettings, pick, with_floor};
