//! The driver: n scenarios x k samples, many at once, a trace of each.
//!
//! Episodes are independent: each has its own ids, seeds and time, derived from the plan, so the traces are the same
//! whatever plays beside them. Groups come out in the order of the scenarios. Workers run at most a few groups ahead of the
//! one that is waited for, so memory stays bounded.
//! Knows nothing of models, rewards or the store.

use crate::player::{OpenError, Player};
use hone_trace::env::{ENV_ERROR, Env, EnvError, Reset, Split, Step};
use hone_trace::policy::{AnswerLimits, Conversation, Opening, PolicyError, PolicyErrorKind};
use hone_trace::{
    Clock, ConfigHash, Draws, ErrorEvent, Group, GroupId, Message, RunId, Scenario, ScenarioId, Segment, Tenant, Time, Trace,
    TraceId, TraceOutcome, Turn, V1,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};

/// What is played.
pub struct Plan<'a> {
    /// The run that it is part of: ids of traces are derived from it.
    pub run: RunId,
    /// Whose data the traces are.
    pub tenant: Tenant,
    /// The tasks.
    pub scenarios: &'a [Scenario],
    /// The split they are of, where that is known: it stands on every trace, so that what is held out is not learned from.
    pub split: Option<Split>,
    /// How often each is played.
    pub n_samples: usize,
    /// What everything drawn at random is derived from.
    pub seed: u64,
    /// Whether the samples of a scenario meet the same world.
    pub luck: Luck,
    /// When an episode is cut short.
    pub limits: Limits,
    /// Tokens that an episode of a scenario may write, where it has a limit of its own beside the one for all.
    pub tokens_max: BTreeMap<ScenarioId, u64>,
    /// How many episodes are played at once.
    pub n_concurrent: usize,
    /// Where times come from.
    pub timing: Timing<'a>,
}

impl<'a> Plan<'a> {
    /// Each scenario once, one after the other, in the world's own time; the rest is for the caller to change.
    pub fn new(name: &str, scenarios: &'a [Scenario], seed: u64) -> Self {
        Self {
            run: RunId::derived(&[name, &seed.to_string()]),
            tenant: Tenant::default(),
            scenarios,
            split: None,
            n_samples: 1,
            seed,
            luck: Luck::Shared,
            limits: Limits::default(),
            tokens_max: BTreeMap::new(),
            n_concurrent: 1,
            timing: Timing::Told(Time::from_unix_nanos(0)),
        }
    }

    /// The seed of the world that a sample of this scenario meets.
    pub fn world_seed(&self, scenario: &Scenario, sample: usize) -> u64 {
        match self.luck {
            Luck::Shared => self.seed_of("world", scenario, &[]),
            Luck::Own => self.seed_of("world", scenario, &[&sample.to_string()]),
        }
    }

    fn limits_of(&self, scenario: &Scenario) -> Limits {
        let own = self.tokens_max.get(&scenario.id).copied().unwrap_or(u64::MAX);
        Limits { tokens_max: self.limits.tokens_max.min(own), ..self.limits }
    }

    /// What its records are named by: two tenants may play the same.
    fn name(&self) -> String {
        let run = self.run.to_string();
        if self.tenant == Tenant::default() { run } else { format!("{run} of {}", self.tenant.as_str()) }
    }

    fn seed_of(&self, who: &str, scenario: &Scenario, facts: &[&str]) -> u64 {
        Draws::new(self.seed, &[&[who, scenario.id.as_str()], facts].concat()).bits()
    }
}

/// Whether the samples of a scenario meet the same world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// The same dice and the same faults, so that only the policy makes a difference: for groups.
    Shared,
    /// Dice of its own for each sample: for evaluation.
    Own,
}

/// When an episode is cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Answers of the policy.
    pub turns_max: usize,
    /// Tokens of one answer.
    pub answer_tokens_max: u64,
    /// Tokens written in the whole episode.
    pub tokens_max: u64,
    /// Milliseconds of the whole episode.
    pub time_max_ms: Option<u64>,
    /// How often the same action may meet the same result before the episode ends as a loop.
    pub repeats_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { turns_max: 1000, answer_tokens_max: 1024, tokens_max: 1 << 20, time_max_ms: None, repeats_max: 3 }
    }
}

/// Where times come from.
#[derive(Clone, Copy)]
pub enum Timing<'a> {
    /// Every episode begins here, and time moves by what tools and models say they took: the same bytes every time.
    Told(Time),
    /// A real clock.
    Real(&'a dyn Clock),
}

/// The episodes of one scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// The group.
    pub group: Group,
    /// Its traces, in the order of the samples.
    pub traces: Vec<Trace>,
}

