//! Where the parts on the service desk begin: a model that has read the agent's manual and imitates the agent.

use crate::context::Context;
use crate::failure::{Failure, at_path};
use crate::gym::flat;
use crate::learner::Learner;
use crate::r#loop::{Ground, IMITATION_LR, Line, MANUAL_LR, N_PAGES, N_TRACES};
use hone_engine::checkpoint;
use hone_engine::trainer::TrainerState;
use hone_env::Player;
use hone_trace::Scenario;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// A model that imitates the agent.
pub(in crate::bench) struct Warm {
    pub(super) seed: u64,
    pub(super) ground: Ground,
    pub(super) learner: Learner,
    /// What the model knew at the start, to go back to.
    state: TrainerState,
    /// How good that is.
    pub(super) sft: Line,
    /// What it took to get there; 0 where the model was kept.
    pub(super) seconds: f64,
}

impl Warm {
    pub(in crate::bench) fn new(seed: u64, n_tasks: usize, kept: Option<&Path>, context: &Context<'_>) -> Result<Self, Failure> {
        let start = Instant::now();
        let ground = Ground::new(seed, n_tasks, context)?;
        let mut learner = ground.learner(None)?;
        let path = kept.map(|folder| folder.join(format!("desk-{seed}.safetensors")));
        let mut seconds = 0.0;
        match &path {
            Some(path) if path.is_file() => learner.restore(checkpoint::load(path).map_err(Failure::world)?)?,
            _ => {
                learner.imitate(&ground.manual(N_PAGES as usize)?, MANUAL_LR, usize::MAX, |_, _| {})?;
                let traces = flat(ground.demonstrations(N_TRACES as usize)?.1);
                learner.imitate(&traces, IMITATION_LR, usize::MAX, |_, _| {})?;
                seconds = start.elapsed().as_secs_f64();
            }
        }
        let state = learner.state()?;
        if let (Some(path), Some(folder)) = (&path, kept) {
            fs::create_dir_all(folder).map_err(at_path(folder))?;
            checkpoint::save(path, &state).map_err(Failure::world)?;
        }
        let sft = ground.measure("sft", Player::Policy(&learner.policy()?))?.0;
        Ok(Self { seed, ground, learner, state, sft, seconds })
    }

    /// Goes back to the start, with fresh moments of the optimiser.
    pub(super) fn rewind(&mut self) -> Result<(), Failure> {
        self.learner.restore(self.state.clone())?;
        self.learner.begin_anew()
    }

    /// The model as it is now, on the held-out tasks.
    pub(super) fn measure(&mut self, name: &str) -> Result<Line, Failure> {
        Ok(self.ground.measure(name, Player::Policy(&self.learner.policy()?))?.0)
    }

    /// The model as it is now, on these tasks.
    pub(super) fn measure_on(&mut self, name: &str, tasks: &[Scenario]) -> Result<Line, Failure> {
        Ok(self.ground.measure_on(name, Player::Policy(&self.learner.policy()?), tasks)?.0)
    }
}
