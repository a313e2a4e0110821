//! Edits of programs as they stand in the store: who searched, for which task, from which program, and what was answered.

use crate::failure::Failure;
use hone_arc::task::{Pair, Task};
use hone_arc::world::answer_of;
use hone_data::edits::copies;
use hone_store::Database;
use hone_trace::store::{Field, TraceQuery};
use hone_trace::{ConfigHash, Metric, Tenant, Trace};
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Where a trace says which search it is an edit of.
pub(crate) const SEARCH: &str = "evolve";
const ROUND: &str = "round";
const TASK: &str = "task";
const FAMILY: &str = "family";
const FROM: &str = "from";
const SETUP: &str = "setup";
const PAIRS: &str = "pairs";
const GAIN: &str = "delta_r";
/// The signal in which the world tells what an edit gained.
const GAIN_SIGNAL: &str = "correctness_gain";

/// How many traces are asked for at once.
const PAGE_LEN: u32 = 500;
/// The most edits that are read into memory.
const EDITS_MAX: usize = 1_000_000;

/// What an edit was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) search: String,
    pub(crate) round: u64,
    pub(crate) task: String,
    pub(crate) family: String,
    /// The program that was edited.
    pub(crate) from: String,
    /// What the search was told; not known of those made before this was kept.
    pub(crate) setup: Option<Setup>,
    /// The hash of the task as it was then; likewise.
    pub(crate) pairs: Option<String>,
}

/// What makes a search another one, by the names of its flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) mistakes: u8,
    pub(crate) edits: u16,
    /// The hash of the programs that it was given to start from.
    pub(crate) start: Option<String>,
    /// Not known of searches made before it was kept.
    #[serde(default)]
    pub(crate) max_tokens: Option<u64>,
    /// The hash of the recipe that weighs edits; likewise.
    #[serde(default)]
    pub(crate) recipe: Option<String>,
}

impl Setup {
    /// The flags in which another differs, as it had them. By which recipe edits are weighed is not one of them.
    pub(crate) fn differing(&self, other: &Self) -> Vec<String> {
        let start = if other.start.is_some() { "other programs in --start" } else { "no --start" };
        let told = [
            (self.seed != other.seed).then(|| format!("--seed {}", other.seed)),
            (self.mistakes != other.mistakes).then(|| format!("--mistakes {}", other.mistakes)),
            (self.edits != other.edits).then(|| format!("--edits {}", other.edits)),
            (self.start != other.start).then(|| start.into()),
            other.max_tokens.filter(|&n| self.max_tokens != Some(n)).map(|n| format!("--max-tokens {n}")),
        ];
        told.into_iter().flatten().collect()
    }
}

/// The hash by which a task is known to be the same, with all its pairs.
pub(crate) fn pairs_of(task: &Task) -> String {
    ConfigHash::of(task.to_json(true).to_string().as_bytes()).to_string()
}

/// An edit.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    pub(crate) origin: Origin,
    /// The program that was answered last; empty where there was none.
    pub(crate) program: String,
    pub(crate) thoughts: Vec<String>,
    /// What it gained; `None` where the world never saw a program.
    pub(crate) gain: Option<f64>,
    pub(crate) trace: Trace,
}

impl Origin {
    /// Notes on a trace what it is an edit of, and what it gained.
    pub(crate) fn note(&self, trace: &mut Trace) {
        let facts = [(SEARCH, &self.search), (TASK, &self.task), (FAMILY, &self.family), (FROM, &self.from)];
        trace.metadata.extend(facts.map(|(key, value)| (key.to_owned(), value.as_str().into())));
        trace.metadata.insert(ROUND.to_owned(), self.round.into());
        let setup = self.setup.as_ref().and_then(|setup| serde_json::to_value(setup).ok());
        trace.metadata.extend(setup.map(|setup| (SETUP.to_owned(), setup)));
        trace.metadata.extend(self.pairs.as_ref().map(|pairs| (PAIRS.to_owned(), pairs.as_str().into())));
        if let Some(gain) = gain(trace).and_then(Number::from_f64) {
            trace.metrics.insert(GAIN.to_owned(), Metric::Value(gain));
        }
    }

    /// What a trace is an edit of, if it is one.
    fn of(trace: &Trace) -> Option<Self> {
        let text = |key: &str| trace.metadata.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            search: text(SEARCH)?,
            round: trace.metadata.get(ROUND)?.as_u64()?,
            task: text(TASK)?,
            family: text(FAMILY)?,
            from: text(FROM)?,
            setup: trace.metadata.get(SETUP).and_then(|setup| Setup::deserialize(setup).ok()),
            pairs: text(PAIRS),
        })
    }
}

impl Edit {
    /// The edit that a trace is, if it is one.
    pub(crate) fn of(trace: Trace) -> Option<Self> {
        let origin = Origin::of(&trace)?;
        let answers: Vec<_> = trace.turns().map(|turn| answer_of(&turn.answer.content.text())).collect();
        let program = answers.last().map(|answer| answer.program.clone()).unwrap_or_default();
        let thoughts = answers.into_iter().flat_map(|answer| answer.thoughts).filter(|thought| !thought.is_empty()).collect();
        Some(Self { origin, program, thoughts, gain: gain(&trace), trace })
    }
}

/// Whether a program copies outputs of these pairs instead of computing them.
pub(crate) fn is_copy<'a>(program: &str, pairs: impl IntoIterator<Item = &'a Pair>) -> bool {
    let rows = |pair: &Pair| pair.output.rows().map(<[i8]>::to_vec).collect();
    let outputs: Vec<Vec<Vec<i8>>> = pairs.into_iter().map(rows).collect();
    copies(program, &outputs)
}

fn gain(trace: &Trace) -> Option<f64> {
    trace.turns().filter_map(|turn| turn.signals.get(GAIN_SIGNAL)).last().copied()
}

/// The edits of one search, or of all of them, ordered by task, round and trace.
pub(crate) async fn read(store: &dyn Database, tenant: &Tenant, search: Option<&str>) -> Result<Vec<Edit>, Failure> {
    let field = search.map(|search| Field { path: format!("metadata.{SEARCH}"), value: search.to_owned() });
    let category = hone_trace::Category::new("arc").map_err(Failure::bug)?;
    let query = TraceQuery { tenant: Some(tenant.clone()), category: Some(category), field, ..TraceQuery::default() };
    let (mut edits, mut after) = (Vec::new(), None);
    loop {
        let page = store.traces(&query, after, PAGE_LEN).await?;
        edits.extend(page.items.into_iter().filter_map(Edit::of));
        if edits.len() > EDITS_MAX {
            return Err(Failure::user(format_args!("there are more than {EDITS_MAX} edits")).hint("name one search with --run"));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    edits.sort_by(|a, b| {
        let key = |edit: &Edit| (edit.origin.task.clone(), edit.origin.round, edit.trace.id);
        key(a).cmp(&key(b))
    });
    Ok(edits)
}
