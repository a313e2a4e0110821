//! Failures in clusters: episodes that failed in the same way, with what tells them from the others and which to read.
//!
//! The way is the sign that a trace shows ([`Sign`]); within one sign, messages that differ in names and numbers alone are one. Failures
//! without any sign are divided by what was asked.

use crate::row::is_failure;
use crate::sign::Sign;
use crate::words::{ANY, Counts, Vocabulary, are_alike, generalise};
use hone_trace::{Category, ConfigHash, Role, Time, Trace, TraceId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Different messages of one sign that are kept apart.
const N_MESSAGES_MAX: usize = 50;
/// Topics among failures without a sign that are kept apart.
const N_TOPICS_MAX: usize = 40;
/// How alike a question must be to those of a topic, from 0 to 1.
const ON_TOPIC: f64 = 0.3;
/// The fewest failures that are a topic of their own.
const N_OF_TOPIC_MIN: usize = 5;
/// Traces of a cluster to read, words that tell it, types of task and configs that are named.
const N_EXAMPLES: usize = 3;
const N_TELLING: usize = 6;
const N_NAMED: usize = 5;

/// Episodes that failed in the same way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cluster {
    /// What it is called.
    pub name: String,
    /// What happened.
    pub what: String,
    /// What the error or the tool said, `*` where messages differ.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub said: String,
    /// What may help.
    pub remedy: &'static str,
    /// Whether the world or provider failed, or refused what was asked of it, and not the agent.
    pub is_broken: bool,
    /// How many failures it has.
    pub n: usize,
    /// Its share of all failures.
    pub share: f64,
    /// Words of the questions that tell it from all other episodes.
    pub words: Vec<String>,
    /// The types of task that it is most frequent in, with how often.
    pub categories: Vec<(Category, usize)>,
    /// The configs that it is most frequent under, with how often.
    pub configs: Vec<(ConfigHash, usize)>,
    /// When the first and the last of them began.
    pub from: Time,
    /// When the last of them began.
    pub to: Time,
    /// The newest ones, to read.
    pub traces: Vec<TraceId>,
}

/// What is kept of a failure.
#[derive(Debug)]
struct Failure {
    trace: TraceId,
    at: Time,
    config: ConfigHash,
    category: Option<Category>,
    sign: Sign,
    said: Vec<String>,
    asked: Vec<u32>,
}

/// Collects failures among episodes.
#[derive(Debug, Default)]
pub struct Failures {
    known: Vocabulary,
    /// What is asked in all episodes, those that went well too.
    all: Counts,
    failures: Vec<Failure>,
}

impl Failures {
    /// Takes an episode that went so well. What broke is a failure, whoever's.
    pub fn see(&mut self, trace: &Trace, quality: Option<f64>) {
        let asked = self.known.topics(&question(trace));
        self.all.add(&asked);
        if trace.broken().is_some() || quality.is_some_and(is_failure) {
            let (sign, said) = Sign::of(trace);
            let (config, category) = (trace.config, trace.category.clone());
            self.failures.push(Failure { trace: trace.id, at: trace.started, config, category, sign, said, asked });
        }
    }

    /// How many episodes failed or broke.
    pub fn n(&self) -> usize {
        self.failures.len()
    }

    /// The clusters, the largest first.
    pub fn clusters(&self) -> Vec<Cluster> {
        let mut names = BTreeMap::new();
        let mut parts = self.parts();
        parts.sort_by(|a, b| b.of.len().cmp(&a.of.len()).then_with(|| a.of[0].trace.cmp(&b.of[0].trace)));
        parts.iter().map(|part| self.cluster(part, &mut names)).collect()
    }

    /// The cluster of every failure, by its number among those that were seen.
    pub fn labels(&self) -> BTreeMap<TraceId, usize> {
        let parts = self.parts();
        parts.iter().enumerate().flat_map(|(number, part)| part.of.iter().map(move |failure| (failure.trace, number))).collect()
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let mut by_sign: BTreeMap<&Sign, Vec<&Failure>> = BTreeMap::new();
        self.failures.iter().for_each(|failure| by_sign.entry(&failure.sign).or_default().push(failure));
        let divided = by_sign.into_values().map(|of| match of[0].sign {
            Sign::Unclear => self.by_topic(of),
            _ => by_message(of),
        });
        divided.flatten().collect()
    }

