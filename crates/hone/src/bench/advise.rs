//! `hone bench advise`: how often advice errs, and whether failures with one cause are found together.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_advise::simulate::{Study, study};
use hone_advise::{Failures, quality};
use hone_env::desk::{Desk, DeskOptions};
use hone_env::rollout::{Plan, traces};
use hone_env::{Dialect, Player};
use hone_trace::env::{Env, Split};
use hone_trace::policy::{AnswerLimits, Conversation, PolicyError, PolicyErrorKind};
use hone_trace::{Draws, Message, Role, Scenario, TraceId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Measure how often advice errs, and whether failures of one cause are found together
///
/// Simulated fleets of four configs, each of which got another mix of easy and hard tasks: in how many a config is proposed that is not
/// better, in how many the one that is gets found, and in how many averages would have named a wrong one. Then episodes at the service desk, played
/// well but for one planted fault each: how pure the clusters of failures are, and how many pairs of one cause are together.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The seed of fleets and faults
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Fleets of each kind
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    fleets: u32,
    /// Episodes of each config in a fleet
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=100_000))]
    episodes: u32,
    /// Episodes at the desk
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=100_000))]
    failures: u32,
}

/// What is planted in an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    /// It says nothing.
    Silent,
    /// It declines.
    Declines,
    /// It does its first action again and again.
    Repeats,
    /// It leaves the arguments of its first call out, and gives up.
    LeavesOut,
    /// It does not call a tool.
    Guesses,
    /// It does all of it, and says something else in the end.
    Misreads,
    /// Its provider does not answer in time.
    TimesOut,
}

const FAULTS: [Fault; 7] =
    [Fault::Silent, Fault::Declines, Fault::Repeats, Fault::LeavesOut, Fault::Guesses, Fault::Misreads, Fault::TimesOut];

#[derive(Debug, Serialize)]
struct Found {
    /// Episodes that failed.
    n_failures: usize,
    n_causes: usize,
    n_clusters: usize,
    /// The share of failures whose cluster is mostly of their cause.
    purity: f64,
    /// The share of pairs in one cluster that have one cause.
    pairs_right: f64,
    /// The share of pairs of one cause that are in one cluster.
    pairs_together: f64,
}

#[derive(Debug, Serialize)]
struct Figures {
    fleets: Vec<Study>,
    failures: Found,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let fleets = study(args.seed, args.fleets as usize, args.episodes as usize);
    let failures = failures(args.seed, args.failures as usize)?;
    if context.printer.wants_json() {
        context.printer.json(&Figures { fleets, failures })?;
        return Ok(Exit::Yes);
    }
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let rows: Vec<Vec<String>> = fleets
        .iter()
        .map(|study| vec![study.truth.to_owned(), percent(study.wrong), percent(study.found), percent(study.wrong_by_averages)])
        .collect();
    context.printer.table(&["what is true", "wrong advice", "found", "wrong by averages"], &rows)?;
    let Found { n_failures, n_causes, n_clusters, purity, pairs_right, pairs_together } = failures;
    context.printer.plain(&format!(
        "{n_failures} failures of {n_causes} causes in {n_clusters} clusters: purity {purity:.3}, {} of pairs in one cluster have one \
         cause, {} of pairs of one cause are in one cluster",
        percent(pairs_right),
        percent(pairs_together)
    ))?;
    Ok(Exit::Yes)
}

fn failures(seed: u64, n: usize) -> Result<Found, Failure> {
    let desk = Desk::new(DeskOptions { dialect: Dialect::Natural, fault_rate: 0.0 }).map_err(Failure::world)?;
    let scenarios = desk.scenarios(Split::Train, seed, n).map_err(Failure::world)?;
    let cause = |scenario: &Scenario| *Draws::new(seed, &["fault", scenario.id.as_str()]).pick(&FAULTS);
    let script = |scenario: &Scenario, luck: u64| {
        let played = desk.manual(scenario).map_err(|_| ()).or_else(|()| desk.gold(scenario, luck).map_err(|_| ()));
        let played = played.expect("a desk plays its own scenarios");
        Ok(Box::new(Faulty { played, fault: cause(scenario), n_answers: 0, first: None }) as Box<dyn Conversation>)
    };
    let all = traces(&desk, Player::Script("faulty", &script), &Plan::new("advise", &scenarios, seed));
    let by_id: BTreeMap<_, Fault> = scenarios.iter().map(|scenario| (scenario.id.clone(), cause(scenario))).collect();
    let mut seen = Failures::default();
    let mut causes: BTreeMap<TraceId, Fault> = BTreeMap::new();
    for trace in &all {
        seen.see(trace, quality(trace, None));
        causes.extend(trace.scenario.as_ref().and_then(|id| by_id.get(id)).map(|fault| (trace.id, *fault)));
    }
    let mut table: BTreeMap<(usize, Fault), usize> = BTreeMap::new();
    for (trace, cluster) in seen.labels() {
        *table.entry((cluster, causes[&trace])).or_default() += 1;
    }
    Ok(weighed(&table))
}

fn weighed(table: &BTreeMap<(usize, Fault), usize>) -> Found {
    let mut by_cluster: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    let mut by_cause: BTreeMap<Fault, usize> = BTreeMap::new();
    for ((cluster, cause), n) in table {
        let (total, most) = by_cluster.entry(*cluster).or_default();
        *total += n;
        *most = (*most).max(*n);
        *by_cause.entry(*cause).or_default() += n;
    }
    let pairs = |n: usize| (n * n.saturating_sub(1) / 2) as f64;
    let n_failures: usize = table.values().sum();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
    let both: f64 = table.values().map(|n| pairs(*n)).sum();
    Found {
        n_failures,
        n_causes: by_cause.len(),
        n_clusters: by_cluster.len(),
        purity: share(by_cluster.values().map(|(_, most)| *most as f64).sum(), n_failures as f64),
        pairs_right: share(both, by_cluster.values().map(|(total, _)| pairs(*total)).sum()),
        pairs_together: share(both, by_cause.values().map(|n| pairs(*n)).sum()),
    }
}

/// Who plays well, but for a fault.
struct Faulty {
    played: Box<dyn Conversation>,
    fault: Fault,
    n_answers: usize,
    first: Option<Message>,
}

impl Conversation for Faulty {
    fn answer(&mut self, input: &[Message], limits: AnswerLimits) -> Result<hone_trace::policy::Answered, PolicyError> {
        self.n_answers += 1;
        let mut answered = self.played.answer(input, limits)?;
        let said = |text: &str| Message::text(Role::Assistant, text);
        let is_call = !answered.message.tool_calls.is_empty();
        match self.fault {
            Fault::Silent => answered.message = said(""),
            Fault::Declines => answered.message = said("I'm sorry, but I cannot help with that request."),
            Fault::Repeats => answered.message = self.first.get_or_insert(answered.message).clone(),
            Fault::LeavesOut if self.n_answers > 1 => answered.message = said("Something went wrong with that."),
            Fault::LeavesOut => answered.message.tool_calls.iter_mut().for_each(|call| call.arguments = "{}".to_owned()),
            Fault::Guesses if is_call => answered.message = said("That is done. The answer is 4711."),
            Fault::Misreads if !is_call => answered.message = said("The answer is 4711."),
            Fault::Guesses | Fault::Misreads => {}
            Fault::TimesOut => {
                let message = format!("no answer within {} ms", 30_000 + self.n_answers);
                return Err(PolicyError { kind: PolicyErrorKind::Timeout, message, llm_calls: Vec::new() });
            }
        }
        Ok(answered)
    }
}
