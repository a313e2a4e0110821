//! Where a run stands, durable after every step.
//!
//! The weights and moments of a step are a file of their own under `states/`; `position.json` names the last one that is whole and
//! is the last to be written. So a run that was killed at any moment goes on from the last step that was durable, to the same bits.
//! States at which was measured stay for a while, to fork from. `position.json` has the hashes of all states that are kept: one that
//! was damaged since is never loaded.

use crate::durable;
use crate::failure::{Failure, at_path};
use crate::learner::Learner;
use hone_engine::checkpoint;
use hone_engine::trainer::TrainerState;
use hone_reward::alarm::Monitor;
use hone_train::critic::Critic;
use hone_train::stop::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where an adapter waits to be the best.
const STAGED: &str = "preferred";

/// Where a run stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Steps done.
    pub(super) step: u64,
    /// What stopping is decided by.
    pub(super) progress: Progress,
    /// What looks for reward hacking.
    pub(super) monitor: Monitor,
    /// PPO's critic.
    pub(super) critic: Option<Critic>,
    /// Per world that is watched, the scores of its tasks before the first step.
    pub(super) watched: BTreeMap<String, Vec<f32>>,
    /// Steps whose states are kept to fork from, oldest first.
    pub(super) kept: Vec<u64>,
    /// The hash of the adapter as it is.
    pub(super) adapter: String,
    /// The hashes of the states' files by step. Runs that began before they were kept have none.
    #[serde(default)]
    pub(super) states: BTreeMap<u64, String>,
}

/// The files of a run that say where it stands.
pub(super) struct States {
    folder: PathBuf,
    /// States of the last steps that are always there.
    n_last: u64,
}

impl States {
    pub(super) fn of(folder: &Path, n_last: u64) -> Self {
        Self { folder: folder.to_owned(), n_last }
    }

