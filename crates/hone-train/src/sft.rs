//! Supervised fine-tuning: which traces are good enough to imitate, which of their turns, and in which order.
//!
//! A trace is imitated when its reward reaches `quality_min`. Of its turns, those are trained that went well: no error, no
//! failed tool call, no negative reward of their own, and no weight of 0. The others stay as history. Traces whose tokens the sampler did not
//! tell are rendered by the caller ([`Episode::rendered`]).
//! Knows nothing of templates, models or the loss.

use crate::batch::Batch;
use crate::episode::{Episode, Untrainable};
use hone_trace::{Draws, Trace};
use std::collections::BTreeMap;

/// The reward from which a trace is imitated.
pub const QUALITY_MIN: f64 = 0.8;

/// Episodes to imitate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// Per episode, the position of its trace.
    pub episodes: Vec<(usize, Episode)>,
    /// Traces that are left out, by reason.
    pub untrainable: BTreeMap<Untrainable, usize>,
}

/// Picks what is worth imitating.
pub fn choose(traces: &[Trace], quality_min: f64) -> Chosen {
    let mut chosen = Chosen::default();
    for (trace_idx, trace) in traces.iter().enumerate() {
        match imitated(trace, quality_min) {
            Ok(episode) => chosen.episodes.push((trace_idx, episode)),
            Err(why) => *chosen.untrainable.entry(why).or_default() += 1,
        }
    }
    chosen
}

/// Whether a trace is good enough to imitate.
pub fn is_good(trace: &Trace, quality_min: f64) -> Result<(), Untrainable> {
    let quality = trace.reward().ok_or(Untrainable::NoReward)?.total;
    if quality >= quality_min { Ok(()) } else { Err(Untrainable::LowQuality) }
}

/// For every turn of a trace, whether it is trained: what a caller needs who renders the trace himself.
pub fn good_turns(trace: &Trace) -> Vec<bool> {
    let mut good: Vec<bool> = trace.turns().map(|turn| turn.went_well() && turn.teaches()).collect();
    for reward in trace.rewards.iter().filter(|reward| reward.total < 0.0) {
        if let Some(turn) = reward.turn_idx.and_then(|turn_idx| good.get_mut(turn_idx as usize)) {
            *turn = false;
        }
    }
    good
}

/// One epoch in a random order that the seed fixes, cut into batches of about `n_tokens` trained tokens each.
pub fn batches(episodes: &[Episode], n_tokens: usize, n_rows_max: usize, seed: u64, epoch_idx: u64) -> Vec<Batch> {
    let lengths: Vec<usize> = episodes.iter().map(Episode::n_trained).collect();
    let batch = |chosen: Vec<usize>| {
        let episodes: Vec<Episode> = chosen.into_iter().map(|episode_idx| episodes[episode_idx].clone()).collect();
        Batch::new(&episodes, n_rows_max)
    };
    let mut batches: Vec<Batch> = cut(&lengths, n_tokens, seed, epoch_idx).into_iter().map(batch).collect();
    // Where nothing fitted, there is nothing to step on.
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Things of these lengths in a random order that the seed fixes, cut into parts that are together at least `n_min` long, but
/// for the last.
pub fn cut(lengths: &[usize], n_min: usize, seed: u64, epoch_idx: u64) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    Draws::new(seed, &["sft", &epoch_idx.to_string()]).shuffle(&mut order);
    let (mut parts, mut open, mut n_open) = (Vec::new(), Vec::new(), 0);
    for idx in order {
        n_open += lengths[idx];
        open.push(idx);
        if n_open >= n_min {
            parts.push(std::mem::take(&mut open));
            n_open = 0;
        }
    }
    if !open.is_empty() {
        parts.push(open);
    }
    parts
}

fn imitated(trace: &Trace, quality_min: f64) -> Result<Episode, Untrainable> {
    is_good(trace, quality_min)?;
    let good = good_turns(trace);
    Episode::of_turns(trace, |turn_idx| good[turn_idx])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{earned, sampled, trace, turn};
    use hone_trace::{ErrorEvent, ToolCall};

    fn two_turns(reward: Option<f64>) -> Trace {
        trace(vec![vec![turn(sampled("1 > 2")), turn(sampled("3 > 4"))]], reward)
    }

    fn check(trace: Trace, expected: Result<&[usize], Untrainable>) {
        let mut chosen = choose(&[trace], QUALITY_MIN);
        let found = match chosen.episodes.pop() {
            Some((_, episode)) => Ok(episode.sequences()[0].trained().iter().map(|token| token.position).collect()),
            None => Err(*chosen.untrainable.keys().next().expect("a reason")),
        };
        assert_eq!(found, expected.map(<[usize]>::to_vec));
    }

    #[test]
    fn good_turns_of_good_traces_are_imitated() {
        check(two_turns(Some(0.8)), Ok(&[1, 3]));
        check(two_turns(Some(0.79)), Err(Untrainable::LowQuality));
        check(two_turns(None), Err(Untrainable::NoReward));
        let mut with_error = two_turns(Some(1.0));
        let event = ErrorEvent { kind: "unparsable_action".into(), recovered: true, message: String::new() };
        with_error.segments[0].turns[0].errors.push(event);
        check(with_error, Ok(&[3]));
        let mut with_history = two_turns(Some(1.0));
        with_history.segments[0].turns[1].answer.extra.insert("weight".into(), 0.into());
        check(with_history, Ok(&[1]));
        let mut with_failure = two_turns(Some(1.0));
        let call = ToolCall {
            id: String::new(),
            name: "search".into(),
            arguments: Default::default(),
            success: Some(false),
            duration_ms: None,
            extra: Default::default(),
        };
        with_failure.segments[0].turns[1].tool_calls.push(call);
        check(with_failure, Ok(&[1]));
        let mut punished = two_turns(Some(1.0));
        punished.rewards.push(earned(Some(1), -0.1));
        check(punished, Ok(&[1]));
    }

    #[test]
    fn an_epoch_holds_every_episode_once_in_an_order_of_its_own() {
        let episodes: Vec<Episode> =
            (0..20).map(|i| Episode::rendered(vec![1, i], &[false, true]).expect("one is trained")).collect();
        let ids = |epoch_idx| {
            let batches = batches(&episodes, 6, 100, 7, epoch_idx);
            assert_eq!(batches.iter().map(Batch::n_tokens).collect::<Vec<_>>(), [6, 6, 6, 2]);
            let targets = |batch: &Batch| batch.micro_batches[0].packed.targets.iter().map(|&(_, id)| id).collect::<Vec<_>>();
            batches.iter().flat_map(targets).collect::<Vec<u32>>()
        };
        let (first, second) = (ids(0), ids(1));
        assert_ne!(first, second);
        assert_eq!(first, ids(0));
        let mut sorted = first;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<u32>>());
    }
}
