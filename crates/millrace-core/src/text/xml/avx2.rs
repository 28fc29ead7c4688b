//! 32 bytes at a time: asks where the next escapes are.

use std::arch::x86_64::*;

use super::{ENTITIES, ENTITY_OF, PADDED};
use crate::text::avx2::{self, BLOCK_BYTES};

/// A bit for each byte that is not written as itself.
#[inline]
#[target_feature(enable = "avx2")]
fn special(block: &[u8; BLOCK_BYTES]) -> u32 {
    let bytes: __m256i = bytemuck::cast(*block);
    let all = |byte: u8| _mm256_set1_epi8(byte.cast_signed());
    let is = |bytes: __m256i, byte: u8| _mm256_cmpeq_epi8(bytes, all(byte));
    // A quote and an ampersand differ in one bit, and so do the brackets.
    let marks = _mm256_or_si256(
        is(_mm256_or_si256(bytes, all(b'"' ^ b'&')), b'&'),
        is(_mm256_or_si256(bytes, all(b'<' ^ b'>')), b'>'),
    );
    let controls = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, all(0x1f)), bytes);
    let blanks = _mm256_or_si256(is(bytes, b'\t'), is(bytes, b'\n'));
    let any = _mm256_or_si256(marks, _mm256_andnot_si256(blanks, controls));
    _mm256_movemask_epi8(any).cast_unsigned()
}

#[target_feature(enable = "avx2")]
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
    avx2::escape(
        out,
        text,
        |block| special(block),
        |byte| {
            let entity = usize::from(ENTITY_OF[usize::from(byte)]);
            (PADDED[entity], ENTITIES[entity].len())
        },
    )
}
