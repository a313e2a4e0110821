//! Laws of the grid language on random values: each holds for packed and for plain values alike.
//!
//! The laws are data, see `data/laws.txt`. Each is a line of the language itself, so that half of them are definitions.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use hone_arc::{Grid, Patch, dsl};
use hone_program::{Items, Limits, Meter, Program, Value};
use hone_trace::Draws;
use std::collections::HashSet;

const LAWS: &str = include_str!("data/laws.txt");
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

#[test]
fn every_function_stands_in_a_law() {
    let words: HashSet<&str> = LAWS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .collect();
    let missing: Vec<&str> = dsl::functions().map(|function| function.name).filter(|name| !words.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_law_holds_for_packed_and_for_plain_values() {
    let (library, limits) = (dsl::library(), Limits::default());
    for law in laws() {
        let source = format!("from arc_dsl import *\n\n\ndef law({}):\n    return {}\n", law.names.join(", "), law.text);
        let program = Program::parse(&source, &library, &limits).unwrap_or_else(|error| panic!("line {}: {error}", law.line));
        for case in 0..CASES_PER_LAW {
            let mut draws = Draws::new(case as u64, &["laws", law.text]);
            let packed: Vec<Value> = law.names.iter().map(|name| drawn(name, &mut draws)).collect();
            let plain: Vec<Value> = packed.iter().map(unpacked).collect();
            for (form, values) in [("packed", &packed), ("plain", &plain)] {
                let result = program.run("law", values, &limits).result;
                let holds = matches!(result, Ok(Value::Bool(true)));
                assert!(holds, "line {}: {}\n{form} {packed:?}\n{result:?}", law.line, law.text);
            }
        }
    }
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
