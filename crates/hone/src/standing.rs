//! The configs behind traces, each read once, and what they say that a record does not: standing instructions.

use hone_gateway::AGENT;
use hone_trace::store::{Kind, Store, StoreError};
use hone_trace::{Config, ConfigHash, Message, Role, Trace};
use std::collections::BTreeMap;

/// Where the metadata of a trace say that the instructions of that version stand in the record.
const INSTRUCTED: &str = "instructed";

/// Configs by their hash, as far as the store has them.
#[derive(Default)]
pub(crate) struct Configs(BTreeMap<ConfigHash, Option<Config>>);

impl Configs {
    /// The config of this hash.
    pub(crate) async fn of(&mut self, store: &dyn Store, hash: ConfigHash) -> Result<Option<&Config>, StoreError> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.0.entry(hash) {
            let document = store.document(Kind::Config, &hash.to_string()).await?;
            place.insert(document.map(|document| document.word()).transpose()?);
        }
        Ok(self.0.get(&hash).and_then(Option::as_ref))
    }

    /// The trace as it was answered. A gateway records what clients said, and puts the instructions of an agent's version before that:
    /// who learns from the answers, or is asked the same again, must have them as well.
    pub(crate) async fn instructed(&mut self, store: &dyn Store, trace: Trace) -> Result<Trace, StoreError> {
        if !trace.metadata.contains_key(AGENT) || trace.metadata.contains_key(INSTRUCTED) {
            return Ok(trace);
        }
        Ok(match self.of(store, trace.config).await?.and_then(|config| config.prompt.as_deref()) {
            Some(prompt) => behind(prompt, trace),
            None => trace,
        })
    }
}

/// A trace whose every conversation begins with these instructions.
fn behind(prompt: &str, mut trace: Trace) -> Trace {
    for turn in trace.segments.iter_mut().filter_map(|segment| segment.turns.first_mut()) {
        turn.input.insert(0, Message::text(Role::System, prompt));
    }
    trace.metadata.insert(INSTRUCTED.to_owned(), true.into());
    trace
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Segment, Tenant, Time, TraceId, Turn};

    #[test]
    fn every_conversation_begins_with_the_instructions() {
        let turn = |said: &str| Turn::new(vec![Message::text(Role::User, said)], Message::text(Role::Assistant, "yes"));
        let hash = Config::default().hash();
        let mut trace = Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), hash);
        let segment = |turns: Vec<Turn>| Segment { turns, ..Segment::default() };
        trace.segments = vec![segment(vec![turn("a"), turn("b")]), segment(vec![turn("c")])];
        let trace = behind("Be kind.", trace);
        let said: Vec<String> = trace.turns().map(|turn| turn.input.iter().map(|said| said.content.text()).collect()).collect();
        assert_eq!(said, ["Be kind.a", "b", "Be kind.c"]);
        assert_eq!((trace.segments[1].turns[0].input[0].role, &trace.metadata[INSTRUCTED]), (Role::System, &true.into()));
    }
}
