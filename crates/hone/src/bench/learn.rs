//! `hone bench learn`: does training do what it promises, over several seeds and against its controls?
//!
//! For every seed a model reads the manual and imitates the agent; from there it goes three ways: by GRPO, by GRPO with every
//! reward given to a random member of its group, and by imitating on for as many tokens as GRPO trained.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::feedback::{Apprentice, Ground, IMITATION_LR, Lesson, Line, MANUAL_LR, N_PAGES, N_STEPS, N_TRACES, Rewards, flat};
use hone_env::Player;
use hone_eval::interval::mean;
use serde::Serialize;
use std::time::Instant;

/// Measure what training reaches on held-out tasks, beside its controls
///
/// Trains a small model on the service desk, once per seed. Takes two to four minutes a seed on two cores.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Steps of GRPO
    #[arg(long, default_value_t = N_STEPS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,
    /// Held-out tasks
    #[arg(long, default_value_t = 400, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=10_000))]
    tasks: u32,
}

/// Traces that imitation goes on with, which it has not seen.
const N_TRACES_ON: usize = 60_000;
/// Points over the model before GRPO from which a run has converged.
const CONVERGED_POINTS: f64 = 30.0;

/// A figure over the seeds.
#[derive(Debug, Serialize)]
struct Figure {
    mean: f64,
    /// Half the width of its 95 % interval.
    half_width: f64,
    least: f64,
    most: f64,
}

impl Figure {
    fn of(runs: &[Run], value: impl Fn(&Run) -> f64) -> Self {
        let values: Vec<f64> = runs.iter().map(value).collect();
        let (mean, half_width) = mean(&values);
        let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        Self { mean, half_width, least, most }
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    desk: DeskFigures,
}

#[derive(Debug, Serialize)]
struct DeskFigures {
    seeds: u32,
    script: Figure,
    sft: Figure,
    sft_continued: Figure,
    grpo: Figure,
    permuted: Figure,
    gain_points: Figure,
    permuted_gain_points: Figure,
    tool_adoption_start: Figure,
    tool_adoption_end: Figure,
    converged: usize,
    /// Of what a user waits for: manual, imitation, GRPO and its evaluation.
    seconds: Figure,
}

/// One seed.
struct Run {
    script: Line,
    sft: Line,
    sft_continued: Line,
    grpo: Line,
    permuted: Line,
    seconds: f64,
}

impl Run {
    fn gain_points(&self) -> f64 {
        100.0 * (self.grpo.completion - self.sft.completion)
    }
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let mut runs = Vec::new();
    for seed in args.seed..args.seed + u64::from(args.seeds) {
        let run = one(seed, args, context)?;
        context.printer.say(&format!(
            "seed {seed}: script {:.1} %, imitation {:.1} %, continued {:.1} %, GRPO {:.1} %, permuted {:.1} %; tools {:.1} % → {:.1} %; {:.0} s",
            100.0 * run.script.completion,
            100.0 * run.sft.completion,
            100.0 * run.sft_continued.completion,
            100.0 * run.grpo.completion,
            100.0 * run.permuted.completion,
            100.0 * run.sft.tool_adoption,
            100.0 * run.grpo.tool_adoption,
            run.seconds
        ));
        runs.push(run);
    }
    let desk = DeskFigures {
        seeds: args.seeds,
        script: Figure::of(&runs, |run| run.script.completion),
        sft: Figure::of(&runs, |run| run.sft.completion),
        sft_continued: Figure::of(&runs, |run| run.sft_continued.completion),
        grpo: Figure::of(&runs, |run| run.grpo.completion),
        permuted: Figure::of(&runs, |run| run.permuted.completion),
        gain_points: Figure::of(&runs, Run::gain_points),
        permuted_gain_points: Figure::of(&runs, |run| 100.0 * (run.permuted.completion - run.sft.completion)),
        tool_adoption_start: Figure::of(&runs, |run| run.sft.tool_adoption),
        tool_adoption_end: Figure::of(&runs, |run| run.grpo.tool_adoption),
        converged: runs.iter().filter(|run| run.gain_points() >= CONVERGED_POINTS).count(),
        seconds: Figure::of(&runs, |run| run.seconds),
    };
    if context.printer.wants_json() {
        context.printer.json(&Figures { desk })?;
    } else {
        let Figure { mean, half_width, .. } = desk.gain_points;
        let converged = format!("{} of {} runs converged", desk.converged, args.seeds);
        context.printer.plain(&format!("GRPO gains {mean:.1} ± {half_width:.1} points over imitation; {converged}"))?;
    }
    Ok(Exit::Yes)
}

fn one(seed: u64, args: &Args, context: &Context<'_>) -> Result<Run, Failure> {
    let start = Instant::now();
    let ground = Ground::new(seed, args.tasks as usize, context)?;
    let mut apprentice = Apprentice::new(&ground.corpus()?, seed, None)?;
    apprentice.imitate(&ground.manual(N_PAGES as usize)?, MANUAL_LR, usize::MAX, |_, _| {})?;
    let mut traces = flat(ground.demonstrations(N_TRACES as usize + N_TRACES_ON)?.1);
    let more = traces.split_off(N_TRACES as usize);
    apprentice.imitate(&traces, IMITATION_LR, usize::MAX, |_, _| {})?;
    let measure =
        |name: &str, apprentice: &Apprentice| Ok::<_, Failure>(ground.measure(name, Player::Policy(&apprentice.policy()?))?.0);
    let sft = measure("sft", &apprentice)?;
    let begun = apprentice.state()?;

    let n_steps = args.steps as usize;
    let mut n_tokens = 0;
    Lesson { name: "grpo", n_steps, rewards: Rewards::Own }.teach(&mut apprentice, &ground, |step| {
        n_tokens += step.improved.n_tokens;
        Ok(())
    })?;
    let grpo = measure("grpo", &apprentice)?;
    let seconds = start.elapsed().as_secs_f64();

    apprentice.restore(begun.clone())?;
    Lesson { name: "grpo", n_steps, rewards: Rewards::Permuted }.teach(&mut apprentice, &ground, |_| Ok(()))?;
    let permuted = measure("permuted", &apprentice)?;

    apprentice.restore(begun)?;
    apprentice.begin_anew()?;
    apprentice.imitate(&more, IMITATION_LR, n_tokens, |_, _| {})?;
    let sft_continued = measure("sft continued", &apprentice)?;
    Ok(Run { script: ground.measure_agent()?, sft, sft_continued, grpo, permuted, seconds })
}
