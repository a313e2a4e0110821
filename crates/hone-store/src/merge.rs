//! What a merge leaves out of a back-up: lines of the log that are true only of the log they were written to.
//!
//! An event that a merge adds stands behind all that are here, whenever it happened. Few lines mind:
//! - A mark says that all spans before it have become traces. Here there are others before it.
//!
//! Knows of these lines only what is said here. Who writes them says what they mean.

use crate::backup::{BackupError, at};
use crate::dump::Database;
use hone_trace::EventId;
use hone_trace::store::{Event, Write};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The stream of marks.
const MARKS: &str = "otlp.written";
/// Lines that are read at once.
const N_READ: u32 = 10_000;

/// What is left out of one back-up. Nothing, where it is restored into a store without events.
#[derive(Default)]
pub(crate) struct Merge {
    /// The back-up's lines that mind their place and are not here.
    absent: HashSet<EventId>,
}

impl Merge {
    /// Compares the log that is here with the records of a back-up.
    pub(crate) async fn of(database: &dyn Database, records: &Path) -> Result<Self, BackupError> {
        if database.info().await?.counts.events == 0 {
            return Ok(Self::default());
        }
        let mut merge = Self { absent: placed(records)? };
        let mut after = 0;
        loop {
            let lines = database.lines(MARKS, after, N_READ).await?;
            for (number, id) in &lines {
                after = *number;
                merge.absent.remove(id);
            }
            if lines.len() < N_READ as usize {
                return Ok(merge);
            }
        }
    }

    /// Whether this record of the back-up is left out.
    pub(crate) fn leaves_out(&self, write: &Write) -> bool {
        matches!(write, Write::Event(event) if self.absent.contains(&event.id))
    }
}

/// The lines of a back-up that mind their place.
fn placed(records: &Path) -> Result<HashSet<EventId>, BackupError> {
    let mut found = HashSet::new();
    for line in BufReader::with_capacity(1 << 20, File::open(records).map_err(at(records))?).lines() {
        let line = line.map_err(at(records))?;
        // Most records are no events, and longer.
        if !line.starts_with(r#"{"event":"#) {
            continue;
        }
        // What cannot be read is named when it is to be written.
        if let Ok(Write::Event(Event { id, stream, .. })) = serde_json::from_str(&line)
            && stream == MARKS
        {
            found.insert(id);
        }
    }
    Ok(found)
}
