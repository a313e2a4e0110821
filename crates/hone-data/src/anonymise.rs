//! Takes personal data out of text and of whole traces, and puts consistent pseudonyms in its place.
//!
//! One pass over the bytes finds candidates by their first byte and checks each locally: there is no pattern engine, no
//! backtracking, and every check looks at a bounded stretch, so that time is linear in the text whatever it says. What a number is
//! depends on the words before it ([`Cue`]): `Phone:` makes a phone number of digits that could be anything.
//!
//! A pseudonym is a keyed hash of the value in a form that nobody's data can have ([`pseudonym`]). The scanner knows these forms and
//! leaves them alone, so a second pass finds nothing. Without the key a pseudonym says nothing; text without personal data stays
//! byte for byte.
//!
//! Names and addresses are found by what stands around them, not by lists of names: a name that nothing introduces is missed.
//! Knows nothing of languages beyond the cue words in [`cue`](self::cue), and nothing of images.

mod address;
mod blank;
mod bytes;
mod card;
mod cue;
mod email;
mod given;
mod iban;
mod ip;
mod json;
mod kind;
mod name;
mod national;
mod number;
mod phone;
pub(crate) mod pseudonym;
mod report;
mod scanner;
mod secret;
pub(crate) mod trace;

pub use cue::Hint;
pub use kind::Kind;
pub use name::Known;
pub use pseudonym::Key;
pub use report::Report;
pub use scanner::{Found, scan};

use blank::Hidden;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Puts pseudonyms in the place of personal data, and counts them.
#[derive(Debug, Clone)]
pub struct Anonymiser {
    key: Key,
    known: Known,
    report: Report,
    replaced: Option<BTreeMap<String, String>>,
}

/// A replacement may bring its neighbours into another light; more rounds than this were never needed.
const N_ROUNDS_MAX: usize = 8;

impl Anonymiser {
    /// One that takes its pseudonyms from this key.
    pub fn new(key: Key) -> Self {
        Self { key, known: Known::default(), report: Report::default(), replaced: None }
    }

    /// One that also remembers which value each pseudonym stands for.
    pub fn remembering(key: Key) -> Self {
        Self { replaced: Some(BTreeMap::new()), ..Self::new(key) }
    }

    /// What was replaced so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The value that each pseudonym stands for; nothing unless it was to be remembered.
    pub fn replaced(&self) -> &BTreeMap<String, String> {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        self.replaced.as_ref().unwrap_or(&NOTHING)
    }

    /// The text without personal data. A name that is introduced in it is replaced wherever it stands in it.
    pub fn text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        self.known = Known::default();
        let found = scan(text, Hint::NONE, &self.known);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        self.known.learn(text, &found);
        // A name that is known now may stand where nothing introduced it.
        let found = if self.known.is_empty() { found } else { scan(text, Hint::NONE, &self.known) };
        Cow::Owned(self.replace_found(text, found, Hint::NONE))
    }

    /// The text with everything replaced that is found in it, or nothing when it stays as it is.
    fn replace(&mut self, text: &str, hint: Hint) -> Option<String> {
        let found = scan(text, hint, &self.known);
        (!found.is_empty()).then(|| self.replace_found(text, found, hint))
    }

    /// The text without what was found in it, and without what is found then.
    fn replace_found(&mut self, text: &str, mut found: Vec<Found>, hint: Hint) -> String {
        let mut current = self.with_pseudonyms(text, &found);
        for _ in 1..N_ROUNDS_MAX {
            found = scan(&current, hint, &self.known);
            if found.is_empty() {
                break;
            }
            current = self.with_pseudonyms(&current, &found);
        }
        current
    }

    fn with_pseudonyms(&mut self, text: &str, found: &[Found]) -> String {
        let (mut out, mut from) = (String::with_capacity(text.len() + 16 * found.len()), 0);
        for found in found {
            let value = &text[found.range.clone()];
            let hidden = match found.kind {
                // Whatever parts the digits of a number is left out of it later.
                Kind::Phone | Kind::Card | Kind::Iban | Kind::Ssn | Kind::NationalId => Hidden::Blank,
                _ => Hidden::Gone,
            };
            let pseudonym = pseudonym::of(&self.key, found.kind, &blank::plain(value, hidden));
            out.push_str(&text[from..found.range.start]);
            out.push_str(&pseudonym);
            from = found.range.end;
            self.report.count(found.kind);
            if let Some(replaced) = &mut self.replaced {
                replaced.insert(pseudonym, value.to_owned());
            }
        }
        out.push_str(&text[from..]);
        out
    }
}
