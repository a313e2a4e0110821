//! What a loop has done, stage by stage. Every stage that ends is a line of the store's log with what it came to, so a loop that was
//! killed goes on after the last one, and who looks on sees how far it is.

use crate::clock::now;
use crate::context::Context;
use crate::failure::{Failure, at_path};
use crate::held;
use hone_store::Database;
use hone_trace::store::{Event, Put, Write};
use hone_trace::{EventId, Tenant};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Lines of a loop that are read at once: it has about ten.
const N_LINES: u32 = 1000;
/// The stage that a loop begins with.
pub(super) const BEGIN: &str = "begin";
/// The stage that a loop ends with.
pub(super) const END: &str = "end";

/// The journal of one loop.
pub(super) struct Journal<'a> {
    context: &'a Context<'a>,
    runtime: &'a Runtime,
    store: Arc<dyn Database>,
    pub(super) name: String,
    done: BTreeMap<String, Value>,
    held: Held,
}

/// A loop that is this process's alone as long as it has this; a kill lets it go too.
struct Held {
    path: PathBuf,
    _file: File,
}

impl Drop for Journal<'_> {
    /// A loop that could not begin leaves no record, and its name free.
    fn drop(&mut self) {
        if self.done.is_empty() {
            let _ = fs::remove_file(&self.held.path);
        }
    }
}

/// What the store has of a loop.
#[derive(Default)]
struct Lines {
    tenant: Option<Tenant>,
    done: BTreeMap<String, Value>,
}

impl<'a> Journal<'a> {
    /// The journal of a new loop, or of the tenant's last one to go on with it. The second loop of `desk` is called `desk-2`: neither the
    /// store nor the folder has anything of that name.
    pub(super) fn open(of: &str, goes_on: bool, runtime: &'a Runtime, context: &'a Context<'a>) -> Result<Self, Failure> {
        let store = runtime.block_on(context.store())?;
        let is_ours = |lines: &Lines| lines.tenant.as_ref() == Some(&context.settings.tenant);
        let mut last: Option<(String, BTreeMap<String, Value>)> = None;
        for number in 1.. {
            let name = numbered(of, number);
            let lines = read(&name, runtime, &store)?;
            if lines.done.is_empty() {
                if goes_on {
                    break;
                }
                if let Some(held) = claim(&name, context)? {
                    return Ok(Self { context, runtime, store, name, done: lines.done, held });
                }
            } else if is_ours(&lines) {
                last = Some((name, lines.done));
            }
        }
        let none = || Failure::user("there is no loop to go on with").hint("begin one with `hone loop`");
        let (name, done) = last.ok_or_else(none)?;
        let held = hold(&name, context)?;
        Ok(Self { context, runtime, store, name, done, held })
    }

    /// All that was written down of loops of this name, the oldest first.
    pub(super) fn of_all(
        of: &str,
        runtime: &Runtime,
        store: &Arc<dyn Database>,
    ) -> Result<Vec<BTreeMap<String, Value>>, Failure> {
        let mut all = Vec::new();
        loop {
            let done = read(&numbered(of, all.len() + 1), runtime, store)?.done;
            if done.is_empty() {
                return Ok(all);
            }
            all.push(done);
        }
    }

    /// What a stage came to, where it has ended.
    pub(super) fn known<T: DeserializeOwned>(&self, stage: &str) -> Result<Option<T>, Failure> {
        let wrong = |error| Failure::world(error).context(format_args!("stage `{stage}` of {}", self.name));
        self.done.get(stage).map(|done| T::deserialize(done).map_err(wrong)).transpose()
    }

    /// What a stage comes to that may come to nothing. Nothing is not final: who goes on may have changed what it hung on, so that it is
    /// done again, and what it comes to then is written down beside it.
    pub(super) fn stage_again<T: Serialize + DeserializeOwned>(
        &mut self,
        stage: &str,
        work: impl FnOnce() -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        if self.known::<Option<T>>(stage)?.is_none_or(|known| known.is_some()) {
            return self.stage(stage, work);
        }
        let again = format!("{stage}_again");
        match self.known(&again)? {
            Some(known) => Ok(Some(known)),
            None => work()?.map(|result| self.stage(&again, || Ok(result))).transpose(),
        }
    }

    /// What a stage comes to: as it was written down, or by doing the work and writing that down.
    pub(super) fn stage<T: Serialize + DeserializeOwned>(
        &mut self,
        stage: &str,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(known) = self.known(stage)? {
            return Ok(known);
        }
        let result = work()?;
        let body = serde_json::to_value(&result).map_err(Failure::bug)?;
        let event = Event {
            id: EventId::derived(&["loop", &self.name, stage]),
            at: now(),
            tenant: self.context.settings.tenant.clone(),
            stream: stream(&self.name),
            kind: stage.to_owned(),
            body: body.clone(),
        };
        if self.runtime.block_on(self.store.put(vec![Write::Event(event)]))?.contains(&Put::Conflict) {
            return Err(Failure::user(format_args!(
                "another process works on the loop `{}`, and came first to `{stage}`",
                self.name
            ))
            .hint("begin a loop of your own with `hone loop`, or go on with this one by --resume when the other has ended"));
        }
        self.done.insert(stage.to_owned(), body);
        Ok(result)
    }
}

/// What a loop is called.
fn numbered(of: &str, number: usize) -> String {
    if number == 1 { of.to_owned() } else { format!("{of}-{number}") }
}

/// The stages of a loop that have ended, and whose it is.
fn read(name: &str, runtime: &Runtime, store: &Arc<dyn Database>) -> Result<Lines, Failure> {
    let mut lines = Lines::default();
    for (_, event) in runtime.block_on(store.events(Some(&stream(name)), 0, N_LINES))? {
        lines.tenant.get_or_insert(event.tenant);
        lines.done.insert(event.kind, event.body);
    }
    Ok(lines)
}

/// Takes the name of a new loop, unless a loop of this folder has or had it: what that one left there is not this one's.
fn claim(name: &str, context: &Context<'_>) -> Result<Option<Held>, Failure> {
    let path = lock_of(name, context)?;
    match File::options().write(true).create_new(true).open(&path) {
        Ok(file) => held::hold(file, &path, || busy(name)).map(|file| Some(Held { path, _file: file })),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(at_path(&path)(error)),
    }
}

/// Takes a loop that goes on.
fn hold(name: &str, context: &Context<'_>) -> Result<Held, Failure> {
    let path = lock_of(name, context)?;
    held::hold_at(&path, || busy(name)).map(|file| Held { path, _file: file })
}

fn busy(name: &str) -> Failure {
    Failure::user(format_args!("the loop `{name}` is at work in another process"))
        .hint("wait until it has ended, or begin one beside it with `hone loop`")
}

fn lock_of(name: &str, context: &Context<'_>) -> Result<PathBuf, Failure> {
    let folder = context.settings.folder.join("loops");
    fs::create_dir_all(&folder).map_err(at_path(&folder))?;
    Ok(folder.join(name))
}

/// What the lines of a loop belong to.
fn stream(name: &str) -> String {
    format!("loop:{name}")
}
