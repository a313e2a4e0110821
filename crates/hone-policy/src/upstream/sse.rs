//! Server-sent events: bytes in, events out, however the bytes are cut.
//!
//! An event counts only with the empty line that ends it; a line and an event have a limit. Knows nothing of what is sent.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its type; empty when it has none.
    pub kind: String,
    /// Its data, lines joined by line breaks.
    pub data: String,
}

/// Why bytes are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is longer than allowed.
    #[error("an event is longer than {0} bytes")]
    TooLong(usize),
    /// A line is not UTF-8.
    #[error("a line is not UTF-8")]
    NotText,
}

/// Cuts bytes into events.
#[derive(Debug)]
pub struct Decoder {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was a carriage return, so a line feed now ends no further line.
    was_return: bool,
    is_begun: bool,
    event_bytes_max: usize,
}

impl Decoder {
    /// Events of at most this size.
    pub fn new(event_bytes_max: usize) -> Self {
        Self { line: Vec::new(), event: Event::default(), has_data: false, was_return: false, is_begun: false, event_bytes_max }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        for &byte in bytes {
            let was_return = std::mem::replace(&mut self.was_return, byte == b'\r');
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                _ => {
                    if self.line.len() + self.event.data.len() >= self.event_bytes_max {
                        return Err(SseError::TooLong(self.event_bytes_max));
                    }
                    self.line.push(byte);
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<Event>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| SseError::NotText)?;
        if !std::mem::replace(&mut self.is_begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            // Without data there is nothing to tell.
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.event.kind = value.to_owned(),
            // A comment, which keeps the connection alive, or a field that is of no use here.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects `kind|data` per event, however the text is cut.
    fn check(text: &str, expected: &[&str]) {
        for size in [1, 2, 3, 7, 1000] {
            let mut decoder = Decoder::new(64);
            let events = text.as_bytes().chunks(size).flat_map(|bytes| decoder.push(bytes).unwrap());
            let found: Vec<String> = events.map(|event| format!("{}|{}", event.kind, event.data)).collect();
            assert_eq!(found, expected, "{text:?} by {size}");
        }
    }

    #[test]
    fn events() {
        check("data: a\n\ndata:b\n\n", &["|a", "|b"]);
        check("event: x\r\ndata: a\r\ndata: b\r\n\r\n", &["x|a\nb"]);
        check("data: a\r\rdata: b\r\r", &["|a", "|b"]);
        check(": ping\n\nevent: only\n\ndata\n\n", &["|"]);
        check("\u{feff}data: ä\n\nid: 7\nretry: 3\n\n", &["|ä"]);
        // What is not ended by an empty line was cut off.
        check("data: a\n\ndata: b\n", &["|a"]);
    }

    #[test]
    fn limits() {
        let long = format!("data: {}", "x".repeat(100));
        assert_eq!(Decoder::new(64).push(long.as_bytes()), Err(SseError::TooLong(64)));
        let many = "data: 1234567890\n".repeat(100);
        assert_eq!(Decoder::new(64).push(many.as_bytes()), Err(SseError::TooLong(64)));
        assert_eq!(Decoder::new(64).push(b"data: \xff\n"), Err(SseError::NotText));
    }
}
