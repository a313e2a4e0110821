//! The desk: an agent answers customers with the help of tools.
//!
//! Six categories of tickets: arithmetic, unit conversion, dates, orders, words, and policies that take two look-ups. In each,
//! easy tickets can be answered from what is said and hard ones cannot. Some lack a fact that only the customer knows. Tools
//! fail now and then, at most once in an episode, and say so. An answer is right or wrong; there is nothing in between.
//! The same scenarios are spoken in two dialects: [`Dialect::Natural`] for large models, [`Dialect::Short`] for small ones.
//!
//! Signals: `format` (the action could be read), `tool_ok` (every call of this step worked), `needed` (how many of its calls told
//! what the ticket cannot be answered without, and no call had told before), `asked` (1 when the customer had something to tell),
//! and at the end `correct`.
//!
//! Knows nothing of models or rewards.

// The macro that makes enums of words comes first.
#[macro_use]
mod vocabulary;

mod answer;
mod arguments;
mod calculator;
mod date;
mod dialect;
mod episode;
mod exact;
mod fault;
mod generate;
mod natural;
mod query;
mod record;
mod request;
mod script;
mod short;
mod template;
mod ticket;
mod unit;

pub use episode::N_ANSWERS_MAX;
pub use script::Habits;

use crate::{Dialect, Scripted};
use hone_trace::env::{Env, EnvError, Reset, Signals, Split};
use hone_trace::policy::Conversation;
use hone_trace::{Draws, Message, Role, Scenario, ScenarioId, ToolSpec};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many variations are tried to find one with other numbers.
const N_VARIATIONS_MAX: usize = 20;

/// What can be chosen about the desk.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeskOptions {
    /// How it is spoken to.
    pub dialect: Dialect,
    /// How likely a tool call fails that would have worked, from 0 to 1. At most one in an episode does.
    pub fault_rate: f64,
}

impl Default for DeskOptions {
    fn default() -> Self {
        Self { dialect: Dialect::Natural, fault_rate: 0.05 }
    }
}

/// The world `desk`.
#[derive(Debug, Clone)]
pub struct Desk {
    options: DeskOptions,
    tools: Arc<[ToolSpec]>,
}

impl Desk {
    /// A desk with these options.
    pub fn new(options: DeskOptions) -> Result<Self, EnvError> {
        if !(0.0..=1.0).contains(&options.fault_rate) {
            let reason = format!("{} is not between 0 and 1", options.fault_rate);
            return Err(EnvError::Data { place: "desk.fault_rate".into(), reason });
        }
        let tools = match options.dialect {
            Dialect::Natural => natural::tools().into(),
            Dialect::Short => Arc::default(),
        };
        Ok(Self { options, tools })
    }

    /// The scenario that an id fixes.
    pub fn scenario(&self, id: &ScenarioId) -> Result<Scenario, EnvError> {
        let damaged = || EnvError::Scenario { scenario: id.to_string(), reason: "it is not of the form desk/train/1/17".into() };
        generate::Place::read(id.as_str()).ok_or_else(damaged)?.scenario()
    }

