//! Which calls belong together: open episodes, and what of a request they have heard before.
//!
//! A client that names its episode in a header is believed. For the others, a request that repeats a conversation up to and including an
//! answer given here goes on with the episode of that answer; a question that got none is no ground to go on. Two episodes that have said the same so far are taken one after the other:
//! no episode is continued twice from the same place.
//! What is compared is what was said: role, text, tool calls. Fields that clients add or leave out when they send an answer back do not
//! make it another message.
//!
//! Knows nothing of the store or of time: what is forgotten here can be read there.

use hone_arbiter::log::Assigned;
use hone_trace::{Content, Message, Sorted, Tenant, TraceId};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a message says, in sixteen bytes.
pub(crate) type Digest = [u8; 16];

/// What is remembered of an episode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Episode {
    pub(crate) trace: TraceId,
    pub(crate) tenant: Tenant,
    /// Turns on the record.
    pub(crate) n_turns: u32,
    /// What has been said in the present segment, answers included.
    pub(crate) history: Vec<Digest>,
    /// How much of it was said up to the last answer and including it; 0 where nothing was answered.
    pub(crate) n_answered: usize,
    /// What was answered last besides, where several answers were asked for: the client may go on with any of them.
    pub(crate) others: Vec<Digest>,
    /// The version of an agent that answers it, where one does.
    pub(crate) assigned: Option<Arc<Assigned>>,
}

/// Episodes that may go on, the least recently heard of forgotten first.
#[derive(Debug)]
pub(crate) struct Episodes {
    len_max: usize,
    episodes: HashMap<TraceId, (Episode, u64)>,
    /// Where the conversation of each stands: the tenant and all that was said.
    places: HashMap<Digest, Vec<TraceId>>,
    /// By when they were last heard of.
    order: BTreeMap<u64, TraceId>,
    n_heard: u64,
}

impl Episodes {
    /// At most so many are remembered.
    pub(crate) fn new(len_max: usize) -> Self {
        Self { len_max, episodes: HashMap::new(), places: HashMap::new(), order: BTreeMap::new(), n_heard: 0 }
    }

    /// The tenant's episode of this id.
    pub(crate) fn get(&self, tenant: &Tenant, trace: TraceId) -> Option<&Episode> {
        self.episodes.get(&trace).map(|(episode, _)| episode).filter(|episode| episode.tenant == *tenant)
    }

    /// The episode that this conversation goes on with: the one that has come furthest in it. It is taken out of its place, so that the
    /// next conversation of the same words finds another.
    pub(crate) fn find(&mut self, tenant: &Tenant, said: &[Digest]) -> Option<TraceId> {
        let places: Vec<Digest> = prefixes(tenant, said).collect();
        places.iter().rev().find_map(|place| {
            let here = self.places.get_mut(place)?;
            let found = here.pop();
            if here.is_empty() {
                self.places.remove(place);
            }
            found
        })
    }

    /// Puts an episode that was found back where it stood: its conversation did not go on after all.
    pub(crate) fn put_back(&mut self, trace: TraceId) {
        if let Some((episode, _)) = self.episodes.get(&trace).cloned() {
            self.keep(episode);
        }
    }

    /// Keeps how far an episode has come.
    pub(crate) fn keep(&mut self, episode: Episode) {
        self.forget(episode.trace);
        self.n_heard += 1;
        for place in episode.places() {
            self.places.entry(place).or_default().push(episode.trace);
        }
        self.order.insert(self.n_heard, episode.trace);
        self.episodes.insert(episode.trace, (episode, self.n_heard));
        while self.episodes.len() > self.len_max
            && let Some((_, &oldest)) = self.order.first_key_value()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, trace: TraceId) {
        let Some((episode, heard)) = self.episodes.remove(&trace) else { return };
        self.order.remove(&heard);
        for place in episode.places() {
            if let Some(here) = self.places.get_mut(&place) {
                // Where many say the same, the one to be forgotten is among the first.
                if let Some(at) = here.iter().position(|other| *other == trace) {
                    here.remove(at);
                }
                if here.is_empty() {
                    self.places.remove(&place);
                }
            }
        }
    }
}

impl Episode {
    /// How much of what is said now was said up to an answer of this episode and including it: its last one, or another that was given
    /// with it.
    pub(crate) fn n_answered_in(&self, said: &[Digest]) -> usize {
        let Some((last, before)) = self.history[..self.n_answered].split_last() else { return 0 };
        let is_answer = |heard: &Digest| heard == last || self.others.contains(heard);
        if said.starts_with(before) && said.get(before.len()).is_some_and(is_answer) { self.n_answered } else { 0 }
    }

