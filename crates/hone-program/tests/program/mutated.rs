//! Programs that nobody would write: mutations of those that somebody did. None may panic, overrun a limit, or come to
//! something else when it is run again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::random::Random;
use hone_program::{Library, Limits, Program};

const CASES: &str = include_str!("../behaviour/cases.py");
const HOSTILE: &str = include_str!("../hostile/programs.txt");

/// Small, so that many programs run.
const LIMITS: Limits = Limits { fuel: 20_000, memory: 1 << 20, depth: 100, output: 4096, source: 64 << 10 };

/// Expressions that are put where others stood.
const EXPRESSIONS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2**70",
    "10**9",
    "1.5",
    "float('nan')",
    "float('inf')",
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
    "range(10**18)",
    "lambda x: x",
    "lambda *a: a",
    "len",
    "print",
    "int",
    "str",
    "sorted",
    "iter([1])",
    "map(x, x)",
    "zip(x)",
    "x",
    "x[0]",
    "x[-1]",
    "x[1:]",
    "x[::-1]",
    "x.append(x)",
    "x.pop()",
    "x.sort()",
    "x.count(1)",
    "x.clear()",
    "x()",
    "x(x)",
    "y := 1",
    "[i for i in x]",
    "i for i in x",
    "{i: x for i in x}",
    "{i for i in x}",
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
    "x and x",
    "1 << 100000",
    "f'{x}'",
    "f'{x:>5}'",
    "'%s' % x",
    "str(x)",
    "[*x, *x]",
    "{**x}",
    "max(x)",
    "sum(x)",
    "x * 10**6",
    "'a' * 10**9",
    "[0] * 10**9",
    "ValueError",
    "ValueError(x)",
    "type(x)",
    "sorted(x, key=x)",
    "dict(x)",
    "tuple(x)",
    "set(x)",
    "list(x)",
    "enumerate(x)",
    "reversed(x)",
];

/// Pieces that are put where they do not belong.
const PIECES: &[&str] = &[
    "*x",
    "**x",
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

/// A program with a few things changed: mostly such that it still reads as one.
fn mutate(seeds: &[String], random: &mut Random) -> String {
    let mut tokens = tokens(random.choose::<String>(seeds));
    for _ in 0..=random.below(4) {
        if tokens.is_empty() {
            break;
        }
        match random.below(12) {
            0 => roughly(&mut tokens, seeds, random),
            1 | 2 => change_line(&mut tokens, random),
            3 | 4 => {
                let (a, b) = (word(&tokens, random), word(&tokens, random));
                tokens.swap(a, b);
            }
            5 => {
                let signs = ["+", "-", "*", "/", "%", "<", ">", "&", "|", "^", ","];
                let places: Vec<usize> = (0..tokens.len()).filter(|&at| signs.contains(&tokens[at].as_str())).collect();
                if !places.is_empty() {
                    tokens[*random.choose(&places)] = (*random.choose(&signs)).to_owned();
                }
            }
            _ => {
                let at = word(&tokens, random);
                tokens[at] = format!("({})", random.choose(EXPRESSIONS));
            }
        }
    }
    format!("x = [1, 2]\n{}", tokens.concat())
}

/// The place of a word, or of anything where there is none.
fn word(tokens: &[String], random: &mut Random) -> usize {
    let words: Vec<usize> =
        (0..tokens.len()).filter(|&at| tokens[at].starts_with(|letter: char| letter.is_alphanumeric())).collect();
    if words.is_empty() { random.below(tokens.len()) } else { *random.choose(&words) }
}

/// Drops a line, or writes it twice.
fn change_line(tokens: &mut Vec<String>, random: &mut Random) {
    let mut lines: Vec<Vec<String>> = tokens.split(|token| token == "\n").map(<[String]>::to_vec).collect();
    let at = random.below(lines.len());
    if random.below(2) == 0 && lines.len() > 1 {
        lines.remove(at);
    } else {
        lines.insert(at, lines[at].clone());
    }
    *tokens = lines.join(&"\n".to_owned());
}

/// Changes the text without regard to what it means.
fn roughly(tokens: &mut Vec<String>, seeds: &[String], random: &mut Random) {
    let at = random.below(tokens.len());
    match random.below(5) {
        0 => drop(tokens.remove(at)),
        1 => tokens.insert(at, tokens[at].clone()),
        2 => tokens[at] = (*random.choose(PIECES)).to_owned(),
        3 => tokens.insert(at, (*random.choose(PIECES)).to_owned()),
        _ => {
            let other = tokens_of(random.choose::<String>(seeds), random);
            tokens.splice(at..at, other);
        }
    }
}

fn tokens_of(source: &str, random: &mut Random) -> Vec<String> {
    let tokens = tokens(source);
    let start = random.below(tokens.len());
    tokens[start..tokens.len().min(start + 1 + random.below(12))].to_vec()
}

/// What a program came to: a verdict in words, fuel, memory and what it printed.
type Outcome = (String, u64, usize, String);

fn outcome(source: &str, library: &Arc<Library>) -> Outcome {
    match Program::parse(source, library, &LIMITS) {
        Err(error) => (error.to_string(), 0, 0, String::new()),
        Ok(program) => {
            let run = program.run_module(&LIMITS);
            (run.result.map_or_else(|error| error.to_string(), |_| "ended".into()), run.fuel, run.memory_peak, run.output)
        }
    }
}

/// The program of a number: the same every time, whoever runs it.
fn program(seeds: &[String], seed: u64, number: usize) -> String {
    mutate(seeds, &mut Random::new(seed.wrapping_add((number as u64).wrapping_mul(0xd134_2543_de82_ef95))))
}

/// How often something became of programs, and a digest of all that became of each.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    n_ended: usize,
    n_refused: usize,
    n_limits: usize,
    digest: u64,
}

