//! What programs do, against what they do elsewhere: cases with the output that a reference interpreter gave, and the words of
//! verdicts.

use crate::reference;
use std::sync::Arc;

use hone_program::{Error, Library, Limits, Program, Run};

const CASES: &str = include_str!("../behaviour/cases.py");
const EXPECTED: &str = include_str!("../behaviour/expected.txt");

fn run(source: &str) -> Result<Run, Error> {
    let limits = Limits::default();
    Program::parse(source, &Arc::new(Library::new()), &limits).map(|program| program.run_module(&limits))
}

fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("### ").skip(1).map(|section| section.split_once('\n').unwrap())
}

#[test]
fn cases_print_what_the_reference_printed() {
    for ((name, source), (_, expected)) in sections(CASES).zip(sections(EXPECTED)) {
        let run = run(source).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (idx, (ours, theirs)) in run.output.lines().zip(expected.lines()).enumerate() {
            assert_eq!(ours, theirs, "{name}, line {} of the output", idx + 1);
        }
        run.result.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(run.output.lines().count(), expected.lines().count(), "{name}");
    }
}

#[test]
fn the_reference_still_prints_that() {
    let sources: Vec<&str> = sections(CASES).map(|(_, source)| source).collect();
    let Some(results) = reference::run(&sources) else { return };
    for (result, (name, expected)) in results.iter().zip(sections(EXPECTED)) {
        assert_eq!((result.output.as_str(), result.error.as_str()), (expected, ""), "{name}");
    }
}

/// A program that fails, and its verdict.
fn check(source: &str, verdict: &str) {
    let error = match run(source) {
        Err(error) => error,
        Ok(run) => run.result.expect_err(source),
    };
    assert_eq!(error.to_string(), verdict, "{source}");
}

#[test]
fn verdicts_name_the_line_and_say_what_to_do() {
    check("x = 1\ny = x + 'a'", "line 2: type error: unsupported operand type(s) for +: 'int' and 'str'");
    check("def f():\n    return lenn([1])\nf()", "line 2: name error: name 'lenn' is not defined; did you mean 'len'?");
    check(
        "def f():\n    print(a)\n    a = 1\nf()",
        "line 2: name error: 'a' is used before it has a value; assign it on every path first",
    );
    check("[1, 2][5]", "line 1: index error: list index out of range: 5 in a list of length 2");
    check("{'a': 1}['b']", "line 1: key error: 'b' is not in the dict");
    check("1 // 0", "line 1: zero division: division by zero");
    check("assert 1 == 2", "line 1: assertion failed");
    check("assert 1 == 2, 'why'", "line 1: assertion failed: why");
    check("raise ValueError('no')", "line 1: value error: no");
    check("raise RuntimeError('no')", "line 1: raised: RuntimeError: no");
    check(
        "(1, 2)[0] = 3",
        "line 1: type error: 'tuple' object does not support item assignment; it cannot change: build a new one",
    );
    check("len(5)", "line 1: type error: len: object of type 'int' has no len()");
    check("len()", "line 1: type error: len() takes 1 argument but 0 were given");
    check("def f(a, b=1): pass\nf()", "line 2: type error: f() is missing the argument 'a'");
    check("def f(a): pass\nf(1, 2)", "line 2: type error: f() takes 1 argument but 2 were given");
    check("def f(a): pass\nf(1, b=2)", "line 2: type error: f() has no parameter 'b'");
    check("a, b = 1, 2, 3", "line 1: value error: too many values to unpack (expected 2)");
    check("None.x", "line 1: attribute error: 'NoneType' object has no attribute 'x'; a function without return gives None");
    check(
        "{[1]: 2}",
        "line 1: type error: a list cannot be in a set or be a key of a dict (unhashable type: 'list'); use a tuple",
    );
    check("1 < 'a'", "line 1: type error: '<' not supported between instances of 'int' and 'str'");
    check("5()", "line 1: type error: 'int' object is not callable");
    check("def f(n):\n    return f(n + 1)\nf(0)", "line 2: too deep: calls nested deeper than 1000 levels");
    check("while True:\n    pass", "line 1: out of fuel: the program took more than 2000000 steps; do less work or end the loop");
    check(
        "x = 'ab'\nwhile True:\n    x = x + x",
        "line 3: out of memory: the program needs more than 33554432 bytes; keep fewer or smaller values",
    );
}

#[test]
fn what_is_outside_of_the_subset_is_named() {
    check(
        "x = 1\nclass A:\n    pass",
        "line 2: syntax error: class is not part of the subset; use functions with dicts or tuples",
    );
    check("with x:\n    pass", "line 1: syntax error: with is not part of the subset");
    check(
        "import os",
        "line 1: syntax error: there is no module os; programs may import bisect, collections, copy, functools, heapq, itertools, math, operator, string, sys, typing",
    );
    check("from math import nothing", "line 1: syntax error: the module math has no nothing");
    check("x = b'a'", "line 1: syntax error: bytes are not part of the subset; use a str or a list of ints");
    check("x = 1j", "line 1: syntax error: complex numbers are not part of the subset");
    check("async def f(): pass", "line 1: syntax error: async is not part of the subset");
    check("x.y = 1", "line 1: syntax error: assigning to an attribute is not part of the subset; use a dict or a tuple");
    check("return 1", "line 1: syntax error: 'return' outside of a function");
    check("\nbreak", "line 2: syntax error: 'break' outside of a loop");
    check("def f(:\n  pass", "line 1: syntax error: Expected a parameter or the end of the parameter list");
}
