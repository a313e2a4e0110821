//! A record to look at: traces, groups, runs, reports, verdicts of gates and agents, as a team's would be after a week.

use crate::world::tenant;
use hone_arbiter::canary::{Fact, Row, Rule, Settings};
use hone_arbiter::log::{CanaryRow, Ended, Line, Start};
use hone_arbiter::{Arm, Fleet, Reached};
use hone_gateway::{gates, registry};
use hone_store::Database;
use hone_trace::store::{Document, Event, Write};
use hone_trace::{
    AgentName, Category, Component, Config, Decision, Draws, ErrorEvent, EventId, Giver, GiverKind, Group, GroupId, LlmCall,
    Message, Outcome, OutcomeId, Reward, RewardId, Role, Run, RunId, RunState, Sampled, ScenarioId, Segment, Tenant, Time,
    ToolCall, ToolRequest, ToolSpec, Trace, TraceId, TraceOutcome, Turn, V1,
};
use serde_json::{Map, Value, json};

/// When the record was made: a moment before the clock of the tests begins.
const NOW: Time = Time::from_unix_nanos(1_800_000_000_000_000_000);
const SECOND: i64 = 1_000_000_000;

/// Text that would become markup if anybody let it.
pub(crate) const HOSTILE: &str = "</div><script>document.title='taken'</script><img src=x onerror=alert(1)>";

/// What was written, by the names that pages have for it.
pub(crate) struct Sample {
    pub(crate) traces: Vec<TraceId>,
    pub(crate) group: GroupId,
    /// The canary of the agent `desk`.
    pub(crate) canary: EventId,
}

pub(crate) async fn write(store: &dyn Database) -> Sample {
    let (traces, group) = write_traces(store).await;
    write_run(store, "desk-grpo-1", 60, 0.55, Some("plateau"), &[]).await;
    write_run(store, "desk-grpo-2", 40, 0.75, None, &traces[..3]).await;
    write_reports(store).await;
    write_gates(store).await;
    let canary = write_agents(store).await;
    Sample { traces, group, canary }
}

fn config(model: &str) -> Config {
    Config { model: Some(model.into()), prompt: Some("You help customers of a shop.".into()), ..Config::default() }
}

async fn write_traces(store: &dyn Database) -> (Vec<TraceId>, GroupId) {
    let config = config("desk-8b");
    let mut writes = vec![Write::Document(Document::of(&config, 0, tenant(), NOW))];
    let (mut ids, mut draws) = (Vec::new(), Draws::new(1, &["sample"]));
    let group = GroupId::derived(&["sample"]);
    for idx in 0..64 {
        let id = TraceId::derived(&["sample", &idx.to_string()]);
        let started = NOW.plus_nanos(-(idx + 1) * 97 * SECOND);
        let mut trace = episode(id, tenant(), started, &config, &mut draws);
        if idx < 6 {
            (trace.group, trace.scenario) = (Some(group), Some(ScenarioId::new("refund-17").unwrap()));
        }
        ids.push(id);
        writes.push(Write::Trace(Box::new(trace)));
    }
    let scenario = ScenarioId::new("refund-17").unwrap();
    let traces = ids[..6].to_vec();
    let record = Group {
        v: V1,
        id: group,
        tenant: tenant(),
        at: NOW,
        scenario: Some(scenario),
        policy: Some("desk-8b, step 40".into()),
        traces,
    };
    writes.push(Write::Document(Document::of(&record, 0, tenant(), NOW.plus_nanos(-90 * SECOND))));
    store.put(writes).await.unwrap();
    (ids, group)
}

