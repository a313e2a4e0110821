//! Laws of the formats: what is read can be written again, and nothing panics.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod art;
mod json;
mod live;
mod openai;
mod otlp;
mod protobuf;
mod robust;
mod traces;

use hone_trace::format::{Format, Imported, Origin, Reader, write};
use proptest::prelude::*;

fn read(format: Format, line: &str) -> Imported {
    Reader::new(format, Origin::default()).line(line).unwrap_or_else(|error| panic!("{error}\n{line}"))
}

proptest! {
    #[test]
    fn our_own_line_gives_the_trace_back_bit_for_bit(trace in traces::trace()) {
        let line = write(&trace, Format::Hone);
        let imported = read(Format::Hone, &line);
        prop_assert_eq!(&imported.traces, std::slice::from_ref(&trace));
        // Equality of floats does not see the sign of zero; the written form does.
        prop_assert_eq!(write(&imported.traces[0], Format::Hone), line);
    }

    #[test]
    fn what_was_exported_once_is_exported_the_same_again(trace in traces::trace()) {
        for format in [Format::Openai, Format::Art] {
            let once = write(&trace, format);
            let imported = read(format, &once);
            prop_assert_eq!(imported.traces.len(), 1);
            json::assert_same(&json::parse(&write(&imported.traces[0], format)), &json::parse(&once));
        }
        let once = write(&trace, Format::Otlp);
        let imported = read(Format::Otlp, &once);
        if imported.n_spans_skipped == 0 {
            let again: Vec<String> = imported.traces.iter().map(|trace| write(trace, Format::Otlp)).collect();
            otlp::assert_same(&again, &[once]);
        }
    }

    #[test]
    fn what_is_left_out_never_panics(trace in traces::trace()) {
        for format in Format::ALL {
            let _ = hone_trace::format::left_out(&trace, format);
        }
        prop_assert!(hone_trace::format::left_out(&trace, Format::Hone).is_empty());
    }
}
