//! Programs that nobody would write: mutations of those that somebody did. None may panic, overrun a limit, or come to
//! something else when it is run again.

mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hone_program::{Library, Limits, Program};
use random::Random;

const CASES: &str = include_str!("behaviour/cases.py");
const HOSTILE: &str = include_str!("hostile/programs.txt");

/// Small, so that many programs run.
const LIMITS: Limits = Limits { fuel: 20_000, memory: 1 << 20, depth: 100, output: 4096, source: 64 << 10 };

/// Pieces that are put where they do not belong.
const PIECES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2**70",
    "10**9",
    "1.5",
    "float('nan')",
    "''",
    "'a'",
    "'é'",
    "None",
    "True",
    "[]",
    "[1, 2]",
    "()",
    "(1,)",
    "{}",
    "{1: 2}",
    "set()",
    "{1}",
    "frozenset()",
    "range(5)",
    "lambda x: x",
    "len",
    "print",
    "int",
    "iter([1])",
    "x",
    "x[0]",
    "x[1:]",
    "x[::-1]",
    "x.append(x)",
    "x()",
    "*x",
    "**x",
    "(x := 1)",
    "[i for i in x]",
    "(i for i in x)",
    "{i: x for i in x}",
    "x if x else x",
    "not x",
    "~x",
    "-x",
    "x < x",
    "x == x",
    "x in x",
    "x is x",
    "x + x",
    "x * x",
    "x ** x",
    "x // x",
    "x % x",
    "x << x",
    "x | x",
    "f'{x}'",
    "f'{x:>5}'",
    "'%s' % x",
    "yield x",
    "return x",
    "raise x",
    "break",
    "continue",
    "pass",
    "del x",
    "global x",
    "nonlocal x",
    "assert x",
    "try:",
    "except:",
    "finally:",
    "else:",
    "for x in x:",
    "while x:",
    "if x:",
    "def x():",
    "import math",
    "from math import *",
    "@x",
    "x: int",
    "=",
    "+=",
    ",",
    ":",
    ";",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\n",
    "\n    ",
    "\\\n",
    "#",
    "'''",
    "\0",
    "\u{301}",
];

fn seeds() -> Vec<String> {
    let cases = CASES.split("### ").skip(1).flat_map(|section| section.split_once('\n')).flat_map(|(_, source)| {
        let whole = source.to_owned();
        source.lines().map(str::to_owned).chain([whole]).collect::<Vec<_>>()
    });
    cases.chain(HOSTILE.split("\n---\n").map(str::to_owned)).filter(|source| source.len() > 3).collect()
}

/// Words, spaces and signs, so that a mutation mostly keeps the text in shape.
fn tokens(source: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in source.chars() {
        let joins = (letter.is_alphanumeric() || letter == '_') && (before.is_alphanumeric() || before == '_')
            || letter == ' ' && before == ' ';
        match tokens.last_mut() {
            Some(last) if joins => last.push(letter),
            _ => tokens.push(letter.into()),
        }
        before = letter;
    }
    tokens
}

fn mutate(seeds: &[String], random: &mut Random) -> String {
    let mut tokens = tokens(random.choose::<String>(seeds));
    for _ in 0..=random.below(4) {
        let at = random.below(tokens.len().max(1)).min(tokens.len().saturating_sub(1));
        if tokens.is_empty() {
            break;
        }
        match random.below(6) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => {
                let other = random.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = (*random.choose(PIECES)).to_owned(),
            4 => tokens.insert(at, (*random.choose(PIECES)).to_owned()),
            _ => {
                let other = tokens_of(random.choose::<String>(seeds), random);
                tokens.splice(at..at, other);
            }
        }
    }
    tokens.concat()
}

fn tokens_of(source: &str, random: &mut Random) -> Vec<String> {
    let tokens = tokens(source);
    let start = random.below(tokens.len());
    tokens[start..tokens.len().min(start + 1 + random.below(12))].to_vec()
}

/// What a program came to, in words.
fn outcome(source: &str, library: &Arc<Library>) -> (String, u64, usize, String) {
    match Program::parse(source, library, &LIMITS) {
        Err(error) => (error.to_string(), 0, 0, String::new()),
        Ok(program) => {
            let run = program.run_module(&LIMITS);
            (run.result.map_or_else(|error| error.to_string(), |_| "ended".into()), run.fuel, run.memory_peak, run.output)
        }
    }
}

fn check(n_programs: usize, seed: u64) {
    let (seeds, library, mut random) = (seeds(), Arc::new(Library::new()), Random::new(seed));
    let (mut n_ended, mut n_refused, mut n_limits) = (0, 0, 0);
    for number in 0..n_programs {
        let source = mutate(&seeds, &mut random);
        let both = catch_unwind(AssertUnwindSafe(|| (outcome(&source, &library), outcome(&source, &library))));
        let Ok((first, second)) = both else { panic!("program {number} of seed {seed} panics:\n{source}") };
        assert_eq!(first, second, "program {number} of seed {seed}:\n{source}");
        let (verdict, fuel, memory, output) = first;
        assert!(fuel <= LIMITS.fuel && memory <= LIMITS.memory && output.len() <= LIMITS.output, "{number}:\n{source}");
        n_ended += usize::from(verdict == "ended");
        n_refused += usize::from(verdict.contains("syntax error"));
        n_limits += usize::from(verdict.contains("out of") || verdict.contains("too deep"));
    }
    println!("{n_programs} mutated programs: {n_ended} ended, {n_refused} refused, {n_limits} met a limit, the rest failed");
    assert!(n_ended * 20 > n_programs, "too few programs run for this to mean anything");
}

#[test]
fn thousands_of_mutated_programs_come_to_a_verdict() {
    check(5_000, 1);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p hone-program --test mutated -- --ignored --nocapture"]
fn a_million_mutated_programs_come_to_a_verdict() {
    check(1_000_000, 2);
}
