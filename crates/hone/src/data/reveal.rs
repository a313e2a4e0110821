//! `hone data reveal`: what pseudonyms stand for, for who has the key. The map of a batch is sealed by a key that is made from the key
//! of the pseudonyms: without it, it is noise, and a change of it is noticed.

use super::key;
use crate::context::Context;
use crate::failure::{Exit, Failure, at_path};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Say what the pseudonyms of a batch stand for
///
/// Reads the map that `hone data prepare --map FILE` wrote, with the key that the pseudonyms were made from.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The map of a batch
    map: PathBuf,
    /// Say it of this pseudonym alone
    pseudonym: Option<String>,
    /// The file with the key, instead of `data.key_file`
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// What the sealed bytes are for: no other file of ours opens as a map.
const PURPOSE: &[u8] = b"hone-data map 1";

pub(super) fn run(args: &Args, context: &Context<'_>) -> Result<Exit, Failure> {
    let path = args.key.as_deref().unwrap_or(&context.settings.data.key_file);
    let map = unseal(&args.map, &key::open(path)?.of_map())?;
    let chosen: BTreeMap<&String, &String> =
        map.iter().filter(|(pseudonym, _)| args.pseudonym.as_ref().is_none_or(|asked| asked == *pseudonym)).collect();
    if context.printer.wants_json() {
        context.printer.json(&chosen)?;
    } else {
        let rows: Vec<Vec<String>> =
            chosen.iter().map(|(pseudonym, value)| vec![(*pseudonym).clone(), (*value).clone()]).collect();
        context.printer.table(&["pseudonym", "value"], &rows)?;
    }
    if chosen.is_empty() {
        context.printer.complain(if map.is_empty() {
            "the map is empty: nothing was replaced"
        } else {
            "there is no such pseudonym in the map"
        });
    }
    Ok(if chosen.is_empty() { Exit::No } else { Exit::Yes })
}

/// Writes what pseudonyms stand for to a new file, sealed.
pub(super) fn seal(path: &Path, map: &BTreeMap<String, String>, key: &[u8; 32]) -> Result<(), Failure> {
    let mut bytes = serde_json::to_vec(map).map_err(Failure::world)?;
    let nonce: [u8; NONCE_LEN] = key::random()?;
    cipher(key)?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut bytes)
        .map_err(|_| Failure::bug("the map could not be sealed"))?;
    let mut file = key::private(path)?;
    file.write_all(&nonce).and_then(|()| file.write_all(&bytes)).and_then(|()| file.sync_all()).map_err(at_path(path))
}

fn unseal(path: &Path, key: &[u8; 32]) -> Result<BTreeMap<String, String>, Failure> {
    let mut bytes = std::fs::read(path).map_err(at_path(path))?;
    let closed = || {
        Failure::user(format_args!("{} does not open with this key", path.display()))
            .hint("it opens only whole, and only with the key that the batch was made with; `--key` names it")
    };
    let (nonce, sealed) = bytes.split_first_chunk_mut::<NONCE_LEN>().ok_or_else(closed)?;
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let text = cipher(key)?.open_in_place(nonce, Aad::from(PURPOSE), sealed).map_err(|_| closed())?;
    serde_json::from_slice(text).map_err(|error| Failure::world(error).context(path.display()))
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, Failure> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).map_err(|_| Failure::bug("a key has 32 bytes"))?;
    Ok(LessSafeKey::new(key))
}
