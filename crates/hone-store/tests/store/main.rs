//! Stores that work, that fail and that were damaged, on both databases.

mod common;

mod conformance;
mod damage;
mod faults;
mod growing;
mod merge;
mod migration;
mod postgres;
mod sqlite;
