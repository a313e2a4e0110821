//! `hone reward calibrate`: a judge against labelled groups, before anything is trained on its word.

use super::standing;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::play::{Play, PlayArgs, item};
use crate::policy::{Bank, PolicyArgs, Ready};
use crate::printer::counted;
use crate::world::World;
use hone_env::Player;
use hone_env::rollout::{Luck, rollout};
use hone_reward::{
    Attempt, DEFAULT_RUBRIC, Floor, LabelledGroup, Measurement, Ruler, RulerOptions, Unscored, calibrate, read_group,
};
use hone_trace::{RunId, lines};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Reasons that are told, and groups of each.
const N_REASONS_MAX: usize = 10;
const N_NUMBERS_MAX: usize = 10;

/// Measure a judge against labelled groups
///
/// Each line of the file is a group: {"group": [{"messages": […], "label": 0.9}, …]}. Prints how often judge and labels agree
/// about a pair, with its interval, and whether the judge favours a position or length. Exit code 1 when it is refused. The
/// figures are kept in the store, and `hone reward score` refuses a judge that was last refused.
#[derive(Debug, clap::Args)]
// What `PolicyArgs::of_judge` says: the judge that is measured is the one that training hears.
#[command(mut_arg("temperature", |arg| arg.default_value("0")), mut_arg("context", |arg| arg.default_value("4096")))]
pub(crate) struct Args {
    /// The file with labelled groups, one per line
    #[arg(value_name = "FILE", required_unless_present = "env", conflicts_with = "env")]
    groups: Option<PathBuf>,
    /// A world that gives the groups: its gold, random and empty players, labelled by what it says they earned
    #[arg(long, value_name = "WORLD")]
    env: Option<String>,
    /// How many groups
    #[arg(long, short, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    n: u32,
    /// Who judges: local:MODEL, PROVIDER:MODEL, URL#MODEL or script:FILE
    #[arg(long, value_name = "POLICY")]
    judge: String,
    /// The least share of pairs on which judge and labels must agree, by the lower end of its interval
    #[arg(long, default_value_t = 0.6, value_name = "SHARE")]
    floor: f64,
    /// How often each group is judged, in different orders
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeats: u32,
    /// The standards by which is judged; without this, goal first, then efficiency
    #[arg(long, value_name = "FILE")]
    rubric: Option<PathBuf>,
    /// The most tokens of a judgement
    #[arg(long, default_value_t = 2048, value_name = "N")]
    answer_tokens: u64,
    #[command(flatten)]
    play: PlayArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    if !(0.0..=1.0).contains(&args.floor) {
        return Err(Failure::user(format_args!("--floor {} is not a share between 0 and 1", args.floor)));
    }
    let groups = match (&args.groups, &args.env) {
        (Some(path), _) => read(path, args.n as usize)?,
        (None, Some(env)) => played(env, args, context)?,
        (None, None) => return Err(Failure::bug("neither a file nor a world")),
    };
    if !groups.iter().any(LabelledGroup::can_tell) {
        return Err(Failure::user("there is nothing to compare: no group has two traces with different labels")
            .hint("a group holds traces of one task, some better than others"));
    }
    let n_concurrent = usize::from(args.play.concurrency);
    let bank = Bank::open(&args.policy)?;
    let ready = Ready::named(&args.judge, &args.policy, n_concurrent, &bank, context)?;
    let judge = ready.policy().ok_or_else(|| Failure::user(format_args!("`{}` plays, and cannot judge", args.judge)))?;
    // A store that cannot be opened is found out before the judge is paid.
    context.wait(async |context| context.store().await.map(drop))?;
    let rubric = args.rubric.as_ref().map(|path| std::fs::read_to_string(path).map_err(at_path(path))).transpose()?;
    let options = RulerOptions {
        rubric: rubric.clone(),
        repeats: args.repeats,
        answer_tokens_max: args.answer_tokens,
        ..RulerOptions::default()
    };
    let ruler = Ruler::new(judge, options).map_err(Failure::user)?;
    context.printer.say(&format!("judging {} groups", groups.len()));
    let floor = Floor { agreement_min: args.floor, ..Floor::default() };
    let found = calibrate(&ruler, &groups, floor, args.play.seed, n_concurrent);
    let measured = Measurement::of(&found, floor, rubric.as_deref().unwrap_or(DEFAULT_RUBRIC));
    // What was paid for is shown, also when it cannot be kept.
    let kept = context.wait(async |context| standing::record(judge.config().hash(), &measured, context).await);
    if context.printer.wants_json() {
        context.printer.json(&found)?;
    } else {
        let share = &found.agreement;
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let rows = vec![
            row("judge", found.judge.clone()),
            row("groups, of them failed", format!("{}, {}", found.n_groups, found.n_failed)),
            row("pairs, of them ties", format!("{}, {}", found.n_pairs, found.n_ties)),
            row("agreement with labels", format!("{:.3} ({:.3} to {:.3})", share.value, share.low, share.high)),
            row(
                "position bias",
                format!("{:.3} ({:.3} to {:.3})", found.position_bias.value, found.position_bias.low, found.position_bias.high),
            ),
            row(
                "length bias",
                format!("{:.3} ({:.3} to {:.3})", found.length_bias.value, found.length_bias.low, found.length_bias.high),
            ),
            row("calls", found.n_calls.to_string()),
        ];
        context.printer.table(&["measure", "value"], &rows)?;
        failures(&found.failures).iter().for_each(|failure| context.printer.complain(failure));
        found.warnings.iter().for_each(|warning| context.printer.complain(warning));
        found.refusals.iter().for_each(|refusal| context.printer.complain(refusal));
        context.printer.say(if found.is_accepted() { "the judge is accepted" } else { "the judge is refused" });
    }
    kept?;
    Ok(if found.is_accepted() { Exit::Yes } else { Exit::No })
}

