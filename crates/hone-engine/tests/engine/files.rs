//! Model files that lie, and model files that do not.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hone_engine::config::RopeScaling;
use hone_engine::gguf::{self, Gguf, Value};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::param::ParamId;
use hone_engine::quant::Encoding;
use hone_engine::safetensors::{self, SafeTensors};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Builds a GGUF file: values, tensors (name, dims, type, offset), data bytes.
struct Builder {
    version: u32,
    values: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, u64)>,
    data: Vec<u8>,
}

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat()
}

impl Builder {
    fn new() -> Self {
        Self { version: 3, values: vec![], tensors: vec![], data: vec![] }
    }

    fn u32(mut self, key: &str, value: u32) -> Self {
        self.values.push((key.into(), [4u32.to_le_bytes(), value.to_le_bytes()].concat()));
        self
    }

    fn text(mut self, key: &str, value: &str) -> Self {
        self.values.push((key.into(), [&8u32.to_le_bytes()[..], &text(value)].concat()));
        self
    }

    fn f32(mut self, key: &str, value: f32) -> Self {
        self.values.push((key.into(), [6u32.to_le_bytes(), value.to_le_bytes()].concat()));
        self
    }

    fn flag(mut self, key: &str, value: bool) -> Self {
        self.values.push((key.into(), [&7u32.to_le_bytes()[..], &[u8::from(value)]].concat()));
        self
    }

    /// A tensor of ones behind all others.
    fn ones(mut self, name: &str, dims: &[u64]) -> Self {
        let offset = self.data.len() as u64;
        self.data.extend((0..dims.iter().product::<u64>()).flat_map(|_| 1f32.to_le_bytes()));
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.tensor(name, dims, 0, offset)
    }

    /// A whole model of one layer: four heads of width 2 on a stream of 8, with a head of its own.
    fn model(arch: &str) -> Self {
        let key = |name: &str| format!("{arch}.{name}");
        let mut model = Self::new()
            .text("general.architecture", arch)
            .u32(&key("embedding_length"), 8)
            .u32(&key("block_count"), 1)
            .u32(&key("context_length"), 16)
            .u32(&key("feed_forward_length"), 4)
            .u32(&key("attention.head_count"), 4);
        for name in ["token_embd", "output"] {
            model = model.ones(&format!("{name}.weight"), &[8, 5]);
        }
        for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
            model = model.ones(&format!("{name}.weight"), &[8]);
        }
        for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            model = model.ones(&format!("blk.0.{name}.weight"), &[8, 8]);
        }
        for (name, dims) in [("ffn_gate", [8, 4]), ("ffn_up", [8, 4]), ("ffn_down", [4, 8])] {
            model = model.ones(&format!("blk.0.{name}.weight"), &dims);
        }
        model
    }

    fn tensor(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors.push((name.into(), dims.to_vec(), kind, offset));
        self
    }

    fn data(mut self, n: usize) -> Self {
        self.data = (0..n).map(|i| i as u8).collect();
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.values.len() as u64).to_le_bytes());
        for (key, value) in &self.values {
            out.extend(text(key));
            out.extend(value);
        }
        for (name, dims, kind, offset) in &self.tensors {
            out.extend(text(name));
            out.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend(offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }
}

