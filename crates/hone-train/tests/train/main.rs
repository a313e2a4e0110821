//! Every method, on a toy and against other trainers.

mod learning;
mod parity;
