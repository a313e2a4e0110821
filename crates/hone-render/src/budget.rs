//! What a chat template may cost: one purse of bytes per rendering, from which every growing operation pays.
//!
//! Fuel counts instructions, but one instruction can double a text or sort a list. So each such operation first weighs
//! its operands here, whole and deep, and pays for them. Memory and time are then bounded by the purse, whatever the
//! template does. Knows nothing of syntax: `guard.rs` puts the calls in.

use crate::bare::Bare;
use crate::json;
use minijinja::value::{Kwargs, Rest, StringInput, Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const DEPTH_MAX: usize = 64;
/// What a lazy list of unknown length costs.
const UNKNOWN_WEIGHT: usize = 1024;

/// Name of the filter that weighs a value and hands it on. No template can write it.
pub(crate) const WEIGH: &str = "(weigh)";
/// Name of the filter that weighs the items of a list without looking into them. No template can write it.
pub(crate) const WEIGH_ITEMS: &str = "(count)";
/// Name of the filter that turns a lazy list into a plain one, which can be weighed. No template can write it.
pub(crate) const SETTLE: &str = "(settle)";
/// Name of the filter that takes the marks out of a text that is only compared. No template can write it.
pub(crate) const BARE: &str = "(bare)";
/// Name of the filter that multiplies. No template can write it.
pub(crate) const TIMES: &str = "(times)";

/// Name of the filter that cuts a text or list. No template can write it.
pub(crate) const SLICE: &str = "(slice)";

/// Ends of a `range` beyond which the library's sums overflow.
const RANGE_MAX: i64 = 1 << 40;

/// Filters whose results are larger than what they are given, in ways that nobody's template needs.
const REMOVED: &[&str] = &["batch", "chain", "format", "groupby", "pprint", "slice", "sum", "zip"];

/// The purse of one rendering.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    left: Arc<AtomicUsize>,
    /// What stands in texts only to be found again: what a template asks about a text is answered without it.
    mark: Option<char>,
}

impl Budget {
    pub(crate) fn new(n_bytes: usize, mark: Option<char>) -> Self {
        Self { left: Arc::new(AtomicUsize::new(n_bytes)), mark }
    }

    /// A text without marks, for questions whose answer is no text.
    fn bare(&self, value: &Value) -> Result<Value, Error> {
        let Some((text, mark)) = value.as_str().zip(self.mark).filter(|(text, mark)| text.contains(*mark)) else {
            return Ok(value.clone());
        };
        self.pay(text.len())?;
        Ok(Value::from(text.replace(mark, "")))
    }

    fn pay(&self, n_bytes: usize) -> Result<(), Error> {
        let left = self.left.load(Ordering::Relaxed);
        let rest = left.checked_sub(n_bytes.max(1));
        let rest = rest.ok_or_else(|| refuse("it handles more text than a rendering may; texts or lists grow without end"))?;
        self.left.store(rest, Ordering::Relaxed);
        Ok(())
    }

