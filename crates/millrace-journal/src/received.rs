//! Frames as they come from a log that is kept elsewhere, and the records in them.

use std::ops::ControlFlow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::frame::{FRAME_ALIGN, FRAME_HEADER_BYTES, Frame, FrameHeader, FrameKind, is_intact};
use crate::journal::Visitor;
use crate::position::Position;
use crate::record::{Replayed, records};

/// Where a frame has its own place.
const PLACE: std::ops::Range<usize> = 16..24;

impl Frame {
    /// The frame that these bytes are, whole and with nothing behind it, at the place that it names
    /// itself. None if they are anything else, or of a log with another salt.
    #[must_use]
    pub fn from_bytes(bytes: &Bytes, salt: u64) -> Option<Self> {
        let place = Position(u64::from_le_bytes(bytes.get(PLACE)?.try_into().ok()?));
        let (header, crc) = FrameHeader::decode(bytes, place)?;
        let is_whole = header.length as usize == bytes.len() && is_intact(bytes, salt);
        let head = *bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
        let body = bytes.slice(FRAME_HEADER_BYTES..);
        let is_filled = header.kind == FrameKind::Gap || fit(&body, header.records);
        (is_whole && is_filled).then_some(Self { header, crc, head, body })
    }

    /// The whole frame in one piece.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(FRAME_HEADER_BYTES + self.body.len());
        bytes.put_slice(&self.head);
        bytes.put_slice(&self.body);
        bytes.freeze()
    }

    /// Shows the records of the frame as replay does, until the visitor breaks off.
    pub fn show(&self, visitor: &mut Visitor<'_>) -> ControlFlow<()> {
        show_records(&self.body, &self.header, visitor)
    }
}

/// Returns true if the records fill a frame's body, by their number and lengths.
pub(crate) fn fit(body: &[u8], count: u32) -> bool {
    let (mut found, mut end) = (0, 0);
    for (start, record) in records(body).take(count as usize) {
        (found, end) = (found + 1, start + record.record_len());
    }
    found == count && body.len() - end < FRAME_ALIGN
}

pub(crate) fn show_records(
    body: &[u8],
    frame: &FrameHeader,
    visitor: &mut Visitor<'_>,
) -> ControlFlow<()> {
    if frame.kind == FrameKind::Open {
        // Its record is the journal's own.
        return ControlFlow::Continue(());
    }
    let start = frame.place.plus(FRAME_HEADER_BYTES as u32);
    // Only a gap may have records that cannot be told apart. The log goes on behind it.
    for (offset, record) in records(body).take(frame.records as usize) {
        // Other frames' checksums cover their records.
        if frame.kind != FrameKind::Gap || record.is_intact() {
            visitor(Replayed {
                position: start.plus(offset as u32),
                index: record.index,
                payload_len: record.payload.len() as u32,
                record_len: record.record_len() as u32,
            })?;
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Chain, Prior};
    use crate::owner::Owner;
    use crate::position::SegmentId;

    fn frame() -> Frame {
        let place = Position::new(SegmentId(3), 64);
        let header = Chain::default().next(FrameKind::Open, place, Prior::Durable);
        Frame::open(header, &Owner::unnamed(7), 5)
    }

    #[test]
    fn a_frame_is_the_same_after_it_was_bytes() {
        let frame = frame();

        let read = Frame::from_bytes(&frame.to_bytes(), 5).unwrap();

        assert_eq!((read.header, read.crc, read.head), (frame.header, frame.crc, frame.head));
        assert_eq!(read.body, frame.body);
    }

    #[test]
    fn other_bytes_are_no_frame() {
        let bytes = frame().to_bytes();

        assert!(Frame::from_bytes(&bytes, 6).is_none(), "of another log");
        for end in 0..bytes.len() {
            assert!(Frame::from_bytes(&bytes.slice(..end), 5).is_none(), "cut at {end}");
        }
        let longer = Bytes::from([&bytes[..], &[0; 8]].concat());
        assert!(Frame::from_bytes(&longer, 5).is_none());
        for at in 0..bytes.len() {
            let mut damaged = BytesMut::from(&bytes[..]);
            damaged[at] ^= 1;
            assert!(Frame::from_bytes(&damaged.freeze(), 5).is_none(), "byte {at}");
        }
    }
}