/// An episode of a desk: a question, a look into the orders, an answer.
pub(crate) fn episode(id: TraceId, tenant: Tenant, started: Time, config: &Config, draws: &mut Draws) -> Trace {
    let task = *draws.pick(&["refund", "late delivery", "wrong item", "invoice"]);
    let is_solved = draws.chance(0.7);
    let mut trace = Trace::new(id, tenant, started, config.hash());
    trace.category = Some(Category::new(task).unwrap());
    trace.outcome = if is_solved { TraceOutcome::Success } else { TraceOutcome::Failure };
    trace.ended = Some(started.plus_nanos(draws.between(2, 40) * SECOND));
    let order = draws.between(10_000, 99_999);
    let arguments = json!({"order": order, "fields": ["state", "total", "shipped"]});
    let call = LlmCall {
        model: "desk-8b".into(),
        tokens_in: 412 + draws.below(300) as u64,
        tokens_out: 40 + draws.below(120) as u64,
        tokens_cached: 300,
        cost_usd: Some(0.000_21),
        duration_ms: Some(300.0 + draws.uniform() * 900.0),
        ..LlmCall::default()
    };
    let mut asks = Message::text(Role::Assistant, "Let me look at your order.");
    asks.reasoning = Some("The customer is upset. First the state of the order, then what the policy allows.".into());
    let request =
        ToolRequest { id: "call-1".into(), name: "order_lookup".into(), arguments: arguments.to_string(), extra: Map::new() };
    asks.tool_calls = vec![request];
    let question =
        Message::text(Role::User, format!("Order {order}: this is about a {task}. Can you help? I have written twice already."));
    let mut first = Turn::new(
        vec![Message::text(Role::System, "You help customers of a shop. Be brief, be kind, follow the policy."), question],
        asks,
    );
    first.llm_calls = vec![call.clone()];
    first.tool_calls = vec![ToolCall {
        id: "call-1".into(),
        name: "order_lookup".into(),
        arguments,
        success: Some(true),
        duration_ms: Some(34.0),
        extra: Map::new(),
    }];
    first.started = Some(started);
    let mut found = Message::text(Role::Tool, json!({"order": order, "state": "shipped", "total": 59.9}).to_string());
    found.tool_call_id = Some("call-1".into());
    let said = if is_solved {
        "I am sorry for the wait. The refund of $59.90 is on its way, and you will have it in three days."
    } else {
        "Please write to us again next week."
    };
    let mut second = Turn::new(vec![found], Message::text(Role::Assistant, said));
    second.llm_calls = vec![call];
    second.signals.insert("solved".into(), f64::from(u8::from(is_solved)));
    second.signals.insert("policy_kept".into(), 1.0);
    let logprobs: Vec<f32> = (0..48).map(|_| -(draws.uniform() * 1.4) as f32).collect();
    second.sampled =
        Some(Sampled { input_ids: vec![1, 2, 3], ids: (0..48).collect(), logprobs, forced: vec![0, 47], ..Sampled::default() });
    if !is_solved {
        second.errors = vec![ErrorEvent { kind: "policy_refusal".into(), recovered: true, message: HOSTILE.into() }];
        second.decisions = vec![Decision { chosen: "postpone".into(), rationale: "nothing in the policy fits".into() }];
    }
    let description = Some("What is known of an order".to_owned());
    let parameters = json!({"type": "object", "properties": {"order": {"type": "integer"}}});
    let look = ToolSpec { name: "order_lookup".into(), description, parameters, extra: Map::new() };
    trace.segments = vec![Segment { tools: vec![look], turns: vec![first, second], tail: Vec::new() }];
    trace.metadata.insert("customer".into(), json!(HOSTILE));
    trace.metadata.insert("channel".into(), json!({"kind": "chat", "queue": 3}));
    let part = |name: &str, value, weight| Component { name: name.into(), value, weight };
    let solved = f64::from(u8::from(is_solved));
    let parts = vec![part("solved", solved, 0.8), part("polite", 0.6 + draws.uniform() * 0.4, 0.2)];
    let giver = Giver { kind: GiverKind::Judge, name: "ruler".into(), config: None };
    let mut reward = Reward::sum(RewardId::derived(&[&id.to_string()]), started, giver, parts);
    reward.explanation = Some(if is_solved {
        "Looks the order up before it promises anything, and says when the money comes.".into()
    } else {
        "Sends the customer away without an answer, though the policy allows a refund.".into()
    });
    trace.rewards = vec![reward];
    trace
}

