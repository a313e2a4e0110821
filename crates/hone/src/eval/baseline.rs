//! `hone eval baseline`: prompted models first, so that a team sees whether training is needed at all.
//!
//! Every policy plays the same scenarios, each several times.

use crate::context::Context;
use crate::cost::{self, Forecast, Projected};
use crate::failure::{Exit, Failure};
use crate::gym::Broken;
use crate::play::{Play, PlayArgs, unseen_tools};
use crate::policy::{Bank, LOCAL, PolicyArgs, Ready};
use crate::scale::Scale;
use crate::world::{SHIPPED, World};
use hone_env::replay::{Report, drift};
use hone_env::rollout::{Luck, rollout};
use hone_eval::{Episode, Measures};
use hone_trace::store::{Document, Write};
use hone_trace::{AdapterId, Category, DataHash, Outcome, OutcomeId, Scenario, Trace, V1};
use serde::Serialize;
use std::ops::ControlFlow;

/// Play the same scenarios with several policies, side by side
///
/// Policies are gold, random and empty (scripts that every world has), script:FILE, local:MODEL, PROVIDER:MODEL such as
/// openai:gpt-5-mini, and URL#MODEL for any OpenAI-compatible server. Accuracy is the share of solved episodes, with its
/// 95 % interval over tasks, reliability the share of tasks solved in all repeats. Tokens and turns of failed episodes count towards the price of solved ones.
/// Episodes in which the world broke or no answer came are counted and measure nothing; where all of a policy's did, the exit code is 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A world, such as desk, 2048 or math:sums; without this, all that ship with hone
    #[arg(long = "env", value_name = "WORLD")]
    envs: Vec<String>,
    /// Who plays; without this, gold, random and empty
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// Scenarios of each world
    #[arg(long, short, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// How often each is played
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    repeats: u16,
    /// Keep the traces in the store, and what was measured
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    play: PlayArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// A world, and what is played in it by whom at what price.
struct Game {
    world: World,
    scenarios: Vec<Scenario>,
    /// One for each policy; nothing for those that cost nothing.
    forecasts: Vec<Option<Forecast>>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Line {
    env: String,
    policy: String,
    /// The adapter on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<AdapterId>,
    #[serde(flatten)]
    measures: Measures,
    /// How far the episodes left the recorded ones, where records were played.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Report>,
    /// What was projected to be spent, where the price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    projection: Option<Projected>,
    /// Dollars spent on this line.
    spent_usd: f64,
    /// The hash of all traces, timings included when they are the world's own: equal traces have equal hashes.
    traces: String,
}

impl Line {
    /// The policy, with the adapter on it where there is one.
    fn who(&self) -> String {
        match self.adapter {
            Some(adapter) => format!("{} + {}", self.policy, &adapter.to_string()[..8]),
            None => self.policy.clone(),
        }
    }

