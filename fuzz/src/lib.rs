//! What every import target does with its bytes: read them as a file, write whatever came of it, and read that again.

use hone_trace::Trace;
use hone_trace::format::otlp::{Assembler, Plan};
use hone_trace::format::{Format, Origin, Reader, write};

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
