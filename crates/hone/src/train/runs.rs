//! The runs that there are: one folder each under `.hone/runs`. A run is its tenant's: for any other there is none of its name, but the
//! name is taken.
//!
//! `run.json` says what a run was started with and does not change; `metrics.jsonl` grows with every step; `end.json` appears when
//! the run has ended, with the reason. A run without it is at work, and holds its
//! `lock`; or it was cut off and waits to be resumed.

use super::metrics::{self, Metrics};
use crate::failure::{Failure, at_path};
use crate::held;
use crate::model::{ModelHash, is_name};
use crate::settings::Settings;
use hone_store::Place;
use hone_trace::{Tenant, V1};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const RUN_FILE: &str = "run.json";
const END_FILE: &str = "end.json";
const LOCK_FILE: &str = "lock";

/// Why a run ended whose best step a person named.
pub(crate) const PREFERRED: &str = "preferred";

/// Why a run ended in which somebody pressed Ctrl-C.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// What a run was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) v: V1,
    pub(crate) name: String,
    /// How it learns, such as `grpo`.
    pub(crate) method: String,
    pub(crate) model: String,
    /// What the name of the model stood for. Runs that began before it was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model_hash: Option<ModelHash>,
    /// The world it plays, if it plays one.
    pub(crate) env: Option<String>,
    pub(crate) seed: u64,
    pub(crate) settings: BTreeMap<String, Value>,
    pub(crate) fork: Option<Fork>,
    /// Whose it is. Runs that began before it was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Tenant>,
}

/// Whose a run is, whatever else stands in its record.
#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    tenant: Option<Tenant>,
}

/// Where a run left another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fork {
    pub(crate) run: String,
    pub(crate) step: u64,
    /// Each setting that is another now, with its value before and after.
    pub(crate) changes: BTreeMap<String, (Value, Value)>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// In a word, such as `plateau`.
    pub(crate) reason: String,
    /// In a sentence.
    pub(crate) why: String,
    pub(crate) step: u64,
    pub(crate) best_step: Option<u64>,
}

impl End {
    /// Whether a person ended it, by taking a step's adapter for the best.
    pub(crate) fn is_preferred(&self) -> bool {
        self.reason == PREFERRED
    }
}

/// A run with all that is known of it.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) run: Run,
    pub(crate) metrics: Metrics,
    pub(crate) end: Option<End>,
    pub(crate) files: Files,
    /// Whether a process is at work on it, where that is known.
    pub(crate) is_at_work: Option<bool>,
}

/// Where the files of a run are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Files {
    /// In this folder.
    Here,
    /// On the machine of this name, where it said one: all that is known is what the store holds.
    Elsewhere(Option<String>),
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::Elsewhere(Some(machine)) => write!(f, "on {machine}"),
            Self::Elsewhere(None) => f.write_str("on another machine"),
        }
    }
}

impl Run {
    /// Everything it was started with but its name, as text.
    pub(crate) fn facts(&self) -> Vec<(&str, String)> {
        let own = [("method", self.method.clone()), ("model", self.model.clone())];
        let env = self.env.clone().map(|env| ("env", env));
        let settings = self.settings.iter().map(|(key, value)| (key.as_str(), text(value)));
        own.into_iter().chain(env).chain([("seed", self.seed.to_string())]).chain(settings).collect()
    }
}

