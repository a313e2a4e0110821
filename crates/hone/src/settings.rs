//! Settings: flags over environment over `hone.toml` over the defaults in the binary, each value with its origin.
//!
//! `hone.toml` is found like `.git`, by walking up from the current folder. No setting is silently without effect:
//! what is not known is an error that names its neighbour. Knows nothing of what the settings are used for.

mod address;
mod again;
mod data;
mod file;
mod neighbour;
pub(crate) mod schema;
mod variables;

pub(crate) use address::without_password;
pub(crate) use data::Data;
pub use variables::Variables;

use crate::failure::{Failure, at_path};
use hone_engine::cuda::{Answers, UnknownAnswers};
use hone_engine::machine::{Choice, UnknownMachine};
use hone_eval::Thrift;
use hone_policy::upstream::Keys;
use hone_reward::Recipe;
use hone_store::{Options, Place};
use hone_trace::Tenant;
use hone_train::settings::Given;
use schema::{Key, Value, keys};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The name of the settings file.
pub(crate) const FILE_NAME: &str = "hone.toml";

/// The largest settings file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What the flags say.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The settings file.
    pub config: Option<PathBuf>,
    /// `store.folder`
    pub folder: Option<PathBuf>,
    /// `store.database_url`
    pub database_url: Option<String>,
    /// `store.tenant`
    pub tenant: Option<String>,
    /// `model.device`
    pub device: Option<String>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A key with the value that is in effect.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl Setting {
    fn wrong(&self, reason: impl fmt::Display) -> Failure {
        match self.origin {
            Origin::Default => Failure::bug(format_args!("the default of `{}`: {reason}", self.key.path())),
            _ => Failure::config(format_args!("{}: `{}`: {reason}", self.origin, self.key.path())),
        }
    }
}

/// What is in effect.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which database.
    pub place: Place,
    /// What the store is opened with.
    pub options: Options,
    /// The folder `.hone`, whichever database is in use.
    pub folder: PathBuf,
    /// Whose data new records are, and whose are listed.
    pub tenant: Tenant,
    /// What models of this process compute on.
    pub device: Choice,
    /// `model.answers`
    pub answers: Answers,
    /// The keys for servers that are named by their address.
    pub keys: Keys,
    /// How many traces one transaction of an import holds.
    pub import_batch: usize,
    /// What is served, and where.
    pub serve: Serve,
    /// `serve.cost_points` and `serve.time_points`, as shares of success.
    pub thrift: Thrift,
    /// What data must be before it is learned from.
    pub data: Data,
    /// How traces of a world are weighed, where the user says so.
    pub rewards: BTreeMap<String, Recipe>,
    /// How an algorithm learns, where the user says so.
    pub training: BTreeMap<String, Given>,
    /// The settings file, where there is one.
    pub file: Option<PathBuf>,
    /// What the flags said.
    pub(crate) flags: Flags,
    /// Every key with its value, passwords left out, for people to see.
    pub(crate) shown: Vec<Setting>,
}

/// What is served, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serve {
    /// `serve.address`
    pub address: SocketAddr,
    /// `serve.hosts`
    pub hosts: Vec<String>,
    /// `serve.models`
    pub models: Vec<String>,
    /// `serve.prices`
    pub prices: Vec<String>,
    /// `serve.routes`
    pub routes: Vec<String>,
    /// `serve.tasks`
    pub tasks: Vec<String>,
    /// `serve.outcome`
    pub outcome: String,
}

