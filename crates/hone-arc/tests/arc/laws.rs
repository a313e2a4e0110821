//! Laws of the grid language on random values: each holds for packed and for plain values alike.
//!
//! The laws are data, see `data/laws.txt`. Each is a line of the language itself, so that half of them are definitions.

use hone_arc::{Grid, Patch, dsl};
use hone_program::{Error, Items, Limits, Meter, Program, Value};
use hone_trace::Draws;
use std::collections::HashSet;

const LAWS: &str = include_str!("../data/laws.txt");
const CASES_PER_LAW: usize = 60;

struct Law<'a> {
    line: usize,
    names: Vec<&'a str>,
    text: &'a str,
}

fn laws() -> Vec<Law<'static>> {
    let lines = LAWS.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let law = |(nth, line): (usize, &'static str)| {
        let (names, text) = line.split_once(": ").expect("names, a colon, a law");
        Law { line: nth + 1, names: names.split(' ').collect(), text }
    };
    lines.map(law).collect()
}

/// The words of a law.
fn words(law: &str) -> HashSet<&str> {
    law.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect()
}

#[test]
fn every_function_stands_in_a_law() {
    let laws = laws();
    let words: HashSet<&str> = laws.iter().flat_map(|law| words(law.text)).collect();
    let missing: Vec<&str> = dsl::functions().map(|function| function.name).filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_law_holds_for_packed_and_for_plain_values() {
    for law in laws() {
        if let Some((case, form, result)) = first_breach(&law, "") {
            panic!("line {}: {}\ncase {case}, {form} values {:?}\n{result:?}", law.line, law.text, values(&law, case));
        }
    }
}

/// What makes a function slightly wrong: one more, one less, or the opposite of what it gives.
const SPOIL: &str = "
def spoil(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, tuple):
        return value[1:] if value else (0,)
    if isinstance(value, frozenset):
        return frozenset(tuple(value)[1:]) if value else frozenset([(0, 0)])
    if value is None:
        return 0
    return lambda *given: spoil(value(*given))
";

#[test]
fn a_function_that_were_slightly_wrong_would_break_a_law() {
    let laws = laws();
    for function in dsl::functions() {
        let (name, parameters) = (function.name, function.parameters.join(", "));
        let wrong = format!(
            "from arc_dsl import {name} as right\n{SPOIL}\ndef {name}({parameters}):\n    return spoil(right({parameters}))\n"
        );
        let mut about = laws.iter().filter(|law| words(law.text).contains(name));
        assert!(about.any(|law| first_breach(law, &wrong).is_some()), "no law would notice if {name} were wrong");
    }
}

/// The first case in which a law does not hold, with a definition before it, in which form of the values, and what it gave.
fn first_breach(law: &Law<'_>, definition: &str) -> Option<(usize, &'static str, Result<Value, Error>)> {
    let limits = Limits::default();
    let names = law.names.join(", ");
    let source = format!("from arc_dsl import *\n{definition}\n\ndef law({names}):\n    return {}\n", law.text);
    let program = Program::parse(&source, &dsl::library(), &limits).unwrap_or_else(|error| panic!("line {}: {error}", law.line));
    (0..CASES_PER_LAW).find_map(|case| {
        let packed = values(law, case);
        let plain: Vec<Value> = packed.iter().map(unpacked).collect();
        [("packed", packed), ("plain", plain)].into_iter().find_map(|(form, values)| {
            let result = program.run("law", &values, &limits).result;
            (!matches!(result, Ok(Value::Bool(true)))).then_some((case, form, result))
        })
    })
}

/// The values of a case.
fn values(law: &Law<'_>, case: usize) -> Vec<Value> {
    let mut draws = Draws::new(case as u64, &["laws", law.text]);
    law.names.iter().map(|name| drawn(name, &mut draws)).collect()
}

/// A value for a name, as the head of the laws says.
fn drawn(name: &str, draws: &mut Draws) -> Value {
    let meter = Meter::free();
    let place = |draws: &mut Draws| (draws.between(-2, 7), draws.between(-2, 7));
    let numbers = |draws: &mut Draws| (0..draws.below(7)).map(|_| Value::Int(draws.between(-4, 4))).collect::<Vec<_>>();
    match name {
        "g" | "h" => {
            let (height, width, n_colours) = (1 + draws.below(6), 1 + draws.below(6), 1 + draws.below(5));
            let cells = (0..height * width).map(|_| draws.below(n_colours) as i8).collect();
            dsl::input(Grid::new(height, width, cells)).unwrap()
        }
        "p" | "q" => patch(Patch::indices((0..1 + draws.below(6)).map(|_| place(draws)))),
        "e" => patch(Patch::indices((0..draws.below(4)).map(|_| place(draws)))),
        "o" => patch(Patch::object((0..1 + draws.below(6)).map(|_| (draws.between(0, 3), place(draws))))),
        "n" | "m" => Value::Int(draws.between(-8, 8)),
        "k" => Value::Int(draws.between(1, 4)),
        "c" | "d" => Value::Int(draws.between(0, 5)),
        "v" | "w" => meter.tuple(vec![Value::Int(draws.between(-4, 8)), Value::Int(draws.between(-4, 8))]).unwrap(),
        "t" | "u" => meter.tuple(numbers(draws)).unwrap(),
        "s" | "z" => meter.frozenset(numbers(draws)).unwrap(),
        "a" | "b" => Value::Bool(draws.chance(0.5)),
        other => panic!("no value is known for {other}"),
    }
}

fn patch(patch: Result<Patch, hone_arc::Misuse>) -> Value {
    dsl::patch(patch.unwrap()).unwrap()
}

/// The same value without any representation of ours.
fn unpacked(value: &Value) -> Value {
    let meter = Meter::free();
    let plain = |items: Items<'_>| (0..items.len()).map(|idx| unpacked(&items.get(idx, &meter).unwrap())).collect::<Vec<_>>();
    match (value.as_tuple(), value.as_frozenset()) {
        (Some(items), _) => meter.tuple(plain(items)).unwrap(),
        (_, Some(items)) => meter.frozenset(plain(items)).unwrap(),
        _ => value.clone(),
    }
}
