//! Moves what is in the write-ahead log into the database file, beside the writer and not in its way.
//!
//! A log under steady load never runs empty by itself: while its frames are copied, new ones arrive. So a
//! thread of its own copies the bulk, and then the writer copies the small rest between two commits, after
//! which the log starts again from its beginning.

use super::fate;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// How much the log holds before it is copied.
const LOG_BYTES_MAX: usize = 8 << 20;

/// How many passes the thread makes before it leaves the rest to the writer.
const PASSES_MAX: u32 = 5;
/// How many frames, of a page each, are little enough to be left to the writer.
const REST_FRAMES_MAX: i64 = 512;

const IDLE: u8 = 0;
const COPYING: u8 = 1;
const COPIED: u8 = 2;

pub(crate) struct Checkpointer {
    bytes: usize,
    state: Arc<AtomicU8>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(connection: Connection, place: String) -> Self {
        let state = Arc::new(AtomicU8::new(IDLE));
        let (wake, calls) = sync_channel::<()>(1);
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("hone-checkpoint".to_owned())
            .spawn(move || {
                while calls.recv().is_ok() {
                    if let Err(error) = copy_most(&connection) {
                        fate::end_on_failed_sync(&error, &place);
                    }
                    shared.store(COPIED, Ordering::Release);
                }
            })
            .expect("the system can start a thread");
        Self { bytes: 0, state, wake: Some(wake), thread: Some(thread) }
    }

    /// Told by the writer after each commit, with about how much it wrote.
    pub(crate) fn after_commit(&mut self, writer: &Connection, bytes: usize) -> rusqlite::Result<()> {
        self.bytes += bytes;
        match self.state.load(Ordering::Acquire) {
            IDLE if self.bytes >= LOG_BYTES_MAX => {
                self.bytes = 0;
                self.state.store(COPYING, Ordering::Release);
                if let Some(wake) = &self.wake {
                    let _ = wake.try_send(());
                }
            }
            COPIED => {
                copy(writer)?;
                self.state.store(IDLE, Ordering::Release);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies until little is left: while one pass runs, the writer adds what the next one copies.
fn copy_most(connection: &Connection) -> rusqlite::Result<()> {
    let mut n_copied = 0;
    for _ in 0..PASSES_MAX {
        let n_before = std::mem::replace(&mut n_copied, copy(connection)?);
        if n_copied - n_before < REST_FRAMES_MAX {
            break;
        }
    }
    Ok(())
}

/// Copies what is in the log at this moment, and says how many of its frames are copied by now.
fn copy(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))
}
