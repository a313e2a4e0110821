//! `hone trace export`: traces as lines of a format, newest first, a page at a time.
//!
//! Memory does not grow with the number of traces: one page is written while the next is fetched. Only the ids of
//! the groups already written are remembered, sixteen bytes each.

mod sink;

use super::FormatName;
use super::filter::Filter;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use hone_trace::format::{self, Format, art};
use hone_trace::store::{Kind, Store};
use hone_trace::{Group, GroupId, Trace};
use sink::Sink;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Write traces to stdout or a file, newest first
///
/// One line each. A format that cannot hold everything says on stderr what was left out, and for how many traces.
/// With --format art, a group is written whole, as one line, where its first trace is met. A file appears under
/// its name when it is complete; until then it is called FILE.partial.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write this format
    #[arg(long, value_name = "FORMAT", default_value = "hone")]
    format: FormatName,
    /// Write to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: Filter,
}

/// How many traces are asked for at once; the store gives fewer when they are large.
const PAGE_LEN: u32 = 500;

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let query = Arc::new(args.filter.query(context));
    let store = context.store_to_read().await?;
    let mut sink = Sink::open(args.output.as_deref(), context.printer)?;
    let mut writer = Writer {
        store: &*store,
        format: args.format.into(),
        across_tenants: args.filter.all_tenants,
        n_traces: 0,
        groups_written: HashSet::new(),
        left_out: BTreeMap::new(),
    };
    let bar = if sink.is_seen() { indicatif::ProgressBar::hidden() } else { context.printer.count_bar("traces") };
    let fetch = |after| {
        let (store, query) = (Arc::clone(&store), Arc::clone(&query));
        tokio::spawn(async move { store.traces(&query, after, PAGE_LEN).await })
    };
    let mut next = Some(fetch(None));
    while let Some(page) = next {
        let page = page.await.map_err(|_| Failure::bug("a page of traces was not fetched"))??;
        next = page.next.map(|cursor| fetch(Some(cursor)));
        for trace in &page.items {
            writer.write(trace, &mut sink).await?;
        }
        bar.set_position(writer.n_traces);
    }
    bar.finish_and_clear();
    let file = sink.close()?;
    writer.report(file.as_deref(), context)?;
    Ok(Exit::Yes)
}

/// Turns traces into lines and counts what is lost.
struct Writer<'a> {
    store: &'a dyn Store,
    format: Format,
    across_tenants: bool,
    n_traces: u64,
    groups_written: HashSet<GroupId>,
    left_out: BTreeMap<&'static str, u64>,
}

impl Writer<'_> {
    async fn write(&mut self, trace: &Trace, sink: &mut Sink<'_>) -> Result<(), Failure> {
        if let (Format::Art, Some(id)) = (self.format, trace.group) {
            if self.groups_written.contains(&id) {
                return Ok(());
            }
            if let Some(group) = self.group(id, trace).await? {
                self.groups_written.insert(id);
                let members = self.members(&group, trace).await?;
                members.iter().for_each(|member| self.count(member));
                return sink.line(art::write_group(&group, &members));
            }
        }
        self.count(trace);
        sink.line(format::write(trace, self.format))
    }

    /// The group, unless it was never written or does not know this trace.
    async fn group(&self, id: GroupId, trace: &Trace) -> Result<Option<Group>, Failure> {
        let Some(document) = self.store.document(Kind::Group, &id.to_string()).await? else { return Ok(None) };
        let group: Group = document.word()?;
        Ok(Some(group).filter(|group| group.traces.contains(&trace.id)))
    }

    /// The traces of a group that this user may see.
    async fn members(&self, group: &Group, met: &Trace) -> Result<Vec<Trace>, Failure> {
        let mut members = Vec::with_capacity(group.traces.len());
        for &id in &group.traces {
            let member = self.store.trace(id).await?;
            members.extend(member.filter(|member| self.across_tenants || member.tenant == met.tenant));
        }
        Ok(members)
    }

    fn count(&mut self, trace: &Trace) {
        self.n_traces += 1;
        for what in format::left_out(trace, self.format) {
            *self.left_out.entry(what).or_default() += 1;
        }
    }

    /// Says what was done. `file` is where to, unless the lines themselves went to stdout.
    fn report(&self, file: Option<&Path>, context: &Context<'_>) -> Result<(), Failure> {
        let printer = context.printer;
        for (what, n_traces) in &self.left_out {
            printer.say(&format!(
                "left out for {}: {what}, which the format {} cannot hold",
                counted(*n_traces, "trace"),
                self.format
            ));
        }
        let Some(file) = file else {
            printer.say(&counted(self.n_traces, "trace"));
            return Ok(());
        };
        if printer.wants_json() {
            let summary = serde_json::json!({ "traces": self.n_traces, "file": file, "left_out": self.left_out });
            return printer.json(&summary);
        }
        printer.say(&format!("{} in {}", counted(self.n_traces, "trace"), file.display()));
        Ok(())
    }
}
