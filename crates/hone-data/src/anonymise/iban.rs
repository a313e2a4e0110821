//! Numbers of bank accounts: a country, its length, and two check digits by which the whole is 1 modulo 97.

use super::blank::dash_len;
use super::bytes::is_word;

/// The countries with the lengths of their numbers.
const COUNTRIES: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 \
    ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 \
    LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 \
    SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

/// The end of the account number that begins with this word.
pub(super) fn end(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..at + 4)?;
    if !(head[0].is_ascii_alphabetic() && head[1].is_ascii_alphabetic() && head[2].is_ascii_digit() && head[3].is_ascii_digit()) {
        return None;
    }
    let len = country_len(head)?;
    let (mut end, mut n, mut rest) = (at, 0, Remainder::default());
    let mut first = [0; 4];
    while n < len {
        let &byte = bytes.get(end)?;
        let mut len_here = 1;
        if byte.is_ascii_alphanumeric() {
            if n < 4 {
                first[n] = byte;
            } else {
                rest.add(byte);
            }
            n += 1;
        } else {
            len_here = if matches!(byte, b' ' | b'-') { 1 } else { dash_len(bytes, end) };
            if len_here == 0 || n < 4 || !bytes[end - 1].is_ascii_alphanumeric() {
                return None;
            }
        }
        end += len_here;
    }
    first.into_iter().for_each(|byte| rest.add(byte));
    (rest.0 == 1 && bytes.get(end).is_none_or(|&next| !is_word(next))).then_some(end)
}

fn country_len(head: &[u8]) -> Option<usize> {
    let known = COUNTRIES.split_ascii_whitespace().find(|known| known.as_bytes()[..2].eq_ignore_ascii_case(&head[..2]))?;
    known[2..].parse().ok()
}

/// The check digits of this account of this country.
pub(super) fn check_digits(country: &str, account: &str) -> String {
    let mut rest = Remainder::default();
    account.bytes().chain(country.bytes()).chain(*b"00").for_each(|byte| rest.add(byte));
    format!("{:02}", 98 - rest.0)
}

/// What is left of a number modulo 97. Letters are numbers from 10 on.
#[derive(Default)]
struct Remainder(u32);

impl Remainder {
    fn add(&mut self, byte: u8) {
        self.0 = match byte {
            b'0'..=b'9' => self.0 * 10 + u32::from(byte - b'0'),
            _ => self.0 * 100 + u32::from(byte.to_ascii_uppercase() - b'A') + 10,
        } % 97;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digits_make_it_one_modulo_97() {
        for (text, expected) in [
            ("GB82WEST12345698765432", Some(22)),
            ("GB82 WEST 1234 5698 7654 32.", Some(27)),
            ("gb42nawi04454264788619", Some(22)),
            ("DE89370400440532013000", Some(22)),
            ("DE89370400440532013001", None),
            ("DE8937040044053201300012", None),
            ("GB82  WEST12345698765432", None),
            ("XX82WEST12345698765432", None),
            ("GB82", None),
        ] {
            assert_eq!(end(text.as_bytes(), 0), expected, "{text}");
        }
        assert_eq!(check_digits("GB", "WEST12345698765432"), "82");
    }
}
