//! Spans that come while the agent is at work: in any order, in any batches and more than once, each is kept once.

use hone_trace::format::Origin;
use hone_trace::format::otlp::live::{Gathering, Taken, Woven, pieces, take};
use hone_trace::format::otlp::protobuf::Message;
use hone_trace::format::otlp::request;
use hone_trace::{Trace, TraceId};
use proptest::prelude::*;
use serde_json::{Value, json};

const TRACE: &str = "000000000000000000000000000000aa";

fn attribute(key: &str, text: &str) -> Value {
    json!({"key": key, "value": {"stringValue": text}})
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "parts": [{"type": "text", "content": text}]})
}

fn span(no: usize, kind: &str, more: Vec<Value>) -> Value {
    let attributes = [vec![attribute("gen_ai.operation.name", kind)], more].concat();
    json!({"traceId": TRACE, "spanId": format!("{:016x}", no + 1), "parentSpanId": "00000000000000ff", "name": kind,
        "startTimeUnixNano": (1000 * (no + 1)).to_string(), "endTimeUnixNano": (1000 * (no + 1) + 500).to_string(), "attributes": attributes})
}

/// A conversation of so many model calls, each followed by a tool call, and the agent around them.
fn conversation(n_turns: usize) -> Vec<Value> {
    let mut spans = Vec::new();
    let mut history = Vec::new();
    for n in 0..n_turns {
        history.push(said("user", &format!("question {n}")));
        let answer = said("assistant", &format!("answer {n}"));
        let told = vec![
            attribute("gen_ai.input.messages", &json!(history).to_string()),
            attribute("gen_ai.output.messages", &json!([answer]).to_string()),
        ];
        history.push(answer);
        spans.push(span(2 * n, "chat", told));
        spans.push(span(2 * n + 1, "execute_tool", vec![attribute("gen_ai.tool.name", &format!("tool {n}"))]));
    }
    let mut agent = span(2 * n_turns, "invoke_agent", vec![attribute("gen_ai.agent.name", "desk")]);
    agent.as_object_mut().unwrap().remove("parentSpanId");
    agent["startTimeUnixNano"] = json!("999");
    spans.push(agent);
    spans
}

fn batch(spans: &[Value]) -> Value {
    json!({"resourceSpans": [{"resource": {"attributes": [attribute("service.name", "desk")]}, "scopeSpans": [{"scope": {"name": "s"}, "spans": spans}]}]})
}

fn gathered(spans: &[Value]) -> Gathering {
    let mut gathering = Gathering::default();
    let kept = take(batch(spans)).unwrap().kept.unwrap();
    pieces(kept).unwrap().into_iter().for_each(|piece| gathering.add(piece));
    gathering
}

/// Writes what has been gathered as a store would.
fn write(trace: &mut Option<Trace>, gathering: &Gathering) {
    match gathering.weave(TraceId::derived(&["t"]), trace.as_ref(), &Origin::default()).unwrap() {
        Woven::Nothing => {}
        Woven::New(new, _) => *trace = Some(*new),
        Woven::Next(turns, rewards) => {
            let trace = trace.as_mut().unwrap();
            for next in turns {
                assert_eq!(next.turn_idx as usize, trace.turns().count());
                next.check().unwrap();
                trace.go_on(next);
            }
            trace.rewards.extend(rewards);
            trace.check().unwrap();
        }
    }
}

