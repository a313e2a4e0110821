//! Names of people, by what introduces them: a title, `my name is`, a greeting, the line after `Regards,`, the address behind it, a common
//! given name.
//!
//! A name is up to five words that begin with a capital, with initials and particles (`van`, `de`) between them. A name that was
//! introduced is known from then on: see [`Known`].

use super::blank::{self, Hidden};
use super::bytes::{ends_with_word, has_word, is_word, skip_blanks, word_end};
use super::cue::{self, Cue, Expected};
use super::given;
use super::pseudonym;
use super::scanner::Found;
use super::{Hint, Kind};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// The most words of a name.
const N_WORDS_MAX: usize = 5;

const PARTICLES: &str = "van von der den de da di del della du la le bin al el dos ten ter y af zu";

/// Words with a capital that are no names, though they stand where one may.
const NO_NAMES: &str = "i the this that these there it we you he she they a an and but or so if in on at for to of from with by my your our their \
    his her its is are was were be not no yes please thanks thank sir madam team all everyone everybody folks friends friend \
    customer customers support service sales world again guys monday tuesday wednesday thursday friday saturday sunday january \
    february march april may june july august september october november december what when where who why how can could would \
    will do does did have has had just also then now here hi hello hey dear am sorry unknown none null true false string \
    number object required user assistant bot agent admin system id email phone address account order date name new good great \
    best kind regards sincerely i'm i've i'd i'll don't let let's as any each some me us error hiring manager committee wrong \
    spelled misspelled incorrect correct missing listed used set only optional valid invalid empty already being still shown \
    displayed printed written changed different called too very unique given gone linked associated registered under";

/// Words of which names of things are made, and hardly any of people: goods, programs, places, firms.
const THINGS: &str = "\
    adapter advanced agent air algorithm annual api app application array association automatic backpack bag basic battery beach bed beef \
    blanket blue bluetooth bottle bowl bread burger button cable cake camera category central chair charger cheese chicken \
    chocolate city classic client coffee collection college company computer corp corporation cotton course cream cup daily dashboard \
    data database deluxe department desk device digital dress edition electric engine ergonomic error event express external extra file \
    filter folder form framework free function gadget gaming garden gift global gmbh graph group hash headphones headset heap hospital \
    hotel inc index insertion instant insurance international internal island islands jacket jeans juice keyboard kingdom kit labs laptop \
    leather library limited list llc local ltd machine management mat menu merge milk mini mobile model module monitor monthly \
    motor mouse mug national network notebook office oil online open order organic outdoor oven pack package pants paper pencil \
    phone pipeline pizza plan plastic platform plugin policy portable premium printer private pro product professional program project \
    public pump purple quick red report republic restaurant router running salad sandwich school screen search server service set shampoo \
    shirt shoes shop smart soap socks software sofa solar solution soup speaker sports standard states station steel storage store \
    string studio sugar summer super support switch system systems table tablet task tea team technologies test tool tower toy tracker \
    tree ultra united universal university usb vacuum vintage water weekly widget winter wireless wooden workflow yellow york zealand sort";

/// Whether this is the name of a thing, for all that its words say.
pub(super) fn is_thing(name: &str) -> bool {
    let is_word = |word: &str| THINGS.split_ascii_whitespace().any(|known| word.eq_ignore_ascii_case(known));
    let first = words(name).next().unwrap_or_default();
    !given::is_given(first.as_bytes()) && words(name).any(is_word)
}

/// Names that were introduced, word by word and in lower case.
#[derive(Debug, Clone, Default)]
pub struct Known(HashSet<String>);

/// Shorter words are too often something else.
const KNOWN_LEN_MIN: usize = 4;

/// The most words that are kept in mind.
const N_KNOWN_MAX: usize = 1000;

