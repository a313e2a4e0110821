//! What a run is likely to cost at a provider: told before the first call, and corrected when a few groups are played.
//!
//! The first guess is made from how the world's gold player plays some of the scenarios. A model reads the whole conversation
//! again before every answer, and four bytes are about one token. Who thinks aloud writes more than gold, and whose provider
//! caches pays less, so the guess has a wide range. Afterwards what the first groups did cost counts.
//! Knows no price: it comes with the policy.

use crate::context::Context;
use crate::failure::Failure;
use crate::play::{Play, PlayArgs};
use crate::policy::{Bank, Ready};
use crate::printer::Printer;
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Luck, Plan, traces};
use hone_policy::upstream::{Projection, Usage, project, project_guess};
use hone_trace::{RunId, Scenario, Trace};
use serde::Serialize;

/// The gold player plays so many scenarios for the first guess.
const N_SCENARIOS_TO_GUESS: usize = 8;
/// After so many groups the guess is corrected.
const N_GROUPS_TO_PROJECT: usize = 3;
const BYTES_PER_TOKEN: u64 = 4;

/// What one policy is likely to cost in one world.
pub(crate) struct Forecast {
    who: String,
    n_episodes: usize,
    projected: Projected,
    n_groups: usize,
    costs_usd: Vec<f64>,
}

/// What was projected.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Projected {
    /// Before the first call, where the gold player could play.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Projection>,
    /// From what the first groups did cost, where there were enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    corrected: Option<Projection>,
}

impl Forecast {
    /// The forecast of a policy that will play `n_episodes` like these; `None` where no price is known, or all is free.
    pub(crate) fn new(who: String, ready: &Ready, episodes: &[Usage], n_episodes: usize) -> Option<Self> {
        let price = ready.price()?;
        let sum_usd = episodes.iter().fold(0.0, |sum, usage| sum + price.cost_usd(usage));
        let before = (!episodes.is_empty()).then(|| project_guess(sum_usd / episodes.len() as f64, n_episodes));
        Some(Self { who, n_episodes, projected: Projected { before, corrected: None }, n_groups: 0, costs_usd: Vec::new() })
    }

    /// Says what was projected before the first call, and what has to hold for it.
    pub(crate) fn tell(&self, condition: &str, printer: &Printer) {
        if let Some(projection) = self.projected.before {
            printer.say(&format!("{} will cost {}, {condition}", self.who, range(projection)));
        }
    }

    /// Takes in what a group did cost, and says what the whole will when enough of them are played.
    pub(crate) fn group<'a>(&mut self, traces: impl IntoIterator<Item = &'a Trace>, printer: &Printer) {
        self.n_groups += 1;
        self.costs_usd.extend(traces.into_iter().map(|trace| trace.head().cost_usd));
        if self.n_groups == N_GROUPS_TO_PROJECT
            && let Some(projection) = project(&self.costs_usd, self.n_episodes)
        {
            self.projected.corrected = Some(projection);
            printer.say(&format!("{} will cost {}, by its first {N_GROUPS_TO_PROJECT} groups", self.who, range(projection)));
        }
    }

    pub(crate) fn projected(&self) -> Projected {
        self.projected
    }
}

/// Says what these will cost, and refuses what the budget will hardly suffice for.
pub(crate) fn announce<'a>(
    forecasts: impl IntoIterator<Item = &'a Forecast>,
    bank: &Bank,
    printer: &Printer,
) -> Result<(), Failure> {
    let mut low_usd = 0.0;
    for forecast in forecasts {
        low_usd += forecast.projected.before.map_or(0.0, |projection| projection.low_usd);
        forecast.tell("if it plays like gold", printer);
    }
    match bank.budget.limit_usd() {
        Some(limit_usd) if low_usd > limit_usd => {
            let text = format!("this will hardly cost less than {}, and the budget is {}", dollars(low_usd), dollars(limit_usd));
            Err(Failure::user(text).hint("play fewer scenarios with -n, each of them less often, or allow more with --budget"))
        }
        _ => Ok(()),
    }
}

/// What episodes take when they are played as the gold player plays some of these scenarios. None where it cannot.
pub(crate) fn gold_episodes(world: &World, scenarios: &[Scenario], play: &PlayArgs, context: &Context<'_>) -> Vec<Usage> {
    let some = to_guess(scenarios);
    let once = Play { n_samples: 1, luck: Luck::Shared, is_script: true };
    let plan = play.plan(RunId::derived(&["cost"]), &context.settings.tenant, &some, once);
    episodes(world, Player::Gold, &plan)
}

/// Some of many, as many as a guess needs, from the first on.
pub(crate) fn to_guess<T: Clone>(many: &[T]) -> Vec<T> {
    let apart = many.len().div_ceil(N_SCENARIOS_TO_GUESS).max(1);
    many.iter().step_by(apart).cloned().collect()
}

/// What episodes of a plan take when a script plays them. None where it cannot.
pub(crate) fn episodes(world: &World, player: Player<'_>, plan: &Plan<'_>) -> Vec<Usage> {
    let played = traces(world.env.as_ref(), player, plan);
    let is_whole = |trace: &&Trace| trace.turns().flat_map(|turn| &turn.errors).all(|error| error.kind != "env_error");
    played.iter().filter(is_whole).map(|trace| usage(trace, plan)).collect()
}

/// The tokens that a provider would count for this trace.
fn usage(trace: &Trace, plan: &Plan<'_>) -> Usage {
    let mut usage = Usage::default();
    for segment in &trace.segments {
        let mut n_read = n_bytes(&segment.tools);
        for turn in &segment.turns {
            n_read += n_bytes(&turn.input);
            let n_written = n_bytes(&turn.answer);
            usage.tokens_in += n_read.div_ceil(BYTES_PER_TOKEN);
            usage.tokens_out += n_written.div_ceil(BYTES_PER_TOKEN).min(plan.limits.answer_tokens_max);
            n_read += n_written;
        }
    }
    usage
}

fn n_bytes(value: &impl Serialize) -> u64 {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len() as u64)
}

fn range(projection: Projection) -> String {
    let Projection { mean_usd, low_usd, high_usd } = projection;
    format!("about {} ({} to {})", dollars(mean_usd), dollars(low_usd), dollars(high_usd))
}

fn dollars(usd: f64) -> String {
    if usd < 0.1 { precise(usd) } else { format!("${usd:.2}") }
}

/// US dollars to four places, or as many as three digits that say something take.
pub(crate) fn precise(usd: f64) -> String {
    let n_noughts = if usd > 0.0 { (-usd.log10()).ceil().max(0.0) as usize } else { 0 };
    let text = format!("${usd:.*}", N_PLACES_MIN.max(n_noughts + 2));
    let n_kept = text.find('.').map_or(text.len(), |point| point + 1 + N_PLACES_MIN);
    let (kept, rest) = text.split_at(n_kept);
    format!("{kept}{}", rest.trim_end_matches('0'))
}

/// The fewest decimals of a small amount.
const N_PLACES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_are_not_nothing() {
        for (usd, expected) in [
            (0.0, "$0.0000"),
            (0.000_028_35, "$0.0000284"),
            (0.000_000_001, "$0.000000001"),
            (0.0031, "$0.0031"),
            (0.012_345, "$0.0123"),
            (0.5, "$0.5000"),
            (12.5, "$12.5000"),
        ] {
            assert_eq!(precise(usd), expected);
        }
        assert_eq!((dollars(0.000_028_35), dollars(12.349)), ("$0.0000284".into(), "$12.35".into()));
    }
}
