//! A light reading of Rust: the same text with comments, or comments and the inside of strings, blanked out.
//!
//! Every byte keeps its place, so that offsets and line numbers agree between the readings. Knows literals and
//! comments, nothing of grammar or macros.

/// Two readings of one source file, of the same length as the file.
pub(super) struct Reading {
    /// Without comments.
    pub(super) text: String,
    /// Without comments and without what stands in strings; their quotes stay.
    pub(super) code: String,
}

pub(super) fn read(source: &str) -> Reading {
    let mut text = source.as_bytes().to_vec();
    let mut code = text.clone();
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let next = rest.chars().next().map_or(1, char::len_utf8);
        let previous = source[..at].chars().next_back();
        let in_word = previous.is_some_and(|c| c.is_alphanumeric() || c == '_');
        at += if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            blank(&mut text[at..at + end]);
            blank(&mut code[at..at + end]);
            end
        } else if rest.starts_with("/*") {
            let end = comment_len(rest);
            blank(&mut text[at..at + end]);
            blank(&mut code[at..at + end]);
            end
        } else if let Some((open, close)) = string_ends(rest, in_word) {
            blank(&mut code[at + open..at + close]);
            // The quote, and the hashes after it that cannot begin anything else.
            close + usize::from(close < rest.len())
        } else if rest.starts_with('\'') {
            let end = char_len(rest);
            if end > 1 {
                blank(&mut code[at + 1..at + end - 1]);
            }
            end
        } else {
            next
        };
    }
    let string = |bytes| String::from_utf8(bytes).expect("whole characters are blanked");
    Reading { text: string(text), code: string(code) }
}

/// The line of an offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The inside of the first string literal at or after an offset and before another.
pub(super) fn literal(reading: &Reading, from: usize, to: usize) -> Option<&str> {
    let open = from + reading.code[from..to].find('"')? + 1;
    let close = open + reading.code[open..].find('"')?;
    Some(&reading.text[open..close])
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// The length of a block comment; they nest.
fn comment_len(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Where the inside of a string literal that begins here starts and ends.
fn string_ends(rest: &str, in_word: bool) -> Option<(usize, usize)> {
    if let Some(inside) = rest.strip_prefix('"') {
        let mut escaped = false;
        let close = inside.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        return Some((1, close.map_or(rest.len(), |at| at + 1)));
    }
    // The `r` of a raw string is a word of its own, or follows a `b` or `c` that is.
    let raw = ["r", "br", "cr"].iter().find_map(|prefix| rest.strip_prefix(prefix)).filter(|_| !in_word)?;
    let n_hashes = raw.len() - raw.trim_start_matches('#').len();
    let inside = raw[n_hashes..].strip_prefix('"')?;
    let open = rest.len() - inside.len();
    let close = inside.find(&format!("\"{}", "#".repeat(n_hashes)));
    Some((open, close.map_or(rest.len(), |at| open + at)))
}

/// The length of a character literal, or 1 for the tick of a lifetime.
fn char_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        // The escaped character itself may be a tick.
        (Some((_, '\\')), Some((at, c))) => {
            let after = at + c.len_utf8();
            rest[after..].find('\'').map_or(1, |end| after + end + 1)
        }
        (Some((_, c)), Some((at, '\''))) if c != '\'' => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked() {
        for (source, text, code) in [
            ("a // b\nc", "a     \nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e", "a                   e"),
            ("f(\"// a\") // b", "f(\"// a\")     ", "f(\"    \")     "),
            (r#"f("a\"b", 'c')"#, r#"f("a\"b", 'c')"#, r#"f("    ", ' ')"#),
            (r##"f(r#"a"b"#)"##, r##"f(r#"a"b"#)"##, r##"f(r#"   "#)"##),
            ("f::<'a>('\"', '\\'', b\"x\")", "f::<'a>('\"', '\\'', b\"x\")", "f::<'a>(' ', '  ', b\" \")"),
            ("\"é\" é", "\"é\" é", "\"  \" é"),
        ] {
            let reading = read(source);
            assert_eq!((reading.text.as_str(), reading.code.as_str()), (text, code), "{source}");
        }
    }

    #[test]
    fn an_unfinished_literal_does_no_harm() {
        for source in ["\"a", "r#\"a\"", "/* a", "'", "'\\", "b'", "\"\\"] {
            assert_eq!(read(source).code.len(), source.len(), "{source}");
        }
    }

    #[test]
    fn literals_are_found_by_offset() {
        let reading = read("f(/* \"no\" */ x, r#\"yes\"#)");
        assert_eq!(literal(&reading, 0, reading.code.len()), Some("yes"));
        assert_eq!(literal(&reading, 0, 5), None);
    }
}