    /// Divides failures by what was asked: one after the other joins the topic that it is most alike, or begins one; then all are
    /// divided once more among the topics that came of it.
    fn by_topic<'a>(&self, of: Vec<&'a Failure>) -> Vec<Part<'a>> {
        let weighed: Vec<Topic> = of.iter().map(|failure| Topic::of(&failure.asked, &self.all)).collect();
        let mut topics: Vec<Topic> = Vec::new();
        for one in &weighed {
            match nearest(one, &topics) {
                Some(idx) => topics[idx].add(one),
                None if topics.len() < N_TOPICS_MAX && !one.weights.is_empty() => topics.push(one.clone()),
                None => {}
            }
        }
        let mut parts: Vec<Part<'a>> = vec![Part::default(); topics.len()];
        let mut rest = Part::default();
        for (failure, one) in of.into_iter().zip(&weighed) {
            nearest(one, &topics).map_or(&mut rest, |idx| &mut parts[idx]).of.push(failure);
        }
        let (large, small): (Vec<Part<'a>>, Vec<Part<'a>>) = parts.into_iter().partition(|part| part.of.len() >= N_OF_TOPIC_MIN);
        rest.of.extend(small.into_iter().flat_map(|part| part.of));
        // One topic alone is no division.
        if large.len() == 1 {
            rest.of.extend(large.into_iter().flat_map(|part| part.of));
            return vec![rest];
        }
        large.into_iter().chain((!rest.of.is_empty()).then_some(rest)).collect()
    }

    fn cluster(&self, part: &Part<'_>, names: &mut BTreeMap<String, usize>) -> Cluster {
        let sign = &part.of[0].sign;
        let here = Counts::of(part.of.iter().map(|failure| failure.asked.as_slice()));
        let words: Vec<String> =
            here.telling(&self.all, N_TELLING).into_iter().map(|word| self.known.word(word).to_owned()).collect();
        let told: Vec<&str> = match sign {
            Sign::Unclear => words.iter().take(2).map(String::as_str).collect(),
            _ => part.said.iter().map(String::as_str).filter(|word| *word != ANY).take(4).collect(),
        };
        let base = slug(std::iter::once(sign.name().as_str()).chain(told));
        let n_before = names.entry(base.clone()).or_default();
        *n_before += 1;
        let name = if *n_before == 1 { base } else { format!("{base}-{n_before}") };
        let mut newest: Vec<&&Failure> = part.of.iter().collect();
        newest.sort_by_key(|failure| (std::cmp::Reverse(failure.at), failure.trace));
        let times = part.of.iter().map(|failure| failure.at);
        Cluster {
            name,
            what: sign.sentence(),
            said: part.said.join(" "),
            remedy: sign.remedy(),
            is_broken: matches!(sign, Sign::Broken { .. } | Sign::Turned),
            n: part.of.len(),
            share: part.of.len() as f64 / self.failures.len() as f64,
            words,
            categories: most_frequent(part.of.iter().filter_map(|failure| failure.category.clone())),
            configs: most_frequent(part.of.iter().map(|failure| failure.config)),
            from: times.clone().min().expect("a cluster has failures"),
            to: times.max().expect("a cluster has failures"),
            traces: newest.into_iter().take(N_EXAMPLES).map(|failure| failure.trace).collect(),
        }
    }
}

/// Some failures of one sign.
#[derive(Debug, Clone, Default)]
struct Part<'a> {
    said: Vec<String>,
    of: Vec<&'a Failure>,
}

/// Divides failures of one sign by what was said of them.
fn by_message(of: Vec<&Failure>) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for failure in of {
        let alike = parts.iter().position(|part| are_alike(&part.said, &failure.said));
        match alike.or_else(|| (parts.len() == N_MESSAGES_MAX).then_some(N_MESSAGES_MAX - 1)) {
            Some(idx) => {
                generalise(&mut parts[idx].said, &failure.said);
                parts[idx].of.push(failure);
            }
            None => parts.push(Part { said: failure.said.clone(), of: vec![failure] }),
        }
    }
    parts
}

/// What questions are about: their words, weighed by how much each tells.
#[derive(Debug, Clone)]
struct Topic {
    weights: BTreeMap<u32, f64>,
}

impl Topic {
    fn of(asked: &[u32], all: &Counts) -> Self {
        let weights: BTreeMap<u32, f64> =
            asked.iter().map(|&word| (word, all.weight(word))).filter(|(_, weight)| *weight > 0.0).collect();
        let length = weights.values().map(|weight| weight * weight).sum::<f64>().sqrt();
        Self { weights: weights.into_iter().map(|(word, weight)| (word, weight / length)).collect() }
    }

    fn add(&mut self, other: &Self) {
        other.weights.iter().for_each(|(&word, weight)| *self.weights.entry(word).or_default() += weight);
    }

    /// The cosine of two.
    fn alike(&self, one: &Self) -> f64 {
        let length = self.weights.values().map(|weight| weight * weight).sum::<f64>().sqrt();
        let product: f64 = one.weights.iter().filter_map(|(word, weight)| Some(weight * self.weights.get(word)?)).sum();
        if length > 0.0 { product / length } else { 0.0 }
    }
}

fn nearest(one: &Topic, topics: &[Topic]) -> Option<usize> {
    let alike = topics.iter().map(|topic| topic.alike(one)).enumerate();
    // The first of equals.
    let best = alike.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    best.filter(|(_, alike)| *alike >= ON_TOPIC).map(|(idx, _)| idx)
}

