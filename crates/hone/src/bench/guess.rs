//! `hone bench guess`: how much sooner one answer comes when what was said before is guessed to come again.

use super::figures::Spread;
use crate::context::Context;
use crate::device::Grant;
use crate::failure::{Exit, Failure};
use crate::model::Opened;
use hone_engine::backend::Backend as _;
use hone_engine::batch::{BatchLimits, Request, Token};
use hone_engine::constraint::Constraint;
use hone_engine::host::Host;
use hone_engine::load::WeightSource;
use hone_engine::machine::Machine;
use hone_engine::model::{Model, Passes};
use hone_engine::sampler::SamplerOptions;
use hone_render::schema::{Grammar, GrammarHost};
use hone_render::{Episode, Rules, Setting};
use hone_trace::{Message, Role};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Instant;

const CONTEXT: usize = 1024;

/// Measure how much sooner an answer comes with guesses
///
/// A token that followed the same words before is guessed to follow them again, and computed with the one before it. Each task is
/// answered without guesses and with them, one right after the other, one answer at a time, as `answers` in `[model]` says. Exit
/// code 1 when a token or a log-prob differs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of a model that was added, or a path
    #[arg(long, value_name = "NAME")]
    model: String,
    /// How many tasks of each kind
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=6))]
    tasks: u64,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 128, value_name = "N")]
    max_tokens: usize,
    /// How adventurous; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.0, value_name = "T")]
    temperature: f32,
    /// Draw from the likeliest tokens that have this much probability together
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    top_p: f32,
    /// How many threads compute; without this, all cores
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<usize>())]
    threads: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Report {
    /// What computed.
    path: String,
    temperature: f32,
    top_p: f32,
    kinds: Vec<Figures>,
    /// Tasks whose tokens or log-probs were not the same with guesses.
    differ: usize,
}

#[derive(Debug, Serialize)]
struct Figures {
    kind: &'static str,
    tokens: usize,
    /// Of each task, milliseconds per token but for those that came first.
    plain_ms: Spread,
    guessed_ms: Spread,
    /// Rate with guesses over the rate without, task by task.
    speedup: Spread,
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Kind {
    /// A record again, with one field changed.
    Record,
    /// The same, in a form that a schema gives.
    Schema,
    /// A function again, with another name in it.
    Code,
    /// A question with nothing to repeat.
    Question,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Record, Self::Schema, Self::Code, Self::Question];

    fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Schema => "schema",
            Self::Code => "code",
            Self::Question => "question",
        }
    }

    fn message(self, task: u64) -> String {
        match self {
            Self::Record | Self::Schema => {
                format!("Here is an order:\n\n{}\n\nWrite the same order again as JSON, with the status \"sent\".", order(task))
            }
            Self::Code => {
                let name = of(&["total", "price", "weight", "count", "score", "length"], task);
                format!(
                    "Here is a function:\n\n```python\ndef add_{name}(items, {name}_of):\n    {name} = 0\n    for item in items:\n        \
                     if item is not None:\n            {name} = {name} + {name}_of(item)\n    return {name}\n```\n\nWrite the function \
                     again, with the argument `items` called `rows`."
                )
            }
            Self::Question => {
                let thing = of(&["the sea", "a lighthouse", "bread", "the moon", "a bicycle", "rain"], task);
                format!("What should a child know about {thing}?")
            }
        }
    }
}

fn of(words: &[&'static str], task: u64) -> &'static str {
    words.get(task as usize % words.len()).copied().unwrap_or_default()
}

fn order(task: u64) -> Json {
    json!({
        "order": 70_321 + 977 * task,
        "customer": of(&["harbour kiosk", "corner bakery", "north school", "city museum", "green garage", "old mill"], task),
        "item": of(&["wooden table", "paper lamps", "garden chairs", "steel shelf", "blue curtains", "oak desk"], task + 2),
        "pieces": 2 + task % 7,
        "city": of(&["Oslo", "Lyon", "Graz", "Porto", "Turin", "Ghent"], task + 1),
        "status": "packed",
    })
}

fn schema() -> Json {
    let text = json!({"type": "string", "maxLength": 40});
    let whole = json!({"type": "integer"});
    json!({
        "type": "object",
        "properties": {"order": whole, "customer": text, "item": text, "pieces": whole, "city": text, "status": text},
        "required": ["order", "customer", "item", "pieces", "city", "status"],
        "additionalProperties": false,
    })
}

/// An answer, and how long it took.
struct Answer {
    tokens: Vec<Token>,
    /// Of each token but those that came first.
    ms_per_token: f64,
}

struct Bench<'a> {
    args: &'a Args,
    opened: Opened,
    host: Host<Machine>,
    grammar: Grammar,
    _grant: Grant,
}

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let mut bench = Bench::new(args, context)?;
    let (mut kinds, mut differ) = (Vec::new(), 0);
    for kind in Kind::ALL {
        let (figures, n) = bench.measure(kind, context)?;
        kinds.push(figures);
        differ += n;
    }
    let report = Report { path: bench.host.backend().path(), temperature: args.temperature, top_p: args.top_p, kinds, differ };
    let exit = if differ == 0 { Exit::Yes } else { Exit::No };
    if context.printer.wants_json() {
        context.printer.json(&report)?;
        return Ok(exit);
    }
    let row = |figures: &Figures| {
        let Figures { kind, plain_ms, guessed_ms, speedup, .. } = figures;
        vec![(*kind).to_owned(), plain_ms.to_string(), guessed_ms.to_string(), speedup.to_string()]
    };
    let rows: Vec<Vec<String>> = report.kinds.iter().map(row).collect();
    context.printer.table(&["asked for", "ms a token", "with guesses", "times as fast"], &rows)?;
    context.printer.say(&match differ {
        0 => format!("{}: the same tokens and log-probs with guesses and without", report.path),
        n => format!("{}: {n} answers differ", report.path),
    });
    Ok(exit)
}

