//! From a scenario's id to the scenario: `desk/train/1/17` is the split, the seed and the place in the list, and a fifth part
//! is the number of a variation.
//!
//! Every family has one home among the splits, chosen by a hash of what is asked. A scenario is drawn again until its family
//! is at home in its split, so no family is ever in two, whatever the seeds.

use super::template::Template;
use super::ticket::Ticket;
use super::vocabulary::{Kind, Level, Word};
use hone_trace::env::{EnvError, Split};
use hone_trace::{Category, Draws, Family, Scenario, ScenarioId, V1};
use serde::Deserialize;
use std::fmt;

/// One in ten families is for validation, one for the test.
const N_HOMES: usize = 10;
/// A tenth of all families makes a failure of this many tries in a row practically impossible.
const N_TRIES_MAX: usize = 10_000;

/// What fixes a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) split: Split,
    pub(crate) seed: u64,
    pub(crate) index: usize,
    pub(crate) variation: Option<u64>,
}

impl Place {
    pub(crate) fn read(id: &str) -> Option<Self> {
        let mut parts = id.split('/');
        let (name, split) = (parts.next()?, parts.next()?);
        let split = Split::ALL.into_iter().find(|known| known.as_str() == split)?;
        let (seed, index) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let variation = parts.next().map(str::parse).transpose().ok()?;
        (name == "desk" && parts.next().is_none()).then_some(Self { split, seed, index, variation })
    }

    /// Another scenario of the same template.
    pub(crate) fn variation(self, number: u64) -> Self {
        Self { variation: Some(number), ..self }
    }

    pub(crate) fn scenario(self) -> Result<Scenario, EnvError> {
        let id = self.to_string();
        let broken = |reason: String| EnvError::Scenario { scenario: id.clone(), reason };
        let base = Self { variation: None, ..self }.to_string();
        // Categories alternate, and in each of them easy and hard.
        let kind = Kind::ALL[self.index % Kind::ALL.len()];
        let level = Level::ALL[self.index / Kind::ALL.len() % Level::ALL.len()];
        let mut draws = Draws::new(self.seed, &[&base]);
        let template = Template::draw(kind, level, &mut draws);
        if self.variation.is_some() {
            draws = Draws::new(self.seed, &[&id]);
        }
        let (key, ticket) = (0..N_TRIES_MAX)
            .map(|_| template.fill(&mut draws))
            .map(|ticket| (ticket.key(), ticket))
            .find(|(key, _)| home(key) == self.split)
            .ok_or_else(|| broken("no ticket of its template is at home in its split".into()))?;
        let truth = ticket.truth().map_err(|wrong| broken(wrong.to_string()))?;
        let named = |error: hone_trace::NameError| broken(error.to_string());
        Ok(Scenario {
            v: V1,
            id: ScenarioId::new(&*id).map_err(named)?,
            category: Category::new(kind.word()).map_err(named)?,
            input: serde_json::to_value(&ticket).map_err(|error| broken(error.to_string()))?,
            truth: Some(truth.into()),
            difficulty: Some(template.difficulty()),
            family: Family::new(format!("desk/{key}")).map_err(named)?,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "desk/{}/{}/{}", self.split.as_str(), self.seed, self.index)?;
        self.variation.map_or(Ok(()), |variation| write!(f, "/{variation}"))
    }
}

/// Where a family belongs.
fn home(key: &str) -> Split {
    match Draws::new(0, &["desk", "home", key]).below(N_HOMES) {
        0 => Split::Validation,
        1 => Split::Test,
        _ => Split::Train,
    }
}

/// The ticket of a scenario.
pub(crate) fn ticket(scenario: &Scenario) -> Result<(Ticket, String), EnvError> {
    let damaged = |reason: String| EnvError::Scenario { scenario: scenario.id.to_string(), reason };
    let ticket = Ticket::deserialize(&scenario.input).map_err(|error| damaged(format!("its input is no ticket: {error}")))?;
    match scenario.truth.as_ref().and_then(serde_json::Value::as_str) {
        Some(truth) => Ok((ticket, truth.to_owned())),
        None => Err(damaged("it has no truth in words".into())),
    }
}
