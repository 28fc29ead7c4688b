//! 64 bytes at a time: all escapes of a block at once.

use std::arch::x86_64::*;

use super::{
    ESCAPES, LONG_ESCAPE_BYTES, UNESCAPES, begins_of_escapes, long_escape, unescape_words,
};
use crate::text::avx512::{BLOCK_BYTES, add, of_ascii};
use crate::text::block::{below, block_of};
use crate::text::hex::DIGITS;
use crate::text::room::{ROOM_BYTES, Room};

/// As many fill a block if all are escaped.
const HALF_BYTES: usize = BLOCK_BYTES / 2;
/// As many are whole in a block.
const LONG_ESCAPES: u32 = 10;
/// Where in a block the signs of its long escapes stand, each twice, and where their digits.
const LONG_SIGNS: [u8; BLOCK_BYTES] = long_escapes_bytes([0, 1, 0, 1]);
const LONG_DIGITS: [u8; BLOCK_BYTES] = long_escapes_bytes([2, 3, 4, 5]);

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let [low, high] = of_ascii(&ESCAPES);
    let is = |byte: u8| _mm512_set1_epi16(byte.into());
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    while let Some(rest @ [_, ..]) = text.get(at..) {
        let (block, mut count) = block_of::<HALF_BYTES>(rest);
        // A pair of bytes for each.
        let bytes = _mm512_cvtepu8_epi16(bytemuck::cast(block));
        let escaped = _mm512_cmpeq_epi16_mask(bytes, is(b'"'))
            | _mm512_cmpeq_epi16_mask(bytes, is(b'\\'))
            | _mm512_cmplt_epu16_mask(bytes, is(b' '));
        if escaped == 0 {
            room.add(&block, count);
        } else {
            let second = _mm512_slli_epi16::<8>(_mm512_permutex2var_epi8(low, bytes, high));
            let is_long = _mm512_slli_epi16::<8>(is(b'u'));
            let long = _mm512_mask_cmpeq_epi16_mask(escaped, second, is_long);
            count = count.min(long.trailing_zeros() as usize);
            let escapes = _mm512_or_si512(second, is(b'\\'));
            let pairs = _mm512_mask_blend_epi16(escaped, bytes, escapes);
            // Where nothing is escaped, the second of a pair is zero.
            add(&mut room, pairs, _mm512_test_epi8_mask(pairs, pairs) & below(2 * count));
            if count < HALF_BYTES
                && let Some(byte) = rest.get(count)
            {
                room.add(&long_escape(*byte), LONG_ESCAPE_BYTES);
                count += 1;
            }
        }
        at += count;
        room.make_room();
    }
    room.flush();
    at
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn unescape(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let [low, high] = of_ascii(&UNESCAPES);
    let is = |byte: u8| _mm512_set1_epi8(byte.cast_signed());
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    // Whether the byte in front of the block is a backslash that begins an escape.
    let mut begun = 0;
    while let Some(rest @ [_, ..]) = bytes.get(at..) {
        // The zeros behind the end are no text.
        let block: __m512i = bytemuck::cast(block_of::<BLOCK_BYTES>(rest).0);
        let backslashes = _mm512_cmpeq_epi8_mask(block, is(b'\\'));
        let begins = begins_of_escapes(backslashes & !begun);
        let escaped = begins << 1 | begun;
        let meaning = _mm512_permutex2var_epi8(low, block, high);
        let has_meaning = _mm512_test_epi8_mask(meaning, meaning) & !_mm512_movepi8_mask(block);
        let ends = (_mm512_cmpeq_epi8_mask(block, is(b'"')) & !escaped)
            | _mm512_cmplt_epu8_mask(block, is(b' '))
            | (escaped & !has_meaning);
        let end = ends.trailing_zeros() as usize;
        let text = _mm512_mask_blend_epi8(escaped, block, meaning);
        add(&mut room, text, below(end) & !begins);
        room.make_room();
        at += end;
        if end == BLOCK_BYTES {
            begun = begins >> (BLOCK_BYTES - 1);
            continue;
        }
        // A backslash is read together with what is behind it.
        at -= usize::from(escaped >> end & 1 == 1);
        begun = 0;
        let words = bytes.get(at..).unwrap_or_default();
        match unescape_words(&mut room, words, |room, word| unescape_long(room, word)) {
            0 => break,
            read => at += read,
        }
    }
    room.flush();
    at - begun as usize
}

/// Adds the characters of the long escapes that `bytes` begins with, as many as a block has of them, up
/// to half of a pair. Returns how many bytes they are written in.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn unescape_long(room: &mut Room<'_>, bytes: &[u8]) -> usize {
    let [low, high] = of_ascii(&DIGITS);
    let all = |number: u32| _mm512_set1_epi32(number.cast_signed());
    let block: __m512i = bytemuck::cast(block_of::<BLOCK_BYTES>(bytes).0);
    // A lane of four bytes for each escape.
    let signs = _mm512_permutexvar_epi8(bytemuck::cast(LONG_SIGNS), block);
    let is_signed = _mm512_cmpeq_epi32_mask(signs, all(u32::from_le_bytes(*b"\\u\\u")));
    let digits = _mm512_permutexvar_epi8(bytemuck::cast(LONG_DIGITS), block);
    let values = _mm512_permutex2var_epi8(low, digits, high);
    let is_none = _mm512_test_epi32_mask(_mm512_or_si512(values, digits), all(0x8080_8080));
    let pairs = _mm512_maddubs_epi16(values, all(u32::from_le_bytes([16, 1, 16, 1])));
    let units = _mm512_madd_epi16(pairs, all(1 << 16 | 256));
    let is_half = _mm512_cmpeq_epi32_mask(_mm512_and_si512(units, all(0xf800)), all(0xd800));
    let is_character = is_signed & !is_none & !is_half;
    let count = (!is_character).trailing_zeros().min(LONG_ESCAPES) as usize;

    // UTF-8 has no 0xff, which stands for no byte. `a & b | c` puts bits where they belong.
    let continued = |moved: __m512i, at: u32| {
        _mm512_ternarylogic_epi32::<0xea>(moved, all(0x3f << at), all(0x80 << at))
    };
    let one = _mm512_or_si512(units, all(0xffff_ff00));
    let two = _mm512_ternarylogic_epi32::<0xfe>(
        _mm512_srli_epi32::<6>(units),
        continued(_mm512_slli_epi32::<8>(units), 8),
        all(0xffff_00c0),
    );
    let three = _mm512_ternarylogic_epi32::<0xfe>(
        _mm512_or_si512(_mm512_srli_epi32::<12>(units), all(0xff00_00e0)),
        continued(_mm512_slli_epi32::<2>(units), 8),
        continued(_mm512_slli_epi32::<16>(units), 16),
    );
    let text = _mm512_mask_blend_epi32(_mm512_cmplt_epu32_mask(units, all(0x80)), two, one);
    let text = _mm512_mask_blend_epi32(_mm512_cmplt_epu32_mask(units, all(0x800)), three, text);
    add(room, text, _mm512_cmpneq_epi8_mask(text, all(u32::MAX)) & below(4 * count));
    count * LONG_ESCAPE_BYTES
}

/// Where in a block these bytes of each of its long escapes are.
const fn long_escapes_bytes(bytes: [u8; 4]) -> [u8; BLOCK_BYTES] {
    let mut places = [0; BLOCK_BYTES];
    let mut at = 0;
    while at < 4 * LONG_ESCAPES as usize {
        places[at] = (at / 4 * LONG_ESCAPE_BYTES) as u8 + bytes[at % 4];
        at += 1;
    }
    places
}
