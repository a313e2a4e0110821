//! Charts as SVG, drawn by hand: lines with bands, steps, intervals, bars.
//!
//! A drawing has no text: it is stretched to whatever room there is, and what is to be read stands beside it as text of the page.
//! Colours and widths are the style sheet's.

use super::figure::figure;
use super::html::{Html, html};
use std::fmt::Write as _;

/// The width and height of the plane that is drawn on.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 160.0;
/// Points that a line has at most; of more, neighbours are drawn as one.
const N_POINTS_MAX: usize = 400;
/// Steps between round numbers that a vertical axis has about.
const N_STEPS: f64 = 4.0;
/// Places behind the point that there is room for beside an axis.
const N_PLACES_MAX: usize = 6;
/// The room above and below the highest and lowest point.
const MARGIN: f64 = 0.06;

/// Lines in one picture.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    /// What is shown.
    pub(crate) title: String,
    /// What the horizontal axis is, in a word.
    pub(crate) along: &'static str,
    pub(crate) lines: Vec<Line>,
    /// Heights that mean something, each with what it means.
    pub(crate) marks: Vec<(f64, String)>,
    /// Where on the horizontal axis something happened.
    pub(crate) events: Vec<f64>,
    /// What the vertical axis must reach, such as 0 and 1 for a share.
    pub(crate) reach: Option<(f64, f64)>,
}

/// One line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// How far it may be off below and above, where that is known: place, low, high.
    pub(crate) band: Vec<(f64, f64, f64)>,
    /// Whether it stays at a height until the next point.
    pub(crate) is_stepped: bool,
}

/// A range of numbers that becomes a range on the plane.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// The scale of these numbers; `None` when none is finite.
    fn of(numbers: impl Iterator<Item = f64>) -> Option<Self> {
        let finite = numbers.filter(|number| number.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
        (low <= high).then_some(Self { low, high })
    }

    /// From one round number to another, with the step between the round numbers that lie within.
    fn round(self) -> (Self, f64) {
        if self.low == 0.0 && self.high == 0.0 {
            return Self { low: 0.0, high: 1.0 }.round();
        }
        let extent = if self.high > self.low { self.high - self.low } else { self.high.abs() };
        let rough = extent / N_STEPS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(power);
        // A hair less, so that what is round stays as it is.
        let (low, high) = ((self.low / step + 1e-9).floor() * step, (self.high / step - 1e-9).ceil() * step);
        (Self { low, high: if high > low { high } else { low + step } }, step)
    }

    /// With room at both ends, and never without extent.
    fn roomy(self) -> Self {
        let extent = self.high - self.low;
        let room = if extent > 0.0 { extent * MARGIN } else { self.high.abs().max(1.0) * MARGIN };
        Self { low: self.low - room, high: self.high + room }
    }

    /// Where a number lies, from 0 to 1.
    fn place(self, number: f64) -> f64 {
        let extent = self.high - self.low;
        if extent > 0.0 { ((number - self.low) / extent).clamp(0.0, 1.0) } else { 0.5 }
    }
}

impl Chart {
    /// A chart of one line.
    pub(crate) fn line(title: &str, along: &'static str, points: Vec<(f64, f64)>) -> Self {
        let line = Line { name: title.to_owned(), points, ..Line::default() };
        Self { title: title.to_owned(), along, lines: vec![line], ..Self::default() }
    }

    /// The same with a band around its first line.
    pub(crate) fn banded(mut self, band: Vec<(f64, f64, f64)>) -> Self {
        if let Some(line) = self.lines.first_mut() {
            line.band = band;
        }
        self
    }

