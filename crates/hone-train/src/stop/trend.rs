//! The few statistics that stopping needs.

/// How the mean of a window compares with the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rise {
    pub(super) mean: f64,
    pub(super) by: f64,
    /// Standard error of `by`.
    pub(super) error: f64,
}

/// The last `window` rewards against as many before; `None` when there are fewer.
pub(super) fn rise(rewards: impl DoubleEndedIterator<Item = (u64, f64)>, window: usize) -> Option<Rise> {
    let mut values: Vec<f64> = rewards.rev().take(2 * window).map(|(_, reward)| reward).collect();
    values.reverse();
    if window == 0 || values.len() < 2 * window {
        return None;
    }
    let mean = |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64;
    let (before, last) = values.split_at(window);
    let error = (noise_variance(&values) * 2.0 / window as f64).sqrt();
    Some(Rise { mean: mean(last), by: mean(last) - mean(before), error })
}

/// The variance of single values around a trend, from the differences between neighbours, which a slow trend hardly touches.
pub(super) fn noise_variance(values: &[f64]) -> f64 {
    let squares = values.windows(2).fold(0.0, |sum, pair| sum + (pair[1] - pair[0]).powi(2));
    squares / (2.0 * values.len().saturating_sub(1).max(1) as f64)
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    /// How far the line rises from the first point to the last.
    pub(super) by: f64,
    /// That in standard errors.
    pub(super) z: f64,
}

impl Slope {
    /// A rise with its standard error. What is without any error is certain.
    pub(super) fn new(by: f64, error: f64) -> Self {
        let z = if by == 0.0 { 0.0 } else { by / error };
        Self { by, z }
    }
}

/// The least-squares line through values at steps, each with this variance around it; `None` below two steps.
pub(super) fn slope(points: &[(u64, f64)], variance: f64) -> Option<Slope> {
    let (&(first, _), &(last, _)) = (points.first()?, points.last()?);
    let centre = points.iter().fold(0.0, |sum, &(step, _)| sum + step as f64) / points.len() as f64;
    let (mut squares, mut product) = (0.0, 0.0);
    for &(step, value) in points {
        let x = step as f64 - centre;
        squares += x * x;
        product += x * value;
    }
    let length = (last > first).then(|| (last - first) as f64)?;
    Some(Slope::new(length * product / squares, length * (variance / squares).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-4, "{found} instead of {expected}");
    }

    #[test]
    fn a_line_is_found_with_its_error() {
        let line: Vec<(u64, f64)> = (0..5).map(|step| (10 + 2 * step, 1.0 + 0.25 * step as f64)).collect();
        let found = slope(&line, 0.04).expect("five steps");
        near(found.by, 1.0);
        // By hand: the squares of -4 -2 0 2 4 are 40, so the error over a length of 8 is 8 * 0.2 / 40^0.5.
        near(found.z, 1.0 / (8.0 * 0.2 / 40f64.sqrt()));
        assert_eq!(slope(&line[..1], 0.04), None);
        assert_eq!(slope(&[], 0.04), None);
        assert_eq!(slope(&[(1, 0.5), (2, 0.5)], 0.0), Some(Slope { by: 0.0, z: 0.0 }));
    }

    #[test]
    fn windows_are_compared_by_the_noise_between_neighbours() {
        let points = |values: &[f64]| (0..).zip(values.iter().copied()).collect::<Vec<(u64, f64)>>();
        let found = rise(points(&[9.0, 1.0, 3.0, 3.0, 5.0]).into_iter(), 2).expect("enough");
        assert_eq!((found.mean, found.by), (4.0, 2.0));
        // Neighbours differ by 2, 0 and 2: a variance of 8 / 6.
        near(found.error, (8f64 / 6.0).sqrt());
        assert_eq!(rise(points(&[1.0, 2.0, 3.0]).into_iter(), 2), None);
    }
}
