//! Parity with torch and peft on toy checkpoints of every family: scores, full gradients, adapters, adapter gradients.
//!
//! Fixtures are written by `bench/python/fixtures.py`; torch computed them in float64.

use std::path::{Path, PathBuf};

use hone_engine::backend::{Backend, Dtype, Scored, ScoredGrad, Target};
use hone_engine::cpu::{Cpu, Isa};
use hone_engine::layout::{Group, Packed};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::lora::Adapter;
use hone_engine::model::{Model, Passes};
use hone_engine::optim::AdamOptions;
use hone_engine::peft;
use hone_engine::reference::Reference;
use hone_engine::safetensors::SafeTensors;
use hone_engine::tape::{Recompute, plain_targets, score};
use hone_engine::trainer::Trainer;
use serde::Deserialize;
use serde_json::json;

const FAMILIES: [&str; 4] = ["llama", "qwen2", "qwen3", "mistral"];
const INV_TEMPERATURE: f32 = 1.25;

#[derive(Deserialize)]
struct Case {
    prompt: Vec<u32>,
    completions: Vec<Vec<u32>>,
    text: Vec<u32>,
    weights: Vec<f32>,
}

struct Fixture {
    folder: PathBuf,
    case: Case,
    expected: SafeTensors,
    weights: Weights,
}

impl Fixture {
    fn open(family: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(family);
        let case = std::fs::read(folder.join("case.json")).expect("a case");
        Self {
            case: serde_json::from_slice(&case).expect("a case"),
            expected: SafeTensors::open(&folder.join("expected.safetensors")).expect("expected values"),
            weights: Weights::open(&folder).expect("a checkpoint"),
            folder,
        }
    }

    fn read(&self, name: &str) -> Vec<f32> {
        let shape = self.expected.tensors().get(name).unwrap_or_else(|| panic!("{name}")).shape().to_vec();
        let shape = if let [rows, cols] = shape[..] { (rows, cols) } else { (1, shape[0]) };
        self.expected.read(name, shape).expect("expected values")
    }

    fn packed(&self) -> Packed {
        let Case { prompt, completions, .. } = &self.case;
        Packed::new(&[Group { prompt: prompt.clone(), completions: completions.clone() }])
    }

    fn loss(&self, scored: &[Scored]) -> Vec<ScoredGrad> {
        assert_eq!(scored.len(), self.case.weights.len());
        self.case.weights.iter().map(|&logprob| ScoredGrad { logprob, entropy: 0.05 }).collect()
    }

    /// Log-probs of the whole vocabulary at every position of the text: one target per (position, id).
    fn vocabulary<B: Backend>(&self, backend: &B, model: &Model<B>, adapter: Option<&Adapter<B>>) -> Vec<f32> {
        let mut packed = Packed::new(&[Group { prompt: self.case.text.clone(), completions: vec![] }]);
        let vocab = model.config.vocab as u32;
        packed.targets = (0..self.case.text.len() as u32).flat_map(|row| (0..vocab).map(move |id| (row, id))).collect();
        let targets: Vec<Target> = plain_targets(&packed, 1.0);
        score(backend, model, adapter, &packed, &targets).iter().map(|scored| scored.logprob).collect()
    }
}

fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance, "{what}[{i}]: {f} instead of {e}");
    }
}

/// Relative error of a whole tensor.
fn relative(what: &str, found: &[f32], expected: &[f32], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let error = square(&mut found.iter().zip(expected).map(|(&f, &e)| f64::from(f) - f64::from(e)));
    let size = square(&mut expected.iter().map(|&e| f64::from(e)));
    assert!(error.sqrt() <= tolerance * size.sqrt().max(1e-6), "{what}: relative error {}", (error / size).sqrt());
}

fn check_family<B: Backend>(backend: &B, fixture: &Fixture, strict: bool) {
    let (logprob_tolerance, vocabulary_tolerance, grad_tolerance) = if strict { (1e-4, 5e-4, 1e-3) } else { (0.15, 0.3, 0.06) };
    let name = format!("{} {}", fixture.folder.display(), backend.path());
    let load = || Model::load(backend, &fixture.weights, 64, Passes::ForwardBackward).expect("all tensors");
    let model = load();
    close(&name, &fixture.vocabulary(backend, &model, None), &fixture.read("vocabulary"), vocabulary_tolerance);

    for recompute in [Recompute::Never, Recompute::Blocks] {
        let mut trainer = Trainer::full(backend, &fixture.weights, AdamOptions::default(), recompute).expect("weights");
        let packed = fixture.packed();
        let targets = plain_targets(&packed, INV_TEMPERATURE);
        let scored = trainer.accumulate(backend, &model, &packed, targets, |scored| fixture.loss(scored));
        let column = |pick: fn(&Scored) -> f32| scored.iter().map(pick).collect::<Vec<f32>>();
        close(&name, &column(|s| s.logprob), &fixture.read("logprob"), logprob_tolerance);
        close(&name, &column(|s| s.entropy), &fixture.read("entropy"), logprob_tolerance);
        for (tensor, grad) in trainer.gradients(backend) {
            relative(&format!("{name} {tensor}"), &grad, &fixture.read(&format!("grad/{tensor}")), grad_tolerance);
        }
    }

    let adapter_weights = peft::load(&fixture.folder.join("adapter"), fixture.weights.config()).expect("an adapter");
    let adapter = Adapter::new(backend, &model.config, &adapter_weights, false);
    let found = fixture.vocabulary(backend, &model, Some(&adapter));
    close(&name, &found, &fixture.read("lora_vocabulary"), vocabulary_tolerance);
    let options = AdamOptions::default();
    let mut trainer = Trainer::lora(backend, &model.config, &adapter_weights, options, Recompute::Never);
    let packed = fixture.packed();
    let targets = plain_targets(&packed, INV_TEMPERATURE);
    let scored = trainer.accumulate(backend, &model, &packed, targets, |scored| fixture.loss(scored));
    let found: Vec<f32> = scored.iter().map(|scored| scored.logprob).collect();
    close(&name, &found, &fixture.read("lora_logprob"), logprob_tolerance);
    for (tensor, grad) in trainer.gradients(backend) {
        relative(&format!("{name} {tensor}"), &grad, &fixture.read(&format!("lora_grad/{tensor}")), grad_tolerance);
    }
}

