//! A file of solvers cut into programs of one function each, so that a run pays for its own function and not for 399 others.
//!
//! Only a file of imports and solvers is cut, line by line. Each piece keeps its place in the file by empty lines before it, so
//! that errors name the line of the file. Anything else in the file, and it is left whole.

use super::PREFIX;
use std::collections::BTreeSet;

/// A solver: the name of its function and a program that defines it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) function: String,
    pub(super) source: String,
}

/// The solvers of a file, or `None` where something else is in it, or one is there twice.
pub(super) fn cut(source: &str) -> Option<Vec<Piece>> {
    let mut imports = String::new();
    let mut pieces: Vec<Piece> = Vec::new();
    for (nth, line) in source.lines().enumerate() {
        let is_inside = line.is_empty() || line.starts_with([' ', '\t', '#']);
        let function = line.strip_prefix("def ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name);
        match (function, pieces.last_mut()) {
            (Some(name), _) if name.starts_with(PREFIX) => {
                let before = "\n".repeat(nth - imports.matches('\n').count());
                pieces.push(Piece { function: name.to_owned(), source: format!("{imports}{before}{line}\n") });
            }
            (None, Some(piece)) if is_inside => piece.source.extend([line, "\n"]),
            (None, None) if is_inside => imports.push('\n'),
            (None, None) if line.starts_with("from ") || line.starts_with("import ") => imports.extend([line, "\n"]),
            _ => return None,
        }
    }
    let names: BTreeSet<&str> = pieces.iter().map(|piece| piece.function.as_str()).collect();
    (names.len() == pieces.len()).then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_stands_on_the_lines_of_the_file() {
        let source = "from dsl import *\n\ndef solve_a(I):\n    return I\n\n# b\ndef solve_b(I):\n    return I\n";
        let pieces = cut(source).unwrap();
        assert_eq!(pieces[1].function, "solve_b");
        assert_eq!(pieces[0].source, "from dsl import *\n\ndef solve_a(I):\n    return I\n\n# b\n");
        assert_eq!(pieces[1].source, "from dsl import *\n\n\n\n\n\ndef solve_b(I):\n    return I\n");
    }

    #[test]
    fn a_file_with_more_than_solvers_is_left_whole() {
        for rest in ["def helper(x):\n    return x\n", "X = 1\n", "def solve_a(I):\n    return I\n", "\"\"\"\ntext\n\"\"\"\n"] {
            assert_eq!(cut(&format!("def solve_a(I):\n    return I\n{rest}")), None, "{rest}");
        }
    }
}