    /// Where the run stands, where it has begun.
    pub(super) fn position(&self) -> Result<Option<Position>, Failure> {
        let path = self.folder.join("position.json");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| Failure::world(error).context(path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at_path(&path)(error)),
        }
    }

    /// The weights and moments after a step.
    pub(super) fn load(&self, step: u64) -> Result<TrainerState, Failure> {
        let path = self.path(step);
        if !path.is_file() {
            let steps: Vec<String> = self.steps()?.iter().map(u64::to_string).collect();
            let there = if steps.is_empty() { "none is there".to_owned() } else { format!("there are {}", steps.join(", ")) };
            return Err(Failure::user(format_args!("the state of step {step} is not kept")).hint(there));
        }
        if !self.is_whole(step)? {
            let damaged = format_args!("{}: it is damaged, its hash is another than when it was written", path.display());
            return Err(Failure::user(damaged).hint(self.way_out(step)?));
        }
        checkpoint::load(&path).map_err(Failure::world)
    }

    /// Gives a learner what was loaded of a step. What does not fit is told with its file.
    pub(super) fn restore(&self, step: u64, state: TrainerState, learner: &mut Learner) -> Result<(), Failure> {
        learner.restore(state).map_err(|failure| failure.context(self.path(step).display()))
    }

    /// Whether the state of a step is as it was written, as far as that is known.
    fn is_whole(&self, step: u64) -> Result<bool, Failure> {
        let known = self.position()?.and_then(|mut position| position.states.remove(&step));
        // A file that cannot even be hashed is not whole.
        Ok(known.is_none_or(|known| checkpoint::hash(&self.path(step)).is_ok_and(|hash| hash == known)))
    }

    /// What is left to do when the state of this step is damaged.
    fn way_out(&self, damaged: u64) -> Result<String, Failure> {
        let mut whole = Vec::new();
        for step in self.steps()?.into_iter().filter(|&step| step != damaged) {
            whole.extend(self.is_whole(step)?.then(|| step.to_string()));
        }
        let run = self.folder.file_name().unwrap_or_default().to_string_lossy();
        Ok(match whole.is_empty() {
            true => "put the file back from a copy; no other state of the run is whole".to_owned(),
            false => {
                let steps = whole.join(", ");
                format!("put the file back from a copy, or fork the run where it is whole with --fork {run}@STEP: {steps}")
            }
        })
    }

    /// Makes a step durable, and removes the states that nobody needs any more.
    pub(super) fn keep(&self, position: &mut Position, learner: &mut Learner, n_kept: usize) -> Result<(), Failure> {
        let folder = self.folder.join("states");
        fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        let hash = checkpoint::save(&self.path(position.step), &learner.state()?).map_err(Failure::world)?;
        position.states.insert(position.step, hash);
        position.adapter = learner.save_adapter(&self.folder.join("adapter"))?;
        let n_over = position.kept.len().saturating_sub(n_kept);
        position.kept.drain(..n_over);
        let (last, best) = (position.step, position.progress.best().map(|best| best.step));
        let kept = position.kept.clone();
        let is_needed = |step: u64| step + self.n_last > last || kept.contains(&step) || best == Some(step) || step == 0;
        position.states.retain(|&step, _| is_needed(step));
        self.note(position)?;
        for step in self.steps()?.into_iter().filter(|&step| !is_needed(step)) {
            // What cannot be removed only takes room.
            let _ = fs::remove_file(self.path(step));
        }
        Ok(())
    }

    /// Makes durable what was learned about the run since its last step: the weights are those of that step.
    pub(super) fn note(&self, position: &Position) -> Result<(), Failure> {
        let text = serde_json::to_string(position).map_err(Failure::bug)?;
        durable::write(&self.folder.join("position.json"), &(text + "\n"))
    }

    /// Keeps the adapter as the best so far.
    pub(super) fn keep_best(&self, learner: &mut Learner) -> Result<(), Failure> {
        learner.save_adapter(&self.folder.join("best")).map(drop)
    }

    /// Keeps the adapter of a step that a person prefers, beside the best: it takes its place by [`Self::settle`], when the end of the run
    /// says so.
    pub(super) fn stage(&self, step: u64, learner: &mut Learner) -> Result<(), Failure> {
        let best = self.folder.join("best");
        fs::create_dir_all(&best).map_err(at_path(&best))?;
        self.forget_staged()?;
        durable::folder(&self.staged(step), |folder| learner.save_adapter(folder).map(drop))
    }

    /// Whether the adapter of a step waits to be the best.
    pub(super) fn is_staged(&self, step: u64) -> bool {
        self.staged(step).is_dir()
    }

    /// Moves the adapter that was staged to the place of the best. After a kill, it is called again and moves what is left.
    pub(super) fn settle(&self, step: u64) -> Result<(), Failure> {
        let staged = self.staged(step);
        for file in fs::read_dir(&staged).map_err(at_path(&staged))? {
            let file = file.map_err(at_path(&staged))?;
            let place = self.folder.join("best").join(file.file_name());
            fs::rename(file.path(), &place).map_err(at_path(&place))?;
            durable::name(&place)?;
        }
        self.forget_staged()
    }

    fn forget_staged(&self) -> Result<(), Failure> {
        let folder = self.folder.join(STAGED);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(at_path(&folder)(error)),
            _ => Ok(()),
        }
    }

    /// By its step: one that was staged and never named as the best is not taken for another.
    fn staged(&self, step: u64) -> PathBuf {
        self.folder.join(STAGED).join(step.to_string())
    }

    /// The steps whose states are there.
    pub(super) fn steps(&self) -> Result<Vec<u64>, Failure> {
        let folder = self.folder.join("states");
        let files = match fs::read_dir(&folder) {
            Ok(files) => files,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at_path(&folder)(error)),
        };
        let step = |name: &str| name.strip_suffix(".safetensors")?.parse().ok();
        let mut steps: Vec<u64> = files.flatten().filter_map(|file| step(file.file_name().to_str()?)).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    fn path(&self, step: u64) -> PathBuf {
        self.folder.join("states").join(format!("{step}.safetensors"))
    }
}
