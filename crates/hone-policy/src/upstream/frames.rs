//! The binary framing of AWS event streams: bytes in, frames out, however the bytes are cut.
//!
//! A frame is its length, the length of its headers, a CRC-32 of these two, headers, a payload and a CRC-32 of all of it; numbers
//! are big-endian. A frame counts only when both sums are right; a length is believed only after its sum, and has a limit.
//! Of the headers, those that are text are kept. Knows nothing of what is sent.

/// Two lengths and their sum.
const PRELUDE_LEN: usize = 12;
/// The least that a frame has: the prelude and the last sum.
const FRAME_LEN_MIN: usize = PRELUDE_LEN + 4;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Headers whose values are text.
    pub headers: Vec<(String, String)>,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The text of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Why bytes are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is longer than allowed.
    #[error("a frame is longer than {0} bytes")]
    TooLong(usize),
    /// The lengths contradict each other.
    #[error("the lengths of a frame contradict each other")]
    Lengths,
    /// The bytes are not those that were sent.
    #[error("a checksum of a frame is wrong")]
    Checksum,
    /// The headers end in the middle, are of an unknown type, or are not text where they say so.
    #[error("the headers of a frame cannot be read")]
    Headers,
}

/// Cuts bytes into frames.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    frame_bytes_max: usize,
}

impl FrameDecoder {
    /// Frames of at most this size.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), frame_bytes_max }
    }

    /// Takes the next bytes. Nothing can follow an error.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        self.buffer.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut n_read = 0;
        while let Some(frame_len) = self.frame_len(&self.buffer[n_read..])? {
            let Some(frame) = self.buffer.get(n_read..n_read + frame_len) else { break };
            frames.push(read(frame)?);
            n_read += frame_len;
        }
        self.buffer.drain(..n_read);
        Ok(frames)
    }

    /// The length of the frame that begins here, once it is known.
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(prelude) = bytes.get(..PRELUDE_LEN) else { return Ok(None) };
        if crc32(&prelude[..8]) != number(prelude, 8) {
            return Err(FrameError::Checksum);
        }
        let (frame_len, headers_len) = (number(prelude, 0) as usize, number(prelude, 4) as usize);
        if frame_len > self.frame_bytes_max {
            return Err(FrameError::TooLong(self.frame_bytes_max));
        }
        let is_sound = frame_len.checked_sub(FRAME_LEN_MIN).is_some_and(|room| headers_len <= room);
        if is_sound { Ok(Some(frame_len)) } else { Err(FrameError::Lengths) }
    }
}

/// Reads a whole frame whose prelude is sound.
fn read(frame: &[u8]) -> Result<Frame, FrameError> {
    let (body, sum) = frame.split_at(frame.len() - 4);
    if crc32(body) != number(sum, 0) {
        return Err(FrameError::Checksum);
    }
    let (mut rest, payload) = body[PRELUDE_LEN..].split_at(number(frame, 4) as usize);
    let mut headers = Vec::new();
    while !rest.is_empty() {
        let name_len = usize::from(take(&mut rest, 1)?[0]);
        let name = take(&mut rest, name_len)?;
        let value_len = match take(&mut rest, 1)?[0] {
            // True and false are types of their own.
            0 | 1 => 0,
            2 => 1,
            3 => 2,
            4 => 4,
            // A long number and a time.
            5 | 8 => 8,
            // Bytes are passed over as text is read: by the length before them.
            6 => short(&mut rest)?,
            7 => {
                let value_len = short(&mut rest)?;
                headers.push((text(name)?, text(take(&mut rest, value_len)?)?));
                continue;
            }
            9 => 16,
            _ => return Err(FrameError::Headers),
        };
        take(&mut rest, value_len)?;
    }
    Ok(Frame { headers, payload: payload.to_vec() })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], FrameError> {
    let (taken, left) = rest.split_at_checked(len).ok_or(FrameError::Headers)?;
    *rest = left;
    Ok(taken)
}

fn short(rest: &mut &[u8]) -> Result<usize, FrameError> {
    let bytes = take(rest, 2)?;
    Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

fn text(bytes: &[u8]) -> Result<String, FrameError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| FrameError::Headers)
}

