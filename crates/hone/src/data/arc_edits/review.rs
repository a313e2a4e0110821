//! The page on which a person accepts or rejects samples, and the file of verdicts that comes of it.

use super::Sample;
use crate::env::arc::figures::figures;
use crate::failure::{Failure, at_path};
use crate::page::{Page, escaped};
use hone_arc::world::Attempt;
use hone_data::edits::Verdict;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

const SCRIPT: &str = include_str!("review.js");
/// The most doubtful samples that are shown beside those that stay.
pub(super) const DOUBTFUL_MAX: usize = 200;
/// More than any review of a batch.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The file that the page saves.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    v: u8,
    /// The batch that was looked at. Verdicts are known by edit, so they hold for other batches too.
    #[serde(rename = "batch")]
    _batch: String,
    verdicts: BTreeMap<String, Verdict>,
}

/// Reads what a person said.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Verdict>, Failure> {
    if std::fs::metadata(path).map_err(at_path(path))?.len() > FILE_BYTES_MAX {
        return Err(Failure::user(format_args!("{} is too large for a file of verdicts", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(at_path(path))?;
    let hint = "the review page of a batch saves such a file with the key s";
    let file: File = serde_json::from_str(&text)
        .map_err(|error| Failure::user(format_args!("{} is no file of verdicts: {error}", path.display())).hint(hint))?;
    match file.v {
        1 => Ok(file.verdicts),
        other => Err(Failure::user(format_args!("{}: version {other} of verdicts is not known", path.display())).hint(hint)),
    }
}

/// The page of a batch: what stays, then what was dropped for what it says.
pub(super) fn page(batch: &str, kept: &[Sample<'_>], doubtful: &[(Sample<'_>, String)]) -> String {
    let mut page = Page::with_script("Edits to imitate", SCRIPT);
    page.add(&format!(
        "<div class=\"bar\" data-batch=\"{}\"><span id=\"told\" role=\"status\"></span> <button id=\"save\" type=\"button\">Save verdicts</button> \
         <span class=\"faint\"><kbd>j</kbd> next <kbd>k</kbd> back <kbd>a</kbd> accept <kbd>r</kbd> reject <kbd>u</kbd> leave open \
         <kbd>s</kbd> save</span></div>",
        escaped(batch)
    ));
    page.add(&format!("<h2>{} samples that stay unless you reject them</h2>", kept.len()));
    kept.iter().for_each(|sample| add(&mut page, sample, None));
    if !doubtful.is_empty() {
        page.add(&format!("<h2>{} samples that were dropped, and stay if you accept them</h2>", doubtful.len()));
        doubtful.iter().for_each(|(sample, why)| add(&mut page, sample, Some(why)));
    }
    page.add("<h2>Verdicts</h2><p>Saved as review.json; <code>hone data arc-edits --review review.json</code> respects them.</p><pre id=\"file\"></pre>");
    page.finish()
}

fn add(page: &mut Page, sample: &Sample<'_>, why: Option<&str>) {
    let id = escaped(&sample.id);
    let why = why.map_or_else(String::new, |why| format!("<p class=\"bad\">Dropped: {}</p>", escaped(why)));
    page.add(&format!(
        "<section class=\"sample\" tabindex=\"0\" data-id=\"{id}\" aria-label=\"edit of {task}\"><h3>{task} \
         <span class=\"faint\">\u{394}r {gain:+.3}, {id}</span></h3>{why}<p><button type=\"button\" data-verdict=\"accept\">Accept</button>\
         <button type=\"button\" data-verdict=\"reject\">Reject</button><button type=\"button\">Leave open</button> <b class=\"said\">open</b></p>",
        task = escaped(&sample.task.id),
        gain = sample.gain,
    ));
    let (before, after) = (Attempt::of(sample.from).ok(), Attempt::of(&sample.program).ok());
    for pair in sample.task.pairs() {
        page.add(&figures(pair, &[("before".into(), before.as_ref()), ("after".into(), after.as_ref())]));
    }
    page.add(&format!("<h3>Thought</h3><pre>{}</pre>", escaped(&sample.thinking)));
    page.add(&format!("<details><summary>Program before</summary><pre>{}</pre></details>", escaped(sample.from)));
    page.add(&format!("<h3>Program after</h3><pre>{}</pre></section>", escaped(&sample.program)));
}
