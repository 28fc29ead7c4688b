//! 32 bytes at a time: all escapes of a block at once.

use std::arch::x86_64::*;

use crate::text::avx2::{BLOCK_BYTES, add, all, bits, is, is_at_most};
use crate::text::block::{below, block_of};
use crate::text::room::{ROOM_BYTES, Room};

#[target_feature(enable = "avx2,popcnt")]
pub(super) fn decode(text: &[u8]) -> Vec<u8> {
    // The zeros behind the end are no digits.
    let from = |at: usize| -> __m256i {
        bytemuck::cast(block_of::<BLOCK_BYTES>(text.get(at..).unwrap_or_default()).0)
    };
    // Never longer than before.
    let mut decoded = Vec::with_capacity(text.len());
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, &mut decoded), 0);
    // Digits at the beginning of a block that belong to an escape before it. Began blocks behind them
    // instead, none could be loaded before the one before it is read.
    let mut leading = 0;
    while at < text.len() {
        let block = from(at);
        let (high, is_high) = hex_digits(from(at + 1));
        let (low, is_low) = hex_digits(from(at + 2));
        let are_digits = _mm256_and_si256(is_high, is_low);
        let escapes = _mm256_and_si256(is(block, b'%'), are_digits);
        // No digit's value reaches into the neighbour.
        let values = _mm256_or_si256(_mm256_slli_epi16::<4>(high), low);
        let characters = _mm256_blendv_epi8(block, all(b' '), is(block, b'+'));
        let characters = _mm256_blendv_epi8(characters, values, escapes);
        let escapes = u64::from(bits(escapes));
        let left_out = escapes << 1 | escapes << 2 | leading;
        add(&mut room, characters, (below(text.len() - at) & !left_out) as u32);
        room.make_room();
        leading = left_out >> BLOCK_BYTES;
        at += BLOCK_BYTES;
    }
    room.flush();
    decoded
}

/// What hexadecimal digits stand for, zero for all other bytes; and which are digits.
#[inline]
#[target_feature(enable = "avx2")]
fn hex_digits(bytes: __m256i) -> (__m256i, __m256i) {
    let from_zero = _mm256_sub_epi8(bytes, all(b'0'));
    let from_a = _mm256_sub_epi8(_mm256_or_si256(bytes, all(0x20)), all(b'a'));
    let (is_decimal, is_letter) = (is_at_most(from_zero, 9), is_at_most(from_a, 5));
    let values = _mm256_or_si256(
        _mm256_and_si256(is_decimal, from_zero),
        _mm256_and_si256(is_letter, _mm256_add_epi8(from_a, all(10))),
    );
    (values, _mm256_or_si256(is_decimal, is_letter))
}
