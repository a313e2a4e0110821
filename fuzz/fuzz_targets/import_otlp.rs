#![no_main]

use hone_trace::format::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hone_fuzz::import(Format::Otlp, bytes));
