//! What a run measured, step by step: `metrics.jsonl`, one line per step or evaluation.
//!
//! Which values there are is up to the run. A resumed run may say a step again, and an evaluation has a line of its own:
//! of each value at a step the later one counts. A kill can leave half a line at the end, which is skipped when reading and cut
//! off before writing goes on. Knows nothing of what the values mean, except that those of validation hold until the next one.

use crate::failure::{Failure, at_path};
use hone_trace::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The name of the file in the folder of a run.
pub(crate) const FILE_NAME: &str = "metrics.jsonl";

/// The most that is read of any file of a run.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What the names of values begin with that are measured now and then.
const VALIDATION: &str = "validation";

/// What was measured at one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) step: u64,
    /// Seconds since 1970.
    pub(crate) at: f64,
    pub(crate) values: BTreeMap<String, f64>,
}

impl Line {
    /// A line of these values. One that is not finite is left out: JSON has no word for it, and a gap says the same.
    pub(crate) fn new<'a>(step: u64, at: Time, values: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let finite = values.into_iter().filter(|(_, value)| value.is_finite());
        let values = finite.map(|(name, value)| (name.to_owned(), value)).collect();
        Self { step, at: at.unix_nanos() as f64 / 1e9, values }
    }

    /// When it was measured, as nanoseconds since 1970.
    #[expect(clippy::cast_possible_truncation, reason = "what is beyond the range of times stops at its end")]
    pub(crate) fn unix_nanos(&self) -> i64 {
        (self.at * 1e9) as i64
    }
}

/// All that a run measured.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    /// One line for each step, in order.
    pub(crate) lines: Vec<Line>,
    /// Whether the last line was cut short, and skipped.
    pub(crate) is_cut: bool,
}

impl Metrics {
    /// What stands in a file; nothing when there is none.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = read(path)?.unwrap_or_default();
        let mut parts: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
        let is_cut = parts.pop().is_some_and(|rest| !rest.is_empty());
        let mut lines = Vec::with_capacity(parts.len());
        for (number, part) in (1..).zip(parts) {
            lines.push(serde_json::from_slice(part).map_err(|error| bad_line(path, number, &error))?);
        }
        Ok(Self { is_cut, ..Self::of(lines) })
    }

    /// What these lines say together.
    pub(crate) fn of(lines: Vec<Line>) -> Self {
        let mut steps: BTreeMap<u64, Line> = BTreeMap::new();
        for line in lines {
            let Some(known) = steps.get_mut(&line.step) else {
                steps.insert(line.step, line);
                continue;
            };
            known.at = line.at;
            known.values.extend(line.values);
        }
        Self { lines: steps.into_values().collect(), is_cut: false }
    }

    /// A value with the steps at which it was measured.
    pub(crate) fn series(&self, name: &str) -> Vec<(u64, f64)> {
        self.lines.iter().filter_map(|line| Some((line.step, *line.values.get(name)?))).collect()
    }

    /// What a value was at a step, or at the last one where that is before. What is measured at every step is known only where it was
    /// measured; what is measured now and then, which is validation, is as it was last measured until then.
    pub(crate) fn at(&self, name: &str, step: u64) -> Option<f64> {
        let step = step.min(self.last_step()?);
        let last = |name: &str| self.series(name).into_iter().take_while(|(at, _)| *at <= step).last();
        let (at, value) = last(name)?;
        // What the last validation did not tell, such as what broke, is not that of an earlier one.
        let holds = || name.starts_with(VALIDATION) && last(VALIDATION).is_none_or(|(measured, _)| measured <= at);
        (at == step || holds()).then_some(value)
    }

    /// The step of the largest value and the value, of several the first.
    pub(crate) fn highest(&self, name: &str) -> Option<(u64, f64)> {
        self.series(name).into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    /// The first step at which a value was as large as this.
    pub(crate) fn reached(&self, name: &str, value: f64) -> Option<u64> {
        self.series(name).into_iter().find(|(_, found)| *found >= value).map(|(step, _)| step)
    }

    pub(crate) fn last_step(&self) -> Option<u64> {
        self.lines.last().map(|line| line.step)
    }

    /// The names of all values.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.lines.iter().flat_map(|line| line.values.keys().map(String::as_str)).collect()
    }
}

/// Where lines are added.
pub(crate) struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Goes on behind the last whole line.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let there = read(path)?.unwrap_or_default();
        let whole = there.iter().rposition(|&byte| byte == b'\n').map_or(0, |idx| idx + 1);
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(at_path(path))?;
        crate::durable::name(path)?;
        if whole < there.len() {
            file.set_len(whole as u64).map_err(at_path(path))?;
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// Adds a line by one write, so that a kill leaves at most one of them cut short.
    pub(crate) fn add(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text = serde_json::to_string(line).map_err(Failure::bug)?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(at_path(&self.path))
    }

    /// Answers when all lines are durable.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        self.file.sync_data().map_err(at_path(&self.path))
    }
}

