//! `hone chat`: talk to a model, as a person would who wants to know whether it works.

use crate::context::Context;
use crate::device::Grant;
use crate::failure::{Exit, Failure, at_path};
use crate::model::Opened;
use crate::printer::{Printer, Style};
use hone_engine::batch::{BatchLimits, Finish, Request, Token};
use hone_engine::cuda::Answers;
use hone_engine::host::{AdapterVersion, Host};
use hone_engine::load::WeightSource;
use hone_engine::machine::Machine;
use hone_engine::model::{Model, Passes};
use hone_engine::sampler::SamplerOptions;
use hone_render::schema::{Grammar, GrammarHost};
use hone_render::stop::{StopStrings, cut};
use hone_render::think::{Opening, ThinkBudget, ThinkRule};
use hone_render::{Episode, RenderError, Rules, Setting};
use hone_trace::{Message, Role, ToolRequest};
use serde::Serialize;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The longest conversation where the user asks for nothing else.
const CONTEXT: usize = 4096;
/// The longest message that is read.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Talk to a model
///
/// Reads a message per line and streams the answers. With --message it answers that one and ends. `--json` prints one object
/// per answer, with the tool calls in it and how long it took.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of a model that was added, a path, or random:SHAPE
    model: String,
    /// A PEFT folder with an adapter
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Answer this and end
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    /// Standing instructions
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 512, value_name = "N")]
    max_tokens: usize,
    /// How adventurous; 0 always takes the likeliest token
    #[arg(long, default_value_t = 0.7, value_name = "T")]
    temperature: f32,
    /// Draw from the likeliest tokens that have this much probability together
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    top_p: f32,
    /// Draw from this many likeliest tokens; 0 means all
    #[arg(long, default_value_t = 0, value_name = "N")]
    top_k: usize,
    /// Draw from tokens with at least this share of the likeliest one's probability
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    min_p: f32,
    /// End an answer before this text
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// The most tokens between <think> and </think>; then the thought is closed
    #[arg(long, value_name = "N")]
    think: Option<usize>,
    /// The fewest tokens between them; before, the thought cannot be closed
    #[arg(long, value_name = "N", requires = "think")]
    think_least: Option<usize>,
    /// How often "Wait" is put into a thought that is shorter than that
    #[arg(long, value_name = "N", requires = "think_least")]
    think_waits: Option<usize>,
    /// A JSON schema that every answer follows
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The longest conversation in tokens; without this, the model's own limit, at most 4096
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// The seed of the answers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How many threads compute; without this, all cores
    #[arg(long, value_name = "N", value_parser = crate::device::threads::<usize>())]
    threads: Option<usize>,
}

/// What is said of an answer in JSON.
#[derive(Debug, Serialize)]
struct Said {
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    tool_calls: Vec<ToolRequest>,
    /// Tool calls that cannot be read, and why.
    broken_calls: Vec<String>,
    finish: Finish,
    tokens: usize,
    forced_tokens: usize,
    /// From the start of the command, or from the message before.
    first_token_s: f64,
    tokens_per_s: f64,
}

pub(crate) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let begin = Instant::now();
    let mut chat = Chat::start(args, context)?;
    if let Some(message) = &args.message {
        chat.say(message, begin, context.printer)?;
        return Ok(Exit::Yes);
    }
    let asks = std::io::stdin().is_terminal();
    if asks {
        context.printer.say("one message per line; Ctrl-D ends");
    }
    let mut input = std::io::stdin().lock();
    let mut since = begin;
    loop {
        if asks {
            context.printer.piece(Style::Note, "> ")?;
        }
        let mut line = String::new();
        let n_read = std::io::Read::take(&mut input, MESSAGE_BYTES_MAX).read_line(&mut line).map_err(Failure::world)?;
        if n_read == 0 {
            return Ok(Exit::Yes);
        }
        if asks {
            since = Instant::now();
        }
        if !line.trim().is_empty() {
            chat.say(line.trim_end_matches(['\n', '\r']), since, context.printer)?;
        }
        since = Instant::now();
    }
}

struct Chat<'a> {
    args: &'a Args,
    opened: Arc<Opened>,
    host: Host<Machine>,
    adapter: Option<AdapterVersion>,
    grammar: Option<Grammar>,
    sampler: SamplerOptions,
    n_positions: usize,
    episode: Option<Episode>,
    n_answers: u64,
    setting: Setting,
    _grant: Grant,
}

