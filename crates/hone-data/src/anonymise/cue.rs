//! Words that say what comes next: after `Phone:` any digits are a phone number, after `order` none are.

use super::bytes::word_end;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

/// What a word says of the value after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cue {
    Phone,
    /// Somebody may be reached there: a phone number, if it looks a little like one.
    Reach,
    Card,
    Ssn,
    NationalId,
    Secret,
    Password,
    /// A version such as 1.2.3.4, which is not an address.
    Version,
    /// Something else that has a number.
    Other,
    Title,
    Greeting,
    Closing,
    NameWord,
    /// `am`, `is`, `'m` or `me`, after which a name may stand.
    Being,
    Street,
    StreetBefore,
    AddressWord,
    PostBox,
    Unit,
    /// A given name, behind which a surname may stand.
    Given,
}

/// So far does the word for a value stand from it, at most.
pub(super) const REACH_LEN: usize = 40;

/// The same for a word that says what a value is not.
pub(super) const REACH_LEN_OTHER: usize = 16;

const WORDS: &[(Cue, &str)] = &[
    (
        Cue::Phone,
        "phone phones tel telephone mobile mob cellphone fax callback sms whatsapp voicemail pager landline hotline telefon telefono \
         teléfono téléphone handy móvil celular tél telefone contactnumber contactno",
    ),
    (Cue::Reach, "call calling called caller dial ring text answering reach contact messages texts cell portable"),
    (Cue::Card, "card cards cc visa mastercard amex maestro discover credit debit pan jcb diners"),
    (Cue::Ssn, "ssn ssns itin security"),
    (Cue::NationalId, "passport license licence licenses nino aadhaar cpf dni nie nif pesel bsn nir personnummer steuernummer"),
    (
        Cue::Secret,
        "key keys apikey token tokens secret secrets credential credentials bearer authorization auth accesskey secretkey",
    ),
    (Cue::Password, "password passwords passwd pwd passphrase passcode"),
    (Cue::Version, "version versions release firmware build"),
    (
        Cue::Other,
        "order orders invoice invoices id ids ref reference ticket tickets tracking account zip postal postcode date amount price \
         total isbn sku serial model port year case item items quantity iban email mail balance parcel shipment product batch lot \
         booking confirmation transaction job error code size count timestamp row line",
    ),
    (Cue::Title, "mr mrs ms miss dr prof professor mx herr frau monsieur madame señor señora"),
    (Cue::Greeting, "dear hi hello hey hallo bonjour hola"),
    (Cue::Closing, "regards sincerely cheers thanks best yours cordially respectfully signed greetings"),
    (Cue::NameWord, "name surname lastname firstname fullname customer client patient passenger recipient sender attn"),
    (Cue::Being, "am m is me"),
    (
        Cue::Street,
        "street st str avenue ave road rd boulevard blvd lane ln drive court ct way place pl square sq terrace parkway pkwy highway hwy \
         circle cir crescent close row mews alley trail plaza grove gardens walk turnpike crossing heights hill ridge streets squares \
         rapids parks",
    ),
    (
        Cue::StreetBefore,
        "rua via calle rue avenida plaza piazza ulica ul passeig carrer viale corso chemin allée rruga strada bulevardul praça travessa \
         largo place impasse cours quai",
    ),
    (Cue::AddressWord, "address addresses live lives living located resident resides"),
    (Cue::PostBox, "box postbox psc postfach"),
    (Cue::Unit, "apt suite unit apartment flat"),
];

/// The longest of these words, in bytes.
const WORD_LEN_MAX: usize = 16;

/// What this word says of what comes next.
pub(super) fn of_word(word: &[u8]) -> Option<Cue> {
    let first = word.first()?.to_ascii_lowercase();
    if word.len() > WORD_LEN_MAX || lengths()[usize::from(first)] >> word.len() & 1 == 0 {
        return None;
    }
    let mut lower = [0; WORD_LEN_MAX];
    for (to, from) in lower.iter_mut().zip(word) {
        *to = from.to_ascii_lowercase();
    }
    table().get(&lower[..word.len()]).copied()
}

/// What says what a value is.
const VALUES: [Cue; 8] = [Cue::Phone, Cue::Card, Cue::Ssn, Cue::NationalId, Cue::Secret, Cue::Password, Cue::Version, Cue::Other];

/// The longest word such as `dbPassword` that is taken apart.
const CAMEL_LEN_MAX: usize = 40;

/// What the last part of a word such as `dbPassword` or `AccountKey` says, or else one before it.
pub(super) fn of_camel(word: &[u8]) -> Option<Cue> {
    if word.len() > CAMEL_LEN_MAX {
        return None;
    }
    let is_begin = |idx: &usize| word[*idx].is_ascii_uppercase() && word[*idx - 1].is_ascii_lowercase();
    let (mut end, mut is_last) = (word.len(), true);
    // One letter makes a name of its own: an iPhone is none.
    for from in (2..word.len()).rev().filter(is_begin) {
        let cue = of_word(&word[from..end]).filter(|cue| VALUES.contains(cue));
        // `passwordField` has none.
        if let Some(cue) = cue.filter(|cue| is_last || !matches!(cue, Cue::Secret | Cue::Password)) {
            return Some(cue);
        }
        (end, is_last) = (from, false);
    }
    if is_last {
        None
    } else {
        of_word(&word[..end]).filter(|cue| VALUES.contains(cue) && !matches!(cue, Cue::Secret | Cue::Password))
    }
}