impl Settings {
    /// Reads them all. `here` is the current folder.
    pub fn load(flags: &Flags, variables: &Variables, here: &Path) -> Result<Self, Failure> {
        let named = flags.config.clone().or_else(|| variables.get(variables::CONFIG).map(PathBuf::from));
        let file = match named {
            Some(path) => Some(here.join(path)),
            None => here.ancestors().map(|folder| folder.join(FILE_NAME)).find(|path| path.is_file()),
        };
        let mut settings: Vec<Setting> =
            keys().iter().map(|key| Setting { key, value: key.default.clone(), origin: Origin::Default }).collect();
        let (mut rewards, mut training) = (BTreeMap::new(), BTreeMap::new());
        if let Some(path) = &file {
            let text = read_file(path)?;
            rewards = file::recipes(&text).map_err(|problem| at_line(path, problem))?;
            training = file::training(&text).map_err(|problem| at_line(path, problem))?;
            for (idx, value, line) in file::read(&text, keys()).map_err(|problem| at_line(path, problem))? {
                settings[idx] = Setting { key: &keys()[idx], value, origin: Origin::File { path: path.clone(), line } };
            }
        }
        for (idx, value, name) in variables::read(variables, keys())? {
            settings[idx] = Setting { key: &keys()[idx], value, origin: Origin::Variable(name) };
        }
        let folder = flags.folder.as_ref().map(|path| path.to_string_lossy().into_owned());
        for (path, flag, value) in [
            ("store.folder", "--folder", &folder),
            ("store.database_url", "--database-url", &flags.database_url),
            ("store.tenant", "--tenant", &flags.tenant),
            ("model.device", "--device", &flags.device),
        ] {
            if let Some(text) = value {
                let setting = find(&mut settings, path);
                (setting.value, setting.origin) = (Value::Text(text.clone()), Origin::Flag(flag));
            }
        }
        Ok(Self { rewards, training, flags: flags.clone(), ..Self::checked(settings, file, here)? })
    }

    /// All that is in effect as path, value and where it came from: every key, then the recipes and the settings of training that the
    /// file has.
    pub(crate) fn told(&self) -> Vec<(String, serde_json::Value, String)> {
        let mut told: Vec<(String, serde_json::Value, String)> =
            self.shown.iter().map(|setting| (setting.key.path(), json!(setting.value), setting.origin.to_string())).collect();
        let from = self.file.as_ref().map_or_else(|| Origin::Default.to_string(), |path| path.display().to_string());
        let of_file = |path: String, value: serde_json::Value| (path, value, from.clone());
        told.extend(
            self.rewards
                .iter()
                .map(|(world, recipe)| of_file(format!("{}.{world}.components", file::REWARD), json!(recipe.components))),
        );
        for (algorithm, given) in &self.training {
            if let serde_json::Value::Object(given) = json!(given) {
                told.extend(given.into_iter().map(|(key, value)| of_file(format!("{}.{algorithm}.{key}", file::TRAIN), value)));
            }
        }
        told
    }

    fn checked(mut settings: Vec<Setting>, file: Option<PathBuf>, here: &Path) -> Result<Self, Failure> {
        let beside_file = file.as_ref().and_then(|path| path.parent()).unwrap_or(here);
        let folder = folder(find(&mut settings, "store.folder"), beside_file, here)?;
        let place = place(&mut settings, &folder)?;
        let tenant = find(&mut settings, "store.tenant");
        let tenant = Tenant::new(text(tenant)).map_err(|error| tenant.wrong(error))?;
        let device = find(&mut settings, "model.device");
        let device = text(device).parse().map_err(|error: UnknownMachine| device.wrong(error))?;
        let answers = find(&mut settings, "model.answers");
        let answers = text(answers).parse().map_err(|error: UnknownAnswers| answers.wrong(error))?;
        let keys = keys_of_servers(find(&mut settings, "model.keys"))?;
        let fields = find(&mut settings, "store.indexed_fields");
        let indexed_fields = texts(fields);
        if let Some(bad) = indexed_fields.iter().find(|path| path.split('.').any(str::is_empty)) {
            return Err(fields.wrong(format_args!("`{bad}` is not a path such as `metadata.customer`")));
        }
        let batch = find(&mut settings, "trace.import_batch");
        let import_batch = number(batch);
        if !(1..=10_000).contains(&import_batch) {
            return Err(batch.wrong(format_args!("{import_batch} is not between 1 and 10000")));
        }
        let address = find(&mut settings, "serve.address");
        let address = text(address).parse().map_err(|_| address.wrong("an address is like 127.0.0.1:8321"))?;
        let serve = Serve {
            address,
            hosts: texts(find(&mut settings, "serve.hosts")),
            models: texts(find(&mut settings, "serve.models")),
            prices: texts(find(&mut settings, "serve.prices")),
            routes: texts(find(&mut settings, "serve.routes")),
            tasks: texts(find(&mut settings, "serve.tasks")),
            outcome: text(find(&mut settings, "serve.outcome")),
        };
        let thrift =
            Thrift { cost: points(&mut settings, "serve.cost_points")?, time: points(&mut settings, "serve.time_points")? };
        let data = data::read(&mut settings, beside_file, &folder)?;
        Ok(Self {
            place,
            serve,
            thrift,
            data,
            options: Options { indexed_fields, ..Options::default() },
            folder,
            tenant,
            device,
            answers,
            keys,
            import_batch: import_batch.unsigned_abs() as usize,
            rewards: BTreeMap::new(),
            training: BTreeMap::new(),
            file,
            flags: Flags::default(),
            shown: settings,
        })
    }
}

