//! The one place that decides what is shown, where and how.
//!
//! Data goes to stdout, talk and progress to stderr. Colour and bars appear only on a terminal. What is printed may
//! come from a trace, so every text passes [`visible`] here. Knows nothing of what the data means.

use crate::failure::{Failure, Kind};
use crate::visible;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the user asked of the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes {
    /// Data as JSON.
    pub json: bool,
    /// No talk but errors.
    pub quiet: bool,
    /// Never colour, whatever the terminal can do.
    pub plain: bool,
}

/// How a piece of text looks where there is colour; without, all look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// A heading.
    Strong,
    /// Of lesser importance.
    Faint,
    /// Good news.
    Good,
    /// Neither good nor bad.
    Note,
    /// Bad news.
    Bad,
    /// A cell of a grid, on a ground of its colour.
    Cell(i8),
}

/// The grounds of the colours 0 to 9 of a grid, with letters that can be read on them.
const CELLS: [&str; 10] = [
    "97;40",
    "97;48;5;26",
    "97;48;5;160",
    "30;48;5;40",
    "30;48;5;220",
    "30;48;5;250",
    "97;48;5;163",
    "30;48;5;208",
    "30;48;5;117",
    "97;48;5;88",
];

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Note => "36",
            Self::Bad => "1;31",
            Self::Cell(colour) => usize::try_from(colour).ok().and_then(|colour| CELLS.get(colour)).copied().unwrap_or("7"),
        }
    }
}

struct Stream {
    to: Mutex<Box<dyn Write + Send>>,
    terminal: bool,
    colour: bool,
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        // Bytes that were written before a panic elsewhere are still whole lines.
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, parts: &[(Style, &str)]) -> io::Result<()> {
        let mut line = self.styled(parts);
        line.push('\n');
        self.lock().write_all(line.as_bytes())
    }

    fn styled(&self, parts: &[(Style, &str)]) -> String {
        let mut line = String::new();
        for (style, text) in parts {
            let text = visible::block(text);
            if self.colour && !style.code().is_empty() {
                line.extend(["\u{1b}[", style.code(), "m", &text, "\u{1b}[0m"]);
            } else {
                line.push_str(&text);
            }
        }
        line
    }
}

/// Decides what is shown.
pub struct Printer {
    wishes: Wishes,
    out: Stream,
    err: Stream,
    bars: MultiProgress,
}

impl Printer {
    /// A printer on the streams of this process.
    pub fn new(wishes: Wishes) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let (out_terminal, err_terminal) = (out.is_terminal(), err.is_terminal());
        let show_bars = err_terminal && !wishes.quiet;
        let target = if show_bars { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            wishes,
            out: stream(BufWriter::with_capacity(64 << 10, out), out_terminal, wishes),
            err: stream(err, err_terminal, wishes),
            bars: MultiProgress::with_draw_target(target),
        }
    }

    /// A printer on other streams, neither of them a terminal.
    pub fn on(wishes: Wishes, out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        Self { wishes, out: stream(out, false, wishes), err: stream(err, false, wishes), bars }
    }

    /// Whether data is wanted as JSON.
    pub fn wants_json(&self) -> bool {
        self.wishes.json
    }

    /// Whether nothing beyond plain characters is wanted.
    pub fn is_plain(&self) -> bool {
        self.wishes.plain
    }

    /// Whether a person looks at the data as it comes.
    pub fn out_is_terminal(&self) -> bool {
        self.out.terminal
    }

    /// A line of data.
    pub fn line(&self, parts: &[(Style, &str)]) -> Result<(), Failure> {
        self.bars.suspend(|| self.out.write(parts)).map_err(unwritten)
    }

    /// A line of data that looks like nothing special.
    pub fn plain(&self, text: &str) -> Result<(), Failure> {
        self.line(&[(Style::Plain, text)])
    }

    /// A part of a line of data, shown at once: a text that comes piece by piece.
    pub fn piece(&self, style: Style, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let styled = self.out.styled(&[(style, text)]);
        let mut out = self.out.lock();
        out.write_all(styled.as_bytes()).and_then(|()| out.flush()).map_err(unwritten)
    }

    /// A line of data in JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::bug(format_args!("no JSON form: {error}")))?;
        self.json_text(text)
    }

    /// A line of data that is JSON already.
    pub fn json_text(&self, text: String) -> Result<(), Failure> {
        let mut text = visible::json(text);
        text.push('\n');
        self.out.lock().write_all(text.as_bytes()).map_err(unwritten)
    }

    /// Rows under their headings, in columns as wide as they need to be.
    pub fn table(&self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| visible::line(cell)).collect()).collect();
        let width = |idx: usize| {
            let cells = rows.iter().filter_map(|row| row.get(idx)).map(|cell| cell.chars().count());
            cells.chain([headings[idx].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        let padded = |cells: &[&str]| {
            let columns = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            columns.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.line(&[(Style::Strong, &padded(headings))])?;
        for row in &rows {
            let cells: Vec<&str> = row.iter().map(AsRef::as_ref).collect();
            self.plain(&padded(&cells))?;
        }
        Ok(())
    }

    /// Talk: what is going on, and what was done.
    pub fn say(&self, text: &str) {
        if !self.wishes.quiet {
            self.to_stderr(&[(Style::Plain, text)]);
        }
    }

    /// Bad news that does not end the command. Not even `--quiet` hides it.
    pub fn complain(&self, text: &str) {
        self.to_stderr(&[(Style::Plain, text)]);
    }

    /// Why the command ends here, and the way out.
    pub fn failure(&self, failure: &Failure) {
        if failure.kind == Kind::Closed {
            return;
        }
        self.to_stderr(&[(Style::Bad, "error:"), (Style::Plain, &format!(" {failure}"))]);
        if let Some(hint) = &failure.hint {
            self.to_stderr(&[]);
            self.to_stderr(&[(Style::Note, "hint:"), (Style::Plain, &format!(" {hint}"))]);
        }
    }

    /// A bar over the bytes of something, or a running count when its end is not known. Hidden without a terminal.
    pub fn bytes_bar(&self, n_bytes: Option<u64>, of: &str) -> ProgressBar {
        let bar = match n_bytes {
            Some(n_bytes) => ProgressBar::new(n_bytes)
                .with_style(bar_style("{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {msg}")),
            None => ProgressBar::no_length().with_style(bar_style("{spinner} {bytes}  {bytes_per_sec}  {msg}")),
        };
        self.bars.add(bar.with_message(visible::line(of).into_owned()))
    }

    /// A running count of records. Hidden without a terminal, and while a person reads the records themselves.
    pub fn count_bar(&self, what: &str) -> ProgressBar {
        let bar = ProgressBar::no_length().with_style(bar_style("{spinner} {human_pos} {msg}  {per_sec}"));
        self.bars.add(bar.with_message(what.to_owned()))
    }

    /// Sends on what is still held back. Call it before the process ends: a full disk shows only here.
    pub fn flush(&self) -> Result<(), Failure> {
        self.out.lock().flush().map_err(unwritten)
    }

    /// Talk stands below the data that came before it. Talk that cannot be shown has nowhere else to go, and data that cannot be
    /// is kept for the flush that tells.
    fn to_stderr(&self, parts: &[(Style, &str)]) {
        let _ = self.out.lock().flush();
        let _ = self.bars.suspend(|| self.err.write(parts));
    }
}

/// A number of things: `1 trace`, `2 traces`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn stream(to: impl Write + Send + 'static, terminal: bool, wishes: Wishes) -> Stream {
    Stream { to: Mutex::new(Box::new(to)), terminal, colour: terminal && !wishes.plain }
}

fn bar_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates of this file are well formed")
}

