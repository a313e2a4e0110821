//! A disguise: ids under which nobody finds the original, the same for all that were the same.
//!
//! The id of a trace also stands outside of its own field: the gateway calls every answer by it, and metadata may name the trace that
//! this one belongs to, and spans by which it came name traces, spans and conversations of another program. What is called by one id stays
//! together under the other. The same goes for a user, who may be named in a text or
//! in the address of a page.

mod users;

use crate::anonymise::trace::{map, visit};
use crate::anonymise::{Hint, Key, pseudonym};
use hone_trace::env::Split;
use hone_trace::{GroupId, RewardId, RunId, Trace, TraceId};
use serde_json::Value;
use std::collections::HashMap;
use users::Users;

/// Gives a trace and its user other ids, wherever they stand in it, and says which part it is of. Returns how many turns lost sampled
/// tokens, which still spelled them.
pub fn disguise(trace: &mut Trace, key: &Key, part: Split, user_field: &str) -> u64 {
    let ids = Ids::of(trace, key);
    let users = Users::of(trace, key, user_field);
    trace.id = TraceId::from_bytes(ids.other(trace.id.bytes()));
    trace.group = trace.group.map(|id| GroupId::from_bytes(ids.other(id.bytes())));
    trace.run = trace.run.map(|id| RunId::from_bytes(ids.other(id.bytes())));
    for reward in &mut trace.rewards {
        reward.id = RewardId::from_bytes(ids.other(reward.id.bytes()));
    }
    // A user may be the one of a session.
    let named = |text: &str, hint: Hint| {
        let is_named = hint == Hint::TRACE_ID && !text.is_empty() && !pseudonym::is_whole(text);
        is_named.then(|| users.replaced(text).filter(|other| pseudonym::is_whole(other)).unwrap_or_else(|| ids.named(text)))
    };
    let mut metadata = std::mem::take(&mut trace.metadata);
    map(&mut metadata, &mut |text, hint| {
        named(text, hint).or_else(|| {
            let other = ids.replaced(text, Whose::Any);
            users.replaced(other.as_deref().unwrap_or(text)).or(other)
        })
    });
    for turn in trace.segments.iter_mut().flat_map(|segment| &mut segment.turns) {
        let (calls, tools) = (turn.llm_calls.iter_mut(), turn.tool_calls.iter_mut());
        for extra in calls.map(|call| &mut call.extra).chain(tools.map(|call| &mut call.extra)) {
            map(extra, &mut |text, hint| named(text, hint));
        }
    }
    for turn in trace.segments.iter_mut().flat_map(|segment| &mut segment.turns) {
        if let Some(Value::String(id)) = turn.extra.get_mut("id") {
            *id = ids.replaced(id, Whose::Any).unwrap_or_else(|| std::mem::take(id));
        }
    }
    let mut replaced = |text: &str, _| {
        // What was put in the place of names above is no id of this trace, so nothing is replaced twice.
        let other = ids.replaced(text, Whose::Own);
        users.replaced(other.as_deref().unwrap_or(text)).or(other)
    };
    let n_turns_without_tokens = visit(trace, &mut replaced).n_turns_without_tokens;
    trace.metadata = metadata;
    trace.metadata.insert("split".into(), part.as_str().into());
    n_turns_without_tokens
}

/// The ids of a trace, and those in their place.
struct Ids<'k> {
    key: &'k Key,
    others: HashMap<[u8; 16], [u8; 16]>,
}

/// Which ids of a text are meant. One in somebody's words may be of an order or a file; one beside them is of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Any,
}

