//! Realistic traces from a seed: a service desk, eight turns, three tool calls, about 6 KB of JSON each.

use hone_trace::{
    Category, Component, Config, ConfigHash, Giver, GiverKind, LlmCall, Message, Metric, NextTurn, Reward, RewardId, Role,
    Segment, Tenant, Time, ToolCall, ToolRequest, ToolSpec, Trace, TraceId, TraceOutcome, Turn, V1,
};
use serde_json::{Map, Number, json};

pub(super) const CATEGORIES: [&str; 8] =
    ["refund", "delivery", "invoice", "login", "warranty", "exchange", "discount", "complaint"];
const N_CUSTOMERS: u64 = 2000;
const N_TURNS: usize = 8;
const WORDS: [&str; 48] = [
    "order", "the", "customer", "was", "sent", "on", "Monday", "with", "a", "parcel", "that", "arrived", "late", "and", "has",
    "not", "been", "paid", "since", "our", "record", "shows", "two", "items", "were", "returned", "to", "store", "before",
    "policy", "allows", "full", "refund", "within", "thirty", "days", "please", "check", "address", "again", "while", "I",
    "look", "up", "invoice", "number", "for", "you",
];

/// Traces that a seed fixes: the n-th is the same every time.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    seed: u64,
    tools: Vec<ToolSpec>,
    config: ConfigHash,
    prompt: String,
}

