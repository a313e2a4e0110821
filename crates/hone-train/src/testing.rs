//! Traces for tests, written as short texts.

use hone_trace::{
    ConfigHash, Giver, GiverKind, Message, Reward, RewardId, Role, Sampled, Segment, Tenant, Time, Trace, TraceId, Turn,
};

/// The tokens of a turn as `input > sampled`, a forced token with a `!`; `?` for unknown.
pub(crate) fn sampled(text: &str) -> Option<Sampled> {
    let (input, output) = text.split_once('>')?;
    let numbers =
        |text: &str| text.split_whitespace().map(|word| word.trim_end_matches('!').parse().expect("a number")).collect();
    let forced = (0u32..).zip(output.split_whitespace()).filter(|(_, word)| word.ends_with('!')).map(|(i, _)| i).collect();
    let ids: Vec<u32> = numbers(output);
    let logprobs = ids.iter().map(|&id| -(id as f32) / 10.0).collect();
    Some(Sampled { input_ids: numbers(input), ids, logprobs, forced, ..Sampled::default() })
}

pub(crate) fn turn(sampled: Option<Sampled>) -> Turn {
    Turn { sampled, ..Turn::new(vec![Message::text(Role::User, "?")], Message::text(Role::Assistant, "!")) }
}

pub(crate) fn trace(segments: Vec<Vec<Turn>>, reward: Option<f64>) -> Trace {
    let segments = segments.into_iter().map(|turns| Segment { turns, ..Segment::default() }).collect();
    let rewards = reward.map(|total| earned(None, total)).into_iter().collect();
    let tenant = Tenant::new("test").expect("a good name");
    let bare = Trace::new(TraceId::derived(&["test"]), tenant, Time::from_unix_nanos(0), ConfigHash::of(b"test"));
    Trace { segments, rewards, ..bare }
}

pub(crate) fn earned(turn_idx: Option<u32>, total: f64) -> Reward {
    let by = Giver { kind: GiverKind::Check, name: "test".into(), config: None };
    Reward { turn_idx, total, ..Reward::sum(RewardId::derived(&["test"]), Time::from_unix_nanos(0), by, Vec::new()) }
}
