//! The mailbox: mails in an SQLite database in memory, searched by FTS5.
//!
//! Mails are stored from the newest to the oldest, because FTS5 lists what it finds in stored order three times faster than in
//! reverse, and who searches wants the newest first. The database is built once and copied for each connection, so that searches
//! of different threads never wait for a shared page cache.
//!
//! Every statement is a constant and every value is bound; what a policy searches for is cut into words and each is quoted, so
//! there is no search syntax that a policy could write.

use super::mail::Mail;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// The most mails that a search lists.
pub(super) const RESULTS_MAX: usize = 10;
/// Words of a search that are used.
const WORDS_MAX: usize = 32;
/// Bytes of a search that are read.
const SEARCH_BYTES_MAX: usize = 1024;
/// Copies of the database.
const CONNECTIONS_MAX: usize = 16;
/// Characters of a snippet before and after the first word found.
const SNIPPET_BEFORE: usize = 24;
const SNIPPET_AFTER: usize = 72;

const SCHEMA: &str = "
    CREATE TABLE mails (
        place INTEGER PRIMARY KEY, sent TEXT NOT NULL, sender TEXT NOT NULL, recipient TEXT NOT NULL,
        subject TEXT NOT NULL, body TEXT NOT NULL, attachments TEXT NOT NULL
    ) STRICT;
    CREATE VIRTUAL TABLE words USING fts5(
        subject, body, sender, attachments, content='mails', content_rowid='place', tokenize='porter unicode61'
    );";
const INSERT: &str = "INSERT INTO mails VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
// Small pages, because a page is copied for every word that is looked up.
const INDEX: &str = "
    INSERT INTO words (words, rank) VALUES ('pgsz', 512);
    INSERT INTO words (words) VALUES ('rebuild');
    INSERT INTO words (words) VALUES ('optimize');
    PRAGMA query_only = ON;";
const SEARCH: &str = "
    SELECT mails.place, mails.sent, mails.sender, mails.subject, mails.body FROM words JOIN mails ON mails.place = words.rowid
    WHERE words MATCH ?1 ORDER BY words.rowid LIMIT ?2";
const SEARCH_WITHIN: &str = "
    SELECT mails.place, mails.sent, mails.sender, mails.subject, mails.body FROM words JOIN mails ON mails.place = words.rowid
    WHERE words MATCH ?1 AND mails.sent >= ?3 AND mails.sent < ?4 AND instr(lower(mails.sender), ?5) > 0
        AND instr(lower(mails.recipient), ?6) > 0
    ORDER BY words.rowid LIMIT ?2";
const READ: &str = "SELECT sent, sender, recipient, subject, body, attachments FROM mails WHERE place = ?1";

/// A mailbox that can be searched and read from many threads.
pub(super) struct Mailbox {
    n_mails: i64,
    connections: Vec<Mutex<Connection>>,
    next: AtomicUsize,
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Search {
    pub(super) keywords: Vec<String>,
    /// The first day, as `2025-03-12`.
    pub(super) sent_after: Option<String>,
    /// The last day.
    pub(super) sent_before: Option<String>,
    /// A part of the sender's name or address.
    pub(super) from: Option<String>,
    /// A part of the recipient's.
    pub(super) to: Option<String>,
    pub(super) n_max: usize,
}

/// A mail that a search found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Found {
    pub(super) id: String,
    date: String,
    from: String,
    subject: String,
    snippet: String,
}

/// A mail as it is read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Opened {
    id: String,
    date: String,
    from: String,
    to: String,
    subject: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<String>,
    body: String,
}

impl Mailbox {
    /// Takes the mails, oldest first.
    pub(super) fn new(mails: &[Mail]) -> rusqlite::Result<Self> {
        let mut first = Connection::open_in_memory()?;
        first.execute_batch(SCHEMA)?;
        let transaction = first.transaction()?;
        {
            let mut insert = transaction.prepare(INSERT)?;
            for (place, mail) in (0_i64..).zip(mails.iter().rev()) {
                let files = mail.attachments.join("\n");
                insert.execute(params![place, mail.sent.to_string(), mail.from, mail.to, mail.subject, mail.body, files])?;
            }
        }
        transaction.commit()?;
        first.execute_batch(INDEX)?;
        let n_connections = std::thread::available_parallelism().map_or(1, usize::from).min(CONNECTIONS_MAX);
        let copies: rusqlite::Result<Vec<Connection>> = (1..n_connections).map(|_| copy(&first)).collect();
        let connections = copies?.into_iter().chain([first]).map(Mutex::new).collect();
        Ok(Self { n_mails: mails.len() as i64, connections, next: AtomicUsize::new(0) })
    }

