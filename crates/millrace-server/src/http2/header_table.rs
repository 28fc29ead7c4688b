//! Memory that a client's header blocks keep alive.
//!
//! h2 keeps an entry of its header table as a slice of the buffer that it came in, or that it was
//! decoded into, so that an entry of 33 bytes may keep the memory of a large header. The server
//! announces a table of size 0; a client that follows this says so in
//! its first header block after that. h2 does not enforce it. So the frames that come in are
//! followed here as far as needed to see which header blocks add entries (RFC 9113, 4.1 and 6.2;
//! RFC 7541, 6). Malformed input is left to h2, which ends the connection.

/// The client's first bytes: `PRI * HTTP/2.0`, and so on.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;

/// An entry takes 33 of the 4,096 bytes that a table has until the client hears of ours.
const ENTRIES_MAX: usize = 4096 / 33;
/// h2's buffers for reading and decoding have this size at first. Connections count with them.
const BUFFER_BYTES: usize = 8 * 1024;
/// The decoding buffer grows to this many times the largest block: Huffman codes have 5 of 8 bits
/// at least, and the buffer doubles.
const DECODED_RATIO: usize = 4;

/// Follows what a client sends on a connection.
#[derive(Debug)]
pub(super) struct HeaderTable {
    /// Bytes to pass over before the next head of a frame.
    skipped: usize,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the header block that are left in this frame; then padding follows.
    fragment_bytes: usize,
    /// Bytes before the block in this frame: the length of the padding, the priority.
    prefix_bytes: usize,
    padding_bytes: usize,
    block: Block,
    /// True if h2 passes over the block of this frame without decoding it.
    is_undecoded: bool,
    largest_block_bytes: usize,
    /// All that the client has sent.
    sent_bytes: usize,
    /// Bytes that the entries keep alive.
    entry_bytes: usize,
}

/// A header block, as far as it has come.
#[derive(Debug, Default)]
struct Block {
    part: Part,
    /// Bytes of the string to pass over.
    string_bytes: usize,
    /// The shift of the next 7 bits of a number.
    shift: u32,
    bytes: usize,
    has_fields: bool,
    adds_entries: bool,
}

/// The meaning of the next byte of a header block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Field,
    /// The rest of a number, of an index or a size; what follows it.
    Number(After),
    Length(Text),
    LengthRest(Text),
    Text(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Field,
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Name,
    Value,
}

impl HeaderTable {
    pub(super) fn new() -> HeaderTable {
        HeaderTable {
            skipped: PREFACE_BYTES,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            fragment_bytes: 0,
            prefix_bytes: 0,
            padding_bytes: 0,
            block: Block::default(),
            is_undecoded: false,
            largest_block_bytes: 0,
            sent_bytes: 0,
            entry_bytes: 0,
        }
    }

    /// Memory that h2 keeps at most for entries, for decoding, and for a block that has not ended.
    pub(super) fn pinned_bytes(&self) -> usize {
        let beyond_buffer = |bytes: usize| if bytes > BUFFER_BYTES { bytes } else { 0 };
        let kept_bytes = self.entry_bytes
            + beyond_buffer(DECODED_RATIO * self.largest_block_bytes)
            + beyond_buffer(self.block.bytes);
        // Entries that came close together share their buffers.
        kept_bytes.min(self.sent_bytes.saturating_mul(DECODED_RATIO))
    }

    /// Takes the next bytes of the connection.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes.len());
        while let Some((&first, rest)) = bytes.split_first() {
            if self.skipped > 0 {
                let skipped = self.skipped.min(bytes.len());
                self.skipped -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            bytes = rest;
            if self.head_bytes < HEAD_BYTES {
                self.head[self.head_bytes] = first;
                self.head_bytes += 1;
                if self.head_bytes == HEAD_BYTES {
                    self.begin_frame();
                }
            } else if self.prefix_bytes > 0 {
                self.take_prefix(first);
            } else {
                self.fragment_bytes -= 1;
                self.take_block_byte(first);
                let skipped = self.block.skip_text(self.fragment_bytes.min(bytes.len()));
                self.fragment_bytes -= skipped;
                bytes = &bytes[skipped..];
                self.largest_block_bytes = self.largest_block_bytes.max(self.block.bytes);
            }
            self.end_frame();
        }
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        self.padding_bytes = 0;
        self.prefix_bytes = if kind == HEADERS { prefix_bytes(flags) } else { 0 };
        match (kind, length.checked_sub(self.prefix_bytes)) {
            (HEADERS | CONTINUATION, Some(fragment_bytes)) => self.fragment_bytes = fragment_bytes,
            _ => {
                self.prefix_bytes = 0;
                self.fragment_bytes = 0;
                self.skipped = length;
            }
        }
        if kind == HEADERS {
            self.block = Block::default();
            self.is_undecoded = false;
        }
    }

