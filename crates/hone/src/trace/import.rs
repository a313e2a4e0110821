//! `hone trace import`: lines of files into the store, with constant memory.
//!
//! One thread reads, others parse, and up to six batches are being written meanwhile. Good lines are kept whatever
//! the bad ones are; with `--strict` every file is read twice, and nothing is written if a line is bad.

mod entries;
mod fingerprint;
mod input;
mod parse;
mod reading;
mod tally;
mod writing;

use super::FormatName;
use crate::clock;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use clap::ValueEnum;
use hone_trace::format::{Format, Origin, Reader, otlp};
use hone_trace::{Category, REWARD_MAX, Time};
use indicatif::ProgressBar;
use input::Input;
use parse::{Record, Records};
use reading::{Reading, Source};
use std::path::{Path, PathBuf};
use tally::Tally;
use writing::Writing;

/// Read traces from files into the store
///
/// One record per line, or per entry where all of a file is one list or objects over many lines. A bad line is reported
/// with its file, line and reason; the good ones are kept, and the exit code is 1. To import a file twice is the same as
/// to import it once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The files to read; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files
    ///
    /// Data sets of TRL's or OpenAI's form, with prompts and the answers that may follow them, and of ShareGPT's,
    /// Alpaca's, Dolly's or Anthropic's are `openai` too.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    format: Given,
    /// Give this category to traces that name none
    #[arg(long)]
    category: Option<Category>,
    /// Give this reward to traces that tell none: 1 for examples that are worth imitating
    #[arg(long, value_parser = reward, allow_hyphen_values = true)]
    reward: Option<f64>,
    /// Write nothing at all if any line of any file is bad
    ///
    /// Every file is read twice; stdin is kept in a temporary file meanwhile. Whether an id is already in the store
    /// with other content is found when it is written, not before.
    #[arg(long)]
    strict: bool,
}

impl Args {
    /// One file, and nothing special about it.
    pub(super) fn of(file: &Path) -> Self {
        Self { files: vec![file.to_owned()], format: Given::Auto, category: None, reward: None, strict: false }
    }
}

fn reward(text: &str) -> Result<f64, String> {
    let reward = super::filter::finite(text)?;
    if reward.abs() <= REWARD_MAX { Ok(reward) } else { Err(format!("must be from -{REWARD_MAX} to {REWARD_MAX}")) }
}

/// The format that the user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    Auto,
    Named(FormatName),
}

impl ValueEnum for Given {
    fn value_variants<'a>() -> &'a [Self] {
        use FormatName::{Art, Hone, Openai, Otlp};
        &[Self::Auto, Self::Named(Hone), Self::Named(Openai), Self::Named(Art), Self::Named(Otlp)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::Auto => Some(clap::builder::PossibleValue::new("auto").help("The one that the first line gives away")),
            Self::Named(name) => name.to_possible_value(),
        }
    }
}

pub(super) async fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    args.files.iter().try_for_each(|path| Input::check(path))?;
    let import = Import { args, context, now: clock::now() };
    let mut tally = Tally::new(context.printer);
    let mut inputs: Vec<Option<Input>> = Vec::new();
    if args.strict {
        for path in &args.files {
            let mut input = Input::open(path)?;
            input.spool().map_err(|error| Failure::world(error).context(&input.name))?;
            import.file(&mut input, None, &mut tally).await?;
            // A stream cannot be opened again; a file can, and a thousand open ones are too many.
            inputs.push(input.n_bytes.filter(|_| !path.is_file()).map(|_| input));
        }
        if tally.total().bad > 0 {
            return tally.report(true);
        }
        tally = Tally::new(context.printer);
    } else {
        inputs.resize_with(args.files.len(), || None);
    }
    let mut writing =
        Writing::new(context.store().await?, context.settings.tenant.clone(), import.now, context.settings.import_batch);
    for (path, kept) in args.files.iter().zip(inputs) {
        let mut input = match kept {
            Some(input) => input,
            None => Input::open(path)?,
        };
        import.file(&mut input, Some(&mut writing), &mut tally).await?;
    }
    tally.report(false)
}

