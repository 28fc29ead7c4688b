//! 32 bytes at a time: asks where the next escapes are, and copies what lies between two without asking
//! how much that is.

use super::room::{ROOM_BYTES, Room};

pub(super) const BLOCK_BYTES: usize = 32;

/// Appends the beginning of `text`, with an escape for each byte of a block that `special` has a bit
/// for: the first bytes, as many as it says, of what `escape_of` gives. Returns how many bytes of
/// `text` that was: all but the last 63 or fewer.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn escape<const N: usize>(
    out: &mut Vec<u8>,
    text: &[u8],
    special: impl Fn(&[u8; BLOCK_BYTES]) -> u32,
    escape_of: impl Fn(u8) -> ([u8; N], usize),
) -> usize {
    let mut space = [0; ROOM_BYTES];
    let (mut room, mut at) = (Room::new(&mut space, out), 0);
    while at + 2 * BLOCK_BYTES <= text.len()
        && let Some(block) = block_at(text, at)
    {
        let (mut escapes, mut done) = (special(block), 0);
        while escapes != 0 {
            let next = escapes.trailing_zeros() as usize;
            add(&mut room, block_at(text, at + done), next - done);
            let (escape, count) = escape_of(block[next % BLOCK_BYTES]);
            room.add(&escape, count);
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
pub(super) fn add(room: &mut Room<'_>, block: Option<&[u8; BLOCK_BYTES]>, count: usize) {
    if let Some(block) = block {
        room.add_halves::<16>(bytemuck::cast_ref(block), count);
    }
}

#[inline(always)]
pub(super) fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
    bytes.get(at..).and_then(<[u8]>::first_chunk)
}
