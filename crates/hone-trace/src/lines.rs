//! Files of one JSON value a line, as people have them: with the mark that some editors put first, and with blank lines.

use std::io::{self, BufRead};

/// The text without the byte order mark that it may begin with.
pub fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The lines of a text that are not blank, each with its number from 1.
pub fn of_text(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(unmarked(text).lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// The same of what is read line by line.
pub fn of_reader(reader: impl BufRead) -> impl Iterator<Item = io::Result<(usize, String)>> {
    let numbered = |(number, line): (usize, io::Result<String>)| match line {
        Ok(line) if number == 1 => Ok((number, unmarked(&line).to_owned())),
        line => line.map(|line| (number, line)),
    };
    (1..).zip(reader.lines()).map(numbered).filter(|line| line.as_ref().map_or(true, |(_, line)| !line.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_blank_lines_are_passed_over() {
        let text = "\u{feff}1\r\n\n  \n2\n\u{feff}3";
        let expected = [(1, "1"), (4, "2"), (5, "\u{feff}3")];
        assert!(of_text(text).eq(expected));
        let read: Vec<(usize, String)> = of_reader(text.as_bytes()).collect::<Result<_, _>>().unwrap();
        assert!(read.iter().map(|(number, line)| (*number, line.as_str())).eq(expected));
        assert_eq!(of_text("\u{feff}\n").count() + of_reader(&b""[..]).count(), 0);
    }
}
