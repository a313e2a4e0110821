//! How the entries of a vocabulary spell bytes.
//!
//! Three habits cover the models we run: GPT-2's alphabet, in which each byte is a printable character; SentencePiece,
//! in which `▁` is a space and `<0x0A>` a byte; and plain text with such bytes as fall-back. Which one holds is read
//! from the `decoder` of `tokenizer.json`. A decoder that cannot be undone byte by byte is refused by name.

use crate::error::RenderError;
use crate::tokenizer::PARTS_MAX;
use serde_json::Value as Json;

/// The habit of one vocabulary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    byte_level: bool,
    byte_tokens: bool,
    replaced: Vec<(String, String)>,
    /// Whether encoding put a space before the text, which decoding takes off again.
    pub(crate) leading_space: bool,
}

impl Spelling {
    /// Reads the `decoder` of a `tokenizer.json`.
    pub(crate) fn from_json(decoder: &Json) -> Result<Self, RenderError> {
        let mut spelling = Self::default();
        spelling.add(decoder)?;
        Ok(spelling)
    }

    fn add(&mut self, decoder: &Json) -> Result<(), RenderError> {
        let text = |json: &Json, key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        match decoder.get("type").and_then(Json::as_str) {
            None if decoder.is_null() => {}
            Some("Sequence") => {
                let parts = decoder.get("decoders").and_then(Json::as_array);
                for part in parts.into_iter().flatten() {
                    self.add(part)?;
                }
            }
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_tokens = true,
            Some("Fuse") => {}
            Some("Replace") => {
                let pattern = decoder.get("pattern").map(|pattern| text(pattern, "String")).unwrap_or_default();
                if pattern.is_empty() {
                    return Err(RenderError::tokenizer("the decoder `Replace` has a pattern that is not plain text"));
                }
                let content = text(decoder, "content");
                // No vocabulary needs it, and a few of them in a row would make any token fill the memory.
                if content.len() > pattern.len() {
                    return Err(RenderError::tokenizer("the decoder `Replace` makes tokens longer"));
                }
                self.replaced.push((pattern, content));
            }
            Some("Metaspace") => {
                let replacement = text(decoder, "replacement");
                let replacement = if replacement.is_empty() { "\u{2581}".to_owned() } else { replacement };
                self.replaced.push((replacement, " ".to_owned()));
                self.leading_space = text(decoder, "prepend_scheme") != "never";
            }
            Some("Strip") => self.leading_space = text(decoder, "content") == " ",
            other => {
                let name = other.unwrap_or("without a type");
                return Err(RenderError::tokenizer(format!(
                    "the decoder `{name}` is not known; ByteLevel, ByteFallback, Metaspace, Replace, Strip and Fuse are"
                )));
            }
        }
        if self.replaced.len() > PARTS_MAX {
            return Err(RenderError::tokenizer(format!("the decoder has more than {PARTS_MAX} parts that replace text")));
        }
        Ok(())
    }

    /// The bytes that an entry of the vocabulary stands for.
    pub(crate) fn bytes(&self, token: &str) -> Vec<u8> {
        if self.byte_level {
            let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
            return bytes.unwrap_or_else(|| token.as_bytes().to_vec());
        }
        if let Some(byte) = self.byte_tokens.then(|| byte_token(token)).flatten() {
            return vec![byte];
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replaced {
            text = text.replace(from, to);
        }
        text.into_bytes()
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hex = hex.len() == 2 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex { u8::from_str_radix(hex, 16).ok() } else { None }
}

/// The byte behind a character of GPT-2's alphabet: printable bytes are themselves, the others follow from 256.
fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(decoder: &str, token: &str, expected: &[u8]) {
        let spelling = Spelling::from_json(&serde_json::from_str(decoder).expect("test JSON")).expect("a known decoder");
        assert_eq!(spelling.bytes(token), expected, "{decoder} {token}");
    }

    #[test]
    fn the_three_habits() {
        check(r#"{"type":"ByteLevel"}"#, "Ġa", b" a");
        check(r#"{"type":"ByteLevel"}"#, "Ċ", b"\n");
        check(r#"{"type":"ByteLevel"}"#, "▁", "▁".as_bytes());
        let llama = r#"{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
            {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}"#;
        check(llama, "▁a", b" a");
        check(llama, "<0xE2>", &[0xe2]);
        check(llama, "<0xE>", b"<0xE>");
        check("null", "<0xE2>", b"<0xE2>");
    }

    #[test]
    fn every_byte_has_one_character() {
        let mut seen: Vec<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn an_unknown_decoder_is_named() {
        let error = Spelling::from_json(&serde_json::json!({"type": "WordPiece"})).expect_err("not byte by byte");
        assert!(error.to_string().contains("WordPiece"), "{error}");
    }
}
