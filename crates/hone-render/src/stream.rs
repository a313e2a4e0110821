//! Text while it is being sampled: whole characters as soon as they are whole.
//!
//! A character may be spread over several tokens. Its bytes are held back until it is complete; bytes that can never
//! become a character turn into replacement characters. Knows nothing of stop strings.

use crate::tokenizer::Tokenizer;

/// Decodes ids one at a time.
#[derive(Debug, Clone)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    held: Vec<u8>,
}

impl<'a> TextStream<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, held: Vec::new() }
    }

    /// Takes a token and returns the characters that it completes.
    pub fn push(&mut self, id: u32) -> String {
        self.held.extend_from_slice(self.tokenizer.bytes(id));
        take_whole(&mut self.held)
    }

    /// Returns what was held back, as replacement characters.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// Takes all but an unfinished character at the end.
fn take_whole(held: &mut Vec<u8>) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(held) {
            Ok(valid) => {
                text.push_str(valid);
                held.clear();
                return text;
            }
            Err(error) => {
                text.push_str(&String::from_utf8_lossy(&held[..error.valid_up_to()]));
                let Some(n_bad) = error.error_len() else {
                    held.drain(..error.valid_up_to());
                    return text;
                };
                text.push(char::REPLACEMENT_CHARACTER);
                held.drain(..error.valid_up_to() + n_bad);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_character_comes_when_it_is_whole() {
        let mut held = vec![b'a', 0xf0, 0x9f];
        assert_eq!(take_whole(&mut held), "a");
        held.extend([0x98, 0x80, 0xff]);
        assert_eq!(take_whole(&mut held), "😀\u{fffd}");
        assert!(held.is_empty());
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_text_as_the_whole(bytes: Vec<u8>, cut in 0usize..64) {
            let mut held = Vec::new();
            let mut text = String::new();
            for piece in bytes.chunks(cut.max(1)) {
                held.extend_from_slice(piece);
                text.push_str(&take_whole(&mut held));
            }
            text.push_str(&String::from_utf8_lossy(&held));
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
