//! Text that is part of a page. Markup is written in this program; every value is escaped on its way in.
//!
//! There is no other way in: markup is a `&'static str` with `{}` where a value goes, and a value reaches the page through
//! [`Escaping`], which takes away whatever could end a text or an attribute. What was made so may be a value of a larger page, as
//! it is. The number of values is compared with the number of places when this is compiled.

use std::fmt::{self, Display, Write as _};

/// A part of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(String);

/// What can be shown in a page.
pub(crate) trait Show {
    /// Shows it.
    fn show(&self, page: &mut Escaping<'_>);
}

/// The end of a page where text is added, which is escaped.
pub(crate) struct Escaping<'a>(&'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for sign in text.chars() {
            match sign {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // A page must not have them, and a browser would guess.
                '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f' => self.0.push('\u{fffd}'),
                // These turn the direction of what follows, and so let a text pass for another.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{fffd}'),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

impl<T: Display + ?Sized> Show for T {
    fn show(&self, page: &mut Escaping<'_>) {
        // Writing to a text cannot fail.
        let _ = write!(page, "{self}");
    }
}

impl Show for Html {
    fn show(&self, page: &mut Escaping<'_>) {
        page.0.push_str(&self.0);
    }
}

impl Show for &Html {
    fn show(&self, page: &mut Escaping<'_>) {
        Html::show(self, page);
    }
}

impl Html {
    /// Adds markup with these values where it has `{}`. Called by [`html!`], which counts them.
    pub(crate) fn put(&mut self, markup: &'static str, values: &[&dyn Show]) {
        let mut parts = markup.split("{}");
        self.0.push_str(parts.next().unwrap_or_default());
        for (value, part) in values.iter().zip(parts) {
            value.show(&mut Escaping(&mut self.0));
            self.0.push_str(part);
        }
    }

    /// Whether this markup is in it.
    pub(crate) fn has(&self, markup: &'static str) -> bool {
        self.0.contains(markup)
    }

    /// The bytes of it, for the body of a response.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    /// The text of it, for tests to look at.
    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromIterator<Self> for Html {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        let mut whole = Self::default();
        parts.into_iter().for_each(|part| whole.0.push_str(&part.0));
        whole
    }
}

/// How many places for values this markup has. Braces stand for nothing else.
pub(crate) const fn n_places(markup: &str) -> usize {
    let bytes = markup.as_bytes();
    let (mut idx, mut n) = (0, 0);
    while idx < bytes.len() {
        if bytes[idx] == b'{' {
            assert!(idx + 1 < bytes.len() && bytes[idx + 1] == b'}', "a brace is no place for a value");
            n += 1;
        }
        idx += 1;
    }
    n
}

/// How many values these are, by their names.
pub(crate) const fn n_values(names: &[&str]) -> usize {
    names.len()
}

/// A part of a page: `html!("<b>{}</b>", value)`, or added to one: `html!(page, "<b>{}</b>", value)`.
macro_rules! html {
    ($markup:literal $(, $value:expr)* $(,)?) => {{
        let mut part = $crate::dashboard::html::Html::default();
        $crate::dashboard::html::html!(part, $markup $(, $value)*);
        part
    }};
    ($page:expr, $markup:literal $(, $value:expr)* $(,)?) => {{
        const {
            use $crate::dashboard::html::{n_places, n_values};
            assert!(n_places($markup) == n_values(&[$(stringify!($value)),*]), "every value has a place");
        };
        $page.put($markup, &[$(&$value),*]);
    }};
}

pub(crate) use html;

/// A text as one part of a path, or one value of a query.
pub(crate) fn segment(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            written.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &dyn Show, expected: &str) {
        let mut page = Html::default();
        page.put("<b title=\"{}\">", &[value]);
        assert_eq!(page.as_str(), format!("<b title=\"{expected}\">"));
    }

    #[test]
    fn values_are_escaped() {
        check(&"plain", "plain");
        check(&"<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
        check(&"\" onload=\"x", "&quot; onload=&quot;x");
        check(&"a & b &amp;", "a &amp; b &amp;amp;");
        check(&"{}", "{}");
        check(&"a\0b\u{202e}c\nd\te", "a\u{fffd}b\u{fffd}c\nd\te");
        check(&7, "7");
        check(&String::from("日本 <"), "日本 &lt;");
    }

    #[test]
    fn parts_stay_as_they_are() {
        let part = html!("<i>{}</i>", "<");
        check(&part.clone(), "<i>&lt;</i>");
        let whole: Html = [part.clone(), part].into_iter().collect();
        assert_eq!(whole.as_str(), "<i>&lt;</i><i>&lt;</i>");
        assert_eq!(Html::default().as_str(), "");
    }

    #[test]
    fn parts_of_addresses_are_written_in_plain_signs() {
        assert_eq!(segment("a b/c?d=é&#\"'"), "a%20b%2Fc%3Fd%3D%C3%A9%26%23%22%27");
    }
}