impl Known {
    /// Keeps the names in mind that were found in a text.
    pub fn learn(&mut self, text: &str, found: &[Found]) {
        for found in found.iter().filter(|found| found.kind == Kind::Name) {
            for word in words(&decoded(&blank::plain(&text[found.range.clone()], Hidden::Gone))) {
                if word.chars().count() >= KNOWN_LEN_MIN && is_capital(word) && !is_no_name(word) && self.0.len() < N_KNOWN_MAX {
                    self.0.insert(word.to_lowercase());
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this word is one of them, written as names are: with a capital or in capitals, or as part of a name of an account or a file.
    /// In small letters and by itself it may be a word like any other: Ms. Brown has a brown dog.
    pub(super) fn has(&self, text: &str, word: &Range<usize>) -> bool {
        let name = &text[word.clone()];
        !self.0.is_empty() && (is_capital(name) || is_joined(text.as_bytes(), word)) && self.0.contains(&name.to_lowercase())
    }
}

/// The name with a pseudonym for each of its words. Initials and particles say little, and lose even that.
pub(super) fn pseudonym(name: &str, of_word: impl Fn(&str) -> String) -> String {
    let blank = if name.contains("%20") {
        "%20"
    } else if name.contains('+') {
        "+"
    } else {
        " "
    };
    let mut out = String::new();
    for word in words(&decoded(name)) {
        if !out.is_empty() {
            out.push_str(blank);
        }
        let is_initial = word.chars().count() == 1;
        match word {
            _ if is_initial => out.push_str("N."),
            _ if is_particle(word) => out.push_str("of"),
            _ => out.push_str(&of_word(&word.to_lowercase())),
        }
    }
    out
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|character: char| character.is_whitespace() || matches!(character, '.' | ',')).filter(|word| !word.is_empty())
}

fn is_capital(word: &str) -> bool {
    word.chars().next().is_some_and(|first| first.is_uppercase() || (first.is_alphabetic() && !first.is_lowercase()))
}

/// Whether a word is part of a longer one, as in `ann_miller`, `ann.miller` or `/files/miller/`.
fn is_joined(bytes: &[u8], word: &Range<usize>) -> bool {
    let (before, after) = (&bytes[..word.start], &bytes[word.end..]);
    let is_part = |byte: &u8| is_word(*byte);
    match (before, after) {
        ([.., b'_'], _) | (_, [b'_', ..]) | ([.., b'/'], [b'/', ..]) => true,
        ([.., other, b'.'], _) | (_, [b'.', other, ..]) => is_part(other),
        _ => false,
    }
}

fn is_particle(word: &str) -> bool {
    PARTICLES.split_ascii_whitespace().any(|known| known == word)
}

fn is_no_name(word: &str) -> bool {
    let lower = word.to_lowercase();
    NO_NAMES.split_ascii_whitespace().any(|known| known == lower)
}

/// How a name must look in this place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) n_words_min: usize,
    /// Whether small letters will do, because the words before leave no doubt.
    pub(super) may_be_small: bool,
    /// Whether the line must end behind it.
    pub(super) is_line: bool,
}

/// The name that begins here.
pub(super) fn at(text: &str, from: usize, look: Look) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    // `Dear Mr. Miller`: the title is no name, and introduces the one behind it.
    if is_title_of(text, from) {
        return None;
    }
    let (mut end, mut n_words, mut at, mut n_all) = (from, 0, from, 0);
    while n_all < N_WORDS_MAX && at < bytes.len() && (is_word(bytes[at])) {
        if pseudonym::word_end_here(bytes, at).is_some() {
            return None;
        }
        let stop = name_word_end(text, at);
        let word = &text[at..stop];
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let is_initial = word.chars().count() == 1;
        let is_named = (is_capital(word)
            || look.may_be_small && n_all < 2 && !word.bytes().any(|byte| byte.is_ascii_uppercase()))
            && !has_digit
            && !is_no_name(word);
        let is_inner = is_particle(word) && n_all > 0;
        if !is_named && !is_inner || word.is_empty() {
            break;
        }
        n_all += 1;
        at = stop;
        if is_initial && bytes.get(at) == Some(&b'.') {
            at += 1;
        }
        if is_named && !is_inner {
            n_words += usize::from(!is_initial);
            end = at;
        }
        let next = skip_blanks(bytes, at);
        if next != at + 1 {
            break;
        }
        at = next;
    }
    let line_ends =
        bytes[end..].iter().find(|byte| !matches!(byte, b' ' | b',' | b'.' | b'\r')).is_none_or(|byte| *byte == b'\n');
    (n_words >= look.n_words_min && end > from && (!look.is_line || line_ends)).then_some(from..end)
}

/// The place behind the particles that a name begins with: `van der Berg`.
fn skip_particles(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    for _ in 0..N_WORDS_MAX {
        let end = word_end(bytes, at);
        let behind = skip_blanks(bytes, end);
        if behind == end || !is_particle(&text[at..end]) {
            break;
        }
        at = behind;
    }
    at
}

/// Whether a title stands here with a word behind it.
fn is_title_of(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let end = word_end(bytes, at);
    if cue::of_word(&bytes[at..end]) != Some(Cue::Title) || !is_capital(&text[at..end]) {
        return false;
    }
    let behind = skip_blanks(bytes, end + usize::from(bytes.get(end) == Some(&b'.')));
    behind > end && bytes.get(behind).is_some_and(|&next| is_word(next))
}

/// The end of a word of a name, in which an apostrophe or a dash may stand: O'Neil, Jean-Luc.
fn name_word_end(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = word_end(bytes, from);
    while matches!(bytes.get(end), Some(b'\'' | b'-')) && text[end + 1..].chars().next().is_some_and(char::is_uppercase) {
        end = word_end(bytes, end + 1);
    }
    end
}

/// The name that the word from `word.start` to `word.end` introduces.
pub(super) fn after(text: &str, word: &Range<usize>, cue: Cue) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let one = Look { n_words_min: 1, may_be_small: false, is_line: false };
    let two = Look { n_words_min: 2, ..one };
    match cue {
        Cue::Title => {
            let dot = word.end + usize::from(bytes.get(word.end) == Some(&b'.'));
            let from = skip_blanks(bytes, dot);
            let is_title = from > word.end && is_capital(&text[word.clone()]);
            let name = is_title.then(|| at(text, skip_particles(text, from), one))??;
            Some(from..name.end)
        }
        Cue::Greeting => {
            let from = skip_blanks(bytes, word.end);
            let name = at(text, from, one)?;
            // `Hi Ann,` and not the begin of a sentence.
            let is_end = bytes.get(name.end).is_none_or(|next| matches!(next, b',' | b'!' | b'.' | b'\n' | b':' | b'?'));
            (from > word.end && is_end).then_some(name)
        }
        Cue::Closing => {
            let sign = word.end + usize::from(matches!(bytes.get(word.end), Some(b',' | b'!')));
            let blank = bytes[sign..].iter().take(6).take_while(|byte| matches!(byte, b'\n' | b'\r' | b' ')).count();
            let has_break = bytes[sign..sign + blank].contains(&b'\n');
            has_break.then(|| at(text, sign + blank, Look { is_line: true, ..one }))?
        }
        Cue::NameWord => {
            let is_name = has_word(bytes, word.start, "name") || has_word(bytes, word.start, "surname");
            let quotes = quotes_end(bytes, word.end);
            if quotes > word.end && matches!(bytes.get(skip_blanks(bytes, quotes)), Some(b':' | b'=')) {
                return under_key(text, word, quotes, if is_name { None } else { Some(two) });
            }
            let is_bold = is_bold(bytes, word.start);
            let said = skip_blanks(bytes, if is_bold { skip_bold(bytes, word.end) } else { word.end });
            if matches!(bytes.get(said), Some(b':' | b'=')) {
                let key = key_start(text, word.start, false);
                let hint = Hint::of_key(&text[key..word.end]).0;
                let is_query = bytes[said] == b'=' && (key == 0 || matches!(bytes[key - 1], b'?' | b'&'));
                if let Some(look) = of_hint(hint).filter(|_| is_query)
                    && let Some(name) = in_query(text, said + 1, look)
                {
                    return Some(name);
                }
                let is_persons = hint == Some(Expected::Name);
                let from = if is_bold { skip_bold(bytes, said + 1) } else { said + 1 };
                let from = if is_persons { skip_opening(bytes, from) } else { skip_spaces(bytes, from) };
                let is_one = is_persons || is_name && bytes[said] == b':';
                let name = at(text, from, if is_one { one } else { two })?;
                return (!is_code(bytes, name.end)).then_some(name);
            }
            if is_name && has_word(bytes, said, "is") {
                let is_mine = ends_with_word(&bytes[..word.start], "my");
                return at(text, skip_blanks(bytes, said + 2), Look { may_be_small: is_mine, ..one });
            }
            // `What's your last name? Arcuri`
            if is_name && bytes.get(said) == Some(&b'?') {
                return at(text, skip_blanks(bytes, said + 1), one).filter(|name| is_sentence_end(bytes, name.end));
            }
            None
        }
        Cue::Being => {
            let is_i = matches!(&bytes[word.clone()], b"am" | b"m")
                && (ends_with_word(&bytes[..word.start], "i")
                    || bytes[..word.start].ends_with(b"I'")
                    || bytes[..word.start].ends_with("I’".as_bytes()));
            let is_this = &bytes[word.clone()] == b"is"
                && (ends_with_word(&bytes[..word.start], "this") || ends_with_word(&bytes[..word.start], "called"));
            let is_me = &bytes[word.clone()] == b"me"
                && ["call", "calls", "called"].iter().any(|call| ends_with_word(&bytes[..word.start], call));
            let from = skip_blanks(bytes, word.end);
            let name =
                ((is_i || is_this || is_me) && from > word.end).then(|| at(text, from, if is_me { one } else { two }))??;
            // `call me Ann` and not `call me ASAP`.
            (!is_me || text[name.clone()].split(' ').all(is_name_word)).then_some(name)
        }
        Cue::Given => {
            let is_place = text[..word.start].trim_end().rsplit(|character: char| !character.is_alphanumeric()).next();
            if is_place.is_some_and(given::makes_place) {
                return None;
            }
            let full = at(text, word.start, two).and_then(|name| surname_end(text, name)).map(|end| word.start..end);
            full.or_else(|| is_said_alone(bytes, word).then(|| word.clone()))
        }
        _ => None,
    }
}

