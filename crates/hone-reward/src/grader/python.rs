//! A grader that is a program: `grade(sample, item)` gives a number.
//!
//! It runs in hone's own interpreter, within limits on steps and memory, and reaches no file, clock, network or randomness: a
//! setting still runs nothing on this machine. `sample` and `item` are dictionaries with what the places of other graders name. A
//! program that fails on a sample scores 0 and says why; one that cannot be read is refused before anything is graded.

use super::template::Facts;
use super::{Grade, GraderError};
use hone_program::{Fault, Library, Limits, Meter, Program, Value as Native};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use std::sync::Arc;

/// The function that is called.
const ENTRY: &str = "grade";
/// How deep a sample may nest.
const DEPTH_MAX: usize = 64;
/// What one grading may use.
const LIMITS: Limits = Limits { fuel: 20_000_000, memory: 128 << 20, depth: 1000, output: 4 << 10, source: 256 << 10 };

/// A program that grades.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Python {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The program, which defines `grade(sample, item)`.
    pub source: String,
    /// The image that others run it in. There is none here: it is kept and has no say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_tag: Option<String>,
}

impl Python {
    /// Says what cannot work before anything is graded.
    pub(super) fn check(&self) -> Result<(), GraderError> {
        self.program().map(drop)
    }

    fn program(&self) -> Result<Program, GraderError> {
        let invalid = |what: String| GraderError::Invalid(format!("the `python` grader: {what}"));
        let program =
            Program::parse(&self.source, &Arc::new(Library::new()), &LIMITS).map_err(|error| invalid(error.to_string()))?;
        let is_there = program.functions().any(|name| name == ENTRY);
        is_there.then_some(program).ok_or_else(|| invalid(format!("its source defines no function `{ENTRY}(sample, item)`")))
    }

    pub(super) fn grade(&self, facts: &Facts<'_>) -> Result<Grade, GraderError> {
        let program = self.program()?;
        let failed = |why: String| Grade { words: vec![format!("`{ENTRY}` failed: {why}")], ..Grade::default() };
        let meter = Meter::new(LIMITS.fuel, LIMITS.memory);
        let arguments = native(&facts.sample, &meter, 0).and_then(|sample| Ok([sample, native(facts.item, &meter, 0)?]));
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(fault) => return Ok(failed(fault.to_string())),
        };
        match program.run(ENTRY, &arguments, &LIMITS).result {
            Err(error) => Ok(failed(error.to_string())),
            Ok(value) => Ok(match number(&value) {
                Some(score) => Grade { score, ..Grade::default() },
                None => failed(format!("it gave a {} and no finite number", value.type_name())),
            }),
        }
    }
}

fn number(value: &Native) -> Option<f64> {
    let number = match value {
        Native::Bool(is_so) => f64::from(u8::from(*is_so)),
        Native::Int(number) => *number as f64,
        Native::Float(number) => *number,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// JSON as a value of a program.
fn native(value: &Value, meter: &Meter, depth: usize) -> Result<Native, Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::new(hone_program::ErrorKind::Depth, format!("the sample nests deeper than {DEPTH_MAX}")));
    }
    match value {
        Value::Null => Ok(Native::None),
        Value::Bool(is_so) => Ok(Native::Bool(*is_so)),
        Value::Number(number) => Ok(of_number(number)),
        Value::String(text) => meter.str(text),
        Value::Array(items) => {
            let items = items.iter().map(|item| native(item, meter, depth + 1)).collect::<Result<Vec<_>, _>>()?;
            meter.list(items)
        }
        Value::Object(fields) => {
            let dict = meter.dict()?;
            for (key, value) in fields {
                dict.insert(meter.str(key)?, native(value, meter, depth + 1)?)?;
            }
            Ok(Native::Dict(dict))
        }
    }
}

fn of_number(number: &Number) -> Native {
    number.as_i64().map_or_else(|| Native::Float(number.as_f64().unwrap_or(f64::NAN)), Native::Int)
}
