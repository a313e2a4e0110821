//! Programs with comments: what each step does, in the words of the language.
//!
//! A line that calls a function of the language gets a comment above it, unless it has one. Nothing else is touched.

use crate::dsl;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The program with a comment above every step that has none.
pub fn commented(program: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut depth = 0_i64;
    for line in program.lines() {
        let has_one = line.contains('#') || lines.last().is_some_and(|last| last.trim_start().starts_with('#'));
        if depth == 0
            && !has_one
            && let Some(about) = about(line)
        {
            let indent: String = line.chars().take_while(|letter| letter.is_whitespace()).collect();
            lines.push(format!("{indent}# {about}"));
        }
        depth += nesting(line);
        lines.push(line.to_owned());
    }
    lines.join("\n") + "\n"
}

/// How much deeper in brackets a line ends than it begins.
fn nesting(line: &str) -> i64 {
    let code = line.split('#').next().unwrap_or("");
    code.chars().fold(0, |depth, letter| match letter {
        '(' | '[' | '{' => depth + 1,
        ')' | ']' | '}' => depth - 1,
        _ => depth,
    })
}

/// What the first function of the language in a step does.
fn about(line: &str) -> Option<&'static str> {
    static ABOUT: LazyLock<BTreeMap<&str, &str>> =
        LazyLock::new(|| dsl::functions().map(|function| (function.name, function.about)).collect());
    let is_step = line.starts_with(char::is_whitespace) && (line.contains(" = ") || line.trim_start().starts_with("return "));
    let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    is_step.then(|| words.find_map(|word| ABOUT.get(word).copied())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    #[test]
    fn steps_get_a_comment_and_keep_their_own() {
        let about = about("    O = vmirror(I)").unwrap();
        let source = "from arc_dsl import *\n\n\ndef solve(I):\n    O = vmirror(I)\n    return O\n";
        assert_eq!(commented(source), source.replace("    O =", &format!("    # {about}\n    O =")));
        let own = "def solve(I):\n    # turn it\n    O = vmirror(I)\n    return rot90(O)  # again\n";
        assert_eq!(commented(own), own);
        let long = "def solve(I):\n    O = (\n        1 if x == 2 else\n        2)\n    return O\n";
        assert_eq!(commented(long), long);
    }

    #[test]
    fn a_commented_program_does_the_same() {
        for program in shipped::programs().values() {
            let lines = |text: &str| {
                text.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
            };
            let commented = commented(program);
            assert_eq!(lines(&commented), lines(program));
            assert!(commented.len() > program.len());
        }
    }
}
