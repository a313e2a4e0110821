//! Generated programs, run by us and by a reference interpreter: same output, same kind of failure.

use std::fmt::Write;
use std::sync::Arc;

use crate::random::Random;
use crate::reference;
use hone_program::{ErrorKind, Library, Limits, Program};

/// Writes a program that uses much of the subset and nothing whose order the language leaves open.
struct Writer {
    random: Random,
    source: String,
    n_names: usize,
    n_functions: usize,
}

/// What kind of value an expression should have; it may come out otherwise, and fail the same way in both.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Float,
    Bool,
    Str,
    List,
    Tuple,
    Dict,
    Any,
}

const KINDS: &[Kind] = &[Kind::Int, Kind::Int, Kind::Float, Kind::Bool, Kind::Str, Kind::List, Kind::Tuple, Kind::Dict];

impl Writer {
    fn program(seed: u64) -> String {
        let mut writer = Self { random: Random::new(seed), source: String::new(), n_names: 0, n_functions: 0 };
        for _ in 0..3 {
            writer.define();
        }
        for _ in 0..10 {
            writer.line(0, "try:");
            writer.statement(1);
            writer.line(0, "except Exception as e: print('failed', type(e).__name__)");
        }
        for name in 0..writer.n_names {
            let _ = writeln!(writer.source, "try: print('v{name}', v{name})\nexcept NameError: pass");
        }
        writer.source
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.source.push_str(&"    ".repeat(depth));
        self.source.push_str(text);
        self.source.push('\n');
    }

    fn pick(&mut self, several: &[&str]) -> String {
        (*self.random.choose(several)).to_owned()
    }

    fn name(&mut self) -> String {
        if self.n_names == 0 { "0".into() } else { format!("v{}", self.random.below(self.n_names)) }
    }

    fn target(&mut self) -> String {
        if self.n_names > 0 && self.random.below(2) == 0 {
            return self.name();
        }
        self.n_names += 1;
        format!("v{}", self.n_names - 1)
    }

    fn define(&mut self) {
        let name = format!("f{}", self.n_functions);
        let default = self.expr(Kind::Any, 0);
        self.line(0, &format!("def {name}(a, b={default}, *c, d=2):"));
        let outer = std::mem::take(&mut self.n_names);
        let value = self.expr(Kind::Any, 2);
        self.line(1, "v0, v1 = a, b");
        self.n_names = 2;
        for _ in 0..2 {
            self.statement(1);
        }
        let result = self.expr(Kind::Any, 2);
        self.line(1, &format!("return [{result}, len(c), d, {}]", value));
        self.n_names = outer;
        self.n_functions += 1;
    }

    fn statement(&mut self, depth: usize) {
        if depth > 2 {
            return self.assign(depth);
        }
        match self.random.below(12) {
            0..=3 => self.assign(depth),
            4 => {
                let test = self.expr(Kind::Bool, 2);
                self.line(depth, &format!("if {test}:"));
                self.statement(depth + 1);
                self.line(depth, "else:");
                self.statement(depth + 1);
            }
            5 | 6 => {
                let source = self.iterable();
                self.line(depth, &format!("for i in {source}:"));
                self.statement(depth + 1);
                let leave = self.pick(&["continue", "break", "pass"]);
                let test = self.expr(Kind::Bool, 1);
                self.line(depth + 1, &format!("if {test}: {leave}"));
                self.line(depth, "else: print('else')");
            }
            7 => {
                self.line(depth, "try:");
                self.statement(depth + 1);
                let caught = self.pick(&[
                    "ZeroDivisionError",
                    "TypeError",
                    "(IndexError, KeyError)",
                    "ValueError",
                    "Exception",
                    "LookupError",
                ]);
                self.line(depth, &format!("except {caught} as e: print('caught', type(e).__name__)"));
                if self.random.below(2) == 0 {
                    self.line(depth, "finally: print('finally')");
                }
            }
            8 => {
                let (op, value) = (self.pick(&["+", "-", "*", "//", "%"]), self.expr(Kind::Int, 2));
                let name = self.name();
                if name != "0" {
                    self.line(depth, &format!("{name} {op}= {value}"));
                } else {
                    self.line(depth, "pass");
                }
            }
            9 => {
                let value = self.expr(Kind::Any, 2);
                self.line(depth, &format!("print({value}, end=';')"));
            }
            10 => {
                let value = self.expr(Kind::List, 2);
                let (a, b) = (self.target(), self.target());
                self.line(depth, &format!("{a}, *{b} = {value}"));
            }
            _ => {
                let (container, index, value) = (self.name(), self.expr(Kind::Int, 1), self.expr(Kind::Any, 1));
                let name = if container == "0" { "print" } else { &container }.to_owned();
                self.line(depth, &format!("try: {name}[({index}) % 5] = {value}"));
                self.line(depth, "except Exception as e: print(type(e).__name__)");
            }
        }
    }

