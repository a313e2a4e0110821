//! Text to token ids and back, for the byte-pair vocabularies of the model family that the engine runs.
//!
//! Read from `tokenizer.json` (with the special tokens and chat template of `tokenizer_config.json`) or from the header
//! of a GGUF file. Cutting text into words and merging them is the `tokenizers` library's work; special tokens are cut
//! out here, so that only what a template wrote can become one, and going back is a table of bytes, so that ids are
//! decoded one at a time without guessing.
//!
//! Files come from strangers: sizes are bounded, and only parts that are known to behave are handed to the library.
//! Knows nothing of files, conversations or devices.

use crate::error::RenderError;
use crate::mark::Rendered;
use crate::pattern;
use crate::special::{Added, Kind, Specials};
use crate::spelling::Spelling;
use crate::stream::TextStream;
use hone_engine::gguf;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ops::Range;
use tokenizers::models::bpe::BPE;
use tokenizers::{
    Model, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper, Token,
};

/// Most bytes of a `tokenizer.json`.
pub const JSON_LEN_MAX: usize = 64 << 20;
/// Ids must be below this, so that a table of all of them stays small.
const IDS_MAX: u32 = 1 << 20;
/// Most parts of a normalizer and a pre-tokenizer together.
pub(crate) const PARTS_MAX: usize = 32;
/// How many times longer all parts together may make a text.
const GROWTH_MAX: usize = 64;

const NORMALIZERS: &[&str] = &["Sequence", "NFC", "NFD", "NFKC", "NFKD", "Replace", "Prepend"];
const PRE_TOKENIZERS: &[&str] = &["Sequence", "ByteLevel", "Split", "Digits", "Metaspace", "Punctuation"];

/// Tokens by which models of this family end an answer, besides the one that the file names.
const END_OF_TURN: &[&str] = &["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>"];