impl Recorded {
    /// What tells a good step from a bad one: held-out tasks where they are measured, the reward otherwise.
    pub(crate) fn measure(&self) -> &'static str {
        if self.metrics.highest("validation").is_some() { "validation" } else { "reward" }
    }

    /// The best step: the one the run itself named, or else the one with the highest measure.
    pub(crate) fn best_step(&self) -> Option<u64> {
        let named = self.end.as_ref().and_then(|end| end.best_step);
        named.or_else(|| self.metrics.highest(self.measure()).map(|(step, _)| step))
    }

    /// How it ended, in a word.
    pub(crate) fn ended(&self) -> &str {
        let open = if self.is_cut_off() { "cut off" } else { "not ended" };
        self.end.as_ref().map_or(open, |end| &end.reason)
    }

    /// Whether its process is gone before it ended.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.end.is_none() && self.is_at_work == Some(false)
    }

    /// What is to be said where it was cut off: how it goes on.
    pub(crate) fn way_on(&self, settings: &Settings) -> Option<String> {
        let way_on = || settings.again(&format!("hone train {} --run {} --resume", self.run.method, self.run.name));
        self.is_cut_off().then(|| {
            let step = self.metrics.last_step().unwrap_or(0);
            format!("`{}` was cut off after step {step}: its process is gone; it goes on with `{}`", self.run.name, way_on())
        })
    }

    /// What is to be said where its files are not here.
    pub(crate) fn notice(&self) -> Option<String> {
        let is_here = self.files == Files::Here;
        (!is_here).then(|| format!("{} is {}: this is what the store holds of it", self.run.name, self.files))
    }

    /// What is odd about its files.
    pub(crate) fn warning(&self) -> Option<String> {
        self.metrics
            .is_cut
            .then(|| format!("{}: the last line of {} is cut short, and skipped", self.run.name, metrics::FILE_NAME))
    }
}

/// All of them that a tenant has.
pub(crate) struct Runs {
    folder: PathBuf,
    tenant: Tenant,
    /// Whether the store is elsewhere, where others may write to it too.
    is_shared: bool,
}

impl Runs {
    pub(crate) fn of(settings: &Settings) -> Self {
        let (folder, tenant) = (settings.folder.join("runs"), settings.tenant.clone());
        Self { folder, tenant, is_shared: matches!(settings.place, Place::Postgres(_)) }
    }

