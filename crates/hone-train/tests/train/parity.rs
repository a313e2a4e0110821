//! Loss values and gradients equal those of TRL, and of plain torch formulas where TRL has none.
//!
//! The fixtures are written by `bench/python/losses.py`. Masked tokens are dropped before a loss sees them.

use hone_train::advantage::gae;
use hone_train::loss::{
    Loss, Method, Normaliser, Pair, PolicyLoss, PreferenceLoss, Surrogate, Tokens, awr_weights, imitation, policy, preference,
    value,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ops::Range;

type Rows = Vec<Vec<f64>>;

fn fixture<T: DeserializeOwned>(name: &str) -> T {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    serde_json::from_str(&text).expect(&path)
}

fn assert_close(what: &str, found: f64, expected: f64) {
    let difference = (found - expected).abs();
    assert!(difference <= 1e-5 * expected.abs().max(1e-3), "{what}: {found} instead of {expected}");
}

/// The unmasked entries of a table, row by row.
fn kept(rows: &Rows, mask: &Rows) -> Vec<f64> {
    let row = |(row, mask): (&Vec<f64>, &Vec<f64>)| {
        // A column of one stands for all tokens of its row.
        let at = |t: usize| row[if row.len() == 1 { 0 } else { t }];
        (0..mask.len()).filter(|&t| mask[t] != 0.0).map(at).collect::<Vec<_>>()
    };
    rows.iter().zip(mask).flat_map(row).collect()
}

fn floats(rows: &Rows, mask: &Rows) -> Vec<f32> {
    kept(rows, mask).into_iter().map(|x| x as f32).collect()
}

fn spans(mask: &Rows) -> Vec<Range<usize>> {
    let mut start = 0;
    let span = |row: &Vec<f64>| {
        let end = start + row.iter().filter(|&&x| x != 0.0).count();
        std::mem::replace(&mut start, end)..end
    };
    mask.iter().map(span).collect()
}

fn shares(normaliser: Normaliser, spans: &[Range<usize>]) -> Vec<f64> {
    let n_tokens = spans.iter().map(Range::len).sum();
    spans.iter().flat_map(|span| vec![normaliser.share(span.len(), spans.len(), n_tokens); span.len()]).collect()
}

fn assert_loss(what: &str, found: &Loss, value: f64, grads: &[f64]) {
    assert_close(what, found.value, value);
    assert_eq!(found.grads.len(), grads.len());
    for (t, (found, &expected)) in found.grads.iter().zip(grads).enumerate() {
        assert_close(&format!("{what}, token {t}"), f64::from(found.logprob), expected);
    }
}

#[derive(Deserialize)]
struct Inputs {
    mask: Rows,
    new: Rows,
    #[serde(default)]
    old: Rows,
    #[serde(default)]
    sampler: Rows,
    #[serde(default)]
    reference: Rows,
    #[serde(default)]
    entropy: Rows,
    #[serde(default)]
    advantages: Rows,
    #[serde(default)]
    token_advantages: Rows,
}

#[test]
fn policy_losses_agree() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        by: String,
        loss: PolicyLoss,
        advantages: String,
        value: f64,
        grad: Rows,
        grad_entropy: f64,
    }
    #[derive(Deserialize)]
    struct Fixture {
        inputs: Inputs,
        cases: Vec<Case>,
    }
    let Fixture { inputs, cases } = fixture("policy");
    let (mask, spans) = (&inputs.mask, spans(&inputs.mask));
    let sampler: Vec<Option<f32>> = floats(&inputs.sampler, mask).into_iter().map(Some).collect();
    assert!(cases.iter().filter(|case| case.by == "trl").count() >= 20);
    for case in &cases {
        let advantages = if case.advantages == "advantages" { &inputs.advantages } else { &inputs.token_advantages };
        let tokens = Tokens {
            logprobs: &floats(&inputs.new, mask),
            entropies: &floats(&inputs.entropy, mask),
            old: &floats(&inputs.old, mask),
            sampler: &sampler,
            reference: &floats(&inputs.reference, mask),
            advantages: &floats(advantages, mask),
            shares: &shares(case.loss.normaliser, &spans),
            entropy_share: 1.0 / sampler.len() as f64,
            spans: &spans,
        };
        let found = policy(&case.loss, &tokens);
        assert_loss(&case.name, &found, case.value, &kept(&case.grad, mask));
        found.grads.iter().for_each(|grad| assert_close(&case.name, f64::from(grad.entropy), case.grad_entropy));
    }
    // Every named method is among them, so that none is listed without proof.
    for method in Method::ALL {
        let loss = method.loss(10);
        assert!(cases.iter().any(|case| case.by == "trl" && case.loss == loss), "{method:?}");
    }
    // And the fixtures do cut: a clip that never acts would prove nothing.
    let clips = |case: &&Case| matches!(case.loss.surrogate, Surrogate::Clipped { .. });
    let is_cut = |case: &Case| kept(&case.grad, mask).contains(&0.0);
    assert!(cases.iter().filter(clips).filter(|case| case.loss.kl.is_none()).any(is_cut));
}