impl Samples {
    pub(super) fn new(seed: u64) -> Self {
        let prompt =
            "You work at the service desk of a shop. Look things up before you answer, never promise what the policy does \
                      not allow, and say so when you do not know. Answer in the customer's language, in at most three sentences."
                .to_owned();
        let tool = |name: &str, description: &str| ToolSpec {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            parameters: json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}),
            extra: Map::new(),
        };
        let tools = vec![tool("find_order", "Find an order by its number"), tool("read_policy", "Read a page of the policy")];
        let config =
            Config { model: Some("desk-7b".to_owned()), prompt: Some(prompt.clone()), tools: tools.clone(), ..Config::default() };
        Self { seed, tools, config: config.hash(), prompt }
    }

    /// The n-th trace; traces are one second apart.
    pub(super) fn trace(&self, n: u64) -> Trace {
        let mut random = Random(self.seed ^ n.wrapping_mul(0xd134_2543_de82_ef95));
        let started = Time::from_unix_nanos(
            1_780_000_000_000_000_000 + i64::try_from(n).unwrap_or(0) * 1_000_000_000 + random.below(999_999_999),
        );
        let id = TraceId::live(started, u128::from(random.next()) << 64 | u128::from(random.next()));
        let turns = (0..N_TURNS).map(|idx| self.turn(idx, &mut random)).collect();
        let total = random.below(1001) as f64 / 1000.0;
        let by = Giver { kind: GiverKind::Check, name: "desk-check".to_owned(), config: None };
        let part = |name: &str, value: f64, weight: f64| Component { name: name.to_owned(), value, weight };
        let parts = vec![part("answer", total, 0.8), part("policy", total, 0.15), part("brevity", total, 0.05)];
        let mut reward = Reward::sum(RewardId::derived(&[&id.to_string()]), started, by, parts);
        reward.total = total;
        Trace {
            v: V1,
            id,
            tenant: Tenant::default(),
            started,
            ended: Some(started.plus_nanos(random.below(20_000_000_000))),
            category: Category::new(CATEGORIES[random.below(8) as usize]).ok(),
            scenario: None,
            group: None,
            run: None,
            config: self.config,
            outcome: if total >= 0.5 { TraceOutcome::Success } else { TraceOutcome::Failure },
            segments: vec![Segment { tools: self.tools.clone(), turns, tail: Vec::new() }],
            rewards: vec![reward],
            metrics: [("wait_s".to_owned(), Metric::Value(Number::from(random.below(90))))].into(),
            metadata:
                json!({"customer": customer(random.below(N_CUSTOMERS as i64) as u64), "region": "north", "channel": "chat"})
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
        }
    }

    /// The turn that the n-th trace goes on with.
    pub(super) fn next_turn(&self, n: u64) -> (TraceId, NextTurn) {
        let trace = self.trace(n);
        let turn = self.turn(N_TURNS, &mut Random(!self.seed ^ n));
        let ended = trace.ended.unwrap_or(trace.started).plus_nanos(1_000_000_000);
        (trace.id, NextTurn { v: V1, turn_idx: N_TURNS as u32, segment: None, turn, ended })
    }

    /// The n-th trace as a line of our own format.
    pub(super) fn line(&self, n: u64) -> String {
        hone_trace::format::write(&self.trace(n), hone_trace::format::Format::Hone)
    }

    fn turn(&self, idx: usize, random: &mut Random) -> Turn {
        let mut input = Vec::new();
        if idx == 0 {
            input.push(Message::text(Role::System, self.prompt.clone()));
        }
        let calls_tool = matches!(idx, 1 | 3 | 5);
        let after_tool = matches!(idx, 2 | 4 | 6);
        let call_id = format!("call_{}", idx / 2);
        if after_tool {
            let mut result = Message::text(Role::Tool, json!({"found": true, "text": random.text(30)}).to_string());
            result.tool_call_id = Some(format!("call_{}", (idx - 1) / 2));
            input.push(result);
        } else {
            input.push(Message::text(Role::User, random.text(20)));
        }
        let mut answer = Message::text(Role::Assistant, random.text(30));
        let mut tool_calls = Vec::new();
        if calls_tool {
            let name = self.tools[idx % 2].name.clone();
            let arguments = json!({"id": format!("A-{}", random.below(100_000))});
            answer.tool_calls.push(ToolRequest {
                id: call_id.clone(),
                name: name.clone(),
                arguments: arguments.to_string(),
                extra: Map::new(),
            });
            let duration_ms = Some(random.below(900_000) as f64 / 1000.0);
            let success = Some(random.below(20) > 0);
            tool_calls.push(ToolCall { id: call_id, name, arguments, success, duration_ms, extra: Map::new() });
        }
        let llm_call = LlmCall {
            model: "desk-7b".to_owned(),
            tokens_in: 200 + idx as u64 * 90,
            tokens_out: 40 + random.below(60) as u64,
            tokens_cached: 128,
            cost_usd: Some(random.below(9000) as f64 / 1e6),
            duration_ms: Some(random.below(4_000_000) as f64 / 1000.0),
            extra: Map::new(),
        };
        let mut turn = Turn::new(input, answer);
        turn.tool_calls = tool_calls;
        turn.llm_calls = vec![llm_call];
        turn
    }
}

/// The name of a customer, by which about one in 2,000 traces is found.
fn customer(n: u64) -> String {
    format!("customer-{n:04}")
}

/// SplitMix64: small, good enough for text, and the same everywhere.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end`, which is left out.
    pub(super) fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.next() % end.unsigned_abs().max(1)).unwrap_or(0)
    }

    fn text(&mut self, n_words: usize) -> String {
        let words: Vec<&str> = (0..n_words).map(|_| WORDS[self.below(48) as usize]).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_what_the_figures_say_it_is() {
        let samples = Samples::new(7);
        let sizes: Vec<usize> = (0..200).map(|n| samples.line(n).len()).collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((5500..6500).contains(&mean), "{mean} bytes");
        let trace = samples.trace(3);
        assert_eq!(trace.turns().count(), 8);
        assert_eq!(trace.turns().flat_map(|turn| &turn.tool_calls).count(), 3);
        assert_eq!(trace.check(), Ok(()));
        assert_eq!(samples.line(3), Samples::new(7).line(3));
        assert_ne!(samples.line(3), Samples::new(8).line(3));
    }
}
