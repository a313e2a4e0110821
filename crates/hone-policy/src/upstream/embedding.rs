//! Vectors of texts: `POST /embeddings` in OpenAI's format.
//!
//! Texts go as texts or as the provider's own tokens. A vector comes as numbers or as base64 of little-endian floats; both are read, whichever was asked for. There is one vector
//! per text, all of one length, every number finite: anything else is no answer. Other formats have no embeddings here.

use super::exchange::Outgoing;
use super::openai;
use super::reply::{Refusal, Usage, WireError, broken};
use super::request::{RequestError, Transfer};
use super::spec::UpstreamSpec;
use super::wire::{self, Wire};
use crate::local::Prompt;
use hone_trace::{ErrorEvent, LlmCall};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

/// The most texts of one request.
const N_TEXTS_MAX: usize = 2048;

/// Vectors, with what they took.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// One per text, in the order of the texts, all of one length.
    pub vectors: Vec<Vec<f32>>,
    /// Every attempt, the last one being that which gave the vectors; it tells the model and the tokens.
    pub calls: Vec<LlmCall>,
    /// Why the others gave none.
    pub failures: Vec<ErrorEvent>,
}

/// An answer as it is read.
pub(super) struct Read {
    pub(super) vectors: Vec<Vec<f32>>,
    pub(super) model: Option<String>,
    pub(super) usage: Option<Usage>,
}

/// What is sent for these texts.
pub(super) fn outgoing(spec: &UpstreamSpec, texts: &[Prompt], dimensions: Option<u64>) -> Result<Outgoing, RequestError> {
    if spec.provider.wire != Wire::OpenAi {
        let text = format!("embeddings are asked of servers of OpenAI's format only, and `{}` is at none", spec.model);
        return Err(RequestError(text));
    }
    if texts.is_empty() || texts.len() > N_TEXTS_MAX {
        return Err(RequestError(format!("embeddings are of 1 to {N_TEXTS_MAX} texts at once, not of {}", texts.len())));
    }
    let is_empty = |text: &Prompt| match text {
        Prompt::Text(text) => text.is_empty(),
        Prompt::Ids(ids) => ids.is_empty(),
    };
    if let Some(text_idx) = texts.iter().position(is_empty) {
        return Err(RequestError(format!("text {text_idx} is empty and has no embedding")));
    }
    let mut body = Map::new();
    body.insert("model".into(), spec.model.as_str().into());
    let input = |text: &Prompt| match text {
        Prompt::Text(text) => json!(text),
        Prompt::Ids(ids) => json!(ids),
    };
    body.insert("input".into(), texts.iter().map(input).collect());
    if let Some(dimensions) = dimensions {
        body.insert("dimensions".into(), dimensions.into());
    }
    if spec.provider.asks_base64 {
        body.insert("encoding_format".into(), "base64".into());
    }
    let url = wire::openai_url(spec, &["embeddings"])?;
    let (body, headers) = (Value::Object(body).to_string().into_bytes(), HeaderMap::new());
    Ok(Outgoing { url, body, transfer: Transfer::Plain, headers })
}

/// Reads the vectors of this many texts.
pub(super) fn read(json: &Value, n_texts: usize) -> Result<Read, WireError> {
    if let Some(refusal) = Refusal::read(json, None) {
        return Err(WireError::Failed(refusal));
    }
    let rows = json["data"].as_array().ok_or_else(|| broken("the answer has no data"))?;
    if rows.len() != n_texts {
        return Err(broken(format!("{} vectors came for {n_texts} texts", rows.len())));
    }
    let mut vectors = vec![Vec::new(); n_texts];
    for (row_idx, row) in rows.iter().enumerate() {
        let text_idx = row["index"].as_u64().map_or(row_idx, |idx| usize::try_from(idx).unwrap_or(usize::MAX));
        let place = vectors.get_mut(text_idx).filter(|vector| vector.is_empty());
        let place = place.ok_or_else(|| broken(format!("vector {text_idx} came twice or was not asked for")))?;
        *place = vector(&row["embedding"]).ok_or_else(|| broken(format!("vector {text_idx} cannot be read")))?;
    }
    if vectors.iter().any(|vector| vector.len() != vectors[0].len()) {
        return Err(broken("the vectors differ in length"));
    }
    Ok(Read { vectors, model: json["model"].as_str().map(str::to_owned), usage: openai::usage(&json["usage"]) })
}

fn vector(embedding: &Value) -> Option<Vec<f32>> {
    let numbers: Vec<f32> = match embedding {
        Value::String(text) => {
            let bytes = base64(text)?;
            let (floats, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return None;
            }
            floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        Value::Array(numbers) => {
            numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect::<Option<_>>()?
        }
        _ => return None,
    };
    (!numbers.is_empty() && numbers.iter().all(|number| number.is_finite())).then_some(numbers)
}

/// The bytes of a text in base64, with or without the signs that fill it up.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut n_bits) = (0_u32, 0);
    for sign in text.bytes() {
        let value = match sign {
            b'A'..=b'Z' => sign - b'A',
            b'a'..=b'z' => sign - b'a' + 26,
            b'0'..=b'9' => sign - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push((bits >> n_bits) as u8);
            bits &= (1 << n_bits) - 1;
        }
    }
    // What is left over is too short for a byte and must be nothing; six bits are a sign too many.
    (bits == 0 && n_bits < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        let check = |text: &str, expected: Option<&[u8]>| assert_eq!(base64(text).as_deref(), expected, "{text}");
        check("", Some(b""));
        check("Zg==", Some(b"f"));
        check("Zm8=", Some(b"fo"));
        check("Zm9v", Some(b"foo"));
        check("Zm9vYmFy", Some(b"foobar"));
        check("+/+/", Some(&[0xfb, 0xff, 0xbf]));
        check("Zh==", None);
        check("Z", None);
        check("Zm9v!", None);
    }

    #[test]
    fn vectors_are_read_whole_or_not_at_all() {
        let check = |data: Value, n_texts: usize, expected: Result<Vec<Vec<f32>>, &str>| {
            let found = read(&json!({"data": data, "model": "m"}), n_texts).map(|read| read.vectors);
            assert_eq!(found, expected.map_err(broken), "{data}");
        };
        let row = |idx: usize, embedding: Value| json!({"object": "embedding", "index": idx, "embedding": embedding});
        check(json!([row(1, json!([3, 0.5])), row(0, json!([1.0, 2.0]))]), 2, Ok(vec![vec![1.0, 2.0], vec![3.0, 0.5]]));
        // 1.0 and -2.5.
        check(json!([row(0, "AACAPwAAIMA=".into())]), 1, Ok(vec![vec![1.0, -2.5]]));
        check(json!([row(0, json!([1.0]))]), 2, Err("1 vectors came for 2 texts"));
        check(json!([row(0, json!([1.0])), row(0, json!([1.0]))]), 2, Err("vector 0 came twice or was not asked for"));
        check(json!([row(7, json!([1.0]))]), 1, Err("vector 7 came twice or was not asked for"));
        check(json!([row(0, json!([1.0])), row(1, json!([1.0, 2.0]))]), 2, Err("the vectors differ in length"));
        for wrong in [json!([]), json!("AACA"), json!(null), json!([1.0, "x"]), json!([1e300]), json!("AADAfw==")] {
            check(json!([row(0, wrong)]), 1, Err("vector 0 cannot be read"));
        }
    }
}
