//! Words for names that mean nothing, with the name that was probably meant.

use crate::code::{Code, Compiled};
use crate::fault::{ErrorKind, Fault};

#[cold]
pub(crate) fn unset(code: &Code, slot: u32) -> Fault {
    let name = code.local_names.get(slot as usize).map_or("", |name| name);
    Fault::new(ErrorKind::Name, format!("'{name}' is used before it has a value; assign it on every path first"))
}

#[cold]
pub(crate) fn unset_shared() -> Fault {
    Fault::new(ErrorKind::Name, "a variable of an enclosing function is used before it has a value")
}

#[cold]
pub(crate) fn undefined(program: &Compiled, name: &str) -> Fault {
    let known = program.globals.iter().map(|name| &**name).chain(crate::standard::names(&program.library));
    let close = known.filter(|known| *known != name).min_by_key(|known| (distance(known, name), *known));
    let hint = match close {
        Some(close) if distance(close, name) <= 2 => format!("; did you mean '{close}'?"),
        _ => String::new(),
    };
    Fault::new(ErrorKind::Name, format!("name '{name}' is not defined{hint}"))
}

/// How many letters differ between two names; large where they are not alike at all.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 || a.len() > 64 {
        return usize::MAX;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let changed = diagonal + usize::from(*letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
