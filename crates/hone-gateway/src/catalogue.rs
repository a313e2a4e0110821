//! Who answers under which name, and in what order they are asked.
//!
//! A name has one or more upstreams: providers, or models of this process. They take turns; one that has failed several times in a row
//! is left alone for a while, longer each time, and asked before that only when all others are down as well. Who refuses a request is
//! not at fault, and nobody else is asked then: the others would refuse it too. Who refuses our key, or says that our account is empty,
//! has failed like any other.
//!
//! Knows nothing of wire formats: upstreams are clients that somebody has set up.

use crate::local::Local;
use hone_policy::upstream::{Client, UpstreamError};
use hone_trace::Time;
use hone_trace::policy::PolicyErrorKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Failures in a row after which an upstream is left alone.
const N_FAILURES_MAX: u32 = 3;
/// How long it is left alone at first, and at most, in milliseconds. The time doubles with every further failure.
const COOL_MS: u64 = 5_000;
const COOL_MS_MAX: u64 = 300_000;

/// All names.
#[derive(Default)]
pub struct Catalogue {
    models: BTreeMap<String, Arc<Model>>,
}

/// Why a catalogue cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Two under one name.
    #[error("the model `{0}` is named twice")]
    Twice(String),
    /// Nobody under a name.
    #[error("the model `{0}` has nobody who answers")]
    Nobody(String),
}

impl Catalogue {
    /// The catalogue of these models.
    pub fn new(models: impl IntoIterator<Item = Model>) -> Result<Self, CatalogueError> {
        let mut catalogue = Self::default();
        for model in models {
            if model.upstreams.is_empty() {
                return Err(CatalogueError::Nobody(model.name));
            }
            if let Some(twice) = catalogue.models.insert(model.name.clone(), Arc::new(model)) {
                return Err(CatalogueError::Twice(twice.name.clone()));
            }
        }
        Ok(catalogue)
    }

    /// The model of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Model>> {
        self.models.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }
}

/// A name, and who answers under it.
pub struct Model {
    name: String,
    upstreams: Vec<Upstream>,
    n_asked: AtomicUsize,
}

/// Who can answer.
#[derive(Clone)]
pub enum Who {
    /// A provider's model.
    Provider(Arc<Client>),
    /// A model of this process.
    Local(Arc<Local>),
}

impl From<Arc<Client>> for Who {
    fn from(client: Arc<Client>) -> Self {
        Self::Provider(client)
    }
}

/// One who answers.
pub(crate) struct Upstream {
    pub(crate) who: Who,
    health: Mutex<Health>,
}

/// How an upstream fares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Health {
    n_failed: u32,
    cools_until: Option<Time>,
}

impl Model {
    /// A name under which these answer.
    pub fn new<W: Into<Who>>(name: impl Into<String>, all: impl IntoIterator<Item = W>) -> Self {
        let upstreams = all.into_iter().map(|who| Upstream { who: who.into(), health: Mutex::default() }).collect();
        Self { name: name.into(), upstreams, n_asked: AtomicUsize::new(0) }
    }

    /// A name under which nobody answers: who asks for it is told so, on the record.
    pub(crate) fn nobody(name: impl Into<String>) -> Self {
        Self::new(name, Vec::<Who>::new())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All who answer, as they were named.
    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.upstreams
    }

    /// Who is asked, in this order, until one answers.
    pub(crate) fn in_turn(&self, now: Time) -> Vec<&Upstream> {
        let first = self.n_asked.fetch_add(1, Ordering::Relaxed) % self.upstreams.len().max(1);
        let (before, after) = self.upstreams.split_at(first);
        let mut order: Vec<(Option<Time>, &Upstream)> =
            after.iter().chain(before).map(|upstream| (upstream.cools_until(now), upstream)).collect();
        // A stable sort: those who are well come first and keep their turns, then those who have cooled longest.
        order.sort_by_key(|(cools_until, _)| *cools_until);
        order.into_iter().map(|(_, upstream)| upstream).collect()
    }
}

impl Upstream {
    /// Until when it is left alone, if it is.
    fn cools_until(&self, now: Time) -> Option<Time> {
        self.health().cools_until.filter(|until| *until > now)
    }

