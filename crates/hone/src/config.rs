//! `hone config show`: the settings in effect, each with where it came from. Passwords are not shown.

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::settings::schema::Value;
use clap::Subcommand;
use serde_json::{Map, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every setting with its value and where it came from
    ///
    /// A flag wins over the environment, the environment over hone.toml, and hone.toml over the defaults.
    Show,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    match args.command {
        Command::Show => show(context),
    }
}

fn show(context: &Context<'_>) -> Result<Exit, Failure> {
    let (settings, told) = (&context.settings, context.settings.told().into_iter());
    if context.printer.wants_json() {
        let shown = told.map(|(path, value, from)| (path, json!({ "value": value, "from": from })));
        context.printer.json(&json!({ "file": settings.file, "settings": shown.collect::<Map<_, _>>() }))?;
        return Ok(Exit::Yes);
    }
    let rows: Vec<Vec<String>> = told.map(|(path, value, from)| vec![path, value.to_string(), from]).collect();
    context.printer.table(&["setting", "value", "from"], &rows)?;
    Ok(Exit::Yes)
}

/// The value as it would stand in the file.
pub(crate) fn value_text(value: &Value) -> String {
    serde_json::to_string(value).expect("texts and numbers have a JSON form")
}
