//! `hone doctor`: what this machine has, and what that means for hone, one line each.
//!
//! Looks, measures and tells; it installs, loads and changes nothing. Each file below reads one part of the machine
//! and has its parsing apart from the reading, so that other machines can be tested here.

mod cpu;
mod database;
mod disk;
mod gpu;
mod memory;

pub(crate) use gpu::folders as cuda_folders;
pub(crate) use memory::{taken as taken_memory, usable as usable_memory};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::printer::Style;
use serde_json::{Map, Value, json};

/// How well a part will serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Good,
    /// It will do.
    Ok,
    /// It is not there, or does not answer.
    Missing,
}

/// What was found out about one part of the machine.
#[derive(Debug)]
struct Finding {
    part: &'static str,
    verdict: Verdict,
    /// What it is and what that means, in one sentence.
    says: String,
    /// Whether hone cannot work without.
    needed: bool,
    facts: Map<String, Value>,
}

impl Finding {
    fn new(part: &'static str, verdict: Verdict, says: impl Into<String>) -> Self {
        Self { part, verdict, says: says.into(), needed: false, facts: Map::new() }
    }

    fn needed(self) -> Self {
        Self { needed: true, ..self }
    }

    fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    fn stops_hone(&self) -> bool {
        self.needed && self.verdict == Verdict::Missing
    }
}

pub(crate) async fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let findings = [
        cpu::cores(),
        cpu::instructions(),
        memory::look(),
        gpu::look(context.variables, context.settings.device),
        database::look(context).await,
        disk::look(&context.settings),
    ];
    let works = !findings.iter().any(Finding::stops_hone);
    if context.printer.wants_json() {
        let parts = findings.iter().map(|finding| {
            let mut object = json!({ "part": finding.part, "verdict": word(finding.verdict), "says": finding.says });
            if let Value::Object(object) = &mut object {
                object.extend(finding.facts.clone());
            }
            object
        });
        context.printer.json(&json!({ "works": works, "parts": parts.collect::<Vec<_>>() }))?;
    } else {
        for finding in &findings {
            let style = match finding.verdict {
                Verdict::Good => Style::Good,
                Verdict::Ok => Style::Note,
                Verdict::Missing if finding.needed => Style::Bad,
                Verdict::Missing => Style::Faint,
            };
            let (verdict, part) = (format!("{:<7}", word(finding.verdict)), format!("  {:<12}  ", finding.part));
            let parts = [(style, verdict.as_str()), (Style::Strong, part.as_str()), (Style::Plain, finding.says.as_str())];
            context.printer.line(&parts)?;
        }
        context.printer.say(if works { "hone can work here" } else { "hone cannot work here" });
    }
    Ok(if works { Exit::Yes } else { Exit::No })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Ok => "ok",
        Verdict::Missing => "missing",
    }
}

/// A number of bytes for people, such as `31.2 GiB`.
fn size(n_bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (n_bytes.max(1).ilog2() / 10) as usize;
    match power {
        0 => format!("{n_bytes} bytes"),
        _ => format!("{:.1} {}", n_bytes as f64 / 1024_f64.powi(power as i32), units[power]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        for (n_bytes, text) in [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (u64::MAX, "16.0 EiB")] {
            assert_eq!(size(n_bytes), text);
        }
    }

    #[test]
    fn only_what_is_needed_stops_hone() {
        assert!(!Finding::new("gpu", Verdict::Missing, "").stops_hone());
        assert!(Finding::new("database", Verdict::Missing, "").needed().stops_hone());
        assert!(!Finding::new("database", Verdict::Ok, "").needed().stops_hone());
    }
}
