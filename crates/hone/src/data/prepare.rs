//! `hone data prepare`: traces of the store as a batch that is clean, private, balanced and divided.
//!
//! The store is read twice: once to see what is there, once to write what was chosen. The batch is written beside its place and moved
//! there when all of it is durable, so that half a batch never looks like a whole one. Until then its folder is held: two processes
//! never write to one place, and nothing there that is not of a batch is touched.

use super::{PurposeName, demonstrations, each, held_out, key, reveal};
use crate::context::Context;
use crate::durable;
use crate::failure::{Exit, Failure, at_path};
use crate::held;
use crate::printer::counted;
use crate::settings::Data;
use crate::standing::Configs;
use crate::trace::Filter;
use hone_data::anonymise::{Anonymiser, Key};
use hone_data::facts::Facts;
use hone_data::gate::{Bars, Checker, HeldOut, Purpose};
use hone_data::prepare::{Digest, Manifest, Output, Plan, Rules, choose, disguise};
use hone_gateway::demonstrations::Demonstrations;
use hone_store::Database;
use hone_trace::env::Split;
use hone_trace::format::{self, Format};
use hone_trace::{Tenant, Trace, V1};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Make a clean, private, balanced batch of traces, divided without leaks
///
/// Traces that are not clean, earned too little or belong to what is held out are left out; so are those of tenants without consent.
/// The rest loses its personal data, is balanced over types of task and difficulty, and divided so that no family of scenarios and no
/// user is on two sides. DIR holds train.jsonl, validation.jsonl and test.jsonl, which `hone trace import` reads, and manifest.json. The same store,
/// settings and key give the same bytes. Exit code 1 when there are too few points.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to write, which must not be there yet, or be this very batch
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What the data is for
    #[arg(long = "for", value_enum, default_value_t = PurposeName::Sft, value_name = "PURPOSE")]
    purpose: PurposeName,
    /// The fewest traces of a batch, instead of `data.sft_points` or `data.rl_points`
    #[arg(long, value_name = "N")]
    at_least: Option<u64>,
    /// The most traces of a batch
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    at_most: u64,
    /// The reward from which a trace is worth imitating, in hundredths
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    quality: Option<i64>,
    /// A file with what is held out for tests, instead of `data.held_out`
    #[arg(long, value_name = "FILE")]
    held_out: Option<PathBuf>,
    /// The share that is kept to choose by
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=40))]
    validation: u8,
    /// The share that is kept to report
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=40))]
    test: u8,
    /// The seed of what is drawn; another one also gives other pseudonyms
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file with the key of pseudonyms, instead of `data.key_file`
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Write what the pseudonyms stand for to this new file, sealed by the key
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    #[command(flatten)]
    filter: Filter,
}

/// Which traces there are.
struct Seen {
    candidates: Vec<Facts>,
    n: u64,
    left_out: BTreeMap<String, u64>,
}

/// The most traces that are weighed against each other.
const N_CANDIDATES_MAX: usize = 2_000_000;

/// A batch that is wanted.
pub(crate) struct Order<'a> {
    pub(crate) out: &'a Path,
    pub(crate) bars: Bars,
    pub(crate) plan: Plan,
    pub(crate) key: &'a Path,
    pub(crate) map: Option<&'a Path>,
    pub(crate) held_out: HeldOut,
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store_to_read().await?;
    let data = &context.settings.data;
    let bars = bars(args, context);
    check(args, &bars)?;
    let order = Order {
        out: &args.out,
        bars,
        plan: Plan {
            seed: args.seed,
            points_max: usize::try_from(args.at_most).unwrap_or(usize::MAX),
            validation: f64::from(args.validation) / 100.0,
            test: f64::from(args.test) / 100.0,
        },
        key: args.key.as_deref().unwrap_or(&data.key_file),
        map: args.map.as_deref(),
        held_out: held_out(args.held_out.as_deref().or(data.held_out.as_deref()), &data.user_field)?,
    };
    let mut looker = Looker::new(&order, context);
    let said = demonstrations(&*store, order.bars.purpose).await?;
    each(&*store, &args.filter.query(context), &said, context, |trace| looker.see(trace)).await?;
    match order.make(looker.seen, &*store, &said, context).await? {
        Made::Batch { manifest, is_new } => report(&manifest, args, is_new, context),
        Made::TooFew { n_points, left_out } => {
            let bar = order.bars.points;
            let text = format!("{n_points} of at least {bar} points: nothing was written{}", told(&left_out));
            context.printer.complain(&format!("{text}; `--at-least` says what is enough"));
            Ok(Exit::No)
        }
    }
}