#[test]
fn preferences_agree() {
    #[derive(Deserialize)]
    struct Case {
        loss: PreferenceLoss,
        value: f64,
        grad: Rows,
    }
    #[derive(Deserialize)]
    struct Fixture {
        inputs: Inputs,
        cases: Vec<Case>,
    }
    let Fixture { inputs, cases } = fixture("preference");
    let (mask, spans) = (&inputs.mask, spans(&inputs.mask));
    let n_pairs = spans.len() / 2;
    let pairs: Vec<Pair> = (0..n_pairs).map(|i| Pair { chosen: vec![i], rejected: vec![n_pairs + i] }).collect();
    let logprobs = floats(&inputs.new, mask);
    let tokens = Tokens {
        logprobs: &logprobs,
        entropies: &vec![0.0; logprobs.len()],
        old: &[],
        sampler: &[],
        reference: &floats(&inputs.reference, mask),
        advantages: &[],
        shares: &[],
        entropy_share: 0.0,
        spans: &spans,
    };
    assert_eq!(cases.len(), 3);
    for case in cases {
        let found = preference(&case.loss, &tokens, &pairs, n_pairs);
        assert_loss(&format!("{:?}", case.loss), &found, case.value, &kept(&case.grad, mask));
    }
}

#[test]
fn imitation_agrees() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        weights: Rows,
        value: f64,
        grad: Rows,
    }
    #[derive(Deserialize)]
    struct Fixture {
        inputs: Inputs,
        temperature: f64,
        weight_max: f64,
        cases: Vec<Case>,
    }
    let Fixture { inputs, temperature, weight_max, cases } = fixture("imitation");
    let (mask, spans) = (&inputs.mask, spans(&inputs.mask));
    let logprobs = floats(&inputs.new, mask);
    for case in &cases {
        let weights: Rows = match &case.name[..] {
            "sft" => vec![vec![1.0]; spans.len()],
            _ => awr_weights(&inputs.advantages.concat(), temperature, weight_max)
                .expect("good")
                .chunks(1)
                .map(Vec::from)
                .collect(),
        };
        weights
            .concat()
            .iter()
            .zip(case.weights.concat())
            .for_each(|(&found, expected)| assert_close(&case.name, found, expected));
        let tokens = Tokens {
            logprobs: &logprobs,
            entropies: &vec![0.0; logprobs.len()],
            old: &[],
            sampler: &[],
            reference: &[],
            advantages: &floats(&weights, mask),
            shares: &shares(Normaliser::Tokens, &spans),
            entropy_share: 0.0,
            spans: &spans,
        };
        assert_loss(&case.name, &imitation(&tokens), case.value, &kept(&case.grad, mask));
    }
    assert_eq!(cases.len(), 2);
}

#[test]
fn values_agree() {
    #[derive(Deserialize)]
    struct Values {
        values: Vec<f64>,
        old: Vec<f64>,
        returns: Vec<f64>,
    }
    #[derive(Deserialize)]
    struct Case {
        clip: Option<f64>,
        value: f64,
        grad: Vec<f64>,
    }
    #[derive(Deserialize)]
    struct Estimate {
        rewards: Vec<f64>,
        last_value: f64,
        gamma: f64,
        lambda: f64,
        advantages: Vec<f64>,
    }
    #[derive(Deserialize)]
    struct Fixture {
        inputs: Values,
        cases: Vec<Case>,
        gae: Estimate,
    }
    let Fixture { inputs, cases, gae: expected } = fixture("value");
    assert_eq!(cases.len(), 2);
    for case in cases {
        let found = value(&inputs.values, &inputs.old, &inputs.returns, case.clip);
        assert_close("value", found.value, case.value);
        found.grads.iter().zip(&case.grad).for_each(|(&found, &expected)| assert_close("gradient", found, expected));
        assert_eq!(found.n_clipped, case.grad.iter().filter(|&&grad| grad == 0.0).count());
    }
    let found = gae(&expected.rewards, &inputs.old, expected.last_value, expected.gamma, expected.lambda);
    found.advantages.iter().zip(&expected.advantages).for_each(|(&found, &expected)| assert_close("advantage", found, expected));
}
