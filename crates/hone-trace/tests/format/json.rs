//! Generators of JSON, and equality by value.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) type Any = BoxedStrategy<Value>;
pub(crate) type Field = BoxedStrategy<Option<(String, Value)>>;

pub(crate) fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

pub(crate) fn text() -> Any {
    prop_oneof![Just(String::new()), "[ -~]{0,12}", "\\PC{0,8}", Just("a\n\"\\\u{0}\u{1}é🎲".to_owned())]
        .prop_map(Value::from)
        .boxed()
}

/// Any number that JSON can hold.
pub(crate) fn number() -> Any {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        proptest::num::f64::NORMAL.prop_map(Value::from),
        any::<f32>().prop_filter("finite", |x| x.is_finite()).prop_map(|x| json!(x.to_string().parse::<f64>().unwrap())),
    ]
    .boxed()
}

/// Any number that a reward can be.
pub(crate) fn reward() -> Any {
    prop_oneof![(-1e6..=1e6).prop_map(Value::from), (-9..9).prop_map(Value::from), Just(json!(-0.0)), Just(json!(1e6))].boxed()
}

pub(crate) fn anything() -> Any {
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text()];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(("[a-z]{0,3}", inner), 0..3).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
    .boxed()
}

/// A key that is there or not.
pub(crate) fn maybe(key: &str, value: Any) -> Field {
    let key = key.to_owned();
    proptest::option::of(value).prop_map(move |value| value.map(|value| (key.clone(), value))).boxed()
}

/// A key that is always there.
pub(crate) fn must(key: &str, value: Any) -> Field {
    let key = key.to_owned();
    value.prop_map(move |value| Some((key.clone(), value))).boxed()
}

/// A key that nobody knows.
pub(crate) fn unknown() -> Field {
    proptest::option::weighted(0.2, ("x_[a-zé.]{0,3}", anything())).boxed()
}

pub(crate) fn object(fields: Vec<Field>) -> Any {
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<_, _>>())).boxed()
}

pub(crate) fn null() -> Any {
    Just(Value::Null).boxed()
}

pub(crate) fn or_null(value: Any) -> Any {
    prop_oneof![4 => value, 1 => null()].boxed()
}

pub(crate) fn list(value: Any, len: std::ops::Range<usize>) -> Any {
    vec(value, len).prop_map(Value::from).boxed()
}

/// Numbers in one form, so that 1 and 1.0 are the same, and keys in order.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => json!(float as i64),
            _ => value.clone(),
        },
        Value::Array(list) => list.iter().map(normal).collect(),
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().map(|(key, value)| (key.clone(), normal(value))).collect();
            Value::Object(sorted.into_iter().collect())
        }
        other => other.clone(),
    }
}

pub(crate) fn assert_same(found: &Value, expected: &Value) {
    assert_eq!(normal(found).to_string(), normal(expected).to_string());
}