/// For every first letter, the lengths of these words, as bits: most words of a text are told apart by these alone.
fn lengths() -> &'static [u32; 256] {
    static LENGTHS: OnceLock<[u32; 256]> = OnceLock::new();
    LENGTHS.get_or_init(|| {
        let mut lengths = [0; 256];
        table().keys().for_each(|word| lengths[usize::from(word[0])] |= 1 << word.len());
        lengths
    })
}

type Table = HashMap<&'static [u8], Cue, BuildHasherDefault<Short>>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let words = WORDS.iter().flat_map(|(cue, words)| words.split_whitespace().map(|word| (word.as_bytes(), *cue)));
        // Where a word is in two lists, the first one counts.
        words.collect::<Vec<_>>().into_iter().rev().collect()
    })
}

/// A hash of a few bytes. Its table is fixed, so nobody can choose words that fall together.
#[derive(Default)]
pub(super) struct Short(u64);

impl Hasher for Short {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// What the key of a JSON value says of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint(pub(super) Option<Expected>);

/// What a value is because of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// As after such a word.
    After(Cue),
    /// A password, all of it.
    Password,
    /// The name of a person, if it looks like one.
    Name,
    /// The name of something, which may be a person.
    AnyName,
    /// An address, if it looks like one.
    Address,
    /// The id of a trace or of a part of one: no number of anybody.
    TraceId,
    /// Nothing but what is known by its form: a key itself.
    Nothing,
}

/// What a key says of a name that is a person's.
const NAMED: &str = "first last full given family middle customer user contact client patient employee person holder cardholder recipient \
    sender owner billing shipping passenger guest buyer member legal maiden nick account";

/// Keys of what is said about a value, in a schema or elsewhere, and not of the value.
const ABOUT: &str = "type kind description title format pattern enum message error hint placeholder label comment note required status state \
    method policy algorithm encoding hash digest lang language locale source unit at on since until";

impl Hint {
    /// Nothing is known.
    pub const NONE: Self = Self(None);

    /// The text is the key of an object: only what is known by its form is looked for.
    pub(super) const KEY: Self = Self(Some(Expected::Nothing));

    /// The text names a trace, a span or a conversation.
    pub(crate) const TRACE_ID: Self = Self(Some(Expected::TraceId));

    /// What this key says of its value.
    pub fn of_key(key: &str) -> Self {
        Self::of_words(&key_words(key))
    }

    /// What this key says of its value, inside of what a key around it says this of. A key that says nothing of its own leaves it so, as in
    /// `{"phone": {"number": 4155550132}}`, unless it is one that things of every kind have.
    pub(super) fn inside(self, key: &str) -> Self {
        if self.0.is_none() {
            return Self::of_key(key);
        }
        let words = key_words(key);
        let own = Self::of_words(&words);
        let last = words.last().map_or("", String::as_str);
        let is_in = |list: &str| list.split_ascii_whitespace().any(|word| word == last);
        match self.0 {
            _ if own != Self::NONE => own,
            _ if is_in("value values") => self,
            Some(Expected::Name | Expected::AnyName) if is_in(NAMED) => Self(Some(Expected::Name)),
            _ if is_in(ABOUT) => Self::NONE,
            Some(Expected::Name) => Self(Some(Expected::AnyName)),
            // What a value is not, it may well be one level below.
            Some(Expected::After(Cue::Other | Cue::Version) | Expected::TraceId | Expected::Nothing) => Self::NONE,
            _ => self,
        }
    }

    fn of_words(words: &[String]) -> Self {
        let has = |word: &str| words.iter().any(|known| known == word);
        if has("email") || has("mail") || has("ip") || has("mac") || has("url") {
            return Self::NONE;
        }
        if is_trace_id(words) {
            return Self::TRACE_ID;
        }
        if has("surname") || has("firstname") || has("lastname") || has("fullname") {
            return Self(Some(Expected::Name));
        }
        if words.last().is_some_and(|last| last == "name") {
            let of_person = NAMED.split_ascii_whitespace().any(has);
            return Self(match (words.len(), of_person) {
                (1, _) => Some(Expected::AnyName),
                (_, true) => Some(Expected::Name),
                _ => None,
            });
        }
        if has("address") || has("street") {
            return Self(Some(Expected::Address));
        }
        if is_password(words) {
            return Self(Some(Expected::Password));
        }
        let whole = words.concat();
        let mut cues = [&whole].into_iter().chain(words).filter_map(|word| of_word(word.as_bytes()));
        Self(cues.rfind(|cue| VALUES.contains(cue)).map(Expected::After))
    }

