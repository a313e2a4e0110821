//! What one process has at a time: a run, a loop, a name, a folder that is being written.

use crate::failure::{Failure, at_path};
use std::fs::{File, TryLockError};
use std::path::Path;

/// Holds an open file or folder for this process alone, as long as what it returns lives; a kill lets it go too. `busy` is told where
/// another process has it.
pub(crate) fn hold(file: File, path: &Path, busy: impl FnOnce() -> Failure) -> Result<File, Failure> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(busy()),
        Err(TryLockError::Error(error)) => Err(at_path(path)(error)),
    }
}

/// The same of a file that says nothing but who has it, and is made where it is not there.
pub(crate) fn hold_at(path: &Path, busy: impl FnOnce() -> Failure) -> Result<File, Failure> {
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(at_path(path))?;
    hold(file, path, busy)
}
