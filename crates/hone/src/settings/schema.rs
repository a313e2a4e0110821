//! What can be set: the keys of `defaults.toml`, each with its comment, its default and thereby its type.

use super::file;
use std::sync::OnceLock;

/// The defaults, as they stand in the binary and, commented out, in a new `hone.toml`.
pub(crate) const DEFAULTS: &str = include_str!("../defaults.toml");

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
    Texts(Vec<String>),
}

impl Value {
    /// What the user has to write.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text in quotes",
            Self::Number(_) => "a whole number",
            Self::Texts(_) => "a list of texts",
        }
    }
}

/// Something that can be set.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) default: Value,
    /// What it means, in as many lines as in the file.
    pub(crate) comment: String,
}

impl Key {
    /// `table.name`
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.table, self.name)
    }

    /// The variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("HONE_{}_{}", self.table, self.name).to_uppercase()
    }
}

/// All keys, in the order of the file.
pub(crate) fn keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let entries = file::entries(DEFAULTS).expect("the defaults are well formed");
        let key = |entry: file::Entry| Key {
            comment: comment_above(DEFAULTS, entry.line),
            table: entry.table,
            name: entry.name,
            default: entry.value.expect("a default has a type that we know"),
        };
        entries.into_iter().map(key).collect()
    })
}

/// The tables with what they are about, in the order of the file.
pub(crate) fn tables() -> Vec<(String, String)> {
    let headings = DEFAULTS.lines().enumerate().filter_map(|(idx, line)| {
        let name = line.strip_prefix('[')?.strip_suffix(']')?;
        Some((name.to_owned(), comment_above(DEFAULTS, idx + 1)))
    });
    headings.collect()
}

/// The comment lines right above this line, counted from 1.
fn comment_above(text: &str, line: usize) -> String {
    let above: Vec<&str> = text.lines().take(line - 1).collect();
    let n_comments = above.iter().rev().take_while(|line| line.starts_with("# ")).count();
    let comments = above[above.len() - n_comments..].iter().map(|line| &line[2..]);
    comments.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_every_table_says_what_it_means() {
        assert!(keys().iter().all(|key| !key.comment.is_empty()));
        assert!(tables().iter().all(|(_, comment)| !comment.is_empty()));
        assert_eq!(keys()[0].path(), "store.folder");
        assert_eq!(keys()[0].variable(), "HONE_STORE_FOLDER");
    }
}
