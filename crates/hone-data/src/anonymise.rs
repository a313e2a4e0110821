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
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

/// Puts pseudonyms in the place of personal data, and counts them.
#[derive(Debug, Clone)]
pub struct Anonymiser {
    key: Key,
    known: Known,
    report: Report,
    replaced: Option<BTreeMap<String, String>>,
    /// Whose each address is that was drawn. There are fewer of them than of other pseudonyms.
    ips: HashMap<Ipv4Addr, Ipv4Addr>,
}

/// The most addresses that are kept apart, of the 2^24 that can be drawn.
const N_IPS_MAX: usize = 1_000_000;

/// So often is one drawn, at most.
const N_DRAWS_MAX: u32 = 64;

/// A replacement may bring its neighbours into another light; more rounds than this were never needed.
const N_ROUNDS_MAX: usize = 8;

impl Anonymiser {
    /// One that takes its pseudonyms from this key.
    pub fn new(key: Key) -> Self {
        Self { key, known: Known::default(), report: Report::default(), replaced: None, ips: HashMap::new() }
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
            let pseudonym = self.pseudonym(found.kind, &blank::plain(value, hidden));
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

    /// The pseudonym of this value. Of an address whose own was drawn for another one before it is the next that is free.
    fn pseudonym(&mut self, kind: Kind, value: &str) -> String {
        let first = pseudonym::of(&self.key, kind, value);
        let (Kind::Ip, Ok(address)) = (kind, value.parse::<Ipv4Addr>()) else { return first };
        let drawn = (0..N_DRAWS_MAX).map(|n_taken| pseudonym::nth(&self.key, kind, value, n_taken));
        let is_free = |drawn: &Ipv4Addr| self.ips.get(drawn).is_none_or(|whose| *whose == address);
        let Some(free) = drawn.filter_map(|drawn| drawn.parse().ok()).find(is_free) else { return first };
        if self.ips.len() < N_IPS_MAX {
            self.ips.insert(free, address);
        }
        free.to_string()
    }

    /// The text with the kinds of what is personal in it in its place, for whoever must not read it. Names of the last trace are known.
    pub(crate) fn told(&self, text: &str, hint: Hint) -> String {
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for found in scan(text, hint, &self.known) {
            out.push_str(&text[from..found.range.start]);
            out.push_str(&format!("({})", found.kind));
            from = found.range.end;
        }
        out + &text[from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn addresses_of_machines_are_kept_apart() {
        let address = |n: u32| Ipv4Addr::from_bits(0x0b00_0000 + n * 7).to_string();
        let mut worker = Anonymiser::remembering(Key::new([5; 32]));
        let drawn: Vec<String> = (0..30_000).map(|n| worker.text(&address(n)).into_owned()).collect();
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
        assert_eq!(worker.replaced().len(), drawn.len());
        let again: Vec<String> = (0..30_000).map(|n| worker.text(&address(n)).into_owned()).collect();
        assert_eq!(again, drawn);
    }
}