/// Plays all episodes and hands the groups over in order. Ends early when told to, or when the money is spent: groups that
/// had begun are still finished and handed over. Returns how many groups were handed over.
pub fn rollout(env: &dyn Env, player: Player<'_>, plan: &Plan<'_>, mut take: impl FnMut(Played) -> ControlFlow<()>) -> usize {
    let n_total = plan.scenarios.len() * plan.n_samples;
    if n_total == 0 {
        return 0;
    }
    let config = player.config().hash();
    let board = Board {
        state: Mutex::new(State { next: 0, end: n_total, taken: 0, done: BTreeMap::new() }),
        changed: Condvar::new(),
        n_ahead_max: 4 * plan.n_concurrent.max(plan.n_samples),
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.n_concurrent.clamp(1, n_total) {
            scope.spawn(|| {
                while let Some(index) = board.next(plan.n_samples) {
                    let (scenario, sample) = (&plan.scenarios[index / plan.n_samples], index % plan.n_samples);
                    let (trace, ended) = play(env, player, plan, config, scenario, sample);
                    board.put(index, trace, ended, plan.n_samples);
                }
            });
        }
        let mut n_groups = 0;
        while let Some(traces) = board.take(plan.n_samples) {
            let scenario = &plan.scenarios[n_groups];
            n_groups += 1;
            if take(Played { group: group(plan, scenario, config, &traces), traces }).is_break() {
                board.stop(plan.n_samples);
                break;
            }
        }
        n_groups
    })
}

/// Plays all episodes and returns their traces, in order.
pub fn traces(env: &dyn Env, player: Player<'_>, plan: &Plan<'_>) -> Vec<Trace> {
    let mut traces = Vec::new();
    rollout(env, player, plan, |played| {
        traces.extend(played.traces);
        ControlFlow::Continue(())
    });
    traces
}

/// What workers and the taker share.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
    n_ahead_max: usize,
}

struct State {
    /// The first episode that nobody has begun.
    next: usize,
    /// Episodes from here on are not played.
    end: usize,
    /// Episodes before this were handed over.
    taken: usize,
    done: BTreeMap<usize, Trace>,
}

impl Board {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    fn next(&self, n_samples: usize) -> Option<usize> {
        let mut state = self.lock();
        while state.next < state.end && state.next >= state.taken + self.n_ahead_max.max(n_samples) {
            state = self.changed.wait(state).expect("no holder of this lock panics");
        }
        (state.next < state.end).then(|| {
            state.next += 1;
            state.next - 1
        })
    }

    fn put(&self, index: usize, trace: Trace, ended: Ended, n_samples: usize) {
        self.lock().done.insert(index, trace);
        if ended == Ended::Broke {
            self.stop(n_samples);
        }
        self.changed.notify_all();
    }

    /// No group that has not begun is begun.
    fn stop(&self, n_samples: usize) {
        let mut state = self.lock();
        state.end = state.end.min(state.next.div_ceil(n_samples) * n_samples);
        drop(state);
        self.changed.notify_all();
    }

    /// The traces of the next group, when it is complete.
    fn take(&self, n_samples: usize) -> Option<Vec<Trace>> {
        let mut state = self.lock();
        loop {
            let (from, to) = (state.taken, state.taken + n_samples);
            if from >= state.end {
                return None;
            }
            if state.done.range(from..to).count() == n_samples {
                let rest = state.done.split_off(&to);
                let group = std::mem::replace(&mut state.done, rest);
                state.taken = to;
                drop(state);
                self.changed.notify_all();
                return Some(group.into_values().collect());
            }
            state = self.changed.wait(state).expect("no holder of this lock panics");
        }
    }
}

fn group(plan: &Plan<'_>, scenario: &Scenario, config: ConfigHash, traces: &[Trace]) -> Group {
    Group {
        v: V1,
        id: group_id(plan, scenario),
        tenant: plan.tenant.clone(),
        at: traces.iter().filter_map(|trace| trace.ended).max().unwrap_or(Time::from_unix_nanos(0)),
        scenario: Some(scenario.id.clone()),
        policy: Some(config.to_string()),
        traces: traces.iter().map(|trace| trace.id).collect(),
    }
}

fn group_id(plan: &Plan<'_>, scenario: &Scenario) -> GroupId {
    GroupId::derived(&[&plan.name(), scenario.id.as_str()])
}