impl<'a> Chat<'a> {
    fn start(args: &'a Args, context: &Context<'_>) -> Result<Self, Failure> {
        let sampler = SamplerOptions { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p, min_p: args.min_p };
        let sampler = sampler.validated().map_err(Failure::user)?;
        if args.max_tokens == 0 {
            return Err(Failure::user("--max-tokens needs at least 1"));
        }
        let opened = Opened::named(&args.model, context)?;
        if !opened.has_template {
            return Err(Failure::user(format_args!("{} has no chat template: it was not made for conversations", opened.name))
                .hint("take the model's instruct version"));
        }
        let grammar = args.schema.as_ref().map(|path| grammar(path, &opened)).transpose()?;
        let limit = opened.weights.config().context_len;
        let n_positions = args.context.unwrap_or(limit.min(CONTEXT));
        if n_positions < 2 || n_positions > limit {
            return Err(Failure::user(format_args!("--context {n_positions} is outside 2..={limit}")));
        }
        let answers = if args.adapter.is_some() { Answers::Many } else { Answers::One };
        let backend = crate::device::open(args.threads, answers, context)?;
        let limits = BatchLimits { n_pages: n_positions / 8 + 16, n_sequences_max: 1, ..BatchLimits::default() };
        let (limits, grant) = crate::device::sampling(&backend, opened.weights.config(), limits, 1, context.printer)?;
        let model = Model::load(&backend, &opened.weights, n_positions, Passes::Forward).map_err(Failure::world)?;
        let mut host = Host::new(backend, model, limits);
        let adapter = args.adapter.as_ref().map(|folder| opened.adapter(folder)).transpose()?;
        let adapter = adapter.map(|weights| host.load(&weights));
        let setting = Setting { now: Some(crate::clock::now()), ..Setting::default() };
        let (opened, episode, n_answers, _grant) = (Arc::new(opened), None, 0, grant);
        Ok(Self { args, opened, host, adapter, grammar, sampler, n_positions, episode, n_answers, setting, _grant })
    }

    /// Takes a message and shows the answer as it comes.
    fn say(&mut self, text: &str, since: Instant, printer: &Printer) -> Result<(), Failure> {
        let message = Message::text(Role::User, text);
        let renderer = &self.opened.renderer;
        let mut episode = match self.episode.take() {
            Some(mut episode) => {
                episode.extend(vec![message]).map_err(unrendered)?;
                episode
            }
            None => {
                let system = self.args.system.as_ref().map(|text| Message::text(Role::System, text.clone()));
                let messages = system.into_iter().chain([message]).collect();
                Episode::open(Arc::new(renderer.clone()), messages, self.setting.clone()).map_err(unrendered)?
            }
        };
        if episode.ids().len() >= self.n_positions {
            return Err(Failure::user(format_args!("the conversation is longer than {} tokens", self.n_positions))
                .hint("begin a new one, or allow more with `--context`"));
        }
        let (tokens, finish, first_token_s, rate) = self.answer(&episode, since, printer)?;
        let hint = match finish {
            Finish::NoToken => Some("the schema allows none"),
            Finish::NotFinite => Some("the model's numbers are not finite: its weights may be damaged"),
            _ => None,
        };
        if let Some(hint) = hint {
            let failure = Failure::user(format_args!("after {} tokens no further one could be drawn", tokens.len()));
            return Err(failure.hint(hint));
        }
        let answer = episode.answer(&tokens).map_err(unrendered)?;
        if printer.wants_json() {
            printer.json(&Said {
                content: answer.content,
                thinking: answer.reasoning,
                tool_calls: answer.calls,
                broken_calls: answer.broken.into_iter().map(|call| format!("{}: {}", call.why, call.text)).collect(),
                finish,
                tokens: tokens.len(),
                forced_tokens: tokens.iter().filter(|token| token.forced).count(),
                first_token_s,
                tokens_per_s: rate,
            })?;
        } else {
            printer.plain("")?;
            let ended = if finish == Finish::Length { "; cut short by --max-tokens or --context" } else { "" };
            printer.say(&format!("{} tokens, the first after {first_token_s:.2} s, {rate:.0} tokens/s{ended}", tokens.len()));
        }
        self.n_answers += 1;
        self.episode = Some(episode);
        Ok(())
    }

