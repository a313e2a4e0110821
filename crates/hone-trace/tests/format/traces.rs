//! Arbitrary traces.

use crate::json::{self, anything, number, text};
use hone_trace::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value};

fn string() -> BoxedStrategy<String> {
    text().prop_map(|text| text.as_str().unwrap().to_owned()).boxed()
}

fn finite() -> BoxedStrategy<f64> {
    number().prop_map(|number| number.as_f64().unwrap()).boxed()
}

/// Leftovers, with keys of every format and with notes that nobody made in earnest.
fn extra() -> BoxedStrategy<Map<String, Value>> {
    let keys = vec![
        "hone.role",
        "hone.reasoning",
        "hone.form",
        "hone.call",
        "hone.function",
        "hone.arguments",
        "hone.no_type",
        "hone.tool",
        "hone.outer",
        "hone.choice",
        "hone.ids",
        "hone.span",
        "hone.wire",
        "hone.instructions",
        "hone.finish_reason",
        "hone.no_call",
        "hone.trajectory",
        "hone.histories",
        "hone.group",
        "hone.spans",
        "hone.places",
        "content",
        "tool_calls",
        "function_call",
        "name",
        "id",
        "type",
        "function",
        "reasoning",
        "messages",
        "tools",
        "functions",
        "parameters",
        "description",
        "weight",
        "category",
        "message",
    ];
    let words = prop::sample::select(vec![
        "function",
        "function_call",
        "functions",
        "json",
        "absent",
        "reasoning",
        "token_ids",
        "tokens",
    ]);
    let value = prop_oneof![anything(), words.prop_map(Value::from)];
    let key = prop_oneof![prop::sample::select(keys).prop_map(str::to_owned), "[a-z]{1,4}"];
    prop_oneof![3 => Just(Map::new()), 1 => vec((key, value), 0..4).prop_map(|pairs| pairs.into_iter().collect())].boxed()
}

fn role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::System, Role::Developer, Role::User, Role::Assistant, Role::Tool])
}

fn message() -> impl Strategy<Value = Message> {
    let content =
        prop_oneof![Just(Content::None), string().prop_map(Content::Text), vec(anything(), 0..3).prop_map(Content::Parts),];
    let call = (string(), string(), prop_oneof![Just("{\"a\":1}".to_owned()), string()], extra())
        .prop_map(|(id, name, arguments, extra)| ToolRequest { id, name, arguments, extra });
    let fields = (role(), content, option::of(string()), vec(call, 0..2), option::of(string()), option::of(string()), extra());
    fields.prop_map(|(role, content, reasoning, tool_calls, tool_call_id, name, extra)| Message {
        role,
        content,
        reasoning,
        tool_calls,
        tool_call_id,
        name,
        extra,
    })
}

