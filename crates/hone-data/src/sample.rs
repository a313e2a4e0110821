//! Generated text: ordinary words with personal data of many forms planted among numbers that are nobody's, and the same without.
//!
//! The values are drawn at random, with right check digits; the forms are those that people write. The same seed gives the same text.

use crate::anonymise::{Found, Kind};
use crate::measure::Labelled;
use hone_trace::Draws;
use std::sync::OnceLock;

const WORDS: &str = "the a of to and in that it is was for on with as at by this had not are but from or have an they which one you were \
    all her she there would their we him been has when who will no more if out so up said what its about than into them can only other \
    time new some could these two may first then do any like my now over such our man me even most made after also did many fore must \
    through years where much your way down should because each just those people too good very make world still see own work long here \
    get both between life being under never day same another know while last might great old year off come since against go came right \
    used take three small large green paper water letter window garden market river mountain story question answer problem reason \
    printer screen update install refund delivery parcel invoice service support warranty return policy";

/// What nothing comes of, however often it begins: repeated, it takes as long as it can.
pub const REPEATED: &[&str] = &[
    "@",
    "a@",
    "a@a.",
    "1",
    "1 ",
    "1-",
    "(",
    "+",
    "://",
    "key=",
    "key:\"",
    "::",
    "1:",
    "a:",
    "Mr. ",
    "A ",
    "Aa ",
    "name is ",
    "1 A ",
    "GB82 ",
    "address: 1 ",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nA: ",
    "password=\"",
    "password=a(",
    "aB",
    "1111  ",
    "**name:",
    "\\n",
    "Rua A ",
    "é",
    "password: ",
    "Box 1 ",
    "sk-",
    "eyJ.",
    "Dear A. ",
    "1.1.1.",
    "%40",
    "https://a:",
    "call 1 2 3 ",
    "Regards,\n",
    "12345678901234567890",
    "<",
    "\\",
    "\\u0040",
    "\\ud83d",
    "%2B1",
    "1\u{200b}",
    "a\u{200d}@a.",
    "４",
    "A <a@b.cc>",
    "\"name\":\"A",
    "name=A+",
    "&name=%41",
    "Dear Mr. ",
    "\\\\name\\\\",
];

/// A text in which every kind stands in many of its forms, about `n_bytes` long.
pub fn planted(seed: u64, n_bytes: usize) -> Vec<Labelled> {
    let mut draws = Draws::new(seed, &["data", "planted"]);
    let mut texts = Vec::new();
    let mut n = 0;
    while n < n_bytes {
        let mut text = Labelled { text: String::new(), labels: Vec::new() };
        for _ in 0..draws.between(2, 6) {
            prose(&mut draws, &mut text.text, 12);
            if draws.chance(0.5) {
                plant(&mut draws, &mut text);
            } else {
                text.text.push_str(&decoy(&mut draws));
            }
            text.text.push_str(draws.pick::<&str>(&[". ", ", ", "\n", "; "]));
        }
        prose(&mut draws, &mut text.text, 10);
        n += text.text.len();
        texts.push(text);
    }
    texts
}

/// A text without personal data, about `n_bytes` long.
pub fn plain(seed: u64, n_bytes: usize) -> String {
    let mut draws = Draws::new(seed, &["data", "plain"]);
    let mut text = String::with_capacity(n_bytes + 200);
    while text.len() < n_bytes {
        prose(&mut draws, &mut text, 14);
        if draws.chance(0.2) {
            text.push_str(&decoy(&mut draws));
        }
        text.push_str(draws.pick::<&str>(&[". ", ", ", ".\n", "? "]));
    }
    text
}

fn prose(draws: &mut Draws, text: &mut String, n_words_max: i64) {
    static LIST: OnceLock<Vec<&str>> = OnceLock::new();
    let words = LIST.get_or_init(|| WORDS.split_whitespace().collect());
    for _ in 0..draws.between(3, n_words_max) {
        text.push_str(draws.pick::<&str>(words));
        text.push(' ');
    }
}

