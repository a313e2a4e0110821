//! Reads the text of a `hone.toml`: which key has which value, on which line, or what is wrong and where.
//!
//! Knows nothing of files, and not which keys there are until it is told.

use super::neighbour::nearest;
use super::schema::{Key, Value};
use hone_reward::Recipe;
use hone_train::settings::{Algorithm, Given};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A key of the file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) table: String,
    pub(crate) name: String,
    /// The value, or what stands there instead of one.
    pub(crate) value: Result<Value, &'static str>,
    /// From 1.
    pub(crate) line: usize,
}

/// What is wrong with the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

/// The values in this text, each with its place among the keys and its line.
pub(crate) fn read(text: &str, keys: &[Key]) -> Result<Vec<(usize, Value, usize)>, Problem> {
    let tables = || keys.iter().map(|key| key.table.as_str());
    let mut values = Vec::new();
    for Entry { table, name, value, line } in entries(text)? {
        if table.is_empty() {
            return Err(stray(&name, line, keys));
        }
        if table == REWARD || table == TRAIN {
            continue;
        }
        if !tables().any(|known| known == table) {
            let hint = nearest(&table, tables()).map(|known| format!("did you mean `[{known}]`?"));
            return Err(Problem { line, reason: format!("there is no table `[{}]`", short(&table)), hint });
        }
        if name.is_empty() && value == Err(EMPTY) {
            continue;
        }
        let names = keys.iter().filter(|key| key.table == table).map(|key| key.name.as_str());
        let Some(idx) = keys.iter().position(|key| key.table == table && key.name == name) else {
            let hint = nearest(&name, names).map(|known| format!("did you mean `{known}`?"));
            return Err(Problem { line, reason: format!("`[{table}]` has no key `{}`", short(&name)), hint });
        };
        let expected = keys[idx].default.type_name();
        let found = match value {
            Ok(value) if value.type_name() == expected => {
                values.push((idx, value, line));
                continue;
            }
            Ok(value) => value.type_name(),
            Err(found) => found,
        };
        let reason = format!("`{}` must be {expected}, but here stands {found}", keys[idx].path());
        return Err(Problem { line, reason, hint: None });
    }
    Ok(values)
}

/// The text as tables. An integer that has no room is named by its key and line.
fn tables(text: &str) -> Result<toml::Table, Problem> {
    toml::from_str(text).map_err(|error| {
        let too_large = entries(text).ok().and_then(|entries| entries.into_iter().find(|entry| entry.value == Err(TOO_LARGE)));
        too_large.map_or_else(
            || unread(text, &error),
            |Entry { table, name, line, .. }| {
                let key = if table.is_empty() { name } else { format!("{table}.{name}") };
                Problem { line, reason: format!("`{key}` is {TOO_LARGE}"), hint: None }
            },
        )
    })
}

/// The table of recipes, which have a form of their own: see [`recipes`].
pub(crate) const REWARD: &str = "reward";

/// The recipes in this text: `[reward.desk]` says how traces of the world `desk` are weighed.
pub(crate) fn recipes(text: &str) -> Result<BTreeMap<String, Recipe>, Problem> {
    let problem = |at: Range<usize>, reason: String| Problem { line: line_of(text, at), reason, hint: None };
    let root = tables(text)?;
    let mut recipes = BTreeMap::new();
    let Some(tables) = root.get(REWARD) else { return Ok(recipes) };
    let at = |name: &str| {
        let start = text.find(&format!("[{REWARD}.{name}]")).or_else(|| text.find(REWARD)).unwrap_or(0);
        start..start
    };
    let named = tables.as_table().ok_or_else(|| problem(at(""), "`reward` is a table: write `[reward.desk]`".into()))?;
    for (name, table) in named {
        let recipe = toml::to_string(table).map_err(|_| problem(at(name), format!("`reward.{name}` is a table of a recipe")));
        let recipe = Recipe::parse(&recipe?).map_err(|error| problem(at(name), format!("`[reward.{name}]`: {error}")))?;
        recipes.insert(name.clone(), Recipe { name: name.clone(), ..recipe });
    }
    Ok(recipes)
}

/// The table of training, which has a form of its own too: see [`training`].
pub(crate) const TRAIN: &str = "train";