fn sampled() -> impl Strategy<Value = Sampled> {
    let logprob = any::<f32>().prop_filter("finite", |x| x.is_finite());
    let pairs = (vec((any::<u32>(), logprob), 0..4), any::<bool>());
    (vec(any::<u32>(), 0..3), pairs, any::<bool>()).prop_map(|(input_ids, (pairs, known), forced)| {
        let (ids, logprobs): (Vec<u32>, Vec<f32>) = pairs.into_iter().unzip();
        let forced = if forced { (0..ids.len() as u32).collect() } else { Vec::new() };
        let (temperature, narrowed) = (known.then_some(0.7), !known);
        Sampled { input_ids, logprobs: if known { logprobs } else { Vec::new() }, forced, ids, temperature, narrowed }
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let tool = (string(), string(), anything(), option::of(any::<bool>()), option::of(finite()), extra()).prop_map(
        |(id, name, arguments, success, duration_ms, extra)| ToolCall { id, name, arguments, success, duration_ms, extra },
    );
    let llm = (string(), any::<[u64; 3]>(), option::of(finite()), option::of(finite()), extra()).prop_map(
        |(model, [tokens_in, tokens_out, tokens_cached], cost_usd, duration_ms, extra)| LlmCall {
            model,
            tokens_in,
            tokens_out,
            tokens_cached,
            cost_usd,
            duration_ms,
            extra,
        },
    );
    let error =
        (string(), any::<bool>(), string()).prop_map(|(kind, recovered, message)| ErrorEvent { kind, recovered, message });
    let decision = (string(), string()).prop_map(|(chosen, rationale)| Decision { chosen, rationale });
    let said = (vec(message(), 0..3), message(), option::of(time()));
    let done = (vec(tool, 0..2), vec(llm, 0..3), vec(error, 0..2), vec(decision, 0..2));
    let signals = btree_map(string(), finite(), 0..3);
    (said, done, (signals, option::of(sampled())), extra()).prop_map(
        |((input, mut answer, started), (tool_calls, llm_calls, errors, decisions), (signals, sampled), extra)| {
            answer.role = Role::Assistant;
            Turn { input, answer, started, tool_calls, llm_calls, errors, decisions, signals, sampled, extra }
        },
    )
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![any::<i64>(), 1_700_000_000_000_000_000_i64..1_800_000_000_000_000_000].prop_map(Time::from_unix_nanos)
}

fn tool() -> impl Strategy<Value = ToolSpec> {
    (string(), option::of(string()), anything(), extra()).prop_map(|(name, description, parameters, extra)| ToolSpec {
        name,
        description,
        parameters,
        extra,
    })
}

fn segment() -> impl Strategy<Value = Segment> {
    (vec(tool(), 0..2), vec(turn(), 0..4), vec(message(), 0..2)).prop_map(|(tools, turns, tail)| Segment { tools, turns, tail })
}

fn reward() -> impl Strategy<Value = Reward> {
    let kinds = vec![GiverKind::Check, GiverKind::Rubric, GiverKind::Judge, GiverKind::Human, GiverKind::Import];
    let by = (prop::sample::select(kinds), string(), option::of(any::<[u8; 32]>())).prop_map(|(kind, name, config)| Giver {
        kind,
        name,
        config: config.map(ConfigHash::from_bytes),
    });
    let part = (string(), finite(), finite()).prop_map(|(name, value, weight)| Component { name, value, weight });
    let total = json::reward().prop_map(|number| number.as_f64().unwrap());
    let fields = (any::<[u8; 16]>(), time(), by, option::of(0_u32..8), vec(part, 0..2), total, option::of(string()));
    fields.prop_map(|(id, at, by, turn_idx, components, total, explanation)| Reward {
        id: RewardId::from_bytes(id),
        at,
        by,
        turn_idx,
        components,
        total,
        explanation,
    })
}

/// Any trace that the store would take.
pub(crate) fn trace() -> BoxedStrategy<Trace> {
    let metric = prop_oneof![
        any::<bool>().prop_map(Metric::Flag),
        number().prop_map(|n| match n {
            Value::Number(n) => Metric::Value(n),
            _ => unreachable!("a number"),
        })
    ];
    let outcome = prop::sample::select(vec![TraceOutcome::Success, TraceOutcome::Failure, TraceOutcome::Unknown]);
    let ids = (any::<[u8; 16]>(), option::of(any::<[u8; 16]>()), option::of(any::<[u8; 16]>()), any::<[u8; 32]>());
    let told = (vec(segment(), 1..4), vec(reward(), 0..3), btree_map("[a-z]{0,4}", metric, 0..3), extra());
    let fields = (ids, time(), option::of(time()), option::of("[a-z]{1,5}"), outcome, told);
    let trace = fields.prop_map(|((id, group, run, config), started, ended, category, outcome, told)| {
        let (segments, rewards, metrics, metadata) = told;
        Trace {
            v: V1,
            id: TraceId::from_bytes(id),
            tenant: Tenant::default(),
            started,
            ended,
            category: category.map(|name| Category::new(name).unwrap()),
            scenario: None,
            group: group.map(GroupId::from_bytes),
            run: run.map(RunId::from_bytes),
            config: ConfigHash::from_bytes(config),
            outcome,
            segments,
            rewards,
            metrics,
            metadata,
        }
    });
    trace
        .prop_map(|mut trace| {
            let n_turns = trace.turns().count();
            trace.rewards.retain(|reward| reward.turn_idx.is_none_or(|idx| (idx as usize) < n_turns));
            trace
        })
        .prop_filter("something is said", |trace| trace.check().is_ok())
        .boxed()
}
