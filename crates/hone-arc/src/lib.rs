//! The ARC world: a language for programs that turn grids into grids, its tasks, and how programs are verified.

mod misuse;
mod find;
mod grid;
mod paint;
mod patch;
mod relation;
mod reshape;
pub mod task;


pub use find::Grouping;
pub use grid::{Counts, Grid};
pub use patch::{Extent, Kind, Patch, Place};
pub use relation::{FAR, connect, shoot};
