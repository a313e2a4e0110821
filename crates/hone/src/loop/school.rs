//! From recorded episodes to an adapter: is the pool fit, a batch of its best, imitation of that, and practice.

use crate::clock::now;
use crate::context::Context;
use crate::data::{Made, Order, SHOWN};
use crate::deploy::word;
use crate::failure::{Failure, at_path};
use crate::train::{Finished, RunArgs, imitate, practise};
use hone_data::facts::Facts;
use hone_data::gate::{Bars, Checker, Dirt, HeldOut, Pool, Purpose, Verdict, personal};
use hone_data::prepare::{Output, Plan};
use hone_gateway::demonstrations::Demonstrations;
use hone_store::Database;
use hone_trace::{Trace, TraceId};
use hone_train::settings::Given;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The reward from which an episode is imitated: it was solved, whatever it took.
const QUALITY: f64 = 0.5;

/// Where an agent goes to school.
pub(super) struct School<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) runtime: &'a Runtime,
    pub(super) store: &'a Arc<dyn Database>,
    /// The name of the loop and the number of its turn, which runs and batches are called by.
    pub(super) name: String,
    pub(super) threads: Option<u16>,
}

/// A batch to learn from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) folder: PathBuf,
    pub(super) n_traces: u64,
    /// Those of the part to learn from of which people said what their answers should have been.
    #[serde(default)]
    pub(super) n_shown: u64,
}

/// A run that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Trained {
    /// Where its adapter is.
    pub(super) folder: PathBuf,
    /// Why it ended, and whether it did not have to be stopped.
    pub(super) why: String,
    pub(super) is_well: bool,
}

/// What asks for the bar of a gate, where a setting does.
fn asked_by(gate: &str, purpose: Purpose) -> &'static str {
    match (gate, purpose) {
        ("points", Purpose::Sft) => ", which `sft_points` of `[data]` asks for",
        ("points", Purpose::Rl) => ", which `rl_points` of `[data]` asks for",
        ("clean", _) => ", which `clean_percent` of `[data]` asks for",
        ("task_types", _) => ", which `task_types` and `task_points` of `[data]` ask for",
        ("leaks", _) => ", which `held_out` of `[data]` holds out",
        ("consent", _) => ", which `consent` of `[data]` does not name",
        _ => "",
    }
}

/// What batches and runs of a turn of a loop are called by. `desk-2` is the second loop, not the second turn of the first.
pub(super) fn called(name: &str, turn: u32) -> String {
    if turn == 1 { name.to_owned() } else { format!("{name}-turn-{turn}") }
}