    /// Whether others may have runs in the same store.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Where a run stands, or will.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        if is_name(name) {
            return Ok(self.folder.join(name));
        }
        Err(Failure::user(format_args!("`{name}` is not a name")).hint("a run is named by letters, digits, `-`, `_` and `.`"))
    }

    /// Their names, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>, Failure> {
        let folders = match fs::read_dir(&self.folder) {
            Ok(folders) => folders,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at_path(&self.folder)(error)),
        };
        let mut names = Vec::new();
        for folder in folders {
            let folder = folder.map_err(at_path(&self.folder))?;
            let name = folder.file_name().to_string_lossy().into_owned();
            if is_name(&name) && self.has(&name)? {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The run of this name with all that is known of it.
    pub(crate) fn read(&self, name: &str) -> Result<Recorded, Failure> {
        let folder = self.folder(name)?;
        let run = record::<Run>(&folder.join(RUN_FILE))?.filter(|run| self.is_own(run.tenant.as_ref()));
        let Some(run) = run else { return Err(self.unknown(name)?) };
        // A folder that was copied or renamed is found by the name it has now.
        let run = Run { name: name.to_owned(), ..run };
        let metrics = Metrics::read(&folder.join(metrics::FILE_NAME))?;
        // Who is at work lets go after it has said how it ended, so that is read last.
        let is_at_work = held::is_held(&folder.join(LOCK_FILE));
        Ok(Recorded { run, metrics, end: record(&folder.join(END_FILE))?, files: Files::Here, is_at_work })
    }

    /// Whether the tenant has a run of this name in this folder. One that does not say whose it is, or cannot be read, is everybody's.
    pub(crate) fn has(&self, name: &str) -> Result<bool, Failure> {
        let path = self.folder(name)?.join(RUN_FILE);
        let owner = || record::<Owner>(&path).ok().flatten().and_then(|owner| owner.tenant);
        Ok(path.exists() && self.is_own(owner().as_ref()))
    }

    fn is_own(&self, owner: Option<&Tenant>) -> bool {
        owner.is_none_or(|owner| *owner == self.tenant)
    }

    /// Refuses a name that is not free in this folder.
    pub(crate) fn is_free_here(&self, name: &str) -> Result<(), Failure> {
        if !self.folder(name)?.join(RUN_FILE).exists() {
            return Ok(());
        }
        let way_out = match self.has(name)? {
            true => "go on with it by --resume, or give this one another name",
            false => "it is another tenant's: give this one another name",
        };
        Err(Failure::user(format_args!("there is a run `{name}` already")).hint(way_out))
    }

    /// Writes down what a run was started with. A name stands for one run: other settings want another name.
    pub(crate) fn begin(&self, run: &Run) -> Result<PathBuf, Failure> {
        let folder = self.folder(&run.name)?;
        fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        match record::<Run>(&folder.join(RUN_FILE))? {
            None => write(&folder.join(RUN_FILE), run).map(|()| folder),
            // A folder that was copied or renamed is found by the name that it has now.
            Some(known) => {
                let known = Run { name: run.name.clone(), ..known };
                if known == *run {
                    return Ok(folder);
                }
                let keys: Vec<&str> = differences(&known, run).into_iter().map(|(key, _, _)| key).collect();
                let what = if keys.is_empty() { "fork".to_owned() } else { keys.join(", ") };
                Err(Failure::user(format_args!("the run `{}` is there already with another {what}", run.name))
                    .hint("give the new one a name of its own"))
            }
        }
    }

    /// Forgets how a run ended that goes on.
    pub(crate) fn go_on(&self, name: &str) -> Result<(), Failure> {
        let path = self.folder(name)?.join(END_FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(at_path(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Holds a run for this process alone, as long as what it returns lives; a kill lets it go too.
    pub(crate) fn hold(&self, name: &str) -> Result<File, Failure> {
        if !self.has(name)? {
            return Err(self.unknown(name)?);
        }
        self.lock(name)
    }

    /// The same for a run that begins: the name is this process's from now on.
    pub(crate) fn claim(&self, name: &str) -> Result<File, Failure> {
        let folder = self.folder(name)?;
        fs::create_dir_all(&folder).map_err(at_path(&folder))?;
        let held = self.lock(name)?;
        self.is_free_here(name).map(|()| held)
    }

    fn lock(&self, name: &str) -> Result<File, Failure> {
        held::hold_at(&self.folder(name)?.join(LOCK_FILE), || {
            Failure::user(format_args!("`{name}` is at work in another process"))
                .hint(format!("hone train stop {name} ends it after its present step"))
        })
    }

    fn unknown(&self, name: &str) -> Result<Failure, Failure> {
        let known = self.names()?;
        let here = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let hint = match self.is_shared {
            true => {
                let folder = self.folder.display();
                format!("in {folder}: {here}; `hone train list` has those of other machines too")
            }
            false if known.is_empty() => "no run was recorded here yet; `--folder` names another place".to_owned(),
            false => format!("there are {here}"),
        };
        Ok(Failure::user(format_args!("there is no run `{name}`")).hint(hint))
    }
}

/// Keeps how the run in this folder ended.
pub(crate) fn end(folder: &Path, end: &End) -> Result<(), Failure> {
    write(&folder.join(END_FILE), end)
}

/// The facts in which two runs differ, with both values; one that a run does not have is empty.
pub(crate) fn differences<'a>(one: &'a Run, two: &'a Run) -> Vec<(&'a str, String, String)> {
    let (one, two) = (one.facts(), two.facts());
    let value = |facts: &[(&str, String)], key: &str| {
        facts.iter().find(|fact| fact.0 == key).map(|fact| fact.1.clone()).unwrap_or_default()
    };
    let more = two.iter().filter(|(key, _)| one.iter().all(|(other, _)| other != key));
    let both = one.iter().chain(more).map(|(key, _)| (*key, value(&one, key), value(&two, key)));
    both.filter(|(_, one, two)| one != two).collect()
}

/// A setting as people write it.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let Some(bytes) = metrics::read(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| Failure::world(error).context(path.display()))
}

fn write(path: &Path, record: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(record).map_err(Failure::bug)?;
    crate::durable::write(path, &(text + "\n"))
}
