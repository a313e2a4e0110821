//! The tokenizer in the header of a GGUF file, put into the form of a `tokenizer.json`.
//!
//! GGUF names a cutting rule (`tokenizer.ggml.pre`) where Hugging Face spells it out; the rules of the families that the
//! engine runs are spelled out here. SentencePiece vocabularies come with scores instead of merges: every way to cut a
//! token into two others is a merge, and better scores go first. Types of tokens say what is special.
//! Knows nothing of tensors.

use crate::error::RenderError;
use hone_engine::gguf::Value;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Most bytes of one token: finding its merges takes as many steps as its length squared.
const TOKEN_LEN_MAX: usize = 1024;

const TYPE_UNKNOWN: i64 = 2;
const TYPE_CONTROL: i64 = 3;
const TYPE_USER_DEFINED: i64 = 4;

/// A word of Llama 3 and Qwen 2; `{digits}` is how many digits go together.
const WORDS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The header as (`tokenizer.json`, `tokenizer_config.json`).
pub(crate) fn to_hugging_face(values: &BTreeMap<String, Value>) -> Result<(Json, Json), RenderError> {
    let header = Header { values };
    let Some(Value::Texts(tokens)) = header.get("tokens") else {
        return Err(missing("tokens"));
    };
    let mut vocab = Map::new();
    for (token, id) in tokens.iter().zip(0u32..) {
        if token.len() > TOKEN_LEN_MAX {
            return Err(RenderError::tokenizer(format!(
                "the token {id} in the GGUF header is longer than {TOKEN_LEN_MAX} bytes"
            )));
        }
        if vocab.insert(token.clone(), id.into()).is_some() {
            return Err(RenderError::tokenizer(format!("the GGUF header lists the token `{token}` twice")));
        }
    }
    let mut tokenizer = match header.text("model") {
        Some("gpt2") => byte_level(&header, &vocab)?,
        Some("llama") => sentence_piece(&header, tokens, &vocab)?,
        other => {
            let name = other.unwrap_or("none");
            return Err(RenderError::tokenizer(format!("the GGUF tokenizer `{name}` is not known; gpt2 and llama are")));
        }
    };
    tokenizer["version"] = "1.0".into();
    tokenizer["added_tokens"] = added_tokens(&header, tokens);
    Ok((tokenizer, config(&header, tokens)))
}

struct Header<'a> {
    values: &'a BTreeMap<String, Value>,
}

impl<'a> Header<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.values.get(&format!("tokenizer.ggml.{key}"))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(Value::as_text)
    }

    fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }
}

fn byte_level(header: &Header<'_>, vocab: &Map<String, Json>) -> Result<Json, RenderError> {
    let Some(Value::Texts(merges)) = header.get("merges") else {
        return Err(missing("merges"));
    };
    let gpt2 = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let words = |digits: &str| {
        let pattern = WORDS.replace("{digits}", digits);
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]})
    };
    let pre = header.text("pre").unwrap_or("default");
    let (pre_tokenizer, normalizer) = match pre {
        "default" | "gpt-2" => (gpt2, Json::Null),
        "smollm" => {
            (json!({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, gpt2]}), Json::Null)
        }
        "llama-bpe" => (words("{1,3}"), Json::Null),
        "qwen2" => (words(""), json!({"type": "NFC"})),
        other => {
            let known = "default, gpt-2, smollm, llama-bpe and qwen2 are";
            return Err(RenderError::tokenizer(format!("the cutting rule `{other}` is not known; {known}")));
        }
    };
    Ok(json!({
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": pre == "llama-bpe"}}))
}

fn sentence_piece(header: &Header<'_>, tokens: &[String], vocab: &Map<String, Json>) -> Result<Json, RenderError> {
    let scores = match header.get("scores") {
        Some(Value::Floats(scores)) if scores.len() == tokens.len() => scores,
        _ => return Err(missing("scores")),
    };
    let unknown = header.get("unknown_token_id").and_then(Value::as_u64).and_then(|id| tokens.get(usize::try_from(id).ok()?));
    let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let prefix = json!({"type": "Prepend", "prepend": "\u{2581}"});
    let has_prefix = header.flag("add_space_prefix").unwrap_or(true);
    let normalizers = if has_prefix { json!([prefix, space]) } else { json!([space]) };
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if has_prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let merges = merges_by_score(tokens, scores, vocab);
    Ok(json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": unknown, "fuse_unk": true, "byte_fallback": true}}))
}

/// Every way to make a token out of two others, best score first; among equals, the older halves first.
fn merges_by_score(tokens: &[String], scores: &[f32], vocab: &Map<String, Json>) -> Vec<(String, String)> {
    let id = |text: &str| vocab.get(text).and_then(Json::as_u64);
    let mut merges = Vec::new();
    for (token, &score) in tokens.iter().zip(scores) {
        for (cut, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(cut);
            if let (Some(left_id), Some(right_id)) = (id(left), id(right)) {
                merges.push((score, left_id, right_id, left, right));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    merges.into_iter().map(|(_, _, _, left, right)| (left.to_owned(), right.to_owned())).collect()
}

fn added_tokens(header: &Header<'_>, tokens: &[String]) -> Json {
    let types: &[i64] = match header.get("token_type") {
        Some(Value::Ints(types)) => types,
        _ => &[],
    };
    let special = |kind: i64| matches!(kind, TYPE_CONTROL | TYPE_UNKNOWN);
    let entries = tokens.iter().zip(types).zip(0u32..).filter(|((_, kind), _)| special(**kind) || **kind == TYPE_USER_DEFINED);
    let entry = |((token, kind), id): ((&String, &i64), u32)| {
        json!({"id": id, "content": token, "special": special(*kind), "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false})
    };
    entries.map(entry).collect()
}

fn config(header: &Header<'_>, tokens: &[String]) -> Json {
    let token = |key: &str| tokens.get(usize::try_from(header.get(key)?.as_u64()?).ok()?);
    json!({
        "bos_token": token("bos_token_id"),
        "eos_token": token("eos_token_id"),
        "add_bos_token": header.flag("add_bos_token").unwrap_or(header.text("model") == Some("llama")),
        "chat_template": header.values.get("tokenizer.chat_template").and_then(Value::as_text)})
}

fn missing(key: &str) -> RenderError {
    RenderError::tokenizer(format!("the GGUF header has no sound `tokenizer.ggml.{key}`"))
}
