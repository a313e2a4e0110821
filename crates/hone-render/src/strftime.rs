//! Dates for templates that print today's: the handful of `strftime` letters that chat templates use.

use hone_trace::Time;

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/// Formats a time in UTC; a letter that is not known is named.
pub(crate) fn strftime(time: Time, format: &str) -> Result<String, String> {
    // The printed form is `2024-07-26T10:20:30Z`, perhaps with a fraction.
    let printed = time.to_string();
    let part = |range: std::ops::Range<usize>| printed.get(range).unwrap_or_default();
    let month = || part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1))).copied();
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => out.push_str(part(0..4)),
            Some('m') => out.push_str(part(5..7)),
            Some('d') => out.push_str(part(8..10)),
            Some('H') => out.push_str(part(11..13)),
            Some('M') => out.push_str(part(14..16)),
            Some('S') => out.push_str(part(17..19)),
            Some('B') => out.push_str(month().unwrap_or_default()),
            Some('b') => out.push_str(month().and_then(|name| name.get(..3)).unwrap_or_default()),
            Some('%') => out.push('%'),
            other => {
                let letter = other.map(String::from).unwrap_or_default();
                return Err(format!("`%{letter}` is not known to strftime_now; %Y %m %d %B %b %H %M %S are"));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_letters_are_written_and_others_named() {
        let time: Time = "2024-02-03T04:05:06Z".parse().expect("a time");
        let written = strftime(time, "%Y-%m-%d %B %b %H:%M:%S 100%%");
        assert_eq!(written.as_deref(), Ok("2024-02-03 February Feb 04:05:06 100%"));
        assert!(strftime(time, "%j").is_err_and(|error| error.contains("%j")));
    }
}
