//! A light reading of Markdown: which lines are headings, prose or fenced code, and what stands in code spans.
//!
//! Knows the `#` headings and the fences of this repository; nothing of underlined headings, indented code or lists.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Heading,
    Prose,
    /// Inside a fence, or the fence itself.
    Code,
}

pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let ticks = trimmed.len() - trimmed.trim_start_matches(['`', '~']).len();
        let marker = &trimmed[..ticks];
        let kind = match fence {
            Some(open) => {
                if ticks >= open.len() && marker.starts_with(open) && trimmed[ticks..].trim().is_empty() {
                    fence = None;
                }
                Kind::Code
            }
            // A line such as ```` ```x``` ```` is a span, not a fence.
            None if ticks >= 3 && !trimmed[ticks..].contains('`') => {
                fence = Some(marker);
                Kind::Code
            }
            None if is_heading(line) => Kind::Heading,
            None => Kind::Prose,
        };
        lines.push(Line { number: idx + 1, kind, text: line });
    }
    lines
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - rest.len())) && (rest.is_empty() || rest.starts_with(' '))
}

/// The line with its code spans replaced by blanks, and the spans.
pub(super) fn split_spans(line: &str) -> (String, Vec<&str>) {
    let mut prose = String::with_capacity(line.len());
    let mut spans = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let n_ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let ticks = &rest[start..start + n_ticks];
        let inner = &rest[start + n_ticks..];
        prose.push_str(&rest[..start]);
        // The end is a run of exactly as many ticks.
        let end = inner
            .match_indices(ticks)
            .map(|(at, _)| at)
            .find(|&at| !inner[at + n_ticks..].starts_with('`') && !inner[..at].ends_with('`'));
        let Some(end) = end else {
            prose.push_str(ticks);
            rest = inner;
            continue;
        };
        spans.push(&inner[..end]);
        prose.push_str(&" ".repeat(end + 2 * n_ticks));
        rest = &inner[end + n_ticks..];
    }
    prose.push_str(rest);
    (prose, spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_kinds() {
        let text = "# Title\nprose\n```sh\n# not a heading\n```\n#no heading\n~~~~\n~~~\n~~~~\n## `x`\n```x```";
        let kinds: String = lines(text)
            .iter()
            .map(|line| match line.kind {
                Kind::Heading => 'h',
                Kind::Prose => 'p',
                Kind::Code => 'c',
            })
            .collect();
        assert_eq!(kinds, "hpcccpccchp");
    }

    #[test]
    fn spans_are_taken_out() {
        for (line, prose, spans) in [
            ("a `b` c", "a     c", &["b"][..]),
            ("``a`b`` c", "        c", &["a`b"]),
            ("a ` b", "a ` b", &[]),
            ("`a` `b`", "       ", &["a", "b"]),
        ] {
            let (found_prose, found_spans) = split_spans(line);
            assert_eq!((found_prose.as_str(), found_spans.as_slice()), (prose, spans), "{line}");
        }
    }
}
