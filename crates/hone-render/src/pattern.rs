//! Which regular expressions of a tokenizer are run.
//!
//! The library tries every way through a text for a pattern that looks around, and builds a table for each repetition, so
//! a short pattern from a stranger could take hours to build or to match. Every vocabulary that we know gets by with
//! plain patterns, which take time in proportion to the text, and one look-ahead in a branch of its own: `\s+(?!\S)`.
//! These are let through, everything else is refused by name. Knows nothing of what a pattern means.

use crate::error::RenderError;

const LEN_MAX: usize = 2048;
/// Most repetitions by number, all added up; `{1,3}` counts three.
const REPEATS_MAX: usize = 64;
/// Spaces up to the one before a word.
const LAST_SPACES: &str = r"\s+(?!\S)";
const GROUPS: [&str; 3] = ["(?:", "(?i:", "(?i)"];

/// Refuses a pattern that could take forever.
pub(crate) fn check(pattern: &str) -> Result<(), RenderError> {
    if pattern.len() > LEN_MAX {
        return refuse(&format!("is longer than {LEN_MAX} bytes"));
    }
    let (mut n_groups, mut n_classes, mut n_repeats) = (0usize, 0usize, 0usize);
    let mut rest = pattern;
    let mut begins_branch = true;
    while let Some(c) = rest.chars().next() {
        if begins_branch
            && n_groups == 0
            && let Some(after) = rest.strip_prefix(LAST_SPACES)
            && (after.is_empty() || after.starts_with('|'))
        {
            rest = after;
            continue;
        }
        let next = rest[c.len_utf8()..].chars().next();
        let mut n_bytes = c.len_utf8();
        match c {
            '\\' => n_bytes += escaped(&rest[1..])?,
            '[' => n_classes += 1,
            ']' => n_classes = n_classes.saturating_sub(1),
            _ if n_classes > 0 => {}
            '(' if next == Some('?') && !GROUPS.iter().any(|group| rest.starts_with(group)) => {
                return refuse(&format!("has the group `{}`", rest.chars().take(4).collect::<String>()));
            }
            '(' => n_groups += 1,
            ')' => n_groups = n_groups.saturating_sub(1),
            '{' => {
                n_repeats = n_repeats.saturating_add(repeats(rest));
                n_bytes = braced(rest);
                if rest[n_bytes..].starts_with('+') {
                    return refuse("has the repetition `}+`");
                }
            }
            '*' | '+' | '?' if next == Some('+') => return refuse(&format!("has the repetition `{c}+`")),
            _ => {}
        }
        begins_branch = c == '|' && n_classes == 0;
        rest = &rest[n_bytes..];
    }
    if n_repeats > REPEATS_MAX {
        return refuse(&format!("repeats {n_repeats} times by number, at most {REPEATS_MAX} are followed"));
    }
    Ok(())
}

/// The length of what belongs to a backslash.
fn escaped(rest: &str) -> Result<usize, RenderError> {
    match rest.chars().next() {
        Some('p' | 'P' | 'x') if rest[1..].starts_with('{') => Ok(1 + braced(&rest[1..])),
        Some(c) if "sSdDwWpPrntfvx".contains(c) || (c.is_ascii_punctuation() && !"<>".contains(c)) => Ok(1),
        Some(c) => refuse(&format!("has the escape `\\{c}`")),
        None => Ok(0),
    }
}

/// The length of what begins with a brace, both braces included.
fn braced(rest: &str) -> usize {
    rest.find('}').map_or(rest.len(), |end| end + 1)
}

/// The upper bound of `{3}`, `{1,3}` or `{3,}`.
fn repeats(rest: &str) -> usize {
    let numbers = rest[1..].split('}').next().unwrap_or_default().split(',');
    numbers.map(|number| number.trim().parse().unwrap_or(0)).max().unwrap_or(0)
}

fn refuse<T>(what: &str) -> Result<T, RenderError> {
    Err(RenderError::tokenizer(format!("the pattern of `Split` {what}, which could take forever")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(pattern: &str, says: &str) {
        let error = check(pattern).expect_err(pattern).to_string();
        assert!(error.contains(says), "{pattern}: {error}");
    }

    #[test]
    fn known_vocabularies_pass() {
        let llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let gpt4o =
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+(?!\S)";
        let deepseek = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[一-龥぀-ゟ]+|\s+(?!\S)|\s+"##;
        let kimi = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}&&[^\p{Han}]]+|\+?[[:alpha:]]+";
        for pattern in [llama3, gpt4o, deepseek, kimi, r"\s+(?!\S)", "[(?=a)*+]+", r"\(?\++"] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_try_every_way_are_refused() {
        check_refused("a*a*(?!a)b|a", "`(?!a`");
        check_refused(r"(?:\s+(?!\S)|a)*b", "`(?!\\`");
        check_refused(r"a*\s+(?!\S)", "`(?!\\`");
        check_refused("(?=a)", "`(?=a`");
        check_refused("(?<x>a)", "`(?<x`");
        check_refused(r"(a*)\1", r"`\1`");
        check_refused("a*+", "`*+`");
        check_refused("a{1,3}+", "`}+`");
    }

    #[test]
    fn patterns_that_fill_the_memory_are_refused() {
        check_refused(&r"\w{60}|".repeat(60), "by number");
        check_refused(r"(?:\w{1,}){9999}", "by number");
        check_refused(&"a".repeat(3000), "bytes");
    }
}
