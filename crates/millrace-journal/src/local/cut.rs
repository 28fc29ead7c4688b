//! Cuts the log at damage that no [gap](super::gap) helps against.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::backup::Backups;
use super::scan::{end_of, search};
use super::segment::{FileKind, SegmentHeader, index_path, segment_path};
use super::survey::Survey;
use crate::error::Corruption;
use crate::frame::{Chain, Frame, FrameKind, Prior, SEGMENT_HEADER_BYTES};
use crate::fs::{File, FileSystem};
use crate::position::{Epoch, Position, SegmentId};

/// Where the log was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub at: Corruption,
    /// Frames that were still readable behind the damage and are lost to the journal. The damaged
    /// one comes on top. None if no header is left to tell the salt, without which none can be
    /// told.
    pub lost_frames: Option<u64>,
    /// Segments that were taken away whole.
    pub removed: Vec<SegmentId>,
}

/// Returns the latest epoch that was cut, too.
pub(super) fn cut_at(
    fs: &dyn FileSystem,
    dir: &Path,
    survey: &Survey,
    at: Corruption,
    backups: &mut Backups<'_>,
) -> io::Result<(Cut, Epoch)> {
    let damaged = at.segment;
    let keeps_beginning = at.offset >= SEGMENT_HEADER_BYTES as u32;
    let mut cut = Cut { at, lost_frames: None, removed: Vec::new() };
    let headers = survey.segments.iter().map(|found| found.header);
    let mut latest = headers.map(|header| header.start.epoch).max().unwrap_or_default();

    let mut later = segments_from(fs, dir, damaged)?;
    // Also of those without a header.
    if let Some(salt) = survey.salt {
        let mut lost_frames = 0;
        for id in &later {
            let file = fs.open(&segment_path(dir, *id))?;
            let from = if *id == damaged { cut.at.offset } else { 0 };
            let from = from.max(SEGMENT_HEADER_BYTES as u32);
            let traces = search(&*file, *id, salt, from, &Chain::default())?;
            lost_frames += traces.frames;
            latest = latest.max(traces.epoch);
        }
        cut.lost_frames = Some(lost_frames);
    }
    if keeps_beginning {
        later.retain(|id| *id != damaged);
    }
    let end = if keeps_beginning { damaged.next() } else { damaged };
    if let Some(kept) = survey.last_before(end) {
        // Before anything is changed: there may be no room for it.
        backups.copy(kept.header.segment, &*kept.file)?;
        fs.remove_present(&index_path(dir, kept.header.segment))?;
        // Whoever starts from here can be in none of the epochs that were cut, and what is left
        // behind the end is of earlier ones.
        let stop = end_of(&*kept.file, &kept.header)?;
        write_epoch(&*kept.file, &kept.header, (stop.offset, &stop.chain), latest)?;
    }
    // From the youngest on: until the last of them is gone, the one before has another end than
    // they say, so that an interrupted repair leaves damage that is found again.
    for id in later.into_iter().rev() {
        fs.remove_present(&index_path(dir, id))?;
        backups.set_aside(id)?;
        cut.removed.push(id);
    }
    Ok((cut, latest))
}

/// Writes and syncs a frame that opens an epoch later than `latest` at the end of a segment's
/// chain, if there is room for it.
pub(super) fn write_epoch(
    file: &dyn File,
    header: &SegmentHeader,
    (offset, chain): (u32, &Chain),
    latest: Epoch,
) -> io::Result<()> {
    let place = Position::new(header.segment, offset);
    let mut opening = chain.next(FrameKind::Open, place, Prior::Durable);
    opening.epoch = opening.epoch.max(Epoch(latest.0.saturating_add(1)));
    let frame = Frame::seal(opening, Bytes::new(), header.salt);
    if frame.end().offset() <= header.segment_bytes {
        file.write_at(&[&frame.head], u64::from(offset))?;
        file.sync_data()?;
    }
    Ok(())
}

/// All segment files from this one on, headers or not, ascending.
pub(super) fn segments_from(
    fs: &dyn FileSystem,
    dir: &Path,
    from: SegmentId,
) -> io::Result<Vec<SegmentId>> {
    let mut ids: Vec<SegmentId> = fs
        .list(dir)?
        .iter()
        .filter_map(|name| match FileKind::of(name) {
            FileKind::Segment(id) if id >= from => Some(id),
            _ => None,
        })
        .collect();
    ids.sort_unstable();
    Ok(ids)
}
