//! This program, run as a user would run it, in a folder of its own that goes away afterwards.

use crate::failure::{Failure, at_path};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder in which commands of this program are run.
pub(super) struct Own {
    folder: tempfile::TempDir,
}

impl Own {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { folder: tempfile::tempdir().map_err(Failure::world)? })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file in the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).map_err(at_path(&path))
    }

    /// The command, ready to be started.
    pub(super) fn command(&self, args: &[&str]) -> Result<Command, Failure> {
        let program = std::env::current_exe().map_err(Failure::world)?;
        let mut command = Command::new(program);
        command.args(args).arg("--json").current_dir(self.folder.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }

    /// What a command prints.
    pub(super) fn json(&self, args: &[&str]) -> Result<Value, Failure> {
        let output = self.command(args)?.output().map_err(Failure::world)?;
        let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !output.status.success() {
            return Err(Failure::user(format_args!("`hone {}` failed: {}", args.join(" "), said())));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::world(error).context(format_args!("hone {}", args.join(" "))))
    }
}
