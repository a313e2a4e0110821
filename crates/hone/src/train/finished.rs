//! What is told of a run that has ended.

use super::runs::{End, INTERRUPTED, Recorded};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// How a run ended.
#[derive(Debug, Serialize)]
pub(crate) struct Finished {
    pub(super) run: String,
    #[serde(flatten)]
    pub(super) end: End,
    pub(super) validation: Option<f64>,
    pub(super) best_validation: Option<f64>,
    /// The hash of the last adapter.
    pub(super) adapter: String,
    /// The command that goes on with it, where a person ended it before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resume: Option<String>,
    /// Where the best adapter is, or the last one where nothing was measured.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
}

impl Finished {
    /// A run that a person ended, in its folder; the hash is that of its last adapter.
    pub(super) fn preferred(recorded: &Recorded, end: End, adapter: String, folder: &Path) -> Self {
        let Recorded { run, metrics, .. } = recorded;
        let validation = metrics.series("validation").last().map(|(_, share)| *share);
        let best_validation = end.best_step.and_then(|step| metrics.at("validation", step));
        Self { run: run.name.clone(), end, validation, best_validation, adapter, resume: None, folder: folder.join("best") }
    }

    /// Says how it ended; whether it ended well is the exit code.
    pub(super) fn tell(&self, context: &Context<'_>) -> Result<Exit, Failure> {
        let printer = context.printer;
        if printer.wants_json() {
            printer.json(self)?;
        } else {
            printer.plain(&format!("{}: {}", self.end.reason, self.end.why))?;
            printer.say(&format!("its adapter: {}", self.folder.display()));
            if self.end.best_step == Some(0) && self.end.step > 0 {
                let last = self.folder.with_file_name("adapter");
                printer.say(&format!(
                    "nothing was better than before the first step, which `best` is; the last is {}",
                    last.display()
                ));
            }
            if let Some(resume) = &self.resume {
                printer.say(&format!("it goes on with `{resume}`"));
            }
        }
        Ok(if self.is_well() { Exit::Yes } else { Exit::No })
    }

    /// Whether it was not broken off.
    pub(crate) fn is_well(&self) -> bool {
        !matches!(self.end.reason.as_str(), "reward_hacking" | "not_finite" | INTERRUPTED)
    }

    /// Why it ended.
    pub(crate) fn why(&self) -> &str {
        &self.end.why
    }
}
