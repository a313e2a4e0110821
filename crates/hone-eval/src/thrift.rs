//! What cost and time are worth against success, wherever one of several is chosen.

/// What the dearest of several loses against one that costs nothing, and the slowest against one that takes no time: shares of success.
/// What lies between loses in proportion. However dear and slow all of them are, nobody loses more than both together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thrift {
    /// What the dearest loses.
    pub cost: f64,
    /// What the slowest loses.
    pub time: f64,
}

impl Default for Thrift {
    fn default() -> Self {
        Self { cost: 0.1, time: 0.05 }
    }
}

/// What an episode of one of them takes on average, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Milliseconds.
    pub latency_ms: Option<f64>,
}

/// Where none costs as much, costs are measured against this: what is nothing to anybody decides nothing.
const COST_USD: f64 = 0.01;
/// The same for time.
const LATENCY_MS: f64 = 1_000.0;

impl Thrift {
    /// What each of these loses. One of which nothing is known counts as the others do on average.
    pub fn prices(&self, spent: &[Spent]) -> Vec<f64> {
        let costs = shares(spent.iter().map(|one| one.cost_usd), COST_USD);
        let times = shares(spent.iter().map(|one| one.latency_ms), LATENCY_MS);
        costs.zip(times).map(|(cost, time)| self.cost * cost + self.time * time).collect()
    }
}

/// Each of these as a share of the largest, or of this, if none is as large.
fn shares(values: impl Iterator<Item = Option<f64>> + Clone, least: f64) -> impl Iterator<Item = f64> {
    let known = values.clone().flatten();
    let (n, sum, largest) =
        known.fold((0.0, 0.0, least), |(n, sum, largest), value| (n + 1.0, sum + value, f64::max(largest, value)));
    let mean = if n > 0.0 { sum / n } else { 0.0 };
    values.map(move |value| value.unwrap_or(mean) / largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spent: &[(Option<f64>, Option<f64>)], expected: &[f64]) {
        let spent: Vec<Spent> = spent.iter().map(|&(cost_usd, latency_ms)| Spent { cost_usd, latency_ms }).collect();
        let found = Thrift::default().prices(&spent);
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{found:?} {expected:?}");
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn the_dearest_and_the_slowest_lose_all_of_the_weight() {
        check(&[(Some(2.0), Some(40_000.0)), (Some(0.5), Some(10_000.0)), (Some(0.0), Some(0.0))], &[0.15, 0.0375, 0.0]);
        // Fractions of a cent and of a second lose fractions.
        check(&[(Some(0.002), Some(100.0)), (Some(0.001), Some(200.0))], &[0.025, 0.02]);
        // Who is not known is neither shunned nor preferred.
        check(&[(Some(0.3), None), (Some(0.1), None), (None, None)], &[0.1, 0.1 / 3.0, 0.2 / 3.0]);
        check(&[(None, None), (None, None)], &[0.0, 0.0]);
        check(&[], &[]);
    }
}
