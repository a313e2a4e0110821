//! The type of task of an episode, by rules: the first whose words the conversation has.
//!
//! What the client says in a header comes before any rule.

use hone_trace::{Category, Message, Role};

/// A type of task, and the words that tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRule {
    /// The type of task.
    pub task: Category,
    /// Words or phrases, any of which will do; upper and lower case are the same.
    pub words: Vec<String>,
}

/// The type of task of a conversation: by what its user said first.
pub(crate) fn task_of<'a>(rules: &'a [TaskRule], messages: &[Message]) -> Option<&'a str> {
    if rules.is_empty() {
        return None;
    }
    let said = messages.iter().find(|message| message.role == Role::User)?.content.text().to_lowercase();
    let has = |rule: &&TaskRule| rule.words.iter().any(|word| said.contains(&word.to_lowercase()));
    rules.iter().find(has).map(|rule| rule.task.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[(Role, &str)], expected: Option<&str>) {
        let rule = |task: &str, words: &[&str]| TaskRule {
            task: Category::new(task).unwrap(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let rules = [rule("refund", &["money back", "Refund"]), rule("code", &["fn ", "def "])];
        let messages: Vec<Message> = said.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        assert_eq!(task_of(&rules, &messages), expected, "{said:?}");
    }

    #[test]
    fn the_first_rule_that_fits_the_first_question_counts() {
        check(&[(Role::User, "I want my MONEY BACK")], Some("refund"));
        check(&[(Role::System, "refund nobody"), (Role::User, "what does fn do")], Some("code"));
        check(&[(Role::User, "hello"), (Role::Assistant, "refund?"), (Role::User, "refund!")], None);
        check(&[], None);
    }
}
