//! `hone rollout`: play scenarios with a policy; traces and groups go into the store, scored by the world's recipe.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::play::{Play, PlayArgs};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::world::World;
use hone_env::rollout::{Luck, Played, rollout};
use hone_reward::{Attempt, Scorer};
use hone_trace::store::{Document, Put, StoreError, Write};
use hone_trace::{RunId, TraceOutcome};
use serde::Serialize;
use serde_json::json;
use std::ops::ControlFlow;

/// Play scenarios with a policy and keep the traces
///
/// The samples of a scenario are a group: they meet the same world, dice and faults included. Traces are scored by the
/// world's recipe. The same run played again is written once.
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
    /// A name for this run; without one it follows from world, policy and seed, and for a model from the time
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    #[command(flatten)]
    play: PlayArgs,
    #[command(flatten)]
    policies: PolicyArgs,
}

/// What was played.
#[derive(Debug, Serialize)]
struct Summary {
    run: RunId,
    groups: usize,
    traces: usize,
    solved: usize,
    mean_reward: f64,
    /// Groups in which all samples earned the same, from which nothing can be learned.
    groups_without_signal: usize,
    /// Records that were there already under the same run with other content, and stayed as they were.
    conflicts: usize,
    spent_usd: f64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let bank = Bank::open(&args.policies)?;
    let ready = Ready::named(&args.policy, &args.policies, usize::from(args.play.concurrency), &bank, context)?;
    let world = context.wait(async |context| World::named(&args.env, context).await)?;
    let scenarios = args.play.scenarios(&world, args.n as usize)?;
    let scorer = Scorer::new(&world.recipe, None).map_err(Failure::user)?;
    let player = ready.player();
    let config = player.config().into_owned();
    let run = match &args.run {
        Some(name) => RunId::derived(&["rollout", name]),
        None => crate::play::run("rollout", &world, &config, args.play.seed, &ready),
    };
    let play = Play { n_samples: usize::from(args.samples), luck: Luck::Shared, is_script: ready.is_script() };
    let plan = args.play.plan(run, &context.settings.tenant, &scenarios, play);
    let bar = context.printer.count_bar(&format!("{} {}", world.name, args.policy));
    let (mut rewards, mut n_solved, mut n_flat) = (Vec::new(), 0, 0);
    let summary = context.wait(async |context| {
        let store = context.store().await?;
        let now = crate::clock::now();
        store.put(vec![Write::Document(Document::of(&config, 0, context.settings.tenant.clone(), now))]).await?;
        let (send, mut receive) = tokio::sync::mpsc::channel::<Vec<Write>>(4);
        let writing = tokio::spawn(async move {
            let mut n_conflicts = 0;
            while let Some(writes) = receive.recv().await {
                n_conflicts += store.put(writes).await?.into_iter().filter(|put| *put == Put::Conflict).count();
            }
            Ok::<usize, StoreError>(n_conflicts)
        });
        let n_groups = tokio::task::block_in_place(|| {
            rollout(world.env.as_ref(), player, &plan, |mut played| {
                bar.inc(played.traces.len() as u64);
                let scenario = scenarios.iter().find(|scenario| played.group.scenario.as_ref() == Some(&scenario.id));
                let item = scenario.map(|scenario| json!({"input": scenario.input, "truth": scenario.truth}));
                let attempts: Vec<Attempt<'_>> = played
                    .traces
                    .iter()
                    .map(|trace| Attempt { trace, item: item.as_ref().unwrap_or(&serde_json::Value::Null) })
                    .collect();
                let scored = scorer.score_group(&attempts, args.play.seed, played.group.at);
                let totals = rewards.len();
                for (trace, scored) in played.traces.iter_mut().zip(scored.traces) {
                    n_solved += usize::from(trace.outcome == TraceOutcome::Success);
                    if let Ok(scored) = scored {
                        rewards.push(scored.reward.total);
                        trace.rewards.extend(scored.turns);
                        trace.rewards.push(scored.reward);
                    }
                }
                n_flat += usize::from(rewards[totals..].windows(2).all(|pair| pair[0] == pair[1]));
                match send.blocking_send(writes(played, context)) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })
        });
        drop(send);
        let n_conflicts = writing.await.map_err(|error| Failure::bug(error.to_string()))??;
        Ok(Summary {
            run,
            groups: n_groups,
            traces: n_groups * plan.n_samples,
            solved: n_solved,
            mean_reward: hone_eval::interval::mean(&rewards).0,
            groups_without_signal: n_flat,
            conflicts: n_conflicts,
            spent_usd: bank.budget.spent().known_usd,
        })
    })?;
    bar.finish_and_clear();
    if context.printer.wants_json() {
        context.printer.json(&summary)?;
    } else {
        let Summary { run, groups, traces, solved, mean_reward, groups_without_signal, spent_usd, .. } = &summary;
        context
            .printer
            .plain(&format!("run {run}: {traces} traces in {groups} groups, {solved} solved, mean reward {mean_reward:.3}"))?;
        context.printer.say(&format!("{groups_without_signal} groups without signal, ${spent_usd:.4} spent"));
    }
    if summary.conflicts > 0 {
        let text = format!("{} records were there already with other content, and stayed as they were", summary.conflicts);
        context.printer.complain(&format!("{text}: give this run another name with --run"));
        return Ok(Exit::No);
    }
    if summary.groups < scenarios.len() {
        context.printer.complain(&format!(
            "the budget is spent; {} of {} scenarios were played",
            summary.groups,
            scenarios.len()
        ));
        return Ok(Exit::No);
    }
    Ok(Exit::Yes)
}

fn writes(played: Played, context: &Context<'_>) -> Vec<Write> {
    let group = Write::Document(Document::of(&played.group, 0, context.settings.tenant.clone(), played.group.at));
    played.traces.into_iter().map(|trace| Write::Trace(Box::new(trace))).chain([group]).collect()
}
