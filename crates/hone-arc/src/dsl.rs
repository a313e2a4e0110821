//! The grid language: 160 functions and 28 constants that programs import as `arc_dsl`, `dsl` or `constants`.
//!
//! The names, parameters and results are those of the public ARC-DSL, so that programs written for it run unchanged. Sets
//! iterate in ascending structural order. Every function carries its signature and a line that says what it does.
//! Departures: colours of a grid are numbers from -128 to 127, coordinates of a patch lie within ±524287, numbers have 64
//! bits, and `argmax` compares sets by their size.

mod apply;
mod build;
mod colours;
mod containers;
mod extents;
mod finding;
mod fused;
mod gathered;
mod loose;
mod making;
mod numbers;
mod packed;
mod painting;
mod quick;
mod read;
mod relations;
mod reshaping;
mod select;

use crate::grid::Grid;
use crate::patch::Patch;
use hone_program::{Constant, Fault, Library, Meter, Module, NativeBody, Value};
use std::sync::{Arc, LazyLock};

/// The module that programs import.
pub const MODULE: &str = "arc_dsl";
/// The names by which public programs import the same module.
const ALIASES: [&str; 2] = ["dsl", "constants"];

/// A function of the language.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The names of its parameters.
    pub parameters: &'static [&'static str],
    /// What kind of value each parameter is meant to be.
    pub kinds: &'static [&'static str],
    /// What kind of value it gives.
    pub result: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    body: NativeBody,
}

impl Function {
    /// The function with its parameters and result, such as `size(container: Container) -> Integer`.
    pub fn signature(&self) -> String {
        let parameters: Vec<String> =
            self.parameters.iter().zip(self.kinds).map(|(name, kind)| format!("{name}: {kind}")).collect();
        format!("{}({}) -> {}", self.name, parameters.join(", "), self.result)
    }
}

/// Declares the functions of a file: signature and what it does. The body is the function of that name.
macro_rules! declare {
    ($($name:ident($($parameter:ident: $kind:ident),*) -> $result:ident: $about:literal;)*) => {
        pub(super) const FUNCTIONS: &[super::Function] = &[$(super::Function {
            name: super::plain(stringify!($name)),
            parameters: &[$(stringify!($parameter)),*],
            kinds: &[$(stringify!($kind)),*],
            result: stringify!($result),
            about: $about,
            body: $name,
        }),*];
    };
}
use declare;

/// A name without the mark that Rust needs before its own keywords.
const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', rest @ ..] => match std::str::from_utf8(rest) {
            Ok(plain) => plain,
            Err(_) => name,
        },
        _ => name,
    }
}

/// The functions by what they are about, in the order in which they are best learned.
pub const SECTIONS: [(&str, &[Function]); 12] = [
    ("Numbers and logic", numbers::FUNCTIONS),
    ("Containers: building, membership, joining", containers::FUNCTIONS),
    ("Containers: selecting, ranking, counting", select::FUNCTIONS),
    ("Applying functions over containers", apply::FUNCTIONS),
    ("Function builders", build::FUNCTIONS),
    ("Colours", colours::FUNCTIONS),
    ("Extent and shape", extents::FUNCTIONS),
    ("Relations between patches", relations::FUNCTIONS),
    ("Making and moving patches", making::FUNCTIONS),
    ("Finding things in a grid", finding::FUNCTIONS),
    ("Reshaping grids", reshaping::FUNCTIONS),
    ("Recolouring and painting", painting::FUNCTIONS),
];

/// All functions.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    SECTIONS.iter().flat_map(|(_, functions)| *functions)
}

/// All constants, in the order in which they are best learned.
pub fn constants() -> Vec<(&'static str, Constant)> {
    let numbers = ["ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE", "TEN"];
    let pair = |(a, b)| Constant::Tuple(vec![Constant::Int(a), Constant::Int(b)]);
    let truths = [("F", Constant::Bool(false)), ("T", Constant::Bool(true))];
    let negatives = [("NEG_ONE", Constant::Int(-1)), ("NEG_TWO", Constant::Int(-2))];
    truths
        .into_iter()
        .chain(numbers.into_iter().zip(0..).map(|(name, number)| (name, Constant::Int(number))))
        .chain(negatives)
        .chain(PAIRS.into_iter().map(|(name, value)| (name, pair(value))))
        .collect()
}

