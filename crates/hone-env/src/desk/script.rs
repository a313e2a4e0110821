//! Who plays the desk without a model: as well as it can be played, like an agent that shuns its tools, and at random.

use super::fault::Fault;
use super::query::Query;
use super::short;
use super::template::Template;
use super::ticket::Ticket;
use super::vocabulary::{Kind, Level, Slot, WORDS, Word};
use crate::Dialect;
use hone_trace::{Draws, Message};

/// Answers easy tickets from what is said. Otherwise asks for what is missing, makes the calls, tries again after a fault,
/// and copies what the last tool said.
pub(crate) struct Gold {
    pub(crate) dialect: Dialect,
    pub(crate) ticket: Ticket,
    pub(crate) truth: String,
    /// Whether it calls a tool also where it could do without.
    pub(crate) always_calls: bool,
    pub(crate) has_asked: bool,
    pub(crate) called: Option<Query>,
}

impl Gold {
    pub(crate) fn answer(&mut self, input: &[Message]) -> Message {
        if let (Some(slot), false) = (self.ticket.missing, self.has_asked) {
            self.has_asked = true;
            return self.dialect.ask(slot);
        }
        if self.ticket.level == Level::Easy && !self.always_calls {
            return self.dialect.answer(&self.truth);
        }
        let told = input.last().map(|message| message.content.text()).unwrap_or_default();
        let value = self.dialect.value(&told);
        let next = match self.called.take() {
            None => Some(self.ticket.query.clone()),
            Some(query) if Fault::is_told_in(&told) => Some(query),
            Some(query) if query == self.ticket.query => self.ticket.second(value),
            Some(_) => None,
        };
        match next {
            Some(query) => {
                let call = self.dialect.call(&query);
                self.called = Some(query);
                call
            }
            None => self.dialect.answer(value),
        }
    }
}

/// How an agent works before anything is trained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Habits {
    /// The share of hard tickets that it takes to its tools for.
    pub tool_share: f64,
    /// The share of its episodes that it opens with talk, where the dialect lets it.
    pub talk_share: f64,
}

/// Plays like gold, but takes to its tools only now and then: otherwise it answers a hard ticket with something that looks like
/// an answer. Before that it may talk.
pub(crate) fn shy(gold: Gold, habits: Habits, mut draws: Draws) -> impl FnMut(&[Message]) -> Message {
    let is_bold = draws.chance(habits.tool_share);
    let mut has_talk = gold.dialect == Dialect::Short && habits.talk_share > 0.0 && draws.chance(habits.talk_share);
    let mut acts = acting(gold, is_bold, draws);
    move |input| {
        let action = acts(input);
        if std::mem::take(&mut has_talk) { short::talking(action) } else { action }
    }
}

fn acting(mut gold: Gold, is_bold: bool, mut draws: Draws) -> impl FnMut(&[Message]) -> Message {
    move |input| {
        let waits_for_customer = gold.ticket.missing.is_some() && !gold.has_asked;
        if is_bold || gold.ticket.level == Level::Easy || waits_for_customer {
            return gold.answer(input);
        }
        gold.dialect.answer(&guess(&gold.truth, &mut draws))
    }
}

/// Something of the same form as the truth: other digits, or another word.
fn guess(truth: &str, draws: &mut Draws) -> String {
    if truth.bytes().any(|byte| byte.is_ascii_digit()) {
        let digit = |c: char| if c.is_ascii_digit() { char::from(b'1' + draws.below(9) as u8) } else { c };
        return truth.chars().map(digit).collect();
    }
    (*draws.pick(&WORDS)).to_owned()
}

/// Answers, asks or calls a tool with sensible arguments, by the dice.
pub(crate) fn random(dialect: Dialect, mut draws: Draws) -> impl FnMut(&[Message]) -> Message {
    move |_| match draws.below(4) {
        0 => {
            let (number, word) = (draws.between(0, 99).to_string(), *draws.pick(&WORDS));
            dialect.answer(if draws.chance(0.5) { &number } else { word })
        }
        1 => dialect.ask(*draws.pick(Slot::ALL)),
        _ => {
            let (kind, level) = (*draws.pick(Kind::ALL), *draws.pick(Level::ALL));
            let ticket = Template::draw(kind, level, &mut draws).fill(&mut draws);
            dialect.call(&ticket.query)
        }
    }
}
