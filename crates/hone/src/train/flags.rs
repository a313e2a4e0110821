//! The settings of training as flags: one for every key that has an effect on the algorithm, and no other.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error};
use hone_train::settings::{Algorithm, Given, KEYS, Key};
use serde_json::Value;
use std::sync::LazyLock;

/// What was asked for on the command line, for the algorithm of this number.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags<const A: usize>(pub(crate) Given);

impl<const A: usize> SettingFlags<A> {
    pub(crate) const ALGORITHM: Algorithm = Algorithm::ALL[A];

    fn keys() -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(|key| key.algorithms.contains(&Self::ALGORITHM))
    }
}

impl<const A: usize> clap::Args for SettingFlags<A> {
    fn augment_args(command: Command) -> Command {
        let defaults = Given::default().resolve(Self::ALGORITHM).ok().and_then(|settings| serde_json::to_value(settings).ok());
        let default = |key: &Key| match defaults.as_ref().map(|defaults| &defaults[key.name]) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => format!(" [default: {text}]"),
            Some(value) => format!(" [default: {value}]"),
        };
        Self::keys().fold(command, |command, key| {
            let help = format!("{}{}", key.about, default(key));
            command.arg(
                Arg::new(key.name)
                    .long(flag(key))
                    .value_name("VALUE")
                    .allow_negative_numbers(true)
                    .help(help)
                    .help_heading("Settings"),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const A: usize> clap::FromArgMatches for SettingFlags<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = toml::Table::new();
        for key in Self::keys() {
            let Some(text) = matches.get_one::<String>(key.name) else { continue };
            given.insert(key.name.to_owned(), value(text));
            // One at a time, so that what is wrong can be named.
            if let Err(error) = Given::deserialize_table(&given) {
                let text = format!("`--{} {text}`: {error}\n", flag(key));
                return Err(Error::raw(ErrorKind::InvalidValue, text));
            }
        }
        let given = Given::deserialize_table(&given).map_err(|error| Error::raw(ErrorKind::InvalidValue, error))?;
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags of all keys, in their order.
static FLAGS: LazyLock<Vec<String>> = LazyLock::new(|| KEYS.iter().map(|key| key.name.replace('_', "-")).collect());

fn flag(key: &Key) -> &'static str {
    let idx = KEYS.iter().position(|known| known == key);
    idx.map_or(key.name, |idx| &FLAGS[idx])
}

/// A number stands for itself; anything else is a text.
fn value(text: &str) -> toml::Value {
    let number = text.parse::<i64>().map(toml::Value::from).ok();
    number.or_else(|| text.parse::<f64>().map(toml::Value::from).ok()).unwrap_or_else(|| toml::Value::from(text))
}

/// Reading settings from a table.
trait FromTable: Sized {
    fn deserialize_table(table: &toml::Table) -> Result<Self, String>;
}

impl FromTable for Given {
    fn deserialize_table(table: &toml::Table) -> Result<Self, String> {
        table.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }
}