/// Who somebody is to whoever speaks of them: `my son Lukas`.
const KIN: &str = "son daughter kid child wife husband brother sister mother father mom mum dad aunt uncle cousin nephew niece friend partner \
    girlfriend boyfriend fiancé fiancée colleague neighbour neighbor boss";

/// Whether what stands around a given name makes it a person's without a surname: it is spoken to or speaks, it is whose son, or it stands in a
/// list of such names.
fn is_said_alone(bytes: &[u8], word: &Range<usize>) -> bool {
    let (before, after) = (&bytes[..word.start], &bytes[word.end..]);
    let speaks = after.starts_with(b":") && (before.is_empty() || before.ends_with(b"\n"));
    let is_spoken_to = before.ends_with(b", ") && matches!(after.first(), Some(b'?' | b'!'));
    let is_kin = before.ends_with(b" ") && KIN.split_ascii_whitespace().any(|kin| ends_with_word(before, kin));
    let joint = [&b", "[..], b" and ", b" & ", b", and "].into_iter();
    let is_before = || joint.clone().any(|joint| after.starts_with(joint) && is_given_at(bytes, word.end + joint.len()));
    let is_behind = || {
        joint.clone().any(|joint| {
            let Some(list) = before.strip_suffix(joint) else { return false };
            let from = list.len() - list.iter().rev().take_while(|byte| is_word(**byte)).count();
            from < list.len() && given::is_given(&list[from..])
        })
    };
    speaks || is_spoken_to || is_kin || is_before() || is_behind()
}

