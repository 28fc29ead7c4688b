//! 64 bytes at a time; where one of them is escaped, eight of them in a register, which has room for as
//! many of the longest entities.

use std::arch::x86_64::*;

use super::{ENTITY_OF, PADDED};
use crate::text::avx512::{BLOCK_BYTES, add, of_ascii};
use crate::text::block::{below, block_of};
use crate::text::room::{ROOM_BYTES, Room};

const LANES: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let [low, high] = of_ascii(&ENTITY_OF);
    let padded: __m512i = bytemuck::cast(PADDED);
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    while let Some(rest @ [_, ..]) = text.get(at..) {
        let (bytes, count) = block_of::<BLOCK_BYTES>(rest);
        let block: __m512i = bytemuck::cast(bytes);
        let is_ascii = !_mm512_movepi8_mask(block) & below(count);
        let entities = _mm512_maskz_mov_epi8(is_ascii, _mm512_permutex2var_epi8(low, block, high));
        if _mm512_test_epi8_mask(entities, entities) == 0 {
            room.add(&bytes, count);
        } else {
            let entities: [u64; LANES] = bytemuck::cast(entities);
            let bytes: [u64; LANES] = bytemuck::cast(block);
            let starts = (0..count).step_by(LANES);
            for ((start, bytes), entities) in starts.zip(bytes).zip(entities) {
                let in_lanes =
                    |bytes| _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(u64::cast_signed(bytes)));
                let (bytes, entities) = (in_lanes(bytes), in_lanes(entities));
                let escaped = _mm512_test_epi64_mask(entities, entities);
                let entities = _mm512_permutexvar_epi64(entities, padded);
                let lanes = _mm512_mask_blend_epi64(escaped, bytes, entities);
                // No byte of text and of an entity is zero but the one that becomes an entity.
                let kept = _mm512_test_epi8_mask(lanes, lanes);
                add(&mut room, lanes, kept & below(LANES * (count - start)));
                room.make_room();
            }
        }
        at += count;
        room.make_room();
    }
    room.flush();
    text.len()
}
