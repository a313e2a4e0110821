//! The name that was probably meant: the nearest by edit distance.

/// The nearest of the known names, unless even that one is nothing like it.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No name is longer than this; whoever writes a longer one did not mistype ours.
    let n_chars = name.chars().take(65).count();
    if n_chars > 64 {
        return None;
    }
    let by_distance = known.into_iter().map(|other| (distance(name, other), other));
    let (distance, other) = by_distance.min_by_key(|&(distance, _)| distance)?;
    (distance <= n_chars.max(other.chars().count()) / 2).then_some(other)
}

/// How many characters must be put in, left out, changed or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = vec![0; other.len() + 1];
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i; other.len() + 1];
        for j in 1..=other.len() {
            let changed = above[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            row[j] = changed.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_named() {
        for (name, expected) in [
            ("foldr", Some("folder")),
            ("fodler", Some("folder")),
            ("tenants", Some("tenant")),
            ("database-url", Some("database_url")),
            ("q", None),
            ("entirely_different", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, ["folder", "tenant", "database_url"]), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), ["folder"]), None);
    }
}