fn unwritten(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::closed(),
        _ => Failure::world(error).context("the output could not be written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(wishes: Wishes, act: impl Fn(&Printer), out: &str, err: &str) {
        let (to_out, to_err) = (Shared::default(), Shared::default());
        act(&Printer::on(wishes, to_out.clone(), to_err.clone()));
        let text = |shared: Shared| String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert_eq!((text(to_out).as_str(), text(to_err).as_str()), (out, err));
    }

    #[test]
    fn data_and_talk_keep_apart() {
        let quiet = Wishes { quiet: true, ..Wishes::default() };
        let failure = || Failure::user("`run-7` has no report").hint("run `hone eval run-7` first");
        let error = "error: `run-7` has no report\n\nhint: run `hone eval run-7` first\n";
        check(Wishes::default(), |printer| printer.plain("x").unwrap(), "x\n", "");
        check(Wishes::default(), |printer| printer.say("x"), "", "x\n");
        check(quiet, |printer| printer.say("x"), "", "");
        check(quiet, |printer| printer.failure(&failure()), "", error);
        check(Wishes { json: true, ..quiet }, |printer| printer.failure(&failure()), "", error);
        check(quiet, |printer| printer.failure(&Failure::closed()), "", "");
    }

    #[test]
    fn talk_stands_below_the_data_that_came_before_it() {
        let both = Shared::default();
        let printer = Printer::on(Wishes::default(), BufWriter::new(both.clone()), both.clone());
        printer.piece(Style::Plain, "Paris.").unwrap();
        printer.plain("").unwrap();
        printer.say("8 tokens");
        assert_eq!(both.0.lock().unwrap().as_slice(), b"Paris.\n8 tokens\n");
    }

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        check(Wishes::default(), |printer| printer.plain("a\u{1b}[2Jb").unwrap(), "a\\u{1b}[2Jb\n", "");
        check(Wishes::default(), |printer| printer.json(&"\u{9b}").unwrap(), "\"\\u009b\"\n", "");
        check(Wishes::default(), |printer| printer.complain("\u{7}"), "", "\\u{7}\n");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["1".to_owned(), "long name".to_owned()], vec!["12".to_owned(), "x\ny".to_owned()]];
        let expected = "id  name\n1   long name\n12  x\\ny\n";
        check(Wishes::default(), |printer| printer.table(&["id", "name"], &rows).unwrap(), expected, "");
    }

    #[test]
    fn a_reader_that_went_away_ends_the_command_in_silence() {
        let printer = Printer::on(Wishes::default(), Gone, Shared::default());
        assert_eq!(printer.plain("x").unwrap_err().kind, Kind::Closed);
    }
}
