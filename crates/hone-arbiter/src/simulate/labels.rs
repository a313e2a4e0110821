//! Classification as a bandit: each class is an arm, and only whether the chosen one was right becomes known.

use crate::{Linear, LinearError, LinearSettings};
use hone_trace::Draws;

/// An example with its class.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Its features.
    pub x: Vec<f64>,
    /// The arm that earns 1; all others earn 0.
    pub label: usize,
}

/// The mean reward of a linear model over so many rounds of these examples, shuffled anew each time they have all been seen.
pub fn mean_reward(examples: &[Labelled], settings: LinearSettings, n_rounds: usize, seed: u64) -> Result<f64, LinearError> {
    let n_classes = examples.iter().map(|example| example.label + 1).max().unwrap_or(0);
    let names: Vec<String> = (0..n_classes).map(|class| class.to_string()).collect();
    let arms: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut linear = Linear::new(settings, examples.first().map_or(0, |example| example.x.len()))?;
    let mut draws = Draws::new(seed, &["labels"]);
    let mut order: Vec<&Labelled> = examples.iter().collect();
    let mut n_right = 0;
    for round in 0..n_rounds {
        if round % order.len() == 0 {
            draws.shuffle(&mut order);
        }
        let Labelled { x, label } = order[round % order.len()];
        let beliefs = linear.beliefs(&arms, x)?;
        let Some(chosen) = linear.choose(&beliefs, &mut draws) else { break };
        n_right += usize::from(chosen == *label);
        linear.add(arms[chosen], x, f64::from(u8::from(chosen == *label)))?;
    }
    Ok(f64::from(u32::try_from(n_right).unwrap_or(u32::MAX)) / n_rounds.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_learned_is_learned() {
        let example = |label: usize| Labelled { x: (0..4).map(|idx| f64::from(u8::from(idx == label))).collect(), label };
        let examples: Vec<Labelled> = (0..4).map(example).collect();
        let reward = mean_reward(&examples, LinearSettings { floor: 0.0, ..LinearSettings::default() }, 1_000, 1);
        assert!(reward.as_ref().is_ok_and(|&reward| reward > 0.9), "{reward:?}");
        assert!(mean_reward(&[], LinearSettings::default(), 10, 1).is_err());
    }
}
