//! Scripts: policies that say what they were told to say, for tests and for users who want to see a world at work.
//!
//! [`Script`] says a list of answers in order. [`Function`] computes each answer from the conversation so far.

use hone_trace::policy::{AnswerLimits, Answered, Conversation, Opening, Policy, PolicyError, PolicyErrorKind};
use hone_trace::{Config, DataHash, Message, Role};
use serde::Deserialize;
use std::sync::Arc;

/// The most answers of a script.
const N_ANSWERS_MAX: usize = 100_000;

/// What a script does when all its answers are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLast {
    /// It says the last one again.
    Repeat,
    /// It gives no answer any more.
    Fail,
}

/// Says a list of answers in order; every conversation begins at the first.
#[derive(Debug, Clone)]
pub struct Script {
    answers: Arc<[Message]>,
    after: AfterLast,
    config: Config,
}

/// Why a text is not a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// A line is not an answer.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to say.
    #[error("the script has no answer; write one JSON text or message per line")]
    Empty,
    /// There is too much to say.
    #[error("the script has more than {N_ANSWERS_MAX} answers")]
    TooLong,
}

impl Script {
    /// A script of these answers.
    pub fn new(name: &str, answers: Vec<Message>, after: AfterLast) -> Result<Self, ScriptError> {
        match answers.len() {
            0 => return Err(ScriptError::Empty),
            n_answers if n_answers > N_ANSWERS_MAX => return Err(ScriptError::TooLong),
            _ => {}
        }
        let mut config = named(name);
        let hash = DataHash::of(&serde_json::to_vec(&answers).expect("a message has string keys"));
        config.settings.insert("answers".into(), hash.to_string().into());
        config.settings.insert("repeats_last".into(), (after == AfterLast::Repeat).into());
        Ok(Self { answers: answers.into(), after, config })
    }

    /// Reads one answer per line: a JSON text, or a message of the assistant.
    pub fn parse(name: &str, jsonl: &str, after: AfterLast) -> Result<Self, ScriptError> {
        let lines = hone_trace::lines::of_text(jsonl).take(N_ANSWERS_MAX + 1);
        let answers: Result<_, _> = lines.map(|(line, text)| read(line, text)).collect();
        Self::new(name, answers?, after)
    }
}

fn read(line: usize, text: &str) -> Result<Message, ScriptError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Line {
        Text(String),
        Message(Box<Message>),
    }
    let failed = |reason: &str| ScriptError::Line { line, reason: reason.into() };
    match serde_json::from_str(text) {
        Ok(Line::Text(text)) => Ok(Message::text(Role::Assistant, text)),
        Ok(Line::Message(message)) if message.role == Role::Assistant => Ok(*message),
        Ok(Line::Message(_)) => Err(failed("a script holds answers: the role must be `assistant`")),
        Err(_) => Err(failed("neither a JSON text nor a message such as {\"role\": \"assistant\", \"content\": \"…\"}")),
    }
}

impl Policy for Script {
    fn config(&self) -> &Config {
        &self.config
    }

    fn open(&self, _opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        Ok(Box::new(Recital { answers: Arc::clone(&self.answers), after: self.after, next_idx: 0 }))
    }
}

struct Recital {
    answers: Arc<[Message]>,
    after: AfterLast,
    next_idx: usize,
}

impl Conversation for Recital {
    fn answer(&mut self, _input: &[Message], _limits: AnswerLimits) -> Result<Answered, PolicyError> {
        let answer = match self.after {
            AfterLast::Repeat => self.answers.get(self.next_idx).or(self.answers.last()),
            AfterLast::Fail => self.answers.get(self.next_idx),
        };
        self.next_idx += 1;
        answer.cloned().map(Answered::of).ok_or_else(|| PolicyError {
            kind: PolicyErrorKind::Refused,
            message: format!("the script has {} answers and was asked for one more", self.answers.len()),
            llm_calls: Vec::new(),
        })
    }
}

/// Computes each answer from the opening and the whole conversation so far.
pub struct Function<F> {
    config: Config,
    answer: Arc<F>,
}

impl<F: Fn(&Opening, &[Message]) -> Result<Answered, PolicyError> + Send + Sync + 'static> Function<F> {
    /// A policy of this function. What shapes it cannot be seen from outside: give it a name that says so.
    pub fn new(name: &str, answer: F) -> Self {
        Self { config: named(name), answer: Arc::new(answer) }
    }
}

impl<F: Fn(&Opening, &[Message]) -> Result<Answered, PolicyError> + Send + Sync + 'static> Policy for Function<F> {
    fn config(&self) -> &Config {
        &self.config
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Conversation>, PolicyError> {
        let (opening, messages) = (opening.clone(), Vec::new());
        Ok(Box::new(Computed { answer: Arc::clone(&self.answer), opening, messages }))
    }
}

struct Computed<F> {
    answer: Arc<F>,
    opening: Opening,
    messages: Vec<Message>,
}

impl<F: Fn(&Opening, &[Message]) -> Result<Answered, PolicyError> + Send + Sync> Conversation for Computed<F> {
    fn answer(&mut self, input: &[Message], _limits: AnswerLimits) -> Result<Answered, PolicyError> {
        self.messages.extend_from_slice(input);
        let answered = (self.answer)(&self.opening, &self.messages)?;
        self.messages.push(answered.message.clone());
        Ok(answered)
    }
}

fn named(name: &str) -> Config {
    Config { model: Some(format!("script:{name}")), ..Config::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(policy: &dyn Policy, n: usize) -> Vec<String> {
        let mut conversation = policy.open(&Opening::default()).unwrap();
        let mut ask = || match conversation.answer(&[Message::text(Role::User, "?")], AnswerLimits::default()) {
            Ok(answered) => answered.message.content.text(),
            Err(error) => error.to_string(),
        };
        (0..n).map(|_| ask()).collect()
    }

    #[test]
    fn answers_come_in_order_and_the_last_repeats_or_ends() {
        let script = |after| Script::parse("s", "\"one\"\n\n{\"role\":\"assistant\",\"content\":\"two\"}\n", after).unwrap();
        assert_eq!(said(&script(AfterLast::Repeat), 4), ["one", "two", "two", "two"]);
        let ending = said(&script(AfterLast::Fail), 3);
        assert_eq!(ending[..2], ["one", "two"]);
        assert_eq!(ending[2], "policy_refused: the script has 2 answers and was asked for one more");
        assert_eq!(said(&script(AfterLast::Repeat), 1), ["one"], "every conversation begins at the first");
    }

    #[test]
    fn what_is_no_script_is_refused_by_its_line() {
        let check = |text: &str, part: &str| {
            let error = Script::parse("s", text, AfterLast::Fail).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("", "no answer");
        check("\"ok\"\n{\"role\":\"user\",\"content\":\"x\"}", "line 2: a script holds answers");
        check("not json", "line 1");
    }

    #[test]
    fn the_config_says_what_is_said() {
        let hash = |text: &str| Script::parse("s", text, AfterLast::Repeat).unwrap().config().hash();
        assert_eq!(hash("\"a\""), hash("\n\"a\"\n"));
        assert_ne!(hash("\"a\""), hash("\"b\""));
    }

    #[test]
    fn a_function_sees_the_whole_conversation() {
        let policy = Function::new("count", |opening: &Opening, messages: &[Message]| {
            Ok(Answered::of(Message::text(Role::Assistant, format!("{} {}", opening.seed, messages.len()))))
        });
        assert_eq!(said(&policy, 3), ["0 1", "0 3", "0 5"]);
    }
}
