//! Checksums of any part of some bytes, in a time that hardly depends on how long the part is.
//!
//! A damaged file is searched for frames at every place, and nearly every place could begin one of
//! megabytes. So the checksums of all beginnings are made once, in steps. That of a part is what
//! its end's has beyond its beginning's: CRC32C is linear.

/// Bytes between beginnings whose checksums are kept: a sixteenth of the bytes in memory.
const STEP_BYTES: usize = 64;

/// Castagnoli's polynomial, the lowest power first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What 2⁰, 2¹, 2² … zeros multiply a checksum by: x⁸, x¹⁶, x³² … modulo the polynomial.
const ZEROS: [u32; 32] = {
    // x⁸ in that order of powers.
    let mut powers = [1 << (31 - 8); 32];
    let mut power = 1;
    while power < powers.len() {
        powers[power] = product(powers[power - 1], powers[power - 1]);
        power += 1;
    }
    powers
};

pub(super) struct Checksums<'a> {
    bytes: &'a [u8],
    /// Of the first 0, 64, 128 … bytes.
    of_beginnings: Vec<u32>,
}

impl Checksums<'_> {
    pub(super) fn new(bytes: &[u8]) -> Checksums<'_> {
        let mut last = 0;
        let later = bytes.chunks_exact(STEP_BYTES).map(|step| {
            last = crc32c::crc32c_append(last, step);
            last
        });
        Checksums { bytes, of_beginnings: std::iter::once(0).chain(later).collect() }
    }

    /// The checksum of so many bytes from `start` on, which there are.
    pub(super) fn of_part(&self, start: usize, len: usize) -> u32 {
        self.of_beginning(start + len) ^ after_zeros(self.of_beginning(start), len)
    }

    fn of_beginning(&self, len: usize) -> u32 {
        let steps = len / STEP_BYTES;
        let rest = self.bytes.get(steps * STEP_BYTES..len).unwrap_or_default();
        let before = self.of_beginnings.get(steps).copied().unwrap_or_default();
        crc32c::crc32c_append(before, rest)
    }
}

/// What a checksum's part is in that of the same bytes with so many behind them.
fn after_zeros(checksum: u32, len: usize) -> u32 {
    let is_set = |power: &usize| len >> power & 1 == 1;
    let factors = ZEROS.iter().enumerate().filter(|(power, _)| is_set(power));
    factors.fold(checksum, |product_, (_, factor)| product(product_, *factor))
}

/// Of two polynomials, modulo Castagnoli's.
const fn product(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    // The highest bit is the lowest power.
    while a != 0 {
        if a & (1 << 31) != 0 {
            product ^= b;
        }
        a <<= 1;
        b = if b & 1 == 1 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parts_checksum_is_that_of_its_bytes() {
        let bytes: Vec<u8> = (0..3 * STEP_BYTES + 7).map(|n| (n * n % 251) as u8).collect();
        let checksums = Checksums::new(&bytes);

        for start in 0..=bytes.len() {
            for len in 0..=bytes.len() - start {
                let expected = crc32c::crc32c(&bytes[start..start + len]);
                assert_eq!(checksums.of_part(start, len), expected, "{start} {len}");
            }
        }
    }
}
