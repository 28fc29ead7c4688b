//! Gaps: frames that `repair` puts over damage, so that the log goes on behind it.
//!
//! ```text
//!  … frame 7 │ damaged 8 │ frame 9 │ …        … frame 7 │ gap: 8 │ frame 9 │ …
//! ```
//! A gap fills the place of what is damaged, and takes its chain from the frame behind it, or from
//! the next segment's header. If only bytes within records are wrong, the frame's own bounds are
//! still good: then the gap keeps its bytes, and the records that are whole in it. If lengths of
//! records are wrong as well, those in front of the first such one.

use std::fmt;
use std::io;

use super::scan::{count_whole, end_of, search, whole_in_front};
use super::segment::SegmentHeader;
use crate::frame::{Chain, FRAME_HEADER_BYTES, Frame, FrameHeader, FrameKind, Prior};
use crate::fs::File;
use crate::position::{Position, SegmentId};
use crate::received::fit;
use crate::record::RECORD_HEADER_BYTES;

/// What a repair put in the place of damaged frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub segment: SegmentId,
    pub offset: u32,
    /// Of the gap. Where it leads to the next segment, what is behind it is lost, too.
    pub bytes: u32,
    /// Frames that stood there, by their counters.
    pub frames: u64,
    /// Records of these that are whole.
    pub kept_records: u32,
    /// Damaged ones; None if the damage hides how many there were.
    pub lost_records: Option<u32>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, offset, frames, kept_records, .. } = self;
        write!(f, "segment {segment} offset {offset}: ")?;
        match self.lost_records {
            Some(lost) => write!(f, "{lost} of {} records lost", lost + kept_records),
            None => write!(f, "{frames} frames lost"),
        }
    }
}

/// A gap that is to be written.
pub(super) struct Planned {
    pub(super) gap: Gap,
    head: [u8; FRAME_HEADER_BYTES],
}

/// Where the log goes on behind damage.
struct Beyond {
    /// The first byte that is not the damage's, or the segment's end.
    offset: u32,
    chain: Chain,
    /// No frame stands there: what was lost may have ended before.
    is_open: bool,
}

/// The first gap that a segment needs, so that its chain goes on to the next segment's header, or
/// where that is not known to the last frame that proves damage before it: any, if the segment is
/// known to be sealed. None if it needs none, or if none helps.
pub(super) fn plan(
    file: &dyn File,
    header: &SegmentHeader,
    next_start: Option<Chain>,
    is_sealed: bool,
) -> io::Result<Option<Planned>> {
    let stop = end_of(file, header)?;
    if Some(stop.chain) == next_start {
        return Ok(None);
    }
    let size = u32::try_from(file.size()?).unwrap_or(u32::MAX);
    let traces = search(file, header.segment, header.salt, stop.offset, &stop.chain)?;
    let is_damage = is_sealed || next_start.is_some() || traces.outlived_by.is_some();
    let beyond = match (traces.next.filter(|_| is_damage), next_start) {
        (Some((offset, frame)), _) => {
            Beyond { offset, chain: Chain::before(&frame), is_open: false }
        }
        (None, Some(chain)) => Beyond { offset: size, chain, is_open: true },
        (None, None) => return Ok(None),
    };
    let room = beyond.offset.saturating_sub(stop.offset);
    let leads_on =
        beyond.chain.counter > stop.chain.counter && beyond.chain.epoch >= stop.chain.epoch;
    if (room as usize) < FRAME_HEADER_BYTES || !leads_on {
        return Ok(None);
    }
    let place = Position::new(header.segment, stop.offset);
    let span = match damaged_frame(file, place, &stop.chain, &beyond)? {
        Some(span) => span,
        None => {
            let length = if beyond.is_open { FRAME_HEADER_BYTES as u32 } else { room };
            Span { resumes: beyond.chain, length, records: 0, lost_behind: None }
        }
    };
    seal(file, place, header.salt, &stop.chain, &span).map(Some)
}