/// The number at this place, of which the caller knows that it is there.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The checksum of gzip and PNG: the polynomial 0x04C11DB7, bits reversed.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ CRC_TABLE[usize::from(crc as u8 ^ byte)])
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte_idx = 0;
    while byte_idx < 256 {
        let mut crc = byte_idx as u32;
        let mut bit_idx = 0;
        while bit_idx < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit_idx += 1;
        }
        table[byte_idx] = crc;
        byte_idx += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::Draws;

    // Frames that AWS publishes for those who write decoders.
    const EMPTY: &str = "000000100000000005c248eb7d98c8ff";
    const NO_HEADERS: &str = "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936";
    const ONE_HEADER: &str = "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1";
    const ALL_HEADERS: &str = "000000cc000000af0fae64ca0a6576656e742d74797065040000a00c0c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0a626f6f6c2066616c73650109626f6f6c207472756500046279746502cf08627974652062756606001449276d2061206c6974746c6520746561706f74210974696d657374616d70080000000000845fed05696e74313603002a05696e7436340500000000028757b20475756964090102030405060708090a0b0c0d0e0f107b27666f6f273a27626172277daba5f10c";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// A frame as a line: text headers, then the payload.
    fn line(frame: &Frame) -> String {
        let headers: String = frame.headers.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        format!("{headers}{}", String::from_utf8_lossy(&frame.payload))
    }

    /// Expects these frames, however the bytes are cut.
    fn check(stream: &[u8], expected: &[&str]) {
        for size in 1..=stream.len() {
            let mut decoder = FrameDecoder::new(256);
            let frames = stream.chunks(size).flat_map(|bytes| decoder.push(bytes).unwrap());
            let found: Vec<String> = frames.map(|frame| line(&frame)).collect();
            assert_eq!(found, expected, "by {size}");
        }
    }

    #[test]
    fn the_frames_that_aws_publishes() {
        let json = "content-type=application/json {'foo':'bar'}";
        check(&bytes(EMPTY), &[""]);
        check(&bytes(&[NO_HEADERS, ONE_HEADER, EMPTY, ALL_HEADERS].concat()), &["{'foo':'bar'}", json, "", json]);
    }

    #[test]
    fn corrupted_frames_that_aws_publishes() {
        let check = |good: &str, from: &str, to: &str| {
            assert!(good.contains(from));
            let result = FrameDecoder::new(256).push(&bytes(&good.replacen(from, to, 1)));
            assert_eq!(result, Err(FrameError::Checksum), "{from}");
        };
        check(ONE_HEADER, "00000020", "00000021");
        check(ONE_HEADER, "0000003d", "0000003e");
        check(ONE_HEADER, "7b27666f", "7b61666f");
        check(NO_HEADERS, "7b27666f", "5b27666f");
    }

    #[test]
    fn half_a_frame_is_none_and_a_wrong_bit_is_an_error() {
        let whole = bytes(ALL_HEADERS);
        for len in 0..whole.len() {
            assert_eq!(FrameDecoder::new(256).push(&whole[..len]), Ok(Vec::new()), "{len} bytes");
        }
        for bit_idx in 0..8 * whole.len() {
            let mut wrong = whole.clone();
            wrong[bit_idx / 8] ^= 1 << (bit_idx % 8);
            assert_eq!(FrameDecoder::new(256).push(&wrong), Err(FrameError::Checksum), "bit {bit_idx}");
        }
    }

    /// A frame with right sums around these headers.
    fn summed(frame_len: u32, headers_len: u32, rest: &[u8]) -> Vec<u8> {
        let mut frame = [frame_len.to_be_bytes(), headers_len.to_be_bytes()].concat();
        frame.extend(crc32(&frame).to_be_bytes());
        frame.extend(rest);
        frame.extend(crc32(&frame).to_be_bytes());
        frame
    }

    #[test]
    fn limits_and_lengths() {
        let push = |frame: Vec<u8>| FrameDecoder::new(64).push(&frame);
        assert_eq!(push(summed(65, 0, &[])), Err(FrameError::TooLong(64)), "it is not waited for");
        assert_eq!(push(summed(u32::MAX, 0, &[])), Err(FrameError::TooLong(64)));
        assert_eq!(push(summed(15, 0, &[])), Err(FrameError::Lengths));
        assert_eq!(push(summed(16, 1, &[])), Err(FrameError::Lengths));
        assert_eq!(push(summed(16, u32::MAX, &[])), Err(FrameError::Lengths));
    }

    #[test]
    fn headers_that_lie_are_refused() {
        let check = |headers: &[u8], expected| {
            let frame = summed(16 + headers.len() as u32, headers.len() as u32, headers);
            assert_eq!(FrameDecoder::new(64).push(&frame).map(|frames| frames.len()), expected, "{headers:?}");
        };
        check(&[1, b'x', 7, 0, 1, b'y'], Ok(1));
        check(&[1, b'x', 7, 0xFF, 0xFF, b'y'], Err(FrameError::Headers));
        check(&[9, b'x', 7], Err(FrameError::Headers));
        check(&[1, b'x', 10], Err(FrameError::Headers));
        check(&[1, b'x'], Err(FrameError::Headers));
        check(&[1, b'x', 9, 0], Err(FrameError::Headers));
        check(&[1, 0xFF, 7, 0, 0], Err(FrameError::Headers));
    }

    #[test]
    fn noise_with_right_sums_never_panics() {
        let mut n_read = 0;
        for seed in 0..20_000 {
            let mut draws = Draws::new(seed, &["frames"]);
            let rest: Vec<u8> = (0..draws.bits() % 24).map(|_| (draws.bits() % 12) as u8).collect();
            let headers_len = (draws.bits() % (rest.len() as u64 + 1)) as u32;
            let frame = summed(16 + rest.len() as u32, headers_len, &rest);
            n_read += FrameDecoder::new(64).push(&frame).map_or(0, |frames| frames.len());
        }
        assert!((1000..20_000).contains(&n_read), "{n_read} were frames: some are, some are not");
    }
}
