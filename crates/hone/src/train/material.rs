//! What a run learns from: traces of the store as they went, or as people said that they should have gone.
//!
//! It is fixed when the run begins, which keeps which traces, how far each had come, and how often people had said something. A run that goes
//! on reads the same, whatever was said since.

use super::start::Ground;
use crate::context::Context;
use crate::data::held_out;
use crate::durable;
use crate::failure::{Failure, at_path};
use crate::standing::Configs;
use hone_data::facts::Facts;
use hone_gateway::demonstrations::Demonstrations;
use hone_trace::store::{Store, StoreError, TraceQuery};
use hone_trace::{Config, Corrected, DEMONSTRATION, GroupId, Trace, TraceId};
use hone_train::episode::Episode;
use hone_train::settings::Algorithm;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The traces that a run learns from, as [`Began`].
const FILE: &str = "data.json";
/// Traces that are read at once.
const PAGE_LEN: u32 = 1000;
/// The highest temperature at which a model of this machine samples.
const TEMPERATURE_MAX: f64 = 1e4;

/// Traces to learn from.
pub(super) struct Material {
    pub(super) traces: Vec<(Began, Trace)>,
    /// Others that were found, of tasks that are held out.
    pub(super) n_held_out: usize,
}

impl Material {
    pub(super) fn as_they_went(traces: &[Trace]) -> Self {
        let traces = traces.iter().map(|trace| (Began::with(trace), trace.clone())).collect();
        Self { traces, n_held_out: 0 }
    }