    /// Where it stands: after its last answer, or after another that was given with it. What was asked since and got no answer does not
    /// count: others may ask the same.
    fn places(&self) -> Vec<Digest> {
        let Some((last, before)) = self.history[..self.n_answered].split_last() else { return Vec::new() };
        let place = |answer: &Digest| prefixes(&self.tenant, &[before, &[*answer]].concat()).last();
        let mut places: Vec<Digest> = std::iter::once(last).chain(&self.others).filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The place after each message of a conversation.
fn prefixes(tenant: &Tenant, said: &[Digest]) -> impl Iterator<Item = Digest> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tenant.as_str().as_bytes());
    said.iter().map(move |digest| {
        hasher.update(digest);
        short(&hasher)
    })
}

/// What a conversation says, message by message.
pub(crate) fn digests(messages: &[Message]) -> Vec<Digest> {
    messages.iter().map(digest).collect()
}

/// What a message says. Nothing said and an empty text are the same.
pub(crate) fn digest(message: &Message) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    add(&format!("{:?}", message.role));
    match &message.content {
        // Some send a refusal back in a place of its own.
        Content::None => add(message.extra.get("refusal").and_then(Value::as_str).unwrap_or_default()),
        Content::Text(text) => add(text),
        Content::Parts(parts) => match parts.as_slice() {
            [part] if part["type"] == "text" => add(part["text"].as_str().unwrap_or_default()),
            parts => parts.iter().for_each(|part| add(&part.to_string())),
        },
    }
    for call in &message.tool_calls {
        add(&call.id);
        add(&call.name);
        // A client that has read the arguments writes them again with other spaces, and in another order; none may be an empty text.
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        match serde_json::from_str::<Value>(arguments) {
            Ok(arguments) => add(&serde_json::to_string(&Sorted(&arguments)).unwrap_or_default()),
            Err(_) => add(&call.arguments),
        }
    }
    add(message.tool_call_id.as_deref().unwrap_or_default());
    short(&hasher)
}

