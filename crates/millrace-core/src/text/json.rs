//! Escapes of JSON strings, as they come in JSON within JSON: many, at unpredictable places.
//!
//! With AVX2, 32 bytes are asked at once where the next ones are, and what lies between two is copied
//! without asking how much that is. Read so, 1 KiB of JSON in a string takes 0.8 instead of 1.3 µs,
//! and of lines of 70 characters 0.3 instead of 1.3. Elsewhere nothing is done here, and all is left
//! to the caller; so it is in a build for AVX2 alone (`-C target-cpu=native`), where no function is
//! chosen at run time, and only one that is may call intrinsics without `unsafe`.

#[cfg(not(target_feature = "avx2"))]
use multiversion::{multiversion, target::match_target};

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

#[cfg(target_feature = "avx2")]
macro_rules! match_target {
    ($_target:literal => $_with:expr, _ => $without:expr $(,)?) => {
        $without
    };
}

/// Appends the beginning of `text`, escaped. Returns how many bytes of it that was: all but the last
/// 63 or fewer, or none.
#[cfg_attr(not(target_feature = "avx2"), multiversion(targets("x86_64+avx2")))]
pub fn escape_blocks(out: &mut Vec<u8>, text: &[u8]) -> usize {
    match_target! {
        "x86_64+avx2" => avx2::escape(out, text),
        _ => {
            let _ = (out, text);
            0
        }
    }
}

/// Appends what the beginning of a JSON string's content stands for. Returns how many bytes of it
/// were read: up to the closing quote, a character of two long escapes, something that may not be in
/// a string, or near the end of `bytes`; or none.
#[cfg_attr(not(target_feature = "avx2"), multiversion(targets("x86_64+avx2")))]
pub fn unescape_blocks(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    match_target! {
        "x86_64+avx2" => avx2::unescape(out, bytes),
        _ => {
            let _ = (out, bytes);
            0
        }
    }
}

/// The escape of a byte that is written in the long form.
#[must_use]
pub fn long_escape(byte: u8) -> [u8; 6] {
    let [high, low] = hex_digits(byte);
    [b'\\', b'u', b'0', b'0', high, low]
}

/// The UTF-16 code unit that the four digits of a long escape stand for, if they are digits.
#[inline]
#[must_use]
pub fn code_unit(digits: &[u8; 4]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | value as u16)
    })
}

/// The character that four digits stand for, unless that is half of a pair.
#[cfg(any(test, all(target_arch = "x86_64", not(target_feature = "avx2"))))]
fn character_of(digits: &[u8]) -> Option<char> {
    char::from_u32(code_unit(digits.first_chunk()?)?.into())
}

