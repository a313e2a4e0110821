//! Which traces are meant: the options that `list` and `export` share.

use crate::context::Context;
use clap::ValueEnum;
use hone_trace::store::{Cursor, Field, TraceQuery};
use hone_trace::{Category, ConfigHash, Time, TraceOutcome};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which traces")]
pub(crate) struct Filter {
    /// Take those of this type of task
    #[arg(long)]
    category: Option<Category>,
    /// Take those that this config produced
    #[arg(long, value_name = "HASH")]
    config_hash: Option<ConfigHash>,
    /// Take those that ended so
    #[arg(long)]
    outcome: Option<OutcomeName>,
    /// Take those that began at this time or later, such as 2026-03-14 or 2026-03-14T15:09:26Z
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Take those that began before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// Take those that earned at least this
    #[arg(long, value_name = "REWARD", value_parser = finite, allow_hyphen_values = true)]
    reward_min: Option<f64>,
    /// Take those that earned at most this
    #[arg(long, value_name = "REWARD", value_parser = finite, allow_hyphen_values = true)]
    reward_max: Option<f64>,
    /// Take those with this value at this place, such as metadata.customer=acme
    ///
    /// An index answers when the path stands in `store.indexed_fields`; otherwise every trace is looked at.
    #[arg(long, value_name = "PATH=VALUE", value_parser = field)]
    field: Option<Field>,
    /// Take those of all tenants
    #[arg(long, conflicts_with = "tenant")]
    pub(super) all_tenants: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OutcomeName {
    /// It did what was asked
    Success,
    /// It did not
    Failure,
    /// Nobody said
    Unknown,
}

impl Filter {
    pub(crate) fn query(&self, context: &Context<'_>) -> TraceQuery {
        TraceQuery {
            tenant: (!self.all_tenants).then(|| context.settings.tenant.clone()),
            category: self.category.clone(),
            config: self.config_hash,
            outcome: self.outcome.map(|name| match name {
                OutcomeName::Success => TraceOutcome::Success,
                OutcomeName::Failure => TraceOutcome::Failure,
                OutcomeName::Unknown => TraceOutcome::Unknown,
            }),
            since: self.since,
            until: self.until,
            reward_min: self.reward_min,
            reward_max: self.reward_max,
            field: self.field.clone(),
        }
    }
}

pub(super) fn finite(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "this is not a number".to_owned())?;
    if number.is_finite() { Ok(number) } else { Err("this is not a finite number".to_owned()) }
}

fn field(text: &str) -> Result<Field, String> {
    match text.split_once('=') {
        Some((path, value)) if !path.split('.').any(str::is_empty) => {
            Ok(Field { path: path.to_owned(), value: value.to_owned() })
        }
        _ => Err("write a path and a value, such as metadata.customer=acme".to_owned()),
    }
}

/// A place in a list as text: the time of the record before it, a dot, and its number in the store.
pub(super) fn cursor_text(cursor: Cursor) -> String {
    format!("{}.{}", cursor.at.unix_nanos(), cursor.seq)
}

pub(super) fn cursor(text: &str) -> Result<Cursor, String> {
    let parts = text.split_once('.').and_then(|(at, seq)| Some((at.parse().ok()?, seq.parse().ok()?)));
    let (at, seq) = parts.ok_or("this is not what an earlier list ended with")?;
    Ok(Cursor { at: Time::from_unix_nanos(at), seq })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        let there = Cursor { at: Time::from_unix_nanos(-7), seq: 42 };
        assert_eq!(cursor(&cursor_text(there)), Ok(there));
        assert!(cursor("x").is_err() && cursor("1").is_err() && cursor("1.x").is_err());
    }

    #[test]
    fn a_field_is_a_path_and_a_value() {
        let there = field("metadata.customer=a=b").unwrap();
        assert_eq!((there.path.as_str(), there.value.as_str()), ("metadata.customer", "a=b"));
        assert!(field("metadata").is_err() && field("=x").is_err() && field("a..b=x").is_err());
    }
}