/// Plays one episode.
fn play(
    env: &dyn Env,
    player: Player<'_>,
    plan: &Plan<'_>,
    config: ConfigHash,
    scenario: &Scenario,
    sample: usize,
) -> (Trace, Ended) {
    let env_seed = plan.world_seed(scenario, sample);
    let (name, sample) = (plan.name(), sample.to_string());
    let mut watch = Watch::start(plan.timing);
    let id = TraceId::derived(&[&name, scenario.id.as_str(), &sample]);
    let mut trace = Trace {
        category: Some(scenario.category.clone()),
        scenario: Some(scenario.id.clone()),
        group: Some(group_id(plan, scenario)),
        run: Some(plan.run),
        ..Trace::new(id, plan.tenant.clone(), watch.now, config)
    };
    trace.metadata.insert("env".into(), env.name().into());
    trace.metadata.insert("family".into(), scenario.family.as_str().into());
    if let Some(split) = plan.split {
        trace.metadata.insert("split".into(), split.as_str().into());
    }
    // A panic is a bug, but a run of hours is not lost for it: it ends one episode and stands on its trace.
    let attempt = AssertUnwindSafe(|| match env.reset(scenario, env_seed) {
        Ok(reset) => {
            let opening =
                Opening { tools: Arc::clone(&reset.tools), schema: None, seed: plan.seed_of("policy", scenario, &[&sample]) };
            trace.segments.push(Segment { tools: reset.tools.to_vec(), ..Segment::default() });
            match player.open(env, scenario, env_seed, &opening) {
                Ok(conversation) => episode(reset, conversation, plan.limits_of(scenario), &mut watch, &mut trace),
                Err(OpenError::Policy(error)) => unanswered(&mut trace, reset.messages, &watch, error),
                Err(OpenError::Env(error)) => broken(&mut trace, reset.messages, &error.to_string()),
            }
        }
        Err(error) => broken(&mut trace, Vec::new(), &error.to_string()),
    });
    let ended = catch_unwind(attempt).unwrap_or_else(|_| broken(&mut trace, Vec::new(), "a bug: the world or policy panicked"));
    watch.look();
    trace.ended = Some(watch.now);
    (trace, ended)
}

/// What the end of an episode means for the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Nothing.
    Alone,
    /// The money is spent.
    Broke,
}

/// Plays turns until the world, the policy or a limit ends the episode.
fn episode(
    mut reset: Reset,
    mut conversation: Box<dyn Conversation>,
    limits: Limits,
    watch: &mut Watch<'_>,
    trace: &mut Trace,
) -> Ended {
    let mut input = std::mem::take(&mut reset.messages);
    let mut repeats = Repeats::default();
    let mut tokens_left = limits.tokens_max;
    for turn_idx in 0.. {
        let time_left = limits.time_max_ms.map(|max| max.saturating_sub(watch.elapsed_ms()));
        let over = if turn_idx >= limits.turns_max {
            Some(("turn_limit", format!("{} turns", limits.turns_max)))
        } else if tokens_left == 0 {
            Some(("token_limit", format!("{} tokens", limits.tokens_max)))
        } else if time_left == Some(0) {
            Some(("time_limit", format!("{} ms", limits.time_max_ms.unwrap_or(0))))
        } else {
            None
        };
        if let Some((kind, limit)) = over {
            end(trace, input, kind, format!("the episode was cut short at its limit of {limit}"));
            return Ended::Alone;
        }
        let answer_limits = AnswerLimits { tokens_max: limits.answer_tokens_max.min(tokens_left), time_max_ms: time_left };
        let asked = watch.now;
        let answered = match conversation.answer(&input, answer_limits) {
            Ok(answered) => answered,
            Err(error) => return unanswered(trace, input, watch, error),
        };
        watch.took(answered.llm_calls.iter().filter_map(|call| call.duration_ms));
        tokens_left = tokens_left.saturating_sub(answered.llm_calls.iter().map(|call| call.tokens_out).sum());
        let time_left = limits.time_max_ms.map(|max| max.saturating_sub(watch.elapsed_ms()));
        let result = reset.episode.step_within(&answered.message, time_left);
        let mut turn = Turn { started: Some(asked), ..Turn::new(std::mem::take(&mut input), answered.message) };
        (turn.llm_calls, turn.errors, turn.sampled) = (answered.llm_calls, answered.errors, answered.sampled);
        let step = match result {
            Ok(step) => step,
            Err(EnvError::Late(reason)) => {
                push(trace, turn, answered.is_new_segment);
                let limit = limits.time_max_ms.unwrap_or(0);
                end(trace, Vec::new(), "time_limit", format!("the episode was cut short at its limit of {limit} ms: {reason}"));
                return Ended::Alone;
            }
            Err(error) => {
                turn.errors.push(ErrorEvent { kind: ENV_ERROR.into(), recovered: false, message: error.to_string() });
                push(trace, turn, answered.is_new_segment);
                return Ended::Alone;
            }
        };
        watch.took(step.tool_calls.iter().filter_map(|call| call.duration_ms));
        let is_loop = repeats.seen(&turn.answer, &step) >= limits.repeats_max.max(1);
        turn.tool_calls = step.tool_calls;
        turn.errors.extend(step.errors);
        turn.signals = step.signals.0.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
        push(trace, turn, answered.is_new_segment);
        if let Some(outcome) = step.done {
            trace.outcome = outcome;
            tail(trace, step.messages);
            return Ended::Alone;
        }
        if is_loop {
            end(trace, step.messages, "loop", format!("the same action met the same result {} times", limits.repeats_max));
            return Ended::Alone;
        }
        input = step.messages;
    }
    unreachable!("the turn limit ends the loop")
}

