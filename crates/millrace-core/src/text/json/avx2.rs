//! 32 bytes at a time: asks where the next escapes are.

use std::arch::x86_64::*;

use super::{ESCAPES, UNESCAPES, character_of, long_escape};
use crate::text::avx2::{self, BLOCK_BYTES, add, block_at};
use crate::text::room::{ROOM_BYTES, Room};

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
    avx2::escape(
        out,
        text,
        |block| special(block),
        |byte| match ESCAPES[usize::from(byte)] {
            b'u' => (long_escape(byte), 6),
            escape => ([b'\\', escape, 0, 0, 0, 0], 2),
        },
    )
}

#[target_feature(enable = "avx2")]
pub(super) fn unescape(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    'blocks: while at + 2 * BLOCK_BYTES < bytes.len()
        && let Some(block) = block_at(bytes, at)
    {
        let (mut specials, mut done) = (special(block), 0);
        while specials != 0 {
            let next = specials.trailing_zeros() as usize;
            add(&mut room, block_at(bytes, at + done), next - done);
            let is_escape = block[next % BLOCK_BYTES] == b'\\';
            let escaped = bytes.get(at + next + 1).copied().unwrap_or_default();
            let meaning = UNESCAPES[usize::from(escaped)];
            if is_escape && meaning != 0 {
                room.add(&[meaning], 1);
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
        add(&mut room, block_at(bytes, at + done), BLOCK_BYTES.saturating_sub(done));
        at += done.max(BLOCK_BYTES);
        room.make_room();
    }
    room.flush();
    at
}