fn short(hasher: &blake3::Hasher) -> Digest {
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Role, ToolRequest};
    use serde_json::{Map, json};

    fn said(texts: &str) -> Vec<Digest> {
        let role = |text: &str| if text.starts_with('a') { Role::Assistant } else { Role::User };
        texts.split_whitespace().map(|text| digest(&Message::text(role(text), text))).collect()
    }

    fn tenant() -> Tenant {
        Tenant::new("default").unwrap()
    }

    fn keep(episodes: &mut Episodes, name: &str, texts: &str) {
        episodes.keep(Episode {
            trace: TraceId::derived(&[name]),
            tenant: tenant(),
            n_turns: 1,
            n_answered: texts
                .split_whitespace()
                .collect::<Vec<_>>()
                .iter()
                .rposition(|text| text.starts_with('a'))
                .map_or(0, |idx| idx + 1),
            history: said(texts),
            others: Vec::new(),
            assigned: None,
        });
    }

    fn check(episodes: &mut Episodes, texts: &str, expected: Option<&str>) {
        let found = episodes.find(&tenant(), &said(texts));
        assert_eq!(found, expected.map(|name| TraceId::derived(&[name])), "{texts}");
    }

    #[test]
    fn a_conversation_goes_on_where_it_was() {
        let mut episodes = Episodes::new(10);
        keep(&mut episodes, "one", "u1 a1");
        keep(&mut episodes, "two", "u1 a1 u2 a2");
        check(&mut episodes, "u1", None);
        check(&mut episodes, "u1 a1 u2 a2 u3", Some("two"));
        check(&mut episodes, "u1 a1 u2 a2 u3", Some("one"));
        check(&mut episodes, "u1 a1 u2 a2 u3", None);
    }

    #[test]
    fn the_same_words_are_two_episodes() {
        let mut episodes = Episodes::new(10);
        keep(&mut episodes, "one", "u1 a1");
        keep(&mut episodes, "two", "u1 a1");
        check(&mut episodes, "u1 a1 u2", Some("two"));
        keep(&mut episodes, "two", "u1 a1 u2 a2");
        check(&mut episodes, "u1 a1 u3", Some("one"));
        check(&mut episodes, "u1 a1 u2 a2 u3", Some("two"));
    }

    #[test]
    fn a_conversation_may_go_on_with_any_of_its_answers() {
        let mut episodes = Episodes::new(10);
        let kept = |others: &str| Episode {
            trace: TraceId::derived(&["one"]),
            tenant: tenant(),
            n_turns: 1,
            history: said("u1 a1"),
            n_answered: 2,
            others: said(others),
            assigned: None,
        };
        episodes.keep(kept("a2 a3"));
        check(&mut episodes, "u1 a3 u2", Some("one"));
        episodes.keep(kept(""));
        check(&mut episodes, "u1 a2 u2", None);
        check(&mut episodes, "u1 a1 u2", Some("one"));
    }

    #[test]
    fn a_question_without_an_answer_is_no_ground_to_go_on() {
        let mut episodes = Episodes::new(10);
        keep(&mut episodes, "one", "u1");
        check(&mut episodes, "u1", None);
        check(&mut episodes, "u1 a1 u2", None);
        keep(&mut episodes, "two", "u1 a1 u2");
        check(&mut episodes, "u1 a1 u2", Some("two"));
    }

    #[test]
    fn who_fails_after_an_answer_still_stands_there() {
        let mut episode = Episode {
            trace: TraceId::derived(&["one"]),
            tenant: tenant(),
            n_turns: 1,
            history: said("u1 a1"),
            n_answered: 2,
            others: said("a2"),
            assigned: None,
        };
        for (texts, expected) in [("u1 a1 u2", 2), ("u1 a2 u2", 2), ("u1", 0), ("u2 a1 u2", 0), ("u1 a3 u2", 0)] {
            assert_eq!(episode.n_answered_in(&said(texts)), expected, "{texts}");
        }
        episode.n_answered = 0;
        assert_eq!(episode.n_answered_in(&said("u1 a1 u2")), 0);
    }

    #[test]
    fn another_tenant_said_something_else() {
        let mut episodes = Episodes::new(10);
        keep(&mut episodes, "one", "u1 a1");
        let other = Tenant::new("other").unwrap();
        assert_eq!(episodes.find(&other, &said("u1 a1 u2")), None);
        assert_eq!(episodes.get(&other, TraceId::derived(&["one"])), None);
        check(&mut episodes, "u1 a1 u2", Some("one"));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut episodes = Episodes::new(2);
        for name in ["one", "two", "three"] {
            keep(&mut episodes, name, &format!("u{name} a{name}"));
        }
        assert!(episodes.get(&tenant(), TraceId::derived(&["one"])).is_none());
        assert!(episodes.get(&tenant(), TraceId::derived(&["two"])).is_some());
        for n in 0..100 {
            keep(&mut episodes, "two", &format!("u a{n}"));
        }
        assert!(episodes.places.len() <= 2 && episodes.order.len() == 2);
        // Nor do those grow who always say the same.
        for n in 0..100 {
            keep(&mut episodes, &format!("same {n}"), "u a");
        }
        assert_eq!(episodes.places.values().map(Vec::len).sum::<usize>(), 2);
    }

    #[test]
    fn who_is_put_back_is_found_again() {
        let mut episodes = Episodes::new(10);
        keep(&mut episodes, "one", "u1 a1");
        check(&mut episodes, "u1 a1 u2", Some("one"));
        episodes.put_back(TraceId::derived(&["one"]));
        check(&mut episodes, "u1 a1 u2", Some("one"));
        check(&mut episodes, "u1 a1 u2", None);
    }

    #[test]
    fn what_clients_add_makes_no_other_message() {
        let plain = Message::text(Role::Assistant, "yes");
        let mut dressed = plain.clone();
        dressed.extra = json!({"refusal": null, "annotations": []}).as_object().cloned().unwrap();
        dressed.reasoning = Some("hm".into());
        assert_eq!(digest(&plain), digest(&dressed));
        let parts = Message { content: Content::Parts(vec![json!({"type": "text", "text": "yes"})]), ..plain.clone() };
        assert_eq!(digest(&plain), digest(&parts));
        let empty = Message { content: Content::None, ..plain.clone() };
        assert_eq!(digest(&empty), digest(&Message::text(Role::Assistant, "")));
        assert_ne!(digest(&plain), digest(&Message::text(Role::User, "yes")));
        let calling = |arguments: &str| {
            let call = ToolRequest { id: "c".into(), name: "t".into(), arguments: arguments.into(), extra: Map::new() };
            digest(&Message { tool_calls: vec![call], ..plain.clone() })
        };
        assert_eq!(calling(r#"{"a": 1, "b": 2}"#), calling(r#"{"b":2,"a":1}"#));
        assert_ne!(calling(r#"{"a":1}"#), calling(r#"{"a":2}"#));
        assert_eq!(calling(""), calling("{}"));
        assert_ne!(digest(&plain), digest(&Message { tool_call_id: Some("yes".into()), ..empty }));
    }
}