/// What came of an order.
pub(crate) enum Made {
    Batch { manifest: Box<Manifest>, is_new: bool },
    TooFew { n_points: u64, left_out: BTreeMap<String, u64> },
}

impl Order<'_> {
    /// Makes a batch of those of these traces of the store that can be learned from, with what people said their answers should have been.
    pub(crate) async fn of(
        &self,
        traces: &[Trace],
        said: &Demonstrations,
        store: &dyn Database,
        context: &Context<'_>,
    ) -> Result<Made, Failure> {
        let mut looker = Looker::new(self, context);
        traces.iter().for_each(|trace| looker.see(trace));
        self.make(looker.seen, store, said, context).await
    }

    async fn make(
        &self,
        seen: Seen,
        store: &dyn Database,
        said: &Demonstrations,
        context: &Context<'_>,
    ) -> Result<Made, Failure> {
        let batch = choose(&seen.candidates, &self.plan, self.bars.purpose);
        // A group that no longer fits leaves fewer in the batch than it may have.
        let is_short = batch.len() < self.plan.points_max && (batch.len() as u64) < self.bars.points;
        let n_points = if is_short { batch.len() } else { seen.candidates.len() } as u64;
        if n_points < self.bars.points {
            return Ok(Made::TooFew { n_points, left_out: seen.left_out });
        }
        let key = key::open_or_make(self.key)?;
        let batch_key = key.of_batch(&self.plan.seed.to_string());
        let worker = match self.map {
            Some(_) => Anonymiser::remembering(batch_key.clone()),
            None => Anonymiser::new(batch_key.clone()),
        };
        let mut writer = Writer::new(self.out, worker, batch_key)?;
        let (bar, mut configs) = (context.printer.count_bar("traces"), Configs::default());
        for (idx, part) in batch {
            let facts = &seen.candidates[idx];
            let gone = || Failure::user(format_args!("trace {} is no longer in the store", facts.id));
            let trace = configs.instructed(store, store.trace(facts.id).await?.ok_or_else(gone)?).await?;
            let user_field = &context.settings.data.user_field;
            let better = said.better(store, &trace).await?;
            match (better, self.bars.purpose) {
                (Some(better), Purpose::Sft) => writer.write(better, facts, part, user_field)?,
                // What is played again goes as it went; what people said is beside it, to be imitated first.
                (Some(better), Purpose::Rl) if part == Split::Train => {
                    writer.write(trace, facts, part, user_field)?;
                    writer.show(better, user_field)?;
                }
                _ => writer.write(trace, facts, part, user_field)?,
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let manifest = Box::new(writer.finish(self.plan, Rules::of(&self.bars), &key, seen)?);
        let is_new = !writer.is_there()?;
        if let Some(path) = self.map {
            reveal::seal(path, writer.worker.replaced(), &key.of_map())?;
        }
        if is_new {
            writer.publish()?;
        }
        Ok(Made::Batch { manifest, is_new })
    }
}

/// Says early what would fail late.
fn check(args: &Args, bars: &Bars) -> Result<(), Failure> {
    let inside = [&args.map, &args.key].into_iter().flatten().find(|path| path.starts_with(&args.out));
    if let Some(path) = inside {
        return Err(
            Failure::user(format_args!("{} is inside of the batch", path.display())).hint("keep keys and maps away from it")
        );
    }
    if let Some(map) = args.map.as_deref().filter(|map| map.exists()) {
        return Err(Failure::user(format_args!("{} is there already", map.display())).hint("name another file with `--map`"));
    }
    if args.at_most < bars.points {
        return Err(Failure::user(format_args!(
            "at most {} is fewer than the {} that a batch must have",
            args.at_most, bars.points
        ))
        .hint("`--at-least` lowers what it must have"));
    }
    Ok(())
}

fn bars(args: &Args, context: &Context<'_>) -> Bars {
    let data = &context.settings.data;
    let purpose = Purpose::from(args.purpose);
    let points = if purpose == Purpose::Sft { data.sft_points } else { data.rl_points };
    Bars {
        purpose,
        points: args.at_least.unwrap_or(points),
        quality: args.quality.map_or(data.quality, |percent| percent as f64 / 100.0),
        clean: data.clean,
        task_types: data.task_types,
        task_points: data.task_points,
        likeness: data.likeness,
    }
}

/// Keeps of every trace that may be taken what it is chosen by.
struct Looker<'a> {
    own: &'a Tenant,
    data: &'a Data,
    checker: Checker,
    seen: Seen,
}