    pub(super) fn cue(self) -> Option<Cue> {
        match self.0 {
            Some(Expected::After(cue)) => Some(cue),
            Some(Expected::Password) => Some(Cue::Password),
            Some(Expected::TraceId) => Some(Cue::Other),
            _ => None,
        }
    }
}

/// Whether a key is that of the id of a trace or of a part of one: `traceId`, `parent_span_id`, `gen_ai.conversation.id`.
fn is_trace_id(words: &[String]) -> bool {
    const PARTS: [&str; 5] = ["trace", "span", "conversation", "session", "thread"];
    match words {
        [.., part, id] if id == "id" => PARTS.contains(&part.as_str()),
        [.., whole] => whole.strip_suffix("id").is_some_and(|part| PARTS.contains(&part)),
        [] => false,
    }
}

/// Whether a key ends with the word for a password: `password_changed_at` is none.
fn is_password(words: &[String]) -> bool {
    let is_again = words.last().is_some_and(|last| matches!(last.as_str(), "confirmation" | "confirm" | "again" | "repeat"));
    let word = if is_again { words.iter().rev().nth(1) } else { words.last() };
    word.map(|word| word.trim_end_matches(|sign: char| sign.is_ascii_digit()))
        .is_some_and(|word| word == "secret" || of_word(word.as_bytes()) == Some(Cue::Password))
}

/// The words of a key such as `phone_number`, `cardNumber` or `X-Api-Key`, in lower case.
fn key_words(key: &str) -> Vec<String> {
    let (bytes, mut at) = (key.as_bytes(), 0);
    let mut words = Vec::new();
    while at < bytes.len().min(128) {
        let end = word_end(bytes, at);
        let mut from = at;
        for idx in at + 1..end {
            if bytes[idx].is_ascii_uppercase() && bytes[idx - 1].is_ascii_lowercase() {
                words.push(bytes[from..idx].to_vec());
                from = idx;
            }
        }
        words.push(bytes[from..end].to_vec());
        at = end.max(at) + 1;
    }
    words.retain(|word| !word.is_empty());
    words.into_iter().map(|word| String::from_utf8_lossy(&word).to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_what_their_values_are() {
        let check = |key: &str, expected: Option<Expected>| assert_eq!(Hint::of_key(key).0, expected, "{key}");
        check("phone_number", Some(Expected::After(Cue::Phone)));
        check("contact_number", Some(Expected::After(Cue::Phone)));
        check("contact", None);
        check("cardNumber", Some(Expected::After(Cue::Card)));
        check("X-Api-Key", Some(Expected::After(Cue::Secret)));
        check("dbPassword", Some(Expected::Password));
        check("password2", Some(Expected::Password));
        check("client_secret", Some(Expected::Password));
        check("password_changed_at", Some(Expected::After(Cue::Password)));
        check("order_id", Some(Expected::After(Cue::Other)));
        check("customerName", Some(Expected::Name));
        check("name", Some(Expected::AnyName));
        check("tool_name", None);
        check("shipping_address", Some(Expected::Address));
        check("ip_address", None);
        check("Überschrift", None);
    }

    #[test]
    fn what_a_key_says_goes_into_what_is_inside() {
        let check = |around: &str, key: &str, expected: Option<Expected>| {
            assert_eq!(Hint::of_key(around).inside(key).0, expected, "{key} in {around}");
        };
        check("phone", "number", Some(Expected::After(Cue::Phone)));
        check("phone", "order_id", Some(Expected::After(Cue::Other)));
        check("name", "first", Some(Expected::Name));
        check("user.name", "stringValue", Some(Expected::Name));
        check("user.name", "city", Some(Expected::AnyName));
        check("password", "description", None);
        check("order", "contact", None);
        check("customer", "number", None);
        check("x", "gen_ai.conversation.id", Some(Expected::TraceId));
        check("x", "parentSpanId", Some(Expected::TraceId));
        check("x", "traceid", Some(Expected::TraceId));
        check("x", "order_id", Some(Expected::After(Cue::Other)));
    }

    #[test]
    fn the_parts_of_a_word_say_what_comes_next() {
        let check = |word: &str, expected: Option<Cue>| assert_eq!(of_camel(word.as_bytes()), expected, "{word}");
        check("dbPassword", Some(Cue::Password));
        check("clientSecret", Some(Cue::Secret));
        check("AccountKey", Some(Cue::Secret));
        check("phoneNumber", Some(Cue::Phone));
        check("orderId", Some(Cue::Other));
        check("passwordField", None);
        check("iPhone", None);
        check("YouTube", None);
    }

    #[test]
    fn every_cue_word_is_found_again() {
        for word in WORDS.iter().flat_map(|(_, words)| words.split_whitespace()) {
            assert!(word.len() <= WORD_LEN_MAX && of_word(word.as_bytes()).is_some(), "{word}");
        }
        assert_eq!(of_word(b"PHONE"), Some(Cue::Phone));
        assert_eq!(of_word(b"banana"), None);
    }
}
