//! `hone trace export`: traces as lines of a format, or as spans to a collector, newest first, a page at a time.
//!
//! Memory does not grow with the number of traces: one page is written while the next is fetched. Only the ids of
//! the groups already written are remembered, sixteen bytes each.

mod collector;
mod pairs;
mod sink;

use super::FormatName;
use super::filter::Filter;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::counted;
use collector::{Collector, Encoding, Sent};
use hone_trace::format::{self, Format, art};
use hone_trace::store::{Kind, Store};
use hone_trace::{Group, GroupId, Trace};
use pairs::Pairs;
use serde_json::json;
use sink::{Closed, Sink};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Write traces to stdout or a file, or send them to an OpenTelemetry collector, newest first
///
/// One line each. A format that cannot hold everything says on stderr what was left out, and for how many traces.
/// With --format art, a group is written whole, as one line, where its first trace is met. A file appears under
/// its name when it is complete.
///
/// With --pairs, of every group the trace that earned most and the one that earned least are written as one line, with what both were
/// asked: `prompt`, `chosen` and `rejected`, which DPO learns from.
///
/// With --to, spans of the GenAI conventions are posted to a collector; one that is busy is asked again, as late as it wants. The exit
/// code is 1 when it refused some of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write this format; without this, hone, or otlp to a collector
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,
    /// Write pairs of a better and a worse answer, as TRL's DPO reads them
    #[arg(long, conflicts_with_all = ["format", "to"])]
    pairs: bool,
    /// Write to this file
    #[arg(long, short, value_name = "FILE", conflicts_with = "to")]
    output: Option<PathBuf>,
    /// Send to the OpenTelemetry collector at this address; without a path, to its /v1/traces
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Send this header along, such as `authorization=Bearer …`; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "to")]
    headers: Vec<String>,
    /// Send spans in this encoding; without this, protobuf
    #[arg(long, value_name = "ENCODING", requires = "to")]
    encoding: Option<Encoding>,
    #[command(flatten)]
    filter: Filter,
}

/// How many traces are asked for at once; the store gives fewer when they are large.
const PAGE_LEN: u32 = 500;

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let query = Arc::new(args.filter.query(context));
    let format = args.format()?;
    let mut sink = match &args.to {
        Some(to) => {
            let encoding = args.encoding.unwrap_or(Encoding::Protobuf);
            Sink::Collector(Box::new(Collector::new(to, &args.headers, encoding)?))
        }
        None => Sink::open(args.output.as_deref(), context.printer)?,
    };
    let store = context.store_to_read().await?;
    let mut writer = Writer {
        store: &*store,
        format,
        across_tenants: args.filter.all_tenants,
        pairs: args.pairs.then(Pairs::default),
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
    let closed = sink.close().await?;
    writer.report(&closed, context)?;
    match closed {
        Closed::Collector(Sent { n_refused: 1.., .. }) => Ok(Exit::No),
        _ => Ok(Exit::Yes),
    }
}

impl Args {
    fn format(&self) -> Result<Format, Failure> {
        match (self.format, &self.to) {
            (None, None) => Ok(Format::Hone),
            (None | Some(FormatName::Otlp), Some(_)) => Ok(Format::Otlp),
            (Some(name), None) => Ok(name.into()),
            (Some(name), Some(_)) => {
                let text = format!("a collector takes spans, and --format {} is something else", Format::from(name));
                Err(Failure::user(text).hint("leave --format out, or write to a file with --output"))
            }
        }
    }
}

/// Turns traces into lines and counts what is lost.
struct Writer<'a> {
    store: &'a dyn Store,
    format: Format,
    across_tenants: bool,
    /// Of every group the best and the worst, instead of all.
    pairs: Option<Pairs>,
    n_traces: u64,
    groups_written: HashSet<GroupId>,
    left_out: BTreeMap<&'static str, u64>,
}

impl Writer<'_> {
    async fn write(&mut self, trace: &Trace, sink: &mut Sink<'_>) -> Result<(), Failure> {
        if let Some(id) = trace.group
            && (self.format == Format::Art || self.pairs.is_some())
        {
            if self.groups_written.contains(&id) {
                return Ok(());
            }
            if let Some(group) = self.group(id, trace).await? {
                self.groups_written.insert(id);
                let members = self.members(&group, trace).await?;
                if let Some(pairs) = &mut self.pairs {
                    return pairs.line(&members).map_or(Ok(()), |line| sink.line(line));
                }
                members.iter().for_each(|member| self.count(member));
                return sink.line(art::write_group(&group, &members));
            }
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.pass_by();
            return Ok(());
        }
        self.count(trace);
        match sink {
            Sink::Collector(collector) => collector.add(trace).await,
            sink => sink.line(format::write(trace, self.format)),
        }
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

    /// Says what was done.
    fn report(&self, closed: &Closed, context: &Context<'_>) -> Result<(), Failure> {
        let printer = context.printer;
        if let Some(pairs) = &self.pairs {
            return pairs.report(closed, printer);
        }
        for (what, n_traces) in &self.left_out {
            printer.say(&format!(
                "left out for {}: {what}, which the format {} cannot hold",
                counted(*n_traces, "trace"),
                self.format
            ));
        }
        let n_traces = counted(self.n_traces, "trace");
        match closed {
            Closed::Stdout => printer.say(&n_traces),
            Closed::File(file) if printer.wants_json() => {
                let summary = json!({ "traces": self.n_traces, "file": file, "left_out": self.left_out });
                return printer.json(&summary);
            }
            Closed::File(file) => printer.say(&format!("{n_traces} in {}", file.display())),
            Closed::Collector(sent) => return self.report_sent(sent, context),
        }
        Ok(())
    }

    fn report_sent(&self, sent: &Sent, context: &Context<'_>) -> Result<(), Failure> {
        let Sent { to, n_spans, n_refused, why, .. } = sent;
        let n_accepted = n_spans - n_refused;
        if context.printer.wants_json() {
            let summary = json!({
                "traces": sent.n_traces, "to": to, "spans": n_spans, "accepted": n_accepted, "why_refused": why,
                "left_out": self.left_out,
            });
            return context.printer.json(&summary);
        }
        let (traces, spans) = (counted(sent.n_traces, "trace"), counted(*n_spans, "span"));
        context.printer.say(&format!("{traces} sent to {to} as {spans}, {n_accepted} accepted"));
        if let Some(why) = why {
            context.printer.complain(&format!("{to} says: {why}"));
        }
        Ok(())
    }
}