fn span_ids(request: &Value) -> Vec<String> {
    let scopes =
        request["resourceSpans"].as_array().unwrap().iter().flat_map(|resource| resource["scopeSpans"].as_array().unwrap());
    let spans = scopes.flat_map(|scope| scope["spans"].as_array().unwrap());
    let mut ids: Vec<String> = spans.map(|span| span["spanId"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn answers(trace: &Trace) -> Vec<String> {
    trace.turns().filter(|turn| !turn.llm_calls.is_empty()).map(|turn| turn.answer.content.text()).collect()
}

proptest! {
    #[test]
    fn every_span_is_kept_once_in_whatever_batches_it_comes(
        n_turns in 1_usize..6,
        order in prop::collection::vec((any::<u64>(), 1_usize..4), 11),
        repeated: bool,
    ) {
        let spans = conversation(n_turns);
        let mut dealt: Vec<(u64, &Value)> = spans.iter().zip(&order).map(|(span, (key, _))| (*key, span)).collect();
        dealt.sort_by_key(|(key, _)| *key);
        let mut rest: Vec<Value> = dealt.into_iter().map(|(_, span)| span.clone()).collect();
        let mut batches = Vec::new();
        for (_, len) in &order {
            batches.push(rest.drain(..(*len).min(rest.len())).collect::<Vec<_>>());
        }
        batches.push(rest);
        let mut trace = None;
        for batch in batches.iter().filter(|batch| !batch.is_empty()) {
            write(&mut trace, &gathered(batch));
            if repeated {
                let before = trace.clone();
                write(&mut trace, &gathered(batch));
                prop_assert_eq!(&trace, &before, "what is sent again changes nothing");
            }
        }
        let trace = trace.unwrap();
        let found = span_ids(&request(&trace));
        let (chats, n_found) = (answers(&trace), found.len());
        let mut sorted = chats.clone();
        sorted.sort();
        prop_assert_eq!(sorted, (0..n_turns).map(|n| format!("answer {n}")).collect::<Vec<_>>());
        // The agent around them has no turn to stand on when it comes last or before all others.
        let expected = span_ids(&batch(&spans));
        prop_assert!(found == expected || (n_found + 1 == expected.len() && !found.contains(expected.last().unwrap())), "{:?}", found);
    }
}

proptest! {
    #[test]
    fn damage_is_survived(at: prop::sample::Index, piece: Vec<u8>, len in 0_usize..20) {
        let mut bytes = Message::Request.write(&batch(&conversation(3)));
        let at = at.index(bytes.len());
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, piece);
        if let Ok(Taken { kept: Some(kept), .. }) = Message::Request.read(&bytes).and_then(take) {
            let mut trace = None;
            // One by one, so that whatever is left of a conversation goes on.
            for piece in pieces(kept).unwrap() {
                let mut gathering = Gathering::default();
                gathering.add(piece);
                write(&mut trace, &gathering);
            }
        }
    }
}

#[test]
fn what_comes_before_it_is_written_is_in_the_order_of_time() {
    let mut spans = conversation(4);
    spans.reverse();
    let mut trace = None;
    write(&mut trace, &gathered(&spans));
    let trace = trace.unwrap();
    assert_eq!(answers(&trace), ["answer 0", "answer 1", "answer 2", "answer 3"]);
    assert_eq!(trace.segments.len(), 1);
    assert!(trace.turns().all(|turn| turn.input.len() == 1 && turn.tool_calls.len() == 1));
    assert_eq!(trace.metadata["agent_name"], "desk");
}

#[test]
fn a_conversation_that_goes_on_extends_its_segment() {
    let spans = conversation(3);
    let mut trace = None;
    for batch in spans.chunks(2) {
        write(&mut trace, &gathered(batch));
    }
    let trace = trace.unwrap();
    assert_eq!(trace.segments.len(), 1);
    assert_eq!(trace.turns().map(|turn| turn.input.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_tool_call_that_comes_late_stands_on_the_next_turn() {
    let spans = conversation(2);
    let mut trace = None;
    write(&mut trace, &gathered(&spans[..1]));
    write(&mut trace, &gathered(&spans[1..4]));
    let trace = trace.unwrap();
    let tools: Vec<Vec<&str>> =
        trace.turns().map(|turn| turn.tool_calls.iter().map(|call| call.name.as_str()).collect()).collect();
    assert_eq!(tools, [vec![], vec!["tool 0", "tool 1"]]);
    assert_eq!(trace.segments.len(), 1);
}

#[test]
fn judgements_that_come_late_find_their_turn() {
    let spans = conversation(2);
    let mut trace = None;
    write(&mut trace, &gathered(&spans[..1]));
    let mut last = spans[2].clone();
    let score = json!({"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.5}});
    last["events"] =
        json!([{"name": "gen_ai.evaluation.result", "attributes": [attribute("gen_ai.evaluation.name", "kind"), score]}]);
    write(&mut trace, &gathered(&[last.clone()]));
    write(&mut trace, &gathered(&[last]));
    let rewards: Vec<_> = trace.unwrap().rewards.iter().map(|reward| (reward.turn_idx, reward.total)).collect();
    assert_eq!(rewards, [(Some(1), 0.5)]);
}

fn taken(spans: &[Value]) -> Taken {
    take(batch(spans)).unwrap()
}

#[test]
fn bad_spans_are_refused_one_by_one() {
    let good = span(0, "chat", Vec::new());
    let with = |key: &str, value: Value| {
        let mut span = good.clone();
        span[key] = value;
        span
    };
    let taken = taken(&[
        good.clone(),
        with("traceId", json!("0".repeat(32))),
        with("spanId", json!("abc")),
        with("spanId", json!("zzzzzzzzzzzzzzzz")),
        with("attributes", json!("none")),
        json!(7),
    ]);
    assert_eq!((taken.n_kept, taken.n_idle, taken.n_refused), (1, 0, 5));
    let reasons: Vec<String> = taken.reasons.iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons[0],
        "resourceSpans[0].scopeSpans[0].spans[1].traceId: must be 32 hexadecimal digits that are not all zero"
    );
    assert_eq!(reasons[3], "resourceSpans[0].scopeSpans[0].spans[4].attributes: must be a list");
}

#[test]
fn spans_that_say_nothing_of_an_agent_are_counted() {
    let plain = |more: Vec<Value>| {
        let mut span = span(0, "GET /", more);
        span["attributes"].as_array_mut().unwrap().remove(0);
        span
    };
    let mut failed = plain(Vec::new());
    failed["status"] = json!({"code": 2});
    let mut root = plain(Vec::new());
    root["parentSpanId"] = json!("");
    let taken = taken(&[plain(Vec::new()), root, failed, plain(vec![attribute("session.id", "s")])]);
    assert_eq!((taken.n_kept, taken.n_idle, taken.n_refused), (2, 2, 0));
    assert_eq!(taken.ended, [TRACE]);
}

#[test]
fn an_error_that_no_call_told_of_stands_on_the_turn_before_it() {
    let mut spans = conversation(2);
    spans[4]["status"] = json!({"code": 2, "message": "the answer could not be parsed"});
    spans[4]["endTimeUnixNano"] = json!("9000");
    let mut trace = None;
    write(&mut trace, &gathered(&spans));
    let trace = trace.unwrap();
    let errors: Vec<Vec<&str>> =
        trace.turns().map(|turn| turn.errors.iter().map(|error| error.message.as_str()).collect()).collect();
    assert_eq!(errors, [vec![], vec!["the answer could not be parsed"]]);
}
