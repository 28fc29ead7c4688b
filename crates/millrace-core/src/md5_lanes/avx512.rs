//! One register a word of state: sixteen messages a step.
//!
//! The four blocks of code that RFC 1321 calls rounds differ in their function, which is one
//! instruction here, and in the order in which they take the block's words.

use std::arch::x86_64::*;

use super::{INITIAL, LANES, Lane, ROTATIONS, SINES, Words};

/// The round functions as truth tables of `b`, `c` and `d`.
const F: i32 = 0xca;
const G: i32 = 0xe4;
const H: i32 = 0x96;
const I: i32 = 0x39;

/// The digests of up to [`LANES`] messages.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn digests(messages: &[&[u8]], out: &mut [[u8; 16]]) {
    let lanes = Lane::of_each(messages);
    let mut state = INITIAL.map(|word| [word; LANES]);
    for number in 0..Lane::longest(&lanes) {
        add_block(&mut state, &lanes, number);
        Lane::finish(&lanes, number, &state, out);
    }
}

/// Adds block `number` of each message that has one to its state.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_block(state: &mut [Words; 4], lanes: &[Lane<'_>; LANES], number: usize) {
    let mut rows = [_mm512_setzero_si512(); LANES];
    for (row, lane) in rows.iter_mut().zip(lanes) {
        if let Some(block) = lane.block(number) {
            *row = bytemuck::cast(*block);
        }
    }
    let block = transpose(&rows);
    let before: [__m512i; 4] = bytemuck::cast(*state);
    let mut words = before;
    round::<F>(&mut words, &block, 0, |i| i);
    round::<G>(&mut words, &block, 1, |i| 5 * i + 1);
    round::<H>(&mut words, &block, 2, |i| 3 * i + 5);
    round::<I>(&mut words, &block, 3, |i| 7 * i);
    for (word, before) in words.iter_mut().zip(before) {
        *word = _mm512_add_epi32(*word, before);
    }
    *state = bytemuck::cast(words);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn round<const FUNCTION: i32>(
    words: &mut [__m512i; 4],
    block: &[__m512i; 16],
    number: usize,
    order: impl Fn(usize) -> usize,
) {
    let [mut a, mut b, mut c, mut d] = *words;
    for i in 0..16 {
        let sine = _mm512_set1_epi32(SINES[number * 16 + i].cast_signed());
        let rotation = _mm512_set1_epi32(ROTATIONS[number * 4 + i % 4].cast_signed());
        // Of this only the function depends on the step before.
        let early = _mm512_add_epi32(_mm512_add_epi32(block[order(i) % 16], sine), a);
        let mixed = _mm512_add_epi32(early, _mm512_ternarylogic_epi32::<FUNCTION>(b, c, d));
        let next = _mm512_add_epi32(b, _mm512_rolv_epi32(mixed, rotation));
        (a, b, c, d) = (d, next, b, c);
    }
    *words = [a, b, c, d];
}

/// From sixteen messages' sixteen words to sixteen words of each message.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: &[__m512i; 16]) -> [__m512i; 16] {
    let mut columns = [_mm512_setzero_si512(); 16];
    // Fours of rows, so that each 128-bit part holds one word of four messages.
    let mut fours = [[_mm512_setzero_si512(); 4]; 4];
    for (four, rows) in fours.iter_mut().zip(rows.chunks_exact(4)) {
        let low =
            [_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpacklo_epi32(rows[2], rows[3])];
        let high =
            [_mm512_unpackhi_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[2], rows[3])];
        *four = [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ];
    }
    for k in 0..4 {
        let even = [
            _mm512_shuffle_i32x4::<0x88>(fours[0][k], fours[1][k]),
            _mm512_shuffle_i32x4::<0x88>(fours[2][k], fours[3][k]),
        ];
        let odd = [
            _mm512_shuffle_i32x4::<0xdd>(fours[0][k], fours[1][k]),
            _mm512_shuffle_i32x4::<0xdd>(fours[2][k], fours[3][k]),
        ];
        columns[k] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
        columns[k + 4] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
        columns[k + 8] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
        columns[k + 12] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
    }
    columns
}
