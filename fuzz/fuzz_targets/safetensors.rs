#![no_main]

use hone_engine::safetensors::{SafeTensors, parse};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if parse(bytes).is_err() {
        return;
    }
    // A table may begin like a pickle, which is refused.
    let Ok(file) = SafeTensors::open(&hone_fuzz::file("safetensors", bytes)) else { return };
    for (name, info) in file.tensors() {
        let shape = match *info.shape() {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            _ => (0, 0),
        };
        let _ = file.read(name, shape);
    }
});
