//! 32 bytes at a time: all escapes of a block at once.

use std::arch::x86_64::*;

use super::{
    ESCAPES, LONG_ESCAPE_BYTES, UNESCAPES, begins_of_escapes, character_of, long_escape,
    unescape_words,
};
use crate::text::avx2::{BLOCK_BYTES, add, all, bits, is, is_at_most};
use crate::text::block::{below, block_of};
use crate::text::room::{ROOM_BYTES, Room};

/// What of a register of eight bytes and of backslashes behind them is eight bytes' escaped text, for
/// each set of those that are escaped.
const ESCAPED: [[u8; 16]; 256] = {
    let mut escaped = [[0; 16]; 256];
    let mut set = 0;
    while set < escaped.len() {
        let (mut place, mut end) = (0, 0);
        while place < 8 {
            if set >> place & 1 == 1 {
                escaped[set][end] = 8;
                end += 1;
            }
            escaped[set][end] = place as u8;
            end += 1;
            place += 1;
        }
        set += 1;
    }
    escaped
};

#[target_feature(enable = "avx2,popcnt")]
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
    // Of control characters, by their lower halves.
    let (letters, _) = ESCAPES.as_chunks::<16>();
    let letters = bytemuck::cast([letters[0]; 2]);
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    while let Some(rest @ [_, ..]) = text.get(at..) {
        let (block, mut count) = block_of::<BLOCK_BYTES>(rest);
        let bytes: __m256i = bytemuck::cast(block);
        let is_control = is_at_most(bytes, 0x1f);
        let is_mark = _mm256_or_si256(is(bytes, b'"'), is(bytes, b'\\'));
        let escaped = bits(_mm256_or_si256(is_mark, is_control));
        if escaped == 0 {
            room.add(&block, count);
        } else {
            let letter = _mm256_shuffle_epi8(letters, bytes);
            let is_long =
                _mm256_or_si256(is(letter, b'u'), is(_mm256_and_si256(bytes, all(0x10)), 0x10));
            let is_long = _mm256_and_si256(is_control, is_long);
            count = count.min(bits(is_long).trailing_zeros() as usize);
            let second = _mm256_blendv_epi8(bytes, letter, is_control);
            let eights: [i64; 4] = bytemuck::cast(second);
            let mut left = count;
            for (eight, escaped) in eights.into_iter().zip(escaped.to_le_bytes()) {
                let taken = left.min(8);
                let escaped = escaped & below(taken) as u8;
                let backslashes = i64::from_le_bytes([b'\\'; 8]);
                let places = bytemuck::cast(ESCAPED[usize::from(escaped)]);
                let pairs = _mm_shuffle_epi8(_mm_set_epi64x(backslashes, eight), places);
                room.add::<16>(&bytemuck::cast(pairs), taken + escaped.count_ones() as usize);
                left -= taken;
            }
            if count < BLOCK_BYTES
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

#[target_feature(enable = "avx2,popcnt")]
pub(super) fn unescape(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    // Whether the byte in front of the block is a backslash that begins an escape.
    let mut begun = 0;
    while let Some(rest @ [_, ..]) = bytes.get(at..) {
        // The zeros behind the end are no text.
        let block: __m256i = bytemuck::cast(block_of::<BLOCK_BYTES>(rest).0);
        let begins = begins_of_escapes(u64::from(bits(is(block, b'\\'))) & !begun);
        let behind = begins << 1 | begun;
        let (begins, escaped) = (begins as u32, behind as u32);
        let quotes = bits(is(block, b'"'));
        let mut ends = (quotes & !escaped) | bits(is_at_most(block, 0x1f));
        let mut text = block;
        if escaped != 0 {
            let meaning = meaning(block);
            ends |= escaped & bits(is(meaning, 0));
            text = _mm256_blendv_epi8(block, meaning, spread(escaped));
        }
        let end = ends.trailing_zeros() as usize;
        add(&mut room, text, below(end) as u32 & !begins);
        room.make_room();
        at += end;
        if end == BLOCK_BYTES {
            begun = behind >> BLOCK_BYTES;
            continue;
        }
        // A backslash is read together with what is behind it.
        at -= (escaped >> end & 1) as usize;
        begun = 0;
        let words = bytes.get(at..).unwrap_or_default();
        match unescape_words(&mut room, words, unescape_long) {
            0 => break,
            read => at += read,
        }
    }
    room.flush();
    at - begun as usize
}

/// Adds the character of the long escape that `bytes` begins with, unless that is half of a pair. Four at
/// once, as a register has room for, take as long.
#[inline(always)]
fn unescape_long(room: &mut Room<'_>, bytes: &[u8]) -> usize {
    let Some(character) = bytes.get(2..).and_then(character_of) else { return 0 };
    room.add_character(character);
    LONG_ESCAPE_BYTES
}

/// For each byte what it stands for behind a backslash, 0 for the long form and for none.
#[inline]
#[target_feature(enable = "avx2")]
fn meaning(block: __m256i) -> __m256i {
    let mut meaning = _mm256_setzero_si256();
    for letter in *b"\"\\/bfnrt" {
        let one = _mm256_and_si256(is(block, letter), all(UNESCAPES[usize::from(letter)]));
        meaning = _mm256_or_si256(meaning, one);
    }
    meaning
}

/// A byte of ones for each bit.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(bits: u32) -> __m256i {
    let byte_of = bytemuck::cast([[0_u8; 8], [1; 8], [2; 8], [3; 8]]);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), byte_of);
    let bit = bytemuck::cast([[1_u8, 2, 4, 8, 16, 32, 64, 128]; 4]);
    _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit)
}