    /// The picture with its title, its ends and what its lines are called.
    pub(crate) fn draw(&self) -> Html {
        let places = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let of_bands = self.lines.iter().flat_map(|line| line.band.iter().flat_map(|band| [band.1, band.2]));
        let heights = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).chain(of_bands);
        let marks = self.marks.iter().map(|mark| mark.0).chain(self.reach.into_iter().flat_map(|(low, high)| [low, high]));
        let (Some(x), Some(y)) = (Scale::of(places.chain(self.events.iter().copied())), Scale::of(heights.chain(marks))) else {
            return html!(
                "<figure class=\"chart\"><figcaption><b>{}</b> <span class=\"quiet\">nothing yet</span></figcaption></figure>",
                self.title
            );
        };
        let (y, step) = y.round();
        let n_steps = ((y.high - y.low) / step).round().clamp(1.0, 20.0) as usize;
        let ticks: Vec<f64> = (0..=n_steps).rev().map(|idx| y.low + idx as f64 * step).collect();
        let mut page = Html::default();
        html!(page, "<figure class=\"chart\"><figcaption><b>{}</b>{}</figcaption>", self.title, self.legend());
        html!(page, "<div class=\"plot\"><div class=\"ends\" aria-hidden=\"true\">");
        ticks.iter().for_each(|tick| html!(page, "<span>{}</span>", tick_text(*tick, step)));
        html!(page, "</div>");
        html!(page, "{}", plane("curve", &self.told()));
        for tick in &ticks {
            let at = number((1.0 - y.place(*tick)) * HEIGHT);
            html!(page, "<line class=\"grid\" x1=\"0\" x2=\"600\" y1=\"{}\" y2=\"{}\"/>", at, at);
        }
        for event in &self.events {
            let at = number(x.place(*event) * WIDTH);
            html!(page, "<line class=\"event\" x1=\"{}\" x2=\"{}\" y1=\"0\" y2=\"160\"/>", at, at);
        }
        for (height, _) in &self.marks {
            let at = number((1.0 - y.place(*height)) * HEIGHT);
            html!(page, "<line class=\"mark\" x1=\"0\" x2=\"600\" y1=\"{}\" y2=\"{}\"/>", at, at);
        }
        for (idx, line) in self.lines.iter().enumerate() {
            if !line.band.is_empty() {
                html!(page, "<path class=\"band c{}\" d=\"{}\"/>", idx, band(&line.band, x, y));
            }
            html!(page, "<path class=\"line c{}\" d=\"{}\"/>", idx, path(line, x, y));
        }
        html!(page, "</svg></div><div class=\"along\"><span>{}</span>", figure(x.low));
        html!(page, "<span>{}</span><span>{}</span></div></figure>", self.along, figure(x.high));
        page
    }

    /// The lines by name with their last heights, and what the marks mean.
    fn legend(&self) -> Html {
        let mut page = Html::default();
        for (idx, line) in self.lines.iter().enumerate() {
            let last = line.points.last().map(|point| figure(point.1)).unwrap_or_default();
            let name = if self.lines.len() > 1 { line.name.as_str() } else { "" };
            html!(page, " <span class=\"key c{}\">{} <b class=\"n\">{}</b></span>", idx, name, last);
        }
        for (height, meaning) in &self.marks {
            html!(page, " <span class=\"key mark\">{} {}</span>", meaning, figure(*height));
        }
        page
    }

    /// The picture in words, for who does not see it.
    fn told(&self) -> String {
        let line = |line: &Line| {
            let heights = Scale::of(line.points.iter().map(|point| point.1));
            let (Some(range), Some(last)) = (heights, line.points.last()) else { return format!("{}: nothing yet", line.name) };
            format!("{}: from {} to {}, last {}", line.name, figure(range.low), figure(range.high), figure(last.1))
        };
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        format!("{} by {}. {}", self.title, self.along, lines.join("; "))
    }
}

/// A line without anything around it.
pub(crate) fn sparkline(values: &[f64], told: &str) -> Html {
    let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(idx, value)| (idx as f64, *value)).collect();
    let line = Line { points, ..Line::default() };
    let scales = (Scale::of(line.points.iter().map(|point| point.0)), Scale::of(line.points.iter().map(|point| point.1)));
    let (Some(x), Some(y)) = scales else { return Html::default() };
    html!("{}<path class=\"line c0\" d=\"{}\"/></svg>", plane("spark", told), path(&line, x, y.roomy()))
}

/// The beginning of a picture that these words tell.
fn plane(class: &'static str, told: &str) -> Html {
    let mut page = html!("<svg class=\"{}\" viewBox=\"0 0 600 160\" preserveAspectRatio=\"none\" ", class);
    html!(page, "role=\"img\" aria-label=\"{}\">", told);
    page
}