    /// The newest first, which takes no look at the mails beyond the limit. All words must be in a mail.
    pub(super) fn search(&self, search: &Search) -> rusqlite::Result<Vec<Found>> {
        let words = words(&search.keywords);
        let Some(query) = query(&words) else { return Ok(Vec::new()) };
        let n_max = search.n_max.min(RESULTS_MAX) as i64;
        let found = |row: &Row<'_>| {
            let body = row.get_ref(4)?.as_str()?;
            Ok(Found {
                id: id(self.n_mails - 1 - row.get::<_, i64>(0)?),
                date: row.get(1)?,
                from: row.get(2)?,
                subject: row.get(3)?,
                snippet: snippet(body, &words),
            })
        };
        let connection = self.connection();
        let is_plain = [&search.sent_after, &search.sent_before, &search.from, &search.to].iter().all(|part| part.is_none());
        if is_plain {
            return connection.prepare_cached(SEARCH)?.query_map(params![query, n_max], found)?.collect();
        }
        let after = search.sent_after.as_deref().unwrap_or("");
        // A day is a prefix of its moments, and a space sorts before every digit: the letter comes after both.
        let before = search.sent_before.as_ref().map_or("x".into(), |day| format!("{day}x"));
        let part = |text: &Option<String>| text.as_deref().unwrap_or("").trim().to_ascii_lowercase();
        let values = params![query, n_max, after, before, part(&search.from), part(&search.to)];
        connection.prepare_cached(SEARCH_WITHIN)?.query_map(values, found)?.collect()
    }

    /// The mail of this id, where there is one.
    pub(super) fn read(&self, message_id: &str) -> rusqlite::Result<Option<Opened>> {
        let Some(idx) = idx(message_id) else { return Ok(None) };
        let connection = self.connection();
        let mut statement = connection.prepare_cached(READ)?;
        let opened = |row: &Row<'_>| {
            let attachments = row.get_ref(5)?.as_str()?.lines().map(str::to_owned).collect();
            let (date, from, to, subject, body) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
            Ok(Opened { id: id(idx), date, from, to, subject, attachments, body })
        };
        statement.query_row([self.n_mails - 1 - idx], opened).optional()
    }

    /// A connection that nobody uses, or else the next one in turn as soon as it is free.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let n = self.connections.len();
        for place in 0..n {
            match self.connections[(turn + place) % n].try_lock() {
                Ok(connection) => return connection,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.connections[turn % n].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn copy(from: &Connection) -> rusqlite::Result<Connection> {
    let mut to = Connection::open_in_memory()?;
    Backup::new(from, &mut to)?.run_to_completion(i32::MAX, std::time::Duration::ZERO, None)?;
    to.execute_batch("PRAGMA query_only = ON")?;
    Ok(to)
}

/// The id of the mail at this place.
pub(super) fn id(idx: i64) -> String {
    format!("m{idx:05}")
}

fn idx(id: &str) -> Option<i64> {
    let digits = id.trim().strip_prefix('m')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) { None } else { digits.parse().ok() }
}

fn words(keywords: &[String]) -> Vec<&str> {
    let mut n_bytes = 0;
    let words = keywords.iter().flat_map(|keyword| keyword.split(|c: char| !c.is_alphanumeric()));
    let fits = |word: &&str| {
        n_bytes += word.len();
        n_bytes <= SEARCH_BYTES_MAX
    };
    words.filter(|word| !word.is_empty()).take_while(fits).take(WORDS_MAX).collect()
}

/// The words as FTS5 reads them: each a quoted string, all of them required.
fn query(words: &[&str]) -> Option<String> {
    let mut query = String::with_capacity(words.iter().map(|word| word.len() + 3).sum());
    for word in words {
        let _ = write!(query, "\"{word}\" ");
    }
    (!query.is_empty()).then_some(query)
}

/// A line of the body around the first of the words that is in it.
fn snippet(body: &str, words: &[&str]) -> String {
    let at = words.iter().find_map(|word| find(body, word)).unwrap_or(0);
    let from = body[..at].char_indices().rev().take(SNIPPET_BEFORE).last().map_or(at, |(place, _)| place);
    let mut line = String::with_capacity(SNIPPET_BEFORE + SNIPPET_AFTER + 8);
    if from > 0 {
        line.push('…');
    }
    let rest = body[from..].chars();
    line.extend(rest.clone().take(SNIPPET_BEFORE + SNIPPET_AFTER).map(|c| if c == '\n' { ' ' } else { c }));
    if rest.count() > SNIPPET_BEFORE + SNIPPET_AFTER {
        line.push('…');
    }
    line
}

/// Where a word is in a text, whatever its case in ASCII.
fn find(text: &str, word: &str) -> Option<usize> {
    text.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::calendar::Day;
    use super::*;

    fn mailbox() -> Mailbox {
        let mail = |day: i64, from: &str, subject: &str, body: &str| Mail {
            sent: Day(day).at(600),
            from: from.into(),
            to: "Nora Dahl <nora.dahl@example.com>".into(),
            subject: subject.into(),
            body: body.into(),
            attachments: vec!["a.pdf".into()],
        };
        Mailbox::new(&[
            mail(0, "Omar Falk <omar.falk@example.com>", "Atlas plan", "The plan for Atlas is ready."),
            mail(1, "Ines Beck <ines.beck@example.com>", "Invoices", "Two invoices of Atlas, numbers 12 and 13."),
            mail(2, "Omar Falk <omar.falk@example.com>", "Über", "NEAR the café AND the \"bar\"."),
        ])
        .unwrap()
    }

    fn check(keywords: &[&str], within: impl Fn(&mut Search), expected: &[&str]) {
        let keywords = keywords.iter().map(|word| (*word).to_owned()).collect();
        let mut search = Search { keywords, n_max: 10, ..Search::default() };
        within(&mut search);
        let mut ids: Vec<String> = mailbox().search(&search).unwrap().into_iter().map(|found| found.id).collect();
        ids.sort();
        assert_eq!(ids, expected, "{search:?}");
    }

    #[test]
    fn all_words_must_be_in_a_mail_and_filters_narrow() {
        check(&["atlas"], |_| {}, &["m00000", "m00001"]);
        check(&["atlas invoice"], |_| {}, &["m00001"]);
        check(&["Atlas", "lunch"], |_| {}, &[]);
        check(&["cafe"], |_| {}, &["m00002"]);
        check(&["a.pdf"], |_| {}, &["m00000", "m00001", "m00002"]);
        check(&["atlas"], |search| search.from = Some("INES.beck@".into()), &["m00001"]);
        check(&["atlas"], |search| search.to = Some("nobody".into()), &[]);
        check(&["atlas"], |search| search.sent_after = Some("2025-01-02".into()), &["m00001"]);
        check(&["atlas"], |search| search.sent_before = Some("2025-01-01".into()), &["m00000"]);
        check(&["atlas"], |search| search.n_max = 0, &[]);
    }

    #[test]
    fn search_syntax_is_only_words() {
        for hostile in [
            "\"",
            "a\" OR \"b",
            "atlas*",
            "subject:atlas",
            "NEAR(atlas plan)",
            "(",
            "-",
            "^atlas",
            "\0",
            "'; DROP TABLE mails;--",
        ] {
            let search = Search { keywords: vec![hostile.into()], n_max: 10, ..Search::default() };
            mailbox().search(&search).unwrap();
        }
        check(&["atlas OR bar"], |_| {}, &[]);
        check(&["plan NOT atlas"], |_| {}, &[]);
        check(&["near and bar"], |_| {}, &["m00002"]);
        check(&["\"", "\0", "…"], |_| {}, &[]);
        check(&["%"], |search| search.from = Some("%".into()), &[]);
        check(&[&"x ".repeat(100_000)], |_| {}, &[]);
    }

    #[test]
    fn a_mail_is_read_by_its_id() {
        let mailbox = mailbox();
        let opened = mailbox.read("m00001").unwrap().unwrap();
        assert_eq!((opened.date.as_str(), opened.attachments.len()), ("2025-01-02 10:00", 1));
        for missing in ["", "m", "m99999", "1", "m-1", "m00001;", "m99999999999999999999"] {
            assert_eq!(mailbox.read(missing).unwrap(), None, "{missing}");
        }
    }

    #[test]
    fn a_snippet_shows_the_first_word_found() {
        let body = "é".repeat(100) + " the\nTotal: 12 " + &"x".repeat(200);
        let line = snippet(&body, &["nowhere", "total"]);
        assert!(line.starts_with("…é") && line.contains(" the Total: 12 ") && line.ends_with('…'), "{line}");
        assert_eq!(snippet("short", &["x"]), "short");
        assert_eq!(snippet("", &["x"]), "");
    }
}