impl<'k> Ids<'k> {
    fn of(trace: &Trace, key: &'k Key) -> Self {
        let hidden = |kind: &str, id: &str| key.hidden(&format!("{kind} {id}"));
        let mut ids = Self { key, others: HashMap::new() };
        for reward in &trace.rewards {
            let other = RewardId::derived(&[&hidden("reward", &reward.id.to_string())]);
            ids.others.insert(reward.id.bytes(), other.bytes());
        }
        if let Some(run) = trace.run {
            ids.others.insert(run.bytes(), RunId::derived(&[&hidden("run", &run.to_string())]).bytes());
        }
        if let Some(group) = trace.group {
            ids.others.insert(group.bytes(), GroupId::derived(&[&hidden("group", &group.to_string())]).bytes());
        }
        ids.others.insert(trace.id.bytes(), ids.of_trace(trace.id));
        ids
    }

    fn of_trace(&self, id: TraceId) -> [u8; 16] {
        TraceId::derived(&[&self.key.hidden(&format!("trace {id}"))]).bytes()
    }

    /// What stands in the place of this id: one that is not of this trace is of another.
    fn other(&self, id: [u8; 16]) -> [u8; 16] {
        self.others.get(&id).copied().unwrap_or_else(|| self.of_trace(TraceId::from_bytes(id)))
    }

    /// What stands in the place of what names a trace, a span or a conversation, in a form like its own: those of OpenTelemetry are digits.
    fn named(&self, name: &str) -> String {
        match Found::at(name, 0).filter(|found| found.end == name.len()) {
            Some(found) => found.written(self.other(found.id)),
            None if name.len() == SPAN_ID_LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                self.key.hidden(&format!("span {}", name.to_lowercase()))[..SPAN_ID_LEN].to_owned()
            }
            None => self.key.user(name),
        }
    }

    /// The text with other ids, or nothing when there are none in it.
    fn replaced(&self, text: &str, whose: Whose) -> Option<String> {
        let (mut out, mut copied, mut at) = (String::new(), 0, 0);
        while let Some(found) = Found::next(text, at) {
            at = found.end;
            if !self.others.contains_key(&found.id) && (whose == Whose::Own || !found.is_id) {
                continue;
            }
            out.push_str(&text[copied..found.start]);
            out.push_str(&found.written(self.other(found.id)));
            // An answer is called by its trace and a few letters of its own, which tell it as well.
            let rest = &text[found.end..found.answer_end];
            if let Some(own) = rest.strip_prefix('-') {
                out.push('-');
                out.push_str(&self.key.hidden(&format!("answer {own}"))[..own.len().min(32)]);
            }
            (copied, at) = (found.answer_end, found.answer_end);
        }
        (copied > 0).then(|| out + &text[copied..])
    }
}

/// The digits of the id of a span.
const SPAN_ID_LEN: usize = 16;

/// What an answer is called before the id of its trace.
const ANSWERS: [&str; 4] = ["chatcmpl-", "cmpl-", "resp_", "msg_"];

/// Something in a text that has the form of an id: digits with dashes, or 32 digits without.
struct Found {
    id: [u8; 16],
    start: usize,
    end: usize,
    has_dashes: bool,
    /// Whether it is an id and no hash: it has dashes, or an answer is called by it.
    is_id: bool,
    /// The end of the name of an answer; that of the id where it is none.
    answer_end: usize,
}

impl Found {
    /// The first one from here on.
    fn next(text: &str, from: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let begins = |at: &usize| bytes[*at].is_ascii_hexdigit() && (*at == 0 || !bytes[*at - 1].is_ascii_alphanumeric());
        (from..bytes.len()).filter(begins).find_map(|at| Self::at(text, at))
    }

    fn at(text: &str, start: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let has_dashes = bytes.get(start + 8) == Some(&b'-');
        let end = start + if has_dashes { 36 } else { 32 };
        let id: TraceId = text.get(start..end)?.parse().ok()?;
        if bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        let is_answer = ANSWERS.iter().any(|kind| text[..start].ends_with(kind));
        let n_own = bytes[end..].iter().skip(1).take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let has_own = is_answer && bytes.get(end) == Some(&b'-') && n_own > 0;
        let answer_end = if has_own { end + 1 + n_own } else { end };
        Some(Self { id: id.bytes(), start, end, has_dashes, is_id: has_dashes || is_answer, answer_end })
    }

