//! Seeded draws: a sequence of numbers that is fixed by a seed and the facts it is drawn for.
//!
//! Worlds, shuffles and simulations take their randomness from here, so that the same seed gives the same bytes on every
//! machine and in every version. The generator is splitmix64. Not for secrets.

/// A sequence of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// The draws of this seed for these facts, such as (`desk`, `train`, `17`). Other facts give unrelated draws.
    pub fn new(seed: u64, facts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        for fact in facts {
            hasher.update(&(fact.len() as u64).to_le_bytes());
            hasher.update(fact.as_bytes());
        }
        let mut state = [0; 8];
        state.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self { state: u64::from_le_bytes(state) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 to `n - 1`, all equally likely.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "there is no number below 0");
        // The high half of a product is uniform up to n / 2^64, which no use of ours can see.
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(usize::try_from(high - low + 1).expect("low is at most high")) as i64
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Puts these in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_repeat_and_depend_on_every_fact() {
        let first = |seed, facts: &[&str]| Draws::new(seed, facts).bits();
        assert_eq!(first(1, &["a", "b"]), first(1, &["a", "b"]));
        assert_ne!(first(1, &["a", "b"]), first(2, &["a", "b"]));
        assert_ne!(first(1, &["a", "b"]), first(1, &["ab", ""]));
        // Written down: a change of the generator would change every scenario ever generated.
        assert_eq!(first(1, &["a", "b"]), 3_133_035_599_595_573_435);
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut draws = Draws::new(7, &[]);
        let mut counts = [0; 6];
        (0..60_000).for_each(|_| counts[draws.below(6)] += 1);
        assert!(counts.iter().all(|&n| (9_600..10_400).contains(&n)), "{counts:?}");
        let normal: Vec<f64> = (0..50_000).map(|_| draws.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 50_000.0;
        let variance = normal.iter().map(|x| x * x).sum::<f64>() / 50_000.0;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        assert!((0..1000).all(|_| (-3..=4).contains(&draws.between(-3, 4))));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Draws::new(3, &["deck"]).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