impl<'a> Looker<'a> {
    fn new(order: &'a Order<'_>, context: &'a Context<'_>) -> Self {
        let checker = Checker::of(&order.bars, order.held_out.clone());
        let seen = Seen { candidates: Vec::new(), n: 0, left_out: BTreeMap::new() };
        Self { own: &context.settings.tenant, data: &context.settings.data, checker, seen }
    }

    fn see(&mut self, trace: &Trace) {
        let facts = Facts::of(trace, &self.data.user_field);
        let has_consent = trace.tenant == *self.own || self.data.consent.contains(&trace.tenant);
        let why = match has_consent {
            false => Some("consent"),
            true => {
                let dirt = self.checker.check(trace, &facts).map(|dirt| dirt.name());
                dirt.or_else(|| (!self.checker.is_point(trace)).then_some("quality"))
            }
        };
        let seen = &mut self.seen;
        match why {
            Some(why) => *seen.left_out.entry(why.to_owned()).or_default() += 1,
            None if seen.candidates.len() < N_CANDIDATES_MAX => seen.candidates.push(facts),
            None => *seen.left_out.entry("beyond_limit".to_owned()).or_default() += 1,
        }
        seen.n += 1;
    }
}

/// Writes a batch beside its place.
struct Writer {
    folder: PathBuf,
    partial: PathBuf,
    /// The folder that is written to, which no other process writes to while this is open.
    _held: File,
    worker: Anonymiser,
    key: Key,
    parts: BTreeMap<&'static str, Part>,
    input: Digest,
    tasks: BTreeMap<String, BTreeMap<&'static str, u64>>,
    n_not_private: u64,
    /// Turns that lost sampled tokens because these spelled an id.
    n_turns_without_ids: u64,
}

struct Part {
    path: PathBuf,
    file: BufWriter<File>,
    output: Output,
    digest: Digest,
}

impl Part {
    fn new(folder: &Path, name: &str) -> Result<Self, Failure> {
        let path = folder.join(name);
        let file = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(at_path(&path))?);
        let output = Output { file: name.to_owned(), traces: 0, bytes: 0, hash: String::new() };
        Ok(Self { path, file, output, digest: Digest::default() })
    }

    fn add(&mut self, trace: &Trace) -> Result<(), Failure> {
        let line = format::write(trace, Format::Hone) + "\n";
        self.digest.add(line.as_bytes());
        self.output.traces += 1;
        self.output.bytes += line.len() as u64;
        self.file.write_all(line.as_bytes()).map_err(at_path(&self.path))
    }
}

const MANIFEST: &str = "manifest.json";
/// The answers of people to what is in the part to learn from, where that is not for imitation.
pub(crate) const SHOWN: &str = "shown.jsonl";

impl Writer {
    fn new(folder: &Path, worker: Anonymiser, key: Key) -> Result<Self, Failure> {
        // Without a slash at its end, behind which the name would go on.
        let folder: PathBuf = folder.components().collect();
        let mut partial = folder.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let held = hold(&partial, &folder)?;
        clear(&partial)?;
        let mut parts = BTreeMap::new();
        for split in Split::ALL {
            parts.insert(split.as_str(), Part::new(&partial, &format!("{}.jsonl", split.as_str()))?);
        }
        Ok(Self {
            folder,
            partial,
            _held: held,
            worker,
            key,
            parts,
            input: Digest::default(),
            tasks: BTreeMap::new(),
            n_not_private: 0,
            n_turns_without_ids: 0,
        })
    }

