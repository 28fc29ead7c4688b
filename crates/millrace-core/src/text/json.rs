//! Escapes of JSON strings, as they come in JSON within JSON: many, at unpredictable places.
//!
//! In blocks, by what the processor has: [`avx512`] or [`avx2`]. 1 KiB of JSON in a string is read in
//! 0.21 µs with the one and in 0.36 with the other. Elsewhere nothing is done here, and all is left to
//! the caller; so it is in a build for AVX2 alone (`-C target-cpu=native`), where no function is chosen
//! at run time, and only one that is may call intrinsics without `unsafe`.

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx512;

#[cfg(not(target_feature = "avx2"))]
use multiversion::{multiversion, target::match_target};

use super::hex;
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
use super::room::Room;
use crate::digest::hex_digits;

/// For each byte what follows the backslash in JSON, `u` for the long form, 0 for no escape.
pub const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// For each byte what it stands for behind a backslash, 0 for the long form and for none.
pub const UNESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 0x08;
    table[b'f' as usize] = 0x0c;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table
};

/// Appends the beginning of `text`, escaped. Returns how many bytes of it that was: all but the last
/// 63 or fewer, or none.
#[cfg_attr(
    not(target_feature = "avx2"),
    multiversion(targets(
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vbmi2+popcnt",
        "x86_64+avx2+popcnt"
    ))
)]
pub fn escape_blocks(out: &mut Vec<u8>, text: &[u8]) -> usize {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vbmi2+popcnt" => avx512::escape(out, text),
        "x86_64+avx2+popcnt" => avx2::escape(out, text),
        _ => {
            let _ = (out, text);
            0
        }
    }
}

/// Appends what the beginning of a JSON string's content stands for. Returns how many bytes of it
/// were read: up to the closing quote, a character of two long escapes, something that may not be in
/// a string, or near the end of `bytes`; or none.
#[cfg_attr(
    not(target_feature = "avx2"),
    multiversion(targets(
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vbmi2+popcnt",
        "x86_64+avx2+popcnt"
    ))
)]
pub fn unescape_blocks(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vbmi2+popcnt" => avx512::unescape(out, bytes),
        "x86_64+avx2+popcnt" => avx2::unescape(out, bytes),
        _ => {
            let _ = (out, bytes);
            0
        }
    }
}

const LONG_ESCAPE_BYTES: usize = 6;

/// The escape of a byte that is written in the long form.
#[must_use]
pub fn long_escape(byte: u8) -> [u8; LONG_ESCAPE_BYTES] {
    let [high, low] = hex_digits(byte);
    [b'\\', b'u', b'0', b'0', high, low]
}

/// The UTF-16 code unit that the four digits of a long escape stand for, if they are digits.
#[inline]
#[must_use]
pub fn code_unit(digits: &[u8; 4]) -> Option<u16> {
    hex::number(digits)
}

/// The character that four digits stand for, unless that is half of a pair.
#[cfg(any(test, all(target_arch = "x86_64", not(target_feature = "avx2"))))]
fn character_of(digits: &[u8]) -> Option<char> {
    char::from_u32(code_unit(digits.first_chunk()?)?.into())
}

/// Adds the characters of the long escapes that `bytes` begins with, those of words apart by one space
/// too, and returns how many bytes they are written in. `unescape_long` does so for the first few.
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
#[inline(always)]
fn unescape_words(
    room: &mut Room<'_>,
    bytes: &[u8],
    unescape_long: impl Fn(&mut Room<'_>, &[u8]) -> usize,
) -> usize {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..) {
        at += match rest {
            [b'\\', b'u', ..] => match unescape_long(room, rest) {
                0 => break,
                read => read,
            },
            [b' ', b'\\', b'u', ..] => {
                room.add(b" ", 1);
                1
            }
            _ => break,
        };
        room.make_room();
    }
    at
}

