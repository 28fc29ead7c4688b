//! Questions about bytes of text, answered in vectors.
//!
//! Each looks at strides without an early exit, or the compiler could not use vector instructions;
//! with AVX2, where there is that, 1 KiB takes one or two hundred instructions.

#[cfg(target_feature = "avx2")]
macro_rules! match_target {
    ($($_target:literal => $_with:expr,)+ _ => $without:expr $(,)?) => {
        $without
    };
}

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx512;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod block;
pub mod form;
mod hex;
pub mod json;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod room;
pub mod xml;

use multiversion::multiversion;

const STRIDE_BYTES: usize = 256;

/// Whether there is a byte below the space: a control character of ASCII.
#[multiversion(targets("x86_64+avx2"))]
pub fn has_control(bytes: &[u8]) -> bool {
    bytes.chunks(STRIDE_BYTES).any(|stride| is_any(stride, |byte| byte < b' '))
}

/// Whether there is one but tab, line feed and carriage return.
#[multiversion(targets("x86_64+avx2"))]
pub fn has_control_but_blanks(bytes: &[u8]) -> bool {
    let is_one = |byte: u8| (byte < b' ') & (byte != b'\t') & (byte != b'\n') & (byte != b'\r');
    bytes.chunks(STRIDE_BYTES).any(|stride| is_any(stride, is_one))
}

/// Whether all is ASCII without control characters but tab, line feed, carriage return and DEL.
#[multiversion(targets("x86_64+avx2"))]
pub fn is_plain_ascii(bytes: &[u8]) -> bool {
    // As signed numbers, control characters and what is beyond ASCII are all below the space.
    let is_other = |byte: u8| {
        (byte.cast_signed() < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')
    };
    !bytes.chunks(STRIDE_BYTES).any(|stride| is_any(stride, is_other))
}

/// How many bytes at the start are known to need no escape in a JSON string: whole blocks of 32
/// bytes, or all.
#[multiversion(targets("x86_64+avx2"))]
pub fn json_clean_bytes(bytes: &[u8]) -> usize {
    clean_bytes(bytes, |byte| (byte < b' ') | (byte == b'"') | (byte == b'\\'))
}

/// The same for XML text.
#[multiversion(targets("x86_64+avx2"))]
pub fn xml_clean_bytes(bytes: &[u8]) -> usize {
    clean_bytes(bytes, |byte| {
        ((byte < b' ') & (byte != b'\t') & (byte != b'\n'))
            | (byte == b'&')
            | (byte == b'<')
            | (byte == b'>')
            | (byte == b'"')
    })
}

/// Whether text, which is UTF-8, has U+FFFE or U+FFFF, which are no characters of XML.
#[multiversion(targets("x86_64+avx2"))]
pub fn has_noncharacter(text: &[u8]) -> bool {
    let seconds = text.get(1..).unwrap_or_default();
    let thirds = text.get(2..).unwrap_or_default();
    let each = text.iter().zip(seconds).zip(thirds);
    each.fold(0, |found, ((first, second), third)| {
        found | u8::from((*first == 0xef) & (*second == 0xbf) & (*third >= 0xbe))
    }) != 0
}

/// Always inlined, so that it has the vector instructions of its caller.
#[inline(always)]
fn clean_bytes(bytes: &[u8], needs_escape: impl Fn(u8) -> bool + Copy) -> usize {
    const BLOCK_BYTES: usize = 32;
    let mut clean = 0;
    for stride in bytes.chunks(STRIDE_BYTES) {
        if is_any(stride, needs_escape) {
            let blocks =
                stride.chunks(BLOCK_BYTES).take_while(|block| !is_any(block, needs_escape));
            return clean + blocks.count() * BLOCK_BYTES;
        }
        clean += stride.len();
    }
    clean
}

/// Always inlined, so that it has the vector instructions of its caller.
#[inline(always)]
fn is_any(stride: &[u8], is_one: impl Fn(u8) -> bool) -> bool {
    stride.iter().fold(0, |found, byte| found | u8::from(is_one(*byte))) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            for (at, len) in [(0, 1), (31, 40), (255, 300), (256, 257), (700, 1000)] {
                let mut text = vec![b'x'; len];
                text[at] = byte;
                let is_control = byte < 0x20;
                assert_eq!(has_control(&text), is_control, "{byte} at {at}");
                let is_blank = matches!(byte, 9 | 10 | 13);
                let has_one = has_control_but_blanks(&text);
                assert_eq!(has_one, is_control && !is_blank, "{byte} at {at}");
                let is_plain = byte < 0x80 && (!is_control || is_blank);
                assert_eq!(is_plain_ascii(&text), is_plain, "{byte} at {at}");
                let is_escaped = is_control || byte == b'"' || byte == b'\\';
                let clean = if is_escaped { at / 32 * 32 } else { len };
                assert_eq!(json_clean_bytes(&text), clean, "{byte} at {at}");
                let clean = if xml::entity(byte).is_some() { at / 32 * 32 } else { len };
                assert_eq!(xml_clean_bytes(&text), clean, "{byte} at {at}");
            }
        }
        assert!(!has_control(&[]) && !has_control_but_blanks(&[]) && is_plain_ascii(&[]));
        assert!(json_clean_bytes(&[]) == 0 && xml_clean_bytes(&[]) == 0);
    }

    #[test]
    fn noncharacters_are_found_wherever_they_stand() {
        for before in 0..70 {
            for (character, is_one) in
                [('\u{fffe}', true), ('\u{ffff}', true), ('\u{fffd}', false), ('\u{fefe}', false)]
            {
                for behind in [0, 1, 80] {
                    let text = format!("{}{character}{}", "x".repeat(before), "é".repeat(behind));
                    assert_eq!(has_noncharacter(text.as_bytes()), is_one, "{text}");
                }
            }
        }
        assert!(!has_noncharacter(b"\xef\xbf") && !has_noncharacter(b""));
    }
}
