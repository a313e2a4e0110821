//! `hone trace list`: the heads of traces, newest first.

use super::filter::{self, Filter};
use crate::context::{Context, TO_BEGIN};
use crate::cost::precise;
use crate::failure::{Exit, Failure};
use hone_trace::TraceHead;
use hone_trace::store::Cursor;
use serde_json::Value;

/// List traces, newest first
///
/// A table for people, one JSON object per line with --json. When there are more than --limit, the last line
/// on stderr says how to get the next ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop after this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR", value_parser = filter::cursor, allow_hyphen_values = true)]
    after: Option<Cursor>,
    /// Print how the database answers this query instead of its answer
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    filter: Filter,
}

/// The most heads that are held at once.
const PAGE_LEN: u64 = 1000;

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let (printer, query) = (context.printer, args.filter.query(context));
    let Some(store) = context.store_if_there().await? else {
        printer.say(&format!("{}: {TO_BEGIN}", context.no_records()));
        return Ok(Exit::Yes);
    };
    if args.plan {
        let plan = store.explain(&query).await?;
        if printer.wants_json() {
            printer.json(&serde_json::json!({ "plan": plan }))?;
        } else {
            printer.plain(plan.trim_end())?;
        }
        return Ok(Exit::Yes);
    }
    let (mut left, mut after, mut n_listed) = (args.limit, args.after, 0);
    loop {
        let page = store.heads(&query, after, u32::try_from(left.min(PAGE_LEN)).unwrap_or(u32::MAX)).await?;
        n_listed += page.items.len();
        left = left.saturating_sub(page.items.len() as u64);
        if printer.wants_json() {
            page.items.iter().try_for_each(|head| printer.json(head))?;
        } else if !page.items.is_empty() {
            let rows: Vec<Vec<String>> = page.items.iter().map(row).collect();
            printer.table(&["id", "started", "category", "outcome", "reward", "turns", "tokens", "cost"], &rows)?;
        }
        after = page.next;
        if after.is_none() || left == 0 {
            break;
        }
    }
    printer.flush()?;
    match after {
        Some(cursor) => printer.say(&format!("more with --after {}", filter::cursor_text(cursor))),
        None if n_listed == 0 => printer.say("no trace fits"),
        None => {}
    }
    Ok(Exit::Yes)
}

fn row(head: &TraceHead) -> Vec<String> {
    let word = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    vec![
        head.id.to_string(),
        head.started.to_string(),
        head.category.as_ref().map(ToString::to_string).unwrap_or_default(),
        word(serde_json::to_value(head.outcome).ok()),
        head.reward.map(|reward| format!("{reward:.3}")).unwrap_or_default(),
        head.n_turns.to_string(),
        head.n_tokens.to_string(),
        if head.cost_usd > 0.0 { precise(head.cost_usd) } else { String::new() },
    ]
}
