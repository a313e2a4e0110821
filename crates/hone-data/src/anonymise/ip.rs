//! Addresses of machines: four numbers with dots, or IPv6. Those that are everybody's (loopback, masks) are nobody's data.

use super::bytes::{ends_with_word, is_free_after, is_word};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What was read where an address may begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// An address of a machine that ends here.
    Address(usize),
    /// Something of the same form that is nobody's data.
    Harmless(usize),
}

/// The longest IPv6 address, with an IPv4 address at its end.
const LEN_MAX: usize = 45;

/// What has parts that are numbered so, and programs whose versions are. A program that serves is none of them: `redis 10.0.0.5`.
const NUMBERED: &str = "section sections chapter chapters clause clauses paragraph appendix oid oids python cpython pypy java jdk openjdk \
    nodejs libc glibc openssl chrome chromium firefox safari gcc clang llvm cmake django rails ruby php perl golang rustc cuda cudnn \
    tensorflow pytorch numpy pandas";

fn is_numbered(bytes: &[u8], at: usize) -> bool {
    NUMBERED.split_ascii_whitespace().any(|word| ends_with_word(&bytes[..at], word))
}

/// Four numbers with dots between them. Those of a version are nobody's.
pub(super) fn v4(bytes: &[u8], at: usize, is_version: bool) -> Option<Read> {
    let n = bytes[at..].iter().take(16).take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let text = std::str::from_utf8(&bytes[at..at + n]).ok()?;
    let text = text.trim_end_matches('.');
    let end = at + text.len();
    if text.bytes().filter(|byte| *byte == b'.').count() != 3 || !is_free_after(bytes, end) || n > 15 && text.len() == n {
        return None;
    }
    let address: Ipv4Addr = text.parse().ok()?;
    let bits = address.to_bits();
    let is_mask = bits.leading_ones() >= 8 && bits.leading_ones() + bits.trailing_zeros() == 32;
    let is_nobodys = address.is_loopback() || is_mask || matches!(address.octets()[0], 0 | 240);
    Some(if is_nobodys || is_version || is_numbered(bytes, at) { Read::Harmless(end) } else { Read::Address(end) })
}

/// Hexadecimal groups with colons between them.
pub(super) fn v6(bytes: &[u8], at: usize) -> Option<Read> {
    let n =
        bytes[at..].iter().take(LEN_MAX + 1).take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')).count();
    let text = std::str::from_utf8(&bytes[at..at + n]).ok()?;
    let text = text.trim_end_matches('.');
    let text = if text.ends_with("::") { text } else { text.trim_end_matches(':') };
    let end = at + text.len();
    if text.len() > LEN_MAX
        || text.bytes().filter(|byte| *byte == b':').count() < 2
        || bytes.get(end).is_some_and(|&next| is_word(next))
    {
        return None;
    }
    let address: Ipv6Addr = text.parse().ok()?;
    let groups = || text.split(':').filter(|group| !group.is_empty());
    let n_groups = groups().count();
    // `xs[0::2]` is every second item of a list, and so is `xs[100::2]` behind a name.
    let is_index = at > 1 && bytes[at - 1] == b'[' && (is_word(bytes[at - 2]) || matches!(bytes[at - 2], b'_' | b')' | b']'));
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_slice = n_groups < 3 && (groups().all(|group| group.len() < 3) || is_index && is_decimal);
    let is_mac = n_groups == 8 && groups().all(|group| group.len() == 2);
    let is_word_like = n_groups < 2 || !text.bytes().any(|byte| byte.is_ascii_digit());
    let is_nobodys = address.is_unspecified() || address.is_loopback() || address.segments()[..4] == [0x100, 0, 0, 0];
    Some(if is_nobodys || is_word_like || is_slice || is_mac { Read::Harmless(end) } else { Read::Address(end) })
}
