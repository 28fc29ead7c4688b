//! Two registers a word of state, eight messages each: while one waits for its step before, the other
//! goes on.

use std::arch::x86_64::*;

use super::{INITIAL, LANES, Lane, ROTATIONS, SINES, Words};

/// A word of all messages.
type Pair = [__m256i; 2];

/// The digests of up to [`LANES`] messages.
#[inline]
#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
fn add_block(state: &mut [Words; 4], lanes: &[Lane<'_>; LANES], number: usize) {
    // Plain loops: what iterators and closures call may not have the vector instructions.
    let mut rows = [[_mm256_setzero_si256(); 2]; LANES];
    for lane in 0..LANES {
        if let Some(block) = lanes[lane].block(number) {
            rows[lane] = bytemuck::cast(*block);
        }
    }
    let mut block = [[_mm256_setzero_si256(); 2]; 16];
    for register in 0..2 {
        for half in 0..2 {
            let mut of_eight = [_mm256_setzero_si256(); 8];
            for row in 0..8 {
                of_eight[row] = rows[register * 8 + row][half];
            }
            let columns = transpose(of_eight);
            for word in 0..8 {
                block[half * 8 + word][register] = columns[word];
            }
        }
    }
    let before: [Pair; 4] = bytemuck::cast(*state);
    let mut words = before;
    round::<0>(&mut words, &block, |i| i);
    round::<1>(&mut words, &block, |i| 5 * i + 1);
    round::<2>(&mut words, &block, |i| 3 * i + 5);
    round::<3>(&mut words, &block, |i| 7 * i);
    for word in 0..4 {
        words[word] = add(words[word], before[word]);
    }
    *state = bytemuck::cast(words);
}

#[inline]
#[target_feature(enable = "avx2")]
fn round<const NUMBER: usize>(
    words: &mut [Pair; 4],
    block: &[Pair; 16],
    order: impl Fn(usize) -> usize,
) {
    let [mut a, mut b, mut c, mut d] = *words;
    for i in 0..16 {
        let sine = _mm256_set1_epi32(SINES[NUMBER * 16 + i].cast_signed());
        let rotation = ROTATIONS[NUMBER * 4 + i % 4].cast_signed();
        // Of this only the function depends on the step before.
        let early = add(add(block[order(i) % 16], [sine, sine]), a);
        let function = [function::<NUMBER>(b[0], c[0], d[0]), function::<NUMBER>(b[1], c[1], d[1])];
        let mixed = add(early, function);
        let next = add(b, [rotated(mixed[0], rotation), rotated(mixed[1], rotation)]);
        (a, b, c, d) = (d, next, b, c);
    }
    *words = [a, b, c, d];
}

/// RFC 1321's F, G, H and I.
#[inline]
#[target_feature(enable = "avx2")]
fn function<const NUMBER: usize>(b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    match NUMBER {
        0 => _mm256_xor_si256(d, _mm256_and_si256(b, _mm256_xor_si256(c, d))),
        1 => _mm256_xor_si256(c, _mm256_and_si256(d, _mm256_xor_si256(b, c))),
        2 => _mm256_xor_si256(b, _mm256_xor_si256(c, d)),
        _ => {
            let not_d = _mm256_xor_si256(d, _mm256_set1_epi32(-1));
            _mm256_xor_si256(c, _mm256_or_si256(b, not_d))
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(left: Pair, right: Pair) -> Pair {
    [_mm256_add_epi32(left[0], right[0]), _mm256_add_epi32(left[1], right[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated(words: __m256i, count: i32) -> __m256i {
    let left = _mm256_sllv_epi32(words, _mm256_set1_epi32(count));
    _mm256_or_si256(left, _mm256_srlv_epi32(words, _mm256_set1_epi32(32 - count)))
}

/// From eight messages' eight words to eight words of each message.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut columns = [_mm256_setzero_si256(); 8];
    // Fours of rows, so that each 128-bit part holds one word of four messages.
    let mut fours = [[_mm256_setzero_si256(); 4]; 2];
    for (four, rows) in fours.iter_mut().zip(rows.chunks_exact(4)) {
        let low =
            [_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpacklo_epi32(rows[2], rows[3])];
        let high =
            [_mm256_unpackhi_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[2], rows[3])];
        *four = [
            _mm256_unpacklo_epi64(low[0], low[1]),
            _mm256_unpackhi_epi64(low[0], low[1]),
            _mm256_unpacklo_epi64(high[0], high[1]),
            _mm256_unpackhi_epi64(high[0], high[1]),
        ];
    }
    for k in 0..4 {
        columns[k] = _mm256_permute2x128_si256::<0x20>(fours[0][k], fours[1][k]);
        columns[k + 4] = _mm256_permute2x128_si256::<0x31>(fours[0][k], fours[1][k]);
    }
    columns
}
