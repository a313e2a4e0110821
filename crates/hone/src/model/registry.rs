//! The models that were added: one folder each under `.hone/models`, with a record of where the weights are.

use crate::failure::{Failure, at_path};
use crate::held;
use crate::settings::Settings;
use hone_trace::V1;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const RECORD: &str = "model.json";
const NAME_LEN_MAX: usize = 100;

/// All models that were added.
pub(super) struct Registry {
    folder: PathBuf,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    v: V1,
    pub(super) name: String,
    pub(super) source: Source,
    /// The GGUF file, or the folder with the files.
    pub(super) path: PathBuf,
    /// The commit on the hub that the files are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<String>,
}

/// Where a model came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Source {
    /// A path on this machine, where it stays.
    Path,
    /// A repository on a hub.
    Hub {
        id: String,
        revision: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// Made here.
    Tiny { spec: String, seed: u64 },
    /// Trained here; its last version is the one that is kept.
    Trained { by: String },
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path => f.write_str("path"),
            Self::Hub { id, revision, file: None } => write!(f, "{id}@{revision}"),
            Self::Hub { id, revision, file: Some(file) } => write!(f, "{id}@{revision} {file}"),
            Self::Tiny { spec, seed } => write!(f, "tiny:{spec}, seed {seed}"),
            Self::Trained { by } => write!(f, "trained by {by}"),
        }
    }
}

impl Entry {
    pub(super) fn new(name: String, source: Source, path: PathBuf) -> Self {
        Self { v: V1, name, source, path, commit: None }
    }

    /// Why another model cannot have its name; `which` tells two from the same place apart.
    pub(super) fn taken(&self, which: &str) -> Failure {
        Failure::user(format_args!("`{}` is already the name of another model ({}{which})", self.name, self.source))
            .hint("choose a name of its own with `--name`")
    }

    pub(super) fn at_commit(self, commit: String) -> Self {
        Self { commit: Some(commit), ..self }
    }
}

impl Registry {
    pub(super) fn of(settings: &Settings) -> Self {
        Self { folder: settings.folder.join("models") }
    }

    /// Where the files of a model are kept that has none of its own.
    pub(super) fn files(&self, name: &str) -> PathBuf {
        self.folder.join(name).join("files")
    }

    pub(super) fn entry(&self, name: &str) -> Result<Option<Entry>, Failure> {
        if !is_name(name) {
            return Ok(None);
        }
        let path = self.folder.join(name).join(RECORD);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| Failure::world(error).context(path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at_path(&path)(error)),
        }
    }

    /// All of them, by name.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let folders = match fs::read_dir(&self.folder) {
            Ok(folders) => folders,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at_path(&self.folder)(error)),
        };
        let mut names = Vec::new();
        for folder in folders {
            names.push(folder.map_err(at_path(&self.folder))?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        let mut entries = Vec::new();
        for name in names {
            entries.extend(self.entry(&name)?);
        }
        Ok(entries)
    }

    /// A name stands for one model: the same one may be added again, another may not. The model of this name, where it came from
    /// the same place.
    pub(super) fn refuse_other(&self, name: &str, source: &Source) -> Result<Option<Entry>, Failure> {
        match self.entry(name)? {
            Some(entry) if entry.source != *source => Err(entry.taken("")),
            known => Ok(known),
        }
    }

    /// Holds a name for this process alone, as long as what it returns lives; a kill lets it go too. Who looks whether a name is free
    /// and then takes it must hold it.
    pub(super) fn hold(&self, name: &str) -> Result<File, Failure> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        held::hold(File::open(&folder).map_err(at_path(&folder))?, &folder, || {
            Failure::user(format_args!("`{name}` is being added by another process"))
                .hint("wait for it, or choose a name of its own with `--name`")
        })
    }

    /// The record appears whole or not at all. The name is held.
    pub(super) fn write(&self, entry: &Entry) -> Result<(), Failure> {
        let folder = self.folder.join(&entry.name);
        let text = serde_json::to_string_pretty(entry).map_err(|error| Failure::bug(format_args!("no JSON form: {error}")))?;
        crate::durable::write(&folder.join(RECORD), &(text + "\n"))
    }
}

/// The name that was asked for, or the last part of where the model comes from.
pub(super) fn name(asked: Option<&str>, from: &str) -> Result<String, Failure> {
    if let Some(name) = asked {
        return if is_name(name) {
            Ok(name.to_owned())
        } else {
            Err(Failure::user(format_args!("`{name}` is not a name: letters, digits, `-`, `_` and `.`, at most {NAME_LEN_MAX}")))
        };
    }
    let from = if from.starts_with("tiny:") { "tiny" } else { from };
    let last = Path::new(from).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let last = last.strip_suffix(".gguf").unwrap_or(&last).to_lowercase();
    let name: String = last.chars().map(|c| if is_name_char(c) { c } else { '-' }).take(NAME_LEN_MAX).collect();
    if is_name(&name) {
        Ok(name)
    } else {
        Err(Failure::user(format_args!("{from} gives no name")).hint("choose one with `--name`"))
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether this can be the name of a folder of ours: it never leads elsewhere.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_LEN_MAX && !name.starts_with('.') && name.chars().all(is_name_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_last_part() {
        for (asked, from, expected) in [
            (None, "/models/SmolLM2-135M.Q4_1.gguf", Some("smollm2-135m.q4_1")),
            (None, "Org/Qwen2.5-0.5B", Some("qwen2.5-0.5b")),
            (None, "tiny:d64,l2", Some("tiny")),
            (None, "a folder/my model", Some("my-model")),
            (None, "/", None),
            (Some("mine"), "x", Some("mine")),
            (Some("../mine"), "x", None),
            (Some(""), "x", None),
        ] {
            assert_eq!(name(asked, from).ok().as_deref(), expected, "{asked:?} {from}");
        }
    }
}
