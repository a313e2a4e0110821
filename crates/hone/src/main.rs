//! The binary: hands the command line, the environment and the two streams to the library, and exits.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hone::main()
}
