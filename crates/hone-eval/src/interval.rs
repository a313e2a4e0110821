//! Intervals for what was measured on few samples.

/// The two-sided 95 % quantile of the standard normal.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Wilson's 95 % interval for a share of `n_yes` in `n`: it stays within 0 and 1 and is honest for few samples.
pub fn wilson(n_yes: usize, n: usize) -> (f64, f64) {
    wilson_of(if n == 0 { 0.0 } else { n_yes as f64 / n as f64 }, n)
}

/// The same for a mean of `n` independent values between 0 and 1, such as the shares of tasks that were each tried several times.
/// No such values spread more than those that are 0 or 1, so it is never too narrow for them.
pub fn wilson_of(share: f64, n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let n = n as f64;
    let scale = 1.0 + Z95 * Z95 / n;
    let centre = (share + Z95 * Z95 / (2.0 * n)) / scale;
    let half = Z95 / scale * (share * (1.0 - share) / n + Z95 * Z95 / (4.0 * n * n)).sqrt();
    // The ends are exact in theory, and must not be off by a rounding.
    let low = if share <= 0.0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if share >= 1.0 { 1.0 } else { (centre + half).min(1.0) };
    (low, high)
}

/// The mean and the half width of its 95 % interval, by the normal approximation. One value, and two that are alike, say nothing of how
/// sure it is: the width is infinite. More values that are all alike have no spread and a width of 0: of outcomes from 0 to 1,
/// [`wilson_of`] says what even they leave open.
pub fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (0.0, f64::INFINITY);
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() <= 2 && values.iter().all(|value| *value == values[0]) {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, Z95 * (variance / n).sqrt())
}

/// The value below which this share of the values lies; `None` of none. The lower one where two would do.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[((last as f64 * share).floor() as usize).min(last)])
}

/// The 95 % interval of the median, by the values themselves: whatever they are distributed like. `None` of none.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let (middle, half) = (sorted.len() as f64 / 2.0, Z95 * (sorted.len() as f64).sqrt() / 2.0);
    let (low, high) = ((middle - half).floor().max(0.0) as usize, (middle + half).ceil() as usize);
    Some((sorted[low], sorted[high.min(last)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(n_yes: usize, n: usize, low: f64, high: f64) {
        let (from, to) = wilson(n_yes, n);
        assert!((from - low).abs() < 5e-4 && (to - high).abs() < 5e-4, "{from} {to}");
    }

    #[test]
    fn wilson_agrees_with_published_values() {
        // Brown, Cai and DasGupta; also scipy's binomtest(...).proportion_ci(method="wilson").
        check(0, 10, 0.0, 0.2775);
        check(5, 10, 0.2366, 0.7634);
        check(10, 10, 0.7225, 1.0);
        check(81, 263, 0.2553, 0.3662);
        check(0, 0, 0.0, 1.0);
    }

    #[test]
    fn tasks_are_covered_in_95_of_100_samples_however_alike_their_repeats_are() {
        // A task is solved always, never, or in each of five repeats by chance: the truth is one half.
        for share_fixed in [1.0, 0.5, 0.0] {
            let mut draws = hone_trace::Draws::new(7, &["clusters"]);
            let task = |draws: &mut hone_trace::Draws| match draws.uniform() < share_fixed {
                true => f64::from(u8::from(draws.uniform() < 0.5)),
                false => (0..5).filter(|_| draws.uniform() < 0.5).count() as f64 / 5.0,
            };
            let n_covered = (0..2000)
                .filter(|_| {
                    let share = (0..30).map(|_| task(&mut draws)).sum::<f64>() / 30.0;
                    let (low, high) = wilson_of(share, 30);
                    low <= 0.5 && 0.5 <= high
                })
                .count();
            assert!(n_covered >= 1880, "{share_fixed}: {n_covered}");
        }
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn a_mean_of_equal_values_is_certain() {
        assert_eq!(mean(&[0.5; 8]), (0.5, 0.0));
    }

    #[test]
    fn a_mean_of_one_value_or_of_two_alike_claims_nothing() {
        assert_eq!(mean(&[0.5]), (0.5, f64::INFINITY));
        assert_eq!(mean(&[0.5, 0.5]), (0.5, f64::INFINITY));
        assert!(mean(&[0.4, 0.6]).1.is_finite());
    }

    #[test]
    fn the_median_lies_within_its_interval_in_95_of_100_samples() {
        let mut draws = hone_trace::Draws::new(7, &["median"]);
        let covers = |draws: &mut hone_trace::Draws| {
            let sample: Vec<f64> = (0..41).map(|_| draws.uniform().powi(3)).collect();
            let (low, high) = median_interval(&sample).unwrap();
            low <= 0.125 && 0.125 <= high
        };
        let n_covered = (0..4000).filter(|_| covers(&mut draws)).count();
        assert!((3740..3960).contains(&n_covered), "{n_covered}");
        assert_eq!((median_interval(&[]), median_interval(&[3.0])), (None, Some((3.0, 3.0))));
    }
}
