//! Chat lines come back as they were.

use crate::json::{self, Any, anything, list, maybe, must, null, number, object, or_null, text, unknown};
use crate::read;
use hone_trace::format::openai::Conversation;
use hone_trace::format::{Format, Origin, Reader, left_out, write};
use hone_trace::{Content, Giver, GiverKind, Reward, Role, Time};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn name() -> Any {
    "[a-z_]{1,6}".prop_map(Value::from).boxed()
}

fn function() -> Any {
    let arguments = prop_oneof![Just(json!("{\"city\": \"Ulm\"}")), Just(json!("not json {")), text(), anything()].boxed();
    object(vec![must("name", name()), maybe("arguments", arguments), unknown()])
}

fn call() -> Any {
    let kind = prop_oneof![4 => Just(json!("function")), 1 => null(), 1 => text()].boxed();
    let id = prop_oneof![4 => name(), 1 => null(), 1 => Just(json!(""))].boxed();
    let usual = object(vec![maybe("id", id), maybe("type", kind), must("function", function()), unknown()]);
    let custom = object(vec![maybe("name", name()), maybe("input", text())]);
    let other =
        object(vec![maybe("id", name()), maybe("type", text()), maybe("custom", custom), maybe("function", null()), unknown()]);
    prop_oneof![4 => usual, 1 => other].boxed()
}

fn parts() -> Any {
    let part = object(vec![must("type", prop_oneof![Just(json!("text")), text()].boxed()), maybe("text", text()), unknown()]);
    list(prop_oneof![3 => part, 1 => anything()].boxed(), 0..3)
}

pub(crate) fn message(role: Any) -> Any {
    object(vec![
        must("role", role),
        maybe("content", prop_oneof![3 => text(), 1 => null(), 1 => parts()].boxed()),
        maybe("name", or_null(text())),
        maybe("tool_call_id", or_null(text())),
        maybe("tool_calls", or_null(list(call(), 0..3))),
        maybe("function_call", or_null(function())),
        maybe("reasoning_content", or_null(text())),
        maybe("reasoning", prop_oneof![text(), anything()].boxed()),
        maybe("weight", number()),
        unknown(),
    ])
}

pub(crate) fn any_message() -> Any {
    let role = prop::sample::select(vec!["system", "developer", "user", "assistant", "tool", "function"]);
    message(role.prop_map(Value::from).boxed())
}

fn spec() -> Any {
    object(vec![must("name", name()), maybe("description", or_null(text())), maybe("parameters", anything()), unknown()])
}

pub(crate) fn tool() -> Any {
    let kind = prop_oneof![4 => Just(json!("function")), 1 => anything()].boxed();
    let usual = object(vec![maybe("type", kind), must("function", spec()), unknown()]);
    let other = object(vec![maybe("type", text()), maybe("function", null()), unknown()]);
    prop_oneof![4 => usual, 1 => other].boxed()
}

fn document() -> Any {
    object(vec![
        must("messages", list(any_message(), 1..6)),
        maybe("tools", or_null(list(tool(), 0..3))),
        maybe("functions", or_null(list(spec(), 0..3))),
        maybe("parallel_tool_calls", or_null(any::<bool>().prop_map(Value::from).boxed())),
        maybe("model", or_null(text())),
        maybe("temperature", or_null(number())),
        maybe("metadata", anything()),
        maybe("task_type", text()),
        maybe("reward", prop_oneof![json::reward(), text(), null()].boxed()),
        unknown(),
    ])
}

proptest! {
    #[test]
    fn a_document_comes_back(document in document()) {
        let imported = read(Format::Openai, &document.to_string());
        prop_assert_eq!(imported.traces.len(), 1);
        json::assert_same(&json::parse(&write(&imported.traces[0], Format::Openai)), &document);
        // What was stored is read again from its own JSON.
        let stored = read(Format::Hone, &write(&imported.traces[0], Format::Hone));
        prop_assert_eq!(stored.traces, imported.traces);
    }
}