/// The same action that meets the same result again and again makes no progress.
#[derive(Default)]
struct Repeats {
    last: Option<(Message, Vec<Message>)>,
    n_seen: usize,
}

impl Repeats {
    /// How often in a row this action met this result.
    fn seen(&mut self, action: &Message, step: &Step) -> usize {
        let now = (plain(action), step.messages.iter().map(plain).collect());
        self.n_seen = if self.last.as_ref() == Some(&now) { self.n_seen + 1 } else { 1 };
        self.last = Some(now);
        self.n_seen
    }
}

/// A message without the ids of its calls, which differ between equal calls.
fn plain(message: &Message) -> Message {
    let mut plain = Message { tool_call_id: None, ..message.clone() };
    plain.tool_calls.iter_mut().for_each(|call| call.id.clear());
    plain
}

fn push(trace: &mut Trace, turn: Turn, is_new_segment: bool) {
    if is_new_segment && trace.turns().next().is_some() {
        let tools = trace.segments.last().map(|segment| segment.tools.clone()).unwrap_or_default();
        trace.segments.push(Segment { tools, ..Segment::default() });
    }
    if trace.segments.is_empty() {
        trace.segments.push(Segment::default());
    }
    if let Some(segment) = trace.segments.last_mut() {
        segment.turns.push(turn);
    }
}

fn tail(trace: &mut Trace, messages: Vec<Message>) {
    if let Some(segment) = trace.segments.last_mut() {
        segment.tail = messages;
    }
}

/// Ends an episode in failure for a reason that stands on its last turn.
fn end(trace: &mut Trace, messages: Vec<Message>, kind: &str, message: String) {
    trace.outcome = TraceOutcome::Failure;
    let last = trace.segments.iter_mut().flat_map(|segment| &mut segment.turns).last();
    if let Some(turn) = last {
        turn.errors.push(ErrorEvent { kind: kind.into(), recovered: false, message });
    }
    tail(trace, messages);
}

/// The policy gave no answer: its turn is empty and says why.
fn unanswered(trace: &mut Trace, input: Vec<Message>, watch: &Watch<'_>, error: PolicyError) -> Ended {
    let ended = if error.kind == PolicyErrorKind::Budget { Ended::Broke } else { Ended::Alone };
    let mut turn = Turn { started: Some(watch.now), ..Turn::new(input, crate::said("")) };
    turn.llm_calls = error.llm_calls;
    turn.errors.push(ErrorEvent { kind: error.kind.as_str().into(), recovered: false, message: error.message });
    push(trace, turn, false);
    ended
}

/// The world broke outside of a step.
fn broken(trace: &mut Trace, messages: Vec<Message>, reason: &str) -> Ended {
    let mut turn = Turn::new(messages, crate::said(""));
    turn.errors.push(ErrorEvent { kind: ENV_ERROR.into(), recovered: false, message: reason.into() });
    push(trace, turn, false);
    Ended::Alone
}

/// The time of one episode.
struct Watch<'a> {
    timing: Timing<'a>,
    started: Time,
    now: Time,
}

impl<'a> Watch<'a> {
    fn start(timing: Timing<'a>) -> Self {
        let now = match timing {
            Timing::Told(start) => start,
            Timing::Real(clock) => clock.now(),
        };
        Self { timing, started: now, now }
    }

    fn look(&mut self) {
        if let Timing::Real(clock) = self.timing {
            self.now = clock.now();
        }
    }

    fn took(&mut self, durations_ms: impl Iterator<Item = f64>) {
        match self.timing {
            Timing::Told(_) => {
                let nanos = durations_ms.filter(|ms| ms.is_finite() && *ms > 0.0).sum::<f64>() * 1e6;
                self.now = self.now.plus_nanos(nanos as i64);
            }
            Timing::Real(_) => self.look(),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.now.millis_since(self.started).max(0.0) as u64
    }
}