/// The bytes of a file of a run, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at_path(path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(at_path(path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::user(format_args!("{} is larger than {} MiB", path.display(), FILE_BYTES_MAX >> 20)));
    }
    Ok(Some(bytes))
}

/// A value as people read it: three digits after the point, whole numbers whole, small ones by their power of ten.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size < 1e15 && value.fract() == 0.0 => format!("{value:.0}"),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn bad_line(path: &Path, number: usize, error: &serde_json::Error) -> Failure {
    Failure::user(format_args!("{}:{number}: {error}", path.display()))
        .hint("a line is {\"step\":1,\"at\":SECONDS,\"values\":{\"reward\":0.5}}; take out this one to read the others")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, is_cut: bool, reward: &[(u64, f64)]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, text).unwrap();
        let found = Metrics::read(&path).unwrap();
        assert_eq!((found.is_cut, found.series("reward")), (is_cut, reward.to_vec()), "{text}");
        // Whatever was there, the next line is whole.
        let next = Line::new(99, Time::from_unix_nanos(1_500_000_000), [("reward", 0.5), ("kl", f64::NAN)]);
        Log::open(&path).unwrap().add(&next).unwrap();
        let found = Metrics::read(&path).unwrap();
        assert_eq!((found.is_cut, found.lines.last()), (false, Some(&next)), "{text}");
        assert_eq!(next.values.len(), 1);
    }

    #[test]
    fn lines_are_read_as_they_count() {
        let one = r#"{"step":1,"at":1.5,"values":{"reward":0.25}}"#;
        let two = r#"{"step":2,"at":2.5,"values":{"reward":0.5,"kl":0}}"#;
        check("", false, &[]);
        check(&format!("{one}\n{two}\n"), false, &[(1, 0.25), (2, 0.5)]);
        check(&format!("{one}\n{two}"), true, &[(1, 0.25)]);
        check(&format!("{one}\n{}", &two[..20]), true, &[(1, 0.25)]);
        check(&two[..9], true, &[]);
        // After a resume a step may come again; an evaluation adds to its step.
        check(&format!("{one}\n{two}\n{}\n", one.replace("0.25", "0.75")), false, &[(1, 0.75), (2, 0.5)]);
        check(&format!("{one}\n{}\n", one.replace("reward", "validation")), false, &[(1, 0.25)]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        assert_eq!(Metrics::read(&path).unwrap(), Metrics::default());
        std::fs::write(&path, "{\"step\":1,\"at\":1,\"values\":{}}\nnonsense\n").unwrap();
        let failure = Metrics::read(&path).unwrap_err();
        assert!(failure.to_string().contains("metrics.jsonl:2: "), "{failure}");
    }

    #[test]
    fn values_are_found_by_step() {
        let line = |step, values: &[(&'static str, f64)]| Line::new(step, Time::from_unix_nanos(0), values.iter().copied());
        let lines = vec![line(1, &[("validation", 0.5)]), line(2, &[("reward", 1.0)]), line(3, &[("validation", 0.5)])];
        let metrics = Metrics { lines, is_cut: false };
        assert_eq!((metrics.at("validation", 2), metrics.at("reward", 1)), (Some(0.5), None));
        assert_eq!((metrics.at("reward", 2), metrics.at("reward", 3), metrics.at("reward", u64::MAX)), (Some(1.0), None, None));
        assert_eq!((metrics.at("validation", u64::MAX), metrics.at("kl", 3)), (Some(0.5), None));
        let broken =
            vec![line(1, &[("validation", 0.5), ("validation_broken", 3.0)]), line(4, &[("validation", 0.5)]), line(5, &[])];
        let broken = Metrics { lines: broken, is_cut: false };
        assert_eq!([1, 3, 5].map(|step| broken.at("validation_broken", step)), [Some(3.0), Some(3.0), None]);
        assert_eq!((metrics.highest("validation"), metrics.highest("kl")), (Some((1, 0.5)), None));
        assert_eq!((metrics.reached("validation", 0.5), metrics.reached("validation", 0.6)), (Some(1), None));
        assert_eq!((metrics.last_step(), metrics.names().len()), (Some(3), 2));
    }

    #[test]
    fn figures_are_short() {
        for (value, expected) in
            [(0.0, "0"), (0.41234, "0.412"), (-0.5, "-0.500"), (18_240.0, "18240"), (123.456, "123.5"), (5e-4, "5.00e-4")]
        {
            assert_eq!(figure(value), expected);
        }
    }
}
