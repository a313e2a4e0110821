//! The user of a trace, who is named in more than one place: in a session, in the address of a page, in what somebody said.

use crate::anonymise::{Key, pseudonym};
use crate::facts::user_path;
use hone_trace::Trace;
use serde_json::Value;

/// Who the user of a trace is, in all that its field holds.
pub(super) struct Users(Vec<(String, String)>);

/// So long is what names nobody but a user, in bytes. Shorter ones are replaced in their field alone.
const USER_LEN_MIN: usize = 5;

impl Users {
    /// Puts pseudonyms in the place of the user, and keeps in mind what stood there.
    pub(super) fn of(trace: &mut Trace, key: &Key, field: &str) -> Self {
        let (mut users, mut parts) = (Self(Vec::new()), user_path(field));
        let first = parts.next().and_then(|part| trace.metadata.get_mut(part));
        if let Some(user) = first.and_then(|first| parts.try_fold(first, |value, part| value.get_mut(part))) {
            users.take(user, key);
        }
        users.0.retain(|(name, _)| name.len() >= USER_LEN_MIN && !is_role(name) && !pseudonym::is_whole(name));
        // A name may be part of another.
        users.0.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        users
    }

    fn take(&mut self, value: &mut Value, key: &Key) {
        let name = match value {
            Value::Null | Value::Bool(_) => return,
            Value::String(name) => name.clone(),
            Value::Number(number) => number.to_string(),
            Value::Array(items) => return items.iter_mut().for_each(|item| self.take(item, key)),
            Value::Object(fields) => return fields.values_mut().for_each(|field| self.take(field, key)),
        };
        let other = key.user(&name);
        *value = Value::String(other.clone());
        self.0.push((name, other));
    }

    /// The text with pseudonyms in the place of users, or nothing when none is named in it.
    pub(super) fn replaced(&self, text: &str) -> Option<String> {
        let mut replaced = None;
        for (name, other) in &self.0 {
            let text = replaced.as_deref().unwrap_or(text);
            replaced = with_word(text, name, other).or(replaced);
        }
        replaced
    }
}

/// Whether this is what many users are called: a word, and nobody's.
fn is_role(name: &str) -> bool {
    const ROLES: &[&str] = &[
        "admin",
        "administrator",
        "agent",
        "anonymous",
        "client",
        "customer",
        "default",
        "guest",
        "human",
        "member",
        "owner",
        "person",
        "student",
        "support",
        "system",
        "tester",
        "unknown",
    ];
    ROLES.iter().any(|role| name.eq_ignore_ascii_case(role))
}

/// The text with this word replaced wherever it stands for itself, in whatever case.
fn with_word(text: &str, word: &str, other: &str) -> Option<String> {
    let (lower, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let is_free = |sign: Option<char>| sign.is_none_or(|sign| !sign.is_alphanumeric());
    let (mut out, mut copied) = (String::new(), 0);
    for (at, _) in lower.match_indices(&word) {
        let end = at + word.len();
        if is_free(text[..at].chars().next_back()) && is_free(text[end..].chars().next()) {
            out.push_str(&text[copied..at]);
            out.push_str(other);
            copied = end;
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_itself_is_replaced() {
        let other = |text: &str| with_word(text, "cust-9931", "ID");
        assert_eq!(other("CUST-9931, cust-9931/x").as_deref(), Some("ID, ID/x"));
        assert_eq!(other("cust-99311 xcust-9931"), None);
    }
}