    /// Every word of the short dialect, sorted. Besides, it is made of digits and the marks `+ - * / = .`.
    pub fn words() -> Vec<&'static str> {
        use vocabulary::{CITIES, Field, GOODS, NAMES, Operation, PHRASES, STATUSES, Slot, Topic, Verb, WORDS, Word};
        const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
        let lists: [&[&str]; 14] = [
            Field::WORDS,
            Topic::WORDS,
            Operation::WORDS,
            Slot::WORDS,
            Verb::WORDS,
            unit::Unit::WORDS,
            fault::Fault::WORDS,
            date::Date::weekdays(),
            &query::ARGUMENTS,
            &STATUSES,
            &CITIES,
            &NAMES,
            &WORDS,
            &PHRASES,
        ];
        let goods = GOODS.iter().flat_map(|(category, items)| items.iter().chain([category]));
        let letters = (0..LETTERS.len()).map(|idx| &LETTERS[idx..=idx]);
        let words: BTreeSet<&str> = lists.into_iter().flatten().chain(goods).copied().chain(letters).collect();
        words.into_iter().collect()
    }

    /// Texts to build a small vocabulary from: every word once at the start of a line and once after a space, then `n` gold
    /// episodes of the training split, each message under its role.
    pub fn corpus(&self, seed: u64, n: usize) -> Result<Vec<String>, EnvError> {
        let words = Self::words();
        let mut texts = vec![words.join("\n"), words.join(" ")];
        for scenario in self.scenarios(Split::Train, seed, n)? {
            texts.push(self.gold_text(&scenario, seed)?);
        }
        Ok(texts)
    }

    /// Whether a ticket cannot be answered from what is said.
    pub fn needs_tool(&self, scenario: &Scenario) -> Result<bool, EnvError> {
        Ok(generate::ticket(scenario)?.0.level == vocabulary::Level::Hard)
    }

    /// A page of the agent's manual: how a ticket is done with tools, also one that can be answered without.
    pub fn manual(&self, scenario: &Scenario) -> Result<Box<dyn Conversation>, EnvError> {
        let mut player = self.gold_player(scenario)?;
        player.always_calls = true;
        Ok(Box::new(Scripted(move |input: &[Message]| player.answer(input))))
    }

    /// What an agent that talks says before it acts, in the short dialect.
    pub const TALK: &'static str = short::TALK;

    /// Who plays like an agent of these habits: what it does not take to its tools for is answered with a guess. What a team's
    /// traces look like before anything is trained.
    pub fn shy(&self, scenario: &Scenario, habits: Habits, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let draws = Draws::new(seed, &["desk", "shy", scenario.id.as_str()]);
        Ok(Box::new(Scripted(script::shy(self.gold_player(scenario)?, habits, draws))))
    }

    fn gold_text(&self, scenario: &Scenario, seed: u64) -> Result<String, EnvError> {
        let mut gold = self.gold_player(scenario)?;
        let Reset { mut episode, messages: mut input, .. } = self.reset(scenario, seed)?;
        let mut text = String::new();
        loop {
            let action = gold.answer(&input);
            input.iter().chain([&action]).for_each(|message| tell(message, &mut text));
            let step = episode.step(&action)?;
            if step.done.is_some() {
                return Ok(text);
            }
            input = step.messages;
        }
    }

    fn gold_player(&self, scenario: &Scenario) -> Result<script::Gold, EnvError> {
        let (ticket, truth) = generate::ticket(scenario)?;
        let dialect = self.options.dialect;
        Ok(script::Gold { dialect, ticket, truth, always_calls: false, has_asked: false, called: None })
    }
}

fn tell(message: &Message, text: &mut String) {
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    text.push_str(role);
    text.push('\n');
    text.push_str(&message.content.text());
    for call in &message.tool_calls {
        text.push_str(&format!("{} {}", call.name, call.arguments));
    }
    text.push('\n');
}

impl Env for Desk {
    fn name(&self) -> &str {
        "desk"
    }

    fn scenarios(&self, split: Split, seed: u64, n: usize) -> Result<Vec<Scenario>, EnvError> {
        (0..n).map(|index| generate::Place { split, seed, index, variation: None }.scenario()).collect()
    }

    fn reset(&self, scenario: &Scenario, seed: u64) -> Result<Reset, EnvError> {
        let (ticket, truth) = generate::ticket(scenario)?;
        let dialect = self.options.dialect;
        let messages = dialect.opening(&ticket);
        let luck = fault::Luck::new(seed, scenario.id.as_str(), self.options.fault_rate);
        let episode =
            Box::new(episode::Episode { dialect, ticket, truth, luck, is_told: [false; 2], n_answers: 0, is_over: false });
        Ok(Reset { episode, tools: Arc::clone(&self.tools), messages })
    }

    fn gold(&self, scenario: &Scenario, _seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let mut gold = self.gold_player(scenario)?;
        Ok(Box::new(Scripted(move |input: &[Message]| gold.answer(input))))
    }

    fn random(&self, scenario: &Scenario, seed: u64) -> Result<Box<dyn Conversation>, EnvError> {
        let draws = Draws::new(seed, &["desk", "random", scenario.id.as_str()]);
        Ok(Box::new(Scripted(script::random(self.options.dialect, draws))))
    }

    fn best(&self, _scenario: &Scenario) -> Signals {
        Signals::from([("format", 1.0), ("correct", 1.0)])
    }

    fn vary(&self, scenario: &Scenario, seed: u64) -> Option<Scenario> {
        let place = generate::Place::read(scenario.id.as_str())?;
        let mut draws = Draws::new(seed, &["desk", "vary", scenario.id.as_str()]);
        let mut variations = (0..N_VARIATIONS_MAX).filter_map(|_| place.variation(draws.bits()).scenario().ok());
        variations.find(|other| other.family != scenario.family)
    }
}
