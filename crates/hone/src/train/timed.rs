//! How long episodes take, each by itself, however many are played at once.
//!
//! The traces of a run tell no real times, so that the same weights write the same bytes. So the conversations are timed, from
//! their opening to their end; what the world does between two answers is part of that.

use hone_trace::Config;
use hone_trace::Message;
use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, Policy, PolicyError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A policy whose conversations are timed.
pub(super) struct Timed<'p> {
    policy: &'p dyn Policy,
    sum: Arc<Mutex<Sum>>,
}

/// Conversations that have ended.
#[derive(Default)]
struct Sum {
    n: u32,
    time: Duration,
}

impl<'p> Timed<'p> {
    pub(super) fn new(policy: &'p dyn Policy) -> Self {
        Self { policy, sum: Arc::default() }
    }

    /// What a conversation took in the mean, in milliseconds; nothing where there was none.
    pub(super) fn mean_ms(&self) -> Option<f64> {
        let sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        (sum.n > 0).then(|| 1e3 * sum.time.as_secs_f64() / f64::from(sum.n))
    }
}

impl Policy for Timed<'_> {
    fn config(&self) -> &Config {
        self.policy.config()
    }

    fn keeps_to_schemas(&self) -> bool {
        self.policy.keeps_to_schemas()
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        let start = Instant::now();
        let conversation = self.policy.open(opening)?;
        Ok(Box::new(Talk { conversation, start, sum: Arc::clone(&self.sum) }))
    }
}

/// A conversation under way.
struct Talk {
    conversation: Box<dyn Conversation>,
    start: Instant,
    sum: Arc<Mutex<Sum>>,
}

impl Conversation for Talk {
    fn answer(&mut self, input: &[Message], limits: AnswerLimits) -> Result<Answered, PolicyError> {
        self.conversation.answer(input, limits)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.n += 1;
        sum.time += self.start.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Mute(Config);

    impl Policy for Mute {
        fn config(&self) -> &Config {
            &self.0
        }

        fn open(&self, _: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
            Ok(Box::new(Silent))
        }
    }

    struct Silent;

    impl Conversation for Silent {
        fn answer(&mut self, _: &[Message], _: AnswerLimits) -> Result<Answered, PolicyError> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn episodes_that_run_at_once_take_their_own_time_each() {
        let policy = Mute(Config::default());
        let timed = Timed::new(&policy);
        assert_eq!(timed.mean_ms(), None);
        let talks: Vec<_> = (0..100).map(|_| timed.open(&Opening::default()).unwrap()).collect();
        std::thread::sleep(Duration::from_millis(30));
        drop(talks);
        assert!(timed.mean_ms().unwrap() >= 30.0, "{:?}", timed.mean_ms());
    }
}
