#![no_main]

use hone_trace::TraceId;
use hone_trace::format::Origin;
use hone_trace::format::otlp::live::{Gathering, Woven, pieces, take};
use hone_trace::format::otlp::protobuf::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = Message::Request.read(bytes) else { return };
    let again = Message::Request.read(&Message::Request.write(&request)).expect("what was written can be read");
    assert_eq!(again, request);
    let Some(kept) = take(request).ok().and_then(|taken| taken.kept) else { return };
    let mut trace = None;
    for piece in pieces(kept).expect("what is kept can be read") {
        let mut gathering = Gathering::default();
        gathering.add(piece);
        match gathering.weave(TraceId::derived(&["fuzz"]), trace.as_ref(), &Origin::default()) {
            Ok(Woven::New(new, _)) => trace = Some(*new),
            Ok(Woven::Next(turns, _)) => turns.into_iter().for_each(|next| trace.as_mut().expect("it goes on").go_on(next)),
            Ok(Woven::Nothing) | Err(_) => {}
        }
    }
    if let Some(trace) = trace {
        trace.check().expect("what was woven is consistent");
    }
});