    /// Another id in the form of this one.
    fn written(&self, other: [u8; 16]) -> String {
        let id = TraceId::from_bytes(other).to_string();
        if self.has_dashes { id } else { id.replace('-', "") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::format;
    use hone_trace::format::Format;
    use serde_json::json;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
    const OTHER: &str = "01890a5d-ac96-774b-bcce-b302099a8099";

    fn trace() -> Trace {
        let bare = ID.replace('-', "");
        serde_json::from_value(json!({
            "v": 1,
            "id": ID,
            "tenant": "default",
            "started": "2026-03-14T15:09:26Z",
            "config": "00".repeat(32),
            "group": "01890a5d-ac96-774b-bcce-b302099a8061",
            "run": "01890a5d-ac96-774b-bcce-b302099a8062",
            "scenario": format!("desk/train/1/{ID}"),
            "segments": [{"turns": [{
                "input": [{"role": "user", "content": format!("What became of {bare}, file {OTHER}?")}],
                "answer": {
                    "role": "assistant", "content": format!("chatcmpl-{bare}-b7f0f61f456e65fd told it."),
                    "tool_calls": [{"id": "c1", "name": "look", "arguments": format!("{{\"trace\": \"{}\"}}", ID.to_uppercase())}],
                },
                "sampled": {"ids": [1, 2]},
                "extra": {
                    "id": format!("chatcmpl-{bare}-b7f0f61f456e65fd"),
                    "others": [{"answer": {"role": "assistant", "content": format!("resp_{bare}-b7f0f61f456e65fd_0")}}],
                },
            }]}],
            "rewards": [{
                "id": "01890a5d-ac96-774b-bcce-b302099a8063", "at": "2026-03-14T15:10:26Z", "total": 1.0,
                "by": {"kind": "check", "name": "solved"}, "explanation": "of run 01890a5d-ac96-774b-bcce-b302099a8062",
            }],
            "metadata": {"episode": OTHER, "hash": "d41d8cd98f00b204e9800998ecf8427e", ID: 1, "user": "u1"},
        }))
        .expect("a trace")
    }

    fn key() -> Key {
        Key::new([7; 32])
    }

    fn disguised(mut trace: Trace) -> (Trace, u64) {
        let n_turns = disguise(&mut trace, &key(), Split::Train, "metadata.user");
        (trace, n_turns)
    }

    #[test]
    fn no_original_id_is_anywhere_in_a_written_line() {
        let (trace, n_turns) = disguised(trace());
        let line = format::write(&trace, Format::Hone).to_lowercase();
        for n in 57..64 {
            let id = format!("01890a5d-ac96-774b-bcce-b302099a80{n}");
            assert!(!line.contains(&id) && !line.contains(&id.replace('-', "")), "{id} in {line}");
        }
        // The name of an answer can be looked up in the store as well.
        assert!(!line.contains("b7f0f61f456e65fd"), "{line}");
        assert_eq!((n_turns, &trace.segments[0].turns[0].sampled), (1, &None));
    }

    #[test]
    fn what_was_called_by_one_id_still_is() {
        let (one, _) = disguised(trace());
        let bare = one.id.to_string().replace('-', "");
        let turn = &one.segments[0].turns[0];
        assert!(turn.extra["id"].as_str().is_some_and(|id| id.starts_with(&format!("chatcmpl-{bare}-"))), "{turn:?}");
        assert_eq!(turn.answer.content.text(), format!("{} told it.", turn.extra["id"].as_str().unwrap_or_default()));
        assert!(turn.answer.tool_calls[0].arguments.contains(&one.id.to_string()), "{turn:?}");
        let (other, _) = disguised(Trace { id: OTHER.parse().expect("an id"), ..trace() });
        assert_eq!(one.metadata["episode"], other.id.to_string());
        assert_eq!(one.group, other.group);
    }

    #[test]
    fn spans_and_conversations_are_named_otherwise_wherever_they_are_named() {
        let (of_trace, of_span, session) = ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "sess-4711-abc");
        let span = json!({
            "traceId": of_trace, "spanId": of_span, "parentSpanId": "",
            "attributes": [
                {"key": "session.id", "value": {"stringValue": session}},
                {"key": "gen_ai.conversation.id", "value": {"stringValue": OTHER}},
                {"key": "order.id", "value": {"stringValue": session}},
            ],
        });
        let mut trace = trace();
        trace.segments[0].turns[0].llm_calls =
            vec![serde_json::from_value(json!({"extra": {"hone.span": span.clone()}})).expect("a call")];
        trace
            .metadata
            .insert("hone.spans".into(), json!([{"traceId": of_trace, "parentSpanId": of_span, "links": [{"spanId": of_span}]}]));
        trace.metadata.insert("conversation_id".into(), session.into());
        let (trace, _) = disguised(trace);
        let (other, spans) = (&trace.segments[0].turns[0].llm_calls[0].extra["hone.span"], &trace.metadata["hone.spans"][0]);
        let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        assert!(id(&other["traceId"]).len() == 32 && id(&other["traceId"]) != of_trace, "{other}");
        assert!(id(&other["spanId"]).len() == 16 && id(&other["spanId"]) != of_span, "{other}");
        assert_eq!((&other["traceId"], &other["spanId"]), (&spans["traceId"], &spans["parentSpanId"]));
        assert_eq!((&spans["links"][0]["spanId"], &other["parentSpanId"]), (&other["spanId"], &json!("")));
        let of_attribute = |idx: usize| &other["attributes"][idx]["value"]["stringValue"];
        assert_eq!((of_attribute(0), of_attribute(1)), (&trace.metadata["conversation_id"], &trace.metadata["episode"]));
        assert_ne!(of_attribute(0), session);
        assert_eq!(of_attribute(2), session, "an order is none of ours");
    }

    #[test]
    fn what_only_looks_like_an_id_stays() {
        let (trace, _) = disguised(trace());
        assert_eq!(trace.metadata["hash"], "d41d8cd98f00b204e9800998ecf8427e");
        assert!(trace.segments[0].turns[0].input[0].content.text().ends_with(&format!("file {OTHER}?")));
    }

    /// What becomes of this user, of whom metadata and a question speak.
    fn check(user: &Value, said: &str, expected: &str) {
        let mut trace = trace();
        trace.metadata["user"] = user.clone();
        trace.metadata.insert("session".into(), format!("s/{said}/1").into());
        trace.segments[0].turns[0].input[0] = hone_trace::Message::text(hone_trace::Role::User, format!("I am {said}, hello"));
        let (trace, _) = disguised(trace);
        let field = &trace.metadata["user"];
        assert!(!field.to_string().contains(said) && field.to_string().contains("ID-"), "{field}");
        let other = key().user(said);
        let expected = expected.replace("USER", &other);
        assert_eq!(trace.segments[0].turns[0].input[0].content.text(), format!("I am {expected}, hello"));
        assert_eq!(trace.metadata["session"], format!("s/{expected}/1"));
    }

    #[test]
    fn a_user_is_replaced_wherever_the_trace_names_it() {
        check(&json!("cust-9931"), "cust-9931", "USER");
        check(&json!(["x", "cust-9931"]), "cust-9931", "USER");
        check(&json!({"id": "cust-9931", "n": 3}), "cust-9931", "USER");
        check(&json!(-1_744_233), "-1744233", "USER");
        check(&json!(12_345_678.5), "12345678.5", "USER");
        // Others may mean something else.
        check(&json!("bob"), "bob", "bob");
        check(&json!("admin"), "admin", "admin");
        check(&json!(17), "17", "17");
    }
}
