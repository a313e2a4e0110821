//! What a record gets that does not say it itself: owner, time, id and config.

use crate::{
    Category, Config, ConfigHash, Giver, GiverKind, Group, GroupId, Message, REWARD_MAX, Reward, RewardId, Role, Segment, Tenant,
    Time, Trace, TraceId, V1, sorted::SortedMap,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What an undated, ownerless record gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whose data it is.
    pub tenant: Tenant,
    /// When it was imported.
    pub now: Time,
}

impl Default for Origin {
    /// The default tenant at the start of 1970: for tests and seeded stages.
    fn default() -> Self {
        Self { tenant: Tenant::default(), now: Time::from_unix_nanos(0) }
    }
}

/// Gives ids and configs to what is read from one file.
#[derive(Debug)]
pub(super) struct Registrar {
    pub(super) origin: Origin,
    /// How often each content has been seen, by its hash.
    seen: HashMap<[u8; 16], u32>,
    /// The config that came last: most lines of a file share one.
    last: Option<(Config, ConfigHash)>,
}

impl Registrar {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, seen: HashMap::new(), last: None }
    }

    /// A trace of which only the content is known. The content fixes its id, with what it came `beside` and how often it came before.
    pub(super) fn trace(
        &mut self,
        format: &str,
        segments: Vec<Segment>,
        metadata: Map<String, Value>,
        beside: &impl Serialize,
    ) -> Trace {
        let (digest, n) = self.count(&(&segments, SortedMap(&metadata), beside));
        let Origin { tenant, now } = &self.origin;
        let id = TraceId::derived(&[format, tenant.as_str(), &digest, &n]);
        Trace { segments, metadata, ..Trace::new(id, tenant.clone(), *now, ConfigHash::from_bytes([0; 32])) }
    }

    /// A group of these traces, which learn of it.
    pub(super) fn group(
        &mut self,
        format: &str,
        policy: Option<String>,
        leftovers: &Map<String, Value>,
        traces: &mut [Trace],
    ) -> Group {
        let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id).collect();
        let (digest, n) = self.count(&(&ids, SortedMap(leftovers)));
        let id = GroupId::derived(&[format, self.origin.tenant.as_str(), &digest, &n]);
        for trace in traces {
            trace.group = Some(id);
        }
        Group { v: V1, id, tenant: self.origin.tenant.clone(), at: self.origin.now, scenario: None, policy, traces: ids }
    }

    /// The hash of a config, and the config itself unless it is the one that came last.
    pub(super) fn config(&mut self, config: Config) -> (ConfigHash, Option<Config>) {
        match &self.last {
            Some((last, hash)) if *last == config => (*hash, None),
            _ => {
                let hash = config.hash();
                self.last = Some((config.clone(), hash));
                (hash, Some(config))
            }
        }
    }

    /// The hash of this content, and which occurrence of it this is. Maps are sorted, so the hash does not
    /// depend on the order of keys or on white space in the file.
    fn count(&mut self, content: &impl Serialize) -> (String, String) {
        let mut hasher = blake3::Hasher::new();
        serde_json::to_writer(std::io::BufWriter::with_capacity(1 << 14, &mut hasher), content)
            .expect("a hasher takes all bytes");
        let digest = hasher.finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest.as_bytes()[..16]);
        let n = self.seen.entry(key).or_insert(0);
        let occurrence = n.to_string();
        *n = n.saturating_add(1);
        (digest.to_hex().to_string(), occurrence)
    }
}

/// The reward that a record of this format says its trace earned.
pub(super) fn given(trace: &Trace, format: &str, total: f64) -> Reward {
    let by = Giver { kind: GiverKind::Import, name: format.to_owned(), config: None };
    let id = RewardId::derived(&[format, &trace.id.to_string()]);
    Reward { id, at: trace.started, by, turn_idx: None, components: Vec::new(), total, explanation: None }
}

/// Refuses a reward that is larger than one from outside may be, with the reason.
pub(super) fn check_reward(total: f64) -> Result<f64, String> {
    match total.abs() <= REWARD_MAX {
        true => Ok(total),
        false => Err(format!("a reward of {total:e} must be from -{REWARD_MAX} to {REWARD_MAX}")),
    }
}

/// The type of task that a map of free facts names under `category` or `task_type`, if it is a name.
pub(super) fn category(facts: &Map<String, Value>) -> Option<Category> {
    ["category", "task_type"].into_iter().find_map(|key| Category::new(facts.get(key)?.as_str()?).ok())
}

/// The category of a trace whose metadata do not tell it, where there is room for it under its own name.
pub(super) fn untold_category(trace: &Trace) -> Option<&Category> {
    let told = category(&trace.metadata).or_else(|| category(trace.metadata.get("metadata")?.as_object()?));
    trace.category.as_ref().filter(|&category| told.as_ref() != Some(category) && !trace.metadata.contains_key("category"))
}

/// The standing instructions at the start of a conversation.
pub(super) fn prompt<'a>(mut messages: impl Iterator<Item = &'a Message>) -> Option<String> {
    let first = messages.next().filter(|message| matches!(message.role, Role::System | Role::Developer))?;
    Some(first.content.text()).filter(|text| !text.is_empty())
}

/// All messages of a segment, in order.
pub(super) fn messages(segment: &Segment) -> impl Iterator<Item = &Message> {
    let said = segment.turns.iter().flat_map(|turn| turn.input.iter().chain([&turn.answer]));
    said.chain(&segment.tail)
}
