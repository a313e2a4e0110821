//! What was found, in words: the same on a terminal and on a page.

use crate::compare::{Compared, Difference, Equal, N_TASKS_MIN, Unlike};
use crate::recommend::{Candidate, Verdict};
use crate::row::Row;
use hone_eval::interval::wilson_of;
use hone_trace::{Config, ConfigHash, RecommendationKind};

/// Characters of an id or hash that are shown.
const SHORT: usize = 8;

/// The beginning of an id or hash.
pub fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    // What is not certain is not shown as if it were.
    let most = if share < 1.0 { 99.9 } else { 100.0 };
    // A sum of nothing is a nought below nought.
    format!("{:.1} %", (100.0 * share).min(most) + 0.0)
}

/// What is proposed by a proposal of this kind.
pub fn aim(kind: RecommendationKind) -> &'static str {
    match kind {
        RecommendationKind::Cheapest => "cheaper, and not worse",
        RecommendationKind::HighestPerf => "better",
        RecommendationKind::Balanced => "better for what it costs",
        RecommendationKind::ModelSwitch => "another model",
    }
}

/// A config by its hash and what is best known of it.
pub fn described(hash: &ConfigHash, config: Option<&Config>) -> String {
    let mut told = vec![short(&hash.to_string()).to_owned()];
    if let Some(config) = config {
        told.extend(config.model.clone());
        told.extend(config.adapter.map(|adapter| format!("adapter {}", short(&adapter.to_string()))));
        told.extend(config.temperature.map(|temperature| format!("temperature {temperature}")));
    }
    told.join(" ")
}

/// Episodes in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts {
    /// Those that somebody said of how they went.
    pub n_told: usize,
    /// Those that broke.
    pub n_broken: usize,
    /// All others.
    pub n_silent: usize,
    quality: f64,
}

impl Counts {
    /// Counts these.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut counts = Self::default();
        for row in rows {
            match row.quality {
                _ if row.episode.is_broken => counts.n_broken += 1,
                Some(quality) => {
                    counts.n_told += 1;
                    counts.quality += quality;
                }
                None => counts.n_silent += 1,
            }
        }
        counts
    }

    /// The share that was solved, of those that somebody said it of.
    pub fn solved(&self) -> Option<f64> {
        (self.n_told > 0).then(|| self.quality / self.n_told as f64)
    }
}

/// What a config reached by these episodes of it.
pub fn reached(rows: &[&Row]) -> String {
    let counts = Counts::of(rows.iter().copied());
    let Some(solved) = counts.solved() else { return "nobody said how its episodes went".to_owned() };
    let (low, high) = wilson_of(solved, counts.n_told);
    let costs: Option<Vec<f64>> = rows.iter().map(|row| row.episode.cost_usd).collect();
    let cost = costs.filter(|costs| costs.iter().any(|cost| *cost > 0.0));
    let cost =
        cost.map(|costs| format!(", ${:.5} an episode", costs.iter().sum::<f64>() / costs.len() as f64)).unwrap_or_default();
    let episodes = if counts.n_told == 1 { "episode" } else { "episodes" };
    format!("{} ({} to {}) over {} {episodes}{cost}", percent(solved), percent(low), percent(high), counts.n_told)
}

impl Candidate {
    /// What the evidence says of it.
    pub fn judged(&self) -> String {
        match (&self.compared, self.verdict) {
            (Err(Unlike::TooFew { n_from, n_to }), _) => {
                format!("too few tasks: {n_to} beside {n_from}, and both need {N_TASKS_MIN}")
            }
            (Err(Unlike::OtherTasks { coverage }), _) => format!("had other tasks: {} of them the same", percent(*coverage)),
            (_, Verdict::Better) => "better".to_owned(),
            (_, Verdict::Cheaper) => "not worse, and cheaper".to_owned(),
            (_, Verdict::Worse) => "worse".to_owned(),
            (_, Verdict::Open | Verdict::Unlike) => "not sure".to_owned(),
        }
    }
}

impl Compared {
    /// The evidence in a sentence.
    pub fn because(&self) -> String {
        let (n, on) = match self.on {
            Equal::Tasks => (self.n_from, "tasks that both had"),
            Equal::Types => (self.n_from + self.n_to, "tasks of the same types"),
        };
        let quality = &self.quality;
        let cost = self.priced().map(|cost| format!("; ${:.5} → ${:.5} an episode", cost.from, cost.to)).unwrap_or_default();
        let time = self.latency_ms.map(|time| format!("; {:.0} → {:.0} ms", time.from, time.to)).unwrap_or_default();
        let (from, to, points) = (percent(quality.from), percent(quality.to), quality.points());
        format!("{from} → {to} on {n} {on}, {points} points{cost}{time}")
    }

    /// What both cost, where anything of it costs something.
    pub fn priced(&self) -> Option<Difference> {
        self.cost_usd.filter(|cost| cost.from > 0.0 || cost.to > 0.0)
    }
}

impl Difference {
    /// A difference of shares in points, with its interval.
    pub fn points(&self) -> String {
        let [gain, low, high] = [self.to - self.from, self.low, self.high].map(|it| 100.0 * it);
        format!("{gain:+.1} ({low:+.1} to {high:+.1})")
    }

    /// A difference in US dollars, with its interval.
    pub fn dollars(&self) -> String {
        format!("{:+.5} ({:+.5} to {:+.5})", self.to - self.from, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_certain_is_not_shown_as_if_it_were() {
        for (share, expected) in [(0.0, "0.0 %"), (-0.0, "0.0 %"), (0.1234, "12.3 %"), (0.999_99, "99.9 %"), (1.0, "100.0 %")] {
            assert_eq!(percent(share), expected);
        }
    }

    #[test]
    fn a_config_is_told_by_what_is_known_of_it() {
        let config = Config { model: Some("small".into()), temperature: Some(0.5), ..Config::default() };
        let hash = config.hash();
        let beginning = short(&hash.to_string()).to_owned();
        assert_eq!(beginning.len(), SHORT);
        assert_eq!(described(&hash, Some(&config)), format!("{beginning} small temperature 0.5"));
        assert_eq!(described(&hash, None), beginning);
    }
}
