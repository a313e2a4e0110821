#![no_main]

use hone_render::Tokenizer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (json, text) = hone_fuzz::split(bytes);
    // The same bytes are both files, as neither minds the keys of the other.
    if let Ok(tokenizer) = Tokenizer::from_json(json, Some(json)) {
        hone_fuzz::tokenize(tokenizer, &String::from_utf8_lossy(text));
    }
});
