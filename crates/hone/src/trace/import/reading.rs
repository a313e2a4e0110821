//! One line of a format into records that are ready to be written, all on the thread that read it.
//!
//! Knows nothing of files, threads and databases.

use super::fingerprint::Fingerprint;
use hone_store::{Encoded, Options};
use hone_trace::format::{Format, FormatError, Imported, Reader, otlp};
use hone_trace::store::{RECORD_BYTES_MAX, Write};
use hone_trace::{Category, Giver, GiverKind, Reward, RewardId, Tenant, Time, Trace, TraceId};

/// A fingerprint leaves out the times, which need some room as well.
const TRACE_BYTES_MAX: usize = RECORD_BYTES_MAX - (64 << 10);

/// Reads the lines of a file, or some of them.
pub(super) struct Reading {
    pub(super) source: Source,
    /// Whose records are written; those of others are refused.
    pub(super) tenant: Tenant,
    /// What traces get that name no category.
    pub(super) category: Option<Category>,
    /// What traces earned that tell nothing of it.
    pub(super) reward: Option<Given>,
    /// How the store that they are meant for is opened.
    pub(super) options: Options,
}

/// Where the records of a line come from.
pub(super) enum Source {
    /// From the line alone.
    Line(Format, Box<Reader>),
    /// From this line and ones before it.
    Spans(Box<otlp::Assembler>),
}

/// What a line gave.
pub(super) struct Fresh {
    /// All but the traces.
    pub(super) imported: Imported,
    pub(super) traces: Vec<FreshTrace>,
}

pub(super) struct FreshTrace {
    pub(super) id: TraceId,
    pub(super) encoded: Encoded,
    /// Where the format has no dates of its own.
    pub(super) fingerprint: Option<Fingerprint>,
    /// What it earned, where only who imports it says so.
    pub(super) reward: Option<Reward>,
}

/// What a trace earned, as who imports it says.
pub(super) struct Given {
    pub(super) total: f64,
    pub(super) at: Time,
}

impl Given {
    fn of(&self, trace: TraceId) -> Reward {
        let id = RewardId::derived(&["import", &trace.to_string(), &self.total.to_string()]);
        let by = Giver { kind: GiverKind::Import, name: "import".to_owned(), config: None };
        Reward { id, at: self.at, by, turn_idx: None, components: Vec::new(), total: self.total, explanation: None }
    }
}

impl Reading {
    /// What this line gives, or what is wrong with it.
    pub(super) fn line(&mut self, number: u64, line: &str) -> Result<Fresh, String> {
        let imported = match &mut self.source {
            Source::Line(_, reader) => reader.line(line),
            Source::Spans(assembler) => assembler.line(number, line),
        };
        self.fresh(imported.map_err(|error: FormatError| error.to_string())?)
    }

    /// What was still waiting for further lines when the file ended.
    pub(super) fn end(&mut self) -> Option<Result<Fresh, String>> {
        let Source::Spans(assembler) = &mut self.source else { return None };
        let rest = assembler.finish();
        let is_empty = rest.traces.is_empty() && rest.refused.is_empty() && rest.n_spans_skipped == 0;
        (!is_empty).then(|| self.fresh(rest))
    }

    fn fresh(&self, mut imported: Imported) -> Result<Fresh, String> {
        let traces = std::mem::take(&mut imported.traces);
        let traces = traces.into_iter().map(|trace| self.fresh_trace(trace)).collect::<Result<_, _>>()?;
        Ok(Fresh { imported, traces })
    }

    fn fresh_trace(&self, mut trace: Trace) -> Result<FreshTrace, String> {
        if trace.tenant != self.tenant {
            let (whose, own) = (trace.tenant.as_str(), self.tenant.as_str());
            return Err(format!("this is a trace of the tenant {whose}, and {own} imports: take it with --tenant {whose}"));
        }
        if trace.category.is_none() {
            trace.category.clone_from(&self.category);
        }
        let is_untold = trace.rewards.is_empty();
        let dated = matches!(self.source, Source::Line(Format::Hone, _) | Source::Spans(_));
        let fingerprint = (!dated).then(|| Fingerprint::of(&mut trace));
        if let Some(print) = fingerprint.as_ref().filter(|print| print.n_bytes > TRACE_BYTES_MAX) {
            return Err(format!("this makes a trace of {} bytes; a record has at most {RECORD_BYTES_MAX}", print.n_bytes));
        }
        let id = trace.id;
        let reward = self.reward.as_ref().filter(|_| is_untold).map(|reward| reward.of(id));
        let encoded = Encoded::of(&Write::Trace(Box::new(trace)), &self.options).map_err(|error| error.to_string())?;
        Ok(FreshTrace { id, encoded, fingerprint, reward })
    }
}
