//! Tables: a caption, a heading for every column and one for every row. Where the screen is too narrow for many columns, a row is a
//! card with the name of its column above each value; what does not fit even so scrolls in a frame by itself.

use super::html::{Html, Show, html};

/// Columns that fit on a screen of 800 pixels.
const N_COLUMNS: usize = 9;

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
        let is_many = self.is_many();
        for (idx, (cell, (name, is_number))) in cells.iter().zip(&self.columns).enumerate() {
            if idx == 0 {
                html!(self.rows, "<th scope=\"row\">{}</th>", Cell(*cell));
                continue;
            }
            let class = if *is_number { html!(" class=\"n\"") } else { html!("") };
            let name = if is_many { html!(" data-name=\"{}\"", name) } else { html!("") };
            html!(self.rows, "<td{}{}>{}</td>", class, name, Cell(*cell));
        }
        html!(self.rows, "</tr>");
    }

    fn is_many(&self) -> bool {
        self.columns.len() > N_COLUMNS
    }

    /// The whole table.
    pub(super) fn shown(&self) -> Html {
        // What scrolls must be reached by keys: by something in it, or by itself.
        let reach = match self.rows.has("<a ") || self.rows.has("<input ") {
            true => html!(""),
            false => html!(" tabindex=\"0\" role=\"group\" aria-label=\"Table\""),
        };
        let many = if self.is_many() { " many" } else { "" };
        let mut page = html!("<div class=\"{}{}\"{}><table>{}<thead><tr>", self.frame, many, reach, self.caption);
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

    #[test]
    fn values_of_many_columns_have_their_names_beside_them() {
        let mut table = Table::new("Ten", &["Name", "#A & B", "C", "D", "E", "F", "G", "H", "I", "J"]);
        table.row(&[&"x", &1, &2]);
        let shown = table.shown();
        assert!(shown.as_str().starts_with("<div class=\"wide many\""), "{}", shown.as_str());
        let row = "<td class=\"n\" data-name=\"A &amp; B\">1</td><td data-name=\"C\">2</td></tr>";
        assert!(shown.as_str().contains(row), "{}", shown.as_str());
    }
}
