//! Reading frames off a segment file, trusting nothing.
//!
//! Two readers. [`scan`] follows the chain from the segment's header and stops where it ends.
//! [`search`] then looks behind that place for frames that outlived it, which is what tells a
//! crash from damage:
//!
//! With durability `Fsync` a frame is written only after the one before it was synced, and says so
//! (`Prior::Durable`). So after a crash at most the very last frame can be incomplete, and nothing
//! stands behind it. If the chain stops at some place and an intact frame of this log, with a
//! later counter and that flag, stands behind, then what was at the place had been durable and is
//! damaged now. If nothing stands behind, it was the last frame: torn, and never acknowledged (or
//! damaged after all: the two cannot be told apart for the last frame). Frames of durability `Os`
//! do not carry the flag and prove nothing: power loss may take any of them.
//!
//! What stands behind cannot be forged or left over: see `frame`, salt and place.

use std::io;
use std::ops::ControlFlow;

use super::segment::SegmentHeader;
use crate::frame::{
    Chain, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameHeader, FrameKind, SEGMENT_HEADER_BYTES, Verdict,
    is_intact,
};
use crate::fs::{BLOCK_BYTES, File};
use crate::journal::Visitor;
use crate::owner::Owner;
use crate::position::{Epoch, Position, SegmentId};
use crate::received::{fit, show_records};
use crate::record::records;

const WINDOW_BYTES: usize = 1 << 20;
static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Where the chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) offset: u32,
    pub(super) chain: Chain,
    pub(super) frames: u64,
    pub(super) records: u64,
}

/// What stands behind a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traces {
    /// The first frame that outlived the place.
    pub(super) outlived_by: Option<u32>,
    /// The first frame that may follow what stood there, whether or not it proves anything.
    pub(super) next: Option<(u32, FrameHeader)>,
    /// Intact frames of this log, of whatever durability.
    pub(super) frames: u64,
    /// The end of the last of them; 0 if there are none.
    pub(super) frames_end: u32,
    /// The latest of their epochs.
    pub(super) epoch: Epoch,
}

/// A file seen through a buffer that moves forward.
struct Window<'a> {
    file: &'a dyn File,
    limit: u64,
    buffer: Vec<u8>,
    start: u64,
}

/// Follows the chain through a segment, up to `limit` bytes, and shows each record. All records
/// of a frame are known to be whole before the first is shown.
pub(super) fn scan(
    file: &dyn File,
    header: &SegmentHeader,
    limit: u64,
    visitor: &mut Visitor<'_>,
) -> io::Result<Stop> {
    let mut window = Window::new(file, limit)?;
    let offset = SEGMENT_HEADER_BYTES as u32;
    let mut stop = Stop { offset, chain: header.start, frames: 0, records: 0 };
    while let Some((frame, bytes, chain)) = next_frame(&mut window, header, &stop)? {
        let body = bytes.get(FRAME_HEADER_BYTES..).unwrap_or_default();
        if frame.kind != FrameKind::Gap && !fit(body, frame.records) {
            break;
        }
        let whole = match frame.kind {
            FrameKind::Open => 0,
            FrameKind::Data => frame.records,
            FrameKind::Gap => count_whole(body, frame.records),
        };
        stop = Stop {
            offset: stop.offset + frame.length,
            chain,
            frames: stop.frames + 1,
            records: stop.records + u64::from(whole),
        };
        if show_records(body, &frame, visitor).is_break() {
            break;
        }
    }
    Ok(stop)
}

/// The owner that the last OPEN frame of a segment names.
pub(super) fn owner_in(file: &dyn File, header: &SegmentHeader) -> io::Result<Option<Owner>> {
    let mut window = Window::new(file, u64::MAX)?;
    let offset = SEGMENT_HEADER_BYTES as u32;
    let mut stop = Stop { offset, chain: header.start, frames: 0, records: 0 };
    let mut owner = None;
    while let Some((frame, bytes, chain)) = next_frame(&mut window, header, &stop)? {
        if frame.kind == FrameKind::Open {
            owner = bytes.get(FRAME_HEADER_BYTES..).and_then(Owner::decode);
        }
        stop = Stop { offset: stop.offset + frame.length, chain, ..stop };
    }
    Ok(owner)
}

/// Where a segment's chain ends.
pub(super) fn end_of(file: &dyn File, header: &SegmentHeader) -> io::Result<Stop> {
    scan(file, header, u64::MAX, &mut |_| ControlFlow::Continue(()))
}

/// Looks for intact frames of this log at and behind `from`.
pub(super) fn search(
    file: &dyn File,
    segment: SegmentId,
    salt: u64,
    from: u32,
    chain: &Chain,
) -> io::Result<Traces> {
    let mut window = Window::new(file, u64::MAX)?;
    let mut traces = Traces::default();
    let mut offset = u64::from(from);
    loop {
        offset = window.skip_hole(offset)?;
        let length = window.limit.saturating_sub(offset).min(BLOCK_BYTES as u64) as usize;
        if length == 0 {
            break;
        }
        let Some(block) = window.get(offset, length)? else { break };
        if ZEROS.get(..length) == Some(block) {
            offset += length as u64;
            continue;
        }
        search_block(&mut window, segment, salt, (offset, length), chain, &mut traces)?;
        offset += length as u64;
    }
    Ok(traces)
}

