//! A tiny random model that plays a toy: two turns, rewarded for token 7.

use hone_engine::backend::Dtype;
use hone_engine::batch::{BatchLimits, Request};
use hone_engine::config::{ModelConfig, TinySpec};
use hone_engine::cpu::Cpu;
use hone_engine::error::LoadError;
use hone_engine::host::Host;
use hone_engine::load::WeightSource;
use hone_engine::lora::{LoraSpec, LoraWeights};
use hone_engine::model::{Model, Passes, RandomWeights};
use hone_engine::optim::AdamOptions;
use hone_engine::param::ParamId;
use hone_engine::sampler::SamplerOptions;
use hone_engine::tape::Recompute;
use hone_engine::trainer::Trainer;
use hone_trace::{
    ConfigHash, Giver, GiverKind, Message, Reward, RewardId, Role, Sampled, Segment, Tenant, Time, Trace, TraceId, TraceOutcome,
    Turn, V1,
};
use hone_train::advantage::Centring;
use hone_train::batch::Batch;
use hone_train::episode::Episode;
use hone_train::groups::{Credit, GroupOptions};
use hone_train::loss::{KlEstimator, Method};
use hone_train::step::{Objective, StepOptions, kl_by_episode};
use std::collections::BTreeMap;

/// Tokens of one answer.
pub(crate) const N_TOKENS: usize = 4;
const N_PROMPTS: u32 = 4;
const N_SAMPLES: usize = 8;
/// What earns.
const WANTED: u32 = 7;
/// What is said between the two answers.
const REPLY: [u32; 2] = [11, 12];
/// What ends an answer early.
const STOP: u32 = 5;

pub(crate) struct Toy {
    pub(crate) host: Host<Cpu>,
    pub(crate) trainer: Trainer<Cpu>,
    /// How adventurous it plays.
    pub(crate) temperature: f32,
}

/// Random weights with a louder last norm: the head is not trained, and must be able to be sure of a token.
struct Loud(RandomWeights);

impl WeightSource for Loud {
    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn read(&self, id: ParamId) -> Result<Vec<f32>, LoadError> {
        let gain = if id == ParamId::FinalNorm { 10.0 } else { 1.0 };
        Ok(self.0.read(id)?.into_iter().map(|x| x * gain).collect())
    }
}

pub(crate) fn group_options() -> GroupOptions {
    GroupOptions { credit: Credit::Episode(Centring::Mean), overlong: None, n_rows_max: 4096 }
}

impl Toy {
    pub(crate) fn new(n_threads: usize) -> Self {
        let spec: TinySpec = "d32,l2,h4,kv2,ff48,v24,ctx64".parse().expect("a good spec");
        // With a head of its own, or the model would begin by repeating what it hears.
        let config = ModelConfig { tied_head: false, ..ModelConfig::try_from(spec).expect("good sizes") };
        let weights = Loud(RandomWeights { config, seed: 3 });
        let backend = Cpu::new(Dtype::F32, n_threads);
        let model = Model::load(&backend, &weights, 64, Passes::ForwardBackward).expect("random weights");
        let adapter = LoraWeights::fresh(weights.config(), &LoraSpec::all(4, 8.0), 1);
        let trainer = Trainer::lora(&backend, weights.config(), &adapter, AdamOptions::default(), Recompute::Never);
        Self { host: Host::new(backend, model, BatchLimits::default()), trainer, temperature: 1.0 }
    }

    pub(crate) fn adapter(&self) -> LoraWeights {
        self.trainer.lora_weights(self.host.backend()).expect("an adapter is trained")
    }

    /// Groups of scored episodes by the present weights.
    pub(crate) fn play(&mut self, seed: u64) -> Vec<Vec<Trace>> {
        let prompts = (0..N_PROMPTS).flat_map(|i| vec![vec![i + 1, 2 * i, 20]; N_SAMPLES]).collect::<Vec<_>>();
        let first = self.answers(&prompts, 2 * seed);
        let history = |(prompt, answer): (&Vec<u32>, &Sampled)| [prompt, &answer.ids[..], &REPLY[..]].concat();
        let histories: Vec<Vec<u32>> = prompts.iter().zip(&first).map(history).collect();
        let second = self.answers(&histories, 2 * seed + 1);
        let mut traces = Vec::new();
        for ((prompt, first), second) in prompts.into_iter().zip(first).zip(second) {
            let first = Sampled { input_ids: prompt, ..first };
            traces.push(episode(vec![first, Sampled { input_ids: REPLY.to_vec(), ..second }]));
        }
        traces.chunks(N_SAMPLES).map(<[Trace]>::to_vec).collect()
    }

