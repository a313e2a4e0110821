//! What can go wrong when the engine meets files and requests. Bugs assert; they have no variant here.

use std::path::{Path, PathBuf};

/// A model, adapter or checkpoint that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The refusal.
        #[source]
        source: std::io::Error,
    },
    /// The bytes of the file contradict its format.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the tensor's name where there is one.
        what: String,
    },
    /// A format that can run code when it is read; it is never opened further than its first bytes.
    #[error("{}: {kind} is refused because reading it can run code; convert it to safetensors", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
        /// How it was recognised.
        kind: &'static str,
    },
    /// A sound file that describes a model outside the one family this engine knows.
    #[error("unsupported model: {0}")]
    Unsupported(String),
    /// A saved state of a run over other parameters.
    #[error("this state of a run does not fit: {0}")]
    Misfit(String),
    /// A tensor that the model needs is absent.
    #[error("{}: tensor `{name}` is missing", path.display())]
    Missing {
        /// The file or folder that was searched.
        path: PathBuf,
        /// The tensor's name in that file's convention.
        name: String,
    },
}

impl LoadError {
    pub(crate) fn malformed(path: &Path, what: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_path_buf(), what: what.into() }
    }

    pub(crate) fn missing(path: &Path, name: &str) -> Self {
        Self::Missing { path: path.to_path_buf(), name: name.to_owned() }
    }

    /// Says in which file an unsupported setting stands.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::Unsupported(what) => Self::malformed(path, format!("unsupported: {what}")),
            other => other,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_path_buf(), source }
    }
}