/// Whether a given name stands here.
fn is_given_at(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|&first| is_word(first)) && given::is_given(&bytes[at..word_end(bytes, at)])
}

/// Words before a letter with a dot that are no names: `Vitamin D. Calcium`.
const LETTERED: &str = "plan vitamin appendix section option part step type class grade group figure table exhibit annex schedule form question \
    answer choice case point item level phase unit route series team zone block building hall gate terminal hepatitis influenza model version \
    volume chapter article room floor lane line sample set test note division category stage task example problem exercise theorem lemma ward \
    sector area division league pool row column act scene book track side list chart map suite hotel apartment flat box bus";

/// The name that begins with this word and has a letter with a dot inside: `Faina D. Yefremova`.
pub(super) fn with_initial(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let [b' ', b'A'..=b'Z', b'.', b' ', ..] = text.as_bytes()[word.end..] else { return None };
    let first = &text[word.clone()];
    let is_lettered = LETTERED.split_ascii_whitespace().any(|known| first.eq_ignore_ascii_case(known));
    if !is_name_word(first) || first.chars().count() < 3 || is_lettered || is_no_name(first) || is_thing(first) {
        return None;
    }
    let name = at(text, word.start, Look { n_words_min: 2, may_be_small: false, is_line: false })?;
    surname_end(text, name).map(|end| word.start..end)
}

