//! What follows from the log of agents: which canaries run and how they stand, and what each tenant's versions have shown.
//!
//! A fleet is a fold: the same lines in the same order give the same fleet, whoever reads them. Lines that cannot apply, such as a row
//! of a canary that is over or a second canary of the same agent, change nothing.
//!
//! Knows nothing of where the log is kept, nor of time but for what the lines say.

use crate::canary::{Canary, Decision, Fact, SettingsError, State};
use crate::log::{CanaryRow, Line, LineError, Start};
use crate::{Arm, Assignment, Performance, assign};
use hone_trace::store::Event;
use hone_trace::{AgentName, Category, EventId, Tenant, Time, TraceId};
use std::collections::{BTreeMap, HashMap};

/// Episodes of one canary whose outcomes are waited for; of more, the outcomes count only when they come by themselves.
const N_WAITING_MAX: usize = 100_000;

/// All canaries, and what is known about all versions.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    deployments: BTreeMap<AgentName, Deployment>,
    /// Of each tenant's versions: nobody learns from what happened to others, nor hears of it.
    performance: BTreeMap<Tenant, Performance>,
    /// Of those of whom nothing is known yet.
    nothing: Performance,
}

/// What a line has changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// An entry of the registry.
    Registered(AgentName),
    /// The state of a canary.
    Decided {
        /// Whose canary.
        agent: AgentName,
        /// Which.
        canary: EventId,
        /// The decision.
        decision: Box<Decision>,
    },
    /// What is known about the versions of a tenant at this type of task.
    Learned(Tenant, Category),
}

impl Change {
    fn decided(agent: AgentName, canary: EventId, decision: Decision) -> Self {
        Self::Decided { agent, canary, decision: Box::new(decision) }
    }
}

/// The latest canary of an agent, as its log tells it.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The id of the line that began it.
    pub id: EventId,
    /// When that was.
    pub at: Time,
    /// How it began.
    pub start: Start,
    canary: Canary,
    waiting: Waiting,
    /// Versions of the canary before, whose episodes may go on.
    before: Vec<String>,
}

/// Episodes that were answered and have no outcome yet.
#[derive(Debug, Clone, Default)]
struct Waiting {
    since: HashMap<TraceId, Time>,
    order: BTreeMap<(Time, TraceId), CanaryRow>,
}

impl Fleet {
    /// Reads the next line of the log.
    pub fn read(&mut self, event: &Event) -> Result<Change, LineError> {
        match Line::of(event)? {
            Line::Registered { agent } => Ok(Change::Registered(agent)),
            Line::Started(start) => {
                let agent = start.agent.clone();
                if self.deployments.get(&agent).is_some_and(Deployment::is_running) {
                    return Ok(Change::Nothing);
                }
                let deployment = Deployment::begin(event.id, event.at, *start);
                let mut deployment = deployment.map_err(|error| LineError { id: event.id, reason: error.to_string() })?;
                deployment.before = self.deployments.get(&agent).map(Deployment::not_taken_back).unwrap_or_default();
                let began = deployment.report();
                self.learner(&event.tenant).keep_only(&agent, [&deployment.start.from, &deployment.start.to]);
                self.deployments.insert(agent.clone(), deployment);
                Ok(Change::decided(agent, event.id, began))
            }
            Line::Row(row) => {
                let Some(deployment) = self.running(&row.agent, row.canary) else { return Ok(Change::Nothing) };
                let decided = deployment.see(&row, event.at);
                let decided = decided.map_err(|reason| LineError { id: event.id, reason })?;
                Ok(decided.map_or(Change::Nothing, |decision| Change::decided(row.agent, row.canary, decision)))
            }
            Line::Asked { agent, canary, command } => {
                let Some(deployment) = self.running(&agent, canary) else { return Ok(Change::Nothing) };
                let decided = deployment.canary.command(command);
                Ok(decided.map_or(Change::Nothing, |decision| Change::decided(agent, canary, decision)))
            }
            Line::Decided { agent, canary, decision } => {
                let Some(deployment) = self.running(&agent, canary) else { return Ok(Change::Nothing) };
                let taken = deployment.canary.stand_by(&decision);
                Ok(taken.map_or(Change::Nothing, |decision| Change::decided(agent, canary, decision)))
            }
            Line::Ended(ended) => {
                let learned = self.learner(&event.tenant).add(&ended);
                let task = learned.map_err(|reason| LineError { id: event.id, reason })?;
                Ok(Change::Learned(event.tenant.clone(), task))
            }
        }
    }

