//! Blocks of text, as vector registers hold them.

/// The beginning of `bytes`, with zeros behind if they are fewer than `N`, and how many they are.
#[inline(always)]
pub(super) fn block_of<const N: usize>(bytes: &[u8]) -> ([u8; N], usize) {
    if let Some(block) = bytes.first_chunk() {
        return (*block, N);
    }
    let mut block = [0; N];
    block[..bytes.len()].copy_from_slice(bytes);
    (block, bytes.len())
}

/// The bits below that one.
#[inline(always)]
pub(super) fn below(bit: usize) -> u64 {
    if bit < 64 { (1 << bit) - 1 } else { u64::MAX }
}