impl Planned {
    /// Writes and syncs the gap's header; what is behind it stays.
    pub(super) fn write(&self, file: &dyn File) -> io::Result<()> {
        file.write_at(&[&self.head], u64::from(self.gap.offset))?;
        file.sync_data()
    }
}

/// What a gap is to stand over.
struct Span {
    /// The chain behind it.
    resumes: Chain,
    length: u32,
    /// Records that can be told apart, whole or not.
    records: u32,
    /// How many more there were; None if the damage hides that.
    lost_behind: Option<u32>,
}

/// The frame that stands at this place, if all that its header says fits.
fn damaged_frame(
    file: &dyn File,
    place: Position,
    chain: &Chain,
    beyond: &Beyond,
) -> io::Result<Option<Span>> {
    let head = read(file, place.offset(), FRAME_HEADER_BYTES as u32)?;
    let Some((frame, crc)) = FrameHeader::decode(&head, place) else { return Ok(None) };
    // What it says of the frame before is not asked: that is known, and an interrupted repair may
    // have written over it.
    let (follows, previous) = match frame.kind {
        FrameKind::Open => (false, crc),
        FrameKind::Data => {
            let is_next = frame.counter == chain.counter.wrapping_add(1);
            (frame.epoch == chain.epoch && is_next, crc)
        }
        FrameKind::Gap => {
            let is_later = frame.epoch >= chain.epoch && frame.counter > chain.counter;
            (is_later, frame.previous)
        }
    };
    let claimed = Chain { epoch: frame.epoch, counter: frame.counter, previous };
    let is_last = claimed.counter == beyond.chain.counter;
    // What is left behind it must be as long as the frames that it is for, or longer.
    let end = u64::from(place.offset()) + u64::from(frame.length);
    let left = u64::from(beyond.offset).checked_sub(end);
    let is_before = claimed.epoch <= beyond.chain.epoch && claimed.counter < beyond.chain.counter;
    let fits = match left {
        Some(left) if is_last => left == 0 || beyond.is_open,
        Some(left) => is_before && left >= FRAME_HEADER_BYTES as u64,
        None => false,
    };
    if !follows || !fits {
        return Ok(None);
    }
    let body = read(file, place.offset(), frame.length)?.split_off(FRAME_HEADER_BYTES);
    let resumes = if is_last { beyond.chain } else { claimed };
    let (all, length) = (frame.records, frame.length);
    if fit(&body, all) {
        return Ok(Some(Span { resumes, length, records: all, lost_behind: Some(0) }));
    }
    // Behind a record whose own length is wrong none can be told apart.
    let records = whole_in_front(&body).min(all);
    let is_likely = all as usize <= body.len() / RECORD_HEADER_BYTES;
    let lost_behind = is_likely.then_some(all - records);
    Ok((records > 0).then_some(Span { resumes, length, records, lost_behind }))
}

fn seal(
    file: &dyn File,
    place: Position,
    salt: u64,
    chain: &Chain,
    &Span { resumes, length, records, lost_behind }: &Span,
) -> io::Result<Planned> {
    let body = read(file, place.offset(), length)?.split_off(FRAME_HEADER_BYTES);
    let kept_records = count_whole(&body, records);
    let header = FrameHeader {
        kind: FrameKind::Gap,
        prior: Prior::Durable,
        length,
        place,
        epoch: resumes.epoch,
        counter: resumes.counter,
        previous: resumes.previous,
        records,
    };
    let gap = Gap {
        segment: place.segment(),
        offset: place.offset(),
        bytes: length,
        frames: resumes.counter.saturating_sub(chain.counter),
        kept_records,
        lost_records: lost_behind.map(|behind| records - kept_records + behind),
    };
    Ok(Planned { gap, head: Frame::seal(header, body.into(), salt).head })
}

/// Bytes of the file; those behind its end are zeros.
fn read(file: &dyn File, offset: u32, length: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, u64::from(offset))?;
    Ok(bytes)
}