    /// Its answer has come to its end, or to this failure. That one began to come says nothing: it may break off every time.
    pub(crate) fn ended(&self, failure: Option<&UpstreamError>, now: Time) {
        match failure {
            None => self.answered(),
            Some(failure) => {
                self.failed(failure, now);
            }
        }
    }

    /// It has answered.
    pub(crate) fn answered(&self) {
        *self.health() = Health::default();
    }

    /// It has failed; says whether another may fare better.
    pub(crate) fn failed(&self, error: &UpstreamError, now: Time) -> bool {
        use PolicyErrorKind::{Abandoned, Account, Budget, Protocol, Provider, RateLimit, Refused, Timeout, TooLong};
        match error.kind {
            Refused | TooLong | Budget | Abandoned => return false,
            Timeout | RateLimit | Provider | Account | Protocol => {}
        }
        let mut health = self.health();
        health.n_failed += 1;
        if health.n_failed >= N_FAILURES_MAX {
            let doubled = COOL_MS.saturating_mul(1 << (health.n_failed - N_FAILURES_MAX).min(16)).min(COOL_MS_MAX);
            health.cools_until = Some(now.plus_nanos(i64::try_from(doubled * 1_000_000).unwrap_or(i64::MAX)));
        }
        true
    }

    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_policy::upstream::ClientOptions;

    const SECOND: i64 = 1_000_000_000;

    fn model(specs: &[&str]) -> Model {
        let client = |spec: &&str| Arc::new(Client::new(spec.parse().unwrap(), None, ClientOptions::default()).unwrap());
        Model::new("m", specs.iter().map(client))
    }

    fn order(model: &Model, seconds: i64) -> String {
        let now = Time::from_unix_nanos(seconds * SECOND);
        let name = |upstream: &&Upstream| match &upstream.who {
            Who::Provider(client) => client.spec().model.clone(),
            Who::Local(_) => unreachable!("all of them are providers"),
        };
        model.in_turn(now).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    fn fail(model: &Model, upstream_idx: usize, kind: PolicyErrorKind, seconds: i64) -> bool {
        let error = UpstreamError::new(kind, "");
        model.upstreams[upstream_idx].failed(&error, Time::from_unix_nanos(seconds * SECOND))
    }

    #[test]
    fn they_take_turns_and_the_failing_rest() {
        let model = model(&["http://h:1/v1#a", "http://h:2/v1#b", "http://h:3/v1#c"]);
        assert_eq!([0; 4].map(|now| order(&model, now)), ["a b c", "b c a", "c a b", "a b c"]);
        for _ in 0..3 {
            assert!(fail(&model, 1, PolicyErrorKind::Provider, 0));
        }
        assert_eq!([1; 3].map(|now| order(&model, now)), ["c a b", "c a b", "a c b"]);
        assert_eq!(order(&model, 6), "b c a", "after five seconds it is tried again");
        assert!(fail(&model, 1, PolicyErrorKind::Timeout, 6));
        assert_eq!(order(&model, 12), "c a b", "and then left alone for ten");
        model.upstreams[1].answered();
        assert_eq!(order(&model, 12), "a b c");
    }

    #[test]
    fn who_refuses_is_not_at_fault() {
        let model = model(&["http://h:1/v1#a"]);
        for kind in [PolicyErrorKind::Refused, PolicyErrorKind::TooLong, PolicyErrorKind::Budget, PolicyErrorKind::Abandoned] {
            assert!(!fail(&model, 0, kind, 0));
        }
        assert_eq!(*model.upstreams[0].health(), Health::default());
    }

    #[test]
    fn a_catalogue_has_every_name_once() {
        let one = || model(&["http://h:1/v1#a"]);
        assert_eq!(Catalogue::new([one(), one()]).err(), Some(CatalogueError::Twice("m".into())));
        assert_eq!(Catalogue::new([Model::new("n", Vec::<Who>::new())]).err(), Some(CatalogueError::Nobody("n".into())));
        assert_eq!(Catalogue::new([one()]).unwrap().names().collect::<Vec<_>>(), ["m"]);
    }
}
