//! Numbers as pictures of characters: a sparkline, and a plot with axes.
//!
//! Pure functions of values and sizes. Where there are more values than places, a place shows the mean of its values; where there
//! are fewer, the plot draws straight lines between them. Knows nothing of terminals.

use super::metrics::figure;
use crate::printer::Printer;
use hone_eval::interval::mean;

/// Which characters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// Blocks and braille.
    Fine,
    /// Nothing beyond ASCII.
    Ascii,
}

impl Glyphs {
    /// Those that this printer may show.
    pub(crate) fn of(printer: &Printer) -> Self {
        if printer.is_plain() { Self::Ascii } else { Self::Fine }
    }
}

/// How many characters a plot has, its axes not counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) n_columns: usize,
    pub(crate) n_rows: usize,
}

const FINE_LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// The values from left to right by height, between their least and their most.
pub(crate) fn sparkline(values: &[f64], width_max: usize, glyphs: Glyphs) -> String {
    let levels = if glyphs == Glyphs::Fine { FINE_LEVELS } else { ASCII_LEVELS };
    let n = values.len().min(width_max);
    let cells: Vec<f64> = (0..n).map(|idx| mean(&values[idx * values.len() / n..(idx + 1) * values.len() / n]).0).collect();
    let range = Range::of(&cells);
    cells.iter().map(|&value| levels[range.place(value, levels.len())]).collect()
}

/// The values over their steps, which must come in order, with both axes. Nothing when there are none.
pub(crate) fn plot(points: &[(u64, f64)], size: Size, glyphs: Glyphs) -> Vec<String> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let (dots_wide, dots_high) = if glyphs == Glyphs::Fine { (2, 4) } else { (1, 1) };
    let curve = curve(points, size.n_columns * dots_wide);
    let range = Range::of(&curve);
    let n_dots = size.n_rows * dots_high;
    let mut cells = vec![vec![0_u8; size.n_columns]; size.n_rows];
    let mut before = None;
    for (column, &value) in curve.iter().enumerate() {
        // Rows are counted from the top.
        let row = n_dots - 1 - range.place(value, n_dots);
        let from = before.map_or(row, |before: usize| if before < row { before + 1 } else { before.saturating_sub(1).max(row) });
        for dot in from.min(row)..=from.max(row) {
            cells[dot / dots_high][column / dots_wide] |= DOTS[dot % dots_high][column % dots_wide];
        }
        before = Some(row);
    }
    let mut labels = vec![String::new(); size.n_rows];
    for value in [range.low, range.high] {
        labels[(n_dots - 1 - range.place(value, n_dots)) / dots_high] = figure(value);
    }
    let margin = labels.iter().map(String::len).max().unwrap_or(0);
    let [tick, side, corner, floor] = if glyphs == Glyphs::Fine { ['┤', '│', '└', '─'] } else { ['+', '|', '+', '-'] };
    let row = |(label, cells): (&String, &Vec<u8>)| {
        let drawn: String = cells.iter().map(|&dots| glyph(dots, glyphs)).collect();
        format!("{label:>margin$} {}{}", if label.is_empty() { side } else { tick }, drawn.trim_end())
    };
    let mut lines: Vec<String> = labels.iter().zip(&cells).map(row).collect();
    lines.push(format!("{:margin$} {corner}{}", "", floor.to_string().repeat(size.n_columns)));
    let (from, to) = (first.0.to_string(), if last.0 > first.0 { last.0.to_string() } else { String::new() });
    let width = size.n_columns.saturating_sub(from.len());
    lines.push(format!("{:margin$}  {from}{to:>width$}", "").trim_end().to_owned());
    lines
}

/// The bit of each dot in a braille character, by row and column.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

fn glyph(dots: u8, glyphs: Glyphs) -> char {
    match glyphs {
        _ if dots == 0 => ' ',
        Glyphs::Fine => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
        Glyphs::Ascii => '*',
    }
}

/// One value for each of `n` places from the first step to the last; a single step has a single place.
fn curve(points: &[(u64, f64)], n: usize) -> Vec<f64> {
    let at = |idx: usize| points[idx].0 as f64;
    let (begin, end) = (at(0), at(points.len() - 1));
    if begin == end || n < 2 {
        return vec![points[points.len() - 1].1];
    }
    let width = (end - begin) / (n - 1) as f64;
    let value = |place: usize| {
        let centre = begin + width * place as f64;
        let from = points.partition_point(|point| (point.0 as f64) < centre - width / 2.0);
        let to = points.partition_point(|point| (point.0 as f64) < centre + width / 2.0);
        if from < to {
            return mean(&points[from..to].iter().map(|point| point.1).collect::<Vec<_>>()).0;
        }
        // Between two points: the places of the first and the last step hold one of their own.
        let (left, right) = (from.saturating_sub(1), from.min(points.len() - 1));
        let share = if left == right { 0.0 } else { (centre - at(left)) / (at(right) - at(left)) };
        points[left].1 + share * (points[right].1 - points[left].1)
    };
    (0..n).map(value).collect()
}

struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        Self { low, high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max) }
    }

    /// Which of `n` places a value has between the least and the most; the middle when they are the same.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the places")]
    fn place(&self, value: f64, n: usize) -> usize {
        let share = if self.high > self.low { (value - self.low) / (self.high - self.low) } else { 0.5 };
        ((share * (n - 1) as f64).round() as usize).min(n - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_sparkline(values: &[f64], width_max: usize, fine: &str, ascii: &str) {
        assert_eq!(sparkline(values, width_max, Glyphs::Fine), fine);
        assert_eq!(sparkline(values, width_max, Glyphs::Ascii), ascii);
    }

    #[test]
    fn a_sparkline_goes_from_the_least_to_the_most() {
        check_sparkline(&[], 8, "", "");
        check_sparkline(&[3.0, 3.0], 8, "▅▅", "==");
        check_sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8, "▁▂▃▄▅▆▇█", "_.:-=+*#");
        check_sparkline(&[-1.0, 1.0, -1.0], 8, "▁█▁", "_#_");
        // Two values a place: means of 0 and 1, and of 4 and 7.
        check_sparkline(&[0.0, 1.0, 4.0, 7.0], 2, "▁█", "_#");
        check_sparkline(&[1.0], 0, "", "");
    }

    fn check_plot(points: &[(u64, f64)], glyphs: Glyphs, expected: &[&str]) {
        assert_eq!(plot(points, Size { n_columns: 8, n_rows: 3 }, glyphs), expected);
    }

    #[test]
    fn a_plot_has_axes() {
        check_plot(&[], Glyphs::Ascii, &[]);
        check_plot(&[(5, 0.5)], Glyphs::Ascii, &["      |", "0.500 +*", "      |", "      +--------", "       5"]);
        let rising = [(1, 0.0), (8, 1.0)];
        check_plot(&rising, Glyphs::Ascii, &["1 +      **", "  |  ****", "0 +**", "  +--------", "   1      8"]);
        check_plot(&rising, Glyphs::Fine, &["1 ┤     ⢀⠔⠊", "  │  ⢀⡠⠊⠁", "0 ┤⡠⠔⠁", "  └────────", "   1      8"]);
        // A jump is a line, and many values a place are their mean.
        let jump: Vec<(u64, f64)> = (0..80).map(|step| (step, if step < 40 { 1.0 } else { 3.0 })).collect();
        check_plot(&jump, Glyphs::Ascii, &["3 +    ****", "  |    *", "1 +****", "  +--------", "   0     79"]);
    }
}
