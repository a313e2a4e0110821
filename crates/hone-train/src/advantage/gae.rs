//! Generalised advantage estimation: `A_t = d_t + gamma · lambda · A_(t+1)` with `d_t = r_t + gamma · v_(t+1) - v_t`.
//!
//! For episodes without a group: the baseline is a learnt estimate of the value.

/// Advantages, and the returns that the value is to learn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gae {
    /// Per step.
    pub advantages: Vec<f64>,
    /// Per step: advantage plus value.
    pub returns: Vec<f64>,
}

/// The estimate for one episode. `last_value` is the value after its last step: 0 when it ended by itself.
pub fn gae(rewards: &[f64], values: &[f64], last_value: f64, gamma: f64, lambda: f64) -> Gae {
    let n = rewards.len().min(values.len());
    let mut advantages = vec![0.0; n];
    let (mut next_value, mut next_advantage) = (last_value, 0.0);
    for t in (0..n).rev() {
        let surprise = rewards[t] + gamma * next_value - values[t];
        next_advantage = surprise + gamma * lambda * next_advantage;
        advantages[t] = next_advantage;
        next_value = values[t];
    }
    let returns = advantages.iter().zip(values).map(|(advantage, value)| advantage + value).collect();
    Gae { advantages, returns }
}

/// Advantages of a whole batch with mean 0 and deviation 1, as PPO wants them.
pub fn whitened(advantages: &[f64]) -> Vec<f64> {
    let n = advantages.len().max(1) as f64;
    let mean = advantages.iter().sum::<f64>() / n;
    let variance = advantages.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / (variance + 1e-8).sqrt();
    advantages.iter().map(|x| (x - mean) * scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lambda: f64, expected: [f64; 3]) {
        let Gae { advantages, returns } = gae(&[0.0, 0.0, 1.0], &[0.5, 0.2, 0.6], 0.0, 1.0, lambda);
        for (t, expected) in expected.into_iter().enumerate() {
            assert!((advantages[t] - expected).abs() < 1e-12, "{advantages:?}");
            assert!((returns[t] - expected - [0.5, 0.2, 0.6][t]).abs() < 1e-12);
        }
    }

    #[test]
    fn lambda_goes_from_one_step_to_the_whole_return() {
        check(0.0, [-0.3, 0.4, 0.4]);
        check(1.0, [0.5, 0.8, 0.4]);
        check(0.5, [0.0, 0.6, 0.4]);
    }

    #[test]
    fn an_episode_that_was_cut_counts_the_value_of_its_end() {
        assert_eq!(gae(&[0.0], &[0.0], 2.0, 0.5, 1.0).advantages, [1.0]);
    }

    #[test]
    fn whitening_gives_mean_zero_and_deviation_one() {
        let white = whitened(&[1.0, 2.0, 3.0, 6.0]);
        assert!(white.iter().sum::<f64>().abs() < 1e-9);
        assert!((white.iter().map(|x| x * x).sum::<f64>() / 4.0 - 1.0).abs() < 1e-6);
        assert_eq!(whitened(&[3.0, 3.0]), [0.0, 0.0]);
    }
}
