//! Finding the final answer in a text.
//!
//! A mark says where it is: `\boxed{…}`, `<answer>…</answer>`, `####` or `answer:` (also `answer is`), in this order, the last
//! one of its kind. Without a mark the last number counts, but then the form that was asked for is not kept, unless the
//! number is all that was said. Knows nothing of what is right.

use super::number::Number;

/// Only the end of a longer answer is looked at.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The number that a text gives as its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    /// The number.
    pub(crate) number: Number,
    /// Whether it was marked as the answer, or was all that was said.
    pub(crate) is_marked: bool,
}

/// The number that a text gives as its answer.
pub(crate) fn number(text: &str) -> Option<Found> {
    let text = end_of(text);
    match marked(text) {
        Some(part) => numbers(part).first().map(|&(number, _)| Found { number, is_marked: true }),
        None => numbers(text).last().map(|&(number, is_all)| Found { number, is_marked: is_all }),
    }
}

/// The part of a text that is marked as the answer. Where the mark has no end, the rest of its line.
pub(crate) fn marked(text: &str) -> Option<&str> {
    let text = end_of(text);
    if let Some(at) = text.rfind("\\boxed{") {
        return Some(braced(&text[at + "\\boxed{".len()..]));
    }
    if let Some((before, _)) = text.rsplit_once("</answer>")
        && let Some((_, inside)) = before.rsplit_once("<answer>")
    {
        return Some(inside.trim());
    }
    let line = |at: usize| text[at..].trim_start().lines().next().unwrap_or("").trim();
    if let Some(at) = text.rfind("####") {
        return Some(line(at + 4));
    }
    // Bytes stay in place when ASCII letters change their case.
    let lower = text.to_ascii_lowercase();
    let marks = ["answer:", "answer is:", "answer is"];
    marks.into_iter().filter_map(|mark| Some(lower.rfind(mark)? + mark.len())).max().map(line)
}

/// What stands before the brace that closes this one.
fn braced(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return text[..at].trim();
        }
    }
    text.lines().next().unwrap_or("")
}

/// All numbers of a text, each with whether the text says nothing else.
fn numbers(text: &str) -> Vec<(Number, bool)> {
    // Signs, dollars and fractions in the forms that people and TeX write.
    let forms = [("\u{2212}", "-"), ("\\$", "$"), ("-$", "-"), ("\\frac{", ""), ("}{", "/")];
    let text = forms.into_iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        // Digits inside a word are no number, and a dash between two things is no sign.
        let before = text.as_bytes()[..at].last();
        let is_inside = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b')' | b'}' | b'_'));
        match text.get(at..).filter(|_| !is_inside).and_then(Number::read) {
            Some((number, len)) => {
                found.push((number, is_decoration(&text[..at]) && is_decoration(&text[at + len..])));
                at += len;
            }
            None if is_inside => at += 1,
            None => at += unread_len(&text.as_bytes()[at..]),
        }
    }
    found
}

/// What is stepped over where no number can be read: all of one that is too long, or else its end would be taken for another.
fn unread_len(bytes: &[u8]) -> usize {
    let is_part = |at: usize| match bytes[at] {
        b'+' | b'-' => matches!(bytes[at - 1], b'e' | b'E'),
        byte => byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b','),
    };
    match bytes[0].is_ascii_digit() {
        true => (1..bytes.len()).take_while(|&at| is_part(at)).count() + 1,
        false => 1,
    }
}

/// What may stand beside a number without being words.
fn is_decoration(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || "$€£%.*".contains(c))
}

fn end_of(text: &str) -> &str {
    let from = (text.len().saturating_sub(TEXT_BYTES_MAX)..=text.len()).find(|&at| text.is_char_boundary(at));
    &text[from.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_answer_is_found() {
        let check = |text: &str, expected: &str, is_marked: bool| {
            let found = number(text).unwrap_or_else(|| panic!("no number in {text}"));
            assert_eq!((found.number.to_string().as_str(), found.is_marked), (expected, is_marked), "{text}");
        };
        check("48/2 = <<48/2=24>>24\n48+24 = 72\n#### 72", "72", true);
        check("#### 1,080", "1080", true);
        check("#### $5.50 each", "11/2", true);
        check("####\n7", "7", true);
        check("so \\boxed{72} it is, not 3", "72", true);
        check("\\boxed{\\frac{3}{4}}", "3/4", true);
        check("\\boxed{-$12}", "-12", true);
        check("<answer> 8 </answer> or 9", "8", true);
        check("The answer is 72 because 3 are left.", "72", true);
        check("Answer: 4. No: answer: 5", "5", true);
        check("72", "72", true);
        check(" **$72.00**.", "72", true);
        check("That makes 3 boxes of 24.", "24", false);
        check("10-3", "3", false);
        check("it is \u{2212}3", "-3", false);
        check("a1 b2 3", "3", false);
        check("#### 1e5", "100000", true);
        check("\\boxed{-2.5E-3}", "-1/400", true);
        check("it is 3e", "3", false);
        check("5% of 20 is 1", "1", false);
    }

    #[test]
    fn no_number_is_no_answer() {
        for text in [
            "",
            "none",
            "#### unknown",
            "####",
            "5 \\boxed{}",
            "\\boxed{",
            "a1",
            "1234567890123456789012",
            "1.5e-30",
            "1234567890123456789012.5",
            "-",
            "-.-",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number(&"é".repeat(TEXT_BYTES_MAX)), None);
        assert_eq!(number(&format!("{}#### 7", "9 ".repeat(TEXT_BYTES_MAX))).unwrap().number, Number::whole(7));
    }
}
