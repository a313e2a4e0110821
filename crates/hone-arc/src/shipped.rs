//! Programs that ship with hone: solutions of public training tasks, as examples and as a first test of everything.

use crate::augment::Augmentation;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A file of functions `solve_<task id>(I)`, which together use every function of the language.
pub const PROGRAMS: &str = include_str!("../programs/solvers.py");

/// The name of the function that a single program defines.
pub const ENTRY: &str = "solve";

/// The program to start from where there is no better one: it changes nothing.
pub const EMPTY: &str = "from arc_dsl import *\n\n\ndef solve(I):\n    O = I\n    return O\n";

/// The programs one by one: the id of the task, and a source that defines [`ENTRY`].
pub fn programs() -> &'static BTreeMap<&'static str, String> {
    static CUT: LazyLock<BTreeMap<&'static str, String>> =
        LazyLock::new(|| PROGRAMS.split("\n\n\n").filter_map(single).collect());
    &CUT
}

/// The shipped program for this task or, laid as it is, for the one that it was augmented from.
pub fn solution(task: &str) -> Option<String> {
    if let Some(program) = programs().get(task) {
        return Some(program.clone());
    }
    let (base, augmentation) = Augmentation::named(task)?;
    programs().get(base).map(|program| augmentation.program(program))
}

/// The programs of another file of functions `solve_<task id>(I)`, one by one. Each stands alone: what is outside of its function
/// is left out.
pub fn single_programs(source: &str) -> BTreeMap<String, String> {
    let mut programs = BTreeMap::new();
    for part in format!("\n{source}").split("\ndef ") {
        let head = part.strip_prefix("solve_").and_then(|rest| rest.split_once('('));
        if let Some((id, rest)) = head {
            programs.insert(id.to_owned(), format!("from arc_dsl import *\n\n\ndef {ENTRY}({}\n", rest.trim_end()));
        }
    }
    programs
}

fn single(function: &'static str) -> Option<(&'static str, String)> {
    let (id, rest) = function.strip_prefix("def solve_")?.split_once('(')?;
    Some((id, format!("from arc_dsl import *\n\n\ndef {ENTRY}({}\n", rest.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl;
    use std::collections::HashSet;

    #[test]
    fn together_the_programs_use_every_function() {
        let words: HashSet<&str> = PROGRAMS.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
        let unused: Vec<&str> = dsl::functions().map(|function| function.name).filter(|name| !words.contains(name)).collect();
        assert_eq!(unused, Vec::<&str>::new());
    }

    #[test]
    fn another_file_is_cut_into_its_programs() {
        let cut = single_programs(
            "from dsl import *\ndef solve_a(I):\n    return I\ndef helper(x):\n    return x\ndef solve_b(I):\n    O = I\n    return O",
        );
        assert_eq!(cut.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(cut["a"], "from arc_dsl import *\n\n\ndef solve(I):\n    return I\n");
        let shipped = single_programs(PROGRAMS);
        assert!(programs().iter().all(|(id, program)| shipped[*id] == *program) && shipped.len() == programs().len());
    }

    #[test]
    fn every_program_stands_alone() {
        assert_eq!(programs().len(), PROGRAMS.matches("\ndef solve_").count());
        assert_eq!(programs()["67a3c6ac"], "from arc_dsl import *\n\n\ndef solve(I):\n    O = vmirror(I)\n    return O\n");
    }
}
