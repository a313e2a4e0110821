//! `hone reward lint`: what is unwise about a recipe, before anything is trained on it.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::Style;
use crate::world::{SHIPPED, World};
use hone_env::Player;
use hone_env::rollout::{Limits, Luck, Plan, Timing, rollout};
use hone_reward::lint::{obstacle, unknown_signals};
use hone_reward::{Recipe, Severity, lint};
use hone_trace::env::Split;
use hone_trace::{RunId, Time};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Say what is unwise about a recipe
///
/// Such as a part that can outweigh what is wanted, more than four parts, or a signal that the world does not give. Exit code 1 when it would be refused: without a
/// primary part, or with an efficiency bonus on top of RULER, which weighs efficiency already.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file with a recipe
    #[arg(long, value_name = "FILE", conflicts_with = "env")]
    recipe: Option<PathBuf>,
    /// A world, whose recipe is looked at
    #[arg(long, value_name = "WORLD")]
    env: Option<String>,
    /// Accept what can be forced
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let world = super::world_of(args.env.as_deref(), context)?;
    let recipe = super::recipe(args.recipe.as_deref(), world.as_deref(), context)?;
    let mut findings = lint(&recipe);
    if let Some(env) = &args.env {
        let known = signals(env, &recipe, context);
        if !known.is_empty() {
            findings.extend(unknown_signals(&recipe, &known));
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        }
    }
    let refused = obstacle(&findings, args.force).is_some();
    if context.printer.wants_json() {
        context.printer.json(&json!({"recipe": recipe.name, "refused": refused, "findings": findings}))?;
    } else {
        for finding in &findings {
            let style = if finding.severity == Severity::Warning { Style::Note } else { Style::Bad };
            let place = finding.component.as_ref().map_or_else(|| recipe.name.clone(), |name| format!("`{name}`"));
            context.printer.line(&[(style, &place), (Style::Plain, &format!(": {}", finding.what))])?;
            context.printer.line(&[(Style::Faint, &format!("  {}; {}", finding.why, finding.way_out))])?;
        }
        if findings.is_empty() {
            context.printer.say(&format!("nothing is unwise about {}", recipe.name));
        }
    }
    Ok(if refused { Exit::No } else { Exit::Yes })
}

/// Scenarios that are played, and turns of each, to see which signals a world gives.
const N_SCENARIOS: usize = 16;
const TURNS_MAX: usize = 40;

/// The signals that a world gives, as far as its own players meet them; none where it is not known without more, such as a file.
fn signals(env: &str, recipe: &Recipe, context: &Context<'_>) -> BTreeSet<String> {
    let usual = SHIPPED.iter().find(|shipped| shipped.name == env).map_or(&[][..], |shipped| shipped.usual);
    let names = if usual.is_empty() { &[env][..] } else { usual };
    let mut known = BTreeSet::new();
    for name in names {
        let Ok(world) = context.wait(async |context| World::named(name, context).await) else { continue };
        // The usual worlds of a name are weighed by its recipe, unless one says otherwise.
        if world.recipe == *recipe {
            known.extend(signals_of(&world, context));
        }
    }
    known
}

fn signals_of(world: &World, context: &Context<'_>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let scenarios = world.env.scenarios(Split::Train, 1, N_SCENARIOS).unwrap_or_default();
    for scenario in &scenarios {
        known.extend(world.env.best(scenario).0.into_iter().map(|(name, _)| name.into_owned()));
    }
    for player in [Player::Gold, Player::Random, Player::Empty] {
        let plan = Plan {
            run: RunId::derived(&["lint"]),
            tenant: context.settings.tenant.clone(),
            scenarios: &scenarios,
            split: None,
            n_samples: 1,
            seed: 1,
            luck: Luck::Shared,
            limits: Limits { turns_max: TURNS_MAX, ..Limits::default() },
            tokens_max: BTreeMap::new(),
            n_concurrent: N_SCENARIOS,
            timing: Timing::Told(Time::TOLD),
        };
        rollout(world.env.as_ref(), player, &plan, |played| {
            for turn in played.traces.iter().flat_map(hone_trace::Trace::turns) {
                known.extend(turn.signals.keys().cloned());
            }
            ControlFlow::Continue(())
        });
    }
    known
}
