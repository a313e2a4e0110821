//! What one process has at a time: a run, a loop, a name, a folder that is being written.

use crate::failure::{Failure, at_path};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

/// How long another process may look whether something is held.
const LOOK: Duration = Duration::from_millis(50);

/// Holds an open file or folder for this process alone, as long as what it returns lives; a kill lets it go too. `busy` is told where
/// another process has it.
pub(crate) fn hold(file: File, path: &Path, busy: impl FnOnce() -> Failure) -> Result<File, Failure> {
    let tried = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            // It may be held for a moment by who only looks.
            std::thread::sleep(LOOK);
            file.try_lock()
        }
        tried => tried,
    };
    match tried {
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

/// Whether a process holds this file, where it is there and can be looked at.
pub(crate) fn is_held(path: &Path) -> Option<bool> {
    match File::open(path).ok()?.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}
