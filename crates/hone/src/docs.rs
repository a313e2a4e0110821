//! `hone docs`, hidden: the pages of the reference that are made from the program itself.
//!
//! A test compares them with `docs/reference/`, so that they are never out of date.

use crate::cli::{Cli, EVERYWHERE};
use crate::config::value_text;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::settings::schema::{keys, tables};
use clap::{CommandFactory, ValueEnum};
use hone_train::settings::{Algorithm, Given, KEYS};
use serde_json::Value;
use std::fmt::Write;

/// Print a page of the reference
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which page
    page: Page,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Page {
    /// Every command with its help
    Cli,
    /// Every setting with its meaning
    Configuration,
    /// Every setting of training
    Training,
}

pub(crate) fn run(args: &Args, printer: &Printer) -> Result<Exit, Failure> {
    if printer.wants_json() {
        return Err(Failure::user("`--json` has no effect: a page of the reference is Markdown"));
    }
    let page = match args.page {
        Page::Cli => cli(),
        Page::Configuration => configuration(),
        Page::Training => training(),
    };
    printer.plain(page.trim_end())?;
    Ok(Exit::Yes)
}

fn cli() -> String {
    let mut page = "# Commands\n\nMade by `hone docs cli`. Every command also prints this with `--help`.\n".to_owned();
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&command, "", &mut page);
    page
}

fn describe(command: &clap::Command, parents: &str, page: &mut String) {
    let name = format!("{parents}{}", command.get_name());
    let help = command.clone().render_long_help().to_string();
    // The options of every command stand once, at the top.
    let own = if parents.is_empty() { help.as_str() } else { help.split(&format!("\n{EVERYWHERE}:")).next().unwrap_or(&help) };
    let lines: Vec<&str> = own.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        describe(below, &format!("{name} "), page);
    }
}

fn configuration() -> String {
    let mut page = "# Settings\n\nMade by `hone docs configuration`. `hone init` writes a `hone.toml` with all of this in it; `hone config show` \
        says what is in effect and why.\n\nA flag wins over the environment, the environment over `hone.toml`, and `hone.toml` \
        over the defaults. `hone.toml` is the nearest one, from the current folder upwards; `--config FILE` or `HONE_CONFIG` names \
        another. A key or a `HONE_…` variable that hone does not know is an error.\n\n\
        A list is written in a variable as in `hone.toml`, `HONE_SERVE_PRICES='[\"gpt=0.25,2\", \"own=1,4\"]'`, or without brackets and \
        quotes, `gpt=0.25,2,own=1,4`: then commas stand between the items, and a comma that no NAME= follows belongs to its item. \
        Where a flag such as `--model` gives one of a list, the list of the file or the variable stays, without what it has under \
        the same name.\n"
        .to_owned();
    for (table, comment) in tables() {
        let _ = write!(page, "\n## `[{table}]`\n\n{comment}\n\n| key | default | variable | meaning |\n|---|---|---|---|\n");
        for key in keys().iter().filter(|key| key.table == table) {
            let meaning = key.comment.replace('\n', " ").replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | `{}` | `{}` | {meaning} |", key.name, value_text(&key.default), key.variable());
        }
    }
    page
}

fn training() -> String {
    let mut page = "# Settings of training\n\nMade by `hone docs training`. Each is a flag of `hone train ALGORITHM` (`lr_floor` is \
        `--lr-floor`) or a key of `[train.ALGORITHM]` in `hone.toml`; flags win. A setting stands under the algorithms on which it \
        has an effect: elsewhere, or beside others that leave it without one, it is refused. The guide is \
        [Training](../guide/training.md).\n\n| setting | algorithms | default | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for key in KEYS {
        let algorithms = match key.algorithms.len() == Algorithm::ALL.len() {
            true => "all".to_owned(),
            false => key.algorithms.iter().map(|algorithm| algorithm.as_str()).collect::<Vec<_>>().join(", "),
        };
        let mut defaults: Vec<(String, Vec<&str>)> = Vec::new();
        for &algorithm in key.algorithms {
            let text = default_of(key.name, algorithm);
            match defaults.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(algorithm.as_str()),
                None => defaults.push((text, vec![algorithm.as_str()])),
            }
        }
        let default = match &defaults[..] {
            [(text, _)] => text.clone(),
            several => several.iter().map(|(text, of)| format!("{text} ({})", of.join(", "))).collect::<Vec<_>>().join(", "),
        };
        let _ = writeln!(page, "| `{}` | {algorithms} | {default} | {} |", key.name, key.about);
    }
    page
}

/// What a setting of training is when nobody says.
fn default_of(name: &str, algorithm: Algorithm) -> String {
    let settings = Given::default().resolve(algorithm).ok().and_then(|settings| serde_json::to_value(settings).ok());
    match settings.map(|settings| settings[name].clone()) {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(value) => format!("`{value}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_up_to_date() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
        for (name, page) in [("cli", cli()), ("configuration", configuration()), ("training", training())] {
            let kept = std::fs::read_to_string(format!("{folder}/{name}.md")).unwrap_or_default();
            let up_to_date = kept.trim_end() == page.trim_end();
            assert!(up_to_date, "out of date; run: cargo run -p hone -- docs {name} > docs/reference/{name}.md");
        }
    }
}
