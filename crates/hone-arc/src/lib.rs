//! The ARC world: a language for programs that turn grids into grids, the tasks, and how programs are verified.
//!
//! Grids and sets of cells have compact forms of their own ([`Grid`], [`Patch`]) that are plain tuples and sets to a program.
//! [`dsl`] offers the language to the interpreter, [`verify`] runs programs against [`task`]s, [`world`] lets models write
//! them, [`augment`] and [`regenerate`] make other tasks of a task, [`parts`] says which of them are held out.
//!
//! Knows nothing of models, rewards or the store, and reads no file but tasks.

pub mod augment;
mod bitmap;
pub mod comment;
pub mod dsl;
mod find;
mod grid;
pub mod measure;
mod misuse;
mod near;
mod occur;
mod paint;
pub mod parts;
mod patch;
pub mod picture;
pub mod regenerate;
mod relation;
mod reshape;
pub mod shipped;
pub mod svg;
pub mod task;
pub mod verify;
pub mod world;

pub use find::Grouping;
pub use grid::{Counts, Grid};
pub use misuse::Misuse;
pub use patch::{Extent, Kind, Patch, Place};
pub use relation::{FAR, connect, shoot};
