//! Which reward a trace is found by: the one for the whole of it that was given last, by its own time.
//!
//! Rewards may be written later than others that were given after them: a merge adds what was given elsewhere in the meantime. Of two
//! that were given at the same time the one counts that was written last. Knows nothing of SQL.

use hone_trace::Reward;

/// Adds rewards, in the order in which they were written, to those that a trace was written with, which keep their own order. The last
/// one for the whole trace is then the one that counts.
pub(crate) fn add(rewards: &mut Vec<Reward>, later: impl IntoIterator<Item = Reward>) {
    for reward in later {
        let before = rewards.iter().rposition(|known| known.at <= reward.at);
        rewards.insert(before.map_or(0, |idx| idx + 1), reward);
    }
}

/// What counts of the rewards in a trace's own text, where it has any, and of the texts of those that were written later. One that is
/// damaged does not count.
pub(crate) fn total<'t>(own: Option<&str>, later: impl IntoIterator<Item = &'t str>) -> Option<f64> {
    let mut rewards: Vec<Reward> = own.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    add(&mut rewards, later.into_iter().filter_map(|text| serde_json::from_str(text).ok()));
    rewards.iter().rev().find(|reward| reward.turn_idx.is_none()).map(|reward| reward.total)
}
