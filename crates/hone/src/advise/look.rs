//! A look at what is on the record, kept in the store and told.

use super::{busy, show};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use hone_gateway::advice::{self, Asked, LookError};
use hone_trace::{AgentName, Category, ConfigHash, Time};

#[derive(Debug, clap::Args)]
pub(crate) struct LookArgs {
    /// Advise on what serves under this agent; without this, on every agent, or where there is none on the config with the most episodes
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
    /// Advise on this config
    #[arg(long, value_name = "HASH", conflicts_with = "agent")]
    from: Option<ConfigHash>,
    /// What says how well an episode went, such as a metric_name of feedback; without this, how it ended, and else its last reward
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Look at this type of task alone
    #[arg(long)]
    category: Option<Category>,
    /// Look at episodes that began at this time or later, such as 2026-03-14 or 2026-03-14T15:09:26Z
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Look at episodes that began before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// The most episodes that are looked at, the newest
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Ways to fail that are shown, the most frequent; --json has all
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    top: u32,
}

pub(super) async fn run(args: &LookArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let tenant = &context.settings.tenant;
    let asked = Asked {
        tenant: tenant.clone(),
        agent: args.agent.clone(),
        from: args.from,
        metric: args.metric.clone(),
        category: args.category.clone(),
        thrift: context.settings.thrift,
        since: args.since,
        until: args.until,
        n_max: args.limit,
        n_used_max: usize::MAX,
    };
    let serving = advice::serving(&*store, tenant).await?;
    let bar = context.printer.count_bar("traces");
    let look = advice::look(&*store, &asked, &serving, |n_read| {
        bar.inc(n_read as u64);
        true
    });
    let look = look.await;
    bar.finish_and_clear();
    let look = look.map_err(unfound)?;
    if look.seen.is_empty() {
        let none = Failure::user("there are no episodes to look at");
        return Err(none.hint("import some with `hone trace import FILE`, or ask with other options"));
    }
    let given = advice::keep(&*store, &look, tenant).await.map_err(busy)?;
    show::tell(&look, &given, args.top as usize, context)?;
    let has_outcomes = look.seen.rows.iter().any(|row| row.quality.is_some());
    Ok(if has_outcomes { Exit::Yes } else { Exit::No })
}

fn unfound(error: LookError) -> Failure {
    match error {
        LookError::NoAgent(_) => Failure::user(error).hint("`hone deploy status` names all"),
        LookError::NoEpisode(_) => Failure::user(error).hint("`hone trace list --json` names the config of each episode"),
        LookError::Store(error) => error.into(),
    }
}
