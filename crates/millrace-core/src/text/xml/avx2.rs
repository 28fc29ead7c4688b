//! 32 bytes at a time: asks where the next escapes are, and copies what lies between two without asking
//! how much that is.

use std::arch::x86_64::*;

use super::{ENTITIES, ENTITY_OF, PADDED};
use crate::text::avx2::{BLOCK_BYTES, all, bits, is, is_at_most};
use crate::text::room::{ROOM_BYTES, Room};

/// A bit for each byte that is not written as itself.
#[inline]
#[target_feature(enable = "avx2")]
fn special(block: &[u8; BLOCK_BYTES]) -> u32 {
    let bytes: __m256i = bytemuck::cast(*block);
    // A quote and an ampersand differ in one bit, and so do the brackets.
    let marks = _mm256_or_si256(
        is(_mm256_or_si256(bytes, all(b'"' ^ b'&')), b'&'),
        is(_mm256_or_si256(bytes, all(b'<' ^ b'>')), b'>'),
    );
    let blanks = _mm256_or_si256(is(bytes, b'\t'), is(bytes, b'\n'));
    bits(_mm256_or_si256(marks, _mm256_andnot_si256(blanks, is_at_most(bytes, 0x1f))))
}

#[target_feature(enable = "avx2,popcnt")]
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    while at + 2 * BLOCK_BYTES <= text.len()
        && let Some(block) = block_at(text, at)
    {
        let (mut escapes, mut done) = (special(block), 0);
        while escapes != 0 {
            let next = escapes.trailing_zeros() as usize;
            add(&mut room, block_at(text, at + done), next - done);
            let entity = usize::from(ENTITY_OF[usize::from(block[next % BLOCK_BYTES])]);
            room.add(&PADDED[entity], ENTITIES[entity].len());
            escapes &= escapes - 1;
            done = next + 1;
        }
        add(&mut room, block_at(text, at + done), BLOCK_BYTES - done);
        at += BLOCK_BYTES;
        room.make_room();
    }
    room.flush();
    at
}

/// Adds `count` of a block's bytes.
#[inline(always)]
fn add(room: &mut Room<'_>, block: Option<&[u8; BLOCK_BYTES]>, count: usize) {
    if let Some(block) = block {
        room.add_halves::<16>(bytemuck::cast_ref(block), count);
    }
}

#[inline(always)]
fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
    bytes.get(at..).and_then(<[u8]>::first_chunk)
}