/// A number or a code that is nobody's.
fn decoy(draws: &mut Draws) -> String {
    let n = |draws: &mut Draws, n: usize| digits(draws, n);
    match draws.below(16) {
        0 => format!("order {}", n(draws, 9)),
        1 => format!("2026-{:02}-{:02}", draws.between(1, 12), draws.between(1, 28)),
        2 => format!("{:02}/{:02}/20{:02}", draws.between(1, 12), draws.between(1, 28), draws.between(10, 29)),
        3 => format!("${}.{:02}", draws.between(1, 9999), draws.between(0, 99)),
        4 => format!("version {}.{}.{}", draws.between(0, 9), draws.between(0, 20), draws.between(0, 99)),
        5 => format!("{:02}:{:02}:{:02}", draws.between(0, 23), draws.between(0, 59), draws.between(0, 59)),
        6 => format!("{}.{}", draws.between(0, 99), n(draws, 9)),
        7 => {
            let bits = (draws.bits(), draws.bits());
            format!(
                "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                bits.0 as u32,
                bits.0 >> 48,
                bits.1 & 0xfff,
                bits.1 >> 52,
                bits.1 >> 4 & 0xffff_ffff_ffff
            )
        }
        8 => format!("{:016x}{:016x}", draws.bits(), draws.bits()),
        9 => format!("{},{},{} units", draws.between(1, 999), 100 + draws.between(0, 899), 100 + draws.between(0, 899)),
        10 => format!("1{}", n(draws, 9)),
        11 => format!("page {} of {}", draws.between(1, 400), draws.between(400, 900)),
        12 => format!("{} times {} is {}", draws.between(1, 99), draws.between(1, 99), draws.between(100, 9999)),
        13 => format!("ticket #{}", n(draws, 6)),
        14 => format!("{}% of {}", draws.between(1, 100), draws.between(1000, 999_999)),
        _ => format!("std::vec::Vec<u{}>", *draws.pick(&[8, 16, 32, 64])),
    }
}

fn plant(draws: &mut Draws, text: &mut Labelled) {
    let kind = *draws.pick(&Kind::ALL);
    let (before, value, after) = value(draws, kind);
    text.text.push_str(&before);
    let start = text.text.len();
    text.text.push_str(&value);
    text.labels.push(Found { kind, range: start..text.text.len() });
    text.text.push_str(&after);
}

/// A value of this kind, with the words before and after it.
fn value(draws: &mut Draws, kind: Kind) -> (String, String, String) {
    let bare = |value: String| (String::new(), value, String::new());
    match kind {
        Kind::Email => {
            let value = email(draws);
            let before = *draws.pick(&["", "write to ", "<", "mailto:", "email=", "\"", "cc:"]);
            (before.to_owned(), value, if before == "<" { ">".to_owned() } else { String::new() })
        }
        Kind::Phone => phone(draws),
        Kind::Card => {
            let value = card(draws);
            let before = if value.len() < 14 {
                *draws.pick(&["card ", "card number: "])
            } else {
                *draws.pick(&["", "card ", "paid with "])
            };
            (before.to_owned(), value, String::new())
        }
        Kind::Iban => bare(iban(draws)),
        Kind::Ip => bare(ip(draws)),
        Kind::Ssn => ssn(draws),
        Kind::NationalId => national(draws),
        Kind::Secret => secret(draws),
        Kind::UrlCredentials => {
            let value = format!("{}:{}", lower(draws, 6), token(draws, 9));
            ("https://".to_owned(), value, format!("@{}.com/{}", lower(draws, 7), lower(draws, 4)))
        }
        Kind::Name => name(draws),
        Kind::Address => address(draws),
    }
}

fn digits(draws: &mut Draws, n: usize) -> String {
    (0..n).map(|_| char::from(b'0' + draws.below(10) as u8)).collect()
}

fn lower(draws: &mut Draws, n: usize) -> String {
    (0..n).map(|_| char::from(b'a' + draws.below(26) as u8)).collect()
}

fn token(draws: &mut Draws, n: usize) -> String {
    const ALL: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    // One of each class first, so that none is a word by chance.
    let mut out = vec![b'a' + draws.below(26) as u8, b'0' + draws.below(10) as u8, b'A' + draws.below(26) as u8];
    out.extend((3..n).map(|_| *draws.pick(ALL)));
    String::from_utf8(out).unwrap_or_default()
}