const PAIRS: [(&str, (i64, i64)); 13] = [
    ("DOWN", (1, 0)),
    ("RIGHT", (0, 1)),
    ("UP", (-1, 0)),
    ("LEFT", (0, -1)),
    ("ORIGIN", (0, 0)),
    ("UNITY", (1, 1)),
    ("NEG_UNITY", (-1, -1)),
    ("UP_RIGHT", (-1, 1)),
    ("DOWN_LEFT", (1, -1)),
    ("ZERO_BY_TWO", (0, 2)),
    ("TWO_BY_ZERO", (2, 0)),
    ("TWO_BY_TWO", (2, 2)),
    ("THREE_BY_THREE", (3, 3)),
];

/// The whole language for a model to read: every function with its signature and what it does, then the constants.
pub fn prompt() -> String {
    let mut text = String::from(
        "The module arc_dsl. A cell is (colour, (row, column)). An object is a frozenset of cells, indices are a frozenset of \
         (row, column); a patch is either. A piece is a grid or a patch, an element a grid or an object. (row, column) counts \
         from (0, 0) at the upper left.\n",
    );
    for (section, functions) in SECTIONS {
        text += &format!("\n# {section}\n");
        for function in functions {
            text += &format!("{}: {}\n", function.signature(), function.about);
        }
    }
    text += "\n# Constants\n";
    for (name, value) in constants() {
        text += &format!("{name} = {}\n", told(&value));
    }
    text
}

/// A constant as a program would write it.
pub fn told(constant: &Constant) -> String {
    match constant {
        Constant::Bool(truth) => if *truth { "True" } else { "False" }.to_owned(),
        Constant::Int(number) => number.to_string(),
        Constant::Tuple(items) => format!("({})", items.iter().map(told).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}

/// What programs of this world may import.
pub fn library() -> Arc<Library> {
    static LIBRARY: LazyLock<Arc<Library>> = LazyLock::new(|| {
        let mut library = Library::new();
        let module = functions()
            .fold(Module::new(MODULE), |module, function| module.function(function.name, function.parameters, function.body));
        library.add(constants().into_iter().fold(module, |module, (name, value)| module.constant(name, value)));
        ALIASES.iter().for_each(|alias| library.alias(alias, MODULE));
        Arc::new(library)
    });
    Arc::clone(&LIBRARY)
}

/// A grid as the input of a program. It counts against no run's memory.
pub fn input(grid: Grid) -> Result<Value, Fault> {
    Meter::free().pack(grid)
}

/// A patch as a value outside of any run.
pub fn patch(patch: Patch) -> Result<Value, Fault> {
    Meter::free().pack(patch)
}

/// The grid that a program gave, or why it is none: rows of whole numbers, all of one length.
pub fn output(value: &Value) -> Result<Grid, Fault> {
    if let Some(grid) = value.packed::<Grid>() {
        return Ok(grid.clone());
    }
    let mut context = hone_program::Context::new(&hone_program::Limits::default());
    Ok(read::grid(&mut context, value)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn there_are_160_functions_and_28_constants_by_distinct_names() {
        let names: HashSet<&str> = functions().map(|function| function.name).chain(constants().iter().map(|c| c.0)).collect();
        assert_eq!((functions().count(), constants().len(), names.len()), (160, 28, 188));
        assert!(names.contains("move") && names.contains("box"));
    }

    #[test]
    fn every_function_says_what_it_takes_and_does() {
        for function in functions() {
            assert_eq!(function.parameters.len(), function.kinds.len(), "{}", function.name);
            assert!(function.about.ends_with('.') && !function.about.contains('\n'), "{}", function.name);
        }
        let by_arity = |n| functions().filter(|function| function.parameters.len() == n).count();
        assert_eq!([1, 2, 3, 4].map(by_arity), [79, 66, 14, 1]);
    }

    #[test]
    fn the_public_import_lines_find_the_same_functions() {
        let library = library();
        for name in ["arc_dsl", "dsl", "constants"] {
            assert!(library.native(name, "objects").is_some(), "{name}");
        }
    }
}