#[cfg(all(target_arch = "x86_64", not(target_feature = "avx2")))]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{ESCAPES, UNESCAPES, character_of, long_escape};

    const BLOCK_BYTES: usize = 32;
    /// What a block may become, and what is copied beyond.
    const MOST_BYTES: usize = 6 * BLOCK_BYTES + BLOCK_BYTES;
    const ROOM_BYTES: usize = 1024;

    /// A block's two halves.
    type Halves = [[u8; BLOCK_BYTES / 2]; 2];

    /// Text that is put together before it is appended.
    struct Room {
        bytes: [u8; ROOM_BYTES],
        end: usize,
    }

    impl Room {
        fn new() -> Room {
            Room { bytes: [0; ROOM_BYTES], end: 0 }
        }

        /// Adds `count` of a block's bytes. Halves of it are copied whole.
        #[inline(always)]
        fn add(&mut self, block: Option<&[u8; BLOCK_BYTES]>, count: usize) {
            let room = self.bytes.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut);
            if let (Some::<&mut [u8; BLOCK_BYTES]>(room), Some(block)) = (room, block) {
                let room: &mut Halves = bytemuck::cast_mut(room);
                let halves: &Halves = bytemuck::cast_ref(block);
                room[0] = halves[0];
                if count > BLOCK_BYTES / 2 {
                    room[1] = halves[1];
                }
            }
            self.end += count;
        }

        #[inline(always)]
        fn add_bytes<const N: usize>(&mut self, bytes: [u8; N]) {
            if let Some(room) = self.bytes.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut) {
                *room = bytes;
            }
            self.end += N;
        }

        #[inline(always)]
        fn add_character(&mut self, character: char) {
            let mut bytes = [0; 4];
            let count = character.encode_utf8(&mut bytes).len();
            self.add_bytes(bytes);
            self.end -= bytes.len() - count;
        }

        #[inline(always)]
        fn flush(&mut self, out: &mut Vec<u8>, room_for: usize) {
            if self.end + room_for > ROOM_BYTES {
                out.extend_from_slice(self.bytes.get(..self.end).unwrap_or_default());
                self.end = 0;
            }
        }
    }

    #[inline(always)]
    fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
        bytes.get(at..).and_then(<[u8]>::first_chunk)
    }

    /// A bit for each byte that is a quote, a backslash or a control character.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn special(block: &[u8; BLOCK_BYTES]) -> u32 {
        let bytes: __m256i = bytemuck::cast(*block);
        let quotes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'"'.cast_signed()));
        let backslashes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\'.cast_signed()));
        let controls = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f)), bytes);
        let any = _mm256_or_si256(_mm256_or_si256(quotes, backslashes), controls);
        _mm256_movemask_epi8(any).cast_unsigned()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
        let (mut room, mut at) = (Room::new(), 0);
        while at + 2 * BLOCK_BYTES <= text.len()
            && let Some(block) = block_at(text, at)
        {
            let (mut escapes, mut done) = (special(block), 0);
            while escapes != 0 {
                let next = escapes.trailing_zeros() as usize;
                room.add(block_at(text, at + done), next - done);
                let byte = block[next % BLOCK_BYTES];
                match ESCAPES[usize::from(byte)] {
                    b'u' => room.add_bytes(long_escape(byte)),
                    escape => room.add_bytes([b'\\', escape]),
                }
                escapes &= escapes - 1;
                done = next + 1;
            }
            room.add(block_at(text, at + done), BLOCK_BYTES - done);
            at += BLOCK_BYTES;
            room.flush(out, MOST_BYTES);
        }
        room.flush(out, ROOM_BYTES);
        at
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn unescape(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
        let (mut room, mut at) = (Room::new(), 0);
        'blocks: while at + 2 * BLOCK_BYTES < bytes.len()
            && let Some(block) = block_at(bytes, at)
        {
            let (mut specials, mut done) = (special(block), 0);
            while specials != 0 {
                let next = specials.trailing_zeros() as usize;
                room.add(block_at(bytes, at + done), next - done);
                let is_escape = block[next % BLOCK_BYTES] == b'\\';
                let escaped = bytes.get(at + next + 1).copied().unwrap_or_default();
                let meaning = UNESCAPES[usize::from(escaped)];
                if is_escape && meaning != 0 {
                    room.add_bytes([meaning]);
                    done = next + 2;
                } else if is_escape
                    && escaped == b'u'
                    && let Some(character) = bytes.get(at + next + 2..).and_then(character_of)
                {
                    room.add_character(character);
                    done = next + 6;
                } else {
                    at += next;
                    break 'blocks;
                }
                // Whatever the escaped byte is, it was read.
                specials &= !(0b11 << next);
            }
            room.add(block_at(bytes, at + done), BLOCK_BYTES.saturating_sub(done));
            at += done.max(BLOCK_BYTES);
            room.flush(out, MOST_BYTES);
        }
        room.flush(out, ROOM_BYTES);
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let mut out = b"before".to_vec();
            let done = escape_blocks(&mut out, &text);

            prop_assert!(done == 0 || text.len() - done < 64, "{} of {}", done, text.len());
            prop_assert_eq!(&out[6..], escaped_one_by_one(&text[..done]));
        }

        #[test]
        fn blocks_are_unescaped_as_byte_by_byte(text in dense(), good in short_escapes()) {
            let bytes = [good, text].concat();
            let mut out = b"before".to_vec();
            let done = unescape_blocks(&mut out, &bytes);

            let (all, end) = unescaped_one_by_one(&bytes);
            prop_assert!(done == end || done == 0 || bytes.len() - done <= 64);
            prop_assert!(all.starts_with(&out[6..]));
            prop_assert_eq!(unescaped_one_by_one(&bytes[..done]), (out[6..].to_vec(), done));
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
            let mut out = Vec::new();
            assert_eq!(escape_blocks(&mut out, &text), 3968);
            let mut back = Vec::new();
            assert_eq!(unescape_blocks(&mut back, &out), 7872);
            assert_eq!(back, text[..3936]);
        }
    }
}
