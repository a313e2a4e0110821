//! How fast short programs are parsed and run on one core: `cargo run --release --example speed`.
//!
//! The program is ten lines of calls to natives, run on three inputs, as a model writes them for a task with three examples.

#![expect(clippy::print_stdout, reason = "an example talks to who runs it")]

use std::any::Any;
use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

/// A stopwatch for the time on a core, where the machine tells it, else for the time that passed.
struct Watch {
    start: Instant,
    on_core_ns: Option<u64>,
}

impl Watch {
    fn start() -> Self {
        Self { start: Instant::now(), on_core_ns: on_core_ns() }
    }

    fn seconds(&self) -> f64 {
        match (self.on_core_ns, on_core_ns()) {
            (Some(start), Some(end)) => (end - start) as f64 / 1e9,
            _ => self.start.elapsed().as_secs_f64(),
        }
    }
}

fn on_core_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

use hone_program::{Context, Fault, Library, Limits, Meter, Module, Packed, Program, Shape, Value};

/// A tuple of bytes.
#[derive(Debug)]
struct Row(Vec<u8>);

impl Packed for Row {
    fn shape(&self) -> Shape {
        Shape::Tuple
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn item(&self, idx: usize, _: &Meter) -> Result<Value, Fault> {
        Ok(Value::Int(i64::from(self.0[idx])))
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn order(&self, other: &dyn Packed) -> Option<Ordering> {
        other.as_any().downcast_ref::<Self>().map(|other| self.0.cmp(&other.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn row(value: &Value) -> Result<&Row, Fault> {
    value.packed().ok_or_else(|| Fault::type_error("needs a row"))
}

fn mirror(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let row = row(&arguments[0])?;
    context.spend(row.0.len() as u64)?;
    context.meter().pack(Row(row.0.iter().rev().copied().collect()))
}

fn join(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    let (a, b) = (row(&arguments[0])?, row(&arguments[1])?);
    context.spend((a.0.len() + b.0.len()) as u64)?;
    context.meter().pack(Row([&a.0[..], &b.0[..]].concat()))
}

fn compose(context: &mut Context, arguments: &[Value]) -> Result<Value, Fault> {
    context.function("composed", 1, arguments.to_vec(), |context, captured, arguments| {
        let inner = context.call(&captured[1], arguments)?;
        context.call(&captured[0], &[inner])
    })
}

const SOURCE: &str = "
from demo import *

def solve(I):
    x1 = mirror(I)
    x2 = join(I, x1)
    x3 = compose(mirror, mirror)
    x4 = x3(x2)
    x5 = mirror(x4)
    x6 = join(x1, I)
    x7 = mirror(x6)
    x8 = join(x5, x7)
    x9 = mirror(x8)
    O = mirror(x9)
    return O
";

const LOOPS: &str = "
def solve(n):
    total = 0
    for i in range(n):
        if i % 3 == 0:
            total += i
        else:
            total -= 1
    return total
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut library = Library::new();
    let module = Module::new("demo").function("mirror", &["row"], mirror).function("join", &["a", "b"], join).function(
        "compose",
        &["outer", "inner"],
        compose,
    );
    library.add(module);
    let (library, limits) = (Arc::new(library), Limits::default());
    let inputs: Vec<_> = (0..3)
        .map(|seed| Meter::free().pack(Row((0..100).map(|idx| (idx * (seed + 3)) % 10).collect())))
        .collect::<Result<_, _>>()
        .map_err(Fault::into_error)?;

    let n_programs = 50_000_u32;
    let start = Watch::start();
    for _ in 0..n_programs {
        let program = Program::parse(SOURCE, &library, &limits)?;
        for input in &inputs {
            program.run("solve", std::slice::from_ref(input), &limits).result?;
        }
    }
    println!("parse and three runs: {:.0} programs/s", f64::from(n_programs) / start.seconds());

    let start = Watch::start();
    for _ in 0..n_programs {
        Program::parse(SOURCE, &library, &limits)?;
    }
    println!("parse alone: {:.0} programs/s", f64::from(n_programs) / start.seconds());

    let program = Program::parse(SOURCE, &library, &limits)?;
    let n_runs = 400_000_u32;
    let start = Watch::start();
    for idx in 0..n_runs {
        program.run("solve", std::slice::from_ref(&inputs[idx as usize % 3]), &limits).result?;
    }
    println!("runs once parsed: {:.0} runs/s", f64::from(n_runs) / start.seconds());

    let program = Program::parse(LOOPS, &library, &limits)?;
    let (start, mut fuel) = (Watch::start(), 0);
    for _ in 0..20 {
        fuel += program.run("solve", &[Value::Int(200_000)], &limits).fuel;
    }
    println!("plain loop: {:.1} ns a unit of fuel", start.seconds() * 1e9 / fuel as f64);
    Ok(())
}
