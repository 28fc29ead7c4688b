//! 64 bytes at a time: all escapes of a block at once.

use std::arch::x86_64::*;

use crate::text::avx512::{BLOCK_BYTES, add, of_ascii};
use crate::text::block::{below, block_of};
use crate::text::hex::DIGITS;
use crate::text::room::{ROOM_BYTES, Room};

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn decode(text: &[u8]) -> Vec<u8> {
    let [low, high] = of_ascii(&DIGITS);
    let all = |byte: u8| _mm512_set1_epi8(byte.cast_signed());
    // The zeros behind the end are no digits.
    let from = |at: usize| -> __m512i {
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
        let (block, first, second) = (from(at), from(at + 1), from(at + 2));
        let upper = _mm512_permutex2var_epi8(low, first, high);
        let lower = _mm512_permutex2var_epi8(low, second, high);
        let either = _mm512_or_si512(upper, lower);
        // The table's sign for no digit, or beyond the ASCII that the table is of: `a | b | c`.
        let none = _mm512_ternarylogic_epi64::<0xfe>(either, first, second);
        let escapes = _mm512_cmpeq_epi8_mask(block, all(b'%')) & !_mm512_movepi8_mask(none);
        // The mask takes away what was moved in from the neighbour; then `a & b | c`.
        let upper = _mm512_slli_epi16::<4>(upper);
        let values = _mm512_ternarylogic_epi64::<0xea>(upper, all(0xf0), lower);
        let spaces = _mm512_cmpeq_epi8_mask(block, all(b'+'));
        let characters = _mm512_mask_blend_epi8(spaces, block, all(b' '));
        let characters = _mm512_mask_blend_epi8(escapes, characters, values);
        let left_out = escapes << 1 | escapes << 2 | leading;
        add(&mut room, characters, below(text.len() - at) & !left_out);
        room.make_room();
        leading = escapes >> 63 | escapes >> 62;
        at += BLOCK_BYTES;
    }
    room.flush();
    decoded
}
