//! What a merge leaves out of a back-up: lines of the log that are true only of the log they were written to.
//!
//! An event that a merge adds stands behind all that are here, whenever it happened. Few lines mind:
//! - A mark says that all spans before it have become traces. Here there are others before it.
//! - What an agent's lines say is what follows from all of them in their order, so that the last deployment is the one that serves.
//!   An agent that has gone on here keeps its own lines, and its own entry, which follows from them.
//!
//! Knows of these records only what is said here. Who writes them says what they mean.

use crate::backup::{BackupError, at};
use crate::dump::{Database, LogLine};
use hone_trace::EventId;
use hone_trace::store::{Event, Kind, StoreError, Write};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The stream of marks.
const MARKS: &str = "otlp.written";
/// The stream in which every line names an agent.
const AGENTS: &str = "agents";
/// Lines that are read at once.
const N_READ: u32 = 10_000;

/// What is left out of one back-up. Nothing, where it is restored into a store without events.
#[derive(Default)]
pub(crate) struct Merge {
    /// The back-up's lines that mind their place and are not here.
    absent: HashSet<EventId>,
    /// The agents that have lines here which the back-up does not have.
    own: BTreeMap<String, Own>,
}

#[derive(Default)]
struct Own {
    /// The last revision of its entry, where it can be read.
    revision: Option<u32>,
    n_left_out: u64,
}

impl Merge {
    /// Compares the log that is here with the records of a back-up.
    pub(crate) async fn of(database: &dyn Database, records: &Path) -> Result<Self, BackupError> {
        if database.info().await?.counts.events == 0 {
            return Ok(Self::default());
        }
        let mut merge = Self { absent: placed(records)?, own: BTreeMap::new() };
        for stream in [MARKS, AGENTS] {
            merge.compare(database, stream).await?;
        }
        for (agent, own) in &mut merge.own {
            own.revision = match database.document(Kind::Agent, agent).await {
                Ok(entry) => entry.map(|entry| entry.revision),
                // The back-up may put it right.
                Err(StoreError::Damaged { .. }) => None,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(merge)
    }

    async fn compare(&mut self, database: &dyn Database, stream: &str) -> Result<(), StoreError> {
        let mut after = 0;
        loop {
            let lines = database.lines(stream, after, N_READ).await?;
            let n_lines = lines.len();
            for LogLine { number, id, agent } in lines {
                after = number;
                if !self.absent.remove(&id)
                    && let Some(agent) = agent
                {
                    self.own.entry(agent).or_default();
                }
            }
            if n_lines < N_READ as usize {
                return Ok(());
            }
        }
    }

    /// Whether this record of the back-up is left out.
    pub(crate) fn leaves_out(&mut self, write: &Write) -> bool {
        let own = match write {
            Write::Event(event) if self.absent.contains(&event.id) => match event.stream.as_str() {
                MARKS => return true,
                _ => event.body["agent"].as_str().and_then(|agent| self.own.get_mut(agent)),
            },
            Write::Document(entry) if entry.kind == Kind::Agent => {
                self.own.get_mut(&entry.id).filter(|own| own.revision.is_some_and(|last| entry.revision > last))
            }
            _ => None,
        };
        own.map(|own| own.n_left_out += 1).is_some()
    }

    /// The agents of which something was left out: how many records, and what to say.
    pub(crate) fn told(&self) -> impl Iterator<Item = (u64, String)> {
        let left = self.own.iter().filter(|(_, own)| own.n_left_out > 0);
        left.map(|(agent, Own { n_left_out, .. })| {
            let told = format!(
                "agent {agent} has gone on here without what the back-up says of it: {n_left_out} of its records stay out, and it serves \
                 as before; to have it as in the back-up, restore that into a store of its own (`--folder`), or deploy the version here"
            );
            (*n_left_out, told)
        })
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
            && [MARKS, AGENTS].contains(&stream.as_str())
        {
            found.insert(id);
        }
    }
    Ok(found)
}