    fn take_prefix(&mut self, byte: u8) {
        let flags = self.head[4];
        let is_first = self.prefix_bytes == prefix_bytes(flags);
        if is_first && flags & PADDED != 0 {
            self.padding_bytes = usize::from(byte).min(self.fragment_bytes);
            self.fragment_bytes -= self.padding_bytes;
        }
        // A stream that depends on itself is reset, and its block passed over.
        self.prefix_bytes -= 1;
        if flags & PRIORITY != 0 {
            self.take_priority(byte);
        }
    }

    /// Compares the stream on which this one depends with itself.
    fn take_priority(&mut self, byte: u8) {
        // The last of the five bytes is the weight.
        let [_, _, _, _, _, stream @ ..] = self.head;
        match PRIORITY_BYTES.checked_sub(self.prefix_bytes + 1) {
            Some(0) => self.is_undecoded = byte & 0x7f == stream[0] & 0x7f,
            Some(at @ 1..=3) => self.is_undecoded &= byte == stream[at],
            _ => {}
        }
    }

    fn take_block_byte(&mut self, byte: u8) {
        self.block.bytes += 1;
        if self.block.take(byte) && !self.is_undecoded {
            self.entry_bytes = 0;
        }
    }

    /// Ends the frame if nothing is left of it but padding.
    fn end_frame(&mut self) {
        if self.head_bytes < HEAD_BYTES || self.prefix_bytes > 0 || self.fragment_bytes > 0 {
            return;
        }
        let [_, _, _, kind, flags, ..] = self.head;
        self.head_bytes = 0;
        self.skipped += std::mem::take(&mut self.padding_bytes);
        if matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0 {
            let block = std::mem::take(&mut self.block);
            if block.adds_entries {
                // The block with the buffer for reading, or the buffer for decoding.
                let decoded_bytes = DECODED_RATIO * self.largest_block_bytes;
                let bytes = BUFFER_BYTES + decoded_bytes.max(BUFFER_BYTES);
                let most = self.entry_bytes.max(ENTRIES_MAX * bytes);
                self.entry_bytes = (self.entry_bytes + bytes).min(most);
            }
        }
    }
}

/// Bytes before the header block in a HEADERS frame.
fn prefix_bytes(flags: u8) -> usize {
    let padding = usize::from(flags & PADDED != 0);
    padding + if flags & PRIORITY != 0 { PRIORITY_BYTES } else { 0 }
}

impl Block {
    /// Returns true if the table is emptied.
    fn take(&mut self, byte: u8) -> bool {
        match self.part {
            Part::Field => return self.take_field(byte),
            Part::Number(after) if byte & 0x80 == 0 => self.part = after.part(),
            Part::Number(_) => {}
            Part::Length(text) => {
                let length = usize::from(byte & 0x7f);
                self.string_bytes = length;
                self.shift = 0;
                match length {
                    0x7f => self.part = Part::LengthRest(text),
                    _ => self.begin_text(text),
                }
            }
            Part::LengthRest(text) => {
                let bits = usize::from(byte & 0x7f).checked_shl(self.shift).unwrap_or(0);
                self.string_bytes = self.string_bytes.saturating_add(bits);
                self.shift += 7;
                if byte & 0x80 == 0 {
                    self.begin_text(text);
                }
            }
            Part::Text(text) => {
                // The first byte in a frame; `skip_text` passes over the others.
                self.string_bytes -= 1;
                if self.string_bytes == 0 {
                    self.part = text.next();
                }
            }
        }
        false
    }

    /// Passes over as much of a string as there is, so that not each byte is looked at. Returns how
    /// many bytes of `there`.
    fn skip_text(&mut self, there: usize) -> usize {
        let Part::Text(text) = self.part else { return 0 };
        let skipped = there.min(self.string_bytes);
        self.string_bytes -= skipped;
        self.bytes += skipped;
        if self.string_bytes == 0 {
            self.part = text.next();
        }
        skipped
    }