/// A vocabulary and how to use it.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    model: BPE,
    specials: Specials,
    spelling: Spelling,
    /// Whether something is written before the first piece of a text.
    adds_space: bool,
    /// The bytes of each id; empty where an id has no token.
    bytes: Vec<Box<[u8]>>,
    /// Bytes of the longest token, at least one.
    token_len_max: usize,
    bos: Option<String>,
    eos: Option<String>,
    eos_ids: Vec<u32>,
    bos_id: Option<u32>,
    chat_template: Option<String>,
    tool_template: Option<String>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json` and, where there is one, the `tokenizer_config.json` beside it.
    pub fn from_json(tokenizer: &[u8], config: Option<&[u8]>) -> Result<Self, RenderError> {
        let tokenizer = parse("tokenizer.json", tokenizer)?;
        let config = config.map_or(Ok(Json::Null), |bytes| parse("tokenizer_config.json", bytes))?;
        Self::from_values(&tokenizer, &config)
    }

    /// Reads the `tokenizer.ggml.*` values of a GGUF file.
    pub fn from_gguf(values: &BTreeMap<String, gguf::Value>) -> Result<Self, RenderError> {
        let (tokenizer, config) = crate::gguf::to_hugging_face(values)?;
        Self::from_values(&tokenizer, &config)
    }

    /// The same values as the files of a model's folder, each with its name.
    pub fn files_of_gguf(values: &BTreeMap<String, gguf::Value>) -> Result<[(&'static str, String); 2], RenderError> {
        let (tokenizer, mut config) = crate::gguf::to_hugging_face(values)?;
        // Without the name of a class, transformers asks for the model's own.
        config["tokenizer_class"] = "PreTrainedTokenizerFast".into();
        Ok([("tokenizer.json", tokenizer.to_string()), ("tokenizer_config.json", config.to_string())])
    }

    pub(crate) fn from_values(tokenizer: &Json, config: &Json) -> Result<Self, RenderError> {
        let part = |name: &str| tokenizer.get(name).unwrap_or(&Json::Null);
        check_growth(&[
            check_known(part("normalizer"), "normalizers", NORMALIZERS)?,
            check_known(part("pre_tokenizer"), "pretokenizers", PRE_TOKENIZERS)?,
        ])?;
        let vocab = check_model(part("model"))?;
        let added = part("added_tokens").as_array().map_or(&[][..], Vec::as_slice);
        let added = added.iter().map(Added::from_json).collect::<Result<Vec<_>, _>>()?;
        let spelling = Spelling::from_json(part("decoder"))?;
        let bytes = byte_table(&vocab, &added, &spelling)?;
        let normalizer: Option<NormalizerWrapper> = piece(part("normalizer"), "normalizer")?;
        let specials = Specials::with_forms(added, |text| normal_form(normalizer.as_ref(), text))?;

        let bos = special_text(config, "bos_token");
        let eos = special_text(config, "eos_token");
        let ends = eos.as_deref().into_iter().chain(END_OF_TURN.iter().copied());
        let mut eos_ids: Vec<u32> = Vec::new();
        for id in ends.filter_map(|text| specials.id_of(text)) {
            if !eos_ids.contains(&id) {
                eos_ids.push(id);
            }
        }
        let begins = match config.get("add_bos_token").and_then(Json::as_bool) {
            Some(adds) => bos.as_deref().filter(|_| adds),
            None => begin_token(part("post_processor")),
        };
        Ok(Self {
            bos_id: begins.and_then(|text| specials.id_of(text)),
            normalizer,
            pre_tokenizer: piece(part("pre_tokenizer"), "pre_tokenizer")?,
            model: BPE::deserialize(part("model")).map_err(|error| RenderError::tokenizer(format!("`model`: {error}")))?,
            specials,
            spelling,
            adds_space: adds_space(part("normalizer")) || adds_space(part("pre_tokenizer")),
            token_len_max: bytes.iter().map(|bytes| bytes.len()).max().unwrap_or(0).max(1),
            bytes,
            bos,
            eos,
            eos_ids,
            chat_template: chat_template(config),
            tool_template: named_template(config, "tool_use").map(str::to_owned),
        })
    }

    /// The ids of a text in which nothing is special: `<|im_end|>` becomes the characters that it is made of.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, RenderError> {
        self.encode_around(text, &self.specials.text_spans(text))
    }

    /// The ids of a text from a template: its special tokens are recognised, those of its messages are not.
    pub fn encode_rendered(&self, rendered: &Rendered) -> Result<Vec<u32>, RenderError> {
        self.encode_around(&rendered.text, &self.specials.spans(rendered))
    }

    /// The ids of what follows the first `n_bytes` bytes, as they are behind these bytes: some vocabularies write a space before
    /// whatever comes first.
    pub(crate) fn encode_after(&self, rendered: &Rendered, n_bytes: usize) -> Result<Vec<u32>, RenderError> {
        if self.adds_space {
            let (whole, before) = (self.encode_rendered(rendered)?, self.encode_rendered(&rendered.until(n_bytes))?);
            if let Some(after) = whole.strip_prefix(before.as_slice()) {
                return Ok(after.to_vec());
            }
        }
        self.encode_rendered(&rendered.after(n_bytes))
    }

    /// The ids of a text that is continued as it stands, by whoever renders conversations himself: special tokens in it are
    /// recognised, and the one that begins a text is put before it unless it is there already.
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, RenderError> {
        let ids = self.encode_rendered(&Rendered::trusted(text))?;
        let begin = self.bos_id.filter(|begin| ids.first() != Some(begin));
        Ok(begin.into_iter().chain(ids).collect())
    }

    /// Refuses a text that is longer than so many ids whatever they are: making them would take long, and much memory. A part
    /// that shortens texts, such as a normal form, does so by less than words fall short of the longest token.
    pub fn check_len(&self, text: &str, n_ids_max: usize) -> Result<(), RenderError> {
        let (n_bytes, n_ids_min) = (text.len(), text.len().div_ceil(self.token_len_max));
        if n_ids_min > n_ids_max { Err(RenderError::TooLong { n_bytes, n_ids_min, n_ids_max }) } else { Ok(()) }
    }

    /// Encodes what lies between tokens that are already known.
    fn encode_around(&self, text: &str, known: &[(Range<usize>, u32)]) -> Result<Vec<u32>, RenderError> {
        let failed =
            |error: Box<dyn std::error::Error + Send + Sync>| RenderError::Text { n_bytes: text.len(), why: error.to_string() };
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, whole| Ok(cut(&whole, known))).map_err(failed)?;
        if let Some(normalizer) = &self.normalizer {
            pieces.normalize(|piece| normalizer.normalize(piece)).map_err(failed)?;
        }
        pieces.split(|_, piece| Ok(cut(&piece, &self.specials.late_spans(piece.get())))).map_err(failed)?;
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(failed)?;
        }
        pieces.tokenize(|piece| self.model.tokenize(piece.get())).map_err(failed)?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None).map_err(failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The pieces into which a text is cut before tokens are looked up.
    pub(crate) fn pieces(&self, text: &str) -> Result<Vec<String>, RenderError> {
        let mut pieces = PreTokenizedString::from(text);
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            let cut = pre_tokenizer.pre_tokenize(&mut pieces);
            cut.map_err(|error| RenderError::Text { n_bytes: text.len(), why: error.to_string() })?;
        }
        let splits = pieces.get_splits(OffsetReferential::Original, OffsetType::None);
        Ok(splits.into_iter().map(|(piece, _, _)| piece.to_owned()).collect())
    }

    /// The text of whole ids, special tokens included. Bytes that are not UTF-8 become replacement characters.
    pub fn decode(&self, ids: &[u32]) -> String {
        let text = self.decode_continuation(ids);
        match text.strip_prefix(' ') {
            Some(rest) if self.spelling.leading_space => rest.to_owned(),
            _ => text,
        }
    }

    /// The text of ids that follow others: a space at its start is kept.
    pub fn decode_continuation(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes of one token; none for an id without a token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).map_or(&[], |bytes| bytes)
    }

    /// A decoder that takes ids one at a time.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(self)
    }

    /// One more than the largest id. A model's table may be longer; the ids between have no text.
    pub fn vocab_len(&self) -> usize {
        self.bytes.len()
    }

    /// The token that is exactly this text, special ones first.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        let ordinary = || (0..).zip(&self.bytes).find(|(_, bytes)| ***bytes == *text.as_bytes()).map(|(id, _)| id);
        self.specials.id_of(text).or_else(ordinary)
    }

    /// Whether a token frames the conversation: such tokens are never part of what is said.
    pub fn is_control(&self, id: u32) -> bool {
        self.specials.kind(id) == Some(Kind::Control)
    }

    /// The tokens that end an answer, the one that the file names first.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// The token that begins a text, when the model wants it before plain text. Templates write their own.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// The text of the begin token, for templates.
    pub fn bos_text(&self) -> &str {
        self.bos.as_deref().unwrap_or_default()
    }

    /// The text of the end token, for templates.
    pub fn eos_text(&self) -> &str {
        self.eos.as_deref().unwrap_or_default()
    }

    /// The chat template that came with the vocabulary.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The chat template for conversations with tools, where the model has one of its own for them.
    pub fn tool_template(&self) -> Option<&str> {
        self.tool_template.as_deref()
    }

    pub(crate) fn specials(&self) -> &Specials {
        &self.specials
    }
}

fn parse(name: &str, bytes: &[u8]) -> Result<Json, RenderError> {
    if bytes.len() > JSON_LEN_MAX {
        let n_mib = bytes.len() >> 20;
        return Err(RenderError::tokenizer(format!("{name} has {n_mib} MiB, at most {} are read", JSON_LEN_MAX >> 20)));
    }
    serde_json::from_slice(bytes).map_err(|error| RenderError::tokenizer(format!("{name}: {error}")))
}

/// Refuses parts that lose text, that fail on some input, or that nobody has looked at. Returns how many times longer each
/// of the others may make a text.
fn check_known(part: &Json, children: &str, known: &[&str]) -> Result<Vec<usize>, RenderError> {
    if part.is_null() {
        return Ok(Vec::new());
    }
    let name = part.get("type").and_then(Json::as_str).unwrap_or("without a type");
    if !known.contains(&name) {
        return Err(RenderError::tokenizer(format!("the part `{name}` is not known; known are {}", known.join(", "))));
    }
    let is_plain = |key: &str| part.pointer(key).and_then(Json::as_str).is_some_and(|text| !text.is_empty());
    if name == "Replace" && !is_plain("/pattern/String") {
        return Err(RenderError::tokenizer("the normalizer `Replace` has a pattern that is not plain text"));
    }
    if name == "Split" && !is_plain("/pattern/String") && !is_plain("/pattern/Regex") {
        return Err(RenderError::tokenizer("the pre-tokenizer `Split` has an empty pattern"));
    }
    if let Some(regex) = part.pointer("/pattern/Regex").and_then(Json::as_str) {
        pattern::check(regex)?;
    }
    let mut growths = vec![growth(part, name)];
    for child in part.get(children).and_then(Json::as_array).into_iter().flatten() {
        growths.extend(check_known(child, children, known)?);
    }
    Ok(growths)
}

/// Whether a part may write something before the first piece of a text.
fn adds_space(part: &Json) -> bool {
    let is_set = |key: &str| part.get(key).and_then(Json::as_bool) == Some(true);
    let children = ["normalizers", "pretokenizers"].iter().filter_map(|key| part.get(key)?.as_array()).flatten();
    match part.get("type").and_then(Json::as_str) {
        Some("Metaspace" | "Prepend") => true,
        Some("ByteLevel") => is_set("add_prefix_space"),
        _ => children.into_iter().any(adds_space),
    }
}

/// How many times longer, in bytes of UTF-8, a part may make a word of one byte or more.
fn growth(part: &Json, name: &str) -> usize {
    let len = |key: &str| part.pointer(key).and_then(Json::as_str).map_or(0, str::len);
    match name {
        // Unicode Standard Annex 15 states these two.
        "NFC" | "NFD" => 3,
        "NFKC" | "NFKD" => 11,
        "Replace" => len("/content").div_ceil(len("/pattern/String").max(1)).max(1),
        "Prepend" => 1 + len("/prepend"),
        // A space before the word, and two bytes for each of both.
        "ByteLevel" => 4,
        "Metaspace" => 2 * len("/replacement").max(1),
        _ => 1,
    }
}

/// Refuses parts that together could make a short text fill the memory.
fn check_growth(growths: &[Vec<usize>]) -> Result<(), RenderError> {
    let n_parts = growths.iter().map(Vec::len).sum::<usize>();
    if n_parts > PARTS_MAX {
        return Err(RenderError::tokenizer(format!(
            "it has {n_parts} parts that change or cut texts, at most {PARTS_MAX} are followed"
        )));
    }
    if growths.iter().flatten().fold(1, |product: usize, &growth| product.saturating_mul(growth)) > GROWTH_MAX {
        return Err(RenderError::tokenizer(format!("its parts may make a text more than {GROWTH_MAX} times longer")));
    }
    Ok(())
}

/// Checks that the model is a plain byte-pair one, and returns its tokens with their ids.
fn check_model(model: &Json) -> Result<Vec<(&str, u32)>, RenderError> {
    let kind = model.get("type").and_then(Json::as_str).unwrap_or("BPE");
    if kind != "BPE" {
        let known = "BPE ones are (Llama, SmolLM2, Qwen, Mistral)";
        return Err(RenderError::tokenizer(format!("`{kind}` vocabularies are not known; {known}")));
    }
    for key in ["dropout", "continuing_subword_prefix", "end_of_word_suffix"] {
        let value = model.get(key).unwrap_or(&Json::Null);
        if !value.is_null() && value.as_str() != Some("") && value.as_f64() != Some(0.0) {
            return Err(RenderError::tokenizer(format!("`model.{key}` is set, which this reader does not follow")));
        }
    }
    let vocab = model.get("vocab").and_then(Json::as_object);
    let vocab = vocab.ok_or_else(|| RenderError::tokenizer("`model.vocab` is not a table of tokens"))?;
    let entries = vocab.iter().map(|(token, id)| match id.as_u64().map(u32::try_from) {
        Some(Ok(id)) if id < IDS_MAX => Ok((token.as_str(), id)),
        _ => Err(RenderError::tokenizer(format!("`model.vocab`: the id {id} of `{token}` is not below {IDS_MAX}"))),
    });
    entries.collect()
}

fn byte_table(vocab: &[(&str, u32)], added: &[Added], spelling: &Spelling) -> Result<Vec<Box<[u8]>>, RenderError> {
    if let Some(token) = added.iter().find(|token| token.id >= IDS_MAX) {
        return Err(RenderError::tokenizer(format!("the id {} of `{}` is not below {IDS_MAX}", token.id, token.text)));
    }
    let ids = vocab.iter().map(|&(_, id)| id).chain(added.iter().map(|token| token.id));
    let n_ids = ids.max().map_or(0, |id| id as usize + 1);
    let mut table = vec![Box::<[u8]>::default(); n_ids];
    let mut taken = vec![false; n_ids];
    for &(token, id) in vocab {
        if std::mem::replace(&mut taken[id as usize], true) {
            return Err(RenderError::tokenizer(format!("`model.vocab`: the id {id} of `{token}` is taken already")));
        }
        table[id as usize] = spelling.bytes(token).into();
    }
    for token in added {
        table[token.id as usize] = token.text.as_bytes().into();
    }
    Ok(table)
}

fn piece<'de, T: Deserialize<'de>>(part: &'de Json, name: &str) -> Result<Option<T>, RenderError> {
    Option::<T>::deserialize(part).map_err(|error| RenderError::tokenizer(format!("`{name}`: {error}")))
}

/// The token that a post-processor writes before every text.
fn begin_token(part: &Json) -> Option<&str> {
    match part.get("type")?.as_str()? {
        "TemplateProcessing" => part.pointer("/single/0/SpecialToken/id")?.as_str(),
        "Sequence" => part.get("processors")?.as_array()?.iter().find_map(begin_token),
        _ => None,
    }
}

/// What a normalizer makes of a text; the text itself where it cannot.
fn normal_form(normalizer: Option<&NormalizerWrapper>, text: &str) -> String {
    let mut form = NormalizedString::from(text);
    let done = normalizer.is_none_or(|normalizer| normalizer.normalize(&mut form).is_ok());
    if done { form.get().to_owned() } else { text.to_owned() }
}

/// A special token of `tokenizer_config.json`, which is a text or an object with one.
fn special_text(config: &Json, key: &str) -> Option<String> {
    let value = config.get(key)?;
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

/// One template, or the one called `default` of several.
fn chat_template(config: &Json) -> Option<String> {
    let value = config.get("chat_template")?;
    let first = || value.get(0)?.get("template")?.as_str();
    value.as_str().or_else(|| named_template(config, "default")).or_else(first).map(str::to_owned)
}

/// One of several templates.
fn named_template<'a>(config: &'a Json, name: &str) -> Option<&'a str> {
    let mut entries = config.get("chat_template")?.as_array()?.iter();
    entries.find(|entry| entry.get("name").and_then(Json::as_str) == Some(name))?.get("template")?.as_str()
}

/// Cuts a text at its known tokens. Ranges are those of the text as it is now: those of the original, which the library would
/// look for from the start of the text each time, take minutes in a conversation of many messages.
fn cut(whole: &NormalizedString, known: &[(Range<usize>, u32)]) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
    let mut pieces = Vec::with_capacity(2 * known.len() + 1);
    let mut push = |range: Range<usize>, id: Option<u32>| {
        if let Some(piece) = whole.slice(tokenizers::normalizer::Range::Normalized(range)).filter(|piece| !piece.is_empty()) {
            let token = id.map(|id| vec![Token::new(id, piece.get().to_owned(), (0, piece.len()))]);
            pieces.push((piece, token));
        }
    };
    let mut at = 0;
    for (range, id) in known {
        push(at..range.start, None);
        push(range.clone(), Some(*id));
        at = range.end;
    }
    push(at..whole.len(), None);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tokenizers::normalizer::Range::Original;

    fn tiny() -> Tokenizer {
        let files = crate::tiny::build(["a b c"], 300).expect("room enough");
        Tokenizer::from_json(files.tokenizer.as_bytes(), Some(files.config.as_bytes())).expect("our own files")
    }

    proptest! {
        #[test]
        fn the_pieces_between_tokens_are_those_of_the_original_text(parts in proptest::collection::vec(prop_oneof![
            Just("<|im_start|>".to_owned()), Just("<|im_end|>".to_owned()), Just("<think>".to_owned()), Just("é…😀".to_owned()),
            "\\PC{0,4}", "[ \\n<|>]{0,3}",
        ], 0..12)) {
            let text = parts.concat();
            let known = tiny().specials().spans(&Rendered::trusted(&text));
            let whole = NormalizedString::from(text.as_str());
            let mut at = 0;
            let mut ids = Vec::new();
            for (piece, tokens) in cut(&whole, &known) {
                let range = at..at + piece.len_original();
                at = range.end;
                prop_assert_eq!(Some(piece), whole.slice(Original(range)));
                ids.extend(tokens.into_iter().flatten().map(|token| token.id));
            }
            prop_assert_eq!((at, ids), (text.len(), known.iter().map(|(_, id)| *id).collect()));
        }
    }

    #[test]
    fn a_prompt_begins_with_the_token_of_the_post_processor_and_keeps_its_own() {
        let files = crate::tiny::build(["a b c"], 300).expect("room enough");
        let mut tokenizer: Json = serde_json::from_str(&files.tokenizer).expect("JSON");
        let template = json!({"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]});
        tokenizer["post_processor"] = json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]});
        let check = |config: Json, text: &str, expected: &str| {
            let tokenizer = Tokenizer::from_values(&tokenizer, &config).expect("a sound tokenizer");
            let expected = tokenizer.encode_rendered(&Rendered::trusted(expected)).expect("ids");
            assert_eq!(tokenizer.encode_prompt(text).expect("ids"), expected, "{text} with {config}");
        };
        check(json!({}), "a", "<|endoftext|>a");
        check(json!({}), "<|endoftext|><|im_start|>a<think>", "<|endoftext|><|im_start|>a<think>");
        check(json!({"add_bos_token": false, "bos_token": "<|endoftext|>"}), "a", "a");
        check(json!({"add_bos_token": true, "bos_token": "<|im_start|>"}), "a", "<|im_start|>a");
    }

    /// As `tokenizers` 0.23 finds them.
    #[test]
    fn added_text_is_found_in_its_normal_form_where_it_asks_for_that() {
        let files = crate::tiny::build(["a b c"], 300).expect("room enough");
        let mut values: Json = serde_json::from_str(&files.tokenizer).expect("JSON");
        let mut add = |id: u32, text: &str, normalized: bool| {
            let token = json!({"id": id, "content": text, "special": false, "normalized": normalized});
            values["added_tokens"].as_array_mut().expect("a list").push(token);
        };
        add(300, "caf\u{e9}", true);
        add(301, "e\u{301}x", true);
        add(302, "o\u{308}y", false);
        add(303, "<e\u{301}>", true);
        values["normalizer"] = json!({"type": "NFC"});
        let tokenizer = Tokenizer::from_values(&values, &Json::Null).expect("a sound tokenizer");
        let check = |text: &str, expected: &[u32]| {
            let found: Vec<u32> = tokenizer.encode(text).expect("ids").into_iter().filter(|id| *id >= 300).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("cafe\u{301} caf\u{e9}", &[300, 300]);
        check("\u{e9}x e\u{301}x", &[301, 301]);
        check("\u{f6}y o\u{308}y", &[302]);
        // Nothing becomes a tag on the way, whoever writes it.
        check("<\u{e9}> <e\u{301}>", &[]);
        let forged = tokenizer.encode_rendered(&Rendered::trusted("<\u{e9}><e\u{301}>")).expect("ids");
        assert_eq!(forged.into_iter().filter(|id| *id >= 300).collect::<Vec<_>>(), [303]);
    }

    /// What looked at every message once for each of them would not come to an end.
    #[test]
    fn a_conversation_of_very_many_messages_is_encoded() {
        let (tokenizer, message) = (tiny(), "<|im_start|>user\na<|im_end|>\n");
        let n_ids = |n: usize| tokenizer.encode_rendered(&Rendered::trusted(message.repeat(n))).expect("ids").len();
        assert_eq!(n_ids(200_000), 200_000 * n_ids(1));
    }
}
