//! A small vocabulary for a model trained from scratch: the words of a corpus, single digits, characters, and bytes.
//!
//! It is an ordinary `tokenizer.json` that transformers loads too. A text is cut into words (each with the space before
//! it), single digits and marks. A piece that is in the vocabulary is one token; any other falls apart into its
//! characters, and an unknown character into its bytes, so every text comes back exactly. There are no merges.
//! The same corpus gives the same vocabulary: the most frequent pieces, ties in order of their text.
//! Knows nothing of models.

use crate::error::RenderError;
use crate::tokenizer::Tokenizer;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// ChatML's frame; the end token is also what ends a text.
const CONTROL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const TAGS: [&str; 4] = ["<think>", "</think>", "<tool_call>", "</tool_call>"];
const N_BYTES: usize = 256;

/// The smallest vocabulary: special tokens and all bytes.
pub const VOCAB_LEN_MIN: usize = CONTROL.len() + TAGS.len() + N_BYTES;

/// Words with the space before them, single digits, runs of line breaks, and every other character by itself.
const PIECES: &str = r" ?\p{L}+| ?\p{N}|\n+| ?[^\s\p{L}\p{N}]|\s";

/// ChatML with tools, as short as it can be.
const TEMPLATE: &str = "\
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}Tools:
{% for tool in tools %}{{ (tool.function if tool.function is defined else tool) | tojson }}
{% endfor %}Call one by <tool_call>{\"name\": ..., \"arguments\": {...}}</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if not (tools and loop.first and message.role == 'system') %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
{%- set function = call.function if call.function is defined else call %}
{%- if message.content or not loop.first %}{{ '\\n' }}{% endif %}<tool_call>
{{ '{\"name\": ' }}{{ function.name | tojson }}, \"arguments\": {{ function.arguments | tojson }}{{ '}' }}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}";

/// The two files of a small tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TinyFiles {
    /// `tokenizer.json`.
    pub tokenizer: String,
    /// `tokenizer_config.json`, with the chat template.
    pub config: String,
}

/// Builds a vocabulary of at most `vocab_len` tokens from a corpus.
pub fn build<'a>(corpus: impl IntoIterator<Item = &'a str>, vocab_len: usize) -> Result<TinyFiles, RenderError> {
    if vocab_len < VOCAB_LEN_MIN {
        let what = format!("a small vocabulary of {vocab_len} tokens has no room for the {VOCAB_LEN_MIN} that every text needs");
        return Err(RenderError::tokenizer(what));
    }
    // The cutting rule is run by the library that will run it later, so that both see the same pieces.
    let cutter = Tokenizer::from_values(&files([].into_iter()), &Json::Null)?;
    let mut n_seen: BTreeMap<String, u64> = BTreeMap::new();
    for text in corpus {
        for piece in cutter.pieces(text)? {
            for c in piece.chars().filter(|_| piece.chars().nth(1).is_some()) {
                // Characters are worth having even when the words that they are in are tokens themselves.
                *n_seen.entry(c.to_string()).or_default() += 1;
            }
            *n_seen.entry(piece).or_default() += 1;
        }
    }
    let mut ranked: Vec<(String, u64)> = n_seen.into_iter().collect();
    // Characters first: a corpus spelled without bytes is worth more than one more word.
    ranked.sort_by_key(|(piece, n)| (piece.chars().nth(1).is_some(), std::cmp::Reverse(*n)));
    ranked.truncate(vocab_len - VOCAB_LEN_MIN);
    let tokenizer = files(ranked.into_iter().map(|(piece, _)| piece));
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": null, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "add_bos_token": false, "clean_up_tokenization_spaces": false, "chat_template": TEMPLATE});
    Ok(TinyFiles { tokenizer: tokenizer.to_string(), config: config.to_string() })
}

fn files(pieces: impl Iterator<Item = String>) -> Json {
    let special = CONTROL.iter().map(|text| (*text, true)).chain(TAGS.iter().map(|text| (*text, false)));
    let added: Vec<Json> = special
        .zip(0u32..)
        .map(|((text, special), id)| {
            json!({"id": id, "content": text, "special": special, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false})
        })
        .collect();
    let texts = CONTROL.iter().chain(&TAGS).map(|text| (*text).to_owned());
    let bytes = (0..N_BYTES).map(|byte| format!("<0x{byte:02X}>"));
    let vocab: Map<String, Json> = texts.chain(bytes).chain(pieces).zip(0u32..).map(|(text, id)| (text, id.into())).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": false},
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true, "ignore_merges": true,
            "vocab": vocab, "merges": []}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokenizer(corpus: &[&str], vocab_len: usize) -> Tokenizer {
        let files = build(corpus.iter().copied(), vocab_len).expect("room enough");
        Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).expect("our own files")
    }

    fn check(text: &str, expected: &[&str]) {
        let tokenizer = tokenizer(&["the cat sat on the mat, 12 times; the end\n"], 400);
        let pieces: Vec<String> =
            tokenizer.encode(text).expect("ids").iter().map(|&id| tokenizer.decode_continuation(&[id])).collect();
        assert_eq!(pieces, expected, "{text}");
    }

    #[test]
    fn known_words_are_tokens_and_others_fall_apart() {
        check("the cat", &["the", " cat"]);
        check("the tac", &["the", " ", "t", "a", "c"]);
        check("cat 12,", &["c", "a", "t", " 1", "2", ","]);
        check("é", &["\u{fffd}", "\u{fffd}"]);
        check("<|im_end|>", &["<", "|", "i", "m", "_", "e", "n", "d", "|", ">"]);
    }

    #[test]
    fn the_size_is_kept_and_too_small_a_one_refused() {
        assert_eq!(tokenizer(&["a b c d e f g"], VOCAB_LEN_MIN + 3).vocab_len(), VOCAB_LEN_MIN + 3);
        assert!(build(["x"], VOCAB_LEN_MIN - 1).is_err());
    }

    #[test]
    fn the_same_corpus_gives_the_same_files() {
        let corpus = ["b a c a", "c b d"];
        assert_eq!(build(corpus, 300), build(corpus, 300));
    }

    #[test]
    fn the_end_of_a_turn_ends_an_answer() {
        let tokenizer = tokenizer(&[], 300);
        assert_eq!(tokenizer.eos_ids().first(), tokenizer.id_of("<|im_end|>").as_ref());
        assert!(tokenizer.is_control(0) && !tokenizer.id_of("<think>").is_some_and(|id| tokenizer.is_control(id)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_text_comes_back(text: String, corpus in "\\PC{0,60}", n_words in 0usize..60) {
            let tokenizer = tokenizer(&[&corpus], VOCAB_LEN_MIN + n_words);
            prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text).expect("ids")), text);
        }
    }
}