    fn write(&mut self, trace: Trace, facts: &Facts, split: Split, user_field: &str) -> Result<(), Failure> {
        let Some(trace) = self.private(trace, split, user_field) else { return Ok(()) };
        let category = trace.category.as_ref().map_or_else(String::new, ToString::to_string);
        *self.tasks.entry(category).or_default().entry(facts.difficulty.as_str()).or_default() += 1;
        self.parts.get_mut(split.as_str()).ok_or_else(|| Failure::bug("a part without a file"))?.add(&trace)
    }

    /// Writes a trace with the answers of people beside the part to learn from.
    fn show(&mut self, better: Trace, user_field: &str) -> Result<(), Failure> {
        let Some(better) = self.private(better, Split::Train, user_field) else { return Ok(()) };
        if !self.parts.contains_key(SHOWN) {
            self.parts.insert(SHOWN, Part::new(&self.partial, SHOWN)?);
        }
        self.parts.get_mut(SHOWN).ok_or_else(|| Failure::bug("a part without a file"))?.add(&better)
    }

    /// A trace without anything personal, and nothing where that cannot be reached.
    fn private(&mut self, mut trace: Trace, split: Split, user_field: &str) -> Option<Trace> {
        self.input.add(format::write(&trace, Format::Hone).as_bytes());
        self.worker.trace(&mut trace);
        self.n_turns_without_ids += disguise(&mut trace, &self.key, split, user_field);
        let is_private = is_private(&trace);
        self.n_not_private += u64::from(!is_private);
        is_private.then_some(trace)
    }

    /// Makes all files durable, the manifest last.
    fn finish(&mut self, plan: Plan, rules: Rules, key: &Key, seen: Seen) -> Result<Manifest, Failure> {
        let mut outputs = Vec::new();
        for part in self.parts.values_mut() {
            part.file.flush().and_then(|()| part.file.get_ref().sync_all()).map_err(at_path(&part.path))?;
            part.output.hash = part.digest.hex();
            outputs.push(part.output.clone());
        }
        let mut left_out = seen.left_out;
        if self.n_not_private > 0 {
            left_out.insert("not_private".to_owned(), self.n_not_private);
        }
        let mut anonymised = self.worker.report().clone();
        anonymised.turns_without_tokens += self.n_turns_without_ids;
        let manifest = Manifest {
            v: V1,
            plan,
            rules,
            key: key.fingerprint(),
            seen: seen.n,
            left_out,
            input: self.input.hex(),
            tasks: std::mem::take(&mut self.tasks),
            anonymised,
            outputs,
        };
        let text = serde_json::to_string_pretty(&manifest).map_err(Failure::world)?;
        durable::write(&self.partial.join(MANIFEST), &(text + "\n"))?;
        Ok(manifest)
    }

    /// Whether the very same batch is in its place; what was written beside it then goes. Anything else there is an error.
    fn is_there(&self) -> Result<bool, Failure> {
        if !self.folder.exists() {
            return Ok(false);
        }
        let read = |folder: &Path| fs::read(folder.join(MANIFEST));
        let is_same = matches!((read(&self.folder), read(&self.partial)), (Ok(one), Ok(other)) if one == other);
        clear(&self.partial)?;
        fs::remove_dir(&self.partial).map_err(at_path(&self.partial))?;
        if is_same {
            return self.check_published().map(|()| true);
        }
        Err(Failure::user(format_args!("{} is there already, and is not this batch", self.folder.display()))
            .hint("name another folder with `--out`"))
    }

    /// Moves the batch to its place.
    fn publish(&self) -> Result<(), Failure> {
        fs::rename(&self.partial, &self.folder).map_err(at_path(&self.folder))?;
        durable::name(&self.folder)
    }

    /// Whether the files in place are still those of the manifest.
    fn check_published(&self) -> Result<(), Failure> {
        for output in self.parts.values().map(|part| &part.output) {
            let path = self.folder.join(&output.file);
            if hash_of(&path).map_err(at_path(&path))? != output.hash {
                return Err(Failure::user(format_args!("{} is not what {MANIFEST} beside it says", path.display()))
                    .hint("name another folder with `--out`"));
            }
        }
        Ok(())
    }
}

/// Times that a folder may be moved away by who held it before.
const N_HOLDS_MAX: usize = 100;

