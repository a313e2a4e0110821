//! The block formats of GGUF turned back into f32.
//!
//! A block is a run of 32 or 256 weights with shared scales. `x = d·q` (the `_0` forms), `x = d·q + m` (the `_1` forms),
//! or `x = d·scale·q - dmin·min` with 6-bit scales per 32 weights (the `_K` forms). Only decoding: the engine never
//! quantises. Knows nothing of files; the caller hands whole blocks.

use half::{bf16, f16};

/// An element type that can be turned into f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// Brain float.
    Bf16,
    /// 4 bits, scale.
    Q4_0,
    /// 4 bits, scale and offset.
    Q4_1,
    /// 5 bits, scale.
    Q5_0,
    /// 5 bits, scale and offset.
    Q5_1,
    /// 8 bits, scale.
    Q8_0,
    /// 4 bits, super-blocks.
    Q4K,
    /// 5 bits, super-blocks.
    Q5K,
    /// 6 bits, super-blocks.
    Q6K,
}

impl Encoding {
    /// The encoding of a GGUF type number.
    pub fn from_gguf(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Weights per block and bytes per block.
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }

    /// Bytes of `n` weights, or `None` when they do not fill whole blocks or overflow.
    pub fn bytes_of(self, n: usize) -> Option<usize> {
        let (weights, bytes) = self.block();
        if n.is_multiple_of(weights) { (n / weights).checked_mul(bytes) } else { None }
    }

    /// Decodes whole blocks. Panics when the bytes are not whole blocks.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let (weights, width) = self.block();
        assert!(bytes.len().is_multiple_of(width), "whole blocks");
        let mut out = vec![0.0; bytes.len() / width * weights];
        for (block, out) in bytes.chunks_exact(width).zip(out.chunks_exact_mut(weights)) {
            match self {
                Self::F32 => out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]),
                Self::F16 => out[0] = half_at(block, 0),
                Self::Bf16 => out[0] = bf16::from_le_bytes([block[0], block[1]]).to_f32(),
                Self::Q4_0 => nibbles(out, &block[2..], half_at(block, 0), -8.0),
                Self::Q4_1 => {
                    nibbles_offset(out, &block[4..], half_at(block, 0), half_at(block, 2));
                }
                Self::Q5_0 => five_bits(out, &block[2..], half_at(block, 0), -16.0, 0.0),
                Self::Q5_1 => {
                    five_bits(out, &block[4..], half_at(block, 0), 0.0, half_at(block, 2));
                }
                Self::Q8_0 => {
                    let d = half_at(block, 0);
                    for (x, &q) in out.iter_mut().zip(&block[2..]) {
                        *x = d * f32::from(q as i8);
                    }
                }
                Self::Q4K => q4_k(out, block),
                Self::Q5K => q5_k(out, block),
                Self::Q6K => q6_k(out, block),
            }
        }
        out
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn nibbles(out: &mut [f32], packed: &[u8], d: f32, shift: f32) {
    for i in 0..16 {
        out[i] = d * (f32::from(packed[i] & 15) + shift);
        out[i + 16] = d * (f32::from(packed[i] >> 4) + shift);
    }
}

fn nibbles_offset(out: &mut [f32], packed: &[u8], d: f32, m: f32) {
    for i in 0..16 {
        out[i] = d * f32::from(packed[i] & 15) + m;
        out[i + 16] = d * f32::from(packed[i] >> 4) + m;
    }
}

fn five_bits(out: &mut [f32], rest: &[u8], d: f32, shift: f32, m: f32) {
    let high = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
    let packed = &rest[4..];
    for i in 0..16 {
        let low = packed[i] & 15 | (((high >> i) & 1) << 4) as u8;
        let top = packed[i] >> 4 | (((high >> (i + 16)) & 1) << 4) as u8;
        out[i] = d * (f32::from(low) + shift) + m;
        out[i + 16] = d * (f32::from(top) + shift) + m;
    }
}

/// The 6-bit scale and minimum of sub-block `j`, packed eight and eight into twelve bytes.
fn scale_min(j: usize, packed: &[u8]) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        ((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4), (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4))
    };
    (f32::from(scale), f32::from(min))
}

fn q4_k(out: &mut [f32], block: &[u8]) {
    let (d, dmin, scales, packed) = (half_at(block, 0), half_at(block, 2), &block[4..16], &block[16..]);
    for (j, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(j, scales);
        let run = &packed[j / 2 * 32..];
        for (x, &byte) in out.iter_mut().zip(run) {
            let q = if j % 2 == 0 { byte & 15 } else { byte >> 4 };
            *x = d * scale * f32::from(q) - dmin * min;
        }
    }
}

fn q5_k(out: &mut [f32], block: &[u8]) {
    let (d, dmin, scales) = (half_at(block, 0), half_at(block, 2), &block[4..16]);
    let (high, packed) = (&block[16..48], &block[48..]);
    for (j, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(j, scales);
        let run = &packed[j / 2 * 32..];
        for (i, x) in out.iter_mut().enumerate() {
            let q = if j % 2 == 0 { run[i] & 15 } else { run[i] >> 4 };
            let q = q | (((high[i] >> j) & 1) << 4);
            *x = d * scale * f32::from(q) - dmin * min;
        }
    }
}

fn q6_k(out: &mut [f32], block: &[u8]) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half_at(block, 208));
    for (j, out) in out.chunks_exact_mut(32).enumerate() {
        let (side, quarter) = (j / 4, j % 4);
        let low = &low[side * 64 + (quarter % 2) * 32..];
        let high = &high[side * 32..];
        for (i, x) in out.iter_mut().enumerate() {
            let nibble = if quarter < 2 { low[i] & 15 } else { low[i] >> 4 };
            let q = nibble | (((high[i] >> (2 * quarter)) & 3) << 4);
            let scale = f32::from(scales[j * 2 + i / 16] as i8);
            *x = d * scale * (f32::from(q) - 32.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    /// Compares with the values that ggml's own package gave these blocks (see `tests/fixtures/quant.py`), bit by bit.
    fn check(encoding: Encoding, name: &str) {
        let cases: Json = serde_json::from_str(include_str!("../tests/fixtures/quant.json")).expect("a fixture");
        let hex = cases[name]["blocks"].as_str().expect("blocks");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        let blocks: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let expected: Vec<f32> = serde_json::from_value(cases[name]["values"].clone()).expect("values");
        assert_eq!((blocks.len(), expected.len()), (2 * encoding.block().1, 512), "{name}: two whole blocks");
        for (at, (ours, theirs)) in encoding.decode(&blocks).iter().zip(&expected).enumerate() {
            assert_eq!(ours, theirs, "{name}: weight {at}");
        }
    }

    #[test]
    fn super_blocks_decode_as_ggml_decodes_them() {
        check(Encoding::Q4K, "Q4_K");
        check(Encoding::Q5K, "Q5_K");
        check(Encoding::Q6K, "Q6_K");
    }
}
