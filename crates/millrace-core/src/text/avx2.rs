//! 32 bytes at a time. What is left out between other bytes is shuffled out of eight of them, as a
//! table says, so it does not matter how much that is, or where.

use std::arch::x86_64::*;

use super::room::Room;

pub(super) const BLOCK_BYTES: usize = 32;

/// For each set of eight bytes, a bit for each, where those in it are.
const PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut set = 0;
    while set < places.len() {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if set >> place & 1 == 1 {
                places[set][count] = place as u8;
                count += 1;
            }
            place += 1;
        }
        set += 1;
    }
    places
};

/// Adds those bytes that `kept` has a bit for.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn add(room: &mut Room<'_>, bytes: __m256i, kept: u32) {
    if kept == u32::MAX {
        room.add::<BLOCK_BYTES>(&bytemuck::cast(bytes), BLOCK_BYTES);
        return;
    }
    let eights: [i64; 4] = bytemuck::cast(bytes);
    for (eight, kept) in eights.into_iter().zip(kept.to_le_bytes()) {
        let places = _mm_cvtsi64_si128(bytemuck::cast(PLACES[usize::from(kept)]));
        let pressed = _mm_shuffle_epi8(_mm_cvtsi64_si128(eight), places);
        let count = kept.count_ones() as usize;
        room.add::<8>(&bytemuck::cast(_mm_cvtsi128_si64(pressed)), count);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn all(byte: u8) -> __m256i {
    _mm256_set1_epi8(byte.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn is(bytes: __m256i, byte: u8) -> __m256i {
    _mm256_cmpeq_epi8(bytes, all(byte))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn is_at_most(bytes: __m256i, most: u8) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, all(most)), bytes)
}

/// A bit for each byte that is all ones.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn bits(bytes: __m256i) -> u32 {
    _mm256_movemask_epi8(bytes).cast_unsigned()
}
