//! A fact of the mailbox: the thread that tells it, and the questions that it answers.
//!
//! The value in a question's answer and the value in a mail are drawn once, here: the truth is never read out of a text.

use super::answer::{Answer, Kind};
use super::calendar::{Day, Moment};
use super::cast::Cast;
use super::mail::Thread;
use hone_trace::Draws;

/// What one thread tells.
pub(super) struct Fact {
    /// What makes it the only one of its kind; the family of its questions.
    pub(super) key: String,
    pub(super) thread: Thread,
    /// Words that every mail of the thread has.
    pub(super) keywords: Vec<String>,
    pub(super) questions: Vec<Question>,
}

/// A question about a fact.
pub(super) struct Question {
    /// What of the fact it asks for.
    pub(super) about: &'static str,
    pub(super) category: &'static str,
    /// Several ways to ask.
    pub(super) wordings: Vec<String>,
    pub(super) answer: Answer,
    /// The words of a mail that tells the answer.
    pub(super) telling: String,
    pub(super) difficulty: f64,
}

/// How hard a question is: a value that changed later is easily mistaken, and one that is nowhere is looked for in vain.
const EASY: f64 = 0.2;
const CHANGED: f64 = 0.6;
const NOWHERE: f64 = 0.8;

impl Question {
    pub(super) fn new(category: &'static str, about: &'static str, kind: Kind, text: &str, wordings: &[String]) -> Self {
        let answer = Answer::new(kind, text);
        Self { about, category, wordings: wordings.to_vec(), telling: answer.text.clone(), answer, difficulty: EASY }
    }

    /// A question that no mail answers.
    pub(super) fn unanswerable(about: &'static str, wordings: &[String]) -> Self {
        let answer = Answer::unknown();
        let wordings = wordings.to_vec();
        Self { about, category: "unanswerable", wordings, answer, telling: String::new(), difficulty: NOWHERE }
    }

    /// The mails that tell it have these words.
    pub(super) fn told_by(mut self, words: String) -> Self {
        self.telling = words;
        self
    }

    pub(super) fn changed(mut self, has_changed: bool) -> Self {
        self.difficulty = if has_changed { CHANGED } else { self.difficulty };
        self
    }
}

/// What a fact is drawn from.
pub(super) struct Drawing<'a> {
    pub(super) draws: Draws,
    pub(super) cast: &'a Cast,
}

impl Drawing<'_> {
    pub(super) fn project(&mut self) -> &'static str {
        self.draws.pick::<&str>(&self.cast.projects)
    }

    /// When a thread begins: in the working hours of a working day.
    pub(super) fn opening(&mut self) -> Moment {
        let day = Day(self.draws.between(1, 320)).workday();
        day.at(self.draws.between(7 * 60, 18 * 60))
    }

    /// When a mail of this time is answered.
    pub(super) fn after(&mut self, moment: Moment) -> Moment {
        if self.draws.chance(0.4) {
            return Moment(moment.0 + self.draws.between(9, 200));
        }
        let day = Day(moment.day().0 + self.draws.between(1, 3)).workday();
        day.at(self.draws.between(7 * 60, 18 * 60))
    }

    /// A working day this long after another.
    pub(super) fn day_after(&mut self, day: Day, from: i64, to: i64) -> Day {
        Day(day.0 + self.draws.between(from, to)).workday()
    }

    /// One that is not this one.
    pub(super) fn other(&mut self, items: &[&'static str], not: &str) -> &'static str {
        let rest: Vec<&'static str> = items.iter().copied().filter(|item| *item != not).collect();
        self.draws.pick::<&str>(&rest)
    }

    /// How a thread may go on without telling anything.
    pub(super) fn thanks(&mut self) -> &'static str {
        self.draws.pick::<&str>(&[
            "Thanks, noted.",
            "Great, thank you. I have put it into my calendar.",
            "Thank you, that works for me.",
            "Understood. I will pass it on to the others on the team.",
            "Thanks for the quick update, much appreciated.",
        ])
    }
}

/// Words as part of a key.
pub(super) fn slug(words: &str) -> String {
    words.to_lowercase().replace([' ', '.'], "-")
}

/// An amount as vendors write it: `EUR 1,234.50`.
pub(super) fn euros(cents: i64) -> String {
    let (whole, cents) = (cents / 100, cents % 100);
    let whole = if whole >= 1000 { format!("{},{:03}", whole / 1000, whole % 1000) } else { whole.to_string() };
    format!("EUR {whole}.{cents:02}")
}