/// Counts side by side, as a picture that these words tell.
pub(crate) fn bars(counts: &[usize], told: &str) -> Html {
    let highest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let width = WIDTH / counts.len().max(1) as f64;
    let mut page =
        html!("<svg class=\"bars\" viewBox=\"0 0 600 160\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">", told);
    for (idx, count) in counts.iter().enumerate() {
        let height = *count as f64 / highest * HEIGHT;
        let (x, y) = (number(idx as f64 * width + width * 0.08), number(HEIGHT - height));
        html!(page, "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", x, y, number(width * 0.84), number(height));
    }
    html!(page, "</svg>");
    page
}

/// A value between two bounds, on a scale from `low` to `high`.
pub(crate) fn interval(value: f64, bounds: (f64, f64), (low, high): (f64, f64)) -> Html {
    let scale = Scale { low, high };
    let at = |number: f64| scale.place(number) * WIDTH;
    let (left, right) = (at(bounds.0), at(bounds.1));
    let told = format!("{} between {} and {}", figure(value), figure(bounds.0), figure(bounds.1));
    let (width, centre) = (number((right - left).max(2.0)), number((at(value) - 4.0).max(0.0)));
    let mut page = plane("interval", &told);
    html!(page, "<rect class=\"ground\" x=\"0\" y=\"72\" width=\"600\" height=\"16\"/>");
    html!(page, "<rect class=\"range\" x=\"{}\" y=\"48\" width=\"{}\" height=\"64\"/>", number(left), width);
    html!(page, "<rect class=\"value\" x=\"{}\" y=\"16\" width=\"8\" height=\"128\"/></svg>", centre);
    page
}

fn path(line: &Line, x: Scale, y: Scale) -> String {
    let points = if line.is_stepped { line.points.clone() } else { thinned(&line.points) };
    let mut text = String::new();
    for (idx, (along, height)) in points.iter().filter(|point| point.1.is_finite()).enumerate() {
        let (at, up) = (number(x.place(*along) * WIDTH), number((1.0 - y.place(*height)) * HEIGHT));
        // Writing to a text cannot fail.
        let _ = match (idx, line.is_stepped) {
            (0, _) => write!(text, "M{at} {up}"),
            (_, true) => write!(text, "H{at}V{up}"),
            (_, false) => write!(text, "L{at} {up}"),
        };
    }
    if points.len() == 1 {
        text.push_str("h0.01");
    }
    text
}

fn band(band: &[(f64, f64, f64)], x: Scale, y: Scale) -> String {
    let lows: Vec<(f64, f64)> = thinned(&band.iter().map(|one| (one.0, one.1)).collect::<Vec<_>>());
    let highs: Vec<(f64, f64)> = thinned(&band.iter().map(|one| (one.0, one.2)).collect::<Vec<_>>());
    let mut text = String::new();
    for (idx, (along, height)) in highs.iter().chain(lows.iter().rev()).enumerate() {
        let sign = if idx == 0 { 'M' } else { 'L' };
        let (at, up) = (number(x.place(*along) * WIDTH), number((1.0 - y.place(*height)) * HEIGHT));
        // Writing to a text cannot fail.
        let _ = write!(text, "{sign}{at} {up}");
    }
    text + "Z"
}

/// The points, neighbours taken together where there are too many.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let n_together = points.len().div_ceil(N_POINTS_MAX).max(1);
    let mean = |points: &[(f64, f64)]| {
        let n = points.len() as f64;
        (points.iter().map(|point| point.0).sum::<f64>() / n, points.iter().map(|point| point.1).sum::<f64>() / n)
    };
    points.chunks(n_together).map(mean).collect()
}

