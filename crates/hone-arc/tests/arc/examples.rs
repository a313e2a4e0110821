//! Every worked example of the language, and what its description says in words: see `data/examples.txt`.

use hone_arc::dsl;
use hone_program::{Limits, Program, Value};

const EXAMPLES: &str = include_str!("../data/examples.txt");

/// Sets are written with braces; in a program they are immutable sets.
fn program(text: &str) -> Program {
    let text = text.replace('{', "frozenset([").replace('}', "])");
    let source = format!("from arc_dsl import *\n\n\ndef example():\n    return {text}\n");
    Program::parse(&source, &dsl::library(), &Limits::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn run(text: &str) -> Result<Value, hone_program::Error> {
    program(text).run("example", &[], &Limits::default()).result
}

/// Whether the expression has the value and is of its kind; numbers may be booleans.
fn is_so(expression: &str, value: &str) -> bool {
    let same = format!("(lambda a, b: a == b and isinstance(a, tuple) == isinstance(b, tuple))({expression}, {value})");
    matches!(run(&same), Ok(Value::Bool(true)))
}

/// Where the description of the language lies, beside the data.
const DESCRIPTION: &str = "../../../shared/arc-dsl.md";

#[test]
fn every_worked_example_of_the_description_is_among_them() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(DESCRIPTION);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: there is no {}", path.display());
        return;
    };
    let plain = |text: &str| text.replace(' ', "");
    let known: Vec<String> = EXAMPLES.lines().map(plain).collect();
    let mut n = 0;
    for (before, after) in text.split("` → `").zip(text.split("` → `").skip(1)) {
        let (expression, value) = (before.rsplit('`').next().unwrap_or(""), after.split('`').next().unwrap_or(""));
        if expression.contains('(') {
            n += 1;
            assert!(known.contains(&plain(&format!("{expression} = {value}"))), "{expression} = {value}");
        }
    }
    assert!(n > 80, "only {n} examples");
}

#[test]
fn every_example_gives_what_it_says() {
    let mut n = 0;
    for line in EXAMPLES.lines().filter(|line| !line.starts_with('#')) {
        n += 1;
        match line.strip_suffix(" fails") {
            Some(expression) => {
                let result = run(expression);
                assert!(result.as_ref().is_err_and(|error| !error.kind.is_limit()), "{expression} gave {result:?}");
            }
            None => {
                let (expression, value) = line.rsplit_once(" = ").expect("an expression, an equals sign, a value");
                assert!(is_so(expression, value), "{expression} gave {:?} instead of {value}", run(expression));
            }
        }
    }
    assert!(n > 200, "{n} examples");
}