/// A run as `hone train` records it: a document, and a stream of events.
pub(crate) async fn write_run(
    store: &dyn Database,
    name: &str,
    n_steps: u64,
    top: f64,
    ended: Option<&str>,
    suspects: &[TraceId],
) {
    let started = NOW.plus_nanos(-(n_steps as i64) * 30 * SECOND);
    let settings = json!({
        "name": name, "model": "desk-8b", "env": "desk",
        "settings": {"lr": if top > 0.6 { 2e-5 } else { 1e-5 }, "group": 8, "kl": 0.02, "steps": 60},
    });
    let Value::Object(settings) = settings else { unreachable!("it is written as one") };
    let state = match ended {
        Some(reason) => RunState::Ended { at: NOW.plus_nanos(-SECOND), reason: reason.into() },
        None => RunState::Running,
    };
    let id = RunId::derived(&["run", tenant().as_str(), name]);
    let config = config("desk-8b").hash();
    let run = Run { v: V1, id, tenant: tenant(), stage: "grpo".into(), started, state, config, seed: 7, parent: None, settings };
    store.put(vec![Write::Document(Document::of(&run, 0, tenant(), started))]).await.unwrap();
    let mut draws = Draws::new(2, &[name]);
    for step in 1..=n_steps {
        write_step(store, name, step, top, &mut draws).await;
    }
    if !suspects.is_empty() {
        let alarm = json!({
            "kind": "length", "step": n_steps - 5, "strength": 1.4, "traces": suspects,
            "sentence": "answers are 1.9 times as long as at the start, and the reward follows their length",
            "action": "add a length penalty or a token limit",
        });
        store.put(vec![Write::Event(event(name, "alarm", n_steps, alarm))]).await.unwrap();
    }
}

/// The next step of a run.
pub(crate) async fn write_step(store: &dyn Database, name: &str, step: u64, top: f64, draws: &mut Draws) {
    let way = 1.0 - (-(step as f64) / 18.0).exp();
    let at = NOW.unix_nanos() as f64 / 1e9 - 30.0 * (40.0 - step as f64).max(0.0);
    let mut values = json!({
        "reward": top * way + 0.03 * draws.normal(), "reward_half_width": 0.05, "solved": (top * way).min(1.0),
        "kl": 0.004 * step as f64 / 10.0 + 0.0004 * draws.uniform(), "entropy": 1.1 - 0.4 * way + 0.02 * draws.normal(),
        "tokens_per_answer": 60.0 + 30.0 * way + draws.normal(), "sampled_tokens_per_s": 1800.0 + 60.0 * draws.normal(),
        "trained_tokens_per_s": 900.0 + 30.0 * draws.normal(), "loss": 0.3 - 0.2 * way, "grad_norm": 0.5 + 0.1 * draws.uniform(), "lr": 2e-5,
        "turns": 3.0,
    });
    if step.is_multiple_of(5) {
        let share = (0.9 * top * way).clamp(0.02, 0.98);
        for (key, value) in
            [("validation", share), ("validation_low", (share - 0.08).max(0.0)), ("validation_high", (share + 0.08).min(1.0))]
        {
            values[key] = json!(value);
        }
    }
    store.put(vec![Write::Event(event(name, "step", step, json!({"step": step, "at": at, "values": values})))]).await.unwrap();
}

fn event(run: &str, kind: &str, step: u64, body: Value) -> Event {
    let id = EventId::derived(&["sample", run, kind, &step.to_string()]);
    Event { id, at: NOW, tenant: tenant(), stream: format!("run:{run}"), kind: kind.into(), body }
}