/// Bytes of the frame that was begun at this place; 0 if none was. Every append leaves a header's
/// length of zeros behind it, so anything else is a frame that was not finished.
pub(super) fn begun_at(file: &dyn File, place: Position) -> io::Result<u32> {
    let mut bytes = [0; FRAME_HEADER_BYTES];
    let read = file.read_at(&mut bytes, u64::from(place.offset()))?;
    let bytes = bytes.get(..read).unwrap_or_default();
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(0);
    }
    let frame = FrameHeader::decode(bytes, place);
    Ok(frame.map_or(read as u32, |(frame, _)| frame.length))
}

/// Whether the file has nothing but zeros in it.
pub(super) fn is_blank(file: &dyn File) -> io::Result<bool> {
    let mut window = Window::new(file, u64::MAX)?;
    let mut offset = 0;
    loop {
        offset = window.skip_hole(offset)?;
        let length = window.limit.saturating_sub(offset).min(BLOCK_BYTES as u64) as usize;
        if length == 0 {
            return Ok(true);
        }
        if window.get(offset, length)? != ZEROS.get(..length) {
            return Ok(false);
        }
        offset += length as u64;
    }
}

fn next_frame<'w>(
    window: &'w mut Window<'_>,
    header: &SegmentHeader,
    stop: &Stop,
) -> io::Result<Option<(FrameHeader, &'w [u8], Chain)>> {
    let place = Position::new(header.segment, stop.offset);
    let Some(bytes) = window.get(u64::from(stop.offset), FRAME_HEADER_BYTES)? else {
        return Ok(None);
    };
    let Some((frame, crc)) = FrameHeader::decode(bytes, place) else { return Ok(None) };
    let Some(bytes) = window.get(u64::from(stop.offset), frame.length as usize)? else {
        return Ok(None);
    };
    if !is_intact(bytes, header.salt) {
        return Ok(None);
    }
    match stop.chain.judge(&frame, crc) {
        Verdict::Valid(chain) => Ok(Some((frame, bytes, chain))),
        // In a local log nothing valid ever follows a void frame: one owner writes at a time.
        Verdict::Void | Verdict::Broken => Ok(None),
    }
}

fn search_block(
    window: &mut Window<'_>,
    segment: SegmentId,
    salt: u64,
    (start, length): (u64, usize),
    chain: &Chain,
    traces: &mut Traces,
) -> io::Result<()> {
    for offset in (start..start + length as u64).step_by(FRAME_ALIGN) {
        let place = Position::new(segment, offset as u32);
        let Some(bytes) = window.get(offset, FRAME_HEADER_BYTES)? else { return Ok(()) };
        let Some((frame, _)) = FrameHeader::decode(bytes, place) else { continue };
        let Some(bytes) = window.get(offset, frame.length as usize)? else { continue };
        if !is_intact(bytes, salt) {
            continue;
        }
        traces.frames += 1;
        traces.frames_end = traces.frames_end.max(offset as u32 + frame.length);
        traces.epoch = traces.epoch.max(frame.epoch);
        if traces.next.is_none() && frame.epoch >= chain.epoch && frame.counter > chain.counter {
            traces.next = Some((offset as u32, frame));
        }
        if traces.outlived_by.is_none() && chain.is_outlived_by(&frame) {
            traces.outlived_by = Some(offset as u32);
        }
    }
    Ok(())
}

/// How many of the records in such a body have the right checksum.
pub(super) fn count_whole(body: &[u8], count: u32) -> u32 {
    let counted = records(body).take(count as usize);
    counted.filter(|(_, record)| record.is_intact()).count() as u32
}

/// Records that are whole one behind the other, from the front.
pub(super) fn whole_in_front(body: &[u8]) -> u32 {
    records(body).take_while(|(_, record)| record.is_intact()).count() as u32
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn File, limit: u64) -> io::Result<Self> {
        let limit = file.size()?.min(limit).min(u64::from(u32::MAX));
        Ok(Self { file, limit, buffer: Vec::new(), start: 0 })
    }

    /// The block of the next place that may hold anything but zeros, if `offset` was not read yet.
    /// What is only set aside need not be read.
    fn skip_hole(&self, offset: u64) -> io::Result<u64> {
        if self.start <= offset && offset < self.start + self.buffer.len() as u64 {
            return Ok(offset);
        }
        let next = self.file.next_data(offset)?;
        Ok((next - next % BLOCK_BYTES as u64).max(offset))
    }

    /// The bytes at this place, or None if the file ends before they do.
    fn get(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        if offset.saturating_add(length as u64) > self.limit {
            return Ok(None);
        }
        let is_inside =
            offset >= self.start && offset + length as u64 <= self.start + self.buffer.len() as u64;
        if !is_inside {
            let wanted = (self.limit - offset).min(length.max(WINDOW_BYTES) as u64) as usize;
            self.buffer.resize(wanted, 0);
            let read = self.file.read_at(&mut self.buffer, offset)?;
            self.buffer.truncate(read);
            self.start = offset;
        }
        let start = (offset - self.start) as usize;
        Ok(self.buffer.get(start..start + length))
    }
}
