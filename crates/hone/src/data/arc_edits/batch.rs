//! The files of a batch of edits: traces that can be imported, the same as plain text, the page for a person, and what all of it
//! was made from.

use super::Sample;
use crate::durable;
use crate::failure::{Failure, at_path};
use hone_data::edits::{Rules, Step};
use hone_data::prepare::Digest;
use hone_trace::env::Split;
use hone_trace::{Message, Role, Segment, Trace, Turn};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What a batch was made from.
pub(super) struct Manifest {
    pub(super) run: Option<String>,
    pub(super) rules: Rules,
    pub(super) found: usize,
    pub(super) steps: Vec<Step>,
    /// The hash of all tasks.
    pub(super) tasks: String,
    /// The hash of all edits that were looked at.
    pub(super) edits: String,
    pub(super) verdicts: usize,
}

/// A batch in the making: its files by name.
#[derive(Default)]
pub(super) struct Batch {
    files: BTreeMap<String, String>,
    counts: BTreeMap<String, u64>,
}

const MANIFEST: &str = "manifest.json";

impl Batch {
    /// Adds a sample to its part, as a trace and as text.
    pub(super) fn add(&mut self, sample: &Sample<'_>, split: Split) -> Result<(), Failure> {
        let prompt: Vec<Message> = sample.edit.trace.turns().next().map(|turn| turn.input.clone()).unwrap_or_default();
        let answer = format!("<think>{}</think>\n{}", sample.thinking, sample.program);
        let told: Vec<String> = prompt.iter().map(|message| message.content.text()).collect();
        let text = json!({
            "id": sample.id,
            "task": sample.task.id,
            "family": sample.task.family,
            "delta_r": sample.gain,
            "text": format!("{}\n{answer}", told.join("\n\n")),
        });
        let mut turn = Turn::new(prompt, Message::text(Role::Assistant, answer));
        turn.signals = sample.edit.trace.turns().last().map(|last| last.signals.clone()).unwrap_or_default();
        let mut trace =
            Trace { segments: vec![Segment { turns: vec![turn], ..Segment::default() }], ..sample.edit.trace.clone() };
        trace.rewards.retain(|reward| reward.turn_idx.is_none());
        trace.metadata.insert("split".into(), split.as_str().into());
        let trace = serde_json::to_string(&trace).map_err(Failure::bug)?;
        self.line(&format!("{}.jsonl", split.as_str()), &trace);
        self.line(&format!("{}.text.jsonl", split.as_str()), &text.to_string());
        Ok(())
    }

    fn line(&mut self, file: &str, line: &str) {
        let text = self.files.entry(file.to_owned()).or_default();
        text.push_str(line);
        text.push('\n');
        *self.counts.entry(file.to_owned()).or_default() += 1;
    }

    /// What tells the samples of this batch from those of others.
    pub(super) fn name(&self) -> String {
        hash_of(self.files.values().cloned()).chars().take(16).collect()
    }

    pub(super) fn page(&mut self, page: String) {
        self.files.insert("review.html".into(), page);
    }

    /// Says what the batch was made from and what its files are.
    pub(super) fn manifest(&mut self, from: &Manifest) -> Result<Value, Failure> {
        let outputs: Vec<Value> = self
            .files
            .iter()
            .map(|(file, text)| {
                let samples = self.counts.get(file);
                json!({"file": file, "samples": samples, "bytes": text.len(), "hash": hash_of([text.clone()])})
            })
            .collect();
        let manifest = json!({
            "v": 1,
            "run": from.run,
            "rules": from.rules,
            "found": from.found,
            "steps": from.steps,
            "tasks": from.tasks,
            "edits": from.edits,
            "verdicts": from.verdicts,
            "outputs": outputs,
        });
        let text = serde_json::to_string_pretty(&manifest).map_err(Failure::bug)? + "\n";
        self.files.insert(MANIFEST.into(), text);
        Ok(manifest)
    }

    /// Writes the batch beside its place and moves it there. Says whether it is new; the very same may be there already.
    pub(super) fn publish(&self, out: &Path) -> Result<bool, Failure> {
        if out.exists() {
            let is_same = |(file, text): (&String, &String)| fs::read_to_string(out.join(file)).is_ok_and(|found| found == *text);
            return match self.files.iter().all(is_same) {
                true => Ok(false),
                false => Err(Failure::user(format_args!("{} is there already with other content", out.display()))
                    .hint("name another folder with --out")),
            };
        }
        let mut partial = out.as_os_str().to_owned();
        partial.push(".partial");
        let partial = Path::new(&partial);
        match fs::remove_dir_all(partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at_path(partial)(error)),
            _ => fs::create_dir_all(partial).map_err(at_path(partial))?,
        }
        for (file, text) in &self.files {
            durable::write(&partial.join(file), text)?;
        }
        fs::rename(partial, out).map_err(at_path(out))?;
        durable::name(out)?;
        Ok(true)
    }
}

/// The hash of texts, one after the other.
pub(super) fn hash_of(texts: impl IntoIterator<Item = String>) -> String {
    let mut digest = Digest::default();
    for text in texts {
        digest.add(text.as_bytes());
        digest.add(b"\n");
    }
    digest.hex()
}