async fn write_reports(store: &dyn Database) {
    for (idx, (model, success, n_traces)) in
        [("desk-8b", 0.71, 240), ("desk-8b, run 2", 0.83, 240), ("gpt-5-mini", 0.78, 240), ("empty", 0.0, 90)]
            .into_iter()
            .enumerate()
    {
        let config = config(model);
        let at = NOW.plus_nanos(-(idx as i64 + 1) * 3000 * SECOND);
        let outcome = Outcome {
            v: V1,
            id: OutcomeId::derived(&[model]),
            tenant: tenant(),
            at,
            config: config.hash(),
            category: Some(Category::new("desk").unwrap()),
            n_traces,
            n_scenarios: None,
            success,
            reliability: Some(success * 0.8),
            turns_per_solved: (success > 0.0).then_some(3.4),
            tokens_per_solved: (success > 0.0).then_some(1240.0),
            cost_usd: Some(0.0011),
            latency_p50_ms: Some(2140.0),
            failure_pattern: Some("policy_refusal".into()),
        };
        let writes = vec![
            Write::Document(Document::of(&config, 0, tenant(), at)),
            Write::Document(Document::of(&outcome, 0, tenant(), at)),
        ];
        store.put(writes).await.unwrap();
    }
}

async fn write_gates(store: &dyn Database) {
    let gate = |name: &str, value: f64, bar: f64, pass: bool| {
        let (records, why) = if pass {
            (vec![], vec![])
        } else {
            (vec![TraceId::derived(&["sample", "3"]).to_string()], vec!["an e-mail address"])
        };
        json!({"name": name, "value": value, "bar": bar, "pass": pass, "records": records, "why": why})
    };
    for (purpose, n_private, age) in [("rl", 0.0, 5000), ("sft", 3.0, 900)] {
        let verdict = json!({
            "pass": n_private == 0.0, "traces": 1240, "purpose": purpose,
            "gates": [
                gate("points", 1102.0, 500.0, true), gate("clean", 0.981, 0.95, true), gate("task_types", 4.0, 3.0, true),
                gate("privacy", n_private, 0.0, n_private == 0.0), gate("leaks", 0.0, 0.0, true), gate("consent", 0.0, 0.0, true),
            ],
        });
        gates::tell(store, &verdict, tenant(), NOW.plus_nanos(-age * SECOND)).await.unwrap();
    }
}

/// What two configs did at the same tasks: the one in use, and one that is better and cheaper.
pub(crate) struct Rivals {
    pub(crate) old: Config,
    pub(crate) new: Config,
    /// The newest failure of the one in use.
    pub(crate) newest_failure: TraceId,
}

/// Two configs at the same hundred and twenty tasks, and the agent `shop`, which runs on the worse one.
pub(crate) async fn write_rivals(store: &dyn Database, tenant: &Tenant) -> Rivals {
    let (old, new) = (config("shop-old"), config(&format!("shop-new {HOSTILE}")));
    let mut newest_failure = None;
    for (config, n_solved, cost_usd) in [(&old, 48, 0.004), (&new, 102, 0.001)] {
        let mut writes = vec![Write::Document(Document::of(config, 0, tenant.clone(), NOW))];
        for idx in 0..120 {
            let is_solved = idx < n_solved;
            let model = config.model.clone().unwrap();
            let id = TraceId::derived(&["rival", tenant.as_str(), &model, &idx.to_string()]);
            let mut trace = Trace::new(id, tenant.clone(), NOW.plus_nanos((idx - 100_000) * SECOND), config.hash());
            trace.category = Some(Category::new(if idx % 2 == 0 { "returns" } else { "payments" }).unwrap());
            trace.scenario = Some(ScenarioId::new(format!("shop-{idx}")).unwrap());
            trace.outcome = if is_solved { TraceOutcome::Success } else { TraceOutcome::Failure };
            let asked = Message::text(Role::User, format!("What became of parcel {idx}?"));
            let said = if is_solved { "It is on its way." } else { "I'm sorry, but I cannot help with that." };
            let mut turn = Turn::new(vec![asked], Message::text(Role::Assistant, said));
            let cost_usd = Some(cost_usd * if idx % 3 == 0 { 1.2 } else { 0.9 });
            turn.llm_calls = vec![LlmCall { model, tokens_in: 40, tokens_out: 8, cost_usd, ..LlmCall::default() }];
            if !is_solved && idx % 4 == 0 {
                let message = format!("parcel {idx} is <b>not</b> known");
                turn.errors = vec![ErrorEvent { kind: "lookup".into(), recovered: false, message }];
            }
            if !is_solved && *config == old && idx % 4 != 0 {
                newest_failure = Some(id);
            }
            trace.segments = vec![Segment { turns: vec![turn], ..Segment::default() }];
            writes.push(Write::Trace(Box::new(trace)));
        }
        store.put(writes).await.unwrap();
    }
    let shop = AgentName::new("shop").unwrap();
    registry::add(store, &shop, "v1", &old, tenant, NOW.plus_nanos(-7200 * SECOND)).await.unwrap();
    Rivals { old, new, newest_failure: newest_failure.unwrap() }
}

