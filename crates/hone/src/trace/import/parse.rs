//! Lines into records on threads of their own, in the order of the file.
//!
//! One thread cuts chunks of lines and deals them out in turn; the results are taken in the same turn, so that order
//! needs no bookkeeping. Every queue holds one chunk: memory does not grow with the file.
//! Knows nothing of the store.

use super::input::{Line, Lines};
use super::reading::{Fresh, Reading};
use crate::failure::Failure;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc;

/// A chunk ends with the line that reaches this.
const CHUNK_BYTES: u64 = 256 << 10;

/// What one line gave.
pub(super) struct Record {
    pub(super) line: u64,
    pub(super) n_bytes: u64,
    pub(super) content: Result<Fresh, String>,
}

type Chunk = io::Result<Vec<Line>>;
type Parsed = io::Result<Vec<Record>>;

/// The records of a file as they come.
pub(super) struct Records {
    /// One queue per thread, asked in turn.
    queues: Vec<mpsc::Receiver<Parsed>>,
    turn: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Records {
    /// Starts reading. There is one thread per reading: a format whose lines depend on the ones before has one.
    pub(super) fn start(lines: Lines, readings: Vec<Reading>) -> Self {
        let (mut hands, mut queues, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for reading in readings {
            let (hand, chunks) = sync_channel(1);
            let (results, queue) = mpsc::channel(1);
            hands.push(hand);
            queues.push(queue);
            threads.push(thread::spawn(move || parse(&chunks, &results, reading)));
        }
        threads.push(thread::spawn(move || deal(lines, &hands)));
        Self { queues, turn: 0, threads }
    }

    /// The next chunk of records, or `None` at the end of the file.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Record>>, Failure> {
        let parsed = match self.queues.get_mut(self.turn) {
            Some(queue) => queue.recv().await,
            None => None,
        };
        self.turn = (self.turn + 1) % self.queues.len().max(1);
        match parsed {
            Some(Ok(records)) => Ok(Some(records)),
            Some(Err(error)) => Err(Failure::world(error)),
            None => {
                // Where one thread stopped, another may still wait for room in its queue.
                self.queues.clear();
                for thread in self.threads.drain(..) {
                    thread.join().map_err(|_| Failure::bug("a thread that reads lines stopped"))?;
                }
                Ok(None)
            }
        }
    }
}

/// Deals chunks of lines to the threads in turn. Ends with the file, on an error, or when nobody listens any more.
fn deal(mut lines: Lines, hands: &[SyncSender<Chunk>]) {
    for hand in hands.iter().cycle() {
        let chunk = cut(&mut lines);
        let is_last = chunk.as_ref().map_or(true, Vec::is_empty);
        if hand.send(chunk).is_err() || is_last {
            return;
        }
    }
}

fn cut(lines: &mut Lines) -> Chunk {
    let (mut chunk, mut n_bytes) = (Vec::new(), 0);
    while n_bytes < CHUNK_BYTES
        && let Some(line) = lines.next()?
    {
        n_bytes += line.n_bytes;
        chunk.push(line);
    }
    Ok(chunk)
}

fn parse(chunks: &Receiver<Chunk>, results: &mpsc::Sender<Parsed>, mut reading: Reading) {
    let mut last_line = 0;
    while let Ok(chunk) = chunks.recv() {
        if chunk.as_ref().is_ok_and(Vec::is_empty) {
            break;
        }
        let parsed = chunk.map(|lines| {
            let record = |Line { number, n_bytes, begun, text }| {
                last_line = number;
                let content = text.and_then(|text| reading.line(number, &text));
                // The lines of a reason are counted in the entry.
                let placed = |reason: String| match begun {
                    Some(line) => format!("{reason} (it begins in line {line} of the file)"),
                    None => reason,
                };
                let content = content.map_err(placed);
                Record { line: number, n_bytes, content }
            };
            lines.into_iter().map(record).collect()
        });
        if results.blocking_send(parsed).is_err() {
            return;
        }
    }
    if let Some(content) = reading.end() {
        let _ = results.blocking_send(Ok(vec![Record { line: last_line, n_bytes: 0, content }]));
    }
}
