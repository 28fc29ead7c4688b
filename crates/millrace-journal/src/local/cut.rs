//! Cuts the log at damage that no [gap](super::gap) helps against.

use std::io;
use std::path::Path;

use super::backup::Backups;
use super::scan::search;
use super::segment::{FileKind, SEGMENT_HEADER_BYTES, index_path, segment_path};
use super::survey::{Corruption, Survey};
use super::zero::write_zeros;
use crate::frame::Chain;
use crate::fs::FileSystem;
use crate::position::{Epoch, SegmentId};

/// Where the log was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub at: Corruption,
    /// Frames that were still readable behind the damage and are lost to the journal. The damaged
    /// one comes on top.
    pub lost_frames: u64,
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
    let mut cut = Cut { at, lost_frames: 0, removed: Vec::new() };
    let headers = survey.segments.iter().map(|found| found.header);
    let mut latest = headers.clone().map(|header| header.start.epoch).max().unwrap_or_default();

    // From the youngest on, so that an interrupted repair leaves damage that is found again.
    let mut later = segments_from(fs, dir, damaged)?;
    // One salt for all of them, also for those without a header.
    if let Some(salt) = headers.map(|header| header.salt).next() {
        for id in &later {
            let file = fs.open(&segment_path(dir, *id))?;
            let from = if *id == damaged { cut.at.offset } else { 0 };
            let from = from.max(SEGMENT_HEADER_BYTES as u32);
            let traces = search(&*file, *id, salt, from, &Chain::default())?;
            cut.lost_frames += traces.frames;
            latest = latest.max(traces.epoch);
        }
    }
    if keeps_beginning {
        later.retain(|id| *id != damaged);
    }
    for id in later.into_iter().rev() {
        remove_index(fs, dir, id)?;
        backups.set_aside(id)?;
        cut.removed.push(id);
    }
    if keeps_beginning {
        let file = fs.open(&segment_path(dir, damaged))?;
        remove_index(fs, dir, damaged)?;
        backups.copy(damaged, &*file)?;
        write_zeros(&*file, cut.at.offset, u32::try_from(file.size()?).unwrap_or(u32::MAX))?;
    }
    Ok((cut, latest))
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

fn remove_index(fs: &dyn FileSystem, dir: &Path, id: SegmentId) -> io::Result<()> {
    match fs.remove(&index_path(dir, id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