    fn weigh(&self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(refuse("values are nested too deeply, or contain themselves"));
        }
        if let Some(text) = value.as_str() {
            return self.pay(text.len());
        }
        self.pay(8)?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Map => {
                let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
                for (key, item) in pairs.into_iter().flatten() {
                    self.weigh(&key, depth + 1)?;
                    self.weigh(&item, depth + 1)?;
                }
                Ok(())
            }
            ValueKind::Iterable if value.len().is_some() => {
                let mut items = value.try_iter()?;
                items.try_for_each(|item| self.weigh(&item, depth + 1))
            }
            ValueKind::Iterable => self.pay(UNKNOWN_WEIGHT),
            _ => Ok(()),
        }
    }

    fn weigh_items(&self, value: &Value) -> Result<(), Error> {
        self.pay(value.as_str().map_or_else(|| value.len().unwrap_or(UNKNOWN_WEIGHT).saturating_mul(8), str::len))
    }

    /// The text that Jinja would print, paid for.
    fn text(&self, value: &Value) -> Result<String, Error> {
        self.weigh(value, 0)?;
        let python = match value.kind() {
            ValueKind::None => Some("None"),
            ValueKind::Bool => Some(if value.is_true() { "True" } else { "False" }),
            _ => None,
        };
        if let Some(text) = python.or_else(|| value.as_str()) {
            return Ok(text.to_owned());
        }
        let mut text = String::new();
        write!(text, "{value}").map_err(|_| refuse("a value cannot be printed"))?;
        self.pay(text.len())?;
        Ok(text)
    }

    fn times(&self, left: &Value, right: &Value) -> Result<Value, Error> {
        let repeated = |text: &str, n: &Value| {
            let n = n.as_i64().ok_or_else(|| refuse("a text can be multiplied only by a whole number"))?;
            let n = usize::try_from(n).unwrap_or(0);
            self.pay(text.len().saturating_mul(n))?;
            Ok(Value::from(text.repeat(n)))
        };
        match (left.as_str(), right.as_str()) {
            (Some(text), _) => return repeated(text, right),
            (_, Some(text)) => return repeated(text, left),
            _ => {}
        }
        if let (true, true, Some(a), Some(b)) = (left.is_integer(), right.is_integer(), left.as_i64(), right.as_i64()) {
            return a.checked_mul(b).map(Value::from).ok_or_else(|| refuse("a product is too large"));
        }
        let number = |value: &Value| f64::try_from(value.clone());
        Ok(Value::from(number(left)? * number(right)?))
    }

    /// Python's `value[start:stop:step]`. The library's own panics when there is nothing to go back through.
    fn slice(&self, value: &Value, start: Option<i64>, stop: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(refuse("a slice needs a step that is not 0"));
        }
        if let Some(text) = value.as_str() {
            self.pay(text.len())?;
            return self.slice_text(text, start, stop, step).map(Value::from);
        }
        let mut items = Vec::new();
        match value.kind() {
            ValueKind::Undefined | ValueKind::None => {}
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.pay(8)?;
                    items.push(item);
                }
            }
            kind => return Err(refuse(format!("a {kind} has no slices"))),
        }
        let items: Vec<Value> = places(items.len(), start, stop, step).map(|at| items[at].clone()).collect();
        let is_tuple = value.downcast_object_ref::<Tuple>().is_some();
        Ok(if is_tuple { Value::from(Tuple::from(items)) } else { Value::from(items) })
    }

    /// Characters are cut out with the marks on both of their sides, which do not count.
    fn slice_text(&self, text: &str, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<String, Error> {
        let Some(bare) = Bare::of(text, self.mark) else {
            let chars: Vec<char> = text.chars().collect();
            return Ok(places(chars.len(), start, stop, step).map(|at| chars[at]).collect());
        };
        let sliced: String = places(bare.n_chars(), start, stop, step).map(|idx| bare.character(idx)).collect();
        self.pay(sliced.len())?;
        Ok(sliced)
    }

    fn replace(&self, text: &str, old: &str, new: &str, n_max: Option<i64>) -> Result<Value, Error> {
        let n_max = n_max.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let n_found = |text: &str, old: &str| text.matches(old).take(n_max).count();
        let Some((bare, mark)) = Bare::of(text, self.mark).zip(self.mark) else {
            self.pay(text.len().saturating_add(n_found(text, old).saturating_mul(new.len())))?;
            return Ok(Value::from(text.replacen(old, new, n_max)));
        };
        let old = old.replace(mark, "");
        // Marks stand around every character.
        let n_bytes = (new.len() + 1).saturating_mul(2 * mark.len_utf8());
        self.pay(text.len().saturating_add(n_found(bare.text(), &old).saturating_mul(n_bytes)))?;
        Ok(Value::from(bare.replaced(&old, new, n_max)))
    }

    /// A method that gives a part of a text, or a list of parts. It is asked of the text without marks, and the parts have theirs.
    fn parts(&self, state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
        let args = args.iter().map(|arg| self.bare(arg)).collect::<Result<Vec<_>, _>>()?;
        let bare = value.as_str().and_then(|text| Bare::of(text, self.mark));
        let asked = bare.as_ref().map_or_else(|| value.clone(), |bare| Value::from(bare.text()));
        let mut found = settle(unknown_method_callback(state, &asked, name, &args)?)?;
        if let Some(bare) = bare {
            let is_one = found.as_str().is_some();
            let parts: Vec<Value> = if is_one { vec![found] } else { found.try_iter()?.collect() };
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            let n_between = args.first().and_then(Value::as_str).filter(|_| name == "split").map(str::len);
            let mut marked = bare.pieces(&parts, n_between).into_iter().map(Value::from);
            found = if is_one { marked.next().unwrap_or_default() } else { marked.collect() };
        }
        self.weigh(&found, 0)?;
        Ok(found)
    }

    fn join(&self, items: &Value, separator: &str) -> Result<Value, Error> {
        let mut joined = String::new();
        for (idx, item) in items.try_iter()?.enumerate() {
            if idx > 0 {
                self.pay(separator.len())?;
                joined.push_str(separator);
            }
            joined.push_str(&self.text(&item)?);
        }
        Ok(Value::from(joined))
    }

    fn indent(&self, text: &str, width: usize, first: bool, blank: bool) -> Result<Value, Error> {
        self.pay(text.len().saturating_add(text.split('\n').count().saturating_mul(width)))?;
        // A width in a format string may not exceed 65535, or it panics.
        let margin = " ".repeat(width);
        let indented = text.split('\n').enumerate().map(|(idx, line)| {
            let wanted = if idx == 0 { first } else { blank || !line.is_empty() };
            if wanted { format!("{margin}{line}") } else { line.to_owned() }
        });
        Ok(Value::from(indented.collect::<Vec<_>>().join("\n")))
    }

    fn to_json(&self, value: &Value, indent: Option<usize>, is_ascii: bool) -> Result<Value, Error> {
        self.weigh(value, 0)?;
        let out = json::write(value, indent, is_ascii).map_err(|error| refuse(format!("a value has no JSON form: {error}")))?;
        self.pay(out.len())?;
        Ok(Value::from(String::from_utf8_lossy(&out).into_owned()))
    }

    /// Python's methods on texts, lists and tables.
    fn method(&self, state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
        let wrong = |what: &str| refuse(format!("`.{name}()` needs {what}"));
        match (value.as_str(), name) {
            (Some(text), "replace") => {
                let [Some(old), Some(new)] = [0, 1].map(|idx| args.get(idx).and_then(Value::as_str)) else {
                    return Err(wrong("two texts"));
                };
                self.replace(text, old, new, args.get(2).and_then(Value::as_i64))
            }
            (Some(separator), "join") => self.join(args.first().ok_or_else(|| wrong("a list"))?, separator),
            (Some(_), "split" | "splitlines" | "strip" | "lstrip" | "rstrip") => self.parts(state, value, name, args),
            (Some(_), "startswith" | "endswith" | "find" | "rfind" | "count") => {
                let args = args.iter().map(|arg| self.bare(arg)).collect::<Result<Vec<_>, _>>()?;
                unknown_method_callback(state, &self.bare(value)?, name, &args)
            }
            (Some(_), question) if question.starts_with("is") => unknown_method_callback(state, &self.bare(value)?, name, args),
            (Some(_), "format") => Err(refuse("`.format()` is not available in chat templates")),
            _ => {
                let result = settle(unknown_method_callback(state, value, name, args)?)?;
                self.weigh(&result, 0)?;
                Ok(result)
            }
        }
    }

    /// Puts the guarded operations into an environment.
    pub(crate) fn install(&self, env: &mut Environment<'_>) {
        REMOVED.iter().for_each(|name| env.remove_filter(name));
        env.remove_global("debug");
        // The library's own divides by zero.
        env.add_test("divisibleby", |value: &Value, by: &Value| match (value.as_i64(), by.as_i64()) {
            (Some(value), Some(by)) => value.checked_rem(by) == Some(0),
            _ => false,
        });
        // To the library, none is an empty list.
        env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
        env.add_function("range", |lower: i64, upper: Option<i64>, step: Option<i64>| {
            let is_small = |n: &i64| (-RANGE_MAX..=RANGE_MAX).contains(n);
            if ![Some(lower), upper, step].iter().flatten().all(is_small) {
                return Err(refuse("a range reaches too far"));
            }
            let size = |n: i64| isize::try_from(n).unwrap_or_default();
            minijinja::functions::range(size(lower), upper.map(size), step.map(size))
        });
        // As a test of `select` it compares every item with every other; as an operator it stays.
        env.remove_test("in");
        let budget = || self.clone();
        let purse = budget();
        env.add_filter(WEIGH, move |value: Value| purse.weigh(&value, 0).map(|()| value));
        let purse = budget();
        env.add_filter(WEIGH_ITEMS, move |value: Value| purse.weigh_items(&value).map(|()| value));
        env.add_filter(SETTLE, settle);
        let purse = budget();
        env.add_filter(BARE, move |value: Value| purse.bare(&value));
        for name in ["length", "count"] {
            let purse = budget();
            env.add_filter(name, move |value: &Value| minijinja::filters::length(&purse.bare(value)?));
        }
        let purse = budget();
        env.add_filter(TIMES, move |left: &Value, right: &Value| purse.times(left, right));
        let purse = budget();
        env.add_filter(SLICE, move |value: &Value, start: Option<i64>, stop: Option<i64>, step: Option<i64>| {
            purse.slice(value, start, stop, step)
        });
        let purse = budget();
        env.add_filter("replace", move |text: &Value, old: &str, new: &str, n_max: Option<i64>| {
            purse.replace(&purse.text(text)?, old, new, n_max)
        });
        let purse = budget();
        env.add_filter("split", move |state: &mut State<'_, '_>, text: &Value, args: Rest<Value>| {
            purse.parts(state, text, "split", &args)
        });
        let purse = budget();
        env.add_filter("lines", move |state: &mut State<'_, '_>, text: &Value| purse.parts(state, text, "splitlines", &[]));
        let purse = budget();
        env.add_filter("trim", move |state: &mut State<'_, '_>, text: &Value, args: Rest<Value>| {
            let text = StringInput::new(state, text)?;
            purse.parts(state, &Value::from(text.as_str()), "strip", &args)
        });
        let purse = budget();
        env.add_filter("join", move |items: &Value, separator: Option<&str>| purse.join(items, separator.unwrap_or("")));
        let purse = budget();
        env.add_filter("string", move |value: &Value| purse.text(value));
        let purse = budget();
        env.add_filter("indent", move |text: &Value, rest: Rest<Value>, options: Kwargs| {
            let at = |idx: usize, name: &str| rest.get(idx).cloned().or_else(|| options.get(name).ok());
            let width = at(0, "width").and_then(|width| usize::try_from(width).ok()).unwrap_or(4);
            let flag = |idx: usize, name: &str| at(idx, name).is_some_and(|value| value.is_true());
            purse.indent(&purse.text(text)?, width, flag(1, "first"), flag(2, "blank"))
        });
        let purse = budget();
        env.add_filter("tojson", move |value: &Value, options: Kwargs| {
            let indent = options.get::<Option<usize>>("indent")?;
            let is_ascii = options.get::<Option<bool>>("ensure_ascii")?;
            options.assert_all_used()?;
            purse.to_json(value, indent, is_ascii.unwrap_or(false))
        });
        let purse = budget();
        env.set_unknown_method_callback(move |state, value, name, args| purse.method(state, value, name, args));
        let purse = budget();
        env.set_formatter(move |out, _, value| {
            if value.is_undefined() {
                return Ok(());
            }
            let text = purse.text(value)?;
            out.write_str(&text).map_err(|_| refuse("its output cannot be written"))
        });
    }
}

/// The positions that a slice of Python takes from so many items, in order.
fn places(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let forward = step > 0;
    let (low, high) = if forward { (0, len) } else { (-1, len - 1) };
    let bound = |at: i64| if at < 0 { at.saturating_add(len) } else { at }.clamp(low, high);
    let (first, end) = if forward { (low, high) } else { (high, low) };
    let (first, end) = (start.map_or(first, bound), stop.map_or(end, bound));
    let steps = std::iter::successors(Some(first), move |at| at.checked_add(step));
    steps.take_while(move |&at| if forward { at < end } else { at > end }).filter_map(|at| usize::try_from(at).ok())
}

fn settle(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Iterable => Ok(value.try_iter()?.collect()),
        _ => Ok(value),
    }
}

/// An error that says what the template did.
pub(crate) fn refuse(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}