impl Tally {
    fn add(&mut self, number: usize, outcome: &Outcome) {
        let verdict = &outcome.0;
        self.n_ended += usize::from(verdict == "ended");
        self.n_refused += usize::from(verdict.contains("syntax error"));
        self.n_limits += usize::from(verdict.contains("out of") || verdict.contains("too deep"));
        let mut hasher = DefaultHasher::new();
        (number, outcome).hash(&mut hasher);
        self.digest ^= hasher.finish();
    }

    fn with(mut self, other: &Self) -> Self {
        self.n_ended += other.n_ended;
        self.n_refused += other.n_refused;
        self.n_limits += other.n_limits;
        self.digest ^= other.digest;
        self
    }
}

/// Runs every `n_threads`-th program from `first` on.
fn run_share(seeds: &[String], seed: u64, n_programs: usize, first: usize, n_threads: usize) -> Tally {
    let (library, mut tally) = (Arc::new(Library::new()), Tally::default());
    for number in (first..n_programs).step_by(n_threads) {
        let source = program(seeds, seed, number);
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| outcome(&source, &library))) else {
            panic!("program {number} of seed {seed} panics:\n{source}")
        };
        let (_, fuel, memory, output) = &outcome;
        let is_within = *fuel <= LIMITS.fuel && *memory <= LIMITS.memory && output.len() <= LIMITS.output;
        assert!(is_within, "program {number} of seed {seed} goes beyond a limit:\n{source}");
        tally.add(number, &outcome);
    }
    tally
}

fn run_all(seeds: &[String], seed: u64, n_programs: usize, n_threads: usize) -> Tally {
    std::thread::scope(|scope| {
        let shares: Vec<_> =
            (0..n_threads).map(|first| scope.spawn(move || run_share(seeds, seed, n_programs, first, n_threads))).collect();
        let tallies = shares.into_iter().map(|share| share.join().expect("a program panicked, see above"));
        tallies.fold(Tally::default(), |all, share| all.with(&share))
    })
}

/// A million on request.
#[expect(clippy::disallowed_methods, reason = "the test run says by a variable whether slow tests run")]
fn n_programs() -> usize {
    if std::env::var_os("HONE_SLOW").is_some() { 1_000_000 } else { 5_000 }
}

#[test]
fn mutated_programs_come_to_the_same_verdict_on_one_thread_and_on_two() {
    let (seeds, n) = (seeds(), n_programs());
    let alone = run_all(&seeds, 1, n, 1);
    assert_eq!(alone, run_all(&seeds, 1, n, 2));
    let Tally { n_ended, n_refused, n_limits, .. } = alone;
    println!("{n} mutated programs, each twice: {n_ended} ended, {n_refused} refused, {n_limits} met a limit, the rest failed");
    assert!(n_ended * 20 > n, "too few programs run for this to mean anything");
}
