//! `hone rollout`: play scenarios with a policy; traces and groups go into the store, scored by the world's recipe.

mod choice;
mod course;
pub(crate) mod keep;
mod summary;

use crate::context::Context;
use crate::cost::{self, Forecast};
use crate::failure::{Exit, Failure};
use crate::play::{Play, PlayArgs, unseen_tools};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::world::World;
use choice::Choice;
use course::CourseArgs;
use hone_env::rollout::{Luck, Plan};
use hone_trace::RunId;
use summary::Summary;

/// Play scenarios with a policy and keep the traces
///
/// The samples of a scenario are a group: they meet the same world, dice and faults included. Traces are scored by the
/// world's recipe. The same run played again is written once, and a larger `-n` adds to it what is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The world, such as desk, 2048 or math:sums
    #[arg(long, value_name = "WORLD")]
    env: String,
    /// Who plays: gold, random, empty, script:FILE, local:MODEL, PROVIDER:MODEL or URL#MODEL
    #[arg(long, value_name = "POLICY")]
    policy: String,
    /// How many scenarios
    #[arg(long, short, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// How often each is played
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    samples: u16,
    /// A name for this run; without one it follows from world, policy, seed, `--samples` and limits, and for a model from the time
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    #[command(flatten)]
    course: CourseArgs,
    #[command(flatten)]
    play: PlayArgs,
    #[command(flatten)]
    policies: PolicyArgs,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    args.policies.check_adapter(std::slice::from_ref(&args.policy))?;
    let bank = Bank::open(&args.policies)?;
    let ready = Ready::named(&args.policy, &args.policies, usize::from(args.play.concurrency), &bank, context)?;
    let world = context.wait(async |context| World::named(&args.env, context).await)?;
    let mut course = args.course.open(&world, &args.play, context.printer)?;
    let choice = match &mut course {
        Some(course) => course.choose(args.n as usize, &args.play, context),
        None => Choice::all(args.play.scenarios(&world, args.n as usize, context.printer)?, args.play.seed),
    };
    let mut summary = Summary::default();
    if !choice.scenarios.is_empty() {
        let mut forecast = forecast(args, &ready, &world, &choice, context);
        cost::announce(&forecast, &bank, context.printer)?;
        let plan = plan(args, &ready, &world, &choice, context);
        let bar = context.printer.count_bar(&format!("{} {}", world.name, args.policy));
        summary.run = Some(plan.run);
        summary.conflicts = keep::play(&world, ready.player(), &plan, context, |played, remarks| {
            bar.inc(played.traces.len() as u64);
            if let Some(text) = unseen_tools(ready.player(), &played.traces).filter(|_| summary.is_empty()) {
                context.printer.complain(&text);
            }
            summary.add(played, remarks);
            if let Some(course) = &mut course {
                course.record(played);
            }
            if let Some(forecast) = &mut forecast {
                forecast.group(&played.traces, context.printer);
            }
        })?;
        bar.finish_and_clear();
        summary.projection = forecast.map(|forecast| forecast.projected());
    }
    if let Some(course) = &course {
        course.save()?;
        summary.curriculum = Some(course.standing());
    }
    summary.spent_usd = bank.budget.spent().known_usd;
    summary.print(context)?;
    Ok(summary.exit(choice.scenarios.len(), context))
}

fn forecast(args: &Args, ready: &Ready, world: &World, choice: &Choice, context: &Context<'_>) -> Option<Forecast> {
    ready.price()?;
    let episodes = cost::gold_episodes(world, &choice.scenarios, &args.play, context);
    Forecast::new(args.policy.clone(), ready, &episodes, choice.scenarios.len() * usize::from(args.samples))
}

fn plan<'a>(args: &Args, ready: &Ready, world: &World, choice: &'a Choice, context: &Context<'_>) -> Plan<'a> {
    let play = Play { n_samples: usize::from(args.samples), luck: Luck::Shared, is_script: ready.is_script() };
    let run = match &args.run {
        // Each step of a curriculum is a run of its own.
        Some(name) if args.course.is_asked() => RunId::derived(&["rollout", name, &choice.seed.to_string()]),
        Some(name) => RunId::derived(&["rollout", name]),
        None => args.play.run("rollout", world, &ready.player().config(), choice.seed, play),
    };
    let plan = args.play.plan(run, &context.settings.tenant, &choice.scenarios, play);
    Plan { seed: choice.seed, tokens_max: choice.tokens_max.clone(), ..plan }
}