    /// What the run began with, or what is meant now, but for tasks that are held out.
    /// `temperature` is what the user says of traces of which the store cannot tell.
    pub(super) fn of(
        ground: &Ground<'_>,
        query: &TraceQuery,
        temperature: Option<f64>,
        context: &Context<'_>,
    ) -> Result<Self, Failure> {
        let algorithm = ground.settings.algorithm;
        context.wait(async |context| {
            let store = context.store_to_read().await?;
            let demonstrations = match algorithm {
                Algorithm::Sft | Algorithm::Dpo => Demonstrations::read(&*store).await?,
                _ => Demonstrations::default(),
            };
            if ground.goes_on {
                return Self::again(ground.folder, &*store, &demonstrations).await;
            }
            let (user_field, list) = (&context.settings.data.user_field, &context.settings.data.held_out);
            let held_out = held_out(list.as_deref(), user_field)?;
            let (mut material, mut after, mut configs) = (Self { traces: Vec::new(), n_held_out: 0 }, None, Configs::default());
            let mut n_left = ground.settings.traces;
            while n_left > 0 {
                let page = store.traces(query, after, n_left.min(PAGE_LEN)).await?;
                for trace in page.items {
                    if held_out.has(&trace, &Facts::of(&trace, user_field)).is_some() {
                        material.n_held_out += 1;
                        continue;
                    }
                    n_left -= 1;
                    let trace = configs.instructed(&*store, trace).await?;
                    material.add(trace, algorithm, &*store, &demonstrations).await?;
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            // The others look at no log-prob that a sampler told.
            if algorithm == Algorithm::Ppo {
                material.note_temperatures(&mut configs, &*store, ground.settings.temperature, temperature).await?;
            }
            Ok(material)
        })
    }

    /// Notes at which temperature each was sampled, where what its sampler said can be compared with what a step computes. `usual` is the
    /// temperature of a config that tells none, `unknown` that of one that the store does not have.
    async fn note_temperatures(
        &mut self,
        configs: &mut Configs,
        store: &dyn Store,
        usual: f64,
        unknown: Option<f64>,
    ) -> Result<(), StoreError> {
        for (began, trace) in &mut self.traces {
            began.temperature = match drawn_at(trace) {
                Some(told) => told,
                None => configs.of(store, trace.config).await?.map_or(unknown, |config| temperature(config, usual)),
            };
        }
        Ok(())
    }

    /// A trace as it went. Where people said what its answers should have been, theirs are imitated instead, or preferred to those that were
    /// given.
    async fn add(
        &mut self,
        trace: Trace,
        algorithm: Algorithm,
        store: &dyn Store,
        demonstrations: &Demonstrations,
    ) -> Result<(), StoreError> {
        let began = Began::with(&trace);
        let said = demonstrations.of(store, &trace).await?;
        let is_beside = algorithm == Algorithm::Dpo;
        let of_said = |is_better| Began { said: Some(Said { n: said.len(), is_better, is_beside }), ..began };
        match (Corrected::of(&trace, &said), algorithm) {
            (Some(corrected), Algorithm::Sft) => self.traces.push((of_said(true), corrected.better)),
            (Some(Corrected { better, worse: Some(worse) }), Algorithm::Dpo) => {
                self.traces.push((began, trace));
                self.traces.extend([(of_said(true), in_pair(better)), (of_said(false), in_pair(worse))]);
            }
            _ => self.traces.push((began, trace)),
        }
        Ok(())
    }

    /// What a run began with, read again.
    async fn again(folder: &Path, store: &dyn Store, demonstrations: &Demonstrations) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let text = fs::read(&path).map_err(at_path(&path))?;
        let began: Vec<Began> = serde_json::from_slice(&text).map_err(|error| {
            let hint = "it is damaged, or of an earlier hone: begin another run";
            Failure::user(format_args!("{}: {error}", path.display())).hint(hint)
        })?;
        let (mut traces, mut configs) = (Vec::with_capacity(began.len()), Configs::default());
        for began in began {
            let id = began.trace;
            let gone = || Failure::user(format_args!("trace {id}, which this run learns from, is no longer in the store"));
            let trace = store.trace(id).await?.ok_or_else(gone)?;
            let said = demonstrations.of(store, &trace).await?;
            let then = configs.instructed(store, began.of(trace)?).await?;
            let learned = match began.said {
                None => then,
                Some(Said { n, is_better, .. }) => {
                    let corrected = said.get(..n).and_then(|said| Corrected::of(&then, said));
                    let answered = corrected.and_then(|corrected| match is_better {
                        true => Some(corrected.better),
                        false => corrected.worse,
                    });
                    let answered = answered.ok_or_else(|| {
                        Failure::user(format_args!(
                            "what people said of trace {id}, which this run learns from, is no longer in the store"
                        ))
                        .hint("restore the store of then, or begin another run")
                    })?;
                    in_pair(answered)
                }
            };
            traces.push((began, learned));
        }
        Ok(Self { traces, n_held_out: 0 })
    }
}

/// The temperature of the draws as they tell it, which is none where that was not one for all or did not decide alone; `None` where one
/// does not tell it.
fn drawn_at(trace: &Trace) -> Option<Option<f64>> {
    let mut drawn = trace.turns().filter_map(|turn| turn.sampled.as_ref()).map(|sampled| (sampled.temperature, sampled.narrowed));
    let (first, narrowed) = drawn.next()?;
    // Through its shortest text, so that 0.7 does not become 0.699999988079071.
    let told = first?.to_string().parse().ok().filter(|_| !narrowed);
    Some(told.filter(|_| drawn.all(|other| other == (first, false))))
}

/// The temperature at which the answers of a config were drawn, where nothing but that and the model decided how likely each token was.
fn temperature(config: &Config, usual: f64) -> Option<f64> {
    let is_plain = config.settings.iter().all(|(name, value)| !moves_draws(name, value));
    let told = config.temperature.unwrap_or(usual);
    Some(told).filter(|told| is_plain && (0.0..=TEMPERATURE_MAX).contains(told))
}

/// Whether a setting of a request makes other tokens likely than the model does, or leaves some out.
fn moves_draws(name: &str, value: &Value) -> bool {
    let is = |neutral: &[f64]| value.is_null() || value.as_f64().is_some_and(|value| neutral.contains(&value));
    match name {
        "top_p" | "repetition_penalty" => !is(&[1.0]),
        "top_k" => !is(&[0.0, -1.0]),
        "min_p" | "frequency_penalty" | "presence_penalty" => !is(&[0.0]),
        "logit_bias" => value.as_object().is_none_or(|biases| !biases.is_empty()) && !value.is_null(),
        "response_format" => !value.is_null() && value["type"] != "text",
        "tool_choice" => !(value.is_null() || value == "auto" || value == "none"),
        _ => false,
    }
}

/// One of the two answers to what was asked in a trace, which are a group of their own.
fn in_pair(answered: Trace) -> Trace {
    let group = Some(GroupId::derived(&[&answered.id.to_string(), DEMONSTRATION]));
    Trace { group, ..answered }
}

/// How far a trace had come when the run began: turns, rewards and what people said are only ever added to one.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Began {
    trace: TraceId,
    n_turns: usize,
    n_rewards: usize,
    /// What of it is learned from, where that is not how it went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Said>,
    /// At which temperature it was sampled, where log-probs are learned from and it alone decided how likely what was drawn was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

/// Answers of which people said what they should have been.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Said {
    /// How often they had said something.
    n: usize,
    /// Theirs, or those that were given.
    is_better: bool,
    /// Beside the trace as it went, and not instead of it.
    is_beside: bool,
}

