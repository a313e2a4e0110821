//! PPO's value loss: `max((v - R)², (clip(v, v_old ± clip) - R)²) / 2`, a mean over tokens. The clip keeps one batch from
//! throwing the estimate about.

/// A value loss and its gradient.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Valued {
    /// The value of the loss.
    pub value: f64,
    /// Per token, the gradient with respect to its estimate.
    pub grads: Vec<f64>,
    /// Tokens whose gradient was cut.
    pub n_clipped: usize,
}

/// The loss of estimates against returns. Without a clip it is half the mean squared error.
pub fn value(values: &[f64], old: &[f64], returns: &[f64], clip: Option<f64>) -> Valued {
    let share = 1.0 / values.len().max(1) as f64;
    let mut loss = Valued { grads: Vec::with_capacity(values.len()), ..Valued::default() };
    for ((&value, &old), &target) in values.iter().zip(old).zip(returns) {
        let held = clip.map_or(value, |clip| value.max(old - clip).min(old + clip));
        let (free, fixed) = ((value - target).powi(2), (held - target).powi(2));
        let is_clipped = fixed > free && held != value;
        loss.value += share * free.max(fixed) / 2.0;
        loss.grads.push(if is_clipped { 0.0 } else { share * (value - target) });
        loss.n_clipped += usize::from(is_clipped);
    }
    loss
}
