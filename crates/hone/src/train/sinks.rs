//! Where the metrics of a run go: each line once, to everything that wants it.
//!
//! `metrics.jsonl` comes first and is the truth; then TensorBoard's event file and the store, as the event stream `run:NAME`; then a
//! collector, if one is named, which never holds up a run. Belongs to a thread that is in no async runtime.

use super::metrics::{self, Line, Log};
use super::record;
use super::runs::{self, End, Run, Runs};
use super::telemetry::{Collector, Telemetry};
use super::tensorboard::Board;
use crate::context::Context;
use crate::failure::Failure;
use hone_reward::alarm::Alarm;
use hone_store::Database;
use hone_trace::store::{Event, Put, Write};
use hone_trace::{EventId, RunState, Time};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Where the metrics of one run go.
pub(crate) struct Sinks<'a> {
    context: &'a Context<'a>,
    run: Run,
    folder: PathBuf,
    stream: String,
    log: Log,
    board: Board,
    store: Arc<dyn Database>,
    telemetry: Option<Telemetry>,
    /// What the store works on; below it, so that it goes last.
    runtime: Runtime,
}

impl<'a> Sinks<'a> {
    /// Opens them for a run that begins or goes on. What is configured wrongly is found out here, before anything is computed.
    pub(crate) fn open(run: &Run, context: &'a Context<'a>) -> Result<Self, Failure> {
        let collector = Collector::of(context.variables)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::world)?;
        let store = runtime.block_on(context.store())?;
        let folder = Runs::of(&context.settings).begin(run)?;
        let tenant = &context.settings.tenant;
        runtime.block_on(record::tell(&*store, run, tenant, RunState::Running, crate::clock::now()))?;
        Ok(Self {
            context,
            run: run.clone(),
            stream: record::stream(&run.name),
            log: Log::open(&folder.join(metrics::FILE_NAME))?,
            board: Board::open(&folder.join("tensorboard"))?,
            telemetry: collector.map(|collector| Telemetry::start(collector, run)).transpose()?,
            folder,
            store,
            runtime,
        })
    }

    /// Hands a line to all of them.
    pub(crate) fn add(&mut self, line: &Line) -> Result<(), Failure> {
        self.log.add(line)?;
        self.board.add(line)?;
        self.record("step", Time::from_unix_nanos(line.unix_nanos()), line)?;
        if let Some(telemetry) = &self.telemetry {
            telemetry.add(line);
            telemetry.trouble().iter().for_each(|trouble| self.context.printer.complain(trouble));
        }
        Ok(())
    }

    /// Tells the store what looks like reward hacking.
    pub(crate) fn alarm(&self, alarm: &Alarm, at: Time) -> Result<(), Failure> {
        self.record("alarm", at, alarm)
    }

    /// Puts records of the run into the store, and says how many others were there in their place.
    pub(crate) fn put(&self, writes: &[Write]) -> Result<usize, Failure> {
        const N_WRITES: usize = 1000;
        let mut n_conflicts = 0;
        for part in writes.chunks(N_WRITES) {
            let puts = self.runtime.block_on(self.store.put(part.to_vec()))?;
            n_conflicts += puts.iter().filter(|put| **put == Put::Conflict).count();
        }
        Ok(n_conflicts)
    }

    /// Answers when every line so far is durable: whoever writes a checkpoint calls it first.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        self.log.sync()
    }

    /// Keeps how the run ended, and closes them.
    pub(crate) fn end(self, end: &End, at: Time) -> Result<(), Failure> {
        self.sync()?;
        self.record("end", at, end)?;
        runs::end(&self.folder, end)?;
        let (tenant, state) = (&self.context.settings.tenant, RunState::Ended { at, reason: end.reason.clone() });
        self.runtime.block_on(record::tell(&*self.store, &self.run, tenant, state, at))?;
        if let Some(trouble) = self.telemetry.and_then(Telemetry::close) {
            self.context.printer.complain(&trouble);
        }
        Ok(())
    }

    /// Tells the store why the run stands still. It can go on: its folder knows nothing of this.
    pub(crate) fn fail(&self, why: &Failure, at: Time) -> Result<(), Failure> {
        let state = RunState::Failed { at, error: why.to_string() };
        self.runtime.block_on(record::tell(&*self.store, &self.run, &self.context.settings.tenant, state, at))?;
        Ok(())
    }

    fn record(&self, kind: &str, at: Time, what: &impl Serialize) -> Result<(), Failure> {
        let (tenant, stream) = (self.context.settings.tenant.clone(), self.stream.clone());
        let body = serde_json::to_value(what).map_err(Failure::bug)?;
        let facts = [stream.as_str(), tenant.as_str(), kind, &at.unix_nanos().to_string(), &body.to_string()];
        let event = Event { id: EventId::derived(&facts), at, tenant, stream, kind: kind.to_owned(), body };
        self.runtime.block_on(self.store.put(vec![Write::Event(event)]))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::Metrics;
    use super::*;
    use crate::printer::{Printer, Wishes};
    use crate::settings::{Flags, Settings, Variables};
    use hone_trace::store::Kind;
    use hone_trace::{RunId, V1};
    use std::path::Path;

    fn in_folder(folder: &Path, act: impl FnOnce(&Context<'_>)) {
        let (variables, printer) = (Variables::default(), Printer::on(Wishes::default(), std::io::sink(), std::io::sink()));
        let settings = Settings::load(&Flags::default(), &variables, folder).unwrap();
        act(&Context { settings, printer: &printer, variables: &variables });
    }

    fn run(lr: f64) -> Run {
        let settings = [("lr".to_owned(), lr.into())].into();
        let (name, method, model) = ("run-7".to_owned(), "grpo".to_owned(), "tiny".to_owned());
        Run { v: V1, name, method, model, model_hash: None, env: None, seed: 1, settings, fork: None, tenant: None }
    }

    fn line(step: u64, reward: f64) -> Line {
        let at = Time::from_unix_nanos(1_700_000_000_000_000_000 + i64::try_from(step).unwrap() * 250_000_000);
        Line::new(step, at, [("reward", reward)])
    }

    #[test]
    fn a_run_that_was_killed_goes_on_in_all_of_them() {
        let folder = tempfile::tempdir().unwrap();
        in_folder(folder.path(), |context| {
            let mut sinks = Sinks::open(&run(0.5), context).unwrap();
            (1..=3).for_each(|step| sinks.add(&line(step, 0.1)).unwrap());
            drop(sinks);
            let mut sinks = Sinks::open(&run(0.5), context).unwrap();
            (3..=4).for_each(|step| sinks.add(&line(step, 0.2)).unwrap());
            let end = End { reason: "steps".to_owned(), why: "all steps are done".to_owned(), step: 4, best_step: Some(3) };
            sinks.end(&end, Time::from_unix_nanos(1)).unwrap();

            let recorded = Runs::of(&context.settings).read("run-7").unwrap();
            assert_eq!(recorded.metrics.series("reward"), [(1, 0.1), (2, 0.1), (3, 0.2), (4, 0.2)]);
            assert_eq!((recorded.end, recorded.run), (Some(end), run(0.5)));
            let files = std::fs::read_dir(folder.path().join(".hone/runs/run-7/tensorboard")).unwrap();
            assert_eq!(files.count(), 2);
            let events =
                context.wait(async |context| Ok(context.store().await?.events(Some("run:run-7"), 0, 100).await?)).unwrap();
            let kinds: Vec<&str> = events.iter().map(|(_, event)| event.kind.as_str()).collect();
            assert_eq!(kinds, ["step", "step", "step", "step", "step", "end"]);
            assert_eq!(events[4].1.body["values"]["reward"], 0.2);

            let state = || {
                let id = RunId::derived(&["run", context.settings.tenant.as_str(), "run-7"]).to_string();
                let found =
                    context.wait(async |context| Ok(context.store().await?.document(Kind::Run, &id).await?)).unwrap().unwrap();
                let record: hone_trace::Run = found.word().unwrap();
                (found.revision, record.settings["settings"]["lr"].clone(), record.state)
            };
            let ended = RunState::Ended { at: Time::from_unix_nanos(1), reason: "steps".to_owned() };
            assert_eq!(state(), (1, 0.5.into(), ended), "going on is no news, and the end is");

            // Going on takes the end back, in the store by opening them; other settings are another run.
            drop(Sinks::open(&run(0.5), context).unwrap());
            assert_eq!(state(), (2, 0.5.into(), RunState::Running));
            let sinks = Sinks::open(&run(0.5), context).unwrap();
            sinks.fail(&Failure::user("no room"), Time::from_unix_nanos(2)).unwrap();
            drop(sinks);
            assert_eq!(state().2, RunState::Failed { at: Time::from_unix_nanos(2), error: "no room".to_owned() });
            let runs = Runs::of(&context.settings);
            assert!(runs.read("run-7").unwrap().end.is_some(), "who only opens them takes nothing back of the folder");
            runs.go_on("run-7").unwrap();
            assert_eq!(runs.read("run-7").unwrap().end, None);
            let failure = Sinks::open(&run(0.25), context).err().unwrap();
            assert_eq!(failure.to_string(), "the run `run-7` is there already with another lr");
            assert!(runs.folder("../up").is_err());
        });
    }

    #[test]
    fn a_run_whose_folder_is_gone_begins_again_as_another() {
        let folder = tempfile::tempdir().unwrap();
        in_folder(folder.path(), |context| {
            let begin = |started: &str, reward: f64| {
                let mut run = run(0.5);
                run.settings.insert("started".to_owned(), started.into());
                let mut sinks = Sinks::open(&run, context).unwrap();
                sinks.add(&line(1, reward)).unwrap();
            };
            begin("monday", 0.1);
            begin("monday", 0.2);
            std::fs::remove_dir_all(folder.path().join(".hone/runs/run-7")).unwrap();
            begin("tuesday", 0.3);
            let events =
                context.wait(async |context| Ok(context.store().await?.events(Some("run:run-7"), 0, 100).await?)).unwrap();
            let kinds: Vec<&str> = events.iter().map(|(_, event)| event.kind.as_str()).collect();
            assert_eq!(kinds, ["step", "step", "begin", "step"]);
        });
    }

    #[test]
    fn the_same_line_is_one_event() {
        let folder = tempfile::tempdir().unwrap();
        in_folder(folder.path(), |context| {
            let mut sinks = Sinks::open(&run(0.5), context).unwrap();
            (0..2).for_each(|_| sinks.add(&line(1, 0.1)).unwrap());
            let events =
                context.wait(async |context| Ok(context.store().await?.events(Some("run:run-7"), 0, 100).await?)).unwrap();
            assert_eq!(events.len(), 1);
            let metrics = Metrics::read(&sinks.folder.join(metrics::FILE_NAME)).unwrap();
            assert_eq!(metrics.lines, [line(1, 0.1)]);
        });
    }
}
