//! `inbox`: an agent that answers questions about a mailbox.
//!
//! A mailbox of thousands of mails is generated from a seed of its own, so that all episodes share it: facts first (an invoice
//! and its total, a meeting and its room), then the threads that tell them, then chatter around them. A question asks for one
//! value of one fact. The agent searches, reads and returns an answer with its sources; what no mail says is rightly answered
//! with "I don't know", and to say so in vain is still better than to be wrong.
//!
//! Signals: `correct`, `unknown` and `wrong` say what the answer was (at most one of them is 1; a rightful "I don't know" is
//! `correct`); `sources_right` that a given source tells the answer and none is about something else; `found` that such a
//! mail was read; `format` that every action so far was well formed.
//!
//! Knows nothing of rewards, and never reads the truth out of a mail.

mod answer;
mod calendar;
mod cast;
mod chatter;
mod corpus;
mod episode;
mod fact;
mod kinds;
mod mail;
mod mailbox;
mod players;
mod tools;

use answer::{Answer, Kind};
use corpus::{Asked, Corpus};
use episode::Episode;
use hone_trace::env::{Env, EnvError, Reset, Signals, Split};
use hone_trace::policy::Conversation;
use hone_trace::{Category, Draws, Family, Message, Role, Scenario, ScenarioId, ToolSpec, V1};
use mailbox::Mailbox;
use players::Wild;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The fewest mails of a mailbox: enough for every kind of question.
pub const MAILS_MIN: usize = 200;
/// The most mails of a mailbox.
pub const MAILS_MAX: usize = 50_000;

/// Which mailbox it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InboxOptions {
    /// What the mails are drawn from. Not the seed of scenarios or episodes: they share the mailbox.
    pub corpus_seed: u64,
    /// How many mails there are.
    pub n_mails: usize,
}

impl Default for InboxOptions {
    fn default() -> Self {
        Self { corpus_seed: 1, n_mails: 3000 }
    }
}

/// The world.
pub struct Inbox {
    /// What tells this mailbox from others.
    label: String,
    mailbox: Arc<Mailbox>,
    questions: Vec<Asked>,
    instructions: String,
    tools: Arc<[ToolSpec]>,
    wild: Arc<Wild>,
}

/// What a scenario starts from.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    mailbox: String,
    question: String,
}

/// What only the world knows.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    answer: Answer,
    /// The mails that tell it.
    sources: Vec<String>,
    /// All mails about the fact, oldest first.
    thread: Vec<String>,
    /// What finds them.
    keywords: Vec<String>,
    /// When the last mail that tells it was sent, or else the last of the thread.
    day: Option<String>,
}

impl Inbox {
    /// Writes the mails and indexes them.
    pub fn new(options: InboxOptions) -> Result<Self, EnvError> {
        let data = |reason: String| EnvError::Data { place: "inbox".into(), reason };
        let InboxOptions { corpus_seed, n_mails } = options;
        if !(MAILS_MIN..=MAILS_MAX).contains(&n_mails) {
            return Err(data(format!("a mailbox has {MAILS_MIN} to {MAILS_MAX} mails, not {n_mails}")));
        }
        let corpus = Corpus::draw(corpus_seed, n_mails);
        let mailbox = Mailbox::new(&corpus.mails).map_err(|error| data(format!("the mails were not indexed: {error}")))?;
        Ok(Self {
            label: format!("{n_mails}-{corpus_seed}"),
            mailbox: Arc::new(mailbox),
            instructions: tools::instructions(&corpus.cast.owner.to_string()),
            tools: tools::specs().into(),
            wild: Arc::new(Wild { cast: corpus.cast, n_mails }),
            questions: corpus.questions,
        })
    }

    /// The side of the split that all questions about a fact are on.
    fn split(&self, family: &str) -> Split {
        match Draws::new(0, &["inbox", "split", &self.label, family]).below(10) {
            0 => Split::Validation,
            1 => Split::Test,
            _ => Split::Train,
        }
    }

    fn scenario(&self, asked: &Asked, seed: u64) -> Result<Scenario, EnvError> {
        let wording_idx = Draws::new(seed, &["inbox", "wording", &asked.family, asked.about]).below(asked.wordings.len());
        let id = format!("inbox/{}/{}/{}/{wording_idx}", self.label, asked.family, asked.about);
        let broken = |error: &dyn std::fmt::Display| EnvError::Broken(format!("scenario {id}: {error}"));
        let ids = |idxs: &[usize]| idxs.iter().map(|&idx| mailbox::id(idx as i64)).collect();
        let input = Input { mailbox: self.label.clone(), question: asked.wordings[wording_idx].clone() };
        let truth = Truth {
            answer: asked.answer.clone(),
            sources: ids(&asked.source_idxs),
            thread: ids(&asked.thread_idxs),
            keywords: asked.keywords.clone(),
            day: asked.day.map(|day| day.iso()),
        };
        Ok(Scenario {
            v: V1,
            category: Category::new(asked.category).map_err(|error| broken(&error))?,
            input: serde_json::to_value(input).map_err(|error| broken(&error))?,
            truth: Some(serde_json::to_value(truth).map_err(|error| broken(&error))?),
            difficulty: Some(asked.difficulty),
            family: Family::new(&asked.family).map_err(|error| broken(&error))?,
            id: ScenarioId::new(&id).map_err(|error| broken(&error))?,
        })
    }

    fn read(&self, scenario: &Scenario) -> Result<(Input, Truth), EnvError> {
        let damaged = |reason: String| EnvError::Scenario { scenario: scenario.id.to_string(), reason };
        let input = Input::deserialize(&scenario.input).map_err(|error| damaged(format!("its input is damaged: {error}")))?;
        if input.mailbox != self.label {
            return Err(damaged(format!("it asks about mailbox {}, and this is {}", input.mailbox, self.label)));
        }
        let truth = scenario.truth.as_ref().ok_or_else(|| damaged("it has no truth".into()))?;
        let truth = Truth::deserialize(truth).map_err(|error| damaged(format!("its truth is damaged: {error}")))?;
        Ok((input, truth))
    }
}

impl Env for Inbox {
    fn name(&self) -> &str {
        "inbox"
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        let mut questions: Vec<&Asked> = self.questions.iter().filter(|asked| self.split(&asked.family) == split).collect();
        Draws::new(seed, &["inbox", "order", split.as_str()]).shuffle(&mut questions);
        questions.into_iter().take(n).map(|asked| self.scenario(asked, seed)).collect()
    }

    fn reset(&self, scenario: &Scenario, _seed: u64) -> Result<Reset, EnvError> {
        let (input, truth) = self.read(scenario)?;
        Ok(Reset {
            episode: Box::new(Episode::new(Arc::clone(&self.mailbox), truth)),
            tools: Arc::clone(&self.tools),
            messages: vec![Message::text(Role::System, self.instructions.as_str()), Message::text(Role::User, input.question)],
        })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        Ok(players::gold(self.read(scenario)?.1))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        Ok(players::random(Arc::clone(&self.wild), Draws::new(seed, &["inbox", "random", scenario.id.as_str()])))
    }

    fn best(&self, scenario: &Scenario) -> Signals {
        let is_told = self.read(scenario).is_ok_and(|(_, truth)| truth.answer.kind != Kind::Unknown);
        let found = if is_told { 1.0 } else { 0.0 };
        Signals::from([
            ("correct", 1.0),
            ("unknown", 0.0),
            ("wrong", 0.0),
            ("sources_right", 1.0),
            ("found", found),
            ("format", 1.0),
        ])
    }
}
