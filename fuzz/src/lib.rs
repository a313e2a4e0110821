//! What several targets do with their bytes. Imports read them as a file, write whatever came of it, and read that again;
//! tokenizers cut a text, and put it together again.

use hone_render::{Ending, Rendered, Renderer, Setting, Tokenizer};
use hone_trace::format::otlp::{Assembler, Plan};
use hone_trace::format::{Format, Origin, Reader, write};
use hone_trace::{Message, Role, Trace};
use std::path::PathBuf;

/// Reads the bytes as lines of this format. Nothing may panic, and what was written once is written the same again.
pub fn import(format: Format, bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Format::detect(text);
    let mut reader = Reader::new(format, Origin::default());
    for line in text.lines() {
        if let Ok(imported) = reader.line(line) {
            imported.traces.iter().for_each(|trace| again(trace, format));
        }
    }
    if format == Format::Otlp {
        assemble(text);
    }
}

fn again(trace: &Trace, format: Format) {
    trace.check().expect("what was read is consistent");
    for format in Format::ALL {
        let _ = hone_trace::format::left_out(trace, format);
        write(trace, format);
    }
    let stored =
        Reader::new(Format::Hone, Origin::default()).line(&write(trace, Format::Hone)).expect("what was read can be stored");
    assert_eq!(stored.traces, [trace.clone()]);
    let once = write(trace, format);
    let imported = Reader::new(format, Origin::default()).line(&once).expect("what was written can be read");
    if let [trace] = imported.traces.as_slice() {
        assert_eq!(write(trace, format), once);
    }
}

fn assemble(text: &str) {
    let mut plan = Plan::default();
    for (no, line) in (0..).zip(text.lines()) {
        let _ = plan.note(no, line);
    }
    let mut assembler = Assembler::new(plan, Origin::default());
    for (no, line) in (0..).zip(text.lines()) {
        let _ = assembler.line(no, line);
    }
    assert!(assembler.finish().traces.is_empty(), "every conversation ended on its last line");
}

/// A text that meets every part of a tokenizer.
const TEXT: &str = "The naïve café's 123 dogs,\n\n  don't  \u{2581}<|im_end|> ﬁ e\u{301} 日本 \u{1f600}\t\u{fdfa}";

/// Encodes a text, and a conversation where there is a template. Nothing may panic, and every id is of the vocabulary.
///
/// The library behind a tokenizer remembers words for each thread until the thread ends, so each tokenizer gets its own.
pub fn tokenize(tokenizer: Tokenizer, text: &str) {
    std::thread::scope(|scope| drop(scope.spawn(|| encode(tokenizer, text)).join()));
}

fn encode(tokenizer: Tokenizer, text: &str) {
    for text in [text, TEXT] {
        let rendered = Rendered::trusted(text);
        for ids in [tokenizer.encode(text), tokenizer.encode_rendered(&rendered)].into_iter().flatten() {
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_len()), "every id is of the vocabulary");
            let _ = tokenizer.decode(&ids);
            let mut stream = tokenizer.stream();
            ids.iter().for_each(|&id| drop(stream.push(id)));
        }
    }
    let _ = (tokenizer.bos_id(), tokenizer.eos_ids());
    if let Ok(renderer) = Renderer::new(tokenizer) {
        let messages = [Message::text(Role::User, text), Message::text(Role::Assistant, TEXT)];
        let _ = renderer.render(&messages, &Setting::default(), Ending::Message);
        if let Ok(ids) = renderer.prompt(&messages, &Setting::default()) {
            let _ = (renderer.read(&ids), renderer.would_differ(&ids));
        }
    }
}

/// Writes the bytes where a target can open them. Each process has one such file.
pub fn file(extension: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("hone-fuzz-{}.{extension}", std::process::id()));
    std::fs::write(&path, bytes).expect("a file for the target");
    path
}

/// The bytes before the first zero and those after it.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}
