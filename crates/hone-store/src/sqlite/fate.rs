//! What an error of SQLite means for the caller, and the one that ends the process.

use hone_trace::store::StoreError;
use rusqlite::{Error, ErrorCode, ffi};
use std::io::Write as _;

/// The error in the words of the seam.
pub(crate) fn of(error: &Error, place: &str) -> StoreError {
    if is_unreadable(error) {
        return damage(error, || place.to_owned());
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(place.to_owned()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { what: place.to_owned(), reason: error.to_string() }
        }
        _ => StoreError::Unavailable { place: place.to_owned(), reason: error.to_string() },
    }
}

/// Whether a page of the file is not what SQLite wrote there. What stands on other pages may be read.
pub(crate) fn is_corrupt(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// Whether the database gave something back that cannot have been written there.
fn is_unreadable(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::InvalidColumnType(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
    )
}

/// What is wrong with a record. Where it does not say itself which one it is, it is called this.
pub(crate) fn damage(error: &Error, what: impl FnOnce() -> String) -> StoreError {
    let Error::FromSqlConversionFailure(_, _, reason) = error else {
        return StoreError::Damaged { what: what(), reason: error.to_string() };
    };
    match reason.downcast_ref() {
        Some(StoreError::Damaged { what, reason }) => StoreError::Damaged { what: what.clone(), reason: reason.clone() },
        _ => StoreError::Damaged { what: what(), reason: reason.to_string() },
    }
}

/// A record, or an error that says which one cannot be read.
pub(crate) fn named<T>(record: rusqlite::Result<T>, what: impl FnOnce() -> String) -> rusqlite::Result<T> {
    record.map_err(|error| if is_unreadable(&error) { super::read::damaged(0, damage(&error, what)) } else { error })
}

/// Ends the process if a sync failed: the kernel may have dropped what it could not write, so that a
/// second sync would succeed without the data being there.
pub(crate) fn end_on_failed_sync(error: &Error, place: &str) {
    let code = error.sqlite_error().map(|error| error.extended_code);
    if matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)) {
        let _ = writeln!(std::io::stderr(), "error: {place} could not be synced to disk ({error}); hone ends here");
        std::process::abort();
    }
}
