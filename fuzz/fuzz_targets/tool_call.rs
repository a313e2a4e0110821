#![no_main]

use hone_render::tools::ToolFormat;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = ToolFormat::detect(text);
    for format in [ToolFormat::Hermes, ToolFormat::Llama3, ToolFormat::None] {
        let answer = format.read(text);
        let n_bytes = [&answer.content, answer.reasoning.as_ref().unwrap_or(&answer.content)].map(String::len);
        assert!(n_bytes.into_iter().max() <= Some(text.len()), "an answer says no more than was sampled");
        let _ = format.read(&format.write(&answer.calls));
        let _ = answer.into_message();
    }
});
