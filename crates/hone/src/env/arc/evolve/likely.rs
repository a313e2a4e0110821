//! What a search is likely to cost, told before its first call.
//!
//! The scripted editor edits some of the tasks once: a model reads as much, and writes about as much. How many edits there will be is
//! known only as far as no task is right early.

use super::search::{Known, Part, Search};
use crate::context::Context;
use crate::cost::{self, Forecast};
use crate::failure::Failure;
use crate::policy::Ready;
use hone_arc::world::editor;
use hone_env::Player;
use hone_env::rollout::{Plan, Timing};
use hone_trace::{Scenario, Time};

impl Search<'_> {
    /// The forecast of the edits that are still to be asked for; `None` where none is, or none is paid for.
    pub(super) fn forecast(&self, ready: &Ready, known: &Known, context: &Context<'_>) -> Result<Option<Forecast>, Failure> {
        let n_edits = self.n_edits(known);
        if ready.price().is_none() || n_edits == 0 {
            return Ok(None);
        }
        let open: Vec<usize> = (0..self.lines.len()).filter(|&nth| !self.lines[nth].is_right()).collect();
        let scenario = |nth: usize| self.world.arc.edit(&self.lines[nth].task, &self.lines[nth].program).map_err(Failure::user);
        let scenarios: Vec<Scenario> = cost::to_guess(&open).into_iter().map(scenario).collect::<Result<_, _>>()?;
        let once = Part { n_edits: 1, n_stored: 0 };
        let plan = Plan { timing: Timing::Told(Time::TOLD), ..self.plan(&scenarios, 1, once, context) };
        let episodes = cost::episodes(&self.world.world, Player::Script("arc-editor", &editor), &plan);
        let forecast = Forecast::new(self.args.policy.clone(), ready, &episodes, n_edits);
        if let Some(forecast) = &forecast {
            forecast.tell("if no task is right before the last round", context.printer);
        }
        Ok(forecast)
    }

    /// The most edits that are still to be asked for.
    fn n_edits(&self, known: &Known) -> usize {
        let n_open = self.lines.iter().filter(|line| !line.is_right()).count();
        let n_all = n_open * self.args.rounds as usize * usize::from(self.args.edits);
        let n_known: usize = known.values().map(Vec::len).sum();
        n_all
            .saturating_sub(n_known)
            .min(self.args.calls.map_or(usize::MAX, |calls| usize::try_from(calls).unwrap_or(usize::MAX)))
    }
}
