//! Protobuf and JSON say the same, and no bytes panic or run away.

use hone_trace::format::otlp::protobuf::Message;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// An object of those fields that are there.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let mut all = Just(Map::new()).boxed();
    for (name, value) in fields {
        all = (all, proptest::option::of(value))
            .prop_map(move |(mut fields, value)| {
                fields.extend(value.map(|value| (name.to_owned(), value)));
                fields
            })
            .boxed();
    }
    all.prop_map(Value::Object).boxed()
}

fn text() -> BoxedStrategy<Value> {
    "\\PC{0,12}".prop_map(Value::from).boxed()
}

fn id(n_bytes: usize) -> BoxedStrategy<Value> {
    vec(any::<u8>(), n_bytes).prop_map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()).boxed()
}

fn nanos() -> BoxedStrategy<Value> {
    any::<u64>().prop_map(|nanos| nanos.to_string().into()).boxed()
}

fn count() -> BoxedStrategy<Value> {
    any::<u32>().prop_map(Value::from).boxed()
}

/// Lists that are empty are not on the wire.
fn list(entry: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(entry, 1..3).prop_map(Value::Array).boxed()
}

fn any_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        text().prop_map(|text| json!({"stringValue": text})),
        any::<bool>().prop_map(|flag| json!({"boolValue": flag})),
        any::<i64>().prop_map(|int| json!({"intValue": int.to_string()})),
        any::<f64>()
            .prop_filter("JSON has a word for it", |double| double.is_finite())
            .prop_map(|double| json!({"doubleValue": double})),
        prop::sample::select(vec!["NaN", "Infinity", "-Infinity"]).prop_map(|word| json!({"doubleValue": word})),
        prop::sample::select(vec!["", "AA==", "AAEC", "/+8="]).prop_map(|bytes| json!({"bytesValue": bytes})),
        Just(json!({})),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let pair = (text(), inner.clone()).prop_map(|(key, value)| json!({"key": key, "value": value})).boxed();
        prop_oneof![
            list(inner.boxed()).prop_map(|values| json!({"arrayValue": {"values": values}})),
            list(pair).prop_map(|values| json!({"kvlistValue": {"values": values}})),
            Just(json!({"arrayValue": {}})),
        ]
    })
    .boxed()
}

fn attributes() -> BoxedStrategy<Value> {
    list(object(vec![("key", text()), ("value", any_value())]))
}

fn request() -> BoxedStrategy<Value> {
    let event = object(vec![("timeUnixNano", nanos()), ("name", text()), ("attributes", attributes())]);
    let link = object(vec![("traceId", id(16)), ("spanId", id(8)), ("flags", count()), ("attributes", attributes())]);
    let span = object(vec![
        ("traceId", id(16)),
        ("spanId", id(8)),
        ("parentSpanId", id(8)),
        ("traceState", text()),
        ("name", text()),
        ("kind", count()),
        ("startTimeUnixNano", nanos()),
        ("endTimeUnixNano", nanos()),
        ("attributes", attributes()),
        ("droppedAttributesCount", count()),
        ("events", list(event)),
        ("links", list(link)),
        ("status", object(vec![("message", text()), ("code", count())])),
        ("flags", count()),
    ]);
    let scope = object(vec![("name", text()), ("version", text()), ("attributes", attributes())]);
    let scope = object(vec![("scope", scope), ("spans", list(span)), ("schemaUrl", text())]);
    let resource = object(vec![("attributes", attributes()), ("droppedAttributesCount", count())]);
    let resource = object(vec![("resource", resource), ("scopeSpans", list(scope)), ("schemaUrl", text())]);
    object(vec![("resourceSpans", list(resource))])
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(request in request()) {
        let bytes = Message::Request.write(&request);
        prop_assert_eq!(Message::Request.read(&bytes).unwrap(), request);
    }

    #[test]
    fn a_request_that_is_cut_is_refused_or_a_shorter_one(request in request(), at: prop::sample::Index) {
        let bytes = Message::Request.write(&request);
        if !bytes.is_empty() {
            let cut = Message::Request.read(&bytes[..at.index(bytes.len())]);
            prop_assert!(cut.is_err() || cut.is_ok_and(|cut| cut != request));
        }
    }

    #[test]
    fn damage_is_survived(request in request(), at: prop::sample::Index, byte: u8) {
        let mut bytes = Message::Request.write(&request);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            // What is read of it can be written, and is the same then.
            if let Ok(read) = Message::Request.read(&bytes) {
                let again = Message::Request.read(&Message::Request.write(&read)).unwrap();
                prop_assert_eq!(again, read);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_survived(bytes: Vec<u8>) {
        for message in [Message::Request, Message::Response, Message::Status] {
            let _ = message.read(&bytes);
        }
    }
}

fn nested(n: usize) -> Vec<u8> {
    let mut value = json!({"stringValue": "deep"});
    for _ in 0..n {
        value = json!({"arrayValue": {"values": [value]}});
    }
    let span = json!({"attributes": [{"key": "k", "value": value}]});
    Message::Request.write(&json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
}

fn refused(bytes: &[u8]) -> String {
    Message::Request.read(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(refused(b"no protobuf"), "wire type 6 is not known: this is no OTLP in protobuf");
    assert_eq!(refused(&[0x0a, 0x05, 0x0a]), "the message ends in the middle of a field");
    assert_eq!(refused(&[0x0a, 0x02, 0x1a, 0x01]), "resourceSpans[0]: the message ends in the middle of a field");
    assert_eq!(refused(&[0x0a, 0x03, 0x1a, 0x01, 0xff]), "resourceSpans[0].schemaUrl: the text is not UTF-8");
    assert_eq!(refused(&[0x0a, 0x02, 0x18, 0x01]), "resourceSpans[0].schemaUrl: the field is not of the type that OTLP gives it");
    assert_eq!(refused(&[0xff; 11]), "a number has more than ten bytes: this is no OTLP in protobuf");
    assert_eq!(refused(&[0x02, 0x00]), "there is no field 0: this is no OTLP in protobuf");
    let deep = refused(&nested(20));
    assert!(deep.ends_with("messages are nested deeper than 28 levels"), "{deep}");
}

#[test]
fn what_is_deep_but_allowed_can_be_stored() {
    let read = Message::Request.read(&nested(10)).unwrap();
    assert_eq!(hone_trace::format::otlp::live::read_json(read.to_string().as_bytes()).unwrap(), read);
}

#[test]
fn what_is_not_known_is_passed_over() {
    let known = Message::Status.write(&json!({"message": "m"}));
    let unknown =
        [[0x98, 0x06, 0x01].to_vec(), vec![0xa1, 0x06, 1, 2, 3, 4, 5, 6, 7, 8], vec![0xa5, 0x06, 1, 2, 3, 4], known].concat();
    assert_eq!(Message::Status.read(&unknown).unwrap(), json!({"message": "m"}));
}

#[test]
fn two_bytes_do_not_cost_a_kilobyte_each_without_end() {
    // Sixteen megabytes of empty resources, then of empty attributes.
    assert!(refused(&[0x0a, 0x00].repeat(8 << 20)).contains("has more than 100000 entries"));
    let spans: Vec<u8> = std::iter::repeat_n([&[0x0a_u8, 0xa0, 0x9c, 0x01][..], &[0x0a_u8, 0x00].repeat(10_000)].concat(), 400)
        .flatten()
        .collect();
    let _ = Message::Request.read(&spans);
}
