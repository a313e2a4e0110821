//! The real vocabulary of SmolLM2, read from its GGUF file and from its `tokenizer.json`.
//!
//! Runs where `HONE_TEST_SMOLLM2` names the GGUF file, or the golden data is beside the checkout; says so and passes otherwise.

use crate::{check_against, drawn, fixture, ids};
use hone_engine::gguf::Gguf;
use hone_render::{Renderer, Tokenizer};
use serde_json::Value as Json;
use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "the test run says by a variable where the model is")]
#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
fn gguf_path() -> Option<PathBuf> {
    let path = std::env::var_os("HONE_TEST_SMOLLM2").map(PathBuf::from).filter(|path| path.is_file());
    if path.is_none() {
        println!("skipped: HONE_TEST_SMOLLM2 does not name the GGUF file of SmolLM2-135M-Instruct");
    }
    path
}

fn from_gguf() -> Option<Tokenizer> {
    let file = Gguf::open(&gguf_path()?).expect("a sound file");
    Some(Tokenizer::from_gguf(file.values()).expect("a known tokenizer"))
}

#[expect(clippy::print_stdout, reason = "says why a test did nothing")]
fn golden(name: &str) -> Option<Vec<u8>> {
    let path = format!("{}/../../../shared/data/smollm2-golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).ok();
    if bytes.is_none() {
        println!("skipped: the golden data is not beside the checkout");
    }
    bytes
}

fn check_golden(tokenizer: &Tokenizer, golden: &[u8]) {
    for line in String::from_utf8_lossy(golden).lines() {
        let case: Json = serde_json::from_str(line).expect("golden JSON");
        let text = case["text"].as_str().expect("a text");
        assert_eq!(drawn(tokenizer, text), ids(&case["ids"]), "{text:?}");
    }
}

#[test]
fn the_gguf_file_agrees_with_transformers() {
    let Some(tokenizer) = from_gguf() else { return };
    if let Some(golden) = golden("tokenize.jsonl") {
        check_golden(&tokenizer, &golden);
    }
    check_against(&Renderer::new(tokenizer).expect("a sound template"), &fixture("smollm2.json"));
}

#[test]
fn the_tokenizer_file_agrees_with_transformers() {
    let (Some(file), Some(golden)) = (golden("tokenizer.json"), golden("tokenize.jsonl")) else { return };
    let tokenizer = Tokenizer::from_json(&file, None).expect("a known tokenizer");
    check_golden(&tokenizer, &golden);
    for case in fixture("smollm2.json")["texts"].as_array().expect("texts") {
        let text = case["text"].as_str().expect("a text");
        assert_eq!(tokenizer.encode(text).expect("ids"), ids(&case["ids"]), "{text:?}");
    }
}

/// What an export writes beside the weights is what transformers reads: the very fields of the file that the model came with.
#[test]
fn the_files_of_a_gguf_file_are_those_of_its_folder() {
    let (Some(path), Some(file)) = (gguf_path(), golden("tokenizer.json")) else { return };
    let [(name, text), (_, config)] = Tokenizer::files_of_gguf(Gguf::open(&path).expect("a sound file").values()).expect("files");
    let [ours, theirs]: [Json; 2] = [text.as_bytes(), &file].map(|bytes| serde_json::from_slice(bytes).expect("JSON"));
    assert_eq!(name, "tokenizer.json");
    for part in ["version", "added_tokens", "normalizer", "pre_tokenizer", "decoder"] {
        assert_eq!(ours[part], theirs[part], "{part}");
    }
    assert_eq!(ours["model"]["vocab"], theirs["model"]["vocab"]);
    assert!(config.contains("PreTrainedTokenizerFast") && config.contains("im_end"), "{config}");
    let again = Tokenizer::from_json(text.as_bytes(), Some(config.as_bytes())).expect("our own files");
    assert_eq!(again.eos_ids(), from_gguf().expect("the same file").eos_ids());
}

#[test]
fn both_files_hold_the_same_tokens() {
    let (Some(gguf), Some(file)) = (from_gguf(), golden("tokenizer.json")) else { return };
    let json = Tokenizer::from_json(&file, None).expect("a known tokenizer");
    assert_eq!(gguf.vocab_len(), json.vocab_len());
    for id in 0..gguf.vocab_len() as u32 {
        assert_eq!(gguf.bytes(id), json.bytes(id), "token {id}");
        assert_eq!(gguf.is_control(id), json.is_control(id), "token {id}");
    }
    assert_eq!(gguf.eos_ids().first(), gguf.id_of("<|im_end|>").as_ref());
}