    /// The latest canary of an agent.
    pub fn deployment(&self, agent: &AgentName) -> Option<&Deployment> {
        self.deployments.get(agent)
    }

    /// All of them.
    pub fn deployments(&self) -> impl Iterator<Item = &Deployment> {
        self.deployments.values()
    }

    /// How well a tenant's versions do.
    pub fn performance(&self, tenant: &Tenant) -> &Performance {
        self.performance.get(tenant).unwrap_or(&self.nothing)
    }

    /// How well versions do, by whose they are.
    pub fn performances(&self) -> impl Iterator<Item = (&Tenant, &Performance)> {
        self.performance.iter()
    }

    fn learner(&mut self, tenant: &Tenant) -> &mut Performance {
        self.performance.entry(tenant.clone()).or_default()
    }

    fn running(&mut self, agent: &AgentName, canary: EventId) -> Option<&mut Deployment> {
        self.deployments.get_mut(agent).filter(|deployment| deployment.id == canary && deployment.is_running())
    }
}

impl Deployment {
    fn begin(id: EventId, at: Time, start: Start) -> Result<Self, SettingsError> {
        let canary = Canary::new(start.settings.clone())?;
        Ok(Self { id, at, start, canary, waiting: Waiting::default(), before: Vec::new() })
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.canary.state()
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        matches!(self.state(), State::Running | State::Paused)
    }

    /// Where it stands with its numbers, and what it waits for.
    pub fn report(&self) -> Decision {
        self.canary.report()
    }

    /// The version of an arm.
    pub fn version(&self, arm: Arm) -> &str {
        match arm {
            Arm::Control => &self.start.from,
            Arm::Canary => &self.start.to,
        }
    }

    /// The share of a version.
    pub fn share(&self, version: &str) -> f64 {
        match version {
            version if version == self.start.to => self.canary.share(),
            version if version == self.start.from => 1.0 - self.canary.share(),
            _ => 0.0,
        }
    }

    /// The version that all traffic goes to when no canary runs, and control's while one does.
    pub fn live(&self) -> &str {
        self.version(if self.state() == State::Promoted { Arm::Canary } else { Arm::Control })
    }

    /// Whether an episode that began with a version may go on with it as far as this canary is concerned: it is one of the two, or one of the
    /// canary before that was not taken back then.
    pub fn goes_on(&self, version: &str) -> bool {
        [&self.start.from, &self.start.to].into_iter().chain(&self.before).any(|known| known == version)
    }

    fn not_taken_back(&self) -> Vec<String> {
        let arms = if self.state() == State::RolledBack { &[Arm::Control][..] } else { &[Arm::Control, Arm::Canary] };
        arms.iter().map(|&arm| self.version(arm).to_owned()).collect()
    }

    /// The side of a new episode.
    pub fn assign(&self, episode: TraceId) -> Assignment {
        assign(&self.id.to_string(), &episode.to_string(), self.canary.share())
    }

    /// Episodes whose outcomes are overdue at this time, the longest first, with what a line about each would begin with.
    pub fn overdue(&self, now: Time, limit: usize) -> Vec<&CanaryRow> {
        let wait = i64::try_from(self.start.wait_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let is_over = |since: &Time| now.unix_nanos().saturating_sub(since.unix_nanos()) >= wait;
        self.waiting.order.iter().take_while(|((since, _), _)| is_over(since)).map(|(_, row)| row).take(limit).collect()
    }

    fn see(&mut self, row: &CanaryRow, at: Time) -> Result<Option<Decision>, String> {
        match row.row.fact {
            Fact::Assigned => {}
            Fact::Answered { .. } => self.waiting.add(row, at),
            Fact::Matured { .. } | Fact::Missing => self.waiting.remove(row.trace),
        }
        self.canary.observe(&row.row).map_err(|error| error.to_string())
    }
}

impl Waiting {
    fn add(&mut self, row: &CanaryRow, at: Time) {
        if self.since.len() < N_WAITING_MAX && self.since.insert(row.trace, at).is_none() {
            self.order.insert((at, row.trace), row.clone());
        }
    }

