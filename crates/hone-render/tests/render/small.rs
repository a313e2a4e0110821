//! The small vocabulary that we build ourselves, against transformers, which must load it too (see `fixtures/make.py`).

use crate::{check_against, fixture};
use hone_render::{Renderer, Tokenizer, tiny};
use serde_json::{Value as Json, json};

const CORPUS: &[&str] = &[
    "The quick brown fox jumps over the lazy dog. What is the weather in Paris? It is sunny, 21 degrees.\n",
    "def add(a, b):\n    return a + b\n",
    "Höhe 3 m; naïve café. {\"name\": \"f\", \"arguments\": {}}\n\n",
];

#[test]
fn transformers_reads_our_files_as_we_do() {
    let files = tiny::build(CORPUS.iter().copied(), 420).expect("room enough");
    let parse = |text: &str| serde_json::from_str::<Json>(text).expect("JSON");
    let ours = json!({"tokenizer": parse(&files.tokenizer), "config": parse(&files.config)});
    let fixture = fixture("tiny.json");
    if ours["tokenizer"] != fixture["tokenizer"] || ours["config"] != fixture["config"] {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/tiny.json");
        std::fs::write(path, ours.to_string()).expect("a folder for tests");
        panic!("the files have changed; if they should, copy {path} to tests/fixtures and run make.py there");
    }
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).expect("our own files");
    check_against(&Renderer::new(tokenizer).expect("our own template"), &fixture);
}
