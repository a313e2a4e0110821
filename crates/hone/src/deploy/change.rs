//! `hone deploy start` and what a person asks of a canary: each is a line of the log, and what follows from it is said.

use super::status;
use crate::clock::now;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use clap::ValueEnum;
use hone_arbiter::canary::{AtEnd, Command, Rule, Settings, Stage, State};
use hone_arbiter::log::{Line, Start};
use hone_arbiter::{Deployment, Fleet};
use hone_gateway::registry::{self, AskError, live};
use hone_store::Database;
use hone_trace::store::Write;
use hone_trace::{Agent, AgentName, EventId};
use std::sync::Arc;

/// Send a share of an agent's traffic to a new version, and more as it proves itself
///
/// New episodes go to the version in steps, 10 %, 50 % and all, each on evidence. It is taken back by itself when it is worse, dearer,
/// slower or fails more often. How well an episode went is what `POST /v1/feedback` says of it.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// The agent
    agent: AgentName,
    /// The version that would take over
    version: String,
    /// What it must show: that it is better, or that it is not worse
    #[arg(long, value_enum, default_value = "improve")]
    rule: RuleName,
    /// Under `improve`, the relative gain of quality to show: 0.1 is a tenth [default: 0.1]
    #[arg(long, value_name = "SHARE")]
    gain: Option<f64>,
    /// How much worse, in points of quality from 0 to 1, still counts as not worse
    #[arg(long, default_value_t = 0.03, value_name = "POINTS")]
    margin: f64,
    /// Shares on the way to all of the traffic
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.5", value_name = "SHARE,…")]
    shares: Vec<f64>,
    /// Outcomes of the new version that each share must have at least; without this, 50 and for the last one 1500
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    min_outcomes: Vec<u64>,
    /// How much dearer it may be; `off` for no look at cost
    #[arg(long, default_value = "0.2", value_name = "SHARE|off", value_parser = rise)]
    max_cost_rise: Rise,
    /// How much slower it may be; `off` for no look at latency
    #[arg(long, default_value = "0.2", value_name = "SHARE|off", value_parser = rise)]
    max_latency_rise: Rise,
    /// Minutes after which an outcome that has not come counts as missing
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    wait_minutes: u64,
    /// Outcomes after which it must have shown something
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u64).range(10..))]
    max_outcomes: u64,
    /// What becomes of it when it has not
    #[arg(long, value_enum, default_value = "hold")]
    at_end: AtEndName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuleName {
    /// A relative gain by the end, and not worse at any step
    Improve,
    /// Not worse than the margin: for what is cheaper or faster
    #[value(name = "non_inferior")]
    NonInferior,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AtEndName {
    /// It is paused, and a person decides
    Hold,
    /// It is taken back
    #[value(name = "roll_back")]
    RollBack,
}

/// A relative rise, or none that is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rise(Option<f64>);

fn rise(text: &str) -> Result<Rise, String> {
    match text {
        "off" => Ok(Rise(None)),
        number => number.parse().map(|number| Rise(Some(number))).map_err(|_| "a share such as 0.2, or `off`".to_owned()),
    }
}

/// Outcomes that the last share must have at least, and those before it.
const N_OUTCOMES_MIN_LAST: u64 = 1500;
const N_OUTCOMES_MIN: u64 = 50;
/// Harm that a share before the last must exclude: it hands over to one that can still take it back.
const HARM_MAX: f64 = 0.2;

impl StartArgs {
    fn settings(&self) -> Result<Settings, Failure> {
        let rule = match (self.rule, self.gain) {
            (RuleName::Improve, gain) => Rule::Improve { gain: gain.unwrap_or(0.1), margin: self.margin },
            (RuleName::NonInferior, None) => Rule::NonInferior { margin: self.margin },
            (RuleName::NonInferior, Some(_)) => {
                return Err(Failure::user("--gain has no effect under `non_inferior`, which asks for none"));
            }
        };
        let n_shares = self.shares.len();
        if !self.min_outcomes.is_empty() && self.min_outcomes.len() != n_shares {
            return Err(Failure::user(format_args!(
                "--min-outcomes has {} numbers for {n_shares} shares",
                self.min_outcomes.len()
            )));
        }
        let stage = |(idx, share): (usize, &f64)| {
            let is_last = idx + 1 == n_shares;
            let n_min = if is_last { N_OUTCOMES_MIN_LAST } else { N_OUTCOMES_MIN };
            let n_canary_min = self.min_outcomes.get(idx).copied().unwrap_or(n_min);
            Stage { share: *share, n_canary_min, harm_max: (!is_last).then_some(HARM_MAX.max(self.margin)) }
        };
        let standard = Settings::default();
        Ok(Settings {
            rule,
            stages: self.shares.iter().enumerate().map(stage).collect(),
            cost_rise_max: self.max_cost_rise.0,
            latency_rise_max: self.max_latency_rise.0,
            n_rows_to_harm: standard.n_rows_to_harm.min(self.max_outcomes),
            n_rows_to_promote: standard.n_rows_to_promote.min(self.max_outcomes),
            n_rows_max: self.max_outcomes,
            at_end: match self.at_end {
                AtEndName::Hold => AtEnd::Hold,
                AtEndName::RollBack => AtEnd::RollBack,
            },
            ..standard
        })
    }
}

pub(super) async fn start(args: &StartArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let StartArgs { agent, version, .. } = args;
    let store = context.store_to_read().await?;
    let (entry, fleet) = found(agent, &store, context).await?;
    if !entry.versions.iter().any(|one| one.version == *version) {
        let known: Vec<&str> = entry.versions.iter().map(|one| one.version.as_str()).collect();
        return Err(Failure::user(format_args!("agent `{agent}` has no version {version}"))
            .hint(format!("it has {}; add another with `hone deploy add`", known.join(", "))));
    }
    if let Some(running) = fleet.deployment(agent).filter(|deployment| deployment.is_running()) {
        return Err(Failure::user(format_args!("a canary of {agent} {} runs already", running.start.to))
            .hint(format!("end it with `hone deploy promote {agent}` or `hone deploy rollback {agent}`")));
    }
    let live = live(&entry, &fleet);
    if live == version {
        return Err(Failure::user(format_args!("{agent} {version} serves already")));
    }
    let wait_ms = args.wait_minutes * 60_000;
    let start = Start { agent: agent.clone(), from: live.to_owned(), to: version.clone(), settings: args.settings()?, wait_ms };
    hone_arbiter::canary::Canary::new(start.settings.clone()).map_err(Failure::user)?;
    let at = now();
    let id = EventId::derived(&["start", agent.as_str(), version, &at.unix_nanos().to_string()]);
    let tenant = context.settings.tenant.clone();
    store.put(vec![Write::Event(Line::Started(Box::new(start)).event(id, at, tenant))]).await?;
    let fleet = settled(agent, &store).await?;
    match fleet.deployment(agent).filter(|deployment| deployment.id == id) {
        Some(deployment) => status::tell(&entry, Some(deployment), &[], &fleet, context)?,
        None => return Err(Failure::user(format_args!("another canary of {agent} was started a moment before"))),
    }
    Ok(Exit::Yes)
}

pub(super) async fn ask(agent: &AgentName, command: Command, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let (entry, before) = found(agent, &store, context).await?;
    let asked = registry::ask(&*store, agent, None, command, &context.settings.tenant, now()).await;
    let (fleet, decided) = asked.map_err(|error| match error {
        AskError::NoAgent | AskError::NoCanary => {
            let back = before.deployment(agent).filter(|_| command == Command::Abort).and_then(way_back);
            let hint = back.unwrap_or_else(|| "`hone deploy status` says how agents stand".to_owned());
            Failure::user(format_args!("no canary of `{agent}` runs")).hint(hint)
        }
        AskError::NotPaused => Failure::user(format_args!("the canary of `{agent}` is not paused")),
        AskError::Store(error) => error.into(),
    })?;
    let decided: Vec<_> = decided.into_iter().filter(|decided| decided.agent == *agent).collect();
    status::tell(&entry, fleet.deployment(agent), &decided, &fleet, context)?;
    if let Some(back) = fleet.deployment(agent).and_then(way_back) {
        context.printer.say(&back);
    }
    Ok(Exit::Yes)
}

/// How the version that served before a promotion serves again, where there was one: by a canary of its own, which a person carries to
/// the end.
fn way_back(deployment: &Deployment) -> Option<String> {
    let Start { agent, from, to, .. } = &deployment.start;
    let commands = format!("`hone deploy start {agent} {from} --shares 0.5`, then `hone deploy promote {agent}`");
    (deployment.state() == State::Promoted).then(|| format!("{to} has taken over from {from}; to go back: {commands}"))
}

/// The agent of this name, and all that the log says.
async fn found(agent: &AgentName, store: &Arc<dyn Database>, context: &Context<'_>) -> Result<(Agent, Fleet), Failure> {
    let none = || {
        Failure::user(format_args!("there is no agent `{agent}`"))
            .hint("add one with `hone deploy add AGENT VERSION --model NAME`")
    };
    let entry = registry::agent(&**store, agent).await?.map(|(entry, _)| entry);
    let entry = entry.filter(|entry| entry.tenant == context.settings.tenant).ok_or_else(none)?;
    Ok((entry, registry::history(&**store).await?.0))
}

/// What the log says now, with the registry brought to it.
async fn settled(agent: &AgentName, store: &Arc<dyn Database>) -> Result<Fleet, Failure> {
    let (fleet, _) = registry::history(&**store).await?;
    if let Some(deployment) = fleet.deployment(agent) {
        registry::settle(&**store, agent, deployment, now()).await?;
    }
    Ok(fleet)
}