    fn answer(
        &mut self,
        episode: &Episode,
        since: Instant,
        printer: &Printer,
    ) -> Result<(Vec<Token>, Finish, f64, f64), Failure> {
        // A small model's context may be shorter than the answer that is allowed.
        let n_tokens_max = self.args.max_tokens.min(self.n_positions - episode.ids().len());
        let rules = self.rules(episode)?;
        let request = Request {
            sampler: self.sampler,
            stop_ids: self.opened.stop_ids.clone(),
            seed: self.args.seed,
            sequence: self.n_answers,
            adapter: self.adapter.and_then(|version| self.host.pin(version)),
            constraints: if rules.is_free() { Vec::new() } else { vec![Box::new(rules)] },
            ..Request::new(episode.ids().to_vec(), n_tokens_max)
        };
        self.host.submit(request).map_err(Failure::world)?;
        let opened = Arc::clone(&self.opened);
        let mut shown = Shown::new(opened.renderer.tokenizer().stream(), &self.args.stop);
        let (mut tokens, mut first, mut finish) = (Vec::new(), None, None);
        while finish.is_none() {
            for event in self.host.sample_step() {
                first = first.or_else(|| (!event.tokens.is_empty()).then(Instant::now));
                for token in &event.tokens {
                    let is_end = self.opened.stop_ids.contains(&token.id);
                    let piece = if is_end { String::new() } else { shown.push(token.id) };
                    if !printer.wants_json() {
                        printer.piece(Style::Plain, &piece)?;
                    }
                }
                tokens.extend(event.tokens);
                finish = event.finish;
            }
        }
        if !printer.wants_json() {
            printer.piece(Style::Plain, &shown.finish())?;
        }
        let first = first.unwrap_or_else(Instant::now);
        let rate = tokens.len().saturating_sub(1) as f64 / first.elapsed().as_secs_f64().max(1e-9);
        let first_token_s = (first - since).as_secs_f64();
        Ok((tokens, finish.unwrap_or(Finish::Length), round(first_token_s), round(rate)))
    }

    fn rules(&self, episode: &Episode) -> Result<Rules, Failure> {
        let tokenizer = self.opened.renderer.tokenizer();
        let think = match self.args.think {
            Some(n_tokens_max) => {
                let budget = ThinkBudget {
                    n_tokens_max,
                    n_tokens_min: self.args.think_least.unwrap_or(0),
                    n_waits_max: self.args.think_waits.unwrap_or(0),
                    ..ThinkBudget::default()
                };
                // Some templates open the thought themselves.
                let is_open = tokenizer.decode(episode.ids()).trim_end().ends_with("<think>");
                let opening = if is_open { Opening::Prompt } else { Opening::Model };
                Some(ThinkRule::new(Arc::clone(tokenizer), budget, opening).map_err(unrendered)?)
            }
            None => None,
        };
        let stop = match self.args.stop.is_empty() {
            true => None,
            false => Some(StopStrings::new(Arc::clone(tokenizer), &self.args.stop).map_err(unrendered)?),
        };
        Ok(Rules::new(think, self.grammar.as_ref().map(Grammar::rule), stop))
    }
}

fn grammar(path: &std::path::Path, opened: &Opened) -> Result<Grammar, Failure> {
    let text = std::fs::read(path).map_err(at_path(path))?;
    let schema = serde_json::from_slice(&text).map_err(|error| Failure::user(format_args!("{}: {error}", path.display())))?;
    let host = GrammarHost::new(opened.renderer.tokenizer()).map_err(unrendered)?;
    host.schema(&schema).map_err(|error| Failure::user(format_args!("{}: {error}", path.display())))
}

fn unrendered(error: RenderError) -> Failure {
    Failure::user(error)
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// What of an answer may be shown: not a stop string, nor what may become one.
struct Shown<'a> {
    stream: hone_render::TextStream<'a>,
    stops: &'a [String],
    text: String,
    n_shown: usize,
}

impl<'a> Shown<'a> {
    fn new(stream: hone_render::TextStream<'a>, stops: &'a [String]) -> Self {
        Self { stream, stops, text: String::new(), n_shown: 0 }
    }

    fn push(&mut self, id: u32) -> String {
        let piece = self.stream.push(id);
        self.text.push_str(&piece);
        let n_held = self.stops.iter().map(|stop| stop.len() - 1).max().unwrap_or(0);
        let end = cut(&self.text, self.stops).len();
        self.show(end.min(self.text.len().saturating_sub(n_held)))
    }

    fn finish(&mut self) -> String {
        let rest = self.stream.finish();
        self.text.push_str(&rest);
        self.show(cut(&self.text, self.stops).len())
    }

    fn show(&mut self, end: usize) -> String {
        let end = self.text.floor_char_boundary(end).max(self.n_shown);
        let piece = self.text[self.n_shown..end].to_owned();
        self.n_shown = end;
        piece
    }
}
