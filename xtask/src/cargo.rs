//! How xtask starts other programs: in the root of the workspace, on a leash, with a clean environment.
//!
//! Knows nothing of what the programs do.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder in the workspace")
}

/// The cargo that runs us, ready for its arguments.
pub(crate) fn cargo() -> Command {
    leashed(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
}

/// A program that ends with us, also when we are killed: orphaned test runs would go on loading the machine.
///
/// Without `setpriv` (it is part of every Debian system) the program is started as it is.
pub(crate) fn leashed(program: &str) -> Command {
    let mut command = if find_program("setpriv").is_some() {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--", program]);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(root());
    // What cargo told us about ourselves must not reach another cargo: build scripts that watch these variables
    // would run anew in every alternation of `cargo xtask test` and a plain `cargo build`.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// The first file of this name on the PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