    /// Whether an episode says something of the policy.
    fn is_measured(&self) -> bool {
        self.measures.n_broken < self.measures.n_episodes
    }
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let usual = || SHIPPED.iter().flat_map(|shipped| shipped.usual).map(|&name| name.to_owned()).collect();
    let envs = if args.envs.is_empty() { usual() } else { args.envs.clone() };
    let scripts = || ["gold", "random", "empty"].map(str::to_owned).to_vec();
    let policies = if args.policies.is_empty() { scripts() } else { args.policies.clone() };
    args.policy.check_adapter(&policies)?;
    let bank = Bank::open(&args.policy)?;
    let n_concurrent = usize::from(args.play.concurrency);
    let ready = |(idx, name): (usize, &String)| {
        let n_models = policies[idx..].iter().filter(|name| name.starts_with(LOCAL)).count();
        Ready::named(name, &args.policy.clone().first_of(n_models), n_concurrent, &bank, context)
    };
    let ready: Vec<Ready> = policies.iter().enumerate().map(ready).collect::<Result<_, _>>()?;
    let players: Vec<(&String, &Ready)> = policies.iter().zip(&ready).collect();
    let mut games = envs.iter().map(|env| Game::named(env, &players, args, context)).collect::<Result<Vec<_>, _>>()?;
    cost::announce(games.iter().flat_map(|game| game.forecasts.iter().flatten()), &bank, context.printer)?;
    let mut lines = Vec::new();
    for game in &mut games {
        let scale = Scale::of(&game.world, &game.scenarios, &args.play, context);
        for ((name, ready), forecast) in players.iter().zip(&mut game.forecasts) {
            let cell = Cell { name, ready, world: &game.world, scenarios: &game.scenarios, scale: &scale };
            lines.push(line(&cell, forecast.as_mut(), args, &bank, context)?);
            if context.printer.wants_json() {
                context.printer.json(lines.last().expect("a line was just made"))?;
            }
        }
    }
    if !context.printer.wants_json() {
        print(&lines, context)?;
    }
    Ok(if lines.iter().all(Line::is_measured) { Exit::Yes } else { Exit::No })
}

impl Game {
    fn named(env: &str, players: &[(&String, &Ready)], args: &Args, context: &Context<'_>) -> Result<Self, Failure> {
        let world = context.wait(async |context| World::named(env, context).await)?;
        let scenarios = args.play.scenarios(&world, args.n as usize, context.printer)?;
        let is_paid = players.iter().any(|(_, ready)| ready.price().is_some());
        let episodes = if is_paid { cost::gold_episodes(&world, &scenarios, &args.play, context) } else { Vec::new() };
        let n_episodes = scenarios.len() * usize::from(args.repeats);
        let forecast =
            |(name, ready): &(&String, &Ready)| Forecast::new(format!("{name} on {}", world.name), ready, &episodes, n_episodes);
        let forecasts = players.iter().map(forecast).collect();
        Ok(Self { world, scenarios, forecasts })
    }
}

/// Where a policy and a world meet.
struct Cell<'a> {
    name: &'a str,
    ready: &'a Ready,
    world: &'a World,
    scenarios: &'a [Scenario],
    scale: &'a Scale<'a>,
}