impl<'a> Bench<'a> {
    fn new(args: &'a Args, context: &Context<'_>) -> Result<Self, Failure> {
        if args.max_tokens < 2 {
            return Err(Failure::user("--max-tokens needs at least 2"));
        }
        let opened = Opened::named(&args.model, context)?;
        if !opened.has_template {
            return Err(Failure::user(format_args!("{} has no chat template: it was not made for conversations", opened.name))
                .hint("take the model's instruct version"));
        }
        let backend = crate::device::open(args.threads, context.settings.answers, context)?;
        let limits = BatchLimits { n_pages: CONTEXT / 8, n_sequences_max: 1, ..BatchLimits::default() };
        let n_positions = CONTEXT.min(opened.weights.config().context_len);
        let (limits, grant) = crate::device::sampling(&backend, opened.weights.config(), limits, 1, context.printer)?;
        let model = Model::load(&backend, &opened.weights, n_positions, Passes::Forward).map_err(Failure::world)?;
        let grammar = GrammarHost::new(opened.renderer.tokenizer()).and_then(|host| host.schema(&schema()));
        let grammar = grammar.map_err(Failure::user)?;
        Ok(Self { args, opened, host: Host::new(backend, model, limits), grammar, _grant: grant })
    }

    /// The figures of a kind, and how many of its answers differ.
    fn measure(&mut self, kind: Kind, context: &Context<'_>) -> Result<(Figures, usize), Failure> {
        let (mut plain_ms, mut guessed_ms, mut speedup) = (Vec::new(), Vec::new(), Vec::new());
        let (mut n_tokens, mut differ) = (0, 0);
        // A GPU finds out how to compute first; what it then computes is measured.
        for guesses in [false, true].repeat(2) {
            self.answer(kind, self.args.tasks, guesses, 0)?;
        }
        for task in 0..self.args.tasks {
            context.printer.say(&format!("{}: task {} of {}", kind.name(), task + 1, self.args.tasks));
            let (plain, guessed) = (self.answer(kind, task, false, 0)?, self.answer(kind, task, true, 1)?);
            let bits =
                |answer: &Answer| answer.tokens.iter().map(|token| (token.id, token.logprob.to_bits())).collect::<Vec<_>>();
            differ += usize::from(bits(&plain) != bits(&guessed));
            plain_ms.push(plain.ms_per_token);
            guessed_ms.push(guessed.ms_per_token);
            speedup.push(plain.ms_per_token / guessed.ms_per_token);
            n_tokens += guessed.tokens.len();
        }
        let figures = Figures {
            kind: kind.name(),
            tokens: n_tokens,
            plain_ms: Spread::of(&plain_ms),
            guessed_ms: Spread::of(&guessed_ms),
            speedup: Spread::of(&speedup),
        };
        Ok((figures, differ))
    }

    /// One answer, timed from its first token on.
    fn answer(&mut self, kind: Kind, task: u64, guesses: bool, asker: u64) -> Result<Answer, Failure> {
        let renderer = Arc::new(self.opened.renderer.clone());
        let messages = vec![Message::text(Role::User, kind.message(task))];
        let episode = Episode::open(renderer, messages, Setting::default()).map_err(Failure::user)?;
        let rule = |_: Kind| Box::new(Rules::new(None, Some(self.grammar.rule()), None)) as Box<dyn Constraint>;
        let request = Request {
            sampler: SamplerOptions { temperature: self.args.temperature, top_p: self.args.top_p, ..SamplerOptions::default() },
            stop_ids: self.opened.stop_ids.clone(),
            seed: task,
            constraints: Some(kind).filter(|kind| matches!(kind, Kind::Schema)).map(rule).into_iter().collect(),
            guesses,
            asker,
            ..Request::new(episode.ids().to_vec(), self.args.max_tokens)
        };
        self.host.submit(request).map_err(Failure::world)?;
        let (mut tokens, mut first) = (Vec::new(), None);
        while !self.host.is_idle() {
            let events = self.host.sample_step();
            tokens.extend(events.into_iter().flat_map(|event| event.tokens));
            first = first.or_else(|| (!tokens.is_empty()).then(|| (Instant::now(), tokens.len())));
        }
        let (since, n_first) = first.unwrap_or_else(|| (Instant::now(), 0));
        let n_timed = tokens.len().saturating_sub(n_first).max(1);
        Ok(Answer { tokens, ms_per_token: 1e3 * since.elapsed().as_secs_f64() / n_timed as f64 })
    }
}