    fn assign(&mut self, depth: usize) {
        let kind = *self.random.choose(KINDS);
        let value = self.expr(kind, 3);
        let target = self.target();
        self.line(depth, &format!("{target} = {value}"));
    }

    fn iterable(&mut self) -> String {
        match self.random.below(4) {
            0 => format!("range({}, {}, {})", self.random.below(4), self.random.below(9), 1 + self.random.below(3)),
            1 => self.expr(Kind::List, 2),
            2 => self.expr(Kind::Str, 2),
            _ => {
                let dict = self.expr(Kind::Dict, 2);
                format!("list({dict})")
            }
        }
    }

    fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if self.random.below(6) == 0 {
            return self.name();
        }
        if depth > 0 && self.random.below(12) == 0 {
            return self.general(kind, depth - 1);
        }
        let less = depth.saturating_sub(1);
        let leaf = depth == 0;
        match kind {
            Kind::Int => self.int(leaf, less),
            Kind::Float => self.float(leaf, less),
            Kind::Bool => self.boolean(leaf, less),
            Kind::Str => self.text(leaf, less),
            Kind::List => self.list(leaf, less),
            Kind::Tuple => self.tuple(leaf, less),
            Kind::Dict => self.dict(leaf, less),
            Kind::Any => {
                let kind = *self.random.choose(KINDS);
                self.expr(kind, depth)
            }
        }
    }

    /// Forms that any value can come from.
    fn general(&mut self, kind: Kind, depth: usize) -> String {
        let value = self.expr(kind, depth);
        match self.random.below(5) {
            0 => {
                let (test, other) = (self.expr(Kind::Bool, depth), self.expr(kind, depth));
                format!("({value} if {test} else {other})")
            }
            1 => {
                let (op, other) = (self.pick(&["and", "or"]), self.expr(kind, depth));
                format!("({value} {op} {other})")
            }
            2 => format!("(lambda w, u=1: {value})(2)"),
            3 if self.n_functions > 0 => {
                let function = self.random.below(self.n_functions);
                let extra = self.pick(&["", ", b=1", ", 2, 3", ", d=5", ", *[1, 2]"]);
                format!("f{function}({value}{extra})[0]")
            }
            _ => format!("[{value}][0]"),
        }
    }

    fn int(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&["0", "1", "2", "-1", "7", "-13", "100", "2**62", "-2**63", "10**20", "True", "255"]);
        }
        let (a, b) = (self.expr(Kind::Int, depth), self.expr(Kind::Int, depth));
        match self.random.below(12) {
            0..=3 => format!("({a} {} {b})", self.pick(&["+", "-", "*", "//", "%", "&", "|", "^"])),
            4 => format!("({a} % 1000) ** ({b} % 6)"),
            5 => format!("({a} {} ({b} % 70))", self.pick(&["<<", ">>"])),
            6 => format!("{}({a})", self.pick(&["abs", "-", "~", "+", "int", "bool", "bool"])),
            7 => {
                let kind = *self.random.choose(&[Kind::Str, Kind::List, Kind::Tuple, Kind::Dict]);
                format!("len({})", self.expr(kind, depth))
            }
            8 => format!("{}({a}, {b})", self.pick(&["min", "max", "divmod"])),
            9 => format!("{}({})", self.pick(&["sum", "min", "max", "len"]), self.expr(Kind::List, depth)),
            10 => format!(
                "str({}).{}({})",
                self.expr(Kind::Str, depth),
                self.pick(&["find", "count", "index", "rfind"]),
                self.expr(Kind::Str, 0)
            ),
            _ => format!("round({}, {})", self.expr(Kind::Float, depth), self.random.below(4)),
        }
    }

    fn float(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&["0.0", "1.5", "-2.25", "1e10", "3.14159", "0.1", "1e-7", "123456.789", "-0.5", "2.5"]);
        }
        let (a, b) = (self.expr(Kind::Float, depth), self.expr(Kind::Int, depth));
        match self.random.below(4) {
            0 => format!("({a} {} {b})", self.pick(&["+", "-", "*", "/", "//", "%"])),
            1 => format!("({b} / {})", self.expr(Kind::Int, depth)),
            2 => format!("float({b})"),
            _ => format!("abs({a})"),
        }
    }

    fn boolean(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&["True", "False", "None", "0", "[]", "'a'"]);
        }
        let kind = *self.random.choose(&[Kind::Int, Kind::Int, Kind::Str, Kind::List, Kind::Tuple, Kind::Float]);
        let (a, b) = (self.expr(kind, depth), self.expr(kind, depth));
        match self.random.below(6) {
            0..=2 => format!("({a} {} {b})", self.pick(&["<", "<=", ">", ">=", "==", "!="])),
            3 => format!("(not {a})"),
            4 => {
                let container = *self.random.choose(&[Kind::List, Kind::Tuple, Kind::Dict, Kind::Str]);
                format!("({a} {} {})", self.pick(&["in", "not in"]), self.expr(container, depth))
            }
            _ => format!("({a} < {b} <= {a})"),
        }
    }

    fn text(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&["''", "'a'", "'hello'", "'a b c'", "'X-y-Z'", "\"it's\"", "'é€'", "'12'", "'\\n\\t'", "' pad '"]);
        }
        let (a, b, n) = (self.expr(Kind::Str, depth), self.expr(Kind::Str, depth), self.random.below(5));
        match self.random.below(12) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} * {n})"),
            2 => format!("{a}[{}]", self.slice()),
            3 => format!(
                "str({a}).{}()",
                self.pick(&["upper", "lower", "strip", "title", "capitalize", "swapcase", "lstrip", "rstrip"])
            ),
            4 => format!("str({a}).replace({b}, 'q', {n})"),
            5 => format!("str({b}).join(map(str, {}))", self.expr(Kind::List, depth)),
            6 => format!("str({})", self.expr(Kind::Any, depth)),
            7 => format!("repr({})", self.expr(Kind::Any, depth)),
            8 => {
                let spec = self.pick(&["", ":>8", ":<5", ":^7", ":*^9", "!r", "!s:>6"]);
                format!("f'<{{{}{spec}}}>'", self.name())
            }
            9 => {
                let spec = self.pick(&["5d", "+d", "x", "b", ",", "08.3f", ".2e", "g", ".3g", "10.1f", ".1%", "05d"]);
                let kind = if spec.ends_with(['d', 'x', 'b']) { Kind::Int } else { Kind::Float };
                format!("'{{:{spec}}}'.format({})", self.expr(kind, depth))
            }
            10 => format!("'%s|%5s|%d' % ({a}, {b}, {n})"),
            _ => format!("str({a}).{}({n}, '*')", self.pick(&["center", "ljust", "rjust"])),
        }
    }

    fn slice(&mut self) -> String {
        let mut bound = || if self.random.below(3) == 0 { String::new() } else { (self.random.below(9) as i64 - 4).to_string() };
        let (start, stop) = (bound(), bound());
        let step = self.pick(&["", ":1", ":2", ":-1", ":-2", ":3"]);
        format!("{start}:{stop}{step}")
    }

    fn list(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&[
                "[]",
                "[1]",
                "[3, 1, 2]",
                "['b', 'a']",
                "[0.5, 1]",
                "[[1], [2, 3]]",
                "[(1, 'x'), (0, 'y')]",
                "[None, True]",
            ]);
        }
        let (a, b) = (self.expr(Kind::List, depth), self.expr(Kind::Any, depth));
        match self.random.below(16) {
            0 => format!("({a} + {})", self.expr(Kind::List, depth)),
            1 => format!("({a} * {})", self.random.below(4)),
            2 => format!("{a}[{}]", self.slice()),
            3 => format!("[{b}, *{a}]"),
            4 => format!("{}({a})", self.pick(&["sorted", "list", "tuple", "frozenset and list"])),
            5 => format!("[w for w in {a} if w]"),
            6 => format!("[{} for w in range({})]", self.expr(Kind::Any, depth), self.random.below(5)),
            7 => format!("list(zip({a}, {}))", self.expr(Kind::Str, depth)),
            8 => format!("list(enumerate({a}, {}))", self.random.below(3)),
            9 => format!(
                "str({}).split({})",
                self.expr(Kind::Str, depth),
                self.pick(&["", "' '", "'-'", "'a'", "None, 1", "' ', 1"])
            ),
            10 => format!(
                "sorted({a}, key={}, reverse={})",
                self.pick(&["str", "repr", "lambda w: str(w)[::-1]", "len"]),
                self.pick(&["True", "False"])
            ),
            11 => format!("list(dict({}).{}())", self.expr(Kind::Dict, depth), self.pick(&["items", "keys", "values"])),
            12 => format!("list(map(lambda w: [w, {b}], {a}))"),
            13 => format!("list(filter(None, {a}))"),
            14 => format!("list(w for w in {a} for _ in range(2))"),
            _ => format!(
                "sorted({{{}, {}, {}}})",
                self.expr(Kind::Int, depth),
                self.expr(Kind::Int, depth),
                self.expr(Kind::Int, 0)
            ),
        }
    }

    fn tuple(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&["()", "(1,)", "(1, 2)", "('a', 1)", "((1, 2), 3)"]);
        }
        let (a, b) = (self.expr(Kind::Tuple, depth), self.expr(Kind::Any, depth));
        match self.random.below(5) {
            0 => format!("({a} + ({b},))"),
            1 => format!("{a}[{}]", self.slice()),
            2 => format!("tuple({})", self.expr(Kind::List, depth)),
            3 => format!("({b}, {a})"),
            _ => format!("divmod({}, {})", self.expr(Kind::Int, depth), self.expr(Kind::Int, depth)),
        }
    }

    fn dict(&mut self, leaf: bool, depth: usize) -> String {
        if leaf {
            return self.pick(&["{}", "{'a': 1}", "{1: 'x', 2: 'y'}", "{(1, 2): [3]}", "{None: 0, 0: None}"]);
        }
        let (a, b) = (self.expr(Kind::Dict, depth), self.expr(Kind::Any, depth));
        match self.random.below(5) {
            0 => format!("{{**{a}, {}: {b}}}", self.expr(Kind::Int, depth)),
            1 => format!("{{w: {b} for w in {}}}", self.expr(Kind::Str, depth)),
            2 => format!("dict(zip({}, {}))", self.expr(Kind::Tuple, depth), self.expr(Kind::List, depth)),
            3 => format!("{{k: w for k, w in dict({a}).items() if w}}"),
            _ => format!("({a} | {})", self.expr(Kind::Dict, depth)),
        }
    }
}

