//! Why a command did not do its work: what happened, whose matter it is, and the way out where we know one.
//!
//! A clear no (a gate that refused, a bad line in a file) is not a failure: it is [`Exit::No`].

use hone_trace::store::StoreError;
use std::io::ErrorKind;
use std::{fmt, process::ExitCode};

/// What a command answers when it has done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Yes: exit code 0.
    Yes,
    /// A clear no: exit code 1.
    No,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Yes => ExitCode::SUCCESS,
            Exit::No => ExitCode::from(1),
        }
    }
}

/// Whose matter a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was asked for cannot be done.
    User,
    /// A setting is wrong.
    Config,
    /// A disk, a database or another part of the world said no.
    World,
    /// We made a mistake.
    Bug,
    /// Whoever read our output went away, as in `hone trace list | head`. Nothing is wrong, and nothing is said.
    Closed,
}

/// Why a command did not do its work.
#[derive(Debug)]
pub struct Failure {
    /// Whose matter it is.
    pub kind: Kind,
    /// What happened, with its causes.
    pub cause: anyhow::Error,
    /// The way out.
    pub hint: Option<String>,
}

impl Failure {
    /// What was asked for cannot be done.
    pub fn user(text: impl fmt::Display) -> Self {
        Self::new(Kind::User, anyhow::Error::msg(text.to_string()))
    }

    /// A setting is wrong.
    pub fn config(text: impl fmt::Display) -> Self {
        Self::new(Kind::Config, anyhow::Error::msg(text.to_string()))
    }

    /// A part of the world said no.
    pub fn world(cause: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::World, cause.into())
    }

    /// Something that cannot be did happen.
    pub fn bug(text: impl fmt::Display) -> Self {
        Self::new(Kind::Bug, anyhow::Error::msg(text.to_string())).hint("this is a mistake in hone: please report it")
    }

    /// The reader of stdout went away.
    pub fn closed() -> Self {
        Self::new(Kind::Closed, anyhow::Error::msg("the reader of the output went away"))
    }

    /// With the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With what was being done when it happened.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.cause = self.cause.context(what.to_string());
        self
    }

    /// Whether it is that the disk has no more room, which may pass.
    pub(crate) fn is_full_disk(&self) -> bool {
        let mut causes = self.cause.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
        causes.any(|error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }

    fn new(kind: Kind, cause: anyhow::Error) -> Self {
        Self { kind, cause, hint: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = String::new();
        for cause in self.cause.chain().map(ToString::to_string) {
            // Some errors end with their cause already.
            if !told.ends_with(&cause) {
                let between = if told.is_empty() { "" } else { ": " };
                told.extend([between, &cause]);
            }
        }
        f.write_str(&told)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::TooNew { .. } => Some("install the hone that made this database, or a newer one"),
            StoreError::Full(_) => Some("free some space and run the same command again: what was kept is not written twice"),
            StoreError::Unavailable { .. } => Some("`hone doctor` says which database is configured and whether it answers"),
            // The file itself cannot be written around its damage.
            StoreError::Damaged { what, .. } if what.ends_with("hone.db") => Some(
                "`hone store verify` names what is damaged, and `hone store backup DIR` saves all else; restore your last back-up \
                 into a new folder (`hone --folder NEW store restore LAST`), then `hone --folder NEW store restore DIR --merge`",
            ),
            StoreError::Damaged { .. } => Some(
                "`hone store verify` names all that is damaged; `hone store restore DIR --merge` puts it back from a back-up",
            ),
            StoreError::TooLarge { .. } | StoreError::Invalid { .. } => None,
        };
        let failure = Self::world(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A failure of the file system, with the path it is about.
pub(crate) fn at_path(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Failure + '_ {
    move |error| Failure::world(error).context(path.display())
}