/// The end of the first word behind a given name that is a surname, and not the begin of something else.
fn surname_end(text: &str, name: Range<usize>) -> Option<usize> {
    let mut at = name_word_end(text, name.start);
    while at < name.end {
        at += text[at..name.end].find(char::is_alphanumeric)?;
        let stop = name_word_end(text, at);
        let word = &text[at..stop];
        if word.chars().count() > 1 && !is_particle(word) {
            let is_surname = given::may_be_surname(word) && is_name_word(word) && !is_street(word, &text[stop..]);
            return is_surname.then_some(stop);
        }
        at = stop;
    }
    None
}

/// How names of streets end that bear a person's, and words that stand behind such names.
const STREET_ENDS: &[&str] = &["straat", "gracht", "plein", "hove", "straße", "strasse", "gatan", "gade"];
const STREET_WORDS: &[&str] = &["u.", "utca", "tér", "út"];

/// Whether a word and what follows it are the end of a street's name and the number of a house: `Kálmán Imre u. 12`.
fn is_street(word: &str, after: &str) -> bool {
    let Some(after) = after.strip_prefix(' ') else { return false };
    let numbered = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let behind = STREET_WORDS.iter().filter_map(|street| after.strip_prefix(street)?.strip_prefix(' '));
    (STREET_ENDS.iter().any(|end| word.ends_with(end)) && numbered(after)) || behind.into_iter().any(numbered)
}

/// Whether a word is written as names are, with small letters behind its capital: not `API`, not `iPhone`.
fn is_name_word(word: &str) -> bool {
    is_capital(word) && word.chars().nth(1).is_some_and(|second| second.is_lowercase() || matches!(second, '\'' | '’'))
}

/// How a name must look under a key that says this; nothing where it is not a name that stands there.
fn of_hint(hint: Option<Expected>) -> Option<Look> {
    let n_words_min = match hint? {
        Expected::Name => 1,
        Expected::AnyName => 2,
        _ => return None,
    };
    Some(Look { n_words_min, may_be_small: false, is_line: false })
}

/// The name behind a key in quotes that ends with this word, as in JSON that stands in other text or was cut short: `"last_name": "Miller"`.
/// `look` is that of a key that says nothing.
fn under_key(text: &str, word: &Range<usize>, quotes: usize, look: Option<Look>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let hint = Hint::of_key(&text[key_start(text, word.start, true)..word.end]).0;
    let said = skip_blanks(bytes, quotes);
    let blank = skip_blanks(bytes, said + 1);
    let from = quotes_end(bytes, blank);
    let name = at(text, from, of_hint(hint).or(look)?)?;
    let is_whole = from > blank && (quotes_end(bytes, name.end) > name.end || is_cut(&text[name.end..]));
    (is_whole && (hint == Some(Expected::Name) || !is_thing(&text[name.clone()]))).then_some(name)
}

/// Whether a text was cut short here.
fn is_cut(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with("...") || rest.starts_with('…')
}

/// The end of the quotation mark that may stand here, with the backslashes of JSON inside of JSON before it.
fn quotes_end(bytes: &[u8], at: usize) -> usize {
    let sign = at + bytes[at..].iter().take(8).take_while(|byte| **byte == b'\\').count();
    if matches!(bytes.get(sign), Some(b'"' | b'\'')) { sign + 1 } else { at }
}

/// Where the key begins whose last word begins here. In quotes there may be blanks in it.
fn key_start(text: &str, at: usize, is_quoted: bool) -> usize {
    let bytes = text.as_bytes();
    let least = at.saturating_sub(LABEL_LEN_MAX);
    let is_part = |byte: u8| is_word(byte) || matches!(byte, b'_' | b'-' | b'.') || is_quoted && byte == b' ';
    let start = at - bytes[least..at].iter().rev().take_while(|byte| is_part(**byte)).count();
    (start..=at).find(|&start| text.is_char_boundary(start)).unwrap_or(at)
}

/// Whether what ends here is code and no name: `name: Option<String>`, `first_name = Column.of(1)`.
fn is_code(bytes: &[u8], end: usize) -> bool {
    match bytes.get(end) {
        Some(b'.') => bytes.get(end + 1).is_some_and(|&next| is_word(next) && next < 0x80),
        Some(b'\\') => quotes_end(bytes, end) == end,
        next => matches!(next, Some(b'<' | b'(' | b'[' | b'{' | b'=' | b'_' | b'/' | b':')),
    }
}

