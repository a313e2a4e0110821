//! The scale on which scores of worlds can be compared: what the recipe gives to an episode without asking a judge, where 0 is what
//! doing nothing earns on that scenario and 1 the best that can be earned.

use crate::context::Context;
use crate::play::{Play, PlayArgs, item};
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Luck, rollout};
use hone_reward::{Attempt, Recipe};
use hone_trace::{RunId, Scenario, ScenarioId, Trace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What 0 and 1 mean on each scenario.
pub(crate) struct Scale<'a> {
    recipe: &'a Recipe,
    ends: BTreeMap<ScenarioId, Ends>,
}

struct Ends {
    item: Value,
    nothing: f64,
    best: f64,
}

impl<'a> Scale<'a> {
    /// The scale of these scenarios. Where all that the recipe wants is for a judge to say, the world's own recipe stands in.
    pub(crate) fn of(world: &'a World, scenarios: &[Scenario], play: &PlayArgs, context: &Context<'_>) -> Self {
        let recipe = if world.recipe.measures() { &world.recipe } else { &world.own_recipe };
        let mut ends = BTreeMap::new();
        let nobody = Play { n_samples: 1, luck: Luck::Shared, is_script: true };
        let plan = play.plan(RunId::derived(&["nothing"]), &context.settings.tenant, scenarios, nobody);
        let mut left = scenarios.iter();
        rollout(world.env.as_ref(), Player::Empty, &plan, |played| {
            if let Some(scenario) = left.next() {
                let (item, trace) = (item(scenario), &played.traces[0]);
                let measured = || recipe.measured(Attempt { trace, item: &item }).ok();
                // An episode that broke does not say what doing nothing earns.
                if let Some(nothing) = trace.broken().is_none().then(measured).flatten() {
                    let best = recipe.measured_at_best(&world.env.best(scenario));
                    ends.insert(scenario.id.clone(), Ends { item, nothing, best });
                }
            }
            ControlFlow::Continue(())
        });
        Self { recipe, ends }
    }

    /// What a trace earned on it; `None` where nothing better than doing nothing is known to be possible.
    pub(crate) fn score(&self, trace: &Trace) -> Option<f64> {
        let Ends { item, nothing, best } = self.ends.get(trace.scenario.as_ref()?)?;
        let score = self.recipe.measured(Attempt { trace, item }).ok()?;
        (best > nothing).then(|| Recipe::normalised(score, *nothing, *best).min(1.0))
    }
}
