//! SQL is only ever static text: nothing is put into a statement but bound parameters.
//!
//! In `hone-store` no literal that holds a keyword of SQL is formatted, appended to or turned into a `String`, and no
//! call that takes SQL is handed a reference to something computed. A prepared statement is passed by reference too;
//! it is known by the word `statement` in its name. Test modules at the end of a file are free: a schema of its own
//! for each test cannot be a parameter.

use super::rust::{Reading, line_of, literal, read};
use super::{Finding, Tree};

const KEYWORDS: &[&str] =
    &["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "COPY", "PRAGMA", "WHERE", "ORDER BY"];

/// What makes text at run time from the first literal among its arguments.
const MAKERS: &[&str] = &["format!(", "format_args!(", "write!(", "writeln!(", "push_str(", "String::from("];

/// What makes a `String` of the literal before it.
const OWNERS: &[&str] = &[".to_owned()", ".to_string()", ".into()"];

/// Calls that take SQL as text.
const TEXT_CALLS: &[&str] =
    &[".prepare(&", ".prepare_cached(&", ".prepare_typed(&", ".execute_batch(&", ".batch_execute(&", ".simple_query(&"];

/// Calls that take SQL as text or as a prepared statement.
const CALLS: &[&str] = &[
    ".execute(&",
    ".query(&",
    ".query_one(&",
    ".query_opt(&",
    ".query_row(&",
    ".query_map(&",
    ".query_raw(&",
    ".copy_in(&",
    ".copy_out(&",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let ours = tree.texts(".rs").filter(|(path, _)| path.starts_with("crates/hone-store/src/"));
    ours.flat_map(|(path, source)| check_file(path, source)).collect()
}

fn check_file(path: &str, source: &str) -> Vec<Finding> {
    let reading = read(source);
    let end = test_module(&reading.code).unwrap_or(reading.code.len());
    let code = &reading.code[..end];
    let mut findings = Vec::new();
    let mut report = |offset: usize, what: String| findings.push(Finding::new(path, line_of(source, offset), what));
    for maker in MAKERS {
        for (at, _) in code.match_indices(maker) {
            let open = at + maker.len();
            if let Some(keyword) = literal(&reading, open, open + call_len(&code[open..])).and_then(keyword) {
                let name = maker.trim_end_matches('(');
                report(at, format!("`{name}` makes SQL ({keyword}) at run time: use a constant and bound parameters"));
            }
        }
    }
    for (open, close, keyword) in
        literals(&reading, end).filter_map(|(open, close)| Some((open, close, keyword(&reading.text[open..close])?)))
    {
        let before = code[..open].trim_end_matches(['"', '#', 'r']).trim_end();
        if before.strip_suffix('=').unwrap_or(before).ends_with('+') {
            report(open, format!("`+` makes SQL ({keyword}) at run time: use a constant and bound parameters"));
        }
        let after = code[close + 1..].trim_start_matches('#');
        if let Some(owner) = OWNERS.iter().find(|owner| after.starts_with(**owner)) {
            report(open, format!("`{owner}` makes a String of SQL ({keyword}): use a constant and bound parameters"));
        }
    }
    for call in TEXT_CALLS.iter().chain(CALLS) {
        for (at, _) in code.match_indices(call) {
            let argument = code[at + call.len()..].trim_start();
            let name: String = argument.chars().take_while(|c| c.is_alphanumeric() || "_.:!".contains(*c)).collect();
            let prepared = CALLS.contains(call) && name.to_lowercase().contains("statement");
            // Short names such as `query` are also those of our own functions, which take no SQL.
            let takes_sql = !call.starts_with(".query") || name.starts_with("format!") || name.to_lowercase().contains("sql");
            if takes_sql && !prepared {
                let way_out = "pass a `&'static str`, or a prepared statement named so";
                report(at, format!("`{call}{name}` runs SQL that is not a constant: {way_out}"));
            }
        }
    }
    findings.sort();
    findings
}

/// Where the test module begins that ends the file.
fn test_module(code: &str) -> Option<usize> {
    let at = code.find("#[cfg(test)]\nmod ")?;
    code[at..].lines().nth(1)?.trim_end().ends_with('{').then_some(at)
}

/// How far it is to the bracket that closes a call, from just after the one that opens it.
fn call_len(code: &str) -> usize {
    let mut depth = 1;
    let close = code.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    close.unwrap_or(code.len())
}

/// Where the insides of the string literals before an offset begin and end.
fn literals(reading: &Reading, end: usize) -> impl Iterator<Item = (usize, usize)> {
    let quotes: Vec<usize> = reading.code[..end].match_indices('"').map(|(at, _)| at).collect();
    let pairs: Vec<(usize, usize)> = quotes.chunks_exact(2).map(|pair| (pair[0] + 1, pair[1])).collect();
    pairs.into_iter()
}

/// The first keyword of SQL that stands in a text as a word.
fn keyword(text: &str) -> Option<&'static str> {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    KEYWORDS.iter().copied().find(|keyword| {
        text.match_indices(keyword)
            .any(|(at, _)| !is_word(text[..at].chars().next_back()) && !is_word(text[at + keyword.len()..].chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::expect;
    use super::*;

    #[test]
    fn static_sql_passes() {
        for source in [
            "const NEWEST: &str = \"SELECT id FROM trace WHERE category = ?1\";",
            "let sql = \"SELECT 1\";",
            "let n = db.execute(INSERT, params![id])?;",
            "let n = client.execute(&statement, &[&id]).await?;",
            "let rows = client.query(&self.statements.newest, &[&id]).await?;",
            "let page = store.query(&filter)?;",
            "format!(\"no trace {id}\")",
            "format!(\"the SELECTED ones, {created}\")",
            "// format!(\"SELECT {x}\")",
            "let s = \"format!(SELECT)\";",
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { format!(\"CREATE SCHEMA {name}\"); }\n}\n",
        ] {
            expect(check, &[("crates/hone-store/src/sqlite.rs", source)], &[]);
        }
        expect(check, &[("crates/hone/src/main.rs", "format!(\"SELECT {x}\")")], &[]);
    }

    #[test]
    fn computed_sql_is_found() {
        for (source, expected) in [
            ("\nformat!(\"SELECT {column} FROM trace\")", "2: `format!` makes SQL (SELECT)"),
            ("format!(\n    r#\"DELETE FROM {table}\"#)", "1: (DELETE)"),
            ("sql.push_str(\" ORDER BY time\");", "1: `push_str`"),
            ("sql += \" WHERE id = \";", "1: `+` makes SQL (WHERE)"),
            ("let sql = head + \n    r#\"ORDER BY time\"#;", "2: `+` makes SQL (ORDER BY)"),
            ("write!(sql, \"PRAGMA {name}\")", "1: `write!`"),
            ("let sql = \"SELECT \".to_owned() + column;", "1: `.to_owned()` makes a String"),
            ("let sql = r#\"COPY t\"#.to_string();", "1: `.to_string()`"),
            ("db.prepare(&sql)?;", "1: `.prepare(&sql` runs SQL"),
            ("db.execute(&text, [])?;", "1: `.execute(&text`"),
            ("db.query(&format!(\"{a} {b}\"), &[])", "1: `.query(&format!`"),
            ("db.query_row(&count_sql, [])", "1: `.query_row(&count_sql`"),
            ("#[cfg(test)]\nmod tests;\nfn f() { db.prepare(&sql); }", "3: `.prepare"),
        ] {
            expect(
                check,
                &[("crates/hone-store/src/sqlite.rs", source)],
                &[&format!("crates/hone-store/src/sqlite.rs:{expected}")],
            );
        }
    }
}
