//! Scripts that play: one that knows where to look, and one that tries anything.

use super::Truth;
use super::answer::{Kind, UNKNOWN};
use super::cast::Cast;
use super::mailbox::id;
use super::tools::{ANSWER, READ, SEARCH};
use crate::{Scripted, call};
use hone_trace::policy::Conversation;
use hone_trace::{Draws, Message};
use serde_json::json;
use std::sync::Arc;

/// What anything is tried with.
pub(super) struct Wild {
    pub(super) cast: Cast,
    pub(super) n_mails: usize,
}

/// Searches for the fact (again with the day, when the list is too long to show it), reads the mail that tells it last, and
/// answers. What no mail tells is looked for, too.
pub(super) fn gold(truth: Truth) -> Box<dyn Conversation> {
    let (mut n_answers, mut has_read) = (0, false);
    Box::new(Scripted(move |input: &[Message]| {
        n_answers += 1;
        let to_read = truth.sources.last().or(truth.thread.last());
        let is_listed = |id: &str| input.iter().any(|message| message.content.text().contains(&format!("{id:?}")));
        match to_read {
            _ if n_answers == 1 => call(SEARCH, &json!({ "keywords": truth.keywords })),
            Some(id) if n_answers == 2 && !is_listed(id) => {
                call(SEARCH, &json!({ "keywords": truth.keywords, "sent_after": truth.day, "sent_before": truth.day }))
            }
            Some(id) if !has_read => {
                has_read = true;
                call(READ, &json!({ "message_id": id }))
            }
            _ if truth.answer.kind == Kind::Unknown => call(ANSWER, &json!({ "answer": UNKNOWN, "sources": [] })),
            _ => call(ANSWER, &json!({ "answer": truth.answer.text, "sources": [to_read] })),
        }
    }))
}

/// Searches for, reads and answers whatever comes to mind.
pub(super) fn random(wild: Arc<Wild>, mut draws: Draws) -> Box<dyn Conversation> {
    Box::new(Scripted(move |_: &[Message]| {
        let (cast, draws) = (&wild.cast, &mut draws);
        let any_id = |draws: &mut Draws| id(draws.below(wild.n_mails) as i64);
        match draws.below(10) {
            0..5 => {
                let topics = [*draws.pick(&cast.projects), draws.pick(&cast.vendors).name, "invoice", "room", "due", "flight"];
                call(SEARCH, &json!({ "keywords": [draws.pick(&topics)], "max_results": draws.between(1, 10) }))
            }
            5..8 => call(READ, &json!({ "message_id": any_id(draws) })),
            _ => {
                let answer = match draws.below(4) {
                    0 => UNKNOWN.to_owned(),
                    1 => draws.between(1, 5000).to_string(),
                    2 => cast.colleague(draws).to_string(),
                    _ => format!("2025-{:02}-{:02}", draws.between(1, 12), draws.between(1, 28)),
                };
                call(ANSWER, &json!({ "answer": answer, "sources": [any_id(draws)] }))
            }
        }
    }))
}
