//! `hone data gate`: is the pool fit to learn from?

use super::{PurposeName, demonstrations, each, held_out};
use crate::clock::now;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::printer::{Style, counted};
use crate::trace::Filter;
use hone_data::facts::Facts;
use hone_data::gate::{Bars, Gate, Pool, Purpose, Verdict};
use hone_trace::{Trace, lines};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Say whether the pool is fit to learn from
///
/// Six gates: enough points, clean, enough types of task, private, nothing held out, consent of other tenants. Each prints its figure, its
/// bar and the records behind a failure; what they hold of personal data is never printed. Bars stand in `[data]` of hone.toml, and
/// options win over them. Exit code 1 when a gate refuses.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the data is for
    #[arg(long = "for", value_enum, default_value_t = PurposeName::Sft, value_name = "PURPOSE")]
    purpose: PurposeName,
    /// Read traces from this file of JSON lines instead of the store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["category", "config_hash", "outcome", "since", "until", "reward_min", "reward_max", "field", "all_tenants"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    bars: BarArgs,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Bars")]
struct BarArgs {
    /// The fewest clean traces that earned enough
    #[arg(long, value_name = "N")]
    points: Option<u64>,
    /// The reward from which a trace is worth imitating, in hundredths
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    quality: Option<i64>,
    /// The least share of clean traces
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    clean: Option<u8>,
    /// The fewest types of task with enough points
    #[arg(long, value_name = "N")]
    task_types: Option<u64>,
    /// The fewest points of a type of task
    #[arg(long, value_name = "N")]
    task_points: Option<u64>,
    /// Answers to one scenario that are more alike than this are one
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    near_duplicate: Option<u8>,
    /// A file with what is held out for tests
    #[arg(long, value_name = "FILE")]
    held_out: Option<PathBuf>,
}

impl BarArgs {
    fn bars(&self, purpose: Purpose, context: &Context<'_>) -> Bars {
        let data = &context.settings.data;
        let share = |percent: Option<u8>, set: f64| percent.map_or(set, |percent| f64::from(percent) / 100.0);
        let points = match purpose {
            Purpose::Sft => data.sft_points,
            Purpose::Rl => data.rl_points,
        };
        Bars {
            purpose,
            points: self.points.unwrap_or(points),
            quality: self.quality.map_or(data.quality, |percent| percent as f64 / 100.0),
            clean: share(self.clean, data.clean),
            task_types: self.task_types.unwrap_or(data.task_types),
            task_points: self.task_points.unwrap_or(data.task_points),
            likeness: share(self.near_duplicate, data.likeness),
        }
    }
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let settings = &context.settings;
    let user_field = &settings.data.user_field;
    let held_out = held_out(args.bars.held_out.as_deref().or(settings.data.held_out.as_deref()), user_field)?;
    let bars = args.bars.bars(args.purpose.into(), context);
    let mut pool = Pool::new(bars, settings.tenant.clone(), settings.data.consent.clone(), held_out);
    let mut add = |trace: &Trace| pool.add(trace, &Facts::of(trace, user_field));
    match &args.from {
        Some(path) => read_file(path, &mut add)?,
        None => {
            let store = context.store_to_read().await?;
            let said = demonstrations(&*store, args.purpose.into()).await?;
            each(&*store, &args.filter.query(context), &said, context, add).await?;
        }
    }
    let verdict = pool.verdict();
    if args.from.is_none() {
        let (store, tenant) = (context.store_to_read().await?, settings.tenant.clone());
        hone_gateway::gates::tell(&*store, &verdict, tenant, now()).await?;
    }
    print(&verdict, context)?;
    Ok(if verdict.pass { Exit::Yes } else { Exit::No })
}

fn read_file(path: &Path, add: &mut impl FnMut(&Trace)) -> Result<(), Failure> {
    let file = File::open(path).map_err(at_path(path))?;
    for line in lines::of_reader(BufReader::new(file)) {
        let (number, line) = line.map_err(at_path(path))?;
        let wrong = |error| {
            Failure::user(format_args!("{}, line {number}: {error}", path.display()))
                .hint("`hone trace export` writes such a file")
        };
        let trace: Trace = serde_json::from_str(&line).map_err(wrong)?;
        add(&trace);
    }
    Ok(())
}

fn print(verdict: &Verdict, context: &Context<'_>) -> Result<(), Failure> {
    let printer = context.printer;
    if printer.wants_json() {
        return printer.json(verdict);
    }
    for gate in &verdict.gates {
        let (word, style) = if gate.pass { ("pass   ", Style::Good) } else { ("refused", Style::Bad) };
        printer.line(&[(style, word), (Style::Plain, &format!("  {:<10}  {}", gate.name, said(gate, verdict.traces)))])?;
        for (record, why) in gate.records.iter().zip(&gate.why) {
            printer.line(&[(Style::Faint, &format!("         {record}  {why}"))])?;
        }
    }
    printer.say(&summed_up(verdict));
    Ok(())
}

/// The last line: what is to be thought of the whole.
fn summed_up(verdict: &Verdict) -> String {
    let n_refused = verdict.gates.iter().filter(|gate| !gate.pass).count() as u64;
    let traces = counted(verdict.traces, "trace");
    if n_refused > 0 {
        return format!("{traces}: {} refused", counted(n_refused, "gate"));
    }
    let share = verdict.gates.iter().find(|gate| gate.name == "clean").map_or(1.0, |gate| gate.value);
    match verdict.traces - n_clean(share, verdict.traces) {
        0 => format!("{traces}: fit to learn from, and all of them clean"),
        n => format!("{traces}: fit to learn from; {n} not clean, which `hone data prepare` leaves out"),
    }
}

fn n_clean(share: f64, n_traces: u64) -> u64 {
    (share * n_traces as f64).round() as u64
}

/// What a gate found, in how many traces, and what it asks for.
fn said(gate: &Gate, n_traces: u64) -> String {
    let Gate { value, bar, .. } = gate;
    let traces = counted(n_traces, "trace");
    match gate.name {
        "points" => format!("{value} of at least {bar}"),
        "clean" => {
            let (n, share, least) = (n_clean(*value, n_traces), value * 100.0, bar * 100.0);
            format!("{n} of {traces}: {share:.2} % of at least {least} %")
        }
        "task_types" => format!("{value} with enough points, of at least {bar}"),
        "privacy" if gate.pass => format!("no personal data in {traces}"),
        "privacy" => format!("personal data in {value} of {traces}"),
        "leaks" if gate.pass => format!("nothing that is held out in {traces}"),
        "leaks" => format!("{value} of {traces} held out"),
        _ => format!("consent for {} of {traces}", n_traces as f64 - value),
    }
}
