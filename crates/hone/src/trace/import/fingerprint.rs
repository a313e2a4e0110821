//! What a trace says apart from the time of its import, in 32 bytes.
//!
//! A format without dates gives every record the time of the import, so that a second import of the same file meets
//! other times in the store. The fingerprints tell whether anything else differs, without keeping the traces.

use hone_trace::{BlobHash, RewardId, Time, Trace};
use std::mem::replace;

/// What a trace says, its times apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    hash: BlobHash,
    /// The rewards that came with it: later ones do not count.
    rewards: Vec<RewardId>,
    /// The size of its JSON form, give or take the times.
    pub(super) n_bytes: usize,
}

impl Fingerprint {
    pub(super) fn of(trace: &mut Trace) -> Self {
        let never = Time::from_unix_nanos(0);
        let (started, ended) = (replace(&mut trace.started, never), trace.ended.take());
        let given: Vec<Time> = trace.rewards.iter_mut().map(|reward| replace(&mut reward.at, never)).collect();
        let json = serde_json::to_vec(trace).expect("a trace that passed its check has a JSON form");
        (trace.started, trace.ended) = (started, ended);
        trace.rewards.iter_mut().zip(given).for_each(|(reward, at)| reward.at = at);
        let rewards = trace.rewards.iter().map(|reward| reward.id).collect();
        Self { hash: BlobHash::of(&json), rewards, n_bytes: json.len() }
    }

    /// Whether this is the fingerprint of the stored trace, too, but for rewards given since.
    pub(super) fn fits(&self, mut stored: Trace) -> bool {
        stored.rewards.retain(|reward| self.rewards.contains(&reward.id));
        Self::of(&mut stored) == *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::format::{Format, Origin, Reader};
    use hone_trace::{Category, Reward};

    fn imported_at(nanos: i64) -> Trace {
        let origin = Origin { now: Time::from_unix_nanos(nanos), ..Origin::default() };
        let line =
            r#"{"messages_and_choices":[{"role":"user","content":"2+2?"},{"role":"assistant","content":"4"}],"reward":1.0}"#;
        Reader::new(Format::Art, origin).line(line).unwrap().traces.remove(0)
    }

    #[test]
    fn only_the_times_of_an_import_may_differ() {
        let (now, mut later) = (imported_at(1), imported_at(2));
        assert_ne!(now, later);
        let print = Fingerprint::of(&mut later);
        assert_eq!(later, imported_at(2), "taking a fingerprint changes nothing");
        assert!(print.fits(now.clone()));
        assert!(!print.fits(Trace { category: Some(Category::new("x").unwrap()), ..now.clone() }));
        let mut judged = now.clone();
        judged.rewards.push(Reward { id: RewardId::derived(&["since"]), ..now.rewards[0].clone() });
        assert!(print.fits(judged));
        let mut worth_less = now;
        worth_less.rewards[0].total = 0.5;
        assert!(!print.fits(worth_less));
    }
}