fn line(
    cell: &Cell<'_>,
    mut forecast: Option<&mut Forecast>,
    args: &Args,
    bank: &Bank,
    context: &Context<'_>,
) -> Result<Line, Failure> {
    let Cell { name, ready, world, scenarios, scale } = *cell;
    let player = ready.player();
    let config = player.config().into_owned();
    let play = Play { n_samples: usize::from(args.repeats), luck: Luck::Own, is_script: ready.is_script() };
    let run = args.play.run("baseline", world, &config, args.play.seed, play);
    let plan = args.play.plan(run, &context.settings.tenant, scenarios, play);
    let (before, n_total) = (bank.budget.spent().known_usd, scenarios.len());
    let bar = context.printer.count_bar(&format!("{} {name}", world.name));
    let (mut episodes, mut traces_hash, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let (mut n_groups, mut why_broken) = (0, None);
    rollout(world.env.as_ref(), player, &plan, |played| {
        if let Some(text) = unseen_tools(player, &played.traces).filter(|_| n_groups == 0) {
            context.printer.complain(&text);
        }
        n_groups += 1;
        bar.inc(played.traces.len() as u64);
        why_broken = why_broken.take().or_else(|| Broken::among(&played.traces).map(|broken| broken.why));
        for trace in &played.traces {
            episodes.push(Episode::of(trace, scale.score(trace)));
            let text = serde_json::to_vec(trace).expect("a trace has string keys and finite numbers");
            traces_hash.extend_from_slice(DataHash::of(&text).bytes());
        }
        if let Some(forecast) = forecast.as_deref_mut() {
            forecast.group(&played.traces, context.printer);
        }
        if args.record || world.replay.is_some() {
            kept.push(played);
        }
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    if n_groups < n_total {
        context
            .printer
            .complain(&format!("{name} on {}: the budget is spent; {n_groups} of {n_total} scenarios were played", world.name));
    }
    let replay = world.replay.as_ref().map(|replay| {
        let traces: Vec<Trace> = kept.iter().flat_map(|played| played.traces.clone()).collect();
        drift(&traces, replay)
    });
    let measures = Measures::of(&episodes);
    if let Some(why) = why_broken {
        let Measures { n_broken, n_episodes, .. } = measures;
        let text = format!("{n_broken} of {n_episodes} episodes broke and count for nothing, the first so: {why}");
        context.printer.complain(&format!("{name} on {}: {text}", world.name));
    }
    if args.record {
        context.wait(async |context| {
            record(&config, kept, context).await?;
            report(&config, &world.name, &measures, context).await
        })?;
    }
    Ok(Line {
        env: world.name.clone(),
        policy: name.to_owned(),
        adapter: config.adapter,
        measures,
        replay,
        projection: forecast.map(|forecast| forecast.projected()),
        spent_usd: bank.budget.spent().known_usd - before,
        traces: DataHash::of(&traces_hash).to_string(),
    })
}

/// Writes what was measured, for who looks at reports; nothing where all episodes broke.
pub(crate) async fn report(
    config: &hone_trace::Config,
    env: &str,
    measures: &Measures,
    context: &Context<'_>,
) -> Result<(), Failure> {
    if measures.n_scenarios == 0 {
        return Ok(());
    }
    let (store, tenant, at) = (context.store().await?, &context.settings.tenant, crate::clock::now());
    let outcome = Outcome {
        v: V1,
        id: OutcomeId::derived(&["baseline", tenant.as_str(), env, &config.hash().to_string(), &at.to_string()]),
        tenant: tenant.clone(),
        at,
        config: config.hash(),
        category: Category::new(env).ok(),
        n_traces: (measures.n_episodes - measures.n_broken) as u64,
        n_scenarios: Some(measures.n_scenarios as u64),
        success: measures.accuracy,
        reliability: Some(measures.reliability),
        turns_per_solved: measures.turns_per_solved,
        tokens_per_solved: measures.tokens_per_solved,
        cost_usd: measures.cost_per_1k.map(|usd| usd / 1000.0),
        latency_p50_ms: measures.latency_p50_ms,
        failure_pattern: measures.failure.as_ref().map(|(kind, _)| kind.clone()),
    };
    store.put(vec![Write::Document(Document::of(&outcome, 0, tenant.clone(), at))]).await?;
    Ok(())
}

/// Writes what was played, with the config that played it.
pub(crate) async fn record(
    config: &hone_trace::Config,
    played: Vec<hone_env::rollout::Played>,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let (store, tenant, now) = (context.store().await?, &context.settings.tenant, crate::clock::now());
    store.put(vec![Write::Document(Document::of(config, 0, tenant.clone(), now))]).await?;
    for one in played {
        let group = Write::Document(Document::of(&one.group, 0, tenant.clone(), one.group.at));
        let traces = one.traces.into_iter().map(|trace| Write::Trace(Box::new(trace)));
        store.put(traces.chain([group]).collect()).await?;
    }
    Ok(())
}

fn print(lines: &[Line], context: &Context<'_>) -> Result<(), Failure> {
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    let row = |line: &Line| {
        let m = &line.measures;
        let (low, high) = m.accuracy_interval;
        let measured = |text: String| if line.is_measured() { text } else { "-".to_owned() };
        vec![
            line.env.clone(),
            line.who(),
            measured(format!("{:.2} ({low:.2}-{high:.2})", m.accuracy)),
            measured(format!("{:.2}", m.reliability)),
            number(m.score, 3),
            number(m.turns_per_solved, 1),
            number(m.tokens_per_solved, 0),
            number(m.cost_per_1k, 2),
            number(m.latency_p50_ms, 0),
            m.failure.as_ref().map_or_else(String::new, |(kind, n)| format!("{kind} {n}")),
        ]
    };
    let headings =
        ["world", "policy", "accuracy", "reliable", "score", "turns/solved", "tokens/solved", "$/1k", "p50 ms", "failure"];
    context.printer.table(&headings, &lines.iter().map(row).collect::<Vec<_>>())?;
    for line in lines {
        if let Some(Report { share_from_record, mean_drift, share_same_outcome, .. }) = &line.replay {
            let text = format!(
                "{}: {:.1} % of what was asked came from the record, drift {mean_drift:.2}, {:.1} % same outcome",
                line.policy,
                100.0 * share_from_record,
                100.0 * share_same_outcome
            );
            context.printer.plain(&text)?;
        }
    }
    Ok(())
}
