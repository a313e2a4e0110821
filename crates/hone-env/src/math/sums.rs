//! Additions and subtractions of whole numbers, the digits of the larger one being the level.

use super::Draft;
use hone_trace::env::EnvError;
use hone_trace::{Draws, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Which sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SumsOptions {
    /// The fewest digits of the larger number. Default 1.
    pub digits_min: usize,
    /// The most digits of the larger number, 9 at most. Default 3.
    pub digits_max: usize,
}

impl Default for SumsOptions {
    fn default() -> Self {
        Self { digits_min: 1, digits_max: 3 }
    }
}

impl SumsOptions {
    pub(super) fn checked(self) -> Result<Self, EnvError> {
        if (1..=self.digits_max).contains(&self.digits_min) && self.digits_max <= 9 {
            return Ok(self);
        }
        let reason = format!("digits_min {} to digits_max {} is not a range within 1 to 9", self.digits_min, self.digits_max);
        Err(EnvError::Data { place: "math: sums".into(), reason })
    }

    pub(super) fn level(self, draws: &mut Draws) -> usize {
        self.digits_min + draws.below(self.digits_max - self.digits_min + 1)
    }
}

/// A sum whose larger number has so many digits. A difference is never negative.
pub(super) fn draw(draws: &mut Draws, digits: usize) -> Scenario {
    let digits = digits.clamp(1, 9);
    let least = if digits == 1 { 0 } else { 10i64.pow(digits as u32 - 1) };
    let large = draws.between(least, 10i64.pow(digits as u32) - 1);
    let small = draws.between(0, large);
    let (sum, answer, family) = if draws.chance(0.5) {
        let (first, second) = if draws.chance(0.5) { (large, small) } else { (small, large) };
        (format!("{first} + {second}"), large + small, format!("sums/{large}+{small}"))
    } else {
        (format!("{large} - {small}"), large - small, format!("sums/{large}-{small}"))
    };
    Draft {
        id: format!("math/sums/{}", sum.replace(' ', "")),
        category: "sums",
        input: json!({"question": format!("{sum} = ?"), "level": digits}),
        truth: json!({"answer": answer.to_string()}),
        difficulty: Some((digits - 1) as f64 / 8.0),
        family,
    }
    .scenario()
}
