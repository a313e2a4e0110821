//! Ctrl-C while a run is at work: it ends after its present step, so that what was sampled and paid for is learned from. Pressed
//! again, it leaves at once; that costs the present step and nothing else.

use super::record;
use super::runs::{self, End, INTERRUPTED, Run};
use super::state::States;
use crate::clock::now;
use crate::context::Context;
use crate::failure::Failure;
use hone_trace::RunState;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What a shell reports of a program that Ctrl-C ended.
const EXIT_CODE: i32 = 130;
/// How long the store is waited for by who leaves at once.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// A run that can be interrupted.
pub(super) struct Interruptible<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) run: &'a Run,
    pub(super) folder: &'a Path,
    /// The command that goes on with it.
    pub(super) way_on: &'a str,
    /// Whether Ctrl-C was pressed.
    pub(super) is_interrupted: &'a AtomicBool,
}

impl Interruptible<'_> {
    /// Works, and hears Ctrl-C meanwhile.
    pub(super) fn hear<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::world)?;
        let mut pressed = runtime.block_on(async { signal(SignalKind::interrupt()) }).map_err(Failure::world)?;
        let (at_work, ended) = oneshot::channel::<()>();
        std::thread::scope(|scope| {
            // Gone when the work has ended, however it did.
            let _at_work = at_work;
            scope.spawn(|| {
                runtime.block_on(async {
                    tokio::select! {
                        () = self.is_left(&mut pressed) => leave(),
                        _ = ended => {}
                    }
                });
            });
            work()
        })
    }

    /// Returns when there is no time to wait for the present step.
    async fn is_left(&self, pressed: &mut Signal) {
        pressed.recv().await;
        self.is_interrupted.store(true, Ordering::Relaxed);
        let printer = self.context.printer;
        printer.complain("interrupted: the run ends after its present step; Ctrl-C again leaves it at once");
        pressed.recv().await;
        // Who wants to leave at once is not kept by what cannot be written.
        let position = States::of(self.folder, 1).position().ok().flatten().unwrap_or_default();
        let (step, best_step) = (position.step, position.progress.best().map(|best| best.step));
        let why = format!("Ctrl-C was pressed twice after step {step}");
        let _ = runs::end(self.folder, &End { reason: INTERRUPTED.to_owned(), why, step, best_step });
        let _ = tokio::time::timeout(TOLD_WITHIN, self.tell()).await;
        let _ = printer.flush();
        printer.complain(&format!("interrupted: all steps up to {step} are kept; go on with `{}`", self.way_on));
    }

    /// Tells the store that the run is not at work any more.
    async fn tell(&self) -> Result<(), Failure> {
        let store = self.context.store().await?;
        let state = RunState::Ended { at: now(), reason: INTERRUPTED.to_owned() };
        record::tell(&*store, self.run, &self.context.settings.tenant, state, now()).await?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a step cannot be broken off, and a run may be killed at any moment")]
fn leave() {
    std::process::exit(EXIT_CODE);
}