#[test]
fn the_reference_agrees_with_torch() {
    for family in FAMILIES {
        check_family(&Reference::<f32>::new(Dtype::F32), &Fixture::open(family), true);
    }
}

#[test]
fn every_instruction_level_agrees_with_torch_in_f32() {
    for family in FAMILIES {
        for isa in Isa::available() {
            check_family(&Cpu::with_isa(Dtype::F32, 2, isa), &Fixture::open(family), true);
        }
    }
}

#[test]
fn bf16_is_near_torch() {
    for family in FAMILIES {
        for isa in Isa::available() {
            check_family(&Cpu::with_isa(Dtype::Bf16, 2, isa), &Fixture::open(family), false);
        }
    }
}

#[test]
fn an_adapter_survives_being_saved() {
    for family in FAMILIES {
        let fixture = Fixture::open(family);
        let config = fixture.weights.config();
        let weights = peft::load(&fixture.folder.join("adapter"), config).expect("an adapter");
        let folder = tempfile::tempdir().expect("a folder");
        peft::save(folder.path(), config, &weights, "toy").expect("a writable folder");
        let back = peft::load(folder.path(), config).expect("our own adapter");
        assert_eq!(back, weights);
        assert_eq!(peft::hash(config, &back), peft::hash(config, &weights));
    }
}

/// Opens the Llama adapter with one setting changed; gives back how it is refused, if it is.
fn adapter_refusal(key: &str, value: serde_json::Value) -> Option<String> {
    let fixture = Fixture::open("llama");
    let (from, to) = (fixture.folder.join("adapter"), tempfile::tempdir().expect("a folder"));
    let text = std::fs::read_to_string(from.join("adapter_config.json")).expect("a config");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json[key] = value;
    std::fs::write(to.path().join("adapter_config.json"), json.to_string()).expect("a writable folder");
    std::fs::copy(from.join("adapter_model.safetensors"), to.path().join("adapter_model.safetensors")).expect("a copy");
    peft::load(to.path(), fixture.weights.config()).err().map(|error| error.to_string())
}

#[test]
fn adapters_that_are_not_plain_or_belong_on_changed_weights_are_refused() {
    for init in ["pissa", "pissa_niter_16", "olora", "OLoRA", "corda", "lora_ga", "loftq", "unheard-of"] {
        let error = adapter_refusal("init_lora_weights", json!(init)).expect(init);
        assert!(error.contains("adapter_config.json") && error.contains(&format!("init_lora_weights = \"{init}\"")), "{error}");
    }
    for init in [json!(true), json!(false), json!("gaussian"), json!("eva"), json!("orthogonal"), json!("mica")] {
        assert_eq!(adapter_refusal("init_lora_weights", init), None);
    }
    let others = [
        ("alora_invocation_tokens", json!([5, 7])),
        ("use_bdlora", json!({"nblocks": 2})),
        ("use_rslora", json!(true)),
        ("kasa_config", json!({"beta": 1e-4})),
        ("arrow_config", json!({"top_k": 3})),
        ("trainable_token_indices", json!([1])),
        ("alpha_pattern", json!({"q_proj": 3})),
        ("modules_to_save", json!(["lm_head"])),
    ];
    for (key, value) in others {
        let error = adapter_refusal(key, value).expect(key);
        assert!(error.contains(&format!("adapter with {key}")), "{error}");
    }
    assert_eq!(adapter_refusal("alora_invocation_tokens", json!([])), None);
}

#[test]
fn a_merged_model_scores_like_model_and_adapter() {
    for family in FAMILIES {
        let fixture = Fixture::open(family);
        let backend = Cpu::new(Dtype::F32, 1);
        let weights = peft::load(&fixture.folder.join("adapter"), fixture.weights.config()).expect("an adapter");
        let folder = tempfile::tempdir().expect("a folder");
        peft::merge(folder.path(), &fixture.weights, Some(&weights)).expect("a writable folder");
        let merged = Weights::open(folder.path()).expect("our own folder");
        assert_eq!(merged.config(), fixture.weights.config());
        let model = Model::load(&backend, &merged, 64, Passes::Forward).expect("all tensors");
        let found = fixture.vocabulary(&backend, &model, None);
        close(family, &found, &fixture.read("lora_vocabulary"), 5e-4);
    }
}
