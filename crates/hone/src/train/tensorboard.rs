//! Event files that TensorBoard reads: TFRecord frames of `Event` messages with scalars, written by hand.
//!
//! A frame is the length (8 bytes, little-endian), its checksum, the message, and the checksum of the message; a checksum is CRC-32C,
//! rotated and shifted by a constant. Every start of a run writes a file of its own that says from which step on it counts, so that
//! TensorBoard forgets what a killed run had measured beyond its checkpoint. Scalars are `f32` in this format.

use super::metrics::Line;
use crate::failure::{Failure, at_path};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The most event files of a run, which is how often it can be started.
const FILES_MAX: usize = 10_000;

/// An event file that grows.
pub(crate) struct Board {
    file: File,
    path: PathBuf,
    /// Whether the first line, which says where this file begins, was written.
    is_begun: bool,
}

impl Board {
    /// A new event file in this folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(at_path(folder))?;
        // TensorBoard reads them in the order of their names.
        let paths = (0..FILES_MAX).map(|number| folder.join(format!("events.out.tfevents.{number:010}.hone")));
        let Some(path) = paths.into_iter().find(|path| !path.exists()) else {
            return Err(Failure::user(format_args!("{} has {FILES_MAX} event files", folder.display())).hint("move some away"));
        };
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(at_path(&path))?;
        Ok(Self { file, path, is_begun: false })
    }

    /// Adds the scalars of a line by one write.
    pub(crate) fn add(&mut self, line: &Line) -> Result<(), Failure> {
        let mut frames = Vec::new();
        if !self.is_begun {
            frames.extend(frame(&event(line, &Field::Bytes(FILE_VERSION, b"brain.Event:2"))));
            let started = message(&[Field::Number(SESSION_STATUS, SESSION_START)]);
            frames.extend(frame(&event(line, &Field::Bytes(SESSION_LOG, &started))));
        }
        frames.extend(frame(&event(line, &Field::Bytes(SUMMARY, &summary(line)))));
        self.file.write_all(&frames).map_err(at_path(&self.path))?;
        self.is_begun = true;
        Ok(())
    }
}

// The numbers of fields in TensorBoard's event.proto and summary.proto.
const WALL_TIME: u8 = 1;
const STEP: u8 = 2;
const FILE_VERSION: u8 = 3;
const SUMMARY: u8 = 5;
const SESSION_LOG: u8 = 7;
const SESSION_STATUS: u8 = 1;
const SESSION_START: u64 = 1;
const SUMMARY_VALUE: u8 = 1;
const TAG: u8 = 1;
const SIMPLE_VALUE: u8 = 2;

/// A field of a protobuf message, by its number.
enum Field<'a> {
    Number(u8, u64),
    Double(u8, f64),
    Float(u8, f32),
    Bytes(u8, &'a [u8]),
}

fn event(line: &Line, what: &Field<'_>) -> Vec<u8> {
    let mut bytes = message(&[Field::Double(WALL_TIME, line.at), Field::Number(STEP, line.step)]);
    put(what, &mut bytes);
    bytes
}

#[expect(clippy::cast_possible_truncation, reason = "the format has single precision")]
fn summary(line: &Line) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in &line.values {
        let scalar = message(&[Field::Bytes(TAG, name.as_bytes()), Field::Float(SIMPLE_VALUE, *value as f32)]);
        put(&Field::Bytes(SUMMARY_VALUE, &scalar), &mut bytes);
    }
    bytes
}

fn message(fields: &[Field<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    fields.iter().for_each(|field| put(field, &mut bytes));
    bytes
}

fn put(field: &Field<'_>, to: &mut Vec<u8>) {
    match *field {
        Field::Number(number, value) => {
            to.push(number << 3);
            varint(value, to);
        }
        Field::Double(number, value) => {
            to.push(number << 3 | 1);
            to.extend(value.to_le_bytes());
        }
        Field::Bytes(number, bytes) => {
            to.push(number << 3 | 2);
            varint(bytes.len() as u64, to);
            to.extend(bytes);
        }
        Field::Float(number, value) => {
            to.push(number << 3 | 5);
            to.extend(value.to_le_bytes());
        }
    }
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn frame(message: &[u8]) -> Vec<u8> {
    let len = (message.len() as u64).to_le_bytes();
    [&len[..], &checksum(&len).to_le_bytes(), message, &checksum(message).to_le_bytes()].concat()
}

/// Masked, because frames may themselves hold checksums.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C by its reflected polynomial, bit by bit: a line has a few hundred bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Time;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, B.4.
        for (bytes, expected) in [(vec![0; 32], 0x8a91_36aa), (vec![0xff; 32], 0x62a8_ab43), ((0..32).collect(), 0x46dd_794e)] {
            assert_eq!(crc32c(&bytes), expected);
        }
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As TensorBoard's own writer has it: an event with two scalars, and what its frame adds before and after.
    const EVENT: &str = "09000000000000f83f10ac022a1a0a090a026b6c15cdcccc3d0a0d0a06726577617264150000003f";
    const FRAME: (&str, &str) = ("2800000000000000ff70164a", "227d15fe");

    #[test]
    fn frames_are_those_of_tensorboard() {
        let line = Line::new(300, Time::from_unix_nanos(1_500_000_000), [("kl", 0.1), ("reward", 0.5)]);
        let bytes = event(&line, &Field::Bytes(SUMMARY, &summary(&line)));
        assert_eq!(hex(&bytes), EVENT);
        assert_eq!(hex(&frame(&bytes)), format!("{}{EVENT}{}", FRAME.0, FRAME.1));
    }

    #[test]
    fn every_start_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 {
            let mut board = Board::open(folder.path()).unwrap();
            board.add(&Line::new(1, Time::from_unix_nanos(0), [("reward", 0.5)])).unwrap();
            let name = format!("events.out.tfevents.{number:010}.hone");
            let first = fs::read(folder.path().join(name)).unwrap();
            board.add(&Line::new(2, Time::from_unix_nanos(0), [("reward", 0.5)])).unwrap();
            let both = fs::read(&board.path).unwrap();
            assert!(both.starts_with(&first) && both.len() < 2 * first.len(), "only the first line has a head");
        }
    }
}
