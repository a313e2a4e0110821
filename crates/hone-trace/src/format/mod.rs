//! Traces in and out: our own JSONL and the formats that other tools write, one file per format.
//!
//! Everything here is pure: a line of text in, records out, and back. A foreign record keeps what has no
//! word of ours in the `extra` maps and in `metadata`, so that writing it again gives it back. Keys that
//! begin with `hone.` in those maps are notes of this module (such as the legacy form of a tool call);
//! they are never written to a foreign format, and a foreign key of that prefix is lost on export.
//!
//! | format | one line is | ids come from |
//! |---|---|---|
//! | [`hone`] | one [`Trace`] | the line |
//! | [`openai`] | one conversation | its content |
//! | [`art`] | a trajectory, or a group of them | their content |
//! | [`otlp`] | an export request with spans of any conversations | the conversation and its spans |
//!
//! Knows nothing of files: the caller cuts lines, counts them, and decides what a refused line means.

mod analysis;
pub mod art;
mod blocks;
mod chat;
mod error;
pub mod hone;
mod loss;
mod object;
pub mod openai;
mod origin;
pub mod otlp;

pub use error::FormatError;
pub use loss::left_out;
pub use origin::Origin;

use crate::store::RECORD_BYTES_MAX;
use crate::{Config, Group, Trace};
use origin::Registrar;
use serde_json::Value;
use std::{fmt, str::FromStr};

/// The longest list of messages, tools or spans in one trace.
pub const LIST_LEN_MAX: usize = 100_000;

/// How deep a foreign document may nest: what it holds is stored a few levels deeper, and must be readable there.
pub const DEPTH_MAX: usize = 64;

/// Whether a key of `metadata` or of an `extra` map is a note of this module, which says nothing to people.
pub fn is_note(key: &str) -> bool {
    key.starts_with("hone.")
}

/// A form in which traces travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own JSONL, which leaves out nothing.
    Hone,
    /// OpenAI chat JSONL.
    Openai,
    /// ART trajectories and trajectory groups.
    Art,
    /// OTLP/JSON spans with GenAI or OpenInference attributes.
    Otlp,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Hone, Self::Openai, Self::Art, Self::Otlp];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hone => "hone",
            Self::Openai => "openai",
            Self::Art => "art",
            Self::Otlp => "otlp",
        }
    }

    /// The format of a file that begins with this line, if one of its top-level keys gives it away.
    /// The line may be cut short: what comes before the cut counts.
    pub fn detect(first_line: &str) -> Option<Self> {
        analysis::top_level_keys(first_line).find_map(|key| match key {
            "segments" => Some(Self::Hone),
            "messages" => Some(Self::Openai),
            "messages_and_choices" | "trajectories" => Some(Self::Art),
            "resourceSpans" | "resourceLogs" => Some(Self::Otlp),
            key if openai::is_key(key) => Some(Self::Openai),
            _ => None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| FormatError::new("", format!("`{text}` is not a format: hone, openai, art or otlp")))
    }
}

/// What a line gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// The traces, each of which has passed [`Trace::check`].
    pub traces: Vec<Trace>,
    /// The groups that these traces belong to.
    pub groups: Vec<Group>,
    /// The configs of these traces, but for one that came with the line before.
    pub configs: Vec<Config>,
    /// Conversations that could not become a trace (OTLP only: other formats refuse the whole line).
    pub refused: Vec<FormatError>,
    /// Spans of conversations in which no model and no tool took part (OTLP only): they are not kept.
    pub n_spans_skipped: u64,
    /// Log records that tell of a call whose trace has no span here (OTLP only): they are not kept.
    pub n_records_skipped: u64,
}

/// Reads lines of one format. It counts repeated content, so that equal lines become different traces
/// and the same file always gives the same ids.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    registrar: Registrar,
}

impl Reader {
    /// A reader at the start of a file.
    pub fn new(format: Format, origin: Origin) -> Self {
        Self { format, registrar: Registrar::new(origin) }
    }

    /// Reads the next line. Of an OTLP file this sees only the conversations inside the line:
    /// for those that spread over several lines use [`otlp::Assembler`].
    pub fn line(&mut self, line: &str) -> Result<Imported, FormatError> {
        check_line(self.format, line)?;
        match self.format {
            Format::Hone => hone::read(line),
            Format::Openai => openai::read(line, &mut self.registrar),
            Format::Art => art::read(line, &mut self.registrar),
            Format::Otlp => otlp::read(line, &mut self.registrar),
        }
    }
}

/// Refuses what would cost too much to read, or could not be stored.
fn check_line(format: Format, line: &str) -> Result<(), FormatError> {
    check_len(line)?;
    if format == Format::Hone { Ok(()) } else { check_depth(line) }
}

fn check_len(line: &str) -> Result<(), FormatError> {
    if line.len() > RECORD_BYTES_MAX {
        let reason = format!("the line has {} bytes; a record has at most {RECORD_BYTES_MAX}", line.len());
        return Err(FormatError::new("", reason));
    }
    Ok(())
}

/// Refuses a foreign document that nests deeper than what is kept of it could be read back.
pub fn check_depth(document: &str) -> Result<(), FormatError> {
    if analysis::depth(document) > DEPTH_MAX { Err(too_deep("")) } else { Ok(()) }
}

/// Whether a value nests deeper than a foreign document may.
pub fn is_too_deep(value: &Value) -> bool {
    analysis::is_deeper(value, DEPTH_MAX)
}

fn too_deep(path: impl Into<String>) -> FormatError {
    FormatError::new(path, format!("lists and objects are nested deeper than {DEPTH_MAX} levels"))
}

/// The trace as one line of this format, without the line break. [`left_out`] says what is lost.
pub fn write(trace: &Trace, format: Format) -> String {
    match format {
        Format::Hone => hone::write(trace),
        Format::Openai => openai::write(trace),
        Format::Art => art::write(trace),
        Format::Otlp => otlp::write(trace),
    }
}