/// The longest name in an address on the web, as it is written there.
const QUERY_LEN_MAX: usize = 120;

/// The name that begins here and is all of a value in an address on the web: `?name=Ann+Miller&x=1`.
fn in_query(text: &str, from: usize, look: Look) -> Option<Range<usize>> {
    let is_part = |byte: &u8| is_word(*byte) || matches!(byte, b'+' | b'%' | b'-' | b'.' | b'\'');
    let n = text.as_bytes()[from..].iter().take(QUERY_LEN_MAX).take_while(|byte| is_part(byte)).count();
    let value = text.get(from..from + n)?.trim_end_matches(['.', '\'']);
    let name = decoded(value);
    let is_whole = at(&name, 0, look)? == (0..name.len());
    (is_whole && (look.n_words_min == 1 || !is_thing(&name))).then_some(from..from + value.len())
}

/// The name that is written so in an address on the web, and the name itself where it is written as names are.
fn decoded(name: &str) -> Cow<'_, str> {
    if !name.contains(['+', '%']) {
        return Cow::Borrowed(name);
    }
    let (bytes, mut at) = (name.as_bytes(), 0);
    let mut out = Vec::with_capacity(bytes.len());
    while let Some(&byte) = bytes.get(at) {
        let digit = |idx: usize| char::from(*bytes.get(idx)?).to_digit(16);
        let code = digit(at + 1).zip(digit(at + 2)).and_then(|(high, low)| u8::try_from(16 * high + low).ok());
        let (sign, len) = match (byte, code) {
            (b'+', _) => (b' ', 1),
            (b'%', Some(code)) => (code, 3),
            _ => (byte, 1),
        };
        out.push(sign);
        at += len;
    }
    String::from_utf8(out).map_or(Cow::Borrowed(name), Cow::Owned)
}

fn is_sentence_end(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|next| matches!(next, b'.' | b'\n' | b'!' | b','))
}

fn skip_spaces(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take(24).take_while(|byte| matches!(byte, b' ' | b'\t' | b'"')).count()
}

/// The same with any quotation mark.
fn skip_opening(bytes: &[u8], from: usize) -> usize {
    quotes_end(bytes, skip_spaces(bytes, from))
}

/// The longest label of which this word is the last, in bytes.
const LABEL_LEN_MAX: usize = 24;

/// Whether the label that ends with this word begins with two stars, as in Markdown: `**Customer name:**`.
fn is_bold(bytes: &[u8], at: usize) -> bool {
    let label = &bytes[at.saturating_sub(LABEL_LEN_MAX)..at];
    let n = label.iter().rev().take_while(|&&byte| is_word(byte) || matches!(byte, b' ' | b'\'')).count();
    let before = &label[..label.len() - n];
    before.ends_with(b"**") || before.ends_with(b"__")
}

/// The place behind the two stars that may stand here.
fn skip_bold(bytes: &[u8], at: usize) -> usize {
    let has_stars = bytes[at..].starts_with(b"**") || bytes[at..].starts_with(b"__");
    at + if has_stars { 2 } else { 0 }
}

/// The longest name before an e-mail address in angle brackets.
const BEFORE_LEN_MAX: usize = 60;

/// The name before the address that begins at `start`: `Ann Miller <ann@…>`.
pub(super) fn before_address(text: &str, from: usize, start: usize) -> Option<Found> {
    let bytes = text.as_bytes();
    let bracket = start.checked_sub(1).filter(|&at| bytes[at] == b'<')?;
    let least = from.max(bracket.saturating_sub(BEFORE_LEN_MAX));
    let stretch = &bytes[least..bracket];
    let cut = stretch.iter().rposition(|byte| matches!(byte, b'\n' | b',' | b';' | b':' | b'>' | b'<')).map_or(0, |at| at + 1);
    let mut at_name = least + cut;
    while at_name < bracket && (matches!(bytes[at_name], b' ' | b'"') || bytes[at_name] & 0xc0 == 0x80) {
        at_name += 1;
    }
    let name = at(text, at_name, Look { n_words_min: 1, may_be_small: false, is_line: false })?;
    let rest = bytes.get(name.end..bracket)?;
    rest.iter().all(|byte| matches!(byte, b' ' | b'"')).then_some(Found { kind: Kind::Name, range: name })
}