/// The settings of training in this text: `[train.grpo]` says how GRPO learns where the command line does not.
pub(crate) fn training(text: &str) -> Result<BTreeMap<String, Given>, Problem> {
    let at = |name: &str| {
        let start = text.find(&format!("[{TRAIN}.{name}]")).or_else(|| text.find(TRAIN)).unwrap_or(0);
        line_of(text, start..start)
    };
    let problem = |name: &str, reason: String| Problem { line: at(name), reason, hint: None };
    let root = tables(text)?;
    let Some(tables) = root.get(TRAIN) else { return Ok(BTreeMap::new()) };
    let named = tables.as_table().ok_or_else(|| problem("", "`train` is a table: write `[train.grpo]`".into()))?;
    let mut settings = BTreeMap::new();
    for (name, table) in named {
        let names = Algorithm::ALL.map(Algorithm::as_str);
        let Some(algorithm) = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == name) else {
            let hint = nearest(name, names).map(|known| format!("did you mean `[{TRAIN}.{known}]`?"));
            return Err(Problem { hint, ..problem(name, format!("there is no table `[{TRAIN}.{}]`", short(name))) });
        };
        let given: Given = table
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| problem(name, format!("`[{TRAIN}.{name}]`: {}", error.message().trim_end())))?;
        given.resolve(algorithm).map_err(|error| problem(name, format!("`[{TRAIN}.{name}]`: {error}")))?;
        settings.insert(name.clone(), given);
    }
    Ok(settings)
}

/// What stands where an integer has no room in 64 bits.
const TOO_LARGE: &str = "a number that is too large";

/// What stands in an empty table.
const EMPTY: &str = "nothing";

