//! Countdown: reach a target with some numbers, each used at most once.
//!
//! A question is made from its solution: two of the numbers are joined by an operation until one is left, and that is the
//! target. Every step of the solution is a positive whole number. How many numbers there are is the level.

use super::{Draft, Number};
use hone_trace::env::EnvError;
use hone_trace::{Draws, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Which games.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CountdownOptions {
    /// The fewest numbers given, 2 at least. Default 3.
    pub n_numbers_min: usize,
    /// The most numbers given, 6 at most. Default 5.
    pub n_numbers_max: usize,
    /// The largest number given, from 10 to 1000. Default 25.
    pub number_max: i64,
    /// The largest target, from 20 to 100000. Default 200.
    pub target_max: i64,
}

impl Default for CountdownOptions {
    fn default() -> Self {
        Self { n_numbers_min: 3, n_numbers_max: 5, number_max: 25, target_max: 200 }
    }
}

impl CountdownOptions {
    pub(super) fn checked(self) -> Result<Self, EnvError> {
        let wrong = |reason: String| Err(EnvError::Data { place: "math: countdown".into(), reason });
        if !(2..=self.n_numbers_max).contains(&self.n_numbers_min) || self.n_numbers_max > 6 {
            let (min, max) = (self.n_numbers_min, self.n_numbers_max);
            return wrong(format!("n_numbers_min {min} to n_numbers_max {max} is not a range within 2 to 6"));
        }
        if !(10..=1000).contains(&self.number_max) {
            return wrong(format!("number_max {} is not from 10 to 1000", self.number_max));
        }
        if !(20..=100_000).contains(&self.target_max) {
            return wrong(format!("target_max {} is not from 20 to 100000", self.target_max));
        }
        Ok(self)
    }

    pub(super) fn level(self, draws: &mut Draws) -> usize {
        self.n_numbers_min + draws.below(self.n_numbers_max - self.n_numbers_min + 1)
    }
}

/// A game with so many numbers.
pub(super) fn draw(draws: &mut Draws, options: &CountdownOptions, n_numbers: usize) -> Scenario {
    let n_numbers = n_numbers.clamp(2, 6);
    loop {
        let numbers: Vec<i64> = (0..n_numbers).map(|_| draws.between(1, options.number_max)).collect();
        let (target, expression) = solution(draws, &numbers);
        // A target that is given needs no arithmetic, and small ones are found by chance.
        if !(10..=options.target_max).contains(&target) || numbers.contains(&target) {
            continue;
        }
        let list = |numbers: &[i64], mark: &str| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(mark);
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        return Draft {
            id: format!("math/countdown/{}/{target}", list(&numbers, ",")),
            category: "countdown",
            input: json!({
                "question": format!("Numbers: {}. Target: {target}.", list(&numbers, ", ")),
                "numbers": numbers, "target": target, "level": n_numbers,
            }),
            truth: json!({"expression": expression}),
            difficulty: Some((n_numbers - 2) as f64 / 4.0),
            family: format!("countdown/{}", list(&sorted, ",")),
        }
        .scenario();
    }
}

/// Joins numbers at random until one is left: its value, and how it came about.
fn solution(draws: &mut Draws, numbers: &[i64]) -> (i64, String) {
    let mut parts: Vec<(i64, String)> = numbers.iter().map(|number| (*number, number.to_string())).collect();
    while parts.len() > 1 {
        let mut take = || parts.swap_remove(draws.below(parts.len()));
        let (mut a, mut b) = (take(), take());
        if a.0 < b.0 {
            std::mem::swap(&mut a, &mut b);
        }
        let mut signs = vec!['+', '*'];
        signs.extend((a.0 > b.0).then_some('-'));
        signs.extend((a.0 % b.0 == 0).then_some('/'));
        let sign = *draws.pick(&signs);
        let value = match sign {
            '+' => a.0 + b.0,
            '-' => a.0 - b.0,
            // Six numbers of at most 1000 stay below 10^18.
            '*' => a.0 * b.0,
            _ => a.0 / b.0,
        };
        let text = format!("{} {sign} {}", a.1, b.1);
        parts.push((value, if parts.is_empty() { text } else { format!("({text})") }));
    }
    parts.pop().unwrap_or_default()
}

/// An expression of these numbers that comes to anything.
pub(super) fn guess(draws: &mut Draws, numbers: &[i64]) -> String {
    let mut numbers = numbers.to_vec();
    draws.shuffle(&mut numbers);
    let mut text = String::new();
    for number in numbers {
        if !text.is_empty() {
            text.extend([' ', *draws.pick(&['+', '-', '*']), ' ']);
        }
        text.push_str(&number.to_string());
    }
    text
}

/// Whether every number used is given, as often as it is used.
pub(super) fn is_within(used: &[i64], given: &[i64]) -> bool {
    let mut left = given.to_vec();
    used.iter().all(|number| left.iter().position(|one| one == number).map(|at| left.swap_remove(at)).is_some())
}

/// 1 at the target, falling evenly to 0 at a distance of the target's own size.
pub(super) fn closeness(value: Number, target: i64) -> f64 {
    let target = target as f64;
    (1.0 - (value.to_f64() - target).abs() / target).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::expression::evaluate;
    use super::*;

    #[test]
    fn a_solution_reaches_its_target_with_the_given_numbers() {
        let mut draws = Draws::new(11, &["countdown"]);
        for n_numbers in 2..=6 {
            for _ in 0..200 {
                let scenario = draw(&mut draws, &CountdownOptions::default(), n_numbers);
                let numbers: Vec<i64> = serde_json::from_value(scenario.input["numbers"].clone()).unwrap();
                let done = evaluate(scenario.truth.as_ref().unwrap()["expression"].as_str().unwrap()).unwrap();
                assert_eq!(done.value, Number::whole(scenario.input["target"].as_i64().unwrap()));
                assert!(is_within(&done.used, &numbers) && numbers.len() == n_numbers);
            }
        }
    }

    #[test]
    fn a_number_is_used_as_often_as_it_is_given() {
        assert!(is_within(&[3, 3], &[3, 5, 3]));
        assert!(!is_within(&[3, 3], &[3, 5]));
        assert!(!is_within(&[4], &[3, 5]));
    }

    #[test]
    fn closeness_falls_evenly() {
        let check = |value: i64, expected: f64| assert_eq!(closeness(Number::whole(value), 100), expected);
        check(100, 1.0);
        check(75, 0.75);
        check(125, 0.75);
        check(0, 0.0);
        check(-900, 0.0);
    }
}
