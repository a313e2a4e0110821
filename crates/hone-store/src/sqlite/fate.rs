//! What an error of SQLite means for the caller, and the one that ends the process.

use hone_trace::store::StoreError;
use rusqlite::{ErrorCode, ffi};
use std::io::Write as _;

/// The error in the words of the seam.
pub(crate) fn of(error: &rusqlite::Error, place: &str) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(place.to_owned()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { what: place.to_owned(), reason: error.to_string() }
        }
        _ => StoreError::Unavailable { place: place.to_owned(), reason: error.to_string() },
    }
}

/// Ends the process if a sync failed: the kernel may have dropped what it could not write, so that a
/// second sync would succeed without the data being there.
pub(crate) fn end_on_failed_sync(error: &rusqlite::Error, place: &str) {
    let code = error.sqlite_error().map(|error| error.extended_code);
    if matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)) {
        let _ = writeln!(std::io::stderr(), "error: {place} could not be synced to disk ({error}); hone ends here");
        std::process::abort();
    }
}