/// All keys of all tables, in the order of the text. A key outside of the tables has the table `""`. An empty table
/// is an entry without a name, because its own name may be wrong.
pub(crate) fn entries(text: &str) -> Result<Vec<Entry>, Problem> {
    let root = DeTable::parse(text).map_err(|error| unread(text, &error))?;
    let mut entries: Vec<(usize, Entry)> = Vec::new();
    for (table, content) in root.get_ref() {
        let mut push = |at: Range<usize>, table: &str, name: &str, value| {
            let line = line_of(text, at.clone());
            entries.push((at.start, Entry { table: table.to_owned(), name: name.to_owned(), value, line }));
        };
        match content.get_ref() {
            DeValue::Table(content) if content.is_empty() => push(table.span(), table.get_ref(), "", Err(EMPTY)),
            DeValue::Table(content) => {
                for (name, item) in content {
                    push(name.span(), table.get_ref(), name.get_ref(), value(item.get_ref()));
                }
            }
            other => push(table.span(), "", table.get_ref(), value(other)),
        }
    }
    entries.sort_by_key(|(at, _)| *at);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Why a text is no TOML. A key that stands twice is named.
fn unread(text: &str, error: &toml::de::Error) -> Problem {
    let at = error.span().unwrap_or(0..0);
    let said = error.message().lines().next().unwrap_or("this is not TOML");
    let key = text.get(at.clone()).filter(|key| said == "duplicate key" && !key.is_empty());
    let reason = key.map_or_else(|| said.to_owned(), |key| format!("{said} `{}`", short(key.trim())));
    Problem { line: line_of(text, at), reason, hint: None }
}

fn value(item: &DeValue<'_>) -> Result<Value, &'static str> {
    match item {
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Integer(digits) => {
            let number = i64::from_str_radix(digits.as_str(), digits.radix());
            number.map(Value::Number).map_err(|_| TOO_LARGE)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().map(Value::Texts).ok_or("a list of other things")
        }
        DeValue::Float(_) => Err("a number with a fraction"),
        DeValue::Boolean(_) => Err("true or false"),
        DeValue::Datetime(_) => Err("a date"),
        DeValue::Table(_) => Err("a table"),
    }
}

/// A key that stands above all tables.
fn stray(name: &str, line: usize, keys: &[Key]) -> Problem {
    let hint = match keys.iter().find(|key| key.name == name) {
        Some(key) => Some(format!("`{name}` belongs under `[{}]`", key.table)),
        None if keys.iter().any(|key| key.table == name) => Some(format!("`{name}` is a table: write `[{name}]`")),
        None => {
            let all = keys.iter().flat_map(|key| [key.name.as_str(), key.table.as_str()]);
            nearest(name, all).map(|known| format!("did you mean `{known}`?"))
        }
    };
    Problem { line, reason: format!("there is no key `{}` outside of the tables", short(name)), hint }
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

fn line_of(text: &str, span: Range<usize>) -> usize {
    let end = span.start.min(text.len());
    1 + text.as_bytes()[..end].iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::super::schema::{DEFAULTS, keys};
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Result<usize, (usize, &str, &str)>) {
        match (read(text, keys()), expected) {
            (Ok(values), Ok(n_values)) => assert_eq!(values.len(), n_values, "{text}"),
            (Err(problem), Err((line, reason, hint))) => {
                assert_eq!(problem.line, line, "{text}: {problem:?}");
                assert!(problem.reason.contains(reason), "{text}: {problem:?}");
                assert!(problem.hint.as_deref().unwrap_or_default().contains(hint), "{text}: {problem:?}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn problems_have_a_line_and_a_neighbour() {
        check("", Ok(0));
        check(DEFAULTS, Ok(keys().len()));
        check("[store]\nfolder = 'x'\nindexed_fields = ['a.b', 'c']\n", Ok(2));
        check("store.folder = 'x'", Ok(1));
        check("store = { folder = 'x' }", Ok(1));
        check("[store]\n[trace]\n", Ok(0));
        check("[store]\nfoldr = 'x'", Err((2, "`[store]` has no key `foldr`", "`folder`")));
        check("\n\n[stor]\nfolder = 'x'", Err((4, "no table `[stor]`", "`[store]`")));
        check("[stoer]", Err((1, "no table `[stoer]`", "`[store]`")));
        check("[store]\nfolder = 3", Err((2, "`store.folder` must be a text in quotes, but here stands a whole number", "")));
        check("[trace]\nimport_batch = '3'", Err((2, "must be a whole number, but here stands a text", "")));
        check("[trace]\nimport_batch = 3.5", Err((2, "a number with a fraction", "")));
        check("[trace]\nimport_batch = 99999999999999999999", Err((2, "too large", "")));
        check("[store]\nindexed_fields = [1]", Err((2, "must be a list of texts, but here stands a list of other things", "")));
        check("folder = 'x'", Err((1, "no key `folder` outside of the tables", "under `[store]`")));
        check("store = 1", Err((1, "no key `store`", "write `[store]`")));
        check("[store]\n\nfolder = \n", Err((3, "", "")));
        check("[store]\nfolder = 'a'\nfolder = 'b'\n", Err((3, "duplicate key `folder`", "")));
        check("[store]\nfolder = 'a'\n[store]\ntenant = 'b'\n", Err((3, "duplicate key `store`", "")));
        check("[store.folder]\nx = 1", Err((1, "must be a text in quotes, but here stands a table", "")));
    }

    #[test]
    fn recipes_stand_beside_the_settings() {
        let text = "[store]\nfolder = 'x'\n[reward.desk]\ncomponents = [{ name = 'a', kind = 'outcome', weight = 1.0, role = 'primary' }]";
        check(text, Ok(1));
        assert_eq!(recipes(text).unwrap()["desk"].components.len(), 1);
        let wrong = recipes("\n[reward.desk]\ncomponents = [{ name = 'a', kind = 'outcom', weight = 1.0, role = 'primary' }]");
        let wrong = wrong.unwrap_err();
        assert!(wrong.line == 2 && wrong.reason.contains("[reward.desk]"), "{wrong:?}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}|([a-z\\[\\]='\"{}.,\n #0-9-]{0,200})") {
            let _ = read(&text, keys());
        }

        #[test]
        fn no_change_of_a_good_file_panics(at in 0..DEFAULTS.len(), n_out in 0_usize..40, put_in in "[\\[\\]='\"{}.,\n #0-9a-z]{0,20}") {
            let mut bytes = DEFAULTS.as_bytes().to_vec();
            bytes.splice(at..(at + n_out).min(DEFAULTS.len()), put_in.bytes());
            let _ = read(&String::from_utf8_lossy(&bytes), keys());
        }
    }

    #[test]
    fn deep_nesting_ends() {
        let text = format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&text, keys()).is_err());
        let dots = format!("{} = 1", vec!["a"; 100_000].join("."));
        assert!(read(&dots, keys()).is_err());
    }
}