impl School<'_> {
    fn bars(&self, purpose: Purpose) -> Bars {
        let data = &self.context.settings.data;
        Bars {
            purpose,
            points: if purpose == Purpose::Sft { data.sft_points } else { data.rl_points },
            quality: QUALITY,
            clean: data.clean,
            task_types: data.task_types,
            task_points: data.task_points,
            likeness: data.likeness,
        }
    }

    /// The episodes that are worth a place in the pool: each says something of its own, and nothing personal. Also says why others
    /// are left out.
    pub(super) fn curate(&self, traces: Vec<Trace>, held_out: &HeldOut) -> (Vec<Trace>, BTreeMap<&'static str, usize>) {
        let data = &self.context.settings.data;
        let mut checker = Checker::of(&self.bars(Purpose::Sft), held_out.clone());
        let mut left_out = BTreeMap::new();
        let mut why = |trace: &Trace| match checker.check(trace, &Facts::of(trace, &data.user_field)) {
            Some(Dirt::Duplicate(_) | Dirt::NearDuplicate(_)) => Some("said before"),
            Some(Dirt::Leak(_)) => Some("held out"),
            _ => personal(trace).map(|_| "personal data"),
        };
        let pool = traces.into_iter().filter(|trace| match why(trace) {
            Some(why) => {
                *left_out.entry(why).or_default() += 1;
                false
            }
            None => true,
        });
        (pool.collect(), left_out)
    }

    /// What the gates say of a pool.
    fn gate(&self, purpose: Purpose, pool: &[Trace], held_out: &HeldOut) -> Verdict {
        let settings = &self.context.settings;
        let mut gates = Pool::new(self.bars(purpose), settings.tenant.clone(), settings.data.consent.clone(), held_out.clone());
        pool.iter().for_each(|trace| gates.add(trace, &Facts::of(trace, &settings.data.user_field)));
        gates.verdict()
    }

    /// Whether a pool is fit to be imitated and to be reinforced; says what every gate found.
    pub(super) fn is_fit(&self, pool: &[Trace], held_out: &HeldOut, say: impl Fn(&str)) -> Result<bool, Failure> {
        let mut is_fit = true;
        for purpose in [Purpose::Sft, Purpose::Rl] {
            let verdict = self.gate(purpose, pool, held_out);
            let tenant = self.context.settings.tenant.clone();
            self.runtime.block_on(hone_gateway::gates::tell(&**self.store, &verdict, tenant, now()))?;
            let Verdict { pass, gates, .. } = verdict;
            let told: Vec<String> =
                gates.iter().map(|gate| format!("{} {} of {}", gate.name, (gate.value * 1e4).round() / 1e4, gate.bar)).collect();
            let verdict = if pass { "passes" } else { "is refused" };
            say(&format!("{} {verdict}: {}", word(&purpose), told.join(", ")));
            for gate in gates.iter().filter(|gate| !gate.pass) {
                let records = gate.records.iter().zip(&gate.why).map(|(record, why)| format!("; {record} {why}"));
                let (value, bar) = ((gate.value * 1e4).round() / 1e4, gate.bar);
                let records = records.collect::<String>();
                let asked = asked_by(gate.name, purpose);
                self.context.printer.complain(&format!("gate `{}` refuses: {value} of {bar}{asked}{records}", gate.name));
            }
            is_fit &= pass;
        }
        Ok(is_fit)
    }

    /// A batch of what may be learned from: clean, private, balanced over types of task.
    pub(super) fn prepare(
        &self,
        purpose: Purpose,
        pool: &[Trace],
        said: &Demonstrations,
        held_out: HeldOut,
        plan: Plan,
    ) -> Result<Batch, Failure> {
        let settings = &self.context.settings;
        let folder = settings.folder.join("batches");
        fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        let folder = folder.join(&self.name);
        let order = Order { out: &folder, bars: self.bars(purpose), plan, key: &settings.data.key_file, map: None, held_out };
        match self.runtime.block_on(order.of(pool, said, &**self.store, self.context))? {
            Made::Batch { manifest, .. } => {
                let (shown, parts): (Vec<_>, Vec<_>) = manifest.outputs.iter().partition(|output| output.file == SHOWN);
                let n = |outputs: Vec<&Output>| outputs.iter().map(|output| output.traces).sum();
                Ok(Batch { folder, n_traces: n(parts), n_shown: n(shown) })
            }
            Made::TooFew { n_points, .. } => Err(Failure::bug(format_args!("{n_points} points passed the gate and are too few"))),
        }
    }

    /// Warms an adapter up by imitating a batch, from where another run ended if one is named.
    pub(super) fn warm_up(&self, model: &str, batch: &Batch, from: Option<&str>, given: &Given) -> Result<Trained, Failure> {
        let mut traces = read(&batch.folder.join("train.jsonl"))?;
        if batch.n_shown > 0 {
            // Where people gave an answer, theirs is imitated, however good the other was.
            let shown = read(&batch.folder.join(SHOWN))?;
            let corrected: HashSet<TraceId> = shown.iter().map(|trace| trace.id).collect();
            traces.retain(|trace| !corrected.contains(&trace.id));
            traces.extend(shown);
        }
        // By what was said, not by ids, which another loop of the same seed does not share.
        let said = |trace: &Trace| -> Vec<String> {
            let messages = trace.turns().flat_map(|turn| turn.input.iter().chain([&turn.answer]));
            messages.map(|message| message.content.text()).collect()
        };
        traces.sort_by_cached_key(said);
        self.imitate(model, &traces, from, given)
    }

    /// Imitates traces.
    pub(super) fn imitate(&self, model: &str, traces: &[Trace], from: Option<&str>, given: &Given) -> Result<Trained, Failure> {
        let run = RunArgs::part(&self.run("sft"), model, None, from, self.threads, self.context)?;
        imitate(&run, given, traces, self.context).map(Trained::from)
    }

    /// Improves the adapter by GRPO, in a world and by its recipe.
    pub(super) fn practise(
        &self,
        model: &str,
        env: &str,
        given: &Given,
        is_control: bool,
        judge: Option<&str>,
    ) -> Result<Trained, Failure> {
        let run =
            RunArgs::part(&self.run("grpo"), model, Some(env), Some(&self.run("sft")), self.threads, self.context)?.judged(judge);
        let trained = practise(&run, given, is_control, self.context).map(Trained::from)?;
        // Which step was best is told by tasks whose answers are known: a control must not know that either.
        let last = trained.folder.with_file_name("adapter");
        Ok(if is_control { Trained { folder: last, ..trained } } else { trained })
    }

    /// What a run is called.
    pub(super) fn run(&self, method: &str) -> String {
        format!("{}-{method}", self.name)
    }
}

impl From<Finished> for Trained {
    fn from(finished: Finished) -> Self {
        Self { why: finished.why().to_owned(), is_well: finished.is_well(), folder: finished.folder }
    }
}

/// The traces of a file of JSON lines.
fn read(path: &Path) -> Result<Vec<Trace>, Failure> {
    let text = fs::read_to_string(path).map_err(at_path(path))?;
    let trace = |line: &str| serde_json::from_str(line).map_err(|error| Failure::world(error).context(path.display()));
    text.lines().map(trace).collect()
}
