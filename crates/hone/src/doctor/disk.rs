//! The disk under the store: is there room, and how long does it take until a write is durable.

use super::{Finding, Verdict, size};
use crate::settings::Settings;
use hone_store::Place;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How many writes are measured.
const N_WRITES: usize = 50;
/// Each as large as a page of a database.
const WRITE_BYTES: usize = 4096;
/// Below this room is scarce.
const ROOM: u64 = 1 << 30;

pub(super) fn look(settings: &Settings) -> Finding {
    // The folder is made by the first write; before that, the disk is the one of the nearest folder above.
    let existing = settings.folder.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let finding = match (room(existing), fsyncs(existing)) {
        (Ok(free), Ok(took)) => describe(free, &took),
        (Err(error), _) | (_, Err(error)) => {
            Finding::new("disk", Verdict::Missing, format!("{} cannot be written to: {error}", existing.display()))
        }
    };
    let finding = finding.fact("folder", existing.display().to_string());
    match settings.place {
        Place::Folder(_) => finding.needed(),
        Place::Postgres(_) => finding,
    }
}

fn room(folder: &Path) -> std::io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// How long each of a few small writes took to become durable, shortest first. The file has no name and is gone at the end.
fn fsyncs(folder: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut took = Vec::with_capacity(N_WRITES);
    for n in 0..N_WRITES {
        file.seek(std::io::SeekFrom::Start((n * WRITE_BYTES) as u64))?;
        file.write_all(&[n as u8; WRITE_BYTES])?;
        let start = Instant::now();
        file.sync_data()?;
        took.push(start.elapsed());
    }
    took.sort_unstable();
    Ok(took)
}

fn describe(free: u64, took: &[Duration]) -> Finding {
    let millis = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    let (p50, p99) = (millis(50), millis(99));
    let mut says = format!("{} free; a write is durable after {p50:.1} ms (median; p99 {p99:.1} ms)", size(free));
    let verdict = if free < ROOM || p50 > 20.0 { Verdict::Ok } else { Verdict::Good };
    if free < ROOM {
        says += ": not much room for traces";
    } else if p50 > 20.0 {
        says += ": slow for single writes, while imports write a thousand at once";
    }
    Finding::new("disk", verdict, says).fact("free_bytes", free).fact("fsync_p50_ms", p50).fact("fsync_p99_ms", p99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_or_full_disk_will_do() {
        let took = |millis: u64| -> Vec<Duration> {
            (0..50).map(|n| Duration::from_millis(millis) + Duration::from_micros(n)).collect()
        };
        assert_eq!(describe(1 << 40, &took(1)).verdict, Verdict::Good);
        assert_eq!(describe(1 << 20, &took(1)).verdict, Verdict::Ok);
        assert_eq!(describe(1 << 40, &took(80)).verdict, Verdict::Ok);
    }

    #[test]
    fn measuring_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(fsyncs(folder.path()).unwrap().len(), N_WRITES);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