#[test]
fn a_conversation_becomes_turns() {
    let line = r#"{"model":"m","temperature":0.5,"metadata":{"category":"refund"},"tools":[{"type":"function","function":{"name":"f"}}],"messages":[
        {"role":"system","content":"Be kind."},{"role":"user","content":"hi"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]},
        {"role":"tool","tool_call_id":"1","content":"42"},{"role":"assistant","content":"bye","weight":0},{"role":"user","content":"thanks"}]}"#;
    let imported = read(Format::Openai, line);
    let (trace, config) = (&imported.traces[0], &imported.configs[0]);
    let segment = &trace.segments[0];
    assert_eq!(segment.turns.iter().map(|turn| turn.input.len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(segment.turns[0].answer.tool_calls[0].arguments, "{");
    assert_eq!(segment.turns[1].answer.content, Content::Text("bye".to_owned()));
    assert_eq!(segment.tail[0].role, Role::User);
    assert_eq!(trace.category.as_ref().unwrap().as_str(), "refund");
    assert_eq!((config.model.as_deref(), config.temperature, config.tools.len()), (Some("m"), Some(0.5), 1));
    assert_eq!((config.prompt.as_deref(), config.hash()), (Some("Be kind."), trace.config));
}

#[test]
fn equal_lines_are_two_traces_and_the_same_file_gives_the_same_ids() {
    let ids = || {
        let mut reader = Reader::new(Format::Openai, Default::default());
        let lines = [r#"{"messages":[{"role":"user","content":"a"}]}"#, r#"{"messages":[{"content":"a", "role":"user"}]}"#];
        lines.map(|line| reader.line(line).unwrap().traces[0].id)
    };
    assert_eq!(ids(), ids());
    assert_ne!(ids()[0], ids()[1]);
}

#[test]
fn a_number_at_the_top_is_the_reward_and_comes_back() {
    let line = |reward: &str| {
        format!(r#"{{"messages":[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":"Ho"}}],{reward}}}"#)
    };
    let mut trace = read(Format::Openai, &line(r#""reward":0.5"#)).traces.remove(0);
    assert_eq!(trace.reward().map(|reward| (reward.total, reward.by.name.as_str())), Some((0.5, "openai")));
    assert_eq!(left_out(&trace, Format::Openai), [""; 0]);
    assert_eq!(read(Format::Openai, &write(&trace, Format::Openai)).traces, [trace.clone()]);
    let past = trace.rewards[0].clone();
    trace.rewards.push(Reward { total: 1.0, by: Giver { kind: GiverKind::Check, name: "desk".into(), config: None }, ..past });
    let written = write(&trace, Format::Openai);
    assert_eq!(json::parse(&written)["reward"], 1.0, "what was given since");
    assert_eq!(json::parse(&written).get("metadata"), None, "{written}");
    assert_eq!(read(Format::Openai, &written).traces[0].rewards.iter().map(|reward| reward.total).collect::<Vec<_>>(), [1.0]);
    assert_eq!(left_out(&trace, Format::Openai), ["all rewards but the last", "who gave the reward"]);
    for other in [r#""reward":"good""#, r#""reward":null"#, r#""metadata":{"reward":1}"#] {
        assert_eq!(read(Format::Openai, &line(other)).traces[0].rewards, [], "{other}");
    }
}

#[test]
fn what_a_client_calls_a_reward_is_none_in_an_export_either() {
    let line = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}]}"#;
    let plain = read(Format::Openai, line).traces.remove(0);
    let earned = read(Format::Openai, &line.replace(r#"{"messages""#, r#"{"reward":0.25,"messages""#)).traces.remove(0).rewards;
    for (noted, rewards) in [(json!(0.5), &[][..]), (json!(0.5), &earned[..]), (json!("good"), &[]), (json!("good"), &earned)] {
        let mut trace = plain.clone();
        trace.metadata.insert("reward".into(), noted.clone());
        trace.rewards = rewards.to_vec();
        let written = write(&trace, Format::Openai);
        let back = read(Format::Openai, &written).traces.remove(0);
        assert_eq!(back.reward().map(|reward| reward.total), trace.reward().map(|reward| reward.total), "{written}");
        let kept = [back.metadata.get("reward"), back.metadata.get("metadata").and_then(|inner| inner.get("reward"))];
        assert!(kept.contains(&Some(&noted)), "what the client says stays among the metadata: {written}");
    }
}

#[test]
fn the_name_of_an_episode_comes_back_from_every_format() {
    let line =
        r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}],"metadata":{"episode_name":"t-1"}}"#;
    let trace = read(Format::Openai, line).traces.remove(0);
    for format in Format::ALL {
        let back = read(format, &write(&trace, format)).traces.remove(0);
        assert_eq!(back.metadata.get("episode_name"), Some(&json!("t-1")), "{format}");
        assert!(!left_out(&trace, format).contains(&"metadata"), "{format}");
    }
}

#[test]
fn metadata_are_flat_and_come_back_and_so_does_the_category() {
    let line = r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}],"metadata":{"customer":"acme","model":"inner"},"model":"m"}"#;
    let mut trace = read(Format::Openai, line).traces.remove(0);
    assert_eq!(trace.metadata["customer"], "acme");
    assert_eq!((&trace.metadata["model"], &trace.metadata["metadata"]), (&json!("m"), &json!({"model": "inner"})));
    assert_eq!(
        serde_json::from_str::<Value>(&write(&trace, Format::Openai)).unwrap(),
        serde_json::from_str::<Value>(line).unwrap()
    );

    trace.category = Some(hone_trace::Category::new("desk").unwrap());
    for format in [Format::Openai, Format::Art, Format::Otlp] {
        let back = read(format, &write(&trace, format)).traces.remove(0);
        assert_eq!(back.category, trace.category, "{format}");
        let customer = (format != Format::Otlp).then(|| json!("acme"));
        assert_eq!(back.metadata.get("customer"), customer.as_ref(), "{format}");
        assert!(!left_out(&trace, format).contains(&"the category"), "{format}");
    }
}

