//! Numbers, times and amounts as people read them.

use super::html::{Html, html};
use hone_trace::Time;

/// A number in at most four digits, small and large ones by their power of ten.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if !value.is_finite() => return "–".to_owned(),
        _ if size < 1e7 && value.fract() == 0.0 => return grouped(value),
        _ if !(1e-3..1e7).contains(&size) => return format!("{value:.1e}"),
        _ if size >= 1000.0 => return grouped(value.round()),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    // Nothing is said by the noughts at the end.
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count, in groups of three digits.
pub(crate) fn count(n: u64) -> String {
    grouped(n as f64)
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 && digits != "0" { "-".to_owned() } else { String::new() };
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", figure((share * 1000.0).round() / 10.0))
}

/// A number where there is one.
pub(crate) fn known(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}

/// US dollars, below one in three digits that say something.
pub(crate) fn dollars(usd: f64) -> String {
    let (sign, size) = (if usd < 0.0 { "-" } else { "" }, usd.abs());
    match size {
        _ if size == 0.0 || !size.is_finite() => "–".to_owned(),
        _ if size < 1e-6 => format!("{sign}${size:.1e}"),
        _ if size < 1.0 => {
            let n_noughts = (-size.log10()).ceil() as usize;
            let text = format!("{size:.*}", n_noughts + 2);
            // Cents have two places, whatever they are.
            let (cents, rest) = text.split_at(4);
            format!("{sign}${cents}{}", rest.trim_end_matches('0'))
        }
        _ => format!("{sign}${size:.2}"),
    }
}

/// Milliseconds as people say them.
pub(crate) fn duration(ms: f64) -> String {
    match ms {
        _ if ms < 1000.0 => format!("{ms:.0} ms"),
        _ if ms < 60_000.0 => format!("{:.1} s", ms / 1e3),
        _ if ms < 3_600_000.0 => format!("{:.0} min", ms / 60e3),
        _ if ms < 172_800_000.0 => format!("{:.0} h", ms / 3600e3),
        _ => format!("{:.0} days", ms / 86_400e3),
    }
}

/// A time, how long ago it was, and to the second for who looks closer. Nobody knows that of a time that is told, not measured.
pub(crate) fn ago(at: Time, now: Time) -> Html {
    if at.is_told() {
        return html!("<span title=\"played without a clock, so that the same seed gives the same bytes\">no time</span>");
    }
    let ms = now.millis_since(at);
    let said = if ms < 0.0 { to_second(at) } else { format!("{} ago", duration(ms)) };
    html!("<time datetime=\"{}\" title=\"{}\">{}</time>", at, to_second(at), said)
}

/// A time to the second, in UTC.
pub(crate) fn to_second(at: Time) -> String {
    let nanos = at.unix_nanos();
    Time::from_unix_nanos(nanos - nanos.rem_euclid(1_000_000_000)).to_string().replace('T', " ").replace('Z', "")
}

/// The first part of a long id.
pub(crate) fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (0.41234, "0.412"),
            (-0.5, "-0.5"),
            (12.345, "12.35"),
            (123.456, "123.5"),
            (1234.5, "1,235"),
            (1_000_000.0, "1,000,000"),
            (5e-4, "5.0e-4"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(figure(value), expected, "{value}");
        }
        assert_eq!((percent(0.1234), count(12_345)), ("12.3 %".to_owned(), "12,345".to_owned()));
        for (usd, expected) in [
            (0.0, "–"),
            (0.000_12, "$0.00012"),
            (0.000_123_4, "$0.000123"),
            (0.012_34, "$0.0123"),
            (0.1, "$0.10"),
            (0.123_4, "$0.123"),
            (0.999_9, "$1.00"),
            (3.5, "$3.50"),
            (-0.05, "-$0.05"),
            (2e-8, "$2.0e-8"),
        ] {
            assert_eq!(dollars(usd), expected, "{usd}");
        }
        assert_eq!((duration(12.0), duration(90_000.0), duration(1e9)), ("12 ms".into(), "2 min".into(), "12 days".into()));
    }

    #[test]
    fn times_are_told_from_now() {
        let now = Time::from_unix_nanos(1_800_000_000_500_000_000);
        let shown = ago(now.plus_nanos(-3_000_000_000), now);
        assert!(shown.as_str().contains("3.0 s ago") && shown.as_str().contains("2027-01-15 07:59:57"), "{shown:?}");
        let shown = ago(Time::TOLD.plus_nanos(2_000_000_000), now);
        assert!(shown.as_str().contains(">no time<"), "nobody looked at a clock: {shown:?}");
    }
}
