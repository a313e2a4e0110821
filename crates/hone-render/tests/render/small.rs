//! The small vocabulary that we build ourselves, against transformers, which must load it too (see `fixtures/make.py`).

use crate::{check_against, fixture, user};
use hone_render::tools::ToolFormat;
use hone_render::{Ending, Renderer, Setting, Tokenizer, tiny};
use hone_trace::ToolSpec;
use serde_json::{Map, Value as Json, json};

const CORPUS: &[&str] = &[
    "The quick brown fox jumps over the lazy dog. What is the weather in Paris? It is sunny, 21 degrees.\n",
    "def add(a, b):\n    return a + b\n",
    "Höhe 3 m; naïve café. {\"name\": \"f\", \"arguments\": {}}\n\n",
];

#[test]
fn a_template_for_tools_is_taken_when_there_are_tools() {
    let files = tiny::build(CORPUS.iter().copied(), 420).expect("room enough");
    let templates =
        json!([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "<tool_call>{{ tools | length }}"}]);
    let config = json!({"eos_token": "<|im_end|>", "chat_template": templates}).to_string();
    let tokenizer = Tokenizer::from_json(files.tokenizer.as_bytes(), Some(config.as_bytes())).expect("a tokenizer");
    let renderer = Renderer::new(tokenizer).expect("sound templates");
    assert_eq!(renderer.tool_format(), ToolFormat::Hermes);
    let tool = ToolSpec { name: "f".into(), description: None, parameters: json!({}), extra: Map::new() };
    for (tools, expected) in [(vec![], "plain"), (vec![tool], "<tool_call>1")] {
        let setting = Setting { tools, ..Setting::default() };
        assert_eq!(renderer.render(&[user("a")], &setting, Ending::Answer).expect("a rendering").text, expected);
    }
}

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