    /// The first byte of a field or of a change of the table's size. The latter counts only before
    /// all fields: h2 may not decode the rest of a block.
    fn take_field(&mut self, byte: u8) -> bool {
        let has_fields = self.has_fields;
        self.has_fields |= !(0x20..0x40).contains(&byte);
        // The bits of the number, and what it is the start of.
        let (mask, after) = match byte {
            0x80.. => (0x7f, After::Field),
            0x40.. => {
                self.adds_entries = true;
                (0x3f, After::Value)
            }
            0x20.. => (0x1f, After::Field),
            _ => (0x0f, After::Value),
        };
        let number = byte & mask;
        self.part = match (number, after) {
            (number, after) if number == mask => Part::Number(after),
            (0, After::Value) => Part::Length(Text::Name),
            (_, after) => after.part(),
        };
        byte == 0x20 && !has_fields
    }

    fn begin_text(&mut self, text: Text) {
        self.part = if self.string_bytes == 0 { text.next() } else { Part::Text(text) };
    }
}

impl After {
    fn part(self) -> Part {
        match self {
            After::Field => Part::Field,
            After::Value => Part::Length(Text::Value),
        }
    }
}

impl Text {
    fn next(self) -> Part {
        match self {
            Text::Name => Part::Length(Text::Value),
            Text::Value => Part::Field,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut out = length[1..].to_vec();
        out.extend([kind, flags, 0, 0, 0, 1]);
        out.extend_from_slice(payload);
        out
    }

    /// A field that is added to the table, of a name and a value of that many bytes.
    fn added(value_bytes: usize) -> Vec<u8> {
        let mut out = vec![0x40, 1, b'a'];
        if value_bytes < 0x7f {
            out.push(value_bytes as u8);
        } else {
            out.push(0x7f);
            let mut rest = value_bytes - 0x7f;
            while rest >= 0x80 {
                out.push((rest % 0x80) as u8 | 0x80);
                rest /= 0x80;
            }
            out.push(rest as u8);
        }
        out.extend(vec![b'@'; value_bytes]);
        out
    }

    /// What is pinned after these frames, however they are cut into pieces.
    fn pinned(frames: &[Vec<u8>]) -> usize {
        let frames = frames.concat();
        let of_pieces = |size: usize| {
            let mut table = HeaderTable::new();
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(size).for_each(|piece| table.follow(piece));
            // Much else was sent.
            table.follow(&frame(0, 0, &vec![0; 1 << 23]));
            frames.chunks(size).for_each(|piece| table.follow(piece));
            table.pinned_bytes()
        };
        let whole = of_pieces(usize::MAX);
        assert!([1, 2, 7, 1000].map(of_pieces).iter().all(|pinned| *pinned == whole));
        whole
    }

    #[test]
    fn blocks_that_add_entries_are_counted_and_others_are_not() {
        const ONE: usize = 2 * BUFFER_BYTES;
        let indexed =
            [0x82, 0x86, 0x84, 0x00, 1, b'b', 3, b'@', b'@', b'@', 0x0f, 0x20, 0, 0x10, 1, b'c', 0];
        let data = frame(0, 1, &added(100));
        assert_eq!(pinned(&[frame(4, 0, &[]), frame(HEADERS, END_HEADERS, &indexed), data]), 0);
        assert_eq!(pinned(&[frame(HEADERS, END_HEADERS, &added(0))]), ONE);
        let named = [0x41, 1, b'x', 0x7f, 0x05, 0];
        assert_eq!(pinned(&[frame(HEADERS, END_HEADERS, &named)]), ONE);
        let two = [indexed.to_vec(), added(200), added(3)].concat();
        assert_eq!(
            pinned(&[frame(HEADERS, END_HEADERS, &two), frame(HEADERS, END_HEADERS, &two)]),
            2 * ONE
        );
    }

    #[test]
    fn large_blocks_are_counted_as_they_come_and_with_what_they_were_decoded_into() {
        let large = added(20_000);
        let first = frame(HEADERS, 0, &large[..16_000]);
        let decoded = DECODED_RATIO * large.len();
        assert_eq!(pinned(std::slice::from_ref(&first)), DECODED_RATIO * 16_000 + 16_000);
        let rest = frame(CONTINUATION, END_HEADERS, &large[16_000..]);
        assert_eq!(pinned(&[first, rest]), decoded + BUFFER_BYTES + decoded);

        let mut other = large.clone();
        other[0] = 0;
        let blocks = [other, added(1), added(1)].map(|block| frame(HEADERS, END_HEADERS, &block));
        assert_eq!(pinned(&blocks), decoded + 2 * (BUFFER_BYTES + decoded));
    }

    #[test]
    fn padding_and_priority_are_no_part_of_a_block() {
        let padded = [&[4][..], &added(1), &[0x40; 4]].concat();
        let prior = [&[4, 0x40, 0x40, 0x40, 0x40, 0x40][..], &[0x82], &[0x40; 4]].concat();
        let unpadded = [&[0, 0, 0, 0, 0, 3][..], &added(1)].concat();
        let only_prior = [&[0x40; 5][..], &[0x82]].concat();

        assert_eq!(pinned(&[frame(HEADERS, END_HEADERS | PADDED, &padded)]), 2 * BUFFER_BYTES);
        assert_eq!(pinned(&[frame(HEADERS, END_HEADERS | PADDED | PRIORITY, &prior)]), 0);
        let flags = END_HEADERS | PADDED | PRIORITY;
        assert_eq!(pinned(&[frame(HEADERS, flags, &unpadded)]), 2 * BUFFER_BYTES);
        assert_eq!(pinned(&[frame(HEADERS, END_HEADERS | PRIORITY, &only_prior)]), 0);
    }

    #[test]
    fn a_table_that_is_emptied_keeps_nothing_alive() {
        let blocks =
            [frame(HEADERS, END_HEADERS, &added(5)), frame(HEADERS, END_HEADERS, &[0x20, 0x82])];
        assert_eq!(pinned(&blocks), 0);

        let larger = [0x3f, 0xe1, 0x1f, 0x82];
        let blocks = [frame(HEADERS, END_HEADERS, &added(5)), frame(HEADERS, END_HEADERS, &larger)];
        assert_eq!(pinned(&blocks), 2 * BUFFER_BYTES);
    }

    #[test]
    fn what_is_not_decoded_empties_no_table() {
        let add = frame(HEADERS, END_HEADERS, &added(5));
        let after_fields = frame(HEADERS, END_HEADERS, &[0x82, 0x20]);
        // Stream 1, which depends on stream 1, or on stream 3.
        let on_itself = frame(HEADERS, END_HEADERS | PRIORITY, &[0x80, 0, 0, 1, 9, 0x20]);
        let padded = frame(HEADERS, END_HEADERS | PRIORITY | PADDED, &[1, 0, 0, 0, 1, 9, 0x20, 0]);
        let on_another = frame(HEADERS, END_HEADERS | PRIORITY, &[0x80, 0, 0, 3, 9, 0x20]);

        for block in [after_fields, on_itself, padded] {
            assert_eq!(pinned(&[add.clone(), block]), 2 * BUFFER_BYTES);
        }
        assert_eq!(pinned(&[add, on_another]), 0);
    }

    #[test]
    fn a_table_has_only_so_many_entries() {
        let blocks = vec![frame(HEADERS, END_HEADERS, &added(0)); 1000];

        assert_eq!(pinned(&blocks), ENTRIES_MAX * 2 * BUFFER_BYTES);
    }

    #[test]
    fn entries_keep_no_more_alive_than_was_sent() {
        let mut table = HeaderTable::new();
        table.follow(&[0; PREFACE_BYTES]);
        table.follow(&frame(HEADERS, END_HEADERS, &added(0)));

        assert_eq!(table.pinned_bytes(), DECODED_RATIO * (PREFACE_BYTES + HEAD_BYTES + 4));
    }

    #[test]
    fn nonsense_is_followed_without_a_panic() {
        let mut table = HeaderTable::new();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let kind = [HEADERS, CONTINUATION, 0, 4][random.usize(..4)];
            let payload: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            table.follow(&frame(kind, random.u8(..), &payload));
        }
        table.follow(&(0..100_000).map(|_| random.u8(..)).collect::<Vec<_>>());

        assert!(table.pinned_bytes() < (ENTRIES_MAX * 8) << 24);
    }
}