struct Import<'a> {
    args: &'a Args,
    context: &'a Context<'a>,
    now: Time,
}

impl Import<'_> {
    /// Reads one file to its end. Without `writing`, it is only looked at.
    async fn file(&self, input: &mut Input, writing: Option<&mut Writing>, tally: &mut Tally<'_>) -> Result<(), Failure> {
        let format = match self.args.format {
            Given::Named(name) => Some(name.into()),
            Given::Auto => input.detect(),
        };
        tally.file(&input.name, format.map_or("unknown", Format::as_str), input.has_entries());
        let Some(format) = format else {
            if !input.is_blank() {
                tally.bad(1, input.unknown());
            }
            return Ok(());
        };
        let name = input.name.clone();
        let about_file = |error| Failure::world(error).context(&name);
        if format == Format::Otlp {
            input.spool().map_err(about_file)?;
        }
        let bar = self.context.printer.bytes_bar(input.n_bytes, &name);
        let readings = match format {
            Format::Otlp => vec![self.conversations(input, &bar).map_err(about_file)?],
            // Lines of our own format have their ids in them, so that several threads can read them.
            Format::Hone => (0..n_threads()).map(|_| self.by_line(format)).collect(),
            // Equal lines of these become different traces by counting them, which one thread has to do.
            Format::Openai | Format::Art => vec![self.by_line(format)],
        };
        let lines = input.lines().map_err(about_file)?;
        let ended = self.records(Records::start(lines, readings), writing, &bar, tally).await;
        bar.finish_and_clear();
        ended.map_err(|failure| failure.context(&name))
    }

    async fn records(
        &self,
        mut records: Records,
        mut writing: Option<&mut Writing>,
        bar: &ProgressBar,
        tally: &mut Tally<'_>,
    ) -> Result<(), Failure> {
        while let Some(chunk) = records.next().await? {
            for Record { line, n_bytes, content } in chunk {
                bar.inc(n_bytes);
                match content {
                    Err(reason) => tally.bad(line, &reason),
                    Ok(fresh) => {
                        fresh.imported.refused.iter().for_each(|error| tally.bad(line, &error.to_string()));
                        tally.counts().spans_skipped += fresh.imported.n_spans_skipped;
                        tally.counts().records_skipped += fresh.imported.n_records_skipped;
                        if let Some(writing) = &mut writing {
                            writing.take(line, n_bytes, fresh, tally).await?;
                        }
                    }
                }
            }
        }
        match writing {
            Some(writing) => writing.finish(tally).await,
            None => Ok(()),
        }
    }

    fn reading(&self, source: Source) -> Reading {
        let options = self.context.settings.options.clone();
        let reward = self.args.reward.map(|total| reading::Given { total, at: self.now });
        Reading { source, tenant: self.context.settings.tenant.clone(), category: self.args.category.clone(), reward, options }
    }

    fn by_line(&self, format: Format) -> Reading {
        self.reading(Source::Line(format, Box::new(Reader::new(format, self.origin()))))
    }

    /// The first pass over an OTLP file: which lines hold spans of which conversation.
    fn conversations(&self, input: &mut Input, bar: &ProgressBar) -> std::io::Result<Reading> {
        bar.inc_length(input.n_bytes.unwrap_or(0));
        let (mut plan, mut lines) = (otlp::Plan::default(), input.lines()?);
        while let Some(line) = lines.next()? {
            bar.inc(line.n_bytes);
            // The second pass meets a bad line again, and reports it.
            if let Ok(text) = &line.text {
                let _ = plan.note(line.number, text);
            }
        }
        Ok(self.reading(Source::Spans(Box::new(otlp::Assembler::new(plan, self.origin())))))
    }

    fn origin(&self) -> Origin {
        Origin { tenant: self.context.settings.tenant.clone(), now: self.now }
    }
}

/// As many as there are cores, within reason: the store needs one as well.
fn n_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().clamp(1, 8))
}
