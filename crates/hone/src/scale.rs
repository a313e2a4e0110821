//! The scale on which scores of worlds can be compared: what the recipe gives to the signals of an episode, where 0 is what doing
//! nothing earns on that scenario and 1 the best that can be earned.

use crate::context::Context;
use crate::play::{Play, PlayArgs};
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Luck, rollout};
use hone_reward::Recipe;
use hone_trace::{RunId, Scenario, ScenarioId, Trace};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What 0 and 1 mean on each scenario.
pub(crate) struct Scale<'a> {
    recipe: &'a Recipe,
    ends: BTreeMap<ScenarioId, (f64, f64)>,
}

impl<'a> Scale<'a> {
    /// The scale of these scenarios.
    pub(crate) fn of(world: &'a World, scenarios: &[Scenario], play: &PlayArgs, context: &Context<'_>) -> Self {
        let (recipe, mut ends) = (&world.recipe, BTreeMap::new());
        let nobody = Play { n_samples: 1, luck: Luck::Shared, is_script: true };
        let plan = play.plan(RunId::derived(&["nothing"]), &context.settings.tenant, scenarios, nobody);
        let mut left = scenarios.iter();
        rollout(world.env.as_ref(), Player::Empty, &plan, |played| {
            if let Some(scenario) = left.next() {
                let nothing = recipe.of_trace_signals(&played.traces[0]);
                ends.insert(scenario.id.clone(), (nothing, recipe.of_signals(&world.env.best(scenario))));
            }
            ControlFlow::Continue(())
        });
        Self { recipe, ends }
    }

    /// What a trace earned on it; `None` where nothing better than doing nothing is known to be possible.
    pub(crate) fn score(&self, trace: &Trace) -> Option<f64> {
        let (nothing, best) = *self.ends.get(trace.scenario.as_ref()?)?;
        let score = self.recipe.of_trace_signals(trace);
        (best > nothing).then(|| Recipe::normalised(score, nothing, best).min(1.0))
    }
}
