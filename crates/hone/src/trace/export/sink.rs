//! Where traces go: stdout, a file that appears under its name only when it is complete and durable, or a collector.

use super::collector::{Collector, Sent};
use crate::durable::{self, Draft};
use crate::failure::{Failure, at_path};
use crate::printer::Printer;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub(super) enum Sink<'a> {
    Stdout(&'a Printer),
    File { file: BufWriter<Target>, path: PathBuf },
    Collector(Box<Collector>),
}

/// What lines are written to: a device as it stands, or a file that is not in its place yet.
pub(super) enum Target {
    Device(File),
    Draft(Draft),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Device(file) => file.write(bytes),
            Self::Draft(draft) => draft.file().write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Where they went.
pub(super) enum Closed {
    Stdout,
    File(PathBuf),
    Collector(Sent),
}

impl<'a> Sink<'a> {
    pub(super) fn open(path: Option<&Path>, printer: &'a Printer) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else { return Ok(Self::Stdout(printer)) };
        if path.is_dir() {
            return Err(Failure::user(format_args!("{} is a folder", path.display())).hint("name a file in it"));
        }
        let target = match durable::is_device(path) {
            true => Target::Device(File::create(path).map_err(at_path(path))?),
            false => Target::Draft(Draft::beside(path)?),
        };
        Ok(Self::File { file: BufWriter::with_capacity(1 << 18, target), path: path.to_path_buf() })
    }

    /// Whether a person looks at the lines as they come.
    pub(super) fn is_seen(&self) -> bool {
        matches!(self, Self::Stdout(printer) if printer.out_is_terminal())
    }

    pub(super) fn line(&mut self, mut line: String) -> Result<(), Failure> {
        match self {
            Self::Stdout(printer) => printer.json_text(line),
            Self::File { file, path } => {
                line.push('\n');
                file.write_all(line.as_bytes()).map_err(at_path(path))
            }
            Self::Collector(_) => Err(Failure::bug("a collector takes no lines")),
        }
    }

    /// Makes the file durable under its own name, or sends what is left.
    pub(super) async fn close(self) -> Result<Closed, Failure> {
        let (file, path) = match self {
            Self::Stdout(_) => return Ok(Closed::Stdout),
            Self::Collector(collector) => return collector.close().await.map(Closed::Collector),
            Self::File { file, path } => (file, path),
        };
        match file.into_inner().map_err(|error| at_path(&path)(error.into_error()))? {
            Target::Device(_) => {}
            Target::Draft(draft) => draft.publish()?,
        }
        Ok(Closed::File(path))
    }
}
