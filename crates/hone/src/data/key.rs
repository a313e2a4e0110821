//! The key of pseudonyms: 64 hexadecimal digits in a file that only its owner reads. It is made when it is first needed, and kept
//! outside of every batch.

use crate::durable;
use crate::failure::{Failure, at_path};
use hone_data::anonymise::Key;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The key in this file, which is made if it is not there.
pub(super) fn open_or_make(path: &Path) -> Result<Key, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => read(&text, path),
        Err(error) if error.kind() == ErrorKind::NotFound => make(path),
        Err(error) => Err(at_path(path)(error)),
    }
}

/// The key in this file.
pub(super) fn open(path: &Path) -> Result<Key, Failure> {
    read(&fs::read_to_string(path).map_err(at_path(path))?, path)
}

fn read(text: &str, path: &Path) -> Result<Key, Failure> {
    let wrong = || Failure::user(format_args!("{} is not a key: it must hold 64 hexadecimal digits", path.display()));
    let text = text.trim();
    if text.len() != 64 || !text.is_ascii() {
        return Err(wrong());
    }
    let mut bytes = [0; 32];
    for (idx, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * idx..2 * idx + 2], 16).map_err(|_| wrong())?;
    }
    Ok(Key::new(bytes))
}

fn make(path: &Path) -> Result<Key, Failure> {
    let bytes: [u8; 32] = random()?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(at_path(folder))?;
    }
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    // Written beside its place: another process that makes one at the same time sees a whole key or none, and takes the first.
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{:08x}.partial", u32::from_le_bytes(random()?)));
    let partial = PathBuf::from(partial);
    let mut file = private(&partial)?;
    let written = file.write_all((text + "\n").as_bytes()).and_then(|()| file.sync_all()).map_err(at_path(&partial));
    let linked = written.map(|()| fs::hard_link(&partial, path));
    fs::remove_file(&partial).map_err(at_path(&partial))?;
    match linked? {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return open(path),
        linked => linked.map_err(at_path(path))?,
    }
    durable::name(path)?;
    Ok(Key::new(bytes))
}

/// A new file that only its owner reads.
pub(super) fn private(path: &Path) -> Result<fs::File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(at_path(path))
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Failure::user("this machine has no random numbers"))?;
    Ok(bytes)
}