    fn remove(&mut self, trace: TraceId) {
        if let Some(since) = self.since.remove(&trace) {
            self.order.remove(&(since, trace));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::{Action, Command, Reason, Row, Rule, Settings};
    use crate::log::Ended;
    use crate::{ANY_TASK, Reached};
    use hone_trace::Tenant;

    fn agent() -> AgentName {
        AgentName::new("desk").unwrap()
    }

    fn at(second: i64) -> Time {
        Time::from_unix_nanos(1_800_000_000_000_000_000 + second * 1_000_000_000)
    }

    fn event(line: &Line, name: &str, second: i64) -> Event {
        line.event(EventId::derived(&[name]), at(second), Tenant::default())
    }

    fn start(to: &str) -> Line {
        let settings = Settings { rule: Rule::NonInferior { margin: 0.03 }, ..Settings::default() };
        let (from, to) = ("v1".to_owned(), to.to_owned());
        Line::Started(Box::new(Start { agent: agent(), from, to, settings, wait_ms: 60_000 }))
    }

    fn row(canary: EventId, n: usize, arm: Arm, fact: Fact) -> Event {
        let trace = TraceId::derived(&[&n.to_string()]);
        let row = CanaryRow { agent: agent(), canary, trace, row: Row { arm, canary_share: 0.1, fact } };
        Line::Row(row.clone()).event(row.id(), at(n as i64), Tenant::default())
    }

    fn answered(is_error: bool) -> Fact {
        Fact::Answered { is_error, cost_usd: None, latency_ms: None }
    }

    #[test]
    fn a_line_survives_its_event() {
        let line = start("v2");
        let event = event(&line, "start", 0);
        assert_eq!((event.kind.as_str(), Line::of(&event).unwrap()), ("started", line));
        let garbage = Event { kind: "danced".into(), ..event };
        assert!(Line::of(&garbage).unwrap_err().to_string().contains("danced"));
    }

    #[test]
    fn a_dead_canary_is_taken_back_and_stays_so() {
        let mut fleet = Fleet::default();
        let began = event(&start("v2"), "start", 0);
        fleet.read(&began).unwrap();
        assert_eq!(fleet.deployment(&agent()).unwrap().share("v2"), 0.1);
        let mut changes = Vec::new();
        for n in 0..100 {
            let arm = if n % 10 == 0 { Arm::Canary } else { Arm::Control };
            changes.push(fleet.read(&row(began.id, n, arm, answered(arm == Arm::Canary))).unwrap());
        }
        let decided: Vec<&Change> = changes.iter().filter(|change| **change != Change::Nothing).collect();
        let [Change::Decided { decision, .. }] = decided[..] else { panic!("{decided:?}") };
        assert_eq!((decision.action, decision.reason), (Action::RollBack, Reason::MoreErrors));
        let deployment = fleet.deployment(&agent()).unwrap();
        assert_eq!((deployment.live(), deployment.share("v2"), deployment.share("v1")), ("v1", 0.0, 1.0));
        assert!((0..50).all(|n| deployment.assign(TraceId::derived(&[&n.to_string()])).arm == Arm::Control));
        // A person comes too late, and another canary may begin.
        let asked = Line::Asked { agent: agent(), canary: began.id, command: Command::Promote };
        assert_eq!(fleet.read(&event(&asked, "asked", 101)).unwrap(), Change::Nothing);
        fleet.read(&event(&start("v3"), "again", 102)).unwrap();
        assert_eq!(fleet.deployment(&agent()).unwrap().start.to, "v3");
    }

    #[test]
    fn one_canary_at_a_time_and_what_a_person_asks_for_counts() {
        let mut fleet = Fleet::default();
        let began = event(&start("v2"), "start", 0);
        fleet.read(&began).unwrap();
        assert_eq!(fleet.read(&event(&start("v3"), "second", 1)).unwrap(), Change::Nothing);
        for (name, share) in [("one", 0.5), ("two", 1.0)] {
            let asked = Line::Asked { agent: agent(), canary: began.id, command: Command::Promote };
            assert!(matches!(fleet.read(&event(&asked, name, 2)).unwrap(), Change::Decided { .. }));
            assert_eq!(fleet.deployment(&agent()).unwrap().share("v2"), share);
        }
        assert_eq!(fleet.deployment(&agent()).unwrap().live(), "v2");
    }

    #[test]
    fn what_was_decided_stands_also_where_the_rules_would_not_decide_it() {
        let mut fleet = Fleet::default();
        let began = event(&start("v2"), "start", 0);
        fleet.read(&began).unwrap();
        // As another release wrote it down, on evidence that this one does not see.
        let mut decide = |action, stage_idx, name: &str| {
            let mut decision = fleet.deployment(&agent()).unwrap().report();
            (decision.action, decision.numbers.stage_idx) = (action, stage_idx);
            let decided = Line::Decided { agent: agent(), canary: began.id, decision: Box::new(decision) };
            let is_news = fleet.read(&event(&decided, name, 1)).unwrap() != Change::Nothing;
            (is_news, fleet.deployment(&agent()).unwrap().share("v2"))
        };
        assert_eq!(decide(Action::Promote, 0, "first"), (true, 0.5));
        assert_eq!(decide(Action::Promote, 0, "first again"), (false, 0.5));
        assert_eq!(decide(Action::Pause, 1, "held"), (false, 0.5));
        assert_eq!(decide(Action::Promote, 1, "second"), (true, 1.0));
        assert_eq!(decide(Action::RollBack, 1, "late"), (false, 1.0));
        assert_eq!(fleet.deployment(&agent()).unwrap().live(), "v2");
        // The next canary begins where that one ended.
        fleet.read(&event(&start("v3"), "next", 2)).unwrap();
        assert_eq!(fleet.deployment(&agent()).unwrap().start.to, "v3");
    }

    #[test]
    fn outcomes_are_waited_for_and_overdue_ones_are_named() {
        let mut fleet = Fleet::default();
        let began = event(&start("v2"), "start", 0);
        fleet.read(&began).unwrap();
        for n in 0..3 {
            fleet.read(&row(began.id, n, Arm::Control, answered(false))).unwrap();
        }
        fleet.read(&row(began.id, 1, Arm::Control, Fact::Matured { quality: 1.0 })).unwrap();
        let overdue = |second| {
            let rows = fleet.deployment(&agent()).unwrap().overdue(at(second), 10);
            rows.iter().map(|row| row.trace).collect::<Vec<_>>()
        };
        assert_eq!(overdue(59), []);
        assert_eq!(overdue(60), [TraceId::derived(&["0"])]);
        assert_eq!(overdue(90), [TraceId::derived(&["0"]), TraceId::derived(&["2"])]);
    }

    fn known(fleet: &Fleet) -> &Performance {
        fleet.performance(&Tenant::default())
    }

    /// So many episodes of a version, half of them solved and the first five of them with an error.
    fn serve(fleet: &mut Fleet, version: &str, n: u32) {
        for n in 0..n {
            let name = format!("{version} {} {n}", known(fleet).n_rows());
            let reached = Reached { success: f64::from(n % 2), cost_usd: Some(0.01), latency_ms: Some(100.0) };
            let ended = Ended {
                agent: agent(),
                version: version.into(),
                task: Category::new("refund").unwrap(),
                trace: TraceId::derived(&[&name]),
                reached,
                has_error: n < 5,
                chosen: None,
            };
            let learned = fleet.read(&event(&Line::Ended(Box::new(ended)), &name, 0)).unwrap();
            assert_eq!(learned, Change::Learned(Tenant::default(), Category::new("refund").unwrap()));
        }
    }

    /// Starts a canary, and aborts it at once.
    fn pass_over(fleet: &mut Fleet, from: &str, to: &str) {
        let Line::Started(like) = start(to) else { unreachable!() };
        let began = event(&Line::Started(Box::new(Start { from: from.into(), ..*like })), &format!("{from} {to}"), 1);
        fleet.read(&began).unwrap();
        let abort = Line::Asked { agent: agent(), canary: began.id, command: Command::Abort };
        fleet.read(&event(&abort, &format!("{from} {to} ends"), 2)).unwrap();
    }

    #[test]
    fn performance_is_kept_by_version_and_task() {
        let mut fleet = Fleet::default();
        serve(&mut fleet, "v1", 20);
        let of_v1 = known(&fleet).of(&agent(), "v1");
        let refund = of_v1["refund"];
        assert_eq!((of_v1.len(), refund.n_episodes), (1, 20));
        assert!((refund.success - 0.5).abs() < 0.02 && (refund.reliability - 0.75).abs() < 0.01, "{refund:?}");
        assert!(known(&fleet).of(&agent(), "v2").is_empty());
    }

    #[test]
    fn nobody_learns_from_what_happened_to_other_tenants() {
        let (mut fleet, bob) = (Fleet::default(), Tenant::new("bob").unwrap());
        serve(&mut fleet, "v1", 20);
        let before = known(&fleet).of(&agent(), "v1");
        let ended = |n: usize, task: &str| {
            let (task, trace) = (Category::new(task).unwrap(), TraceId::derived(&["bob", &n.to_string()]));
            let reached = Reached { success: 0.0, cost_usd: None, latency_ms: None };
            let version = "v1".to_owned();
            let ended =
                Ended { agent: AgentName::new("bobs").unwrap(), version, task, trace, reached, has_error: false, chosen: None };
            Line::Ended(Box::new(ended.clone())).event(ended.id(), at(0), bob.clone())
        };
        fleet.read(&ended(0, "refund")).unwrap();
        let first = fleet.performance(&bob).of(&AgentName::new("bobs").unwrap(), "v1")["refund"];
        // Four rows at even odds before it, one failure, and one of each to be safe.
        assert!((first.success - 3.0 / 7.0).abs() < 1e-9, "{first:?}");
        // More types of task than are kept apart are one.
        for n in 1..1_100 {
            fleet.read(&ended(n, &format!("task-{n}"))).unwrap();
        }
        let bobs = fleet.performance(&bob).of(&AgentName::new("bobs").unwrap(), "v1");
        assert_eq!((bobs.len(), bobs[ANY_TASK].n_episodes), (1_000, 101));
        assert_eq!(known(&fleet).of(&agent(), "v1"), before);
    }

    #[test]
    fn an_episode_may_go_on_with_a_version_of_the_canary_before_that_was_not_taken_back() {
        let mut fleet = Fleet::default();
        let goes_on = |fleet: &Fleet| ["v1", "v2", "v3"].map(|version| fleet.deployment(&agent()).unwrap().goes_on(version));
        let began = event(&start("v2"), "start", 0);
        fleet.read(&began).unwrap();
        for name in ["one", "two"] {
            let asked = Line::Asked { agent: agent(), canary: began.id, command: Command::Promote };
            fleet.read(&event(&asked, name, 1)).unwrap();
        }
        pass_over(&mut fleet, "v2", "v3");
        assert_eq!(goes_on(&fleet), [true, true, true]);
        pass_over(&mut fleet, "v2", "v4");
        assert_eq!(goes_on(&fleet), [false, true, false]);
    }

    #[test]
    fn what_a_version_did_is_known_after_nobody_is_sent_to_it() {
        let mut fleet = Fleet::default();
        serve(&mut fleet, "v1", 20);
        let before = known(&fleet).of(&agent(), "v1");
        pass_over(&mut fleet, "v1", "v2");
        let arms = |fleet: &Fleet| known(fleet).thompson().cells("refund").count();
        assert_eq!((arms(&fleet), known(&fleet).of(&agent(), "v1") == before), (1, true));
        // What serves and what would take over are chosen from, others are not.
        pass_over(&mut fleet, "v2", "v3");
        assert_eq!((arms(&fleet), known(&fleet).of(&agent(), "v1") == before), (0, true));
        // A straggler is counted beside the others, and so are all when it is gone once more.
        serve(&mut fleet, "v1", 2);
        let n_known = |fleet: &Fleet| known(fleet).of(&agent(), "v1")["refund"].n_episodes;
        assert_eq!((arms(&fleet), n_known(&fleet)), (1, 22));
        pass_over(&mut fleet, "v2", "v4");
        assert_eq!((arms(&fleet), n_known(&fleet)), (0, 22));
        let refund = known(&fleet).of(&agent(), "v1")["refund"];
        assert!((refund.success - 0.5).abs() < 0.03 && (refund.cost_usd.unwrap() - 0.01).abs() < 1e-9, "{refund:?}");
    }
}