/// Of backslashes, a bit for each, those that begin an escape: in each run of them the first, the third,
/// and so on.
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
#[inline(always)]
fn begins_of_escapes(backslashes: u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let first = backslashes & !(backslashes << 1);
    // The carry clears each run that begins at an even place.
    let even_runs = backslashes & !backslashes.wrapping_add(first & EVEN);
    (even_runs & EVEN) | (backslashes & !even_runs & !EVEN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Blocks = fn(&mut Vec<u8>, &[u8]) -> usize;

    /// What this machine chooses, and AVX2 if it chooses better.
    const ESCAPE: [Blocks; 2] = [escape_blocks, escape_by_avx2];
    const UNESCAPE: [Blocks; 2] = [unescape_blocks, unescape_by_avx2];

    #[cfg_attr(not(target_feature = "avx2"), multiversion(targets("x86_64+avx2+popcnt")))]
    fn escape_by_avx2(out: &mut Vec<u8>, text: &[u8]) -> usize {
        match_target! {
            "x86_64+avx2+popcnt" => avx2::escape(out, text),
            _ => escape_blocks(out, text),
        }
    }

    #[cfg_attr(not(target_feature = "avx2"), multiversion(targets("x86_64+avx2+popcnt")))]
    fn unescape_by_avx2(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
        match_target! {
            "x86_64+avx2+popcnt" => avx2::unescape(out, bytes),
            _ => unescape_blocks(out, bytes),
        }
    }

    fn escaped_one_by_one(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in text {
            match ESCAPES[usize::from(*byte)] {
                0 => out.push(*byte),
                b'u' => out.extend_from_slice(&long_escape(*byte)),
                escape => out.extend_from_slice(&[b'\\', escape]),
            }
        }
        out
    }

    /// What it stands for and how many bytes that is, up to a quote, a control character or half of
    /// a pair.
    fn unescaped_one_by_one(bytes: &[u8]) -> (Vec<u8>, usize) {
        let (mut out, mut at) = (Vec::new(), 0);
        loop {
            match bytes.get(at..) {
                Some([b'\\', escaped, ..]) if UNESCAPES[usize::from(*escaped)] != 0 => {
                    out.push(UNESCAPES[usize::from(*escaped)]);
                    at += 2;
                }
                Some([b'\\', b'u', digits @ ..]) if character_of(digits).is_some() => {
                    let character = character_of(digits).unwrap_or_default();
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    at += 6;
                }
                Some([byte, ..]) if !matches!(byte, b'\\' | b'"' | 0..=0x1f) => {
                    out.push(*byte);
                    at += 1;
                }
                _ => return (out, at),
            }
        }
    }

    /// Of few bytes, so that they come in every order.
    fn dense() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop::sample::select(&b"aaaaaaz\\\\\\\"\n\x1f\xe9/uuud80"[..]);
        prop::collection::vec(byte, 0..400)
    }

    fn short_escapes() -> impl Strategy<Value = Vec<u8>> {
        let piece =
            prop::sample::select(&["a", "bc", "\\\\", "\\\"", "\\n", "\\/", "é", "\\u043f"][..]);
        prop::collection::vec(piece, 0..300).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn blocks_are_escaped_as_byte_by_byte(text in dense()) {
            for escape in ESCAPE {
                let mut out = b"before".to_vec();
                let done = escape(&mut out, &text);

                prop_assert!(done == 0 || text.len() - done < 64, "{} of {}", done, text.len());
                prop_assert_eq!(&out[6..], escaped_one_by_one(&text[..done]));
            }
        }

        #[test]
        fn blocks_are_unescaped_as_byte_by_byte(text in dense(), good in short_escapes()) {
            let bytes = [good, text].concat();
            let (all, end) = unescaped_one_by_one(&bytes);
            for unescape in UNESCAPE {
                let mut out = b"before".to_vec();
                let done = unescape(&mut out, &bytes);

                prop_assert!(done == end || done == 0 || bytes.len() - done <= 64);
                prop_assert!(all.starts_with(&out[6..]));
                prop_assert_eq!(unescaped_one_by_one(&bytes[..done]), (out[6..].to_vec(), done));
            }
        }
    }

    #[test]
    fn blocks_unescape_long_escapes_of_all_lengths() {
        // All that have one and two bytes, and those beside every border behind.
        for unit in (0..=u16::MAX).filter(|unit| *unit < 0x800 || matches!(unit % 64, 0 | 63)) {
            let escape = format!("\\u{unit:04x}");
            let text = format!("{escape}{} {escape}\\n", escape.to_uppercase().replace('U', "u"));
            let bytes = text.repeat(4).into_bytes();
            let (all, end) = unescaped_one_by_one(&bytes);
            for unescape in UNESCAPE {
                let mut out = Vec::new();
                let done = unescape(&mut out, &bytes);

                assert!(done == end || done == 0 || bytes.len() - done <= 64, "{text}");
                assert!(all.starts_with(&out), "{text}");
            }
        }
    }

    #[test]
    fn long_escapes_stand_for_characters_but_not_for_halves_of_pairs() {
        for (digits, character) in [
            ("043f!", Some('п')),
            ("20AC", Some('€')),
            ("d83d", None),
            ("00g0", None),
            ("20a", None),
        ] {
            assert_eq!(character_of(digits.as_bytes()), character, "{digits}");
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
    fn with_avx2_nearly_all_is_done_in_blocks() {
        if is_x86_feature_detected!("avx2") {
            // More than is put together before it is appended.
            let text = [b'"'; 4000];
            for (escape, unescape) in ESCAPE.into_iter().zip(UNESCAPE) {
                let mut out = Vec::new();
                assert!(escape(&mut out, &text) >= 3968);
                let mut back = Vec::new();
                assert!(unescape(&mut back, &out) >= 7872);
                assert_eq!(back, text[..back.len()]);
            }
        }
    }
}