    fn answers(&mut self, prompts: &[Vec<u32>], seed: u64) -> Vec<Sampled> {
        let version = self.host.load(&self.adapter());
        let sampler = SamplerOptions { temperature: self.temperature, ..SamplerOptions::default() };
        let request = |(sequence, prompt): (u64, &Vec<u32>)| Request {
            stop_ids: vec![STOP],
            sampler,
            seed,
            sequence,
            adapter: self.host.pin(version),
            ..Request::new(prompt.clone(), N_TOKENS)
        };
        let requests = (0..).zip(prompts).map(request).collect();
        let samples = self.host.sample(requests).expect("good requests");
        self.host.drop_adapter(version);
        let sampled = |samples: Vec<hone_engine::host::Sample>| Sampled {
            ids: samples[0].tokens.iter().map(|token| token.id).collect(),
            logprobs: samples[0].tokens.iter().map(|token| token.logprob).collect(),
            ..Sampled::default()
        };
        samples.into_iter().map(sampled).collect()
    }

    /// How well the present weights do.
    pub(crate) fn mean_reward(&mut self, seed: u64) -> f64 {
        let traces: Vec<Trace> = (0..4).flat_map(|i| self.play(seed + i)).flatten().collect();
        traces.iter().map(reward).sum::<f64>() / traces.len() as f64
    }

    /// How far the present weights are from the model without its adapter, per token.
    pub(crate) fn kl(&mut self) -> f64 {
        let traces = self.play(500).concat();
        let episodes: Vec<Episode> = traces.iter().map(|trace| Episode::of_trace(trace).expect("trainable")).collect();
        let mut batch = Batch::new(&episodes, 4096);
        let options = StepOptions::new(
            Objective::Policy(Method::DrGrpo.loss(N_TOKENS)),
            hone_engine::optim::Schedule::Constant { lr: 0.0 },
        );
        let kl_e = kl_by_episode(&self.host, &self.trainer, &mut batch, &options, KlEstimator::K3).expect("a reference");
        kl_e.iter().sum::<f64>() / batch.n_tokens() as f64
    }

    /// One sampled episode.
    pub(crate) fn episode(&mut self) -> Episode {
        Episode::of_trace(&self.play(9)[0][0]).expect("trainable")
    }

    /// An episode that somebody else played well, without log-probs.
    pub(crate) fn gold(&self, i: u32) -> Trace {
        let answer = |input_ids: Vec<u32>| Sampled { input_ids, ids: vec![WANTED; N_TOKENS], ..Sampled::default() };
        episode(vec![answer(vec![i % N_PROMPTS + 1, 2 * (i % N_PROMPTS), 20]), answer(REPLY.to_vec())])
    }

    /// One that he played badly.
    pub(crate) fn bad(&self) -> Trace {
        episode(vec![Sampled { input_ids: vec![1], ids: vec![5; N_TOKENS], ..Sampled::default() }])
    }
}

pub(crate) fn reward(trace: &Trace) -> f64 {
    trace.reward().expect("scored").total
}

/// A trace that earned the share of what it could have said.
fn episode(turns: Vec<Sampled>) -> Trace {
    let share = |sampled: &Sampled| sampled.ids.iter().filter(|&&id| id == WANTED).count() as f64 / N_TOKENS as f64;
    let total = turns.iter().map(share).sum::<f64>() / turns.len() as f64;
    let by = Giver { kind: GiverKind::Check, name: "toy".into(), config: None };
    let at = Time::from_unix_nanos(0);
    let reward = Reward { total, ..Reward::sum(RewardId::derived(&["toy"]), at, by, Vec::new()) };
    let turn = |sampled| Turn {
        sampled: Some(sampled),
        ..Turn::new(vec![Message::text(Role::User, "?")], Message::text(Role::Assistant, "!"))
    };
    Trace {
        v: V1,
        id: TraceId::derived(&["toy"]),
        tenant: Tenant::new("toy").expect("a good name"),
        started: at,
        ended: None,
        category: None,
        scenario: None,
        group: None,
        run: None,
        config: ConfigHash::of(b"toy"),
        outcome: TraceOutcome::Unknown,
        segments: vec![Segment { turns: turns.into_iter().map(turn).collect(), ..Segment::default() }],
        rewards: vec![reward],
        metrics: BTreeMap::new(),
        metadata: Default::default(),
    }
}
