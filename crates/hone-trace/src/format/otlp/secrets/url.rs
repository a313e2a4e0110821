//! Addresses without what lets somebody in: who asks (`user:password@`) and parameters that are named like a secret.
//!
//! The names stay, so that an address can still be read: `https://host/v1?key=***`.

use super::is_name;

const CUT: &str = "***";

/// Names that are a secret in an address, and mean other things elsewhere.
const PARAMETERS: [&str; 6] = ["code", "key", "pass", "sas", "sig", "signature"];

/// The text with all its addresses cut, or `None` when there is nothing to cut.
pub(super) fn without_secrets(text: &str) -> Option<String> {
    let mut cut = String::new();
    let mut n_taken = 0;
    while let Some(found) = text[n_taken..].find("://") {
        let start = n_taken + found + 3;
        let end = text[start..].find(ends).map_or(text.len(), |n_bytes| start + n_bytes);
        cut.push_str(&text[n_taken..start]);
        clean(&text[start..end], &mut cut);
        n_taken = end;
    }
    if n_taken == 0 {
        return None;
    }
    cut.push_str(&text[n_taken..]);
    (cut != text).then_some(cut)
}

/// What an address in a text does not go on with.
fn ends(sign: char) -> bool {
    sign.is_whitespace() || sign.is_control() || matches!(sign, '"' | '\'' | '`' | '<' | '>' | '\\')
}

/// Appends an address, from behind its scheme.
fn clean(address: &str, out: &mut String) {
    let mut rest = address;
    if let Some(at) = user_end(address) {
        out.push_str(CUT);
        rest = &address[at..];
    }
    let is_end = |sign: char| matches!(sign, '?' | '&' | '#' | ';');
    let mut is_parameter = false;
    loop {
        let end = rest.find(is_end).unwrap_or(rest.len());
        match rest[..end].split_once('=').filter(|(name, value)| is_parameter && !value.is_empty() && is_secret(name)) {
            Some((name, _)) => out.extend([name, "=", CUT]),
            None => out.push_str(&rest[..end]),
        }
        let Some(sign) = rest[end..].chars().next() else { return };
        out.push(sign);
        rest = &rest[end + sign.len_utf8()..];
        is_parameter = true;
    }
}

/// Where the `@` behind the user stands.
fn user_end(address: &str) -> Option<usize> {
    let host = &address[..address.find(['/', '?', '#']).unwrap_or(address.len())];
    if let Some(at) = host.rfind('@') {
        return Some(at);
    }
    // A password with a slash in it: what follows the colon would have to be a port.
    let (_, port) = host.split_once(':').filter(|_| !host.starts_with('['))?;
    if port.bytes().all(|byte| byte.is_ascii_digit()) { None } else { address.rfind('@') }
}

fn is_secret(name: &str) -> bool {
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or(name);
    PARAMETERS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
        || ["sig", "signature"].iter().any(|secret| last.eq_ignore_ascii_case(secret))
        || is_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(without_secrets(text).as_deref().unwrap_or(text), expected);
    }

    #[test]
    fn users_and_secret_parameters_are_cut() {
        check("postgres://u:SECRET@h/d", "postgres://***@h/d");
        check("postgres://u:SE/CR?ET@h:5432/d", "postgres://***@h:5432/d");
        check("https://a.googleapis.com/v1?key=SECRET", "https://a.googleapis.com/v1?key=***");
        check("https://h/p?a=1&access_token=S#id_token=S", "https://h/p?a=1&access_token=***#id_token=***");
        check("https://h/?X-Amz-Signature=S&X-Amz-Date=1", "https://h/?X-Amz-Signature=***&X-Amz-Date=1");
        check(
            "one http://h/?sig=S two ws://x@h, \"http://h?password=S\"",
            "one http://h/?sig=*** two ws://***@h, \"http://h?password=***\"",
        );
    }

    #[test]
    fn what_holds_no_secret_stays() {
        for text in
            ["", "a://", "://", "http://h:80/?keyword=a&page=2#top", "http://[::1]:80/a@b", "mail a@b.c, key=1", "ü://ü?ü=ü"]
        {
            assert_eq!(without_secrets(text), None, "{text}");
        }
    }
}