impl Began {
    fn with(trace: &Trace) -> Self {
        Self { trace: trace.id, n_turns: trace.turns().count(), n_rewards: trace.rewards.len(), said: None, temperature: None }
    }

    /// Whether it stands for a trace that was looked at, and not for the other answer of one.
    pub(super) fn is_counted(&self) -> bool {
        self.said.is_none_or(|said| !said.is_beside)
    }

    /// Whether people gave the answers.
    pub(super) fn is_said(&self) -> bool {
        self.said.is_some_and(|said| said.is_better)
    }

    /// The episode of the trace, at the temperature at which it was sampled. Where that does not matter, or not it alone decided what was
    /// drawn, what the sampler said is left away: the policy as it is before a step then stands for the one that sampled.
    pub(super) fn sampled(&self, episode: Episode) -> Episode {
        match self.temperature {
            Some(temperature) => episode.sampled_at(temperature as f32),
            None => episode.untold(),
        }
    }

    /// Writes them down.
    pub(super) fn keep(all: &[Self], folder: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(all).map_err(Failure::bug)?;
        durable::write(&folder.join(FILE), &(text + "\n"))
    }

    /// The trace as it was then.
    fn of(self, mut trace: Trace) -> Result<Trace, Failure> {
        let now = Self::with(&trace);
        if now.n_turns < self.n_turns || now.n_rewards < self.n_rewards {
            return Err(Failure::user(format_args!(
                "trace {} is not what this run began with: it had {} turns and {} rewards, and has {} and {}",
                self.trace, self.n_turns, self.n_rewards, now.n_turns, now.n_rewards
            ))
            .hint("restore the store of then, or begin another run"));
        }
        trace.rewards.truncate(self.n_rewards);
        let mut n_left = self.n_turns;
        for segment in &mut trace.segments {
            segment.turns.truncate(n_left);
            n_left -= segment.turns.len();
        }
        trace.segments.retain(|segment| !segment.turns.is_empty());
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Message, Role, Sampled, Segment, Tenant, Time, Turn};
    use serde_json::json;

    #[test]
    fn draws_tell_their_temperature_where_it_alone_decided() {
        let check = |draws: &[(Option<f32>, bool)], expected: Option<Option<f64>>| {
            let turn = |&(temperature, narrowed): &(Option<f32>, bool)| Turn {
                sampled: Some(Sampled { ids: vec![1], temperature, narrowed, ..Sampled::default() }),
                ..Turn::new(vec![Message::text(Role::User, "?")], Message::text(Role::Assistant, "!"))
            };
            let mut trace =
                Trace::new(TraceId::derived(&["t"]), Tenant::default(), Time::from_unix_nanos(0), Config::default().hash());
            trace.segments.push(Segment { turns: draws.iter().map(turn).collect(), ..Segment::default() });
            assert_eq!(drawn_at(&trace), expected, "{draws:?}");
        };
        check(&[], None);
        check(&[(None, false)], None);
        check(&[(Some(0.7), false), (Some(0.7), false)], Some(Some(0.7)));
        check(&[(Some(0.7), false), (Some(0.3), false)], Some(None));
        check(&[(Some(0.7), false), (Some(0.7), true)], Some(None));
        check(&[(Some(1.0), true)], Some(None));
    }

    #[test]
    fn a_config_tells_its_temperature_where_nothing_else_moves_draws() {
        let check = |temperature: Option<f64>, settings: Value, expected: Option<f64>| {
            let settings = settings.as_object().cloned().unwrap_or_default();
            assert_eq!(super::temperature(&Config { temperature, settings, ..Config::default() }, 1.0), expected);
        };
        check(Some(0.7), json!({}), Some(0.7));
        check(None, json!({"max_tokens": 9, "stop": ["x"]}), Some(1.0));
        let neutral = json!({"top_p": 1, "top_k": 0, "min_p": 0.0, "logit_bias": {}, "tool_choice": "auto", "response_format": {"type": "text"}});
        check(Some(0.5), neutral, Some(0.5));
        for (name, value) in [
            ("top_p", json!(0.5)),
            ("top_k", json!(40)),
            ("min_p", json!(0.1)),
            ("frequency_penalty", json!(1)),
            ("repetition_penalty", json!(1.1)),
            ("logit_bias", json!({"5": 1})),
            ("response_format", json!({"type": "json_object"})),
            ("tool_choice", json!("required")),
        ] {
            check(Some(0.7), json!({name: value}), None);
        }
    }
}
