//! `hone reward lint`: what is unwise about a recipe, before anything is trained on it.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::Style;
use hone_reward::lint::obstacle;
use hone_reward::{Severity, lint};
use serde_json::json;
use std::path::PathBuf;

/// Say what is unwise about a recipe
///
/// Such as a part that can outweigh what is wanted, or more than four parts. Exit code 1 when it would be refused: without a
/// primary part, or with an efficiency bonus on top of RULER, which weighs efficiency already.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file with a recipe
    #[arg(long, value_name = "FILE", conflicts_with = "env")]
    recipe: Option<PathBuf>,
    /// A world, whose recipe is looked at
    #[arg(long, value_name = "WORLD")]
    env: Option<String>,
    /// Accept what can be forced
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let recipe = super::recipe(args.recipe.as_deref(), args.env.as_deref(), context)?;
    let findings = lint(&recipe);
    let refused = obstacle(&findings, args.force).is_some();
    if context.printer.wants_json() {
        context.printer.json(&json!({"recipe": recipe.name, "refused": refused, "findings": findings}))?;
    } else {
        for finding in &findings {
            let style = if finding.severity == Severity::Warning { Style::Note } else { Style::Bad };
            let place = finding.component.as_ref().map_or_else(|| recipe.name.clone(), |name| format!("`{name}`"));
            context.printer.line(&[(style, &place), (Style::Plain, &format!(": {}", finding.what))])?;
            context.printer.line(&[(Style::Faint, &format!("  {}; {}", finding.why, finding.way_out))])?;
        }
        if findings.is_empty() {
            context.printer.say(&format!("nothing is unwise about {}", recipe.name));
        }
    }
    Ok(if refused { Exit::No } else { Exit::Yes })
}
