//! Tables: a caption, a heading for every column and one for every row, and a frame that scrolls by itself where the screen is
//! narrow.

use super::html::{Html, Show, html};

/// A table that is being filled.
pub(super) struct Table {
    caption: Html,
    frame: &'static str,
    /// Each with whether it has numbers, which stand at the right.
    columns: Vec<(String, bool)>,
    rows: Html,
}

impl Table {
    /// An empty one, whose caption is read aloud and not shown. The name of a column of numbers begins with `#`.
    pub(super) fn new(caption: &str, columns: &[&str]) -> Self {
        let column = |name: &&str| (name.trim_start_matches('#').to_owned(), name.starts_with('#'));
        let caption = html!("<caption class=\"unseen\">{}</caption>", caption);
        Self { caption, frame: "wide", columns: columns.iter().map(column).collect(), rows: Html::default() }
    }

    /// With a caption that is shown.
    pub(super) fn titled(self, caption: &str) -> Self {
        Self { caption: html!("<caption>{}</caption>", caption), ..self }
    }

    /// As narrow as what stands in it.
    pub(super) fn slim(self) -> Self {
        Self { frame: "wide slim", ..self }
    }

    /// Adds a row; its first cell is its heading.
    pub(super) fn row(&mut self, cells: &[&dyn Show]) {
        html!(self.rows, "<tr>");
        for (idx, (cell, (_, is_number))) in cells.iter().zip(&self.columns).enumerate() {
            match (idx, is_number) {
                (0, _) => html!(self.rows, "<th scope=\"row\">{}</th>", Cell(*cell)),
                (_, true) => html!(self.rows, "<td class=\"n\">{}</td>", Cell(*cell)),
                (_, false) => html!(self.rows, "<td>{}</td>", Cell(*cell)),
            }
        }
        html!(self.rows, "</tr>");
    }

    /// The whole table.
    pub(super) fn shown(&self) -> Html {
        // What scrolls must be reached by keys: by something in it, or by itself.
        let reach = match self.rows.has("<a ") || self.rows.has("<input ") {
            true => html!(""),
            false => html!(" tabindex=\"0\" role=\"group\" aria-label=\"Table\""),
        };
        let mut page = html!("<div class=\"{}\"{}><table>{}<thead><tr>", self.frame, reach, self.caption);
        for (name, is_number) in &self.columns {
            let class = if *is_number { html!(" class=\"n\"") } else { html!("") };
            html!(page, "<th scope=\"col\"{}>{}</th>", class, name);
        }
        html!(page, "</tr></thead><tbody>{}</tbody></table></div>", self.rows);
        page
    }
}

/// A value by reference, which shows itself.
struct Cell<'a>(&'a dyn Show);

impl Show for Cell<'_> {
    fn show(&self, page: &mut super::html::Escaping<'_>) {
        self.0.show(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_its_column() {
        let mut table = Table::new("Two & three", &["Name", "#Count", "Note"]);
        table.row(&[&"<a>", &7, &html!("<i>x</i>")]);
        let shown = table.shown();
        for expected in [
            "<caption class=\"unseen\">Two &amp; three</caption>",
            "<th scope=\"col\" class=\"n\">Count</th>",
            "<tr><th scope=\"row\">&lt;a&gt;</th><td class=\"n\">7</td><td><i>x</i></td></tr>",
            "tabindex=\"0\"",
        ] {
            assert!(shown.as_str().contains(expected), "{expected}: {}", shown.as_str());
        }
        table.row(&[&html!("<a href=\"/x\">x</a>")]);
        assert!(!table.shown().as_str().contains("tabindex"), "a link in it takes the focus");
    }
}
