//! Whole traces: nothing personal stays in any part of one, and nothing else changes.

use hone_data::anonymise::{Anonymiser, Key, Kind};
use hone_trace::format::Format;
use hone_trace::{Trace, format};
use serde_json::{Value, json};

fn trace() -> Trace {
    let value = json!({
        "v": 1,
        "id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "tenant": "default",
        "started": "2026-03-14T15:09:26Z",
        "config": "00".repeat(32),
        "category": "refund",
        "scenario": "ticket/ann@shop.com",
        "segments": [{
            "tools": [{"name": "lookup", "description": "Ask ops@corp.com", "parameters": {"type": "object"}}],
            "turns": [
                {
                    "input": [
                        {"role": "user", "content": "My name is Ann Miller, card 4111 1111 1111 1111.", "name": "Ann"},
                        {"role": "user", "content": [{"type": "text", "text": "call +1 415 555 0132"}]},
                    ],
                    "answer": {
                        "role": "assistant", "content": "Dear Ms. Miller,", "reasoning": "Miller has IP 86.121.97.248",
                        "tool_calls": [{"id": "c1", "name": "lookup", "arguments": "{\"phone\": \"5551234567\", \"card\" :4111111111111111,\"order_id\": 5551234567}"}],
                        "extra": {"logprobs": [{"token": "Miller"}]},
                    },
                    "tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"phone": "5551234567", "n": 3}, "extra": {"url": "https://bob:pw1@x.com/"}}],
                    "errors": [{"type": "tool_timeout", "recovered": true, "message": "no answer from 86.121.97.248"}],
                    "decisions": [{"chosen": "refund", "rationale": "GB82 WEST 1234 5698 7654 32 is valid"}],
                    "sampled": {"ids": [1, 2], "logprobs": [-0.5, -0.25]},
                },
                {
                    "input": [{"role": "tool", "tool_call_id": "c1", "content": "{\"note\": \"{\\\"email\\\":\\\"ann@shop.com\\\"}\", \"text\": \"a\\n415-555-1234\"}"}],
                    "answer": {"role": "assistant", "content": "Done."},
                    "sampled": {"ids": [3]},
                },
            ],
            "tail": [{"role": "user", "content": "My SSN is 460-89-9847"}],
        }, {
            "turns": [{"input": [{"role": "user", "content": "And 2 + 2?"}], "answer": {"role": "assistant", "content": "4"}, "sampled": {"ids": [4]}}],
        }],
        "rewards": [{
            "id": "01890a5d-ac96-774b-bcce-b302099a8058", "at": "2026-03-14T15:10:26Z", "total": 1.0,
            "by": {"kind": "human", "name": "Carol Jones"}, "explanation": "good, write to carol@corp.com",
        }],
        "metadata": {"customer": {"email": "ann@shop.com", "ann@shop.com": 1, "ssn": 460899847}, "note": "password: hunter2"},
    });
    serde_json::from_value(value).expect("a trace")
}

fn anonymiser() -> Anonymiser {
    Anonymiser::new(Key::new([3; 32]))
}

#[test]
fn nothing_personal_stays_anywhere() {
    let mut anonymised = trace();
    let mut worker = anonymiser();
    assert!(worker.trace(&mut anonymised));
    let line = format::write(&anonymised, Format::Hone);
    for personal in [
        "Ann",
        "Miller",
        "ann@",
        "4111",
        "415",
        "5551234567\"",
        "86.121",
        "ops@",
        "bob",
        "pw1",
        "GB82",
        "460",
        "Carol",
        "Jones",
        "hunter2",
        "carol@",
    ] {
        assert!(!line.contains(personal), "{personal} in {line}");
    }
    let report = worker.report();
    assert_eq!((report.traces, report.turns_without_tokens), (1, 2));
    assert!(report.replaced[&Kind::Name] >= 4 && report.replaced[&Kind::Email] >= 5, "{report:?}");
    let mut second = anonymiser();
    let mut again = anonymised.clone();
    assert!(!second.trace(&mut again));
    assert_eq!(again, anonymised);
}

#[test]
fn the_rest_stays_as_it_was_written() {
    let mut anonymised = trace();
    anonymiser().trace(&mut anonymised);
    let turn = &anonymised.segments[0].turns[0];
    let arguments = &turn.answer.tool_calls[0].arguments;
    assert!(arguments.starts_with("{\"phone\": \"999") && arguments.ends_with(",\"order_id\": 5551234567}"), "{arguments}");
    let parsed: Value = serde_json::from_str(arguments).expect("still JSON");
    assert!(parsed["card"].as_u64().is_some_and(|card| card.to_string().starts_with("999")), "{arguments}");
    assert_eq!(turn.tool_calls[0].arguments["n"], 3);
    // One person is one person, in the text and in what a tool was given.
    assert_eq!(turn.tool_calls[0].arguments["phone"], parsed["phone"]);
    assert_eq!(turn.answer.extra, serde_json::Map::new());
    assert_eq!(anonymised.segments[1], trace().segments[1]);
    assert_eq!(anonymised.rewards[0].total, 1.0);
    anonymised.check().expect("still consistent");
}

