//! One GRPO step with a made-up reward: what the benchmarks of the engine repeat.

use crate::failure::Failure;
use hone_engine::backend::ScoredGrad;
use hone_engine::batch::Request;
use hone_engine::cpu::Cpu;
use hone_engine::host::{Host, Sample};
use hone_engine::layout::{Group, Packed};
use hone_engine::lora::LoraWeights;
use hone_engine::tape::plain_targets;
use hone_engine::trainer::Trainer;

/// What a sample earns by its tokens.
pub(super) type Grade = Box<dyn Fn(&[u32]) -> f32>;

/// What every step of a run has in common.
pub(super) struct Step {
    pub(super) prompts: Vec<Vec<u32>>,
    /// Samples of each prompt.
    pub(super) n_samples: usize,
    /// Tokens of each sample.
    pub(super) n_tokens: usize,
    pub(super) reward: Grade,
    pub(super) lr: f32,
}

impl Step {
    /// The samples of each prompt, as the present adapter draws them.
    pub(super) fn sample(&self, host: &mut Host<Cpu>, trainer: &Trainer<Cpu>, seed: u64) -> Result<Vec<Vec<Sample>>, Failure> {
        let version = host.load(&adapter(host, trainer)?);
        let request = |(i, prompt): (usize, &Vec<u32>)| Request {
            n_samples: self.n_samples,
            seed,
            sequence: (i * self.n_samples) as u64,
            adapter: host.pin(version),
            ..Request::new(prompt.clone(), self.n_tokens)
        };
        let requests = self.prompts.iter().enumerate().map(request).collect();
        let samples = host.sample(requests).map_err(Failure::world)?;
        host.drop_adapter(version);
        Ok(samples)
    }

    /// Trains on them, rewards centred within each group. The largest difference between the sampler's log-probs and the
    /// trainer's.
    pub(super) fn train(&self, host: &mut Host<Cpu>, trainer: &mut Trainer<Cpu>, samples: &[Vec<Sample>]) -> f32 {
        let (mut groups, mut advantages, mut sampled) = (Vec::new(), Vec::new(), Vec::new());
        for (prompt, samples) in self.prompts.iter().zip(samples) {
            let ids = |sample: &Sample| sample.tokens.iter().map(|token| token.id).collect::<Vec<u32>>();
            let completions: Vec<Vec<u32>> = samples.iter().map(ids).collect();
            let rewards: Vec<f32> = completions.iter().map(|ids| (self.reward)(ids)).collect();
            let mean = rewards.iter().sum::<f32>() / rewards.len() as f32;
            for (sample, reward) in samples.iter().zip(rewards) {
                advantages.extend(std::iter::repeat_n(reward - mean, sample.tokens.len()));
                sampled.extend(sample.tokens.iter().map(|token| token.logprob));
            }
            groups.push(Group { prompt: prompt.clone(), completions });
        }
        let packed = Packed::new(&groups);
        let n = advantages.len() as f32;
        let scored = host.accumulate(trainer, &packed, plain_targets(&packed, 1.0), |_| {
            advantages.iter().map(|advantage| ScoredGrad { logprob: -advantage / n, entropy: 0.0 }).collect()
        });
        host.step(trainer, self.lr);
        scored.iter().zip(&sampled).fold(0.0, |worst: f32, (scored, logprob)| worst.max((scored.logprob - logprob).abs()))
    }
}

/// The adapter as it is now.
pub(super) fn adapter(host: &Host<Cpu>, trainer: &Trainer<Cpu>) -> Result<LoraWeights, Failure> {
    trainer.lora_weights(host.backend()).ok_or_else(|| Failure::bug("a LoRA run without an adapter"))
}
