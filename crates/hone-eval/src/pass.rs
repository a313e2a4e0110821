//! pass@k: how likely at least one of k samples solves a task.

/// The chance that `k` samples drawn from `n`, of which `n_solved` solve the task, hold one that does:
/// 1 - C(n - n_solved, k) / C(n, k). `None` where there are fewer samples than are drawn.
pub fn pass_at(k: usize, n: usize, n_solved: usize) -> Option<f64> {
    if k == 0 || k > n || n_solved > n {
        return None;
    }
    let n_wrong = n - n_solved;
    if k > n_wrong {
        return Some(1.0);
    }
    let all_wrong: f64 = (0..k).map(|drawn| (n_wrong - drawn) as f64 / (n - drawn) as f64).product();
    Some(1.0 - all_wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_follows_from_counting() {
        let check = |k, n, n_solved, expected: Option<f64>| {
            let found = pass_at(k, n, n_solved);
            let is_close = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(is_close, "{k} {n} {n_solved}: {found:?}");
        };
        check(1, 4, 1, Some(0.25));
        check(2, 4, 1, Some(0.5));
        check(2, 4, 2, Some(5.0 / 6.0));
        check(4, 4, 1, Some(1.0));
        check(3, 8, 0, Some(0.0));
        check(5, 4, 1, None);
    }
}