#[test]
fn numbers_with_an_empty_fraction_are_whole() {
    let mut anonymised = trace();
    let numbers = json!({"phone": 4155550132.0, "card_number": 4111111111111111.0, "price": 4155550132.5});
    anonymised.metadata.insert("paid".into(), numbers.clone());
    anonymised.segments[0].turns[0].answer.tool_calls[0].arguments = numbers.to_string();
    anonymiser().trace(&mut anonymised);
    let paid = &anonymised.metadata["paid"];
    let arguments = &anonymised.segments[0].turns[0].answer.tool_calls[0].arguments;
    let phone = paid["phone"].to_string();
    let phone = phone.trim_end_matches(".0");
    assert!(phone.starts_with("999") && arguments.contains(&format!("\"phone\":{phone}.0")), "{paid} {arguments}");
    let card = paid["card_number"].to_string();
    let card = card.trim_end_matches(".0");
    assert!(card.starts_with("999") && arguments.contains(&format!("\"card_number\":{card}.0")), "{paid} {arguments}");
    assert_eq!(paid["price"], 4155550132.5);
    assert!(!anonymiser().trace(&mut anonymised.clone()));
}

#[test]
fn a_trace_without_personal_data_is_not_touched() {
    let mut plain = trace();
    plain.segments.remove(0);
    plain.rewards.clear();
    plain.metadata.clear();
    plain.scenario = None;
    let before = plain.clone();
    let mut worker = anonymiser();
    assert!(!worker.trace(&mut plain));
    assert_eq!(plain, before);
    assert_eq!(*worker.report(), hone_data::anonymise::Report::default());
}

#[test]
fn what_was_replaced_is_remembered_only_on_request() {
    let mut worker = Anonymiser::remembering(Key::new([3; 32]));
    worker.trace(&mut trace());
    assert!(worker.replaced().values().any(|value| value == "ann@shop.com"));
    let mut other = anonymiser();
    other.trace(&mut trace());
    assert!(other.replaced().is_empty());
}

#[test]
fn attributes_of_spans_are_what_their_keys_say() {
    let attribute = |key: &str, value: Value| json!({"key": key, "value": value});
    let attributes = json!([
        attribute("user.phone", json!({"stringValue": "4155550132"})),
        attribute("user.mobile", json!({"intValue": "4155550133"})),
        attribute("user.tel", json!({"intValue": 4_155_550_134_u64})),
        attribute("user.fax", json!({"doubleValue": 4_155_550_135.0})),
        attribute("user.phones", json!({"arrayValue": {"values": [{"stringValue": "4155550136"}, {"intValue": "4155550137"}]}})),
        attribute("user.phone", json!({"kvlistValue": {"values": [attribute("number", json!({"stringValue": "4155550138"}))]}})),
        attribute("customer", json!({"kvlistValue": {"values": [attribute("last_name", json!({"stringValue": "Zubkov"}))]}})),
        attribute("user.name", json!({"stringValue": "Qadir"})),
        attribute("db.password", json!({"stringValue": "correct horse battery"})),
        attribute("order.number", json!({"stringValue": "4155550139"})),
        attribute("gen_ai.usage.input_tokens", json!({"intValue": "4155550139"})),
        {"value": {"stringValue": "5155550140"}, "name": "phone"},
        {"phone": {"number": 4_155_550_141_u64, "country": "US"}, "name": {"first": "Faina", "last": "Yefremova"}},
    ]);
    let mut anonymised = trace();
    let turn = &mut anonymised.segments[0].turns[0];
    turn.llm_calls =
        vec![serde_json::from_value(json!({"extra": {"hone.span": {"attributes": attributes.clone()}}})).expect("a call")];
    turn.answer.tool_calls[0].arguments = attributes.to_string();
    anonymised.metadata.insert("hone.places".into(), json!([{"resource": {"attributes": attributes}}]));
    assert!(anonymiser().trace(&mut anonymised));
    let turn = &anonymised.segments[0].turns[0];
    let span = &turn.llm_calls[0].extra["hone.span"]["attributes"];
    let arguments: Value = serde_json::from_str(&turn.answer.tool_calls[0].arguments).expect("still JSON");
    for said in [span, &anonymised.metadata["hone.places"][0]["resource"]["attributes"], &arguments] {
        let line = said.to_string();
        for personal in ["41555501", "51555501", "Zubkov", "Qadir", "horse", "Faina", "Yefremova"] {
            assert!(!line.replace("4155550139", "").contains(personal), "{personal} in {line}");
        }
        assert_eq!(line.matches("4155550139").count(), 2, "no numbers of a person: {line}");
    }
    assert!(!anonymiser().trace(&mut anonymised.clone()));
}

#[test]
fn a_schema_says_nothing_of_anybody() {
    let schema = json!({"type": "object", "required": ["phone"], "properties": {
        "phone": {"type": "string", "description": "The phone number, with its country", "pattern": "^[0-9]{10}$", "minLength": 10},
        "password": {"type": "string", "title": "Password", "description": "Type in 8 signs or more", "format": "password"},
        "name": {"type": "object", "description": "Full Name", "properties": {"first": {"type": "string", "title": "Given Name"}}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string", "maxLength": 5}}},
        "order": {"type": "string", "enum": ["Grand Hotel"]},
    }});
    let mut plain = trace();
    plain.segments.truncate(1);
    let mut segment = trace().segments.remove(1);
    segment.tools = trace().segments[0].tools.clone();
    segment.tools[0].description = None;
    segment.tools[0].parameters = schema;
    plain.segments = vec![segment];
    plain.rewards.clear();
    plain.metadata.clear();
    plain.scenario = None;
    let mut worker = anonymiser();
    assert!(!worker.trace(&mut plain), "{:?}", worker.report());
}
