#![no_main]

use hone_engine::gguf::{Value, parse};
use hone_render::Tokenizer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((values, _)) = parse(bytes) else { return };
    if let Ok(tokenizer) = Tokenizer::from_gguf(&values) {
        let text = values.get("general.description").and_then(Value::as_text);
        hone_fuzz::tokenize(tokenizer, text.unwrap_or_default());
    }
});
