//! Who plays: a policy, or one of the three scripts that every world is measured by.

use hone_trace::env::{Env, EnvError};
use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, Policy, PolicyError};
use hone_trace::{Config, Message, Scenario};
use std::borrow::Cow;

/// Who plays.
#[derive(Clone, Copy)]
pub enum Player<'a> {
    /// A policy.
    Policy(&'a dyn Policy),
    /// The world's own best play.
    Gold,
    /// The world's own random play.
    Random,
    /// Nobody: every answer is empty.
    Empty,
    /// A script that knows the scenario and is given a seed, under a name of its own.
    Script(&'a str, &'a Script<'a>),
}

/// What opens a conversation of a script.
pub type Script<'a> = dyn Fn(&Scenario, u64) -> Result<Box<dyn Conversation>, EnvError> + Sync + 'a;

impl Player<'_> {
    /// What shapes it.
    pub fn config(&self) -> Cow<'_, Config> {
        let script = |name: &str| Cow::Owned(Config { model: Some(format!("script:{name}")), ..Config::default() });
        match self {
            Self::Policy(policy) => Cow::Borrowed(policy.config()),
            Self::Gold => script("gold"),
            Self::Random => script("random"),
            Self::Empty => script("empty"),
            Self::Script(name, _) => script(name),
        }
    }

    pub(crate) fn open(
        &self,
        env: &dyn Env,
        scenario: &Scenario,
        env_seed: u64,
        opening: &Opening,
    ) -> Result<Box<dyn Conversation>, OpenError> {
        match self {
            Self::Policy(policy) => policy.open(opening).map_err(OpenError::Policy),
            Self::Gold => env.gold(scenario, env_seed).map_err(OpenError::Env),
            Self::Random => env.random(scenario, opening.seed).map_err(OpenError::Env),
            Self::Script(_, open) => open(scenario, opening.seed).map_err(OpenError::Env),
            Self::Empty => Ok(Box::new(Scripted(|_: &[Message]| crate::said("")))),
        }
    }
}

pub(crate) enum OpenError {
    Env(EnvError),
    Policy(PolicyError),
}

/// A conversation whose answers are made by a function of what was said since the answer before.
pub struct Scripted<F>(pub F);

impl<F: FnMut(&[Message]) -> Message + Send> Conversation for Scripted<F> {
    fn answer(&mut self, input: &[Message], _limits: AnswerLimits) -> Result<Answered, PolicyError> {
        Ok(Answered::of(self.0(input)))
    }
}
