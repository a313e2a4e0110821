//! Where traces go: stdout, a file that appears under its name only when it is complete and durable, or a collector.

use super::collector::{Collector, Sent};
use crate::durable;
use crate::failure::{Failure, at_path};
use crate::printer::Printer;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub(super) enum Sink<'a> {
    Stdout(&'a Printer),
    File { file: BufWriter<File>, partial: PathBuf, path: PathBuf },
    Collector(Box<Collector>),
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
        let mut partial = path.as_os_str().to_owned();
        if !durable::is_device(path) {
            partial.push(".partial");
        }
        let partial = PathBuf::from(partial);
        let file = BufWriter::with_capacity(1 << 18, File::create(&partial).map_err(at_path(&partial))?);
        Ok(Self::File { file, partial, path: path.to_path_buf() })
    }

    /// Whether a person looks at the lines as they come.
    pub(super) fn is_seen(&self) -> bool {
        matches!(self, Self::Stdout(printer) if printer.out_is_terminal())
    }

    pub(super) fn line(&mut self, mut line: String) -> Result<(), Failure> {
        match self {
            Self::Stdout(printer) => printer.json_text(line),
            Self::File { file, partial, .. } => {
                line.push('\n');
                file.write_all(line.as_bytes()).map_err(at_path(partial))
            }
            Self::Collector(_) => Err(Failure::bug("a collector takes no lines")),
        }
    }

    /// Makes the file durable under its own name, or sends what is left.
    pub(super) async fn close(self) -> Result<Closed, Failure> {
        let (file, partial, path) = match self {
            Self::Stdout(_) => return Ok(Closed::Stdout),
            Self::Collector(collector) => return collector.close().await.map(Closed::Collector),
            Self::File { file, partial, path } => (file, partial, path),
        };
        let file = file.into_inner().map_err(|error| at_path(&partial)(error.into_error()))?;
        if partial != path {
            file.sync_all().map_err(at_path(&partial))?;
            fs::rename(&partial, &path).map_err(at_path(&path))?;
            durable::name(&path)?;
        }
        Ok(Closed::File(path))
    }
}
