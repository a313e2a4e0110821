//! The interpreter's own modules.

use crate::kind;
use crate::library::Module;

/// The module whose names every program sees.
pub(crate) const BUILTINS: &str = "builtins";

/// All modules that every library has.
pub(crate) fn modules() -> Vec<Module> {
    vec![kind::NAMED.iter().fold(Module::new(BUILTINS), |module, (name, kind)| module.kind(name, *kind))]
}