/// The folder, from which the value that is shown is made whole.
fn folder(setting: &mut Setting, beside_file: &Path, here: &Path) -> Result<PathBuf, Failure> {
    let base = match setting.origin {
        Origin::Default | Origin::File { .. } => beside_file,
        Origin::Variable(_) | Origin::Flag(_) => here,
    };
    let named = text(setting);
    if named.is_empty() {
        return Err(setting.wrong("a folder must have a name"));
    }
    let folder = base.join(named);
    if folder.exists() && !folder.is_dir() {
        return Err(setting.wrong(format_args!("{} is not a folder", folder.display())));
    }
    setting.value = Value::Text(folder.display().to_string());
    Ok(folder)
}

/// The database, from whose address the value that is shown loses its password.
fn place(settings: &mut [Setting], folder: &Path) -> Result<Place, Failure> {
    let url = find(settings, "store.database_url");
    let address = text(url);
    if address.is_empty() {
        return Ok(Place::Folder(folder.to_path_buf()));
    }
    let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme));
    if !is_postgres {
        return Err(url.wrong("an address begins with postgres://").hint("leave it empty to use SQLite"));
    }
    url.value = Value::Text(without_password(&address));
    let origin = url.origin.clone();
    if find(settings, "store.folder").origin == Origin::Flag("--folder") {
        let text = format!("`--folder` has no effect: the records are on PostgreSQL ({origin})");
        return Err(Failure::config(text).hint("add `--database-url \"\"` to use SQLite in that folder"));
    }
    Ok(Place::Postgres(address))
}

/// Points of success, as a share of it.
fn points(settings: &mut [Setting], path: &str) -> Result<f64, Failure> {
    let setting = find(settings, path);
    let points = number(setting);
    if !(0..=100).contains(&points) {
        return Err(setting.wrong(format_args!("{points} is not between 0 and 100")));
    }
    Ok(points as f64 / 100.0)
}

/// The keys for servers, of which the value that is shown has the addresses alone.
fn keys_of_servers(setting: &mut Setting) -> Result<Keys, Failure> {
    let keys = Keys::read(&texts(setting));
    let shown = keys.as_ref().map(|keys| keys.addresses().map(|address| format!("{address}=***")).collect());
    setting.value = Value::Texts(shown.unwrap_or_default());
    keys.map_err(|error| setting.wrong(error))
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(at_path(path))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(at_path(path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::config(format_args!("{} is larger than 1 MiB", path.display())));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        Failure::config(format_args!("{}:{line}: this is not UTF-8", path.display()))
    })
}

fn at_line(path: &Path, problem: file::Problem) -> Failure {
    let failure = Failure::config(format_args!("{}:{}: {}", path.display(), problem.line, problem.reason));
    match problem.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn find<'a>(settings: &'a mut [Setting], path: &str) -> &'a mut Setting {
    settings.iter_mut().find(|setting| setting.key.path() == path).expect("the defaults have every key that is used")
}

fn text(setting: &Setting) -> String {
    match &setting.value {
        Value::Text(text) => text.clone(),
        other => unreachable!("`{}` is {other:?}", setting.key.path()),
    }
}

fn texts(setting: &Setting) -> Vec<String> {
    match &setting.value {
        Value::Texts(texts) => texts.clone(),
        other => unreachable!("`{}` is {other:?}", setting.key.path()),
    }
}

fn number(setting: &Setting) -> i64 {
    match &setting.value {
        Value::Number(number) => *number,
        other => unreachable!("`{}` is {other:?}", setting.key.path()),
    }
}

#[cfg(test)]
mod tests;
