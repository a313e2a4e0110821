//! What is checked of a text before it is parsed: its size, and how deeply it can nest.
//!
//! The parser, the compiler and the dropping of the tree go one level deeper for each level of the tree. How deep the tree can
//! become is bounded by the tokens that stand in one another's way: those of one part between commas, inside of each bracket
//! that is open. The bound is found without recursion.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::Mode;

use crate::fault::{Error, ErrorKind};

/// Brackets that may be open at once.
const BRACKETS_MAX: usize = 200;
/// Blocks that may be inside of each other.
const INDENTS_MAX: usize = 100;
/// Levels that an expression may have.
const LEVELS_MAX: usize = 3000;

/// One open bracket.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Tokens since the last comma.
    part: usize,
    /// Tokens that commas do not end: a lambda goes on behind the commas of its parameters.
    lasting: usize,
}

/// Where lines start, and how deep the tree can be; refuses what is too large or too deep.
pub(crate) fn scan(source: &str, source_max: usize) -> Result<(Vec<u32>, usize), Error> {
    if source.len() > source_max {
        return Err(refusal(0, format!("the program has {} bytes; at most {source_max} are allowed", source.len())));
    }
    let lines = line_starts(source);
    let mut lexer = ruff_python_parser::lexer::lex(source, Mode::Module);
    let mut levels = vec![Level::default()];
    let (mut depth, mut deepest, mut n_indents, mut line) = (0, 0, 0, 1);
    loop {
        let kind = lexer.next_token();
        let Some(level) = levels.last_mut() else { break };
        line += u32::from(matches!(kind, TokenKind::Newline | TokenKind::NonLogicalNewline));
        match kind {
            TokenKind::EndOfFile => break,
            TokenKind::Newline | TokenKind::Semi => {
                levels.clear();
                levels.push(Level::default());
                depth = 0;
                continue;
            }
            TokenKind::Comma => {
                depth -= level.part;
                level.part = 0;
                continue;
            }
            TokenKind::Indent => n_indents += 1,
            TokenKind::Dedent => n_indents -= usize::from(n_indents > 0),
            TokenKind::Lambda => {
                level.lasting += 1;
                depth += 1;
            }
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace | TokenKind::FStringStart | TokenKind::TStringStart => {
                level.part += 1;
                depth += 1;
                levels.push(Level::default());
            }
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace | TokenKind::FStringEnd | TokenKind::TStringEnd => {
                if levels.len() > 1
                    && let Some(closed) = levels.pop()
                {
                    depth -= closed.part + closed.lasting;
                }
            }
            TokenKind::Comment | TokenKind::NonLogicalNewline => {}
            _ => {
                level.part += 1;
                depth += 1;
            }
        }
        deepest = deepest.max(depth);
        if levels.len() > BRACKETS_MAX || depth > LEVELS_MAX || n_indents > INDENTS_MAX {
            // A text over several lines is one token, so that lines behind it cannot be told here.
            let line = if source.contains("\"\"\"") || source.contains("'''") || source.contains("\\\n") { 0 } else { line };
            let what = match (levels.len() > BRACKETS_MAX, n_indents > INDENTS_MAX) {
                (true, _) => format!("more than {BRACKETS_MAX} brackets inside of each other"),
                (_, true) => format!("more than {INDENTS_MAX} blocks inside of each other"),
                _ => format!("an expression of more than {LEVELS_MAX} parts; split it into several"),
            };
            return Err(refusal(line, what));
        }
    }
    Ok((lines, deepest + n_indents))
}

fn refusal(line: u32, message: String) -> Error {
    Error { kind: ErrorKind::Syntax, line, message }
}

fn line_starts(source: &str) -> Vec<u32> {
    let mut starts = vec![0];
    starts.extend(source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1));
    starts
}
