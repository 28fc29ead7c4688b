//! Text that is put together before it is appended, so that pieces of it can be copied whole, however
//! many of their bytes count.

pub(super) const ROOM_BYTES: usize = 1024;

/// What nothing that is added at once exceeds.
const MOST_BYTES: usize = 256;

/// The bytes are not its own: beside them in memory, `end` would be no register of the processor.
pub(super) struct Room<'o> {
    bytes: &'o mut [u8; ROOM_BYTES],
    end: usize,
    out: &'o mut Vec<u8>,
}

impl<'o> Room<'o> {
    #[inline(always)]
    pub(super) fn new(bytes: &'o mut [u8; ROOM_BYTES], out: &'o mut Vec<u8>) -> Room<'o> {
        Room { bytes, end: 0, out }
    }

    /// Adds the first `count` of these bytes.
    #[inline(always)]
    pub(super) fn add<const N: usize>(&mut self, bytes: &[u8; N], count: usize) {
        if let Some(room) = self.bytes.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut) {
            *room = *bytes;
        }
        self.end += count;
    }

    /// The same, but copies the second half only if bytes of it count.
    #[inline(always)]
    pub(super) fn add_halves<const N: usize>(&mut self, halves: &[[u8; N]; 2], count: usize) {
        if let Some(room) = self.bytes.get_mut(self.end..) {
            let (room, _) = room.as_chunks_mut::<N>();
            if let [first, second, ..] = room {
                *first = halves[0];
                if count > N {
                    *second = halves[1];
                }
            }
        }
        self.end += count;
    }

    #[inline(always)]
    pub(super) fn add_character(&mut self, character: char) {
        let mut bytes = [0; 4];
        let count = character.encode_utf8(&mut bytes).len();
        self.add(&bytes, count);
    }

    /// Appends what there is, unless [`MOST_BYTES`] more have room.
    #[inline(always)]
    pub(super) fn make_room(&mut self) {
        if self.end + MOST_BYTES > ROOM_BYTES {
            self.flush();
        }
    }

    /// Appends what there is.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.out.extend_from_slice(self.bytes.get(..self.end).unwrap_or_default());
        self.end = 0;
    }
}