/// A multiple of this step, with as many places as tell it from its neighbours.
fn tick_text(value: f64, step: f64) -> String {
    // Without what the machine's arithmetic has left over, such as a sign before a nought.
    let value = (value / step).round() * step + 0.0;
    let is_whole = |n_places: &usize| {
        let scaled = step * 10_f64.powf(*n_places as f64);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    match (0..=N_PLACES_MAX).find(is_whole) {
        _ if value == 0.0 => "0".to_owned(),
        Some(0) if value.abs() < 1e7 => figure(value.round()),
        Some(n_places) if value.abs() < 1e7 => format!("{value:.n_places$}"),
        _ => {
            let n_places = (value.abs().log10().floor() - step.log10().floor()).max(0.0) as usize + 1;
            format!("{value:.n_places$e}")
        }
    }
}

/// A coordinate, as short as a picture needs it.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[(f64, f64)], is_stepped: bool, expected: &str) {
        let line = Line { points: points.to_vec(), is_stepped, ..Line::default() };
        let chart = Chart { title: "t".into(), along: "step", lines: vec![line], reach: Some((0.0, 1.0)), ..Chart::default() };
        let drawn = chart.draw();
        assert!(drawn.as_str().contains(expected), "{expected}: {}", drawn.as_str());
    }

    #[test]
    fn lines_go_through_their_points() {
        check(&[(0.0, 0.0), (10.0, 1.0)], false, "d=\"M0 160L600 0\"");
        check(&[(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)], true, "d=\"M0 160H300V80H600V0\"");
        check(&[(3.0, 0.5)], false, "d=\"M300 80h0.01\"");
        check(&[(0.0, 0.0), (5.0, f64::NAN), (10.0, 1.0)], false, "d=\"M0 160L600 0\"");
        check(&[], false, "nothing yet");
    }

    #[test]
    fn axes_go_from_one_round_number_to_another() {
        for (low, high, expected) in [
            (0.0, 1.0, (0.0, 1.0, 0.25)),
            (0.123, 0.698, (0.0, 0.8, 0.2)),
            (1651.0, 1959.0, (1600.0, 2000.0, 100.0)),
            (-0.31, 0.44, (-0.4, 0.6, 0.2)),
            (2e-5, 2e-5, (2e-5, 2.5e-5, 5e-6)),
            (7.0, 7.0, (6.0, 8.0, 2.0)),
            (0.0, 0.0, (0.0, 1.0, 0.25)),
        ] {
            let (scale, step) = Scale { low, high }.round();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1e-9);
            let found = (scale.low, scale.high, step);
            assert!(
                near(found.0, expected.0) && near(found.1, expected.1) && near(found.2, expected.2),
                "{low} to {high}: {found:?}"
            );
        }
    }

    #[test]
    fn ticks_have_the_places_that_tell_them_apart() {
        for (value, step, expected) in [
            (1600.0, 100.0, "1,600"),
            (-0.0, 0.25, "0"),
            (0.5, 0.25, "0.50"),
            (12.345, 0.005, "12.345"),
            (100.125, 0.025, "100.125"),
            (0.1 + 0.2, 0.1, "0.3"),
            (1.0, 0.2, "1.0"),
            (0.000_02, 0.000_005, "0.000020"),
            (2e-8, 5e-9, "2.00e-8"),
            (2.25e-8, 2.5e-9, "2.25e-8"),
            (3e7, 5e6, "3.00e7"),
        ] {
            assert_eq!(tick_text(value, step), expected, "{value} by {step}");
        }
    }

    #[test]
    fn a_picture_says_what_it_shows() {
        check(&[(0.0, 0.25), (10.0, 0.75)], false, "aria-label=\"t by step. : from 0.25 to 0.75, last 0.75\"");
        assert!(interval(0.5, (0.4, 0.6), (0.0, 1.0)).as_str().contains("0.5 between 0.4 and 0.6"));
        assert!(bars(&[1, 0, 4], "rewards").as_str().matches("<rect").count() == 3);
        assert_eq!(sparkline(&[], "x").as_str(), "");
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let drawn = Chart::line("\"><script>", "step", vec![(0.0, 1.0), (1.0, 2.0)]).draw();
        assert!(!drawn.as_str().contains("<script>"));
    }

    #[test]
    fn many_points_become_few() {
        let points: Vec<(f64, f64)> = (0..10_000).map(|idx| (f64::from(idx), 1.0)).collect();
        assert_eq!(thinned(&points).len(), N_POINTS_MAX);
        assert_eq!(thinned(&points[..10]), points[..10]);
    }
}
