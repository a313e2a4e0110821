//! Pages that stand alone: one file, nothing from elsewhere, and every value escaped on its way in.
//!
//! A page forbids itself everything but the style and the script that this program wrote. Knows nothing of what is shown.

use hone_data::prepare::Digest;

const STYLE: &str = include_str!("page/style.css");

/// A page in the making.
pub(crate) struct Page {
    title: String,
    body: String,
    script: Option<&'static str>,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: escaped(title), body: String::new(), script: None }
    }

    /// A page that a script of ours makes usable.
    pub(crate) fn with_script(title: &str, script: &'static str) -> Self {
        Self { script: Some(script), ..Self::new(title) }
    }

    /// Adds markup; values in it were escaped by [`escaped`].
    pub(crate) fn add(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    /// Adds a table. Cells are texts.
    pub(crate) fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) {
        let line = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells: String = cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
            format!("<tr>{cells}</tr>")
        };
        let head = line("th", &mut headings.iter().copied());
        let rows: String = rows.iter().map(|row| line("td", &mut row.iter().map(String::as_str))).collect();
        self.add(&format!("<table><thead>{head}</thead><tbody>{rows}</tbody></table>"));
    }

    /// The whole page. What may run in it is named by a word that nobody who wrote a value could know.
    pub(crate) fn finish(self) -> String {
        let mut digest = Digest::default();
        digest.add(self.body.as_bytes());
        let word = digest.hex();
        let script = self.script.map_or_else(String::new, |script| format!("<script nonce=\"{word}\">{script}</script>"));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'nonce-{word}'; script-src 'nonce-{word}'\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\
             <style nonce=\"{word}\">{STYLE}</style></head>\n<body><main><h1>{}</h1>\n{}</main>{script}</body></html>\n",
            self.title, self.title, self.body
        )
    }
}

/// Text that can stand in a page and in an attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            // A page must not have them, and those of the second line turn the direction of what follows.
            '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f' => page.push('\u{fffd}'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => page.push('\u{fffd}'),
            other => page.push(other),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_markup_is_text() {
        let mut page = Page::new("<b>");
        page.table(&["a"], &[vec!["<script>\"'&".to_owned()]]);
        let page = page.finish();
        assert!(page.contains("&lt;script&gt;&quot;&#39;&amp;") && !page.contains("<script"), "{page}");
        assert!(page.contains("<title>&lt;b&gt;</title>") && page.contains("default-src 'none'"));
        assert_eq!(escaped("a\u{202e}b\0"), "a\u{fffd}b\u{fffd}");
    }
}