/// Makes this folder, if it is not there, and holds it for this process alone as long as what it returns lives; a kill lets it go too.
fn hold(partial: &Path, folder: &Path) -> Result<File, Failure> {
    let busy = || {
        Failure::user(format_args!("{} is being written by another process", folder.display()))
            .hint("wait for it, or name another folder with `--out`")
    };
    for _ in 0..N_HOLDS_MAX {
        fs::create_dir_all(partial).map_err(at_path(partial))?;
        let held = match File::open(partial) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            opened => held::hold(opened.map_err(at_path(partial))?, partial, busy)?,
        };
        // Who held it may have moved it to its place since it was opened.
        let is_there = match (held.metadata(), fs::metadata(partial)) {
            (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
            _ => false,
        };
        if is_there {
            return Ok(held);
        }
    }
    Err(busy())
}

/// Removes what a killed process left in this folder, and refuses what is not of a batch.
fn clear(partial: &Path) -> Result<(), Failure> {
    let mut ours: Vec<String> = Split::ALL.iter().map(|split| format!("{}.jsonl", split.as_str())).collect();
    ours.extend([MANIFEST.to_owned(), format!("{MANIFEST}.partial"), SHOWN.to_owned()]);
    let mut paths = Vec::new();
    for entry in fs::read_dir(partial).map_err(at_path(partial))? {
        let entry = entry.map_err(at_path(partial))?;
        if !entry.file_name().to_str().is_some_and(|name| ours.iter().any(|known| known == name)) {
            return Err(Failure::user(format_args!("{} is in the way, and is not of a batch", entry.path().display()))
                .hint("move it away, or name another folder with `--out`"));
        }
        paths.push(entry.path());
    }
    paths.iter().try_for_each(|path| fs::remove_file(path).map_err(at_path(path)))
}

fn hash_of(path: &Path) -> std::io::Result<String> {
    let (mut file, mut digest, mut bytes) = (File::open(path)?, Digest::default(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(digest.hex()),
            n => digest.add(&bytes[..n]),
        }
    }
}

/// Whether a second pass finds nothing: only then a trace leaves with the batch.
fn is_private(trace: &Trace) -> bool {
    !Anonymiser::new(Key::new([0; 32])).trace(&mut trace.clone())
}

fn report(manifest: &Manifest, args: &Args, is_new: bool, context: &Context<'_>) -> Result<Exit, Failure> {
    let printer = context.printer;
    let sides = [("validation", args.validation), ("test", args.test)].into_iter().filter(|(_, share)| *share > 0);
    let is_empty = |side: &str| manifest.outputs.iter().all(|output| output.traces == 0 || !output.file.starts_with(side));
    for (side, _) in sides.filter(|(side, _)| is_empty(side)) {
        let why = "too few different questions, of which one family is never on two sides";
        printer.complain(&format!("nothing is held out for {side}: {why}; `--{side} 0` asks for none"));
    }
    if printer.wants_json() {
        printer.json(manifest)?;
        return Ok(Exit::Yes);
    }
    let rows: Vec<Vec<String>> =
        manifest.anonymised.replaced.iter().map(|(kind, n)| vec![kind.to_string(), n.to_string()]).collect();
    if rows.is_empty() {
        printer.plain("nothing was replaced")?;
    } else {
        printer.table(&["replaced", "times"], &rows)?;
    }
    let sizes: Vec<String> = manifest.outputs.iter().map(|output| format!("{} in {}", output.traces, output.file)).collect();
    printer.say(&format!("{} looked at{}", counted(manifest.seen, "trace"), told(&manifest.left_out)));
    if manifest.anonymised.turns_without_tokens > 0 {
        printer.say(&format!(
            "{} lost sampled tokens that spelled personal data",
            counted(manifest.anonymised.turns_without_tokens, "turn")
        ));
    }
    let verb = if is_new { "wrote" } else { "the same batch is there:" };
    printer.say(&format!("{verb} {}: {}", args.out.display(), sizes.join(", ")));
    Ok(Exit::Yes)
}

fn told(left_out: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = left_out.iter().map(|(why, n)| format!("{n} {why}")).collect();
    if parts.is_empty() { String::new() } else { format!("; left out: {}", parts.join(", ")) }
}
