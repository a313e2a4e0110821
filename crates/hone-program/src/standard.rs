//! The interpreter's own modules: the names every program sees, and small parts of the standard library.

mod build;
mod core;
mod functional;
mod heap;
mod iterators;
mod math;

use crate::kind::{self, Type};
use crate::library::{Constant, Library, Module};

/// The module whose names every program sees.
pub(crate) const BUILTINS: &str = "builtins";

/// Names of annotations, which are never evaluated but may be imported.
const TYPING: &[&str] = &[
    "Any",
    "Callable",
    "Collection",
    "Container",
    "Dict",
    "Deque",
    "DefaultDict",
    "Final",
    "FrozenSet",
    "Generator",
    "Hashable",
    "Iterable",
    "Iterator",
    "List",
    "Literal",
    "Mapping",
    "NamedTuple",
    "NoReturn",
    "Optional",
    "Sequence",
    "Set",
    "Sized",
    "Text",
    "Tuple",
    "Type",
    "TypeVar",
    "Union",
];

/// All modules that every library has.
pub(crate) fn modules() -> Vec<Module> {
    let builtins = kind::NAMED.iter().fold(Module::new(BUILTINS), |module, (name, kind)| module.kind(name, *kind));
    let typing = TYPING.iter().fold(Module::new("typing"), |module, name| module.constant(name, Constant::Str((*name).into())));
    let collections = Module::new("collections")
        .kind("Counter", Type::Counter)
        .kind("defaultdict", Type::DefaultDict)
        .kind("OrderedDict", Type::Dict)
        .kind("deque", Type::List);
    let string = Module::new("string")
        .constant("ascii_lowercase", Constant::Str(('a'..='z').collect()))
        .constant("ascii_uppercase", Constant::Str(('A'..='Z').collect()))
        .constant("ascii_letters", Constant::Str(('a'..='z').chain('A'..='Z').collect()))
        .constant("digits", Constant::Str(('0'..='9').collect()))
        .constant("hexdigits", Constant::Str("0123456789abcdefABCDEF".into()))
        .constant("punctuation", Constant::Str("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~".into()))
        .constant("whitespace", Constant::Str(" \t\n\r\u{b}\u{c}".into()));
    let sys = Module::new("sys").constant("maxsize", Constant::Int(i64::MAX));
    vec![
        core::add_to(builtins),
        math::module(),
        typing,
        collections,
        string,
        sys,
        iterators::module(),
        functional::functools(),
        functional::operator(),
        functional::copy(),
        heap::heapq(),
        heap::bisect(),
    ]
}

/// The names that every program sees.
pub(crate) fn names(library: &Library) -> impl Iterator<Item = &str> {
    library.module(BUILTINS).into_iter().flat_map(|module| module.names().iter().copied())
}
