//! 64 bytes at a time, with VBMI2: what is left out between other bytes is pressed out of a register
//! (`vpcompressb`), so it does not matter how much that is, or where.

use std::arch::x86_64::*;

use super::room::Room;

pub(super) const BLOCK_BYTES: usize = 64;

/// What a table says of ASCII characters, in two registers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn of_ascii(table: &[u8; 256]) -> [__m512i; 2] {
    let (blocks, _) = table.as_chunks::<BLOCK_BYTES>();
    [bytemuck::cast(blocks[0]), bytemuck::cast(blocks[1])]
}

/// Adds those bytes that `kept` has a bit for.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) fn add(room: &mut Room<'_>, bytes: __m512i, kept: u64) {
    let pressed: [u8; BLOCK_BYTES] = bytemuck::cast(_mm512_maskz_compress_epi8(kept, bytes));
    room.add(&pressed, kept.count_ones() as usize);
}
