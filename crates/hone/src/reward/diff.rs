//! `hone reward diff`: how small a change of code is, and whether it cheats.

use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use crate::printer::Style;
use hone_reward::diff::{Asked, Language, Source, Tests, diff};
use std::path::{Path, PathBuf};

/// Compare two versions of a file by their syntax
///
/// Counts moved, renamed, added and deleted nodes without formatting and comments, and finds scaffolding: tests edited, checks
/// deleted, values hard-coded to test inputs, swallowed errors, dead code. Exit code 1 when there is any.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file before the change; its ending says the language
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The file after it, in the same language
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// A known good fix in the same language, which sets what the least change is
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Tests were part of the task, and may change
    #[arg(long)]
    tests_open: bool,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let path = args.before.to_string_lossy().into_owned();
    let language = language(&args.before)?;
    let parse = |path: &PathBuf| {
        let found = self::language(path)?;
        if found != language {
            let text =
                format!("{}: this is {}, and {} is {}", path.display(), found.name(), args.before.display(), language.name());
            return Err(Failure::user(text).hint("compare files of one language"));
        }
        let text = std::fs::read_to_string(path).map_err(at_path(path))?;
        Source::parse(language, text).map_err(|error| Failure::user(format_args!("{}: {error}", path.display())))
    };
    let before = parse(&args.before)?;
    let tests = if args.tests_open { Tests::Open } else { Tests::Fixed };
    let asked = Asked { path: Some(path), tests, ..Asked::default() };
    let minimal_cost = match &args.reference {
        Some(reference) => Some(diff(&before, &parse(reference)?, &asked).map_err(Failure::user)?.cost),
        None => None,
    };
    let found = diff(&before, &parse(&args.after)?, &Asked { minimal_cost, ..asked }).map_err(Failure::user)?;
    if context.printer.wants_json() {
        context.printer.json(&found)?;
    } else {
        let counts = &found.counts;
        context.printer.plain(&format!(
            "score {:.3}: {} added, {} deleted, {} moved, {} renamed, {} updated",
            found.score, counts.added, counts.deleted, counts.moved, counts.renamed, counts.updated
        ))?;
        for finding in &found.findings {
            let text = format!("{} {}-{}: {}", finding.side.name(), finding.line_first, finding.line_last, finding.kind.name());
            context.printer.line(&[(Style::Bad, &text)])?;
        }
    }
    Ok(if found.findings.is_empty() { Exit::Yes } else { Exit::No })
}

/// The language that the ending of a file names.
fn language(path: &Path) -> Result<Language, Failure> {
    Language::of_path(&path.to_string_lossy()).ok_or_else(|| {
        let known: Vec<&str> = Language::ALL.iter().map(|language| language.name()).collect();
        Failure::user(format_args!("{}: the ending names no language", path.display()))
            .hint(format!("there are {}", known.join(", ")))
    })
}