#[test]
fn all_that_shapes_an_answer_is_of_the_config() {
    let asked =
        |rest: &str| Conversation::read(&format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "hi"}}]{rest}}}"#));
    let hash = |rest: &str| asked(rest).unwrap().config().hash();
    let shaped = [
        r#", "stop": ["END"]"#,
        r#", "stop_sequences": ["END"]"#,
        r#", "top_k": 1"#,
        r#", "min_p": 0.1"#,
        r#", "logit_bias": {"5": -100}"#,
        r#", "repetition_penalty": 1.1"#,
        r#", "thinking": {"type": "enabled", "budget_tokens": 2048}"#,
        r#", "chat_template_kwargs": {"enable_thinking": false}"#,
    ];
    let all: BTreeSet<_> = shaped.into_iter().map(hash).chain([hash("")]).collect();
    assert_eq!(all.len(), shaped.len() + 1);
    // Who asks, and by which dice, is not of the agent.
    assert_eq!([hash(r#", "user": "u1""#), hash(r#", "seed": 3"#)], [hash(""), hash("")]);
}

/// All that a trace says, a message each.
fn said(trace: &hone_trace::Trace) -> String {
    let message = |message: &hone_trace::Message| {
        let calls = message.tool_calls.iter().map(|call| format!(" {}#{}{}", call.name, call.id, call.arguments));
        let id = message.tool_call_id.iter().map(|id| format!(" to {id}"));
        format!("{:?}: {}{}", message.role, message.content.text(), calls.chain(id).collect::<String>())
    };
    let segment = &trace.segments[0];
    let messages = segment.turns.iter().flat_map(|turn| turn.input.iter().chain([&turn.answer])).chain(&segment.tail);
    messages.map(message).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_log_of_requests_is_a_conversation() {
    let hi = r#"{"role":"user","content":"hi"}"#;
    let asks = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"x"},{"type":"text","text":"I look."},
        {"type":"tool_use","id":"t1","name":"look","input":{"q":1}}]}"#;
    let results = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"42"}],"is_error":true},
        {"type":"tool_result","tool_use_id":"t2"},{"type":"text","text":"well?"}]}"#;
    let ho = r#""choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"ho","tool_calls":null}}]"#;
    let text = format!(r#""response":{}"#, json!(format!("{{{ho}}}")));
    for (messages, rest, n_turns, expected) in [
        (hi, r#""system":"Be kind.""#, 0, "System: Be kind. | User: hi"),
        (
            hi,
            r#""system":[{"type":"text","text":"Be"},{"type":"text","text":"kind.","cache_control":{}}]"#,
            0,
            "System: Be\n\nkind. | User: hi",
        ),
        (r#"{"role":"system","content":"Be."}"#, r#""system":"linux""#, 0, "System: Be."),
        (hi, r#""system":{"os":"linux"}"#, 0, "User: hi"),
        (
            &format!("{hi},{asks},{results}"),
            r#""response":{"type":"message","content":[{"type":"text","text":"Hm."},{"type":"tool_use","id":"t3","name":"f","input":{}}]}"#,
            2,
            r#"User: hi | Assistant: I look. look#t1{"q":1} | Tool: 42 to t1 | Tool:  to t2 | User: well? | Assistant: Hm. f#t3{}"#,
        ),
        (hi, &format!(r#""response":{{{ho}}}"#), 1, "User: hi | Assistant: ho"),
        (hi, &text, 1, "User: hi | Assistant: ho"),
        (
            hi,
            r#""response":{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]}}]}"#,
            1,
            "User: hi | Assistant:  f#1{",
        ),
        (r#"{"role":"assistant","content":"ha"}"#, &format!(r#""response":{{{ho}}}"#), 1, "Assistant: ha"),
        (hi, r#""response":"none""#, 0, "User: hi"),
        (hi, r#""response":{"choices":[{"message":{"role":"assistant","content":null}}]}"#, 0, "User: hi"),
    ] {
        let line = format!(r#"{{"messages":[{messages}],{rest}}}"#);
        let trace = read(Format::Openai, &line).traces.remove(0);
        assert_eq!((said(&trace).as_str(), trace.turns().count()), (expected, n_turns), "{line}");
        let written = write(&trace, Format::Openai);
        let back = read(Format::Openai, &written).traces.remove(0);
        assert_eq!(said(&back), expected, "{written}");
        json::assert_same(&json::parse(&write(&back, Format::Openai)), &json::parse(&written));
    }
}

#[test]
fn a_log_tells_tokens_tools_and_thoughts() {
    let line = r#"{"model":"m","system":"Be kind.","messages":[{"role":"user","content":"hi"}],"response_cost":0.5,
        "tools":[{"name":"look","description":"Looks.","input_schema":{"type":"object"},"cache_control":{}}],
        "response":{"id":"r","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"ho"}],
            "usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}}"#;
    let imported = read(Format::Openai, line);
    let (trace, config) = (&imported.traces[0], &imported.configs[0]);
    let turn = trace.turns().next().unwrap();
    assert_eq!((turn.answer.content.text().as_str(), turn.answer.reasoning.as_deref()), ("ho", Some("Hm.")));
    let call = &turn.llm_calls[0];
    assert_eq!((call.model.as_str(), call.tokens_in, call.tokens_cached, call.tokens_out), ("m", 7, 4, 2));
    assert_eq!((call.cost_usd, config.prompt.as_deref()), (Some(0.5), Some("Be kind.")));
    assert_eq!((trace.metadata.get("system"), &trace.metadata["response"]["id"]), (None, &json!("r")));
    let tool = &config.tools[0];
    assert_eq!(
        (tool.name.as_str(), tool.description.as_deref(), &tool.parameters["type"]),
        ("look", Some("Looks."), &json!("object"))
    );
    let openai = line.replace(
        r#""response":{"id":"r","content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"ho"}],
            "usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}"#,
        r#""response":{"model":"n","choices":[{"message":{"content":"ho"}}],
            "usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#,
    );
    let trace = read(Format::Openai, &openai).traces.remove(0);
    let call = trace.turns().next().unwrap().llm_calls[0].clone();
    assert_eq!((call.model.as_str(), call.tokens_in, call.tokens_cached, call.tokens_out), ("n", 7, 4, 2));
}

#[test]
fn metadata_that_look_like_a_log_are_none_in_an_export() {
    let line = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let mut trace = read(Format::Openai, line).traces.remove(0);
    let noted = [("system", json!("linux")), ("response", json!({"content": [{"type": "text", "text": "ho"}]}))];
    trace.metadata.extend(noted.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    let written = write(&trace, Format::Openai);
    let back = read(Format::Openai, &written).traces.remove(0);
    assert_eq!(said(&back), "User: hi", "{written}");
    assert!(noted.iter().all(|(key, value)| back.metadata.get(*key) == Some(value)), "{written}");
}

/// What the traces of a line say, with what they earned.
fn choices(line: &Value) -> Vec<(String, Option<f64>)> {
    let imported = read(Format::Openai, &line.to_string());
    let ids: Vec<_> = imported.traces.iter().map(|trace| trace.id).collect();
    let groups: Vec<_> = imported.groups.iter().map(|group| group.traces.clone()).collect();
    assert_eq!(groups, if ids.len() == 2 { vec![ids] } else { Vec::new() });
    imported.traces.iter().map(|trace| (said(trace), trace.reward().map(|reward| reward.total))).collect()
}

#[test]
fn a_better_and_a_worse_answer_are_a_group() {
    let says = |role: &str, content: &str| json!({"role": role, "content": content});
    let (asked, good, bad) = (says("user", "2+2?"), says("assistant", "4"), says("assistant", "5"));
    let expected = [("User: 2+2? | Assistant: 4".to_owned(), Some(1.0)), ("User: 2+2? | Assistant: 5".to_owned(), Some(0.0))];
    for line in [
        json!({"prompt": [asked], "chosen": [good], "rejected": [bad]}),
        json!({"prompt": "2+2?", "chosen": "4", "rejected": "5"}),
        json!({"chosen": [asked, good], "rejected": [asked, bad]}),
        json!({"input": {"messages": [asked]}, "preferred_output": [good], "non_preferred_output": [bad]}),
        // The whole conversations, and what was asked beside them.
        json!({"prompt": "2+2?", "messages": [asked, good], "chosen": [asked, good], "rejected": [asked, bad], "score_chosen": 8.5}),
        json!({"prompt": [asked], "chosen": [asked, good], "rejected": [asked, bad]}),
        // Sets that say it in other words.
        json!({"instruction": "2+2?", "input": "", "chosen": "4", "rejected": "5"}),
        json!({
            "conversations": [{"from": "human", "value": "2+2?"}],
            "chosen": {"from": "gpt", "value": "4"},
            "rejected": {"from": "gpt", "value": "5"},
        }),
        json!({
            "chosen": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}],
            "rejected": [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "5"}],
        }),
        json!({"chosen": "\n\nHuman: 2+2?\n\nAssistant: 4", "rejected": "\n\nHuman: 2+2?\n\nAssistant: 5"}),
        json!({"prompt": "\n\nHuman: 2+2?\n\nAssistant:", "chosen": " 4", "rejected": " 5"}),
        json!({"prompt": "2+2?", "chosen": "\n\nHuman: 2+2?\n\nAssistant: 4", "rejected": "\n\nHuman: 2+2?\n\nAssistant: 5"}),
        // What was asked stands in the messages.
        json!({"messages": [asked], "chosen": [good], "rejected": [bad]}),
        json!({"messages": [asked], "chosen": good, "rejected": bad}),
        json!({"messages": [asked], "chosen": "4", "rejected": "5"}),
        json!({"messages": [asked, good], "chosen": [good], "rejected": [bad]}),
        // A row of a table has nothing in some of its columns.
        json!({"prompt": "2+2?", "chosen": "4", "rejected": "5", "completion": null, "messages": null, "conversations": null, "tools": ""}),
        json!({"prompt": null, "chosen": [asked, good], "rejected": [asked, bad]}),
    ] {
        assert_eq!(Format::detect(&line.to_string()), Some(Format::Openai));
        assert_eq!(choices(&line), expected, "{line}");
    }
}

#[test]
fn a_conversation_that_goes_on_is_another_than_one_that_ends() {
    let [asked, said, more] = [("user", "Hi"), ("assistant", "Hello"), ("user", "And?")]
        .map(|(role, content)| json!({"role": role, "content": content}));
    let line = json!({"chosen": [asked, said], "rejected": [asked, said, more, said]});
    let expected = [("User: Hi | Assistant: Hello", 1.0), ("User: Hi | Assistant: Hello | User: And? | Assistant: Hello", 0.0)];
    assert_eq!(choices(&line), expected.map(|(said, reward)| (said.to_owned(), Some(reward))));
}

#[test]
fn a_prompt_with_one_answer_earned_what_its_label_says() {
    let line = |more: Value| {
        let mut line = json!({"prompt": "2+2?", "completion": "4"});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        choices(&line)
    };
    let expected = |reward| vec![("User: 2+2? | Assistant: 4".to_owned(), reward)];
    assert_eq!(line(json!({})), expected(None));
    assert_eq!(line(json!({"label": true})), expected(Some(1.0)));
    assert_eq!(line(json!({"label": false})), expected(Some(0.0)));
    assert_eq!(line(json!({"reward": 0.5})), expected(Some(0.5)));
}

#[test]
fn an_instruction_is_asked_and_its_output_answers() {
    let line = json!({"instruction": "Add.", "input": "2 and 2", "output": "4", "text": "all of it"});
    assert_eq!(Format::detect(&line.to_string()), Some(Format::Openai));
    assert_eq!(choices(&line), [("User: Add.\n\n2 and 2 | Assistant: 4".to_owned(), None)]);
    let line = json!({
        "system": "Be brief.", "history": [["Hi", "Hello"], ["1+1?", "2"]], "instruction": "2+2?", "output": "4", "label": true,
    });
    let said = "System: Be brief. | User: Hi | Assistant: Hello | User: 1+1? | Assistant: 2 | User: 2+2? | Assistant: 4";
    assert_eq!(choices(&line), [(said.to_owned(), Some(1.0))]);
    let trace = read(Format::Openai, &line.to_string()).traces.remove(0);
    assert_eq!((trace.turns().count(), trace.metadata.get("system")), (1, None), "what was said before teaches nobody");
    let again = read(Format::Openai, &write(&trace, Format::Openai)).traces.remove(0);
    assert_eq!(again.turns().map(|turn| turn.teaches()).collect::<Vec<_>>(), [false, false, true], "nor where it was exported");
}

#[test]
fn conversations_of_speakers_are_messages_with_their_calls() {
    let line = json!({
        "id": "a1", "system": "Use the tools.",
        "conversations": [
            {"from": "human", "value": "Oslo and Bergen?"},
            {"from": "function_call", "value": r#"[{"name": "look", "arguments": {"at": "Oslo"}}, {"name": "look", "arguments": "{}"}]"#},
            {"from": "observation", "value": "rain"},
            {"from": "observation", "value": "sun"},
            {"from": "gpt", "value": "Rain and sun.", "weight": 0},
        ],
        "tools": r#"[{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]"#,
    });
    assert_eq!(Format::detect(&line.to_string()), Some(Format::Openai));
    let trace = read(Format::Openai, &line.to_string()).traces.remove(0);
    assert_eq!(
        said(&trace),
        r#"System: Use the tools. | User: Oslo and Bergen? | Assistant:  look#call_1{"at":"Oslo"} look#call_2{} | Tool: rain to call_1 | Tool: sun to call_2 | Assistant: Rain and sun."#
    );
    let turns: Vec<_> = trace.turns().collect();
    let calls: Vec<_> = turns[0].answer.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("look", r#"{"at":"Oslo"}"#), ("look", "{}")]);
    let asked: Vec<_> = turns[0].answer.tool_calls.iter().map(|call| Some(call.id.clone())).collect();
    let answered: Vec<_> = turns[1].input.iter().map(|message| message.tool_call_id.clone()).collect();
    assert_eq!(answered, asked);
    assert!(turns[0].teaches() && !turns[1].teaches());
    let tool = &trace.segments[0].tools[0];
    assert_eq!(
        (tool.name.as_str(), tool.description.as_deref(), &tool.parameters),
        ("look", Some("Looks."), &json!({"type": "object"}))
    );
    assert_eq!((trace.metadata.get("id"), trace.metadata.get("conversations")), (Some(&json!("a1")), None));
    // Entries in the form of messages are such.
    let line = json!({"conversations": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]});
    assert_eq!(said(&read(Format::Openai, &line.to_string()).traces[0]), "User: Hi | Assistant: Hello");
}

#[test]
fn what_stands_beside_choices_is_kept_and_nothing_before_them_is_a_turn() {
    let tools = json!([{"type": "function", "function": {"name": "add"}}]);
    let before = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                        {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "2+2?"}]);
    let input = json!({"messages": before, "tools": tools, "parallel_tool_calls": false});
    let (good, bad) = (json!([{"role": "assistant", "content": "4"}]), json!([{"role": "assistant", "content": "5"}]));
    let line = json!({"input": input, "preferred_output": good, "non_preferred_output": bad, "category": "sums", "metadata": {"of": "me"}});
    let imported = read(Format::Openai, &line.to_string());
    for trace in &imported.traces {
        let segment = &trace.segments[0];
        assert_eq!((segment.turns.len(), segment.turns[0].input.len(), &*segment.tools[0].name), (1, 4, "add"));
        assert_eq!(trace.category.as_ref().map(|category| category.as_str()), Some("sums"));
        assert_eq!(trace.metadata["of"], "me");
    }
    let config = &imported.configs[0];
    assert_eq!((config.prompt.as_deref(), config.settings["parallel_tool_calls"].as_bool()), (Some("Be brief."), Some(false)));
    assert_eq!(imported.configs.len(), 1, "both have the same");
}

#[test]
fn nothing_of_a_line_is_lost() {
    // What a prompt says and no conversation does.
    let asked = json!({"role": "user", "content": "2+2?"});
    let [good, bad] = ["4", "5"].map(|text| json!({"role": "assistant", "content": text}));
    let trace = |line: Value| read(Format::Openai, &line.to_string()).traces.remove(0);
    let line = json!({"prompt": "sums", "chosen": [asked, good], "rejected": [asked, bad]});
    assert_eq!(
        (said(&trace(line.clone())).as_str(), &trace(line).metadata["prompt"]),
        ("User: 2+2? | Assistant: 4", &json!("sums"))
    );
    let line = json!({"system": "Be brief.", "prompt": "2+2?", "chosen": "4", "rejected": "5"});
    assert_eq!(said(&trace(line)), "System: Be brief. | User: 2+2? | Assistant: 4");
    // A row without a pair.
    let line = json!({"instruction": "2+2?", "output": "4", "chosen": null, "rejected": null});
    assert_eq!(said(&trace(line)), "User: 2+2? | Assistant: 4");
    let line = json!({"instruction": "Sum up.", "context": "2 and 2", "response": "4", "category": "qa"});
    assert_eq!(said(&trace(line)), "User: Sum up.\n\n2 and 2 | Assistant: 4");
    // A fact of that name is no answer, also when it comes back.
    let facts = json!({"chosen": [asked, good], "rejected": [asked, bad]});
    let line =
        json!({"messages_and_choices": [asked, {"role": "assistant", "content": "four"}], "reward": 0.25, "metadata": facts});
    let first = read(Format::Art, &line.to_string()).traces.remove(0);
    let again = read(Format::Openai, &write(&first, Format::Openai));
    assert_eq!((again.traces.len(), said(&again.traces[0]).as_str()), (1, "User: 2+2? | Assistant: four"));
    assert_eq!(again.traces[0].metadata["chosen"], facts["chosen"]);
}

#[test]
fn pairs_that_share_an_answer_are_pairs_of_their_own() {
    let line = |worse: &str| json!({"prompt": "2+2?", "chosen": "4", "rejected": worse}).to_string();
    let [one, other] = ["5", "6"].map(|worse| read(Format::Openai, &line(worse)));
    assert_eq!(one, read(Format::Openai, &line("5")));
    assert!(
        one.traces.iter().all(|trace| other.traces.iter().all(|other| other.id != trace.id)),
        "in whichever file each stands"
    );
}

#[test]
fn results_belong_to_the_calls_before_them() {
    let call = |text: &str| json!({"from": "function_call", "value": text});
    let heard = |text: &str| json!({"from": "observation", "value": text});
    let (asked, end) = (json!({"from": "human", "value": "x"}), json!({"from": "gpt", "value": "y"}));
    let spoken = |entries: &[Value]| said(&read(Format::Openai, &json!({"conversations": entries}).to_string()).traces[0]);
    let one = r#"{"name": "a", "arguments": {}}"#;
    let calls = [asked.clone(), call(one), asked.clone(), call(one), heard("second"), end.clone()];
    assert_eq!(
        spoken(&calls),
        "User: x | Assistant:  a#call_1{} | User: x | Assistant:  a#call_2{} | Tool: second to call_2 | Assistant: y"
    );
    let two = r#"[{"name": "rome", "id": "p"}, {"name": "oslo", "id": "q"}]"#;
    let mut late = heard("late");
    late["tool_call_id"] = json!("q");
    assert_eq!(
        spoken(&[asked.clone(), call(two), late, heard("early"), end.clone()]),
        "User: x | Assistant:  rome#p{} oslo#q{} | Tool: late to q | Tool: early to p | Assistant: y"
    );
    // A result in an answer is that of the call which the prompt ends with.
    let line = json!({"conversations": [asked, call(one)], "chosen": [heard("r"), end], "rejected": [heard("r"), {"from": "gpt", "value": "z"}]});
    let pair = read(Format::Openai, &line.to_string());
    assert_eq!(said(&pair.traces[0]), "User: x | Assistant:  a#call_1{} | Tool: r to call_1 | Assistant: y");
}

#[test]
fn a_log_says_when_a_request_began() {
    let now = Time::from_unix_nanos(1_800_000_000_000_000_000);
    let check = |facts: Value, expected: &str| {
        let mut line = json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]});
        line.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
        let origin = Origin { now, ..Origin::default() };
        let imported = Reader::new(Format::Openai, origin).line(&line.to_string()).unwrap();
        assert_eq!(imported.traces[0].started.to_string(), expected, "{facts}");
    };
    check(json!({}), "2027-01-15T08:00:00Z");
    check(json!({"created": 1_760_000_000}), "2025-10-09T08:53:20Z");
    check(json!({"startTime": 1_760_000_000.25}), "2025-10-09T08:53:20.250Z");
    check(json!({"timestamp": 1_760_000_000_250_u64}), "2025-10-09T08:53:20.250Z");
    check(json!({"created_at": "2026-03-14T15:09:26+01:00", "created": 1_760_000_000}), "2026-03-14T14:09:26Z");
    check(json!({"response": {"created": 1_760_000_000}}), "2025-10-09T08:53:20Z");
    // Neither of these is a time of the past.
    check(json!({"created": 7, "timestamp": "soon", "created_at": "2126-03-14"}), "2027-01-15T08:00:00Z");
}

#[test]
fn choices_that_are_none_are_refused_with_the_place() {
    let refused = |line: Value, expected: &str| {
        let error = Reader::new(Format::Openai, Origin::default()).line(&line.to_string());
        assert_eq!(error.unwrap_err().to_string(), expected);
    };
    refused(json!({"prompt": "x", "chosen": "y"}), "`chosen`: a prompt has one `completion`, or a better and a worse answer");
    refused(
        json!({"prompt": "x", "completion": "y", "rejected": "z"}),
        "`completion` and `rejected`: a prompt has one `completion`, or a better and a worse answer",
    );
    refused(
        json!({"chosen": "y", "rejected": "z"}),
        "`prompt` is missing: where `chosen` is a text, nobody knows what was asked",
    );
    refused(json!({"prompt": "x", "chosen": "y", "rejected": "y"}), "both answers are the same, so neither is better");
    refused(json!({"prompt": "x", "completion": 7}), "completion: must be a text or a list of messages");
    refused(json!({"prompt": "x", "completion": []}), "completion: none of its messages is an answer");
    refused(
        json!({"prompt": [{"role": "user"}, {"role": "narrator"}], "completion": "y"}),
        "prompt[1].role: `narrator` is not a role: system, developer, user, assistant, tool or function",
    );
    refused(
        json!({"input": {"messages": [{"content": "x"}]}, "preferred_output": [], "non_preferred_output": []}),
        "input.messages[0]: `role` is missing",
    );
    refused(json!({"input": "x", "preferred_output": [], "non_preferred_output": []}), "input: `messages` is missing");
    let speech =
        |from: &str, value: Value| json!({"conversations": [{"from": "human", "value": "x"}, {"from": from, "value": value}]});
    refused(
        speech("narrator", "y".into()),
        "conversations[1].from: `narrator` is not known: human, gpt, system, function_call or observation",
    );
    refused(speech("gpt", json!(["y"])), "conversations[1]: `from` and `value` must be texts");
    refused(
        speech("function_call", "look".into()),
        "conversations[1].value: must be a call as JSON, with `name` and `arguments`, or a list of them",
    );
    refused(json!({"conversations": ["x"]}), "conversations[0]: must have `from` and `value`");
    refused(
        json!({"conversations": [{"from": "human", "value": "x"}], "chosen": {"from": "x", "value": "y"}, "rejected": "z"}),
        "chosen.from: `x` is not known: human, gpt, system, function_call or observation",
    );
    refused(
        json!({"instruction": "x", "output": "y", "history": [["a"]]}),
        "history: must be a list of questions, each with its answer",
    );
    refused(json!({"instruction": "x", "output": ["y"]}), "output: must be a text");
    refused(json!({"instruction": "x", "output": null}), "`output` is missing beside `instruction`");
    refused(json!({"instruction": "x", "input": [1], "output": "y"}), "input: must be a text");
    refused(
        json!({"instruction": "x", "output": "y", "prompt": "z"}),
        "prompt: stands beside `instruction`: take one of them out, as nobody knows which counts",
    );
    refused(json!({"conversations": "x"}), "conversations: must be a list of entries with `from` and `value`");
    let [asked, answer] = [("user", "x"), ("assistant", "y")].map(|(role, content)| json!({"role": role, "content": content}));
    refused(
        json!({"messages": [asked, answer], "chosen": [{"role": "assistant", "content": "z"}], "rejected": [answer]}),
        "messages: ends with another answer than `chosen`: nobody knows what was asked",
    );
    refused(
        json!({"messages": [], "tools": "none"}),
        "tools: a text must hold a list as JSON (expected ident at line 1 column 2) (column 29)",
    );
    refused(json!({"prompt": "x", "completion": "y", "reward": 1e9}), "reward: a reward of 1e9 must be from -1000000 to 1000000");
}
