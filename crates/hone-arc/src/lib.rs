//! The ARC world: a language for programs that turn grids into grids, the tasks, and how programs are verified.
//!
//! Grids and sets of cells have compact forms of their own ([`Grid`], [`Patch`]) that are plain tuples and sets to a program.
//! [`dsl`] offers the language to the interpreter, [`verify`] runs programs against [`task`]s, [`world`] lets models write
//! them, [`augment`] makes other tasks of a task.
//!
//! Knows nothing of models, rewards or the store, and reads no file but tasks.

pub mod augment;
mod bitmap;
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