fn check_gguf(bytes: &[u8], says: &str) {
    let error = gguf::parse(bytes).expect_err("must be refused");
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_sound_gguf_is_read() {
    let builder = Builder::new().text("a", "b").u32("n", 7).tensor("w", &[4, 2], 0, 0).data(32);
    let (values, tensors) = gguf::parse(&builder.bytes()).expect("a sound file");
    assert_eq!(values["a"], Value::Text("b".into()));
    assert_eq!(values["n"].as_u64(), Some(7));
    assert_eq!(tensors["w"].dims, [4, 2]);
}

#[test]
fn a_lying_gguf_is_refused_by_name() {
    check_gguf(b"GGML", "not a GGUF file");
    check_gguf(&Builder { version: 9, ..Builder::new() }.bytes(), "version 9");
    let sound = Builder::new().tensor("w", &[4, 2], 0, 0).data(32);
    check_gguf(&sound.bytes()[..70], "`w` reaches beyond");
    check_gguf(&Builder::new().tensor("w", &[4, 2], 0, 8).data(64).bytes(), "`w`: offset 8 is not aligned");
    check_gguf(&Builder::new().tensor("w", &[u64::MAX, 2], 0, 0).bytes(), "tensor `w`");
    check_gguf(&Builder::new().tensor("w", &[0], 0, 0).bytes(), "dimension of zero");
    check_gguf(&Builder::new().tensor("w", &[33], 8, 0).data(64).bytes(), "do not fill blocks");
    let overlap = Builder::new().tensor("v", &[16], 0, 0).tensor("w", &[16], 0, 32).data(96);
    check_gguf(&overlap.bytes(), "`v` and `w` overlap");
    let twice = Builder::new().tensor("w", &[8], 0, 0).tensor("w", &[8], 0, 32).data(64);
    check_gguf(&twice.bytes(), "`w` appears twice");
    let mut long = Builder::new().text("a", "b").bytes();
    long[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    check_gguf(&long, "exceeds the file");
    let mut many = Builder::new().bytes();
    many[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    check_gguf(&many, "claims");
}

fn open(model: &Builder) -> Result<Weights, String> {
    let (_folder, path) = write("model.gguf", &model.bytes());
    Weights::open(&path).map_err(|error| error.to_string())
}

fn check_unread(model: &Builder, says: &str) {
    let error = open(model).expect_err(says);
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_tensor_that_would_not_be_read_is_refused_by_name() {
    let llama = || Builder::model("llama");
    open(&llama()).expect("a plain model");
    for (name, len) in [
        ("blk.0.attn_output.bias", 8),
        ("blk.0.ffn_down.bias", 8),
        ("blk.0.attn_k.bias", 8),
        ("blk.0.attn_q.scale", 1),
        ("blk.0.attn_q_norm.weight", 2),
        ("blk.0.post_attention_norm.weight", 8),
        ("blk.1.attn_q.bias", 8),
        ("output.bias", 5),
    ] {
        check_unread(&llama().ones(name, &[len]), &format!("model.gguf: tensor `{name}` has no place"));
    }
    let biases = ["q", "k", "v"].map(|name| format!("blk.0.attn_{name}.bias"));
    let biased = |model: Builder| biases.iter().fold(model, |model, name| model.ones(name, &[8]));
    open(&biased(llama())).expect("biases that are added");
    open(&biased(Builder::model("qwen2"))).expect("biases that are added");
    open(&llama().ones("rope_freqs.weight", &[1])).expect("divisors that are used");
    check_unread(&biased(Builder::model("qwen2")).ones("rope_freqs.weight", &[1]), "tensor `rope_freqs.weight` has no place");
    check_unread(&Builder::model("qwen3"), "`blk.0.attn_q_norm.weight` is missing");
}

#[test]
fn a_gguf_value_that_would_change_the_sums_is_refused_by_name() {
    let llama = || Builder::model("llama");
    check_unread(&llama().u32("llama.rope.dimension_count", 1), "model.gguf: unsupported: GGUF `llama.rope.dimension_count` = 1");
    check_unread(&llama().u32("llama.attention.value_length", 4), "`llama.attention.value_length` = 4");
    check_unread(&llama().flag("llama.attention.causal", false), "`llama.attention.causal` = false");
    check_unread(&llama().u32("llama.expert_count", 8), "`llama.expert_count` = 8");
    check_unread(&llama().f32("llama.logit_scale", 0.5), "`llama.logit_scale` = 0.5");
    check_unread(&llama().text("llama.rope.scaling.type", "yarn"), "rope scaling `yarn`");
    check_unread(&llama().text("llama.rope.freq_base", "10000"), "`llama.rope.freq_base` is not a number");
    check_unread(&llama().text("llama.attention.head_count_kv", "4"), "`llama.attention.head_count_kv` is not a count");
    let plain = llama().u32("llama.rope.dimension_count", 2).flag("llama.attention.causal", true).u32("llama.expert_count", 0);
    open(&plain.f32("llama.logit_scale", 1.0)).expect("values that change nothing");
}

#[test]
fn a_gguf_rope_factor_is_linear_unless_it_says_otherwise() {
    let scaling = |model: Builder| open(&model).expect("a model").config().rope.scaling.clone();
    let llama = || Builder::model("llama");
    let by_four = RopeScaling::Linear { factor: 4.0 };
    assert_eq!(scaling(llama().f32("llama.rope.scale_linear", 4.0)), by_four);
    assert_eq!(scaling(llama().f32("llama.rope.scaling.factor", 4.0)), by_four);
    assert_eq!(scaling(llama().f32("llama.rope.scaling.factor", 4.0).f32("llama.rope.scale_linear", 2.0)), by_four);
    assert_eq!(scaling(llama().f32("llama.rope.scale_linear", 1.0)), RopeScaling::None);
    assert_eq!(scaling(llama().text("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4.0)), RopeScaling::None);
}

fn safe(table: &str, data: &[u8]) -> Vec<u8> {
    [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), data].concat()
}

fn check_safe(bytes: &[u8], says: &str) {
    let error = safetensors::parse(bytes).expect_err("must be refused");
    assert!(error.contains(says), "{error}");
}

#[test]
fn a_lying_safetensors_is_refused_by_name() {
    let entry =
        |name: &str, from: usize, to: usize| format!(r#""{name}":{{"dtype":"F32","shape":[2],"data_offsets":[{from},{to}]}}"#);
    let table = |entries: &[String]| format!("{{{}}}", entries.join(","));
    let (a, b) = (entry("a", 0, 8), entry("b", 8, 16));
    assert!(safetensors::parse(&safe(&table(&[a.clone(), b.clone()]), &[0; 16])).is_ok());
    check_safe(b"short", "length field");
    check_safe(&u64::MAX.to_le_bytes(), "claims");
    check_safe(&safe(&table(&[a.clone(), b.clone()]), &[0; 15]), "cover 16 of 15");
    check_safe(&safe(&table(std::slice::from_ref(&a)), &[0; 16]), "cover 8 of 16");
    check_safe(&safe(&table(&[a.clone(), entry("b", 4, 12)]), &[0; 12]), "`b` begins at 4");
    check_safe(&safe(&table(&[a.clone(), a.clone()]), &[0; 8]), "`a` appears twice");
    check_safe(&safe(&table(&[entry("a", 0, 12)]), &[0; 12]), "do not hold shape");
    check_safe(&safe(&table(&[entry("a", 8, 0)]), &[0; 8]), "do not hold shape");
    let huge = r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#;
    check_safe(&safe(huge, &[0; 8]), "do not hold shape");
    check_safe(&safe("{", &[]), "table");
}

fn write(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a writable folder");
    (folder, path)
}

#[test]
fn errors_name_the_file_and_pickles_are_refused() {
    let (_folder, path) = write("model.gguf", b"PK\x03\x04......");
    let error = Weights::open(&path).expect_err("refused").to_string();
    assert!(error.contains("model.gguf") && error.contains("can run code"), "{error}");
    let (_folder, path) = write("model.safetensors", b"\x80\x04\x95\x01\x02\x03\x04\x05\x06\x07\x08");
    assert!(SafeTensors::open(&path).expect_err("refused").to_string().contains("pickle"));
    let (_folder, path) = write("model.gguf", b"");
    assert!(Gguf::open(&path).expect_err("refused").to_string().contains("empty"));
}

#[test]
fn a_folder_with_only_a_pickle_is_refused_as_such() {
    let (folder, _path) = write("pytorch_model.bin", b"PK\x03\x04......");
    let config = r#"{"model_type":"llama","vocab_size":8,"hidden_size":4,"num_hidden_layers":1,
        "num_attention_heads":2,"intermediate_size":4,"max_position_embeddings":8}"#;
    std::fs::write(folder.path().join("config.json"), config).expect("a writable folder");
    let error = Weights::open(folder.path()).expect_err("refused").to_string();
    assert!(error.contains("pytorch_model.bin") && error.contains("can run code"), "{error}");
}

#[test]
fn an_index_cannot_point_outside_its_folder() {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mistral");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(fixture.join("config.json"), folder.path().join("config.json")).expect("a copy");
    let index = r#"{"weight_map":{"a":"../../secret.safetensors"}}"#;
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).expect("a writable folder");
    let error = Weights::open(folder.path()).expect_err("refused").to_string();
    assert!(error.contains("shard name"), "{error}");
}

/// A copy of a fixture with some keys of its config changed.
fn copy(family: &str, changes: &[(&str, Json)]) -> tempfile::TempDir {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(family);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(fixture.join("model.safetensors"), folder.path().join("model.safetensors")).expect("a copy");
    let text = std::fs::read_to_string(fixture.join("config.json")).expect("a config");
    let mut config: Json = serde_json::from_str(&text).expect("JSON");
    changes.iter().for_each(|(key, value)| config[*key] = value.clone());
    std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a writable folder");
    folder
}

#[test]
fn a_folder_without_its_head_is_refused() {
    Weights::open(copy("qwen2", &[]).path()).expect("a tied head");
    let untied = Weights::open(copy("qwen2", &[("tie_word_embeddings", json!(false))]).path()).expect_err("refused").to_string();
    assert!(untied.contains("tensor `lm_head.weight` is missing"), "{untied}");
    let classifier = copy("qwen2", &[("architectures", json!(["Qwen2ForSequenceClassification"]))]);
    let error = Weights::open(classifier.path()).expect_err("refused").to_string();
    assert!(error.contains("config.json: unsupported: architectures = [\"Qwen2ForSequenceClassification\"]"), "{error}");
}

#[test]
fn a_head_that_differs_from_the_embedding_is_used_and_an_equal_one_is_tied() {
    let folder = copy("llama", &[("tie_word_embeddings", json!(true))]);
    let weights = Weights::open(folder.path()).expect("a head of its own");
    assert!(!weights.config().tied_head);
    let mut tensors = BTreeMap::new();
    for id in ParamId::all(weights.config()) {
        let (rows, cols) = id.shape(weights.config());
        let from = if id == ParamId::Head { ParamId::Embed } else { id };
        let shape = if id.is_matrix() { vec![rows, cols] } else { vec![cols] };
        tensors.insert(id.hf_name(), (shape, weights.read(from).expect("a tensor")));
    }
    drop(weights);
    std::fs::write(folder.path().join("model.safetensors"), safetensors::encode(&tensors, &BTreeMap::new())).expect("written");
    assert!(Weights::open(folder.path()).expect("the same head twice").config().tied_head);
}

#[test]
fn an_index_beside_a_whole_file_is_not_looked_at() {
    let folder = copy("llama", &[]);
    let index = r#"{"weight_map":{"model.norm.weight":"model-00001-of-00002.safetensors"}}"#;
    std::fs::write(folder.path().join("model.safetensors.index.json"), index).expect("a writable folder");
    Weights::open(folder.path()).expect("the whole file");
}

#[test]
fn what_is_written_is_read() {
    let tensors = BTreeMap::from([
        ("b".to_owned(), (vec![2, 2], vec![1.0, -2.0, f32::MIN_POSITIVE, 4.0])),
        ("a".to_owned(), (vec![3], vec![0.5, 0.25, 0.125])),
    ]);
    let (_folder, path) = write("t.safetensors", &safetensors::encode(&tensors, &BTreeMap::new()));
    let file = SafeTensors::open(&path).expect("our own file");
    assert_eq!(file.read("b", (2, 2)).expect("b"), tensors["b"].1);
    assert_eq!(file.read("a", (1, 3)).expect("a"), tensors["a"].1);
    assert!(file.read("a", (3, 1)).expect_err("refused").to_string().contains("`a`"));
    assert!(file.read("c", (1, 1)).expect_err("refused").to_string().contains("`c` is missing"));
}

/// Blocks with known bytes; expected values from the formulas of the format, worked by hand.
#[test]
fn quantised_blocks_decode() {
    let half = |x: f32| half::f16::from_f32(x).to_le_bytes().to_vec();
    let nibbles = vec![0x2f; 16];
    let q4_0 = Encoding::Q4_0.decode(&[half(0.5), nibbles.clone()].concat());
    assert_eq!((q4_0[0], q4_0[16]), (3.5, -3.0));
    let q4_1 = Encoding::Q4_1.decode(&[half(0.5), half(1.0), nibbles.clone()].concat());
    assert_eq!((q4_1[0], q4_1[16]), (8.5, 2.0));
    let high = vec![0x01, 0, 0x01, 0];
    let q5_0 = Encoding::Q5_0.decode(&[half(1.0), high.clone(), nibbles.clone()].concat());
    assert_eq!((q5_0[0], q5_0[1], q5_0[16], q5_0[17]), (15.0, -1.0, 2.0, -14.0));
    let q5_1 = Encoding::Q5_1.decode(&[half(1.0), half(0.5), high, nibbles].concat());
    assert_eq!((q5_1[0], q5_1[16]), (31.5, 18.5));
    let q8 = Encoding::Q8_0.decode(&[half(0.25), vec![0xff; 32]].concat());
    assert_eq!(q8[31], -0.25);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2000)))]

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = gguf::parse(&bytes);
        let _ = safetensors::parse(&bytes);
        let _ = gguf::parse(&[b"GGUF\x03\0\0\0", &bytes[..]].concat());
        let _ = gguf::parse(&[b"GGUF\x03\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", &bytes[..]].concat());
    }

    #[test]
    fn a_damaged_header_never_panics(at in 0usize..200, byte: u8, cut in 0usize..260) {
        let builder = Builder::new().text("general.architecture", "llama").u32("llama.block_count", 2);
        let mut bytes = builder.tensor("token_embd.weight", &[4, 4], 0, 0).data(64).bytes();
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        bytes.truncate(cut.max(1));
        let _ = gguf::parse(&bytes);
        let (_folder, path) = write("m.gguf", &bytes);
        let _ = Weights::open(&path);
    }

    #[test]
    fn a_damaged_table_never_panics(at in 0usize..120, byte: u8) {
        let tensors = BTreeMap::from([("a".to_owned(), (vec![2, 2], vec![0.0; 4]))]);
        let mut bytes = safetensors::encode(&tensors, &BTreeMap::new());
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        let _ = safetensors::parse(&bytes);
    }
}
