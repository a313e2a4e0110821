#![no_main]

use hone::{Flags, Settings, Variables};
use std::path::PathBuf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path: PathBuf = std::env::temp_dir().join(format!("hone-fuzz-{}.toml", std::process::id()));
    std::fs::write(&path, bytes).expect("a file for the settings");
    let flags = Flags { config: Some(path), ..Flags::default() };
    let _ = Settings::load(&flags, &Variables::default(), &std::env::temp_dir());
});