fn email(draws: &mut Draws) -> String {
    let (first, last) = (lower(draws, 5), lower(draws, 7));
    let local = match draws.below(6) {
        0 => format!("{first}.{last}"),
        1 => format!("{first}_{last}{}", digits(draws, 2)),
        2 => format!("{first}+shop"),
        3 => capital(&first) + &capital(&last),
        4 => format!("{first}-{last}"),
        _ => first,
    };
    let domain = lower(draws, 6);
    let domain = match draws.below(5) {
        0 => format!("{domain}.co.uk"),
        1 => format!("mail.{domain}.org"),
        2 => format!("{domain}.de"),
        3 => format!("{domain}.io"),
        _ => format!("{domain}.com"),
    };
    format!("{local}@{domain}")
}

fn phone(draws: &mut Draws) -> (String, String, String) {
    let d = |draws: &mut Draws, n| digits(draws, n);
    let area = |draws: &mut Draws| format!("{}{}", draws.between(2, 9), digits(draws, 2));
    let value = match draws.below(14) {
        0 => format!("+1 {} {} {}", area(draws), area(draws), d(draws, 4)),
        1 => format!("+44 20 {} {}", d(draws, 4), d(draws, 4)),
        2 => format!("+49{}{}", draws.between(15, 17), d(draws, 9)),
        3 => format!("+33 {} {} {} {} {}", draws.between(1, 9), d(draws, 2), d(draws, 2), d(draws, 2), d(draws, 2)),
        4 => format!("{}-{}-{}", area(draws), area(draws), d(draws, 4)),
        5 => format!("({}) {}-{}", area(draws), area(draws), d(draws, 4)),
        6 => format!("{}.{}.{}", area(draws), area(draws), d(draws, 4)),
        7 => format!("1-{}-{}-{}", area(draws), area(draws), d(draws, 4)),
        8 => format!("0{}.{}.{}.{}.{}", draws.between(1, 9), d(draws, 2), d(draws, 2), d(draws, 2), d(draws, 2)),
        9 => format!("07{} {} {}", d(draws, 3), d(draws, 3), d(draws, 3)),
        10 => format!("{}-{}-{} x{}", area(draws), area(draws), d(draws, 4), d(draws, 3)),
        // These could be anything without a word before them.
        11 => {
            return (
                draws.pick(&["call me at ", "Phone: ", "my mobile is ", "fax "]).to_string(),
                format!("{}{}", draws.between(2, 9), d(draws, 9)),
                String::new(),
            );
        }
        12 => return ("phone ".to_owned(), format!("{} {} {}", d(draws, 3), d(draws, 3), d(draws, 3)), String::new()),
        _ => return ("Tel: ".to_owned(), format!("{}-{}", area(draws), d(draws, 4)), String::new()),
    };
    (String::new(), value, String::new())
}

fn card(draws: &mut Draws) -> String {
    let (prefix, len) = *draws.pick(&[
        ("4", 16),
        ("51", 16),
        ("55", 16),
        ("2221", 16),
        ("34", 15),
        ("37", 15),
        ("6011", 16),
        ("36", 14),
        ("35", 16),
        ("4", 19),
        ("4", 13),
        ("62", 16),
    ]);
    let mut number = prefix.to_owned();
    number.push_str(&digits(draws, len - prefix.len() - 1));
    number.push(char::from(b'0' + luhn(&number)));
    let sign = *draws.pick(&["", " ", "-"]);
    if sign.is_empty() || len == 13 || len == 14 || len == 19 {
        return number;
    }
    let cuts: &[usize] = if len == 15 { &[4, 10] } else { &[4, 8, 12] };
    let mut parts = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&len]) {
        parts.push(&number[from..cut]);
        from = cut;
    }
    parts.join(sign)
}

fn luhn(number: &str) -> u8 {
    let sum: u32 = number.bytes().rev().enumerate().fold(0, |sum, (idx, digit)| {
        let digit = u32::from(digit - b'0') * (2 - idx as u32 % 2);
        sum + if digit > 9 { digit - 9 } else { digit }
    });
    ((10 - sum % 10) % 10) as u8
}

