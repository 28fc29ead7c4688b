//! Gaps: frames that `repair` puts over damage, so that the log goes on behind it.
//!
//! ```text
//!  … frame 7 │ damaged 8 │ frame 9 │ …        … frame 7 │ gap: 8 │ frame 9 │ …
//! ```
//! A gap fills the place of what is damaged, and takes its chain from the frame behind it, or from the
//! next segment's header. If only bytes within records are wrong, the frame's own bounds are still
//! good: then the gap keeps its bytes, and the records that are whole in it.

use std::fmt;
use std::io;

use super::scan::{count_whole, end_of, fit, search};
use super::segment::SegmentHeader;
use crate::frame::{Chain, FRAME_HEADER_BYTES, Frame, FrameHeader, FrameKind, Prior, Verdict};
use crate::fs::File;
use crate::position::{Position, SegmentId};

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

/// The first gap that a segment needs, so that its chain goes on to the next segment's header, or in
/// the last segment to the last frame that proves damage before it. None if it needs none, or if none
/// helps.
pub(super) fn plan(
    file: &dyn File,
    header: &SegmentHeader,
    next_start: Option<Chain>,
) -> io::Result<Option<Planned>> {
    let stop = end_of(file, header)?;
    if Some(stop.chain) == next_start {
        return Ok(None);
    }
    let size = u32::try_from(file.size()?).unwrap_or(u32::MAX);
    let traces = search(file, header.segment, header.salt, stop.offset, &stop.chain)?;
    let is_damage = next_start.is_some() || traces.outlived_by.is_some();
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
    let found = match damaged_frame(file, place, &stop.chain, &beyond)? {
        Some(found) => found,
        None if beyond.is_open => (beyond.chain, FRAME_HEADER_BYTES as u32, None),
        None => (beyond.chain, room, None),
    };
    seal(file, place, header.salt, &stop.chain, found).map(Some)
}

impl Planned {
    /// Writes and syncs the gap's header; what is behind it stays.
    pub(super) fn write(&self, file: &dyn File) -> io::Result<()> {
        file.write_at(&[&self.head], u64::from(self.gap.offset))?;
        file.sync_data()
    }
}

/// Chain, length and number of records of a gap; no number if the records cannot be told apart.
type Found = (Chain, u32, Option<u32>);

/// The frame that stands at this place, if all that its header says fits.
fn damaged_frame(
    file: &dyn File,
    place: Position,
    chain: &Chain,
    beyond: &Beyond,
) -> io::Result<Option<Found>> {
    let head = read(file, place.offset(), FRAME_HEADER_BYTES as u32)?;
    let Some((frame, crc)) = FrameHeader::decode(&head, place) else { return Ok(None) };
    let Verdict::Valid(claimed) = chain.judge(&frame, crc) else { return Ok(None) };
    let is_last = claimed.counter == beyond.chain.counter;
    // What is left behind it must be as long as the frames that it is for, or longer.
    let end = u64::from(place.offset()) + u64::from(frame.length);
    let left = u64::from(beyond.offset).checked_sub(end);
    let fits = match left {
        Some(left) if is_last => left == 0 || beyond.is_open,
        Some(left) => claimed.counter < beyond.chain.counter && left >= FRAME_HEADER_BYTES as u64,
        None => false,
    };
    if frame.kind != FrameKind::Data || !fits {
        return Ok(None);
    }
    let body = read(file, place.offset(), frame.length)?.split_off(FRAME_HEADER_BYTES);
    let resumes = if is_last { beyond.chain } else { claimed };
    Ok(fit(&body, frame.records).then_some((resumes, frame.length, Some(frame.records))))
}

fn seal(
    file: &dyn File,
    place: Position,
    salt: u64,
    chain: &Chain,
    (resumes, length, records): Found,
) -> io::Result<Planned> {
    let body = read(file, place.offset(), length)?.split_off(FRAME_HEADER_BYTES);
    let kept_records = count_whole(&body, records.unwrap_or(0));
    let header = FrameHeader {
        kind: FrameKind::Gap,
        prior: Prior::Durable,
        length,
        place,
        epoch: resumes.epoch,
        counter: resumes.counter,
        previous: resumes.previous,
        records: records.unwrap_or(0),
    };
    let gap = Gap {
        segment: place.segment(),
        offset: place.offset(),
        bytes: length,
        frames: resumes.counter.saturating_sub(chain.counter),
        kept_records,
        lost_records: records.map(|records| records - kept_records),
    };
    Ok(Planned { gap, head: Frame::seal(header, body.into(), salt).head })
}

/// Bytes of the file; those behind its end are zeros.
fn read(file: &dyn File, offset: u32, length: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, u64::from(offset))?;
    Ok(bytes)
}
