#![no_main]

use hone_engine::gguf::{self, Gguf};
use hone_engine::load::{WeightSource, Weights};
use hone_engine::param::ParamId;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if gguf::parse(bytes).is_err() {
        return;
    }
    let path = hone_fuzz::file("gguf", bytes);
    let file = Gguf::open(&path).expect("what was parsed can be opened");
    for (name, info) in file.tensors() {
        let _ = file.read(name, (info.dims.iter().skip(1).product(), info.dims[0]));
    }
    if let Ok(weights) = Weights::open(&path) {
        for id in ParamId::all(weights.config()) {
            let _ = weights.read(id);
        }
    }
});