fn iban(draws: &mut Draws) -> String {
    let (country, bank, n) =
        *draws.pick(&[("GB", 4, 14), ("DE", 0, 18), ("FR", 0, 23), ("NL", 4, 10), ("ES", 0, 20), ("PL", 0, 24)]);
    let account = lower(draws, bank).to_uppercase() + &digits(draws, n);
    let rest = (account.clone() + country + "00").bytes().fold(0u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte - b'A') + 10) % 97,
    });
    let number = format!("{country}{:02}{account}", 98 - rest);
    match draws.below(3) {
        0 => number,
        1 => number.to_lowercase(),
        _ => number.as_bytes().chunks(4).map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>().join(" "),
    }
}

fn ip(draws: &mut Draws) -> String {
    let group = |draws: &mut Draws| format!("{:x}", draws.between(1, 0xffff));
    match draws.below(4) {
        0 => format!("2001:db8:{}::{}", group(draws), group(draws)),
        1 => (0..8).map(|_| group(draws)).collect::<Vec<_>>().join(":"),
        _ => format!("{}.{}.{}.{}", draws.between(11, 120), draws.below(256), draws.below(256), draws.between(1, 254)),
    }
}

fn ssn(draws: &mut Draws) -> (String, String, String) {
    let (area, group, serial) = (draws.between(100, 599), draws.between(10, 99), draws.between(1000, 9999));
    match draws.below(3) {
        0 => (String::new(), format!("{area}-{group}-{serial}"), String::new()),
        1 => ("SSN ".to_owned(), format!("{area} {group} {serial}"), String::new()),
        _ => ("social security number ".to_owned(), format!("{area}{group}{serial}"), String::new()),
    }
}

fn national(draws: &mut Draws) -> (String, String, String) {
    match draws.below(3) {
        0 => {
            let value = draws.below(100_000_000);
            let letter = char::from(b"TRWAGMYFPDXBNJZSQVHLCKE"[value % 23]);
            (String::new(), format!("{value:08}{letter}"), String::new())
        }
        1 => ("passport ".to_owned(), format!("C{}", digits(draws, 8)), String::new()),
        _ => (String::new(), format!("AB {} {} {} C", digits(draws, 2), digits(draws, 2), digits(draws, 2)), String::new()),
    }
}

fn secret(draws: &mut Draws) -> (String, String, String) {
    let quoted = |before: &str, value: String| (before.to_owned() + "\"", value, "\"".to_owned());
    match draws.below(6) {
        0 => (String::new(), format!("sk-{}", token(draws, 40)), String::new()),
        1 => (String::new(), format!("ghp_{}", token(draws, 36)), String::new()),
        2 => quoted("api_key = ", token(draws, 32)),
        3 => ("Authorization: Bearer ".to_owned(), token(draws, 40), String::new()),
        4 => ("password: ".to_owned(), token(draws, 10), String::new()),
        _ => (String::new(), format!("eyJ{}.eyJ{}.{}", token(draws, 20), token(draws, 30), token(draws, 40)), String::new()),
    }
}

fn capital(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}

fn name(draws: &mut Draws) -> (String, String, String) {
    let (first, last) = (capital(&lower(draws, 5)), capital(&lower(draws, 7)));
    let full = format!("{first} {last}");
    match draws.below(6) {
        0 => ("my name is ".to_owned(), full, " and".to_owned()),
        1 => (draws.pick(&["Mr. ", "Mrs. ", "Dr. ", "Ms. ", "Dear Mr. ", "Hello Dr. "]).to_string(), last, " called".to_owned()),
        2 => ("Dear ".to_owned(), full, ",".to_owned()),
        3 => ("\nBest regards,\n".to_owned(), full, "\n".to_owned()),
        4 => ("Name: ".to_owned(), full, "\n".to_owned()),
        _ => ("I am ".to_owned(), full, " and".to_owned()),
    }
}

fn address(draws: &mut Draws) -> (String, String, String) {
    let (street, town) = (capital(&lower(draws, 6)), capital(&lower(draws, 7)));
    let number = draws.between(1, 9999);
    match draws.below(5) {
        0 => (String::new(), format!("{number} {street} Street"), String::new()),
        1 => (String::new(), format!("{number} {street} Ave, {town}, CA {}", 10_000 + draws.below(89_999)), String::new()),
        2 => (String::new(), format!("{street}straße {}", draws.between(1, 200)), String::new()),
        3 => (String::new(), format!("P.O. Box {number}"), String::new()),
        _ => (String::new(), format!("Rua {street} {}", draws.between(1, 900)), String::new()),
    }
}
