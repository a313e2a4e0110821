//! Bodies that come packed: gzip, with a limit that holds while they are unpacked.

use crate::error::Refused;
use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::io::Read;

/// How a body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
}

impl Packing {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Refused> {
        let said = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim().to_ascii_lowercase());
        match said.as_deref() {
            None | Some("" | "identity") => Ok(Self::Plain),
            Some("gzip" | "x-gzip") => Ok(Self::Gzip),
            Some(_) => Err(Refused::MediaType("`content-encoding` must be gzip, or left out")),
        }
    }

    /// The body as it was before it was packed. Not a byte more than the limit and one is unpacked.
    pub(super) fn unpack(self, body: &[u8], bytes_max: usize) -> Result<Cow<'_, [u8]>, Refused> {
        if self == Self::Plain {
            return Ok(Cow::Borrowed(body));
        }
        let mut unpacked = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let read = MultiGzDecoder::new(body).take(limit).read_to_end(&mut unpacked);
        // What is too large is said to be so, whatever comes after.
        if unpacked.len() > bytes_max {
            return Err(Refused::TooLarge(bytes_max));
        }
        let message = |error: std::io::Error| format!("the body cannot be unpacked as gzip: {error}");
        read.map_err(|error| Refused::Malformed { param: None, message: message(error) })?;
        Ok(Cow::Owned(unpacked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_packed_comes_back() {
        let body = packed(b"spans");
        assert_eq!(Packing::Gzip.unpack(&body, 5).unwrap(), &b"spans"[..]);
        assert_eq!(Packing::Gzip.unpack(&[packed(b"sp"), packed(b"ans")].concat(), 5).unwrap(), &b"spans"[..]);
        assert_eq!(Packing::Plain.unpack(b"spans", 0).unwrap(), &b"spans"[..]);
    }

    #[test]
    fn a_bomb_is_refused_before_it_goes_off() {
        // Nested members as well: a gigabyte of zeros in a megabyte, cut in the middle, is too large and not broken.
        let mut bomb = packed(&vec![0; 64 << 20]);
        bomb.truncate(bomb.len() / 2);
        assert_eq!(Packing::Gzip.unpack(&bomb, 1000), Err(Refused::TooLarge(1000)));
        assert_eq!(Packing::Gzip.unpack(&packed(b"spans!"), 5), Err(Refused::TooLarge(5)));
    }

    #[test]
    fn what_is_broken_is_named() {
        let mut wrong = packed(b"spans");
        let last = wrong.len() - 6;
        wrong[last] ^= 1;
        for body in [&b"spans"[..], &[], &packed(b"spans")[..12], &wrong] {
            let refused = Packing::Gzip.unpack(body, 100).unwrap_err().to_string();
            assert!(refused.contains("gzip"), "{refused}");
        }
    }
}