/// Why groups could not be scored, a line for each reason.
fn failures(all: &[Unscored]) -> Vec<String> {
    let told = |Unscored { why, groups }: &Unscored| {
        let first: Vec<String> = groups.iter().take(N_NUMBERS_MAX).map(usize::to_string).collect();
        let more = if groups.len() > first.len() { ", …" } else { "" };
        let n = counted(groups.len() as u64, "group");
        format!("{n} could not be scored (number {}{more}): {why}", first.join(", "))
    };
    let mut lines: Vec<String> = all.iter().take(N_REASONS_MAX).map(told).collect();
    if let Some(n_more) = all.len().checked_sub(N_REASONS_MAX).filter(|n| *n > 0) {
        lines.push(format!("{} more why groups could not be scored; --json has all of them", counted(n_more as u64, "reason")));
    }
    lines
}

fn read(path: &Path, n: usize) -> Result<Vec<LabelledGroup>, Failure> {
    let file = std::fs::File::open(path).map_err(at_path(path))?;
    let mut groups = Vec::new();
    for line in lines::of_reader(std::io::BufReader::new(file)).take(n) {
        let (number, line) = line.map_err(at_path(path))?;
        let group = read_group(&line);
        groups.push(group.map_err(|why| Failure::user(format_args!("{}:{number}: {why}", path.display())))?);
    }
    Ok(groups)
}

/// Groups of one gold, two random and one empty episode of a scenario, labelled by what the world says that each earned: the recipe
/// may be the judge itself.
fn played(env: &str, args: &Args, context: &Context<'_>) -> Result<Vec<LabelledGroup>, Failure> {
    let world = context.wait(async |context| World::named(env, context).await)?;
    let scenarios = args.play.scenarios(&world, args.n as usize, context.printer)?;
    let mut groups: Vec<LabelledGroup> = scenarios.iter().map(|_| LabelledGroup { members: Vec::new() }).collect();
    for (player, n_samples) in [(Player::Gold, 1), (Player::Random, 2), (Player::Empty, 1)] {
        let play = Play { n_samples, luck: Luck::Shared, is_script: true };
        let run = RunId::derived(&["calibrate", player.config().model.as_deref().unwrap_or_default()]);
        let plan = args.play.plan(run, &context.settings.tenant, &scenarios, play);
        let (mut left, mut wrong) = (groups.iter_mut().zip(&scenarios), None);
        rollout(world.env.as_ref(), player, &plan, |played| {
            let Some((group, scenario)) = left.next() else { return ControlFlow::Break(()) };
            for trace in played.traces {
                match world.own_recipe.measured(Attempt { trace: &trace, item: &item(scenario) }) {
                    Ok(label) => group.members.push((trace, label)),
                    Err(error) => wrong = Some(Failure::user(error).context(&world.name)),
                }
            }
            ControlFlow::Continue(())
        });
        wrong.map_or(Ok(()), Err)?;
    }
    Ok(groups)
}