/// The exceptions by which the reference may end where we end with this kind.
fn exceptions(kind: ErrorKind) -> &'static [&'static str] {
    match kind {
        ErrorKind::Syntax => &["SyntaxError"],
        ErrorKind::Name => &["NameError", "UnboundLocalError"],
        ErrorKind::Type => &["TypeError"],
        ErrorKind::Value => &["ValueError"],
        ErrorKind::Index => &["IndexError"],
        ErrorKind::Key => &["KeyError"],
        ErrorKind::ZeroDivision => &["ZeroDivisionError"],
        ErrorKind::Assertion => &["AssertionError"],
        ErrorKind::Attribute => &["AttributeError"],
        ErrorKind::Overflow => &["OverflowError"],
        ErrorKind::StopIteration => &["StopIteration"],
        ErrorKind::Raised => &["RuntimeError"],
        ErrorKind::Fuel | ErrorKind::Memory | ErrorKind::Depth => &[],
    }
}

fn check(n_programs: u64, first_seed: u64) {
    let sources: Vec<String> = (first_seed..first_seed + n_programs).map(Writer::program).collect();
    let start = std::time::Instant::now();
    let Some(theirs) = reference::run(&sources.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    println!("the reference took {:.1} s", start.elapsed().as_secs_f64());
    let (library, limits) = (Arc::new(Library::new()), Limits::default());
    let (mut n_alike, mut n_limits, mut differences) = (0, 0, Vec::new());
    for (number, (source, theirs)) in sources.iter().zip(theirs).enumerate() {
        let seed = first_seed + number as u64;
        let (output, result) = match Program::parse(source, &library, &limits) {
            Ok(program) => {
                let run = program.run_module(&limits);
                (run.output, run.result.map(drop))
            }
            Err(error) => (String::new(), Err(error)),
        };
        if matches!(theirs.error.as_str(), "Late" | "MemoryError") || theirs.output.contains("MemoryError") {
            n_limits += 1;
            continue;
        }
        let ours = match &result {
            Ok(()) => &[""],
            Err(error) if error.kind.is_limit() => {
                n_limits += 1;
                continue;
            }
            Err(error) => exceptions(error.kind),
        };
        let their_output = theirs.output.replace("UnboundLocalError", "NameError");
        if output != their_output || !ours.contains(&theirs.error.as_str()) {
            let verdict = result.map_or_else(|error| error.to_string(), |()| "ended".into());
            let first = output.lines().zip(their_output.lines()).find(|(ours, theirs)| ours != theirs);
            differences.push(format!("seed {seed}: {verdict}, reference {}, {first:?}\n{source}", theirs.error));
        }
        n_alike += 1;
    }
    println!("{n_programs} generated programs: {n_alike} compared, {n_limits} met a limit");
    let n_different = differences.len();
    differences.truncate(8);
    assert!(differences.is_empty(), "{n_different} differ:\n{}", differences.join("\n"));
    assert!(n_limits * 20 < n_programs);
}

#[test]
fn generated_programs_do_what_the_reference_does() {
    check(600, 1);
}

#[test]
#[ignore = "takes minutes: cargo test --release -p hone-program --test program -- --ignored --nocapture"]
fn many_generated_programs_do_what_the_reference_does() {
    for batch in 0..20 {
        check(5_000, 1_000_000 + batch * 5_000);
    }
}