/// Two agents, one of them with a canary on its way.
async fn write_agents(store: &dyn Database) -> EventId {
    let (desk, clerk) = (AgentName::new("desk").unwrap(), AgentName::new("clerk").unwrap());
    let began = NOW.plus_nanos(-3600 * SECOND);
    let version =
        |model: &str, prompt: &str| Config { model: Some(model.into()), prompt: Some(prompt.into()), ..Config::default() };
    for (agent, name, config) in [
        (&desk, "v1", version("well", "You are v1.")),
        (&desk, "v2", version("fine", "You are v2.")),
        (&clerk, "v1", version("well", "You are a clerk.")),
    ] {
        registry::add(store, agent, name, &config, &tenant(), began).await.unwrap();
    }
    let canary = EventId::derived(&["sample", "canary"]);
    let settings = Settings { rule: Rule::Improve { gain: 0.05, margin: 0.03 }, ..Settings::default() };
    let start = Start { agent: desk.clone(), from: "v1".into(), to: "v2".into(), settings, wait_ms: 3_600_000 };
    let mut fleet = Fleet::default();
    let mut lines = vec![Line::Started(Box::new(start)).event(canary, began, tenant())];
    fleet.read(&lines[0]).unwrap();
    let mut draws = Draws::new(3, &["canary"]);
    for idx in 0..900 {
        let share = fleet.deployment(&desk).map_or(0.1, |deployment| deployment.report().share);
        let is_canary = draws.chance(share);
        let arm = if is_canary { Arm::Canary } else { Arm::Control };
        let trace = TraceId::derived(&["sample", "canary", &idx.to_string()]);
        let is_solved = draws.chance(if is_canary { 0.84 } else { 0.62 });
        let answered = Fact::Answered {
            is_error: draws.chance(0.01),
            cost_usd: Some(0.001),
            latency_ms: Some(700.0 + 200.0 * draws.uniform()),
        };
        let at = began.plus_nanos(idx * 4 * SECOND);
        for fact in [answered, Fact::Matured { quality: f64::from(u8::from(is_solved)) }] {
            let row = CanaryRow { agent: desk.clone(), canary, trace, row: Row { arm, canary_share: share, fact } };
            lines.push(Line::Row(row.clone()).event(row.id(), at, tenant()));
            fleet.read(&lines[lines.len() - 1]).unwrap();
        }
        let reached = Reached { success: f64::from(u8::from(is_solved)), cost_usd: Some(0.001), latency_ms: Some(800.0) };
        let version = if is_canary { "v2" } else { "v1" }.to_owned();
        let task = Category::new(*draws.pick(&["refund", "invoice"])).unwrap();
        let ended = Ended { agent: desk.clone(), version, task, trace, reached, has_error: false, chosen: None };
        lines.push(Line::Ended(Box::new(ended.clone())).event(ended.id(), at, tenant()));
    }
    store.put(lines.into_iter().map(Write::Event).collect()).await.unwrap();
    canary
}
