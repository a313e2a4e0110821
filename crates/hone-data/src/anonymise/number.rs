//! A number as people write it: groups of digits with blanks, dots, dashes or brackets between them.

use super::bytes::digits_end;

/// The most groups that are looked at.
pub(super) const N_GROUPS_MAX: usize = 8;

/// The groups of a number, without memory of their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) start: usize,
    pub(super) has_plus: bool,
    /// Where each group begins and ends.
    groups: [(usize, usize); N_GROUPS_MAX],
    n_groups: usize,
}

impl<'a> Number<'a> {
    /// The number that begins here, with a digit, a plus or a bracket.
    pub(super) fn read(bytes: &'a [u8], start: usize) -> Option<Self> {
        Self::read_as(bytes, start, is_between)
    }

    /// The same with two blanks in the place of one, where the first group is of four digits. In other numbers these stand between two of them.
    pub(super) fn read_wide(bytes: &'a [u8], start: usize) -> Option<Self> {
        let end = digits_end(bytes, start);
        (end - start == 4).then(|| Self::read_as(bytes, start, |between| is_between(between) || between == b"  "))?
    }

    fn read_as(bytes: &'a [u8], start: usize, is_between: fn(&[u8]) -> bool) -> Option<Self> {
        let has_plus = bytes[start] == b'+';
        let mut number = Self { bytes, start, has_plus, groups: [(0, 0); N_GROUPS_MAX], n_groups: 0 };
        let mut at = if bytes[start].is_ascii_digit() { start } else { start + 1 };
        if has_plus && bytes.get(at) == Some(&b'(') {
            at += 1;
        }
        while number.n_groups < N_GROUPS_MAX && bytes.get(at).is_some_and(u8::is_ascii_digit) {
            let end = digits_end(bytes, at);
            number.groups[number.n_groups] = (at, end);
            number.n_groups += 1;
            let n_between =
                bytes[end..].iter().take(4).take_while(|byte| matches!(byte, b' ' | b'.' | b'-' | b'(' | b')' | b'/')).count();
            let between = &bytes[end..end + n_between];
            // Behind what is dialled first inside of a country, as in `030 / 901820`. Elsewhere it divides.
            let is_wide_slash = between == b" / " && number.n_groups == 1 && bytes[number.groups[0].0] == b'0';
            if n_between == 0 || n_between > 3 || !(is_between(between) || is_wide_slash) {
                break;
            }
            at = end + n_between;
        }
        (number.n_groups > 0).then_some(number)
    }

    pub(super) fn n_groups(&self) -> usize {
        self.n_groups
    }

    pub(super) fn group(&self, idx: usize) -> &'a [u8] {
        let (from, to) = self.groups[idx];
        &self.bytes[from..to]
    }

    pub(super) fn len(&self, idx: usize) -> usize {
        self.group(idx).len()
    }

    /// The end of this group.
    pub(super) fn end(&self, idx: usize) -> usize {
        self.groups[idx].1
    }

    /// What stands between a group and the next.
    pub(super) fn between(&self, idx: usize) -> &'a [u8] {
        &self.bytes[self.groups[idx].1..self.groups[idx + 1].0]
    }

    /// Whether the first groups are of these lengths.
    pub(super) fn has_lens(&self, lens: &[usize]) -> bool {
        self.n_groups >= lens.len() && lens.iter().enumerate().all(|(idx, len)| self.len(idx) == *len)
    }

    /// The digits of the first `n_groups` groups.
    pub(super) fn digits(&self, n_groups: usize) -> impl Iterator<Item = u8> + '_ {
        (0..n_groups).flat_map(|idx| self.group(idx).iter().copied())
    }

    pub(super) fn n_digits(&self, n_groups: usize) -> usize {
        (0..n_groups).map(|idx| self.len(idx)).sum()
    }

    /// Whether a date or a time stands here: `2026-03-14`, `14.03.2026`, `3/14/26`.
    pub(super) fn is_date(&self) -> bool {
        if self.n_groups < 3 || self.has_plus {
            return false;
        }
        let value = |idx: usize| self.group(idx).iter().fold(0u32, |sum, byte| sum.saturating_mul(10) + u32::from(byte - b'0'));
        let is_between = |idx: usize| matches!(self.between(idx), b"-" | b"." | b"/");
        let (day, month) = (|idx| (1..=31).contains(&value(idx)), |idx| (1..=12).contains(&value(idx)));
        let is_year = |idx: usize| self.len(idx) == 4 && (1000..=2999).contains(&value(idx));
        let is_short = |idx: usize| self.len(idx) <= 2;
        is_between(0)
            && is_between(1)
            && ((is_year(0) && is_short(1) && is_short(2) && month(1) && day(2))
                || (is_year(2) && is_short(0) && is_short(1) && (month(0) && day(1) || month(1) && day(0))))
    }
}

/// What may stand between two groups: one sign, or brackets with a blank or a dash beside them.
fn is_between(between: &[u8]) -> bool {
    match between {
        [_] => true,
        _ => {
            between.iter().any(|byte| matches!(byte, b'(' | b')'))
                && between.iter().filter(|byte| matches!(byte, b' ' | b'.' | b'-' | b'/')).count() <= 2
        }
    }
}
