//! 64 bytes at a time: all escapes of a block at once.

use std::arch::x86_64::*;

use super::{ESCAPES, UNESCAPES, character_of, long_escape};
use crate::text::avx512::{BLOCK_BYTES, add, below, block_of, of_ascii};
use crate::text::room::{ROOM_BYTES, Room};

/// As many fill a block if all are escaped.
const HALF_BYTES: usize = BLOCK_BYTES / 2;
const LONG_ESCAPE_BYTES: usize = 6;
const EVEN: u64 = 0x5555_5555_5555_5555;

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
        let end = at;
        while let Some(character) = long_escape_at(bytes, at) {
            room.add_character(character);
            at += LONG_ESCAPE_BYTES;
            room.make_room();
        }
        if at == end {
            break;
        }
    }
    room.flush();
    at - begun as usize
}

fn long_escape_at(bytes: &[u8], at: usize) -> Option<char> {
    character_of(bytes.get(at..)?.strip_prefix(b"\\u")?)
}

/// Of backslashes those that begin an escape: in each run of them the first, the third, and so on.
#[inline(always)]
fn begins_of_escapes(backslashes: u64) -> u64 {
    let first = backslashes & !(backslashes << 1);
    // The carry clears each run that begins at an even place.
    let even_runs = backslashes & !backslashes.wrapping_add(first & EVEN);
    (even_runs & EVEN) | (backslashes & !even_runs & !EVEN)
}
