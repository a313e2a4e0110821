//! A whole mailbox before it goes into the database: mails in the order of time, and the questions that they answer.

use super::answer::Answer;
use super::calendar::Day;
use super::cast::Cast;
use super::chatter::chatter;
use super::fact::{Drawing, Fact, Question};
use super::kinds;
use super::mail::Mail;
use hone_trace::Draws;
use std::collections::BTreeSet;

/// Mails and questions.
pub(super) struct Corpus {
    pub(super) cast: Cast,
    /// Oldest first; a mail's id is its place here.
    pub(super) mails: Vec<Mail>,
    pub(super) questions: Vec<Asked>,
}

/// A question with the mails that answer it.
pub(super) struct Asked {
    /// The fact that it is about.
    pub(super) family: String,
    pub(super) about: &'static str,
    pub(super) category: &'static str,
    pub(super) wordings: Vec<String>,
    pub(super) difficulty: f64,
    pub(super) answer: Answer,
    pub(super) keywords: Vec<String>,
    /// The mails that tell the answer.
    pub(super) source_idxs: Vec<usize>,
    /// All mails about the fact.
    pub(super) thread_idxs: Vec<usize>,
    /// When the last mail that tells the answer was sent, or else the last of the thread.
    pub(super) day: Option<Day>,
}

/// The share of mails that tell a fact.
const TELLING_SHARE: f64 = 0.65;
/// Facts for each one that is asked for and never came.
const FACTS_PER_MISSING: usize = 16;
/// How often a fact is drawn anew because there is one of its key, before the mailbox has enough of them.
const CLASHES_MAX: usize = 200;

impl Corpus {
    pub(super) fn draw(seed: u64, n_mails: usize) -> Self {
        let cast = Cast::draw(seed);
        let mut of = Drawing { draws: Draws::new(seed, &["inbox", "facts"]), cast: &cast };
        let facts = facts(&mut of, (n_mails as f64 * TELLING_SHARE) as usize);
        let n_telling = facts.iter().map(|fact| fact.thread.mails.len()).sum();
        of.draws = Draws::new(seed, &["inbox", "chatter"]);
        let mut noise = Vec::new();
        while noise.len() + n_telling < n_mails {
            noise.extend(chatter(&mut of).mails);
        }
        noise.truncate(n_mails.saturating_sub(n_telling));
        let (mails, places) = in_order(&facts, noise);
        let questions = facts.into_iter().zip(places).flat_map(|(fact, place)| asked(fact, &place, &mails)).collect();
        Self { cast, mails, questions }
    }
}

/// Facts of all kinds in turn, no two with the same key, until their mails are this many.
fn facts(of: &mut Drawing<'_>, n_mails: usize) -> Vec<Fact> {
    let mut keys = BTreeSet::new();
    let (mut facts, mut n_told, mut n_clashes) = (Vec::new(), 0, 0);
    for kind in kinds::ALL.iter().cycle() {
        if n_told >= n_mails || n_clashes >= CLASHES_MAX {
            break;
        }
        let fact = kind(of);
        if keys.insert(fact.key.clone()) {
            n_told += fact.thread.mails.len();
            facts.push(fact);
        } else {
            n_clashes += 1;
        }
    }
    for _ in 0..facts.len().div_ceil(FACTS_PER_MISSING) {
        let fact = kinds::missing_invoice(of);
        if keys.insert(fact.key.clone()) {
            facts.push(fact);
        }
    }
    facts
}

/// All mails in the order of time, and where the mails of each fact are among them.
fn in_order(facts: &[Fact], noise: Vec<Mail>) -> (Vec<Mail>, Vec<Vec<usize>>) {
    let told =
        facts.iter().enumerate().flat_map(|(idx, fact)| fact.thread.mails.iter().map(move |mail| (Some(idx), mail.clone())));
    let mut all: Vec<(Option<usize>, Mail)> = told.chain(noise.into_iter().map(|mail| (None, mail))).collect();
    all.sort_by_key(|(_, mail)| mail.sent);
    let mut places = vec![Vec::new(); facts.len()];
    for (place, (fact_idx, _)) in all.iter().enumerate() {
        if let Some(fact_idx) = fact_idx {
            places[*fact_idx].push(place);
        }
    }
    (all.into_iter().map(|(_, mail)| mail).collect(), places)
}

fn asked(fact: Fact, thread_idxs: &[usize], mails: &[Mail]) -> Vec<Asked> {
    let Fact { key, keywords, questions, .. } = fact;
    let sources = |telling: &str| -> Vec<usize> {
        let tells = |idx: &&usize| !telling.is_empty() && mails[**idx].body.contains(telling);
        thread_idxs.iter().filter(tells).copied().collect()
    };
    let asked = |question: Question| {
        let source_idxs = sources(&question.telling);
        Asked {
            family: key.clone(),
            about: question.about,
            category: question.category,
            wordings: question.wordings,
            difficulty: question.difficulty,
            answer: question.answer,
            keywords: keywords.clone(),
            day: source_idxs.last().or(thread_idxs.last()).map(|&idx| mails[idx].sent.day()),
            source_idxs,
            thread_idxs: thread_idxs.to_vec(),
        }
    };
    questions.into_iter().map(asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::answer::Kind;

    #[test]
    fn a_seed_fixes_the_mailbox_and_every_answer_is_in_it() {
        for seed in [1, 2, 99] {
            let (corpus, again) = (Corpus::draw(seed, 1000), Corpus::draw(seed, 1000));
            assert_eq!(corpus.mails, again.mails);
            assert_eq!(corpus.mails.len(), 1000);
            assert!(corpus.mails.is_sorted_by_key(|mail| mail.sent));
            let mut keys = BTreeSet::new();
            for asked in &corpus.questions {
                assert!(keys.insert((&asked.family, asked.about)));
                assert_eq!(asked.source_idxs.is_empty(), asked.answer.kind == Kind::Unknown, "{} {}", asked.family, asked.about);
                assert!(asked.source_idxs.iter().all(|idx| asked.thread_idxs.contains(idx)));
            }
            let missing = corpus.questions.iter().filter(|asked| asked.thread_idxs.is_empty());
            for asked in missing {
                let number = asked.family.strip_prefix("invoice-").unwrap();
                assert!(corpus.mails.iter().all(|mail| !mail.subject.contains(&format!("Invoice {number}"))));
            }
        }
        assert_ne!(Corpus::draw(1, 300).mails, Corpus::draw(2, 300).mails);
    }

    #[test]
    fn a_mailbox_of_the_usual_size_has_all_kinds_of_questions() {
        let corpus = Corpus::draw(1, 3000);
        let categories: BTreeSet<&str> = corpus.questions.iter().map(|asked| asked.category).collect();
        let expected = ["deadline", "document", "handover", "invoice", "meeting", "order", "trip", "unanswerable"];
        assert_eq!(categories, BTreeSet::from(expected));
        assert!(corpus.questions.len() > 1000, "{}", corpus.questions.len());
    }
}
