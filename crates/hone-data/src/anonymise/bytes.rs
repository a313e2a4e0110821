//! Where words begin and end. Text is looked at as bytes: everything outside of ASCII counts as a letter but for the punctuation
//! that word processors write.

/// The bytes that can be part of a word.
const WORD: [bool; 256] = {
    let mut all = [false; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = (byte as u8).is_ascii_alphanumeric() || byte >= 0x80;
        byte += 1;
    }
    all
};

/// Whether this byte can be part of a word.
pub(super) fn is_word(byte: u8) -> bool {
    WORD[usize::from(byte)]
}

/// The length of a punctuation character outside of ASCII that stands here; 0 when there is none.
pub(super) fn punctuation_len(bytes: &[u8], at: usize) -> usize {
    match (bytes.get(at), bytes.get(at + 1)) {
        // Latin-1 signs, no-break space, guillemets.
        (Some(0xc2), Some(0x80..=0xbf)) => 2,
        // Dashes, curly quotes, bullets, odd spaces; CJK comma and full stop.
        (Some(0xe2), Some(0x80 | 0x81)) | (Some(0xe3), Some(0x80)) => 3,
        _ => 0,
    }
}

/// The end of the word that begins here.
pub(super) fn word_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        if !is_word(byte) || (byte >= 0x80 && punctuation_len(bytes, at) > 0) {
            break;
        }
        at += 1;
    }
    at
}

/// The end of the digits that begin here.
pub(super) fn digits_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The place after the blanks, but not the line breaks, that begin here.
pub(super) fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether these bytes begin here, upper and lower case alike.
pub(super) fn begins_with(bytes: &[u8], at: usize, word: &str) -> bool {
    bytes.get(at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word.as_bytes()))
}

/// The same, and the word ends there.
pub(super) fn has_word(bytes: &[u8], at: usize, word: &str) -> bool {
    begins_with(bytes, at, word) && bytes.get(at + word.len()).is_none_or(|&next| !is_word(next))
}

/// Whether a value may begin here: not in the middle of a word.
pub(super) fn is_free_before(bytes: &[u8], at: usize) -> bool {
    at == 0 || !is_word(bytes[at - 1]) || is_escape_before(bytes, at) || bytes[at - 1] >= 0x80
}

/// Whether a value may end here.
pub(super) fn is_free_after(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|&next| !next.is_ascii_alphanumeric())
}

/// Whether `\n`, `\r` or `\t` in two characters ends here, as in JSON inside of text.
pub(super) fn is_escape_before(bytes: &[u8], at: usize) -> bool {
    at >= 2 && bytes[at - 2] == b'\\' && matches!(bytes[at - 1], b'n' | b'r' | b't')
}

/// Whether more of the same code follows behind a dash, a dot or a slash.
pub(super) fn goes_on(bytes: &[u8], end: usize) -> bool {
    match (bytes.get(end), bytes.get(end + 1)) {
        (Some(b'-'), Some(next)) => next.is_ascii_alphanumeric(),
        (Some(b'.' | b'/'), Some(next)) => next.is_ascii_digit(),
        _ => false,
    }
}

/// Whether this word, and blanks, stand at the end.
pub(super) fn ends_with_word(bytes: &[u8], word: &str) -> bool {
    let text = bytes.trim_ascii_end();
    let Some(from) = text.len().checked_sub(word.len()) else { return false };
    text.len() + 2 >= bytes.len() && text[from..].eq_ignore_ascii_case(word.as_bytes()) && (from == 0 || !is_word(text[from - 1]))
}