/// What an episode was asked first.
fn question(trace: &Trace) -> String {
    let inputs = trace.turns().flat_map(|turn| &turn.input);
    inputs.filter(|message| message.role == Role::User).map(|message| message.content.text()).next().unwrap_or_default()
}

fn most_frequent<T: Ord + Clone>(items: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    let mut sorted: Vec<(T, usize)> = counts.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sorted.truncate(N_NAMED);
    sorted
}

/// Words as one name of letters, digits and dashes.
fn slug<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut name = String::new();
    for word in words {
        for sign in word.chars().chain(['-']) {
            let sign = if sign.is_alphanumeric() { sign } else { '-' };
            if sign != '-' || !(name.is_empty() || name.ends_with('-')) {
                name.push(sign);
            }
        }
    }
    name.trim_end_matches('-').chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{ErrorEvent, Message, Segment, Tenant, Turn};

    fn trace(number: usize, asked: &str, error: Option<(&str, &str)>) -> Trace {
        let id = TraceId::derived(&[&number.to_string()]);
        let at = Time::from_unix_nanos(i64::try_from(number).unwrap());
        let mut trace = Trace::new(id, Tenant::default(), at, ConfigHash::of(b"c"));
        let mut turn = Turn::new(vec![Message::text(Role::User, asked)], Message::text(Role::Assistant, "So it is."));
        turn.errors.extend(error.map(|(kind, message)| ErrorEvent {
            kind: kind.into(),
            recovered: false,
            message: message.into(),
        }));
        trace.segments.push(Segment { turns: vec![turn], ..Segment::default() });
        trace
    }

    #[test]
    fn failures_of_one_kind_are_one_cluster_whatever_they_name() {
        let mut seen = Failures::default();
        for number in 0..40 {
            let said =
                if number % 4 == 0 { format!("order {number} is gone") } else { format!("no card of customer {number} works") };
            seen.see(&trace(number, "where is it?", Some(("tool_error", &said))), Some(0.0));
        }
        seen.see(&trace(99, "where is it?", None), Some(1.0));
        let clusters = seen.clusters();
        let told: Vec<(&str, usize, &str)> = clusters.iter().map(|one| (one.name.as_str(), one.n, one.said.as_str())).collect();
        assert_eq!(
            told,
            [
                ("error-tool-error-no-card-of-customer", 30, "no card of customer * works"),
                ("error-tool-error-order-is-gone", 10, "order * is gone")
            ]
        );
        assert_eq!(clusters[0].traces[0], TraceId::derived(&["39"]), "the newest is read first");
        assert!((clusters[0].share - 0.75).abs() < 1e-12);
    }

    #[test]
    fn failures_without_a_sign_are_divided_by_what_was_asked() {
        let mut seen = Failures::default();
        for number in 0..60 {
            let asked = ["please refund my broken kettle", "reset the password of my account"][number % 2];
            seen.see(&trace(number, asked, None), Some(0.0));
        }
        for number in 100..400 {
            seen.see(&trace(number, "please tell me the opening hours of your shop", None), Some(1.0));
        }
        let clusters = seen.clusters();
        assert_eq!(clusters.iter().map(|one| one.n).collect::<Vec<_>>(), [30, 30]);
        assert!(clusters.iter().any(|one| one.words.contains(&"refund".to_owned())), "{clusters:?}");
        assert!(clusters.iter().all(|one| !one.words.contains(&"please".to_owned())), "{clusters:?}");
    }

    #[test]
    fn what_broke_is_a_cluster_of_its_own_and_says_so() {
        let mut seen = Failures::default();
        seen.see(&trace(0, "x", Some(("policy_timeout", "30 s"))), None);
        let clusters = seen.clusters();
        assert_eq!((seen.n(), clusters[0].is_broken), (1, true));
    }

    #[test]
    fn a_request_that_was_refused_is_to_be_changed_and_not_repeated() {
        let mut seen = Failures::default();
        seen.see(&trace(0, "x", Some(("policy_refused", "logprobs are not served"))), None);
        seen.see(&trace(1, "x", Some(("policy_timeout", "30 s"))), None);
        let clusters = seen.clusters();
        let refused = clusters.iter().find(|one| one.name.starts_with("request-refused")).unwrap();
        assert_eq!((refused.what.as_str(), refused.n, refused.is_broken), ("the request was refused", 1, true));
        assert!(refused.remedy.contains("change what is asked for") && !refused.remedy.contains("retries"), "{refused:?}");
        assert_eq!(refused.said, "logprobs are not served");
    }

    #[test]
    fn nobody_failed() {
        let mut seen = Failures::default();
        seen.see(&trace(0, "x", None), Some(1.0));
        seen.see(&trace(1, "x", None), None);
        assert!(seen.clusters().is_empty());
    }
}
