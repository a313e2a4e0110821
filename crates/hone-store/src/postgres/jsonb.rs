//! What JSONB does not give back as it was written.
//!
//! JSONB keeps numbers as decimals and texts without NUL. A number such as `1e300` or `-0.0` and a text
//! with `\u0000` would come back changed, or be refused. For such a record the text itself is kept
//! beside the JSONB form, which then serves queries only.

use std::borrow::Cow;

/// The JSON as the database can take it, and the text itself when that is not the same.
pub(crate) fn forms(text: &str) -> (Cow<'_, str>, Option<&str>) {
    match examine(text.as_bytes()) {
        Verdict::Kept => (Cow::Borrowed(text), None),
        Verdict::Changed => (Cow::Borrowed(text), Some(text)),
        Verdict::Refused => (Cow::Owned(text.replace("\\u0000", "\\ufffd")), Some(text)),
    }
}

enum Verdict {
    Kept,
    Changed,
    Refused,
}

/// One pass over the bytes. Inside a text only escapes matter, outside only numbers.
fn examine(json: &[u8]) -> Verdict {
    let mut verdict = Verdict::Kept;
    let mut idx = 0;
    while idx < json.len() {
        match json[idx] {
            b'"' => {
                idx += 1;
                while idx < json.len() && json[idx] != b'"' {
                    if json[idx] == b'\\' {
                        if json[idx..].starts_with(b"\\u0000") {
                            return Verdict::Refused;
                        }
                        idx += 1;
                    }
                    idx += 1;
                }
            }
            b'e' | b'E' if idx > 0 && json[idx - 1].is_ascii_digit() => verdict = Verdict::Changed,
            b'-' if is_negative_zero(&json[idx + 1..]) => verdict = Verdict::Changed,
            _ => {}
        }
        idx += 1;
    }
    verdict
}

fn is_negative_zero(after_minus: &[u8]) -> bool {
    let number = after_minus.split(|byte| matches!(byte, b',' | b']' | b'}')).next().unwrap_or_default();
    number.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kept: bool, form: &str) {
        let (jsonb, raw) = forms(text);
        assert_eq!((jsonb.as_ref(), raw.is_none()), (form, kept), "{text}");
    }

    #[test]
    fn only_what_comes_back_changed_is_kept_twice() {
        check(r#"{"a":1.5,"b":[true,false,null,-0.5]}"#, true, r#"{"a":1.5,"b":[true,false,null,-0.5]}"#);
        check(r#"{"a":"1e5 and -0.0"}"#, true, r#"{"a":"1e5 and -0.0"}"#);
        check(r#"{"a":1e300}"#, false, r#"{"a":1e300}"#);
        check(r#"[-0.0]"#, false, r#"[-0.0]"#);
        check(r#"{"a":"x\u0000y"}"#, false, r#"{"a":"x\ufffdy"}"#);
        check(r#"{"a":"x\\u0000y"}"#, true, r#"{"a":"x\\u0000y"}"#);
    }
}
