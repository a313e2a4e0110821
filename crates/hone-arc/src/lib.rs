//! The ARC world: a language for programs that turn grids into grids, its tasks, and how programs are verified.

pub mod augment;
pub mod dsl;
mod find;
mod grid;
mod misuse;
mod paint;
mod patch;
pub mod picture;
mod relation;
mod reshape;
pub mod shipped;
pub mod task;
pub mod verify;
pub mod world;

pub use find::Grouping;
pub use grid::{Counts, Grid};
pub use misuse::Misuse;
pub use patch::{Extent, Kind, Patch, Place};
pub use relation::{FAR, connect, shoot};
