//! Runs a file of the subset and prints what came of it: `cargo run --example run -- FILE.py`.

#![expect(clippy::print_stdout, reason = "an example talks to who runs it")]

use std::sync::Arc;

use hone_program::{Library, Limits, Program};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let source = std::fs::read_to_string(path)?;
    let limits = Limits::default();
    let program = Program::parse(&source, &Arc::new(Library::new()), &limits)?;
    let run = program.run_module(&limits);
    print!("{}", run.output);
    println!("fuel {}, memory {}", run.fuel, run.memory_peak);
    run.result?;
    Ok(())
}
